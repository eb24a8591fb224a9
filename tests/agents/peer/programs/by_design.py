"""The differences on purpose: a line for each row of the guide that a program can see."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agents import Agent, RunContextWrapper, RunHooks, Runner, RunResult, SQLiteSession, Tool, function_tool


@function_tool(needs_approval=True)
def ask_first(name: str) -> str:
    """Do it, if a person agrees."""
    return "done"


@function_tool(failure_error_function=None)
def fail(name: str) -> str:
    """Fail."""
    raise LookupError("nothing there")


async def broken_rule(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
    raise RuntimeError("broken")


@function_tool(needs_approval=broken_rule)
def ruled(name: str) -> str:
    """Do it, if the rule says so."""
    return "done"


@function_tool
def plain(name: str) -> str:
    """Do it."""
    return "done"


class Starts(RunHooks[Any]):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.seen.append(agent.name)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Any, tool: Tool) -> None:
        self.seen.append(tool.name)


gated = Agent(name="Gated", tools=[ask_first])


async def pause(**options: Any) -> RunResult:
    return await Runner.run(gated, "Do it.", **options)


async def one_state() -> object:
    result = await pause()
    return result.to_state() is result.to_state()


async def resumed_twice() -> object:
    state = (await pause()).to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(gated, state)
    return (await Runner.run(gated, state)).final_output


async def finished() -> object:
    agent = Agent(name="Done")
    return (await Runner.run(agent, (await Runner.run(agent, "Hello.")).to_state())).final_output


async def decided_twice() -> object:
    state = (await pause()).to_state()
    [item] = state.get_interruptions()
    state.approve(item)
    state.reject(item)
    return (await Runner.run(gated, state)).final_output


async def items() -> object:
    result = await pause()
    listed = len(result.to_input_list())
    state = result.to_state()
    state.approve(result.interruptions[0])
    return listed, [item.type for item in (await Runner.run(gated, state)).new_items]


async def broken() -> object:
    return len((await Runner.run(Agent(name="Ruled", tools=[ruled]), "Do it.")).interruptions)


async def failed() -> object:
    return (await Runner.run(Agent(name="Fails", tools=[fail]), "Do it.")).final_output


async def started() -> object:
    hooks = Starts()
    state = (await pause(hooks=hooks)).to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(gated, state, hooks=hooks)
    return hooks.seen


async def inner() -> object:
    hooks = Starts()
    tool = Agent(name="Inner", tools=[plain]).as_tool(tool_name="inner", tool_description="Ask it.")
    await Runner.run(Agent(name="Outer", tools=[tool]), "Do it.", hooks=hooks)
    return hooks.seen


async def more_turns() -> object:
    state = (await pause(max_turns=1)).to_state()
    state.approve(state.get_interruptions()[0])
    return (await Runner.run(gated, state, max_turns=5)).final_output


async def waiting_session() -> object:
    session = SQLiteSession("one")
    await pause(session=session)
    return len(await session.get_items())


async def forgotten_session() -> object:
    state = (await pause(session=SQLiteSession("one"))).to_state()
    state.approve(state.get_interruptions()[0])
    return (await Runner.run(gated, state)).final_output


CASES: list[Callable[[], Awaitable[object]]] = [
    one_state,
    resumed_twice,
    finished,
    decided_twice,
    items,
    broken,
    failed,
    started,
    inner,
    more_turns,
    waiting_session,
    forgotten_session,
]


async def main() -> None:
    for case in CASES:
        try:
            told = await case()
        except Exception as error:
            told = f"raises {type(error).__name__}"
        print(f"{getattr(case, '__name__', '')}: {told}")


asyncio.run(main())
