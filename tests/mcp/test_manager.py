"""Many servers at once: those that work are there, those that do not are named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assentry.errors import InvalidDefinition, MCPServerFailed
from assentry.mcp import MCPServerManager, OwnMCPServer
from tests.mcp.support import run


class Server(OwnMCPServer):
    """A server that fails on demand, and says in which task it was opened and closed."""

    def __init__(self, name: str, fails: BaseException | None = None, hangs: bool = False) -> None:
        super().__init__()
        self.name = name
        self.fails, self.hangs = fails, hangs
        self.log: list[str] = []
        self.tasks: set[Any] = set()
        self.begun = asyncio.Event()

    async def connect(self) -> None:
        self.tasks.add(asyncio.current_task())
        self.begun.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails is not None:
            raise self.fails
        self.log.append("connected")

    async def cleanup(self) -> None:
        self.tasks.add(asyncio.current_task())
        self.log.append("closed")

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
        return []

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        raise AssertionError


@pytest.mark.parametrize("parallel", [False, True])
def test_servers_that_fail_are_left_out_and_can_be_tried_again(parallel: bool) -> None:
    async def main() -> None:
        good, bad = Server("good"), Server("bad", ValueError("down"))
        async with MCPServerManager([good, bad, good], connect_in_parallel=parallel) as manager:
            assert manager.all_servers == [good, bad] and manager.active_servers == [good]
            assert manager.failed_servers == [bad] and str(manager.errors[bad]) == "down"
            assert bad.log == ["closed"]
            assert await manager.reconnect() == [good]
            bad.fails = None
            assert await manager.reconnect() == [good, bad]
            assert not manager.failed_servers and not manager.errors
            assert good.log == ["connected"]
            assert await manager.reconnect(failed_only=False) == [good, bad]
            assert good.log == ["connected", "closed", "connected"]
        assert good.log[-1] == "closed" and bad.log[-1] == "closed"
        assert all(task is not asyncio.current_task() for task in good.tasks) and len(good.tasks) == 2

    run(main())


def test_failed_servers_are_kept_if_that_is_wanted() -> None:
    async def main() -> None:
        bad = Server("bad", ValueError("down"))
        async with MCPServerManager([bad], drop_failed_servers=False) as manager:
            assert manager.active_servers == [bad] and manager.failed_servers == [bad]

    run(main())


@pytest.mark.parametrize("parallel", [False, True])
def test_a_strict_manager_raises_the_failure_and_closes_what_it_opened(parallel: bool) -> None:
    async def main() -> None:
        good, bad = Server("good"), Server("bad", ValueError("down"))
        manager = MCPServerManager([good, bad], strict=True, connect_in_parallel=parallel)
        with pytest.raises(ValueError, match="down"):
            await manager.connect_all()
        assert good.log[-1] == "closed" and manager.active_servers == []

    run(main())


def test_a_server_that_hangs_fails_in_time() -> None:
    async def main() -> None:
        slow = Server("slow", hangs=True)
        async with MCPServerManager([slow], connect_timeout_seconds=0.01) as manager:
            assert isinstance(manager.errors[slow], MCPServerFailed)
            assert "was not connected within 0.01 seconds" in str(manager.errors[slow])

    run(main())


def test_a_cancellation_of_a_servers_own_is_a_failure_unless_that_is_not_wanted() -> None:
    async def main() -> None:
        odd = Server("odd", asyncio.CancelledError())
        async with MCPServerManager([odd]) as manager:
            assert manager.failed_servers == [odd]
        with pytest.raises(asyncio.CancelledError):
            await MCPServerManager([odd], suppress_cancelled_error=False).connect_all()

    run(main())


def test_a_manager_that_is_cancelled_leaves_nothing_open() -> None:
    async def main() -> None:
        good, slow = Server("good"), Server("slow", hangs=True)
        manager = MCPServerManager([good, slow], connect_timeout_seconds=None)
        task = asyncio.create_task(manager.connect_all())
        await slow.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert good.log == ["connected", "closed"] and slow.log == ["closed"]

    run(main())


@pytest.mark.parametrize("options", [{"connect_timeout_seconds": 0}, {"strict": "yes"}])
def test_options_that_mean_nothing_fail_at_construction(options: Any) -> None:
    with pytest.raises(InvalidDefinition, match="MCPServerManager"):
        MCPServerManager([], **options)


def test_what_is_no_server_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="must be MCP servers, got 3"):
        MCPServerManager([3])
