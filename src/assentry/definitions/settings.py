"""Settings that users give as dicts, or as objects of a provider's client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain_settings(value: Any) -> Any:
    """Return a value in which each object of a provider's client is a dict of the fields that were set in it."""
    if isinstance(value, Mapping):
        return {key: plain_settings(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_settings(each) for each in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_unset=True) if callable(dump) else value
