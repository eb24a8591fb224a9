"""The whole application with its own users: forged requests, tokens of agents, and sign-ins that have ended."""

import httpx
import pytest

import assentry.inbox
from assentry import Agent, RunConfig, Runner, function_tool
from assentry.inbox.accounts import accounts_of
from assentry.store import MemoryStore, Question
from assentry.testing import ScriptedModel, call
from tests.inbox.stores import cheap_hashes

__all__ = ["cheap_hashes"]

pytestmark = pytest.mark.usefixtures("cheap_hashes")

PASSWORD = "correct horse battery"
LOCAL = "http://localhost:8000"


def browser(store: MemoryStore) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(assentry.inbox.app(store)), base_url=LOCAL)


async def ask(store: MemoryStore, started_by: str | None = None) -> Question:
    @function_tool(needs_approval=True)
    async def send(to: str) -> str:
        """Send a mail."""
        return to

    agent = Agent("Shop", tools=[send], model=ScriptedModel([call("send", {"to": "ann"})]))
    await Runner.run(agent, "go", store=store, run_config=RunConfig(started_by=started_by))
    return (await store.questions()).items[0]


async def sign_in(client: httpx.AsyncClient, store: MemoryStore) -> str:
    """Sign Ann in, and return the CSRF token of her forms."""
    reply = await client.post("/sign-in", data={"name": "ann", "password": PASSWORD})
    assert reply.status_code == 303
    identity = await accounts_of(store).identity_of_cookie(client.cookies["assentry_session"])
    assert identity is not None and identity.csrf is not None
    return identity.csrf


async def test_a_decision_by_cookie_needs_the_token_of_its_sign_in() -> None:
    async with MemoryStore() as store, browser(store) as client:
        question = await ask(store)
        await accounts_of(store).add_user("ann", "reviewer", PASSWORD)
        csrf = await sign_in(client, store)
        path, match = f"/api/questions/{question.id}/decision", {"If-Match": question.digest}
        approve = {"type": "approve"}
        for more in (
            {},
            {"X-CSRF-Token": "wrong"},
            {"X-CSRF-Token": csrf, "Origin": "https://evil.example"},
            {"X-CSRF-Token": csrf, "Sec-Fetch-Site": "cross-site"},
            {"X-CSRF-Token": csrf, "Authorization": "Bearer assentry_forged_token"},
        ):
            reply = await client.post(path, json=approve, headers=match | more)
            assert reply.status_code in (401, 403) and reply.headers["content-type"] == "application/problem+json"
            assert (await store.question(question.id)).verdict is None
        reply = await client.post(path, json=approve, headers=match | {"X-CSRF-Token": csrf})
        assert reply.status_code == 200 and reply.json()["by"] == "ann"


@pytest.mark.parametrize("step", ["", "/approve", "/decision", "/reject"])
async def test_a_form_of_another_site_decides_nothing(step: str) -> None:
    async with MemoryStore() as store, browser(store) as client:
        question = await ask(store)
        await accounts_of(store).add_user("ann", "reviewer", PASSWORD)
        await sign_in(client, store)
        for csrf in ("", "wrong"):
            form = {"csrf": csrf, "digest": question.digest, "type": "approve", "verdict": "approve"}
            reply = await client.post(f"/questions/{question.id}{step}", data=form)
            assert reply.status_code in (403, 404, 405)
        assert (await client.get(f"/questions/{question.id}{step}?type=approve")).status_code < 500
        assert (await store.question(question.id)).verdict is None


async def test_a_sign_in_that_has_ended_reads_nothing() -> None:
    async with MemoryStore() as store, browser(store) as client:
        await accounts_of(store).add_user("ann", "admin", PASSWORD)
        await sign_in(client, store)
        assert (await client.get("/api/questions")).status_code == 200
        await accounts_of(store).set_password("ann", "another horse battery")
        assert (await client.get("/api/questions")).status_code == 401
        page = await client.get("/questions")
        assert page.status_code == 303 and page.headers["location"].startswith("/sign-in?next=")


async def test_a_token_of_an_agent_never_decides() -> None:
    async with MemoryStore() as store, browser(store) as client:
        question = await ask(store)
        token = await accounts_of(store).add_token("r2", "agent")
        headers = {"Authorization": f"Bearer {token}", "If-Match": question.digest}
        reply = await client.post(f"/api/questions/{question.id}/decision", json={"type": "approve"}, headers=headers)
        assert (reply.status_code, reply.json()["detail"]) == (403, "r2 is an agent, and may not decide here.")
        for path in ("/api/questions", "/api/runs", "/api/grants", "/questions"):
            assert (await client.get(path, headers=headers)).status_code == 403


async def test_a_name_in_the_body_is_nobodys() -> None:
    async with MemoryStore() as store, browser(store) as client:
        question = await ask(store)
        token = await accounts_of(store).add_token("rob", "reviewer")
        headers = {"Authorization": f"Bearer {token}", "If-Match": question.digest}
        path = f"/api/questions/{question.id}/decision"
        assert (await client.post(path, json={"type": "approve", "by": "ann"}, headers=headers)).status_code == 422
        assert (await client.post(path, json={"type": "approve"}, headers=headers)).json()["by"] == "rob"


async def test_nobody_decides_what_they_asked_for_by_a_token_of_their_name() -> None:
    async with MemoryStore() as store, browser(store) as client:
        question = await ask(store, started_by="ann")
        path = f"/api/questions/{question.id}/decision"
        for name, status in (("ann", 403), ("bea", 200)):
            token = await accounts_of(store).add_token(name, "operator")
            headers = {"Authorization": f"Bearer {token}", "If-Match": question.digest}
            assert (await client.post(path, json={"type": "approve"}, headers=headers)).status_code == status
