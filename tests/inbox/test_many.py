"""The pages for many questions at once, without any script: the table, one decision, and those who mean harm."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI

from assentry import Agent, Approve, Edit, Reject, Runner, function_tool
from assentry.core import facts as f
from assentry.core.hidden import HIDDEN
from assentry.errors import StoreFailed
from assentry.inbox.headline import shown_hash
from assentry.inbox.many import MOST_AT_ONCE, table_of
from assentry.store import MemoryStore, Store
from assentry.store.record import Question
from assentry.testing import FakeClock, ScriptedModel, call
from assentry.testing.store_checks.draft import asking, put_asking
from tests.inbox.batch import ask_credits, decision_form, make_credit, open_table, table_address
from tests.inbox.office import ask, ask_everything, hire, make_app
from tests.inbox.reader import Page, Reader
from tests.inbox.stores import cheap_hashes, clock

__all__ = ["cheap_hashes", "clock"]  # fixtures
pytestmark = pytest.mark.usefixtures("cheap_hashes")


async def office(store: Store | None = None) -> tuple[Store, FastAPI]:
    store = store or MemoryStore()
    await hire(store)
    return store, make_app(store)


async def ends(store: Store, questions: list[Question]) -> list[tuple[str | None, str | None]]:
    found = [await store.question(each.id) for each in questions]
    return [(each.verdict, each.by) for each in found]


def ticked(page: Page) -> set[str]:
    return {name.removeprefix("q:") for name in decision_form(page).values if name.startswith("q:")}


# -- from the list ---------------------------------------------------------------------------------


async def test_the_rows_of_the_list_have_a_box_and_keep_their_link() -> None:
    store, app = await office()
    made = await ask_everything(store)
    async with Reader(app) as reader:
        page = await reader.open("/questions?tool=refund")
        boxes = [given for tag, given in page.tags if tag == "input" and given.get("type") == "checkbox"]
        assert [(each["name"], each["value"], each["form"]) for each in boxes] == [("id", made["refund"].id, "many")]
        assert f"/questions/{made['refund'].id}?tool=refund" in page.links()
        form = page.ids["many"]
        assert (form.method, form.values) == ("get", {"tool": "refund"})
        page = await reader.open("/questions")
        named = {each["value"] for tag, each in page.tags if tag == "input" and each.get("type") == "checkbox"}
        assert named == {each.id for tool, each in made.items() if tool not in ("ship", "payout")}
    async with Reader(app, "vera") as reader:
        page = await reader.open("/questions")
        assert not any(given.get("type") == "checkbox" for tag, given in page.tags) and "many" not in page.ids


async def test_all_like_one_are_found_from_its_page() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 20, 30)
    await ask_credits(store, 40, tool=make_credit("Something else."))
    await ask_credits(store, 50, by="ann")
    await store.decide(asked[2].id, Reject(), by="otto", digest=asked[2].digest)
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{asked[1].id}?agent=Returns+desk")
        [link] = [each for each in page.links() if "/questions/many" in each]
        page = await reader.open(link)
        assert ticked(page) == {asked[0].id, asked[1].id}
        assert "agent=Returns+desk" in decision_form(page).action


async def test_at_most_a_hundred_alike_are_taken_and_it_is_said_that_there_are_more() -> None:
    store, app = await office()
    asked = await ask_credits(store, *range(1, MOST_AT_ONCE + 3))
    async with Reader(app) as reader:
        page = await reader.open(table_address(asked[0], more="&alike=1"))
        assert len(ticked(page)) == MOST_AT_ONCE and "There are more like these" in page.text
        page = await reader.open(table_address(asked[0], asked[1]))
        assert len(ticked(page)) == 2 and "There are more like these" not in page.text


# -- the table -------------------------------------------------------------------------------------


async def test_the_table_has_what_is_the_same_once_and_marks_what_differs() -> None:
    store, app = await office()
    asked = [*await ask_credits(store, 10, 10, 10), *(await ask_credits(store, 10, 10, reason="broken"))[:1]]
    async with Reader(app) as reader:
        text = (await open_table(reader, *asked)).text
        before, after = text.split("One by one")
        assert "4 calls of credit" in before and 'currency " EUR "' in before and "Returns desk" in before
        assert after.count("differs from most:") == 1  # two of four orders are 1042, and that is not most of them
        assert "broken" in after and "returned" not in before
        for number in range(3):
            assert f"Credit 10.00 EUR for order {1042 + number}" in after


def test_only_a_value_unlike_most_of_the_others_is_marked(make: Any) -> None:
    table = table_of([make(n, place) for n, place in enumerate(("a", "a", "a", "b"))])
    assert table.columns == ["n", "place"] and table.same == {"tool": '"x"'}
    assert [[cell.odd for cell in row.cells] for row in table.rows] == [[False, False]] * 3 + [[False, True]]
    half = table_of([make(n, place) for n, place in enumerate(("a", "a", "b", "b"))])
    assert not any(cell.odd for row in half.rows for cell in row.cells)


@pytest.fixture
def make() -> Any:
    def question(n: Any, place: Any, text: str | None = None) -> Question:
        import json

        arguments = text or json.dumps({"n": n, "place": place, "tool": "x"}, separators=(",", ":"))
        return Question(
            id=f"q{n}", run="r", agent="A", tool="t", kind="approval", digest="d", arguments=arguments, reason="",
            allowed=("approve", "reject"), call="c", at=0,
        )  # fmt: skip

    return question


def test_an_argument_that_is_left_out_differs_from_null(make: Any) -> None:
    table = table_of([make(1, None), make(1, "", '{"n":1,"tool":"x"}'), make(1, None)])
    assert table.columns == ["place"]
    assert [(row.cells[0].text, row.cells[0].odd) for row in table.rows] == [
        ("null", False),
        (None, True),
        ("null", False),
    ]


def test_arguments_that_are_no_json_are_one_column_as_they_are(make: Any) -> None:
    table = table_of([make(1, "a"), make(2, "b", '{"n": 2')])
    assert table.columns == ["arguments"] and table.rows[1].cells[0].text == '{"n": 2'


async def test_nothing_hides_in_the_table() -> None:
    store, app = await office()
    asked = [
        *await ask_credits(store, 10, reason="return\u202eed <img src=x onerror=alert(1)>"),
        *await ask_credits(store, 10, reason="r" * 5000 + "\u200b" + "<script>"),
    ]
    async with Reader(app) as reader:
        page = await open_table(reader, *asked)
        assert "U+202E right-to-left override" in page.text and "U+200B zero width space" in page.text
        assert not re.search(f"[{HIDDEN}]", page.source)
        assert not any(tag == "img" for tag, _ in page.tags) and "<script>" not in page.source
        assert sum(map(len, re.findall("r{50,}", page.source))) >= 2 * 5000  # in its column, and in its whole preview
        assert all(given["src"].startswith("/static/") for tag, given in page.tags if tag == "script")


async def test_secret_arguments_are_shown_to_deciders_only() -> None:
    store, app = await office()
    asked = [
        await ask(store, "Keys", call("use_key", {"key": f"secret-key-{n}", "where": "a"}), by=by)
        for n, by in enumerate((None, None, "ann"))
    ]
    async with Reader(app) as reader:
        page = await open_table(reader, *asked)
        assert "secret-key-0" in page.text and "secret-key-1" in page.text
        assert "secret-key-2" not in page.source and "You asked for this run" in page.text
        title = page.source[page.source.index("<title>") : page.source.index("</title>")]
        assert "secret" not in title
    async with Reader(app, "vera") as reader:
        page = await open_table(reader, *asked)
        assert "secret-key" not in page.source and "decide" not in page.ids


async def test_warnings_and_risk_stand_in_the_row_and_beside_the_buttons() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 900, tool=make_credit(risk="high"))
    async with Reader(app) as reader:
        page = await open_table(reader, *asked)
        act = page.source[page.source.index('class="act"') :]
        rows = page.source[: page.source.index('class="act"')]
        assert rows.count("This call is marked as high risk.") == 2 and rows.count("high risk</span>") == 2
        assert rows.count("The credit is ten times what was paid.") == 2  # as a warning, and in the whole preview
        assert "The credit is ten times what was paid." in act and "This call is marked as high risk." in act
        assert "I have looked at the 2 questions with warnings" in act
        assert page.source.count("data-warned") == 2


async def test_questions_of_several_tools_are_split() -> None:
    store, app = await office()
    credits = await ask_credits(store, 10, 20)
    changed = await ask_credits(store, 30, tool=make_credit("Something else."))
    mail = await ask(store, "Post", call("send_mail", {"to": "a@example.com", "subject": "x"}))
    async with Reader(app) as reader:
        page = await reader.open(table_address(*credits, *changed, mail, more="&q=e"))
        assert "These do not go together" in page.text and "decide" not in page.ids
        parts = [each for each in page.links() if "/questions/many?" in each]
        assert [each.count("id=") for each in parts] == [2, 1, 1] and all("q=e" in each for each in parts)
        assert ticked(await reader.open(parts[0])) == {each.id for each in credits}


async def test_what_cannot_be_decided_is_named_and_left_out(clock: FakeClock) -> None:
    store, app = await office(MemoryStore(clock=clock))
    [late] = await ask_credits(store, 10, tool=make_credit(deadline=60))
    clock.advance(61)
    asked = await ask_credits(store, 20, 30, 40)
    own = await ask_credits(store, 50, by="ann")
    doubt = await ask(store, "Till", call("payout", {"to": "Flores", "amount": 1.0}))
    await store.decide(asked[2].id, Reject(), by="ben", digest=asked[2].digest)
    async with Reader(app) as reader:
        page = await reader.open(table_address(late, *asked, *own, doubt) + "&id=q_none")
        assert ticked(page) == {asked[0].id, asked[1].id}
        left_out = page.text[page.text.index("Left out") :]
        for words in ("deadline has passed", "Rejected by ben", "You asked for this run", "decided alone", "q_none"):
            assert words in left_out, words


async def test_if_none_can_be_decided_it_says_why() -> None:
    store, app = await office()
    [own] = await ask_credits(store, 50, by="ann")
    async with Reader(app) as reader:
        page = await open_table(reader, own)
        assert reader.answer.status_code == 200 and "None of these can be decided together" in page.text
        assert "You asked for this run" in page.text and "decide" not in page.ids


async def test_a_call_that_can_only_be_rejected_is_left_out_unless_all_are_so() -> None:
    store, app = await office()
    good = await ask_credits(store, 10)
    wrong = [await ask_credits(store, 10, order=n) for n in ("none", "any")]
    broken = [each for some in wrong for each in some]
    assert all("approve" not in each.allowed for each in broken), [each.allowed for each in broken]
    async with Reader(app) as reader:
        page = await open_table(reader, *good, *broken)
        assert ticked(page) == {good[0].id} and page.text.count("cannot be approved as it is") == 2
        page = await open_table(reader, *broken)
        assert ticked(page) == {each.id for each in broken}
        assert list(decision_form(page).buttons) == ["Reject the ticked"]


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("", 422, "No question is selected"),
        ("?alike=1", 422, "No question is selected"),
        ("?" + "&".join(f"id=q{n}" for n in range(MOST_AT_ONCE + 1)), 422, "At most 100 questions"),
        ("?" + "&".join(f"id=q{n}" for n in range(2_000)), 414, "too long"),
        ("?id=q_none&alike=1", 404, "q_none"),
        ("?id=%00", 200, "Left out"),
    ],
)
async def test_a_selection_that_cannot_be_shown_is_a_plain_page(query: str, status: int, why: str) -> None:
    _, app = await office()
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/many{query}")
        assert reader.answer.status_code == status and why in page.text


# -- one decision ----------------------------------------------------------------------------------


async def test_one_press_decides_on_all_each_with_what_was_shown() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 20, 30)
    async with Reader(app) as reader:
        await open_table(reader, *asked)
        page = await reader.press("Approve the ticked", words="all returned")
        assert reader.answer.status_code == 200 and "All 3 questions were approved" in page.text
        assert page.text.count("Approved by you") == 3
    settled = [await store.question(each.id) for each in asked]
    assert [each.shown for each in settled] == [shown_hash(each) for each in asked]
    assert all(each.looked is not None and each.looked >= 0 for each in settled)
    for each in asked:
        last = [entry.fact for entry in await store.history(each.run) if entry.fact["fact"] == "approved"][-1]
        assert (last["by"], last["why"]) == ("ann", "all returned")


async def test_what_is_not_ticked_any_more_is_not_decided() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 20, 30)
    async with Reader(app) as reader:
        await open_table(reader, *asked)
        await reader.fill("Reject the ticked", {f"q:{asked[1].id}": None, "words": "no"})
        assert "All 2 questions were rejected" in reader.page.text
    assert await ends(store, asked) == [("reject", "ann"), (None, None), ("reject", "ann")]


async def test_a_warning_needs_a_second_deliberate_act_and_the_server_insists() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 900)
    async with Reader(app) as reader:
        await open_table(reader, *asked)
        page = await reader.fill("Approve the ticked", {"words": "fine"})
        assert reader.answer.status_code == 422 and "Nothing was decided yet" in page.text
        assert await ends(store, asked) == [(None, None)] * 2
        assert ticked(page) == {each.id for each in asked} and decision_form(page).values["words"] == "fine"
        await reader.fill("Approve the ticked", {"confirm": "yes"})
    assert await ends(store, asked) == [("approve", "ann")] * 2


async def test_the_second_act_is_only_for_what_is_ticked_and_only_for_an_approval() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 900, 901)
    async with Reader(app) as reader:
        await open_table(reader, *asked[:2])
        await reader.fill("Approve the ticked", {f"q:{asked[1].id}": None})
        assert await ends(store, asked) == [("approve", "ann"), (None, None), (None, None)]
        await open_table(reader, *asked[1:])
        await reader.press("Reject the ticked")
    assert await ends(store, asked[1:]) == [("reject", "ann")] * 2


async def test_the_same_form_again_changes_nothing() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 20)
    async with Reader(app) as reader:
        form = decision_form(await open_table(reader, *asked))
        for _ in range(2):
            page = await reader.send(form.action, form.values | {"type": "approve"})
            assert "All 2 questions were approved" in page.text
    assert [len([e for e in await store.history(q.run) if e.fact["fact"] == "approved"]) for q in asked] == [1, 1]


async def test_what_became_of_each_is_named() -> None:
    store, app = await office()
    draft = asking(store.clock)
    [replaced] = (await draft.write(store)).asked
    others = [(await put_asking(store))[0] for _ in range(4)]
    async with Reader(app) as reader:
        await open_table(reader, replaced, *others)
        fresh = f.Asked(
            replaced.call, "q_" + "1" * 32, "The tool is another.", "1" * 64, replaces=replaced.id, at=draft.now
        )
        draft.add(fresh)
        await draft.write(store)
        await store.decide(others[0].id, Reject("no"), by="ben", digest=others[0].digest)
        await store.decide(others[1].id, Approve(), by="ben", digest=others[1].digest)
        await store.decide(others[2].id, Edit({"to": "bea"}), by="otto", digest=others[2].digest)
        page = await reader.press("Approve the ticked")
        assert "2 of 5 decided" in page.text
        for words in ("Changed meanwhile", "ben was first", "It was rejected.", "otto was first", "Approved by ben"):
            assert words in page.text, words
        assert f"/questions/{fresh.id}" in page.links()
    assert await ends(store, others[3:]) == [("approve", "ann")]
    assert (await store.question(fresh.id)).verdict is None


async def test_if_the_store_fails_in_the_middle_it_says_what_is_known() -> None:
    class Failing(MemoryStore):
        seen = 0

        async def decide(self, *args: Any, **more: Any) -> Question:
            self.seen += 1
            if self.seen > 2:
                error = StoreFailed("the inside")
                error.unknown = self.seen == 3
                raise error
            return await super().decide(*args, **more)

    store, app = await office(Failing())
    asked = await ask_credits(store, *range(1, 8))
    async with Reader(app) as reader:
        await open_table(reader, *asked)
        page = await reader.press("Approve the ticked")
        assert "2 of 7 decided" in page.text and "the inside" not in page.text
        assert page.text.count("it is not known whether anything changed") == 1
        assert page.text.count("Nothing was changed. Try again later.") == 4
        assert "look again before you decide again" in page.text


async def test_two_people_decide_the_same_table_at_once() -> None:
    store, app = await office()
    asked = await ask_credits(store, *range(1, 9))
    async with Reader(app) as ann, Reader(app, "ben") as ben:
        await open_table(ann, *asked)
        await open_table(ben, *asked)
        await asyncio.gather(ann.press("Approve the ticked"), ben.press("Reject the ticked"))
        made = await ends(store, asked)
        assert set(made) <= {("approve", "ann"), ("reject", "ben")}
        assert ann.page.text.count("Approved by you") == made.count(("approve", "ann"))
        assert ann.page.text.count("ben was first") == made.count(("reject", "ben"))
        assert ben.page.text.count("ann was first") == made.count(("approve", "ann"))


# -- those who mean harm ---------------------------------------------------------------------------


async def post(reader: Reader, questions: list[Question], **more: str) -> Page:
    """Send a form that no page made, with the token of one."""
    page = await reader.open("/questions")
    token = next(form.values["csrf"] for form in page.forms if "csrf" in form.values)
    fields = {f"q:{each.id}": each.digest for each in questions}
    return await reader.send("/questions/many", {"csrf": token, "type": "approve", **fields, **more})


async def test_a_form_without_the_token_or_with_another_decides_nothing() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10)
    async with Reader(app) as reader:
        form = decision_form(await open_table(reader, *asked))
        for csrf in ({}, {"csrf": ""}, {"csrf": "x" * 40}):
            values = {name: value for name, value in form.values.items() if name != "csrf"}
            await reader.send(form.action, values | csrf | {"type": "approve"})
            assert reader.answer.status_code == 403
    assert await ends(store, asked) == [(None, None)]


async def test_a_viewer_who_posts_decides_nothing() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10)
    async with Reader(app, "vera") as reader:
        await post(reader, asked)
        assert reader.answer.status_code == 403
    assert await ends(store, asked) == [(None, None)]


async def test_forged_digests_and_ids_decide_nothing() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10, 20)
    async with Reader(app) as reader:
        forged = {f"q:{asked[0].id}": asked[1].digest, f"q:{asked[1].id}": "", "q:q_none": "x", "q:": asked[0].digest}
        page = await post(reader, [], **forged)
        assert reader.answer.status_code == 200 and "0 of 4 decided" in page.text
        assert page.text.count("Changed meanwhile") == 2 and page.text.count("Not there") == 2
    assert await ends(store, asked) == [(None, None)] * 2


async def test_a_crafted_mixture_is_refused_whole() -> None:
    store, app = await office()
    asked = [*await ask_credits(store, 10), *await ask_credits(store, 20, tool=make_credit("Something else."))]
    doubt = await ask(store, "Till", call("payout", {"to": "Flores", "amount": 1.0}))
    async with Reader(app) as reader:
        for mixed in (asked, [asked[0], doubt], [doubt]):
            page = await post(reader, mixed)
            assert reader.answer.status_code == 422 and "Nothing was recorded" in page.text
    assert await ends(store, [*asked, doubt]) == [(None, None)] * 3


@pytest.mark.parametrize("given", ["", "edit", "respond", "APPROVE"])
async def test_a_form_that_says_neither_approve_nor_reject_decides_nothing(given: str) -> None:
    store, app = await office()
    asked = await ask_credits(store, 10)
    async with Reader(app) as reader:
        await post(reader, asked, type=given)
        assert reader.answer.status_code == 422
    assert await ends(store, asked) == [(None, None)]


async def test_ten_thousand_questions_are_refused_in_words() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10)
    async with Reader(app) as reader:
        page = await post(reader, asked, **{f"q:q{n}": "d" for n in range(10_000)})
        assert reader.answer.status_code == 422 and "At most 100 questions" in page.text
        page = await post(reader, asked, **{f"q:q{n}": "d" for n in range(21_000)})
        assert 400 <= reader.answer.status_code < 500
    assert await ends(store, asked) == [(None, None)]


async def test_nothing_is_decided_by_get() -> None:
    store, app = await office()
    asked = await ask_credits(store, 10)
    async with Reader(app) as reader:
        fields = {f"q:{asked[0].id}": asked[0].digest, "type": "approve", "id": asked[0].id}
        await reader.open(f"/questions/many?{urlencode(fields)}")
    assert await ends(store, asked) == [(None, None)]


async def test_previews_are_whole_in_each_row() -> None:
    store, app = await office()

    @function_tool(needs_approval=True)
    async def plain(text: str) -> str:
        return text

    asked = []
    for text in ("a", "b"):
        agent = Agent(name="Plain", tools=[plain], model=ScriptedModel([call("plain", {"text": text}), "Done."]))
        result = await Runner.run(agent, "go", store=store)
        asked.append(await store.question(result.interruptions[0].id))
    async with Reader(app) as reader:
        assert (await open_table(reader, *asked)).text.count("This tool has no preview.") == 2
        text = (await open_table(reader, *await ask_credits(store, 10, 20))).text
        assert text.count("Would be credited") == 2
