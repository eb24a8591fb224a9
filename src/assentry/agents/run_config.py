"""The names of `agents.run_config`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict

from ..core import allowed
from ..core.wording import described
from ..definitions.model_input import CallModelData, CallModelInputFilter, ModelInputData
from ..errors import InvalidDefinition
from ..models.model import Model
from ..models.named import model_from
from ..runtime import config as own
from ..runtime.config import ToolErrorFormatter, ToolErrorFormatterArgs
from ..runtime.steps.approval import NOT_APPROVED
from ..tracing.settings import Tracing
from .absent import find_absent
from .memory.session_settings import resolve_session_limit
from .memory.util import SessionInputCallback
from .model_choice import provided_model
from .model_settings import ModelSettings
from .tracing.config import TracingConfig

__all__ = [
    "DEFAULT_MAX_TURNS",
    "CallModelData",
    "CallModelInputFilter",
    "ModelInputData",
    "OutputGuardrailBlockedMessageArgs",
    "OutputGuardrailBlockedMessageFormatter",
    "ReasoningItemIdPolicy",
    "RunConfig",
    "ToolErrorFormatter",
    "ToolErrorFormatterArgs",
    "ToolExecutionConfig",
    "ToolNameCollisionPolicy",
    "ToolNotFoundBehavior",
]

DEFAULT_MAX_TURNS = own.DEFAULT_MAX_TURNS
ReasoningItemIdPolicy = Literal["preserve", "omit"]
ToolNotFoundBehavior = Literal["raise_error", "return_error_to_model"]
ToolNameCollisionPolicy = Literal["warn", "error"]


class ToolExecutionConfig(Struct):
    """Settings for the calls of local tools."""

    max_function_tool_concurrency: int | None = None
    """The maximum number of tool bodies that run at once; None for no limit."""
    pre_approval_tool_input_guardrails: bool = False
    """True if a tool's input guardrails also check the arguments before a person is asked."""


class OutputGuardrailBlockedMessageArgs(Struct, frozen=True):
    """A tool's output that an output guardrail has stopped. No text is put in its place, so nobody is given this."""

    default_message: str
    guardrail_name: str
    agent: Any
    run_context: Any


OutputGuardrailBlockedMessageFormatter = Callable[[OutputGuardrailBlockedMessageArgs], str | None]


def _shows_contents() -> bool:
    """Return the default of `trace_include_sensitive_data`, as the SDK's variable says."""
    said = os.environ.get("OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", "true")
    return said.strip().lower() in ("1", "true", "yes", "on")


def sdk_words(args: ToolErrorFormatterArgs) -> str | None:
    """Return the SDK's text for a call that a person rejected without a message; None for any other refusal."""
    return "Tool execution was not approved." if args.default_message == NOT_APPROVED else None


OPTIONS = allowed.Options(
    nest_handoff_history=allowed.BOOL,
    handoff_history_mapper=allowed.CALLABLE.or_none,
    workflow_name=allowed.NONEMPTY,
    trace_id=allowed.NONEMPTY.or_none,
    group_id=allowed.NONEMPTY.or_none,
    trace_metadata=allowed.instance_of(dict).secret.or_none,
    tracing_disabled=allowed.BOOL,
    trace_include_sensitive_data=allowed.BOOL,
    reasoning_item_id_policy=allowed.one_of("preserve", "omit").or_none,
    tool_execution=allowed.instance_of(ToolExecutionConfig).or_none,
    tool_not_found_behavior=allowed.one_of("raise_error", "return_error_to_model"),
    tool_name_collision_policy=allowed.one_of("warn", "error"),
)

TRACING_OPTIONS = allowed.Options(api_key=allowed.TEXT.secret, include_task_and_turn_spans=allowed.BOOL)


