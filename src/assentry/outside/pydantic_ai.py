"""Approvals for agents of Pydantic AI: a capability asks about the calls that need approval, and runs them once.

Pydantic AI decides which calls need approval, and when they run. Asking, waiting and the record of what ran belong to
`Approvals`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from .missing import missing_library

try:
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturn, ToolReturnPart
    from pydantic_ai.tools import (
        AgentDepsT,
        DeferredToolRequests,
        DeferredToolResults,
        RunContext,
        ToolApproved,
        ToolDefinition,
        ToolDenied,
    )
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
except ModuleNotFoundError as error:
    raise missing_library("AskFirst", error, "pydantic-ai") from None

from ..approval.foreign_call import LONGEST_NAME
from ..core.digest import canonical, digest, same
from ..errors import NotApproved, NotDecided, RunNotFound, UsageError
from ..store.call_status import CallStatus
from .approvals import Approvals, AskedCall, edit_note, why_not
from .options import CallOptions
from .turn import output_as_json, wait_together

Describe = Callable[[RunContext[Any], ToolCallPart, Mapping[str, Any]], CallOptions]
"""A function that adds to an ask: the context, the call, and the metadata with which the tool required approval."""


class _CutOff(BaseException):
    """A body was cut off by the library's time limit; nobody knows how much of it has happened."""


class AskFirst(AbstractCapability[AgentDepsT]):
    """The capability that asks before an agent's calls run: `Agent(..., capabilities=[AskFirst(approvals)])`.

    Args:
        approvals: The store or the inbox that is asked.
        timeout: The seconds to wait for a person. After them the run ends with `DeferredToolRequests`, and goes on
            with its messages later. None waits until somebody decides, 0 not at all.
        describe: A function that adds to an ask: reviewers, a preview, a deadline.
        people: The names of external tools that a person answers.
    """

    def __init__(
        self,
        approvals: Approvals,
        *,
        timeout: float | None = None,
        describe: Describe | None = None,
        people: Collection[str] = (),
    ) -> None:
        self.approvals = approvals
        self.timeout = timeout
        self.describe = describe
        self.people = (people,) if isinstance(people, str) else tuple(people)

    def get_ordering(self) -> CapabilityOrdering:
        """Return the place nearest to the tools: what other capabilities do to a call is done before it is checked."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Return the agent's tools; an approved call of them runs once, and its outcome is reported."""
        return _OnceToolset(toolset, self.approvals)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask about all calls of the turn, wait for the decisions, and return those that were made in time."""
        answered = [call for call in requests.calls if call.tool_name in self.people]
        asked = [await self._ask(ctx, call, requests) for call in [*requests.approvals, *answered]]
        waits = await wait_together(self._wait(call) for call in asked)
        results = DeferredToolResults()
        for call, status in zip(requests.approvals, waits, strict=False):
            if status is not None:
                results.approvals[call.tool_call_id] = _verdict(status)
        for call, status in zip(answered, waits[len(requests.approvals) :], strict=True):
            if status is not None:
                results.calls[call.tool_call_id] = _answer(status)
        return results if results.approvals or results.calls else None

    async def results(self, messages: Sequence[ModelMessage], *, timeout: float | None = None) -> DeferredToolResults:
        """Return the verdicts on the calls with which a run has ended, to go on with it in any process.

        `agent.run(message_history=messages, deferred_tool_results=await ask_first.results(messages))`. Waits until all
        are decided, or raises `NotDecided` after `timeout` seconds.
        """
        asked: dict[str, AskedCall] = {}
        for call in _open_calls(messages):
            with suppress(RunNotFound):  # a call that nobody was asked about is the program's own
                asked[call.tool_call_id] = await self.approvals.find(_key_of(messages, None, call.tool_call_id))
        waits = await wait_together(call.decision(timeout) for call in asked.values())
        names = {call.tool_call_id: call.tool_name for call in _open_calls(messages)}
        results = DeferredToolResults()
        for tool_call_id, status in zip(asked, waits, strict=True):
            if names[tool_call_id] in self.people:
                results.calls[tool_call_id] = _answer(status)
            else:
                results.approvals[tool_call_id] = _verdict(status)
        return results

    async def _ask(self, ctx: RunContext[AgentDepsT], call: ToolCallPart, requests: DeferredToolRequests) -> AskedCall:
        tool = ctx.tools.get(call.tool_name) or ToolDefinition(name=call.tool_name)
        options = CallOptions(schema=tool.parameters_json_schema, description=tool.description or "")
        if (response := _response_of(ctx.messages, call.tool_call_id)) is not None and response.text:
            options["says"] = response.text
        if ctx.conversation_id is not None:
            options["session"] = ctx.conversation_id[:LONGEST_NAME]
        if tool.toolset_id is not None:
            options["server"] = tool.toolset_id[:LONGEST_NAME]
        if call in requests.calls:
            options["allowed"] = ("respond", "reject")
        if self.describe is not None:
            options.update(self.describe(ctx, call, requests.metadata.get(call.tool_call_id) or {}))
        options["key"] = _key_of(ctx.messages, ctx.run_id, call.tool_call_id)
        return await self.approvals.ask(call.tool_name, call.args_as_json_str(), **options)

    async def _wait(self, call: AskedCall) -> CallStatus | None:
        try:
            return await call.decision(self.timeout)
        except NotDecided:
            return None


def _verdict(status: CallStatus) -> ToolApproved | ToolDenied:
    """Return the library's word for a verdict. What ran or was answered already is recorded, and does not run again."""
    if status.state in ("rejected", "cancelled"):
        return ToolDenied(_words(status))
    return ToolApproved(override_args=status.arguments if status.edited else None)


