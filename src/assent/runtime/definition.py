"""What an agent was when a call was made, and whether its tools still are that."""

from __future__ import annotations

from typing import Any

from ..agent import Agent, instructions_mark
from ..core import facts as f
from ..core.digest import digest
from ..core.run import CallState
from ..errors import DefinitionChanged
from ..tools.tool import Tool

Path = tuple[str, ...]

ROOM = 1000
"""How many bytes of a saved run may say which tools an agent has."""


def resolve(state: CallState, name: str, tools: dict[str, Tool]) -> Tool | None:
    """The tool a call was offered, among today's; `DefinitionChanged` if it is gone or another one."""
    offered = state.call.definition if state.chosen is None else state.fingerprint
    if offered is None:
        return None
    tool = tools.get(name)
    if tool is None:
        raise DefinitionChanged(f"Tool {name!r} is needed by call {state.call.id} and is gone; nothing ran.")
    if tool.fingerprint != offered and tool.fingerprint != state.fingerprint:
        raise DefinitionChanged(
            f"Tool {name!r} is not what it was when call {state.call.id} was made; nothing ran. "
            'Load the state with on_change="ask" or "accept", or bring the old definition back.'
        )
    return tool


def definition(agent: Agent[Any], tools: dict[str, Tool], path: Path = ()) -> f.Defined:
    """The fact that says how an agent is defined."""
    every = digest({name: tool.fingerprint for name, tool in tools.items()})[:32]
    marks = {name: tool.fingerprint[:8] for name, tool in tools.items()}
    if sum(map(len, marks)) + 14 * len(marks) > ROOM:
        marks = {}
    model = agent.model.name if agent.model is not None else ""
    return f.Defined(agent.name, every, marks, model, instructions_mark(agent), path=path)


def same_definition(one: f.Defined, other: f.Defined) -> bool:
    """Whether two definitions say the same."""
    return (one.agent, one.digest, one.model, one.instructions, one.finishing) == (
        other.agent,
        other.digest,
        other.model,
        other.instructions,
        other.finishing,
    )
