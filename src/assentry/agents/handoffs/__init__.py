"""The names of `agents.handoffs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...definitions.handoff import Handoff, HandoffInputData, handoff
from ..absent import find_absent

__all__ = ["Handoff", "HandoffInputData", "handoff"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
