"""The names of `agents.tool`."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, TypeAlias, overload

from typing_extensions import TypedDict

from ..core import allowed
from ..core.digest import BadJSON, plain
from ..definitions import function_tool as native
from ..definitions import hosted_tool
from ..definitions.calling import is_async
from ..definitions.content import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from ..definitions.context import RunContextWrapper, ToolContext
from ..definitions.guardrail import ToolInputGuardrail, ToolOutputGuardrail
from ..definitions.hosted_tool import (
    CodeInterpreterTool,
    HostedMCPTool,
    ImageGenerationTool,
    MCPToolApprovalRequest,
    WebSearchTool,
)
from ..definitions.tool import Enabled, FailureText, Rule, Tool
from ..errors import InvalidDefinition, ToolTimedOut, UsageError
from ..models.model import ToolSpec
from ..schema.foreign import WrittenSchema
from ..tools import apply_patch, shell
from ..tools.patch_format import ApplyPatchOperation
from ..tools.shell import (
    ShellActionRequest,
    ShellCallData,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellExecutor,
    ShellResult,
)
from .absent import find_absent
from .assignable import AssignableTool, TextOfOutput, same_names

if TYPE_CHECKING:
    from ..definitions.item import RunItem, ToolApprovalItem
    from ..schema.docstring import Style

__all__ = [
    "ApplyPatchApprovalFunction",
    "ApplyPatchOnApprovalFunction",
    "ApplyPatchOnApprovalFunctionResult",
    "ApplyPatchTool",
    "CodeInterpreterTool",
    "FileSearchTool",
    "FunctionTool",
    "FunctionToolResult",
    "HostedMCPTool",
    "ImageGenerationTool",
    "ImageGenerationToolConfig",
    "MCPToolApprovalFunction",
    "MCPToolApprovalFunctionResult",
    "MCPToolApprovalRequest",
    "ShellActionRequest",
    "ShellApprovalFunction",
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellExecutor",
    "ShellOnApprovalFunction",
    "ShellOnApprovalFunctionResult",
    "ShellResult",
    "ShellTool",
    "Tool",
    "ToolErrorFunction",
    "ToolOrigin",
    "ToolOriginType",
    "ToolOutputFileContent",
    "ToolOutputFileContentDict",
    "ToolOutputImage",
    "ToolOutputImageDict",
    "ToolOutputText",
    "ToolOutputTextDict",
    "ToolTimeoutBehavior",
    "WebSearchTool",
    "WebSearchToolImageSettings",
    "default_tool_error_function",
    "function_tool",
]

ToolErrorFunction = FailureText
ToolTimeoutBehavior = Literal["error_as_result", "raise_exception"]
TIMEOUT_BEHAVIOR = allowed.one_of("error_as_result", "raise_exception")
NOT_OFFERED: dict[str, tuple[Any, str]] = {
    "defer_loading": (False, "tools are offered to the model from the start; leave out tools with is_enabled"),
    "allowed_callers": (None, "only the model calls tools; leave it out"),
    "output_type": (None, "outputs are not checked against a type; check them in the function"),
    "output_json_schema": (None, "only the model gets outputs; leave it out"),
    "custom_data_extractor": (None, "items hold no data of yours; keep it in your context object"),
}
"""Options of the SDK's tools that Assentry does not have: the value that changes nothing, and what to do."""
SCHEMA_OF_FUNCTION = "its schema is that of its function; make the tool with FunctionTool(...)."


