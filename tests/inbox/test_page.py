"""The pages of the inbox, without any script: every flow, every state, and an agent that means harm."""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from msgspec import Raw
from msgspec.structs import replace

import assentry.inbox
from assentry import Agent, Approve, Edit, Reject, Respond, Runner, Secret, ToolContext, function_tool
from assentry.core import facts as f
from assentry.core.hidden import HIDDEN
from assentry.inbox.escaping import spell_out_hidden
from assentry.inbox.forms import SchemaForm, apply_button
from assentry.inbox.headline import shown_hash
from assentry.inbox.question_pages import STATIC
from assentry.inbox.templating import POLICY
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.store.filter import Filter
from assentry.store.projection import anew
from assentry.store.record import Page, Question
from assentry.testing import FakeClock, ScriptedModel, call
from tests.inbox.office import agent, ask, ask_everything, ask_order, ask_refund, hire, make_app
from tests.inbox.reader import Page as ReadPage
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes

T = TypeVar("T")

__all__ = ["cheap_hashes"]  # a fixture
pytestmark = pytest.mark.usefixtures("cheap_hashes")


async def office() -> tuple[Store, FastAPI]:
    store = MemoryStore()
    await hire(store)
    return store, make_app(store)


async def settled(store: Store, question: Question) -> Question:
    return await store.question(question.id)


async def runs_on(store: Store, question: Question) -> Any:
    """Return what the journal says that will run."""
    run = await store.read(question.run)
    return run.facts[-1]


# -- looking -----------------------------------------------------------------------------------------------------------


async def test_nobody_sees_anything_before_they_sign_in() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app, None) as stranger:
        for path in ("/questions", f"/questions/{question.id}", "/runs", "/grants", "/audit", "/"):
            page = await stranger.open(path)
            assert "Sign in" in page.text and "899.0" not in page.source
            assert stranger.answer.url.path == "/sign-in"


async def test_signing_in_leads_back_to_where_one_was() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app, None) as reader:
        await reader.open(f"/questions/{question.id}")
        await reader.press("Sign in", name="ann", password="wrong")
        assert "The name or the password is wrong" in reader.page.text
        await reader.press("Sign in", name="ann", password="correct horse battery staple")
        assert reader.answer.url.path == f"/questions/{question.id}"
        assert "Refund 899.00 EUR" in reader.page.text


async def test_whoever_was_signed_out_is_told_that_a_decision_was_not_recorded() -> None:
    store, app = await office()
    question = await ask_order(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}")
        reader.client.cookies.clear()
        await reader.press("Approve")
        assert reader.answer.url.path == "/sign-in"
        assert "You were signed out, so what you sent was not recorded." in reader.page.text
    assert (await settled(store, question)).verdict is None


