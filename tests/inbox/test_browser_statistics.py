"""The statistics and the audit in a real browser: both themes, on a phone, by keyboard, and without the script."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from assentry.approval.decision import Decider
from assentry.store import Store
from assentry.testing.store_checks.draft import SEND, SHRED, asking
from tests.inbox.desk import Clock, Desk, cheap_hashes, chromium, desk, drawn, picture
from tests.inbox.office import ask_refund

__all__ = ["cheap_hashes", "chromium", "desk"]

PHONE = {"width": 390, "height": 844}
HOUR, DAY = 3600.0, 86400.0


async def past(store: Store, clock: Clock) -> None:
    """A busy week: by day more is asked than by night, and one person decides before the page can be read."""
    chance = random.Random(7)
    people = ("ann", "ann", "ann", "ben", "otto")
    for hours in range(7 * 24, 0, -6):
        for _ in range(1 + (hours // 6 % 4) * 2):
            clock.behind = hours * HOUR + chance.random() * 5 * HOUR
            draft = asking(clock, (chance.choice((SEND, SEND, SHRED)),))
            [question] = (await draft.write(store)).asked
            clock.behind = max(0.0, clock.behind - chance.lognormvariate(6, 1.6))
            looked = chance.choice((None, 900, 12_000, 40_000))
            by = Decider(chance.choice(people), (), None if looked is None else "0" * 64, looked)
            verdict = chance.choice(
                [{"type": "approve"}] * 6
                + [{"type": "reject", "message": "The address is not known."}]
                + [{"type": "edit", "arguments": {"to": "ben"}}]
            )
            if clock.behind:
                await store.decide(question.id, verdict, by=by, digest=question.digest)
    clock.behind = 0.0
    await ask_refund(store)


def wide(page: Page) -> bool:
    """Whether the page is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_statistics_are_plots_and_tables_in_both_themes_and_on_a_phone(desk: Desk, scheme: str) -> None:
    desk.do(past(desk.store, desk.clock))
    page = desk.browser("ann", color_scheme=scheme, viewport={"width": 1320, "height": 1000})
    page.get_by_role("link", name="Statistics").click()
    expect(page.get_by_role("heading", name="Statistics", exact=True)).to_be_visible()
    plots = page.get_by_role("img", name="Questions that waited")
    expect(plots).to_be_visible()
    drawn(page)  # what is visible may not have its colours yet
    colours = page.evaluate("[...document.querySelectorAll('polyline')].map(each => getComputedStyle(each).stroke)")
    assert len(colours) == 3 and "none" not in colours  # the style sheet is there, and colours the lines
    picture(page, f"statistics-{scheme}")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert not wide(page)
    picture(page, f"statistics-phone-{scheme}")


def test_the_numbers_of_the_plots_are_in_tables_by_keyboard(desk: Desk) -> None:
    desk.do(past(desk.store, desk.clock))
    page = desk.browser("ann")
    page.goto(f"{desk.url}/statistics")
    page.get_by_text("The numbers over time").focus()
    page.keyboard.press("Enter")
    table = page.get_by_role("region", name="The numbers over time")
    expect(table).to_be_visible()
    asked = sum(int(text) for text in table.locator("tbody tr td:nth-child(2)").all_inner_texts())
    expect(page.get_by_text(f"of {asked} questions asked")).to_be_visible()
    page.get_by_role("link", name="ben", exact=True).first.click()
    page.wait_for_url("**/audit?by=ben")
    expect(page.get_by_role("textbox", name="Person")).to_have_value("ben")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_audit_is_filtered_and_exported(desk: Desk, scheme: str) -> None:
    desk.do(past(desk.store, desk.clock))
    page = desk.browser("ann", color_scheme=scheme)
    page.goto(f"{desk.url}/audit")
    page.get_by_role("combobox", name="Decision").select_option("edit")
    page.get_by_role("textbox", name="Tool").fill("send")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**verdict=edit**")
    page.get_by_text("What was changed").first.click()
    expect(page.locator(".audit .diff").first).to_be_visible()
    rows = page.locator(".audit tbody tr").count()
    picture(page, f"audit-filtered-{scheme}")
    with page.expect_download() as started:
        page.get_by_role("link", name="Export as JSON Lines").click()
    assert len(Path(started.value.path()).read_text().splitlines()) == rows > 0
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert not wide(page)


def test_both_pages_work_without_the_script(desk: Desk) -> None:
    desk.do(past(desk.store, desk.clock))
    page = desk.browser("ann", java_script_enabled=False)
    page.goto(f"{desk.url}/statistics")
    page.get_by_role("textbox", name="Tool").fill("shred")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("link", name="shred")).to_be_visible()
    expect(page.get_by_role("link", name="send", exact=True)).to_have_count(0)
    page.get_by_role("link", name="shred").click()
    expect(page.locator(".audit tbody tr").first).to_contain_text("shred")
