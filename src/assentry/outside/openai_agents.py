"""Approvals for agents of the OpenAI Agents SDK: a loop that settles a run's interruptions, and tools that ask first.

The SDK decides when a run is interrupted and when a tool is invoked. Asking, waiting and the record of what ran belong
to `Approvals`.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .missing import missing_library

try:
    from agents import Agent, FunctionTool, Runner, RunResult, RunState
    from agents.exceptions import AgentsException
    from agents.items import RunItem, ToolApprovalItem, ToolCallOutputItem
    from agents.tool import maybe_invoke_function_tool_failure_error_function
    from agents.tool_context import ToolContext
    from agents.tracing import get_current_trace
except ModuleNotFoundError as error:
    raise missing_library("ask_first", error, "openai-agents") from None
from typing_extensions import Unpack

from ..core.digest import digest
from ..core.facts import Verdict
from ..core.wording import described
from ..errors import AssentryError, NotApproved, NotDecided, UsageError
from ..ids import new_id
from ..store.call_status import CallStatus
from .approvals import Approvals, AskedCall, text_with_edit, why_not
from .options import CallOptions
from .turn import output_as_json, wait_together

WITHOUT_EDIT: tuple[Verdict, ...] = ("approve", "reject", "respond")
"""The verdicts on a call that the SDK runs itself. An answer reaches the model as the message of a rejection."""
Describe = Callable[[ToolApprovalItem], CallOptions]
"""A function that adds to an ask: reviewers, a preview, a deadline."""
Save = Callable[[RunState[Any, Any]], Awaitable[None] | None]
"""A function that keeps the state of a run that waits."""
_keys: ContextVar[Mapping[str, str]] = ContextVar("keys of calls", default={})  # noqa: B039 - never changed
"""The keys of the calls that the loop has asked about, by call id, while it lets the SDK invoke them."""


# -- the loop ----------------------------------------------------------------------------------------


@dataclass
class _Interruption:
    """An interruption of a run, the ask about it, and its tool if that asks itself."""

    item: ToolApprovalItem
    call: AskedCall
    asking: _AskingTool | None
    key: str


async def run_with_approvals(
    agent: Agent[Any],
    input: Any,
    approvals: Approvals,
    *,
    timeout: float | None = None,
    save: Save | None = None,
    describe: Describe | None = None,
    key: str | None = None,
    **options: Any,
) -> RunResult:
    """Run an agent as `Runner.run` does; ask about each interruption, wait, and go on until the run is done.

    Args:
        agent: The agent.
        input: The input, or a `RunState`, saved in this process or another.
        approvals: The store or the inbox that is asked.
        timeout: The seconds to wait for the people of one turn. After them the result has its interruptions, as the
            SDK gives them, and `result.to_state()` goes on later. None waits until all have decided.
        save: A function that keeps the state before the wait, so that another process can go on with it.
        describe: A function that adds to an ask: reviewers, a preview, a deadline.
        key: A name of the run, if the model's call ids and response ids are not unique.
        options: The options of `Runner.run`.
    """
    result = await Runner.run(agent, input, **options)
    while result.interruptions:
        state = result.to_state()
        if save is not None and inspect.isawaitable(saved := save(state)):
            await saved
        found = await _ask_about(result, approvals, key, describe)
        try:
            await wait_together(each.call.decision(timeout) for each in found)
        except NotDecided:
            return result
        result = await _go_on(agent, state, found, options)
    return result


async def _ask_about(
    result: RunResult, approvals: Approvals, key: str | None, describe: Describe | None
) -> list[_Interruption]:
    """Ask about all interruptions, in their order."""
    run = [key, [response.response_id for response in result.raw_responses]]
    tools: dict[int, dict[str, FunctionTool]] = {}
    found = []
    for item in result.interruptions:
        if id(item.agent) not in tools:
            listed = await item.agent.get_all_tools(result.context_wrapper)
            tools[id(item.agent)] = {tool.name: tool for tool in listed if isinstance(tool, FunctionTool)}
        tool = tools[id(item.agent)].get(item.tool_name or "")
        mark = f"openai-agents:{digest({'run': run, 'call': item.call_id})}"
        asking = getattr(tool, "asks_first", None)
        if asking is not None:
            call = await asking.ask(item.arguments or "{}", mark)
        else:
            call = await _ask_about_one(item, tool, approvals, mark, describe)
        found.append(_Interruption(item, call, asking, mark))
    return found


async def _ask_about_one(
    item: ToolApprovalItem, tool: FunctionTool | None, approvals: Approvals, key: str, describe: Describe | None
) -> AskedCall:
    """Ask about a call whose tool does not ask itself: nobody can edit it, since the SDK runs it as it is."""
    raw = output_as_json(item.raw_item)
    function = raw.get("type") == "function_call"
    options = CallOptions(allowed=WITHOUT_EDIT if function else ("approve", "reject"))
    if tool is not None:
        options["schema"], options["description"] = tool.params_json_schema, tool.description
    if describe is not None:
        options.update(describe(item))
    if "edit" in (options["allowed"] or ("edit",)):
        raise UsageError(f"{item.name} runs as the model called it: wrap it with ask_first, so that it can be edited.")
    options["key"] = key
    written = function or raw.get("type") == "mcp_approval_request"
    return await approvals.ask(item.name or raw["type"], (item.arguments or "{}") if written else raw, **options)


async def _go_on(
    agent: Agent[Any], state: RunState[Any, Any], found: Sequence[_Interruption], options: Mapping[str, Any]
) -> RunResult:
    """Tell the SDK of all decisions, let it go on, and report how the calls ended that it ran."""
    started = await _settle(state, found)
    keys = _keys.set({each.item.call_id or "": each.key for each in found if each.asking is not None})
    try:
        result = await Runner.run(agent, state, **options)
    except BaseException as error:
        seen = error.run_data if isinstance(error, AgentsException) else None
        outputs = _outputs(seen.new_items if seen is not None else ())
        for each in started:
            if each.item.call_id in outputs:
                await each.call.finish(outputs[each.item.call_id])
            else:  # it may have happened: a person is asked
                await each.call.leave()
        if isinstance(error.__cause__, AssentryError):  # the SDK wraps what an invocation raises
            raise error.__cause__ from None
        raise
    finally:
        _keys.reset(keys)
    outputs = _outputs(result.new_items)
    for each in started:
        await each.call.finish(outputs.get(each.item.call_id))
    return result


async def _settle(state: RunState[Any, Any], found: Sequence[_Interruption]) -> list[_Interruption]:
    """Write all decisions into the state; return the calls that are now reported as started.

    A call is started before it is approved in the state, so that of two processes with one state only one goes on.
    """
    started: list[_Interruption] = []
    for each in found:
        status = each.call.status
        if each.asking is not None and status.state not in ("rejected", "cancelled"):
            state.approve(each.item)  # its own invocation starts it, or returns what is recorded
        elif status.state in ("approved", "running"):
            try:
                if status.edited or status.tool != each.item.name:
                    raise NotApproved(f"{each.item.name} was approved with changes that the SDK cannot make.", status)
                await each.call.start()
            except BaseException:
                for other in started:
                    await other.call.report_failure("It was not run: the turn could not go on.")
                raise
            started.append(each)
            state.approve(each.item)
        else:
            state.reject(each.item, rejection_message=_told(status))
    return started


def _outputs(items: Sequence[RunItem]) -> dict[str | None, Any]:
    return {item.call_id: output_as_json(item.output) for item in items if isinstance(item, ToolCallOutputItem)}


def _told(status: CallStatus) -> str:
    """Return the model's account of a call that does not run: its output, an answer, or why not."""
    if status.state in ("finished", "answered"):
        return _text(status.output)
    return status.message or why_not(status)


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