async def test_a_page_that_is_left_before_its_form_has_come_is_no_error_of_the_inbox(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, app = await office()
    question = await ask_order(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        scheme, host = reader.client.base_url.scheme, reader.client.base_url.host
        cookie = "; ".join(f"{name}={value}" for name, value in reader.client.cookies.items())
    sent: list[Any] = []
    gone = iter([{"type": "http.request", "body": b"do=li", "more_body": True}, {"type": "http.disconnect"}])
    headers = [(b"cookie", cookie.encode()), (b"host", host.encode()), (b"sec-fetch-site", b"same-origin")]
    path = f"/questions/{question.id}/edit"
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}

    async def receive() -> Any:
        return next(gone)

    async def send(message: Any) -> None:
        sent.append(message)

    await app({**scope, "scheme": scheme, "server": (host, 80), "client": ("127.0.0.1", 1)}, receive, send)
    assert sent == [] and caplog.records == []


async def test_a_question_has_its_three_zones_in_order() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        text = (await reader.open(f"/questions/{question.id}")).text
        zones = ("What will happen", "Exact arguments", "The agent says", "Conversation so far")
        places = [text.index(zone) for zone in zones]
        assert places == sorted(places)
        assert "The refund is ten times what was paid" in text[places[0] : places[1]]
        assert "899.0" in text[places[1] : places[2]]
        assert "I give the 89.90 back and write to Anna." in text[places[2] : places[3]]
        assert "My desk lamp (order 1042)" in text[places[3] :] and "allowed by rule" in text[places[3] :]
        assert f"You decide as ann on exactly this {question.digest[:8]}…{question.digest[-8:]}" in text


async def test_the_list_begins_with_what_is_due_soon() -> None:
    store, app = await office()
    await ask_everything(store)
    async with Reader(app) as reader:
        text = (await reader.open("/questions")).text
        soon, waiting = text.index("Due soon"), text.index("Waiting")
        assert soon < text.index("Send an e-mail") < text.index("Refund 899.00") < waiting < text.index("Delete 1,204")
        assert "asks for input" in text and "in doubt" in text


async def test_the_list_can_be_filtered_and_searched() -> None:
    store, app = await office()
    await ask_everything(store)
    async with Reader(app) as reader:
        assert "Refund" not in (await reader.open("/questions?tool=send_mail")).text
        assert "Send an e-mail" in reader.page.text
        assert "Delete 1,204" in (await reader.open("/questions?agent=Data+agent")).text
        assert "Send an e-mail" not in reader.page.text
        assert "Delete 1,204" in (await reader.open("/questions?q=records")).text
        assert "No matches" in (await reader.open("/questions?q=no-such-thing")).text


def next_of(page: ReadPage) -> str | None:
    """The address of the next question in the list; None at its end."""
    found = [given["href"] for tag, given in page.tags if tag == "a" and "data-next" in given]
    assert len(found) == (0 if "The end of this list" in page.text else 1)
    return found[0] if found else None


async def test_the_next_question_is_the_row_below_over_the_pages_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.inbox.page_parts.PAGE", 2)
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await hire(store)
    made = []
    for n in range(10):
        made.append(await ask(store, "Writer" if n % 2 else "Other", call("write", {"text": f"note {n}"})))
        clock.advance(1)
    wanted = [each.id for each in made[3::2]]
    async with Reader(make_app(store)) as reader:
        address: str | None = f"/questions/{made[3].id}?agent=Writer"
        seen = []
        while address is not None:
            await reader.open(address)
            seen.append(address.partition("?")[0].rpartition("/")[2])
            address = next_of(await reader.press("Approve"))
            assert address is None or "agent=Writer" in address
    assert seen == wanted
    assert [(await store.question(each.id)).verdict for each in made[:3]] == [None] * 3


async def test_the_place_in_the_list_is_that_of_the_decision_even_if_rows_come_and_go() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await hire(store)
    made = []
    for n in range(4):
        made.append(await ask(store, "Writer", call("write", {"text": f"note {n}"})))
        clock.advance(1)
    late = await ask(store, "Shop assistant", call("send_mail", {"to": "anna@example.com", "subject": "x"}))  # due soon
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{made[1].id}")
        page = await reader.press("Approve")
        assert (next_of(page) or "").endswith(made[2].id)  # and not the one at the top, which is due soon
        await store.decide(made[2].id, Approve(), by="ben", digest=made[2].digest)
        assert (next_of(await reader.open(f"/questions/{made[1].id}")) or "").endswith(made[3].id)
        await reader.open(f"/questions/{late.id}")
        assert (next_of(await reader.press("Approve")) or "").endswith(made[0].id)  # below those that are due soon


class Near(MemoryStore):
    """A store whose searches look at three questions at a time."""

    async def page(self, filter: Filter[T]) -> Page[T]:
        return await super().page(replace(filter, reach=3))


async def test_a_search_that_stopped_before_the_end_says_so() -> None:
    clock = FakeClock()
    store = Near(clock=clock)
    await hire(store)
    for word in ("plain", "plain", "plain", "rare", "plain", "plain", "plain", "plain"):
        await ask(store, "Writer", call("write", {"text": word}))
        clock.advance(1)
    async with Reader(make_app(store)) as reader:
        first = await reader.open("/questions?q=rare&tool=write")
        assert "Nothing among the first questions." in first.text and "Look further" in first.text
        assert "No matches" not in first.text and "Nothing waits" not in first.text
        assert "Nothing found so far" in first.text
        further = {link for link in first.links() if "after=" in link}
        assert len(further) == 1 and "q=rare&tool=write" in further.copy().pop()
        part = await reader.open("/questions?q=rare&part=list")
        assert "Nothing among the first questions." in part.text and "No matches" not in part.text

        second = await reader.open(further.pop())
        assert "Found among the next questions. There are more." in second.text and "Look further" in second.text
        assert "1 found among the next questions." in second.text
        assert "Nothing" not in second.text and "More questions" not in second.text
        rows = [given["data-id"] for tag, given in second.tags if "data-id" in given]
        assert len(rows) == 1 and "rare" in (await store.question(rows[0])).arguments

        third = await reader.open(next(link for link in second.links() if "after=" in link and "/questions?" in link))
        assert "No matches. No later question has these words or filters." in third.text
        assert "Look further" not in third.text and "From the start" in third.text


async def test_the_list_has_pages() -> None:
    store, app = await office()
    for n in range(52):
        await ask(store, "Writer", call("write", {"text": f"number {n}"}))
    async with Reader(app) as reader:
        first = await reader.open("/questions")
        one = set(re.findall(r"number \d+", first.text))
        more = next(link for link in first.links() if "after=" in link)
        two = set(re.findall(r"number \d+", (await reader.open(more)).text))
    # Questions of the same millisecond are in the order of their ids.
    assert (len(one), len(two)) == (50, 2) and one | two == {f"number {n}" for n in range(52)}


async def test_an_empty_inbox_says_so() -> None:
    _, app = await office()
    async with Reader(app) as reader:
        assert "Nobody waits for you." in (await reader.open("/questions")).text
        for path, words in (("/runs", "No runs."), ("/grants", "No grants"), ("/audit", "Nothing was decided yet.")):
            assert words in (await reader.open(path)).text


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("execute_sql", ["DELETE FROM records WHERE seen < :day", "changes 1,204 rows", "2024-02-11", "The first 2"]),
        ("send_mail", ["shop@example.com", "Your refund", "receipt.pdf", "Dear Anna,"]),
        ("change_file", ["billing/total.py", "+    return sum(r.gross", "-    return sum(r.net"]),
        ("run_command", ["/srv/release", "$ git push origin main"]),
        ("refund", ["89.90 EUR", "899.00 EUR", "Warning:", "order_version"]),
        ("place_order", ["This tool has no preview", "lamp", "12"]),
    ],
)
async def test_every_block_of_a_preview_is_shown(tool: str, words: list[str]) -> None:
    store, app = await office()
    made = await ask_everything(store)
    async with Reader(app) as reader:
        text = (await reader.open(f"/questions/{made[tool].id}")).text
        assert [each for each in words if " ".join(each.split()) not in text] == []


async def test_a_preview_that_failed_is_said_to_have_failed() -> None:
    def broken(ctx: Any, args: Any) -> Any:
        raise RuntimeError("the shop is closed")

    @function_tool(needs_approval=True, preview=broken)
    async def pay(amount: int) -> str:
        return "paid"

    store, app = await office()
    model = ScriptedModel([call("pay", {"amount": 3}), "Done."])
    result = await Runner.run(Agent(name="Till", tools=[pay], model=model), "go", store=store)
    async with Reader(app) as reader:
        text = (await reader.open(f"/questions/{result.interruptions[0].id}")).text
        assert "The preview failed:" in text and "the shop is closed" in text


async def test_others_who_look_are_named() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as ann, Reader(app, "ben") as ben:
        await ben.open(f"/questions/{question.id}")
        assert "ben is looking too" in (await ann.open(f"/questions/{question.id}")).text
        assert "ben is looking" in (await ann.open("/questions")).text
        assert "ann is looking too" in (await ben.open(f"/questions/{question.id}?part=notice")).text


# -- deciding ----------------------------------------------------------------------------------------------------------


async def test_approve_records_who_saw_what() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/approve")
        await reader.press("Yes, approve")
        assert reader.answer.status_code == 200 and "Approved by you" in reader.page.text
        decided = await settled(store, question)
        assert (decided.verdict, decided.by, decided.shown) == ("approve", "ann", shown_hash(question))
        audit = (await reader.open("/audit")).text
        assert "ann" in audit and "approved" in audit and shown_hash(question)[:8] in audit


async def test_decisions_are_exported_as_json_lines() -> None:
    store, app = await office()
    first, second = await ask_refund(store), await ask(store, "Ops", call("use_key", {"key": "hunter2", "where": "db"}))
    for question in (first, second):
        await store.decide(question.id, Reject("no"), by="ben", digest=question.digest)
    async with Reader(app, "vera") as reader:
        await reader.open("/audit")
        assert "/audit.jsonl" in reader.page.links()
        lines = [json.loads(line) for line in (await reader.client.get("/audit.jsonl")).text.splitlines()]
        found = {line["id"]: (line["verdict"], line["by"]) for line in lines}  # both may end in one millisecond
        assert len(lines) == 2 and found == {first.id: ("reject", "ben"), second.id: ("reject", "ben")}
        assert lines == sorted(lines, key=lambda line: (line["decided"], line["id"]))
        assert "hunter2" not in str(lines)


