"""A run that lives in a store: written as it goes, decided there, gone on with from there, by one at a time."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from assentry import (
    Agent,
    AlreadyDecided,
    Approve,
    Conflict,
    DigestMismatch,
    Edit,
    InvalidArguments,
    InvalidDecision,
    Reject,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    Session,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    UsageError,
    function_tool,
    tool_input_guardrail,
)
from assentry.core import facts as f
from assentry.errors import LeaseLost, Overtaken, RunBusy, RunNotFound, StoreFailed
from assentry.store import Change, Lease, Question, Store, Stored
from assentry.store.memory import MemoryStore
from assentry.testing import FakeClock, ScriptedModel, call
from tests.runtime.support import UNRENEWED, scripted, sending, soon, stopped, told

AT_ONCE = RunConfig(write_lag=0)
"""Everything is written as soon as it can be, and a new run is in the store before its model is asked."""


class Watched(MemoryStore):
    """A store that notes what it is given to write, and may be told to fail or to do something first."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.changes: list[Change] = []
        self.before: Any = None
        self.after: Any = None

    async def append(self, change: Change) -> None:
        if self.before is not None:
            await self.before(change)
        await super().append(change)
        self.changes.append(change)
        if self.after is not None:
            await self.after(change)

    def written(self) -> list[list[str]]:
        return [[type(fact).__name__ for fact in change.facts] for change in self.changes]


async def only(store: Store) -> Question:
    [question] = (await store.questions()).items
    return question


async def kinds(store: Store, run_id: str) -> list[str]:
    return [type(fact).__name__ for fact in (await store.load(run_id)).facts]


def writer_in(ctx: ToolContext[Any]) -> Any:
    """Who writes the run that a body is in."""
    control: Any = ctx._bound()
    return control.scope().journal.writer


def has(change: Change, kind: type[Any]) -> bool:
    return any(type(fact) is kind for fact in change.facts)


# -- the story -----------------------------------------------------------------------------------


async def test_a_run_is_decided_in_the_store_and_goes_on_from_it_in_another_process() -> None:
    send, sent = sending(needs_approval=True)
    store = MemoryStore()
    steps = (call("send", {"to": "bob"}), "done")
    paused = await Runner.run(scripted(*steps, tools=[send]), "go", store=store)
    question = await only(store)
    assert (question.run, question.tool, question.arguments) == (paused.run_id, "send", '{"copies":1,"to":"bob"}')

    await store.decide(question.id, Approve(), by="ann", digest=question.digest)

    again = scripted("done", tools=[send])  # made anew, as another process would
    result = await Runner.run(again, await store.load(paused.run_id), store=store)
    assert result.final_output == "done" and sent == [("bob", 1)]
    assert [entry.fact["by"] for entry in await store.history(paused.run_id) if entry.fact["fact"] == "approved"] == [
        "ann"
    ]


async def test_a_turn_makes_two_writes() -> None:
    send, _ = sending()
    store = Watched()
    calls = [call("send", {"to": name}) for name in "abc"]
    await Runner.run(scripted(*calls, "done", tools=[send]), "go", store=store, run_config=AT_ONCE)
    written = store.written()
    assert written[0] == ["Began", "Said"]
    assert written[1] == ["Defined", "Replied", "Approved", "Started"]
    assert len(written) <= 2 + 2 * len(calls)


async def test_a_turn_whose_model_is_quick_makes_one_write() -> None:
    send, _ = sending()
    store = Watched()
    await Runner.run(scripted(*[call("send", {"to": name}) for name in "ab"], "done", tools=[send]), "go", store=store)
    assert store.written() == [
        ["Began", "Said", "Defined", "Replied", "Approved", "Started"],
        ["Finished", "Replied", "Approved", "Started"],
        ["Finished", "Replied", "Concluded"],
    ]
    assert [(change.take, change.release) for change in store.changes] == [
        (False, False),
        (False, False),
        (False, True),
    ]


