"""The names of `agents.realtime.agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from ...definitions.agent import Agent
from ...definitions.hooks import AgentHooks as RealtimeAgentHooks
from ...definitions.hooks import RunHooks as RealtimeRunHooks
from ...definitions.item import ViewClasses
from ...definitions.prompt import Prompt
from ...realtime import agent as native
from ..absent import find_absent
from ..run_context import RunContextWrapper
from ..view_classes import VIEW_CLASSES

if TYPE_CHECKING:
    from ...definitions.guardrail import OutputGuardrail
    from ...definitions.handoff import Handoff
    from ...definitions.mcp_config import MCPConfig
    from ...definitions.server import ToolServer
    from ...definitions.tool import Tool

__all__ = ["RealtimeAgent", "RealtimeAgentHooks", "RealtimeRunHooks"]

TContext = TypeVar("TContext", default=Any)


@dataclass(eq=False, repr=False)
class RealtimeAgent(native.RealtimeAgent[TContext], Generic[TContext]):
    """An agent that talks, with the SDK's order of options."""

    view_classes: ClassVar[ViewClasses] = VIEW_CLASSES

    def __init__(
        self,
        name: str,
        handoff_description: str | None = None,
        tools: list[Tool] | None = None,
        mcp_servers: list[ToolServer] | None = None,
        mcp_config: MCPConfig | None = None,
        instructions: str
        | Callable[[RunContextWrapper[TContext], RealtimeAgent[TContext]], str | Awaitable[str]]
        | None = None,
        prompt: Prompt | None = None,
        handoffs: Sequence[Agent[Any] | Handoff[Any, Any]] | None = None,
        output_guardrails: list[OutputGuardrail[Any]] | None = None,
        hooks: RealtimeAgentHooks[Any] | None = None,
        *,
        voice: str | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Define the agent; `options` are those that only `assentry.realtime.RealtimeAgent` has."""
        given = {each: value for each, value in locals().items() if each not in ("self", "options", "__class__")}
        given = {each: value for each, value in given.items() if value is not None}
        native.RealtimeAgent.__init__(self, **given, **options)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
