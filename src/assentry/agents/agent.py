"""The names of `agents.agent`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.agent import Agent, ToolsToFinalOutputResult
from .absent import find_absent

__all__ = ["Agent", "ToolsToFinalOutputResult"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
