"""`ask_user` of the gateway, and the page that a client can open for its user."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from assentry import Reject, Respond
from assentry.errors import UsageError
from assentry.tools.user_question import SCHEMA
from tests.outside.gateway.support import SHORT, Desk, raw, state, text, written

ALLOW = '[[rule]]\nname = "all"\nverdict = "allow"\n'
ERAS = ("legacy", "auto")
ROOM = {
    "question": "Which room?",
    "context": "The yard is quiet.",
    "fields": [
        {"label": "View", "type": "one_of", "options": ["river", "yard"]},
        {"label": "Nights", "type": "number"},
    ],
}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_model_asks_a_person_and_no_rule_answers_for_them(tmp_path: Path, mode: str) -> None:
    desk = Desk(tmp_path, ALLOW)
    async with desk.process(raw("plain", tmp_path / "seen"), "--ask-user", mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["ask_user", "act"] and tools[0].input_schema == SCHEMA
        calling = asyncio.create_task(client.call_tool("ask_user", ROOM))
        asked = await desk.question()
        assert set(asked.allowed) == {"respond", "reject"} and asked.tool == "ask_user"
        await desk.decide(Respond({"View": "yard", "Nights": 2}))
        result = await calling
    assert text(result) == 'The person answers: {"View": "yard", "Nights": 2}' and not result.is_error
    assert written(tmp_path / "seen") == []


async def test_an_answer_is_fetched_by_asking_again_and_handed_on_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.process(raw("plain", tmp_path / "seen"), "--ask-user", wait=SHORT) as client:
        waiting = await client.call_tool("ask_user", {"question": "Which day?"})
        assert state(waiting) == "waiting" and waiting.is_error
        assert text(waiting).startswith("Waiting for an answer to ask_user (")
        await desk.decide(Respond("Monday"))
        assert text(await client.call_tool("ask_user", {"question": "Which day?"})) == "The person answers: Monday"
        assert state(await client.call_tool("ask_user", {"question": "Which day?"})) == "waiting"


async def test_a_question_that_nobody_answers_ends_in_words_for_the_model(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.client(raw("plain", tmp_path / "seen"), ask_user=True) as client:
        calling = asyncio.create_task(client.call_tool("ask_user", {"question": "Your password?"}))
        await desk.decide(Reject("Never."))
        result = await calling
    assert result.is_error and state(result) == "rejected" and "They say: Never." in text(result)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"question": " "},
        {"question": "a\u202eb"},
        {"question": "a", "schema": {}},
        {"question": "a", "options": ["x"]},
    ],
)
async def test_a_bad_question_asks_nobody(tmp_path: Path, wrong: dict[str, Any]) -> None:
    desk = Desk(tmp_path)
    async with desk.client(raw("plain", tmp_path / "seen"), ask_user=True) as client:
        assert (await client.call_tool("ask_user", wrong)).is_error
    assert await desk.runs() == []


async def test_a_rule_may_deny_questions(tmp_path: Path) -> None:
    desk = Desk(tmp_path, '[[rule]]\nname = "no"\nverdict = "deny"\ntool = "ask_user"\nreason = "Not at night."\n')
    async with desk.client(raw("plain", tmp_path / "seen"), ask_user=True) as client:
        result = await client.call_tool("ask_user", {"question": "Which day?"})
    assert result.is_error and "Not at night." in text(result)


async def test_a_server_with_a_tool_of_this_name_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with pytest.raises(UsageError, match="ask_user"):
        async with desk.client(raw("has ask_user", tmp_path / "seen"), ask_user=True) as client:
            raise AssertionError(client)


async def test_a_tool_of_this_name_that_the_server_adds_later_is_not_offered(tmp_path: Path) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    async with desk.client(raw("adds ask_user", seen), ask_user=True, wait=0) as client:
        seen.with_suffix(".changed").touch()
        assert [tool.input_schema for tool in (await client.list_tools()).tools] == [SCHEMA]
        assert state(await client.call_tool("ask_user", {"question": "Which day?"})) == "waiting"
    [asked] = await desk.open()
    assert set(asked.allowed) == {"respond", "reject"} and written(seen) == []


# -- the question's page -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_opens_pages_is_sent_the_questions_page_once_and_decides_nothing(
    tmp_path: Path, mode: str
) -> None:
    desk, seen = Desk(tmp_path), tmp_path / "seen"
    opened: asyncio.Queue[Any] = asyncio.Queue()

    async def accept(context: Any, params: Any) -> types.ElicitResult:
        opened.put_nowait(params)
        return types.ElicitResult(action="accept", content={"approved": True})

    options = {"mode": mode, "elicitation_callback": accept}
    command = raw("plain", seen), "--base-url", "https://inbox.example.com"
    async with desk.process(*command, **options) as client:
        calling = asyncio.create_task(client.call_tool("act", {"what": "it"}))
        page = await opened.get()
        asked = await desk.question()
        assert (page.mode, page.url) == ("url", f"https://inbox.example.com/questions/{asked.id}")
        calling.cancel()
        await asyncio.wait({calling})
        calling = asyncio.create_task(client.call_tool("act", {"what": "it"}))
        await client.list_tools()
        assert [each.id for each in await desk.open()] == [asked.id] and written(seen) == []
        await desk.decide()
        assert text(await calling) == "did it"
    assert opened.empty()


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_opens_no_pages_is_not_asked(tmp_path: Path, mode: str) -> None:
    desk = Desk(tmp_path)
    async with desk.client(raw("plain", tmp_path / "seen"), inbox="https://inbox.example.com", mode=mode) as client:
        calling = asyncio.create_task(client.call_tool("act", {"what": "it"}))
        await desk.decide()
        assert text(await calling) == "did it"
