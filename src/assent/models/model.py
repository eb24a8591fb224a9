"""The contract between a run and a model: one request in, a stream out that ends with one reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from ..core.facts import Usage
from ..core.transcript import Item


class ToolSpec(Struct, frozen=True):
    """A tool as the model is offered it."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = True


class ModelRequest(Struct, frozen=True):
    """What a model is asked. `input` is the run's own list: copy it to keep it, never change it."""

    instructions: str | None
    input: Sequence[Item]
    tools: Sequence[ToolSpec] = ()


class ModelResponse(Struct):
    """A complete reply: its items, what it used, and the provider's id for it."""

    output: list[Item]
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None


class Model(Protocol):
    """Something that answers. Bring your own by implementing this one method."""

    @property
    def name(self) -> str:
        """What the model is called; part of an agent's definition."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Yield any number of deltas, as plain dicts, and then one `ModelResponse`.

        Deltas are shown to whoever streams and are never kept. A stream that ends without a
        response, or raises, leaves no trace in the run: the same request is made again on resume.
        """
        ...
