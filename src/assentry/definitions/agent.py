"""Agents as users declare them. Code that runs an agent does not belong here."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import is_
from typing import Any, ClassVar, Generic, Literal

from msgspec import Struct
from typing_extensions import TypeVar

from ..core import allowed
from ..core.digest import digest
from ..core.facts import Release
from ..core.wording import described
from ..errors import InvalidDefinition
from ..models.model import DEFAULT_SETTINGS, Model, ModelSettings, ToolSpec
from ..models.named import adapt_model, is_model, model_from
from ..schema.typed import parameters as parameters_of
from .agent_tool import INPUT_TEXT, AgentBase, AgentTool, Extractor, InputBuilder, OnStream
from .context import RunContextWrapper
from .guardrail import InputGuardrail, OutputGuardrail, guardrails_of
from .handoff import Handoff, handoff
from .hooks import AgentHooks
from .hosted_tool import HostedTool
from .item import ToolCallOutputItem, ViewClasses
from .mcp_config import MCP_OPTIONS, MCPConfig, configured_tool
from .output import AgentOutputSchema, AgentOutputSchemaBase
from .prompt import PROMPT_OR_FUNCTION, DynamicPromptFunction, Prompt, prompt_mark
from .server import ToolServer
from .tool import Approver, Enabled, FailureText, Rule, Tool, as_tuple, default_tool_error_function, qualified_name

T = TypeVar("T", default=Any)
Instructions = str | Callable[[RunContextWrapper[Any], "Agent[Any]"], str | Awaitable[str]]


ENDING_OUTCOMES = ("finished", "edited", "responded")
"""The outcomes of a call that can end a run: the call ran, or a person answered in its place."""


class Toolbox(Struct, frozen=True, eq=False):
    """An agent's tools and handoffs by name, and the lists that they were made from."""

    parts: tuple[list[Tool], list[Agent[Any] | Handoff]]
    tools: dict[str, Tool]
    specs: tuple[ToolSpec, ...]
    choosy: bool
    """True if some of the tools are not always enabled."""
    leading: bool
    """True if some of the tools lead to other agents."""
    hosted: tuple[dict[str, Any], ...] = ()
    """The settings of the tools that the provider runs."""
    include: tuple[str, ...] = ()
    """More parts that the tools of the provider want in a response."""
    revision: int = 0
    """The value of `Tool.revision` that the toolbox was made at."""
    served: tuple[tuple[Tool, ...], ...] = ()
    """The tools of each server that the toolbox was made from."""


ModelChoice = Callable[[Any, Any], tuple[Model, ModelSettings]]


class ToolsToFinalOutputResult(Struct, frozen=True):
    """The result of a `tool_use_behavior` function: True and a final output to end the run, or False to continue."""

    is_final_output: bool
    final_output: Any = None


ToolUse = (
    Literal["run_llm_again", "stop_on_first_tool"]
    | Mapping[str, list[str]]
    | Callable[
        [RunContextWrapper[Any], list[ToolCallOutputItem]],
        ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult],
    ]
)


def _is_tool_use(given: Any) -> bool:
    names = given.get("stop_at_tool_names") if isinstance(given, Mapping) and len(given) == 1 else None
    stops = isinstance(names, list | tuple) and all(type(name) is str for name in names)
    return stops or callable(given) or given in ("run_llm_again", "stop_on_first_tool")


AGENT_OPTIONS = allowed.Options(
    instructions=allowed.TEXT_OR_CALLABLE.or_none,
    tools=allowed.LIST,
    handoffs=allowed.LIST,
    mcp_servers=allowed.LIST,
    mcp_config=allowed.instance_of(Mapping, "a dict"),
    reviewers=allowed.NAMES,
    handoff_description=allowed.Values("text", lambda value: type(value) is str).or_none,
    output_needs_approval=allowed.BOOL_OR_CALLABLE,
    input_guardrails=guardrails_of(InputGuardrail),
    output_guardrails=guardrails_of(OutputGuardrail),
    model_settings=allowed.instance_of(ModelSettings),
    tool_use_behavior=allowed.Values(
        '"run_llm_again", "stop_on_first_tool", {"stop_at_tool_names": [...]} or a callable', _is_tool_use
    ),
    reset_tool_choice=allowed.BOOL,
    hooks=allowed.instance_of(AgentHooks).or_none,
    prompt=PROMPT_OR_FUNCTION,
)


