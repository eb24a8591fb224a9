"""The names of `agents.agent`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

from typing_extensions import TypedDict, TypeVar

from ..core import allowed
from ..definitions import agent as native
from ..definitions.agent import ToolsToFinalOutputResult
from ..definitions.agent_tool import AgentBase, AgentTool, Extractor
from ..definitions.context import RunContextWrapper
from ..definitions.item import ViewClasses
from ..definitions.mcp_config import MCPConfig
from ..definitions.output import AgentOutputSchema
from ..definitions.prompt import DynamicPromptFunction, Prompt, resolve_prompt
from ..definitions.tool import Approver, Enabled, FailureText, Rule, Tool
from ..errors import UsageError
from .absent import find_absent
from .agent_output import WrappingOutputSchema
from .agent_tool_input import StructuredToolInputBuilder, input_builder_for
from .assignable import AssignableTool, TextOfOutput, same_names
from .handoffs import Handoff, handoff
from .model_choice import choose_model, initial_settings
from .model_settings import ModelSettings, settings_from
from .stream_events import is_sdk_event
from .tool import FunctionToolResult, default_tool_error_function
from .tracing.run_observer import observe_run
from .typed_item import typed_item
from .view_classes import VIEW_CLASSES

if TYPE_CHECKING:
    from ..definitions.guardrail import InputGuardrail, OutputGuardrail
    from ..definitions.hooks import AgentHooks
    from ..definitions.item import ToolCallOutputItem
    from ..definitions.server import ToolServer
    from ..models.model import Model as OwnModel
    from .models.interface import Model

__all__ = [
    "Agent",
    "AgentBase",
    "AgentToolStreamEvent",
    "MCPConfig",
    "StopAtTools",
    "ToolsToFinalOutputFunction",
    "ToolsToFinalOutputResult",
]

TContext = TypeVar("TContext", default=Any)

ToolsToFinalOutputFunction = Callable[
    [RunContextWrapper[Any], list[FunctionToolResult]], ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult]
]
"""A function that decides if the outputs of a turn's tools end the run."""


class StopAtTools(TypedDict):
    """Tools whose output ends the run."""

    stop_at_tool_names: list[str]


class AgentToolStreamEvent(TypedDict):
    """An event of an agent that runs as a tool, as `as_tool(on_stream=...)` gets it."""

    event: Any
    agent: Agent[Any]
    tool_call: Any


LISTS = ("tools", "handoffs", "mcp_servers", "input_guardrails", "output_guardrails")
NOT_FOR_TOOLS = {
    "run_config": "the settings of the outer run apply; give the agent its own model and model_settings",
    "hooks": "the hooks of the outer run are called; or give the agent its own with Agent(hooks=...)",
    "session": "a nested run is part of the outer run; keep the session there",
    "previous_response_id": "a nested run begins with its input alone",
    "conversation_id": "a nested run begins with its input alone",
}
"""Options of the SDK's `as_tool` that Assentry does not have, and what to do."""


