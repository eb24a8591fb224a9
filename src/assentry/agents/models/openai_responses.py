"""The names of `agents.models.openai_responses`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models import openai_responses as own
from ..absent import find_absent
from .direct_call import DirectCalls

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIResponsesModel"]


class OpenAIResponsesModel(DirectCalls, own.OpenAIResponsesModel):
    """A model of OpenAI's Responses API, or of a server that speaks it."""

    def __init__(self, model: str, openai_client: AsyncOpenAI | None = None, *, model_is_explicit: bool = True) -> None:
        own.OpenAIResponsesModel.__init__(self, model, openai_client)
        self.model_is_explicit = model_is_explicit

    @property
    def model(self) -> str:
        """The model's name."""
        return self.name


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
