"""The pages in a real browser: live, by keyboard, on a phone, without a script, and for screen readers.

With ASSENTRY_WRITE=1 the tests write the pictures of the docs, into docs/images/inbox.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Route, expect

from assentry import SQL, Agent, Diff, Mail, Preview, Reject, Runner, Sentence, Shell, Table, Text, function_tool
from assentry.inbox.accounts import accounts_of
from assentry.store.record import Question
from assentry.testing import ScriptedModel, call
from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, live, picture, shown, until
from tests.inbox.office import PASSWORD, ask, ask_everything, ask_order, ask_refund

__all__ = ["cheap_hashes", "chromium", "desk"]  # fixtures


async def aged(desk: Desk) -> dict[str, Question]:
    """Ask everything, each question some time ago."""
    ages = iter((9000, 7000, 5200, 3400, 1600, 800, 0, 240))
    real = ask_everything.__globals__["ask"]

    async def older(*args: Any, **more: Any) -> Question:
        desk.clock.behind = next(ages)
        made: Question = await real(*args, **more)
        desk.clock.behind = 0.0
        return made

    ask_everything.__globals__["ask"] = older
    try:
        return await ask_everything(desk.store)
    finally:
        ask_everything.__globals__["ask"] = real


# -- flows -------------------------------------------------------------------------------------------------------------


def test_signing_in(desk: Desk) -> None:
    page = desk.browser(None, viewport={"width": 1000, "height": 620})
    page.goto(f"{desk.url}/runs")
    picture(page, "sign-in")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("The name or the password is wrong.")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/runs")
    page.locator(".me summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_question_arrives_live(desk: Desk) -> None:
    page = live(desk.browser())
    expect(page.get_by_text("Nobody waits for you.")).to_be_visible()
    picture(page, "empty")
    desk.do(ask_refund(desk.store))
    expect(page.locator(".row")).to_contain_text("Refund 899.00 EUR on order 1042")
    expect(page.locator("#said")).to_contain_text("New question: Refund 899.00 EUR")
    expect(page.locator("#count")).to_have_text("1")


def test_news_without_a_pause_do_not_put_off_the_list(desk: Desk) -> None:
    page = live(desk.browser())
    page.evaluate(
        "window.news = 0; addEventListener('inbox-news', (each) => { news += each.detail === 'question.asked'; })"
    )
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() + 5000"))
    for number in range(1, 15):  # for 700 ms, the next one always comes within 50 ms
        desk.do(ask_refund(desk.store))
        until(page, lambda number=number: page.evaluate("news") >= number)  # type: ignore[misc]
        page.clock.run_for(50)
    expect(page.locator(".row").first).to_be_visible()


def test_a_list_that_comes_late_does_not_replace_a_newer_one(desk: Desk) -> None:
    page = live(desk.browser())
    held: list[Route] = []
    rows = page.locator(".row")
    page.route("**/questions?*part=list*", lambda route: held.append(route))
    desk.do(ask_refund(desk.store))
    until(page, lambda: len(held) > 0)
    late = held[0].fetch()
    desk.do(ask_order(desk.store))
    until(page, lambda: len(held) > 1)
    held[1].continue_()
    expect(rows).to_have_count(2)
    held[0].fulfill(response=late)
    so_far = len(held)
    desk.do(ask_refund(desk.store, memo="lamp"))
    until(page, lambda: len(held) > so_far)
    expect(rows).to_have_count(2)
    held[-1].continue_()
    expect(rows).to_have_count(3)


def test_the_words_and_the_call_are_side_by_side(desk: Desk) -> None:
    made = desk.do(aged(desk))
    page = desk.browser()
    desk.see(page, made["refund"])
    live(page)
    expect(page.get_by_role("heading", level=1).last).to_contain_text("Refund 899.00 EUR")
    expect(page.locator(".says")).to_contain_text("I give the 89.90 back")
    picture(page, "question")
    dark = desk.browser("otto", color_scheme="dark")
    desk.see(dark, made["refund"])
    live(dark)
    expect(dark.locator(".looking")).to_contain_text("ann is looking too")
    picture(dark, "question-dark")
    assert dark.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") == "rgb(17, 19, 21)"


def test_a_list_in_a_form(desk: Desk) -> None:
    question = desk.do(ask_order(desk.store))
    page = desk.browser()
    desk.see(page, question, "/edit")
    second = page.get_by_role("button", name="Remove item 2")
    page.get_by_role("button", name="Remove item 1").click()
    expect(second).to_have_count(0)
    page.get_by_role("button", name="Add an item").click()
    expect(second).to_be_visible()
    page.get_by_label("article").last.fill("plug")
    page.get_by_label("count").last.fill("3")
    expect(page.locator(".diff .a", has_text="plug")).to_be_visible()
    page.get_by_role("button", name="Approve with changes").click()
    expect(page.locator(".banner")).to_be_visible()


def test_a_doubt_is_settled(desk: Desk) -> None:
    question = desk.do(aged(desk))["payout"]
    page = desk.browser()
    desk.see(page, question)
    live(page)
    expect(page.get_by_role("heading", name="Evidence")).to_be_visible()
    picture(page, "doubt")
    page.get_by_role("link", name="It happened").click()
    page.get_by_label("Answer").fill("paid, reference 77")
    page.get_by_role("button", name="Record the outcome").click()
    expect(page.locator(".banner")).to_contain_text("Answered by you")
    assert desk.verdict(question) == "respond"


def test_a_grant_is_given_and_revoked(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser()
    desk.see(page, question)
    shown(page).keyboard.press("l")
    page.get_by_label("Up to").fill("3")
    page.get_by_role("button", name="See it in words").click()
    expect(page.get_by_text("up to 3 times, until")).to_be_visible()
    picture(page, "always")
    page.get_by_label("Up to").fill("4")
    expect(page.get_by_role("button", name="Approve and give the grant")).to_have_count(0)
    page.get_by_role("button", name="in words").click()
    page.get_by_role("button", name="Approve and give the grant").click()
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    page.get_by_role("link", name="Grants").click()
    expect(page.locator(".grant")).to_contain_text("Given by ann")
    live(page)
    picture(page, "grants")
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No grants in force.")).to_be_visible()


def test_what_is_typed_before_the_script_has_come_counts_as_changed(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser()
    held: list[Route] = []
    grant, edit = page.get_by_role("button", name="Approve and give the grant"), page.locator("#sender")
    desk.see(page, question, "/always")
    page.route("**/inbox.js*", lambda route: held.append(route))
    page.get_by_role("button", name="See it in words").click()
    expect(grant).to_be_visible()
    page.get_by_label("Up to").fill("4")
    held.pop().continue_()
    expect(grant).to_have_count(0)

    page.unroute_all()
    page.route("**/edit.js*", lambda route: held.append(route))
    page.goto(f"{desk.url}/questions/{question.id}/edit", wait_until="commit")
    amount = page.get_by_label("amount", exact=True)
    amount.fill("12")
    until(page, lambda: len(held) == 1)
    held.pop().continue_()
    expect(page.locator("#review")).to_contain_text("12")
    expect(edit).to_be_enabled()
    page.get_by_label("I have read the warning").check()
    edit.click()
    expect(page.locator(".banner")).to_contain_text("by you")
    assert desk.verdict(question) == "edit"


def test_two_people_decide_and_one_is_first(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    small = {"width": 1000, "height": 520}
    ann, ben = desk.browser(java_script_enabled=False, viewport=small), desk.browser("ben")
    desk.see(ann, question, "/approve")
    desk.see(ben, question, "/reject")
    ben.get_by_label("Your reason").fill("Ten times too much.")
    picture(ben, "reject")
    ben.get_by_role("button", name="Reject").click()
    expect(ben.locator(".banner")).to_contain_text("Rejected by you")
    ann.get_by_role("button", name="Yes, approve").click()
    expect(ann.get_by_text("Somebody was first")).to_be_visible()
    expect(ann.get_by_role("heading", level=1)).to_have_text("Rejected by ben")
    picture(ann, "first")
    assert desk.verdict(question) == "reject"


def test_a_question_that_changes_while_it_is_looked_at_is_not_decided(desk: Desk) -> None:
    from tests.store.support import Script, asked, js, replied

    async def proposed() -> Script:
        script = await Script(desk.store).begin()
        await script.write(replied("c1", arguments='{"amount":89.9,"to":"ann"}'), asked("c1", "q1"))
        return script

    script = desk.do(proposed())
    page = desk.browser(java_script_enabled=False, viewport={"width": 1000, "height": 640})
    page.goto(f"{desk.url}/questions/q1")
    other = asked("c1", "q2", replaces="q1", args=js({"amount": 899.0, "to": "ann"}))
    desk.do(script.write(other))
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("This changed while you looked")).to_be_visible()
    expect(page.locator(".diff .a")).to_contain_text('"amount": 899.0')
    picture(page, "changed")
    page.get_by_role("link", name="Look again").click()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    assert desk.do(desk.store.question("q2")).verdict is None


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_link_signs_in_by_its_button_and_its_code_is_in_no_address(desk: Desk, script: bool) -> None:
    link = desk.do(accounts_of(desk.store).sign_in_link("ann"))
    page = desk.browser(None, java_script_enabled=script, viewport={"width": 1000, "height": 520})
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url.partition("#")[0]))
    for _ in range(2):  # looking at it does not use it up
        page.goto("about:blank")
        page.goto(f"{desk.url}/sign-in/link#{link}")
    if script:
        expect(page.get_by_label("The link")).to_be_hidden()
        assert link not in page.url
        picture(page, "link")
    else:
        page.get_by_label("The link").fill(f"{desk.url}/sign-in/link#{link}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/questions")
    expect(page.get_by_text("Nobody waits for you.")).to_be_visible()
    assert seen and not any(link in address for address in seen)


def test_an_unknown_address_is_a_page_with_a_way_back(desk: Desk) -> None:
    page = desk.browser(viewport={"width": 1000, "height": 520})
    page.goto(f"{desk.url}/nothing")
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    picture(page, "missing")
    page.get_by_role("link", name="Questions").last.click()
    page.wait_for_url("**/questions")


def test_a_question_that_somebody_else_decides_says_so_while_it_is_looked_at(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser()
    desk.see(page, question)
    live(page)
    desk.do(desk.store.decide(question.id, Reject("no"), by="ben", digest=question.digest))
    expect(page.locator(".banner")).to_contain_text("Rejected by ben")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.locator(".row")).to_have_count(0)
    page.get_by_role("link", name="See what was decided").click()
    expect(page.get_by_role("heading", name="The reason for the rejection")).to_be_visible()


def test_a_run_is_followed_live(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser()
    page.goto(f"{desk.url}/runs/{question.run}")
    live(page)
    expect(page.locator(".time li").last).to_contain_text("refund waits for a person")
    picture(page, "run")
    desk.do(desk.store.decide(question.id, Reject("too much"), by="ben", digest=question.digest))
    expect(page.locator(".time li").last).to_contain_text("refund was rejected by ben")


def test_a_lost_connection_is_said(desk: Desk) -> None:
    page = live(desk.browser())
    page.context.route("**/api/events", lambda route: route.abort())
    page.reload()
    expect(page.locator("#offline")).to_be_visible()
    expect(page.get_by_text("This page is live")).to_be_hidden()
    picture(page, "offline")
    expect(page.locator("#live")).to_be_hidden()


def test_the_keyboard_is_enough(desk: Desk) -> None:
    made = desk.do(ask_everything(desk.store))
    page = desk.browser()

    def press(key: str) -> None:
        """Press a key once the page's script is there to hear it."""
        live(page).keyboard.press(key)

    press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    press("j")
    expect(page.locator("h1#sentence")).to_contain_text("Send an e-mail")
    press("j")
    expect(page.locator("h1#sentence")).to_contain_text("Refund 899.00 EUR")
    press("k")
    expect(page.locator("h1#sentence")).to_contain_text("Send an e-mail")
    press("a")
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    assert desk.verdict(made["send_mail"]) == "approve"
    press("a")  # a second press on the same page decides nothing more
    press("j")
    expect(page.locator("h1#sentence")).to_contain_text("Refund 899.00 EUR")
    assert desk.verdict(made["refund"]) is None
    press("r")
    expect(page.get_by_label("Your reason")).to_be_focused()
    press("Escape")
    expect(page.locator("h1#sentence")).to_be_visible()
    press("r")
    expect(page.get_by_label("Your reason")).to_be_focused()
    page.keyboard.type("as it is")
    press("Control+Enter")
    expect(page.locator(".banner")).to_contain_text("Rejected by you")
    press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("records")
    press("Enter")
    expect(page.locator(".row")).to_have_count(1)


