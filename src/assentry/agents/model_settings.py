"""The names of `agents.model_settings`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec.structs import replace

from ..core import allowed
from ..core.wording import described
from ..errors import InvalidDefinition
from ..models import model as own
from ..models.model import MCPToolChoice, plain_setting
from ..models.retry import ModelRetrySettings
from .absent import find_absent

if TYPE_CHECKING:
    from openai.types.shared import Reasoning
else:
    Reasoning = Any  # the client is imported late, and whoever reads a signature needs a value

__all__ = ["MCPToolChoice", "ModelSettings", "ToolChoice"]

ToolChoice = str | MCPToolChoice | None
RAW_USAGE = (
    "ModelSettings: preserve_raw_usage is not in Assentry: a run keeps the numbers of tokens, and not the provider's "
    "own record. Leave it out, and read ModelResponse.usage."
)


class SentSettings(own.ModelSettings, frozen=True, kw_only=True):
    """Settings as a model gets them. As in the SDK, a provider gets none that it does not know."""

    SENT_IN_BODY: ClassVar[tuple[str, ...]] = ()
    STRICT: ClassVar[bool] = False


class ReasoningObject:
    """Settings whose `reasoning` is an object of OpenAI's client, made when it is first read."""

    __slots__ = ()

    if not TYPE_CHECKING:

        @property
        def reasoning(self) -> Any:
            """The settings of reasoning, as an object of OpenAI's client; a dict if the client is not installed."""
            held = _reasoning.__get__(self)
            if isinstance(held, Mapping):
                held = reasoning_object(held)
                _reasoning.__set__(self, held)
            return held

        @reasoning.setter
        def reasoning(self, value: Any) -> None:
            _reasoning.__set__(self, value)


_reasoning: Any = own.ModelSettings.reasoning


class ModelSettings(ReasoningObject, own.ModelSettings, frozen=False, kw_only=False):  # type: ignore[misc]
    """Settings of a model call, in the SDK's order and with its objects. They may be changed until a run begins."""

    __dataclass_fields__: ClassVar[dict[str, Any]] = {}
    """The fields, for `dataclasses.replace` and its kin."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | MCPToolChoice | None = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_tokens: int | None = None
    reasoning: Reasoning | None = None  # type: ignore[assignment]
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    include_usage: bool | None = None
    response_include: list[Any] | None = None
    top_logprobs: int | None = None
    extra_query: Any = None
    extra_body: Any = None
    extra_headers: Any = None
    extra_args: dict[str, Any] | None = None
    retry: ModelRetrySettings | None = None
    context_management: list[Any] | None = None
    prompt_cache_options: Any = None
    preserve_raw_usage: bool | None = None
    timeout: float | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            temperature: float | None = None,
            top_p: float | None = None,
            frequency_penalty: float | None = None,
            presence_penalty: float | None = None,
            tool_choice: ToolChoice | dict[str, Any] = None,
            parallel_tool_calls: bool | None = None,
            truncation: Literal["auto", "disabled"] | None = None,
            max_tokens: int | None = None,
            reasoning: Reasoning | dict[str, Any] | None = None,
            verbosity: Literal["low", "medium", "high"] | None = None,
            metadata: dict[str, str] | None = None,
            store: bool | None = None,
            prompt_cache_retention: Literal["in_memory", "24h"] | None = None,
            include_usage: bool | None = None,
            response_include: list[Any] | None = None,
            top_logprobs: int | None = None,
            extra_query: Any = None,
            extra_body: Any = None,
            extra_headers: Any = None,
            extra_args: dict[str, Any] | None = None,
            retry: ModelRetrySettings | dict[str, Any] | None = None,
            context_management: list[Any] | None = None,
            prompt_cache_options: Any = None,
            preserve_raw_usage: bool | None = None,
            timeout: float | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        choice: Any = self.tool_choice
        retry: Any = self.retry
        if isinstance(choice, Mapping):
            allowed.check_names("ModelSettings", choice, ("server_label", "name"), within="tool_choice.")
            self.tool_choice = MCPToolChoice(**choice)
        if isinstance(retry, Mapping):
            allowed.check_names("ModelSettings", retry, ("max_retries", "backoff", "policy"), within="retry.")
            self.retry = ModelRetrySettings(**retry)
        self.as_sent()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, own.ModelSettings) and self.as_sent() == other.as_sent()

    __hash__ = None  # type: ignore[assignment]

    def as_sent(self) -> own.ModelSettings:
        """Return these settings as a model gets them, of plain values."""
        if self.preserve_raw_usage:
            raise InvalidDefinition(RAW_USAGE)
        held = {name: getattr(self, name) for name in SentSettings.__struct_fields__ if name != "reasoning"}
        held["reasoning"] = _reasoning.__get__(self)
        return SentSettings(**{name: plain_setting(value) for name, value in held.items()})

    def resolve(self, override: own.ModelSettings | dict[str, Any] | None) -> ModelSettings:
        """Return these settings with those that `override` sets replaced."""
        if override is None:
            return self
        given = settings_from("ModelSettings.resolve", override)
        said = {name: getattr(given, name) for name in given.__struct_fields__}
        if self.extra_args and given.extra_args:
            said["extra_args"] = {**self.extra_args, **given.extra_args}
        if self.retry is not None and given.retry is not None:
            said["retry"] = self.retry.merged(given.retry)
        return replace(self, **{name: value for name, value in said.items() if value is not None})

    def to_json_dict(self) -> dict[str, Any]:
        """Return all settings as JSON data."""
        made = {name: _json(getattr(self, name)) for name in self.__struct_fields__}
        return {**made, "retry": self.retry.to_json_dict() if self.retry is not None else None}

    def to_traceable_dict(self) -> dict[str, Any]:
        """Return the settings as JSON data, without what goes to a provider unread."""
        hidden = ("extra_query", "extra_body", "extra_headers", "extra_args", "preserve_raw_usage")
        return {name: value for name, value in self.to_json_dict().items() if name not in hidden}


def _fields() -> dict[str, Any]:
    names = [(name, Any, dataclasses.field(default=None)) for name in ModelSettings.__struct_fields__]
    made: Any = dataclasses.make_dataclass("ModelSettingsFields", names)
    fields: dict[str, Any] = made.__dataclass_fields__
    return fields


ModelSettings.__dataclass_fields__ = _fields()


def _json(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, MCPToolChoice):
        return dataclasses.asdict(value)
    return {name: _json(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def reasoning_object(given: Mapping[str, Any]) -> Any:
    """Return settings of reasoning as the client's object; as they are if the client is not installed."""
    try:
        from openai.types.shared import Reasoning
    except ImportError:
        return given
    return Reasoning(**given)


def settings_from(whose: str, given: Any) -> own.ModelSettings:
    """Return settings that were given as an object or a dict; raise `InvalidDefinition` for anything else."""
    if isinstance(given, own.ModelSettings):
        return given
    if not isinstance(given, Mapping):
        raise InvalidDefinition(f"{whose}: model_settings must be a ModelSettings or a dict, got {described(given)}.")
    allowed.check_names(whose, given, ModelSettings.__struct_fields__, within="model_settings.")
    return ModelSettings(**given)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
