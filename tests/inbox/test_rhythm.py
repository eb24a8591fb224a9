"""The rhythm of deciding on the pages, without a script: views, counts, places, the second act, and deadlines."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import Approve
from assentry.core import facts as f
from assentry.errors import UsageError
from assentry.inbox import app
from assentry.inbox.looking import LONGEST, looked_for, opened_at
from assentry.store import MemoryStore
from assentry.store.record import Question
from assentry.testing import FakeClock, call
from tests.inbox.office import ask, ask_everything, ask_refund, hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes
from tests.inbox.support import client

__all__ = ["cheap_hashes"]  # a fixture
pytestmark = pytest.mark.usefixtures("cheap_hashes")


async def ask_to_write(store: Any, text: str = "a line", **more: Any) -> Question:
    return await ask(store, "Clerk", call("write", {"text": text}), **more)


# -- the list ----------------------------------------------------------------------------------------------------------


async def test_a_reviewer_sees_first_what_she_may_decide() -> None:
    store = MemoryStore()
    await hire(store)
    await ask_everything(store)
    own = await ask_to_write(store, by="ben")
    async with Reader(make_app(store), "ben") as ben:
        text = (await ben.open("/questions")).text
        assert "For me 7" in text and "All 9" in text and "Decided by me 0" in text
        assert "git push" not in text and own.id not in ben.page.source
        assert "git push" in (await ben.open("/questions?view=all")).text and own.id in ben.page.source
    async with Reader(make_app(store), "otto") as otto:  # of the group that the command is for
        assert "git push" in (await otto.open("/questions")).text
    async with Reader(make_app(store), "vera") as vera:
        text = (await vera.open("/questions")).text
        assert "git push" in text and "For me" not in text


async def test_the_view_stays_in_every_link_of_the_list() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_to_write(store)
    async with Reader(make_app(store)) as reader:
        await reader.open("/questions?view=all&tool=write")
        assert f"/questions/{question.id}?view=all&tool=write" in reader.page.links()
        await reader.open(f"/questions/{question.id}?view=all")
        await reader.press("Approve")
        assert reader.answer.url.query == b"view=all"
        text = (await reader.open("/questions?view=decided")).text
        assert "Decided by me 1" in text and "approved" in text and question.id in reader.page.source


async def test_a_question_says_its_place_and_the_true_number() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await hire(store)
    asked = []
    for n in range(53):
        clock.advance(1)
        asked.append(await ask_to_write(store, f"text {n}"))
    async with Reader(make_app(store)) as reader:
        first = await reader.open(f"/questions/{asked[6].id}")
        assert "7 of 53" in first.text and "53 questions" not in first.text
        page = await store.questions(limit=50)
        await reader.open("/questions")
        assert "53 questions wait for a person." in reader.page.text
        [following] = [link for link in reader.page.links() if "after=" in link]
        await reader.open(f"/questions/{asked[51].id}{following.removeprefix('/questions')}")
        assert page.next is not None and "52 of 53" in reader.page.text


async def test_a_row_shows_a_warning_and_a_high_risk() -> None:
    store = MemoryStore()
    await hire(store)
    await ask_refund(store)
    async with Reader(make_app(store)) as reader:
        source = (await reader.open("/questions")).source
        assert '<span class="tag warn">warning</span>' in source


async def test_the_api_lists_what_whoever_asks_may_decide() -> None:
    store = MemoryStore()
    made = await ask_everything(store)
    async with client(store, "ben") as web:
        found = (await web.get("/api/questions", params={"for_me": "true"})).json()["items"]
        assert len(found) == 7 and made["run_command"].id not in [each["id"] for each in found]
    async with client(store, "otto", "reviewer", "release") as web:
        assert len((await web.get("/api/questions", params={"for_me": "true"})).json()["items"]) == 8


# -- the second act ----------------------------------------------------------------------------------------------------


async def test_an_approval_of_what_warns_is_not_recorded_without_its_second_act() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_refund(store)
    async with Reader(make_app(store)) as reader:
        page = await reader.open(f"/questions/{question.id}")
        assert f"/questions/{question.id}/approve?" in " ".join(page.links())
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        bare = {name: value for name, value in form.values.items() if name != "confirmed"}
        await reader.send(f"/questions/{question.id}/decision", {**bare, "note": "seen"})
        assert reader.answer.status_code == 200 and "Approve this in spite of its warning?" in reader.page.text
        assert (await store.question(question.id)).verdict is None
        assert "The refund is ten times what was paid." in reader.page.text
        await reader.press("Yes, approve", note="seen")
        assert "Approved by you" in reader.page.text
    approved = [fact for fact in (await store.read(question.run)).facts if isinstance(fact, f.Approved)][-1]
    assert (approved.asked, approved.why) == (question.id, "seen")


async def test_a_grant_that_is_sent_without_the_second_act_is_carried_through_it() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_refund(store)
    async with Reader(make_app(store)) as reader:
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        bare = {name: value for name, value in form.values.items() if name != "confirmed"}
        await reader.send(f"/questions/{question.id}/decision", {**bare, "grant": "1", "uses": "2"})
        assert (await store.grants()).items == []
        await reader.press("Yes, approve")
        assert [grant.max_uses for grant in (await store.grants()).items] == [2]


async def test_a_program_approves_what_warns_by_the_api_in_one_request() -> None:
    store = MemoryStore()
    question = await ask_refund(store)
    async with client(store) as web:
        answer = await web.post(
            f"/api/questions/{question.id}/decision",
            json={"type": "approve"},
            headers={"If-Match": f'"{question.digest}"'},
        )
        assert answer.status_code == 200 and answer.json()["verdict"] == "approve"


async def test_a_question_that_changed_is_said_before_any_second_act() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_refund(store)
    async with Reader(make_app(store)) as reader:
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        bare = {**form.values, "digest": "0" * 64}
        del bare["confirmed"]
        await reader.send(f"/questions/{question.id}/decision", bare)
        assert reader.answer.status_code == 412
        assert (await store.question(question.id)).verdict is None


async def test_a_note_goes_with_an_approval() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_to_write(store)
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}")
        await reader.press("Approve", note="seen with Bo")
        assert "seen with Bo" in reader.page.text


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["", "/reject"])
async def test_the_time_that_the_question_was_open_is_recorded(step: str) -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await hire(store)
    question = await ask_to_write(store)
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}")
        clock.advance(12)
        if step:
            [link] = [each for each in reader.page.links() if step in each]
            await reader.open(link)
            clock.advance(3)
        await reader.press("Reject" if step else "Approve", held="2000")
    assert (await store.question(question.id)).looked == (13_000 if step else 10_000)


def test_a_time_that_cannot_be_is_not_recorded() -> None:
    now = 2 * LONGEST
    assert looked_for({"opened": str(now - 5_000), "held": "1000"}, now) == 4_000
    for bad in ({}, {"opened": "x"}, {"opened": str(now + 1)}, {"opened": "1"}, {"opened": str(now), "held": "5"}):
        assert looked_for(bad, now) is None
    assert looked_for({"opened": str(now - 10), "held": "-1"}, now) is None
    assert opened_at({"opened": str(now - 7)}, now) == now - 7
    for bad in ({}, {"opened": "²"}, {"opened": str(now + 1)}, {"opened": "0"}, {"opened": "9" * 30}):
        assert opened_at(bad, now) == now


async def test_an_expired_question_says_so_and_offers_nothing_that_cannot_be_done() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await hire(store)
    question = await ask(store, "Post", call("send_mail", {"to": "a@example.com", "subject": "Hello"}))
    async with Reader(make_app(store)) as reader, Reader(make_app(store)) as late:
        await late.open(f"/questions/{question.id}")
        clock.advance(171)
        page = await reader.open(f"/questions/{question.id}")
        assert "The deadline has passed, so this cannot be approved any more." in page.text
        buttons = [label for form in page.forms for label in form.buttons]
        assert not any(label.startswith("Approve") for label in buttons)
        assert [each for each in page.links() if "/edit" in each or "/always" in each] == []
        assert "The deadline has passed" in (await reader.open(f"/questions/{question.id}/edit")).text
        await late.press("Approve")
        assert late.answer.status_code == 409
        assert "Rejected because nobody answered in time" in late.page.text
        assert (await store.question(question.id)).verdict == "reject"


# -- keys and undo -----------------------------------------------------------------------------------------------------


async def test_single_keys_are_turned_off_by_a_form() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_to_write(store)
    async with Reader(make_app(store)) as reader:
        page = await reader.open(f"/questions/{question.id}")
        assert 'data-keys="on"' in page.source
        await reader.press("Turn single keys off")
        assert reader.answer.url.path == f"/questions/{question.id}" and 'data-keys="off"' in reader.page.source
        form, _ = reader.page.button("Turn single keys on")
        for away in ("//example.com/", "https://example.com/", "/\\example.com"):
            await reader.send(form.action, {**form.values, "next": away, "keys": "on"})
            assert reader.answer.url.host == "localhost" and reader.answer.url.path == "/questions"
        answer = await reader.client.post("/keys", data={"keys": "off"})
        assert answer.status_code == 403


async def test_the_page_holds_decisions_for_as_long_as_the_inbox_says() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_to_write(store)
    async with Reader(app(store)) as reader:
        assert 'data-undo="5.0"' in (await reader.open(f"/questions/{question.id}")).source
    for bad in (-1, 61, "5", None):
        with pytest.raises(UsageError, match="undo is a number of seconds from 0 to 60"):
            app(store, undo=bad)  # type: ignore[arg-type]


async def test_a_decision_that_was_held_and_comes_late_changes_nothing() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_to_write(store)
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/reject")
        await store.decide(question.id, Approve(), by="ben", digest=question.digest)
        await reader.press("Reject", held="5000")
        assert reader.answer.status_code == 409 and "Approved by ben" in reader.page.text
    assert (await store.question(question.id)).verdict == "approve"
