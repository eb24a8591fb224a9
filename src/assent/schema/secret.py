"""The mark of a parameter that only a decider may see: `card: Secret[str]`."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated, Any, TypeVar, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

T = TypeVar("T")


class _Hidden:
    def __repr__(self) -> str:
        return "Secret"


HIDDEN = _Hidden()

Secret = Annotated[T, HIDDEN]
"""A parameter to mask wherever nobody decides: in lists, messages and logs. Its schema and value are those of `T`."""


def is_secret(hint: Any, types: tuple[type, ...] = (), seen: frozenset[Any] = frozenset()) -> bool:
    """Return True if a type is marked as `Secret`, is one of these types, or has such a part, at any depth."""
    if hint is HIDDEN:
        return True
    if inspect.isclass(get_origin(hint) or hint) and issubclass(get_origin(hint) or hint, types):
        return True
    if get_origin(hint) is None and inspect.isclass(hint) and hint not in seen:
        return any(is_secret(each, types, seen | {hint}) for each in _fields(hint))
    return any(is_secret(each, types, seen) for each in get_args(hint) if not isinstance(each, str))


def _fields(kind: type) -> list[Any]:
    """Return the types of the fields of a model, a dataclass or a TypedDict."""
    if not (hasattr(kind, "model_fields") or dataclasses.is_dataclass(kind) or is_typeddict(kind)):
        return []
    try:
        return list(get_type_hints(kind, include_extras=True).values())
    except Exception:  # pydantic says what is wrong with such a type
        return []