async def test_reject_takes_a_step_of_its_own_with_a_reason() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{question.id}")
        assert not any(value == "reject" for form in page.forms for _, value in form.buttons.values())
        await reader.open(f"/questions/{question.id}/reject")
        assert (await settled(store, question)).verdict is None
        await reader.press("Reject", message="Ten times too much.")
        assert "Rejected by you" in reader.page.text
        assert (await runs_on(store, question)).message == "Ten times too much."


async def test_edit_by_form_is_reviewed_and_then_sent() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        assert "holds U+202E right-to-left override" in reader.page.text
        await reader.press("Check the change", **{"v:/amount": "89.90", "v:/memo": "desk lamp", "note": "as paid"})
        assert '- "amount": 899.0,' in reader.page.text and '+ "amount": 89.90,' in reader.page.text
        assert '- "memo": "desk lamp, broken arm\\u202e"' in reader.page.text
        assert (await settled(store, question)).verdict is None
        await reader.press("Approve with changes", read="1")
        assert "Approved with changes by you" in reader.page.text or "Approved by you" in reader.page.text
        fact = await runs_on(store, question)
        assert json.loads(bytes(fact.args)) == {"order": 1042, "amount": 89.9, "memo": "desk lamp"}
        assert fact.why == "as paid"


async def test_numbers_stay_exact() -> None:
    store, app = await office()
    question = await ask_refund(store)
    large = "123456789012345678901"
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/order": large})
        assert f'"order": {large}' in reader.page.text
        await reader.press("Approve with changes", read="1")
        assert json.loads(bytes((await runs_on(store, question)).args))["order"] == int(large)


async def test_a_value_that_does_not_fit_is_named_and_nothing_is_recorded() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "much", "v:/order": "1.5"})
        assert "This is not a number." in reader.page.text and "This is not a whole number." in reader.page.text
        assert not any("Approve with changes" in label for form in reader.page.forms for label in form.buttons)
        await reader.press("Check the change", **{"v:/amount": "1", "v:/order": "7", "s:/memo": "absent"})
        assert '- "memo"' in reader.page.text
        assert (await settled(store, question)).verdict is None


async def test_the_review_of_an_edit_shows_what_will_run() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/amount": "0.1000000000000000055", "s:/memo": "absent"})
        assert '+ "amount": 0.1,' in reader.page.text
        assert '+ "memo": ""' in reader.page.text, "the default runs, so it is shown"
        await reader.press("Approve with changes", read="1")
        assert json.loads(bytes((await runs_on(store, question)).args)) == {"order": 1042, "amount": 0.1, "memo": ""}


async def test_an_argument_that_occurs_twice_is_shown_twice() -> None:
    store, app = await office()
    question = await ask(store, "Shop assistant", call("refund", '{"order": 7, "amount": 1, "amount": 900}'))
    assert "approve" not in question.allowed
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}")
        assert '{"order": 7, "amount": 1, "amount": 900}' in reader.page.text
        await reader.open(f"/questions/{question.id}/edit")
        assert "the key 'amount' occurs twice" in reader.page.text
        await reader.press("Check the change", json='{"order": 7, "amount": 2, "amount": 3}')
        assert "the key 'amount' occurs twice" in reader.page.text
        assert not any("Approve with changes" in label for form in reader.page.forms for label in form.buttons)


async def test_lists_grow_and_shrink_without_a_script() -> None:
    store, app = await office()
    question = await ask_order(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Add an item")
        form, _ = reader.page.button("Check the change")
        assert form.values["n:/lines"] == "3" and form.values["v:/lines/2/article"] == ""
        form.values |= {"v:/lines/2/article": "plug", "v:/lines/2/count": "4"}
        form.buttons["Remove item 1"] = ("do", "remove:/lines/0")
        await reader.press("Remove item 1")
        await reader.press(
            "Check the change",
            **{
                "v:/to/city": "Gdansk",
                "v:/speed": '"fast"',
                "v:/gift": "true",
                "s:/note": "value",
                "v:/note": "a\r\nb",
            },
        )
        await reader.press("Approve with changes")
        assert json.loads(bytes((await runs_on(store, question)).args)) == {
            "lines": [{"article": "bulb", "count": 12}, {"article": "plug", "count": 4}],
            "to": {"street": "Rua 1", "city": "Gdansk"},
            "speed": "fast",
            "gift": True,
            "note": "a\nb",
        }


async def test_edit_as_json_and_back() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("as JSON", **{"v:/amount": "89.90"})
        form, _ = reader.page.button("Check the change")
        assert '"amount": 89.90' in form.values["json"] and "\\u202e" in form.values["json"]
        await reader.press("as a form")
        form, _ = reader.page.button("Check the change")
        assert form.values["v:/amount"] == "89.90" and form.values["v:/memo"].endswith("\u202e")
        await reader.press("as JSON")
        await reader.press("Check the change", json='{"order": 1, "amount": ')
        assert "This is not JSON" in reader.page.text
        await reader.press("Check the change", json='{"order": 1, "amount": 2, "other": 3}')
        assert "there is no such argument" in reader.page.text
        await reader.press("Check the change", json='{"order": 1, "amount": 2.50}')
        await reader.press("Approve with changes", read="1")
        assert json.loads(bytes((await runs_on(store, question)).args))["amount"] == 2.5


async def test_an_answer_in_the_tools_place() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/respond")
        await reader.press("Send the answer", **{"v:": "It was paid by hand."})
        assert "Answered by you" in reader.page.text
        assert json.loads(bytes((await runs_on(store, question)).output)) == "It was paid by hand."


@pytest.mark.parametrize("answer", ["", "  "])
async def test_an_empty_answer_is_not_sent(answer: str) -> None:
    store, app = await office()

    @function_tool
    async def name_it(ctx: ToolContext[Any]) -> str:
        """Ask for a name."""
        return str(await ctx.ask("What shall it be called?"))

    clerk: Agent[Any] = Agent("Clerk", tools=[name_it], model=ScriptedModel([call("name_it"), "Done."]))
    [item] = (await Runner.run(clerk, "go", store=store)).interruptions
    async with Reader(app) as reader:
        await reader.open(f"/questions/{item.id}")
        await reader.press("Send the answer", **{"v:": answer})
        assert reader.answer.status_code == 422 and "This needs a value." in reader.page.text
        assert (await store.question(item.id)).verdict is None


async def test_a_question_for_data_has_a_form() -> None:
    store, app = await office()
    question = (await ask_everything(store))["ship"]
    async with Reader(app) as reader:
        text = (await reader.open(f"/questions/{question.id}")).text
        assert "Which warehouse should order 1038 ship from?" in text
        await reader.press(
            "Send the answer",
            **{"v:/place": '"Bergen"', "s:/express": "value", "v:/express": "true", "s:/note": "null"},
        )
        assert "Answered by you" in reader.page.text
        answer = json.loads(bytes((await runs_on(store, question)).value))
        assert answer == {"place": "Bergen", "express": True, "note": None}


async def test_nothing_is_chosen_for_the_person() -> None:
    store, app = await office()
    question = (await ask_everything(store))["ship"]
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}")
        await reader.press("Send the answer")
        assert reader.answer.status_code == 422 and "Choose one." in reader.page.text
        assert (await settled(store, question)).verdict is None


