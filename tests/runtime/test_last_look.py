"""What was shown is what runs, to the last moment: the door looks when all waits are over, and then enters the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from assentry import (
    Agent,
    Approve,
    FunctionTool,
    NotAsShown,
    OutcomeUnknown,
    Preview,
    Respond,
    RunConfig,
    RunHooks,
    Runner,
    RunResult,
    ToolContext,
    function_tool,
)
from assentry.core.facts import Left
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, ToolMessage, create_agent, wrap_tool_call
from tests.runtime.support import scripted
from tests.runtime.test_servers import Server


class World:
    """Something that a call relies on, which others may change whenever the event loop turns."""

    def __init__(self) -> None:
        self.version = 7
        self.turns = 0
        """The number of times that the event loop has turned: whatever is awaited for real moves it."""
        self.looked: list[int] = []
        self.ran: list[tuple[int, int]] = []
        """The version that each body found, and the turns of the loop since the last look."""

    async def look(self, ctx: Any, args: Any) -> Preview:
        await asyncio.sleep(0)
        self.looked.append(self.turns)
        return Preview(f"ship version {self.version}", preconditions={"version": self.version})

    def enter(self) -> None:
        self.ran.append((self.version, self.turns - self.looked[-1]))

    def tool(self, **options: Any) -> FunctionTool:
        @function_tool(needs_approval=True, preview=self.look, **options)
        async def ship(n: int = 1) -> str:
            """Ship."""
            self.enter()
            return "shipped"

        return ship

    @asynccontextmanager
    async def turning(self) -> AsyncIterator[None]:
        """Count the loop's turns."""

        async def count() -> None:
            while True:
                self.turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(count())
        try:
            yield
        finally:
            task.cancel()


class Moving(RunHooks[Any]):
    """Hooks that take their time, while the world may move."""

    def __init__(self, move: Callable[[], Any] = lambda: None) -> None:
        self.move = move
        self.told: list[tuple[str, Any]] = []

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.told.append(("start", tool.name))
        await asyncio.sleep(0)
        self.move()

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.told.append(("end", result))


class SlowStore(MemoryStore):
    """A store whose write of `Started` takes a while."""

    def __init__(self, move: Callable[[], Any]) -> None:
        super().__init__()
        self.move = move

    async def append(self, change: Any) -> Any:
        stored = await super().append(change)
        if any(type(fact).__name__ == "Started" for fact in change.facts):
            await asyncio.sleep(0)
            self.move()
        return stored


def kinds(state: Any) -> list[str]:
    """The kinds of a run's facts, in order."""
    return [fact["fact"] for fact in state.to_json()["journal"]]


async def approved(agent: Agent[Any], store: Store | None = None) -> Any:
    """A run whose first call a person has approved."""
    result = await Runner.run(agent, "go", store=store)
    [question] = result.interruptions
    if store is not None:
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        return await store.load(result.run_id)
    state = result.to_state()
    state.approve(question, by="ann")
    return state


async def approve_again(agent: Agent[Any], result: RunResult, store: Store | None = None, **options: Any) -> RunResult:
    [question] = result.interruptions
    if store is not None:
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        return await Runner.run(agent, await store.load(result.run_id), store=store, **options)
    state = result.to_state()
    state.approve(question, by="ann")
    return await Runner.run(agent, state, **options)


# -- the world moves during the last waits ---------------------------------------------------------


@pytest.mark.parametrize("with_store", [False, True])
async def test_a_world_that_moves_while_a_hook_is_told_is_asked_about_again(with_store: bool) -> None:
    world = World()

    def move() -> None:
        world.version = 8

    agent, store, hooks = scripted(call("ship"), "done", tools=[world.tool()]), MemoryStore(), Moving(move)
    kept = store if with_store else None
    result = await Runner.run(agent, await approved(agent, kept), hooks=hooks, store=kept)
    assert world.ran == []
    [question] = result.interruptions
    assert "version was 7 and is 8." in question.reason
    assert question.preview is not None and question.preview.sentence == "ship version 8"
    assert kinds(result.to_state())[-2:] == ["left", "asked"]
    assert hooks.told == [("start", "ship"), ("end", question.reason)]
    hooks.move = lambda: None
    result = await approve_again(agent, result, kept, hooks=hooks)
    assert result.final_output == "done"
    assert [version for version, _ in world.ran] == [8]


