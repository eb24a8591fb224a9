"""The names of `agents.lifecycle`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.hooks import AgentHooks, RunHooks
from .absent import find_absent

__all__ = ["AgentHooks", "RunHooks"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
