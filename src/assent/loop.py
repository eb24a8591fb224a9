"""Whose event loop this is. One that a blocking call has for itself may be blocked: nobody else waits on it."""

from __future__ import annotations

from contextvars import ContextVar

ALONE: ContextVar[bool] = ContextVar("assent_alone", default=False)
"""Whether this is done for a blocking call, on a loop of its own."""
