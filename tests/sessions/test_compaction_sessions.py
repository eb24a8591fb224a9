"""Sessions whose history OpenAI makes shorter: against a local server, by OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from assentry import (
    Agent,
    EncryptedSession,
    ModelSettings,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    RunConfig,
    Runner,
    SQLiteSession,
)
from assentry.errors import SessionFailed, UsageError
from assentry.testing import ScriptedModel, check_session
from tests.runtime.support import heard, scripted, sending
from tests.sessions.test_session_runs import Plain, sends, words

SHORT = {"type": "compaction", "id": "cmp_1", "encrypted_content": "short"}
KEY = "IvsQIDgL3pEOjdp3AMX3v0XQsYH9nC4ySlNaWEdOlYc="


class CompactServer:
    """What was asked of `responses.compact`, and what it gives."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.output: list[Any] = [SHORT]
        self.failing: int | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        """Called while a request is under way."""
        self.url = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompactServer]:
    found = CompactServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/responses/compact"
            found.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            found.meanwhile()
            reply = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": found.output}
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            self.send_response(found.failing or 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({**reply, "usage": usage} if not found.failing else {}).encode())

        def log_message(self, format: str, *args: Any) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", found.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    yield found
    http.shutdown()
    thread.join()
    http.server_close()


def compacting(inside: Any, least: int = 2, **options: Any) -> OpenAIResponsesCompactionSession:
    """A session that compacts from this many candidates on."""
    options = {"compaction_mode": "input", **options}
    return OpenAIResponsesCompactionSession(
        "talk",
        inside,
        should_trigger_compaction=lambda context: len(context["compaction_candidate_items"]) >= least,
        **options,
    )


@pytest.fixture(params=[Plain, SQLiteSession])
def inside(request: pytest.FixtureRequest) -> Any:
    return request.param("inside")


async def test_a_compacting_session_keeps_the_rules(tmp_path: Path) -> None:
    await check_session(lambda id: OpenAIResponsesCompactionSession(id, SQLiteSession(id, tmp_path / "s.db")))
    await check_session(lambda id: OpenAIResponsesCompactionSession(id, Plain(id)))


async def test_a_history_is_compacted_when_a_run_is_over(inside: Any, server: CompactServer) -> None:
    session = compacting(inside)
    agent = scripted("one", "two", "three")
    await Runner.run(agent, "a", session=session)
    assert server.requests == []
    await Runner.run(agent, "b", session=session)
    [request] = server.requests
    assert request["model"] == "gpt-4.1" and words(request["input"]) == ["a", "> one", "b", "> two"]
    assert await session.get_items() == [SHORT]
    await Runner.run(agent, "c", session=session)
    assert heard(agent) == [SHORT, {"role": "user", "content": "c"}]
    assert len(server.requests) == 1


async def test_turns_with_tools_are_compacted_once_and_not_between(inside: Any, server: CompactServer) -> None:
    send, _ = sending()
    agent = scripted(sends("ann"), sends("bob"), "done", tools=[send])
    await Runner.run(agent, "go", session=compacting(inside))
    [request] = server.requests
    assert words(request["input"]) == ["go", "call ann", "out ann", "call bob", "out bob", "> done"]


async def test_a_run_that_waits_is_not_compacted(inside: Any, server: CompactServer) -> None:
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "bob")
    agent = scripted(sends("ann"), sends("bob"), "done", tools=[send])
    session = compacting(inside)
    state = (await Runner.run(agent, "go", session=session)).to_state()
    assert server.requests == []
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session)
    assert len(server.requests) == 1
    assert await session.get_items() == [SHORT]


