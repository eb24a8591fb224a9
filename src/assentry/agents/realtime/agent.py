"""The names of `agents.realtime.agent`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...definitions.hooks import AgentHooks as RealtimeAgentHooks
from ...definitions.hooks import RunHooks as RealtimeRunHooks
from ...realtime.agent import RealtimeAgent
from ..absent import find_absent

__all__ = ["RealtimeAgent", "RealtimeAgentHooks", "RealtimeRunHooks"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
