"""The gateway between its clients and the server: transports, tokens, what passes through, and limits."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client

from assentry.errors import UsageError
from assentry.inbox import app
from assentry.inbox.accounts import accounts_of
from assentry.outside.gateway import call_gate
from assentry.outside.gateway.gateway import GatewaySettings
from assentry.outside.gateway.serving import GatewayTokens
from assentry.store import MemoryStore
from assentry.store.calls import look_at_call
from tests.inbox.support import served as inbox_served
from tests.mcp.support import free_port, served
from tests.outside.gateway.support import BENCH, SHORT, TOOLS, Desk, raw, state, text, until, written

ALLOW = '[[rule]]\nname = "all"\nverdict = "allow"\n'
TOKEN = "a-token-of-many-characters"
ERAS = ("legacy", "auto")


@asynccontextmanager
async def listening(desk: Desk, *options: str, server: Sequence[str] = TOOLS, **env: str) -> AsyncIterator[str]:
    """A gateway that listens for clients; gives its address."""
    command = desk.command(server, "--listen", "127.0.0.1:0", *options)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "ASSENTRY_GATEWAY_TOKEN": TOKEN, **env},
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        found = re.search(r"http://\S+/mcp", line)
        assert found is not None, line + (await process.stderr.read()).decode()
        yield found[0]
    finally:
        process.terminate()
        _, rest = await process.communicate()
        assert b"Traceback" not in rest, rest.decode()
        assert process.returncode == 0


@asynccontextmanager
async def over_http(address: str, mode: str = "auto", token: str = TOKEN) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        yield client


async def test_clients_are_served_over_streamable_http(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ALLOW)
    async with listening(desk) as address:
        for mode in ERAS:
            async with over_http(address, mode) as client:
                assert (await client.call_tool("add", {"a": 1})).structured_content == {"total": 3}
        desk.rules.write_text("")  # rules are read once, at the start
        async with over_http(address) as client:
            assert (await client.call_tool("add", {"a": 2})).structured_content == {"total": 4}
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with httpx2.AsyncClient() as http:
            good = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
            for headers in ({}, {"Authorization": "Bearer another-token-of-many-letters"}, {"Authorization": TOKEN}):
                assert (await http.post(address, json=body, headers=headers)).status_code == 401
            for headers in ({"Origin": "https://evil.example.com"}, {"Host": "evil.example.com"}):
                assert (await http.post(address, json=body, headers=good | headers)).status_code in (403, 421)


async def test_a_client_over_http_that_asks_again_gets_the_result(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    args = {"path": str(seen), "line": "x"}
    async with listening(desk, "--wait", SHORT) as address:
        async with over_http(address) as client:
            assert state(await client.call_tool("note", args)) == "waiting"
        await desk.decide()
        async with over_http(address, "legacy") as client:
            assert text(await client.call_tool("note", args)) == "noted x"
    assert written(seen) == ["x"]


async def test_clients_with_tokens_of_their_own_have_asks_of_their_own(tmp_path: Path) -> None:
    rules = '[[rule]]\nname = "cursor adds"\nverdict = "allow"\ntool = "add"\nsource = "cursor"\n'
    desk, seen = Desk(tmp_path, rules), tmp_path / "seen"
    args, options = {"path": str(seen), "line": "x"}, ("--client", "claude=CLAUDE", "--client", "cursor=CURSOR")
    claude, cursor = "the-token-of-claude", "the-token-of-cursor"
    async with listening(desk, "--wait", SHORT, *options, CLAUDE=claude, CURSOR=cursor) as address:
        for mode in ERAS:
            async with over_http(address, mode, claude) as one, over_http(address, mode, cursor) as other:
                assert state(await one.call_tool("note", args)) == "waiting"
                asked = await desk.decide()
                assert (await desk.store.record(asked.run)).agent == "claude"
                assert state(await other.call_tool("note", args)) == "waiting"  # approved for the first alone
                assert text(await one.call_tool("note", args)) == "noted x"
                await desk.decide()
                assert text(await other.call_tool("note", args)) == "noted x"
                assert state(await one.call_tool("add", {"a": 1})) == "waiting"
                assert (await other.call_tool("add", {"a": 1})).structured_content == {"total": 3}
                await desk.decide()
                assert (await one.call_tool("add", {"a": 1})).structured_content == {"total": 3}
        async with httpx2.AsyncClient(headers={"Accept": "application/json, text/event-stream"}) as http:
            assert (await greet(http, address, TOKEN)).status_code == 401
            session = (await greet(http, address, claude)).headers["Mcp-Session-Id"]
            for token, status in ((cursor, 404), (claude, 202)):
                headers = {"Authorization": f"Bearer {token}", "Mcp-Session-Id": session}
                message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                assert (await http.post(address, json=message, headers=headers)).status_code == status
    assert written(seen) == ["x"] * 4


async def greet(http: httpx2.AsyncClient, address: str, token: str) -> httpx2.Response:
    """Begin a session as a client of an older protocol does."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    return await http.post(address, json=hello, headers={"Authorization": f"Bearer {token}"})


