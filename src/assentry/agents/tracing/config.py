"""The names of `agents.tracing.config`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from ..absent import find_absent

__all__ = ["TracingConfig"]


class TracingConfig(TypedDict, total=False):
    """The tracing options of one run or trace."""

    api_key: str
    """The key for OpenAI's dashboard. Assentry sends nothing there; processors find it as `tracing_api_key`."""
    include_task_and_turn_spans: bool
    """True if runs have spans for themselves and for each turn; the default is True."""


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
