"""Many questions at once in a real browser: ticks, ranges and keys, the table, a phone, and no script.

With ASSENTRY_WRITE=1 the tests write the pictures of the docs, into docs/images/inbox.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from assentry import Reject
from assentry.store.record import Question
from tests.inbox.batch import ask_credits, make_credit, table_address
from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, drawn, live, patient_desk, picture, stop_time, until

__all__ = ["cheap_hashes", "chromium", "desk", "patient_desk"]  # fixtures

AMOUNTS = (89.90, 24.50, 120.00, 149.00, 61.20)
CASE = "The parcel came back."


def ask(desk: Desk, *amounts: float, **more: Any) -> list[Question]:
    made: list[Question] = desk.do(ask_credits(desk.store, *amounts, **more))
    return made


def boxes(page: Page) -> Any:
    return page.locator("#rows .tick input")


def ends(desk: Desk, asked: list[Question]) -> list[str | None]:
    return [desk.verdict(each) for each in asked]


def test_rows_are_ticked_one_by_one_by_range_and_by_key(desk: Desk) -> None:
    ask(desk, *AMOUNTS)
    page = live(desk.browser())
    bar = page.locator("#many")
    expect(bar).to_be_hidden()
    boxes(page).nth(0).click()
    expect(page.locator("#picked")).to_have_text("1 selected")
    boxes(page).nth(3).click(modifiers=["Shift"])
    expect(page.locator("#picked")).to_have_text("4 selected")
    boxes(page).nth(1).click(modifiers=["Shift"])
    expect(page.locator("#picked")).to_have_text("1 selected")
    page.keyboard.press("x")
    expect(page.locator("#said")).to_contain_text("selected")


def test_x_ticks_the_current_row_and_j_goes_on(desk: Desk) -> None:
    asked = ask(desk, *AMOUNTS[:3])
    page = live(desk.browser())
    for number in range(2):
        page.keyboard.press("j")
        page.wait_for_url(f"**/questions/{asked[number].id}")
        page.keyboard.press("x")
        expect(page.locator("#picked")).to_have_text(f"{number + 1} selected")
    expect(boxes(page).nth(0)).to_be_checked()
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_have_text("1 selected")
    page.get_by_role("button", name="Look at them together").click()
    page.wait_for_url("**/questions/many?**")
    expect(page.get_by_role("heading", level=1)).to_have_text("1 call of credit")


def test_after_the_mouse_the_keys_go_on_from_the_row(desk: Desk) -> None:
    asked = ask(desk, *AMOUNTS[:3])
    page = live(desk.browser())
    boxes(page).nth(1).click()
    page.keyboard.press("j")
    page.wait_for_url(f"**/questions/{asked[2].id}")
    expect(boxes(page).nth(1)).to_be_checked()


def test_x_does_nothing_where_single_keys_are_turned_off(desk: Desk) -> None:
    ask(desk, *AMOUNTS[:2])
    page = live(desk.browser())
    page.locator(".me summary").click()
    page.get_by_role("button", name="Turn single keys off").click()
    live(page)
    page.keyboard.press("x")
    expect(page.locator("#many")).to_be_hidden()
    boxes(page).nth(0).check()
    expect(page.locator("#picked")).to_have_text("1 selected")


def test_a_tick_stays_when_the_list_changes(desk: Desk) -> None:
    asked = ask(desk, 10, 20)
    page = live(desk.browser())
    boxes(page).nth(1).check()
    ask(desk, 30)
    expect(boxes(page)).to_have_count(3)
    expect(boxes(page).nth(1)).to_be_checked()
    expect(page.locator("#picked")).to_have_text("1 selected")
    desk.do(desk.store.decide(asked[1].id, Reject(), by="otto", digest=asked[1].digest))
    expect(boxes(page)).to_have_count(2)
    expect(page.locator("#many")).to_be_hidden()


def test_the_table_is_read_and_decided(desk: Desk) -> None:
    asked = [*ask(desk, 899.00, reason="damaged", case=CASE), *ask(desk, *AMOUNTS, case=CASE)]
    page = live(desk.browser())
    boxes(page).nth(0).click()
    boxes(page).nth(5).click(modifiers=["Shift"])
    picture(page, "many-list")
    page.get_by_role("button", name="Look at them together").click()
    rows = page.locator(".compare tbody tr")
    expect(rows).to_have_count(6)
    expect(page.locator(".compare .odd")).to_have_count(1)
    expect(page.locator(".compare .odd")).to_contain_text("damaged")
    expect(rows.nth(0)).to_contain_text("The credit is ten times what was paid.")
    expect(page.locator("#pinned")).to_contain_text("The credit is ten times what was paid.")
    expect(page.locator("#ticked")).to_have_text("6 of 6 ticked.")
    picture(page, "many")
    approve = page.get_by_role("button", name="Approve the ticked")
    approve.click()  # the browser asks for the second act, and sends nothing
    expect(page.locator("#confirm")).to_be_focused()
    assert ends(desk, asked) == [None] * 6
    rows.nth(0).locator(".tick input").uncheck()
    expect(page.locator("#pinned")).to_be_hidden()
    expect(page.locator("#ticked")).to_have_text("5 of 6 ticked.")
    rows.nth(0).locator(".tick input").check()
    desk.do(desk.store.decide(asked[1].id, Reject("no"), by="otto", digest=asked[1].digest))
    page.locator("#confirm").check()
    approve.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("5 of 6 decided")
    expect(page.locator(".end-of").first).to_contain_text("otto was first")
    picture(page, "many-done")
    assert ends(desk, asked) == ["approve", "reject", "approve", "approve", "approve", "approve"]
    page.get_by_role("link", name="Other questions").click()
    expect(page.locator("#many")).to_have_count(0)


def test_a_range_of_rows_is_taken_out_of_the_table(desk: Desk) -> None:
    asked = ask(desk, *AMOUNTS)
    page = desk.browser()
    page.goto(desk.url + table_address(*asked))
    ticks = page.locator(".compare .tick input")
    ticks.nth(1).click()
    ticks.nth(3).click(modifiers=["Shift"])
    expect(page.locator("#ticked")).to_have_text("2 of 5 ticked.")
    ticks.nth(0).uncheck()
    ticks.nth(4).uncheck()
    expect(page.get_by_role("button", name="Reject the ticked")).to_be_disabled()
    ticks.nth(2).check()
    page.get_by_label("Your note, or your reason").fill("Not this one.")
    page.get_by_role("button", name="Reject the ticked").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("1 question was rejected")
    assert ends(desk, asked) == [None, None, "reject", None, None]


def test_a_decision_on_many_can_be_undone_and_is_then_never_sent(patient_desk: Desk) -> None:
    desk, asked = patient_desk, ask(patient_desk, *AMOUNTS)
    page = desk.browser()
    page.goto(desk.url + table_address(*asked))
    live(page)
    page.clock.install()
    page.locator(".compare .tick input").nth(0).uncheck()
    page.get_by_role("button", name="Approve the ticked").click()
    expect(page.locator(".held")).to_contain_text("Approved")
    expect(page.locator(".compare .tick input").nth(0)).not_to_be_checked()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".held")).to_have_count(0)
    expect(page.locator("#toast")).to_have_text("Undone. Nothing was sent.")
    page.clock.run_for(60_000)
    assert ends(desk, asked) == [None] * 5
    page.get_by_role("button", name="Reject the ticked").click()
    expect(page.locator(".held")).to_contain_text("Rejected")
    page.clock.run_for(5_100)
    expect(page.get_by_role("heading", level=1)).to_have_text("All 4 questions were rejected")
    assert ends(desk, asked) == [None, *["reject"] * 4]


def test_a_second_press_sends_a_held_decision_on_many_and_says_what_became_of_each(patient_desk: Desk) -> None:
    desk, asked = patient_desk, ask(patient_desk, *AMOUNTS[:2])
    page = desk.browser()
    page.goto(desk.url + table_address(*asked))
    live(page)
    page.clock.install()
    page.get_by_role("button", name="Approve the ticked").click()
    expect(page.locator(".held")).to_be_visible()
    desk.do(desk.store.decide(asked[0].id, Reject("no"), by="otto", digest=asked[0].digest))
    page.clock.run_for(500)
    page.get_by_role("button", name="Send now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("1 of 2 decided")
    assert ends(desk, asked) == ["reject", "approve"]


def test_a_held_decision_on_many_is_sent_when_the_page_is_left(patient_desk: Desk) -> None:
    desk, asked = patient_desk, ask(patient_desk, *AMOUNTS[:2])
    page = desk.browser()
    page.goto(desk.url + table_address(*asked))
    live(page)
    page.get_by_role("button", name="Approve the ticked").click()
    expect(page.locator(".held")).to_be_visible()
    page.goto(f"{desk.url}/questions")
    until(page, lambda: ends(desk, asked) == ["approve"] * 2)


def test_a_phone_that_puts_the_table_out_of_sight_sends_what_is_held(patient_desk: Desk) -> None:
    desk, asked = patient_desk, ask(patient_desk, *AMOUNTS[:2])
    page = desk.browser(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.clock.install()
    page.goto(desk.url + table_address(*asked))
    drawn(page)
    stop_time(page)
    page.get_by_role("button", name="Approve the ticked").tap()
    expect(page.locator(".held")).to_be_visible()
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_url("**/questions")
    assert ends(desk, asked) == ["approve"] * 2


def test_a_decision_on_many_is_sent_at_once_just_before_a_deadline_of_one(patient_desk: Desk) -> None:
    desk, tool = patient_desk, make_credit(deadline=3600)
    asked = ask(desk, 10, 20, tool=tool)
    page = desk.browser()
    page.clock.install()
    assert asked[0].until is not None
    desk.clock.stopped_at = asked[0].until / 1000 - 8  # by the server's clock; the browser's says more
    page.goto(desk.url + table_address(*asked))
    live(page)
    stop_time(page)
    page.get_by_role("button", name="Approve the ticked").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("All 2 questions were approved")


def test_no_single_key_decides_on_many(desk: Desk) -> None:
    asked = ask(desk, *AMOUNTS)
    page = live(desk.browser())
    page.goto(desk.url + table_address(*asked))
    live(page)
    for key in ("a", "r", "e", "l", "i", "j", "x", "Enter", "Control+Enter"):
        page.keyboard.press(key)
    assert page.url.startswith(desk.url + "/questions/many")
    assert ends(desk, asked) == [None] * 5


def test_the_keyboard_alone_is_enough(desk: Desk) -> None:
    asked = ask(desk, 10, 900)
    page = live(desk.browser())
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_have_text("1 selected")
    page.get_by_role("button", name="All like the first").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".compare tbody tr")).to_have_count(2)
    until(page, lambda: tab_to(page, "confirm"))
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("All 2 questions were approved")
    assert ends(desk, asked) == ["approve"] * 2


def tab_to(page: Page, id: str) -> bool:
    page.keyboard.press("Tab")
    return bool(page.evaluate("document.activeElement.id") == id)


def test_on_a_phone_the_rows_are_cards_and_nothing_is_wider_than_the_screen(desk: Desk) -> None:
    asked = [*ask(desk, 899.00, reason="damaged", case=CASE), *ask(desk, *AMOUNTS, case=CASE)]
    page = desk.browser(viewport={"width": 390, "height": 844}, has_touch=True, color_scheme="dark")
    live_boxes = boxes(page)
    live_boxes.nth(0).tap()
    expect(page.locator("#picked")).to_have_text("1 selected")
    label, least = live_boxes.nth(0).locator("xpath=.."), "each => Math.min(each.offsetWidth, each.offsetHeight)"
    until(page, lambda: label.evaluate(least) >= 44)  # the list may be made anew meanwhile
    page.get_by_role("button", name="All like the first").tap()
    expect(page.locator(".compare tbody tr")).to_have_count(6)
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator(".compare .col").first).to_be_visible()
    page.mouse.wheel(0, 330)
    picture(page, "many-phone")
    page.locator("#confirm").tap()
    page.get_by_role("button", name="Approve the ticked").tap()
    expect(page.get_by_role("heading", level=1)).to_have_text("All 6 questions were approved")
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert ends(desk, asked) == ["approve"] * 6


def test_many_are_decided_without_the_script(desk: Desk) -> None:
    asked = [*ask(desk, 10, 900), *ask(desk, 30, tool=make_credit("Something else."))]
    page = desk.browser(java_script_enabled=False)
    for number in range(3):
        boxes(page).nth(number).check()
    page.get_by_role("button", name="Look at them together").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("These do not go together")
    picture(page, "many-mixed")
    page.get_by_role("link", name="2 questions").click()
    expect(page.locator(".compare tbody tr")).to_have_count(2)
    page.locator(".compare tbody tr").nth(0).locator("summary").click()
    expect(page.locator(".compare tbody tr").nth(0)).to_contain_text("Would be credited")
    page.locator("#confirm").check()
    page.get_by_role("button", name="Approve the ticked").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("All 2 questions were approved")
    assert ends(desk, asked) == ["approve", "approve", None]
