"""The names of `agents.usage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.facts import Usage
from .absent import find_absent

__all__ = ["Usage"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
