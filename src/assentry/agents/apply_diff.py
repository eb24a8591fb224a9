"""The names of `agents.apply_diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ..tools import patch_format
from .absent import find_absent

__all__ = ["apply_diff"]


def apply_diff(input: str, diff: str, mode: Literal["default", "create"] = "default") -> str:
    """Return the text with a diff applied; see `assentry.apply_diff`. A new file has no last line break."""
    made = patch_format.apply_diff("" if mode == "create" else input, diff, mode)
    return made.removesuffix("\n") if mode == "create" else made


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
