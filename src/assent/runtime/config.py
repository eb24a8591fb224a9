"""How a run is driven: settings that are live objects and are given again on resume."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Literal

from msgspec import Struct
from msgspec.structs import force_setattr
from typing_extensions import TypeVar

from ..approval.deadline import Deadline, deadline_from
from ..context import RunContextWrapper
from ..core.digest import described
from ..core.facts import MAX_ARGUMENT_BYTES, Release
from ..core.number import LONGEST, is_count, is_seconds
from ..core.transcript import Item
from ..errors import InvalidDefinition
from ..guardrail import InputGuardrail, OutputGuardrail, checked
from ..handoff import InputFilter
from ..models.model import Model, ModelSettings
from ..models.named import model_from
from .tracing import Tracing, room

T = TypeVar("T", default=Any)

DEFAULT_MAX_TURNS = 10
OnChange = Literal["refuse", "ask", "accept"]
CHOICES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("release", ("each", "batch")),
    ("tool_not_found", ("tell", "raise")),
    ("on_change", ("refuse", "ask", "accept")),
)
SECONDS = (
    ("cancel_grace", 0, LONGEST, ", at most 100 years"),
    ("lease", 0.1, LONGEST, ", at least 0.1 and at most 100 years"),
    ("write_lag", 0, 60, ", at most 60"),
)
CALLABLES = (
    "tool_error_formatter",
    "session_input_callback",
    "handoff_input_filter",
    "context_serializer",
    "context_deserializer",
)


class ToolErrorFormatterArgs(Struct, Generic[T], frozen=True):
    """What a `tool_error_formatter` is told of a call that was refused."""

    kind: Literal["approval_rejected", "tool_not_found", "invalid_arguments"]
    tool_name: str
    call_id: str
    default_message: str
    by: str
    run_context: RunContextWrapper[T]


ToolErrorFormatter = Callable[[ToolErrorFormatterArgs], str | Awaitable[str | None] | None]
SessionInput = Callable[[list[Item], list[Item]], list[Item] | Awaitable[list[Item]]]


class RunConfig(Struct, frozen=True, kw_only=True):
    """Settings of a run."""

    model: Model | str | None = None
    """A model, or its name; goes before the agents' own models."""
    model_settings: ModelSettings | None = None
    """Put over the agents' own settings."""
    input_guardrails: Sequence[InputGuardrail] = ()
    """Look at the run's input, beside those of the agent it begins with."""
    output_guardrails: Sequence[OutputGuardrail] = ()
    """Look at the run's output, beside those of the agent it ends with."""
    pre_approval_tool_input_guardrails: bool = False
    """Whether tools' input guardrails look at the arguments before a person is asked, too: what they refuse,
    nobody is asked about. They look again before the body is entered."""
    handoff_input_filter: InputFilter | None = None
    """For handoffs that have no filter of their own."""
    tool_error_formatter: ToolErrorFormatter | None = None
    """Words a refusal for the model where whoever refused did not; None keeps the default text."""
    release: Release = "each"
    """"each": a call runs as soon as it may. "batch": none of a turn runs until all are settled.
    Kept in the run: it counts where the run begins."""
    tool_not_found: Literal["tell", "raise"] = "tell"
    """Whether the model is told that it called a tool it does not have, or you are."""
    max_argument_bytes: int = MAX_ARGUMENT_BYTES
    """How large the arguments of a call may be, from a model or from a person who edits them; larger ones are not
    read. Kept in the run: it counts where the run begins."""
    max_parallel_tools: int | None = None
    """How many tool bodies run at once; None for no limit."""
    session_limit: int | None = None
    """How many of the session's latest items a run hears; None for all."""
    session_input_callback: SessionInput | None = None
    """Makes one list of the session's items and the new ones: what the run hears. The new ones are kept."""
    deadline: Deadline | float | None = None
    """How long a person is waited for, to approve a call or to answer what a body asks, where the tool does not say:
    a `Deadline`, or the seconds after which the call is rejected. None for as long as it takes."""
    cancel_grace: float = 5.0
    """Seconds that bodies may take to end when a stream is cancelled at once; what does not is in doubt."""
    tracing: Tracing | None = None
    """Where the run's spans go; None for nowhere. On resume an omitted one keeps the state's, if that has it."""
    on_change: OnChange = "ask"
    """What becomes of an open call whose tool has changed, for a run that lives in a store: "ask" puts it to a person
    again, "refuse" raises `DefinitionChanged`, "accept" goes on with the tool as it is now."""
    lease: float = 30.0
    """Seconds after which a run that lives in a store may be taken over, if its process does not say that it lives."""
    write_lag: float = 0.01
    """Seconds for which what nobody waits for, such as a body's result while the model is asked, is gathered before it
    is written to the run's store. 0 writes it at once, and a new run before its model is asked."""
    context_serializer: Callable[[Any], Any] | None = None
    """Makes JSON of a context, for a run that lives in a store,"""
    context_deserializer: Callable[[Any], Any] | None = None
    """and a context of that JSON."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970, for the times in the journal; a run that lives in a store goes by the store's clock."""

    @property
    def own_model(self) -> Model | None:
        """The model that goes before the agents' own; None if theirs are asked."""
        return self.model  # type: ignore[return-value]  # `__post_init__` has made one of a name

    @property
    def question_deadline(self) -> Deadline | None:
        """How long a question waits unless its tool says otherwise."""
        return self.deadline  # type: ignore[return-value]  # `__post_init__` has made one of seconds

    def __post_init__(self) -> None:
        for option, kind in (("input_guardrails", InputGuardrail), ("output_guardrails", OutputGuardrail)):
            force_setattr(self, option, tuple(checked("RunConfig", option, kind, getattr(self, option))))
        for option, choices in CHOICES:
            if getattr(self, option) not in choices:
                named = " or ".join(f'"{each}"' for each in choices)
                raise InvalidDefinition(f"RunConfig: {option} must be {named}, got {getattr(self, option)!r:.80}.")
        for option in ("max_parallel_tools", "session_limit"):
            limit = getattr(self, option)
            if limit is not None and not is_count(limit):
                raise InvalidDefinition(f"RunConfig: {option} must be at least 1, got {described(limit)}.")
        self._check_kinds()
        force_setattr(self, "deadline", deadline_from("RunConfig", self.deadline))
        for option in CALLABLES:
            value = getattr(self, option)
            if value is not None and not callable(value):
                raise InvalidDefinition(f"RunConfig: {option} must be a callable, got {value!r:.80}.")
        if self.model is not None:
            force_setattr(self, "model", model_from("RunConfig", self.model))
        for option, least, most, said in SECONDS:
            value = getattr(self, option)
            if not is_seconds(value, least) or value > most:
                raise InvalidDefinition(f"RunConfig: {option} must be seconds{said}, got {described(value)}.")
        if self.tracing is not None:
            _check_tracing(self.tracing)

    def _check_kinds(self) -> None:
        if type(self.max_argument_bytes) is not int or self.max_argument_bytes < 2:
            raise InvalidDefinition(
                f"RunConfig: max_argument_bytes must be at least 2, got {self.max_argument_bytes!r:.80}."
            )
        if self.model_settings is not None and not isinstance(self.model_settings, ModelSettings):
            raise InvalidDefinition(
                f"RunConfig: model_settings must be ModelSettings, got {self.model_settings!r:.80}."
            )
        early = self.pre_approval_tool_input_guardrails
        if type(early) is not bool:
            raise InvalidDefinition(
                f"RunConfig: pre_approval_tool_input_guardrails must be True or False, got {early!r:.80}."
            )


def _check_tracing(tracing: Any) -> None:
    if not isinstance(tracing, Tracing):
        raise InvalidDefinition(f"RunConfig: tracing must be a Tracing, got a {type(tracing).__name__}.")
    room()


DEFAULT = RunConfig()
"""Settings for a run that is given none."""
