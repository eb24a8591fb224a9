"""Conversations that the provider keeps: only what it does not have is sent, and a resumed run goes on there."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI

from assentry import (
    Agent,
    HostedMCPTool,
    ModelFailed,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    RunState,
    function_tool,
)
from tests.models.openai_server import Item, OpenAIServer, calling, message, thought
from tests.models.responses_api import ResponsesAPI


@function_tool(needs_approval=True)
async def send(to: str) -> str:
    return f"sent to {to}"


MCP = HostedMCPTool(
    {"type": "mcp", "server_label": "git", "server_url": "https://mcp.example", "require_approval": "always"}
)
REQUEST = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "git", "name": "push", "arguments": "{}"}
PUSHED = {
    "type": "mcp_call",
    "id": "mcp_1",
    "approval_request_id": "mcpr_1",
    "server_label": "git",
    "name": "push",
    "arguments": "{}",
    "output": "done",
    "status": "completed",
}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@asynccontextmanager
async def clerk(server: OpenAIServer, api: ResponsesAPI, **more: Any) -> AsyncIterator[Agent[Any]]:
    server.script(*[api] * (len(api.replies) + 3))
    async with AsyncOpenAI(base_url=server.url, api_key="sk-planted", max_retries=0) as client:
        yield Agent(name="Clerk", tools=[send, MCP], model=OpenAIResponsesModel("gpt-5.2", client), **more)


def sent(server: OpenAIServer) -> list[list[str]]:
    return [[item.get("type", item.get("role")) for item in body["input"]] for body in server.bodies]


async def approved(agent: Agent[Any], result: Any, **more: Any) -> Any:
    """The run, saved, loaded again and approved, to its next stop."""
    state = await RunState.from_string(agent, result.to_state().to_string())
    for item in state.get_interruptions():
        state.approve(item)
    return await Runner.run(agent, state, **more)


def turns() -> list[list[Item]]:
    return [
        [thought("rs_1"), calling("send", {"to": "ann"}, "call_1"), REQUEST],
        [PUSHED, message("All done.", "msg_2")],
    ]


async def test_only_unsent_items_are_sent_in_a_conversation(server: OpenAIServer) -> None:
    api = ResponsesAPI(turns(), {"conv_1": [{"role": "user", "content": "Earlier."}]})
    async with clerk(server, api) as agent:
        result = await Runner.run(agent, "Send and push.", conversation_id="conv_1")
        assert [item.tool_name for item in result.interruptions] == ["send", "push"]
        result = await approved(agent, result)
    assert result.final_output == "All done."
    assert sent(server) == [["user"], ["function_call_output", "mcp_approval_response"]]
    assert len(api.conversations["conv_1"]) == 9


@pytest.mark.parametrize("how", [{"auto_previous_response_id": True}, {"previous_response_id": "resp_0"}])
async def test_a_chain_of_responses_goes_on_after_a_resume(server: OpenAIServer, how: dict[str, Any]) -> None:
    api = ResponsesAPI(turns(), stored={"resp_0": [{"role": "user", "content": "Earlier."}]})
    async with clerk(server, api) as agent:
        result = await approved(agent, await Runner.run(agent, "Send and push.", **how))
    assert result.final_output == "All done." and result.last_response_id == "resp_3"
    assert sent(server) == [["user"], ["function_call_output", "mcp_approval_response"]]
    assert [body.get("previous_response_id") for body in server.bodies] == [how.get("previous_response_id"), "resp_2"]


async def test_without_a_kept_conversation_everything_is_sent_each_time(server: OpenAIServer) -> None:
    async with clerk(server, ResponsesAPI(turns())) as agent:
        result = await approved(agent, await Runner.run(agent, "Send and push."))
    assert result.final_output == "All done."
    assert sent(server)[1] == [
        "user",
        "reasoning",
        "function_call",
        "mcp_approval_request",
        "function_call_output",
        "mcp_approval_response",
    ]


async def test_encrypted_reasoning_goes_back_as_it_came(server: OpenAIServer) -> None:
    first = [thought("rs_1", encrypted_content="gAAAA"), calling("send", {"to": "ann"})]
    settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
    api = ResponsesAPI([first, [message("Done.", "msg_2")]])
    async with clerk(server, api, model_settings=settings) as agent:
        result = await approved(agent, await Runner.run(agent, "Send it."))
    assert result.final_output == "Done." and not api.stored
    assert server.bodies[1]["input"][1] == thought("rs_1", encrypted_content="gAAAA")


async def test_what_the_api_refuses_leaves_a_run_that_goes_on(server: OpenAIServer) -> None:
    api = ResponsesAPI([[message("Hello.", "msg_1")]])
    async with clerk(server, api) as agent:
        with pytest.raises(ModelFailed, match="conv_9"):
            await Runner.run(agent, "Hello?", conversation_id="conv_9")
        with pytest.raises(ModelFailed, match="conv_9") as caught:
            await Runner.run(agent, "Hello?", conversation_id="conv_9")
        api.conversations["conv_9"] = []
        result = await Runner.run(agent, caught.value.state)
    assert result.final_output == "Hello."
