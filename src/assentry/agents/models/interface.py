"""The names of `agents.models.interface`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models.model import Model
from ..absent import find_absent

__all__ = ["Model"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
