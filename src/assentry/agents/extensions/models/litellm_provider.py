"""The names of `agents.extensions.models.litellm_provider`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...absent import find_absent
from ...models.default_models import get_default_model
from ...models.interface import ModelProvider
from .litellm_model import LitellmModel

__all__ = ["LitellmProvider"]


class LitellmProvider(ModelProvider):
    """Models of all providers that LiteLLM knows, by their names."""

    def get_model(self, model_name: str | None) -> LitellmModel:
        """Return the model of this name; OpenAI's default model for None."""
        return LitellmModel(model_name or get_default_model())


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
