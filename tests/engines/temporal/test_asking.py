"""Bodies that ask and step, code that interrupts, and agents of LangChain's vocabulary, on Temporal."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any

import pytest

from assentry import Approve, Decision, Edit, Reject, Respond, ToolContext, function_tool
from assentry.core.facts import Stepped
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call
from assentry.threads import (
    AgentState,
    Command,
    HumanInTheLoopMiddleware,
    ToolMessage,
    ToolRuntime,
    after_model,
    before_model,
    create_agent,
    interrupt,
    tool,
    wrap_model_call,
    wrap_tool_call,
)

from .story import Log, Story, Tell, check_story, scripted
from .support import Server, working

pytestmark = pytest.mark.temporal

STORIES: dict[str, Tell] = {}


def story(tell: Tell) -> Tell:
    STORIES[tell.__name__] = tell
    return tell


def answers(tool: str, asked: Any) -> Decision:
    """Answer every question of a body with the question; approve every call."""
    return Respond(f"re: {asked}") if isinstance(asked, str) else Approve()


@story
def a_body_that_asks_and_steps(log: Log) -> Story:
    @function_tool(needs_approval=True)
    async def book(ctx: ToolContext[Any], city: str) -> str:
        log.append("entered")

        async def reserve() -> str:
            log.append("reserved")
            return f"room in {city}"

        room = await ctx.step("reserve", reserve)
        when = await ctx.ask("When?")
        price = await ctx.step("price", lambda: log.append("priced") or 20)
        who = await ctx.ask("Who?")
        return f"{room}, {when}, {who}, {price}"

    return Story(scripted("Desk", call("book", {"city": "Ghent"}), "Booked.", tools=[book]), decide=answers)


@story
def a_blocking_body_that_asks_and_steps(log: Log) -> Story:
    @function_tool
    def book(ctx: ToolContext[Any], city: str) -> str:
        log.append("entered")
        room = ctx.step_sync("reserve", lambda: log.append("reserved") or f"room in {city}")
        when = ctx.ask_sync("When?")
        return f"{room}, {when}"

    return Story(scripted("Desk", call("book", {"city": "Ghent"}), "Booked.", tools=[book]), decide=answers)


@story
def two_bodies_that_ask_beside_each_other(log: Log) -> Story:
    @function_tool
    async def book(ctx: ToolContext[Any], city: str) -> str:
        when = await ctx.ask(f"When to {city}?")
        log.append((city, when))
        return f"{city} {when}"

    calls = [call("book", {"city": city}) for city in ("Ghent", "Rome")]
    inner = scripted("Inner", calls, "Both.", tools=[book])
    outer = scripted("Outer", call("inner", {"input": "Go."}), "Booked.", tools=[inner.as_tool()])
    return Story(outer, decide=answers, sorts=True)


@story
def a_question_that_is_rejected(log: Log) -> Story:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        return str(await ctx.ask("When?"))

    return Story(scripted("Desk", call("book"), "Booked.", tools=[book]), decide=lambda tool, asked: Reject("Never."))


# -- LangChain's vocabulary --------------------------------------------------------------------------


def office(log: Log, *steps: Any, middleware: Any = (), **options: Any) -> Any:
    """An agent of `create_agent`."""

    @tool
    def write_file(path: str, text: str = "") -> str:
        """Write a file."""
        log.append(("write_file", path, text))
        return f"wrote {path}"

    gate = HumanInTheLoopMiddleware({"write_file": True})
    made = create_agent(
        ScriptedModel(steps), [write_file, *options.pop("tools", ())], middleware=[gate, *middleware],
        name="Office", **options,
    )  # fmt: skip
    return made.agent


@story
def the_human_in_the_loop_middleware(log: Log) -> Story:
    def decide(tool: str, arguments: Any) -> Decision:
        by_path: dict[str, Decision] = {
            "a": Approve(), "b": Edit({"path": "bb", "text": "x"}), "c": Reject("Not c."), "d": Respond("d is there")
        }  # fmt: skip
        return by_path[arguments["path"]]

    calls = [call("write_file", {"path": path}) for path in "abc"]
    return Story(office(log, calls, "Done."), decide=decide, sorts=True)


@story
def hooks_around_model_and_tools(log: Log) -> Story:
    @before_model
    def before(state: Any, runtime: Any) -> None:
        log.append(("before", len(state["messages"])))

    @after_model
    def after(state: Any, runtime: Any) -> None:
        log.append(("after", type(state["messages"][-1]).__name__))

    @wrap_model_call
    async def around_model(request: Any, handler: Any) -> Any:
        log.append("model")
        return await handler(request)

    @wrap_tool_call
    async def around_tool(request: Any, handler: Any) -> Any:
        log.append(("tool", request.tool_call["name"]))
        return await handler(request)

    return Story(
        office(log, call("write_file", {"path": "a"}), "Done.", middleware=[before, after, around_model, around_tool])
    )


@story
def interrupts_in_a_tool_and_in_a_middleware(log: Log) -> Story:
    @before_model
    def ask(state: Any, runtime: Any) -> None:
        log.append(("may", interrupt("May the model be asked?")))

    @tool
    def book(city: str) -> str:
        """Book a room."""
        beds = interrupt("How many beds?")
        log.append(("book", city, beds))
        return f"{beds} beds in {city}"

    return Story(office(log, call("book", {"city": "Ghent"}), "Done.", middleware=[ask], tools=[book]), decide=answers)


@story
def updates_of_the_state(log: Log) -> Story:
    class Counting(AgentState):
        count: Annotated[int, operator.add]

    @tool
    def increase(runtime: ToolRuntime) -> Command:
        """Count."""
        log.append(("before", runtime.state.get("count")))
        return Command(update={"count": 1, "messages": [ToolMessage("counted", tool_call_id=runtime.tool_call_id)]})

    return Story(office(log, call("increase"), call("increase"), "Done.", tools=[increase], state_schema=Counting))


@pytest.mark.parametrize("name", STORIES)
async def test_a_story_comes_to_the_same_on_temporal(name: str, temporal: Server, tmp_path: Path) -> None:
    await check_story(STORIES[name], await temporal.client(), tmp_path)


async def test_a_step_is_in_the_journal_before_the_body_goes_on(temporal: Server, tmp_path: Path) -> None:
    """The workflow hears of a step at once, so that a worker that dies afterwards does not take it again."""
    async with SQLiteStore(tmp_path / "runs.db") as store:
        found: list[Any] = []

        @function_tool
        async def work(ctx: ToolContext[Any]) -> str:
            await ctx.step("first", lambda: 1)
            run = (await store.runs()).items[0].id
            async with asyncio.timeout(20):
                while not found:
                    await asyncio.sleep(0.02)  # the workflow writes
                    found.extend(fact for fact in (await store.read(run)).facts if type(fact) is Stepped)
            return "worked"

        agent = scripted("Desk", call("work"), "Done.", tools=[work])
        async with working(await temporal.client(), agent, store) as runs:
            assert await (await runs.start("Desk", "Go.")).result() == "Done."
        assert found
