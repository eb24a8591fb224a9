"""The names of `agents.agent_output`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.output import AgentOutputSchema
from .absent import find_absent

__all__ = ["AgentOutputSchema"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
