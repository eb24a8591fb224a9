"""The input of one model call, as a `call_model_input_filter` gets and returns it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ..core.transcript import Item

if TYPE_CHECKING:
    from .agent import Agent

T = TypeVar("T", default=Any)


@dataclass
class ModelInputData:
    """The items and the instructions that a model gets. Both are copies, which may be changed."""

    input: list[Item]
    instructions: str | None


@dataclass
class CallModelData(Generic[T]):
    """The model call that is about to be made: its input, the agent, and the run's context object."""

    model_data: ModelInputData
    agent: Agent[T]
    context: T | None


CallModelInputFilter = Callable[[CallModelData[Any]], ModelInputData | Awaitable[ModelInputData]]
