"""The names of `agents.models.openai_agent_registration`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..absent import find_absent

__all__ = []

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