async def test_an_answer_that_does_not_fit_comes_back_with_the_reason() -> None:
    store, app = await office()
    question = (await ask_everything(store))["ship"]
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}")
        await reader.press("Send the answer", **{"v:/place": '"Atlantis"'})
        assert reader.answer.status_code == 422 and "does not fit what was asked" in reader.page.text
        assert (await settled(store, question)).verdict is None


@pytest.mark.parametrize("number", ["1e400", "-1e999", "1" * 5000])
async def test_a_number_that_nothing_can_hold_comes_back_with_the_reason(number: str) -> None:
    store, app = await office()

    @function_tool
    async def rate(ctx: ToolContext[Any]) -> str:
        """Ask for the rate."""
        return str(await ctx.ask("Which rate?", schema=float))

    clerk: Agent[Any] = Agent("Clerk", tools=[rate], model=ScriptedModel([call("rate"), "Done."]))
    [item] = (await Runner.run(clerk, "go", store=store)).interruptions
    async with Reader(app) as reader:
        await reader.open(f"/questions/{item.id}")
        await reader.press("Send the answer", **{"v:": number})
        assert "This answer is not JSON" in reader.page.text or "does not fit" in reader.page.text
        assert (await store.question(item.id)).verdict is None
        await reader.press("Send the answer", **{"v:": "1.5"})
        assert (await store.question(item.id)).verdict == "respond"


@pytest.mark.parametrize("how", ["It happened", "Run it again", "Give it up"])
async def test_a_doubt_has_three_answers(how: str) -> None:
    store, app = await office()
    question = (await ask_everything(store))["payout"]
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{question.id}")
        assert how in page.text and "Evidence" in page.text and "The connection to the bank was lost" in page.text
        assert not any(form.buttons for form in page.forms if "/decision" in form.action)
        step = {"It happened": "respond", "Run it again": "again", "Give it up": "reject"}[how]
        await reader.open(f"/questions/{question.id}/{step}")
        if step == "respond":
            await reader.press("Record the outcome", **{"v:": "paid, reference 77"})
        else:
            await reader.press(how)
        assert (await settled(store, question)).verdict == {"respond": "respond", "again": "approve"}.get(step, step)


async def test_a_grant_is_given_after_its_terms_were_shown_in_words() -> None:
    store, app = await office()
    question = await ask_refund(store, memo="lamp")
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/always")
        await reader.fill("See it in words", {"how:memo": "any", "uses": "3", "end": "hour"})
        assert (
            "every later call of refund by Shop assistant in this run with exactly order = 1042 and amount = 899.0"
            in (reader.page.text)
        )
        assert "up to 3 times, until" in reader.page.text
        assert (await settled(store, question)).verdict is None
        await reader.press("Approve and give the grant")
        assert "Approved by you" in reader.page.text
        [grant] = (await store.grants()).items
        assert (grant.by, grant.max_uses, grant.pins) == ("ann", 3, {"order": 1042, "amount": 899.0})
        text = (await reader.open("/grants")).text
        assert "Given by ann" in text and "up to 3 times" in text
        await reader.press("Revoke")
        assert (await store.grants()).items == []
        assert "revoked by ann" in (await reader.open("/grants?all=1")).text


async def test_a_grant_over_all_runs_is_given_with_ranges_after_its_terms_were_shown_in_words() -> None:
    store, app = await office()
    for amount, verdict in ((900, Approve()), (1, Reject("No.")), (901, Approve())):
        one = await ask(store, "Shop assistant", call("refund", {"order": 7, "amount": amount, "memo": "x"}))
        await store.decide(one.id, verdict, by="bob", digest=one.digest)
    question = await ask_refund(store, memo="lamp")
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/always")
        form = {"runs": "all", "how:memo": "any", "how:order": "any", "how:amount": "at_most", "limit:amount": "900"}
        await reader.fill("See it in words", {**form, "limit:amount": "much"})
        assert "is a number" in reader.page.text and "Approve and give the grant" not in reader.page.text
        await reader.fill("See it in words", {**form, "uses": "3", "end": "hour"})
        words = "every later call of refund by Shop assistant in all of its runs, where amount is at most 900"
        assert f"{words}, up to 3 times, until" in reader.page.text
        assert "it would have covered 2: people approved 1, edited 0 and rejected 1 of them" in reader.page.text
        assert (await settled(store, question)).verdict is None
        await reader.press("Approve and give the grant")
        assert "Approved by you" in reader.page.text
        [grant] = (await store.standing_grants()).items
        assert (grant.by, grant.max_uses, grant.where) == ("ann", 3, {"amount": {"at_most": 900}})
        assert (await store.grants()).items == []
        other = agent("Shop assistant", call("refund", {"order": 7, "amount": 900, "memo": "x"}))
        result = await Runner.run(other, "Refund it.", store=store)
        [grant] = (await store.standing_grants()).items
        assert (result.interruptions, grant.used) == ([], 1)
        assert "a grant" in (await reader.open(f"/runs/{result.run_id}")).text
        text = (await reader.open("/grants")).text
        assert words in text and "Given by ann" in text and "used 1 of 3 times" in text
        assert words not in (await reader.open("/grants?show=run")).text
        assert words not in (await reader.open("/grants?tool=other")).text
        await reader.open("/grants")
        await reader.press("Revoke")
        assert (await store.standing_grants()).items == []
        assert "revoked by ann" in (await reader.open("/grants?all=1")).text


async def test_a_range_is_for_all_runs_and_a_secret_for_none_of_them() -> None:
    store, app = await office()
    question = await ask_refund(store, memo="lamp")
    secret = await ask(store, "Ops", [call("use_key", {"key": "hunter2", "where": "db"})])
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/always")
        await reader.fill("See it in words", {"how:amount": "at_most", "limit:amount": "900"})
        assert "Ranges are for all runs" in reader.page.text and "and give the grant" not in reader.page.text
        await reader.open(f"/questions/{secret.id}/always")
        await reader.fill("See it in words", {"runs": "all"})
        assert "is masked" in reader.page.text and "and give the grant" not in reader.page.text
        await reader.fill("See it in words", {"runs": "all", "how:key": "any"})
        assert "and give the grant" in reader.page.text


