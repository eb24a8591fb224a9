"""The names of `agents.run_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.state import RunState
from .absent import find_absent

__all__ = ["RunState"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
