"""The names of `agents.extensions.models.litellm_model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....errors import InvalidDefinition
from ....models import litellm as own
from ...absent import find_absent
from ...models.direct_call import DirectCalls
from ...models.openai_chatcompletions import REPLAY

__all__ = ["LitellmModel"]


class LitellmModel(DirectCalls, own.LitellmModel):
    """A model of any provider that LiteLLM knows."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        should_replay_reasoning_content: Callable[[Any], bool] | None = None,
    ) -> None:
        if should_replay_reasoning_content is not None:
            raise InvalidDefinition(f"LitellmModel: {REPLAY}")
        own.LitellmModel.__init__(self, model, base_url, api_key)
        self.base_url = base_url

    @property
    def model(self) -> str:
        """The model's name, with the prefix of its provider."""
        return self.name


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
