"""The skin of MCP servers: the SDK's options and outputs, and servers of one's own, through the gate and the door."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

import pytest
from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult, TextContent
from mcp.types import Tool as Listed

from assentry.agents import Agent, Runner, mcp
from assentry.agents.mcp import MCPServer, MCPServerManager, MCPServerStdio, MCPUtil, create_static_tool_filter
from assentry.errors import InvalidDefinition, UsageError
from assentry.mcp import MCPServerStdio as OwnStdio
from assentry.testing import ScriptedModel, call
from tests.mcp.support import SERVERS, output

SCHEMA = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


class Bank(MCPServer):
    """A server of one's own, as the SDK has them: no protocol, only methods."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[tuple[str, Any]] = []
        self.schema = SCHEMA
        self.connected = False

    @property
    def name(self) -> str:
        return "bank"

    async def connect(self) -> None:
        self.connected = True

    async def cleanup(self) -> None:
        self.connected = False

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Listed]:
        return [Listed(name="pay", description="Pay.", input_schema=self.schema)]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        self.calls.append((tool_name, arguments))
        return CallToolResult(content=[TextContent(text=f"paid {arguments['amount']}, {meta}")])

    async def list_prompts(self) -> ListPromptsResult:
        return ListPromptsResult(prompts=[])

    async def get_prompt(self, name: str, arguments: Any = None) -> GetPromptResult:
        raise NotImplementedError


def agent_of(server: Any, *said: Any, **options: Any) -> Agent[Any]:
    return Agent(name="A", mcp_servers=[server], model=ScriptedModel([*said, "Done."]), **options)


def tools_server(**options: Any) -> MCPServerStdio:
    params: Any = {"command": sys.executable, "args": [str(SERVERS / "tools.py")], "encoding": "utf-8"}
    return MCPServerStdio(params, name="tools", **options)


@pytest.mark.parametrize("module", ["manager", "server", "util"])
def test_the_modules_of_the_sdk_are_here(module: str) -> None:
    home = importlib.import_module(f"assentry.agents.mcp.{module}")
    assert all(hasattr(home, name) for name in home.__all__)
    assert len(mcp.__all__) == 19 and all(hasattr(mcp, name) for name in mcp.__all__)


def test_a_server_of_ones_own_waits_for_approval_and_is_called_once() -> None:
    async def main() -> None:
        bank = Bank(require_approval="always", tool_meta_resolver=lambda context: {"for": context.tool_name})
        agent = agent_of(bank, call("pay", {"amount": 5}))
        async with MCPServerManager([bank]) as manager:
            assert bank.connected and manager.active_servers == [bank]
            result = await Runner.run(agent, "Pay.")
            assert not bank.calls and bank.cached_tools is not None
            state = result.to_state()
            state.approve(result.interruptions[0])
            result = await Runner.run(agent, state)
            assert bank.calls == [("pay", {"amount": 5})]
            assert output(result) == {"type": "text", "text": "paid 5, {'for': 'pay'}"}
        assert not bank.connected

    asyncio.run(main())


@pytest.mark.parametrize("strict", [False, True])
def test_a_server_of_ones_own_that_changed_its_tool_is_asked_about_again(strict: bool) -> None:
    async def main() -> None:
        bank = Bank(require_approval={"pay": "always"})
        agent = agent_of(bank, call("pay", {"amount": 5}), mcp_config={"convert_schemas_to_strict": strict})
        result = await Runner.run(agent, "Pay.")
        bank.schema = {**SCHEMA, "properties": {"amount": {"type": "number", "default": 1}}}  # left out if strict
        state = result.to_state()
        state.approve(result.interruptions[0])
        result = await Runner.run(agent, state)
        assert not bank.calls and result.interruptions

    asyncio.run(main())


def test_a_rejected_call_and_bad_arguments_do_not_reach_the_server() -> None:
    async def main() -> None:
        bank = Bank(require_approval=lambda ctx, agent, tool: True)
        agent = agent_of(bank, [call("pay", {"amount": 5}), call("pay", {"amount": "much"})])
        result = await Runner.run(agent, "Pay.")
        state = result.to_state()
        for item in result.interruptions:
            state.reject(item)
        await Runner.run(agent, state)
        assert not bank.calls

    asyncio.run(main())


def test_outputs_are_parts_and_errors_of_a_tool_are_texts_as_in_the_sdk() -> None:
    async def main() -> None:
        async with tools_server(tool_filter=create_static_tool_filter(blocked_tool_names=["slow"])) as server:
            assert isinstance(server, MCPServer) and isinstance(server, OwnStdio)
            agent = agent_of(server, call("add", {"a": 1}), call("fail", {"why": "no"}), call("show"))
            result = await Runner.run(agent, "Work.")
            assert output(result)["type"] == "text"
            assert output(result, 1) == {"type": "text", "text": "Error executing tool fail"}
            assert [part["type"] for part in output(result, 2)] == ["text", "image", "text", "text"]
        async with tools_server(use_structured_content=True) as server:
            assert output(await Runner.run(agent_of(server, call("add", {"a": 1})), "Add.")) == '{"total": 3}'

    asyncio.run(main())


def test_tools_that_were_fetched_before_are_an_agents_own_with_strict_schemas() -> None:
    async def main() -> None:
        async with tools_server(require_approval={"always": {"tool_names": ["add"]}}) as server:
            tools = await MCPUtil.get_all_function_tools([server], True, None, None, include_server_in_tool_names=True)
            model = ScriptedModel([call("mcp_tools__add", {"a": 1, "b": 2}), "Done."])
            agent = Agent(name="A", tools=tools, model=model)
            result = await Runner.run(agent, "Add.")
            state = result.to_state()
            state.approve(result.interruptions[0])
            assert "3" in output(await Runner.run(agent, state))["text"]

    asyncio.run(main())


def test_options_that_are_not_here_say_so() -> None:
    with pytest.raises(UsageError, match="custom_data_extractor"):
        tools_server(custom_data_extractor=lambda context: None)
    with pytest.raises(UsageError, match="custom_data_extractor"):
        Bank(custom_data_extractor=lambda context: None)
    with pytest.raises(UsageError, match="no encoding but 'utf-8'"):
        MCPServerStdio({"command": "x", "encoding": "latin-1"})
    with pytest.raises(InvalidDefinition, match="no option"):
        MCPServerStdio({"command": "x"}, no_such_option=5)
    assert MCPServerStdio({"command": "x"}, client_session_timeout_seconds=0).call_timeout is None
