"""Tools of an agent with threads: a body may return a `ToolMessage`, and middleware may be around the body.

If the middleware runs the call unchanged, the approval holds; a changed call is judged again. Middleware that asks a
person is entered again from the top. A body that had already run is not entered again: its result is stored with the
question.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..approval.decision import Decision
from ..core import facts as f
from ..core.digest import BadJSON, digest, parse_object, plain, same
from ..core.facts import decode
from ..core.rules import ANSWERS
from ..core.transcript import value_text
from ..core.wording import described, worded
from ..definitions.context import ToolContext
from ..definitions.tool import Tool
from ..errors import InvalidArguments, InvalidDecision, OutcomeUnknown, ReplayMismatch, UsageError
from ..runtime.layer import ToolLayer
from ..runtime.scope import scope_of
from ..runtime.steps.door import BodyOutput, NotRun, run_inside, run_instead
from ..runtime.steps.model_call import is_tool_enabled
from ..runtime.tool_pause import Body, Paused
from ..runtime.value import output_json
from .foreign import is_graph_signal
from .injection import runtime_of_call
from .interrupts import PREFIX, RESPONSE, Command, action_request, decision_inside
from .langgraph_context import langgraph_context
from .message import ToolMessage, tool_call
from .middleware import nest_hooks
from .middleware_context import ToolCallRequest, state_in
from .review import HITLRequest
from .threaded_agent import ThreadedAgent
from .tool_result import body_output, read_result, result_from, result_json

RAN = "assent:ran:"
"""Prefix of the steps that record the result of a body before its middleware asked a person."""


class Failed(Exception):
    """A body failed before its middleware asked a person; the text is for the model."""


def wrap_tool(tool: Tool, hooks: Sequence[Callable[..., Any]]) -> Tool:
    """Return the tool with middleware around its body, which may return a `ToolMessage`; other kinds stay as is."""
    return WrappedTool.around(tool, hooks=tuple(hooks)) if tool.kind == "tool" else tool


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WrappedTool(ToolLayer):
    """A tool whose body may return a `ToolMessage`, with any middleware around the body."""

    hooks: tuple[Callable[..., Any], ...]

    @property
    def return_direct(self) -> bool:
        """True if the tool's output ends the run."""
        return getattr(self.inner, "return_direct", False) is True

    async def enter(self, ctx: ToolContext[Any], bound: Any) -> Any:
        """Run the middleware, which runs the body."""
        with langgraph_context(ctx):
            if self.hooks:
                return await MiddlewareEntry(self, ctx, bound).run()
            try:
                given = read_result(self.name, await run_inside(ctx, self.inner, bound))
            except Exception as error:
                check_signal(self.name, error)
                raise
        return body_output(ctx, given) if isinstance(given, ToolMessage | Command) else given


def check_signal(tool: str, error: Exception) -> None:
    """Raise `UsageError` if a body's exception is a signal to a graph of LangGraph: no model may be told of it."""
    if is_graph_signal(error):
        raise UsageError(
            f"The tool {tool!r} raised LangGraph's {type(error).__name__}, and there is no graph here that it could "
            "reach. To ask a person, use interrupt of assentry.threads."
        ) from error