async def test_the_result_of_a_client_over_http_that_went_without_a_word_is_kept(tmp_path: Path) -> None:
    desk, file = Desk(tmp_path, ALLOW), tmp_path / "work"
    args = {"path": str(file)}
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    async with listening(desk, server=BENCH) as address:
        async with httpx2.AsyncClient(headers=headers) as http:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
            http.headers["Mcp-Session-Id"] = (await http.post(address, json=hello)).headers["Mcp-Session-Id"]
            http.headers["Mcp-Protocol-Version"] = "2025-11-25"
            await http.post(address, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work", "arguments": args}}
            async with http.stream("POST", address, json=call):
                await until(file, "begun")
        file.with_suffix(".go").touch()
        [run] = await desk.runs()
        async with asyncio.timeout(60):
            while (await look_at_call(desk.store, run.id, by=None)).state == "running":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with over_http(address, "legacy") as client:
            assert text(await client.call_tool("work", args)) == "worked"
    assert written(file) == ["begun", "ended"]
    assert len(await desk.runs()) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_server_behind_http_is_reached_with_credentials_that_no_client_has(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, ALLOW)
    async with served("streamable-http") as (port, _):
        url = f"http://127.0.0.1:{port}/mcp"
        async with desk.client((), url=url, headers={"Authorization": "Bearer of the gateway"}, mode=mode) as client:
            assert (await client.call_tool("add", {"a": 1})).structured_content == {"total": 3}
    seen = str([await desk.store.lines(run.id) for run in await desk.runs()])
    assert "of the gateway" not in seen


async def test_the_commands_headers_come_from_the_environment(tmp_path: Path) -> None:
    headers: list[Any] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    port = free_port()
    async with await asyncio.start_server(upstream, "127.0.0.1", port):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "assentry.cli", "gateway", "--store", str(tmp_path / "runs.db")),
            *("--http", f"http://127.0.0.1:{port}/mcp", "--bearer", "SHOP_TOKEN", "--header", "X-Team=TEAM"),
            env={**os.environ, "SHOP_TOKEN": "s3cret-of-the-shop", "TEAM": "blue"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, problem = await process.communicate()
    assert process.returncode == 1 and out == b""
    assert b"could not be connected" in problem and b"s3cret" not in problem
    sent = headers[0].lower()
    assert b"authorization: bearer s3cret-of-the-shop" in sent and b"x-team: blue" in sent


def test_an_empty_credential_is_no_secret() -> None:
    settings = GatewaySettings(
        place="", source="mcp", url="http://127.0.0.1/mcp", headers={"Authorization": "Bearer ", "X-Key": "key-1"}
    )
    assert settings.secrets == {"Bearer ", "key-1"}


async def test_a_program_gets_only_the_variables_that_were_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SHOP_KEY", "1")
    monkeypatch.setenv("OTHER_KEY", "2")
    async with Desk(tmp_path, ALLOW).process(BENCH, "--env", "SHOP_KEY") as client:
        names = (await client.call_tool("variables", {})).structured_content["result"]
    assert "SHOP_KEY" in names and "OTHER_KEY" not in names and "PATH" in names


async def test_what_a_program_writes_on_its_standard_error_tells_clients_no_credential(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ALLOW)
    command, key = raw("cannot list", tmp_path / "seen"), "sk-of-the-gateway"
    async with desk.client(command, env={"SHOP_KEY": key}, mode="legacy") as client:
        result = await client.call_tool("act", {"what": "it"})
        assert result.is_error and "rejected key [masked]" in text(result) and key not in text(result)
    assert key not in str([await desk.store.lines(run.id) for run in await desk.runs()])


@pytest.mark.parametrize("key", ["sk-of-the-gateway", "sk-für-das-gateway"])
@pytest.mark.parametrize("mode", ERAS)
async def test_an_error_of_a_call_tells_clients_no_credential(tmp_path: Path, mode: str, key: str) -> None:
    desk = Desk(tmp_path, ALLOW)
    async with desk.client(raw("quotes its key", tmp_path / "seen"), env={"SHOP_KEY": key}, mode=mode) as client:
        result = await client.call_tool("act", {"what": "result"})
        assert result.is_error and text(result) == "rejected key [masked]" and result.structured_content is None
        with pytest.raises(MCPError, match=r"rejected key \[masked\]") as caught:
            await client.call_tool("act", {"what": "error"})
    assert key not in str(caught.value.error)
    assert key not in str([await desk.store.lines(run.id) for run in await desk.runs()])


async def test_a_server_cannot_make_the_gateways_own_marks(tmp_path: Path) -> None:
    async with Desk(tmp_path, ALLOW).client(raw("marks", tmp_path / "seen"), mode="legacy") as client:
        result = await client.call_tool("act", {"what": "it"})
    assert text(result) == "did it" and result.meta == {"other": 1}


async def test_an_inbox_judges_by_its_own_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, desk = MemoryStore(), Desk(tmp_path)
    token = await accounts_of(store).add_token("claude", "agent")
    rules = tmp_path / "inbox.toml"
    rules.write_text('[[rule]]\nname = "adds"\nverdict = "allow"\ntool = "add"\n')
    async with inbox_served(app(store, base_url="http://127.0.0.1", rules=str(rules))) as address:
        more = {"place": address, "token": token, "rules": None, "inbox": address}
        async with desk.client(wait=0, **more) as client:
            assert (await client.call_tool("add", {"a": 1})).structured_content == {"total": 3}
            args = {"path": str(tmp_path / "seen"), "line": "x"}
            waiting = await client.call_tool("note", args)
            [asked] = (await store.questions()).items
            assert f"({address}/questions/{asked.id})" in text(waiting)
            await store.decide(asked.id, {"type": "approve"}, by="ann", digest=asked.digest)
            assert text(await client.call_tool("note", args)) == "noted x"
            assert state(await client.call_tool("note", args)) == "waiting"
    assert {run.agent for run in (await store.runs()).items} == {"claude:mcp"}


async def test_an_inbox_that_cannot_be_reached_lets_nothing_run(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("assentry.outside.place.PAUSE", 0.0)
    more = {"place": f"http://127.0.0.1:{free_port()}", "token": "t", "rules": None}
    async with Desk(tmp_path).client(raw("plain", tmp_path / "seen"), **more) as client:
        result = await client.call_tool("act", {"what": "it"})
    assert result.is_error and "cannot be reached" in text(result)
    assert written(tmp_path / "seen") == []


# -- what passes through -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_prompts_and_resources_pass_through(tmp_path: Path, mode: str) -> None:
    async with Desk(tmp_path).client(mode=mode) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
        greeting = await client.get_prompt("greet", {"name": "ann"})
        assert greeting.messages[0].content.text == "Greet ann."
        assert [str(each.uri) for each in (await client.list_resources()).resources] == ["note://all"]
        assert (await client.read_resource("note://all")).contents[0].text == "no notes"
        assert (await client.list_resource_templates()).resource_templates == []
        with pytest.raises(MCPError):
            await client.get_prompt("nothing")


async def test_what_a_server_does_not_have_the_gateway_does_not_offer(tmp_path: Path) -> None:
    async with Desk(tmp_path).client(raw("plain", tmp_path / "seen"), mode="legacy") as client:
        able = client.server_capabilities
        assert able.tools is not None and able.prompts is None and able.resources is None and able.logging is None


async def test_a_changed_list_of_tools_is_told_to_older_clients(tmp_path: Path) -> None:
    told = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    async with Desk(tmp_path, ALLOW).process(mode="legacy", message_handler=hear) as client:
        await client.call_tool("grow", {})
        async with asyncio.timeout(60):
            await told.wait()
        assert "grown" in [tool.name for tool in (await client.list_tools()).tools]
        assert text(await client.call_tool("grown", {})) == "new"


async def test_a_changed_list_of_tools_is_told_to_newer_clients(tmp_path: Path) -> None:
    async with Desk(tmp_path, ALLOW).process() as client, client.listen(tools_list_changed=True) as events:
        await client.call_tool("grow", {})
        async with asyncio.timeout(60):
            await anext(aiter(events))


async def test_progress_of_the_server_reaches_the_client(tmp_path: Path) -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()

    async def note(done: float, total: float | None, message: str | None) -> None:
        told.put_nowait((done, total, message))

    async with Desk(tmp_path, ALLOW).process() as client:
        call = client.call_tool("slow", {"path": str(tmp_path / "seen")}, progress_callback=note)
        calling = asyncio.create_task(call)
        assert await told.get() == (1, 3, "begun")
        calling.cancel()
        await asyncio.wait({calling})


async def test_a_question_of_the_server_reaches_a_client_that_can_ask(tmp_path: Path) -> None:
    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"day": "Monday"})

    async with Desk(tmp_path, ALLOW).process(
        raw("asks", tmp_path / "seen"), mode="legacy", elicitation_callback=answer
    ) as client:
        assert text(await client.call_tool("act", {"what": "it"})) == "did it on {'day': 'Monday'}"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_question_that_no_client_can_be_asked_is_refused(tmp_path: Path, mode: str) -> None:
    async with Desk(tmp_path, ALLOW).client(raw("asks", tmp_path / "seen"), mode=mode) as client:
        assert "Refused" in text(await client.call_tool("act", {"what": "it"}))