@pytest.mark.parametrize(
    ("mode", "store", "sent"),
    [
        ("auto", None, "previous_response_id"),
        ("auto", True, "previous_response_id"),
        ("auto", False, "input"),
        ("input", None, "input"),
        ("previous_response_id", False, "previous_response_id"),
    ],
)
async def test_the_mode_says_how_the_history_is_sent(
    mode: Any, store: bool | None, sent: str, server: CompactServer
) -> None:
    agent = Agent(
        name="A", model=ScriptedModel(["one"]), model_settings=ModelSettings(store=None if store is None else not store)
    )
    config = RunConfig(model_settings=ModelSettings(store=store))
    session = compacting(SQLiteSession("inside"), 1, compaction_mode=mode)
    await Runner.run(agent, "a", session=session, run_config=config)
    [request] = server.requests
    assert request.keys() == {"model", sent}
    if sent == "previous_response_id":
        assert request[sent] == "resp_1"
    assert await session.get_items() == [SHORT]


async def test_what_the_model_did_not_get_is_not_sent_and_stays(server: CompactServer) -> None:
    inside = SQLiteSession("inside")
    await Runner.run(scripted("one"), "a", session=inside)
    session = compacting(inside)
    await Runner.run(scripted("two"), "b", session=session, run_config=RunConfig(session_limit=1))
    assert server.requests == [], "what was heard begins with no message of the user's, and what is left is too short"
    await Runner.run(scripted("three"), "c", session=session, run_config=RunConfig(session_limit=2))
    [request] = server.requests
    assert words(request["input"]) == ["b", "> two", "c", "> three"]
    assert words(await session.get_items()) == ["a", "> one", "compaction"]


@pytest.mark.parametrize("mode", ["auto", "previous_response_id"])
async def test_a_history_that_was_changed_for_the_model_is_left_as_it_is(
    mode: Any, server: CompactServer, caplog: pytest.LogCaptureFixture
) -> None:
    def redact(history: list[Any], new: list[Any]) -> list[Any]:
        return [{"role": "user", "content": "[redacted]"}, *new]

    session = compacting(SQLiteSession("inside"), 1, compaction_mode=mode)
    await session.add_items([{"role": "user", "content": "secret"}, {"role": "assistant", "content": "noted"}])
    agent = Agent(name="A", model=ScriptedModel(["two"]))
    await Runner.run(agent, "b", session=session, run_config=RunConfig(session_input_callback=redact))
    assert "secret" not in json.dumps(server.requests)
    assert words(await session.get_items())[:2] == ["secret", "> noted"]
    if mode == "previous_response_id":
        assert server.requests == []
        assert "was not compacted" in caplog.text


async def test_others_who_write_meanwhile_lose_nothing(
    tmp_path: Path, server: CompactServer, caplog: pytest.LogCaptureFixture
) -> None:
    session = compacting(SQLiteSession("inside", tmp_path / "s.db"), 1)
    other = SQLiteSession("inside", tmp_path / "s.db")
    server.meanwhile = lambda: asyncio.run(other.add_items([{"role": "user", "content": "me too"}]))
    await Runner.run(scripted("one"), "a", session=session)
    assert words(await session.get_items()) == ["a", "> one", "me too"]
    assert "others wrote to it meanwhile" in caplog.text
    server.meanwhile = lambda: None
    agent = scripted("two")
    await Runner.run(agent, "b", session=session)
    assert words(heard(agent)) == ["a", "> one", "me too", "b"]
    assert await session.get_items() == [SHORT]


