"""The names of `agents.mcp.manager`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...mcp.manager import MCPServerManager
from ..absent import find_absent

__all__ = ["MCPServerManager"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
