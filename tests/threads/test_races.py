"""Of two who answer at once one does, and what was approved runs once; in one process, and in two."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assentry import AlreadyDecided, Conflict
from assentry.errors import RunBusy, StoreFailed
from assentry.store import Change, MemoryStore, Store
from assentry.testing import FakeClock, call
from assentry.threads import (
    Command,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    SqliteSaver,
    create_agent,
    interrupt,
)
from tests.runtime.support import SOURCES, soon
from tests.store.test_stored_runs import Watched
from tests.threads.support import Paired, Ran, decide, office, only, say, texts, thread

RACER = Path(__file__).parent / "racer.py"
ROUNDS = 8


class Racer:
    """A process that answers threads when it is told to."""

    def __init__(self, file: Path, verdict: str, mode: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(RACER), str(file), verdict, mode],
            env=os.environ | {"PYTHONPATH": str(SOURCES), "PYTHONUTF8": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self.read() == "ready"

    def go(self, thread: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{thread}\n")
        self.process.stdin.flush()

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


def waiting(file: Path, mode: str) -> None:
    """Threads in a file that wait for an answer."""
    import importlib.util

    sys.argv, before = [str(RACER), str(file), "", mode], sys.argv
    try:
        spec = importlib.util.spec_from_file_location("racer", RACER)
        assert spec is not None and spec.loader is not None
        racer = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(racer)
    finally:
        sys.argv = before
    for number in range(ROUNDS):
        assert "__interrupt__" in racer.agent.invoke(say(f"q{number}"), thread(f"t{number}"))
    asyncio.run(racer.agent.store.close())


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(("one", "other"), [("approve", "approve"), ("approve", "reject")])
def test_of_two_processes_that_answer_one_does_and_nothing_runs_twice(
    tmp_path: Path, one: str, other: str, mode: str
) -> None:
    file = tmp_path / "threads.db"
    waiting(file, mode)
    racers = [Racer(file, one, mode), Racer(file, other, mode)]
    ran: list[str] = []
    for number in range(ROUNDS):
        for racer in racers:
            racer.go(f"t{number}")
        given = [json.loads(racer.read()) for racer in racers]
        won = [each for each in given if each in ("success", "error")]
        lost = [each for each in given if each not in ("success", "error")]
        assert len(won) == len(lost) == 1, given
        assert lost[0].split(":")[0] in ("AlreadyDecided", "RunFinished", "RunBusy", "Overtaken"), lost
        if won == ["success"]:
            ran.append(f"q{number}")
    for racer in racers:
        racer.end()
    log = file.with_suffix(".ran")
    assert (log.read_text().split() if log.exists() else []) == ran


async def together(store: Store, *works: Any) -> list[Any]:
    """Let all read the run before any of them writes."""
    newest = store.newest
    seen = asyncio.Barrier(len(works))
    waited: set[asyncio.Task[Any] | None] = set()

    async def barred(thread: str) -> Any:
        found = await newest(thread)
        task = asyncio.current_task()
        if task in tasks and task not in waited:
            waited.add(task)
            await asyncio.wait_for(seen.wait(), 60)
        return found

    store.newest = barred  # type: ignore[method-assign]
    tasks = {asyncio.ensure_future(work): None for work in works}
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_approve_and_reject_at_once_are_one_of_them() -> None:
    store, ran = MemoryStore(), Ran()
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok", ran=ran, checkpointer=store)
    await agent.ainvoke(say("go"), thread())
    yes, no = await together(
        store,
        agent.ainvoke(decide("approve", by="ann"), thread()),
        agent.ainvoke(decide("reject", by="bob"), thread()),
    )
    [lost] = [each for each in (yes, no) if isinstance(each, Exception)]
    assert isinstance(lost, AlreadyDecided) and lost.by in ("ann", "bob")
    assert ran == ([("execute_sql", "a")] if lost is no else [])


async def test_the_same_answer_twice_at_once_runs_once() -> None:
    store, ran = MemoryStore(), Ran()
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok", ran=ran, checkpointer=store)
    waits = only(await agent.ainvoke(say("go"), thread()))
    by_id = Command(resume={waits.id: {"decisions": [{"type": "approve"}]}})
    results = await together(store, agent.ainvoke(decide("approve"), thread()), agent.ainvoke(by_id, thread()))
    assert [isinstance(each, AlreadyDecided) for each in results].count(True) == 1
    assert ran == [("execute_sql", "a")]


async def test_what_another_wrote_in_the_same_moment_is_not_taken_for_ones_own() -> None:
    """Both begin the call with the same facts, and one cannot tell whether its write came to pass."""
    store, entered, leave = Watched(clock=FakeClock()), asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def pay() -> str:
        """Pay."""
        ran.append("paid")
        entered.set()
        await leave.wait()
        return "paid"

    gate = HumanInTheLoopMiddleware({"pay": True})
    agent = create_agent(Paired([call("pay"), "ok"]), [pay], middleware=[gate], checkpointer=store)
    await agent.ainvoke(say("go"), thread())
    others: list[asyncio.Task[Any]] = []

    async def lost(change: Change) -> None:
        if change.lease is None and not change.take:
            return  # the answer itself
        store.before = None
        others.append(asyncio.create_task(agent.ainvoke(None, thread())))
        await soon(entered.wait())
        error = StoreFailed("connection lost")
        error.unknown = True
        raise error

    store.before = lost
    with pytest.raises(RunBusy):
        await soon(agent.ainvoke(decide("approve"), thread()))
    leave.set()
    assert texts(await others[0])[-1] == ("ai", "ok") and ran == ["paid"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_drive_goes_on_with_what_others_recorded_before_it_could_begin(streamed: bool) -> None:
    store = Watched()
    agent, ran = office(call("execute_sql", {"query": "a"}), "ok", checkpointer=store)
    await agent.ainvoke(say("go"), thread())

    async def meanwhile(change: Change) -> None:
        if change.lease is not None or change.take:  # not the answer itself
            store.before = None
            await store.say("t:1", "more")

    store.before = meanwhile
    if streamed:
        _ = [chunk async for chunk in agent.astream(decide("approve"), thread())]
    else:
        await agent.ainvoke(decide("approve"), thread())
    assert store.before is None and ran == [("execute_sql", "a")]
    said = texts((await agent.aget_state(thread())).values)
    assert said == [("human", "go"), ("ai", ""), ("tool", "ran a"), ("human", "more"), ("ai", "ok")]


async def test_two_answers_to_two_questions_at_once_are_both_recorded() -> None:
    def ask(what: str) -> str:
        """Ask."""
        return f"{what} {interrupt(what)}"

    store = MemoryStore()
    agent = create_agent(
        Paired([[call("ask", {"what": "a"}), call("ask", {"what": "b"})], "ok"]), [ask], checkpointer=store
    )
    one, two = (await agent.ainvoke(say("go"), thread()))["__interrupt__"]
    results = await together(
        store,
        agent.ainvoke(Command(resume={one.id: 1}), thread()),
        agent.ainvoke(Command(resume={two.id: 2}), thread()),
    )
    assert not [each for each in results if isinstance(each, Exception) and not isinstance(each, RunBusy)]
    final = await agent.ainvoke(None, thread())
    assert [text for kind, text in texts(final) if kind == "tool"] == ["a 1", "b 2"]
    assert texts(final)[-1] == ("ai", "ok")


async def test_an_answer_and_a_new_message_at_once_are_both_told_how_it_is() -> None:
    store, ran = MemoryStore(), Ran()
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok", ran=ran, checkpointer=store)
    await agent.ainvoke(say("go"), thread())
    answered, told = await together(
        store,
        agent.ainvoke(decide("approve"), thread()),
        agent.ainvoke(say("never mind"), thread(), on_pending="reject"),
    )
    failed = [each for each in (answered, told) if isinstance(each, Exception)]
    assert all(isinstance(each, Conflict) for each in failed)
    assert ran == ([("execute_sql", "a")] if not isinstance(answered, AlreadyDecided) else [])
    final = await agent.ainvoke(None, thread())
    assert "__interrupt__" not in final


async def test_a_process_that_died_after_the_approval_left_nothing_undone_or_done_twice(tmp_path: Path) -> None:
    ran = Ran()
    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office(call("execute_sql", {"query": "a"}), ran=ran, checkpointer=saver)
        waits = only(await agent.ainvoke(say("go"), thread()))
        [question] = (await saver.store.questions()).items
        await saver.store.decide(question.id, {"type": "approve"}, by="ann", digest=question.digest)  # and then it died
    with SqliteSaver(tmp_path / "t.db") as saver:
        again, _ = office("ok", ran=ran, checkpointer=saver)
        with pytest.raises(AlreadyDecided):
            await again.ainvoke(Command(resume={waits.id: {"decisions": [{"type": "reject"}]}}), thread())
        assert ran == []
        assert texts(await again.ainvoke(None, thread()))[-1] == ("ai", "ok")
    assert ran == [("execute_sql", "a")]


async def test_a_call_that_nobody_saw_end_is_asked_about_and_not_run_again() -> None:
    store = MemoryStore()

    async def pay() -> str:
        """Pay."""
        raise asyncio.CancelledError  # as if the process were stopped

    agent = create_agent(Paired([call("pay")]), [pay], checkpointer=store)
    task = asyncio.ensure_future(agent.ainvoke(say("go"), thread()))
    entered = asyncio.Event()

    async def stuck() -> str:
        """Pay."""
        entered.set()
        await asyncio.Event().wait()
        return "never"

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stuck.__name__ = "pay"
    agent = create_agent(Paired([call("pay"), "ok"]), [stuck], checkpointer=store)
    task = asyncio.ensure_future(agent.ainvoke(say("go"), thread("u")))
    await asyncio.wait_for(entered.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    entered.clear()
    request = only(await agent.ainvoke(None, thread("u"))).value
    assert "how it ended is not known" in request["action_requests"][0]["description"]
    assert request["review_configs"][0]["allowed_decisions"] == ["approve", "respond", "reject"]
    assert not entered.is_set()
    result = await agent.ainvoke(decide({"type": "respond", "message": "It was paid."}), thread("u"))
    assert texts(result)[2] == ("tool", "It was paid.") and not entered.is_set()


async def test_a_saver_is_for_several_agents_and_threads_at_once() -> None:
    saver = InMemorySaver()
    agents = [office(call("execute_sql", {"query": str(n)}), "ok", checkpointer=saver, name=f"a{n}") for n in range(5)]
    await asyncio.gather(*(agent.ainvoke(say("go"), thread(f"t{n}")) for n, (agent, _) in enumerate(agents)))
    await asyncio.gather(*(agent.ainvoke(decide("approve"), thread(f"t{n}")) for n, (agent, _) in enumerate(agents)))
    assert [ran for _, ran in agents] == [[("execute_sql", str(n))] for n in range(5)]
