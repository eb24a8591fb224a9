"""Editing in a real browser: the evidence beside the form, checked as one types, and sent once it was shown."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from assentry.engines import Worker
from assentry.store import SQLiteStore
from assentry.testing import call
from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, picture, until
from tests.inbox.office import agent, ask, ask_order, ask_refund

__all__ = ["cheap_hashes", "chromium", "desk"]  # fixtures
PHONE = {"width": 390, "height": 844}


@contextmanager
def working(path: Path) -> Iterator[None]:
    """Let a worker of the shop's agents serve, in a thread of its own, on the desk's file."""
    workers: list[Worker] = []
    ready = threading.Event()

    def serve() -> None:
        async def work() -> None:
            async with SQLiteStore(path) as store:
                workers.append(Worker(store, [agent("Shop assistant"), agent("Writer")]))
                ready.set()
                await workers[0].run(signals=False)

        asyncio.run(work())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(60)
    yield
    workers[0].stop()
    thread.join(60)


def send(page: Page) -> None:
    page.get_by_label("I have read the warning").check()
    page.get_by_role("button", name="Approve with changes").click()
    expect(page.locator(".banner")).to_contain_text("by you")


def test_an_edit_is_previewed_again_beside_its_form(desk: Desk, tmp_path: Path) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser()
    with working(tmp_path / "inbox.db"):
        desk.see(page, question, "/edit")
        expect(page.locator("#headline")).to_contain_text("Refund 899.00 EUR")
        expect(page.get_by_role("button", name="Approve with changes")).to_be_disabled()
        page.get_by_label("amount").fill("89.90")
        page.get_by_label("memo", exact=True).fill("desk lamp, broken arm")
        expect(page.locator("#z-effect")).to_contain_text("the tool's own preview of your edit")
        expect(page.locator("#headline")).to_contain_text("Refund 89.90 EUR")
        expect(page.locator(".diff ins").first).to_contain_text('"amount": 89.90')
        expect(page.locator(".diff del mark").last).to_contain_text("\\u202e")
        expect(page.get_by_role("button", name="Approve with changes")).to_be_enabled()
        picture(page, "edit")
        form, effect = page.locator("#edit").bounding_box(), page.locator("#effect").bounding_box()
        assert form and effect and effect["x"] > form["x"] + form["width"] and effect["y"] < form["y"] + 40
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        form, effect = page.locator("#edit").bounding_box(), page.locator("#effect").bounding_box()
        assert form and effect and effect["y"] > form["y"] + form["height"]
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        picture(page, "edit-phone")
        send(page)
    assert desk.verdict(question) == "edit"


def test_a_warning_in_the_edits_preview_is_confirmed_before_the_key_sends(desk: Desk, tmp_path: Path) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser()
    with working(tmp_path / "inbox.db"):
        desk.see(page, question, "/edit")
        page.get_by_label("amount").fill("12")
        page.keyboard.press("Control+Enter")  # while the check is under way
        expect(page.get_by_label("I have read the warning")).to_be_focused()
        assert desk.verdict(question) is None
        page.keyboard.press("Space")
        page.keyboard.press("Control+Enter")
        expect(page.locator(".banner")).to_contain_text("by you")
    assert desk.verdict(question) == "edit"


def test_the_key_waits_for_the_check_and_is_not_lost(desk: Desk) -> None:
    question = desk.do(ask(desk.store, "Writer", call("write", {"text": "hello"})))
    page = desk.browser()
    desk.see(page, question, "/edit")
    held: list[Route] = []
    page.route("**/edit", lambda route: held.append(route))
    expect(page.locator(":focus")).to_have_value("hello")
    assert page.evaluate("document.getSelection().toString()") == "hello"
    page.keyboard.type("goodbye")
    page.keyboard.press("Control+Enter")
    until(page, lambda: len(held) > 0)
    assert desk.verdict(question) is None
    held[-1].continue_()
    expect(page.locator(".banner")).to_contain_text("by you")
    assert desk.verdict(question) == "edit"


def test_a_check_that_failed_is_said_and_made_again_by_the_key_that_sends(desk: Desk) -> None:
    question = desk.do(ask(desk.store, "Writer", call("write", {"text": "hello"})))
    page = desk.browser()
    desk.see(page, question, "/edit")
    page.route("**/edit", lambda route: route.abort())
    page.get_by_label("text").fill("goodbye")
    expect(page.locator("#toast")).to_have_text("The change could not be checked.")
    page.unroute("**/edit")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".banner")).to_contain_text("by you")
    assert desk.verdict(question) == "edit"


def test_a_check_that_comes_late_is_not_taken_for_one_of_what_was_typed_since(desk: Desk) -> None:
    question = desk.do(ask(desk.store, "Writer", call("write", {"text": "hello"})))
    page = desk.browser()
    page.clock.install()
    desk.see(page, question, "/edit")
    held: list[Route] = []
    page.route("**/edit", lambda route: held.append(route))
    button, text = page.get_by_role("button", name="Approve with changes"), page.get_by_label("text")
    text.fill("twelve")
    page.clock.run_for(1000)
    until(page, lambda: len(held) == 1)
    text.fill("thirteen")
    with page.expect_event("response"):
        held[0].continue_()
    page.evaluate("fetch('/questions').then((answer) => answer.text())")  # by then the page has looked at it
    expect(button).to_be_disabled()
    expect(page.locator("#review")).not_to_contain_text("twelve")
    page.clock.run_for(1000)
    until(page, lambda: len(held) == 2)
    held[1].continue_()
    expect(page.locator("#review")).to_contain_text("thirteen")
    expect(button).to_be_enabled()


def test_a_problem_stands_at_its_field_and_gets_the_focus(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser()
    desk.see(page, question, "/edit")
    amount = page.get_by_label("amount")
    amount.fill("a lot")
    page.get_by_label("memo", exact=True).focus()
    expect(page.locator("[id='e:/amount']")).to_have_text("This is not a number.")
    expect(amount).to_have_attribute("aria-invalid", "true")
    expect(amount).to_have_attribute("aria-describedby", "h:/amount e:/amount")
    page.keyboard.press("Control+Enter")
    expect(amount).to_be_focused()
    amount.fill("")
    expect(page.locator("[id='e:/amount']")).to_have_text("This needs a value.")
    amount.fill("1234567.5")
    expect(page.locator("[id='e:/amount']")).to_be_hidden()
    expect(page.locator("output.grouped").nth(1)).to_have_text("1\u202f234\u202f567.5")
    assert desk.verdict(question) is None


@pytest.mark.parametrize("script", [True, False])
def test_a_long_text_is_compared_in_small_pieces(desk: Desk, script: bool) -> None:
    lines = [f"Line {number} says something plain." for number in range(120)]
    question = desk.do(ask(desk.store, "Writer", call("write", {"text": "\n".join(lines)})))
    page = desk.browser(java_script_enabled=script)
    desk.see(page, question, "/edit")
    for number in (10, 60, 100):
        lines[number] = f"Line {number} says nothing plain."
    page.get_by_label("text").fill("\n".join(lines))
    if not script:
        page.get_by_role("button", name="Check the change").last.click()
    expect(page.locator("#review ins mark")).to_have_text(["nothing"] * 3)
    expect(page.locator("#review del mark")).to_have_text(["something"] * 3)
    assert page.locator("#review .r").count() < 40
    page.get_by_role("button", name="Approve with changes").click()
    expect(page.locator(".banner")).to_contain_text("by you")


def test_the_evidence_stands_beside_a_rejection_and_an_answer(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser()
    for step in ("reject", "respond"):
        desk.see(page, question, f"/{step}")
        expect(page.locator(".evidence")).to_contain_text("The refund is ten times what was paid.")
        expect(page.locator(".evidence")).to_contain_text("My desk lamp (order 1042) came with a broken arm.")


def test_a_list_keeps_its_order_while_it_is_edited(desk: Desk) -> None:
    question = desk.do(ask_order(desk.store))
    page = desk.browser()
    desk.see(page, question, "/edit")
    labels = page.locator("#edit label.name").all_inner_texts()
    assert labels[:2] == ["article", "count"] and labels.index("street") < labels.index("city") < labels.index("speed")
