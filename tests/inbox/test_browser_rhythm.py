"""Deciding fifty times a day, in a real browser: views, keys that wait for the eyes, a second act, and undo."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from assentry import Approve, Reject
from assentry.store.record import Question
from assentry.testing import call
from tests.inbox.desk import (
    Desk,
    cheap_hashes,
    chromium,
    desk,
    drawn,
    live,
    patient_desk,
    picture,
    shown,
    stop_time,
    until,
)
from tests.inbox.office import PASSWORD, ask, ask_everything, ask_order, ask_refund

__all__ = ["cheap_hashes", "chromium", "desk", "patient_desk"]  # fixtures

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SCREENS = [{}, PHONE]


def ask_to_write(desk: Desk, text: str = "a line") -> Question:
    """Ask a question without a warning."""
    question: Question = desk.do(ask(desk.store, "Clerk", call("write", {"text": text})))
    return question


# -- undo --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("screen", SCREENS)
def test_an_approval_can_be_undone_and_is_then_never_sent(patient_desk: Desk, screen: dict[str, Any]) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser(**screen)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    desk.see(page, question)
    drawn(page)
    page.clock.install()
    sent.clear()
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".held")).to_contain_text("Approved")
    picture(page, "undo" if not screen else "undo-phone")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".held")).to_have_count(0)
    expect(page.locator("#toast")).to_have_text("Undone. Nothing was sent.")
    page.clock.run_for(60_000)
    page.goto(f"{desk.url}/questions")
    expect(page.locator(".row")).to_have_count(1)
    assert sent == [] and desk.verdict(question) is None


def test_a_held_approval_is_sent_when_its_time_is_over(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question)
    shown(page)
    page.clock.install()
    page.keyboard.press("a")
    expect(page.locator(".held")).to_contain_text("Sent in")
    assert desk.verdict(question) is None
    desk.clock.behind = -20.0  # the server's clock goes on, too
    page.clock.run_for(5_100)
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    decided = desk.do(desk.store.question(question.id))
    assert decided.verdict == "approve" and decided.looked is not None and 10_000 < decided.looked < 60_000


def test_z_undoes_and_a_second_press_sends_but_not_a_double_one(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question)
    shown(page)
    page.clock.install()
    page.keyboard.press("a")
    page.keyboard.press("a")  # an accident
    expect(page.locator(".held")).to_be_visible()
    page.keyboard.press("z")
    expect(page.locator(".held")).to_have_count(0)
    page.keyboard.press("a")
    page.clock.run_for(500)
    page.keyboard.press("a")
    expect(page.locator(".banner")).to_contain_text("Approved by you")


def test_the_next_question_is_a_key_away_and_sends_what_is_held(patient_desk: Desk) -> None:
    desk = patient_desk
    first, second = ask_to_write(desk, "one"), ask_to_write(desk, "two")
    page = desk.browser()
    desk.see(page, first)
    shown(page).keyboard.press("a")
    expect(page.locator(".held")).to_be_visible()
    page.keyboard.press("j")
    page.wait_for_url(f"**/questions/{second.id}")
    assert (desk.verdict(first), desk.verdict(second)) == ("approve", None)


@pytest.mark.parametrize("way", ["close", "goto"])
def test_leaving_the_page_sends_what_is_held(patient_desk: Desk, way: str) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question)
    shown(page).keyboard.press("a")
    expect(page.locator(".held")).to_be_visible()
    if way == "close":
        page.close(run_before_unload=True)
        page = desk.browser("ben")
    else:
        page.goto(f"{desk.url}/runs")
    until(page, lambda: desk.verdict(question) == "approve")
    assert desk.do(desk.store.question(question.id)).by == "ann"


def test_nothing_is_typed_into_an_edit_while_it_is_held(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question, "/edit")
    field = page.get_by_label("text", exact=True)
    field.fill("another line")
    button = page.get_by_role("button", name="Approve with changes")
    expect(button).to_be_enabled()
    button.click()
    expect(page.locator(".held")).to_contain_text("Approved with changes")
    field.click(force=True)
    page.keyboard.insert_text(" and more")  # as the keyboard of a phone does: it presses no key
    expect(field).to_have_value("another line")
    page.get_by_role("button", name="Undo").click()
    field.click()
    page.keyboard.insert_text(" and more")
    expect(field).to_have_value("another line and more")


def test_somebody_else_is_first_while_a_decision_is_held(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question)
    shown(page)
    page.clock.install()
    page.keyboard.press("a")
    expect(page.locator(".held")).to_be_visible()
    desk.do(desk.store.decide(question.id, Reject("no"), by="ben", digest=question.digest))
    page.clock.run_for(1_000)
    expect(page.locator(".banner")).to_contain_text("Rejected by ben")
    expect(page.locator(".held")).to_have_count(0)
    expect(page.locator("#toast")).to_contain_text("Your decision was not sent.")
    assert desk.verdict(question) == "reject"


def test_a_held_decision_that_lost_says_so(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question)
    shown(page)
    page.route("**/questions/*part=notice*", lambda route: route.abort())
    page.clock.install()
    page.keyboard.press("a")
    expect(page.locator(".held")).to_be_visible()
    desk.do(desk.store.decide(question.id, Reject("no"), by="ben", digest=question.digest))
    page.clock.run_for(5_100)
    expect(page.get_by_text("Somebody was first")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Rejected by ben")


def test_a_decision_that_does_not_arrive_can_be_sent_again(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question)
    shown(page)
    away: list[Route] = []

    def lose(route: Route) -> None:
        away.append(route)
        route.abort()

    page.route("**/decision*", lose)
    page.clock.install()
    page.keyboard.press("a")
    page.clock.run_for(5_100)
    expect(page.locator(".held")).to_contain_text("It is not known whether your decision arrived.")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    page.unroute("**/decision*")
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    assert len(away) == 1


def test_a_held_rejection_keeps_its_reason_and_signing_out_sends_it_first(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    desk.see(page, question, "/reject")
    live(page)
    page.get_by_label("Your reason").fill("not today")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".held")).to_contain_text("Rejected")
    page.locator(".me summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    decided = desk.do(desk.store.question(question.id))
    assert (decided.verdict, decided.by) == ("reject", "ann")


@pytest.mark.parametrize("key", ["a", "j"])
def test_a_held_decision_of_somebody_who_was_signed_out_is_said_to_be_lost(patient_desk: Desk, key: str) -> None:
    desk = patient_desk
    question, _ = ask_to_write(desk, "one"), ask_to_write(desk, "two")
    page = desk.browser()
    desk.see(page, question)
    shown(page)
    page.clock.install()
    page.keyboard.press("a")
    expect(page.locator(".held")).to_be_visible()
    page.context.clear_cookies()
    page.clock.run_for(1_000)
    page.keyboard.press(key)
    expect(page.get_by_role("alert")).to_contain_text("what you sent was not recorded")
    assert desk.verdict(question) is None
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/questions/{question.id}")


@pytest.mark.parametrize(("screen", "end"), [(PHONE, "approve"), ({}, None)])
def test_a_phone_that_puts_the_page_out_of_sight_sends_what_is_held(
    patient_desk: Desk, screen: dict[str, Any], end: str | None
) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser(**screen)
    page.clock.install()
    desk.see(page, question)
    drawn(page)
    stop_time(page)
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".held")).to_be_visible()
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    if end is not None:
        expect(page.locator(".banner")).to_contain_text("Approved by you")
    expect(page.locator(".held")).to_have_count(0 if end else 1)
    assert desk.verdict(question) == end


def test_a_key_that_is_held_down_does_not_end_the_time_to_undo(patient_desk: Desk) -> None:
    desk, question = patient_desk, ask_to_write(patient_desk)
    page = desk.browser()
    page.clock.install()
    desk.see(page, question, "/reject")
    live(page)
    page.get_by_label("Your reason").fill("no")
    stop_time(page)
    page.keyboard.down("Control")
    for _ in range(3):
        page.keyboard.down("Enter")  # after the first time, the browser says that it repeats
        page.clock.run_for(500)
    expect(page.locator(".held")).to_contain_text("Rejected")
    assert desk.verdict(question) is None


@pytest.mark.parametrize("step", ["", "/edit", "/respond"])
def test_a_decision_just_before_the_deadline_is_sent_at_once_from_every_page(patient_desk: Desk, step: str) -> None:
    desk = patient_desk
    question = desk.do(ask(desk.store, "Post", call("send_mail", {"to": "a@example.com", "subject": "Hello"})))
    assert question.until is not None
    page = desk.browser()
    page.clock.install()
    desk.clock.stopped_at = question.until / 1000 - 8  # by the server's clock; the browser's says more
    desk.see(page, question, step)
    shown(page)
    stop_time(page)
    if step == "/edit":
        page.get_by_label("subject").fill("Goodbye")
        page.clock.run_for(200)
        expect(page.get_by_role("button", name="Approve with changes")).to_be_enabled()
    elif step == "/respond":
        page.get_by_role("textbox", name="Answer").fill("It was sent by hand.")
    page.keyboard.press("Control+Enter" if step else "a")
    expect(page.locator(".banner")).to_contain_text("by you")


# -- what changes under a pointer --------------------------------------------------------------------------------------


def test_a_decision_of_somebody_else_stands_in_the_place_of_the_buttons(desk: Desk) -> None:
    question = ask_to_write(desk)
    page = desk.browser(viewport={"width": 1320, "height": 420})
    desk.see(page, question)
    shown(page)
    page.mouse.wheel(0, 3000)  # the banner is out of sight
    approve = page.get_by_role("button", name="Approve").bounding_box()
    footer = page.locator(".act")
    before = footer.bounding_box()
    desk.do(desk.store.decide(question.id, Reject("no"), by="ben", digest=question.digest))
    expect(footer).to_have_text("Rejected by ben")
    expect(page.locator("#toast")).to_contain_text("Rejected by ben")
    assert approve and before and footer.bounding_box() == before
    page.mouse.click(approve["x"] + 5, approve["y"] + 5)
    expect(page.locator(".banner")).to_contain_text("Rejected by ben")
    assert page.url.startswith(f"{desk.url}/questions/{question.id}")


def test_the_list_stays_while_a_row_is_pressed(desk: Desk) -> None:
    question = ask_to_write(desk)
    page = live(desk.browser())
    row = page.locator(f".row[data-id='{question.id}']")
    row.hover()
    with page.expect_response("**/questions?*part=list*"):
        page.mouse.down()
        ask_to_write(desk, "more")
    drawn(page)
    page.mouse.up()
    page.wait_for_url(f"**/questions/{question.id}*")


def test_nothing_moves_under_a_pointer_when_the_deadline_passes(desk: Desk) -> None:
    question = desk.do(ask_everything(desk.store))["send_mail"]
    for options in SCREENS:
        page = desk.browser(**options)
        page.clock.install()
        desk.see(page, question)
        reject = page.get_by_role("link", name="Reject")
        before = reject.bounding_box()
        page.clock.fast_forward(171_000)
        expect(page.locator(".late-note")).to_be_visible()
        assert before == reject.bounding_box()


# -- a second act ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("screen", SCREENS)
def test_a_warning_stands_beside_the_buttons_and_one_key_does_not_approve(desk: Desk, screen: dict[str, Any]) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser(**screen)
    desk.see(page, question)
    expect(page.locator(".act .beside")).to_contain_text("The refund is ten times what was paid.")
    picture(page, "warning" if not screen else "warning-phone")
    page.locator("#whole").scroll_into_view_if_needed()
    page.mouse.wheel(0, 5000)
    shown(page) if not screen else drawn(page)
    page.keyboard.press("a")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve this in spite of its warning?")
    assert desk.verdict(question) is None
    picture(page, "second-act" if not screen else "second-act-phone")
    drawn(page)
    page.keyboard.press("a")  # not the key of this page
    assert desk.verdict(question) is None
    page.keyboard.press("y")
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    assert desk.verdict(question) == "approve"


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_does_not_approve_what_was_not_wholly_on_the_screen(desk: Desk) -> None:
    question = ask_to_write(desk, "\n".join(f"line {n}" for n in range(120)))
    page = desk.browser()
    desk.see(page, question)
    shown(page).keyboard.press("a")
    expect(page.locator("#toast")).to_contain_text("Scroll through the question to the end of its arguments first.")
    assert desk.verdict(question) is None
    page.locator("#whole").evaluate("(each) => each.scrollIntoView({ block: 'center' })")
    drawn(page)
    page.keyboard.press("a")
    expect(page.locator(".banner")).to_contain_text("Approved by you")


def test_a_key_does_not_approve_what_is_folded_but_unfolds_it(desk: Desk) -> None:
    question = ask_to_write(desk, "\n".join(f"line {n}" for n in range(120)))
    page = desk.browser(viewport={"width": 1320, "height": 1600})
    desk.see(page, question)
    expect(page.locator("#whole")).to_be_in_viewport()
    expect(page.locator(".fold")).not_to_have_attribute("open", "")
    shown(page).keyboard.press("a")
    expect(page.locator("#toast")).to_contain_text("Scroll through the question to the end of its arguments first.")
    expect(page.get_by_text("line 119")).to_be_visible()
    assert desk.verdict(question) is None
    desk.see(page, question)
    shown(page).locator(".fold summary").click()  # by the mouse it is the same
    page.keyboard.press("a")
    expect(page.locator("#toast")).to_contain_text("Scroll through the question to the end of its arguments first.")
    page.keyboard.press("End")
    page.locator("#whole").evaluate("(each) => each.scrollIntoView({ block: 'center' })")
    drawn(page)
    page.keyboard.press("a")
    expect(page.locator(".banner")).to_contain_text("Approved by you")


LOW = {"width": 1320, "height": 420}


@pytest.mark.parametrize("key", ["y", "Control+Enter"])
def test_the_second_act_waits_until_the_arguments_were_on_the_screen_too(desk: Desk, key: str) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser(viewport=LOW)
    desk.see(page, question, "/approve")
    shown(page).keyboard.press(key)
    expect(page.locator("#toast")).to_contain_text("Scroll through the question to the end of its arguments first.")
    page.locator("#whole").evaluate("(each) => each.scrollIntoView({ block: 'center' })")
    drawn(page)
    assert desk.verdict(question) is None
    page.keyboard.press(key)
    expect(page.locator(".banner")).to_contain_text("Approved by you")


def test_the_key_that_sends_a_note_does_not_approve_what_was_not_on_the_screen(desk: Desk) -> None:
    question = ask_to_write(desk, "\n".join(f"line {n}" for n in range(30)))
    page = desk.browser(viewport=LOW)
    desk.see(page, question)
    shown(page).keyboard.press("n")
    page.get_by_label("Your note to the approval").fill("fine")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#toast")).to_contain_text("Scroll through the question to the end of its arguments first.")
    assert desk.verdict(question) is None


def test_single_keys_can_be_turned_off_and_on(desk: Desk) -> None:
    question = ask_to_write(desk)
    page = desk.browser()
    desk.see(page, question)
    live(page).locator(".me summary").click()
    page.get_by_role("button", name="Turn single keys off").click()
    page.wait_for_url(f"**/questions/{question.id}")
    expect(shown(page).locator(".act kbd").first).to_be_hidden()
    for key in "arelj?":
        page.keyboard.press(key)
    expect(page.locator("#help")).to_be_hidden()
    assert page.url.endswith(question.id) and desk.verdict(question) is None
    page.locator(".me summary").click()
    page.get_by_role("button", name="Turn single keys on").click()
    shown(page).keyboard.press("a")
    expect(page.locator(".banner")).to_contain_text("Approved by you")


def test_a_note_goes_with_an_approval(desk: Desk) -> None:
    question = ask_to_write(desk)
    page = desk.browser()
    desk.see(page, question)
    shown(page).keyboard.press("n")
    page.get_by_label("Your note to the approval").fill("seen with Bo")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    expect(page.get_by_text("seen with Bo")).to_be_visible()


# -- the list ----------------------------------------------------------------------------------------------------------


def test_the_views_of_the_list_and_the_place_in_it(desk: Desk) -> None:
    made = desk.do(ask_everything(desk.store))
    page = desk.browser("ben")
    live(page)
    views = page.locator(".views a")
    expect(views).to_have_text(["For me 7", "All 8", "Decided by me 0"])
    expect(page.locator(".row")).to_have_count(7)  # a command is for ann and a group
    expect(page.locator(".row").filter(has_text="Refund 899").locator(".tag.warn")).to_contain_text(["warning"])
    picture(page, "views")
    page.get_by_role("link", name="All 8").click()
    expect(page.locator(".row")).to_have_count(8)
    page.locator(".row").filter(has_text="Change 1 file").click()
    expect(page.locator("#place")).to_have_text(page.locator("[data-place]").inner_text())
    expect(page.locator("#place")).to_contain_text("of 8")
    assert "view=all" in page.url
    desk.do(desk.store.decide(made["change_file"].id, Approve(), by="ben", digest=made["change_file"].digest))
    page.goto(f"{desk.url}/questions?view=decided")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row")).to_contain_text("approved")


def test_the_row_of_the_question_stays_in_sight(desk: Desk) -> None:
    asked = [ask_to_write(desk, f"text {n}") for n in range(24)]
    page = desk.browser()
    desk.see(page, asked[-1])
    row = live(page).locator(".row[aria-current]")
    expect(row).to_be_in_viewport()
    ask_to_write(desk, "another")
    expect(page.locator(".row")).to_have_count(25)
    expect(row).to_be_in_viewport()
    expect(page.locator("#place")).to_have_text("24 of 25")


UNDER_THE_HEAD = """(head) => {
  const { left, top, bottom } = head.getBoundingClientRect(), found = [];
  for (let y = top + 1; y < bottom; y += 2) found.push(document.elementFromPoint(left + 18, y));
  return found.filter((each) => each.closest(".tick")).length;
}"""
"""Count the points in the head of the list at which a row's box would be ticked."""


