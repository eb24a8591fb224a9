"""The same server over standard streams, HTTP with SSE, and streamable HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, RunConfig, Runner
from assentry.definitions.content import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from assentry.errors import MCPServerFailed, UsageError
from assentry.mcp import MCPServer
from assentry.testing import ScriptedModel, call
from tests.mcp.support import Impatient, agent_of, lines, output, over, run, script, served, until

KINDS = ("stdio", "sse", "streamable-http")


@asynccontextmanager
async def server_over(kind: str, **options: Any) -> AsyncIterator[MCPServer]:
    if kind == "stdio":
        async with script("tools", **options) as server:
            yield server
    else:
        async with served(kind) as (port, _), over(kind, port, **options) as server:
            yield server


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_a_server_is_there_over_each_transport(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with server_over(kind, require_approval={"note": "always"}) as server:
            assert [tool.name for tool in await server.list_tools()] == [
                "add",
                "note",
                "fail",
                "show",
                "slow",
                "pick",
                "large",
                "grow",
            ]
            assert (await server.call_tool("add", {"a": 1})).structured_content == {"total": 3}
            assert [prompt.name for prompt in (await server.list_prompts()).prompts] == ["greet"]
            prompt = await server.get_prompt("greet", {"name": "Ann"})
            assert prompt.messages[0].content.text == "Greet Ann."
            assert [str(each.uri) for each in (await server.list_resources()).resources] == ["note://all"]
            assert (await server.list_resource_templates()).resource_templates == []
            assert (await server.read_resource("note://all")).contents[0].text == "no notes"

            file = tmp_path / "notes"
            said = [call("add", {"a": 4}), call("fail", {"why": "no"})], call("show"), call("note", noted(file))
            agent = agent_of(server, *said)
            result = await Runner.run(agent, "Work.")
            assert output(result, 0) == '{\n  "total": 6\n}'
            assert output(result, 1).startswith("The tool failed with MCPToolFailed: ")
            assert [type(part) for part in output(result, 2)] == [
                ToolOutputText,
                ToolOutputImage,
                ToolOutputFileContent,
                ToolOutputText,
            ]
            assert lines(file) == []
            state = result.to_state()
            state.approve(state.get_interruptions()[0])
            assert output(await Runner.run(agent, state), 3) == "noted one"
            assert lines(file) == ["one"]

    run(main())


def noted(file: Path) -> dict[str, str]:
    return {"path": str(file), "line": "one"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_run_cancels_the_call_at_the_server_and_its_progress_was_seen(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with server_over(kind) as server:
            file = tmp_path / "log"
            agent, config = agent_of(server, call("slow", {"path": str(file)})), RunConfig(cancel_grace=0.01)
            stream = Runner.run_streamed(agent, "Wait.", run_config=config)
            seen = []
            async for event in stream.stream_events():
                if event.type == "tool_progress":
                    seen.append((event.progress, event.total, event.message))
                    stream.cancel()
            assert seen == [(1.0, 3.0, "begun")]
            await until(file, "cancelled")

    run(main())


def test_structured_content_is_the_output_if_that_is_wanted() -> None:
    async def main() -> None:
        result = await Runner.run(agent_of(script("tools", use_structured_content=True), call("add", {"a": 4})), "Add.")
        assert output(result) == {"total": 6}

    run(main())


@pytest.mark.parametrize("kind", ["stdio", "streamable-http"])
def test_a_server_of_the_new_protocol_is_listened_to_while_its_list_is_cached(kind: str) -> None:
    async def main() -> None:
        async with server_over(kind, cache_tools_list=True) as server:
            agent = agent_of(server, call("grow"))
            await Runner.run(agent, "Grow.")
            async with asyncio.timeout(60):
                while "grown" not in [tool.name for tool in await server.list_tools()]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    run(main())


def test_a_server_is_used_from_many_tasks_at_once() -> None:
    async def main() -> None:
        async with script("tools") as server:
            results = await asyncio.gather(*(server.call_tool("add", {"a": each}) for each in range(20)))
            assert [each.structured_content["total"] for each in results] == [each + 2 for each in range(20)]

    run(main())


def test_a_server_is_closed_in_another_task_than_it_was_opened_in() -> None:
    async def main() -> None:
        server = script("tools")
        await asyncio.create_task(server.connect())
        assert await asyncio.create_task(server.call_tool("add", {"a": 1}))
        await asyncio.create_task(server.cleanup())
        await server.cleanup()
        with pytest.raises(UsageError, match="is not connected in this event loop"):
            await server.call_tool("add", {"a": 1})

    run(main())


def test_each_event_loop_has_a_connection_of_its_own() -> None:
    server = script("tools")
    model = ScriptedModel([call("add", {"a": 1}), "Done.", call("add", {"a": 2}), "Done."])
    agent = Agent(name="Agent", mcp_servers=[server], model=model)

    async def main() -> None:
        async with server:
            assert output(await asyncio.to_thread(Runner.run_sync, agent, "Add.")) == '{\n  "total": 3\n}'
            assert output(await Runner.run(agent, "Add.")) == '{\n  "total": 4\n}'

    run(main())


def test_a_server_that_was_restarted_is_connected_again() -> None:
    async def main() -> None:
        async with served("streamable-http") as (port, first), over("streamable-http", port) as server:
            assert await server.call_tool("add", {"a": 1})
            first.kill()
            await first.wait()
            async with served("streamable-http", port):
                agent = agent_of(server, call("add", {"a": 4}))
                assert output(await Runner.run(agent, "Add.")) == '{\n  "total": 6\n}'

    run(main())


def test_an_answer_over_the_limit_is_told_to_the_model_over_http() -> None:
    async def main() -> None:
        async with served("streamable-http") as (port, _):
            async with over("streamable-http", port, max_result_bytes=100_000) as server:
                agent = agent_of(server, call("large", {"size": 1_000_000}), call("add", {"a": 1}))
                result = await Runner.run(agent, "Work.")
                assert "ran the call, but its answer cannot be used" in output(result)
                assert output(result, 1) == '{\n  "total": 3\n}'
            async with over("streamable-http", port) as server:
                assert await server.call_tool("large", {"size": 3_000_000})

    run(main())


def test_a_whole_answer_over_the_limit_is_told_to_the_model_over_http() -> None:
    async def main() -> None:
        async with answering(200) as port, over("streamable-http", port, max_result_bytes=100_000) as server:
            result = await Runner.run(agent_of(server, call("act", {})), "Act.")
            assert "ran the call, but its answer cannot be used" in output(result)
            assert "more than 100,000 bytes" in output(result)

    run(main())


def test_an_answer_that_is_too_large_for_sse_leaves_the_call_in_doubt() -> None:
    async def main() -> None:
        async with served("sse") as (port, _), over("sse", port) as server:
            result = await Runner.run(agent_of(server, call("large", {"size": 3_000_000})), "Work.")
            assert result.interruptions[0].kind == "doubt"
            assert await server.call_tool("add", {"a": 1})

    run(main())


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (503, "doubt", "HTTP 503"),
        (403, "failed", "HTTP 403"),
        (404, "failed", "The call was not sent."),
    ],
)
def test_an_http_error_is_told_apart_by_what_it_says_of_the_call(status: int, kind: str, words: str) -> None:
    async def main() -> None:
        async with answering(status) as port, over("streamable-http", port) as server:
            result = await Runner.run(agent_of(server, call("act", {})), "Act.")
            if kind == "doubt":
                assert result.interruptions[0].kind == "doubt" and words in result.interruptions[0].reason
            else:
                assert words in output(result)

    run(main())


@asynccontextmanager
async def answering(status: int | None) -> AsyncIterator[int]:
    """Run a server that answers calls with an HTTP error and no more; with None, it goes away and does not answer."""
    gone = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = next((int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length")), 0)
        message = json.loads(await reader.readexactly(size)) if size else {}
        method = message.get("method", "")
        if method == "tools/call" and status is None:
            server.close()
            await gone.wait()
            writer.close()
            return
        found = RESULTS.get(method)
        if method == "tools/call" and status == 200:
            found = {"content": [{"type": "text", "text": "x" * 1_000_000}]}
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": found}) if found else ""
        code = 200 if found else status if method == "tools/call" else 202 if "id" not in message else 405
        kind = "content-type: application/json\r\n" if found else ""
        reply = f"HTTP/1.1 {code} X\r\n{kind}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
        writer.write(reply.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        gone.set()
        server.close()


RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
}


def test_a_call_that_was_sent_is_in_doubt_even_if_its_cancellation_cannot_be_sent() -> None:
    async def main() -> None:
        async with answering(None) as port, over("streamable-http", port) as server:
            result = await Runner.run(agent_of(server, call("act", {})), "Act.", hooks=Impatient(server))
            [question] = result.interruptions
            assert question.kind == "doubt"

    run(main())


def test_a_server_that_is_not_there_is_an_error() -> None:
    async def main() -> None:
        for kind in ("sse", "streamable-http"):
            with pytest.raises(MCPServerFailed, match="could not be connected"):
                await over(kind, 1, client_session_timeout_seconds=5).connect()

    run(main())
