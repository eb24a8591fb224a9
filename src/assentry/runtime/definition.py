"""Agent definitions as facts, and the check that a call's tool is still the one that was offered."""

from __future__ import annotations

from typing import Any

from ..core import facts as f
from ..core.digest import digest
from ..core.run import CallState
from ..definitions.agent import Agent, instructions_mark, model_name, schema_of
from ..definitions.tool import Tool, callable_mark
from ..errors import DefinitionChanged

ROOM = 1000
"""The maximum size, in bytes, of the tool marks in a `Defined` fact; above it the marks are left out."""


def resolve(state: CallState, tool: Tool | None) -> Tool | None:
    """Return the current tool if it is the one that the call was offered; None if the call was offered no tool.

    Raise `DefinitionChanged` if the tool is gone or has changed.
    """
    accepted = state.fingerprint or state.call.definition
    if accepted is None:
        return None
    if tool is None:
        raise DefinitionChanged(f"Tool {state.tool!r} is needed by call {state.call.id} and is gone; nothing ran.")
    if tool.fingerprint != accepted:
        raise DefinitionChanged(
            f"Tool {state.tool!r} is not what it was when call {state.call.id} was made; nothing ran. "
            'Load the state with on_change="ask" or "accept", or bring the old definition back.'
        )
    return tool


def describe_agent(agent: Agent[Any], tools: dict[str, Tool]) -> f.Defined:
    """Return the fact that describes an agent's definition; made anew when a part of the definition has changed."""
    parts = (
        tools,
        agent.name,
        agent.instructions,
        agent.prompt,
        model_name(agent),
        agent.output_type,
        agent.output_needs_approval,
        agent.tool_use_behavior,
    )
    if agent._defined is None or agent._defined[0] != parts:
        agent._defined = parts, _definition(agent, tools)
    made: f.Defined = agent._defined[1]
    return made


def _definition(agent: Agent[Any], tools: dict[str, Tool]) -> f.Defined:
    for tool in tools.values():
        tool.note_use()
    redact = {name: tuple(tool.redact) for name, tool in tools.items() if tool.redact}
    tools = {name: tool for name, tool in tools.items() if tool.source is None}  # a server's tools are its own
    every = digest({name: tool.fingerprint for name, tool in tools.items()})[:32]
    marks = {name: tool.fingerprint[:8] for name, tool in tools.items()}
    if sum(map(len, marks)) + 14 * len(marks) > ROOM:
        marks = {}
    model = model_name(agent)
    finishing = agent.tool_use_behavior != "run_llm_again"
    return f.Defined(
        agent.name, every, marks, model, instructions_mark(agent), finishing, output_mark(agent), redact=redact
    )


def output_mark(agent: Agent[Any]) -> str:
    """Return a mark of an agent's output type and approval rule; empty for text that needs no approval."""
    shape, rule = schema_of(agent), agent.output_needs_approval
    if shape is None and rule is False:
        return ""
    parts = {"type": shape and shape.fingerprint, "rule": rule if type(rule) is bool else callable_mark(rule)}
    return digest(parts)[:16]


def same_definition(one: f.Defined, other: f.Defined) -> bool:
    """Return True if two definitions are the same. The arguments to mask are not part of one."""
    return (one.agent, one.digest, one.model, one.instructions, one.finishing, one.output) == (
        other.agent,
        other.digest,
        other.model,
        other.instructions,
        other.finishing,
        other.output,
    )
