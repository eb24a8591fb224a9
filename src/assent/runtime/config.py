"""How a run is driven: settings that are live objects and are given again on resume."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from ..context import RunContextWrapper
from ..core.facts import Release
from ..core.transcript import Item
from ..errors import InvalidDefinition
from ..guardrail import InputGuardrail, OutputGuardrail, checked
from ..handoff import InputFilter
from ..models.model import Model, ModelSettings

DEFAULT_MAX_TURNS = 10


class ToolErrorFormatterArgs(Struct, frozen=True):
    """What a `tool_error_formatter` is told of a call that did not run."""

    kind: Literal["approval_rejected", "tool_not_found", "invalid_arguments"]
    tool_name: str
    call_id: str
    default_message: str
    by: str
    run_context: RunContextWrapper[Any]


ToolErrorFormatter = Callable[[ToolErrorFormatterArgs], str | Awaitable[str | None] | None]
SessionInput = Callable[[list[Item], list[Item]], list[Item] | Awaitable[list[Item]]]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run."""

    model: Model | None = None
    """Goes before the agents' own models."""
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
    max_parallel_tools: int | None = None
    """How many tool bodies run at once; None for no limit."""
    session_limit: int | None = None
    """How many of the session's latest items a run hears; None for all."""
    session_input_callback: SessionInput | None = None
    """Makes one list of the session's items and the new ones: what the run hears. The new ones are kept."""
    cancel_grace: float = 5.0
    """Seconds that bodies may take to end when a stream is cancelled at once; what does not is in doubt."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970, for the times in the journal."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_guardrails", _guards(InputGuardrail, self.input_guardrails))
        object.__setattr__(self, "output_guardrails", _guards(OutputGuardrail, self.output_guardrails))
        for option, choices in (("release", ("each", "batch")), ("tool_not_found", ("tell", "raise"))):
            if getattr(self, option) not in choices:
                named = " or ".join(f'"{each}"' for each in choices)
                raise InvalidDefinition(f"RunConfig: {option} must be {named}, got {getattr(self, option)!r:.80}.")
        for option in ("max_parallel_tools", "session_limit"):
            limit = getattr(self, option)
            if limit is not None and (type(limit) is not int or limit < 1):
                raise InvalidDefinition(f"RunConfig: {option} must be at least 1, got {limit!r:.80}.")
        for option in ("tool_error_formatter", "session_input_callback", "handoff_input_filter"):
            value = getattr(self, option)
            if value is not None and not callable(value):
                raise InvalidDefinition(f"RunConfig: {option} must be a callable, got {value!r:.80}.")
        if self.model is not None and not hasattr(self.model, "stream"):
            raise InvalidDefinition(f"RunConfig: model must be a Model, got {self.model!r:.80}.")
        if self.model_settings is not None and not isinstance(self.model_settings, ModelSettings):
            raise InvalidDefinition(
                f"RunConfig: model_settings must be ModelSettings, got {self.model_settings!r:.80}."
            )
        if type(self.cancel_grace) not in (int, float) or not 0 <= self.cancel_grace < math.inf:
            raise InvalidDefinition(f"RunConfig: cancel_grace must be seconds, got {self.cancel_grace!r:.80}.")
        if type(self.pre_approval_tool_input_guardrails) is not bool:
            raise InvalidDefinition("RunConfig: pre_approval_tool_input_guardrails must be True or False.")


def _guards(kind: Any, given: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(checked("RunConfig", kind, given))