def default_tool_error_function(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """Return the text that tells the model of a tool's exception, without any of it, as in the SDK."""
    return "An error occurred while running the tool. Please try again."


class FunctionTool(AssignableTool, TextOfOutput, native.FunctionTool):
    """A tool of a function, with the SDK's constructor: a JSON schema, and a function of context and JSON text.

    The arguments are checked against the schema, and the gate and the door stand before the function, as for any tool.
    Fields can be assigned until a run uses the tool.
    """

    assignable: ClassVar[dict[str, str]] = {
        **same_names("name", "description", "params_json_schema", "on_invoke_tool", "is_enabled", "needs_approval"),
        **same_names("strict_json_schema", "tool_input_guardrails", "tool_output_guardrails"),
        **same_names("timeout_behavior", "timeout_error_function"),
        "timeout_seconds": "timeout",
    }
    defer_loading: ClassVar[bool] = False
    allowed_callers: ClassVar[None] = None
    output_json_schema: ClassVar[None] = None
    custom_data_extractor: ClassVar[None] = None
    timeout_behavior: ToolTimeoutBehavior
    timeout_error_function: FailureText | None
    if TYPE_CHECKING:  # these can be assigned
        name: str
        description: str
        params_json_schema: dict[str, Any]
        is_enabled: Enabled
        needs_approval: Rule
        strict_json_schema: bool
        tool_input_guardrails: Sequence[ToolInputGuardrail]
        tool_output_guardrails: Sequence[ToolOutputGuardrail]
        timeout_seconds: float | None
        on_invoke_tool: Callable[[ToolContext[Any], str], Awaitable[Any]]

    def __init__(
        self,
        name: str,
        description: str,
        params_json_schema: dict[str, Any],
        on_invoke_tool: Callable[[ToolContext[Any], str], Awaitable[Any]] | None = None,
        strict_json_schema: bool = True,
        is_enabled: Enabled = True,
        tool_input_guardrails: Sequence[ToolInputGuardrail] | None = None,
        tool_output_guardrails: Sequence[ToolOutputGuardrail] | None = None,
        needs_approval: Rule = False,
        timeout_seconds: float | None = None,
        timeout_behavior: ToolTimeoutBehavior = "error_as_result",
        timeout_error_function: FailureText | None = None,
        defer_loading: bool = False,
        **options: Any,
    ) -> None:
        whose = f"Tool {name!r}"
        refuse_options(whose, {"defer_loading": defer_loading, **_taken(options)})
        allowed.check_option(whose, "timeout_behavior", timeout_behavior, TIMEOUT_BEHAVIOR)
        allowed.check_option(whose, "timeout_error_function", timeout_error_function, allowed.CALLABLE.or_none)
        words = options.get("failure_error_function")
        if isinstance(words, functools.partial) and words.func is _word_failure:  # of the tool that `replace` copies
            copied, options["failure_error_function"] = words.args
            timeout_error_function = timeout_error_function or copied.timeout_error_function
            if timeout_behavior == "error_as_result":
                timeout_behavior = copied.timeout_behavior
        object.__setattr__(self, "timeout_behavior", timeout_behavior)
        object.__setattr__(self, "timeout_error_function", timeout_error_function)
        schema = options.get("schema")  # that of the tool that `replace` copies, or `function_tool` makes
        if schema is None or on_invoke_tool is not None or isinstance(schema, WrittenSchema):
            on_invoke_tool = options.get("function") if on_invoke_tool is None else on_invoke_tool
            allowed.check_option(whose, "on_invoke_tool", on_invoke_tool, allowed.CALLABLE)
            if schema is not None and not isinstance(schema, WrittenSchema):
                params_json_schema = schema.loose
            params_json_schema = _json_schema(whose, params_json_schema)
            options = {"failure_error_function": None, **options, **_written(whose, params_json_schema, on_invoke_tool)}
        elif params_json_schema != schema.json_schema:
            raise UsageError(f"{whose}: {SCHEMA_OF_FUNCTION}")
        super().__init__(
            name=name,
            description=description,
            params_json_schema=params_json_schema,
            strict_json_schema=strict_json_schema,
            is_enabled=is_enabled,
            tool_input_guardrails=tool_input_guardrails or (),
            tool_output_guardrails=tool_output_guardrails or (),
            needs_approval=needs_approval,
            **(options if timeout_seconds is None else {**options, "timeout": timeout_seconds}),
        )

    def __post_init__(self) -> None:
        given = self.__dict__.setdefault("_words_failure", self.failure_error_function)
        if self.timeout is not None:
            object.__setattr__(self, "failure_error_function", functools.partial(_word_failure, self, given))
        if self.timeout is not None and not self.awaits:
            raise InvalidDefinition(
                f"Tool {self.name!r}: a timeout is for async functions; a thread cannot be stopped."
            )
        super().__post_init__()
        if self.foreign and self.strict_json_schema:
            strict = _strict_schema(self.name, self.params_json_schema)
            object.__setattr__(self, "spec", ToolSpec(self.name, self.description, strict, True, self.native))

    def _set(self, name: str, value: Any) -> None:
        """Set a field. A tool whose function or schema is replaced becomes one of a JSON schema."""
        if name in ("tool_input_guardrails", "tool_output_guardrails"):
            value = value or ()
        if name not in ("on_invoke_tool", "params_json_schema"):
            super()._set(name, value)
            return
        whose = f"Tool {self.name!r}"
        if name == "params_json_schema" and not self.foreign:
            raise UsageError(f"{whose}: {SCHEMA_OF_FUNCTION}")
        schema = _json_schema(whose, value if name == "params_json_schema" else self.schema.loose)
        function = value if name == "on_invoke_tool" else self.function
        allowed.check_option(whose, "on_invoke_tool", function, allowed.CALLABLE)
        for part, made in {"params_json_schema": schema, **_written(whose, schema, function)}.items():
            super()._set(part, made)

    @property
    def qualified_name(self) -> str:
        """The tool's name."""
        return self.name

    if not TYPE_CHECKING:

        @property
        def timeout_seconds(self) -> float | None:
            """The seconds that the body may take."""
            return self.timeout

        @property
        def on_invoke_tool(self) -> Callable[[ToolContext[Any], str], Awaitable[Any]]:
            """A function of context and JSON text that calls the tool as it is now, through the gate and the door.

            A call that needs a person's approval is refused, because it could not wait for it.
            """
            from .tool_call import call_tool

            return functools.partial(call_tool, copy.copy(self))


def _taken(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of the SDK that Assentry does not have out of a dict, and return them."""
    return {name: options.pop(name) for name in NOT_OFFERED if name in options}


def refuse_options(whose: str, given: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an option of the SDK that Assentry does not have, if it would change something."""
    for name, value in given.items():
        nothing, what = NOT_OFFERED[name]
        if value is not nothing and value:
            raise UsageError(f"{whose}: {name} is not in Assentry: {what}.")


def _json_schema(whose: str, given: Any) -> dict[str, Any]:
    try:
        if not isinstance(given, Mapping):
            raise BadJSON("it is no dict")
        return {"type": "object", "properties": {}, **plain(given)}
    except BadJSON as error:
        raise InvalidDefinition(f"{whose}: params_json_schema must be a JSON schema; {error}.") from None


def _written(whose: str, schema: dict[str, Any], function: Any) -> dict[str, Any]:
    """Return the parts of a tool that has a JSON schema in place of a signature."""
    required = schema.get("required", ())
    named = frozenset(each for each in required if type(each) is str) if isinstance(required, list) else frozenset()
    return {
        "function": function,
        "schema": WrittenSchema(schema),
        "awaits": is_async(function),
        "required": named,
        "defaults": {},
    }


def _strict_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    from .strict_schema import ensure_strict_json_schema

    try:
        return ensure_strict_json_schema(schema)
    except UsageError as error:
        raise InvalidDefinition(f"Tool {name!r}: {error} Or use strict_json_schema=False.") from None


async def _word_failure(
    tool: FunctionTool, given: FailureText | None, ctx: RunContextWrapper[Any], error: Exception
) -> str:
    """Return the text for the model if a body failed, or took longer than it may."""
    if not isinstance(error, ToolTimedOut):
        if given is None:
            raise error
        words: Any = given(ctx, error)
    elif tool.timeout_behavior == "raise_exception":
        raise error
    elif tool.timeout_error_function is None:
        return f"Tool '{tool.name}' timed out after {tool.timeout:g} seconds."
    else:
        words = tool.timeout_error_function(ctx, error)
    return str(await words if inspect.isawaitable(words) else words)


@overload
def function_tool(
    func: Callable[..., Any],
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: Style | None = None,
    use_docstring_info: bool = True,
    failure_error_function: FailureText | None = ...,
    strict_mode: bool = True,
    is_enabled: Enabled = True,
    needs_approval: Rule = False,
    tool_input_guardrails: list[ToolInputGuardrail] | None = None,
    tool_output_guardrails: list[ToolOutputGuardrail] | None = None,
    timeout: float | None = None,
    timeout_behavior: ToolTimeoutBehavior = "error_as_result",
    timeout_error_function: FailureText | None = None,
    **more: Any,
) -> FunctionTool: ...
@overload
def function_tool(
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: Style | None = None,
    use_docstring_info: bool = True,
    failure_error_function: FailureText | None = ...,
    strict_mode: bool = True,
    is_enabled: Enabled = True,
    needs_approval: Rule = False,
    tool_input_guardrails: list[ToolInputGuardrail] | None = None,
    tool_output_guardrails: list[ToolOutputGuardrail] | None = None,
    timeout: float | None = None,
    timeout_behavior: ToolTimeoutBehavior = "error_as_result",
    timeout_error_function: FailureText | None = None,
    **more: Any,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def function_tool(
    func: Callable[..., Any] | None = None,
    *,
    failure_error_function: FailureText | None = default_tool_error_function,
    tool_input_guardrails: list[ToolInputGuardrail] | None = None,
    tool_output_guardrails: list[ToolOutputGuardrail] | None = None,
    **more: Any,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool from a function, bare or with options: the SDK's, and those of `assentry.function_tool`."""
    refuse_options("function_tool", _taken(more))
    allowed.check_names("function_tool", more, OPTIONS, UsageError)
    options = {
        **DEFAULTS,
        **more,
        "failure_error_function": failure_error_function,
        "tool_input_guardrails": tool_input_guardrails or (),
        "tool_output_guardrails": tool_output_guardrails or (),
    }
    make: Any = functools.partial(native.make_function_tool, kind=FunctionTool, **options)
    if func is None:
        return make  # type: ignore[no-any-return]
    allowed.check_option("function_tool", "its first argument", func, allowed.CALLABLE)
    return make(func)  # type: ignore[no-any-return]


DEFAULTS: dict[str, Any] = {
    name: each.default
    for name, each in inspect.signature(native.function_tool).parameters.items()
    if name != "function"
}
"""The options of `assentry.function_tool`, and their defaults."""
OPTIONS = (*DEFAULTS, "timeout_behavior", "timeout_error_function")


@dataclass
class FunctionToolResult:
    """The output of a call, as a function that is an agent's `tool_use_behavior` gets it."""

    tool: Any
    """The tool that ran."""
    output: Any
    run_item: RunItem | None
    interruptions: list[ToolApprovalItem] = field(default_factory=list)
    agent_run_result: Any = None


class ToolOriginType(str, Enum):  # noqa: UP042  # its text is not that of a StrEnum
    """The kind of thing that a tool comes from."""

    FUNCTION = "function"
    MCP = "mcp"
    AGENT_AS_TOOL = "agent_as_tool"


@dataclass(frozen=True)
class ToolOrigin:
    """The thing that a tool comes from: a function, an MCP server, or an agent."""

    type: ToolOriginType
    mcp_server_name: str | None = None
    agent_name: str | None = None
    agent_tool_name: str | None = None


class FileSearchTool(hosted_tool.FileSearchTool):
    """The provider's search in your vector stores, with the SDK's order of options."""

    def __init__(
        self,
        vector_store_ids: list[str],
        max_num_results: int | None = None,
        include_search_results: bool = False,
        ranking_options: Any = None,
        filters: Any = None,
    ) -> None:
        super().__init__(
            vector_store_ids,
            max_num_results,
            ranking_options=ranking_options,
            filters=filters,
            include_search_results=include_search_results,
        )


class _JudgedTool(AssignableTool):
    """A tool whose rule gets what it judges as an object, in place of the arguments."""

    assignable: ClassVar[dict[str, str]] = same_names("name", "needs_approval", "on_approval")

    def _set(self, name: str, value: Any) -> None:
        if name == "needs_approval":
            super()._set("judges_arguments", False)
        super()._set(name, value)


class ShellTool(_JudgedTool, shell.ShellTool):
    """A tool that lets the model run shell commands. As in the SDK, nobody is asked unless `needs_approval` says so."""

    type: ClassVar[str] = "shell"

    def __init__(
        self,
        executor: ShellExecutor | None = None,
        name: str = "shell",
        needs_approval: Any = False,
        on_approval: Any = None,
        environment: Any = None,
        **options: Any,
    ) -> None:
        refuse_options("ShellTool", _taken(options))
        options = {"name": name, "on_approval": on_approval, "environment": environment, **options}
        super().__init__(executor, needs_approval=needs_approval, **options)


class ApplyPatchTool(_JudgedTool, apply_patch.ApplyPatchTool):
    """A tool that changes files by patches. As in the SDK, nobody is asked unless `needs_approval` says so."""

    type: ClassVar[str] = "apply_patch"

    def __init__(
        self,
        editor: Any,
        name: str = "apply_patch",
        needs_approval: Any = False,
        on_approval: Any = None,
        **options: Any,
    ) -> None:
        refuse_options("ApplyPatchTool", _taken(options))
        super().__init__(editor, name=name, needs_approval=needs_approval, on_approval=on_approval, **options)


class ApprovalFunctionResult(TypedDict):
    """The decision of an `on_approval` function."""

    approve: bool
    reason: NotRequired[str]


ShellOnApprovalFunctionResult: TypeAlias = ApprovalFunctionResult
ApplyPatchOnApprovalFunctionResult: TypeAlias = ApprovalFunctionResult
ShellApprovalFunction = Callable[[RunContextWrapper[Any], ShellActionRequest, str], bool | Awaitable[bool]]
"""A function that says if a shell call needs a person's approval."""
ShellOnApprovalFunction = Callable[
    [RunContextWrapper[Any], "ToolApprovalItem"], ApprovalFunctionResult | Awaitable[ApprovalFunctionResult]
]
"""A function that decides on a shell call in a person's place."""
ApplyPatchApprovalFunction = Callable[[RunContextWrapper[Any], ApplyPatchOperation, str], bool | Awaitable[bool]]
"""A function that says if an operation of a patch needs a person's approval."""
ApplyPatchOnApprovalFunction = ShellOnApprovalFunction


class WebSearchToolImageSettings(TypedDict, total=False):
    """Settings of a web search for images."""

    max_results: int
    caption: bool


class ImageGenerationToolConfig(TypedDict, total=False):
    """The settings of `ImageGenerationTool`."""

    type: Literal["image_generation"]
    action: Literal["generate", "edit", "auto"]
    background: Literal["transparent", "opaque", "auto"]
    input_fidelity: Literal["high", "low"] | None
    input_image_mask: dict[str, str]
    model: str
    moderation: Literal["auto", "low"]
    output_compression: int
    output_format: Literal["png", "webp", "jpeg"]
    partial_images: int
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"]
    size: str


class MCPToolApprovalFunctionResult(TypedDict):
    """The answer to a provider's request to call a tool of an MCP server."""

    approve: bool
    reason: NotRequired[str]


MCPToolApprovalFunction = Callable[
    [MCPToolApprovalRequest], MCPToolApprovalFunctionResult | Awaitable[MCPToolApprovalFunctionResult]
]
"""A function that answers a provider's request."""


class ToolOutputTextDict(TypedDict, total=False):
    """A text among the parts of a tool's output."""

    type: Literal["text"]
    text: str


class ToolOutputImageDict(TypedDict, total=False):
    """An image in a tool's output."""

    type: Literal["image"]
    image_url: NotRequired[str]
    file_id: NotRequired[str]
    detail: NotRequired[Literal["low", "high", "auto"]]


class ToolOutputFileContentDict(TypedDict, total=False):
    """A file in a tool's output."""

    type: Literal["file"]
    file_data: NotRequired[str]
    file_url: NotRequired[str]
    file_id: NotRequired[str]
    filename: NotRequired[str]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
