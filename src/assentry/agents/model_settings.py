"""The names of `agents.model_settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..models.model import ModelSettings
from .absent import find_absent

__all__ = ["ModelSettings"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
