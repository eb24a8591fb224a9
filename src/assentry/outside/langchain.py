"""Approvals for agents of LangChain's `create_agent`: a middleware asks about each tool call, around its body.

The library runs the tools. Here a call is asked about, started with exactly the approved arguments, run once and
reported. How a paused graph is driven belongs to `outside.langgraph`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any

from .missing import missing_library

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.errors import GraphInterrupt
    from langgraph.types import Command, interrupt
except ModuleNotFoundError as error:
    raise missing_library("AskFirstMiddleware", error, "langchain") from None

from ..approval.foreign_call import LONGEST_NAME
from ..core import allowed
from ..core.digest import canonical
from ..errors import NotApproved, NotDecided, UsageError
from ..store.call_status import CallStatus
from .approvals import Approvals, edit_note, text_with_edit
from .blocking import SyncApprovals
from .graph_interrupt import WAIT, ModelCall, call_key
from .langgraph import DescribeCall, arguments_schema, calls_of
from .options import CallOptions
from .turn import output_as_json

Outcome = ToolMessage | Command[Any]
LOST = "The call has run before, and its effect on the agent's state is lost. It does not run again."
"""The words for the model of a call that ran in a process that was killed, and had changed the agent's state."""


class _FailedCall(Exception):
    """A tool has failed, and its message says how."""

    def __init__(self, message: ToolMessage) -> None:
        super().__init__(str(message.text))
        self.message = message


class AskFirstMiddleware(AgentMiddleware[Any, Any, Any]):
    """The middleware that asks before an agent's tools run: `create_agent(..., middleware=[...])`.

    List it last, so that it is nearest to the tools: what runs is then what was approved.

    Args:
        approvals: The store or the inbox that is asked; `SyncApprovals` for `agent.invoke`.
        tools: The names of the tools whose calls are asked about; None for all. Rules let calls pass.
        timeout: The seconds to wait for a person. After them the graph is interrupted, and asks again when it is
            resumed: it needs a checkpointer then. None waits until somebody decides, 0 not at all.
        describe: A function of a tool's name and arguments that adds to an ask: reviewers, a preview, a deadline.
    """

    def __init__(
        self,
        approvals: Approvals | SyncApprovals,
        *,
        tools: Collection[str] | None = None,
        timeout: float | None = None,
        describe: DescribeCall | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(approvals, Approvals | SyncApprovals):
            raise UsageError("AskFirstMiddleware takes Approvals, or SyncApprovals.")
        allowed.check_option("AskFirstMiddleware", "tools", tools, allowed.NAMES.or_none)
        self.approvals = approvals
        self.asks_about = None if tools is None else frozenset(tools)
        self.timeout = timeout
        self.describe = describe

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Outcome]]
    ) -> Outcome:
        """Ask about a call, wait, and run it once with the approved arguments."""
        if not self._is_asked(request):
            return await handler(request)
        if not isinstance(self.approvals, Approvals):
            raise UsageError("An agent that runs on an event loop (ainvoke, astream) asks with Approvals.")
        call = await self.approvals.ask(
            request.tool_call["name"], request.tool_call["args"], **_ask_options(request, self.describe)
        )
        made: list[Outcome] = []

        async def body(**approved: Any) -> Any:
            try:
                made.append(await handler(_with_arguments(request, approved)))
            except GraphInterrupt:
                raise _pauses_itself(request) from None
            return _output_of(made[0])

        while True:
            try:
                output = await call.run(body, timeout=self.timeout)
                return _with_edit(made[0] if made else _message(request, output), request.tool_call["id"], call.status)
            except NotDecided as error:
                _pause(error, call.id)
            except NotApproved as error:
                return _with_edit(_refusal(request, error), request.tool_call["id"], call.status)
            except _FailedCall as failed:
                return _with_edit(failed.message, request.tool_call["id"], call.status)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Outcome]) -> Outcome:
        """Ask about a call, wait, and run it once with the approved arguments."""
        if not self._is_asked(request):
            return handler(request)
        if not isinstance(self.approvals, SyncApprovals):
            raise UsageError("An agent that runs without an event loop (invoke, stream) asks with SyncApprovals.")
        call = self.approvals.ask(
            request.tool_call["name"], request.tool_call["args"], **_ask_options(request, self.describe)
        )
        made: list[Outcome] = []

        def body(**approved: Any) -> Any:
            try:
                made.append(handler(_with_arguments(request, approved)))
            except GraphInterrupt:
                raise _pauses_itself(request) from None
            return _output_of(made[0])

        while True:
            try:
                output = call.run(body, timeout=self.timeout)
                return _with_edit(made[0] if made else _message(request, output), request.tool_call["id"], call.status)
            except NotDecided as error:
                _pause(error, call.id)
            except NotApproved as error:
                return _with_edit(_refusal(request, error), request.tool_call["id"], call.status)
            except _FailedCall as failed:
                return _with_edit(failed.message, request.tool_call["id"], call.status)

    def _is_asked(self, request: ToolCallRequest) -> bool:
        return self.asks_about is None or request.tool_call["name"] in self.asks_about


