"""The names of `agents.models.interface`."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ..absent import find_absent

if TYPE_CHECKING:
    from openai.types.responses.response_prompt_param import ResponsePromptParam

    from ...models.retry import ModelRetryAdvice, ModelRetryAdviceRequest
    from ..handoffs import Handoff
    from ..items import ModelResponse, TResponseInputItem, TResponseStreamEvent
    from ..model_settings import ModelSettings
    from ..tool import Tool

__all__ = ["Model", "ModelProvider", "ModelTracing"]


class ModelTracing(enum.Enum):
    """The tracing that a model is asked to do. Runs trace their model calls themselves, so it is always `DISABLED`."""

    DISABLED = 0
    ENABLED = 1
    ENABLED_WITHOUT_DATA = 2

    def is_disabled(self) -> bool:
        """Return True if nothing is traced."""
        return self is ModelTracing.DISABLED

    def include_data(self) -> bool:
        """Return True if contents are traced too."""
        return self is ModelTracing.ENABLED


class Model(ABC):
    """A model by the SDK's interface. Agents and runs take it wherever they take a model."""

    async def close(self) -> None:
        """Release what the model holds."""
        return

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        """Return the model's own advice about a failed call; None if it gives none."""
        return None

    @abstractmethod
    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> ModelResponse:
        """Return the reply to a request. Handoffs are offered among the tools."""

    @abstractmethod
    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Yield the events of a reply, the last of them "response.completed"."""


class ModelProvider(ABC):
    """A provider of models by their names, for `RunConfig(model_provider=...)`."""

    @abstractmethod
    def get_model(self, model_name: str | None) -> Model | Any:
        """Return the model of this name; the provider's default for None."""

    async def aclose(self) -> None:
        """Release what the provider holds."""
        return


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
