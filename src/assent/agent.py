"""Agents: what users declare, and nothing that runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from typing_extensions import TypeVar

from .context import RunContextWrapper
from .core.digest import digest, holds
from .errors import InvalidDefinition
from .models.model import Model
from .tools.tool import Tool, qualified

T = TypeVar("T", default=Any)
Instructions = str | Callable[[RunContextWrapper[Any], "Agent[Any]"], str | Awaitable[str]]


@dataclass(eq=False, repr=False)
class Agent(Generic[T]):
    """A model with instructions and tools."""

    name: str
    instructions: Instructions | None = None
    """What the model is told first: text, or a function of context and agent that gives it."""
    tools: list[Tool] = field(default_factory=list)
    model: Model | None = None
    """The model; `RunConfig(model=...)` goes before it."""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name.strip() or not holds(self.name):
            raise InvalidDefinition(f"An agent needs a name, got {self.name!r:.80}.")
        told = self.instructions
        if told is not None and not callable(told) and not (type(told) is str and holds(told)):
            raise InvalidDefinition(
                f"Agent {self.name!r}: instructions must be text or a callable, got {self.instructions!r:.80}."
            )
        if self.model is not None and not hasattr(self.model, "stream"):
            raise InvalidDefinition(
                f"Agent {self.name!r}: model must be a Model, with a `stream` method, got {self.model!r:.80}."
            )
        self.tools = list(self.tools)
        by_name(self.name, self.tools)

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    def clone(self, **changes: Any) -> Agent[T]:
        """A copy with some things changed. The tools are in a list of its own."""
        return replace(self, **changes)


def by_name(agent: str, tools: list[Tool]) -> dict[str, Tool]:
    """An agent's tools by their names, which must differ."""
    out: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise InvalidDefinition(f"Agent {agent!r}: {tool!r:.80} is not a tool; decorate it with @function_tool.")
        if tool.name in out:
            raise InvalidDefinition(f"Agent {agent!r} has two tools named {tool.name!r}; rename one (name_override).")
        out[tool.name] = tool
    return out


def instructions_mark(agent: Agent[Any]) -> str:
    """What identifies an agent's instructions: a digest of the text, or the function's name."""
    told = agent.instructions
    if told is None:
        return ""
    return digest({"text": told})[:16] if isinstance(told, str) else qualified(told)