async def test_a_reviewer_gives_no_grants_over_all_runs() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app, "ben") as reader:
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        await reader.send(form.action, form.values | {"type": "approve", "grant": "1", "runs": "all"})
        assert reader.answer.status_code == 403 and (await settled(store, question)).verdict is None
        assert (await store.standing_grants(revoked=True)).items == []
        await reader.send("/grants/all-runs/always_1/revoke", {"csrf": form.values["csrf"]})
        assert reader.answer.status_code == 403


@pytest.mark.parametrize("later", [0, 600, 1200, 3600, 7200])
async def test_a_grant_ends_when_its_words_said_however_late_it_is_given(later: int) -> None:
    now = 1_790_000_000
    store = MemoryStore(clock=lambda: now)
    await hire(store)
    question = await ask_refund(store)
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/always")
        await reader.fill("See it in words", {"end": "hour"})
        until, now = (now + 3600) * 1000, now + later
        await reader.press("Approve and give the grant")
        if later < 3600:
            assert [grant.until for grant in (await store.grants()).items] == [until]
        else:
            assert reader.answer.status_code == 422 and "see the terms in words again" in reader.page.text
            assert (await settled(store, question)).verdict is None and (await store.grants()).items == []


async def test_terms_that_make_no_sense_are_refused() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/always")
        await reader.fill("See it in words", {"uses": "-1"})
        assert reader.answer.status_code == 422 and "whole number from 1" in reader.page.text
        await reader.open(f"/questions/{question.id}/always")
        await reader.fill("See it in words", {"uses": "9" * 5000})
        assert reader.answer.status_code == 422 and "whole number from 1" in reader.page.text


async def test_a_reviewer_gives_no_grants() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app, "ben") as reader:
        assert "Always…" not in (await reader.open(f"/questions/{question.id}")).text
        await reader.open(f"/questions/{question.id}/always")
        assert reader.answer.status_code == 403
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        await reader.send(form.action, form.values | {"type": "approve", "grant": "1"})
        assert reader.answer.status_code == 403 and (await settled(store, question)).verdict is None


# -- states ------------------------------------------------------------------------------------------------------------


async def test_who_was_first_and_what_they_decided() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as ann, Reader(app, "ben") as ben:
        await ann.open(f"/questions/{question.id}/approve")
        await ben.open(f"/questions/{question.id}/reject")
        await ben.press("Reject", message="no")
        await ann.press("Yes, approve")
        assert ann.answer.status_code == 409
        assert "Somebody was first" in ann.page.text and "Rejected by ben" in ann.page.text
        assert (await settled(store, question)).verdict == "reject"
        assert "Rejected by ben" in (await ann.open(f"/questions/{question.id}?part=notice")).text


async def test_the_same_decision_twice_is_no_conflict() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        for _ in range(2):
            await reader.send(form.action, form.values | {"type": "approve"})
            assert reader.answer.status_code == 200


async def test_a_decision_about_something_else_changes_nothing() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        await reader.send(form.action, form.values | {"type": "approve", "digest": "0" * 64})
        assert reader.answer.status_code == 412 and "This changed while you looked" in reader.page.text
        await reader.send(form.action, {name: value for name, value in form.values.items() if name != "digest"})
        assert reader.answer.status_code in (412, 422)
        assert (await settled(store, question)).verdict is None


async def test_a_question_that_was_replaced_shows_the_difference() -> None:
    from tests.store.support import Script, asked, js, replied

    store, app = await office()
    script = await Script(store).begin()
    await script.write(replied("c1", arguments='{"to":"ann"}'), asked("c1", "q1"))
    async with Reader(app) as reader:
        await reader.open("/questions/q1")
        await script.write(asked("c1", "q2", replaces="q1", args=js({"to": "mallory"})))
        await reader.press("Approve")
        assert reader.answer.status_code == 412 and "This changed while you looked" in reader.page.text
        assert '- "to": "ann"' in reader.page.text and '+ "to": "mallory"' in reader.page.text
        assert "/questions/q2" in " ".join(reader.page.links())
        assert "See the question that took its place" in (await reader.open("/questions/q1")).text


async def test_not_yours_to_decide() -> None:
    store, app = await office()
    mine = await ask_refund(store, by="ann")
    theirs = (await ask_everything(store))["run_command"]
    for name, question, words in (
        ("ann", mine, "You asked for this run. Somebody else must decide in it."),
        ("ben", theirs, "This is for ann or the group release to decide."),
        ("vera", theirs, "You are signed in as viewer, and may look but not decide."),
    ):
        async with Reader(app, name) as reader:
            text = (await reader.open(f"/questions/{question.id}")).text
            assert words in text and "Not yours to decide" in text
            for step in ("edit", "reject", "respond"):
                await reader.open(f"/questions/{question.id}/{step}")
                assert reader.answer.status_code == 403
            csrf = re.search(r'name="csrf" value="([^"]+)"', reader.page.source)
            assert csrf is not None
            fields = {"csrf": csrf[1], "digest": question.digest, "type": "approve"}
            await reader.send(f"/questions/{question.id}/decision", fields)
            assert reader.answer.status_code == 403
        assert (await settled(store, question)).verdict is None
    async with Reader(app, "otto") as reader:  # is in the group
        await reader.open(f"/questions/{theirs.id}")
        await reader.press("Approve")
        assert "Approved by you" in reader.page.text


async def test_things_that_are_not_there_are_pages_too() -> None:
    _, app = await office()
    async with Reader(app) as reader:
        for path in ("/questions/none", "/runs/none", "/questions/none/edit", "/questions/none/nonsense"):
            page = await reader.open(path)
            assert reader.answer.status_code == 404 and "There is nothing here" in page.text, path


@pytest.mark.parametrize("path", ["/nothing", "/questions/q/a/b", "/runs/r/none", "/static/none.js", "/sign-out"])
async def test_an_unknown_address_is_a_page_for_a_browser_and_a_problem_for_a_program(path: str) -> None:
    _, app = await office()
    async with Reader(app) as reader:
        browser = await reader.client.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        program = await reader.client.get(path, headers={"Accept": "application/json"})
    assert browser.status_code == program.status_code in (404, 405)
    assert browser.headers["content-type"].startswith("text/html")
    assert "There is nothing here" in browser.text and 'href="/questions"' in browser.text
    assert browser.headers["content-security-policy"] == POLICY
    assert program.headers["content-type"] == "application/problem+json"


async def test_an_unknown_address_of_the_api_is_a_problem_for_a_browser_too() -> None:
    _, app = await office()
    async with Reader(app) as reader:
        answer = await reader.client.get("/api/nothing", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/questions/", "/questions"),
        ("/runs/?status=done&agent=%C3%A9", "/runs?status=done&agent=%C3%A9"),
        ("//evil.example/", "/evil.example"),
        ("/%5Cevil.example/", "/%5Cevil.example"),
        ("/a%0D%0Ab/", "/a%0D%0Ab"),
    ],
)
async def test_a_slash_at_the_end_leads_to_this_host_whatever_the_host_header_says(path: str, location: str) -> None:
    _, app = await office()
    async with Reader(app) as reader:
        request = httpx.Request("GET", "http://localhost/", headers={"Host": "evil.example"})
        request.url = httpx.URL("http://localhost").copy_with(raw_path=path.encode())
        answer = await reader.client.send(request, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, location)


