"""Response formats: the type of a run's final output, and the way in which the model gives it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, NamedTuple, Union, get_args, get_origin

from ..core import allowed
from ..core.digest import parse
from ..core.facts import decode
from ..core.wording import described
from ..definitions.context import ToolContext
from ..definitions.output import AgentOutputSchema, AgentOutputSchemaBase
from ..definitions.tool import Tool
from ..errors import InvalidDefinition, InvalidOutput
from ..runtime.steps.door import BodyOutput
from ..runtime.tool_pause import Body
from ..runtime.value import output_json
from ..schema.foreign import ForeignSchema
from .foreign import langchain_bases
from .middleware_context import S

HandleErrors = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str]


def _handles(given: Any) -> bool:
    return isinstance(given, bool | str | tuple) or callable(given)


HANDLE_ERRORS = allowed.Values("True, False, a text, exception types, or a function of the exception", _handles)


class ToolStrategy(Generic[S]):
    """A response format that the model gives by calling a tool, one for each type of a union.

    Args:
        schema: A pydantic model, a dataclass, a TypedDict, a JSON schema, or a union of such types.
        tool_message_content: The content of the message that answers the call.
        handle_errors: True if the model is told of output that does not fit, and asked again; or the text that it is
            told; or the exceptions of which it is told; or a function that words the exception. False raises
            `InvalidOutput`.
    """

    schema: Any = None
    tool_message_content: str | None = None
    handle_errors: HandleErrors = True

    def __init__(
        self, schema: Any, *, tool_message_content: str | None = None, handle_errors: HandleErrors = True
    ) -> None:
        allowed.check_option("ToolStrategy", "tool_message_content", tool_message_content, allowed.TEXT.or_none)
        allowed.check_option("ToolStrategy", "handle_errors", handle_errors, HANDLE_ERRORS)
        self.schema, self.tool_message_content, self.handle_errors = schema, tool_message_content, handle_errors

    def explain(self, error: InvalidOutput) -> str | None:
        """Return what the model is told of output that does not fit; None if the exception is raised."""
        given: Any = self.handle_errors
        if isinstance(given, str):
            return given
        if isinstance(given, type | tuple):
            given = any(_is_kind(error, each) for each in (given if isinstance(given, tuple) else (given,)))
        if callable(given):
            return str(given(error))
        return f"Error: {error}.\n Please fix your mistakes." if given else None


class ProviderStrategy(Generic[S]):
    """A response format that the provider enforces.

    Args:
        schema: A pydantic model, a dataclass, a TypedDict or a JSON schema.
        strict: True for a strict schema; by default it is strict if the type allows it.
    """

    def __init__(self, schema: Any, *, strict: bool | None = None) -> None:
        allowed.check_option("ProviderStrategy", "strict", strict, allowed.BOOL.or_none)
        self.schema, self.strict = schema, strict


class AutoStrategy(Generic[S]):
    """A response format that the provider enforces; the same as `ProviderStrategy(schema)`."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema


def _is_kind(error: InvalidOutput, kind: Any) -> bool:
    """Return True if an exception is of a kind, or if LangChain has this kind for output that does not fit."""
    own = isinstance(kind, type) and any("structured_output." in name for name in langchain_bases(kind))
    return own or (isinstance(kind, type) and isinstance(error, kind))


class ResponseFormat(NamedTuple):
    """A response format as an agent needs it."""

    output_type: Any = None
    tools: tuple[Tool, ...] = ()
    """The tools with which the model gives the output."""


def read_response_format(given: Any) -> ResponseFormat:
    """Return a response format, ours or LangChain's, or raise `InvalidDefinition`."""
    kind: type = type(given)
    theirs = {name.rpartition(".")[2] for name in langchain_bases(kind)}
    if isinstance(given, ToolStrategy) or "ToolStrategy" in theirs:
        own = ToolStrategy(
            given.schema, tool_message_content=given.tool_message_content, handle_errors=given.handle_errors
        )
        return _by_tools(own)
    if isinstance(given, ProviderStrategy) or "ProviderStrategy" in theirs:
        spec = getattr(given, "schema_spec", given)
        return ResponseFormat(_shape(given.schema, getattr(spec, "strict", None)))
    if isinstance(given, AutoStrategy) or "AutoStrategy" in theirs:
        return ResponseFormat(_shape(given.schema, None))
    return ResponseFormat(_shape(given, None) if isinstance(given, dict) else given)


def _shape(schema: Any, strict: bool | None) -> Any:
    """Return a schema as an output type of an agent."""
    if isinstance(schema, dict):
        return JsonOutput(schema, strict is True)
    if strict is not None:
        return AgentOutputSchema(schema, strict)
    try:
        return AgentOutputSchema(schema)
    except InvalidDefinition:  # a type that no strict schema can describe
        return AgentOutputSchema(schema, strict_json_schema=False)


