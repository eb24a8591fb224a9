"""The server of the live support desk: its messages over a real WebSocket, and what it refuses."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from assentry import Approve
from assentry.store import SQLiteStore
from tests.realtime.example import EXAMPLE, NAME, Visitor, desk

STATIC = EXAMPLE / "static"


# -- the page ----------------------------------------------------------------------------------------------------------


async def test_the_page_is_small_and_its_policy_strict() -> None:
    async with desk() as served:
        page = await served.page()
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert sum(each.stat().st_size for each in STATIC.iterdir()) < 40 * 1024
    for script in STATIC.glob("*.js"):
        text = script.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), script
        assert "http://" not in text and "https://" not in text, script


async def test_another_name_of_this_machine_gets_no_page() -> None:
    async with desk() as served:
        assert (await served.page(headers={"Host": "evil.example"})).status_code == 400


# -- the conversation --------------------------------------------------------------------------------------------------


async def test_a_free_tool_runs_at_once() -> None:
    async with desk() as served, served.visitor() as visitor:
        hello = await visitor.until("hello")
        assert (hello["agent"], hello["items"], hello["waiting"]) == ("Support desk", [], [])
        await visitor.tell("text", text="Where is order 1042?")
        begun = await visitor.until("tool_start")
        assert (begun["tool"], begun["rows"]) == ("order_status", [["order_id", '"1042"']])
        ended = await visitor.until("tool_end")
        assert ended["call_id"] == begun["call_id"] and "desk lamp" in ended["output"]
        await visitor.says("Order 1042: desk lamp, 89.90 EUR paid, delivered on Monday.")
        said = "".join(each["delta"] for each in visitor.seen if each["type"] == "transcript_delta")
        assert said == "Order 1042: desk lamp, 89.90 EUR paid, delivered on Monday."
        audio = [each for each in visitor.seen if each["type"] == "audio"]
        assert audio and all(len(base64.b64decode(each["audio"])) % 2 == 0 for each in audio)


async def test_a_call_waits_while_the_conversation_goes_on_and_is_approved() -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        assert (asked["tool"], asked["agent"], asked["kind"]) == ("refund", "Support desk", "approval")
        assert json.loads(asked["arguments"]) == {"order_id": "1042", "amount": 899.0}
        assert asked["rows"] == [["amount", "899.0"], ["order_id", '"1042"']]
        assert asked["preview"]["sentence"] == "Refund 899.00 EUR on order 1042"
        assert set(asked["allowed"]) >= {"approve", "edit", "reject"} and asked["question_id"] and asked["digest"]
        await visitor.says("A colleague has to confirm that.")
        await visitor.tell("text", text="Where is order 1043?")
        await visitor.says("bookshelf")
        await visitor.decide(asked)
        decided = await visitor.until("tool_approval_decided")
        assert (decided["call_id"], decided["decision"], decided["by"]) == (asked["call_id"], "approve", "you")
        ended = await visitor.until("tool_end")
        assert (ended["call_id"], ended["output"]) == (asked["call_id"], "Refunded 899.00 EUR on order 1042.")
        await visitor.says("Refunded 899.00 EUR")


async def test_a_rejection_tells_the_model_why() -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        await visitor.decide(asked, approve=False, message="Ten times too much.")
        assert (await visitor.until("tool_approval_decided"))["decision"] == "reject"
        assert (await visitor.until("tool_end"))["output"] == "Ten times too much."
        await visitor.says("Ten times too much.")


@pytest.mark.parametrize("arguments", [{"order_id": "1042", "amount": 89.9}, '{"order_id":"1042","amount":89.90}'])
async def test_an_edit_runs_with_other_arguments(arguments: Any) -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        await visitor.decide(asked, arguments=arguments)
        assert (await visitor.until("tool_approval_decided"))["decision"] == "edit"
        assert (await visitor.until("tool_end"))["output"] == "Refunded 89.90 EUR on order 1042."


async def test_an_edit_that_does_not_fit_changes_nothing() -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        for arguments in ({"order_id": "1042", "amount": "a lot"}, "[1]", "nonsense"):
            await visitor.decide(asked, arguments=arguments)
            assert (await visitor.until("error"))["call_id"] == asked["call_id"]
        await visitor.decide(asked)
        assert (await visitor.until("tool_end"))["output"] == "Refunded 899.00 EUR on order 1042."


async def test_an_answer_stands_in_for_the_tool() -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        await visitor.decide(asked, answer="Paid by hand, in cash.")
        assert (await visitor.until("tool_end"))["output"] == "Paid by hand, in cash."
        await visitor.says("Paid by hand, in cash.")
        [decided] = [each for each in visitor.seen if each["type"] == "tool_approval_decided"]
        assert decided["decision"] == "respond"


async def test_always_lets_later_calls_run() -> None:
    async with desk() as served, served.visitor() as visitor:
        await visitor.decide(await visitor.asked(), always=True)
        await visitor.until("tool_end")
        await visitor.tell("text", text="Please refund 10.00 on order 1043.")
        assert (await visitor.until("tool_end"))["output"] == "Refunded 100.00 EUR on order 1043."
        assert [each["type"] for each in visitor.seen].count("tool_approval_required") == 1


async def test_another_agent_takes_over() -> None:
    async with desk() as served, served.visitor() as visitor:
        await visitor.tell("text", text="I have a question about my invoice.")
        handoff = await visitor.until("handoff")
        assert (handoff["from"], handoff["to"]) == ("Support desk", "Billing")
        said = await visitor.says("Which order is it about?")
        assert said["items"][-1]["agent"] == "Billing"
        await visitor.tell("text", text="The invoice of order 1043.")
        assert (await visitor.until("tool_end"))["output"] == "Invoice of order 1043: 249.00 EUR."


@pytest.mark.parametrize("form", ["base64", "samples"])
async def test_speech_becomes_a_message(form: str) -> None:
    samples = [8000, -8000] * 1200  # a tenth of a second
    coded = base64.b64encode(b"".join(each.to_bytes(2, "little", signed=True) for each in samples)).decode()
    async with desk() as served, served.visitor() as visitor:
        for _ in range(5):
            await visitor.tell("audio", data=coded if form == "base64" else samples)
        await visitor.tell("commit_audio")
        await visitor.says("I heard you")
        items = [item for each in visitor.seen for item in each.get("items") or [each.get("item", {})]]
        assert "(0.5 seconds of speech)" in [item.get("text") for item in items]


async def test_the_agent_is_interrupted() -> None:
    hold = asyncio.Event()
    async with desk(steps=[["One two three four five.", hold], "Yes?"]) as served, served.visitor() as visitor:
        await visitor.tell("text", text="Count.")
        await visitor.until("audio")
        await visitor.tell("interrupt")
        await visitor.until("audio_interrupted")
        await visitor.until("agent_end")
        hold.set()
        await visitor.tell("text", text="Thanks.")
        await visitor.says("Yes?")


# -- what is refused ---------------------------------------------------------------------------------------------------

BAD = [
    "nonsense",
    "[]",
    "null",
    '{"type": "audio"}',
    '{"type": "audio", "data": "not base64!"}',
    '{"type": "audio", "data": "AAAA"}',
    '{"type": "audio", "data": [40000]}',
    '{"type": "audio", "data": [1.5]}',
    '{"type": "text"}',
    '{"type": "text", "text": 1}',
    '{"type": "text", "text": "  "}',
    '{"type": "text", "text": "hello", "and": "more"}',
    '{"type": "dance"}',
    '{"type": "tool_approval_decision", "approve": true}',
    '{"type": "tool_approval_decision", "call_id": "call_1"}',
    '{"type": "tool_approval_decision", "call_id": "call_1", "approve": "yes"}',
    '{"type": "tool_approval_decision", "call_id": "call_1", "approve": false, "arguments": {}}',
    '{"type": "tool_approval_decision", "call_id": "call_1", "approve": true, "arguments": {}, "answer": 1}',
    '{"type": "tool_approval_decision", "call_id": "call_1", "approve": true, "by": "somebody else"}',
    b"\xff\xfe",
    b'{"type": "text", "text": "\xff"}',
]


async def test_a_message_that_cannot_be_used_changes_nothing() -> None:
    async with desk() as served, served.visitor() as visitor:
        await visitor.until("hello")
        for bad in BAD:
            await visitor.connection.send(bad)
            refused = await visitor.until("error")
            assert refused["message"] and refused["call_id"] is None, bad
        asked = await visitor.asked()
        assert [each["type"] for each in visitor.seen].count("error") == len(BAD)
        await visitor.decide(asked)
        await visitor.until("tool_end")


@pytest.mark.parametrize("depth", [300, 600, 900, 980, 1_100, 100_000])
async def test_json_that_is_nested_too_deeply_is_an_error_and_the_session_goes_on(depth: int) -> None:
    less = min(depth, 30_000)  # of a message as large as it may be
    deep, text = "[" * depth + "]" * depth, '{"a":' * less + "1" + "}" * less
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        begin = f'{{"type": "tool_approval_decision", "call_id": {json.dumps(asked["call_id"])}, "approve": true, '
        for bad in (deep, text, f'{begin}"arguments": {text}}}', f'{begin}"arguments": {json.dumps(text)}}}'):
            await visitor.connection.send(bad)
            assert (await visitor.until("error"))["message"]
        if depth > 1_000:  # less deep, it is an answer
            await visitor.connection.send(f'{begin}"answer": {deep}}}')
            await visitor.until("error")
        await visitor.decide(asked)
        await visitor.until("tool_end")


async def test_a_call_that_does_not_wait_cannot_be_decided() -> None:
    async with desk() as served, served.visitor() as visitor:
        await visitor.tell("tool_approval_decision", call_id="call_99", approve=True)
        unknown = await visitor.until("error")
        assert (unknown["call_id"], "call_99" in unknown["message"]) == ("call_99", True)
        asked = await visitor.asked()
        await visitor.decide(asked, approve=False)
        await visitor.until("tool_end")
        await visitor.decide(asked)
        settled = await visitor.until("error")
        assert settled["call_id"] == asked["call_id"] and "reject" in settled["message"]
        assert [each["type"] for each in visitor.seen].count("tool_end") == 1


async def test_a_decision_on_something_else_changes_nothing() -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        await visitor.decide({**asked, "digest": "0" * 64})
        assert (await visitor.until("error"))["call_id"] == asked["call_id"]
        await visitor.decide(asked)
        await visitor.until("tool_end")


@pytest.mark.parametrize(
    "options",
    [
        {"subprotocols": ["assentry.realtime", "token.wrong"]},
        {"subprotocols": ["assentry.realtime"]},
        {"subprotocols": None},
        {"origin": "http://evil.example"},
        {"origin": "https://127.0.0.1"},
        {"origin": "null"},
        {"origin": None},
        {"additional_headers": {"Host": "evil.example"}, "origin": "http://evil.example"},
        {"name": "short"},
        {"name": "x" * 65},
        {"name": "a-room-of-one's-own"},
    ],
)
async def test_a_stranger_is_not_let_in(options: dict[str, Any]) -> None:
    async with desk() as served:
        with pytest.raises(InvalidStatus) as refused:
            async with served.connect(**{"name": NAME, **options}):
                pass
        assert refused.value.response.status_code in (400, 403)
        assert served.model.received == []


async def test_a_message_that_is_too_large_ends_the_connection() -> None:
    async with desk() as served, served.visitor() as visitor:
        await visitor.until("hello")
        await visitor.tell("text", text="x" * 300_000)
        with pytest.raises(ConnectionClosed) as closed:
            await visitor.until("never")
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


# -- what is kept ------------------------------------------------------------------------------------------------------


async def comes_back(visitor: Visitor, asked: dict[str, Any]) -> None:
    """See that a browser is told what was, and can still decide."""
    hello = await visitor.until("hello")
    assert [each["call_id"] for each in hello["waiting"]] == [asked["call_id"]]
    assert "Please refund 89.90 on order 1042." in [each.get("text") for each in hello["items"]]
    await visitor.decide(asked)
    await visitor.until("tool_approval_decided")
    assert (await visitor.until("tool_end"))["output"] == "Refunded 899.00 EUR on order 1042."


async def test_a_browser_comes_back_to_its_conversation() -> None:
    async with desk() as served:
        async with served.visitor() as visitor:
            asked = await visitor.asked()
        async with served.visitor() as visitor:
            await comes_back(visitor, asked)
        async with served.visitor() as visitor:
            [call] = (await visitor.until("hello"))["calls"]
            assert (call["decision"], call["by"], call["output"][:8]) == ("approve", "you", "Refunded")
        assert len(served.model.received) == 1
        async with served.visitor("a-room-with-a-view") as visitor:
            assert (await visitor.until("hello"))["items"] == []


async def test_a_second_window_takes_the_conversation_over() -> None:
    async with desk() as served, served.visitor() as one:
        asked = await one.asked()
        async with served.visitor() as two:
            with pytest.raises(ConnectionClosed) as closed:
                await one.until("never")
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4001
            await comes_back(two, asked)


async def test_a_call_is_decided_while_the_model_is_away() -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        await visitor.says("A colleague")
        served.model.drop()
        await visitor.until("connection", lambda message: message["status"] == "disconnected")
        await visitor.tell("audio", data="AAAAAA==")
        await visitor.decide(asked)
        await visitor.until("tool_end")
        await visitor.until("connection", lambda message: message["status"] == "connected")
        await visitor.says("Refunded 899.00 EUR")
        assert "error" not in [each["type"] for each in visitor.seen]


async def test_a_call_is_kept_when_the_model_does_not_come_back() -> None:
    async with desk() as served, served.visitor() as visitor:
        asked = await visitor.asked()
        await visitor.says("A colleague")
        served.model.refuse = (403, "No.")
        served.model.drop()
        assert "No." in (await visitor.until("ended"))["message"]
        await visitor.decide(asked)
        assert "ended" in (await visitor.until("error"))["message"]
        async with served.visitor() as again:
            assert len((await again.until("hello"))["waiting"]) == 1
            await again.until("ended")
        served.model.refuse = None
        async with served.visitor() as again:
            await comes_back(again, asked)


async def test_a_decision_made_elsewhere_reaches_the_page(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store, desk(store) as served, served.visitor() as visitor:
        asked = await visitor.asked()
        async with SQLiteStore(tmp_path / "runs.db") as inbox:
            while not (found := (await inbox.questions()).items):
                await inbox.watch(1)
            [question] = found
            assert question.id == asked["question_id"]
            await inbox.decide(question.id, Approve(), by="ann", digest=question.digest)
        decided = await visitor.until("tool_approval_decided")
        assert (decided["call_id"], decided["by"]) == (asked["call_id"], "ann")
        assert (await visitor.until("tool_end"))["output"] == "Refunded 899.00 EUR on order 1042."


# -- the program -------------------------------------------------------------------------------------------------------


def test_the_program_prints_its_address_and_ends_well(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE / "server.py"), "--port", "0", "--no-browser", "--store", "runs.db"]
    env = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"} | {"PYTHONUNBUFFERED": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=env, start_new_session=True, **pipes) as started:
        assert started.stdout
        shown = [started.stdout.readline(), started.stdout.readline()]
        started.send_signal(signal.SIGINT)
        rest, _ = started.communicate(timeout=120)
    assert "OPENAI_API_KEY" in shown[0] and re.search(r"http://127\.0\.0\.1:\d+$", shown[1].strip()), [*shown, rest]
    assert started.returncode == 0 and "Traceback" not in rest, rest