async def test_a_slash_at_the_end_keeps_the_prefix() -> None:
    _, app = await office()
    outer = FastAPI()
    outer.mount("/assentry", app)
    async with Reader(outer, base="/assentry") as reader:
        answer = await reader.client.get("/assentry/runs/", follow_redirects=False)
    assert answer.headers["location"] == "/assentry/runs"


async def test_nothing_is_decided_by_get_or_without_the_forms_token() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        form, _ = (await reader.open(f"/questions/{question.id}/approve")).button("Yes, approve")
        good = form.values | {"type": "approve"}
        answer = await reader.client.get(f"/questions/{question.id}/decision", params=good)
        assert answer.status_code in (404, 405)
        for bad in ({**good, "csrf": "x"}, {key: value for key, value in good.items() if key != "csrf"}):
            await reader.send(form.action, bad)
            assert reader.answer.status_code == 403
        for path in ("edit", "respond", "always"):
            await reader.send(f"/questions/{question.id}/{path}", {"do": "send", "v:": "x", "digest": question.digest})
            assert reader.answer.status_code == 403
        assert (await settled(store, question)).verdict is None


async def test_the_pages_work_under_a_prefix() -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask_refund(store)
    outer = FastAPI()
    outer.mount("/desk", assentry.inbox.app(store))
    async with Reader(outer, base="/desk") as reader:
        page = await reader.open(f"/questions/{question.id}")
        assert [link for link in page.links() if not link.startswith(("/desk", "#"))] == []
        assert '/desk/static/inbox.css"' in page.source
        assert (await reader.client.get("/desk/static/inbox.css")).status_code == 200
        await reader.open(f"/questions/{question.id}/approve")
        await reader.press("Yes, approve")
        assert "Approved by you" in reader.page.text


# -- runs --------------------------------------------------------------------------------------------------------------


async def test_a_run_has_a_timeline() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        assert "Shop assistant" in (await reader.open("/runs")).text
        text = (await reader.open(f"/runs/{question.run}")).text
        for words in (
            "Shop assistant began",
            "User wrote",
            "look_up ran",
            "allowed by rule",
            "refund waits",
        ):
            assert words in text
        await store.decide(question.id, Reject("too much"), by="ben", digest=question.digest)
        text = (await reader.open(f"/runs/{question.run}?part=timeline")).text
        assert "refund was rejected by ben" in text and "too much" in text
        everything = (await reader.open(f"/runs/{question.run}?all=1")).text
        assert "defined" in everything and "look_up was allowed by rule" in everything


async def test_a_fork_says_what_it_was_forked_from_and_who_proposed_its_calls() -> None:
    store, app = await office()
    item = {"type": "function_call", "name": "refund", "call_id": "p1", "arguments": "{}"}
    talk = [{"role": "user", "content": "Refund it"}, {"role": "assistant", "content": "I look."}]
    facts: list[f.AnyFact] = [
        f.Began("Shop assistant", 5, "t:2", stored=True, thread="t", forked="t:1@7"),
        f.Said(Raw(msgspec.json.encode(talk))),
        f.Replied(Raw(msgspec.json.encode([item])), calls=(f.Call("c1", "refund"),), note=f.COPIED_REPLY),
        f.Cancelled("update_state"),
    ]
    await store.append(anew("t:2", facts, 1000))
    async with Reader(app) as reader:
        text = (await reader.open("/runs/t:2")).text
    for words in ("began, forked from t:1@7", "User brought an earlier conversation", "The fork proposed refund"):
        assert words in text


async def test_a_call_that_nobody_was_asked_about_is_one_moment_of_a_timeline() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app) as reader:
        text = (await reader.open(f"/runs/{question.run}")).text
        assert re.search(r"look_up ran( in \d+ m?s)? allowed by rule", text)  # no time in the run's first millisecond
        assert "look_up started" not in text
        assert "look_up started" in (await reader.open(f"/runs/{question.run}?all=1")).text


async def test_every_page_says_how_many_questions_wait() -> None:
    store, app = await office()
    async with Reader(app) as reader:
        assert "Questions Runs" in (await reader.open("/runs")).text
        question = await ask_refund(store)
        await ask_order(store)
        for path in ("/questions", "/questions?q=zzz", f"/questions/{question.id}/edit", "/runs", "/grants", "/audit"):
            assert "Questions 2 Runs" in (await reader.open(path)).text, path
        assert (await reader.open("/questions?part=count")).text == "2"


async def test_filters_that_fit_nothing_do_not_say_that_all_is_decided() -> None:
    store, app = await office()
    await ask_refund(store)
    async with Reader(app) as reader:
        text = (await reader.open("/questions?q=zzz")).text
        assert "No matches." in text and "All is decided" not in text


async def test_a_title_has_no_secret_since_browsers_keep_titles() -> None:
    store, app = await office()
    question = await ask(store, "Ops", call("use_key", {"key": "hunter2", "where": "db"}))
    async with Reader(app) as reader:
        source = (await reader.open(f"/questions/{question.id}")).source
        assert "hunter2" in source and "hunter2" not in source[: source.index("</title>")]


async def test_a_settled_question_does_not_say_what_will_happen() -> None:
    store, app = await office()
    question = await ask_order(store)
    async with Reader(app) as reader:
        assert "What will happen" in (await reader.open(f"/questions/{question.id}")).text
        await store.decide(question.id, Reject("no"), by="ben", digest=question.digest)
        text = (await reader.open(f"/questions/{question.id}")).text
        assert "What was asked" in text and "If you approve" not in text


async def test_an_edited_question_shows_what_runs_instead_and_so_does_the_timeline() -> None:
    store, app = await office()
    question = await ask_refund(store)
    given = Edit({"order": 1042, "amount": 89.9, "memo": "<b>lamp</b>"}, note="What was paid.")
    await store.decide(question.id, given, by="ben", digest=question.digest)
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{question.id}")
        text = page.text
        zone = text[text.index("What runs instead") : text.index("What was proposed")]
        assert '- "amount": 899.0' in re.sub(r"\s+", " ", zone) and '+ "amount": 89.9' in re.sub(r"\s+", " ", zone)
        assert "What was paid." in zone and "<b>lamp" not in page.source
        shown = (await reader.open(f"/runs/{question.run}")).text
        assert "was edited and approved by ben" in shown
        assert 'It runs with {"order":1042,"amount":89.9,"memo":"<b>lamp</b>"} · What was paid.' in shown


