"""A model's question to a person, answered on the page in a real browser."""

from __future__ import annotations

from playwright.sync_api import expect

from assentry import Agent, Runner, ask_user
from assentry.testing import ScriptedModel, call
from tests.inbox.desk import Desk, cheap_hashes, chromium, desk

__all__ = ["cheap_hashes", "chromium", "desk"]


def test_a_question_of_the_model_is_answered_in_a_form(desk: Desk) -> None:
    fields = [
        {"label": "Floor", "type": "number"},
        {"label": "View", "type": "one_of", "options": ["river", "<b>yard</b>"]},
        {"label": "Pets", "type": "yes_or_no"},
    ]
    asked = {"question": "Which <i>room</i>?", "context": "Two are free.", "fields": fields}
    agent = Agent(name="Travel", tools=[ask_user()], model=ScriptedModel([call("ask_user", asked), "Booked."]))
    desk.do(Runner.run(agent, "Book.", store=desk.store))
    [question] = desk.do(desk.store.questions()).items
    page = desk.browser()
    desk.see(page, question)
    expect(page.locator("#sentence")).to_have_text("The agent asks: Which <i>room</i>?")
    page.get_by_label("Floor").fill("2")
    page.get_by_label("View", exact=True).select_option(label="<b>yard</b>")
    page.get_by_role("radiogroup", name="Pets").get_by_text("true").click()
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_text("answered").first).to_be_visible()
    assert desk.verdict(question) == "respond"