def test_the_head_of_the_list_covers_its_rows_and_never_the_current_one(desk: Desk) -> None:
    asked = [ask_to_write(desk, f"text {n}") for n in range(24)]
    page = desk.browser()
    desk.see(page, asked[-1])
    live(page)
    head, rows = page.locator(".list .filters"), page.locator(".row")
    for top in range(300, 360, 20):  # somewhere a box is behind the head
        page.locator(".list").evaluate("(list, top) => { list.scrollTop = top; }", top)
        assert head.evaluate(UNDER_THE_HEAD) == 0
    page.locator(".list").evaluate("(list, by) => { list.scrollTop += by; }", _top(rows.nth(12)) - _top(head) - 20)
    rows.nth(12).evaluate("(row) => row.click()")
    page.wait_for_url(f"**/questions/{asked[12].id}")
    current = live(page).locator(".row[aria-current]")
    box = head.bounding_box()
    assert box and _top(current) >= box["y"] + box["height"] - 1


def _top(element: Locator) -> float:
    boxes: list[Any] = []  # None while the list is made anew

    def seen() -> bool:
        boxes.append(element.bounding_box())
        return boxes[-1] is not None

    until(element.page, seen)
    top: float = boxes[-1]["y"]
    return top


def test_a_step_that_is_open_when_the_deadline_passes_offers_no_approval(desk: Desk) -> None:
    question = desk.do(ask(desk.store, "Post", call("send_mail", {"to": "a@example.com", "subject": "Hello"})))
    page = desk.browser()
    page.clock.install()
    for step, name in (("approve", "Yes, approve"), ("edit", "Approve with changes"), ("respond", "Send the answer")):
        desk.see(page, question, f"/{step}")
        expect(page.get_by_role("button", name=name)).to_be_visible()
        page.clock.fast_forward(171_000)
        expect(page.locator(".late-note")).to_contain_text("The deadline has passed")
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    desk.see(page, question, "/reject")
    page.clock.fast_forward(171_000)
    expect(page.locator(".act").get_by_role("button", name="Reject")).to_be_visible()


def test_a_question_that_expires_while_it_is_open_says_so_and_offers_no_approval(desk: Desk) -> None:
    question = desk.do(ask(desk.store, "Post", call("send_mail", {"to": "a@example.com", "subject": "Hello"})))
    page = desk.browser()
    page.clock.install()
    desk.see(page, question)
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    page.clock.fast_forward(171_000)
    expect(page.locator(".late-note")).to_contain_text("The deadline has passed")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.get_by_role("link", name="Reject")).to_be_visible()


def test_an_edit_on_the_list_of_a_phone(desk: Desk) -> None:
    desk.do(ask_order(desk.store))
    page = desk.browser(**PHONE)
    expect(page.locator(".views a").first).to_have_text("For me 1")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    picture(page, "views-phone")
