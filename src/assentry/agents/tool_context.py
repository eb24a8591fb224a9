"""The names of `agents.tool_context`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ..definitions import context
from .absent import find_absent
from .typed_item import typed_item

__all__ = ["ToolContext"]

TContext = TypeVar("TContext", default=Any)


class ToolContext(context.ToolContext[TContext], Generic[TContext]):
    """The context of a tool's body, with the call as the SDK shows it."""

    __slots__ = ()

    @property
    def tool_arguments(self) -> str:
        """The arguments as the model wrote them; as canonical JSON text if a person has edited them."""
        return self._asking.written()

    @property
    def tool_call(self) -> Any:
        """The call as an object of OpenAI's client; None if the model did not make it."""
        return typed_item(super().tool_call)

    @property
    def qualified_tool_name(self) -> str:
        """The tool's name."""
        return self.tool_name


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
