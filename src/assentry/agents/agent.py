"""The names of `agents.agent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import TypeVar

from ..definitions import agent as own
from ..definitions.agent import ToolsToFinalOutputResult
from ..definitions.item import ViewClasses
from .absent import find_absent
from .tracing.run_observer import observe_run
from .view_classes import VIEW_CLASSES

__all__ = ["Agent", "ToolsToFinalOutputResult"]

T = TypeVar("T", default=Any)


class Agent(own.Agent[T]):
    """A model with instructions, tools, and other agents to hand over to."""

    view_classes: ClassVar[ViewClasses] = VIEW_CLASSES
    observed_by = staticmethod(observe_run)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