def _answer(status: CallStatus) -> ToolReturn | ToolFailed:
    """Return a person's answer to a call that has no body here."""
    if status.state == "answered":
        return ToolReturn(status.output)
    return ToolFailed(f"Nobody answered {status.tool}." if status.state == "approved" else _words(status))


def _words(status: CallStatus) -> str:
    return status.message or why_not(status)


def _response_of(messages: Sequence[ModelMessage], tool_call_id: str) -> ModelResponse | None:
    """Return the model's response that has this call; None if the call was made by another tool."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse) and any(call.tool_call_id == tool_call_id for call in message.tool_calls):
            return message
    return None


def _open_calls(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Return the calls of the model's last response that have no result."""
    done: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return [call for call in message.tool_calls if call.tool_call_id not in done]
        done |= {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)}
    return []


def _key_of(messages: Sequence[ModelMessage], run: str | None, tool_call_id: str) -> str:
    """Return the key of a call: the same in every process that goes on with the same messages."""
    response = _response_of(messages, tool_call_id)
    run = run if response is None else response.run_id
    if run is None:
        raise UsageError(
            f"The message with the call {tool_call_id!r} has no run_id, so that nobody could tell whether it has run. "
            "Keep messages with ModelMessagesTypeAdapter, or as all_messages_json() gives them."
        )
    return f"pydantic-ai:{digest({'run': run, 'call': tool_call_id})}"


@dataclass
class _OnceToolset(WrapperToolset[AgentDepsT]):
    """The agent's tools. An approved call starts once, with the approved arguments, and its outcome is reported."""

    approvals: Approvals

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Run a tool. A call that was approved elsewhere than in the inbox is refused."""
        if not ctx.tool_call_approved:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        call = await self._find(name, ctx)
        outputs: list[Any] = []

        async def body(**approved: Any) -> Any:
            values = _validated(tool, ctx, approved, call.status.edited)
            outputs.append(await self._enter(name, values, ctx, tool))
            output = outputs[0]
            return output_as_json(output.return_value if isinstance(output, ToolReturn) else output)

        arguments = _about_to_run(tool, ctx, tool_args, call.status)
        try:
            recorded = await call.run(body, timeout=0, arguments=arguments)
        except NotApproved as error:
            raise ToolFailed(str(error)) from error
        except _CutOff as cut:
            raise cut.args[0] from None
        return _with_edit(outputs[0] if outputs else recorded, call.status)

    async def _enter(
        self, name: str, values: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        try:
            return await self.wrapped.call_tool(name, values, ctx, tool)
        except Exception as error:
            if isinstance(error.__context__, TimeoutError):  # the tool's timeout: it may go on in its thread
                raise _CutOff(error) from error
            raise

    async def _find(self, name: str, ctx: RunContext[AgentDepsT]) -> AskedCall:
        try:
            call = await self.approvals.find(_key_of(ctx.messages, ctx.run_id, ctx.tool_call_id or ""))
        except RunNotFound:
            raise NotApproved(
                f"The call of {name} was approved, but nobody was asked here. Leave its approval to AskFirst."
            ) from None
        if call.status.tool != name:
            raise NotApproved(f"{call.status.tool} was approved, and not {name}; it must not run.", call.status)
        return call


def _with_edit(output: Any, status: CallStatus) -> Any:
    """Return an output with what ran as further content for the model, if a person changed the call."""
    note = edit_note(status)
    if note is None:
        return output
    made: ToolReturn[Any] = output if isinstance(output, ToolReturn) else ToolReturn(output)
    content = [made.content] if isinstance(made.content, str) else made.content or ()
    return replace(made, content=[*content, note] if content else note)


def _validated(tool: ToolsetTool[Any], ctx: RunContext[Any], arguments: dict[str, Any], edited: bool) -> dict[str, Any]:
    """Return arguments as the tool's body gets them, made anew. Edited ones are read as the library reads them."""
    context = ctx.validation_context
    values: dict[str, Any] = (
        tool.args_validator.validate_python(arguments, context=context)
        if edited
        else tool.args_validator.validate_json(canonical(arguments), context=context)
    )
    return values


def _about_to_run(
    tool: ToolsetTool[Any], ctx: RunContext[Any], given: dict[str, Any], status: CallStatus
) -> dict[str, Any] | None:
    """Return the arguments to report as about to run: those that were approved, if they come to the same values."""
    if status.state != "approved" or status.arguments is None:
        return None
    values = output_as_json(given)
    approved = output_as_json(_validated(tool, ctx, status.arguments, status.edited))
    return status.arguments if same(values, approved) else values