async def test_what_is_done_is_written_while_a_slow_model_thinks() -> None:
    store = Watched()
    written = asyncio.Event()

    async def note(change: Change) -> None:
        if has(change, wanted):
            written.set()

    store.after = note

    class Thinking(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            nonlocal wanted
            wanted = f.Said if len(request.input) == 1 else f.Finished
            await asyncio.wait_for(written.wait(), 60)
            written.clear()
            async for event in super().stream(request):
                yield event

    wanted: Any = None
    send, _ = sending()
    agent = Agent("agent", tools=[send], model=Thinking([call("send", {"to": "bob"}), "done"]))
    assert (await Runner.run(agent, "go", store=store)).final_output == "done"
    assert [kinds[0] for kinds in store.written()] == ["Began", "Replied", "Finished", "Replied"]


async def test_what_a_body_came_to_is_written_while_a_slow_hook_is_told_of_it() -> None:
    store, slow, leave = Watched(), asyncio.Event(), asyncio.Event()

    class Slow(RunHooks[Any]):
        async def on_tool_end(self, *args: Any) -> None:
            slow.set()
            await leave.wait()

    async def written(change: Change) -> None:
        if has(change, f.Finished):
            leave.set()

    @function_tool
    async def take_time(ctx: ToolContext[Any]) -> str:
        writer = writer_in(ctx)
        writer.soon.cancel()
        writer._write_soon()  # as it would be while this goes on
        return "done"

    store.after = written
    agent = scripted(call("take_time"), "done", tools=[take_time])
    result = await soon(Runner.run(agent, "go", store=store, hooks=Slow()))
    assert slow.is_set() and result.final_output == "done"


async def approved() -> tuple[Watched, Agent[Any], Question, list[Any]]:
    """A run whose one call was approved, and has not begun."""
    send, sent = sending(needs_approval=True)
    store = Watched()
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    await Runner.run(agent, "go", store=store)
    question = await only(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    return store, agent, question, sent


async def test_a_decided_run_is_taken_with_the_write_that_comes_before_its_body() -> None:
    store, agent, question, sent = await approved()
    loaded, stale = await store.load(question.run), await store.load(question.run)
    store.changes.clear()
    await Runner.run(agent, loaded, store=store)
    assert [(change.take, change.release) for change in store.changes] == [(True, False), (False, True)]
    assert store.written()[0] == ["Started"] and sent == [("bob", 1)]
    with pytest.raises(Overtaken):
        await Runner.run(agent, stale, store=store)
    assert sent == [("bob", 1)]


async def test_a_run_that_somebody_drives_is_not_taken_with_a_write() -> None:
    store, agent, question, sent = await approved()
    loaded = await store.load(question.run)
    lease = await store.take(question.run, "another", seq=loaded.record.seq, hold=60)
    with pytest.raises(RunBusy) as busy:
        await Runner.run(agent, loaded, store=store)
    assert sent == [] and (await store.load(question.run)).facts == loaded.facts
    await store.release(lease)
    result = await Runner.run(agent, await store.load(question.run), store=store)
    assert (result.final_output, sent) == ("done", [("bob", 1)])
    with pytest.raises(Overtaken):
        await Runner.run(agent, busy.value.state, store=store)


async def test_no_model_is_asked_before_a_run_is_taken() -> None:
    asked: list[list[str]] = []

    def think(request: Any) -> str:
        asked.append([type(fact).__name__ for change in store.changes for fact in change.facts])
        return "done"

    store = Watched()
    offered = True
    send, sent = sending(needs_approval=True)
    other, posted = sending(name_override="post", is_enabled=lambda ctx, agent: offered)
    agent = scripted(call("send", {"to": "bob"}), think, tools=[send, other])
    await Runner.run(agent, "go", store=store)
    question = await only(store)
    await store.decide(question.id, Edit({"to": "bob"}, tool="post"), by="ann", digest=question.digest)
    loaded, offered = await store.load(question.run), False  # so that the call comes to nothing
    store.changes.clear()
    assert (await Runner.run(agent, loaded, store=store)).final_output == "done"
    assert sent == posted == [] and "Refused" in asked[0] and store.changes[0].take


async def test_a_run_that_was_taken_and_given_back_meanwhile_goes_on() -> None:
    store, agent, question, sent = await approved()
    loaded = await store.load(question.run)
    await store.release(await store.take(question.run, "another", seq=loaded.record.seq, hold=60))
    assert (await Runner.run(agent, loaded, store=store)).final_output == "done"
    assert sent == [("bob", 1)]


async def test_a_new_run_whose_model_fails_is_in_the_store_and_can_go_on() -> None:
    store = Watched()
    agent = scripted(ValueError("no"), "done")
    with pytest.raises(ValueError, match="no") as failed:
        await Runner.run(agent, "go", store=store)
    [record] = (await store.runs()).items
    assert (record.status, record.worker) == ("working", None)
    state: Any = failed.value
    assert (await Runner.run(agent, state.state, store=store)).final_output == "done"


async def test_calls_that_run_at_once_share_their_writes() -> None:
    send, _ = sending()
    store = Watched()
    await Runner.run(
        scripted([call("send", {"to": str(n)}) for n in range(50)], "done", tools=[send]), "go", store=store
    )
    assert sum(has(change, f.Started) for change in store.changes) == 1
    assert len(store.changes) <= 5


@pytest.mark.parametrize("streamed", [False, True])
async def test_nothing_is_entered_before_it_is_written(streamed: bool) -> None:
    store = Watched()
    seen: list[list[str]] = []

    @function_tool
    async def act() -> str:
        seen.append([type(fact).__name__ for change in store.changes for fact in change.facts])
        return "ok"

    agent = scripted([call("act"), call("act")], "done", tools=[act])
    if streamed:
        result = Runner.run_streamed(agent, "go", store=store)
        async for _ in result.stream_events():
            pass
    else:
        await Runner.run(agent, "go", store=store)
    assert [facts.count("Started") for facts in seen] == [2, 2]


# -- decisions -----------------------------------------------------------------------------------


async def waiting(store: Store, **options: Any) -> tuple[Agent[Any], Question, list[Any]]:
    send, sent = sending(needs_approval=True, **options)
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    await Runner.run(agent, "go", store=store)
    return agent, await only(store), sent


async def test_of_two_deciders_one_wins_and_the_other_is_told_who_what_and_when() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    _, question, _ = await waiting(store)
    clock.advance(60)
    await store.decide(question.id, Reject("no"), by="ann", digest=question.digest)
    with pytest.raises(AlreadyDecided, match="rejected by ann") as refused:
        await store.decide(question.id, Approve(), by="bob", digest=question.digest)
    assert (refused.value.by, refused.value.verdict, refused.value.at) == ("ann", "reject", int(clock() * 1000))


async def test_approve_racing_reject_leaves_one_decision() -> None:
    store = MemoryStore()
    agent, question, sent = await waiting(store)
    votes = [Approve() if n % 2 else Reject() for n in range(20)]
    given = await asyncio.gather(
        *(store.decide(question.id, vote, by=f"p{n}", digest=question.digest) for n, vote in enumerate(votes)),
        return_exceptions=True,
    )
    winner = (await store.question(question.id)).verdict
    lost = [each for each in given if isinstance(each, AlreadyDecided)]
    assert len(lost) == 10 and all(each.verdict == winner for each in lost)
    await Runner.run(agent, await store.load(question.run), store=store)
    assert len(sent) == (1 if winner == "approve" else 0)


async def test_a_double_click_decides_one_question_and_not_the_next() -> None:
    send, sent = sending(needs_approval=True)
    store = MemoryStore()
    agent = scripted(call("send", {"to": "a"}), call("send", {"to": "b"}), "done", tools=[send])
    await Runner.run(agent, "go", store=store)
    first = await only(store)
    for _ in range(2):
        await store.decide(first.id, Approve(), by="ann", digest=first.digest)
    await Runner.run(agent, await store.load(first.run), store=store)
    second = await only(store)
    await store.decide(first.id, Approve(), by="ann", digest=first.digest)
    with pytest.raises(DigestMismatch):
        await store.decide(second.id, Approve(), by="ann", digest=first.digest)
    assert sent == [("a", 1)] and (await only(store)).id == second.id


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"to": 7}, "to"), ({}, "to"), ({"to": "x", "copies": "many"}, "copies"), ({"to": "x", "more": 1}, "more")],
)
async def test_an_edit_is_checked_against_what_was_frozen_and_nothing_is_recorded(arguments: Any, problem: str) -> None:
    store = MemoryStore()
    _, question, _ = await waiting(store)
    with pytest.raises(InvalidArguments, match=problem) as caught:
        await store.decide(question.id, Edit(arguments), by="ann", digest=question.digest)
    assert caught.value.question == question.id
    assert (await only(store)).verdict is None