# -- tools that ask ----------------------------------------------------------------------------------


def ask_first(
    tool: FunctionTool,
    approvals: Approvals,
    *,
    timeout: float | None = None,
    pause: bool = False,
    **options: Unpack[CallOptions],
) -> FunctionTool:
    """Return the tool with an invocation that asks first, runs once with the approved arguments, and reports.

    A person may edit the arguments, or answer in the tool's place; without an approval the model is told why not.

    Args:
        tool: A function tool. Its own `needs_approval` counts no more: the rules of the store or the inbox do.
        approvals: The store or the inbox that is asked.
        timeout: The seconds to wait for a person; then the run fails: the SDK's `UserError` has a `NotDecided` as its
            cause. None waits until somebody decides.
        pause: True to interrupt the run for the wait, so that its state can be kept; for `run_with_approvals`.
        options: What is said with each ask; see `CallOptions`.
    """
    if not isinstance(tool, FunctionTool):
        raise UsageError(f"ask_first takes a function tool, got {described(tool)}.")
    if getattr(tool, "_is_agent_tool", False):
        raise UsageError(f"{tool.name} is an agent: let the tools of that agent ask first.")
    asking = _AskingTool(tool, approvals, timeout, options)

    async def invoke(ctx: ToolContext[Any], input: str) -> Any:
        return await asking.invoke(ctx, input)

    made = copy.copy(tool)
    made.needs_approval = pause
    made.on_invoke_tool = invoke
    made.__dict__["asks_first"] = asking  # where a copy keeps it
    return made


