"""The names of `agents.realtime.handoffs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..absent import find_absent
from ..handoffs import handoff as realtime_handoff

__all__ = ["realtime_handoff"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