@pytest.mark.parametrize(
    ("given", "title", "words"),
    [
        (Approve("Seen with the till."), "The note to the approval", "Seen with the till."),
        (Reject("Refund 89.90."), "The reason for the rejection", "Refund 89.90."),
        (Respond({"refunded": "by hand"}), "The answer", "by hand"),
        (Approve(), None, ""),
        (Reject(), None, ""),
    ],
)
async def test_a_settled_question_shows_the_words_of_its_decision(given: Any, title: str | None, words: str) -> None:
    store, app = await office()
    question = await ask_refund(store)
    await store.decide(question.id, given, by="ben", digest=question.digest)
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{question.id}")
        text = page.text
        assert ("z-decided" in page.source) == (title is not None)
        if title is not None:
            assert words in text[text.index(title) : text.index("What was asked")]


async def test_a_changed_secret_is_masked_for_who_may_not_see_it() -> None:
    @function_tool(needs_approval=True)
    async def unlock(key: Secret[str]) -> str:
        """Open a door."""
        return "open"

    store, app = await office()
    porter: Agent[Any] = Agent(
        "Porter", tools=[unlock], model=ScriptedModel([call("unlock", {"key": "swordfish"}), "."])
    )
    [item] = (await Runner.run(porter, "go", store=store)).interruptions
    question = await store.question(item.id)
    await store.decide(question.id, Edit({"key": "marlinspike"}), by="ben", digest=question.digest)
    async with Reader(app) as ann, Reader(app, "vera") as viewer:
        assert "marlinspike" in (await ann.open(f"/questions/{question.id}")).text
        page = await viewer.open(f"/questions/{question.id}")
        assert "What was changed is masked for you." in page.text
        assert "marlinspike" not in page.source and "swordfish" not in page.source
        assert "marlinspike" not in (await viewer.open(f"/runs/{question.run}")).source


async def test_without_the_script_no_keys_are_named() -> None:
    style = (STATIC / "inbox.css").read_text()
    assert "html:not(.js) :is(kbd, .with-keys) { display: none }" in style
    store, app = await office()
    await ask_refund(store)
    async with Reader(app) as reader:
        source = (await reader.open("/questions")).source
        assert re.search(r'Choose one\. <span class="with-keys">.*</span>', source)


async def test_a_form_begins_with_what_must_be_given_and_says_what_is_so_otherwise() -> None:
    store, app = await office()
    question = await ask(store, "Post", call("ship", {"order": 1038}))
    async with Reader(app) as reader:
        text = (await reader.open(f"/questions/{question.id}")).text
        assert text.index("place") < text.index("express") < text.index("note")
        assert "false if left out" in text


async def test_runs_and_decisions_come_newest_first_in_every_store(tmp_path: Path) -> None:
    ticks = count(1_790_000_000)
    for store in (MemoryStore(clock=lambda: next(ticks)), SQLiteStore(tmp_path / "a.db")):
        await hire(store)
        made = [await ask(store, "Writer", call("write", {"text": f"number {n}"})) for n in range(55)]
        made = [await store.decide(each.id, Approve(), by="ben", digest=each.digest) for each in made]
        first = await store.questions(settled=True, newest=True, limit=50)
        rest = await store.questions(settled=True, newest=True, limit=50, after=first.next)
        newest = sorted(made, key=lambda each: (each.decided, each.id), reverse=True)
        assert [each.id for each in [*first.items, *rest.items]] == [each.id for each in newest]
        began = sorted((await store.runs(limit=100)).items, key=lambda each: (each.began, each.id), reverse=True)
        assert [each.id for each in (await store.runs(newest=True, limit=3)).items] == [each.id for each in began[:3]]
        async with Reader(make_app(store)) as reader:
            page = await reader.open("/audit")
            assert "number 54" in page.text and "number 4 " not in page.text
            assert "number 3" in (await reader.open(next(link for link in page.links() if "after=" in link))).text
        await store.close()


async def test_secrets_are_masked_for_who_may_not_decide() -> None:
    store, app = await office()
    question = await ask(store, "Ops", ["The key is hunter2.", call("use_key", {"key": "hunter2", "where": "db"})])
    async with Reader(app) as ann, Reader(app, "vera") as vera:
        assert "hunter2" in (await ann.open(f"/questions/{question.id}")).text
        assert "hunter2" not in (await ann.open("/questions")).source  # lists are masked for everybody
        for path in ("/questions", f"/questions/{question.id}", f"/runs/{question.run}", "/audit"):
            assert "hunter2" not in (await vera.open(path)).source, path
        assert "hunter2" not in (await vera.client.get(f"/questions/{question.id}/arguments.json")).text
        await ann.open(f"/questions/{question.id}/always")
        await ann.press("See it in words")
        await ann.press("Approve and give the grant")
        assert "hunter2" in (await ann.open("/grants")).text and "hunter2" not in (await vera.open("/grants")).source


async def test_a_form_says_nothing_of_its_own_size_that_is_believed() -> None:
    form = SchemaForm({"type": "array", "items": {"type": "array", "items": {"type": "string"}}})
    sent = {"n:": "99999", "n:/1": "1", "v:/1/0": "a", "v:/1/1": "b", "n:/0": "9" * 5000, "n:/x": "1", "n:/100000": "1"}
    assert form.read(sent) == ([[], ["a"]], {})
    assert apply_button([1], form, f"remove:/{'9' * 5000}") == [1]
    deep = {f"o:{'/a' * depth}": "1" for depth in range(2000)}
    assert form.read(deep)[1] == {}


async def test_who_may_not_decide_has_no_form_read() -> None:
    store, app = await office()
    question = await ask_refund(store)
    async with Reader(app, "vera") as reader:
        page = await reader.open(f"/questions/{question.id}")
        sent = {"csrf": page.forms[0].values["csrf"], "n:": "9" * 5000}
        await reader.send(f"/questions/{question.id}/respond", sent)
        assert reader.answer.status_code == 403


