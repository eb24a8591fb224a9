"""The names of `agents.models.multi_provider`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ...core import allowed
from ...models.named import model_from
from ..absent import find_absent
from .interface import ModelProvider
from .openai_provider import OpenAIProvider

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["MultiProvider", "MultiProviderMap", "MultiProviderOpenAIPrefixMode", "MultiProviderUnknownPrefixMode"]

MultiProviderOpenAIPrefixMode = Literal["alias", "model_id"]
MultiProviderUnknownPrefixMode = Literal["error", "model_id"]


class MultiProviderMap:
    """Providers by the prefixes of models' names."""

    def __init__(self) -> None:
        self._mapping: dict[str, ModelProvider] = {}

    def has_prefix(self, prefix: str) -> bool:
        """Return True if there is a provider for this prefix."""
        return prefix in self._mapping

    def get_mapping(self) -> dict[str, ModelProvider]:
        """Return a copy of the providers by their prefixes."""
        return self._mapping.copy()

    def set_mapping(self, mapping: dict[str, ModelProvider]) -> None:
        """Replace all providers."""
        self._mapping = mapping

    def get_provider(self, prefix: str) -> ModelProvider | None:
        """Return the provider for a prefix; None if there is none."""
        return self._mapping.get(prefix)

    def add_provider(self, prefix: str, provider: ModelProvider) -> None:
        """Add a provider for a prefix."""
        self._mapping[prefix] = provider

    def remove_provider(self, prefix: str) -> None:
        """Remove the provider for a prefix."""
        del self._mapping[prefix]


class MultiProvider(ModelProvider):
    """Models by names with a prefix: of the map first, then OpenAI's, and then those that Assentry itself knows."""

    def __init__(
        self,
        *,
        provider_map: MultiProviderMap | None = None,
        openai_api_key: str | None = None,
        openai_base_url: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        openai_organization: str | None = None,
        openai_project: str | None = None,
        openai_use_responses: bool | None = None,
        openai_use_responses_websocket: bool | None = None,
        openai_strict_feature_validation: bool = False,
        openai_websocket_base_url: str | None = None,
        openai_prefix_mode: MultiProviderOpenAIPrefixMode = "alias",
        unknown_prefix_mode: MultiProviderUnknownPrefixMode = "error",
        openai_agent_registration: Any = None,
        openai_responses_websocket_options: Any = None,
        openai_buffer_streamed_tool_calls: bool = False,
    ) -> None:
        allowed.check_option(
            "MultiProvider", "openai_prefix_mode", openai_prefix_mode, allowed.one_of("alias", "model_id")
        )
        allowed.check_option(
            "MultiProvider", "unknown_prefix_mode", unknown_prefix_mode, allowed.one_of("error", "model_id")
        )
        self.provider_map = provider_map
        self.openai_provider = OpenAIProvider(
            api_key=openai_api_key,
            base_url=openai_base_url,
            websocket_base_url=openai_websocket_base_url,
            openai_client=openai_client,
            organization=openai_organization,
            project=openai_project,
            use_responses=openai_use_responses,
            use_responses_websocket=openai_use_responses_websocket,
            agent_registration=openai_agent_registration,
            responses_websocket_options=openai_responses_websocket_options,
        )
        self._openai_prefix_mode = openai_prefix_mode
        self._unknown_prefix_mode = unknown_prefix_mode

    def get_model(self, model_name: str | None) -> Any:
        """Return the model of this name; OpenAI's default model for None."""
        prefix, slash, name = (model_name or "").partition("/")
        if model_name is None or not slash:
            return self.openai_provider.get_model(model_name)
        provider = self.provider_map.get_provider(prefix) if self.provider_map is not None else None
        if provider is not None:
            return provider.get_model(name)
        if prefix == "openai":
            return self.openai_provider.get_model(name if self._openai_prefix_mode == "alias" else model_name)
        if prefix != "litellm" and self._unknown_prefix_mode == "model_id":
            return self.openai_provider.get_model(model_name)
        return model_from("MultiProvider", model_name)

    async def aclose(self) -> None:
        """Release what the providers hold."""
        for provider in [
            self.openai_provider,
            *(self.provider_map.get_mapping().values() if self.provider_map else ()),
        ]:
            await provider.aclose()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