async def test_a_world_that_moves_while_started_is_written_is_asked_about_again() -> None:
    world = World()

    def move() -> None:
        world.version = 8

    agent, store = scripted(call("ship"), "done", tools=[world.tool()]), SlowStore(move)
    result = await Runner.run(agent, await approved(agent, store), store=store)
    assert world.ran == []
    assert len(result.interruptions) == 1
    assert kinds(result.to_state())[-3:] == ["started", "left", "asked"]
    stored = await store.read(result.run_id)
    assert [type(fact).__name__ for fact in stored.facts][-3:] == ["Started", "Left", "Asked"]
    store.move = lambda: None
    assert (await approve_again(agent, result, store)).final_output == "done"
    assert [version for version, _ in world.ran] == [8]


async def test_a_look_that_fails_after_started_leaves_the_attempt_and_no_doubt() -> None:
    server = Server()
    agent = Agent("agent", mcp_servers=[server], model=ScriptedModel([call("write", {"path": "x"}), "done"]))

    def fall() -> None:
        server.now = {"write": 1}  # type: ignore[dict-item]  # the listing cannot be used

    state = await approved(agent)
    with pytest.raises(Exception, match="description") as raised:
        await Runner.run(agent, state, hooks=Moving(fall))
    assert server.ran == []
    left: Any = raised.value
    assert kinds(left.state)[-1] == "left"
    server.now = {"write": "Write a file."}
    assert (await Runner.run(agent, left.state)).final_output == "done"
    assert len(server.ran) == 1


async def test_a_server_that_changes_its_tool_during_the_last_waits_is_asked_about_again() -> None:
    server = Server()
    agent = Agent("agent", mcp_servers=[server], model=ScriptedModel([call("write", {"path": "x"}), "done"]))

    def change() -> None:
        server.now = {"write": "Write a file, in euros."}

    result = await Runner.run(agent, await approved(agent), hooks=Moving(change))
    assert server.ran == []
    [question] = result.interruptions
    assert "has changed its tool 'write'" in question.reason
    assert kinds(result.to_state())[-4:] == ["started", "left", "redefined", "asked"]
    assert (await approve_again(agent, result)).final_output == "done"


async def test_a_delegation_is_looked_at_after_its_hooks_too() -> None:
    world = World()

    def move() -> None:
        world.version = 8

    inner = scripted("inner done", name="inner")
    helper = replace(inner.as_tool("helper", "Help.", needs_approval=True), preview=world.look)
    agent = scripted(call("helper", {"input": "x"}), "done", tools=[helper])
    hooks = Moving(move)
    result = await Runner.run(agent, await approved(agent), hooks=hooks)
    assert len(result.interruptions) == 1
    assert inner.model.requests == []  # type: ignore[union-attr]
    assert hooks.told == [("start", "helper"), ("end", result.interruptions[0].reason)]


# -- a body that is entered again ------------------------------------------------------------------


async def test_a_body_that_is_entered_again_after_its_question_is_looked_at_again() -> None:
    world, steps = World(), []

    @function_tool(needs_approval=True, preview=world.look)
    async def ship(ctx: ToolContext[Any]) -> str:
        """Ship."""
        await ctx.step("reserve", lambda: steps.append(world.version))
        answer = await ctx.ask("Which way?", schema=str)
        world.enter()
        return f"shipped by {answer}"

    agent = scripted(call("ship"), "done", tools=[ship])
    result = await Runner.run(agent, await approved(agent))
    [question] = result.interruptions
    world.version = 8  # while the person thinks about the answer
    state = result.to_state()
    state.respond(question, "air", by="ann")
    result = await Runner.run(agent, state)
    assert world.ran == []
    [again] = result.interruptions
    assert again.kind == "approval" and "version was 7 and is 8." in again.reason
    result = await approve_again(agent, result)
    assert result.final_output == "done"
    assert [version for version, _ in world.ran] == [8]
    assert steps == [7], "the recorded step and the answer are kept"