# -- an agent that means harm ------------------------------------------------------------------------------------------

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}\u202e\u200b\x1b[31mred\x1b[0m</textarea><u>'


async def test_html_and_hidden_characters_are_text_on_every_page() -> None:
    @function_tool(needs_approval=True, preview=lambda ctx, args: f"Say {EVIL}")
    async def act(text: str) -> str:
        return "done"

    store, app = await office()
    model = ScriptedModel([[f"I say {EVIL}", call("act", {"text": EVIL})], "Done."])
    result = await Runner.run(Agent(name=f"A {EVIL}", tools=[act], model=model), f"Please {EVIL}", store=store)
    id, run = result.interruptions[0].id, (await store.question(result.interruptions[0].id)).run
    steps = [f"/questions/{id}/{step}" for step in ("edit", "reject", "respond", "always")]
    async with Reader(app) as reader:
        for path in (
            "/questions",
            f"/questions/{id}",
            *steps,
            "/runs",
            f"/runs/{run}",
            f"/runs/{run}?all=1",
            "/audit",
            f"/questions/many?id={id}",
        ):
            page = await reader.open(path)
            assert reader.answer.status_code == 200, path
            scripts = [given for tag, given in page.tags if tag == "script"]
            assert scripts and all(each["src"].startswith("/static/") for each in scripts), path
            assert not any("onerror" in given or tag == "img" for tag, given in page.tags), path
            assert "onerror=alert(2)>49" not in page.source, path  # no template in a template
            assert 'data-at="' not in page.text, path  # no element in an attribute
            outside = re.sub(r'(?s)<textarea.*?</textarea>|value="[^"]*"', "", page.source)
            assert not re.search(f"[{HIDDEN}]", outside), path
        text = (await reader.open(f"/questions/{id}")).text
        assert "U+202E right-to-left override" in text and "U+001B escape" in text and "U+200B zero width space" in text


async def test_a_string_and_a_number_do_not_look_the_same() -> None:
    store, app = await office()
    question = await ask(store, "Writer", call("write", {"text": "1042"}))
    async with Reader(app) as reader:
        assert '"1042"' in (await reader.open(f"/questions/{question.id}")).text.replace('" 1042 "', '"1042"')


async def test_an_argument_of_5_mb_is_shown_whole_with_its_size() -> None:
    store, app = await office()
    text = "lorem ipsum " * 420_000 + "THE END"
    question = await ask(store, "Writer", call("write", {"text": text}))
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{question.id}")
        assert "5.0 MB" in page.text and "THE END" in page.source and f"{len(text):,} characters" in page.text
        whole = await reader.client.get(f"/questions/{question.id}/arguments.json")
        assert whole.headers["content-type"] == "application/json" and whole.json() == {"text": text}
        assert len((await reader.open("/questions")).source) < 10_000
        await reader.open(f"/questions/{question.id}")
        await reader.press("Approve")
        assert "Approved by you" in reader.page.text


async def test_millions_of_hidden_characters_cost_little() -> None:
    assert len(spell_out_hidden("\u202e\u200b" * 500_000, lines=True)) < 7_000_000
    assert spell_out_hidden("a" + "\u200b" * 1_000_000) == 'a<u class="ch">U+200B zero width space ×1,000,000</u>'


def test_the_hidden_characters_are_those_of_unicode() -> None:
    known = re.compile(f"[{HIDDEN}]")
    for number in range(0x110000):
        char = chr(number)
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Zs") and char not in " \n\t":
            assert known.match(char), hex(number)
    assert not any(known.match(char) for char in map(chr, range(0x20, 0x7F)))
    assert not any(known.match(char) for char in "äßéñ漢字שלוםعربی😀")


async def test_a_schema_of_300_fields_can_be_edited() -> None:
    names = [f"field_{n}" for n in range(300)]
    scope: dict[str, Any] = {}
    exec(f"async def many({', '.join(f'{name}: int = 0' for name in names)}) -> str:\n    return 'done'", scope)
    store, app = await office()
    tool = function_tool(needs_approval=True)(scope["many"])
    model = ScriptedModel([call("many", {"field_7": 7}), "Done."])
    result = await Runner.run(Agent(name="Wide", tools=[tool], model=model), "go", store=store)
    question = await store.question(result.interruptions[0].id)
    async with Reader(app) as reader:
        await reader.open(f"/questions/{question.id}/edit")
        await reader.press("Check the change", **{"v:/field_299": "1"})
        assert '+ "field_299": 1' in reader.page.text
        await reader.press("Approve with changes")
        args = json.loads(bytes((await runs_on(store, question)).args))
        assert len(args) == 300 and args["field_299"] == 1 and args["field_7"] == 7


async def test_arguments_that_are_no_json_are_shown_as_they_are() -> None:
    store, app = await office()
    question = await ask(store, "Writer", call("write", '{"text": "<b>unfinished'))
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{question.id}")
        assert "not JSON" in page.text and "&lt;b&gt;unfinished" in page.source
        assert not any(label.startswith("Approve") for form in page.forms for label in form.buttons)


# -- the page itself ---------------------------------------------------------------------------------------------------


async def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline() -> None:
    store, app = await office()
    made = await ask_everything(store)
    async with Reader(app) as reader:
        paths = ["/questions", "/runs", "/grants", "/audit", "/questions/none", "/sign-in"]
        paths += [f"/questions/{each.id}" for each in made.values()]
        for path in paths:
            page = await reader.open(path)
            assert reader.answer.headers["content-security-policy"] == (
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
                "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
            )
            for tag, given in page.tags:
                assert tag not in ("style", "base", "iframe", "object"), path
                assert not any(name == "style" or name.startswith("on") for name in given), path
                assert not re.match(r"(?i)(https?:)?//|javascript:|data:", given.get("href", given.get("src", ""))), (
                    path
                )


async def test_a_typical_question_is_under_100_kb_in_all() -> None:
    store, app = await office()
    question = (await ask_everything(store))["refund"]
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{question.id}")
        files = [f"/static/{each}" for each in ("inbox.css", "mark.svg")]
        files += [f"/static/{each}.js" for each in ("inbox", "page", "hold", "seen", "many", "notify", "times")]
        sizes = [len((await reader.client.get(path)).content) for path in files]
        assert len(page.source.encode()) + sum(sizes) < 100_000
    assert {f"/static/{each.name}" for each in STATIC.iterdir()} >= set(files)


def test_templates_and_static_files_are_in_the_package() -> None:
    folder = Path(assentry.inbox.__file__).parent
    assert len(list((folder / "templates").glob("*.html"))) > 15
    text = "".join(path.read_text("utf-8") for path in (folder / "templates").glob("*.html"))
    assert "| safe" not in text and "|safe" not in text and "autoescape" not in text


async def test_the_script_and_style_may_not_be_sniffed() -> None:
    _, app = await office()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for name in ("inbox.css", "inbox.js"):
            assert (await client.get(f"/static/{name}")).headers["x-content-type-options"] == "nosniff"


async def test_a_page_counts_the_questions_of_a_list_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store, counted = MemoryStore(), list[dict[str, Any]]()
    await hire(store)
    await ask_order(store)
    count = store.count_questions

    async def count_questions(**filters: Any) -> int:
        counted.append(filters)
        return await count(**filters)

    monkeypatch.setattr(store, "count_questions", count_questions)
    async with Reader(make_app(store)) as ann:
        counted.clear()
        await ann.open("/questions")
    assert counted and all(counted.count(each) == 1 for each in counted)
