"""The names of `agents.run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.runner import Runner
from .absent import find_absent
from .run_config import RunConfig, ToolErrorFormatterArgs

__all__ = ["RunConfig", "Runner", "ToolErrorFormatterArgs"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
