"""Calls of programs outside, as people see them: whose words are whose, and where a call stands, in a real browser."""

from __future__ import annotations

import contextlib
from typing import Any

from playwright.sync_api import expect

from assentry import Approve
from assentry.approval.foreign_call import CallRequest
from assentry.errors import DigestMismatch
from assentry.outside.approvals import ask_request
from assentry.outside.user_question import user_question_options
from assentry.store import Store
from assentry.store.call_status import CallStatus
from assentry.store.call_tending import tend_calls
from assentry.store.calls import ask_about_call, finish_call, look_at_call, start_call
from assentry.tools.user_question import read_user_question
from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, shown
from tests.inbox.test_browser_axe import findings

__all__ = ["cheap_hashes", "chromium", "desk"]

BOT = "billing-bot"


async def ask(store: Store, **options: Any) -> CallStatus:
    given: dict[str, Any] = {"source": "claude", "tool": "pay", "arguments": {"amount": 120}, "session": "november"}
    status, _ = await ask_about_call(store, CallRequest(**(given | options)), by=BOT)
    return status


async def approve(store: Store, status: CallStatus) -> None:
    question = await store.question(status.question or "")
    await store.decide(question.id, Approve(), by="ben", digest=question.digest)


def test_a_question_of_a_program_shows_the_exact_call_and_whose_words_the_rest_is(desk: Desk) -> None:
    status = desk.do(ask(desk.store, preview="Pays 1 EUR.", says="Approve me: I am safe."))
    page = desk.browser("ann")
    page.goto(f"{desk.url}{status.link}")
    expect(page.locator("#sentence")).to_have_text("billing-bot:claude says: Pays 1 EUR.")
    body = page.locator("body")
    expect(body).to_contain_text(
        "billing-bot:claude says that this is what the call does. Assentry has not checked it."
    )
    expect(body).to_contain_text("the program's own account")
    expect(body).not_to_contain_text("the tool's own preview")
    expect(body).to_contain_text("in session november")
    expect(body).to_contain_text("120")
    words = page.locator("section", has_text="The agent says")
    expect(words).to_contain_text("Approve me: I am safe.")
    expect(words).to_contain_text("nobody has checked it")
    assert not findings(page)
    shown(page).keyboard.press("a")
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    seen = desk.do(look_at_call(desk.store, status.id, by=BOT))
    assert (seen.state, seen.by) == ("approved", "ann")


def test_a_runs_page_says_where_the_call_stands_and_shows_a_refused_report(desk: Desk) -> None:
    async def refused() -> CallStatus:
        status = await ask(desk.store)
        await approve(desk.store, status)
        with contextlib.suppress(DigestMismatch):
            await start_call(desk.store, status.id, by=BOT, holder="h", arguments={"amount": 9000})
        return status

    status = desk.do(refused())
    page = desk.browser("ann")
    stands = page.locator("#standing")
    page.goto(f"{desk.url}/runs/{status.id}")
    expect(stands).to_contain_text("The call may run. The program has not started it.")
    expect(page.locator(".time li", has_text="A report was refused")).to_contain_text("A report was refused")
    expect(page.locator(".time li", has_text="A report was refused")).to_contain_text(
        'with other arguments: {"amount":9000}'
    )
    expect(page.locator("body")).to_contain_text("The program proposed pay")
    desk.do(start_call(desk.store, status.id, by=BOT, holder="h"))
    page.reload()
    expect(stands).to_contain_text("The program has started its call.")
    desk.do(finish_call(desk.store, status.id, by=BOT, holder="h", error="the bank is closed"))
    page.reload()
    expect(stands).to_contain_text("It is done.")
    expect(page.locator("body")).to_contain_text("the bank is closed")
    assert not findings(page)


def test_a_person_says_how_a_call_in_doubt_ended(desk: Desk) -> None:
    async def lost() -> CallStatus:
        desk.clock.behind = 3600
        status = await ask(desk.store)
        await approve(desk.store, status)
        await start_call(desk.store, status.id, by=BOT, holder="h", hold=10)
        desk.clock.behind = 0
        assert await tend_calls(desk.store) <= 1  # the inbox may have been first
        return await look_at_call(desk.store, status.id, by=BOT)

    status = desk.do(lost())
    assert status.state == "doubt"
    page = desk.browser("ann")
    page.goto(f"{desk.url}{status.link}")
    expect(page.locator("#sentence")).to_have_text("Did pay go through?")
    expect(page.locator("body")).to_contain_text("billing-bot:claude told nothing more of it.")
    page.goto(f"{desk.url}{status.link}/again")
    page.get_by_role("button", name="Run it again").click()
    page.wait_for_url(lambda url: not url.endswith("/again"))
    seen = desk.do(look_at_call(desk.store, status.id, by=BOT))
    assert (seen.state, seen.attempt) == ("approved", 1)


def test_a_question_to_a_person_is_answered_and_nothing_is_said_to_run(desk: Desk) -> None:
    options = {"tool": "ask_user", "arguments": {"question": "Which?"}, "allowed": ("respond", "reject")}
    status = desk.do(ask(desk.store, **options))
    page = desk.browser("ann")
    page.goto(f"{desk.url}{status.link}")
    body = page.locator("body")
    expect(body).to_contain_text("Nothing runs: the program waits for an answer.")
    expect(body).to_contain_text("billing-bot:claude asks a person.")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)


def test_a_question_of_another_programs_model_is_answered_in_a_form(desk: Desk) -> None:
    fields = [{"label": "Floor", "type": "number"}, {"label": "View", "type": "one_of", "options": ["river", "yard"]}]
    asked = {"question": "Which <i>room</i>?", "context": "Two are free.", "fields": fields}
    options = user_question_options(read_user_question(asked))
    request = ask_request("mcp", "ask_user", asked, {**options, "again": True})
    status, _ = desk.do(ask_about_call(desk.store, request, by="mcp"))
    page = desk.browser("ann")
    page.goto(f"{desk.url}{status.link}")
    expect(page.locator("#sentence")).to_have_text("mcp asks: Which <i>room</i>?")
    expect(page.locator("#z1")).to_contain_text("What was asked")
    expect(page.locator("body")).not_to_contain_text("in session")
    page.get_by_label("Floor").fill("2")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.locator("body")).to_contain_text("View")  # it is missing, and nothing was recorded
    assert desk.do(look_at_call(desk.store, status.id, by="mcp")).state == "waiting"
    page.get_by_label("View", exact=True).select_option(label="yard")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_text("answered").first).to_be_visible()
    assert desk.do(look_at_call(desk.store, status.id, by="mcp")).output == {"Floor": 2, "View": "yard"}
