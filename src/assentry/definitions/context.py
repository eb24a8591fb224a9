"""The context objects that rules, callbacks and tool bodies receive.

A context reaches its run only through the protocols `Control` and `Asking`. The run itself does not belong here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Generic, NoReturn, Protocol

from typing_extensions import TypeVar

from ..core.facts import Usage
from ..core.transcript import Item
from ..errors import UsageError
from ..models.delta import RawItem
from .item import ToolApprovalItem

T = TypeVar("T", default=Any)
R = TypeVar("R")


JUDGED: ContextVar[Any] = ContextVar("assentry_judged", default=None)
"""The agent whose call a rule judges, for rules that need it; None outside of the gate."""


THREAD_CONFIG: ContextVar[Mapping[str, Any] | None] = ContextVar("assentry_thread_config", default=None)
"""The config that a thread was invoked with, for tools that take it; None in any other run."""


class Control(Protocol):
    """The part of a run that its contexts use."""

    def usage(self) -> Usage: ...
    def decide(self, item: ToolApprovalItem, approve: bool, always: bool, message: str | None) -> None: ...
    def verdict(self, tool_name: str, call_id: str, path: tuple[str, ...] = ()) -> bool | None: ...


class Asking(Protocol):
    """The part of a call that the tool's context uses."""

    @property
    def path(self) -> tuple[str, ...]: ...
    def key(self) -> str: ...
    def item(self) -> RawItem | None: ...
    def arguments(self) -> str: ...
    def written(self) -> str: ...
    def preconditions(self) -> dict[str, Any]: ...
    async def ask(self, question: Any, schema: Any) -> Any: ...
    async def step(self, name: str, fn: Callable[[], Any]) -> Any: ...
    def ask_sync(self, question: Any, schema: Any) -> Any: ...
    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any: ...
    async def holds_lease(self) -> bool: ...
    def holds_lease_sync(self) -> bool: ...
    def progress(self, progress: float, total: float | None, message: str | None) -> None: ...


class CallOutsideOfRun:
    """The call of a context that belongs to no run: its arguments can be read, and all else is refused."""

    path: tuple[str, ...] = ()

    def __init__(self, arguments: str) -> None:
        self._arguments = arguments

    def item(self) -> None:
        """Return None: no provider made the call."""

    def arguments(self) -> str:
        """Return the arguments that the context was made with."""
        return self._arguments

    def written(self) -> str:
        """Return the arguments that the context was made with."""
        return self._arguments

    def preconditions(self) -> dict[str, Any]:
        """Return nothing: there was no preview."""
        return {}

    def key(self) -> NoReturn:
        """Raise `UsageError`, as do the others."""
        raise UsageError("This context belongs to no run, so its call has no key and cannot ask, step or report.")

    def ask_sync(self, question: Any, schema: Any) -> NoReturn:
        self.key()

    def step_sync(self, name: str, fn: Callable[[], Any]) -> NoReturn:
        self.key()

    def holds_lease_sync(self) -> NoReturn:
        self.key()

    def progress(self, progress: float, total: float | None, message: str | None) -> NoReturn:
        self.key()

    async def ask(self, question: Any, schema: Any) -> NoReturn:
        self.key()

    async def step(self, name: str, fn: Callable[[], Any]) -> NoReturn:
        self.key()

    async def holds_lease(self) -> NoReturn:
        self.key()


