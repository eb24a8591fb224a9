"""The agent of a live session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypeVar

from ..definitions.agent import Agent
from ..definitions.handoff import Handoff
from ..definitions.hosted_tool import HostedTool
from ..errors import InvalidDefinition

T = TypeVar("T", default=Any)

NOT_LIVE = ("output_type", "output_needs_approval", "input_guardrails", "tool_use_behavior")
"""The options that need a final output, or an input that waits. A live conversation has neither."""


@dataclass(eq=False, repr=False)
class RealtimeAgent(Agent[T]):
    """An agent that talks: its tools, handoffs, rules and output guardrails are those of any agent.

    The session's model speaks for all its agents. `model` is the one that continues the run as text, if it comes to
    that.
    """

    voice: str | Mapping[str, Any] | None = None
    """The voice of this agent; else that of the session. A model may keep the voice that it began with."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in NOT_LIVE:
            if getattr(self, option) != getattr(_PLAIN, option):
                raise InvalidDefinition(
                    f"RealtimeAgent {self.name!r}: {option} has no meaning in a live conversation; use an Agent."
                )
        for tool in self.tools:
            if isinstance(tool, HostedTool):
                raise InvalidDefinition(
                    f"RealtimeAgent {self.name!r}: {tool.name!r} is run by the provider of another API; use an Agent."
                )
        for each in self.handoffs:
            target = each.agent if isinstance(each, Handoff) else each
            if not isinstance(target, RealtimeAgent):
                raise InvalidDefinition(
                    f"RealtimeAgent {self.name!r}: it can hand over to a RealtimeAgent, and {target!r} is none."
                )
            if isinstance(each, Handoff) and each.input_filter is not None:
                raise InvalidDefinition(
                    f"RealtimeAgent {self.name!r}: an input_filter cannot change a live conversation, which the "
                    "provider keeps."
                )


_PLAIN: Agent[Any] = Agent("plain")
