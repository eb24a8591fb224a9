"""Connections and processes: opened once, lost and opened again, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, RunHooks, Runner
from assentry.errors import MCPServerFailed
from assentry.testing import ScriptedModel
from tests.mcp.support import act, agent_of, lines, output, raw, run, until, written


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that do not end by themselves are ended at once."""
    monkeypatch.setattr("assentry.mcp.stdio_transport.GRACE", 0.2)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(file: Path) -> list[int]:
    return [int(line.removeprefix("pid ")) for line in written(file) if line.startswith("pid ")]


@pytest.mark.parametrize("grace", [0.2, 0.0])
def test_a_server_that_will_not_end_is_ended(grace: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.mcp.stdio_transport.GRACE", grace)

    async def main() -> None:
        async with raw("stays", tmp_path / "log") as server:
            assert [tool.name for tool in await server.list_tools()] == ["act"]
        [pid] = pids(tmp_path / "log")
        assert not is_running(pid)

    run(main())


def test_a_server_that_nobody_closed_ends_with_its_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        await raw("stays", tmp_path / "log").connect()

    run(main())
    [pid] = pids(tmp_path / "log")
    assert not is_running(pid)


def test_a_connection_that_was_given_up_leaves_no_process(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("hangs", tmp_path / "log")
        connecting = asyncio.create_task(server.connect())
        async with asyncio.timeout(60):
            while not pids(tmp_path / "log"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        [pid] = pids(tmp_path / "log")
        assert not is_running(pid)

    run(main())


def test_runs_at_once_share_one_connection_and_the_last_closes_it(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("well", tmp_path / "log")
        await asyncio.gather(*(Runner.run(agent_of(server, act(str(each))), "Act.") for each in range(4)))
        [pid] = pids(tmp_path / "log")
        assert not is_running(pid)
        await Runner.run(agent_of(server, act()), "Act.")
        assert len(pids(tmp_path / "log")) == 2

    run(main())


def test_a_server_that_the_user_connected_outlasts_its_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("well", tmp_path / "log") as server:
            for _ in range(2):
                assert output(await Runner.run(agent_of(server, act()), "Act.")) == "did it"
        assert len(pids(tmp_path / "log")) == 1

    run(main())


def test_a_server_that_died_between_two_turns_is_started_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("dies later", tmp_path / "log") as server:
            result = await Runner.run(agent_of(server, act("one"), act("two")), "Act.")
            assert [output(result, number) for number in (0, 1)] == ["did one", "did two"]
            assert len(pids(tmp_path / "log")) == 3

    run(main())


def test_further_attempts_to_connect_are_as_many_as_were_said(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("exits", tmp_path / "log", max_retry_attempts=2, retry_backoff_seconds_base=0.01)
        with pytest.raises(MCPServerFailed):
            await server.connect()
        assert len(pids(tmp_path / "log")) == 3

    run(main())


def test_a_message_handler_gets_the_servers_notifications(tmp_path: Path) -> None:
    heard: list[Any] = []

    async def handler(message: Any) -> None:
        heard.append(type(message).__name__)

    async def main() -> None:
        async with raw("tells", tmp_path / "log", message_handler=handler) as server:
            await Runner.run(agent_of(server, act("first")), "Act.")

    run(main())
    assert heard == ["ToolListChangedNotification"]


def test_a_run_that_is_cancelled_while_the_server_works_is_not_left_hanging(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("hangs in call", tmp_path / "log") as server:
            agent = Agent(name="A", mcp_servers=[server], model=ScriptedModel([act(), "Done."]))
            running = asyncio.create_task(Runner.run(agent, "Act."))
            await until(tmp_path / "log", "called it")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await until(tmp_path / "log", "cancelled")
            assert (await server.list_tools())[0].name == "act"

    run(main())


class Restarting(RunHooks[Any]):
    """Ends a server while the door waits, and has the next one list another tool under the same name."""

    def __init__(self, server: Any, file: Path) -> None:
        self.server, self.file = server, file

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        if not (changed := self.file.with_suffix(".changed")).exists():
            changed.touch()
            link = await self.server.link()
            os.kill(pids(self.file)[-1], signal.SIGKILL)
            async with asyncio.timeout(60):
                while link.alive:  # noqa: ASYNC110
                    await asyncio.sleep(0)


@pytest.mark.parametrize("rule", ["always", "never"])
def test_a_server_that_comes_back_with_another_tool_is_asked_about_and_not_called(rule: Any, tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "log"
        async with raw("changes", file, require_approval=rule) as server:
            agent = agent_of(server, act())
            if rule == "always":
                result = await Runner.run(agent, "Act.")
                state: Any = result.to_state()
                state.approve(result.interruptions[0], by="ann")
            result = await Runner.run(agent, state if rule == "always" else "Act.", hooks=Restarting(server, file))
            [question] = result.interruptions
            assert "has changed its tool 'act'" in question.reason
            assert lines(file) == []
            state = result.to_state()
            state.approve(question, by="ann")
            assert output(await Runner.run(agent, state)) == "did it"
            assert lines(file) == ["called it"]

    run(main())


def test_a_server_that_others_have_listed_since_the_door_looked_is_looked_at_once_more(tmp_path: Path) -> None:
    """After the last look the connection is lost, and somebody else lists the tools in the new one."""

    async def main() -> None:
        file = tmp_path / "log"
        made: list[Any] = []

        async def meta(context: Any) -> None:
            [server] = made
            await Restarting(server, file).on_tool_start(None, None, None)
            await server.refresh()

        async with raw("changes", file, require_approval="never", tool_meta_resolver=meta) as server:
            made.append(server)
            result = await Runner.run(agent_of(server, act()), "Act.")
            assert "has changed its tool 'act'" in result.interruptions[0].reason
            assert lines(file) == []

    run(main())


def test_a_call_that_waited_for_its_turn_is_looked_at_once_more(tmp_path: Path) -> None:
    """With `parallel_calls=False` a call may wait for another, long after the door has looked."""

    async def main() -> None:
        file = tmp_path / "log"
        async with raw("changes", file, require_approval="never", parallel_calls=False) as server:
            agent = agent_of(server, act())
            async with server.turn():  # another call is under way
                task = asyncio.create_task(Runner.run(agent, "Act."))
                turn = server._here().turn
                async with asyncio.timeout(60):
                    while not turn._waiters:  # noqa: ASYNC110
                        await asyncio.sleep(0)
                file.with_suffix(".changed").touch()
            result = await task
            assert "has changed its tool 'act'" in result.interruptions[0].reason
            assert lines(file) == []

    run(main())
