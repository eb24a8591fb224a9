"""The names of `agents.models.openai_provider`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import InvalidDefinition
from ...models.named import has_responses_api
from ...models.openai_client import client_class
from ..absent import ABSENT, find_absent
from .default_models import get_default_model
from .interface import ModelProvider
from .openai_agent_registration import refuse_registration
from .openai_chatcompletions import OpenAIChatCompletionsModel
from .openai_responses import OpenAIResponsesModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["AsyncOpenAI", "OpenAIProvider"]


class OpenAIProvider(ModelProvider):
    """OpenAI's models, or those of a server that speaks one of its APIs, by their names."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        websocket_base_url: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        organization: str | None = None,
        project: str | None = None,
        use_responses: bool | None = None,
        use_responses_websocket: bool | None = None,
        strict_feature_validation: bool = False,
        agent_registration: Any = None,
        responses_websocket_options: Any = None,
        buffer_streamed_tool_calls: bool = False,
    ) -> None:
        options = {"api_key": api_key, "base_url": base_url, "organization": organization, "project": project}
        self._options: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if openai_client is not None and self._options:
            raise InvalidDefinition(
                f"OpenAIProvider: give openai_client, or {', '.join(self._options)}; the client has its own."
            )
        if use_responses_websocket or websocket_base_url is not None or responses_websocket_options is not None:
            raise InvalidDefinition(f"OpenAIProvider: {ABSENT['OpenAIResponsesWSModel']}.")
        refuse_registration("OpenAIProvider", agent_registration)
        self._client = openai_client
        self._use_responses = has_responses_api() if use_responses is None else use_responses

    def _made_client(self) -> AsyncOpenAI | None:
        """Return the provider's own client, made when it is first needed; None for that of the event loop."""
        if self._client is None and self._options:
            self._client = client_class()(**self._options)
        return self._client

    def get_model(self, model_name: str | None) -> OpenAIResponsesModel | OpenAIChatCompletionsModel:
        """Return the model of this name; OpenAI's default model for None."""
        kind = OpenAIResponsesModel if self._use_responses else OpenAIChatCompletionsModel
        return kind(model_name if model_name is not None else get_default_model(), self._made_client())


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the client when a program asks for it, and not before."""
        return client_class() if name == "AsyncOpenAI" else find_absent(__name__)(name)
