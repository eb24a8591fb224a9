"""Tools made from functions."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from ..core import allowed
from ..core.facts import Risk
from ..errors import InvalidDefinition, ToolTimedOut, UsageError
from ..schema.foreign import WrittenSchema
from .calling import in_thread, is_async
from .context import THREAD_CONFIG, RunContextWrapper, ToolContext
from .deadline import Deadline
from .guardrail import ToolInputGuardrail, ToolOutputGuardrail
from .probe import Probe
from .tool import (
    Approver,
    Enabled,
    FailureText,
    Previewer,
    Rule,
    Tool,
    as_tuple,
    default_tool_error_function,
)

if TYPE_CHECKING:
    from ..schema.docstring import Style
    from ..schema.injected import Recognizer
    from ..schema.schema import FunctionSchema

STYLE = allowed.one_of("google", "numpy", "sphinx").or_none


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FunctionTool(Tool):
    """A tool whose body is a Python function."""

    function: Callable[..., Any]
    schema: FunctionSchema | WrittenSchema
    awaits: bool

    @property
    def shape(self) -> dict[str, Any]:
        """The schema with all its defaults."""
        return self.schema.loose

    @property
    def foreign(self) -> bool:
        """True if the schema was not made from the function's signature, and may be of any draft."""
        return isinstance(self.schema, WrittenSchema)

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in; nothing is coerced."""
        return self.schema.canonical(args) if self.schema.fills else args

    def bind(self, args: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and keyword arguments for the function, or raise `InvalidArguments`."""
        return self.schema.bind(args)

    async def enter(self, ctx: ToolContext[Any], bound: tuple[list[Any], dict[str, Any]]) -> Any:
        """Call the function: await it if it is async, else run it in a thread."""
        args, kwargs = bound
        for each in self.schema.injected:
            source = each.source
            value = source(ctx) if callable(source) else ctx if source == "context" else injected_value(source, ctx)
            if each.position is None:
                kwargs = {**kwargs, each.name: value}
            else:
                args = [*args[: each.position], value, *args[each.position :]]
        if not self.awaits:
            value = await in_thread(functools.partial(self.function, *args, **kwargs))
            return await _await_result(value)
        if self.timeout is None:
            return await _await_result(await self.function(*args, **kwargs))
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return await _await_result(await self.function(*args, **kwargs))
        except TimeoutError as error:
            if limit.expired():  # not a `TimeoutError` of the body
                raise ToolTimedOut(
                    f"it took longer than {self.timeout:g} seconds", tool_name=self.name, timeout_seconds=self.timeout
                ) from error
            raise


def injected_value(source: str, ctx: ToolContext[Any]) -> Any:
    """Return the value of a parameter that other code expects to be injected; nothing of it comes from the model."""
    if source == "call id":
        return ctx.call_id
    config = THREAD_CONFIG.get()
    if config is None:
        raise UsageError(
            f"The tool {ctx.tool_name!r} takes the RunnableConfig of its thread, but this "
            "run was not started by invoke and has none. Take what it needs from ctx: ToolContext instead."
        )
    given = config.get("configurable")
    return {**config, "configurable": {**given} if isinstance(given, Mapping) else {}}  # a copy for each body


async def _await_result(value: Any) -> Any:
    """Return the body's result, awaited if it is awaitable."""
    return await value if inspect.isawaitable(value) else value