async def test_an_edited_call_that_asks_is_compared_with_what_was_shown_before_the_edit() -> None:
    world = World()

    @function_tool(needs_approval=True, preview=world.look)
    async def ship(ctx: ToolContext[Any], n: int = 1) -> str:
        """Ship."""
        await ctx.ask("Which way?", schema=str)
        world.enter()
        return "shipped"

    agent = scripted(call("ship"), "done", tools=[ship])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {"n": 2}, by="ann")
    result = await Runner.run(agent, state)
    world.version = 8
    state = result.to_state()
    state.respond(result.interruptions[0], "air", by="ann")
    result = await Runner.run(agent, state)
    assert world.ran == [] and "version was 7 and is 8." in result.interruptions[0].reason


@pytest.mark.parametrize("moves", [False, True])
async def test_a_call_that_is_run_again_after_a_doubt_is_looked_at_too(moves: bool) -> None:
    world = World()

    @function_tool(needs_approval=True, preview=world.look)
    async def ship() -> str:
        """Ship."""
        world.enter()
        if len(world.ran) == 1:
            world.version += moves
            raise OutcomeUnknown("The line went dead.")
        return "shipped"

    agent = scripted(call("ship"), "done", tools=[ship])
    result = await Runner.run(agent, await approved(agent))
    assert result.interruptions[0].kind == "doubt"
    result = await approve_again(agent, result)
    if moves:
        [question] = result.interruptions
        assert question.kind == "approval" and "version was 7 and is 8." in question.reason
        assert len(world.ran) == 1
        result = await approve_again(agent, result)
    assert result.final_output == "done" and len(world.ran) == 2


async def test_an_idempotent_tool_does_not_run_again_by_itself_on_a_world_that_moved() -> None:
    world = World()

    @function_tool(needs_approval=True, preview=world.look, idempotent=True)
    async def ship() -> str:
        """Ship."""
        world.enter()
        if len(world.ran) == 1:
            world.version = 8
            raise OutcomeUnknown("The line went dead.")
        return "shipped"

    agent = scripted(call("ship"), "done", tools=[ship])
    result = await Runner.run(agent, await approved(agent))
    assert len(world.ran) == 1
    assert "version was 7 and is 8." in result.interruptions[0].reason
    assert (await approve_again(agent, result)).final_output == "done"


# -- a body that finds it itself -------------------------------------------------------------------


async def test_a_body_that_finds_something_not_as_shown_is_asked_about_again() -> None:
    world = World()

    @function_tool(needs_approval=True, preview=world.look)
    async def ship(ctx: ToolContext[Any]) -> str:
        """Ship."""
        found, world.version = world.version, 8  # another process, inside the body
        if ctx.preconditions != {"version": world.version}:
            raise NotAsShown(f"The version is {world.version}.")
        world.ran.append((found, 0))
        return "shipped"

    agent, hooks = scripted(call("ship"), "done", tools=[ship]), Moving()
    result = await Runner.run(agent, await approved(agent), hooks=hooks)
    assert world.ran == []
    [question] = result.interruptions
    assert "version was 7 and is 8." in question.reason
    assert question.preview is not None and question.preview.sentence == "ship version 8"
    assert hooks.told[-1] == ("end", question.reason)
    assert (await approve_again(agent, result)).final_output == "done"
    assert world.ran == [(8, 0)]


async def test_what_only_the_body_can_see_is_asked_about_in_its_words() -> None:
    tries: list[int] = []

    @function_tool(needs_approval=True)
    async def ship() -> str:
        """Ship."""
        tries.append(1)
        if len(tries) == 1:
            raise NotAsShown("The order was split.")
        return "shipped"

    agent = scripted(call("ship"), "done", tools=[ship])
    result = await Runner.run(agent, await approved(agent))
    [question] = result.interruptions
    assert question.kind == "approval" and question.reason.endswith("it did not run. The order was split.")
    assert (await approve_again(agent, result)).final_output == "done"