@pytest.mark.parametrize("away", ["j", "e"])
def test_a_key_that_comes_while_the_next_page_loads_decides_nothing(desk: Desk, away: str) -> None:
    made = desk.do(ask_everything(desk.store))
    page = desk.browser()
    desk.see(page, made["send_mail"])
    live(page)
    held: list[Route] = []
    page.route(
        lambda url: url.partition("?")[0].endswith((made["refund"].id, "/edit")), lambda route: held.append(route)
    )
    with page.expect_request(lambda request: request.is_navigation_request()):
        page.keyboard.press(away)
    page.keyboard.press("a")
    page.keyboard.press("Control+Enter")
    held.pop().continue_()
    expect(page.locator("h1#sentence" if away == "j" else "#edit")).to_be_visible()
    page.wait_for_url("**/questions/*/edit?*" if away == "e" else f"**/questions/{made['refund'].id}")
    assert desk.verdict(made["send_mail"]) is None and desk.verdict(made["refund"]) is None


def test_a_key_that_comes_after_a_click_decides_nothing_that_is_left_behind(desk: Desk) -> None:
    made = ask_in_turn(desk)
    page = desk.browser()
    desk.see(page, made[0])
    live(page)
    held: list[Route] = []
    page.route(lambda url: url.endswith(made[1].id), lambda route: held.append(route))
    with page.expect_request(lambda request: request.is_navigation_request()):
        page.locator(f".row[data-id='{made[1].id}']").dispatch_event("click")  # a real click waits for the next page
    page.keyboard.press("a")
    held.pop().continue_()
    expect(page.locator("h1#sentence")).to_contain_text("note 1")
    assert [desk.verdict(each) for each in made] == [None] * 6


