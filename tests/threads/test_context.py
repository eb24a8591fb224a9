"""The context of a thread: kept with the run if it can be, and asked for again before anything is recorded."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from assentry import InvalidDefinition, InvalidInput, ToolContext
from assentry.errors import ContextMissing
from assentry.testing import call
from assentry.threads import HumanInTheLoopMiddleware, InMemorySaver, ThreadAgent, create_agent
from tests.threads.support import Paired, decide, say, texts, thread


@dataclass
class Who:
    name: str
    born: datetime.date = datetime.date(2000, 1, 2)


@dataclass
class Name:
    name: str


class Model(BaseModel):
    name: str


class Dict(TypedDict):
    name: str


class Plain:
    name = "ann"


def greet(ctx: ToolContext[Any]) -> str:
    """Greet."""
    return repr(ctx.context)


def greeter(*steps: Any, **options: Any) -> ThreadAgent:
    gate = HumanInTheLoopMiddleware({"greet": True})
    steps = steps or (call("greet"), "done")
    return create_agent(Paired(steps), [greet], middleware=[gate], checkpointer=InMemorySaver(), **options)


@pytest.mark.parametrize(
    ("schema", "context"), [(Who, Who("ann")), (Model, Model(name="ann")), (Dict, {"name": "ann"}), (None, {"a": 1})]
)
async def test_a_context_is_kept_with_the_run(schema: Any, context: Any) -> None:
    agent = greeter(context_schema=schema)
    await agent.ainvoke(say("go"), thread(), context=context)
    result = await agent.ainvoke(decide("approve"), thread())
    assert result["messages"][2].content == repr(context)


@pytest.mark.parametrize(("schema", "made"), [(Who, Who("ann")), (Model, Model(name="ann")), (Dict, {"name": "ann"})])
async def test_a_mapping_becomes_the_type_that_was_declared_at_once(schema: Any, made: Any) -> None:
    agent = create_agent(Paired([call("greet"), "done"]), [greet], checkpointer=InMemorySaver(), context_schema=schema)
    result = await agent.ainvoke(say("go"), thread(), context={"name": "ann"})
    assert result["messages"][2].content == repr(made)


@pytest.mark.parametrize("context", [{"usr": 1}, {"name": 1}, "ann", Plain()])
async def test_a_context_that_is_not_what_was_declared_is_refused_and_nothing_begins(context: Any) -> None:
    agent = greeter(context_schema=Who)
    with pytest.raises(InvalidInput, match="The context is not what context_schema says"):
        await agent.ainvoke(say("go"), thread(), context=context)
    assert (await agent.aget_state(thread())).values == {}
    assert "__interrupt__" in await agent.ainvoke(say("go"), thread(), context={"name": "ann"})


@pytest.mark.parametrize("declared", [Plain, 7])
def test_a_schema_that_is_none_is_refused(declared: Any) -> None:
    with pytest.raises(InvalidDefinition, match="context_schema is a dataclass"):
        greeter(context_schema=declared)


async def drained(chunks: AsyncIterator[Any]) -> None:
    async for _ in chunks:
        pass


ANSWERS: list[Any] = [decide("approve"), None, say("and?")]


@pytest.mark.filterwarnings("ignore:The context of type Plain was left out")
@pytest.mark.parametrize("context", [Plain(), Name("ann"), Model(name="ann")])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_context_that_is_not_kept_is_asked_for_and_nothing_is_recorded(context: Any, streams: bool) -> None:
    agent = greeter(call("greet"), "done")
    await agent.ainvoke(say("go"), thread(), context=context)
    for answer in ANSWERS:
        options: Any = {"on_pending": "keep"} if isinstance(answer, dict) else {}
        work = drained(agent.astream(answer, thread(), **options)) if streams else None
        with pytest.raises(ContextMissing, match=r"context=\.\.\.\)\. Nothing was recorded"):
            await (work or agent.ainvoke(answer, thread(), **options))
    result = await agent.ainvoke(decide("approve"), thread(), context=context)
    assert texts(result)[2:] == [("tool", repr(context)), ("ai", "done")]


async def test_a_kept_context_that_fits_no_more_is_asked_for() -> None:
    store = InMemorySaver()
    gate = HumanInTheLoopMiddleware({"greet": True})
    before = create_agent(Paired([call("greet")]), [greet], middleware=[gate], checkpointer=store, context_schema=Dict)
    await before.ainvoke(say("go"), thread(), context={"name": "ann"})

    @dataclass
    class Other:
        title: str

    after = create_agent(Paired(["ok"]), [greet], middleware=[gate], checkpointer=store, context_schema=Other)
    with pytest.raises(ContextMissing, match=r"kept is not what context_schema says: title: Field required; give it"):
        await after.ainvoke(decide("approve"), thread())
    assert (await after.aget_state(thread())).interrupts
    result = await after.ainvoke(decide("approve"), thread(), context={"title": "Dr"})
    assert texts(result)[-1] == ("ai", "ok")


@pytest.mark.parametrize("ends", [False, True])
async def test_a_context_that_a_body_spoils_is_told_and_what_the_body_did_is_kept(ends: bool) -> None:
    ran: list[str] = []

    def spoil(ctx: ToolContext[Any]) -> str:
        """Put something into the context that cannot be kept."""
        ran.append("spoilt")
        ctx.context.name = Plain()
        return "spoilt"

    steps = [call("spoil"), "done"] if ends else [call("spoil"), call("greet"), "done"]
    gate = HumanInTheLoopMiddleware({"greet": True})
    agent = create_agent(
        Paired([*steps, "again"]),
        [spoil, greet],
        middleware=[gate],
        checkpointer=InMemorySaver(),
        context_schema=Name,
    )
    with pytest.raises(ContextMissing, match="The context cannot be saved: PydanticSerializationError"):
        await agent.ainvoke(say("go"), thread(), context=Name("ann"))
    state = await agent.aget_state(thread())
    assert [m.content for m in state.values["messages"] if m.type == "tool"] == ["spoilt"]
    assert bool(state.interrupts) is not ends
    if state.interrupts:
        await agent.ainvoke(decide("approve"), thread(), context=Name("bob"))
    assert ran == ["spoilt"]


async def test_a_context_that_cannot_be_kept_at_all_begins_nothing() -> None:
    agent = greeter(context_schema=Name)
    with pytest.raises(ContextMissing, match="The context cannot be saved"):
        await agent.ainvoke(say("go"), thread(), context=Name(Plain()))  # type: ignore[arg-type]
