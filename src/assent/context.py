"""What rules, callbacks and tool bodies get to know of the run they are in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from .core.facts import Usage
from .item import ToolApprovalItem

T = TypeVar("T", default=Any)
R = TypeVar("R")


class Control(Protocol):
    """What a context needs of the run behind it."""

    def usage(self) -> Usage: ...
    def decide(self, item: ToolApprovalItem, approve: bool, always: bool, message: str | None) -> None: ...
    def verdict(self, tool_name: str, call_id: str, path: tuple[str, ...] = ()) -> bool | None: ...


class Asking(Protocol):
    """What a tool's context needs of the call behind it."""

    @property
    def path(self) -> tuple[str, ...]: ...
    def key(self) -> str: ...
    def arguments(self) -> str: ...
    async def ask(self, question: Any, schema: Any) -> Any: ...
    async def step(self, name: str, fn: Callable[[], Any]) -> Any: ...
    def ask_sync(self, question: Any, schema: Any) -> Any: ...
    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any: ...
    async def holds_lease(self) -> bool: ...
    def holds_lease_sync(self) -> bool: ...


class RunContextWrapper(Generic[T]):
    """Your context object, and the run's usage and decisions."""

    __slots__ = ("_control", "context")

    def __init__(self, context: T, control: Control | None = None) -> None:
        self.context = context
        self._control = control

    @property
    def usage(self) -> Usage:
        """What the model calls of the run have used so far."""
        return self._control.usage() if self._control else Usage()

    def approve_tool(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None:
        """Approve a question of this run while it goes on."""
        self._bound().decide(approval_item, True, always_approve, None)

    def reject_tool(
        self, approval_item: ToolApprovalItem, always_reject: bool = False, rejection_message: str | None = None
    ) -> None:
        """Reject a question of this run while it goes on."""
        self._bound().decide(approval_item, False, always_reject, rejection_message)

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """True or False once the call is decided, by whomever; None while it is not."""
        return self._bound().verdict(tool_name, call_id)

    def _bound(self) -> Control:
        if self._control is None:
            raise RuntimeError("This context belongs to no run.")
        return self._control


class ToolContext(RunContextWrapper[T]):
    """A tool body's context: the run's, and the call it serves.

    **A body that asks is entered again from the top after each answer.** What it does before
    `ask` happens once for each time it is entered, unless it is wrapped in `step`.
    """

    __slots__ = ("_asking", "agent", "call_id", "tool_name")

    def __init__(self, context: T, control: Control, asking: Asking, agent: Any, tool_name: str, call_id: str) -> None:
        self.context = context
        self._control = control
        self._asking = asking
        self.agent = agent
        """The agent that made the call."""
        self.tool_name = tool_name
        self.call_id = call_id
        """The provider's id of the call."""

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """True or False once the call is decided, by whomever; None while it is not. The agent's own calls first."""
        return self._bound().verdict(tool_name, call_id, self._asking.path)

    @property
    def tool_call_id(self) -> str:
        """The provider's id of the call."""
        return self.call_id

    @property
    def arguments(self) -> str:
        """The arguments that run, as canonical JSON text."""
        return self._asking.arguments()

    @property
    def tool_arguments(self) -> str:
        """The arguments that run, as canonical JSON text."""
        return self.arguments

    @property
    def idempotency_key(self) -> str:
        """A key for the outside world: of run, call and arguments, the same for every attempt."""
        return self._asking.key()

    async def ask(self, question: Any, *, schema: Any = None) -> Any:
        """Ask the person and return the answer.

        `question` is text, or any JSON. `schema` says what an answer looks like: a type, or a JSON
        schema. The run pauses here; after the answer the body is entered again from the top, and
        each ask that has its answer returns it at once.
        """
        return await self._asking.ask(question, schema)

    async def step(self, name: str, fn: Callable[[], Awaitable[R] | R]) -> Any:
        """Do something once: `fn()` runs the first time, and its value, as JSON, is kept for the next.

        The value is what JSON makes of what `fn` returned, the first time too.
        """
        return await self._asking.step(name, fn)

    async def holds_lease(self) -> bool:
        """Ask the store whether the run is still this process's; False if the body should not go on.

        Ask right before an effect that cannot be undone: a process that stood still for longer than its lease may find
        that another has gone on with the run. True in a run without a store; `StoreFailed` if the store cannot be
        asked.
        """
        return await self._asking.holds_lease()

    def holds_lease_sync(self) -> bool:
        """`holds_lease`, in a body that is not async."""
        return self._asking.holds_lease_sync()

    def ask_sync(self, question: Any, *, schema: Any = None) -> Any:
        """`ask`, in a body that is not async."""
        return self._asking.ask_sync(question, schema)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any:
        """`step`, in a body that is not async."""
        return self._asking.step_sync(name, fn)
