"""Error handlers: functions that give a run its final output in place of an error. Calling them belongs elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypedDict, TypeVar

from ..core.transcript import Item
from ..errors import AssentryError
from .context import RunContextWrapper

if TYPE_CHECKING:
    from ..models.model import ModelResponse
    from .agent import Agent
    from .item import RunItem

T = TypeVar("T", default=Any)


@dataclass
class RunErrorData:
    """A run at the time of an error."""

    input: str | list[Item]
    new_items: list[RunItem]
    history: list[Item]
    """The conversation, as input for another run."""
    output: list[Item]
    """The part of the conversation that the run has generated."""
    raw_responses: list[ModelResponse]
    last_agent: Agent[Any]


@dataclass
class RunErrorHandlerInput(Generic[T]):
    """The argument of an error handler."""

    error: AssentryError
    context: RunContextWrapper[T]
    run_data: RunErrorData


@dataclass
class RunErrorHandlerResult:
    """The final output that an error handler gives."""

    final_output: Any
    include_in_history: bool = True
    """True if the output becomes a message of the agent in the conversation."""


RunErrorHandler = Callable[[RunErrorHandlerInput[T]], Any | Awaitable[Any]]
"""A function that returns a `RunErrorHandlerResult`, a dict with its fields, or the output; None raises the error."""


class RunErrorHandlers(TypedDict, Generic[T], total=False):
    """The error handlers of a run."""

    max_turns: RunErrorHandler[T]
    """Called when the run has used up its turns."""
    model_refusal: RunErrorHandler[T]
    """Called when the model refuses to answer."""
    invalid_final_output: RunErrorHandler[T]
    """Called when the model's answer does not fit the agent's output type."""