async def test_what_no_preview_showed_has_no_preconditions() -> None:
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    async def ship(ctx: ToolContext[Any]) -> str:
        """Ship."""
        seen.append(ctx.preconditions)
        return "shipped"

    agent = scripted(call("ship"), "done", tools=[ship])
    await Runner.run(agent, await approved(agent))
    assert seen == [{}]


# -- code around the body --------------------------------------------------------------------------


def thread(world: World, around: Any, **options: Any) -> Any:
    model = ScriptedModel([call("ship"), "done"])
    gate = HumanInTheLoopMiddleware(interrupt_on={"ship": True})
    return create_agent(
        model=model, tools=[world.tool(**options)], middleware=[gate, around], checkpointer=InMemorySaver()
    )


CONFIG = {"configurable": {"thread_id": "1"}}
GO = {"messages": [{"role": "user", "content": "go"}]}
YES = Command(resume={"decisions": [{"type": "approve"}]})


async def test_middleware_that_waits_before_its_handler_does_not_outlast_the_look() -> None:
    world = World()

    @wrap_tool_call
    async def around(request: Any, handler: Any) -> Any:
        await asyncio.sleep(0)
        world.version = 8 if not world.ran and world.version == 7 else world.version
        return await handler(request)

    agent = thread(world, around)
    await agent.ainvoke(GO, CONFIG)
    result = await agent.ainvoke(YES, CONFIG)
    assert world.ran == []
    [interrupt] = result["__interrupt__"]
    assert "version was 7 and is 8." in interrupt.value["action_requests"][0]["description"]
    result = await agent.ainvoke(YES, CONFIG)
    assert result["messages"][-1].content == "done"
    assert [version for version, _ in world.ran] == [8]


async def test_each_call_of_the_handler_is_looked_at() -> None:
    world, calls = World(), []

    @wrap_tool_call
    async def around(request: Any, handler: Any) -> Any:
        calls.append(await handler(request))
        world.version += 1
        return await handler(request)

    agent = thread(world, around, idempotent=True)
    await agent.ainvoke(GO, CONFIG)
    result = await agent.ainvoke(YES, CONFIG)
    assert [version for version, _ in world.ran] == [7], "the second call of the handler ran on nothing unseen"
    assert "version was 7 and is 8." in result["__interrupt__"][0].value["action_requests"][0]["description"]
    assert isinstance(calls[0], ToolMessage)


async def test_an_attempt_whose_body_is_under_way_is_not_left_as_if_nothing_was_done() -> None:
    """Code around the body may call its handler twice at once, if the tool is idempotent."""
    world = World()
    model = ScriptedModel([call("ship"), "done"])
    inside, over = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=True, preview=world.look, idempotent=True)
    async def ship(n: int = 1) -> str:
        """Ship."""
        world.enter()
        inside.set()
        await over.wait()
        return "shipped"

    @wrap_tool_call
    async def around(request: Any, handler: Any) -> Any:
        first = asyncio.ensure_future(handler(request))
        await inside.wait()
        world.version += 1
        try:
            return await handler(request)
        finally:
            over.set()
            await first

    gate = HumanInTheLoopMiddleware(interrupt_on={"ship": True})
    store = MemoryStore()
    agent = create_agent(model=model, tools=[ship], middleware=[gate, around], checkpointer=store)
    await agent.ainvoke(GO, CONFIG)
    await agent.ainvoke(YES, CONFIG)
    assert [version for version, _ in world.ran] == [7]
    stored = await store.newest("1")
    assert stored is not None
    [left] = [fact for fact in stored.facts if isinstance(fact, Left)]
    assert left.by == "tool", "the body was entered, so a person hears of an attempt that may have done something"


