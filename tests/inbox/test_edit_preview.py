"""An edit that keeps its evidence: its own preview, beside the form, and nothing sent that was not shown."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from assentry import Agent, Preview, Runner, Sentence, function_tool
from assentry.engines import Worker
from assentry.inbox import edit_preview
from assentry.inbox.forms import SchemaForm, in_author_order
from assentry.inbox.json_values import grouped_digits, shown_number
from assentry.inbox.picked_time import PickedTime, picked_time_in
from assentry.inbox.wording import compare_texts
from assentry.store import MemoryStore, Question, Store
from assentry.store.preview_requests import PreviewAnswer
from assentry.testing import ScriptedModel, call
from tests.inbox.office import hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes
from tests.inbox.support import client
from tests.runtime.support import soon

__all__ = ["cheap_hashes"]  # a fixture
pytestmark = pytest.mark.usefixtures("cheap_hashes")


def look(ctx: Any, args: dict[str, Any]) -> Preview:
    if args["amount"] < 0:
        raise ValueError("nobody pays less than nothing")
    warnings = (Sentence("That is a lot of money.", warning=True),) if args["amount"] > 100 else ()
    return Preview(f"Pay {args['amount']} to {args['to']}", warnings)


def agent(words: str = "Pay somebody.") -> Agent[Any]:
    @function_tool(needs_approval=True, preview=look, redact=("to",), description_override=words)
    async def pay(to: str, amount: int, memo: str = "") -> str:
        return "paid"

    return Agent("Clerk", tools=[pay], model=ScriptedModel([call("pay", {"to": "ann", "amount": 5}), "Done."]))


async def office() -> tuple[Store, Question]:
    store = MemoryStore()
    await hire(store)
    result = await Runner.run(agent(), "Please pay Ann.", store=store)
    return store, await store.question(result.interruptions[0].id)


@asynccontextmanager
async def working(store: Store, made: Agent[Any]) -> AsyncIterator[None]:
    worker = Worker(store, made)
    running = asyncio.create_task(worker.run(signals=False))
    try:
        yield
    finally:
        worker.stop()
        await soon(running)


async def test_an_edit_is_shown_with_its_own_preview_and_with_the_conversation() -> None:
    store, question = await office()
    async with working(store, agent()), Reader(make_app(store)) as reader:
        page = await reader.open(f"/questions/{question.id}/edit")
        assert "Pay 5 to ann" in page.text and "Please pay Ann." in page.text
        await reader.press("Check the change", **{"v:/amount": "7"})
        assert "Pay 7 to ann" in reader.page.text and "the tool's own preview of your edit" in reader.page.text
        await reader.press("Approve with changes")
    assert (await store.question(question.id)).verdict == "edit"


async def test_without_a_worker_the_page_says_that_the_preview_is_of_what_was_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edit_preview, "NOBODY", 0.0)
    store, question = await office()
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "7"})
        assert "No worker answered in time." in reader.page.text
        assert "the preview of what was proposed, made for other arguments" in reader.page.text
        assert 'Run pay with to "ann", amount 7' in reader.page.text  # the headline is the edit's all the same
        await reader.press("Approve with changes")
    assert (await store.question(question.id)).verdict == "edit"


async def test_a_worker_whose_tool_has_changed_says_so() -> None:
    store, question = await office()
    async with working(store, agent("Pay, but otherwise.")), Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "7"})
        assert "has changed since the question was asked" in reader.page.text
        assert "made for other arguments" in reader.page.text


async def test_a_warning_in_the_edits_preview_takes_a_second_act() -> None:
    store, question = await office()
    async with working(store, agent()), Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "700"})
        assert "That is a lot of money." in reader.page.text
        await reader.press("Approve with changes")
        assert reader.answer.status_code == 422 and "Say that you have read the warning." in reader.page.text
        assert (await store.question(question.id)).verdict is None
        await reader.press("Check the change")
        await reader.press("Approve with changes", read="1")
    assert (await store.question(question.id)).verdict == "edit"


async def test_an_edit_whose_preview_fails_takes_a_second_act() -> None:
    store, question = await office()
    async with working(store, agent()), Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "-1"})
        assert reader.page.text.count("The preview failed:") == 2  # in its place, and beside the buttons
        await reader.press("Approve with changes")
        assert reader.answer.status_code == 422 and "Say that you have read the warning." in reader.page.text
    assert (await store.question(question.id)).verdict is None


@pytest.mark.parametrize("act", ["live", "preview", "review"])
async def test_a_viewer_gets_no_preview_of_an_edit(act: str) -> None:
    store, question = await office()
    async with working(store, agent()), Reader(make_app(store), "vera") as reader:
        csrf = (await reader.open("/questions")).forms[0].values["csrf"]
        form = {"csrf": csrf, "do": act, "json": '{"to":"bob","amount":9}'}
        answer = await reader.client.post(f"/questions/{question.id}/edit", data=form)
        assert answer.status_code == 403 and "bob" not in answer.text and "Pay" not in answer.text


async def test_what_is_sent_is_what_was_checked() -> None:
    store, question = await office()
    async with working(store, agent()), Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "7"})
        send, _ = reader.page.button("Approve with changes")
        assert json.loads(send.values["json"]) == {"to": "ann", "amount": 7, "memo": ""}
        form = {**send.values, "v:/amount": "9000"}  # what was typed since is in another form, and not sent
        await reader.client.post(f"/questions/{question.id}/decision", data=form)
    fact = [each for each in (await store.read(question.run)).facts if type(each).__name__ == "Approved"][-1]
    assert json.loads(bytes(fact.args))["amount"] == 7  # type: ignore[union-attr]


async def test_an_answer_that_comes_late_is_shown_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_preview, "NOBODY", 0.0)
    store, question = await office()
    assert store.previews is not None
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "7"})
    assert await store.previews.take("w", agents=["Clerk"], limit=9) == []  # whoever asked has taken it back
    assert not await store.previews.answer("pv", PreviewAnswer('{"sentence":"Pay 0"}'), worker="w")


# -- forms and differences ----------------------------------------------------------------------------

SHAPE = {
    "type": "object",
    "properties": {
        "zeta": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "alpha": {"type": "integer"},
        "more": {"type": "string"},
    },
    "required": ["zeta", "day", "at", "alpha"],
}


def test_a_required_field_is_not_sent_empty() -> None:
    form = SchemaForm(SHAPE)
    empty = {"v:/zeta": " ", "v:/day": "", "v:/at": "", "v:/alpha": "", "v:/more": ""}
    _, problems = form.read({"o:": "1", **empty, "z:/day": "", "z:/at": "Z"})
    assert problems == dict.fromkeys(("/zeta", "/day", "/at", "/alpha"), "This needs a value.")


def test_a_text_that_was_proposed_empty_may_stay_empty() -> None:
    _, problems = SchemaForm(SHAPE, {"zeta": ""}).read({"o:": "1", "v:/zeta": ""})
    assert problems == {}


def test_fields_stand_in_the_authors_order_and_say_which_are_required() -> None:
    strict = {"required": ["zeta", "day", "at", "alpha", "more"], "properties": {}}
    stored = {**SHAPE, "properties": dict(sorted(SHAPE["properties"].items()))}  # type: ignore[attr-defined]
    fields = SchemaForm(in_author_order(stored, strict)).fields({}).fields
    assert [field.label for field in fields] == ["zeta", "day", "at", "alpha", "more"]
    assert [field.required for field in fields] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("value", "local", "zone"),
    [
        ("2026-11-18T09:30:00Z", "2026-11-18T09:30:00", "Z"),
        ("2026-11-18T09:30:00+02:00", "2026-11-18T09:30:00", "+02:00"),
        ("2026-11-18T09:30:00.125", "2026-11-18T09:30:00.125", ""),
    ],
)
def test_a_time_keeps_its_form_and_its_zone(value: str, local: str, zone: str) -> None:
    found = picked_time_in("date-time", value)
    assert found == PickedTime("date-time", local, zone) and found.written() == value
    form = SchemaForm({"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}})
    [field] = form.fields({"at": value}).fields
    assert (field.kind, field.text, field.zone) == ("date-time", local, zone)
    same, problems = form.read({"o:": "1", "v:/at": field.text, "z:/at": field.zone})
    assert (same, problems) == ({"at": value}, {})


@pytest.mark.parametrize("value", ["tomorrow", "2026-11-18 09:30", "2026-11-18T09:30:00.123456Z", "2026-11-18T09:30Z"])
def test_a_time_that_a_picker_would_change_stays_text(value: str) -> None:
    form = SchemaForm({"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}})
    [field] = form.fields({"at": value}).fields
    assert (field.kind, field.text) == ("text", value)


def test_a_picker_that_leaves_out_the_seconds_is_understood() -> None:
    form = SchemaForm({"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}})
    read, _ = form.read({"o:": "1", "v:/at": "2026-11-18T09:30", "z:/at": "+02:00"})
    assert read == {"at": "2026-11-18T09:30:00+02:00"}
    _, problems = form.read({"o:": "1", "v:/at": "2026-11-18T09:30", "z:/at": "Berlin"})
    assert problems == {"/at": "This is no date or time."}


def test_a_long_text_that_is_edited_in_three_places_shows_three_small_changes() -> None:
    lines = [f"Line {number} says something plain." for number in range(120)]
    after = [*lines[:10], "Line 10 says nothing plain.", *lines[11:60], "New.", *lines[60:100], *lines[101:]]
    one, two = (json.dumps({"title": "A", "text": "\n".join(each)}) for each in (lines, after))
    changes = compare_texts(one, two)
    assert len(changes) < 30 and [line.sign for line in changes].count("@") == 4
    [old] = [line for line in changes if line.sign == "-" and "Line 10 " in line.text]
    [new] = [line for line in changes if line.sign == "+" and "Line 10 " in line.text]
    assert [old.text[a:b] for a, b in old.marks] == ["something"]
    assert [new.text[a:b] for a, b in new.marks] == ["nothing"]


def test_a_text_of_several_lines_cannot_look_like_another_argument() -> None:
    honest = json.dumps({"note": "a\nb", "amount": 1})
    forged = json.dumps({"note": 'a\n  "amount": 999', "amount": 1})
    added = [line.text for line in compare_texts(honest, forged) if line.sign == "+"]
    assert added == ['    │   \\"amount\\": 999']


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1234567.5", "1\u202f234\u202f567.5"),
        ("-12345", "-12\u202f345"),
        ("1042", ""),
        ("007123", ""),
        ("1e9", ""),
        ("12345x", ""),
    ],
)
def test_long_numbers_are_shown_in_groups_and_stay_as_they_are(text: str, shown: str) -> None:
    assert grouped_digits(text) == shown
    assert str(shown_number(text)).replace("<i>", "").replace("</i>", "") == text


async def test_an_edit_of_a_risky_call_is_not_recorded_before_somebody_says_that_the_risk_was_read() -> None:
    store = MemoryStore()
    await hire(store)

    @function_tool(needs_approval=True, risk="high")
    async def pay(to: str, amount: int) -> str:
        return "paid"

    steps = [call("pay", {"to": "ann", "amount": 5}), "Done."]
    result = await Runner.run(Agent("Clerk", tools=[pay], model=ScriptedModel(steps)), "Pay.", store=store)
    question = await store.question(result.interruptions[0].id)
    form = {"digest": question.digest, "type": "edit", "json": '{"to": "ann", "amount": 7}'}
    async with client(store, "ann") as sender:  # as a program sends it: without what the page's form says besides
        answer = await sender.post(f"/questions/{question.id}/decision", data=form)
        assert answer.status_code == 422 and "Nothing was recorded yet." in answer.text
        assert (await store.question(question.id)).verdict is None
        await sender.post(f"/questions/{question.id}/decision", data={**form, "read": "1"})
    assert (await store.question(question.id)).verdict == "edit"


@pytest.mark.parametrize("sent", [{}, {"do": "live"}, {"do": "preview", "v:/amount": "1"}, {"do": "remove:/a/3"}])
async def test_a_form_of_an_edit_without_its_arguments_is_shown_again(sent: dict[str, str]) -> None:
    store, question = await office()
    async with client(store, "ben") as sender:
        answer = await sender.post(f"/questions/{question.id}/edit", data={"digest": question.digest, **sent})
    assert answer.status_code == 200 and "do not fit" in answer.text
