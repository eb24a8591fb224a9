"""Every page of the inbox, for tests that look at all of them. A new page is added here; a test finds it missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from assentry import Approve, Reject
from assentry.approval.terms import GrantTerms
from assentry.inbox.webhooks import Webhooks
from assentry.store import Store
from assentry.store.damage import damage_of
from assentry.store.record import Question
from tests.inbox.desk import Desk
from tests.inbox.office import ask_order, ask_refund
from tests.store.support import Script, asked, js, replied

Made = dict[str, Question]
"""The questions of `ask_everything`, by tool."""


@dataclass(frozen=True)
class Place:
    """A page that a link leads to: its route, and the path to it. Nobody is signed in if `who` is None."""

    route: str
    path: Callable[[Made], str]
    who: str | None = "ann"


def _fixed(route: str, who: str | None = "ann") -> Place:
    return Place(route, lambda made: route, who)


def _question(tool: str, who: str = "ann") -> Place:
    return Place("/questions/{id}", lambda made: f"/questions/{made[tool].id}", who)


def _step(step: str, tool: str) -> Place:
    return Place("/questions/{id}/{step}", lambda made: f"/questions/{made[tool].id}/{step}")


PAGES: dict[str, Place] = {
    "list": _fixed("/questions"),
    "nothing found": Place("/questions", lambda made: "/questions?q=nowhere-to-be-found"),
    "approval": _question("refund"),
    "sql": _question("execute_sql"),
    "mail": _question("send_mail"),
    "diff": _question("change_file"),
    "shell": _question("run_command", "otto"),
    "not to decide": _question("run_command", "ben"),
    "seen by a viewer": _question("refund", "vera"),
    "input": _question("ship"),
    "doubt": _question("payout"),
    "edit": _step("edit", "place_order"),
    "approve": _step("approve", "refund"),
    "approve in spite of a warning": _step("approve", "execute_sql"),
    "reject": _step("reject", "refund"),
    "respond": _step("respond", "refund"),
    "outcome": _step("respond", "payout"),
    "again": _step("again", "payout"),
    "always": _step("always", "refund"),
    "many": Place("/questions/many", lambda made: f"/questions/many?id={made['refund'].id}&id={made['payout'].id}"),
    "all like one": Place("/questions/many", lambda made: f"/questions/many?id={made['refund'].id}&alike=1"),
    "runs": _fixed("/runs"),
    "run": Place("/runs/{id}", lambda made: f"/runs/{made['refund'].run}"),
    "grants": _fixed("/grants"),
    "stops": _fixed("/stops"),
    "audit": _fixed("/audit"),
    "statistics": _fixed("/statistics"),
    "own account": _fixed("/me", "ada"),
    "users": _fixed("/users", "ada"),
    "user": Place("/user", lambda made: "/user?name=ben", "ada"),
    "tokens": _fixed("/tokens", "ada"),
    "webhooks": _fixed("/webhooks", "ada"),
    "damage": _fixed("/damage", "ada"),
    "problem": Place("/questions/{id}", lambda made: "/questions/none"),
    "missing": Place("", lambda made: "/nothing"),
    "sign in": _fixed("/sign-in", None),
    "link": _fixed("/sign-in/link", None),
}
"""The pages that links lead to."""

NOT_PAGES = {
    "/": "leads to the list",
    "/audit.{form}": "a file",
    "/questions/{id}/arguments.json": "a file",
    "/questions/new": "for the script",
    "/sign-in/link/{token}": "an error, as after a form",
    "/static/{name}": "files",
    "/openapi.json": "for programs",
}
"""The routes of GET that are no pages of their own."""


def sign_in_fails(desk: Desk, page: Page, made: Made) -> None:
    page.goto(f"{desk.url}/sign-in")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()


def somebody_was_first(desk: Desk, page: Page, made: Made) -> None:
    question = desk.do(ask_order(desk.store))
    desk.see(page, question, "/reject")
    desk.do(desk.store.decide(question.id, Reject("No."), by="otto", digest=question.digest))
    page.locator("footer button").click()
    expect(page.locator(".kicker")).to_be_visible()


def many_decided(desk: Desk, page: Page, made: Made) -> None:
    ids = "&".join(f"id={desk.do(ask_order(desk.store)).id}" for _ in range(2))
    page.goto(f"{desk.url}/questions/many?{ids}")
    page.get_by_role("button", name="Reject the ticked").click()
    expect(page.get_by_role("link", name="Other questions")).to_be_visible()


def a_settled_question(desk: Desk, page: Page, made: Made) -> None:
    question = desk.do(ask_refund(desk.store))
    desk.do(desk.store.decide(question.id, Reject("No."), by="otto", digest=question.digest))
    desk.see(page, question)
    expect(page.locator(".banner")).to_be_visible()


def a_form_that_does_not_fit(desk: Desk, page: Page, made: Made) -> None:
    desk.see(page, made["refund"], "/edit")
    page.get_by_label("amount").fill("a lot")
    expect(page.get_by_role("alert").first).to_be_visible()


def an_edit_under_way(desk: Desk, page: Page, made: Made) -> None:
    desk.see(page, made["refund"], "/edit")
    page.get_by_label("amount").fill("89.90")
    expect(page.locator(".diff .a").first).to_be_visible()


def a_grant_in_words(desk: Desk, page: Page, made: Made) -> None:
    desk.see(page, made["refund"], "/always")
    page.locator("main button[name=do], main button.go").first.click()
    page.wait_for_load_state()


def the_keys(desk: Desk, page: Page, made: Made) -> None:
    page.goto(f"{desk.url}/questions")
    expect(page.locator("#live")).not_to_have_attribute("hidden", "")  # the script is there
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()


def the_menu(desk: Desk, page: Page, made: Made) -> None:
    page.goto(f"{desk.url}/questions")
    page.locator(".me summary").click()
    expect(page.locator(".menu")).to_be_visible()


def a_token_is_shown(desk: Desk, page: Page, made: Made) -> None:
    page.goto(f"{desk.url}/tokens")
    page.get_by_label("Name").fill("deploy-bot")
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator(".secret")).to_be_visible()


def a_webhook_that_does_not_answer(desk: Desk, page: Page, made: Made) -> None:
    desk.do(Webhooks(desk.store).add("https://127.0.0.1:9/hook", format="chat"))
    page.goto(f"{desk.url}/webhooks")
    page.get_by_role("button", name="Test: ").click()
    expect(page.get_by_text("The test failed: ")).to_be_visible()


def a_user_who_cannot_be_added(desk: Desk, page: Page, made: Made) -> None:
    page.goto(f"{desk.url}/users")
    page.get_by_label("Name").fill("rule")
    page.get_by_role("button", name="Add the user").click()
    expect(page.get_by_role("alert")).to_be_visible()


def rows_were_refused(desk: Desk, page: Page, made: Made) -> None:
    damage_of(desk.store).note("question", "The row of question 'q_51d2' is not what was written.", 1)
    page.goto(f"{desk.url}/damage")
    expect(page.locator(".bar.damage")).to_be_visible()


def grants_in_every_state(desk: Desk, page: Page, made: Made) -> None:
    desk.do(_give_grants(desk.store, made["refund"]))
    page.goto(f"{desk.url}/grants?all=1")
    expect(page.locator(".grant")).to_have_count(6)


async def _give_grants(store: Store, question: Question) -> None:
    """Give grants over all runs and of one run: in force, rejecting, ended, and revoked."""
    where = {"amount": {"at_most": 50}}
    await store.give_standing_grant(question.id, by="ada", terms={"where": where, "max_uses": 3})
    await store.give_standing_grant(question.id, by="ada", verdict="reject", message="Ask the desk first.")
    await store.give_standing_grant(question.id, by="ada", terms={"where": where, "expires_in": 0.001})
    revoked = await store.give_standing_grant(question.id, by="ada", terms={"where": where})
    await store.revoke_standing_grant(revoked.id, by="ada")
    for _ in range(2):
        other = await ask_order(store)
        await store.decide(other.id, Approve(), by="ada", digest=other.digest, grant=GrantTerms(max_uses=5))
    page = await store.grants()
    await store.revoke(page.items[0].id, by="ada", run=page.items[0].run)


def agents_are_stopped(desk: Desk, page: Page, made: Made) -> None:
    lifted = desk.do(desk.store.stop("Till", by="ada", why="It pays twice."))
    desk.do(desk.store.lift(lifted.id, by="ada"))
    for agent in ("Shop assistant", None):
        desk.do(desk.store.stop(agent, by="ada", why="It repeats itself."))
    page.goto(f"{desk.url}/stops")
    expect(page.get_by_text("Stops that were lifted")).to_be_visible()
    expect(page.locator(".stopped-one")).to_have_count(2)


def a_stop_without_a_reason(desk: Desk, page: Page, made: Made) -> None:
    page.goto(f"{desk.url}/stops")
    page.get_by_label("Your reason").fill(" ")
    page.get_by_role("button", name="Stop now").click()
    expect(page.get_by_role("alert").first).to_be_visible()


def a_run_of_a_stopped_agent(desk: Desk, page: Page, made: Made) -> None:
    page.goto(f"{desk.url}/runs/{made['refund'].run}")
    expect(page.get_by_text("It repeats itself.").first).to_be_visible()


def a_cancelled_run(desk: Desk, page: Page, made: Made) -> None:
    desk.do(desk.store.cancel(made["payout"].run, by="ada", why="The supplier is paid."))
    page.goto(f"{desk.url}/runs/{made['payout'].run}")
    expect(page.get_by_text("The supplier is paid.").first).to_be_visible()


def a_question_that_changed(desk: Desk, page: Page, made: Made) -> None:
    script = desk.do(_proposed(desk.store))
    news = ("**/api/events*", "**/questions/*part=notice*")
    for address in news:  # the page does not hear of it, neither from the stream nor by looking again
        page.route(address, lambda route: route.abort())
    page.goto(f"{desk.url}/questions/q1")
    desk.do(script.write(asked("c1", "q2", replaces="q1", args=js({"amount": 899.0, "to": "ann"}))))
    page.locator("footer button[value=approve], footer .go").first.click()
    expect(page.get_by_text("This changed while you looked")).to_be_visible()
    for address in news:
        page.unroute(address)


async def _proposed(store: Store) -> Script:
    script = await Script(store).begin()
    await script.write(replied("c1", arguments='{"amount":89.9,"to":"ann"}'), asked("c1", "q1"))
    return script


def _after_decisions(path: str, first: str) -> Callable[[Desk, Page, Made], None]:
    """Look at a page once there are decisions and grants."""

    def look(desk: Desk, page: Page, made: Made) -> None:
        page.goto(desk.url + path)
        expect(page.locator(first).first).to_be_visible()

    return look


ACTS: dict[str, tuple[str | None, Callable[[Desk, Page, Made], None]]] = {
    "sign-in fails": (None, sign_in_fails),
    "somebody was first": ("ann", somebody_was_first),
    "many decided": ("ann", many_decided),
    "settled": ("ann", a_settled_question),
    "does not fit": ("ann", a_form_that_does_not_fit),
    "edit under way": ("ann", an_edit_under_way),
    "a grant in words": ("ann", a_grant_in_words),
    "keys": ("ann", the_keys),
    "menu": ("ann", the_menu),
    "administrator's menu": ("ada", the_menu),
    "a token is shown": ("ada", a_token_is_shown),
    "a webhook fails": ("ada", a_webhook_that_does_not_answer),
    "a user is refused": ("ada", a_user_who_cannot_be_added),
    "a cancelled run": ("ada", a_cancelled_run),
    "changed while looked at": ("ben", a_question_that_changed),
    "grants in every state": ("ada", grants_in_every_state),
    "statistics of decisions": ("ada", _after_decisions("/statistics", "svg")),
    "audit of decisions": ("ada", _after_decisions("/audit", "tbody tr")),
    "decided by me": ("ada", _after_decisions("/questions?view=decided", "h2.group")),
    "agents are stopped": ("ada", agents_are_stopped),
    "a stop without a reason": ("ada", a_stop_without_a_reason),
    "a run of a stopped agent": ("ada", a_run_of_a_stopped_agent),
    "rows were refused": ("ada", rows_were_refused),
}
"""What people do to come to a page that no link leads to: who, and how."""
