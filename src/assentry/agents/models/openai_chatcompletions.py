"""The names of `agents.models.openai_chatcompletions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models.openai_chat import OpenAIChatCompletionsModel
from ..absent import find_absent

__all__ = ["OpenAIChatCompletionsModel"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
