"""Servers that answer garbage, hang, die, list too much or send too much."""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path

import pytest

from assentry import Runner
from assentry.errors import MCPServerFailed
from assentry.mcp.stdio_transport import Stderr
from tests.mcp.support import Impatient, act, agent_of, lines, output, raw, run, until


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that do not end by themselves are ended at once."""
    monkeypatch.setattr("assentry.mcp.stdio_transport.GRACE", 0.2)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("exits", "cannot read /etc/secret.conf"),
        ("garbage", "<html>Not what you wanted</html>"),
        ("hangs", "it did not answer within 1 seconds"),
    ],
)
def test_a_server_that_cannot_be_connected_says_why(
    behaviour: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Stderr.add_garbage

    def time_is_over(self: Stderr, line: bytes) -> None:
        add(self, line)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + 1000)

    monkeypatch.setattr(Stderr, "add_garbage", time_is_over)

    async def main() -> None:
        server = raw(behaviour, client_session_timeout_seconds=1 if behaviour == "hangs" else 1000)
        with pytest.raises(MCPServerFailed) as caught:
            await server.connect()
        assert words in str(caught.value)
        assert "'raw'" in str(caught.value)

    run(main())


def test_a_command_that_is_not_there_is_named() -> None:
    async def main() -> None:
        from assentry.mcp import MCPServerStdio

        with pytest.raises(MCPServerFailed, match="no-such-command"):
            await MCPServerStdio({"command": "no-such-command"}).connect()

    run(main())


def test_lines_that_are_no_messages_are_passed_over() -> None:
    async def main() -> None:
        result = await Runner.run(agent_of(raw("chats"), act()), "Act.")
        assert output(result) == "did it"

    run(main())


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("twice", "lists two tools named 'act'"),
        ("circle", "repeats a page of its list of tools"),
        ("shapeless list", "gave no usable answer to tools/list"),
        ("hangs in list", "it did not answer within 1 seconds"),
        ("endless", "it did not answer within 1 seconds with all its tools"),
    ],
)
def test_a_list_that_cannot_be_used_is_an_error(behaviour: str, words: str) -> None:
    async def main() -> None:
        async with raw(behaviour) as server:
            server.call_timeout = 1 if words.endswith(("seconds", "all its tools")) else server.call_timeout
            with pytest.raises(MCPServerFailed, match=words):
                await server.refresh()
            assert server.tools == ()

    run(main())


def test_five_thousand_tools_are_listed_and_kept() -> None:
    async def main() -> None:
        async with raw("many") as server:
            await server.refresh()
            before = server.tools
            assert len(before) == 5000
            began = time.process_time()
            await server.refresh(fresh=True)
            assert time.process_time() - began < 5
            assert server.tools is before

    run(main())


def test_more_tools_than_the_limit_are_an_error() -> None:
    async def main() -> None:
        async with raw("many", max_tools=1200) as server:
            with pytest.raises(MCPServerFailed, match="more than 1,200 tools; raise max_tools"):
                await server.refresh()

    run(main())


def test_an_answer_over_the_limit_is_told_to_the_model_and_costs_no_memory() -> None:
    async def main() -> None:
        async with raw("large", max_result_bytes=1_000_000) as server:
            await server.refresh()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            result = await Runner.run(agent_of(server, act()), "Act.")
            told = output(result)
            assert "ran the call, but its answer cannot be used" in told
            assert "the limit is 1,000,000" in told
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000
            assert (await server.list_tools())[0].name == "act"

    run(main())


def test_a_result_of_another_shape_is_told_to_the_model() -> None:
    async def main() -> None:
        result = await Runner.run(agent_of(raw("shapeless"), act()), "Act.")
        assert "ran the call, and its result is not one that the protocol allows" in output(result)

    run(main())


def test_an_error_of_the_server_is_told_to_the_model() -> None:
    async def main() -> None:
        result = await Runner.run(agent_of(raw("no result"), act()), "Act.")
        assert output(result) == "The tool failed with MCPToolFailed: it broke"

    run(main())


def test_a_call_whose_server_dies_is_in_doubt_and_not_repeated(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("dies", tmp_path / "log", max_retry_attempts=2, retry_backoff_seconds_base=0.01)
        agent = agent_of(server, act())
        result = await Runner.run(agent, "Act.")
        [question] = result.interruptions
        assert question.kind == "doubt"
        assert "ended during the call" in question.reason and "out of luck" in question.reason
        assert lines(tmp_path / "log") == ["called it"]
        state = result.to_state()
        state.respond(question, "It was done by hand.")
        assert (await Runner.run(agent, state)).final_output == "Done."
        assert lines(tmp_path / "log") == ["called it"]

    run(main())


def test_a_call_in_doubt_runs_again_when_a_person_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("dies once", tmp_path / "log")
        async with server:
            agent = agent_of(server, act())
            state = (await Runner.run(agent, "Act.")).to_state()
            state.approve(state.get_interruptions()[0])
            assert output(await Runner.run(agent, state)) == "did it"
            assert lines(tmp_path / "log") == ["called it", "called it"]

    run(main())


def test_a_tool_that_the_user_calls_idempotent_is_called_again_at_a_new_process(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("dies once", tmp_path / "log", idempotent_tools=["act"])
        assert output(await Runner.run(agent_of(server, act()), "Act.")) == "did it"
        assert lines(tmp_path / "log") == ["called it", "called it"]

    run(main())


def test_a_call_that_takes_too_long_is_cancelled_at_the_server_and_in_doubt(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("hangs in call", tmp_path / "log") as server:
            result = await Runner.run(agent_of(server, act()), "Act.", hooks=Impatient(server))
            [question] = result.interruptions
            assert question.kind == "doubt"
            assert "did not answer within 1 seconds" in question.reason
            await until(tmp_path / "log", "cancelled")
            assert lines(tmp_path / "log").count("called it") == 1

    run(main())


@pytest.mark.parametrize("depth", [100, 300, 900, 1_100, 100_000])
def test_an_answer_that_is_nested_too_deeply_does_not_end_the_connection(depth: int) -> None:
    async def main() -> None:
        async with raw(f"deep {depth}") as server:
            for _ in range(2):
                result = await Runner.run(agent_of(server, act()), "Act.")
                assert result.final_output == "Done." and not result.interruptions

    run(main())


def test_a_request_for_sampling_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        result = await Runner.run(agent_of(raw("samples", tmp_path / "log"), act()), "Act.")
        assert "Sampling not supported" in output(result)

    run(main())


def test_a_server_that_changes_its_tool_after_the_approval_does_not_get_it_run(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("changes", tmp_path / "log", require_approval="always")
        async with server:
            agent = agent_of(server, act())
            state = (await Runner.run(agent, "Act.")).to_state()
            [question] = state.get_interruptions()
            state.approve(question)
            (tmp_path / "log.changed").touch()
            result = await Runner.run(agent, state)
            [again] = result.interruptions
            assert lines(tmp_path / "log") == []
            assert "has changed its tool 'act'" in again.reason
            assert "send a copy to the server's owner" in again.preview.blocks[0].text
            state = result.to_state()
            state.approve(again)
            assert output(await Runner.run(agent, state)) == "did it"
            assert lines(tmp_path / "log") == ["called it"]

    run(main())
