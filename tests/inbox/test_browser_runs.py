"""A run's page and the page of stops, as people use them: in a real browser, on a desk and on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, drawn, live, picture
from tests.inbox.office import ask_refund
from tests.inbox.test_browser_axe import findings

__all__ = ["cheap_hashes", "chromium", "desk"]

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def fits(page: Any) -> None:
    """See that nothing is wider than the screen."""
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_runs_page_says_what_it_is_about_where_it_stands_and_what_it_cost(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    for options in ({}, PHONE):
        page = desk.browser("otto", **options)
        page.goto(f"{desk.url}/runs")
        row = page.locator(".line.run").first
        expect(row).to_contain_text("My desk lamp (order 1042) came with a broken arm.")
        if not options:
            picture(page, "runs")
        row.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("My desk lamp (order 1042)")
        stands = page.locator("#standing")
        expect(stands).to_contain_text("It waits for the answer to 1 question.")
        expect(stands.get_by_role("link")).to_contain_text("Refund 899.00 EUR on order 1042")
        for name in ("Turns", "Model calls", "Tokens in", "Tokens out", "Tool calls run", "Waiting for people"):
            expect(stands.get_by_text(name)).to_be_visible()
        fits(page)
        picture(page, "run-phone" if options else "run")
        stands.get_by_role("link").click()
        page.wait_for_url(f"**/questions/{question.id}")


def test_a_run_is_cancelled_with_a_reason_by_keyboard_alone_and_resumed(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser("otto")
    page.goto(f"{desk.url}/runs/{question.run}")
    page.get_by_text("Cancel this run…").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("The order was sent twice.")
    picture(page, "cancel")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    stands = page.locator("#standing")
    expect(stands).to_contain_text("otto cancelled it. Nothing new begins until it is resumed.")
    expect(stands).to_contain_text("The order was sent twice.")
    expect(page.locator("#status")).to_have_text("cancelled")
    page.get_by_role("button", name="Resume this run").press("Enter")
    expect(page.locator("#status")).to_have_text("waiting")
    assert desk.do(desk.store.record(question.run)).status == "waiting"


def test_whoever_may_not_stop_sees_no_way_to(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    desk.do(desk.store.stop("Shop assistant", by="otto", why="It refunds too much."))
    for name in ("ben", "vera"):
        page = desk.browser(name)
        page.goto(f"{desk.url}/runs/{question.run}")
        expect(page.get_by_text("Cancel this run…")).to_have_count(0)
        page.goto(f"{desk.url}/stops")
        expect(page.get_by_text("It refunds too much.").first).to_be_visible()
        expect(page.locator("main button")).to_have_count(0)


def test_all_agents_are_stopped_everybody_sees_it_at_once_and_it_is_lifted(desk: Desk) -> None:
    desk.do(ask_refund(desk.store))
    reviewer = desk.browser("ben")
    live(reviewer)
    for options in ({}, PHONE):
        page = desk.browser("otto", **options)
        page.goto(f"{desk.url}/runs")
        page.get_by_role("link", name="Stop an agent, or all").click()
        page.get_by_label("All agents").check()
        page.get_by_label("Your reason").fill("Refunds go out twice. I am looking into it.")
        fits(page)
        page.get_by_role("button", name="Stop now").click()
        expect(page.locator("#stops")).to_contain_text("All agents are stopped.")
        expect(reviewer.locator("#stops")).to_contain_text("otto: Refunds go out twice.")
        fits(page)
        picture(page, "stop-phone" if options else "stop")
        lift = page.get_by_role("button", name="Lift the stop of all agents")
        lift.click()
        expect(page.get_by_text("Nothing is stopped.")).to_be_visible()
        expect(page.get_by_text("lifted by otto").first).to_be_visible()
        expect(reviewer.locator("#stops")).to_be_empty()


def test_a_stop_that_names_nothing_says_so_and_keeps_the_reason(desk: Desk) -> None:
    page = desk.browser("otto")
    page.goto(f"{desk.url}/stops")
    page.get_by_label("Your reason").fill("It refunds too much.")
    page.get_by_role("button", name="Stop now").click()
    expect(page.get_by_role("alert")).to_contain_text("Name the agent to stop, or choose all agents.")
    expect(page.get_by_label("Your reason")).to_have_value("It refunds too much.")
    page.get_by_label("The agent's name").fill('Odd <b>"name" \u202e')
    page.get_by_role("button", name="Stop now").click()
    expect(page.locator("main").get_by_text("no worker has announced an agent of this name")).to_be_visible()
    [stop] = desk.do(desk.store.stops()).items
    assert stop.agent == 'Odd <b>"name" \u202e'.strip()


def test_the_forms_work_without_a_script(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    page = desk.browser("otto", java_script_enabled=False)
    page.goto(f"{desk.url}/stops")
    page.get_by_label("The agent's name").fill("Shop assistant")
    page.get_by_label("Your reason").fill("It refunds too much.")
    page.get_by_role("button", name="Stop now").click()
    page.goto(f"{desk.url}/runs/{question.run}")
    expect(page.locator("#standing")).to_contain_text("otto stopped this agent")
    page.get_by_text("Cancel this run…").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#status")).to_contain_text("cancelled")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_pass_an_accessibility_audit_while_something_is_stopped(desk: Desk, scheme: Any) -> None:
    question = desk.do(ask_refund(desk.store))
    lifted = desk.do(desk.store.stop("Till", by="ann", why="It pays twice."))
    desk.do(desk.store.lift(lifted.id, by="ann"))
    desk.do(desk.store.stop("Shop assistant", by="otto", why="It refunds too much."))
    for options in ({}, PHONE):
        page = desk.browser("otto", color_scheme=scheme, **options)
        for path in ("/stops", "/runs", f"/runs/{question.run}"):
            page.goto(f"{desk.url}{path}")
            if path.endswith(question.run):
                page.get_by_text("Cancel this run…").click()
            assert findings(page) == "", path
        fits(page)
