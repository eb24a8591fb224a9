"""The names of `agents.run_context`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.context import RunContextWrapper
from .absent import find_absent

__all__ = ["RunContextWrapper"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
