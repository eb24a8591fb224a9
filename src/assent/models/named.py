"""Models by their names: who provides what a name stands for.

A provider makes a model of a name and nothing else. No key is looked for here, and nothing is imported or opened: that
is the model's own matter, when it is asked.
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
"""Names that need no prefix: OpenAI's, those of tuned models among them."""
PARTS = re.compile(r"([^:/\s]+)[:/](.*)", re.DOTALL)
"""A prefix and a name, as `openai:gpt-5.2` or `openai/gpt-5.2`."""


def _openai(name: str) -> Model:
    from .openai_responses import OpenAIResponsesModel

    return OpenAIResponsesModel(name)


_providers: dict[str, Provider] = {OPENAI: _openai}


def register_provider(prefix: str, provider: Provider) -> None:
    """Have names with a prefix, `prefix:name` or `prefix/name`, stand for models of yours.

    The provider is a function (or a class) that is given the name without the prefix, when an agent is made, and gives
    the model. A later one for the same prefix takes the place of the earlier, for agents that are made from then on.
    One for `"openai"` is also asked for OpenAI's own names, which have no prefix.
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
    """A model as it was given: a Model itself, or by its name."""
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
    """Whether it can be asked; not so chat models of others, whose `stream` is for programs that block."""
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