def _pauses_itself(request: ToolCallRequest) -> UsageError:
    return UsageError(
        f"The tool {request.tool_call['name']} calls interrupt() in its body, which LangGraph enters again. A call "
        "that AskFirstMiddleware runs is entered once: name the other tools with tools=[...], or ask in another node."
    )


def _pause(error: NotDecided, ask: str) -> None:
    """Interrupt the graph until it is resumed; what it is resumed with decides nothing."""
    interrupt({"type": WAIT, "ask": ask, "message": str(error)})


def _ask_options(request: ToolCallRequest, describe: DescribeCall | None) -> CallOptions:
    """Return the options of the ask about a call."""
    given, tool, options = request.tool_call, request.tool, CallOptions()
    if given["id"] is None:
        raise UsageError(f"The call of {given['name']} has no id, so that nobody could tell if it has run.")
    if tool is not None:
        options = {"schema": arguments_schema(tool), "description": tool.description}
    if describe is not None:
        options.update(describe(given["name"], given["args"]))
    thread = request.runtime.config.get("configurable", {}).get("thread_id")
    call = _find_call(request)
    if call.says:
        options["says"] = call.says
    if thread is not None:
        options["session"] = str(thread)[:LONGEST_NAME]
    if thread is not None or call.message is not None:
        options["key"] = call_key(None if thread is None else str(thread), call, "middleware")
    return options


def _find_call(request: ToolCallRequest) -> ModelCall:
    """Return the call as the agent's messages have it."""
    given, state = request.tool_call, request.state
    messages = state.get("messages", ()) if isinstance(state, dict) else getattr(state, "messages", ())
    found = (
        call
        for message in reversed(messages)
        if isinstance(message, AIMessage)
        for call in calls_of(message)
        if call.id == given["id"]
    )
    return next(found, ModelCall(id=given["id"] or "", name=given["name"], args=given["args"]))


def _with_arguments(request: ToolCallRequest, approved: dict[str, Any]) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": approved})


def _with_edit(outcome: Outcome, call_id: str | None, status: CallStatus) -> Outcome:
    """Return a call's outcome with what ran after the text of its message, if a person changed the call.

    Nothing else of it changes: programs read the artifact, and the state that a `Command` updates.
    """
    note = edit_note(status)
    if note is None:
        return outcome
    if isinstance(outcome, ToolMessage):
        content: Any = outcome.content
        block = {"type": "text", "text": f"[{note}]"}
        told = text_with_edit(content, status) if isinstance(content, str) else [*content, block]
        return outcome.model_copy(update={"content": told})
    update: Any = outcome.update
    messages = update.get("messages") if isinstance(update, dict) else None
    if not isinstance(messages, list):
        return outcome
    noted = [
        _with_edit(each, call_id, status) if isinstance(each, ToolMessage) and each.tool_call_id == call_id else each
        for each in messages
    ]
    return replace(outcome, update={**update, "messages": noted})


def _output_of(outcome: Outcome) -> Any:
    """Return a tool's output as the record keeps it; raise `_FailedCall` if it has failed."""
    if isinstance(outcome, ToolMessage):
        if outcome.status == "error":
            raise _FailedCall(outcome)
        return output_as_json(outcome.content)
    return {"command": LOST}


def _message(request: ToolCallRequest, output: Any) -> ToolMessage:
    """Return the message of a call that ran in another process, or that a person answered."""
    if output == {"command": LOST}:
        return _tool_message(request, LOST, "error")
    content = output if isinstance(output, str | list) else canonical(output).decode()
    return _tool_message(request, content, "success")


def _refusal(request: ToolCallRequest, error: NotApproved) -> ToolMessage:
    message = error.call.message if error.call is not None else None
    return _tool_message(request, message or str(error), "error")


def _tool_message(request: ToolCallRequest, content: Any, status: Any) -> ToolMessage:
    given = request.tool_call
    return ToolMessage(content=content, name=given["name"], tool_call_id=given["id"], status=status)
