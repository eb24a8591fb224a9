"""Models by name: the providers, and the rules by which a name selects one.

A provider only makes a model from a name. Keys, imports and connections belong to the model, when it is first asked.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from ..core.digest import described
from ..errors import InvalidDefinition
from .model import Model

Provider = Callable[[str], Model]

OPENAI = "openai"
OPENAIS = re.compile(r"(gpt-|chatgpt-|codex-|o\d)[^:/]*|ft:.+")
"""Names of OpenAI's models, fine-tuned ones included, which need no prefix."""
PARTS = re.compile(r"([^:/\s]+)[:/](.*)", re.DOTALL)
"""A prefix and a name, such as `openai:gpt-5.2` or `openai/gpt-5.2`."""


def _openai(name: str) -> Model:
    from .openai_responses import OpenAIResponsesModel

    return OpenAIResponsesModel(name)


_providers: dict[str, Provider] = {OPENAI: _openai}


def register_provider(prefix: str, provider: Provider) -> None:
    """Register a provider for names with a prefix, `prefix:name` or `prefix/name`.

    When an agent is made, the provider (a function or a class) is called with the name without its prefix, and returns
    the model. A later provider for the same prefix replaces the earlier one, for agents that are made from then on. A
    provider for `"openai"` is also called for OpenAI's own names, which have no prefix.
    """
    if type(prefix) is not str or not re.fullmatch(r"[^:/\s]+", prefix):
        raise InvalidDefinition(
            f"A provider's prefix is text without spaces, colons and slashes, got {described(prefix)}."
        )
    if not callable(provider):
        raise InvalidDefinition(
            f"The provider for {prefix!r} must be a function of a model's name that gives the model, got "
            f"{described(provider)}."
        )
    _providers[prefix] = provider


def model_from(whose: str, given: Any) -> Model:
    """Return the model that was given as a `Model`, or by its name."""
    model = _named(whose, given) if isinstance(given, str) else given
    if not is_model(model):
        raise InvalidDefinition(
            f"{whose}: model must be a model's name, or a Model, an object with an async `stream` method; "
            + (f"the provider of {given!r} gave" if isinstance(given, str) else "got")
            + f" {described(model)}."
        )
    found: Model = model
    return found


def is_model(given: Any) -> bool:
    """Return True if the object is usable as a model.

    Chat models of other libraries, whose `stream` is a blocking generator, are not.
    """
    stream = getattr(given, "stream", None)
    return callable(stream) and not inspect.isgeneratorfunction(stream)


def _named(whose: str, name: str) -> Any:
    parts = PARTS.fullmatch(name)
    if not name.strip() or (parts is not None and not parts[2].strip()):
        raise InvalidDefinition(f"{whose}: model is {described(name)}, and a model's name is missing in it.")
    if parts is not None and parts[1] in _providers:
        return _providers[parts[1]](parts[2])
    if OPENAIS.fullmatch(name):
        return _providers[OPENAI](name)
    raise InvalidDefinition(_unknown(whose, name, parts[1] if parts is not None else None))


def _unknown(whose: str, name: str, prefix: str | None) -> str:
    known = " or ".join(f"{each}:" for each in sorted(_providers))
    how = f"register_provider({described(prefix or 'mine')}, ...)"
    how = how if prefix is not None else f"{how}, and say {described(f'mine:{name}')}"
    return (
        f"{whose}: no provider is known for the model {described(name)}. Known are OpenAI's own names, such as gpt-... "
        f"and o4-mini, and every name after {known}. For another one give a Model, an object with a `stream` method, "
        f"or register a provider first: {how}."
    )
