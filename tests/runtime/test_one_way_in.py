"""Every run is begun, driven and closed in one place, whoever drives it."""

import ast
import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import assentry
from assentry import Agent, Approve, MaxTurnsExceeded, RunConfig, Runner, RunState, StateSpent, function_tool, ids
from assentry.core.facts import Began
from assentry.engines import Worker
from assentry.realtime import RealtimeAgent, RealtimeRunner
from assentry.store import MemoryStore
from assentry.testing import FakeClock, ScriptedModel, call
from assentry.threads import create_agent

SOURCE = Path(assentry.__file__).parent
ENGINES = ("engines", "realtime", "threads")


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    return f"refunded {amount}"


def shop(*script: Any) -> Agent[Any]:
    return Agent(name="Shop", tools=[refund], model=ScriptedModel([*script]))


def test_a_run_with_a_given_clock_and_given_ids_is_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> dict[str, Any]:
        count = itertools.count()
        monkeypatch.setattr(ids, "random_bytes", lambda size: next(count).to_bytes(size, "big"))
        config = RunConfig(clock=FakeClock())
        agent = shop(call("refund", {"amount": 9.0}), "Done.")
        state = (await Runner.run(agent, "Give it back.", run_config=config)).to_state()
        state.decide(state.get_interruptions()[0].id, Approve(), by="ann")
        return (await Runner.run(agent, state, run_config=config)).to_state().to_json()

    first, second = asyncio.run(run()), asyncio.run(run())
    assert first == second
    assert first["journal"][0]["run"] == f"run_{0:032x}"


def test_a_run_that_a_store_starts_begins_like_one_of_the_runner() -> None:
    async def main() -> None:
        store = MemoryStore(clock=FakeClock())
        agent = shop("Done.")
        await Worker(store, agent).run_until_idle()  # announces the agent
        started = await store.start("Shop", "Hello.", by="ann")
        await Runner.run(agent, "Hello.", store=store, run_config=RunConfig(started_by="ann"))
        [other] = [run.id for run in (await store.runs()).items if run.id != started.id]
        [one, said], [two, heard, *_] = (await store.read(started.id)).facts, (await store.read(other)).facts
        assert isinstance(one, Began) and isinstance(two, Began)
        assert (one.run, two.run) == (started.id, other)
        assert {**as_dict(one), "run": ""} == {**as_dict(two), "run": ""}
        assert (bytes(said.items), said.by) == (b'"Hello."', "ann")  # type: ignore[union-attr]
        assert bytes(heard.items) == b'"Hello."'  # type: ignore[union-attr]

    asyncio.run(main())


def as_dict(fact: Began) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in fact.__struct_fields__}


def test_used_up_turns_are_worded_alike_with_what_each_caller_can_do() -> None:
    async def main() -> None:
        agent = shop(call("refund", {"amount": 9.0}))
        store = MemoryStore()
        run = await Runner.run(agent, "Give it back.", max_turns=1, store=store)
        [question] = (await store.questions()).items
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        errors: list[BaseException] = []
        await Worker(store, agent, on_error=lambda record, error: errors.append(error)).run_until_idle()
        assert str(errors[0]) == "The run used up its 1 turn. Go on in the store with Runner.run(max_turns=...)."
        assert getattr(errors[0], "state", None) is None  # the worker has the run, and nobody resumes it from there
        with pytest.raises(
            MaxTurnsExceeded, match=r"^The run used up its 1 turn. Resume its state with a higher max_tu"
        ):
            await Runner.run(agent, await store.load(run.to_state().run_id), store=store)
        thread = create_agent(ScriptedModel([call("search", {})]), tools=[search], checkpointer=store, max_turns=1)
        with pytest.raises(MaxTurnsExceeded, match=r"^The run used up its 1 turn. To go on, call invoke"):
            await thread.ainvoke({"messages": ["hi"]}, {"configurable": {"thread_id": "t"}})

    asyncio.run(main())


@function_tool
async def search() -> str:
    """Search."""
    return "nothing"


def test_a_state_that_cannot_be_resumed_is_not_spent() -> None:
    async def main() -> None:
        agent = shop(call("refund", {"amount": 9.0}), "Done.")
        state: RunState[Any] = (await Runner.run(agent, "Give it back.")).to_state()
        with pytest.raises(assentry.UsageError, match="begun without a store"):
            await Runner.run(agent, state, store=MemoryStore())
        kept = (await Runner.run(shop("Done."), "Hello.", conversation_id="conv_1")).to_state()
        with pytest.raises(assentry.UsageError, match="as text, so it cannot go on live"):
            await RealtimeRunner(RealtimeAgent("Shop", tools=[refund])).run(state=kept)
        state.approve(state.get_interruptions()[0])
        await Runner.run(agent, state)
        with pytest.raises(StateSpent):
            await Runner.run(agent, state)

    asyncio.run(main())


@pytest.mark.parametrize("package", ENGINES)
def test_an_engine_writes_no_private_attribute_of_anything_else(package: str) -> None:
    """What is begun, resumed or continued is asked for it by a function or a method."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node)}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr.startswith("_")
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        if not node.attr.startswith("__")
    ]
    assert not found


def test_first_facts_drivers_and_used_up_turns_have_one_home_each() -> None:
    homes = {"MaxTurnsExceeded(": {"core/run.py"}, "first_facts(": {"core/opening.py", "store/starting.py"}}
    homes["first_facts("] |= {"threads/fork_opening.py"}  # like a start, a fork begins a run that nobody drives yet
    homes["first_facts("] |= {"approval/foreign_call.py"}  # and so does a call that a program outside drives
    homes["await driver.drive()"] = {"runtime/drive.py"}
    for words, home in homes.items():
        sources = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
        assert {name for name, text in sources.items() if words in text} - {"errors.py"} == home, words