@pytest.mark.parametrize("failing", [500, None])
async def test_a_request_that_fails_costs_nothing(
    failing: int | None, inside: Any, server: CompactServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.failing, server.output = failing, []
    session = compacting(inside, 1)
    result = await Runner.run(scripted("one"), "a", session=session)
    assert result.final_output == "one"
    assert "could not be compacted" in caplog.text and "sk-planted" not in caplog.text
    assert words(await session.get_items()) == ["a", "> one"]
    with pytest.raises(SessionFailed, match="could not be compacted"):
        await session.run_compaction({"force": True})
    assert words(await session.get_items()) == ["a", "> one"]


class Full(Plain):
    """A session that refuses what was compacted."""

    async def add_items(self, items: list[Any]) -> None:
        if SHORT in items:
            raise OSError("no room")
        await super().add_items(items)


async def test_a_replacement_that_fails_is_undone(server: CompactServer) -> None:
    session = compacting(Full("inside"))
    await session.add_items([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    with pytest.raises(OSError, match="no room"):
        await session.run_compaction({"force": True})
    assert words(await session.get_items()) == ["a", "> b"]


async def test_a_program_compacts_by_itself(server: CompactServer) -> None:
    session = compacting(SQLiteSession("inside"), 99, compaction_mode="auto", max_rollback_items=2)
    await session.run_compaction({"force": True})
    await session.add_items([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    await session.run_compaction()
    assert server.requests == []
    await session.run_compaction({"force": True})
    assert words(server.requests[0]["input"]) == ["a", "> b"]
    with pytest.raises(UsageError, match="needs a response_id"):
        await session.run_compaction({"compaction_mode": "previous_response_id"})
    await session.run_compaction({"force": True, "response_id": "resp_1"})
    assert server.requests[1]["previous_response_id"] == "resp_1"
    await session.run_compaction({"force": True, "response_id": "resp_2", "store": False})
    assert server.requests[2]["input"] == [SHORT]
    await session.add_items([{"role": "user", "content": "c"}] * 2)
    with pytest.raises(SessionFailed, match="max_rollback_items=2"):
        await session.run_compaction({"force": True})
    assert len(server.requests) == 3


async def test_what_comes_back_can_be_sent_again(server: CompactServer) -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "file_id": None, "detail": "auto"}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}
    server.output = [{"type": "message", "role": "user", "status": "completed", "content": [image]}, said, SHORT]
    session = compacting(SQLiteSession("inside"))
    await session.add_items([{"role": "user", "content": "a"}])
    await session.run_compaction({"force": True})
    user, assistant, short = await session.get_items()
    assert user["content"] == [{name: value for name, value in image.items() if value is not None}]
    assert "id" not in assistant and short == SHORT


async def test_an_encrypted_history_is_compacted_and_stays_encrypted(inside: Any, server: CompactServer) -> None:
    session = compacting(EncryptedSession("inside", inside, KEY), 1)
    await Runner.run(scripted("one"), "a", session=session)
    assert words(server.requests[0]["input"]) == ["a", "> one"]
    assert await session.get_items() == [SHORT]
    assert [sorted(item) for item in await inside.get_items()] == [["__enc__", "kid", "payload", "v"]]


class Own(Plain):
    """A session of a user's that makes its history shorter in its own way."""

    def __init__(self) -> None:
        super().__init__("own")
        self.asked: list[Any] = []

    async def run_compaction(self, args: Any = None) -> None:
        self.asked.append(args)
        if len(self.asked) > 1:
            raise OSError("broken")


async def test_a_users_own_compaction_is_called_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    session = Own()
    agent = Agent(name="A", model=ScriptedModel(["one", "two"]), model_settings=ModelSettings(store=False))
    await Runner.run(agent, "a", session=session)
    assert session.asked == [{"response_id": "resp_1", "store": False}]
    with caplog.at_level(logging.WARNING):
        assert (await Runner.run(agent, "b", session=session)).final_output == "two"
    assert "Session 'own' was not compacted: broken" in caplog.text


def test_bad_options_are_refused() -> None:
    inside = SQLiteSession("inside")
    for options, words_of in (
        ({"model": "claude-9"}, "one of OpenAI's"),
        ({"compaction_mode": "always"}, "compaction_mode"),
        ({"max_rollback_items": 0}, "max_rollback_items"),
        ({"should_trigger_compaction": 3}, "should_trigger_compaction"),
        ({"client": object()}, "client"),
    ):
        with pytest.raises(Exception, match=words_of):
            OpenAIResponsesCompactionSession("s", inside, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="by itself"):
        OpenAIResponsesCompactionSession("s", OpenAIConversationsSession())
    with pytest.raises(UsageError, match="must be a session"):
        OpenAIResponsesCompactionSession("s", "talk.db")  # type: ignore[arg-type]
    assert OpenAIResponsesCompactionSession("s", inside, model="ft:gpt-4.1:me::1").model == "ft:gpt-4.1:me::1"
    assert "OpenAIResponsesCompactionSession('s', SQLiteSession(" in repr(OpenAIResponsesCompactionSession("s", inside))
