"""The contract between a run and a model: one request in, and a stream out that ends with one reply."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_type_hints

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import force_setattr, replace

from ..core import allowed
from ..core.facts import Usage
from ..core.transcript import Item
from ..core.wording import described
from ..errors import InvalidDefinition

if TYPE_CHECKING:
    from .retry import ModelRetrySettings
else:
    ModelRetrySettings = Any  # few programs need it, and whoever reads a signature needs a value

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


@dataclass
class MCPToolChoice:
    """The choice of a tool of an MCP server that the provider calls."""

    server_label: str
    name: str


class ModelSettings(Struct, frozen=True, kw_only=True, metaclass=allowed.NamesOptions):
    """Settings of a model call. A setting that is None is left to the provider.

    A setting that takes a dict also takes an object of OpenAI's client, such as `Reasoning(effort="low")`.
    """

    SENT_IN_BODY: ClassVar[tuple[str, ...]] = ("frequency_penalty", "presence_penalty")
    """The settings that the Responses API gets although OpenAI's client has no parameter for them."""
    STRICT: ClassVar[bool] = True
    """True if a setting that a provider does not have is an error; else it is left out, with a warning in the log."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | MCPToolChoice | None = None
    """"auto", "required", "none", a tool's name, or a tool of an MCP server that the provider calls."""
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_tokens: int | None = None
    reasoning: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    include_usage: bool | None = None
    """False if the Chat Completions API is not asked for the token usage."""
    response_include: list[str] | None = None
    """More parts of a response, such as "reasoning.encrypted_content"."""
    top_logprobs: int | None = None
    """The number of likely tokens whose probabilities the response has, for each token."""
    extra_query: dict[str, Any] | None = None
    extra_body: dict[str, Any] | None = None
    extra_headers: dict[str, Any] | None = None
    extra_args: dict[str, Any] | None = None
    """More arguments, passed unchanged to the provider's client."""
    retry: ModelRetrySettings | None = None
    """Retries of calls that fail, as far as a call can be repeated without another effect."""
    context_management: list[dict[str, Any]] | None = None
    """The compaction of long conversations by the provider, for the Responses API."""
    prompt_cache_options: dict[str, Any] | None = None
    timeout: float | None = None
    """The most seconds that each attempt of a call may take; then it fails with `ModelTimedOut`."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None or (name in OBJECTS and _is_object(name, value)):
                continue
            if name not in OBJECTS and not isinstance(value, BUILT_IN):
                value = plain_setting(value)
                force_setattr(self, name, value)
            try:
                given = convert(value, _kinds()[name])
                fits = type(given) is not float or math.isfinite(given)
            except (ValidationError, SystemError):  # some msgspecs raise it for an integer that no float can hold
                fits = False
            if not fits:
                kind = ModelSettings.__annotations__[name].removesuffix(" | None")
                raise InvalidDefinition(f"ModelSettings: {name} cannot be {described(value)}; it is of type {kind}.")
        if self.timeout is not None:
            allowed.check_option("ModelSettings", "timeout", self.timeout, allowed.POSITIVE_SECONDS)

    def as_sent(self) -> ModelSettings:
        """Return these settings as a model gets them, of plain values."""
        return self

    def resolve(self, override: ModelSettings | None) -> ModelSettings:
        """Return these settings with those that `override` sets replaced.

        The keys of `extra_args` are merged, and so are the settings of `retry`.
        """
        if override is None or override == DEFAULT_SETTINGS:
            return self
        said = {name: getattr(override, name) for name in override.__struct_fields__}
        if self.extra_args and override.extra_args:
            said["extra_args"] = {**self.extra_args, **override.extra_args}
        if self.retry is not None and override.retry is not None:
            said["retry"] = self.retry.merged(override.retry)
        return replace(self, **{name: value for name, value in said.items() if value is not None})


BUILT_IN = (str, bool, int, float, list, dict)
OBJECTS = ("tool_choice", "retry")
"""The settings that may be objects."""


def _is_object(name: str, value: Any) -> bool:
    if name == "tool_choice":
        return isinstance(value, MCPToolChoice)
    from .retry import ModelRetrySettings  # few programs need it

    return isinstance(value, ModelRetrySettings)


def plain_setting(value: Any) -> Any:
    """Return an object of OpenAI's client as a dict of what was set in it, and anything else as it is."""
    dump = getattr(value, "model_dump", None)
    return dump(exclude_unset=True, mode="json") if callable(dump) else value


@functools.cache
def _kinds() -> dict[str, Any]:
    return {**get_type_hints(ModelSettings, localns={"ModelRetrySettings": type(None)}), "tool_choice": str}


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
    names_model: bool = True
    """False if nobody chose the model, so that the model of the prompt may be used."""
    streamed: bool = False
    """True if somebody sees the deltas."""
    attempt: int = 1
    """The number of this attempt. From the second on, a client's own retries would be too many."""


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
