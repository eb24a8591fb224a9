"""Grants over all runs in a real browser: given within ranges, listed with the others, revoked, by keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, drawn, picture, shown
from tests.inbox.office import ask_refund

__all__ = ["cheap_hashes", "chromium", "desk"]  # fixtures


def test_a_grant_over_all_runs_is_given_in_words_listed_and_revoked(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser()
    desk.see(page, question)
    shown(page).keyboard.press("l")
    page.get_by_label("in all runs of Shop assistant").check()
    page.get_by_label("memo", exact=True).select_option("any")
    page.get_by_label("order", exact=True).select_option("any")
    expect(page.get_by_label("Limit of memo")).to_be_hidden()
    page.get_by_label("amount", exact=True).select_option("at_most")
    page.get_by_label("Limit of amount").fill("900")
    page.get_by_label("Up to").fill("3")
    page.get_by_role("button", name="See it in words").click()
    words = "in all of its runs, where amount is at most 900, up to 3 times"
    expect(page.locator(".grant .lead")).to_contain_text(words)
    picture(page, "always-all-runs")
    page.get_by_label("Limit of amount").fill("9000")
    give = page.get_by_role("button", name="Approve and give the grant")
    expect(give).to_have_count(0)  # the words are of other terms
    page.get_by_role("button", name="in words").click()
    expect(page.locator(".grant .lead")).to_contain_text("at most 9000")
    give.click()
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    page.get_by_role("link", name="Grants").click()
    expect(page.locator(".grant")).to_contain_text("used 0 of 3 times")
    picture(page, "grants-all-runs")
    page.get_by_label("Kind").select_option("run")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".grant")).to_have_count(0)
    page.go_back()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No grants over all runs are in force.")).to_be_visible()
    assert desk.problems == []


def test_a_limit_that_is_no_number_is_said_in_the_form(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser(viewport={"width": 390, "height": 844}, color_scheme="dark")
    desk.see(page, question, "/always")
    page.get_by_label("in all runs of Shop assistant").check()
    page.get_by_label("amount", exact=True).select_option("at_least")
    page.get_by_label("Limit of amount").fill("a lot")
    page.get_by_role("button", name="See it in words").click()
    expect(page.get_by_role("alert")).to_contain_text("is a number")
    expect(page.get_by_label("Limit of amount")).to_have_value("a lot")
    drawn(page)
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
    picture(page, "always-phone")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_grant_is_given_without_a_script(desk: Desk, scheme: str) -> None:
    question = desk.do(ask_refund(desk.store, memo="lamp"))
    page = desk.browser(java_script_enabled=False, color_scheme=scheme)
    desk.see(page, question, "/always")
    page.get_by_label("in all runs of Shop assistant").check()
    page.get_by_label("memo", exact=True).select_option("starts_with")
    page.get_by_label("Limit of memo").fill("la")
    page.get_by_role("button", name="See it in words").click()
    page.get_by_role("button", name="Approve and give the grant").click()
    assert desk.verdict(question) == "approve"
    [grant] = desk.do(desk.store.standing_grants()).items
    assert grant.where["memo"] == {"starts_with": "la"}