async def test_a_question_of_the_server_ends_when_its_client_waits_no_more(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path, ALLOW), tmp_path / "seen"
    asked = asyncio.Event()

    async def never(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with desk.process(raw("asks", seen), mode="legacy", elicitation_callback=never) as client:
        calling = asyncio.create_task(client.call_tool("act", {"what": "it"}))
        await asked.wait()
        calling.cancel()
        await asyncio.wait({calling})
        await until(seen, 'answered {"action": "cancel"}')
        assert text(await client.call_tool("act", {"what": "it"})) == "did it on {'action': 'cancel'}"
    assert written(seen).count("called it") == 1


async def test_a_server_that_samples_is_refused(tmp_path: Path) -> None:
    async with Desk(tmp_path, ALLOW).client(raw("samples", tmp_path / "seen"), mode="legacy") as client:
        await client.call_tool("act", {"what": "it"})
    assert "Sampling not supported" in written(tmp_path / "seen")[-1]


# -- limits ------------------------------------------------------------------------------------------


async def test_calls_beyond_the_limit_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_gate, "MOST_CALLS", 2)
    desk = Desk(tmp_path)
    async with desk.client() as client:
        calling = [asyncio.create_task(client.call_tool("add", {"a": number})) for number in range(2)]
        await desk.question(2)
        refused = await client.call_tool("add", {"a": 3})
        assert refused.is_error and "2 open calls" in text(refused)
        for _ in calling:
            await desk.decide()
        assert {result.structured_content["total"] for result in await asyncio.gather(*calling)} == {2, 3}
    assert len(await desk.runs()) == 2


