"""What threads need of the rooms below: decisions at one go, tools that say how a person is asked, blocking reads."""

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from assentry import Agent, Approve, InvalidDecision, InvalidDefinition, NotPending, Reject, Runner, function_tool
from assentry.core.run import Run, questions
from assentry.runtime import sync
from assentry.runtime.sync import iterate
from assentry.store import MemoryStore
from assentry.testing import FakeClock, ScriptedModel, call
from assentry.threads import AIMessage
from assentry.threads.model import _rebuilt


@function_tool(needs_approval=True)
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


async def waiting(store: MemoryStore, tool: Any = pay) -> tuple[Agent[Any], str]:
    """A run in which two calls wait."""
    agent = Agent("clerk", tools=[tool], model=ScriptedModel([[call("pay", {"euros": n}) for n in (1, 2)], "ok"]))
    return agent, (await Runner.run(agent, "pay", store=store)).run_id


def every(run: Run, *decisions: Any) -> list[Any]:
    asked = [state.question for _, state in questions(run)]
    return [(each.id, decision, each.digest) for each, decision in zip(asked, decisions, strict=False) if each]


async def test_decisions_of_one_run_are_recorded_together_with_what_is_said() -> None:
    from msgspec import Raw

    store = MemoryStore()
    agent, run = await waiting(store)
    stored = await store.decide_all(run, lambda run: every(run, Approve(), Reject("no")), by="ann", say=Raw(b'"hi"'))
    assert [type(fact).__name__ for fact in stored.facts[-3:]] == ["Approved", "Refused", "Said"]
    assert stored.facts == (await store.read(run)).facts
    result = await Runner.run(agent, stored, store=store)
    assert [item.output for item in result.new_items if item.type == "tool_call_output_item"] == ["paid 1", "no"]


async def test_decisions_that_do_not_all_fit_are_not_recorded() -> None:
    store = MemoryStore()
    _, run = await waiting(store)
    before = (await store.read(run)).facts
    for bad in (Approve(note=3), "yes"):  # type: ignore[arg-type]
        with pytest.raises(InvalidDecision):
            await store.decide_all(run, lambda run, bad=bad: every(run, Approve(), bad), by="ann")  # type: ignore[misc]
    assert (await store.read(run)).facts == before


async def test_who_chooses_looks_again_when_others_were_first() -> None:
    store = MemoryStore()
    _, run = await waiting(store)
    known = await store.read(run)
    [first, second] = (await store.questions(run=run)).items
    await store.decide(first.id, Approve(), by="bob", digest=first.digest)
    seen: list[int] = []

    def choose(run: Run) -> list[Any]:
        seen.append(len(list(questions(run))))
        return every(run, *[Reject()] * seen[-1])

    await store.decide_all(run, choose, by="ann", known=known)
    assert seen == [2, 1]
    settled = {each.id: (each.by, each.verdict) for each in (await store.questions(run=run, settled=True)).items}
    assert settled == {first.id: ("bob", "approve"), second.id: ("ann", "reject")}


async def test_decisions_that_come_too_late_are_not_recorded() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    _, run = await waiting(store, replace(pay, deadline=10))
    clock.advance(11)
    with pytest.raises(NotPending, match="deadline has passed"):
        await store.decide_all(run, lambda run: every(run, Approve(), Approve()), by="ann")
    assert {each.by for each in (await store.questions(run=run, settled=True)).items} == {"deadline"}


async def test_a_tool_says_which_decisions_fit_and_how_a_call_is_worded() -> None:
    async def describe(ctx: Any, args: dict[str, Any], call_id: str) -> str:
        args["euros"] = 0  # its own copy
        return f"{call_id}: pay?"

    store = MemoryStore()
    _, run = await waiting(store, replace(pay, allowed=("approve",), describe=describe))
    [first, _] = sorted((await store.questions(run=run)).items, key=lambda each: each.call)
    assert (first.prompt, first.allowed, first.arguments) == ("call_1_0: pay?", ("approve",), '{"euros":1}')
    with pytest.raises(InvalidDecision, match="can be answered by: approve"):
        await store.decide(first.id, Reject(), by="ann", digest=first.digest)


def test_how_a_person_is_asked_is_part_of_what_a_tool_is() -> None:
    def words(ctx: Any, args: Any, call_id: str) -> str:
        return ""

    marks = {
        tool.fingerprint
        for tool in (
            pay,
            replace(pay, allowed=("approve",)),
            replace(pay, allowed=("approve", "reject")),
            replace(pay, describe=words),
            replace(pay, describe=words, allowed=("approve",)),
        )
    }
    assert len(marks) == 5
    assert replace(pay).fingerprint == pay.fingerprint
    with pytest.raises(InvalidDefinition):
        replace(pay, describe="words")  # type: ignore[arg-type]


# -- blocking iteration ------------------------------------------------------------------------------


async def numbers(ended: list[str]) -> AsyncGenerator[int, None]:
    try:
        for number in range(3):
            await asyncio.sleep(0)
            yield number
    finally:
        ended.append(threading.current_thread().name)


def test_an_async_generator_is_read_to_its_end() -> None:
    ended: list[str] = []
    assert list(iterate(numbers(ended))) == [0, 1, 2]
    assert ended == ["assentry-stream"]


async def test_it_is_read_inside_a_running_loop_too() -> None:
    assert list(iterate(numbers([]))) == [0, 1, 2]


def test_whoever_stops_reading_ends_it() -> None:
    ended: list[str] = []
    things = iterate(numbers(ended))
    assert next(things) == 0
    things.close()  # type: ignore[attr-defined]
    assert ended == ["assentry-stream"]


def test_whoever_collects_it_as_garbage_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "LEAVE", 0.01)
    held, ended = threading.Lock(), threading.Event()

    async def needs_it() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            if held.acquire(timeout=60):
                ended.set()

    class Cycle:
        def __init__(self) -> None:
            self.itself, self.things = self, iterate(needs_it())

    assert next(Cycle().things) == 1
    with held:  # as a store does that is being written to
        gc.collect()
        assert not ended.is_set()
    assert ended.wait(60)


def test_what_it_raises_is_raised() -> None:
    async def broken() -> AsyncGenerator[int, None]:
        yield 1
        raise RuntimeError("broken")

    things = iterate(broken())
    assert next(things) == 1
    with pytest.raises(RuntimeError, match="broken"):
        next(things)


def test_that_there_is_no_loop_to_be_had_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def new_event_loop() -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", new_event_loop)
    with pytest.raises(OSError, match="too many"):
        next(iterate(numbers([])))


def test_an_iterator_that_nobody_reads_starts_nothing() -> None:
    before = set(threading.enumerate())
    things = iterate(numbers([]))
    assert set(threading.enumerate()) <= before  # those of other tests may end meanwhile
    things.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("timeout", [True, 1.0])
def test_a_change_that_python_takes_for_none_is_a_change_of_a_native_call(timeout: Any) -> None:
    def said(timeout: Any) -> AIMessage:
        args = {"commands": ["ls"], "timeout_ms": timeout}
        return AIMessage("", tool_calls=[{"name": "shell", "args": args, "id": "c1", "type": "tool_call"}])

    item = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"], "timeout_ms": 1}}
    assert _rebuilt([item], said(1), said(1)) == [item]
    [made] = _rebuilt([item], said(1), said(timeout))
    assert made["arguments"] == f'{{"commands":["ls"],"timeout_ms":{str(timeout).lower()}}}'
