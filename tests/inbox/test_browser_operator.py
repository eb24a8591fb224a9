"""The pages of an inbox's own affairs in a real browser, and what a page tells while nobody looks at it.

With ASSENTRY_WRITE=1 the tests write the pictures of the docs, into docs/images/inbox.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from assentry.inbox.accounts import accounts_of
from assentry.inbox.webhooks import Webhooks
from assentry.store.damage import damage_of
from assentry.testing import call
from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, live, picture, until
from tests.inbox.office import PASSWORD, ask, ask_order, ask_refund

__all__ = ["cheap_hashes", "chromium", "desk"]  # fixtures

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}}
SMALL: dict[str, Any] = {"viewport": {"width": 1000, "height": 760}}
RECORD = """
window.shown = [];
window.news = [];
addEventListener("inbox-news", (event) => news.push(event.detail));
window.asked = 0;
window.Notification = class {
  static permission = localStorage.getItem("test-permission") || "default";
  static async requestPermission() {
    window.asked += 1;
    localStorage.setItem("test-permission", "granted");
    return (Notification.permission = "granted");
  }
  constructor(title, options) { Object.assign(this, { title, ...options }); window.shown.push(this); }
  close() { this.closed = true; }
};
if (!localStorage.getItem("test-looks")) Document.prototype.hasFocus = () => false;
"""
"""Notifications are kept instead of shown, and nobody looks at a page."""


def administrator(desk: Desk, **options: Any) -> Page:
    desk.do(accounts_of(desk.store).add_user("ada", "admin", PASSWORD))
    return desk.browser("ada", **options)


def away(desk: Desk, name: str = "ann", **options: Any) -> Page:
    """Somebody who is signed in and looks elsewhere; her notifications are kept in the page."""
    page = desk.browser(name, **options)
    page.context.add_init_script(RECORD)
    page.goto(f"{desk.url}/me")
    return live(page)


def turn_on(page: Page) -> None:
    main = page.get_by_role("main")
    main.get_by_role("button", name="Turn notifications on").click()
    expect(main.get_by_text("They are on in this browser.")).to_be_visible()
    until(page, lambda: page.evaluate("'at' in JSON.parse(localStorage.getItem('assentry-notified:'))"))


def shown(*pages: Page) -> list[dict[str, str]]:
    return [each for page in pages for each in page.evaluate("shown.map(({title, body, tag}) => ({title, body, tag}))")]


# -- users, tokens, webhooks -------------------------------------------------------------------------------------------


def test_a_user_is_added_and_the_link_is_gone_after_loading_anew(desk: Desk) -> None:
    page = administrator(desk, viewport={"width": 1000, "height": 900})
    page.locator(".me summary").click()
    page.get_by_role("link", name="Users").click()
    expect(page.get_by_role("heading", name="Users")).to_be_visible()
    picture(page, "users")
    page.get_by_label("Name").fill("fay")
    page.get_by_label("Role").select_option("reviewer")
    page.get_by_label("Groups").fill("finance")
    page.get_by_role("button", name="Add the user").click()
    link = page.locator(".secret:not([data-once])").inner_text()
    assert link.startswith(f"{desk.url}/sign-in/link#")
    picture(page, "user")
    page.reload()
    expect(page.get_by_role("heading", name="fay")).to_be_visible()
    expect(page.locator(".secret")).to_have_count(0)
    guest = desk.browser(None)
    guest.goto(link)
    guest.get_by_role("button", name="Sign in").click()
    guest.wait_for_url("**/questions")


def test_a_page_that_shows_a_token_makes_no_second_one_when_it_is_loaded_anew(desk: Desk) -> None:
    page = administrator(desk, **SMALL)
    page.goto(f"{desk.url}/tokens")
    page.get_by_label("Name").fill("deploy-bot")
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator(".secret:not([data-once])")).to_contain_text("assentry_")
    picture(page, "tokens")
    page.reload()
    expect(page.locator(".secret")).to_have_count(0)
    assert len(desk.do(accounts_of(desk.store).tokens())) == 1
    page.get_by_role("button", name="Revoke the token of deploy-bot").click()
    expect(page.get_by_text("1 token that has ended")).to_be_visible()


def test_webhooks_are_managed_by_keyboard_alone(desk: Desk) -> None:
    desk.do(Webhooks(desk.store).add("https://127.0.0.1:9/pager", ["question.asked"]))
    page = administrator(desk, **SMALL)
    page.goto(f"{desk.url}/webhooks")
    page.get_by_label("Address").focus()
    page.keyboard.type("https://127.0.0.1:9/services/T0/B0/x")
    page.get_by_label("Format").select_option("chat")
    page.get_by_role("button", name="Add the webhook").press("Enter")
    expect(page.locator(".secret")).to_contain_text("whsec_")
    page.goto(f"{desk.url}/webhooks")
    page.get_by_role("button", name="Test: https://127.0.0.1:9/pager").press("Enter")
    expect(page.get_by_role("status").filter(has_text="The test failed: ConnectError")).to_be_visible()
    picture(page, "webhooks")
    page.get_by_role("button", name="Disable: https://127.0.0.1:9/pager").press("Enter")
    expect(page.get_by_text("ada disabled it")).to_be_visible()


def test_an_error_is_tied_to_its_field(desk: Desk) -> None:
    page = administrator(desk, **PHONE)
    page.goto(f"{desk.url}/users")
    page.get_by_label("Name").fill("rule")
    page.get_by_role("button", name="Add the user").click()
    field = page.get_by_label("Name")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(f"#{field.get_attribute('aria-describedby')}")).to_contain_text("means something else")
    expect(field).to_have_value("rule")


@pytest.mark.parametrize("path", ["me", "users", "user?name=ann", "tokens", "webhooks", "damage", "sign-in"])
def test_nothing_is_wider_than_a_phone(desk: Desk, path: str) -> None:
    desk.do(Webhooks(desk.store).add("https://a-very-long-name-of-a-host.chat.example.com/hooks/x", format="chat"))
    desk.do(accounts_of(desk.store).add_token("a-program-with-a-long-name", "agent", ["finance", "release"]))
    damage_of(desk.store).note("question", f"The row of question 'q_{'1' * 80}' is not what was written.", 1)
    page = administrator(desk, color_scheme="dark", **PHONE)
    if path == "sign-in":
        page = desk.browser(None, **PHONE)
    page.goto(f"{desk.url}/{path}")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for box in page.locator("main :is(input:not([type=hidden]), select, button)").all():
        place = box.bounding_box()
        assert place is None or place["x"] + place["width"] <= 390


def test_operators_see_that_rows_were_refused(desk: Desk) -> None:
    page = desk.browser("ann", **SMALL)
    damage_of(desk.store).note("question", "The row of question 'q_51d2' is not what was written.", 1_760_000_000_000)
    page.goto(f"{desk.url}/runs")
    page.get_by_role("link", name="1 damaged row of the store was refused. See what to do").click()
    expect(page.get_by_text("The row of question 'q_51d2' is not what was written.")).to_be_visible()
    picture(page, "damage")
    page.get_by_role("button", name="It is repaired: forget these").click()
    expect(page.get_by_text("No damage was found.")).to_be_visible()
    expect(page.locator(".bar.damage")).to_have_count(0)


# -- the own account ---------------------------------------------------------------------------------------------------


def test_the_own_password_is_changed_and_another_browser_is_out(desk: Desk) -> None:
    page, other = desk.browser("ben", viewport={"width": 1000, "height": 1150}), desk.browser("ben")
    page.locator(".me summary").click()
    page.get_by_role("link", name="Your account").click()
    expect(page.get_by_text("another browser")).to_be_visible()
    picture(page, "me")
    page.get_by_label("The password now").fill(PASSWORD)
    page.get_by_label("A new password").fill("another horse battery")
    page.get_by_label("The new password again").fill("another horse battery")
    page.get_by_role("button", name="Change the password").click()
    expect(page.get_by_text("Your password is changed.")).to_be_visible()
    expect(page.get_by_text("another browser")).to_have_count(0)
    other.goto(f"{desk.url}/questions")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("script", [True, False])
def test_the_language_is_chosen_in_the_menu(desk: Desk, script: bool) -> None:
    page = desk.browser(None, java_script_enabled=script, **PHONE)
    page.goto(f"{desk.url}/sign-in")
    page.get_by_role("button", name="日本語").click()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    page.get_by_role("button", name="English").click()
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"{desk.url}/grants?all=1")
    page.locator(".me summary").click()
    page.get_by_role("button", name="한국어").click()
    expect(page.locator("html")).to_have_attribute("lang", "ko")
    assert page.url == f"{desk.url}/grants?all=1"


# -- what a page tells while nobody looks at it ------------------------------------------------------------------------


def test_the_title_and_the_icon_say_how_many_wait(desk: Desk) -> None:
    page = live(desk.browser())
    page.goto(f"{desk.url}/runs")
    live(page)
    icon = page.locator("link[rel=icon]")
    assert page.title() == "Runs · Assentry"
    expect(icon).to_have_attribute("href", "/static/mark.svg")
    desk.do(ask_refund(desk.store))
    order = desk.do(ask_order(desk.store))
    expect(page).to_have_title("(2) Runs · Assentry")
    expect(icon).to_have_attribute("href", "/static/mark-waiting.svg")
    assert page.request.get(f"{desk.url}/static/mark-waiting.svg").headers["content-type"] == "image/svg+xml"
    desk.do(desk.store.decide(order.id, {"type": "approve"}, by="ann", digest=order.digest))
    expect(page).to_have_title("(1) Runs · Assentry")


def test_permission_is_asked_for_by_a_click_alone(desk: Desk) -> None:
    page = away(desk)
    assert page.evaluate("asked") == 0
    desk.do(ask_refund(desk.store))
    until(page, lambda: page.evaluate("news.includes('question.asked')"))
    assert page.evaluate("asked") == 0 and shown(page) == []
    turn_on(page)
    assert page.evaluate("asked") == 1 and shown(page) == []
    desk.do(ask_order(desk.store))
    until(page, lambda: len(shown(page)) > 0)
    assert len(shown(page)) == 1 and "place_order" in shown(page)[0]["body"]  # what was asked before is no news


def test_a_new_question_is_told_once_over_all_pages_and_a_click_opens_it(desk: Desk) -> None:
    first = away(desk)
    turn_on(first)
    second = first.context.new_page()
    second.goto(f"{desk.url}/runs")
    live(second)
    question = desk.do(ask_refund(desk.store))
    until(first, lambda: shown(first, second) != [])
    desk.do(ask_order(desk.store))
    until(first, lambda: len(shown(first, second)) == 2)
    told = shown(first, second)
    assert told[0] == {
        "title": "A question for you",
        "body": "Refund 899.00 EUR on order 1042 to anna@example.com",
        "tag": question.id,
    }
    first.close()  # another page takes over
    until(second, lambda: second.evaluate("navigator.locks.query().then(({pending}) => pending.length)") == 0)
    third = desk.do(ask(desk.store, "Ops", call("use_key", {"key": "hunter-2-hunter", "where": "vault"})))
    until(second, lambda: third.id in [each["tag"] for each in shown(second)])
    assert "hunter-2" not in str(shown(second))
    second.evaluate("shown.at(-1).onclick()")
    second.wait_for_url(f"**/questions/{third.id}")


def test_only_what_somebody_may_decide_is_told(desk: Desk) -> None:
    page = away(desk, "ben")
    turn_on(page)
    desk.do(ask(desk.store, "Repo keeper", call("run_command", {"command": "git push"})))
    desk.do(ask(desk.store, "Shop", call("write", {"text": "hi"}), by="ben"))
    mine = desk.do(ask_refund(desk.store))
    until(page, lambda: shown(page) != [])
    assert [each["tag"] for each in shown(page)] == [mine.id]


def test_nothing_is_told_to_somebody_who_looks_or_turned_it_off(desk: Desk) -> None:
    page = away(desk)
    turn_on(page)
    page.evaluate("localStorage.setItem('test-looks', 'yes')")
    page.reload()
    live(page)
    until(page, lambda: page.evaluate("navigator.locks.query().then(({held}) => held.length)") == 2)
    one = desk.do(ask_refund(desk.store))
    until(page, lambda: one.id in page.evaluate("localStorage.getItem('assentry-notified:')"))
    assert shown(page) == []
    page.evaluate("localStorage.removeItem('test-looks')")
    page.reload()
    page.get_by_role("main").get_by_role("button", name="Turn notifications off").click()
    expect(page.get_by_role("main").get_by_text("They are off in this browser.")).to_be_visible()
    live(page)
    desk.do(ask_order(desk.store))
    until(page, lambda: page.evaluate("news.includes('question.asked')"))
    assert shown(page) == []


def test_many_at_once_are_one_notification(desk: Desk) -> None:
    page = away(desk)
    turn_on(page)
    page.context.set_offline(True)
    for _ in range(5):
        desk.do(ask_order(desk.store))
    page.context.set_offline(False)
    until(page, lambda: shown(page) != [])
    total = shown(page)
    assert total[-1]["title"] in ("5 new questions for you", "A question for you") and len(total) <= 3