INPUT_SCHEMA = {
    "type": "object",
    "description": "Default input schema for agent-as-tool calls.",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
"""The schema of an agent tool that takes one text, with the SDK's description."""


def _sdk_events_to(callback: Callable[[AgentToolStreamEvent], Any]) -> Callable[[dict[str, Any]], Any]:
    """Return a callback for a nested run's events that passes on those which the SDK has, in its form."""

    def pass_on(seen: dict[str, Any]) -> Any:
        if not is_sdk_event(seen["event"]):
            return None
        return callback({"event": seen["event"], "agent": seen["agent"], "tool_call": typed_item(seen["tool_call"])})

    return pass_on


class _AgentTool(AssignableTool, TextOfOutput, AgentTool[Any]):
    """An agent as a tool, whose fields can be assigned until a run uses it."""

    assignable = same_names("name", "description", "is_enabled", "needs_approval")


@dataclass(eq=False, repr=False)
class Agent(native.Agent[TContext], Generic[TContext]):
    """A model with instructions, tools, and other agents to hand over to; with the SDK's order of options."""

    view_classes: ClassVar[ViewClasses] = VIEW_CLASSES
    gives_text: ClassVar[bool] = True
    output_schema_class: ClassVar[type[AgentOutputSchema]] = WrappingOutputSchema
    output_name: ClassVar[str | None] = "final_output"
    raises_refusals: ClassVar[bool] = True
    model_choice: ClassVar[Any] = choose_model
    observed_by = staticmethod(observe_run)

    def __init__(
        self,
        name: str,
        handoff_description: str | None = None,
        tools: list[Tool] | None = None,
        mcp_servers: list[ToolServer] | None = None,
        mcp_config: MCPConfig | None = None,
        instructions: str
        | Callable[[RunContextWrapper[TContext], Agent[TContext]], str | Awaitable[str]]
        | None = None,
        prompt: Prompt | DynamicPromptFunction | None = None,
        handoffs: Sequence[native.Agent[Any] | Handoff[Any, Any]] | None = None,
        model: str | Model | OwnModel | None = None,
        model_settings: ModelSettings | dict[str, Any] | None = None,
        input_guardrails: list[InputGuardrail[Any]] | None = None,
        output_guardrails: list[OutputGuardrail[Any]] | None = None,
        output_type: Any = None,
        hooks: AgentHooks[Any] | None = None,
        tool_use_behavior: Literal["run_llm_again", "stop_on_first_tool"]
        | StopAtTools
        | ToolsToFinalOutputFunction = "run_llm_again",
        reset_tool_choice: bool = True,
        *,
        reviewers: Sequence[str] = (),
        output_needs_approval: Rule = False,
    ) -> None:
        given = {each: value for each, value in locals().items() if each not in ("self", "__class__")}
        for each in (*LISTS, "mcp_config", "model_settings"):
            if given[each] is None:
                del given[each]
        given.setdefault("model_settings", initial_settings(None))
        native.Agent.__init__(self, **given)

    def __post_init__(self) -> None:
        self.model_settings = settings_from(f"Agent {self.name!r}", self.model_settings)
        if self.model is not None and self.model_settings == initial_settings(None):
            self.model_settings = initial_settings(self.model)
        given = {name: getattr(self, name) for name in LISTS}
        super().__post_init__()
        for name, value in given.items():
            if isinstance(value, list):  # as in the SDK, a list is not copied: it may grow, and clones share it
                setattr(self, name, value)

    def _check_output_type(self, whose: str) -> None:
        """Leave the check to the run, as the SDK does: the program may assign another type before."""

    def clone(self, **kwargs: Any) -> Agent[TContext]:
        """Return a copy with these attributes changed. As in the SDK, the copy shares the lists that are not given."""
        names = [each.name for each in fields(self) if each.init]
        allowed.check_names(f"Agent {self.name!r}", kwargs, names, UsageError)
        if "model" in kwargs and self.model_settings == initial_settings(self.model):
            kwargs = {"model_settings": initial_settings(kwargs["model"]), **kwargs}
        return type(self)(**{**{name: getattr(self, name) for name in names}, **kwargs})

    def handoff_to(self, other: native.Agent[Any]) -> Handoff[Any, Any]:
        """Return the handoff for an agent in the list of handoffs that stands there by itself."""
        return handoff(other)

    def ends_with(self, item: ToolCallOutputItem) -> bool:
        """Return True: as in the SDK, the text that the model would get in an output's place can end a run too."""
        return True

    def final_from_tools(self, output: Any) -> Any:
        """Return the output, as text unless the agent has another output type."""
        return output if self.output_type not in (None, str) or isinstance(output, str) else str(output)

    def results_for_behavior(self, outputs: list[ToolCallOutputItem]) -> list[FunctionToolResult]:
        """Return a turn's outputs in the form that a function as `tool_use_behavior` gets them."""
        tools = native.tools_of(self)
        return [FunctionToolResult(tools.get(item.tool_name), item.output, item) for item in outputs]

    def as_tool(  # type: ignore[override]  # the SDK's order of options
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        custom_output_extractor: Extractor | None = None,
        is_enabled: Enabled = True,
        on_stream: Callable[[AgentToolStreamEvent], Any] | None = None,
        run_config: Any = None,
        max_turns: int | None = None,
        hooks: Any = None,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        session: Any = None,
        failure_error_function: FailureText | None = default_tool_error_function,
        needs_approval: Rule = False,
        parameters: type[Any] | None = None,
        input_builder: StructuredToolInputBuilder | None = None,
        include_input_schema: bool = False,
        on_stream_max_pending_events: int | None = 1024,
        *,
        on_approval: Approver | None = None,
        version: str | None = None,
    ) -> AgentTool:
        """Return this agent as a tool for other agents; see `assentry.Agent.as_tool`.

        With `parameters`, the agent is told that its input is structured data, with a summary of what the parameters
        are, or with their schema if `include_input_schema`. An `input_builder` gets that as a dict: `params`, `summary`
        and `json_schema`.
        """
        given = (run_config, hooks, session, previous_response_id, conversation_id)
        for (option, what), value in zip(NOT_FOR_TOOLS.items(), given, strict=True):
            if value is not None:
                raise UsageError(f"Agent {self.name!r}: as_tool has no {option}: {what}.")
        tool = super().as_tool(
            tool_name,
            tool_description,
            custom_output_extractor=custom_output_extractor,
            is_enabled=is_enabled,
            on_stream=on_stream and _sdk_events_to(on_stream),
            max_turns=max_turns,
            failure_error_function=failure_error_function,
            needs_approval=needs_approval,
            on_approval=on_approval,
            parameters=parameters,
            version=version,
        )
        parts = {each.name: getattr(tool, each.name) for each in fields(tool) if each.init}
        parts["description"] = tool_description or ""
        if parameters is None:
            parts["params_json_schema"] = INPUT_SCHEMA
        if parameters is not None or input_builder is not None:
            allowed.check_option(f"Tool {tool.name!r}", "input_builder", input_builder, allowed.CALLABLE.or_none)
            parts["input_builder"] = input_builder_for(tool.params_json_schema, input_builder, include_input_schema)
        return _AgentTool(**parts)

    async def get_system_prompt(self, run_context: RunContextWrapper[TContext]) -> str | None:
        """Return the instructions; those of a function for this context."""
        told: Any = self.instructions
        told = told(run_context, self) if callable(told) else told
        words: str | None = await told if inspect.isawaitable(told) else told
        return words

    async def get_prompt(self, run_context: RunContextWrapper[TContext]) -> dict[str, Any] | None:
        """Return the prompt that the provider keeps; the one of a function for this context."""
        return await resolve_prompt(run_context, self)

    async def get_mcp_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the tools of the MCP servers, as they list them now."""
        for server in self.mcp_servers:
            async with server.kept_open():
                await server.refresh()
        served = [tool for server in self.mcp_servers for tool in self.tools_of_server(server)]
        return [tool for tool in served if await self._is_enabled(tool, run_context)]

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the tools that the model would be offered with this context: those of MCP servers, and the agent's."""
        served = await self.get_mcp_tools(run_context)
        return [*served, *[tool for tool in self.tools if await self._is_enabled(tool, run_context)]]

    async def _is_enabled(self, tool: Tool, run_context: RunContextWrapper[TContext]) -> bool:
        answer: Any = tool.is_enabled(run_context, self) if callable(tool.is_enabled) else tool.is_enabled
        return bool(await answer if inspect.isawaitable(answer) else answer)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
