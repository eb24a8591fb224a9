"""The settings of a run. They are live objects, so they are given again on resume.

Settings of one agent or one tool do not belong here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, get_args

from msgspec import Struct
from msgspec.structs import force_setattr
from typing_extensions import TypeVar

from ..approval.decision import checked_name
from ..core import allowed
from ..core.facts import MAX_ARGUMENT_BYTES, HandledError, Release
from ..core.transcript import Item
from ..core.wording import described
from ..definitions.agent import Agent, model_of
from ..definitions.context import RunContextWrapper
from ..definitions.deadline import Deadline, deadline_from
from ..definitions.guardrail import InputGuardrail, OutputGuardrail, guardrails_of
from ..definitions.handoff import InputFilter
from ..errors import InvalidDecision, InvalidDefinition
from ..models.default import default_model
from ..models.model import Model, ModelSettings
from ..models.named import model_from
from ..tracing.settings import Tracing, exporter

if TYPE_CHECKING:
    from ..definitions.error_handler import RunErrorHandlers
    from ..definitions.model_input import CallModelInputFilter
else:  # few programs need them, and whoever reads a signature needs values
    RunErrorHandlers, CallModelInputFilter = Mapping, Any

T = TypeVar("T", default=Any)

DEFAULT_MAX_TURNS = 10
OnChange = Literal["refuse", "ask", "accept"]


class ToolErrorFormatterArgs(Struct, Generic[T], frozen=True):
    """A refused call, as a `tool_error_formatter` gets it."""

    kind: Literal["approval_rejected", "tool_not_found", "invalid_arguments"]
    tool_name: str
    call_id: str
    default_message: str
    by: str
    run_context: RunContextWrapper[T]


ToolErrorFormatter = Callable[[ToolErrorFormatterArgs], str | Awaitable[str | None] | None]
SessionInput = Callable[[list[Item], list[Item]], list[Item] | Awaitable[list[Item]]]


ERRORS = dict.fromkeys(get_args(HandledError)).keys()

RUN_CONFIG_OPTIONS = allowed.Options(
    model_settings=allowed.instance_of(ModelSettings).or_none,
    input_guardrails=guardrails_of(InputGuardrail),
    output_guardrails=guardrails_of(OutputGuardrail),
    pre_approval_tool_input_guardrails=allowed.BOOL,
    release=allowed.one_of("each", "batch"),
    tool_not_found=allowed.one_of("tell", "raise"),
    max_argument_bytes=allowed.whole_number(2),
    max_parallel_tools=allowed.COUNT.or_none,
    session_limit=allowed.COUNT.or_none,
    save_input_first=allowed.BOOL,
    guard_history=allowed.BOOL,
    cancel_grace=allowed.seconds(),
    tracing=allowed.instance_of(Tracing).secret.or_none,
    error_handlers=allowed.Values(
        f"a dict of callables by {', '.join(map(repr, ERRORS))}",
        lambda given: isinstance(given, Mapping) and given.keys() <= ERRORS and all(map(callable, given.values())),
    ).or_none,
    on_change=allowed.one_of("refuse", "ask", "accept"),
    lease=allowed.seconds(0.1),
    write_lag=allowed.seconds(0, 60),
    **dict.fromkeys(
        (
            "tool_error_formatter",
            "session_input_callback",
            "handoff_input_filter",
            "context_serializer",
            "context_deserializer",
            "call_model_input_filter",
        ),
        allowed.CALLABLE.or_none,
    ),
)


class RunConfig(Struct, frozen=True, kw_only=True, metaclass=allowed.NamesOptions):
    """Settings of a run."""

    model: Model | str | None = None
    """A model, or its name, that is used in place of the agents' own models."""
    model_provider: Any = None
    """A function of a model's name, or an object with `get_model(name)`, that makes the model named in `model`."""
    model_settings: ModelSettings | None = None
    """Settings that override those of the agents."""
    started_by: str | None = None
    """The user who asks for the run. The run records the name, and this user can decide nothing in it."""
    input_guardrails: Sequence[InputGuardrail] = ()
    """Guardrails for the run's input, in addition to those of the first agent."""
    output_guardrails: Sequence[OutputGuardrail] = ()
    """Guardrails for the run's final output, in addition to those of the last agent."""
    pre_approval_tool_input_guardrails: bool = False
    """True if a tool's input guardrails also check the arguments before a person is asked.

    Nobody is asked about a call that a guardrail refuses. The guardrails check again before the body is entered.
    """
    call_model_input_filter: CallModelInputFilter | None = None
    """A function that returns the instructions and items that the model gets, called before each model call.

    It gets a `CallModelData`, and returns a `ModelInputData`. The run itself keeps the whole conversation.
    """
    error_handlers: RunErrorHandlers[Any] | None = None
    """Functions that give a final output in place of an error, by the error: "max_turns", "model_refusal" or
    "invalid_final_output".

    They get a `RunErrorHandlerInput`. The output passes the output guardrails, and must fit the agent's output type. An
    agent whose output needs approval has none, and neither have agents that are tools.
    """
    handoff_input_filter: InputFilter | None = None
    """The input filter for handoffs that have none of their own."""
    tool_error_formatter: ToolErrorFormatter | None = None
    """A function that returns the model's text for a refused call.

    It is not called if the refusal has a message of its own. None, here or as the returned value, keeps the default
    text.
    """
    release: Release = "each"
    """The release of approved calls: "each" or "batch".

    With "each", a call runs as soon as it is allowed to. With "batch", no call of a turn runs until all of the
    turn's calls are decided. The value is recorded when the run begins; a later value has no effect.
    """
    tool_not_found: Literal["tell", "raise"] = "tell"
    """The response to a call of a tool that the agent does not have: "tell" the model, or "raise" `ToolNotFound`."""
    max_argument_bytes: int = MAX_ARGUMENT_BYTES
    """The maximum size of a call's arguments in bytes, from the model or from a person who edits them.

    Larger arguments are not read. The value is recorded when the run begins; a later value has no effect.
    """
    max_parallel_tools: int | None = None
    """The maximum number of tool bodies that run at once; None for no limit."""
    session_limit: int | None = None
    """The number of the session's latest items that a run loads.

    None for the limit of the session's own `session_settings`, or for all if it has none.
    """
    session_input_callback: SessionInput | None = None
    """A function that merges the session's items and the new items into the run's input.

    Items that are not in the session yet are saved to it.
    """
    save_input_first: bool = False
    """True if new input is written to the session before guardrails and model get it, and not with its turn.

    It is there then whatever becomes of the run, and the inputs and turns of two runs at once may be mixed.
    """
    guard_history: bool = False
    """True if input guardrails get the session's items before the run's first input, all as a list of items."""
    deadline: Deadline | float | None = None
    """The time limit for approving a call or answering a body's question, unless the tool sets its own.

    A `Deadline`, or the seconds after which the call is rejected. None for no limit.
    """
    cancel_grace: float = 5.0
    """Seconds that tool bodies get to end after an immediate cancel; a call that does not end is in doubt."""
    tracing: Tracing | None = None
    """The tracing of the run; None for none. On resume, None keeps the tracing of the state, if it has any."""
    on_change: OnChange = "ask"
    """The response to an open call whose tool has changed, for a run in a store.

    "ask" puts the call to a person again, "refuse" raises `DefinitionChanged`, "accept" continues with the current
    tool.
    """
    lease: float = 30.0
    """Seconds after which another process may take over a run in a store, if its process stops renewing the lease."""
    write_lag: float = 0.01
    """Seconds for which facts that nobody waits for are gathered before they are written to the run's store.

    An example is a body's result while the model is called. 0 writes such facts at once, and a new run before its
    first model call.
    """
    context_serializer: Callable[[Any], Any] | None = None
    """A function that turns a context into JSON data, for a run in a store."""
    context_deserializer: Callable[[Any], Any] | None = None
    """A function that turns the JSON data back into a context."""
    clock: Callable[[], float] = time.time
    """A function that returns seconds since 1970, for the journal's times. A run in a store uses the store's clock."""

    @property
    def own_model(self) -> Model | None:
        """The model that is used in place of the agents' own; None if the agents' models are used."""
        return self.model  # type: ignore[return-value]  # `__post_init__` has replaced a name with its model

    @property
    def question_deadline(self) -> Deadline | None:
        """The deadline of a question, unless its tool sets another; None for no limit."""
        return self.deadline  # type: ignore[return-value]  # `__post_init__` has replaced seconds with a `Deadline`

    def __post_init__(self) -> None:
        RUN_CONFIG_OPTIONS.check("RunConfig", self)
        force_setattr(self, "input_guardrails", tuple(self.input_guardrails))
        force_setattr(self, "output_guardrails", tuple(self.output_guardrails))
        force_setattr(self, "deadline", deadline_from("RunConfig", self.deadline))
        if self.model is not None or self.model_provider is not None:
            force_setattr(self, "model", model_from("RunConfig", _provided(self.model, self.model_provider)))
        if self.tracing is not None:
            exporter()
        if self.started_by is not None:
            try:
                checked_name(self.started_by, "started_by must say who asks for the run, as text that can be seen")
            except InvalidDecision as error:
                raise InvalidDefinition(f"RunConfig: {error}") from None


def _provided(model: Model | str | None, provider: Any) -> Any:
    """Return the model as it was given, or the model that the provider makes of its name."""
    make = getattr(provider, "get_model", provider)
    if make is None:
        return model
    if not callable(make) or not isinstance(model, str):
        raise InvalidDefinition(
            "RunConfig: model_provider is a function of a model's name, or has get_model, and model is the name; "
            f"got {described(provider)} and {described(model)}."
        )
    return make(model)


DEFAULT = RunConfig()
"""The settings of a run that is given none."""


def choose_model(agent: Agent[Any], config: RunConfig) -> tuple[Model, ModelSettings]:
    """Return the model that an agent is run with, and the settings that the model is asked with."""
    if agent.model_choice is not None:
        return agent.model_choice(config)
    model = config.own_model or model_of(agent) or default_model(f"Agent {agent.name!r}")
    settings = agent.model_settings
    return model, settings if config.model_settings is None else settings.resolve(config.model_settings)
