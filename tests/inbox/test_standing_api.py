"""Standing grants over HTTP: who may give, list and revoke them."""

from __future__ import annotations

from typing import Any

import pytest

from assentry.inbox.identity import ROLES, Identity
from assentry.store import MemoryStore
from tests.inbox.office import ask_refund
from tests.inbox.test_api import client, if_match

TERMS = {"where": {"amount": {"at_most": 900}}, "max_uses": 3, "expires_in": 3600}


async def test_a_grant_is_given_listed_and_revoked() -> None:
    store = MemoryStore()
    question = await ask_refund(store)
    async with client(store, "ann", "operator") as web:
        order = {"question": question.id, "terms": TERMS}
        given = await web.post("/api/standing-grants", json=order, headers=if_match(question.digest))
        assert given.status_code == 201, given.text
        grant = given.json()
        assert given.headers["location"] == f"/api/standing-grants/{grant['id']}"
        assert (grant["agent"], grant["tool"], grant["by"]) == ("Shop assistant", "refund", "ann")
        assert (grant["where"], grant["max_uses"], grant["until"]) == (TERMS["where"], 3, grant["at"] + 3_600_000)
        assert (await store.question(question.id)).verdict is None
        again = await web.post("/api/standing-grants", json=order, headers=if_match(question.digest))
        assert again.json()["id"] == grant["id"]
        assert (await web.get("/api/standing-grants", params={"tool": "refund"})).json()["items"] == [grant]
        assert (await web.get("/api/standing-grants", params={"agent": "Other"})).json()["items"] == []
        assert (await web.delete(f"/api/standing-grants/{grant['id']}")).status_code == 204
        assert (await web.delete(f"/api/standing-grants/{grant['id']}")).status_code == 204
        assert (await web.get("/api/standing-grants")).json()["items"] == []
        [gone] = (await web.get("/api/standing-grants", params={"revoked": True})).json()["items"]
        assert gone["revoked_by"] == "ann"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"terms": {"where": {"amount": {"at_most": "900"}}}}, 400),
        ({"terms": {"where": {"nothing": {"is": 1}}}}, 400),
        ({"terms": {"pins": {"amount": 1}}}, 400),
        ({"verdict": "maybe"}, 400),
        ({"message": "no"}, 400),
        ({"question": "q_none"}, 404),
        ({"more": 1}, 400),
    ],
)
async def test_an_order_that_does_not_fit_gives_nothing(change: dict[str, Any], status: int) -> None:
    store = MemoryStore()
    question = await ask_refund(store)
    async with client(store, "ann", "operator") as web:
        order = {"question": question.id, "terms": TERMS} | change
        answer = await web.post("/api/standing-grants", json=order, headers=if_match(question.digest))
        assert answer.status_code in (status, 422), answer.text
        order = {"question": question.id}
        assert (await web.post("/api/standing-grants", json=order)).status_code == 428
        assert (await web.post("/api/standing-grants", json=order, headers=if_match("0" * 64))).status_code == 412
    assert (await store.standing_grants(revoked=True)).items == []


@pytest.mark.parametrize("role", ROLES)
async def test_only_a_role_that_may_grant_gives_and_revokes(role: str) -> None:
    store = MemoryStore()
    question = await ask_refund(store)
    who = Identity("ann", role)  # type: ignore[arg-type]
    async with client(store, "ann", role) as web:
        order = {"question": question.id, "terms": TERMS}
        given = await web.post("/api/standing-grants", json=order, headers=if_match(question.digest))
        assert given.status_code == (201 if who.may("grant") else 403)
        assert (await web.delete("/api/standing-grants/always_1")).status_code == (404 if who.may("grant") else 403)
        assert (await web.get("/api/standing-grants")).is_success is who.may("read")