@allowed.names_options("Agent")
@dataclass(eq=False, repr=False)
class Agent(AgentBase[T], Generic[T]):
    """A model with instructions, tools, and other agents to hand over to."""

    view_classes: ClassVar[ViewClasses] = {}
    """The classes that runs of such an agent show their items, replies, results and states in, by Assentry's own.

    It is empty for Assentry's own classes. The agent that a run begins with decides for the whole run."""
    gives_text: ClassVar[bool] = False
    """True if input filters get a run's input as text if it was one text; False if they always get items."""
    output_schema_class: ClassVar[type[AgentOutputSchema]] = AgentOutputSchema
    """The class of the schema that is made of an output type."""
    output_name: ClassVar[str | None] = None
    """The name under which the model is given the schema of the output; None for the name of the type."""

    raises_refusals: ClassVar[bool] = False
    """True if a model's refusal is an error also where the output is text, and not the output."""
    model_choice: ClassVar[ModelChoice | None] = None
    """A function of an agent and the settings of its run that returns the model to ask, and the settings to ask with.

    It is None for Assentry's own class, which looks a model's name up when the agent is made. With such a function,
    the name stays a name until the agent is run."""

    name: str
    instructions: Instructions | None = None
    """The system prompt: text, or a function of context and agent that returns text."""
    tools: list[Tool] = field(default_factory=list)
    """The tools that the model may call. The list is read before each turn, so it may change."""
    model: Model | str | None = None
    """The model, or a model name such as "gpt-5.2", which is looked up at once; see `register_provider`.

    `RunConfig(model=...)` takes precedence. None is the default model, see `set_default_model`."""
    handoffs: list[Agent[Any] | Handoff] = field(default_factory=list)
    """The agents that may take over, each as an agent or as `handoff(...)` with options."""
    mcp_servers: list[ToolServer] = field(default_factory=list)
    """The MCP servers whose tools the model may call; see `assentry.mcp`. Their tools are listed before each turn."""
    mcp_config: MCPConfig = field(default_factory=lambda: MCPConfig())
    """Settings for the tools of the MCP servers."""
    reviewers: Sequence[str] = ()
    """The users, and the groups as "group:name", who may decide on calls of tools without reviewers of their own."""
    handoff_description: str | None = None
    """A description of this agent for the models of other agents: for handoffs and, by default, for `as_tool()`."""
    output_type: Any = None
    """The type of the final output; None or `str` for text. See `AgentOutputSchema`."""
    output_needs_approval: Rule = False
    """True if a person must approve the final output, or a function that decides.

    The function is called as for tools, with the arguments `{"output": ...}`."""
    input_guardrails: list[InputGuardrail] = field(default_factory=list)
    output_guardrails: list[OutputGuardrail] = field(default_factory=list)
    model_settings: ModelSettings = DEFAULT_SETTINGS
    tool_use_behavior: ToolUse = "run_llm_again"
    """The use of tool outputs: input for the model, or the end of the run.

    "run_llm_again" gives the outputs to the model. "stop_on_first_tool" ends the run with the first output.
    `{"stop_at_tool_names": [...]}` ends the run with the first output of these tools. A function of context and
    outputs decides for itself. A call never ends the run if it did not run, failed, or had its output held back by a
    guardrail. An output that ends the run must fit the output type, if there is one."""
    reset_tool_choice: bool = True
    """True if `model_settings.tool_choice` is dropped after a turn with calls, so that the agent can finish."""
    hooks: AgentHooks[Any] | None = None
    prompt: Prompt | DynamicPromptFunction | None = None
    """A prompt that OpenAI keeps, `{"id": ..., "version": ..., "variables": {...}}`, or a function that chooses one.

    The function gets a value with `context` and `agent`. Only an `OpenAIResponsesModel` can use it."""
    observed_by: ClassVar[Callable[..., Any] | None] = None
    """A function that makes the observer of a run that such an agent begins, in place of `RunConfig(tracing=...)`."""
    _model: Model | None = field(default=None, init=False)
    """The last result of `model_of`: an object that was found to be a model."""
    _configured: dict[ToolServer, tuple[Any, dict[str, Any], tuple[Tool, ...]]] = field(
        default_factory=dict, init=False
    )
    """The tools of each server with these settings, after the tools and the settings that they were made from."""
    _tools: Toolbox | None = field(default=None, init=False)
    """The cached result of `toolbox_of`."""
    _defined: tuple[tuple[Any, ...], Any] | None = field(default=None, init=False)
    """The cached definition, after the values that it was made from."""
    _graph: Any = field(default=None, init=False)
    """The cached places of the agents that can be reached from this agent."""
    _shape: tuple[Any, AgentOutputSchema] | None = field(default=None, init=False)
    """The cached schema of the output type, after the type that it was made from."""

    def __post_init__(self) -> None:
        allowed.check_option("Agent", "name", self.name, allowed.NAME)
        whose = f"Agent {self.name!r}"
        AGENT_OPTIONS.check(whose, self)
        if self.mcp_config:
            MCP_OPTIONS.check_items(f"{whose}: mcp_config", self.mcp_config)
        if self.model_choice is None and self.model is not None:
            self.model = self._model = model_from(whose, self.model)
        elif self.model is not None and not isinstance(self.model, str):
            model_from(whose, self.model)
        self.tools, self.handoffs, self.mcp_servers = list(self.tools), list(self.handoffs), list(self.mcp_servers)
        self.input_guardrails, self.output_guardrails = list(self.input_guardrails), list(self.output_guardrails)
        self.reviewers = as_tuple(self.reviewers)
        self._check_output_type(whose)
        tools_of(self)

    def _check_output_type(self, whose: str) -> None:
        """Raise `InvalidDefinition` if no schema can be made of the output type."""
        try:
            schema_of(self)
        except InvalidDefinition as error:
            raise InvalidDefinition(f"{whose}: {error}") from error.__cause__

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    def clone(self, **changes: Any) -> Agent[T]:
        """Return a copy with these attributes changed. The copy has its own lists of tools, handoffs and guardrails."""
        return replace(self, **changes)

    def handoff_to(self, other: Agent[Any]) -> Handoff:
        """Return the handoff for an agent in the list of handoffs that stands there by itself."""
        return handoff(other)

    def tools_of_server(self, server: ToolServer) -> tuple[Tool, ...]:
        """Return a server's tools with the agent's `mcp_config`; the same tuple until a part has changed."""
        if not self.mcp_config:
            return server.tools
        found = self._configured.get(server)
        if found is None or found[0] is not server.tools or found[1] != self.mcp_config:
            made = tuple(configured_tool(tool, self.mcp_config) for tool in server.tools)
            found = self._configured[server] = server.tools, dict(self.mcp_config), made
        return found[2]

    def ends_with(self, item: ToolCallOutputItem) -> bool:
        """Return True if a call's output can end a run; a guardrail's replacement text is for the model only."""
        return item.outcome.status in ENDING_OUTCOMES and not item.outcome.by.startswith("guardrail:")

    def may_end_after(self, tools: Collection[str]) -> bool:
        """Return True if outputs can end a run after a turn with calls of these tools."""
        return True

    def final_from_tools(self, output: Any) -> Any:
        """Return the final output that a tool's output becomes if it ends the run."""
        return output

    def rejection_text(self, tool: str, call_id: str, message: str | None) -> str | None:
        """Return the text that tells the model of a person's rejection; None for the message, or the usual words."""
        return None

    def edit_notice_text(self, ran: Sequence[tuple[str, dict[str, Any]]]) -> str | None:
        """Return the words that tell the model what ran after a person's edit, before the output; None as usual.

        `ran` are the tools and the arguments, without defaults.
        """
        return None

    @property
    def nested_release(self) -> Release | None:
        """The release of approved calls where this agent is a tool; None for that of the run."""
        return None

    def results_for_behavior(self, outputs: list[ToolCallOutputItem]) -> list[Any]:
        """Return a turn's outputs in the form that a function as `tool_use_behavior` gets them."""
        return outputs

    @allowed.names_options("Agent.as_tool")
    def as_tool(
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        *,
        needs_approval: Rule = False,
        on_approval: Approver | None = None,
        is_enabled: Enabled = True,
        failure_error_function: FailureText | None = default_tool_error_function,
        custom_output_extractor: Extractor | None = None,
        on_stream: OnStream | None = None,
        max_turns: int | None = None,
        parameters: Any = None,
        input_builder: InputBuilder | None = None,
        version: str | None = None,
    ) -> AgentTool:
        """Return this agent as a tool for other agents. Each call is a nested run inside the outer run.

        The questions of the nested run appear in the outer run and are decided there. The nested run then continues
        where it stopped.

        Args:
            tool_name: The tool's name. The default is the agent's name in lower case, with "_" for other characters.
            tool_description: The tool's description for the model.
            needs_approval: True if a person must approve each call before the agent runs, or a function as for tools.
            on_approval: Code that decides in the person's place.
            is_enabled: True if the model is offered the tool, or a function of context and agent.
            failure_error_function: A function that returns the text for the model if the agent fails. None raises the
                error to you.
            custom_output_extractor: A function that returns the tool's output from the nested `RunResult`. The default
                is the final output.
            on_stream: A callback for the nested run's events, each as
                `{"event": ..., "agent": ..., "call_id": ...}`.
            max_turns: The limit of model turns in one call. The default is 10.
            parameters: A type for the arguments, instead of one text, `input`.
            input_builder: A function that returns the agent's input from the arguments. The default is the text, or
                the arguments as JSON.
            version: A version mark of your own. It is part of the tool's fingerprint.
        """
        name = tool_name or re.sub(r"[^a-z0-9_]", "_", self.name.lower())
        shape = parameters_of(name, parameters) if parameters is not None else None
        return AgentTool(
            name=name,
            description=tool_description or self.handoff_description or f"Ask the agent {self.name}.",
            params_json_schema=(shape or INPUT_TEXT).json_schema,
            required=(shape or INPUT_TEXT).required,
            defaults=(shape or INPUT_TEXT).defaults,
            needs_approval=needs_approval,
            on_approval=on_approval,
            is_enabled=is_enabled,
            failure_error_function=failure_error_function,
            version=version,
            agent=self,
            custom_output_extractor=custom_output_extractor,
            on_stream=on_stream,
            max_turns=max_turns,
            parameters=shape,
            input_builder=input_builder,
        )


