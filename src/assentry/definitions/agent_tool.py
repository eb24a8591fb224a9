"""Agents as tools: another agent works on the call, in a branch of the same run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from ..core import allowed
from ..core.digest import digest
from ..core.facts import CallKind
from ..core.transcript import Item
from ..errors import InvalidArguments
from ..schema.parameters import Parameters
from .tool import Tool

Extractor = Callable[[Any], Any | Awaitable[Any]]
"""Makes the tool's output from the nested run's `RunResult`."""
OnStream = Callable[[dict[str, Any]], Any | Awaitable[Any]]
InputBuilder = Callable[[dict[str, Any]], str | list[Item] | Awaitable[str | list[Item]]]

AGENT_TOOL_OPTIONS = allowed.Options(
    **dict.fromkeys(("custom_output_extractor", "on_stream", "input_builder"), allowed.CALLABLE.or_none),
    max_turns=allowed.COUNT.or_none,
)


T = TypeVar("T", default=Any)
"""The type of the context, for annotations."""


class AgentBase(Generic[T]):
    """The base of agents, for the tools that lead to an agent."""

    name: str
    handoff_description: str | None


A = TypeVar("A", bound=AgentBase, default=Any)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AgentTool(Tool, Generic[A]):
    """A tool that is another agent; make it with `Agent.as_tool`. It has no body: the door opens a branch."""

    agent: A
    custom_output_extractor: Extractor | None = None
    on_stream: OnStream | None = None
    max_turns: int | None = None
    parameters: Parameters | None = None
    input_builder: InputBuilder | None = None
    kind: CallKind = "agent"

    def __post_init__(self) -> None:
        super().__post_init__()
        AGENT_TOOL_OPTIONS.check(f"Tool {self.name!r}", self)
        # The agent that works on the call is part of what a person approves, so the fingerprint covers its name.
        object.__setattr__(self, "fingerprint", digest({"tool": self.fingerprint, "agent": self.agent.name})[:32])

    @property
    def leads_to(self) -> str:
        """The name of the agent that works on a call."""
        return self.agent.name

    @property
    def shape(self) -> dict[str, Any] | None:
        """The schema with all its defaults, if the arguments have a user-defined type; else None."""
        return None if self.parameters is None else self.parameters.loose

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in; nothing is coerced."""
        return args if self.parameters is None else self.parameters.canonical(args)

    def bind(self, args: dict[str, Any]) -> Any:
        """Return the arguments once they are checked, or raise `InvalidArguments`."""
        if self.parameters is not None:
            self.parameters.bind(args)
        elif args.keys() != {"input"} or type(args["input"]) is not str:
            raise InvalidArguments('arguments: the only argument is "input", a text')
        return args


INPUT_TEXT = Parameters(
    {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "What the agent is told."}},
        "required": ["input"],
        "additionalProperties": False,
    },
    frozenset({"input"}),
)
"""One text argument, `input`."""
