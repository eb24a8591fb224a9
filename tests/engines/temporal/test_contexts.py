"""Contexts of runs on Temporal: each kind, and changes that bodies make."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import Approve, RunConfig, RunContextWrapper, ToolContext, function_tool
from assentry.errors import ContextMissing, UsageError
from assentry.store import SQLiteStore
from assentry.testing import call

from .story import scripted
from .support import Server, working

pytestmark = pytest.mark.temporal


@dataclasses.dataclass
class Cart:
    owner: str
    items: list[str] = dataclasses.field(default_factory=list)


class Basket(BaseModel):
    owner: str
    items: list[str] = []


def items_of(context: Any) -> list[str]:
    items: list[str] = context["items"] if isinstance(context, dict) else context.items
    return items


async def instructions(ctx: RunContextWrapper[Any], agent: Any) -> str:
    return f"In the cart: {', '.join(items_of(ctx.context)) or 'nothing'}."


@function_tool(needs_approval=True)
async def add(ctx: ToolContext[Any], item: str) -> str:
    items_of(ctx.context).append(item)
    return f"{len(items_of(ctx.context))} items"


def shop() -> Any:
    return scripted(
        "Shop", call("add", {"item": "lamp"}), call("add", {"item": "chair"}), "Done.",
        tools=[add], instructions=instructions,
    )  # fmt: skip


HEARD = ["In the cart: nothing.", "In the cart: lamp.", "In the cart: lamp, chair."]


async def seen_through(runs: Any, run: Any) -> Any:
    """Approve everything, and return the output."""
    while (now := await run.settled()).questions:
        for each in now.questions:
            await runs.decide(each.id, Approve(), by="ann", digest=each.digest)
    assert now.failure is None, now.failure
    return await run.result()


def heard(*agents: Any) -> list[str]:
    requests = [request for agent in agents for request in agent.model.requests]
    return [each.instructions for each in sorted(requests, key=lambda each: len(each.input))]


@pytest.mark.parametrize(
    ("context", "config"),
    [
        ({"owner": "ann", "items": []}, RunConfig()),
        (Cart("ann"), RunConfig(context_deserializer=lambda value: Cart(**value))),
        (Basket(owner="ann"), RunConfig(context_deserializer=Basket.model_validate)),
        (
            {"owner": "ann", "items": []},
            RunConfig(context_serializer=dataclasses.asdict, context_deserializer=lambda value: Cart(**value)),
        ),
    ],
    ids=["mapping", "dataclass", "pydantic", "serializer"],
)
async def test_a_body_changes_the_context_and_the_next_instructions_have_it(
    context: Any, config: RunConfig, temporal: Server, tmp_path: Path
) -> None:
    agent = shop()
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(await temporal.client(), agent, store, run_config=config) as runs:
            run = await runs.start("Shop", "Go.", context=context)
            assert await seen_through(runs, run) == "Done."
        assert heard(agent) == HEARD
        assert (await store.load(run.id)).context.json == b'{"items":["lamp","chair"],"owner":"ann"}'


async def test_a_change_reaches_another_worker(temporal: Server, tmp_path: Path) -> None:
    """Bodies on one worker, model calls on another: each has its own process's objects only by the context's JSON."""
    from assentry.engines.temporal import ActivityOptions

    client, front, back = await temporal.client(), shop(), shop()
    there = {"add": ActivityOptions(task_queue="bodies")}
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(client, front, store, queue="models", tool_options=there) as runs,
        working(client, back, store, queue="bodies"),
    ):
        run = await runs.start("Shop", "Go.", context={"items": []})
        assert await seen_through(runs, run) == "Done."
    assert heard(front) == HEARD
    assert heard(back) == []


async def test_a_worker_has_a_context_of_its_own(temporal: Server, tmp_path: Path) -> None:
    made: list[str] = []
    cart = Cart("worker")

    async def make(record: Any) -> Cart:
        made.append(record.agent)
        return cart

    agent = shop()
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(await temporal.client(), agent, store, context=make) as runs:
            run = await runs.start("Shop", "Go.")
            assert await seen_through(runs, run) == "Done."
            own = await runs.start("Shop", "Go.", context={"items": ["own"]})  # the script is at its end
            assert (await own.settled()).failure is not None
        assert cart.items == ["lamp", "chair"]
        assert set(made) == {"Shop"}
        assert agent.model.requests[3].instructions == "In the cart: own."
        assert (await store.load(run.id)).context.json is None


async def test_a_context_that_cannot_be_saved(temporal: Server, tmp_path: Path) -> None:
    class Live:
        """An object that only this process has."""

    async with SQLiteStore(tmp_path / "runs.db") as store, working(await temporal.client(), shop(), store) as runs:
        with pytest.raises(ContextMissing, match="cannot be saved"):
            await runs.start("Shop", "Go.", context={"items": [object()]})
        with pytest.raises(UsageError, match=r"Live cannot be sent to a worker"):
            await runs.start("Shop", "Go.", context=Live())


async def test_a_body_that_makes_the_context_unsavable(temporal: Server, tmp_path: Path) -> None:
    """The body has run: its outcome is recorded, and the run says what holds it up."""

    @function_tool
    async def spoil(ctx: ToolContext[Any]) -> str:
        ctx.context["live"] = object()
        return "spoiled"

    agent = scripted("Shop", call("spoil"), "Done.", tools=[spoil])
    async with SQLiteStore(tmp_path / "runs.db") as store, working(await temporal.client(), agent, store) as runs:
        run = await runs.start("Shop", "Go.", context={"items": []})
        now = await run.settled()
        facts = (await store.read(run.id)).facts
        assert [type(fact).__name__ for fact in facts if getattr(fact, "call", None)][-2:] == [
            "Started",
            "Finished",
        ]
        assert now.failure is not None and now.failure.kind == "ContextMissing"
        await runs.client.get_workflow_handle(run.id).terminate()