def model_of(agent: Agent[Any]) -> Model | None:
    """Return the agent's own model. A name or a chat model that was set after the agent was made is looked up now."""
    model = agent.model
    if model is not agent._model:
        if isinstance(model, str) or (model is not None and not is_model(model)):
            model = agent.model = model_from(f"Agent {agent.name!r}", model)
        agent._model = model
    return agent._model


def model_name(agent: Agent[Any]) -> str:
    """Return the name of the agent's own model, which is part of its definition; empty if it has none."""
    if agent.model_choice is None:
        own = model_of(agent)
        return own.name if own is not None else ""
    if isinstance(agent.model, str):
        return agent.model
    return str(adapt_model(agent.model).name) if agent.model is not None else ""


def tools_of(agent: Agent[Any]) -> dict[str, Tool]:
    """Return the agent's tools and handoffs by name, or raise `InvalidDefinition` if two have the same name."""
    return toolbox_of(agent).tools


def toolbox_of(agent: Agent[Any]) -> Toolbox:
    """Return the agent's toolbox. It is rebuilt when the lists of tools or handoffs have changed."""
    box = agent._tools
    served = _server_tools(agent) if agent.mcp_servers else ()
    if (
        box is not None
        and box.revision == Tool.revision
        and box.parts == (agent.tools, agent.handoffs)
        and (box.served is served or _is_same(box.served, served))
    ):
        return box
    out: dict[str, Tool] = {}
    own = [*agent.tools, *handoffs_of(agent)] if agent.handoffs else agent.tools
    for tool in [*own, *chain.from_iterable(served)] if served else own:
        if not isinstance(tool, Tool):
            raise InvalidDefinition(
                f"Agent {agent.name!r}: {described(tool)} is not a tool; decorate a function with @function_tool, "
                "and make a tool of an agent with as_tool()."
            )
        if tool.name in out and (served and (tool.source or out[tool.name].source)):
            raise InvalidDefinition(_clash(agent, out[tool.name], tool))
        if tool.name in out:
            raise InvalidDefinition(
                f"Agent {agent.name!r} has two tools named {tool.name!r}; rename one (name_override for a function, "
                "tool_name for an agent, tool_name_override for a handoff)."
            )
        out[tool.name] = tool
    _check_native(agent, out)
    specs, hosted, include = split_offer(out)
    choosy = any(tool.is_enabled is not True for tool in out.values())
    leading = any(isinstance(tool, AgentTool | Handoff) for tool in out.values())
    parts = agent.tools[:], agent.handoffs[:]
    box = Toolbox(parts, out, specs, choosy, leading, hosted, include, Tool.revision, served)
    agent._tools = box
    return box


