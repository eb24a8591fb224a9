"""A call through the gateway, from the gate to its result."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from assentry import Approve, Edit, Reject, Respond
from assentry.outside.gateway.upstream import UpstreamServer
from assentry.store import SQLiteStore
from assentry.store.calls import look_at_call
from tests.outside.gateway.support import (
    BENCH,
    SHORT,
    Desk,
    direct,
    raw,
    state,
    text,
    until,
    written,
)

ALLOW = '[[rule]]\nname = "all"\nverdict = "allow"\n'
ERAS = ("legacy", "auto")


@pytest.mark.parametrize("mode", ERAS)
async def test_tools_are_listed_as_the_server_lists_them(tmp_path: Path, mode: str) -> None:
    async with direct(mode=mode) as client:
        wanted, about = await client.list_tools(), client.server_info
    async with Desk(tmp_path).client(mode=mode) as client:
        assert (await client.list_tools()).tools == wanted.tools
        assert client.server_info == about


async def test_each_page_of_tools_is_passed_on(tmp_path: Path) -> None:
    async with Desk(tmp_path).client(raw("many", tmp_path / "x"), mode="legacy") as client:
        first = await client.list_tools()
        assert first.next_cursor == "500"
        second = await client.list_tools(cursor=first.next_cursor)
        assert [tool.name for tool in second.tools[:2]] == ["act_500", "act_501"]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("name", "args"), [("add", {"a": 1}), ("show", {}), ("fail", {"why": "it rains"})])
async def test_an_allowed_call_has_the_servers_own_result(
    tmp_path: Path, mode: str, name: str, args: dict[str, Any]
) -> None:
    async with direct(mode=mode) as client:
        wanted = await client.call_tool(name, args)
    desk = Desk(tmp_path, ALLOW)
    async with desk.client(mode=mode) as client:
        assert await client.call_tool(name, args) == wanted
    [run] = await desk.runs()
    assert run.agent == "mcp" and run.status == "done"


async def test_a_denied_call_does_not_reach_the_server(tmp_path: Path) -> None:
    desk = Desk(tmp_path, '[[rule]]\nname = "no"\nverdict = "deny"\ntool = "act"\nreason = "Not on Sundays."\n')
    async with desk.client(raw("plain", tmp_path / "seen")) as client:
        result = await client.call_tool("act", {"what": "it"})
    assert result.is_error and "Not on Sundays." in text(result)
    assert written(tmp_path / "seen") == []


async def test_a_rule_may_name_the_server(tmp_path: Path) -> None:
    desk = Desk(tmp_path, '[[rule]]\nname = "shop"\nverdict = "allow"\nserver = "shop"\nsource = "claude"\n')
    async with desk.client(name="shop", source="claude") as client:
        assert (await client.call_tool("add", {"a": 1})).structured_content == {"total": 3}
    async with desk.client(name="other", source="claude", wait=0) as client:
        assert state(await client.call_tool("add", {"a": 1})) == "waiting"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_waits_for_approval_and_runs(tmp_path: Path, mode: str) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    notes: list[str | None] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        notes.append(message)

    async with desk.client(inbox="https://inbox.example.com", mode=mode) as client:
        args = {"path": str(seen), "line": "hello"}
        calling = asyncio.create_task(client.call_tool("note", args, progress_callback=note))
        asked = await desk.question()
        assert asked.tool == "note" and not seen.exists()
        await desk.decide()
        assert text(await calling) == "noted hello"
    assert written(seen) == ["hello"]
    assert notes[0] == f"Waiting for approval (https://inbox.example.com/questions/{asked.id})"


async def test_a_client_that_gave_up_gets_the_result_from_a_new_gateway_and_only_once(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    args = {"path": str(seen), "line": "hello"}
    async with desk.process(wait=SHORT) as client:
        first = await client.call_tool("note", args)
        assert state(first) == "waiting" and first.is_error
        assert "Call note again with the same arguments" in text(first)
        assert state(await client.call_tool("note", args)) == "waiting"
    assert len(await desk.open()) == 1
    await desk.decide()
    async with desk.process(wait=SHORT) as client:
        assert text(await client.call_tool("note", args)) == "noted hello"
        third = await client.call_tool("note", args)
        assert state(third) == "waiting" and third.meta != first.meta
    assert written(seen) == ["hello"]
    assert len(await desk.open()) == 1


async def test_other_arguments_are_another_question(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.client(wait=0) as client:
        await client.call_tool("add", {"a": 1})
        await client.call_tool("add", {"a": 2})
    assert len(await desk.open()) == 2


async def test_what_runs_is_what_a_person_edited_and_the_model_is_told(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client() as client:
        calling = asyncio.create_task(client.call_tool("note", {"path": str(seen), "line": "rude"}))
        await desk.decide(Edit({"path": str(seen), "line": "kind"}))
        result = await calling
    assert written(seen) == ["kind"]
    assert text(result).splitlines()[-1] == "noted kind"
    assert text(result).startswith("ann changed the arguments of this call before it ran. It ran with: {")


async def test_a_rejected_call_does_not_run_and_the_model_gets_the_persons_words(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client() as client:
        calling = asyncio.create_task(client.call_tool("note", {"path": str(seen), "line": "x"}))
        await desk.decide(Reject("Write to the other file."))
        result = await calling
        assert result.is_error and state(result) == "rejected" and "Write to the other file." in text(result)
    assert not seen.exists()


async def test_a_rejection_is_told_once_and_then_the_call_is_asked_about_anew(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.client(wait=0) as client:
        await client.call_tool("add", {"a": 1})
        await desk.decide(Reject("no"))
        assert state(await client.call_tool("add", {"a": 1})) == "rejected"
        assert state(await client.call_tool("add", {"a": 1})) == "waiting"


@pytest.mark.parametrize(
    ("name", "args", "answer", "structured"),
    [
        ("large", {"size": 3}, "none of it", {"result": "none of it"}),
        ("add", {"a": 1}, {"total": 7}, {"total": 7}),
        ("add", {"a": 1}, "seven", None),
    ],
)
async def test_a_persons_answer_is_the_result(
    tmp_path: Path, name: str, args: dict[str, Any], answer: Any, structured: Any
) -> None:
    desk = Desk(tmp_path)
    async with desk.client() as client:
        calling = asyncio.create_task(client.call_tool(name, args))
        await desk.decide(Respond(answer))
        result = await calling
    assert result.structured_content == structured and result.is_error == (structured is None)
    assert str(answer if type(answer) is str else 7) in text(result)


async def test_arguments_that_do_not_fit_the_schema_do_not_run(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ALLOW)
    async with desk.client(raw("plain", tmp_path / "seen")) as client:
        result = await client.call_tool("act", {"what": 5})
    assert result.is_error and "what" in text(result)
    assert written(tmp_path / "seen") == []


async def test_a_tool_that_there_is_not_cannot_be_called(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ALLOW)
    async with desk.client() as client:
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})
    assert await desk.runs() == []


# -- a tool that changes -----------------------------------------------------------------------------


async def test_a_tool_that_changed_after_approval_waits_for_another(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client(raw("changes", seen), mode="legacy") as client:
        calling = asyncio.create_task(client.call_tool("act", {"what": "it"}))
        first = await desk.question()
        seen.with_suffix(".changed").touch()  # the server says that it tells of changes, and does not
        await desk.decide()
        second = await desk.question()
        assert second.id != first.id and second.definition != first.definition
        assert written(seen) == []
        await desk.decide()
        assert text(await calling) == "did it"
    assert written(seen) == ["called it"]


async def test_a_tool_that_changed_while_the_client_was_away_waits_for_another_approval(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client(raw("changes", seen), wait=0) as client:
        await client.call_tool("act", {"what": "it"})
        await desk.decide()
        seen.with_suffix(".changed").touch()
        assert state(await client.call_tool("act", {"what": "it"})) == "waiting"
    assert written(seen) == []


@pytest.mark.parametrize("listed", [False, True])
async def test_a_tool_that_changed_with_a_new_connection_right_before_the_call_waits(
    listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    call = UpstreamServer.call

    async def reconnected(self: UpstreamServer, *given: Any, **options: Any) -> Any:
        seen.with_suffix(".changed").touch()
        await self._server.drop(await self.link())  # the call starts the program anew
        if listed:  # by another client's call
            await self._server.refresh(fresh=True)
        return await call(self, *given, **options)

    monkeypatch.setattr(UpstreamServer, "call", reconnected)
    async with desk.client(raw("changes", seen), wait=0) as client:
        await client.call_tool("act", {"what": "it"})
        first = await desk.decide()
        refused = await client.call_tool("act", {"what": "it"})
        assert refused.is_error and "nothing ran" in text(refused)
        assert written(seen) == []
        assert state(await client.call_tool("act", {"what": "it"})) == "waiting"
        second = await desk.decide()
        assert second.definition != first.definition
        assert text(await client.call_tool("act", {"what": "it"})) == "did it"
    assert written(seen) == ["called it"]


async def test_a_server_that_says_with_each_list_that_it_has_changed_can_be_called(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client(raw("always tells", seen), wait=0) as client:
        await client.call_tool("act", {"what": "it"})
        await desk.decide()
        assert text(await client.call_tool("act", {"what": "it"})) == "did it"
    assert written(seen) == ["called it"]


async def test_a_grant_does_not_let_a_changed_tool_pass(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client(raw("changes", seen), wait=0) as client:
        await client.call_tool("act", {"what": "it"})
        asked = await desk.decide()
        await desk.store.give_standing_grant(asked.id, by="ann")
        assert text(await client.call_tool("act", {"what": "it"})) == "did it"
        assert text(await client.call_tool("act", {"what": "more"})) == "did more"
        seen.with_suffix(".changed").touch()  # the server says that it tells of changes, and does not
        assert state(await client.call_tool("act", {"what": "more"})) == "waiting"
    assert written(seen) == ["called it", "called more"]


async def test_a_rule_that_names_definitions_does_not_let_a_changed_tool_pass(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    server = raw("changes", seen)
    known = subprocess.run(  # noqa: ASYNC221 - nothing else is under way
        [sys.executable, "-m", "assentry.cli", "gateway", "--definitions", "--name", "shop", "--", *server],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert re.fullmatch(r'definitions = \[\n    "[0-9a-f]{64}",  # act\n\]\n', known)
    desk = Desk(tmp_path, f'[[rule]]\nname = "as it is"\nverdict = "allow"\n{known}')
    async with desk.client(server, name="shop") as client:
        assert text(await client.call_tool("act", {"what": "it"})) == "did it"
    async with desk.client(server, name="another", wait=0) as client:
        assert state(await client.call_tool("act", {"what": "it"})) == "waiting"
    seen.with_suffix(".changed").touch()
    async with desk.client(server, name="shop", wait=0) as client:
        assert state(await client.call_tool("act", {"what": "it"})) == "waiting"
    assert written(seen) == ["called it"]


async def test_a_tool_that_is_gone_after_approval_does_not_run(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client(raw("renames", seen)) as client:
        calling = asyncio.create_task(client.call_tool("act", {"what": "it"}))
        await desk.question()
        seen.with_suffix(".changed").touch()
        await desk.decide()
        with pytest.raises(MCPError, match="Unknown tool"):
            await calling
    assert written(seen) == []


# -- several clients, and those that go away ---------------------------------------------------------


async def test_two_gateways_with_one_call_ask_once_and_run_once(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    args = {"path": str(seen), "line": "once"}
    waiting = asyncio.Semaphore(0)

    async def note(done: float, total: float | None, message: str | None) -> None:
        if done < 2e-6:
            waiting.release()

    async with desk.process() as one, desk.process() as other:
        calling = [
            asyncio.create_task(client.call_tool("note", args, progress_callback=note)) for client in (one, other, one)
        ]
        for _ in calling:
            await waiting.acquire()
        await desk.decide()
        assert [text(result) for result in await asyncio.gather(*calling)] == ["noted once"] * 3
    assert written(seen) == ["once"]
    assert len(await desk.runs()) == 1


async def test_an_approval_is_for_one_server_though_another_has_the_same_tool(tmp_path: Path) -> None:
    desk, test, real = Desk(tmp_path), tmp_path / "test", tmp_path / "real"
    async with desk.client(raw("plain", test), wait=0) as client:
        assert state(await client.call_tool("act", {"what": "it"})) == "waiting"
        await desk.decide()
    async with desk.client(raw("plain", real), wait=0) as client:
        assert state(await client.call_tool("act", {"what": "it"})) == "waiting"
    assert written(real) == []
    async with desk.client(raw("plain", test), wait=0) as client:
        assert text(await client.call_tool("act", {"what": "it"})) == "did it"


async def test_servers_of_one_given_name_are_one_server(tmp_path: Path) -> None:
    desk, before, after = Desk(tmp_path), tmp_path / "before", tmp_path / "after"
    async with desk.client(raw("plain", before), wait=0, name="shop") as client:
        assert state(await client.call_tool("act", {"what": "it"})) == "waiting"
        await desk.decide()
    async with desk.client(raw("plain", after), wait=0, name="shop") as client:
        assert text(await client.call_tool("act", {"what": "it"})) == "did it"
    assert written(before) == []


async def test_a_client_that_leaves_while_it_waits_leaves_its_question_open(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    args = {"path": str(seen), "line": "x"}
    async with desk.process() as client:
        calling = asyncio.create_task(client.call_tool("note", args))
        asked = await desk.question()
        calling.cancel()
        await asyncio.wait({calling})
        assert [each.id for each in await desk.open()] == [asked.id]
        await desk.decide()
        assert not seen.exists()
        assert text(await client.call_tool("note", args)) == "noted x"


async def test_the_result_of_a_call_whose_client_left_is_kept_for_the_next_equal_call(tmp_path: Path) -> None:
    desk, file = Desk(tmp_path, ALLOW), tmp_path / "work"
    args = {"path": str(file)}
    async with desk.process(BENCH) as client:
        calling = asyncio.create_task(client.call_tool("work", args))
        await until(file, "begun")
        calling.cancel()
        await asyncio.wait({calling})
        await client.list_tools()  # the server reads messages in order: it knows of the cancellation
        file.with_suffix(".go").touch()
        assert text(await client.call_tool("work", args)) == "worked"
        assert written(file) == ["begun", "ended"]
        assert text(await client.call_tool("work", args)) == "worked"
    assert written(file) == ["begun", "ended"] * 2
    assert len(await desk.runs()) == 2


async def test_a_call_that_runs_longer_than_the_next_clients_patience_is_not_run_again(tmp_path: Path) -> None:
    desk, file = Desk(tmp_path, ALLOW), tmp_path / "work"
    args = {"path": str(file)}
    async with desk.process(BENCH, wait=SHORT) as one, desk.process(BENCH, wait=SHORT) as other:
        calling = asyncio.create_task(one.call_tool("work", args))
        await until(file, "begun")
        for client in (one, other):
            assert state(await client.call_tool("work", args)) == "running"
        file.with_suffix(".go").touch()
        assert text(await calling) == "worked"
    assert written(file) == ["begun", "ended"]


async def test_a_killed_gateways_call_is_in_doubt_and_a_person_settles_it(tmp_path: Path) -> None:
    desk, file = Desk(tmp_path, ALLOW), tmp_path / "work"
    args = {"path": str(file)}
    command = desk.command(BENCH)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    for message in (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        '"clientInfo":{"name":"c","version":"1"}}}',
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work","arguments":{"path":"PATH"}}}',
    ):
        process.stdin.write(message.replace("PATH", str(file)).encode() + b"\n")
    await until(file, "begun")
    process.kill()
    await process.wait()
    async with desk.process(BENCH, wait=SHORT) as client:
        assert state(await client.call_tool("work", args)) == "running"  # nobody can know yet
        await lapse(desk)
        told = await client.call_tool("work", args)
        assert state(told) == "doubt" and "nobody knows how it ended" in text(told)
        await desk.decide(Respond("it had worked"))
        assert text(await client.call_tool("work", args)) == "it had worked"
    assert written(file) == ["begun"]


async def lapse(desk: Desk) -> None:
    """Let the hold of a program that was killed run out: the store looks after the call an hour later."""
    [run] = await desk.runs()
    async with SQLiteStore(desk.folder / "runs.db", clock=lambda: time.time() + 3600) as later:
        await look_at_call(later, run.id, by=None)


async def test_a_server_that_dies_in_a_call_leaves_it_in_doubt(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path, ALLOW), tmp_path / "seen"
    async with desk.client(raw("dies once", seen), wait=0) as client:
        result = await client.call_tool("act", {"what": "it"})
        assert result.is_error and "A person is asked" in text(result) and state(result) == "doubt"
        assert state(await client.call_tool("act", {"what": "it"})) == "doubt"
        await desk.decide(Approve())  # it did not happen: run it again
        assert text(await client.call_tool("act", {"what": "it"})) == "did it"
    assert written(seen) == ["called it", "called it"]


async def test_a_gateway_that_is_told_to_end_gives_a_call_up_as_in_doubt(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path, ALLOW), tmp_path / "seen"
    async with desk.process(raw("hangs in call", seen), mode="legacy") as client:
        calling = asyncio.create_task(client.call_tool("act", {"what": "it"}))
        await until(seen, "called it")
        calling.cancel()
        await asyncio.wait({calling})
    assert (await desk.question()).kind == "doubt"


async def test_a_server_that_takes_too_long_leaves_the_call_in_doubt(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path, ALLOW), tmp_path / "seen"
    async with desk.process(raw("hangs in call", seen), "--timeout", "0.2s", mode="legacy") as client:
        result = await client.call_tool("act", {"what": "it"})
    assert result.is_error and "did not answer within 0.2 seconds" in text(result)
    assert (await desk.question()).kind == "doubt"


async def test_a_cancelled_ask_does_not_run(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client() as client:
        calling = asyncio.create_task(client.call_tool("note", {"path": str(seen), "line": "x"}))
        asked = await desk.question()
        await desk.store.cancel(asked.run, by="ann")
        result = await calling
    assert state(result) == "cancelled" and not seen.exists()
