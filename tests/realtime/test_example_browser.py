"""The page of the live support desk in a real browser: typing, speaking, approving, on a phone, and for screen readers.

With ASSENTRY_WRITE=1 the tests write the pictures of the docs, into docs/images/realtime.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import threading
from array import array
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from assentry.realtime import openai_websocket
from assentry.testing import call
from tests.realtime.example import Desk, desk

PICTURES = Path(__file__).parent.parent.parent / "docs" / "images" / "realtime"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--mute-audio",
    "--use-fake-device-for-media-stream",
]  # fmt: skip
WAIT = 60_000
"""The milliseconds that a browser on a busy machine may take."""
REFUND = "Please refund 89.90 on order 1042."


@pytest.fixture(scope="module")  # no longer: while it is there, no other test can have an event loop
def chromium() -> Iterator[Browser]:
    """A browser for all tests. Where none is installed they are skipped; in CI they fail."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("CI"):
            raise RuntimeError("There is no Chromium: apt-get install chromium.")
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        expect.set_options(timeout=WAIT)
        yield browser
        browser.close()


class Office:
    """The support desk on an event loop of its own, and people with browsers."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._contexts: list[BrowserContext] = []
        self.problems: list[str] = []
        self._begun, self._loop = threading.Event(), asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve({})), daemon=True)
        self.desk: Desk
        self._thread.start()
        assert self._begun.wait(60)

    async def _serve(self, options: dict[str, Any]) -> None:
        async with desk(**options) as self.desk:
            self._begun.set()
            await self._end.wait()

    def do(self, work: Any, *args: Any) -> None:
        """Call something on the server's event loop."""
        self._loop.call_soon_threadsafe(work, *args)

    def wait(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for something on the server's event loop."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT / 1000)

    def visit(self, **options: Any) -> Page:
        """Open the page, and wait until it is connected."""
        options = {"viewport": {"width": 1320, "height": 760}, "reduced_motion": "reduce", **options}
        context = self._chromium.new_context(**options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.goto(self.desk.address)
        live(page)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self.do(self._end.set)
        self._thread.join(60)
        self._loop.close()


@pytest.fixture
def office(chromium: Browser) -> Iterator[Office]:
    made = Office(chromium)
    yield made
    made.close()
    assert made.problems == []  # no error of the script, and nothing that the page's policy had to stop


def live(page: Page) -> None:
    expect(page.locator("#live")).to_have_text("Live")


def type_in(page: Page, words: str) -> None:
    page.get_by_label("Message").fill(words)
    page.keyboard.press("Enter")


def ask(page: Page, words: str = REFUND) -> Locator:
    """Type a message that leads to a question, and return its card once the agent has gone on."""
    type_in(page, words)
    expect(said(page, "A colleague has to confirm that.")).to_be_visible()
    card = page.locator(".ask")
    expect(card).to_be_visible()
    return card


def said(page: Page, words: str) -> Locator:
    """Return a complete message of the agent with these words."""
    return page.locator(".msg:not(.user, .now)", has_text=words).last


def settled(page: Page, words: str) -> Locator:
    """Return the line of a call in the conversation that has ended with these words."""
    return page.locator(".call", has_text=words)


def picture(page: Page, name: str) -> None:
    """Write a picture for the docs, if asked to."""
    if os.environ.get("ASSENTRY_WRITE"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")


# -- flows -------------------------------------------------------------------------------------------------------------


def test_a_call_is_approved_with_a_click(office: Office) -> None:
    page = office.visit()
    type_in(page, "My desk lamp, order 1042, came with a broken arm.")
    expect(settled(page, "order_status")).to_contain_text("desk lamp, 89.90 EUR paid, delivered on Monday.")
    expect(said(page, "delivered on Monday.")).to_be_visible()
    card = ask(page)
    expect(page.locator(".msg.user").last).to_have_text(f"You{REFUND}")
    expect(said(page, "I give you 89.90 back.")).to_be_visible()
    expect(card.get_by_role("heading", level=3)).to_have_text("Refund 899.00 EUR on order 1042")
    expect(card.get_by_text("The refund is more than what was paid.")).to_be_visible()
    expect(card.get_by_role("row", name="amount")).to_contain_text("899.0")
    expect(settled(page, "waits for you")).to_be_visible()
    expect(settled(page, "runs")).to_have_count(0)
    expect(page.locator("#urgent")).to_have_text("Your approval is needed: Refund 899.00 EUR on order 1042")
    expect(page).to_have_title("(1) Support desk · Assentry")
    picture(page, "approval")
    card.get_by_role("button", name="Approve").click()
    expect(settled(page, "Approved by you")).to_contain_text("Refunded 899.00 EUR on order 1042.")
    expect(said(page, "Refunded 899.00 EUR on order 1042.")).to_be_visible()
    expect(page.locator(".ask")).to_have_count(0)
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(page.get_by_label("Message")).to_be_focused()


def test_a_call_is_rejected_with_a_message(office: Office) -> None:
    page = office.visit(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(17, 19, 21)"
    card = ask(page)
    picture(page, "approval-dark")
    card.get_by_role("button", name="Reject").click()
    expect(card.get_by_label("Your reason")).to_be_focused()
    card.get_by_label("Your reason").fill("Ten times too much.")
    card.get_by_role("button", name="Reject", exact=True).click()
    expect(settled(page, "Rejected by you")).to_contain_text("Ten times too much.")
    expect(said(page, "Ten times too much.")).to_be_visible()


def test_a_call_is_changed_and_approved(office: Office) -> None:
    page = office.visit()
    card = ask(page)
    card.get_by_role("button", name="Edit").click()
    send = card.get_by_role("button", name="Approve with changes")
    send.click()
    expect(card.get_by_role("alert")).to_have_text("Nothing is changed.")
    card.get_by_label("amount").fill("a lot")
    send.click()
    expect(card.get_by_role("alert")).to_contain_text("amount must be a number")
    card.get_by_label("amount").fill('"a lot"')
    send.click()
    expect(card.get_by_role("alert")).to_contain_text("amount")  # this time it is the server's word
    expect(send).to_be_enabled()
    card.get_by_label("amount").fill("89.90")
    expect(card.get_by_role("alert")).to_have_text("")
    send.click()
    expect(settled(page, "Changed and approved by you")).to_contain_text("Refunded 89.90 EUR on order 1042.")


def test_always_asks_no_more(office: Office) -> None:
    page = office.visit()
    card = ask(page)
    card.get_by_role("button", name="Always").click()
    expect(card).to_contain_text("Every later call of refund by Support desk in this conversation runs without asking.")
    card.get_by_role("button", name="Back").click()
    card.get_by_role("button", name="Always").click()
    card.get_by_role("button", name="Approve, always").click()
    expect(said(page, "Refunded 899.00 EUR on order 1042.")).to_be_visible()
    type_in(page, "Please refund 10.00 on order 1043.")
    expect(said(page, "Refunded 100.00 EUR on order 1043.")).to_be_visible()
    expect(page.locator(".ask")).to_have_count(0)


def test_the_keyboard_is_enough(office: Office) -> None:
    page = office.visit()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the link to the message box
    page.get_by_label("Message").press("a")
    page.keyboard.press("Backspace")
    page.keyboard.type(REFUND)
    page.keyboard.press("Enter")
    card = page.locator(".ask")
    expect(said(page, "A colleague")).to_be_visible()
    expect(card).to_be_visible()
    expect(page.get_by_label("Message")).to_be_focused()  # a card that arrives takes the focus from nobody
    while not card.evaluate("node => node === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("r")
    expect(card.get_by_label("Your reason")).to_be_focused()
    page.keyboard.type("a")  # in a field it is a letter
    expect(card).to_be_visible()
    page.keyboard.press("Escape")
    expect(card).to_be_focused()
    page.keyboard.press("a")
    expect(settled(page, "Approved by you")).to_be_visible()
    expect(page.get_by_label("Message")).to_be_focused()


def test_another_agent_takes_over(office: Office) -> None:
    page = office.visit()
    page.get_by_role("button", name="I have a question about my invoice.").click()
    expect(page.get_by_text("Support desk handed over to Billing")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Billing")
    expect(said(page, "Which order is it about?").locator("b")).to_have_text("Billing")


def test_a_conversation_is_there_after_a_reload_and_a_new_one_is_empty(office: Office) -> None:
    page = office.visit()
    ask(page)
    page.reload()
    live(page)
    expect(page.locator(".msg.user")).to_contain_text(REFUND)
    page.locator(".ask").get_by_role("button", name="Approve").click()
    expect(settled(page, "Approved by you")).to_contain_text("Refunded 899.00 EUR")
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_text("How can we help?")).to_be_visible()
    live(page)
    expect(page.locator("#items li")).to_have_count(0)


# -- audio -------------------------------------------------------------------------------------------------------------


def test_speech_is_sent_and_answered(office: Office) -> None:
    page = office.visit(permissions=["microphone"])
    type_in(page, "Hello.")
    expect(said(page, "I can look up an order")).to_be_visible()
    speak = page.locator("#speak")
    speak.click()
    expect(page.locator("#hint")).to_contain_text("Listening.")
    expect(speak).to_have_attribute("aria-pressed", "true")
    office.wait(office.desk.model.until("input_audio_buffer.append", 15))
    speak.click()
    expect(page.locator(".msg.user").last).to_contain_text(re.compile(r"\([1-9]\d*\.\d seconds of speech\)"))
    sent = [event for event in office.desk.model.received[0] if event["type"] == "input_audio_buffer.append"]
    audio = array("h", b"".join(base64.b64decode(event["audio"]) for event in sent))
    assert max(map(abs, audio)) > 1000  # the device of the browser beeps
    expect(said(page, "I heard you")).to_be_visible()
    expect(speak).to_have_attribute("aria-pressed", "false")


def test_a_microphone_that_is_not_allowed_is_said(office: Office) -> None:
    page = office.visit(permissions=[])
    page.get_by_role("button", name="Speak").click()
    expect(page.locator("#hint")).to_have_text("The microphone was not allowed. You can go on by typing.")
    type_in(page, "Hello.")
    expect(said(page, "I can look up an order")).to_be_visible()
    expect(page.locator("#hint")).to_have_text("")


def test_the_agents_voice_is_played_and_stopped(office: Office) -> None:
    office.desk.model._responder = lambda items, tools: "I can talk about it" + " for ever" * 150
    page = office.visit()
    stop = page.get_by_role("button", name="Stop")
    type_in(page, "Hello.")
    expect(said(page, "I can talk about it")).to_be_visible()
    expect(stop).to_be_visible()  # a minute of tones is not over yet
    page.keyboard.press("Escape")
    expect(stop).to_be_hidden()
    page.get_by_role("button", name="Sound on").click()
    type_in(page, "Hello again.")
    expect(page.locator(".msg:not(.user, .now)")).to_have_count(2)
    expect(stop).to_be_hidden()


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_call_can_be_decided_while_the_model_is_away(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_websocket, "CONNECT_TIMEOUT", WAIT / 1000)  # or the model is given up meanwhile
    page = office.visit()
    card = ask(page)
    office.do(office.desk.model.stall)  # no new connection is answered
    office.do(office.desk.model.drop)
    expect(page.locator("#bar")).to_contain_text("The connection to the model is lost; it is made again.")
    expect(page.locator("#live")).to_have_text("Reconnecting")
    expect(page.get_by_role("button", name="Speak")).to_be_disabled()
    card.get_by_role("button", name="Approve").click()
    expect(settled(page, "Approved by you")).to_contain_text("Refunded 899.00 EUR")
    office.do(office.desk.model.resume)
    live(page)
    expect(said(page, "Refunded 899.00 EUR on order 1042.")).to_be_visible()
    expect(page.locator("#bar")).to_be_hidden()


def test_a_call_is_kept_when_the_model_is_lost(office: Office) -> None:
    page = office.visit()
    card = ask(page)
    office.desk.model.refuse = (403, "No more of this.")
    office.do(office.desk.model.drop)
    expect(page.locator("#live")).to_have_text("Lost")
    expect(page.locator("#bar")).to_contain_text("What waits for you is kept; decide when the connection is back.")
    expect(card.get_by_role("button", name="Approve")).to_be_disabled()
    picture(page, "lost")
    office.desk.model.refuse = None
    page.get_by_role("button", name="Connect again").click()
    live(page)
    page.locator(".ask").get_by_role("button", name="Approve").click()
    expect(settled(page, "Approved by you")).to_contain_text("Refunded 899.00 EUR on order 1042.")


def test_a_lost_server_is_said_and_found_again(office: Office) -> None:
    page = office.visit()
    ask(page)
    sockets: list[Any] = []

    def refuse(route: Any) -> None:
        sockets.append(route)
        route.close()

    page.route_web_socket("**/ws/*", refuse)
    page.reload()
    expect(page.locator("#live")).to_have_text("Reconnecting")
    expect(page.locator("#bar")).to_contain_text("The connection is lost; it is made again.")
    page.route_web_socket("**/ws/*", lambda route: route.connect_to_server() and None)
    live(page)
    expect(page.locator(".ask")).to_be_visible()


def test_two_windows_of_one_conversation(office: Office) -> None:
    page = office.visit()
    card = ask(page)
    session = page.evaluate("sessionStorage.session")
    other = office.visit()
    other.evaluate("id => { sessionStorage.session = id }", session)
    other.reload()
    live(other)
    expect(other.locator(".ask")).to_be_visible()
    expect(page.locator("#bar")).to_contain_text("This conversation is open in another window.")
    expect(card.get_by_role("button", name="Approve")).to_be_disabled()


# -- everybody ---------------------------------------------------------------------------------------------------------


def test_a_phone_has_one_column_with_the_buttons_at_the_thumb(office: Office) -> None:
    page = office.visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    expect(page.locator(".wait")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    card = ask(page)
    button = card.get_by_role("button", name="Approve")
    expect(button).to_be_in_viewport()
    box = button.bounding_box()
    assert box is not None and box["y"] > 844 * 0.6 and box["height"] >= 40
    expect(page.get_by_label("Message")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "phone")
    button.tap()
    expect(settled(page, "Approved by you")).to_be_visible()


EVIL = '"><script>window.owned=1</script><img src=x onerror="window.owned=2">\u202e</textarea>'


def test_hostile_words_run_nothing_and_hide_nothing(office: Office) -> None:
    refund = [EVIL, call("refund", {"order_id": EVIL, "amount": 1})]
    office.desk.model._responder = lambda items, tools: refund if items[-1].get("role") == "user" else EVIL
    page = office.visit()
    type_in(page, EVIL)
    card = page.locator(".ask")
    expect(card).to_be_visible()
    for button in ("Edit", "Always", "Reject"):
        card.get_by_role("button", name=button).click()
        card.get_by_role("button", name="Back").click()
    assert page.evaluate("window.owned") is None
    assert page.locator("main img:not([src='/static/mark.svg'])").count() == 0
    expect(card.locator("td .ch")).to_have_text("U+202E")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_passes_an_accessibility_audit(office: Office, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = office.visit(color_scheme=scheme)
    found = {}

    def audit(name: str) -> None:
        answer = Axe().run(page)
        if answer.violations_count:
            found[name] = answer.generate_report()

    audit("empty")
    card = ask(page)
    audit("waiting")
    for form in ("Edit", "Always", "Reject"):
        card.get_by_role("button", name=form).click()
        audit(form)
        card.get_by_role("button", name="Back").click()
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("amount").fill("89.90")
    card.get_by_role("button", name="Approve with changes").click()
    expect(said(page, "Refunded 89.90 EUR")).to_be_visible()
    type_in(page, "I have a question about my invoice.")
    expect(said(page, "Billing here.")).to_be_visible()
    audit("settled")
    assert found == {}