async def test_too_many_open_questions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.store.calls.MOST_OPEN", 1)
    async with Desk(tmp_path).client(wait=0) as client:
        await client.call_tool("add", {"a": 1})
        refused = await client.call_tool("add", {"a": 2})
        assert refused.is_error and "open questions" in text(refused)


async def test_a_result_too_large_to_keep_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_gate, "LARGEST_KEPT", 100)
    desk = Desk(tmp_path, ALLOW)
    async with desk.client() as client:
        assert text(await client.call_tool("large", {"size": 5000})) == "x" * 5000
    [run] = await desk.runs()
    assert "too large to be kept" in str(await desk.store.lines(run.id))


# -- the command -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--store", "runs.db"], "one server behind it"),
        (["--store", "runs.db", "--http", "https://x.example.com", "--", "npx"], "one server behind it"),
        (["--", "npx"], "give the store's URL"),
        (["--store", "runs.db", "--server", "https://x.example.com", "--", "npx"], "not both"),
        (["--server", "https://x.example.com", "--", "npx"], "a server needs a token: set ASSENTRY_TOKEN\n"),
        (["--store", "runs.db", "--rules", "nothing.toml", "--", "npx"], "nothing.toml"),
        (["--store", "runs.db", "--env", "NOT_SET", "--", "npx"], "NOT_SET"),
        (["--store", "runs.db", "--bearer", "NOT_SET", "--http", "https://x.example.com"], "NOT_SET"),
        (["--store", "runs.db", "--header", "X", "--http", "https://x.example.com"], "NAME=VARIABLE"),
        (["--store", "runs.db", "--listen", "9000", "--", "npx"], "HOST:PORT"),
        (["--store", "runs.db", "--listen", "127.0.0.1:9000", "--", "npx"], "ASSENTRY_GATEWAY_TOKEN"),
        (["--store", "runs.db", "--client", "claude=PATH", "--", "npx"], "--client is for --listen"),
        (["--store", "runs.db", "--listen", "127.0.0.1:0", "--client", "claude", "--", "npx"], "NAME=VARIABLE"),
        (["--store", "runs.db", "--listen", "127.0.0.1:0", "--client", "claude=NOT_SET", "--", "npx"], "NOT_SET"),
        (["--store", "runs.db", *["--listen", "127.0.0.1:0", *["--client", "a=PATH"] * 2], "--", "npx"], "given once"),
        (["--store", "runs.db", "--wait", "soon", "--", "npx"], "--wait"),
        (["--store", "runs.db", "--wait", "2d", "--", "npx"], "wait is a number of seconds"),
        (["--store", "runs.db", "--", "a-program-that-there-is-not"], "could not be connected"),
    ],
)
def test_bad_options_are_named(
    tmp_path: Path, options: list[str], words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from assentry.cli import main

    monkeypatch.chdir(tmp_path)
    for name in ("ASSENTRY_STORE", "ASSENTRY_SERVER", "ASSENTRY_TOKEN", "ASSENTRY_GATEWAY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    try:
        code = main(["gateway", *options])
    except SystemExit as left:
        code = left.code  # type: ignore[assignment]
    out, problem = capfd.readouterr()
    assert code in (1, 2) and out == "" and words in problem and "Traceback" not in problem


@pytest.mark.parametrize(("host", "token", "words"), [("0.0.0.0", TOKEN, "--allow-host"), ("::1", "short", "16")])
def test_a_gateway_for_others_needs_names_and_a_token(tmp_path: Path, host: str, token: str, words: str) -> None:
    command = Desk(tmp_path).command(raw("plain", tmp_path / "seen"), "--listen", f"{host}:0")
    env = {**os.environ, "ASSENTRY_GATEWAY_TOKEN": token}
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and words in done.stderr


def test_no_two_clients_have_one_token() -> None:
    with pytest.raises(UsageError, match="token of its own"):
        GatewayTokens({"claude": TOKEN, "cursor": TOKEN})


def test_standard_output_has_the_protocol_and_nothing_else(tmp_path: Path) -> None:
    command = Desk(tmp_path).command(raw("chats", tmp_path / "seen"), "--verbose")
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        '"clientInfo":{"name":"c","version":"1"}}}\n'
    )
    done = subprocess.run(
        [sys.executable, *command], input=hello, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert [line[:16] for line in done.stdout.splitlines()] == ['{"jsonrpc":"2.0"']
