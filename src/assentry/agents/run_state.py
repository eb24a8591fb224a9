"""The names of `agents.run_state`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from ..core.transcript import said_items
from ..definitions.item import ToolApprovalItem
from ..errors import UsageError
from ..runtime import state as own
from ..runtime.definition_check import OnChange
from ..runtime.journal import Journal
from ..runtime.signature import SigningKey
from .absent import find_absent

if TYPE_CHECKING:
    from ..definitions.agent import Agent
    from .items import TResponseInputItem

__all__ = ["RunState"]

T = TypeVar("T", default=Any)
A = TypeVar("A", default=Any)


class RunState(own.RunState[T, A]):
    """A paused run as your own data. Decide on its questions, then resume it, once."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        if not isinstance(parts[0] if parts else None, Journal):
            raise UsageError(
                "A RunState is not made by hand: result.to_state() returns the one of a run, and RunState.from_string "
                "and RunState.from_json load a saved one."
            )
        super().__init__(*parts, **named)

    def approve(self, approval_item: ToolApprovalItem, always_approve: bool = False, *, by: str = "local") -> None:
        """Let the call run as it was shown; with `always_approve`, approve later calls of this tool too."""
        super().approve(approval_item, always_approve, by=by)

    def reject(
        self,
        approval_item: ToolApprovalItem,
        always_reject: bool = False,
        rejection_message: str | None = None,
        *,
        by: str = "local",
    ) -> None:
        """Reject the call, and tell the model so; with `always_reject`, reject later calls of this tool too."""
        super().reject(approval_item, always_reject, rejection_message, by=by)

    @property
    def pending_input(self) -> list[TResponseInputItem]:
        """The input that was added and that no model has answered yet."""
        said: Any = [item for said in self._journal.run.unheard for item in said_items(said)]
        return said  # type: ignore[no-any-return]

    @classmethod
    async def from_string(
        cls,
        initial_agent: Agent[T],
        state_string: str | bytes,
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        on_change: OnChange = "refuse",
        keys: Iterable[SigningKey] | None = None,
    ) -> RunState[T]:
        """Load a saved run from the text that `to_string` returned, in any process that has the agent's code."""
        return await super().from_string(
            initial_agent,
            state_string,
            context_override=context_override,
            context_deserializer=context_deserializer,
            strict_context=strict_context,
            on_change=on_change,
            keys=keys,
        )  # type: ignore[return-value]

    @classmethod
    async def from_json(
        cls,
        initial_agent: Agent[T],
        state_json: dict[str, Any],
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        on_change: OnChange = "refuse",
        keys: Iterable[SigningKey] | None = None,
    ) -> RunState[T]:
        """Load a saved run from the object that `to_json` returned; see `from_string`."""
        return await super().from_json(
            initial_agent,
            state_json,
            context_override=context_override,
            context_deserializer=context_deserializer,
            strict_context=strict_context,
            on_change=on_change,
            keys=keys,
        )  # type: ignore[return-value]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
