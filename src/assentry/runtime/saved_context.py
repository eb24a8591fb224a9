"""Saving the user's context with a run, and loading it again."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw
from msgspec.json import decode
from pydantic import BaseModel

from ..core.digest import BadJSON, canonical, plain
from ..core.facts import NOTHING
from ..errors import ContextMissing

LEFT_OUT = "left_out"
"""The kind of a context that was not saved."""


class Missing:
    """A placeholder for a context that was not saved, until the user gives one."""


MISSING = Missing()


def save_context(context: Any, serializer: Callable[[Any], Any] | None, strict: bool) -> tuple[Raw, str | None]:
    """Return the context as JSON, and its kind. There is nothing to save for None."""
    if context is None:
        return NOTHING, None
    if context is MISSING:
        return NOTHING, LEFT_OUT
    if serializer is not None:
        try:
            given = serializer(context)
        except Exception as error:  # user code may raise anything
            raise ContextMissing(f"The context cannot be saved: {type(error).__name__}: {error}") from error
        return _json(given, "what context_serializer gave"), "custom"
    if isinstance(context, Mapping):
        return _json(dict(context), "the context"), "mapping"
    name = type(context).__qualname__
    if strict:
        raise ContextMissing(
            f"strict_context: a context of type {name} needs a context_serializer; only a mapping is saved as it is."
        )
    if isinstance(context, BaseModel):
        return _json(context.model_dump(mode="json"), "the context"), "pydantic"
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        return _json(dataclasses.asdict(context), "the context"), "dataclass"
    warnings.warn(
        f"The context of type {name} was left out of the saved run. Give a context_serializer to keep it, "
        "or a context when the run is resumed.",
        stacklevel=4,
    )
    return NOTHING, LEFT_OUT


def _json(value: Any, what: str) -> Raw:
    try:
        return Raw(canonical(plain(value)))
    except BadJSON as error:
        raise ContextMissing(
            f"{what} cannot be saved as JSON: {error}; give a context_serializer, or create_agent a context_schema."
        ) from None


def load_context(
    saved: Raw,
    kind: str | None,
    override: Any,
    deserializer: Callable[[Any], Any] | None,
    strict: bool,
) -> Any:
    """Return the loaded context: the override, the deserializer's result, or the plain JSON value."""
    if override is not None:
        return override
    if kind == LEFT_OUT:
        if strict:
            raise ContextMissing("strict_context: the saved run has no context; give a context_override.")
        return MISSING
    if not saved:
        return None
    value = decode(saved)
    if deserializer is not None:
        return deserializer(value)
    if strict and kind != "mapping":
        raise ContextMissing("strict_context: this context was not a mapping; give a context_deserializer.")
    return value
