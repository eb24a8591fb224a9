"""A run that is started over HTTP: by whom, of which agents, and driven by a worker as the agent's code requires."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assentry import Agent, GuardrailFunctionOutput, RunConfig, function_tool, input_guardrail
from assentry.core.facts import Began, Said
from assentry.engines import Worker
from assentry.errors import UsageError
from assentry.store import MemoryStore
from assentry.store.store import Store
from assentry.testing import ScriptedModel, call
from tests.inbox.support import client, live_store

__all__ = ["live_store"]


@function_tool(needs_approval=True)
def wipe(disk: str) -> str:
    return f"{disk} is empty"


def agent(*steps: Any, **more: Any) -> Agent[Any]:
    return Agent(name="Admin", tools=[wipe], model=ScriptedModel(steps or ["Done."]), **more)


ORDER = {"agent": "Admin", "input": "Make room."}


async def test_a_run_is_started_and_a_worker_drives_it_to_a_question_that_its_starter_may_not_decide(
    live_store: Store,
) -> None:
    async with live_store as store, client(store, "olga", "operator") as web, client(store, "ann") as other:
        worker = Worker(store, agent(call("wipe", {"disk": "sda"}), "Done."))
        await worker.run_until_idle()
        started = await web.post("/api/runs", json=ORDER)
        assert started.status_code == 202
        run = started.json()
        assert (run["status"], run["started_by"]) == ("working", "olga")
        await worker.run_until_idle()
        [question] = (await web.get("/api/questions", params={"run": run["id"]})).json()["items"]
        headers = {"If-Match": question["digest"]}
        path = f"/api/questions/{question['id']}/decision"
        assert (await web.post(path, json={"type": "approve"}, headers=headers)).status_code == 403
        assert (await other.post(path, json={"type": "approve"}, headers=headers)).status_code == 200
        await worker.run_until_idle()
        assert (await web.get(started.headers["location"])).json()["status"] == "done"


async def test_what_the_agents_code_requires_is_in_the_first_fact() -> None:
    @input_guardrail
    def polite(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    store = MemoryStore()
    config = RunConfig(release="batch", max_argument_bytes=1234)
    worker = Worker(store, agent(input_guardrails=[polite]), run_config=config)
    await worker.run_until_idle()
    async with client(store, "bot", "agent") as web:
        run = (await web.post("/api/runs", json=ORDER)).json()["id"]
    began, said = (await store.read(run)).facts
    assert isinstance(began, Began) and isinstance(said, Said)
    assert (began.guards, began.release, began.max_argument_bytes) == (("polite",), "batch", 1234)
    assert (began.by, said.by, began.stored, began.run) == ("bot", "bot", True, run)
    await worker.run_until_idle()
    assert (await store.read(run)).record.status == "closed"


async def test_an_unknown_agent_is_404_and_the_known_ones_are_named() -> None:
    store = MemoryStore()
    async with client(store, "olga", "operator") as web:
        none = await web.post("/api/runs", json=ORDER)
        await Worker(store, agent()).run_until_idle()
        other = await web.post("/api/runs", json={"agent": "Nobody", "input": "Hello"})
        known = (await web.get("/api/agents")).json()["items"]
    assert none.status_code == other.status_code == 404
    assert "no worker has announced an agent yet" in none.json()["detail"]
    assert "'Admin'" in other.json()["detail"]
    assert [each["name"] for each in known] == ["Admin"]
    assert (await store.runs()).items == []


async def test_only_the_agents_that_the_inbox_allows_are_started() -> None:
    store = MemoryStore()
    await Worker(store, agent()).run_until_idle()
    async with client(store, "olga", "operator", agents=["Clerk"]) as web:
        assert (await web.post("/api/runs", json=ORDER)).status_code == 404
        assert (await web.get("/api/agents")).json()["items"] == []


async def test_a_run_needs_text_and_nothing_else() -> None:
    store = MemoryStore()
    await Worker(store, agent()).run_until_idle()
    async with client(store, "olga", "operator") as web:
        for order in ({"agent": "Admin"}, {"agent": "Admin", "input": " "}, {**ORDER, "by": "root"}, {"input": "x"}):
            assert (await web.post("/api/runs", json=order)).status_code == 400
    assert (await store.runs()).items == []


async def test_the_same_key_starts_one_run_however_often_it_is_sent(live_store: Store) -> None:
    async with live_store as store, client(store, "olga", "operator") as web, client(store, "bot", "agent") as other:
        worker = Worker(store, agent(call("wipe", {"disk": "sda"}), "Done."))
        await worker.run_until_idle()
        key = {"Idempotency-Key": "order-1042"}
        sent = await asyncio.gather(*[web.post("/api/runs", json=ORDER, headers=key) for _ in range(8)])
        assert [each.status_code for each in sent] == [202] * 8
        [run] = {each.json()["id"] for each in sent}
        await worker.run_until_idle()
        later = await web.post("/api/runs", json=ORDER, headers=key)
        assert (later.json()["id"], later.json()["status"]) == (run, "waiting")
        assert later.headers["location"].endswith(run)
        changed = await web.post("/api/runs", json={**ORDER, "input": "Something else."}, headers=key)
        assert changed.status_code == 409 and "Choose a new key" in changed.json()["detail"]
        assert (await other.post("/api/runs", json=ORDER, headers=key)).json()["id"] != run
        assert (await web.post("/api/runs", json=ORDER)).json()["id"] != run
        assert len((await store.runs()).items) == 3


async def test_a_key_is_short_text() -> None:
    store = MemoryStore()
    await Worker(store, agent()).run_until_idle()
    async with client(store, "olga", "operator") as web:
        for key in ("", "x" * 201, "two words"):
            assert (await web.post("/api/runs", json=ORDER, headers={"Idempotency-Key": key})).status_code == 422
    with pytest.raises(UsageError, match="A key is text"):
        await store.start("Admin", "Make room.", by="olga", key="")
    assert (await store.runs()).items == []
