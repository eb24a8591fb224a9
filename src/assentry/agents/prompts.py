"""The names of `agents.prompts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.prompt import DynamicPromptFunction, GenerateDynamicPromptData, Prompt
from .absent import find_absent

__all__ = ["DynamicPromptFunction", "GenerateDynamicPromptData", "Prompt"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
