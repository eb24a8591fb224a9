"""The names of `agents.lifecycle`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ..definitions import hooks
from .absent import find_absent

if TYPE_CHECKING:
    from .agent import AgentBase

__all__ = ["AgentHooks", "AgentHooksBase", "RunHooks", "RunHooksBase"]

TContext = TypeVar("TContext", default=Any)
TAgent = TypeVar("TAgent", bound="AgentBase[Any]", default=Any)


class RunHooksBase(hooks.RunHooks[TContext], Generic[TContext, TAgent]):
    """Hooks for all events of a run. Override the methods that you need."""


class AgentHooksBase(hooks.AgentHooks[TContext], Generic[TContext, TAgent]):
    """Hooks for the events of one agent. Override the methods that you need.

    As in the SDK, `on_handoff` is called when the agent has handed over: `agent` is the next agent, `source` this one.
    """

    told_of_leaving = True


class RunHooks(RunHooksBase[TContext, Any], Generic[TContext]):
    """Hooks for all events of a run of agents."""


class AgentHooks(AgentHooksBase[TContext, Any], Generic[TContext]):
    """Hooks for the events of one agent."""


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
