"""A person's text ends at 64 KiB, whichever way it comes; a longer one is refused with a sentence and not recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Approve, Edit, InvalidDecision, Reject, Respond, Runner
from assentry.approval.decision import MAX_TEXT_BYTES
from assentry.cli import main
from assentry.store import MemoryStore, open_store
from assentry.testing import ScriptedModel, call
from assentry.threads import Command
from tests.inbox.office import ask, hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.support import client
from tests.runtime.support import sending
from tests.threads.support import office, say, thread

LONGEST = "ä" * (MAX_TEXT_BYTES // 2)
TOO_LONG = LONGEST + "a"
SENTENCE = r"has 65,5\d\d bytes, and at most 65,536 \(64 KiB\) are recorded"
DECISIONS = [
    Reject(TOO_LONG),
    Approve(TOO_LONG),
    Edit({"to": "ann"}, note=TOO_LONG),
    Respond(TOO_LONG),
]


async def asking(**options: Any) -> Any:
    send, sent = sending(needs_approval=True)
    agent = Agent(name="A", tools=[send], model=ScriptedModel([call("send", {"to": "ann"}), "Done."]))
    return await Runner.run(agent, "Go.", **options), agent, sent


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda each: type(each).__name__)
async def test_a_state_and_a_store_take_no_longer_text(decision: Any) -> None:
    store = MemoryStore()
    result, _, _ = await asking(store=store)
    state = result.to_state()
    [item] = state.get_interruptions()
    with pytest.raises(InvalidDecision, match=SENTENCE):
        state.decide(item, decision)
    before = len((await store.read(result.run_id)).facts)
    with pytest.raises(InvalidDecision, match=SENTENCE):
        await store.decide(item.id, decision, by="ann", digest=item.digest)
    assert len((await store.read(result.run_id)).facts) == before
    assert [each.id for each in state.get_interruptions()] == [item.id]


async def test_a_name_is_no_longer_either() -> None:
    store = MemoryStore()
    result, _, _ = await asking(store=store)
    [item] = result.interruptions
    with pytest.raises(InvalidDecision, match=SENTENCE):
        await store.decide(item.id, Approve(), by=TOO_LONG, digest=item.digest)


async def test_a_text_of_just_64_kib_is_recorded() -> None:
    result, agent, sent = await asking()
    state = result.to_state()
    state.reject(state.get_interruptions()[0], rejection_message=LONGEST)
    assert (await Runner.run(agent, state)).new_items[-2].output == LONGEST
    assert sent == []


async def test_arguments_of_an_edit_have_the_limit_of_the_run() -> None:
    result, agent, sent = await asking()
    state = result.to_state()
    state.edit(state.get_interruptions()[0], arguments={"to": TOO_LONG})
    await Runner.run(agent, state)
    assert sent == [(TOO_LONG, 1)]


async def test_an_answer_that_is_data_may_be_longer() -> None:
    result, agent, _ = await asking()
    state = result.to_state()
    state.respond(state.get_interruptions()[0], [TOO_LONG])
    assert (await Runner.run(agent, state)).new_items[-2].output == [TOO_LONG]


async def test_the_api_answers_422() -> None:
    store = MemoryStore()
    question = await ask(store, "Writer", call("write", {"text": "x"}))
    async with client(store) as http:
        for decision in ({"type": "reject", "message": TOO_LONG}, {"type": "approve", "note": TOO_LONG}):
            answer = await http.post(
                f"/api/questions/{question.id}/decision", json=decision, headers={"If-Match": f'"{question.digest}"'}
            )
            assert answer.status_code == 422 and "at most 65,536 (64 KiB)" in answer.json()["detail"]
    assert (await store.question(question.id)).decided is None


async def test_the_page_says_so_and_keeps_what_was_written() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask(store, "Writer", call("write", {"text": "x"}))
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/reject")
        page = await reader.press("Reject", message=TOO_LONG)
        assert "at most 65,536 (64 KiB) are recorded" in page.text
        assert TOO_LONG in page.source
    assert (await store.question(question.id)).decided is None


def test_the_command_line_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(tmp_path / "runs.db")

    async def begin() -> Any:
        async with open_store(where) as store:
            return (await asking(store=store))[0].interruptions[0]

    item = asyncio.run(begin())
    more = ("--message", TOO_LONG, "--store", where, "--by", "ann", "--digest", item.digest)
    assert main(["reject", item.id, *more])
    assert "at most 65,536 (64 KiB) are recorded" in capsys.readouterr().err


async def test_a_thread_says_so() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "Done.")
    await agent.ainvoke(say("go"), thread())
    answer = Command(resume={"decisions": [{"type": "reject", "message": TOO_LONG}]})
    with pytest.raises(InvalidDecision, match=SENTENCE):
        await agent.ainvoke(answer, thread())
    assert ran == [] and (await agent.aget_state(thread())).interrupts