def ask_in_turn(desk: Desk) -> list[Question]:
    """Questions of two agents, one after the other."""
    made = []
    for n in range(6):
        name, tool = ("Writer", "write") if n % 2 else ("Payer", "use_key")
        arguments = {"text": f"note {n}"} if n % 2 else {"key": f"payment {n}", "where": "bank"}
        made.append(desk.do(ask(desk.store, name, call(tool, arguments))))
    return made


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_after_a_decision_the_next_question_is_the_row_below_in_the_same_list(desk: Desk, script: bool) -> None:
    made = ask_in_turn(desk)
    page = desk.browser(java_script_enabled=script)
    page.goto(f"{desk.url}/questions?agent=Writer")
    page.locator(".row").nth(1).click()  # the second of three: the first is left alone
    expect(page.locator(".crumbs")).to_contain_text("In the list: agent Writer")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    expect(page.locator(".row")).to_have_count(2)
    page.get_by_role("link", name="Next in the list").click()
    expect(page.locator("h1#sentence")).to_contain_text("note 5")
    page.get_by_role("link", name="Reject").click()
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".banner")).to_contain_text("Rejected by you")
    expect(page.locator(".act")).to_contain_text("The end of this list")
    expect(page.get_by_role("link", name="Next in the list")).to_have_count(0)
    page.get_by_role("link", name="Back to the list").click()
    expect(page.locator(".row")).to_have_count(1)
    verdicts = [desk.verdict(each) for each in made]
    assert verdicts == [None, None, None, "approve", None, "reject"]


