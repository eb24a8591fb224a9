"""Tools of an agent with threads: `tool` makes one from a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..core import allowed
from ..core.transcript import value_text
from ..core.wording import described
from ..definitions.calling import call_function
from ..definitions.context import ToolContext
from ..definitions.function_tool import FunctionTool, thread_tool
from ..definitions.tool import Tool
from ..errors import InvalidArguments, InvalidDefinition, UsageError
from ..runtime.sync import block
from ..runtime.tool_pause import HERE
from ..runtime.value import output_json
from ..schema.docstring import parse_docstring as parse_text
from ..schema.injected import Injected
from ..schema.signature import function_name, source_of
from .args_schema import ArgsSchema
from .foreign import is_langchain
from .injection import Slot, recognize
from .message import ToolMessage

ResponseFormat = Literal["content", "content_and_artifact"]
FORMAT = allowed.one_of("content", "content_and_artifact")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ThreadTool(FunctionTool):
    """A tool of an agent with threads, made with `tool`."""

    return_direct: bool = False
    """True if the tool's output ends the run."""
    response_format: ResponseFormat = "content"
    args_schema: Any = None
    """The pydantic model or JSON schema that the tool was made with; None if its function describes the arguments."""

    @property
    def args(self) -> dict[str, Any]:
        """The schemas of the arguments, by their names."""
        found: dict[str, Any] = self.params_json_schema.get("properties", {})
        return found

    async def enter(self, ctx: ToolContext[Any], bound: Any) -> Any:
        """Call the function; a pair of content and artifact becomes a message."""
        value = await super().enter(ctx, bound)
        return value if self.response_format == "content" else self._pair(value, ctx.call_id)

    def _pair(self, value: Any, call_id: str) -> ToolMessage:
        if not isinstance(value, tuple) or len(value) != 2:
            raise UsageError(
                f'The tool {self.name!r} was made with response_format="content_and_artifact" and gives a pair of '
                f"both; it gave {described(value)}."
            )
        return ToolMessage(content=value[0], artifact=value[1], tool_call_id=call_id, name=self.name)

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Call the function by hand, outside of an agent: the program's own call, which no gate judges.

        Args:
            input: The arguments, as a dict. For a whole tool call, `{"name", "args", "id", "type":
                "tool_call"}`, a `ToolMessage` is returned in place of the value. Arguments that an agent fills in are
                given with the others.
            config: The config for a function that takes it.
        """
        call, call_id = self._by_hand(input, config)
        return self._given(block(call_function(call)) if self.awaits else call(), call_id)

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """Call the function by hand as `invoke` does; in a thread if it is not async."""
        call, call_id = self._by_hand(input, config)
        return self._given(await call_function(call), call_id)

    def _by_hand(self, input: Any, config: Any) -> tuple[Callable[[], Any], str | None]:
        """Return the function with its arguments, and the id of the call if there is one."""
        if HERE.get() is not None:
            raise UsageError(
                f"{self.name!r} is called by hand inside of an agent, where calls go through the agent's gate only. "
                "Call its function instead."
            )
        args, call_id = _call_of(self, input)
        names = {each.name: each for each in self.schema.injected}
        given = {name: value for name, value in args.items() if name in names}
        try:
            bound = self.bind(self.canonical({name: value for name, value in args.items() if name not in names}))
        except InvalidArguments as error:
            raise InvalidArguments(f"The arguments do not fit the tool {self.name!r}: {error}.") from None
        positional, keyword = bound
        for each in self.schema.injected:
            value = given[each.name] if each.name in given else _by_hand(each, call_id, config)
            if each.position is None:
                keyword = {**keyword, each.name: value}
            else:
                positional = [*positional[: each.position], value, *positional[each.position :]]
        return functools.partial(self.function, *positional, **keyword), call_id

    def _given(self, value: Any, call_id: str | None) -> Any:
        message = self._pair(value, call_id or "") if self.response_format != "content" else None
        if call_id is None:
            return value if message is None else message.content
        if message is None and not isinstance(value, ToolMessage):
            text = value if isinstance(value, str) else value_text(output_json(value)[0])
            message = ToolMessage(content=text, tool_call_id=call_id, name=self.name)
        return message or value


def _call_of(tool: Tool, input: Any) -> tuple[dict[str, Any], str | None]:
    """Return the arguments and the id of a call by hand."""
    if isinstance(input, Mapping) and input.get("type") == "tool_call" and isinstance(input.get("args"), Mapping):
        return dict(input["args"]), str(input.get("id") or "")
    names = list(tool.params_json_schema.get("properties", ()))
    if isinstance(input, str) and len(names) == 1:
        return {names[0]: input}, None
    if not isinstance(input, Mapping):
        raise InvalidArguments(f"{tool.name!r} takes its arguments as a dict, got {described(input)}.")
    return dict(input), None


def _by_hand(injected: Injected, call_id: str | None, config: Any) -> Any:
    source = injected.source
    if isinstance(source, Slot):
        return source.by_hand(call_id, config)
    raise UsageError(f"{injected.name!r} is filled in by an agent; to call the tool by hand, give it yourself.")


def tool(
    name_or_callable: str | Callable[..., Any] | None = None,
    runnable: Any = None,
    *,
    description: str | None = None,
    return_direct: bool = False,
    args_schema: Any = None,
    infer_schema: bool = True,
    response_format: ResponseFormat = "content",
    parse_docstring: bool = False,
    error_on_invalid_docstring: bool = True,
    extras: dict[str, Any] | None = None,
) -> Any:
    """Make a tool from a function, bare (`@tool`), with a name (`@tool("search")`) or with options.

    Args:
        name_or_callable: The function, or a name in place of the function's.
        runnable: Nothing: a Runnable cannot be a tool here.
        description: A description in place of the docstring's.
        return_direct: True if the output ends the run, if all tools of the turn are such tools.
        args_schema: A pydantic model, or a JSON schema, in place of the function's own parameters.
        infer_schema: True, unless there is an `args_schema`.
        response_format: "content_and_artifact" if the function returns a pair of the content for the model and of a
            value that the model does not get.
        parse_docstring: Without effect: descriptions of the arguments are always read from the docstring.
        error_on_invalid_docstring: Without effect.
        extras: Nothing: settings of one provider are not sent.
    """
    allowed.check_option("tool", "description", description, allowed.TEXT.or_none)
    allowed.check_option("tool", "return_direct", return_direct, allowed.BOOL)
    allowed.check_option("tool", "response_format", response_format, FORMAT)
    if runnable is not None or is_langchain(name_or_callable):
        raise InvalidDefinition("A tool is made of a function; for a Runnable, write a function that calls its invoke.")
    if extras:
        raise InvalidDefinition(
            "tool: extras are for one provider and are not sent; use ModelSettings(extra_args=...)."
        )
    if not infer_schema and args_schema is None:
        raise InvalidDefinition(
            "tool: infer_schema=False needs an args_schema; a function of one text is a tool without it."
        )
    more = {"return_direct": return_direct, "response_format": response_format, "args_schema": args_schema}
    if callable(name_or_callable):
        return _make(name_or_callable, None, description, more)
    allowed.check_option("tool", "its name", name_or_callable, allowed.NAME.or_none)
    return functools.partial(_make, name=name_or_callable, description=description, more=more)


def _make(function: Callable[..., Any], name: str | None, description: str | None, more: dict[str, Any]) -> ThreadTool:
    allowed.check_option("tool", "its function", function, allowed.CALLABLE)
    given, source = more["args_schema"], source_of(function)
    options: dict[str, Any] = {"name_override": name, "description_override": description, "kind": ThreadTool}
    if given is not None:
        told = description or parse_text(inspect.getdoc(source)).description or getattr(given, "__doc__", None)
        options["schema"] = ArgsSchema(name or function_name(source), told or "", function, given)
    made = thread_tool(function, recognize, **options, **more)
    assert isinstance(made, ThreadTool)
    return made
