"""The names of `agents.apply_diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tools.patch_format import apply_diff
from .absent import find_absent

__all__ = ["apply_diff"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
