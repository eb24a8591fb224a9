"""The names of `agents.handoffs`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn

from typing_extensions import TypeVar

from ...core import allowed
from ...definitions import handoff as native
from ...definitions.agent_tool import AgentBase
from ...definitions.handoff import HandoffInputData
from ...definitions.tool import Approver, Enabled, Rule
from ...errors import UsageError
from ..absent import find_absent
from ..assignable import AssignableTool, same_names
from .history import (
    HandoffHistoryMapper,
    default_handoff_history_mapper,
    get_conversation_history_wrappers,
    nest_handoff_history,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)

__all__ = [
    "Handoff",
    "HandoffHistoryMapper",
    "HandoffInputData",
    "HandoffInputFilter",
    "default_handoff_history_mapper",
    "get_conversation_history_wrappers",
    "handoff",
    "nest_handoff_history",
    "reset_conversation_history_wrappers",
    "set_conversation_history_wrappers",
]

TContext = TypeVar("TContext", default=Any)
TAgent = TypeVar("TAgent", bound=AgentBase[Any], default=Any)
HandoffInputFilter = Callable[[HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]]
"""A function that changes the conversation for the next agent."""


class Handoff(AssignableTool, native.Handoff[TContext, TAgent], Generic[TContext, TAgent]):
    """A handoff to another agent, with the SDK's names. Make one with `handoff`."""

    assignable: ClassVar[dict[str, str]] = {
        "tool_name": "name",
        "tool_description": "description",
        **same_names("input_filter", "is_enabled", "needs_approval", "nest_handoff_history"),
    }
    nest_handoff_history: bool | None

    def __init__(self, *, nest_handoff_history: bool | None = None, **options: Any) -> None:
        if "agent" not in options:
            raise UsageError(
                "A Handoff is made with handoff(agent, ...): the agent that takes over must be known, because a person "
                "may be asked about it."
            )
        super().__init__(**options)
        object.__setattr__(self, "nest_handoff_history", nest_handoff_history)

    @property
    def tool_name(self) -> str:
        """The handoff's name as a tool."""
        return self.name

    @property
    def tool_description(self) -> str:
        """The description for the model."""
        return self.description

    @property
    def input_json_schema(self) -> dict[str, Any]:
        """The schema of the model's arguments."""
        return self.params_json_schema

    @property
    def on_invoke_handoff(self) -> Callable[..., Awaitable[Any]]:
        """A function that refuses: a handoff is only taken in a run."""
        return partial(_refuse_to_hand_over, self.name)

    def get_transfer_message(self, agent: AgentBase[Any]) -> str:
        """Return the text that tells the model of the handoff."""
        from ...core.transcript import handed_text

        return handed_text(agent.name)

    @classmethod
    def default_tool_name(cls, agent: AgentBase[Any]) -> str:
        """Return the name of a handoff to this agent."""
        return f"transfer_to_{re.sub(r'[^a-z0-9_]', '_', agent.name.lower())}"

    @classmethod
    def default_tool_description(cls, agent: AgentBase[Any]) -> str:
        """Return the description of a handoff to this agent."""
        return f"Handoff to the {agent.name} agent to handle the request. {agent.handoff_description or ''}"

    def filter_for(self, settings: Any) -> native.InputFilter | None:
        """Return the filter that applies: the handoff's, the run's, or the one that nests the conversation."""
        own = super().filter_for(settings)
        nest = self.nest_handoff_history
        if nest is None:
            nest = getattr(settings, "nest_handoff_history", False)
        if own is not None or not nest:
            return own
        return partial(nest_handoff_history, history_mapper=getattr(settings, "handoff_history_mapper", None))


async def _refuse_to_hand_over(name: str, ctx: Any = None, input_json: str | None = None) -> NoReturn:
    raise UsageError(f"The handoff {name!r} is taken only in a run, when the model calls it.")


def handoff(
    agent: AgentBase[TContext],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: Callable[..., Any] | None = None,
    input_type: type[Any] | None = None,
    input_filter: HandoffInputFilter | None = None,
    nest_handoff_history: bool | None = None,
    is_enabled: Enabled = True,
    *,
    needs_approval: Rule = False,
    on_approval: Approver | None = None,
) -> Handoff[TContext, Any]:
    """Make a handoff to an agent; see `assentry.handoff`.

    With `nest_handoff_history`, the next agent gets the conversation as one message, unless a filter changes it; None
    leaves that to the run's settings.
    """
    allowed.check_option("handoff", "agent", agent, native.AN_AGENT)
    made = native.handoff(
        agent,
        tool_name_override=tool_name_override,
        tool_description_override=tool_description_override or Handoff.default_tool_description(agent),
        on_handoff=on_handoff,
        input_type=input_type,
        input_filter=input_filter,
        is_enabled=is_enabled,
        needs_approval=needs_approval,
        on_approval=on_approval,
    )
    parts = {each.name: getattr(made, each.name) for each in fields(made) if each.init}
    return Handoff(**parts, nest_handoff_history=nest_handoff_history)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
