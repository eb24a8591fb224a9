"""Provider items as objects of OpenAI's client, where the client is installed. Dicts stay what a run keeps."""

from __future__ import annotations

import functools
from typing import Any, get_origin

from ..core.run import NATIVE
from ..models.delta import RawItem


@functools.cache
def _event_class() -> Any:
    """Return the client's event that carries an item; None if the client is not installed."""
    try:
        from openai.types.responses import ResponseOutputItemDoneEvent
    except ImportError:
        return None
    return ResponseOutputItemDoneEvent


def typed_item(raw: Any) -> Any:
    """Return a provider's item as the client's own object, as far as it fits; any other value as it is.

    Without the client, and for the items that the SDK shows as dicts, it is a `RawItem`.
    """
    if not isinstance(raw, dict):
        return raw
    kind = None if raw.get("type") in NATIVE else _event_class()
    if kind is None:
        return RawItem(raw)
    return _filled(kind.model_construct(item={"type": "message", **raw}).item)


def _filled(value: Any) -> Any:
    """Give an object, and those in it, an empty value for each field that the provider left out."""
    if isinstance(value, list):
        for each in value:
            _filled(each)
    for name, field in getattr(type(value), "model_fields", {}).items():
        held = vars(value)
        if held.get(name) is None:
            held[name] = [] if get_origin(field.annotation) is list else None
        elif isinstance(held[name], list) or hasattr(type(held[name]), "model_fields"):
            _filled(held[name])
    return value


def plain_item(item: Any) -> dict[str, Any]:
    """Return a provider's item as input for a model: a dict, without what only the provider may set."""
    made: dict[str, Any] = dict(item) if isinstance(item, dict) else item.to_dict(mode="python", warnings=False)
    made.pop("created_by", None)
    return made
