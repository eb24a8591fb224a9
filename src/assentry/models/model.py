"""The contract between a run and a model: one request in, and a stream out that ends with one reply."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol, get_type_hints

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import replace

from ..core.facts import Usage
from ..core.transcript import Item
from ..core.wording import described
from ..errors import InvalidDefinition

Native = Literal["shell", "apply_patch"]
"""The calls that some providers have a form of their own for."""


class ToolSpec(Struct, frozen=True):
    """A tool as it is offered to the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = True
    native: Native | None = None
    """The kind of call that a provider may have for it in place of a function."""


class OutputSpec(Struct, frozen=True):
    """The schema that a final output must fit."""

    name: str
    schema: dict[str, Any]
    strict: bool = True


class ModelSettings(Struct, frozen=True, kw_only=True):
    """Settings of a model call. A setting that is None is left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None
    """"auto", "required", "none", or a tool's name."""
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_tokens: int | None = None
    reasoning: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    response_include: list[str] | None = None
    """More parts of a response, such as "reasoning.encrypted_content"."""
    extra_headers: dict[str, str] | None = None
    extra_query: dict[str, Any] | None = None
    extra_body: dict[str, Any] | None = None
    extra_args: dict[str, Any] | None = None
    """More arguments, passed unchanged to the provider's client."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None:
                continue
            try:
                given = convert(value, _kinds()[name])
                fits = type(given) is not float or math.isfinite(given)
            except (ValidationError, SystemError):  # some msgspecs raise it for an integer that no float can hold
                fits = False
            if not fits:
                kind = type(self).__annotations__[name].removesuffix(" | None")
                raise InvalidDefinition(f"ModelSettings: {name} cannot be {described(value)}; it is of type {kind}.")

    def resolve(self, override: ModelSettings | None) -> ModelSettings:
        """Return these settings with those that `override` sets replaced; the keys of `extra_args` are merged."""
        if override is None or override == DEFAULT_SETTINGS:
            return self
        said = {name: getattr(override, name) for name in override.__struct_fields__}
        if self.extra_args and override.extra_args:
            said["extra_args"] = {**self.extra_args, **override.extra_args}
        return replace(self, **{name: value for name, value in said.items() if value is not None})


@functools.cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(ModelSettings)


DEFAULT_SETTINGS = ModelSettings()


class ModelRequest(Struct, frozen=True):
    """One request to a model. `input` is the run's own list: copy it to keep it, and never change it."""

    instructions: str | None
    input: Sequence[Item]
    tools: Sequence[ToolSpec] = ()
    output: OutputSpec | None = None
    """The schema of the final output; None for text."""
    settings: ModelSettings = DEFAULT_SETTINGS
    previous_response_id: str | None = None
    """The id of the last response in a conversation that the provider keeps; `input` then holds only the new items."""
    conversation_id: str | None = None
    """The id of a conversation that the provider keeps; `input` then holds only the new items."""
    hosted: Sequence[dict[str, Any]] = ()
    """The settings of tools that the provider runs itself. A model whose provider has none must raise `UsageError`."""
    prompt: dict[str, Any] | None = None
    """A prompt that the provider keeps, by its id. A model whose provider keeps none must raise `UsageError`."""


class ModelResponse(Struct):
    """A complete reply: its items, its token usage, and the provider's id for it."""

    output: list[Item]
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None


class Model(Protocol):
    """The interface of a model. Implement `name` and `stream` to bring your own."""

    @property
    def name(self) -> str:
        """The model's name, which is part of an agent's definition."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Yield any number of deltas, and then one `ModelResponse`.

        A delta is a dict in the form of an event of OpenAI's Responses API, or that event of OpenAI's client. Deltas
        are passed on to streams and are never kept. A stream that ends without a response, or raises, leaves no trace
        in the run: the same request is made again on resume.
        """
        ...
