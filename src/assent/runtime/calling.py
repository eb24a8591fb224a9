"""What the code around a call gets to know of it, and what the model is told when it fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..approval.gate import deadline_of
from ..context import ToolContext
from ..core import facts as f
from ..core.run import CallState
from ..core.transcript import provider_id
from ..errors import InvalidArguments, InvalidDecision, MaxTurnsExceeded, UnreadableState, UsageError
from ..tools.tool import Tool, default_tool_error_function
from .asking import Body
from .value import output_json

if TYPE_CHECKING:
    from .driver import Driver


class Looking(Body):
    """A call as the code around it sees it: there is nothing to ask, and nothing to do."""

    __slots__ = ()
    who: ClassVar[str] = "A guardrail looks"

    def ask_sync(self, question: Any, schema: Any) -> NoReturn:
        """Nobody can be asked from here."""
        raise UsageError(f"{self.who}, and can neither ask nor step.")

    async def step(self, name: str, fn: Callable[[], Any]) -> NoReturn:
        """Nothing can be done from here."""
        self.ask_sync(name, None)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> NoReturn:
        """Nothing can be done from here."""
        self.ask_sync(name, None)

    async def holds_lease(self) -> NoReturn:
        """The one who needs to know is the body."""
        raise UsageError(f"{self.who}, and has no effect to guard with the lease.")

    def holds_lease_sync(self) -> NoReturn:
        """The one who needs to know is the body."""
        raise UsageError(f"{self.who}, and has no effect to guard with the lease.")


class Told(Looking):
    """A call as hooks see it."""

    __slots__ = ()
    who = "A hook is told"


def context_of(
    driver: Driver, path: tuple[str, ...], state: CallState, tool: Tool, args: dict[str, Any], kind: type[Body] = Body
) -> tuple[Body, ToolContext[Any]]:
    """What a body, and the guardrails and hooks around it, get to know of the call."""
    body = kind(driver.journal, path, state, args, driver.home)
    body.deadline = deadline_of(tool, driver.config.question_deadline)
    agent = driver.cast.of(state).agent
    return body, ToolContext(driver.ctx.context, driver.control, body, agent, tool.name, provider_id(state))


async def record_failure(
    driver: Driver, path: tuple[str, ...], state: CallState, tool: Tool, ctx: ToolContext[Any], error: Exception
) -> str:
    """Record an exception as a call's outcome; then raise it, if the tool says so, or if it is a fault of the program.

    What the model is told of it.
    """
    text, raised = await _failure_text(tool, ctx, error)
    output, note = output_json(text)
    journal, kind = driver.journal, type(error).__name__
    journal.add(f.Finished(state.call.id, output, error=kind, note=note, at=journal.now(), path=path))
    if raised is not None:
        raise raised
    if is_fault(error):
        raise error
    return text


def is_fault(error: BaseException) -> bool:
    """Whether what left a body is about the program that it is of: no model could do anything about it.

    What does not fit in arguments, answers and saved runs may well come from the model, and so may a run without end.
    """
    given = isinstance(error, InvalidArguments | InvalidDecision | UnreadableState | MaxTurnsExceeded)
    return isinstance(error, UsageError) and not given


async def _failure_text(tool: Tool, ctx: ToolContext[Any], error: Exception) -> tuple[str, Exception | None]:
    """What the model is told of a failure, and what is raised to the user, if the tool says so."""
    text = default_tool_error_function(ctx, error)
    if tool.failure_error_function is None:
        return text, error
    try:
        told = tool.failure_error_function(ctx, error)
        return str(await told if inspect.isawaitable(told) else told), None
    except Exception as failure:
        return text, failure
