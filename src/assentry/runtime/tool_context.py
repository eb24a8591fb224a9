"""The context that bodies, guardrails and hooks get for a call, and the text for the model if the call fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from msgspec import Raw

from ..approval.gate import deadline_of
from ..approval.question import asked_of
from ..core import facts as f
from ..core.digest import canonical, parse_object, same
from ..core.run import CallState
from ..core.transcript import edits, provider_id
from ..definitions.context import ToolContext
from ..definitions.tool import Tool, default_tool_error_function
from ..errors import InvalidArguments, InvalidDecision, MaxTurnsExceeded, UnreadableState, UsageError
from .scope import Scope
from .tool_pause import Body
from .value import output_json

LOST = (
    "The call ran, and its result is lost: the program around the tool is at fault. Do not take it for failed: what "
    "it does, it has done."
)
"""The text for the model if the code around a body fails after the body has run."""


class Looking(Body):
    """A call as guardrails see it: its arguments can be read, and asks and steps are refused."""

    __slots__ = ()
    who: ClassVar[str] = "A guardrail looks"

    def ask_sync(self, question: Any, schema: Any) -> NoReturn:
        """Raise `UsageError`: nobody can be asked here."""
        raise UsageError(f"{self.who}, and can neither ask nor step.")

    async def step(self, name: str, fn: Callable[[], Any]) -> NoReturn:
        """Raise `UsageError`: no step can be taken here."""
        self.ask_sync(name, None)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> NoReturn:
        """Raise `UsageError`: no step can be taken here."""
        self.ask_sync(name, None)

    async def holds_lease(self) -> NoReturn:
        """Raise `UsageError`: only a body has effects to guard with the lease."""
        raise UsageError(f"{self.who}, and has no effect to guard with the lease.")

    def holds_lease_sync(self) -> NoReturn:
        """Raise `UsageError`: only a body has effects to guard with the lease."""
        raise UsageError(f"{self.who}, and has no effect to guard with the lease.")


class HookBody(Looking):
    """A call as hooks see it."""

    __slots__ = ()
    who = "A hook is told"


class ReplacementContext(ToolContext[Any]):
    """The context of a call that runs in place of another: its own arguments and key; all else is the other call's."""

    __slots__ = ("_args",)

    def __init__(self, ctx: ToolContext[Any], tool: str, args: dict[str, Any]) -> None:
        super().__init__(
            ctx.context,
            tool_name=tool,
            tool_call_id=ctx.call_id,
            agent=ctx.agent,
            run_config=ctx.run_config,
            control=ctx._bound(),
            asking=ctx._asking,
        )
        self._args = args

    @property
    def arguments(self) -> str:
        """The arguments that run, as canonical JSON text."""
        return canonical(self._args).decode()

    @property
    def preconditions(self) -> dict[str, Any]:
        """No preconditions: people are shown no preview of a call in the place of another."""
        return {}

    @property
    def idempotency_key(self) -> str:
        """A key for external services, made from run, call and arguments. It is the same for every attempt."""
        body: Body = self._asking  # type: ignore[assignment]
        return body.key_of(self.tool_name, self.arguments)


def context_of(
    scope: Scope, path: tuple[str, ...], state: CallState, tool: Tool, args: dict[str, Any], kind: type[Body] = Body
) -> tuple[Body, ToolContext[Any]]:
    """Return a body of this kind, and the context that a tool, a guardrail or a hook gets for the call."""
    body = kind(scope.journal, path, state, args, scope.run_loop)
    body.deadline = deadline_of(tool, scope.config.question_deadline)
    call_id, agent = provider_id(state), scope.graph.of(state).agent
    body.report = scope.hooks.progress(path, tool.name, call_id)
    body.asked = asked_of(tool, agent)
    return body, scope.graph.view_classes.get(ToolContext, ToolContext)(
        scope.ctx.context,
        tool_name=tool.name,
        tool_call_id=call_id,
        agent=agent,
        run_config=scope.config,
        control=scope.control,
        asking=body,
    )


def finished(
    scope: Scope, path: tuple[str, ...], state: CallState, output: Raw, by: str = "tool", **more: Any
) -> f.Finished:
    """Return the outcome of a call that ran, with the agent's own words about it if a person has changed the call."""
    notice = _edit_notice(scope, state) if state.edited or state.steps else None
    return f.Finished(state.call.id, output, by, notice=notice, at=scope.journal.now(), path=path, **more)


def _edit_notice(scope: Scope, state: CallState) -> str | None:
    placed = scope.graph.of(state)
    ran = [(name, _without_defaults(placed.tools.get(name), parse_object(json))) for name, json in edits(state)]
    return placed.agent.edit_notice_text(ran) if ran else None


def _without_defaults(tool: Tool | None, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments in the order of the tool's parameters, without those that the tool would fill in."""
    if tool is None:
        return args
    try:
        filled = tool.canonical({})
    except InvalidArguments:
        filled = {}
    names = dict.fromkeys([*tool.params_json_schema.get("properties", ()), *args])
    given = [name for name in names if name in args and not (name in filled and same(filled[name], args[name]))]
    return {name: args[name] for name in given}


async def record_failure(
    scope: Scope, path: tuple[str, ...], state: CallState, tool: Tool, ctx: ToolContext[Any], error: Exception
) -> str:
    """Record an exception as the call's outcome and return the text for the model.

    Afterwards the exception is raised if the tool has no `failure_error_function`, or if it is a fault of the program,
    or of the code around the body. An exception of that function is raised in its place.
    """
    text, raised = await _failure_text(tool, ctx, error)
    output, note = output_json(text)
    scope.journal.add(finished(scope, path, state, output, error=type(error).__name__, note=note))
    if raised is not None:
        raise raised
    if is_fault(error, ctx._asking):
        raise error
    return text


def is_fault(error: BaseException, body: Any) -> bool:
    """Return True if an exception is a fault of the program, which no model can fix.

    Invalid arguments, decisions and saved runs may come from the model, and so may used-up turns: they are no faults.
    What the code around a body raises itself is one.
    """
    if error is body.fault:
        return True
    given = isinstance(error, InvalidArguments | InvalidDecision | UnreadableState | MaxTurnsExceeded)
    return isinstance(error, UsageError) and not given


async def _failure_text(tool: Tool, ctx: ToolContext[Any], error: Exception) -> tuple[str, Exception | None]:
    """Return the text for the model, and the exception to raise to the user, if any.

    If the code around a body is at fault, the model is told what became of the body.
    """
    body: Body = ctx._asking  # type: ignore[assignment]
    fault = is_fault(error, body)
    if fault and body.ran:
        return LOST, None
    text = default_tool_error_function(ctx, error)
    if tool.failure_error_function is None:
        return text, error
    try:
        told = tool.failure_error_function(ctx, (body.raised or error) if fault else error)
        return str(await told if inspect.isawaitable(told) else told), None
    except Exception as failure:
        return text, failure