@overload
def function_tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def function_tool(
    *,
    name_override: str | None = ...,
    description_override: str | None = ...,
    use_docstring_info: bool = ...,
    docstring_style: Style | None = ...,
    strict_mode: bool = ...,
    is_enabled: Enabled = ...,
    needs_approval: Rule = ...,
    on_approval: Approver | None = ...,
    preview: Previewer | None = ...,
    preview_timeout: float = ...,
    reviewers: Sequence[str] = ...,
    redact: Sequence[str] = ...,
    risk: Risk | None = ...,
    failure_error_function: FailureText | None = ...,
    timeout: float | None = ...,
    deadline: Deadline | float | None = ...,
    idempotent: bool = ...,
    probe: Probe | None = ...,
    version: str | None = ...,
    tool_input_guardrails: Sequence[ToolInputGuardrail] = ...,
    tool_output_guardrails: Sequence[ToolOutputGuardrail] = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
@allowed.names_options("function_tool")
def function_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    use_docstring_info: bool = True,
    docstring_style: Style | None = None,
    strict_mode: bool = True,
    is_enabled: Enabled = True,
    needs_approval: Rule = False,
    on_approval: Approver | None = None,
    preview: Previewer | None = None,
    preview_timeout: float = 10.0,
    reviewers: Sequence[str] = (),
    redact: Sequence[str] = (),
    risk: Risk | None = None,
    failure_error_function: FailureText | None = default_tool_error_function,
    timeout: float | None = None,
    deadline: Deadline | float | None = None,
    idempotent: bool = False,
    probe: Probe | None = None,
    version: str | None = None,
    tool_input_guardrails: Sequence[ToolInputGuardrail] = (),
    tool_output_guardrails: Sequence[ToolOutputGuardrail] = (),
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool from a function, bare (`@function_tool`) or with options.

    Name, description and parameters come from the function's own name, docstring and type hints. A first parameter of
    type `RunContextWrapper` or `ToolContext` gets the context and is not offered to the model. A function that is not
    async runs in a thread.

    Args:
        function: The function, when used bare.
        name_override: A name in place of the function's.
        description_override: A description in place of the docstring's.
        use_docstring_info: If True, read the descriptions from the docstring.
        docstring_style: "google", "numpy" or "sphinx"; None to tell it from the docstring.
        strict_mode: If True, the schema is strict: every property is required, and no others are allowed.
        is_enabled: If True, the model is offered the tool; or a function of context and agent.
        needs_approval: If True, a person must approve each call; or a function of context, canonical arguments and the
            provider's call id, which returns True, False, or an `Ask`. If it fails or returns anything else, a person
            is asked. The tool's fingerprint covers its
            name, and its `version` attribute if it has one.
        on_approval: Code that decides in the person's place; see the guide on approvals.
        preview: A function of context and canonical arguments that says what the call would do, for the person who
            decides: a sentence, or a `Preview`. It must change nothing.
        preview_timeout: Seconds that the preview may take.
        reviewers: The users, and the groups as "group:name", who may decide on a call. Empty for the agent's.
        redact: Parameters to mask wherever nobody decides: in lists, messages and logs. Those annotated as `Secret`
            are masked too.
        risk: "low" or "high"; a rule may say otherwise of a call, with `Ask(risk=...)`. A call of high risk takes two
            acts to approve on the page.
        failure_error_function: A function that words an exception for the model; None raises the exception to you.
        timeout: Seconds that the body may take; for async functions only.
        deadline: The time that a question waits: a `Deadline`, or the seconds after which the call is rejected.
        idempotent: If True, a call whose outcome is unknown may run again, with the same idempotency key.
        probe: A function that finds out the outcome of such a call. It gets the context and the canonical arguments,
            and returns `Happened(output)`, `NotHappened()`, or `CannotTell(seen)` or None if it cannot tell.
        version: A version of your own, part of the tool's fingerprint.
        tool_input_guardrails: Guardrails that check the arguments before the body is entered.
        tool_output_guardrails: Guardrails that check the body's output before anyone else sees it.
    """

    options = {name: value for name, value in locals().items() if name != "function"}
    if function is None:
        return functools.partial(make_function_tool, **options)
    allowed.check_option("function_tool", "its first argument", function, allowed.CALLABLE)
    return make_function_tool(function, **options)


def thread_tool(function: Callable[..., Any], recognize: Recognizer | None = None, **options: Any) -> FunctionTool:
    """Make a tool of an agent with threads from a function, which may take the config of its thread."""
    named = {"name_override": None, "description_override": None, "use_docstring_info": True, **options}
    return make_function_tool(
        function, **named, strict_mode=False, timeout=None, redact=(), config=True, recognize=recognize
    )


def make_function_tool(
    function: Callable[..., Any],
    *,
    name_override: str | None,
    description_override: str | None,
    use_docstring_info: bool,
    docstring_style: Style | None = None,
    strict_mode: bool,
    timeout: float | None,
    redact: Sequence[str],
    config: bool = False,
    recognize: Recognizer | None = None,
    schema: Any = None,
    kind: type[FunctionTool] = FunctionTool,
    **options: Any,
) -> FunctionTool:
    """Make a tool of this kind from a function, with the options of `function_tool`.

    A `schema` of its own stands in the place of the one that is made from the function.
    """
    from ..schema.schema import function_schema  # imports much of pydantic, which a program without tools does not need

    allowed.check_option("function_tool", "docstring_style", docstring_style, STYLE)
    schema = schema or function_schema(
        function,
        name=name_override,
        description=description_override,
        strict=strict_mode,
        use_docstring=use_docstring_info,
        docstring_style=docstring_style,
        context_types=(RunContextWrapper, ToolContext),
        config=config,
        recognize=recognize,
    )
    awaits = is_async(function)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidDefinition(f"Tool {schema.name!r} is a generator; a tool returns one value.")
    if timeout is not None and not awaits:
        raise InvalidDefinition(
            f"Tool {schema.name!r}: timeout is for async functions only; a thread cannot be stopped. "
            "Make the function async, or give it a limit of its own."
        )
    return kind(
        name=schema.name,
        description=schema.description,
        params_json_schema=schema.json_schema,
        required=schema.required,
        strict_json_schema=strict_mode,
        defaults=schema.defaults,
        timeout=timeout,
        redact=_parameters_to_mask(schema, redact),
        function=function,
        schema=schema,
        awaits=awaits,
        **options,
    )


def _parameters_to_mask(schema: FunctionSchema, redact: Sequence[str]) -> tuple[str, ...]:
    """Return the parameters to mask: those named, and those whose types say so."""
    allowed.check_option(f"Tool {schema.name!r}", "redact", redact, allowed.NAMES)
    named = as_tuple(redact)
    return (*named, *(name for name in schema.secrets if name not in named))


tool = function_tool
"""Another name for `function_tool`."""
