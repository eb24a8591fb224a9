"""The words of the gateway's own results, which a model reads in place of a tool's output."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from mcp import types
from pydantic import ValidationError

from ...core.digest import canonical
from ...core.wording import shortened
from ...store.call_status import CallStatus
from ..approvals import why_not

ASK, STATE = "assentry/ask", "assentry/state"
"""The keys of a result's `_meta` that name the ask and its state, for programs."""
LONGEST = 2000
TOO_LARGE = "The call has run. Its result was too large to be kept until this call, and is lost."


def problem_result(words: str, status: CallStatus | None = None) -> types.CallToolResult:
    """Return a result that says what kept the call from having one.

    It is marked as an error, since it is no output of the tool: clients accept no other result without the structured
    content that a tool promised.
    """
    meta = None if status is None else {ASK: status.id, STATE: status.state}
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True, _meta=meta)


def waiting_result(status: CallStatus, link: str, awaited: str = "approval of") -> types.CallToolResult:
    """Return the result of a call that is not decided, or not at its end, when the client's patience may be."""
    again = f"Call {status.tool} again with the same arguments to get its result."
    if status.state == "doubt":
        words = f"{status.tool} was started, and nobody knows how it ended. A person is asked ({link}). {again}"
    elif status.state == "running":
        words = f"{status.tool} still runs. {again}"
    else:
        words = f"Waiting for {awaited} {status.tool} ({link}). Nothing has run yet. {again}"
    return problem_result(words, status)


def refused_result(status: CallStatus) -> types.CallToolResult:
    """Return the result of a call that must not run, with the words of whoever refused it."""
    return problem_result(why_not(status), status)


def reply_result(words: str, status: CallStatus) -> types.CallToolResult:
    """Return the result of a call of the gateway's own `ask_user`: the answer, or why there is none."""
    if status.state != "answered":
        return problem_result(words, status)
    return types.CallToolResult(content=[types.TextContent(text=words)])


def answered_result(status: CallStatus, schema: dict[str, Any] | None) -> types.CallToolResult:
    """Return what a person answered in the call's place, as the tool's result."""
    answer = status.output
    text = answer if type(answer) is str else canonical(answer).decode()
    content: list[types.ContentBlock] = [types.TextContent(text=text)]
    if schema is None:
        return types.CallToolResult(content=content)
    for structured in (answer, {"result": answer}):  # servers that promise an object wrap what is none like this
        if Draft202012Validator(schema).is_valid(structured):
            return types.CallToolResult(content=content, structured_content=structured)
    return problem_result(f"{status.by} answered in place of {status.tool}: {text}", status)


def kept_result(status: CallStatus) -> types.CallToolResult:
    """Return the result of a call that ran earlier, as it was kept."""
    if status.state == "failed":
        return with_edit(problem_result(status.error or "The call has failed."), status)
    try:
        return with_edit(types.CallToolResult.model_validate(status.output, by_name=False), status)
    except ValidationError:
        return problem_result(
            f"The call has run. Its outcome is: {canonical(status.output).decode()[:LONGEST]}", status
        )


def with_edit(result: types.CallToolResult, status: CallStatus) -> types.CallToolResult:
    """Return the result with a sentence about the arguments that ran, if a person has changed them."""
    if not status.edited:
        return result
    ran = shortened(canonical(status.arguments or {}).decode(), LONGEST)
    words = f"{status.by} changed the arguments of this call before it ran. It ran with: {ran}"
    return result.model_copy(update={"content": [types.TextContent(text=words), *result.content]})


def failure_text(result: types.CallToolResult) -> str:
    """Return the text of a result, for the report of a failure."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return "\n".join(texts) or "The tool reported an error without a text."
