"""The names of `agents.repl`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..definitions.agent import Agent
from ..runtime.config import DEFAULT_MAX_TURNS
from ..runtime.runner import Runner
from .absent import find_absent

__all__ = ["run_demo_loop"]

END = ("exit", "quit")


async def run_demo_loop(
    agent: Agent[Any], *, stream: bool = True, context: Any = None, max_turns: int = DEFAULT_MAX_TURNS
) -> None:
    """Talk to an agent on the command line, until the end of the input, `exit` or `quit`.

    A call that needs a person's approval is asked about on the command line too.
    """
    active: Any = agent
    talk: list[Any] = []
    while True:
        try:
            line = await asyncio.to_thread(input, " > ")
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if line.strip().lower() in END:
            return
        if line.strip():
            result = await _answer(active, [*talk, {"role": "user", "content": line}], stream, context, max_turns)
            active, talk = result.last_agent, result.to_input_list()


async def _answer(agent: Agent[Any], given: Any, stream: bool, context: Any, max_turns: int) -> Any:
    """Run the agent until it has answered; ask about each call that needs it."""
    options: dict[str, Any] = {"context": context, "max_turns": max_turns}
    while True:
        result: Any
        if stream:
            result = Runner.run_streamed(agent, given, **options)
            async for event in result.stream_events():
                _print_event(event)
            print()
        else:
            result = await Runner.run(agent, given, **options)
        if not result.interruptions:
            if not stream and result.final_output is not None:
                print(result.final_output)
            return result
        given, options = result.to_state(), {"context": context}
        for question in result.interruptions:
            said = await asyncio.to_thread(input, f"{question.tool_name} {question.arguments}: run it? [y/N] ")
            if said.strip().lower() in ("y", "yes"):
                given.approve(question)
            else:
                given.reject(question)


def _print_event(event: Any) -> None:
    if event.type == "raw_response_event" and getattr(event.data, "type", "") == "response.output_text.delta":
        print(event.data.delta, end="", flush=True)
    elif event.type == "agent_updated_stream_event":
        print(f"\n[Agent updated: {event.new_agent.name}]", flush=True)
    elif event.type == "run_item_stream_event" and event.item.type == "tool_call_item":
        print("\n[tool called]", flush=True)
    elif event.type == "run_item_stream_event" and event.item.type == "tool_call_output_item":
        print(f"\n[tool output: {event.item.output}]", flush=True)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