def test_the_rhythm_of_next_and_approve_stays_in_the_list_and_ends_with_it(desk: Desk) -> None:
    made = ask_in_turn(desk)
    page = desk.browser()
    page.goto(f"{desk.url}/questions?agent=Writer")
    for n in (1, 3, 5):
        live(page).keyboard.press("j")
        expect(page.locator("h1#sentence")).to_contain_text(f"note {n}")
        shown(page).keyboard.press("a")
        expect(page.locator(".banner")).to_contain_text("Approved by you")
    live(page).keyboard.press("j")
    expect(page.locator("#said")).to_contain_text("end of the list")
    page.keyboard.press("a")
    expect(page.locator("h1#sentence")).to_contain_text("note 5")
    assert [desk.verdict(each) for each in made] == [None, "approve"] * 3


def test_a_key_that_comes_while_the_next_of_the_list_loads_decides_nothing(desk: Desk) -> None:
    made = ask_in_turn(desk)
    page = desk.browser()
    desk.see(page, made[0])
    shown(page).keyboard.press("a")
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    live(page)
    held: list[Route] = []
    page.route(lambda url: url.endswith(made[1].id), lambda route: held.append(route))
    with page.expect_request(lambda request: request.is_navigation_request()):
        page.keyboard.press("Enter")
    page.keyboard.press("a")
    held.pop().continue_()
    expect(page.locator("h1#sentence")).to_contain_text("note 1")
    assert desk.verdict(made[1]) is None


