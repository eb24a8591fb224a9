"""The answers of a tool's probe about a call whose outcome is unknown: it happened, it did not, or nobody can tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from .context import ToolContext


class Happened(Struct, frozen=True):
    """The call had its effect, and this is its output; the body is not entered again."""

    output: Any


class NotHappened(Struct, frozen=True):
    """The call had no effect, and will not have one later; it may run."""


class CannotTell(Struct, frozen=True):
    """The outcome stays unknown. What was seen is told to the person who is asked, as a sentence or two."""

    seen: str


Found = Happened | NotHappened | CannotTell | None
Probe = Callable[[ToolContext[Any], dict[str, Any]], Found | Awaitable[Found]]
"""A function of the context and the canonical arguments that finds out if a call had its effect."""