class RunConfig(own.RunConfig, frozen=False, kw_only=True):  # type: ignore[misc]  # msgspec allows it
    """Settings of a run, with the SDK's names and defaults. They may be changed until the run begins."""

    save_input_first: bool = True
    guard_history: bool = True
    nest_handoff_history: bool = False
    """True if a handoff gives the next agent the conversation so far as one message."""
    handoff_history_mapper: Callable[[list[Any]], list[Any]] | None = None
    """A function that makes that message."""
    workflow_name: str = "Agent workflow"
    """The run's name in traces."""
    trace_id: str | None = None
    """The id of the run's trace, if the run begins one; by default a new id."""
    group_id: str | None = None
    """The group of the run's trace, such as a conversation."""
    trace_metadata: dict[str, Any] | None = None
    """More about the run's trace."""
    tracing_disabled: bool = False
    """True if nobody hears of the run's spans."""
    trace_include_sensitive_data: bool = field(default_factory=_shows_contents)
    """True if spans contain messages, arguments, outputs and the texts of errors."""
    tracing: Tracing | TracingConfig | None = None  # type: ignore[assignment]  # a dict is moved to `tracing_config`
    """Options for the run's trace as the SDK has them, or the place where OpenTelemetry spans go."""
    tracing_config: TracingConfig | None = None
    """The dict that `tracing` was."""
    session_input_callback: SessionInputCallback | None = None  # type: ignore[assignment]  # typed for the client's items
    session_settings: Any = None
    """The session's settings: `limit` is the number of its latest items that a run loads."""
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None
    """The ids of reasoning items are kept; "omit" is refused."""
    sandbox: Any = None
    """Refused: Assentry has no sandboxes."""
    tool_execution: ToolExecutionConfig | None = None
    """Settings for the calls of local tools."""
    tool_not_found_behavior: ToolNotFoundBehavior = "raise_error"
    """The response to a call of a tool that the agent does not have: an error, or a text for the model."""
    tool_name_collision_policy: ToolNameCollisionPolicy = "warn"
    """Two tools of one name are always an error."""
    output_guardrail_blocked_message: Any = None
    """Refused: an output that a guardrail has stopped is not kept, and nothing is put in its place."""

    def __post_init__(self) -> None:
        given: Any = self  # settings may be dicts here
        if isinstance(given.model_settings, Mapping):
            given.model_settings = ModelSettings(**given.model_settings)
        if isinstance(given.tool_execution, Mapping):
            given.tool_execution = ToolExecutionConfig(**given.tool_execution)
        if isinstance(given.tracing, dict):
            TRACING_OPTIONS.check_items("RunConfig", given.tracing, within="tracing.")
            given.tracing, given.tracing_config = None, given.tracing
        given.input_guardrails = given.input_guardrails or ()
        given.output_guardrails = given.output_guardrails or ()
        OPTIONS.check("RunConfig", self)
        self._refuse()
        if self.tool_execution is not None:
            given.max_parallel_tools = self.tool_execution.max_function_tool_concurrency
            given.pre_approval_tool_input_guardrails = self.tool_execution.pre_approval_tool_input_guardrails
        given.tool_error_formatter = self.tool_error_formatter or sdk_words
        given.tool_not_found = "raise" if self.tool_not_found_behavior == "raise_error" else "tell"
        model, provider = given.model, given.model_provider
        given.model = given.model_provider = None  # a name stays a name until an agent runs
        if self.session_settings is not None:
            given.session_limit = None
        super().__post_init__()
        given.model, given.model_provider = model, provider
        if model is not None and not isinstance(model, str):
            model_from("RunConfig", model)
        if self.session_settings is not None:  # natively a limit is at least 1
            given.session_limit = resolve_session_limit(None, self.session_settings)

    @property
    def own_model(self) -> Model | None:
        """The model that is used in place of the agents' own; None if the agents' models are used."""
        return None if self.model is None else provided_model("RunConfig", self.model, self.model_provider)

    def _refuse(self) -> None:
        """Raise `InvalidDefinition` for what the SDK has and Assentry does not."""
        if self.reasoning_item_id_policy == "omit":
            raise InvalidDefinition(
                'RunConfig: reasoning_item_id_policy cannot be "omit": reasoning goes back to the model as it came. '
                "Leave it out, or remove the ids with call_model_input_filter."
            )
        if self.sandbox is not None:
            raise InvalidDefinition("RunConfig: Assentry has no sandboxes; give the agent tools that run in one.")
        if self.output_guardrail_blocked_message is not None:
            raise InvalidDefinition(
                "RunConfig: there is no output_guardrail_blocked_message: an output that a guardrail has stopped is "
                "not kept, and nothing is put in its place. Leave it out."
            )


def run_config_from(given: Any) -> RunConfig:
    """Return the settings of a run from a RunConfig, a dict or None; raise `InvalidDefinition` for anything else.

    A RunConfig is checked again, since it may have been changed.
    """
    if given is None:
        return RunConfig()
    if isinstance(given, Mapping):
        return RunConfig(**given)
    if not isinstance(given, own.RunConfig):
        raise InvalidDefinition(f"run_config must be a RunConfig or a dict, got {described(given)}.")
    return type(given)(**asdict(given))  # type: ignore[return-value]  # one of Assentry's own is fine too


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
