"""What a tool's probe says of a call whose end nobody saw: it happened, it did not, or nobody can say (None)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from ..context import ToolContext


class Happened(Struct, frozen=True):
    """The call had its effect, and this is its output; the body is not entered again."""

    output: Any


class NotHappened(Struct, frozen=True):
    """The call had no effect, and will have none any more; it may run."""


Found = Happened | NotHappened | None
Probe = Callable[[ToolContext[Any], dict[str, Any]], Found | Awaitable[Found]]
"""Finds out, from the context and the canonical arguments, whether a call had its effect."""
