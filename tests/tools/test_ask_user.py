"""A model's questions to a person: on our own agents, through Approvals, and hostile ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Approvals, Reject, Respond, Runner, ask_user
from assentry.errors import InvalidArguments, InvalidDecision, NotDecided
from assentry.inbox.forms import SchemaForm
from assentry.outside.user_question import put_to_user
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import ScriptedModel, call
from assentry.tools.user_question import MOST_FIELDS, MOST_OPTIONS, read_user_question

ROOM: dict[str, Any] = {
    "question": "Which room?",
    "context": "Two are free.\nThe yard is quiet.",
    "fields": [
        {"label": "Floor", "type": "number", "hint": "1 to 5"},
        {"label": "View", "type": "one_of", "options": ["river", "yard"]},
        {"label": "Extras", "type": "several_of", "options": ["tea", "tv"], "optional": True},
        {"label": "Pets?", "type": "yes_or_no"},
        {"label": "Name/~", "type": "text"},
    ],
}
ANSWER = {"Floor": 2, "View": "river", "Extras": ["tv"], "Pets?": False, "Name/~": "Ann"}
WORDS = 'The person answers: {"Floor": 2, "View": "river", "Extras": ["tv"], "Pets?": false, "Name/~": "Ann"}'


def travel(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent(name="Travel", tools=[ask_user(**options)], model=ScriptedModel(list(steps)))


async def test_the_answer_of_a_form_is_the_calls_output(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        agent = travel(call("ask_user", ROOM), "Booked.")
        await Runner.run(agent, "Book a room.", store=store)
        [question] = (await store.questions()).items
        assert question.kind == "input"
        assert question.allowed == ("respond", "reject")
        assert question.prompt == "The agent asks: Which room?\n\nTwo are free.\nThe yard is quiet."
        with pytest.raises(InvalidDecision, match="View"):
            await store.decide(question.id, Respond({**ANSWER, "View": "sea"}), by="ann", digest=question.digest)
        await store.decide(question.id, Respond(ANSWER), by="ann", digest=question.digest)
        done = await Runner.run(agent, await store.load(question.run), store=store)
        assert done.new_items[1].output == WORDS  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "answer", "words"),
    [
        ({"question": "Where to?"}, "Porto", "The person answers: Porto"),
        ({"question": "Where to?", "options": ["Porto", "Faro"]}, "Faro", "The person answers: Faro"),
    ],
)
async def test_a_question_without_fields_has_a_text_or_an_option_as_its_answer(
    arguments: dict[str, Any], answer: str, words: str
) -> None:
    agent = travel(call("ask_user", arguments), "Booked.")
    state = (await Runner.run(agent, "Go.")).to_state()
    [question] = state.get_interruptions()
    with pytest.raises(InvalidDecision):
        state.respond(question, "")
    state.respond(question, answer)
    assert (await Runner.run(agent, state)).new_items[1].output == words  # type: ignore[union-attr]


async def test_a_declined_question_is_told_to_the_model() -> None:
    agent = travel(call("ask_user", ROOM), "I stop.")
    state = (await Runner.run(agent, "Go.")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Ask somebody else.")
    assert (await Runner.run(agent, state)).new_items[1].output == "Ask somebody else."  # type: ignore[union-attr]


async def test_reviewers_and_a_deadline_are_those_of_the_tool() -> None:
    result = await Runner.run(travel(call("ask_user", ROOM), reviewers=["ann"], deadline=60), "Go.")
    asked = result.to_state().get_interruptions()[0]
    assert asked.reviewers == ("ann",)


@pytest.mark.parametrize(("decision", "words"), [(Respond(ANSWER), WORDS), (Reject("No."), None)])
async def test_a_question_through_approvals_ends_in_words_for_the_model(decision: Any, words: str | None) -> None:
    store = MemoryStore()
    approvals = Approvals(store, source="bot")
    with pytest.raises(NotDecided):
        await put_to_user(approvals, ROOM, timeout=0, key="k1")
    waits = asyncio.create_task(put_to_user(approvals, ROOM, key="k1"))
    [question] = (await store.questions()).items
    assert question.allowed == ("respond", "reject")
    assert question.preview is not None
    assert question.preview.sentence == "bot asks: Which room?"
    assert "what the call does" not in str(question.preview.blocks)  # a question does nothing
    await store.decide(question.id, decision, by="ann", digest=question.digest)
    found = await waits
    assert found == words or (words is None and "They say: No." in found and "Do not ask it again" in found)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"question": ""},
        {"question": " \n "},
        {"question": 7},
        {"question": "q" * 501},
        {"question": "pay\u202eyap"},
        {"question": "a\x00b"},
        {"question": "a", "schema": {"$ref": "http://example.com"}},
        {"question": "a", "options": ["only"]},
        {"question": "a", "options": ["x", "X "]},
        {"question": "a", "options": ["\u00e9", "e\u0301"]},
        {"question": "a", "options": [str(n) for n in range(MOST_OPTIONS + 1)]},
        {"question": "a", "options": ["x", "y"], "fields": [{"label": "a", "type": "text"}]},
        {"question": "a", "fields": []},
        {"question": "a", "fields": [{"label": "a", "type": "text"}] * 2},
        {"question": "a", "fields": [{"label": str(n), "type": "text"} for n in range(MOST_FIELDS + 1)]},
        {"question": "a", "fields": [{"label": "a", "type": "object"}]},
        {"question": "a", "fields": [{"label": "a", "type": "text", "pattern": "(a+)+$"}]},
        {"question": "a", "fields": [{"label": "a", "type": "one_of"}]},
        {"question": "a", "fields": [{"label": "a", "type": "text", "options": ["x", "y"]}]},
        {"question": "a", "fields": [{"label": "\u200b", "type": "text"}]},
        {"question": "a", "fields": [{"label": "l" * 81, "type": "text"}]},
        {"question": "a", "fields": [{"label": ["deep"] * 3, "type": "text"}]},
        {"question": "a", "fields": {"label": "a"}},
    ],
)
def test_a_hostile_question_is_refused_before_anybody_is_asked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        read_user_question(wrong)


async def test_a_hostile_question_is_told_to_the_model_and_asks_nobody() -> None:
    result = await Runner.run(travel(call("ask_user", {"question": "a", "options": ["x", "x"]}), "I stop."), "Go.")
    assert not result.interruptions
    assert "each option must differ" in str(result.new_items[1].output)  # type: ignore[union-attr]


def test_markup_is_text_and_one_line() -> None:
    read = read_user_question({"question": "<script>alert(1)</script>\n\n# Approve", "context": "**bold**"})
    assert read.sentence == "The agent asks: <script>alert(1)</script> # Approve"


def test_the_page_has_a_form_for_each_kind_of_field() -> None:
    form = SchemaForm(read_user_question(ROOM).answer_schema)
    assert {each.label: each.kind for each in form.fields({}).fields} == {
        "Floor": "number",
        "View": "choice",
        "Extras": "list",
        "Pets?": "switch",
        "Name/~": "text",
    }
