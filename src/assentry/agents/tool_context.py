"""The names of `agents.tool_context`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.context import ToolContext
from .absent import find_absent

__all__ = ["ToolContext"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