class RunContextWrapper(Generic[T]):
    """Your context object, with access to the run's usage and decisions.

    Make one yourself to call a function that takes one outside of a run, as in a test.
    """

    __slots__ = ("_control", "_usage", "context")

    def __init__(self, context: T, usage: Usage | None = None, *, control: Control | None = None) -> None:
        self.context = context
        self._usage = usage
        self._control = control

    @property
    def usage(self) -> Usage:
        """The usage of the run's model calls so far; outside of a run, the usage that was given."""
        if self._usage is None:
            return self._control.usage() if self._control else Usage()
        return self._usage

    def approve_tool(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None:
        """Approve a question of this run while the run is under way."""
        self._bound().decide(approval_item, True, always_approve, None)

    def reject_tool(
        self, approval_item: ToolApprovalItem, always_reject: bool = False, rejection_message: str | None = None
    ) -> None:
        """Reject a question of this run while the run is under way."""
        self._bound().decide(approval_item, False, always_reject, rejection_message)

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return True or False once a person, a rule, a grant or code has decided the call; None before."""
        return self._bound().verdict(tool_name, call_id)

    def _bound(self) -> Control:
        if self._control is None:
            raise UsageError("This context belongs to no run, so nothing can be decided or looked up with it.")
        return self._control


class AgentHookContext(RunContextWrapper[T]):
    """The context of the hooks for an agent's start and end."""

    __slots__ = ("_read_input",)

    def __init__(
        self,
        context: T,
        usage: Usage | None = None,
        turn_input: list[Item] | None = None,
        *,
        control: Control | None = None,
        read_input: Callable[[], list[Item]] | None = None,
    ) -> None:
        super().__init__(context, usage, control=control)
        self._read_input = read_input or (lambda: turn_input or [])

    @property
    def turn_input(self) -> list[Item]:
        """The input that the agent works on, as items: without what the run has generated since."""
        return self._read_input()


class ToolContext(RunContextWrapper[T]):
    """The context of a tool body: the run's context, and the call that the body serves.

    **A body that asks is entered again from the top after each answer.** Code before `ask` therefore runs again each
    time, unless it is wrapped in `step`.

    One that you make yourself, outside of a run, can neither ask nor step.
    """

    __slots__ = ("_asking", "_tool_call", "agent", "call_id", "run_config", "tool_name")

    def __init__(
        self,
        context: T,
        usage: Usage | None = None,
        tool_name: str = "",
        tool_call_id: str = "",
        tool_arguments: str = "",
        tool_call: Any = None,
        *,
        agent: Any = None,
        run_config: Any = None,
        control: Control | None = None,
        asking: Asking | None = None,
    ) -> None:
        super().__init__(context, usage, control=control)
        self._asking = asking or CallOutsideOfRun(tool_arguments)
        self.agent = agent
        """The agent that made the call."""
        self.tool_name = tool_name
        self.call_id = tool_call_id
        """The provider's id of the call."""
        self._tool_call = tool_call
        self.run_config = run_config
        """The settings of the run."""

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return True or False once a person, a rule, a grant or code has decided the call; None before.

        Calls of the agent's own branch take precedence over calls of other branches with the same id.
        """
        return self._bound().verdict(tool_name, call_id, self._asking.path)

    @property
    def tool_call(self) -> Any:
        """The call as the provider's item, whose keys are attributes too; None if the model did not make it."""
        return self._asking.item() if self._tool_call is None else self._tool_call

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
        """A key for external services, made from run, call and arguments. It is the same for every attempt."""
        return self._asking.key()

    @property
    def preconditions(self) -> dict[str, Any]:
        """The preconditions of the preview on which the call was approved; empty if there was no preview.

        A body that can compare them at the very place of its effect does so, and raises `NotAsShown` if they differ.
        """
        return self._asking.preconditions()

    async def ask(self, question: Any, *, schema: Any = None) -> Any:
        """Ask a person and return the answer.

        The run pauses here. After the answer the body is entered again from the top, and each `ask` that is already
        answered returns its answer at once.

        Args:
            question: Text, or any JSON value.
            schema: A type or a JSON schema that the answer must fit.
        """
        return await self._asking.ask(question, schema)

    async def step(self, name: str, fn: Callable[[], Awaitable[R] | R]) -> Any:
        """Run `fn()` once and record its value. When the body is entered again, return the recorded value.

        The value is always the JSON form of what `fn` returned, also the first time.
        """
        return await self._asking.step(name, fn)

    async def holds_lease(self) -> bool:
        """Return True if this process still holds the run's lease, read from the store. On False the body should stop.

        Call this right before an effect that cannot be undone: if this process was suspended for longer than its
        lease, another process may have continued the run. The result is True in a run without a store. `StoreFailed`
        is raised if the store cannot be read.
        """
        return await self._asking.holds_lease()

    def holds_lease_sync(self) -> bool:
        """Do the same as `holds_lease`, in a body that is not async."""
        return self._asking.holds_lease_sync()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever follows the run's stream how far the body is. Progress is never part of the run."""
        self._asking.progress(progress, total, message)

    def ask_sync(self, question: Any, *, schema: Any = None) -> Any:
        """Do the same as `ask`, in a body that is not async."""
        return self._asking.ask_sync(question, schema)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any:
        """Do the same as `step`, in a body that is not async."""
        return self._asking.step_sync(name, fn)