def _server_tools(agent: Agent[Any]) -> tuple[tuple[Tool, ...], ...]:
    """Return the tools of each of the agent's servers, as last listed."""
    for server in agent.mcp_servers:
        if not isinstance(server, ToolServer):
            raise InvalidDefinition(
                f"Agent {agent.name!r}: mcp_servers must be servers such as MCPServerStdio, got {described(server)}."
            )
    return tuple(agent.tools_of_server(server) for server in agent.mcp_servers)


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


def _clash(agent: Agent[Any], one: Tool, other: Tool) -> str:
    """Return the message for two tools of one name, of which a server has at least one."""
    owners = [f"server {tool.server!r}" if tool.source is not None else "the agent itself" for tool in (one, other)]
    return (
        f"Agent {agent.name!r} has two tools named {other.name!r}, of {owners[0]} and of {owners[1]}; leave one out "
        "with a tool_filter, or give a server a tool_name_prefix."
    )


def _check_native(agent: Agent[Any], tools: dict[str, Tool]) -> None:
    """Raise `InvalidDefinition` if two tools take the same kind of a model's own calls, which name no tool."""
    taken: dict[str, str] = {}
    for tool in tools.values():
        if tool.native is not None and taken.setdefault(tool.native, tool.name) != tool.name:
            raise InvalidDefinition(
                f"Agent {agent.name!r} has two tools for the {tool.native} calls of models that have such calls of "
                f"their own, {taken[tool.native]!r} and {tool.name!r}; give one native=None to offer it as a function."
            )


