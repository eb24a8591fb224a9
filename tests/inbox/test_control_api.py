"""Cancelling and resuming runs, and stopping agents, by the HTTP API."""

from __future__ import annotations

import json

import pytest

from assentry.inbox.identity import ROLES
from assentry.store import MemoryStore
from assentry.store.store import Store
from assentry.testing.store_checks.draft import put_asking, put_begun, put_ended
from assentry.testing.store_checks.stop import ODD
from tests.inbox.support import client, live_store

__all__ = ["live_store"]

MAY = ("operator", "admin")
ORDERS = {
    "/api/runs/{run}/cancel": {"why": "It repeats itself."},
    "/api/runs/{run}/resume": {},
    "/api/stops": {"agent": None, "why": "It repeats itself."},
    "/api/stops/{stop}/lift": {},
}


@pytest.mark.parametrize("role", ROLES)
async def test_only_operators_and_administrators_cancel_and_stop(role: str) -> None:
    store = MemoryStore()
    draft, stop = await put_begun(store), await store.stop("Other", by="ann", why="It repeats itself.")
    before = (await store.read(draft.id)).record
    async with client(store, "rita", role) as web:
        for path, body in ORDERS.items():
            answer = await web.post(path.format(run=draft.id, stop=stop.id), json=body)
            assert (answer.status_code in (200, 201)) is (role in MAY), answer.text
            assert role in MAY or (answer.status_code == 403 and "may not stop here" in answer.json()["detail"])
        listed = await web.get("/api/stops")
        assert listed.status_code == (403 if role == "agent" else 200)
    if role not in MAY:
        assert (await store.read(draft.id)).record == before
        assert (await store.stops()).items == [stop]


async def test_a_run_is_cancelled_and_resumed_and_each_again_changes_nothing(live_store: Store) -> None:
    async with live_store as store, client(store, "olga", "operator") as web:
        [question] = await put_asking(store)
        for _ in range(2):
            answer = await web.post(f"/api/runs/{question.run}/cancel", json={"why": "It repeats itself."})
            assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        facts = [entry.fact for entry in await store.lines(question.run)]
        cancelled = [fact for fact in facts if fact["fact"] == "cancelled"]
        assert [(each["by"], each["why"]) for each in cancelled] == [("olga", "It repeats itself.")]
        for _ in range(2):
            answer = await web.post(f"/api/runs/{question.run}/resume", json={})
            assert (answer.status_code, answer.json()["status"]) == (200, "waiting")
        done = await put_ended(store)
        for act in ("cancel", "resume"):
            answer = await web.post(f"/api/runs/{done.id}/{act}", json={})
            assert answer.status_code == 409 and "there is nothing left in it" in answer.json()["detail"]
            assert (await web.post(f"/api/runs/none/{act}", json={})).status_code == 404
        assert (await store.record(done.id)).status == "done"


async def test_agents_are_stopped_listed_and_go_on(live_store: Store) -> None:
    async with live_store as store, client(store, "olga", "operator") as web:
        made = await web.post("/api/stops", json={"agent": ODD, "why": "It repeats itself."})
        assert made.status_code == 201
        stop = made.json()
        assert (stop["agent"], stop["by"], stop["lifted"]) == (ODD, "olga", None)
        assert (await web.post("/api/stops", json={"agent": ODD, "why": "It repeats itself."})).json() == stop
        everything = (await web.post("/api/stops", json={"agent": None, "why": "The bank is closed."})).json()
        assert everything["agent"] is None
        assert {each["id"] for each in (await web.get("/api/stops")).json()["items"]} == {stop["id"], everything["id"]}
        lifted = (await web.post(f"/api/stops/{stop['id']}/lift", json={})).json()
        assert (lifted["lifted_by"], lifted["lifted"] is None) == ("olga", False)
        assert (await web.get("/api/stops")).json() == {"items": [everything], "next": None}
        page = (await web.get("/api/stops?lifted=true&limit=1")).json()
        rest = (await web.get("/api/stops", params={"lifted": "true", "after": page["next"]})).json()
        assert {each["id"] for each in page["items"] + rest["items"]} == {stop["id"], everything["id"]}
        assert (await web.post("/api/stops/none/lift", json={})).status_code == 404


@pytest.mark.parametrize(
    "body",
    [{}, {"why": "It repeats itself."}, {"agent": ""}, {"agent": "", "why": "x"}, {"agent": 1, "why": "x"},
     {"agent": "Shop", "why": " "}, {"agent": "Shop", "why": "x" * 2001}, {"agent": "Shop", "why": "\0"},
     {"agent": None, "why": "x", "by": "eve"}, []],
)  # fmt: skip
async def test_a_stop_that_does_not_say_what_and_why_stops_nothing(body: object) -> None:
    store = MemoryStore()
    async with client(store, "olga", "operator") as web:
        answer = await web.post("/api/stops", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), answer.text
        form = await web.post("/api/stops", data={"agent": "Shop", "why": "x"})
        assert form.status_code == 415
    assert (await store.stops(lifted=True)).items == []


async def test_no_run_of_a_stopped_agent_is_started(live_store: Store) -> None:
    async with live_store as store, client(store, "olga", "operator") as web:
        await store.announce({"Shop": '{"fact":"began","agent":"Shop","max_turns":10,"run":""}'})
        headers = {"Idempotency-Key": "k1"}
        first = await web.post("/api/runs", json={"agent": "Shop", "input": "go"}, headers=headers)
        assert first.status_code == 202
        await store.stop("Shop", by="ann", why="It repeats itself.")
        answer = await web.post("/api/runs", json={"agent": "Shop", "input": "go"})
        assert answer.status_code == 409
        assert "ann has stopped the agent 'Shop' (It repeats itself.)" in answer.json()["detail"]
        again = await web.post("/api/runs", json={"agent": "Shop", "input": "go"}, headers=headers)
        assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
        assert len((await store.runs()).items) == 1