async def test_an_edit_runs_as_it_was_made() -> None:
    store = MemoryStore()
    agent, question, sent = await waiting(store)
    await store.decide(question.id, Edit({"to": "eve", "copies": 3}), by="ann", digest=question.digest)
    await Runner.run(agent, await store.load(question.run), store=store)
    assert sent == [("eve", 3)]


async def test_an_edit_may_choose_another_tool_of_the_agent() -> None:
    send, sent = sending(needs_approval=True)
    kept: list[str] = []

    @function_tool
    async def keep(text: str, where: str = "drawer") -> str:
        kept.append(f"{text} in {where}")
        return "kept"

    store = MemoryStore()
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send, keep])
    await Runner.run(agent, "go", store=store)
    question = await only(store)
    with pytest.raises(InvalidDecision, match="no tool named 'shred'"):
        await store.decide(question.id, Edit({}, "shred"), by="ann", digest=question.digest)
    await store.decide(question.id, Edit({"text": "it"}, "keep"), by="ann", digest=question.digest)
    await Runner.run(agent, await store.load(question.run), store=store)
    assert (kept, sent) == (["it in drawer"], [])


async def test_a_decision_made_while_the_run_is_driven_is_not_lost() -> None:
    gate, entered = asyncio.Event(), asyncio.Event()
    send, sent = sending(needs_approval=True)

    @function_tool
    async def slow() -> str:
        entered.set()
        await gate.wait()
        return "slow"

    store = MemoryStore()
    agent = scripted([call("send", {"to": "bob"}), call("slow")], "done", tools=[send, slow])
    run = asyncio.create_task(Runner.run(agent, "go", store=store))
    await entered.wait()
    question = await only(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    gate.set()
    assert (await run).final_output == "done" and sent == [("bob", 1)]


# -- stopped while it is being taken ------------------------------------------------------------------


async def test_a_drive_that_is_stopped_while_it_takes_the_run_leaves_nothing_behind() -> None:
    store = Watched()
    agent, question, sent = await waiting(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    writing = asyncio.Event()

    async def hold(change: Change) -> None:
        writing.set()
        store.before = None
        for _ in range(20):
            await asyncio.sleep(0)

    store.before = hold
    loop = asyncio.get_running_loop()
    later = loop.call_later

    def noted(delay: float, *args: Any, **options: Any) -> asyncio.TimerHandle:
        handle = later(delay, *args, **options)
        handles.append(handle)
        return handle

    handles: list[asyncio.TimerHandle] = []
    loop.call_later = noted  # type: ignore[method-assign]
    await stopped(Runner.run(agent, await store.load(question.run), store=store), writing)
    loop.call_later = later  # type: ignore[method-assign]
    assert handles and all(handle.cancelled() for handle in handles)
    assert (await store.load(question.run)).record.worker is None and sent == []
    assert (await kinds(store, question.run))[-2:] == ["Started", "Left"]


async def test_a_run_that_was_loaded_from_text_is_given_back_if_the_drive_is_stopped_while_it_takes_it() -> None:
    taking = asyncio.Event()

    class Slow(MemoryStore):
        async def append(self, change: Change) -> None:  # so that it is not one that waits for nothing
            await super().append(change)

        async def take(self, *args: Any, **options: Any) -> Lease:
            async def work() -> Lease:  # as a thread, or a server, does it: whoever asked may be gone
                taking.set()
                for _ in range(5):
                    await asyncio.sleep(0)
                return await MemoryStore.take(self, *args, **options)

            return await asyncio.shield(asyncio.create_task(work()))

    store = Slow()
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    text = (await Runner.run(agent, "go", store=store)).to_state().to_string()
    left = await stopped(Runner.run(agent, await RunState.from_string(agent, text), store=store), taking)
    for _ in range(10):
        await asyncio.sleep(0)
    assert (await store.load(left.run_id)).record.worker is None and sent == []


# -- copies ----------------------------------------------------------------------------------------


async def test_a_stale_copy_gets_a_conflict_and_runs_nothing() -> None:
    send, sent = sending(needs_approval=True)
    store = MemoryStore()
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    text = (await Runner.run(agent, "go", store=store)).to_state().to_string()
    one, two = [await RunState.from_string(agent, text) for _ in range(2)]
    one.approve(one.get_interruptions()[0])
    two.reject(two.get_interruptions()[0])
    await Runner.run(agent, one, store=store)
    with pytest.raises(Conflict):
        await Runner.run(agent, two, store=store)
    assert sent == [("bob", 1)]


async def test_neither_guardrails_nor_hooks_are_told_of_a_stale_copy() -> None:
    told_of: list[str] = []

    @tool_input_guardrail
    def look(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        told_of.append("guardrail")
        first = told_of.count("guardrail") == 1
        return ToolGuardrailFunctionOutput.allow() if first else ToolGuardrailFunctionOutput.raise_exception()

    class Telling(RunHooks[Any]):
        async def on_tool_start(self, *args: Any) -> None:
            told_of.append("hook")

    store = MemoryStore()
    agent, question, sent = await waiting(store, tool_input_guardrails=[look])
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    fresh, *stale = [await store.load(question.run) for _ in range(3)]
    await Runner.run(agent, fresh, store=store)
    for copy, hooks in zip(stale, (None, Telling()), strict=True):
        with pytest.raises(Conflict):
            await Runner.run(agent, copy, store=store, hooks=hooks)
    assert (sent, told_of) == ([("bob", 1)], ["guardrail"])


class Listed(Session):
    """A session that takes what it is given, as often as it is given it; or fails."""

    session_id = "talk"

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.fails = False

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        if self.fails:
            raise OSError("no room")
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop()

    async def clear_session(self) -> None:
        self.items.clear()


async def test_a_stale_copy_writes_nothing_to_its_session() -> None:
    store, session = MemoryStore(), Listed()
    session.fails = True
    agent = scripted("done")
    with pytest.raises(OSError, match="no room") as failed:
        await Runner.run(agent, "go", store=store, session=session)
    state: RunState[Any] = failed.value.state  # type: ignore[attr-defined]
    stale = await store.load(state.run_id)
    session.fails = False
    await Runner.run(agent, state, store=store, session=session)
    with pytest.raises(Conflict):
        await Runner.run(agent, stale, store=store, session=session)
    assert [item["role"] for item in session.items] == ["user", "assistant"]


async def test_a_session_is_told_nothing_of_a_new_run_that_is_not_in_the_store() -> None:
    store = MemoryStore()

    class Seeing(Listed):
        async def add_items(self, items: list[Any]) -> None:
            assert (await store.runs()).items
            await super().add_items(items)

    session = Seeing()
    await Runner.run(scripted("done"), "go", store=store, session=session)
    assert len(session.items) == 2


async def test_a_run_of_a_store_does_not_go_on_without_it_nor_another_in_it() -> None:
    store = MemoryStore()
    agent, question, sent = await waiting(store)
    stored = await store.load(question.run)
    with pytest.raises(UsageError, match="lives in a store"):
        await Runner.run(agent, stored)
    text = (await Runner.run(scripted("x"), "go", store=store)).to_state().to_string()
    state = await RunState.from_string(scripted("x"), text)
    state.add_input("more")
    with pytest.raises(UsageError, match="lives in a store"):
        await Runner.run(scripted("x"), state)
    free = await Runner.run(scripted(call("send", {"to": "b"}), tools=agent.tools), "go")
    with pytest.raises(UsageError, match="begun without a store"):
        await Runner.run(scripted(tools=agent.tools), free.to_state(), store=store)
    with pytest.raises(UsageError, match="store must be a Store"):
        await Runner.run(agent, "go", store="a.db")  # type: ignore[arg-type]
    with pytest.raises(RunNotFound):
        await store.load("run_x")
    assert sent == []


async def test_a_run_that_somebody_drives_is_not_driven_by_another() -> None:
    gate, entered = asyncio.Event(), asyncio.Event()
    runs = 0

    @function_tool
    async def slow() -> str:
        nonlocal runs
        runs += 1
        entered.set()
        await gate.wait()
        return "slow"

    store = MemoryStore()
    agent = scripted(call("slow"), "done", tools=[slow])
    run = asyncio.create_task(Runner.run(agent, "go", store=store))
    await entered.wait()
    [record] = (await store.runs()).items
    with pytest.raises(RunBusy):
        await Runner.run(scripted("x", tools=[slow]), await store.load(record.id), store=store)
    gate.set()
    await run
    assert runs == 1


# -- when the store fails ----------------------------------------------------------------------------


async def test_a_store_that_fails_before_a_body_leaves_it_unentered_and_the_run_goes_on_later() -> None:
    send, sent = sending()
    store = Watched()

    async def fail(change: Change) -> None:
        if has(change, f.Started):
            raise StoreFailed("no room")

    store.before = fail
    with pytest.raises(StoreFailed, match="no room") as failed:
        await Runner.run(scripted(call("send", {"to": "bob"}), "done", tools=[send]), "go", store=store)
    assert sent == []
    store.before = None
    result = await Runner.run(scripted("done", tools=[send]), failed.value.state, store=store)
    assert (result.final_output, sent) == ("done", [("bob", 1)])


async def test_a_store_that_fails_after_a_body_loses_nothing_while_the_process_lives() -> None:
    send, sent = sending()
    store = Watched()

    async def fail(change: Change) -> None:
        if has(change, f.Finished):
            raise StoreFailed("gone")

    store.before = fail
    with pytest.raises(StoreFailed) as failed:
        await Runner.run(scripted(call("send", {"to": "bob"}), "done", "done", tools=[send]), "go", store=store)
    store.before = None
    result = await Runner.run(scripted("done", "done", tools=[send]), failed.value.state, store=store)
    assert (result.final_output, sent, told(result)) == ("done", [("bob", 1)], ["sent 1 to bob"])


async def test_a_store_that_fails_is_not_asked_again_and_again_while_a_body_runs() -> None:
    store, tries = Watched(), 0
    gate, failed = asyncio.Event(), asyncio.Event()

    async def fail(change: Change) -> None:
        nonlocal tries
        if has(change, f.Finished):
            tries += 1
            failed.set()
            raise StoreFailed("gone")

    @function_tool
    async def slow() -> str:
        await gate.wait()
        return "slow"

    send, _ = sending()
    store.before = fail
    agent = scripted([call("slow"), call("send", {"to": "bob"})], "done", tools=[slow, send])
    run = asyncio.create_task(Runner.run(agent, "go", store=store))
    await failed.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert tries == 1
    store.before = None
    gate.set()
    with pytest.raises(StoreFailed) as error:
        await run
    assert (await kinds(store, error.value.state.run_id)).count("Finished") == 2  # when it ended


async def test_an_answer_lost_after_a_write_is_looked_up_and_nothing_is_written_twice() -> None:
    send, sent = sending()
    store = Watched()

    async def cut(change: Change) -> None:
        error = StoreFailed("connection lost")
        error.unknown = True
        raise error

    store.after = cut
    result = await Runner.run(scripted(call("send", {"to": "bob"}), "done", tools=[send]), "go", store=store)
    assert (result.final_output, sent) == ("done", [("bob", 1)])
    assert len(await kinds(store, result.run_id)) == (await store.load(result.run_id)).record.seq


async def test_a_new_run_that_was_not_written_brings_its_question_when_it_is() -> None:
    send, sent = sending(needs_approval=True)
    store = Watched()

    async def fail(change: Change) -> None:
        raise StoreFailed("no room")

    store.before = fail
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    with pytest.raises(StoreFailed) as failed:
        await Runner.run(agent, "go", store=store)
    store.before = None
    await Runner.run(agent, failed.value.state, store=store)
    question = await only(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    result = await Runner.run(agent, await store.load(question.run), store=store)
    assert (result.final_output, sent) == ("done", [("bob", 1)])


class Away(Watched):
    """A store whose answer to the next write is lost, and that cannot be asked then."""

    down = 0

    async def append(self, change: Change) -> None:
        await super().append(change)
        if self.down:
            self.down = 1
            error = StoreFailed("connection lost")
            error.unknown = True
            raise error

    async def read(self, run_id: str, after: int = 0) -> Stored:
        if self.down == 1:
            self.down = 0
            raise StoreFailed("cannot be reached")
        return await super().read(run_id, after)


@pytest.mark.parametrize("new", [True, False])
async def test_a_first_write_whose_answer_is_lost_is_looked_up_when_that_can_be_done(new: bool) -> None:
    store = Away()
    send, sent = sending(needs_approval=not new)
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    begun: Any = "go"
    if not new:
        await Runner.run(agent, "go", store=store)
        question = await only(store)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        begun = await store.load(question.run)
    store.down = 2
    with pytest.raises(StoreFailed) as failed:
        await Runner.run(agent, begun, store=store)
    state = failed.value.state
    assert (await store.load(state.run_id)).record.worker is None and sent == []
    assert (await kinds(store, state.run_id))[-2:] == ["Started", "Left"]
    result = await Runner.run(agent, state, store=store)
    assert (result.final_output, sent) == ("done", [("bob", 1)])


# -- taken over, cancelled, spoken to ----------------------------------------------------------------


async def test_what_a_body_gives_after_the_run_was_taken_over_is_evidence_and_nothing_else() -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        entered.set()
        await gate.wait()
        return "late"

    clock = FakeClock()
    store = MemoryStore(clock=clock)
    agent = scripted(call("slow"), "done", tools=[slow])
    run = asyncio.create_task(Runner.run(agent, "go", store=store, run_config=UNRENEWED))
    await entered.wait()
    clock.advance(UNRENEWED.lease + 1)
    [record] = (await store.runs()).items
    taken = await Runner.run(scripted("done", tools=[slow]), await store.load(record.id), store=store)
    assert [item.kind for item in taken.interruptions] == ["doubt"]
    gate.set()
    with pytest.raises(LeaseLost):
        await run
    question = await only(store)
    assert (await kinds(store, record.id))[-1] == "Witnessed"
    await store.decide(question.id, {"type": "respond", "output": "late"}, by="ann", digest=question.digest)
    result = await Runner.run(scripted("done", tools=[slow]), await store.load(record.id), store=store)
    assert told(result) == ["late"]


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_run_is_given_back_however_often_its_drive_is_cancelled(times: int) -> None:
    store, writing, let = Watched(), asyncio.Event(), asyncio.Event()

    async def hold(change: Change) -> None:
        writing.set()
        await let.wait()

    store.before = hold
    send, sent = sending()
    drive = asyncio.ensure_future(Runner.run(scripted(call("send", {"to": "bob"}), tools=[send]), "go", store=store))
    await soon(writing.wait())
    for _ in range(times):  # as an AnyIO scope does
        drive.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
    let.set()
    with pytest.raises(asyncio.CancelledError):
        await soon(drive)
    for left in asyncio.all_tasks() - {asyncio.current_task()}:
        await soon(left)
    [run] = (await store.runs()).items
    assert (run.worker, sent) == (None, [])


async def test_a_run_cancelled_in_the_store_begins_nothing_new() -> None:
    send, sent = sending()
    store = Watched()

    async def cancel(change: Change) -> None:
        if has(change, f.Replied):
            store.before = None
            await store.cancel(change.record.id, by="ann")

    store.before = cancel
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go", store=store, run_config=AT_ONCE)
    [record] = (await store.runs()).items
    assert (sent, record.status, record.worker, result.final_output) == ([], "cancelled", None, None)
    await store.resume(record.id, by="ann")
    result = await Runner.run(
        scripted(call("send", {"to": "eve"}), "done", tools=[send]), await store.load(record.id), store=store
    )
    assert (sent, result.final_output) == ([("eve", 1)], "done")


async def test_what_is_said_to_a_run_as_it_ends_is_heard() -> None:
    store = Watched()

    async def say(change: Change) -> None:
        if has(change, f.Concluded):
            store.before = None
            await store.say(change.record.id, "And?", by="ann")

    store.before = say
    agent = scripted("one", "two", "three")
    result = await Runner.run(agent, "go", store=store, run_config=AT_ONCE)
    model: Any = agent.model
    assert any(item.get("content") == "And?" for item in model.requests[-1].input)
    assert (result.final_output, (await store.load(result.run_id)).record.status) == ("two", "done")


async def test_a_lease_that_is_lost_stops_the_drive_where_it_stands() -> None:
    entered = asyncio.Event()
    gate = asyncio.Event()
    send, sent = sending()

    @function_tool
    async def slow() -> str:
        entered.set()
        await gate.wait()
        return "slow"

    clock = FakeClock()
    store = MemoryStore(clock=clock)
    agent = scripted(call("slow"), call("send", {"to": "bob"}), "done", tools=[slow, send])
    run = asyncio.create_task(Runner.run(agent, "go", store=store, run_config=UNRENEWED))
    await entered.wait()
    clock.advance(UNRENEWED.lease + 1)
    [lease] = await store.claim("other", agents=None, hold=30, limit=5)
    gate.set()
    with pytest.raises(LeaseLost):
        await run
    assert sent == [] and lease.fence == 2


async def test_a_look_at_the_store_takes_no_write_of_our_own_for_one_of_others() -> None:
    store = Watched()
    looked, written = asyncio.Event(), asyncio.Event()
    merges: list[int] = []

    @function_tool
    async def ship(ctx: ToolContext[Any]) -> str:
        writer = writer_in(ctx)
        whole = store.read

        async def read(run_id: str, after: int = 0) -> Stored:
            looked.set()
            await written.wait()
            store.read = whole  # type: ignore[method-assign]
            return await whole(run_id, after)

        async def linger(change: Change) -> None:
            written.set()  # it is there, and nobody was told so yet
            await looking
            store.after = None

        store.read = read  # type: ignore[method-assign]
        looking = asyncio.create_task(writer.look())
        await looked.wait()
        store.after = linger
        await ctx.step("label", lambda: 1)
        merges.append(writer.merges)
        return "ok"

    result = await Runner.run(scripted(call("ship"), "done", tools=[ship]), "go", store=store)
    assert (result.final_output, merges) == ("done", [0])
    assert (await kinds(store, result.run_id)).count("Stepped") == 1


async def test_a_lease_is_kept_for_a_drive_that_begins_again() -> None:
    looks = 0

    @function_tool
    async def ship(ctx: ToolContext[Any]) -> str:
        writer, twice = writer_in(ctx), asyncio.Event()

        async def look() -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise Overtaken("Others were first.")
            twice.set()

        writer.heartbeat.look, writer.heartbeat.hold = look, 0
        writer.heartbeat.beat()
        await twice.wait()
        return "ok"

    agent = scripted(call("ship"), "done", tools=[ship])
    assert (await Runner.run(agent, "go", store=MemoryStore())).final_output == "done"


async def test_what_happened_is_saved_where_what_was_to_come_cannot_follow_others() -> None:
    store = Watched()
    send, sent = sending()

    @function_tool
    async def ship(ctx: ToolContext[Any]) -> str:
        writer = writer_in(ctx)
        run = writer.journal.run
        await store.cancel(run.id, by="ann")
        ours, other = run.open
        writer.journal.append([f.Started(other, 1), f.Stepped(ours, "label", Raw(b"1"))])
        await writer._write_last(release=False)
        return "ok"

    agent = scripted([call("ship"), call("send", {"to": "bob"})], tools=[ship, send])
    result = await Runner.run(agent, "go", store=store, run_config=RunConfig(max_parallel_tools=1))
    written = await kinds(store, result.run_id)
    assert written[-3:] == ["Cancelled", "Stepped", "Finished"]
    assert (written.count("Started"), sent) == (1, [])


# -- what changes while a question waits -------------------------------------------------------------


async def test_a_tool_that_changed_makes_a_new_question_that_says_what_it_replaces_and_why() -> None:
    store = MemoryStore()
    _, old, sent = await waiting(store)
    changed, again = sending(needs_approval=True, version="2")
    agent = scripted("done", tools=[changed])
    await store.decide(old.id, Approve(), by="ann", digest=old.digest)
    result = await Runner.run(agent, await store.load(old.run), store=store)
    new = await only(store)
    assert result.interruptions[0].id == new.id and "has changed" in new.reason and sent == again == []
    assert (result.interruptions[0].replaces, new.replaces) == (old.id, old.id)
    was = await store.question(old.id)
    assert (was.verdict, was.by) == ("approve", "ann"), "what was decided stays"
    with pytest.raises(Conflict, match=new.id):
        await store.decide(old.id, Approve(), by="ann", digest=old.digest)
    await store.rebuild()
    assert await only(store) == new and await store.question(old.id) == was
    await store.decide(new.id, Approve(), by="ann", digest=new.digest)
    await Runner.run(agent, await store.load(old.run), store=store)
    assert (sent, again) == ([], [("bob", 1)])


async def test_a_question_about_a_tool_that_changed_is_replaced_before_anybody_decides() -> None:
    store = MemoryStore()
    _, old, _ = await waiting(store)
    changed, _ = sending(needs_approval=True, version="2")
    await Runner.run(scripted("done", tools=[changed]), await store.load(old.run), store=store)
    new = await only(store)
    assert new.replaces == old.id and (await store.question(old.id)).verdict == "replaced"
    [item] = (await Runner.run(scripted("done", tools=[changed]), await store.load(old.run), store=store)).interruptions
    assert item.replaces == old.id
    with pytest.raises(Conflict, match=new.id):
        await store.decide(old.id, Approve(), by="ann", digest=old.digest)


# -- bodies that ask, contexts, nested agents ---------------------------------------------------------


async def test_a_body_that_asks_keeps_its_steps_in_the_store() -> None:
    made: list[int] = []

    @function_tool
    async def ship(ctx: ToolContext[Any], order: int) -> str:
        label = await ctx.step("label", lambda: made.append(order) or f"label {order}")
        return f"{label} to {await ctx.ask('Where to?', schema=str)}"

    store = MemoryStore()
    agent = scripted(call("ship", {"order": 7}), "done", tools=[ship])
    await Runner.run(agent, "go", store=store)
    question = await only(store)
    assert (question.kind, question.prompt, question.schema) == ("input", "Where to?", {"type": "string"})
    with pytest.raises(InvalidDecision):
        await store.decide(question.id, {"type": "respond", "output": 7}, by="ann", digest=question.digest)
    await store.decide(question.id, {"type": "respond", "output": "Porto"}, by="ann", digest=question.digest)
    result = await Runner.run(agent, await store.load(question.run), store=store)
    assert (told(result), made) == (["label 7 to Porto"], [7])


async def test_a_blocking_bodys_step_is_written_before_it_goes_on() -> None:
    store = Watched()
    seen: list[int] = []

    @function_tool
    def ship(ctx: ToolContext[Any]) -> str:
        ctx.step_sync("label", lambda: 1)
        seen.append(sum(has(change, f.Stepped) for change in store.changes))
        return "ok"

    await Runner.run(scripted(call("ship"), "done", tools=[ship]), "go", store=store)
    assert seen == [1]


async def test_the_context_is_kept_with_the_run() -> None:
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    async def act(ctx: ToolContext[Any]) -> str:
        seen.append(ctx.context)
        return "ok"

    store = MemoryStore()
    agent = scripted(call("act"), "done", tools=[act])
    await Runner.run(agent, "go", store=store, context={"user": "ann"})
    question = await only(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    await Runner.run(agent, await store.load(question.run), store=store)
    assert seen == [{"user": "ann"}]


async def test_a_question_of_an_agent_in_an_agent_is_decided_and_goes_on_where_it_stopped() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(call("send", {"to": "bob"}), "sent", tools=[send], name="Clerk")
    outer = scripted(call("clerk", {"input": "x"}), "all", tools=[inner.as_tool("clerk", "A clerk.")], name="Boss")
    store = MemoryStore()
    await Runner.run(outer, "go", store=store)
    question = await only(store)
    assert (question.agent, question.path) == ("Clerk", ("c1",))
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    result = await Runner.run(outer, await store.load(question.run), store=store)
    assert (result.final_output, sent) == ("all", [("bob", 1)])


async def test_a_grant_given_with_a_decision_holds_for_later_calls_of_the_run() -> None:
    send, sent = sending(needs_approval=True)
    store = MemoryStore()
    steps = [call("send", {"to": "bob"}), call("send", {"to": "bob"}), call("send", {"to": "eve"}), "done"]
    agent = Agent("agent", tools=[send], model=ScriptedModel(steps))
    await Runner.run(agent, "go", store=store)
    first = await only(store)
    await store.decide(first.id, Approve(), by="ann", digest=first.digest, grant={"max_uses": 5, "pins": {"to": "bob"}})
    await Runner.run(agent, await store.load(first.run), store=store)
    third = await only(store)
    [grant] = (await store.grants()).items
    assert sent == [("bob", 1), ("bob", 1)] and '"eve"' in third.arguments
    assert (grant.by, grant.used, grant.max_uses, grant.pins) == ("ann", 1, 5, {"to": "bob"})
    await store.revoke(grant.id, by="ann", run=first.run)
    assert (await store.grants()).items == []


async def test_a_run_that_others_keep_changing_is_given_up_in_words() -> None:
    store = Watched()

    async def say(change: Change) -> None:
        if change.lease is not None and change.seq:
            await store.say(change.record.id, "more", by="ann")

    store.before = say
    with pytest.raises(Overtaken):
        await Runner.run(scripted(*["x"] * 200), "go", store=store, max_turns=100, run_config=AT_ONCE)
