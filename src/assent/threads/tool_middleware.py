"""Tools of an agent with threads: a body may return a `ToolMessage`, and middleware may be around the body.

The door enters such a tool like any other, once, when its call may run. If the middleware runs the call unchanged, the
approval holds; a changed call is judged again. Middleware that asks a person is entered again from the top. A body that
had already run is not entered again: its result is stored with the question.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..approval.decision import Decision
from ..context import RunContextWrapper, ToolContext
from ..core import facts as f
from ..core.digest import BadJSON, described, digest, parse_object, plain, same, worded
from ..core.facts import decode
from ..core.rules import ANSWERS
from ..core.transcript import value_text
from ..errors import InvalidArguments, InvalidDecision, ReplayMismatch, UsageError
from ..runtime.door import AnsweredInstead, Failure, NotRun, run_inside, run_instead
from ..runtime.model_call import enabled
from ..runtime.tool_context import is_fault
from ..runtime.tool_pause import Body, Paused
from ..runtime.value import output_json
from ..tools.tool import Tool
from .interrupts import PREFIX, RESPONSE, Command, action_request, decision_inside
from .message import ToolMessage
from .middleware import nested
from .middleware_context import ToolCallRequest, driver_of, runtime_in, state_in

RAN = "assent:ran:"
"""Prefix of the steps that record the result of a body before its middleware asked a person."""

LOST = (
    "The call ran, and its result is lost: the program around the tool is at fault. Do not take it for failed: what "
    "it does, it has done."
)
"""Text for the model if a middleware fails after the body ran, so that the result is lost."""


class Failed(Exception):
    """A body failed before its middleware asked a person; the text is for the model."""


def wrapped(tool: Tool, hooks: Sequence[Callable[..., Any]]) -> Tool:
    """Return the tool with middleware around its body, which may return a `ToolMessage`; other kinds stay as is."""
    if tool.kind != "tool":
        return tool
    parts = {field.name: getattr(tool, field.name) for field in fields(Tool) if field.init}
    told = parts.pop("failure_error_function")
    return WrappedTool(**parts, failure_error_function=functools.partial(_told, told), inner=tool, hooks=tuple(hooks))


def _told(function: Any, ctx: RunContextWrapper[Any], error: Exception) -> Any:
    """Return the text for the model after a failure: the recorded text, or that of the tool's failure function."""
    if isinstance(error, Failed):
        return str(error)
    body: Body = ctx._asking  # type: ignore[attr-defined]
    fault = is_fault(error)
    if fault and body.ran:
        return LOST
    if function is None:
        raise error
    return function(ctx, body.raised or error if fault else error)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WrappedTool(Tool):
    """A tool whose body may return a `ToolMessage`, with any middleware around the body."""

    inner: Tool
    hooks: tuple[Callable[..., Any], ...]

    @property
    def shape(self) -> dict[str, Any] | None:
        """The schema with all its defaults."""
        return self.inner.shape

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in; nothing is coerced."""
        return self.inner.canonical(args)

    def bind(self, args: dict[str, Any]) -> Any:
        """Return the arguments in the form that the body takes, or raise `InvalidArguments`."""
        return self.inner.bind(args)

    async def invoke(self, ctx: ToolContext[Any], bound: Any) -> Any:
        """Run the middleware, which runs the body."""
        if self.hooks:
            return await MiddlewareEntry(self, ctx, bound).run()
        value = await run_inside(ctx, self.inner, bound)
        ctx._asking.ran = True  # type: ignore[attr-defined]
        given = checked(self.name, value)
        return outcome(given) if isinstance(given, ToolMessage) else given


def checked(tool: str, value: Any) -> Any:
    """Return the value that a body returned, or raise `UsageError` if that value is a `Command`."""
    if isinstance(value, Command):
        raise UsageError(f"The tool {tool!r} gave a Command. A tool gives its result: a value, or a ToolMessage.")
    return value


def outcome(given: ToolMessage) -> Any:
    """Return the outcome of a call from a message: its content, or a `Failure` for status "error"."""
    return Failure(given.text) if given.status == "error" else given.content


class MiddlewareEntry:
    """One entry of a tool with middleware."""

    def __init__(self, tool: WrappedTool, ctx: ToolContext[Any], bound: Any) -> None:
        self.tool, self.ctx, self.bound = tool, ctx, bound
        self.body: Body = ctx._asking  # type: ignore[assignment]
        self.ran: set[str] = set()
        self.kept: list[tuple[str, int, dict[str, Any]]] = []
        """The results of bodies in this entry; recorded as steps if the call pauses for a question."""
        self.value: tuple[ToolMessage, str, Any] | None = None
        """The last message of a body, its text, and the value that the body returned."""

    async def run(self) -> Any:
        """Run the middleware around the body, and return the outcome of the call."""
        ctx = self.ctx
        args = parse_object(self.body.arguments())  # a copy: middleware may change the arguments
        call = {"name": self.tool.name, "args": args, "id": ctx.call_id, "type": "tool_call"}
        state = functools.partial(state_in, ctx, self.body)
        request = ToolCallRequest(call, self.tool.inner, state, runtime_in(ctx))
        try:
            given = await nested(self.tool.hooks, self._handle)(request)
        finally:
            if self.body.pending is not None:
                for kept in self.kept:
                    self.body._journal.add(self.body._stepped(*kept))
        if not isinstance(given, ToolMessage):
            if inspect.iscoroutine(given):
                given.close()  # avoids the warning about a coroutine that was never awaited
            raise UsageError(
                "wrap_tool_call gives what its handler gave, awaited where the hook is async, or a ToolMessage of "
                f"assent.threads; it gave {described(given)}."
            )
        made, text, value = self.value or (None, "", None)
        if made is given and text == given.content and given.status == "success":
            return value
        return outcome(given)

    async def _handle(self, request: ToolCallRequest) -> ToolMessage:
        """Run the call as approved; run a call that a middleware has changed only if the gate allows it."""
        call: Any = getattr(request, "tool_call", None)
        name, args = (call.get("name"), call.get("args")) if isinstance(call, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(args, dict):
            raise UsageError(
                f'The handler takes the request, with a tool_call {{"name", "args"}}; got {described(call)}.'
            )
        tool = await self._tool(name)
        if tool is None:
            return self._message(name, f"There is no tool named {name!r}. The call did not run.", "error")
        try:
            step = RAN + digest({"tool": name, "arguments": plain(args)})
            as_approved = name == self.tool.name and same(tool.canonical(args), self.body.args)
        except (InvalidArguments, BadJSON) as error:
            return self._message(name, str(error), "error")
        number, done = self.body._replayed(step)
        self._once(tool)
        if done is not None:
            return self._again(name, decode(done.value))
        self._see_that_it_did_not_run(tool)
        try:
            value = await self._entered(tool, args, as_approved)
        except NotRun as error:
            self.ran.discard(name)
            return self._message(name, str(error), "error")
        except Exception as error:
            self.body.raised = error
            self._keep(step, number, {"tool": name, "failed": worded(error)})
            raise
        self.body.ran = True
        given = self._gave(name, checked(name, value))
        value = given.content if given is value else output_json(value)[0]
        self._keep(step, number, {"tool": name, "value": value, "status": given.status})
        return given

    async def _entered(self, tool: Tool, args: dict[str, Any], as_approved: bool) -> Any:
        """Return the result of the body, or a person's answer in its place; raise `NotRun` if no body was entered."""
        steps = len(self.body._state.steps)
        try:
            if as_approved:
                return await run_inside(self.ctx, tool, self.bound)
            return await run_instead(self.ctx, tool, args, functools.partial(self._decide, tool))
        except (InvalidArguments, BadJSON) as error:
            if as_approved or len(self.body._state.steps) > steps:
                raise
            raise NotRun(str(error)) from None
        except AnsweredInstead as answer:
            return answer.value

    def _keep(self, step: str, number: int, gave: dict[str, Any]) -> None:
        """Keep the result of a body, and the numbers of questions and steps up to that point."""
        if self.body.pending is None:  # otherwise the body itself has asked, and is entered again
            self.kept.append((step, number, {**gave, "asks": self.body._asks, "steps": dict(self.body._steps)}))

    def _again(self, name: str, kept: dict[str, Any]) -> ToolMessage:
        """Return the recorded result of a body, or raise its recorded failure, without entering the body again."""
        self.body._asks, self.body._steps = kept["asks"], kept["steps"]
        if "failed" in kept:
            raise Failed(kept["failed"])
        self.body.ran = True
        if kept["status"] == "error":
            return self._message(name, kept["value"], "error")
        return self._gave(name, kept["value"])

    async def _tool(self, name: str) -> Tool | None:
        """Return the tool of this name without its middleware; None if the call's agent has none, or it is disabled."""
        if name == self.tool.name:
            return self.tool.inner
        driver = driver_of(self.ctx)
        seat = driver.graph.of(self.body._state)
        tool = seat.tools.get(name)
        if tool is not None and not await enabled(driver, tool, seat.agent):
            return None
        return tool.inner if isinstance(tool, WrappedTool) else tool

    def _once(self, tool: Tool) -> None:
        if tool.name in self.ran and not tool.idempotent:
            raise UsageError(
                f"The tool {tool.name!r} was run in this call already, and is not idempotent: a second run could do "
                "what it does twice. Declare it with idempotent=True if it may."
            )
        self.ran.add(tool.name)

    def _see_that_it_did_not_run(self, tool: Tool) -> None:
        """Stop the call if a tool that is not idempotent ran before its middleware asked, with other arguments."""
        steps = [step.value for step in self.body._state.steps if step.name.startswith(RAN)]
        if not tool.idempotent and any(decode(kept).get("tool", tool.name) == tool.name for kept in steps):
            self.body.mismatch = ReplayMismatch(
                f"Code around {tool.name!r} ran it before it asked, and would run it again with other arguments. "
                "It must make the same of a call each time it is entered."
            )
            raise Paused

    def _decide(self, tool: Tool, asked: f.Asked, args: dict[str, Any]) -> Decision:
        """Ask a person about a call that a middleware has changed; the call pauses until there is an answer."""
        allowed = list(asked.allowed or tool.allowed or ANSWERS["approval"])
        action = action_request(tool.name, args, asked, PREFIX)
        reviews = [{"action_name": tool.name, "allowed_decisions": allowed}]
        words = action["description"]
        while True:
            answer = self.body.ask_sync({"action_requests": [action], "review_configs": reviews}, RESPONSE)
            try:
                return decision_inside(answer, action, allowed, tool)
            except InvalidDecision as error:  # recorded by a process without the tool, which could not check it
                action = {**action, "description": f"{words}\n\nNote: The last answer did not fit. {error}"}

    def _gave(self, name: str, value: Any) -> ToolMessage:
        if isinstance(value, ToolMessage):
            return value
        text = value if isinstance(value, str) else value_text(output_json(value)[0])
        made = self._message(name, text, "success")
        made.artifact = value
        self.value = made, text, value
        return made

    def _message(self, name: str, text: str, status: Any) -> ToolMessage:
        return ToolMessage(content=text, name=name, tool_call_id=self.ctx.call_id, status=status)
