"""The names of `agents.run_context`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from ..definitions.context import AgentHookContext, RunContextWrapper
from .absent import find_absent

__all__ = ["AgentHookContext", "RunContextWrapper", "TContext"]

TContext = TypeVar("TContext", default=Any)
"""The type of a context."""

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