@pytest.mark.parametrize("step", ["edit", "reject", "respond", "always"])
def test_the_way_through_a_step_keeps_the_list(desk: Desk, step: str) -> None:
    made = ask_in_turn(desk)
    page = desk.browser(java_script_enabled=False)
    page.goto(f"{desk.url}/questions/{made[1].id}?agent=Writer&q=note")
    page.locator(f".act a[href*='/{step}?']").click()
    page.get_by_role("link", name="Back").click()
    page.wait_for_url(f"**/questions/{made[1].id}?q=note&agent=Writer")
    expect(page.locator(".row")).to_have_count(3)


def test_the_first_field_of_an_edit_is_ready_to_type(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser()
    desk.see(page, question)
    shown(page).keyboard.press("e")
    expect(page.locator("#edit :focus")).to_have_count(1)


def test_everything_works_without_the_script(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser(java_script_enabled=False)
    desk.see(page, question)
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("amount").fill("89.90")
    page.get_by_role("button", name="Check the change").last.click()
    expect(page.locator(".diff .a")).to_contain_text('"amount": 89.90')
    page.get_by_label("I have read the warning").check()
    page.get_by_role("button", name="Approve with changes").click()
    expect(page.locator(".banner")).to_contain_text("by you")


def test_a_phone_has_one_column_and_the_buttons_at_the_thumb(desk: Desk) -> None:
    made = desk.do(aged(desk))
    page = desk.browser(viewport={"width": 390, "height": 844}, has_touch=True, device_scale_factor=2)
    live_list = page.locator(".row").first
    expect(live_list).to_be_visible()
    picture(page, "phone-list")
    desk.see(page, made["refund"])
    approve = page.get_by_role("link", name="Approve")
    box = approve.bounding_box()
    assert box is not None and box["y"] > 844 * 0.7 and box["height"] >= 44
    expect(page.locator(".list")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "phone")
    for path in ("/questions", "/runs", "/grants", "/audit", f"/questions/{made['place_order'].id}/edit"):
        page.goto(desk.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


LONG = "first\n" + "\n" * 40 + "x" * 6000 + "\n" + "word " * 900 + "\n" + "line\n" * 80 + "a" + " " * 4000 + "b"
BLOCKS = (
    Text(LONG, "Letter"),
    Diff.between("a.py", "-- one\n", LONG),
    SQL(LONG, {"p": LONG}),
    Mail(("ann@example.com",), LONG, LONG),
    Shell((LONG, "ls"), "/srv"),
    Table(tuple(f"column {n}" for n in range(30)), tuple(("value",) * 30 for _ in range(50))),
    Table(("name", "text"), tuple(("x" * 400, "word " * 90) for _ in range(50))),
    Sentence("There is no way back.", warning=True),
)


@function_tool(needs_approval=True, preview=lambda ctx, args: Preview("Write a letter", BLOCKS))
async def long_letter(text: str, more: list[str]) -> str:
    """Write a letter."""
    return "written"


CUT_OFF = """() => [...document.querySelectorAll(".question .body *, .time *")].filter((each) => {
  const style = getComputedStyle(each);
  const hides = (way) => style[way] !== "visible" && !each.closest(".crumbs, .unseen, .tag");
  return (each.scrollHeight > each.clientHeight + 1 && hides("overflowY") && each.clientHeight)
      || (each.scrollWidth > each.clientWidth + 1 && hides("overflowX") && each.clientWidth);
}).map((each) => each.outerHTML.slice(0, 120))"""
"""The elements that hide a part of their content, so that it must be scrolled to or is never seen."""


@pytest.mark.parametrize("width", [390, 1320])
def test_no_part_of_a_question_scrolls_by_itself_and_what_is_folded_is_counted(desk: Desk, width: int) -> None:
    async def asked() -> Question:
        arguments = {"text": LONG, "more": [LONG, LONG]}
        model = ScriptedModel([[LONG, call("long_letter", arguments)], "Done."])
        agent: Agent[Any] = Agent("Clerk", tools=[long_letter], model=model)
        [item] = (await Runner.run(agent, LONG, store=desk.store)).interruptions
        return await desk.store.question(item.id)

    question = desk.do(asked())
    page = desk.browser(viewport={"width": width, "height": 844})
    for path in (f"/questions/{question.id}", f"/runs/{question.run}"):
        page.goto(desk.url + path)
        for opened in (False, True):
            assert page.evaluate(CUT_OFF) == [], (path, opened)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.evaluate("for (const each of document.querySelectorAll('details.fold')) each.open = true")
    desk.see(page, question)
    expect(page.locator(".blocks > *").first).to_contain_text("There is no way back.")
    box = page.locator(".blocks .box").first
    expect(box.locator("summary").first).to_have_text("40 blank lines")
    expect(box.locator("> .fold > summary").last).to_contain_text("more lines below")
    assert "line\nline" not in box.inner_text()
    box.locator("> .fold > summary").last.click()
    assert "line\nline" in box.inner_text()


CUT = """() => [...document.querySelectorAll("#rows .ch, .pane .ch")].filter((mark) => {
  if (mark.offsetParent === null) return false; // on a phone, the list is another page
  const here = mark.getBoundingClientRect();
  for (let each = mark; each; each = each.parentElement) {
    const box = each === document.documentElement ? {left: 0, right: innerWidth} : each.getBoundingClientRect();
    if (each === document.documentElement || getComputedStyle(each).overflowX !== "visible")
      if (here.left < box.left - 1 || here.right > box.right + 1) return true;
  }
  return false;
}).map((mark) => mark.textContent)"""
"""The marks that are cut off."""


@pytest.mark.parametrize("width", [320, 390, 1320])
def test_a_name_that_is_not_what_it_looks_like_is_marked_in_full_on_every_screen(desk: Desk, width: int) -> None:
    @function_tool(needs_approval=True, name_override="transfer_the_mоney")
    async def transfer(to: str) -> str: ...

    async def asked() -> list[Question]:
        model = ScriptedModel([call(transfer.name, {"to": "a\u202eb"})] * 2)
        agent = Agent(name="Bооkkeeper", tools=[transfer], model=model)
        runs = [await Runner.run(agent, "Go on.", store=desk.store) for _ in range(2)]
        return [await desk.store.question(run.interruptions[0].id) for run in runs]

    first, _ = desk.do(asked())
    page = desk.browser(viewport={"width": width, "height": 800})
    expect(page.locator(".row .ch")).to_have_count(6)  # the name of the tool, of the agent, and the text, twice
    assert page.evaluate(CUT) == []
    desk.see(page, first)
    expect(page.locator(".crumbs .ch")).to_have_count(2)
    assert page.evaluate(CUT) == []
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".act .ch")).to_have_count(2)
    assert page.evaluate(CUT) == []


@pytest.mark.parametrize("width", [390, 1320])
def test_every_argument_can_be_seen_on_every_screen(desk: Desk, width: int) -> None:
    question = desk.do(ask_order(desk.store))
    page = desk.browser(viewport={"width": width, "height": 844})
    desk.see(page, question)
    for text in ("lamp", "bulb", "12", "Porto", "slow"):
        value = page.locator(".args .v", has_text=text).first
        expect(value).to_be_visible()
    rows = page.locator(".args.seq > dd").all()
    boxes = [row.bounding_box() for row in rows]
    assert len(boxes) == 2 and all(box is not None and 20 < box["height"] < 120 for box in boxes)


def test_a_hostile_agent_runs_nothing_in_the_browser(desk: Desk) -> None:
    evil = '"><script>window.owned=1</script><img src=x onerror="window.owned=2">\u202e</textarea>'
    question = desk.do(ask(desk.store, "Writer", [evil, call("write", {"text": evil})], said=evil))
    page = desk.browser()
    for path in ("", "/edit", "/reject", "/respond", "/always"):
        desk.see(page, question, path)
        assert page.evaluate("window.owned") is None
        assert page.locator("img").count() == 0


def test_a_question_of_a_tool(desk: Desk) -> None:
    made = desk.do(aged(desk))
    page = desk.browser()
    desk.see(page, made["ship"])
    live(page)
    expect(page.get_by_role("button", name="Send the answer")).to_be_visible()
    picture(page, "input")


def test_decisions_are_in_the_audit_trail(desk: Desk) -> None:
    made = desk.do(aged(desk))
    page = desk.browser(viewport={"width": 1100, "height": 560})
    for tool in ("execute_sql", "send_mail", "change_file"):
        desk.see(page, made[tool])
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".banner")).to_be_visible()
    page.goto(f"{desk.url}/audit")
    expect(page.locator("tbody tr")).to_have_count(3)
    live(page)
    picture(page, "audit")
    page.goto(f"{desk.url}/runs")
    live(page)
    picture(page, "runs")
