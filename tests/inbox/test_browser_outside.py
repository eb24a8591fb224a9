"""The page of a question that a program outside has asked, in a real browser.

With ASSENTRY_WRITE=1 the test writes the picture of the docs, into docs/images/inbox.
"""

from __future__ import annotations

from playwright.sync_api import expect

from assentry import Diff, Preview
from assentry.approval.foreign_call import CallRequest
from assentry.store.calls import ask_about_call, finish_call, look_at_call, start_call
from tests.inbox.desk import Desk, cheap_hashes, chromium, desk, live, picture

__all__ = ["cheap_hashes", "chromium", "desk"]  # fixtures

BEFORE = "limits:\n  refund: 200\n  payout: 5000\n"
AFTER = "limits:\n  refund: 200\n  payout: 50000\n"
REQUEST = CallRequest(
    source="claude-code",
    tool="Edit",
    arguments={"file_path": "/srv/shop/limits.yaml", "old_string": "payout: 5000", "new_string": "payout: 50000"},
    description="Replaces text in a file.",
    preview=Preview("Change 1 line in limits.yaml", (Diff.between("limits.yaml", BEFORE, AFTER),)),
    says="I raise the payout limit a little, so that the tests pass.",
    session="fix-payouts",
    key="edit-1",
)


def test_a_question_from_outside_is_decided_on_the_page_and_reported(desk: Desk) -> None:
    status, _ = desk.do(ask_about_call(desk.store, REQUEST, by="anns-laptop"))
    page = live(desk.browser(viewport={"width": 1320, "height": 1000}))
    expect(page.locator(".row")).to_contain_text("Change 1 line in limits.yaml")
    page.goto(f"{desk.url}{status.link}")
    live(page)
    words = page.locator("main")
    expect(words).to_contain_text("anns-laptop:claude-code")
    expect(words).to_contain_text("says that this is what the call does. Assentry has not checked it.")
    expect(page.locator(".says")).to_contain_text("I raise the payout limit a little")
    expect(page.locator(".diff .a", has_text="payout: 50000").first).to_be_visible()
    picture(page, "outside")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".banner")).to_contain_text("Approved by you")
    approved = desk.do(look_at_call(desk.store, status.id, by="anns-laptop"))
    assert (approved.state, approved.by) == ("approved", "ann")
    assert approved.arguments == REQUEST.arguments
    desk.do(start_call(desk.store, status.id, by="anns-laptop", holder="session-1", arguments=approved.arguments))
    desk.do(finish_call(desk.store, status.id, by="anns-laptop", holder="session-1", output="1 line changed"))
    page.goto(f"{desk.url}/runs/{status.id}")
    expect(page.locator("main")).to_contain_text("1 line changed")