async def test_a_handler_that_looked_before_another_found_a_change_enters_nothing() -> None:
    world = World()
    looks: list[asyncio.Event] = []
    slow = asyncio.Event()

    async def look(ctx: Any, args: Any) -> Preview:
        shown = await world.look(ctx, args)
        if looks:
            looks.pop().set()
            await slow.wait()  # what it has seen is old by then
        return shown

    @function_tool(needs_approval=True, preview=look, idempotent=True)
    async def ship(n: int = 1) -> str:
        """Ship."""
        world.enter()
        return "shipped"

    @wrap_tool_call
    async def around(request: Any, handler: Any) -> Any:
        if world.version != 7:
            return await handler(request)
        looks.append(looked := asyncio.Event())
        first = asyncio.ensure_future(handler(request))
        await looked.wait()
        world.version = 8
        try:
            return await handler(request)
        finally:
            slow.set()
            await asyncio.wait([first])

    gate = HumanInTheLoopMiddleware(interrupt_on={"ship": True})
    model = ScriptedModel([call("ship"), "done"])
    agent = create_agent(model=model, tools=[ship], middleware=[gate, around], checkpointer=InMemorySaver())
    await agent.ainvoke(GO, CONFIG)
    result = await agent.ainvoke(YES, CONFIG)
    assert world.ran == []
    assert "version was 7 and is 8." in result["__interrupt__"][0].value["action_requests"][0]["description"]
    await agent.ainvoke(YES, CONFIG)
    assert [version for version, _ in world.ran] == [8]


# -- the next sibling ------------------------------------------------------------------------------

WAYS = ["plain", "hooks", "memory", "sqlite", "both", "batch", "asks", "code", "parallel", "nested"]


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_awaited_between_the_last_look_and_the_body(way: str, tmp_path: Any) -> None:
    world = World()
    store: Store | None = {
        "memory": MemoryStore,
        "both": MemoryStore,
        "sqlite": lambda: SQLiteStore(tmp_path / "runs.db"),
    }.get(way, lambda: None)()
    options: dict[str, Any] = {"store": store}
    if way in ("hooks", "both", "nested"):
        options["hooks"] = Moving()
    if way == "batch":
        options["run_config"] = RunConfig(release="batch")
    if way == "code":
        agent = scripted(
            call("ship"), "done", tools=[world.tool(on_approval=lambda ctx, item: {"approve": True, "reason": "ok"})]
        )
    elif way == "asks":

        @function_tool(needs_approval=True, preview=world.look)
        async def ship(ctx: ToolContext[Any]) -> str:
            """Ship."""
            world.enter()
            await ctx.ask("Which way?", schema=str)
            return "shipped"

        agent = scripted(call("ship"), "done", tools=[ship])
    elif way == "nested":
        inner = scripted(call("ship"), "inner done", tools=[world.tool()], name="inner")
        agent = scripted(call("helper", {"input": "x"}), "done", tools=[inner.as_tool("helper", "Help.")])
    else:
        calls = [call("ship", {"n": n}) for n in range(3 if way == "parallel" else 1)]
        agent = scripted(calls, "done", tools=[world.tool()])
    async with world.turning():
        result = await Runner.run(agent, "go", **options)
        while result.interruptions:
            state = result.to_state()
            for question in result.interruptions:
                decision = Respond("air") if question.kind == "input" else Approve()
                if store is None:
                    state.decide(question.id, decision, by="ann", digest=question.digest)
                else:
                    await store.decide(question.id, decision, by="ann", digest=question.digest)
            result = await Runner.run(agent, state if store is None else await store.load(result.run_id), **options)
    assert result.final_output == "done"
    assert world.ran == [(7, 0)] * {"parallel": 3, "asks": 2}.get(way, 1)
    if store is not None:
        await store.close()


async def test_nothing_is_awaited_between_the_last_look_and_a_body_with_middleware() -> None:
    world = World()

    @wrap_tool_call
    async def around(request: Any, handler: Any) -> Any:
        await asyncio.sleep(0)
        return await handler(request)

    agent = thread(world, around)
    async with world.turning():
        await agent.ainvoke(GO, CONFIG)
        await agent.ainvoke(YES, CONFIG)
    assert world.ran == [(7, 0)]
