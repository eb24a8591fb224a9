"""The names of `agents.result`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.result import RunResult
from ..runtime.streaming import RunResultStreaming
from .absent import find_absent

__all__ = ["RunResult", "RunResultStreaming"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
