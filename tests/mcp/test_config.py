"""An agent's settings for the tools of its servers: names, strict schemas, wording of failures; and `_meta`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from assentry import Agent, Runner
from assentry.errors import InvalidDefinition, MCPServerFailed, UsageError
from assentry.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPToolMetaContext
from assentry.mcp.tool import name_with_server
from assentry.testing import ScriptedModel, call
from tests.mcp.support import output, raw, run, script, served


def agent_with(config: Any, server: Any, *said: Any) -> Agent:
    return Agent(name="A", mcp_servers=[server], mcp_config=config, model=ScriptedModel([*said, "Done."]))


def test_names_begin_with_the_servers_name_and_the_call_reaches_its_tool(tmp_path: Path) -> None:
    async def main() -> None:
        config = {"include_server_in_tool_names": True}
        async with raw("well", tmp_path / "log", name="My server!", require_approval="always") as server:
            agent = agent_with(config, server, call("mcp_My_server__act", {"what": "it"}))
            result = await Runner.run(agent, "Act.")
            state = result.to_state()
            (item,) = state.get_interruptions()
            assert item.name == "mcp_My_server__act"
            state.approve(item)
            assert output(await Runner.run(agent, state)) == "did it"
            plain = Agent(name="B", mcp_servers=[server], model=ScriptedModel([call("act", {"what": "it"}), "Done."]))
            assert (await Runner.run(plain, "Act.")).interruptions[0].name == "act"

    run(main())


def test_a_long_name_is_cut_and_marked() -> None:
    made = name_with_server("server" * 9, "tool" * 9)
    assert (
        len(made) == 64 and made.startswith("mcp_serverserver") and made != name_with_server("server" * 9, "tool" * 8)
    )
    assert name_with_server("", "???") == "mcp_server__tool"


def test_a_strict_schema_is_offered_and_the_servers_own_is_checked(tmp_path: Path) -> None:
    async def main() -> None:
        async with script("tools") as server:
            model = ScriptedModel([call("add", {"a": 1, "b": 2}), call("add", {"a": "x", "b": 2}), "Done."])
            config: Any = {"convert_schemas_to_strict": True}
            agent = Agent(name="A", mcp_servers=[server], mcp_config=config, model=model)
            result = await Runner.run(agent, "Add.")
            (spec,) = [tool for tool in model.requests[0].tools if tool.name == "add"]
            assert spec.strict and spec.parameters["required"] == ["a", "b"]
            assert output(result) == '{\n  "total": 3\n}' and "is not of type" in str(output(result, 1))

    run(main())


def test_an_agent_words_the_failures_of_servers_that_do_not() -> None:
    async def main() -> None:
        def worded(ctx: Any, error: Exception) -> str:
            return f"It failed: {type(error).__name__}."

        async with script("tools") as server:
            agent = agent_with({"failure_error_function": worded}, server, call("fail", {"why": "no"}))
            assert output(await Runner.run(agent, "Fail.")) == "It failed: MCPToolFailed."
        async with script("tools", failure_error_function=lambda ctx, error: "My own words.") as server:
            agent = agent_with({"failure_error_function": worded}, server, call("fail", {"why": "no"}))
            assert output(await Runner.run(agent, "Fail.")) == "My own words."

    run(main())


@pytest.mark.parametrize(
    "config", [5, {"strict": True}, {"convert_schemas_to_strict": 1}, {"failure_error_function": 5}]
)
def test_settings_that_mean_nothing_fail_at_construction(config: Any) -> None:
    with pytest.raises(InvalidDefinition, match="mcp_config"):
        Agent(name="A", mcp_config=config)


def test_a_call_brings_the_meta_that_a_function_gives() -> None:
    seen: list[MCPToolMetaContext] = []

    async def resolver(context: MCPToolMetaContext) -> dict[str, Any] | None:
        seen.append(context)
        return {"trace": "here"}

    async def main() -> None:
        async with script("meta", tool_meta_resolver=resolver) as server:
            agent = agent_with({}, server, call("trace"))
            assert output(await Runner.run(agent, "Say.")) == "from here"
        assert (seen[0].server_name, seen[0].tool_name, seen[0].arguments) == ("meta", "trace", {})
        async with script("meta", tool_meta_resolver=lambda context: 5) as server:
            with pytest.raises(UsageError, match="must return a dict or None"):
                await Runner.run(agent_with({}, server, call("trace")), "Say.")

    run(main())


def test_a_client_of_ones_own_is_used_and_watched() -> None:
    made: list[httpx2.AsyncClient] = []

    def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        made.append(httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth))
        return made[-1]

    async def main() -> None:
        async with served("streamable-http") as (port, _):
            params = {"url": f"http://127.0.0.1:{port}/mcp", "httpx_client_factory": factory, "headers": {"x-me": "1"}}
            async with MCPServerStreamableHttp(params, max_result_bytes=100_000) as server:
                agent = agent_with({}, server, call("add", {"a": 1}), call("large", {"size": 1_000_000}))
                result = await Runner.run(agent, "Work.")
                assert output(result) == '{\n  "total": 3\n}'
                assert "cannot be used" in output(result, 1)
            assert made[0].headers["x-me"] == "1" and made[0].headers["accept-encoding"] == "identity"
            with pytest.raises((MCPServerFailed, UsageError), match="AsyncClient"):
                await MCPServerStreamableHttp({**params, "httpx_client_factory": lambda **_: 5}).connect()

    run(main())


def test_another_filter_applies_from_the_next_list() -> None:
    async def main() -> None:
        async with script("tools") as server:
            assert len(await server.list_tools()) > 1
            server.tool_filter = {"allowed_tool_names": ["add"]}
            assert [tool.name for tool in await server.list_tools()] == ["add"]
            with pytest.raises(InvalidDefinition):
                server.tool_filter = 5  # type: ignore[assignment]

    run(main())


def test_a_list_on_too_many_pages_is_an_error() -> None:
    assert MCPServerStdio({"command": "x"}, max_list_pages=3)
    with pytest.raises(InvalidDefinition, match="max_list_pages"):
        MCPServerStdio({"command": "x"}, max_list_pages=0)
