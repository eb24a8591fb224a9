"""The names of `agents.editor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tools.patch_editor import ApplyPatchEditor, ApplyPatchResult
from ..tools.patch_format import ApplyPatchOperation
from .absent import find_absent

__all__ = ["ApplyPatchEditor", "ApplyPatchOperation", "ApplyPatchResult"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
