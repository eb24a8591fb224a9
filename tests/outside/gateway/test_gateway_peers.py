"""The gateway in front of MCP servers that others wrote, of two protocol versions, two languages and three SDKs.

A server that is not installed skips its tests, and fails them in CI; `make test-peers` installs all of them first.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from mcp import types

from tests.mcp.peers import Missing, program
from tests.outside.gateway.support import Desk, direct, state, text

pytestmark = pytest.mark.peers
ASK_TO_WRITE = """
[[rule]]
name = "writes"
verdict = "ask"
tool = "write_*"
[[rule]]
name = "git"
verdict = "ask"
tool = "git_commit"
[[rule]]
name = "rest"
verdict = "allow"
"""


def server(name: str, *args: object) -> tuple[str, ...]:
    try:
        return (program(name), *map(str, args))
    except Missing as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("name", "tool", "args"),
    [
        ("mcp-server-everything", "echo", {"message": "hello"}),
        ("mcp-server-everything", "get-sum", {"a": 2, "b": 3}),
        ("mcp-server-everything", "get-tiny-image", {}),
        ("mcp-server-everything", "get-structured-content", {"location": "Chicago"}),
        ("mcp-server-calculator", "calculate", {"expression": "2 * 3"}),
        ("mcp-server-time", "get_current_time", {"timezone": "Nowhere/Nowhere"}),
    ],
)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_tools_and_results_are_the_servers_own(
    tmp_path: Path, name: str, tool: str, args: dict[str, object], mode: str
) -> None:
    async def refuse(context: object, params: object) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    command = server(name)
    # The gateway can be asked by the server, and some servers list more tools to clients that can.
    async with direct(command, mode, elicitation_callback=refuse) as client:
        tools, wanted = (await client.list_tools()).tools, await client.call_tool(tool, args)
    async with Desk(tmp_path, ASK_TO_WRITE).process(command, mode=mode) as client:
        newest = client.protocol_version >= "2026"  # which has no `execution` any more
        if newest:
            tools = [each.model_copy(update={"execution": None}) for each in tools]
        assert (await client.list_tools()).tools == tools
        found = await client.call_tool(tool, args)
    assert (found.content, found.structured_content, found.is_error) == (
        wanted.content,
        wanted.structured_content,
        wanted.is_error,
    )


async def test_a_file_is_written_once_it_was_approved(tmp_path: Path) -> None:
    desk, folder = Desk(tmp_path, ASK_TO_WRITE), tmp_path / "files"
    folder.mkdir()
    args = {"path": str(folder / "a.txt"), "content": "hello"}
    async with desk.process(server("mcp-server-filesystem", folder)) as client:
        calling = asyncio.create_task(client.call_tool("write_file", args))
        asked = await desk.question()
        assert asked.tool == "write_file" and list(folder.iterdir()) == []
        await desk.decide()
        assert not (await calling).is_error
        assert (folder / "a.txt").read_text() == "hello"
        assert "a.txt" in text(await client.call_tool("list_directory", {"path": str(folder)}))


async def test_a_commit_that_waits_is_made_when_the_client_comes_back(tmp_path: Path) -> None:
    desk, repository = Desk(tmp_path, ASK_TO_WRITE), tmp_path / "repository"
    made_repository(repository)
    args = {"repo_path": str(repository), "message": "Add a greeting"}
    command = server("mcp-server-git", "--repository", repository)
    async with desk.process(command, wait="0s") as client:
        assert state(await client.call_tool("git_commit", args)) == "waiting"
    await desk.decide()
    async with desk.process(command, wait="0s") as client:
        assert not (await client.call_tool("git_commit", args)).is_error
    assert git(repository, "log", "--format=%s").splitlines() == ["Add a greeting", "first"]


def git(repository: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(repository), *words], check=True, capture_output=True, text=True).stdout


def made_repository(repository: Path) -> None:
    """Make a repository with one commit, and a file for the next."""
    repository.mkdir()
    git(repository, "init", "-q")
    git(repository, "config", "user.name", "ann")
    git(repository, "config", "user.email", "ann@example.com")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    (repository / "a.txt").write_text("hello")
    git(repository, "add", "a.txt")
