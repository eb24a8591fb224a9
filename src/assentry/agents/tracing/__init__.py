"""The names of `agents.tracing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..absent import find_absent

__all__ = []

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