class MiddlewareEntry:
    """One entry of a tool with middleware."""

    def __init__(self, tool: WrappedTool, ctx: ToolContext[Any], bound: Any) -> None:
        self.tool, self.ctx, self.bound = tool, ctx, bound
        self.body: Body = ctx._asking  # type: ignore[assignment]
        self.ran: set[str] = set()
        self.kept: list[tuple[str, int, dict[str, Any]]] = []
        """The results of bodies in this entry; recorded as steps if the call pauses for a question."""
        self.value: tuple[Any, str, Any] | None = None
        """The last message of a body as its hooks see it, its text, and the value that the body returned."""
        self.passed: list[BaseException] = []
        """The exceptions that the handler raised; any other is the middleware's own."""

    async def run(self) -> Any:
        """Run the middleware around the body, and return the outcome of the call."""
        ctx = self.ctx
        args = parse_object(self.body.arguments())  # a copy: middleware may change the arguments
        state = functools.partial(state_in, ctx, self.body)
        call = tool_call(self.tool.name, args, ctx.call_id)
        request = ToolCallRequest(call, self.tool.inner, state, functools.partial(runtime_of_call, ctx))
        try:
            given = await nest_hooks(self.tool.hooks, self._handle_and_note)(request)
        except Failed as error:
            return BodyOutput(str(error), failed=True)
        except Exception as error:
            if all(error is not each for each in self.passed):
                self.body.fault = error  # it ends the run; what a body raises, the model is told
            raise
        finally:
            if self.body.pending is not None:
                for kept in self.kept:
                    self.body.record(*kept)
        made, text, value = self.value or (None, "", None)
        if made is not None and made is given and text == given.content and given.status == "success":
            return value
        if inspect.iscoroutine(given):
            given.close()  # avoids the warning about a coroutine that was never awaited
        result = read_result(self.tool.name, given)
        if not isinstance(result, ToolMessage | Command):
            raise UsageError(
                "wrap_tool_call gives what its handler gave, awaited where the hook is async, or a ToolMessage or "
                f"a Command; it gave {described(given)}."
            )
        if made is not None and isinstance(result, ToolMessage) and result.artifact is value:
            result.artifact = None  # it was there for the hooks
        return body_output(ctx, result)

    async def _handle_and_note(self, request: Any) -> Any:
        try:
            return await self._handle(request)
        except BaseException as error:
            self.passed.append(error)
            raise

    async def _handle(self, request: Any) -> Any:
        """Run the call as approved; run a call that a middleware has changed only if the gate allows it."""
        call: Any = request.tool_call if isinstance(request, ToolCallRequest) else None
        name, args = (call.get("name"), call.get("args")) if isinstance(call, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(args, dict):
            raise UsageError(
                f'The handler takes the request, with a tool_call {{"name", "args"}}; got {described(call)}.'
            )
        self._check_tool(name, request.tool)
        tool = await self._tool(name)
        if tool is None:
            return self._message(name, f"There is no tool named {name!r}. The call did not run.", "error")
        try:
            step = RAN + digest({"tool": name, "arguments": plain(args)})
            as_approved = name == self.tool.name and same(tool.canonical(args), self.body.args)
        except (InvalidArguments, BadJSON) as error:
            return self._message(name, str(error), "error")
        number, done = self.body.recorded_step(step)
        self._check_first_run(tool)
        if done is not None:
            return self._again(name, decode(done.value))
        self._check_not_recorded(tool)
        try:
            if as_approved:
                value = await run_inside(self.ctx, tool, self.bound)
            else:
                value = await run_instead(self.ctx, tool, args, functools.partial(self._decide, tool))
        except NotRun as error:
            self.ran.discard(name)
            return self._message(name, str(error), "error")
        except OutcomeUnknown as error:
            self._keep(step, number, {"tool": name, "unknown": str(error)})
            raise
        except Exception as error:
            self._keep(step, number, {"tool": name, "failed": worded(error)})
            check_signal(name, error)
            raise
        given = read_result(name, value)
        is_result = isinstance(given, ToolMessage | Command)
        kept = {"result": result_json(given)} if is_result else {"value": output_json(given)[0], "status": "success"}
        self._keep(step, number, {"tool": name, **kept})
        return self._gave(name, given)

    def _keep(self, step: str, number: int, gave: dict[str, Any]) -> None:
        """Keep the result of a body, and the numbers of questions and steps up to that point."""
        if self.body.pending is None:  # otherwise the body itself has asked, and is entered again
            self.kept.append((step, number, {**gave, **self.body.marks()}))

    def _again(self, name: str, kept: dict[str, Any]) -> Any:
        """Return the recorded result of a body, or raise its recorded failure, without entering the body again."""
        self.body.go_to(kept)
        if "failed" in kept:
            raise Failed(kept["failed"])
        if "unknown" in kept:
            self.body.unknown[name] = OutcomeUnknown(kept["unknown"])
            raise self.body.unknown[name]
        self.body.ran = True
        if "result" in kept:
            return self._gave(name, result_from(kept["result"]))
        if kept["status"] == "error":
            return self._message(name, kept["value"], "error")
        return self._gave(name, kept["value"])

    async def _tool(self, name: str) -> Tool | None:
        """Return the tool of this name without its middleware; None if the call's agent has none, or it is disabled."""
        if name == self.tool.name:
            return self.tool.inner
        scope = scope_of(self.ctx)
        placed = scope.graph.of(self.body.state)
        tool = placed.tools.get(name)
        if tool is not None and not await is_tool_enabled(scope, tool, placed.agent):
            return None
        return tool.inner if isinstance(tool, WrappedTool) else tool

    def _check_tool(self, name: str, given: Any) -> None:
        """Raise `UsageError` if a hook has put a tool into its request that the agent does not have."""
        own = self.tool.inner
        if given is None or given is own:
            return
        tool = scope_of(self.ctx).graph.of(self.body.state).tools.get(name)
        agent = self.ctx.agent
        made_from = agent.added.get(name, (None,))[0] if isinstance(agent, ThreadedAgent) else None
        known = (tool, getattr(tool, "inner", None), getattr(getattr(tool, "inner", None), "given", None), made_from)
        if not any(given is each for each in known if each is not None):
            raise UsageError(
                f"wrap_tool_call gives {described(given)} for a call of {name!r}, which is not the tool that the model "
                "was offered; nothing ran. Offer it in wrap_model_call, or give it to create_agent."
            )

    def _check_first_run(self, tool: Tool) -> None:
        if tool.name in self.ran and not tool.idempotent:
            failed = next(
                (gave["failed"] for *_, gave in self.kept if gave["tool"] == tool.name and "failed" in gave), ""
            )
            raise UsageError(
                f"The tool {tool.name!r} was run in this call already, and is not idempotent: a second run could do "
                f"what it does twice. Declare it with idempotent=True if it may.{failed and f' It failed: {failed}'}"
            )
        self.ran.add(tool.name)

    def _check_not_recorded(self, tool: Tool) -> None:
        """Stop the call if a tool that is not idempotent ran before its middleware asked, with other arguments."""
        steps = [step.value for step in self.body.state.steps if step.name.startswith(RAN)]
        if not tool.idempotent and any(decode(kept).get("tool", tool.name) == tool.name for kept in steps):
            self.body.mismatch = ReplayMismatch(
                f"Code around {tool.name!r} ran it before it asked, and would run it again with other arguments. "
                "It must treat a call in the same way each time it is entered."
            )
            raise Paused

    def _decide(self, tool: Tool, asked: f.Asked, args: dict[str, Any]) -> Decision:
        """Ask a person about a call that a middleware has changed; the call pauses until there is an answer."""
        allowed: list[str] = list(asked.allowed or tool.allowed or ANSWERS["approval"])
        action = action_request(tool.name, args, asked, PREFIX)
        if tool.source is not None:
            action["definition"] = tool.fingerprint  # an answer is for the tool as its server had it
        words = action["description"]
        while True:
            request = HITLRequest(
                action_requests=[action],
                review_configs=[{"action_name": tool.name, "allowed_decisions": allowed}],
            )
            answer = self.body.ask_sync(request, RESPONSE)
            try:
                return decision_inside(answer, request, tool)
            except InvalidDecision as error:  # recorded by a process without the tool, which could not check it
                action = {**action, "description": f"{words}\n\nNote: The last answer did not fit. {error}"}

    def _gave(self, name: str, value: Any) -> Any:
        """Return a body's value as its hooks see it: a message or a command."""
        if isinstance(value, Command):
            return value
        if isinstance(value, ToolMessage):
            value.tool_call_id = value.tool_call_id or self.ctx.call_id
            return self._shown(value)
        text = value if isinstance(value, str) else value_text(output_json(value)[0])
        made = ToolMessage(content=text, name=name, tool_call_id=self.ctx.call_id, artifact=value)
        shown = self._shown(made)
        self.value = shown, text, value
        return shown

    def _message(self, name: str, text: str, status: Any) -> Any:
        return self._shown(ToolMessage(content=text, name=name, tool_call_id=self.ctx.call_id, status=status))

    def _shown(self, message: ToolMessage) -> Any:
        """Return a message in the classes that the agent's hooks use."""
        agent = self.ctx.agent
        return agent.show_messages([message])[0] if isinstance(agent, ThreadedAgent) else message