def split_offer(
    tools: dict[str, Tool],
) -> tuple[tuple[ToolSpec, ...], tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Return the tools that the model is offered, the settings of those that the provider runs, and their includes."""
    specs = tuple(tool.spec for tool in tools.values() if not isinstance(tool, HostedTool))
    hosted = [tool for tool in tools.values() if isinstance(tool, HostedTool)]
    return specs, tuple(tool.config for tool in hosted), tuple(part for tool in hosted for part in tool.include)


def handoffs_of(agent: Agent[Any]) -> list[Handoff]:
    """Return the agent's handoffs. A plain agent becomes a handoff with the default options."""
    for each in agent.handoffs:
        if not isinstance(each, Agent | Handoff):
            raise InvalidDefinition(
                f"Agent {agent.name!r}: a handoff must be an Agent or handoff(...), got {described(each)}."
            )
    return [each if isinstance(each, Handoff) else agent.handoff_to(each) for each in agent.handoffs]


def schema_of(agent: Agent[Any]) -> AgentOutputSchema | None:
    """Return the schema of the agent's final output; None for text."""
    kind = agent.output_type
    if kind is None or kind is str:
        return None
    if not isinstance(kind, AgentOutputSchema):
        if agent._shape is None or agent._shape[0] is not kind:
            own = isinstance(kind, AgentOutputSchemaBase)
            agent._shape = kind, kind.adapted() if own else agent.output_schema_class(kind)
        kind = agent._shape[1]
    return None if kind.is_plain_text() else kind


def instructions_mark(agent: Agent[Any]) -> str:
    """Return a mark of the agent's instructions and prompt: a digest of the text, or the function's name."""
    told = agent.instructions
    mark = "" if told is None else digest({"text": told})[:16] if isinstance(told, str) else qualified_name(told)
    return mark if agent.prompt is None else f"{mark} {prompt_mark(agent.prompt)}".strip()
