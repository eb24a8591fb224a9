"""Items and deltas of providers as users read them, whichever model sent them."""

from __future__ import annotations

import functools
import sys
from typing import Any


class RawItem(dict[str, Any]):
    """A provider's item: a dict whose keys can be read as attributes too, `item["name"]` or `item.name`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return _readable(self[name])
        except KeyError:
            raise AttributeError(f"This item has no {name!r}; it has {', '.join(map(repr, self))}.") from None


def _readable(value: Any) -> Any:
    """Return a value of an item with the dicts in it as `RawItem`s."""
    if type(value) is dict:
        return RawItem(value)
    return [_readable(each) for each in value] if type(value) is list else value


TYPED = {
    "response.output_text.delta": "ResponseTextDeltaEvent",
    "response.refusal.delta": "ResponseRefusalDeltaEvent",
    "response.function_call_arguments.delta": "ResponseFunctionCallArgumentsDeltaEvent",
    "response.reasoning_summary_text.delta": "ResponseReasoningSummaryTextDeltaEvent",
    "response.reasoning_text.delta": "ResponseReasoningTextDeltaEvent",
}
"""The types of deltas, and OpenAI's classes for them."""


def readable(delta: Any) -> Any:
    """Return a delta whose fields are attributes.

    A delta of OpenAI's client stays as it is. A dict becomes an instance of the client's own class if the program has
    imported these classes, so that `isinstance(event.data, ResponseTextDeltaEvent)` is true for every model; else a
    `RawItem`. Both can be read as a dict too.
    """
    if type(delta) is not dict:
        return delta
    types = sys.modules.get("openai.types.responses")
    name = next((TYPED[each] for each in TYPED if each == delta.get("type")), "")
    kind = getattr(types, name, None) if types is not None else None
    return RawItem(delta) if kind is None else _readable_class(kind).model_construct(**{**DEFAULTS, **delta})


@functools.cache
def _readable_class(kind: Any) -> Any:
    """Return a subclass of a class of OpenAI's client whose fields can be read as those of a dict too."""

    def get(self: Any, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)

    def read(self: Any, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    return type(kind.__name__, (kind,), {"__getitem__": read, "get": get, "__module__": __name__})


DEFAULTS = {"item_id": "", "output_index": 0, "content_index": 0, "sequence_number": 0, "logprobs": []}
"""The fields that the client's classes have, and that a delta of another provider may lack."""


def as_dict(delta: Any) -> dict[str, Any]:
    """Return a delta as a dict: as it is, or made from an event of OpenAI's client."""
    if isinstance(delta, dict):
        return delta
    made: dict[str, Any] = delta.to_dict(mode="json", exclude_unset=True, warnings=False)
    return made