class _AskingTool:
    """A function tool whose invocation asks first."""

    def __init__(self, tool: FunctionTool, approvals: Approvals, timeout: float | None, options: CallOptions) -> None:
        self.tool = tool
        self.approvals = approvals
        self.timeout = timeout
        self.options = options
        self._bare = _with_errors(tool)

    async def ask(self, arguments: str, key: str) -> AskedCall:
        """Ask about a call; the same key with other arguments raises `Conflict`."""
        options = CallOptions(schema=self.tool.params_json_schema, description=self.tool.description)
        options.update(self.options)
        options["key"] = key
        return await self.approvals.ask(self.tool.name, arguments, **options)

    async def invoke(self, ctx: ToolContext[Any], input: str) -> Any:
        """Ask, run the tool once with the approved arguments, and return its output or why it did not run."""
        call = await self.ask(input, _keys.get().get(ctx.tool_call_id) or _key_of(ctx))
        outputs: list[Any] = []
        failures: list[Exception] = []

        async def body(**approved: Any) -> Any:
            text = json.dumps(approved, ensure_ascii=False)
            try:
                outputs.append(await self._bare.on_invoke_tool(_context_with(ctx, text), text))
            except Exception as error:
                failures.append(error)
                raise
            return output_as_json(outputs[0])

        try:
            recorded = await call.run(body, timeout=self.timeout)
        except NotApproved:
            return _with_edit(_told(call.status), ctx, call.status)
        except Exception as error:
            if not any(error is failure for failure in failures):
                raise
            told = await maybe_invoke_function_tool_failure_error_function(
                function_tool=self.tool, context=ctx, error=error
            )
            if told is None:
                raise
            return _with_edit(told, ctx, call.status)
        return _with_edit(outputs[0] if outputs else _text(recorded), ctx, call.status)


def _with_edit(output: Any, ctx: ToolContext[Any], status: CallStatus) -> Any:
    """Return an output with what ran after its text, if a person changed the call and the model reads on.

    Other outputs stay as they are: those that are no text, and those that can become the run's final output.
    """
    reads_on = getattr(ctx.agent, "tool_use_behavior", "run_llm_again") == "run_llm_again"
    return text_with_edit(output, status) if isinstance(output, str) and reads_on else output


def _with_errors(tool: FunctionTool) -> FunctionTool:
    """Return a copy of the tool that raises the errors of its body, so that they are reported as failures."""
    made = copy.copy(tool)
    for name in ("_failure_error_function", "_use_default_failure_error_function"):
        if not hasattr(made, name):
            raise UsageError("This release of openai-agents is not known to Assentry; see the extra openai-agents.")
    made._failure_error_function = None
    made._use_default_failure_error_function = False
    return made


def _context_with(ctx: ToolContext[Any], arguments: str) -> ToolContext[Any]:
    """Return the context as the tool's body may see it: with the approved arguments."""
    made = copy.copy(ctx)
    made.tool_arguments = arguments
    return made


def _key_of(ctx: ToolContext[Any]) -> str:
    """Return the key of a call that is asked about by its own invocation: of its run, as far as that has a name."""
    trace = get_current_trace()
    run = trace.trace_id if trace is not None and trace.trace_id != "no-op" else new_id("run")
    return f"openai-agents:{digest({'run': run, 'call': ctx.tool_call_id})}"
