"""The names of `agents.run_config`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.config import RunConfig, ToolErrorFormatterArgs
from .absent import find_absent

__all__ = ["RunConfig", "ToolErrorFormatterArgs"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
