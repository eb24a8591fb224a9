"""The mark of a parameter that only a decider may see: `card: Secret[str]`."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, TypeVar

from .hint import parts

T = TypeVar("T")


class _Hidden:
    def __repr__(self) -> str:
        return "Secret"


HIDDEN = _Hidden()

Secret = Annotated[T, HIDDEN]
"""A parameter to mask wherever nobody decides: in lists, messages and logs. Its schema and value are those of `T`."""


def is_secret(hint: Any, types: tuple[type, ...] = ()) -> bool:
    """Return True if a type is marked as `Secret`, is one of these types, or has such a part, at any depth."""
    return any(each is HIDDEN or (inspect.isclass(each) and issubclass(each, types)) for each in parts(hint))
