"""Models by name: the providers, and the rules by which a name selects one.

A provider only makes a model from a name. Keys, imports and connections belong to the model, when it is first asked.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core import allowed
from ..core.wording import described
from ..errors import InvalidDefinition
from .agents_sdk import AgentsSDKModel, is_sdk_model
from .bound_chat import kinds_of
from .model import Model

Provider = Callable[[str], Model]

OPENAI = "openai"
EMBEDDED = "embedded"
"""The name of the embedded model."""
PARTS = re.compile(r"([^:/\s]+)[:/](.*)", re.DOTALL)
"""A prefix and a name, such as `openai:gpt-5.2` or `openai/gpt-5.2`."""
PREFIX = allowed.Values(
    "text without spaces, colons and slashes",
    lambda given: type(given) is str and re.fullmatch(r"[^:/\s]+", given),
)
PROVIDER = allowed.Values("a function of a model's name that returns the model", callable)
FINE_TUNED = "ft"
"""The prefix of OpenAI's fine-tuned models, which is part of their names."""


def _imported(module: str, kind: str) -> Provider:
    """Return a provider whose module is imported when it first makes a model."""

    def make(name: str) -> Model:
        made: Model = getattr(import_module(f".{module}", __package__), kind)(name)
        return made

    return make


_providers: dict[str, Provider] = {
    OPENAI: _imported("openai_responses", "OpenAIResponsesModel"),
    "openai_chat": _imported("openai_chat", "OpenAIChatCompletionsModel"),
    "anthropic": _imported("anthropic", "AnthropicModel"),
    "litellm": _imported("litellm", "LitellmModel"),
}


_APIS = {"responses": _providers[OPENAI], "chat_completions": _providers["openai_chat"]}
"""The providers for OpenAI's models by the API that is asked."""


def set_openai_api(api: str) -> None:
    """Set the API by which OpenAI's models are asked that are given by a name without a prefix."""
    allowed.check_option("set_default_openai_api", "api", api, allowed.one_of(*_APIS))
    _providers[OPENAI] = _APIS[api]


def has_responses_api() -> bool:
    """Return True unless OpenAI's models are asked by the Chat Completions API."""
    return _providers[OPENAI] is not _APIS["chat_completions"]


def register_provider(prefix: str, provider: Provider) -> None:
    """Register a provider for names with a prefix, `prefix:name` or `prefix/name`.

    When an agent is made, the provider (a function or a class) is called with the name without its prefix, and returns
    the model. A later provider for the same prefix replaces the earlier one, for agents that are made from then on. A
    provider for `"openai"` is also called for names without a prefix.
    """
    allowed.check_option("register_provider", "prefix", prefix, PREFIX)
    allowed.check_option(f"register_provider({prefix!r}, ...)", "provider", provider, PROVIDER)
    _providers[prefix] = provider


def model_from(whose: str, given: Any) -> Model:
    """Return the model that was given as a `Model`, as a model of LangChain or the Agents SDK, or by its name."""
    model = _model_by_name(whose, given) if isinstance(given, str) else adapt_model(given)
    if not is_model(model):
        raise InvalidDefinition(
            f"{whose}: model must be a model's name, or a Model, an object with an async `stream` method; "
            + (f"the provider of {given!r} gave" if isinstance(given, str) else "got")
            + f" {described(model)}."
        )
    name = getattr(model, "name", None)
    if type(name) is not str or not name:
        raise InvalidDefinition(
            f"{whose}: a model's `name` must be text that is not empty, got {described(name)} of {described(model)}."
        )
    found: Model = model
    return found


def adapt_model(given: Any) -> Any:
    """Return a chat model of LangChain, or a model written for the Agents SDK, as a `Model`; else the object itself.

    Neither is imported to find out: the names of the object's classes and methods tell.
    """
    if is_sdk_model(given) and (not is_model(given) or getattr(given, "answers_itself", False)):
        return AgentsSDKModel(given)
    if "Runnable" not in kinds_of(given):
        return given
    from .langchain import LangChainModel

    return LangChainModel(given)


def is_model(given: Any) -> bool:
    """Return True if the object is usable as a model.

    Chat models of other libraries, whose `stream` is a blocking generator, are not.
    """
    stream = getattr(given, "stream", None)
    return callable(stream) and not inspect.isgeneratorfunction(stream)


def _model_by_name(whose: str, name: str) -> Any:
    if name == EMBEDDED:
        from .embedded import EmbeddedModel

        return EmbeddedModel()
    parts = PARTS.fullmatch(name)
    if not name.strip() or (parts is not None and not parts[2].strip()):
        raise InvalidDefinition(f"{whose}: model must name a model, got {described(name)}.")
    if parts is None and re.search(r"\s", name):
        raise InvalidDefinition(f"{whose}: model must be a name without spaces, got {described(name)}.")
    if parts is None or parts[1] == FINE_TUNED:
        return _providers[OPENAI](name)
    if parts[1] in _providers:
        return adapt_model(_providers[parts[1]](parts[2]))
    known = ", ".join(f"{each}/" for each in sorted(_providers))
    raise InvalidDefinition(
        f"{whose}: no provider is known for the model {described(name)}. A name without a prefix is OpenAI's, and the "
        f"prefixes that are known are {known}. For another one give a Model, an object with a `stream` method, or "
        f"register a provider first: register_provider({described(parts[1])}, ...)."
    )
