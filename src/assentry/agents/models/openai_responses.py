"""The names of `agents.models.openai_responses`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models.openai_responses import OpenAIResponsesModel
from ..absent import find_absent

__all__ = ["OpenAIResponsesModel"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