class JsonOutput(AgentOutputSchemaBase):
    """An output that a JSON schema describes; it stays JSON."""

    def __init__(self, schema: dict[str, Any], strict: bool = False) -> None:
        if schema.get("type") != "object":
            raise InvalidDefinition(
                f'A JSON schema as response_format describes an object, {{"type": "object", ...}}; got '
                f"{described(schema)}."
            )
        self._schema, self._strict, self._foreign = schema, strict, ForeignSchema(schema)

    def is_plain_text(self) -> bool:
        """Return False."""
        return False

    def name(self) -> str:
        """Return the title of the schema."""
        return _tool_name(str(self._schema.get("title") or "response"))

    def json_schema(self) -> dict[str, Any]:
        """Return the schema."""
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Return True if the provider is asked for a strict schema."""
        return self._strict

    def validate_json(self, json_str: str) -> Any:
        """Return the output, or raise `ValueError` if it does not fit."""
        value = parse(json_str)
        if problem := self._foreign.problem(value):
            raise ValueError(problem)
        return value


class ToolOutputSchema(AgentOutputSchema):
    """The form of an output that the model gives by calling a tool: the provider is not told of it."""

    def __init__(self, shapes: list[AgentOutputSchema]) -> None:
        self.shapes = shapes
        self.output_type, self.strict, self.is_wrapped, self.json_schema = shapes, False, False, None
        self.name = " | ".join(each.name for each in shapes)
        self.fingerprint = " ".join(each.fingerprint for each in shapes)[:200]

    def parse(self, text: str) -> Any:
        """Return the model's text as the output, or raise `InvalidOutput`."""
        return self._first(lambda shape: shape.parse(text))

    def dump(self, value: Any) -> Any:
        """Return an output as JSON that `load` takes, or raise `InvalidOutput`."""
        return self._first(lambda shape: shape.dump(value))

    def load(self, data: Any) -> Any:
        """Return an output from its JSON, or raise `InvalidOutput`."""
        return self._first(lambda shape: shape.load(data))

    def _first(self, act: Callable[[AgentOutputSchema], Any]) -> Any:
        """Return what the first type gives that takes it; raise the error of the last."""
        for shape in self.shapes[:-1]:
            try:
                return act(shape)
            except InvalidOutput:
                continue
        return act(self.shapes[-1])


def _by_tools(strategy: ToolStrategy) -> ResponseFormat:
    made = [_shape(each, None) for each in _variants(strategy.schema)]
    shapes = [each.adapted() if isinstance(each, AgentOutputSchemaBase) else each for each in made]
    names = [_tool_name(each.name) for each in shapes]
    if len(set(names)) < len(names):
        raise InvalidDefinition(f"ToolStrategy: two types have one name; there are {', '.join(names)}.")
    tools = [_response_tool(name, shape, strategy, names) for name, shape in zip(names, shapes, strict=True)]
    return ResponseFormat(ToolOutputSchema(shapes), tuple(tools))


def _variants(schema: Any) -> Iterator[Any]:
    if get_origin(schema) in (Union, UnionType):
        for each in get_args(schema):
            yield from _variants(each)
    elif isinstance(schema, dict) and "oneOf" in schema:
        for each in schema["oneOf"]:
            yield from _variants(each)
    else:
        yield schema


def _tool_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name) or "response"


def _response_tool(name: str, shape: AgentOutputSchema, strategy: ToolStrategy, names: list[str]) -> Tool:
    schema = shape.json_schema or {}
    return ResponseTool(
        name=name,
        description=schema.get("description") or f"Give the final response, {shape.name}.",
        params_json_schema={"properties": {}, **schema},
        strict_json_schema=shape.strict,
        failure_error_function=None,
        output=shape,
        strategy=strategy,
        names=frozenset(names),
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ResponseTool(Tool):
    """The tool with which a model gives the final output. It does nothing, and no one is asked about it."""

    output: AgentOutputSchema
    strategy: ToolStrategy
    names: frozenset[str]
    """The names of all tools with which the output can be given."""

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are."""
        return args

    def bind(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are: the body says what does not fit."""
        return args

    async def enter(self, ctx: ToolContext[Any], bound: dict[str, Any]) -> BodyOutput:
        """Return the arguments as the output; or a text about them for the model, if they do not fit."""
        body: Body = ctx._asking  # type: ignore[assignment]
        try:
            if sum(state.tool in self.names for state in body.state.turn.calls) > 1:
                raise InvalidOutput("The model gave several outputs at once, and only one is expected")
            value = self.output.load(bound.get("response") if self.output.is_wrapped else bound)
        except InvalidOutput as error:
            told = self.strategy.explain(error)
            if told is None:
                raise
            return BodyOutput(told, failed=True)
        told = self.strategy.tool_message_content or f"Returning structured response: {value}"
        return BodyOutput(decode(self.output.dump(value)), more=output_json({"content": told})[0])
