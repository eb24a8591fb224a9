"""A tool may give a ToolMessage, and its status is kept, with and without code around it."""

from typing import Any

import pytest

from assentry import ToolGuardrailFunctionOutput, UsageError, function_tool, tool_output_guardrail
from assentry.testing import call
from assentry.threads import Command, InMemorySaver, ToolMessage, create_agent, wrap_tool_call
from tests.threads.support import Paired, requests, say, thread


@wrap_tool_call
def through(request: Any, handler: Any) -> Any:
    return handler(request)


AROUND: list[Any] = [[], [through]]


async def first(tool: Any, middleware: Any) -> ToolMessage:
    """The message of a tool's call."""
    agent = create_agent(Paired([call("find"), "ok"]), [tool], middleware=middleware, checkpointer=InMemorySaver())
    message = (await agent.ainvoke(say("go"), thread()))["messages"][2]
    assert requests(agent)[1].input[-1]["output"] == message.content
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize("middleware", AROUND, ids=["alone", "wrapped"])
@pytest.mark.parametrize("status", ["success", "error"])
async def test_a_tool_may_give_a_message(status: Any, middleware: Any) -> None:
    def find() -> Any:
        """Find."""
        return ToolMessage("no such row", tool_call_id="", status=status)

    message = await first(find, middleware)
    assert (message.content, message.status, message.name) == ("no such row", status, None)


@pytest.mark.parametrize("middleware", AROUND, ids=["alone", "wrapped"])
async def test_a_message_that_says_it_failed_is_guarded_as_any_output_is(middleware: Any) -> None:
    @tool_output_guardrail
    def secret(data: Any) -> ToolGuardrailFunctionOutput:
        assert data.output == "the secret row"
        return ToolGuardrailFunctionOutput.reject_content("held back")

    @function_tool(tool_output_guardrails=[secret])
    def find() -> Any:
        """Find."""
        return ToolMessage("the secret row", status="error")

    assert (await first(find, middleware)).content == "held back"


@pytest.mark.parametrize("middleware", AROUND, ids=["alone", "wrapped"])
@pytest.mark.parametrize("given", [{"update": {"messages": []}}, {"goto": "end"}, {"resume": 1}, {}], ids=str)
async def test_a_tool_that_gives_a_command_is_an_error_of_the_program(given: Any, middleware: Any) -> None:
    ran: list[int] = []

    def find() -> Any:
        """Find."""
        ran.append(1)
        return Command(**given)

    agent = create_agent(Paired([call("find"), "ok"]), [find], middleware=middleware, checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="ToolMessage"):
        await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(None, thread())
    assert ran == [1] and result["messages"][-1].content == "ok"
    assert result["messages"][2].status == "error"
