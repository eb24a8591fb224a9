"""Asking over HTTP: programs with the role "agent" ask, wait and report, each about its own calls, and never decide."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import assentry.inbox
from assentry import Approve, Reject
from assentry.errors import UsageError
from assentry.inbox import ask_api
from assentry.inbox.dispatch import Dispatcher
from assentry.inbox.identity import ROLES
from assentry.inbox.webhooks import Webhooks
from assentry.store import MemoryStore
from assentry.store import calls as store_calls
from assentry.store.store import Store
from tests.inbox.receiver import Receiver
from tests.inbox.support import Tokens, bearer, client, client_of, live_store, served
from tests.runtime.support import soon

__all__ = ["live_store"]

CALL = {"source": "invoices", "tool": "pay", "arguments": {"amount": 10}}
H1 = {"holder": "h1"}


def bot(store: Store, name: str = "billing-bot", **options: Any) -> httpx.AsyncClient:
    return client(store, name, "agent", **options)


async def asked(web: httpx.AsyncClient, **options: Any) -> dict[str, Any]:
    answer = await web.post("/api/asks", json=CALL | options)
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


async def decide(store: Store, ask: dict[str, Any], decision: Any = None, by: str = "ann") -> None:
    question = await store.question(ask["question"])
    await store.decide(question.id, decision or Approve(), by=by, digest=question.digest)


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("urn:assentry:")


# -- the way of a call -------------------------------------------------------------------------------


async def test_a_program_asks_waits_starts_and_reports(live_store: Store) -> None:
    async with live_store as store, bot(store) as web:
        answer = await web.post("/api/asks", json=CALL | {"says": "It is due.", "preview": "Pays 10."})
        ask = answer.json()
        assert (answer.status_code, answer.headers["location"]) == (201, f"/api/asks/{ask['id']}")
        assert (ask["state"], ask["source"], ask["arguments"]) == ("waiting", "invoices", {"amount": 10})
        assert ask["link"] == f"/questions/{ask['question']}"
        waits = asyncio.create_task(web.get(f"/api/asks/{ask['id']}", params={"wait": 30}))
        await asyncio.sleep(0)
        await decide(store, ask)
        assert (await soon(waits)).json()["state"] == "approved"
        started = await web.post(f"/api/asks/{ask['id']}/start", json=H1 | {"arguments": {"amount": 10}, "hold": 5})
        assert (started.status_code, started.json()["state"], started.json()["attempt"]) == (200, "running", 1)
        assert (await web.post(f"/api/asks/{ask['id']}/renew", json=H1)).json()["state"] == "running"
        done = await web.post(f"/api/asks/{ask['id']}/finish", json=H1 | {"output": {"paid": 10}})
        assert (done.json()["state"], done.json()["output"]) == ("finished", {"paid": 10})
        assert await store.verify(ask["id"]) == []


async def test_a_question_is_decided_by_the_api_and_the_program_hears_why(live_store: Store) -> None:
    async with live_store as store, bot(store) as web, client(store, "rita", "reviewer") as person:
        ask = await asked(web)
        question = (await person.get(f"/api/questions/{ask['question']}")).json()
        answer = await person.post(
            f"/api/questions/{ask['question']}/decision",
            json={"type": "reject", "message": "Not this month."},
            headers={"If-Match": f'"{question["digest"]}"'},
        )
        assert answer.status_code == 200, answer.text
        seen = (await web.get(f"/api/asks/{ask['id']}")).json()
        assert (seen["state"], seen["by"], seen["message"]) == ("rejected", "rita", "Not this month.")
        assert problem(await web.post(f"/api/asks/{ask['id']}/start", json=H1)) == (409, "not-pending")


async def test_a_wait_ends_without_a_decision() -> None:
    store = MemoryStore()
    async with bot(store) as web:
        ask = await asked(web)
        answer = await soon(web.get(f"/api/asks/{ask['id']}", params={"wait": 0.01}))
        assert (answer.status_code, answer.json()["state"]) == (200, "waiting")


# -- who may -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [role for role in ROLES if role != "agent"])
async def test_people_do_not_ask(role: str) -> None:
    store = MemoryStore()
    async with bot(store, "rita") as web:
        ask = await asked(web)
    async with client(store, "rita", role) as web:
        for answer in (
            await web.post("/api/asks", json=CALL),
            await web.get("/api/asks", params={"source": "invoices", "key": "k"}),
            await web.get(f"/api/asks/{ask['id']}"),
            await web.post(f"/api/asks/{ask['id']}/start", json=H1),
            await web.post(f"/api/asks/{ask['id']}/renew", json=H1),
            await web.post(f"/api/asks/{ask['id']}/finish", json=H1),
        ):
            assert problem(answer) == (403, "forbidden")
    assert len((await store.runs()).items) == 1


async def test_a_program_decides_nothing_and_reads_nothing_but_its_asks() -> None:
    store = MemoryStore()
    async with bot(store) as web:
        ask = await asked(web)
        question = await store.question(ask["question"])
        answer = await web.post(
            f"/api/questions/{question.id}/decision",
            json={"type": "approve"},
            headers={"If-Match": f'"{question.digest}"'},
        )
        assert answer.status_code == 403
        grant = {"question": question.id, "verdict": "approve"}
        assert (await web.post("/api/standing-grants", json=grant)).status_code in (403, 404, 405)
        for path in ("/api/questions", f"/api/questions/{question.id}", "/api/runs", f"/api/runs/{ask['id']}"):
            assert (await web.get(path)).status_code == 403
    assert (await store.question(question.id)).verdict is None
    assert (await store.standing_grants()).items == []


async def test_nobody_asks_without_a_token() -> None:
    async with bot(MemoryStore()) as web:
        answer = await web.post("/api/asks", json=CALL, headers={"Authorization": "Bearer "})
        assert problem(answer) == (401, "not-signed-in")


async def test_another_programs_asks_are_not_there() -> None:
    store = MemoryStore()
    async with bot(store) as web, bot(store, "eve") as eve:
        ask = await asked(web, key="k")
        for answer in (
            await eve.get(f"/api/asks/{ask['id']}"),
            await eve.get(f"/api/asks/{ask['id']}", params={"wait": 1}),
            await eve.get("/api/asks", params={"source": "invoices", "key": "k"}),
            await eve.post(f"/api/asks/{ask['id']}/start", json=H1),
            await eve.post(f"/api/asks/{ask['id']}/renew", json=H1),
            await eve.post(f"/api/asks/{ask['id']}/finish", json=H1),
            await eve.get("/api/asks/run_" + "0" * 32),
        ):
            assert problem(answer) == (404, "run-not-found")
        assert (await asked(eve, key="k"))["id"] != ask["id"]


async def test_the_owner_of_the_token_decides_unless_a_rule_forbids_it(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "four eyes"\ntool = "pay"\nverdict = "ask"\nowner = false')
    store = MemoryStore()
    app = assentry.inbox.app(store, Tokens(), rules=rules)
    async with client_of(app, "ann", "agent") as web, client_of(app, "ann", "reviewer") as ann:
        for tool, status in (("pay", 403), ("read", 200)):
            ask = await asked(web, tool=tool)
            question = await store.question(ask["question"])
            answer = await ann.post(
                f"/api/questions/{question.id}/decision",
                json={"type": "approve"},
                headers={"If-Match": f'"{question.digest}"'},
            )
            assert answer.status_code == status, answer.text


async def test_the_rules_are_the_servers(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nname = "small"\ncaller = "billing-*"\nverdict = "allow"\nwhere = {amount = {at_most = 5}}'
    )
    store = MemoryStore()
    app = assentry.inbox.app(store, Tokens(), rules=rules)
    async with client_of(app, "billing-bot", "agent") as web, client_of(app, "eve", "agent") as eve:
        small = await asked(web, arguments={"amount": 5})
        assert (small["state"], small["by"]) == ("approved", "rule:small")
        assert (await asked(web, arguments={"amount": 6}))["state"] == "waiting"
        assert (await asked(eve, arguments={"amount": 5}, source="billing-bot"))["state"] == "waiting"
        for own in ({"rules": []}, {"verdict": "allow"}, {"needs_approval": False}):
            assert problem(await web.post("/api/asks", json=CALL | own)) == (400, "invalid-input")


async def test_a_server_does_not_start_with_rules_that_it_does_not_understand(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "a"\nverdict = "alow"')
    with pytest.raises(UsageError, match="alow"):
        assentry.inbox.app(MemoryStore(), Tokens(), rules=rules)


# -- once --------------------------------------------------------------------------------------------


async def test_the_same_request_with_the_same_key_is_one_ask(live_store: Store) -> None:
    async with live_store as store, bot(store) as web:
        first = await web.post("/api/asks", json=CALL, headers={"Idempotency-Key": "k"})
        again = await web.post("/api/asks", json=CALL | {"key": "k"})
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        assert first.headers["location"] == again.headers["location"]
        found = await web.get("/api/asks", params={"source": "invoices", "key": "k"})
        assert found.json() == first.json()
        other = await web.post("/api/asks", json=CALL | {"key": "k", "arguments": {"amount": 11}})
        assert problem(other) == (409, "conflict")
        both = await web.post("/api/asks", json=CALL | {"key": "k"}, headers={"Idempotency-Key": "other"})
        assert both.status_code == 400
        assert len((await store.runs()).items) == 1


async def test_of_many_requests_at_once_one_starts(live_store: Store) -> None:
    async with live_store as store, bot(store) as web:
        ask = await asked(web)
        await decide(store, ask)
        path = f"/api/asks/{ask['id']}/start"
        answers = await asyncio.gather(*(web.post(path, json={"holder": f"h{n}"}) for n in range(6)))
        assert sorted(each.status_code for each in answers) == [200] + [409] * 5
        assert {problem(each)[1] for each in answers if each.status_code == 409} == {"run-busy"}


async def test_each_refused_report_says_why() -> None:
    store = MemoryStore()
    async with bot(store) as web:
        ask = await asked(web)
        path = f"/api/asks/{ask['id']}"
        assert problem(await web.post(f"{path}/start", json=H1)) == (409, "not-pending")
        assert problem(await web.post(f"{path}/finish", json=H1)) == (409, "conflict")
        assert problem(await web.post(f"{path}/renew", json=H1)) == (409, "lease-lost")
        await decide(store, ask)
        assert problem(await web.post(f"{path}/start", json=H1 | {"arguments": {}})) == (412, "digest-mismatch")
        assert (await web.post(f"{path}/start", json=H1)).status_code == 200
        assert problem(await web.post(f"{path}/start", json={"holder": "h2"})) == (409, "run-busy")
        assert problem(await web.post(f"{path}/finish", json={"holder": "h2"})) == (409, "lease-lost")
        assert (await web.post(f"{path}/finish", json=H1 | {"error": "broken"})).json()["state"] == "failed"
        assert problem(await web.post(f"{path}/start", json=H1)) == (409, "not-pending")
        stop = await store.stop(by="ann", why="Stop.")
        assert problem(await web.post("/api/asks", json=CALL)) == (409, "agent-stopped")
        await store.lift(stop.id, by="ann")


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ("null", "object"),
        ("{}", "source"),
        (json.dumps({"source": "a", "tool": "b"}), "arguments"),
        (json.dumps(CALL | {"arguments": 5}), "arguments"),
        (json.dumps(CALL | {"arguments": {"a": float("nan")}}), "JSON"),
        ('{"source": "a", "source": "b", "tool": "c", "arguments": {}}', "source"),
        (json.dumps(CALL | {"source": ""}), "source"),
        (json.dumps(CALL | {"tool": "x" * 201}), "tool"),
        (json.dumps(CALL | {"deadline": "soon"}), "deadline"),
        (json.dumps(CALL | {"deadline": -1}), "deadline"),
        (json.dumps(CALL | {"schema": {"type": "nothing"}}), "schema"),
        (json.dumps(CALL | {"schema": True}), "schema"),
        (json.dumps(CALL | {"preview": {"sentence": 5}}), "preview"),
        (json.dumps(CALL | {"preview": {"sentence": "x", "failed": "trust me"}}), "preview"),
        (json.dumps(CALL | {"allowed": ["approve"]}), "allowed"),
        (json.dumps(CALL | {"allowed": ["sudo", "reject"]}), "allowed"),
        (json.dumps(CALL | {"redact": ["x"], "schema": {"type": "object", "additionalProperties": False}}), "redact"),
        (json.dumps(CALL | {"says": "x" * 70_000}), "says"),
    ],
)
async def test_a_request_that_is_not_understood_names_what_is_wrong(body: str, words: str) -> None:
    store = MemoryStore()
    async with bot(store) as web:
        answer = await web.post("/api/asks", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, answer.text
        assert words in answer.json()["detail"]
    assert (await store.runs()).items == []


@pytest.mark.parametrize("report", ["start", "renew", "finish"])
@pytest.mark.parametrize("body", ["{}", "[]", '{"holder": 5}', '{"holder": ""}', '{"holder": "h", "more": 1}', "{"])
async def test_a_report_that_is_not_understood_is_refused(report: str, body: str) -> None:
    store = MemoryStore()
    async with bot(store) as web:
        ask = await asked(web)
        await decide(store, ask)
        answer = await web.post(
            f"/api/asks/{ask['id']}/{report}", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 400, answer.text
        assert (await web.get(f"/api/asks/{ask['id']}")).json()["state"] == "approved"


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "soon"])
async def test_a_wait_has_a_limit(wait: str) -> None:
    store = MemoryStore()
    async with bot(store) as web:
        ask = await asked(web)
        assert (await web.get(f"/api/asks/{ask['id']}", params={"wait": wait})).status_code in (400, 422)


@pytest.mark.parametrize("depth", [300, 980, 1_100, 100_000])
async def test_nothing_may_be_nested_too_deeply(depth: int) -> None:
    store = MemoryStore()
    deep = '{"a":' * depth + "1" + "}" * depth
    async with bot(store) as web:
        ask = await asked(web)
        await decide(store, ask)
        await web.post(f"/api/asks/{ask['id']}/start", json=H1)
        headers = {"Content-Type": "application/json"}
        for name in ("arguments", "schema", "preview", "answer_schema"):
            body = json.dumps(CALL | {name: 0}).replace(f'"{name}": 0', f'"{name}": {deep}')
            answer = await web.post("/api/asks", content=body, headers=headers)
            assert answer.status_code in (201, 400, 413), (name, answer.text)
        for report, name in (("start", "arguments"), ("finish", "output")):
            body = f'{{"holder": "h1", "{name}": {deep}}}'
            answer = await web.post(f"/api/asks/{ask['id']}/{report}", content=body, headers=headers)
            assert answer.status_code in (200, 400, 409, 412, 413), (report, answer.text)
        assert (await web.get(f"/api/asks/{ask['id']}")).status_code == 200


async def test_a_body_that_is_too_large_or_no_json_is_refused() -> None:
    async with bot(MemoryStore()) as web:
        large = json.dumps(CALL | {"arguments": {"text": "x" * 50_000_000}})
        answer = await web.post("/api/asks", content=large, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        answer = await web.post("/api/asks", content="source=a", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415


# -- floods ------------------------------------------------------------------------------------------


async def test_a_program_that_floods_is_told_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_calls, "MOST_OPEN", 3)
    store = MemoryStore()
    async with bot(store) as web, bot(store, "other") as other:
        answers = [await web.post("/api/asks", json=CALL | {"source": f"name {n}"}) for n in range(5)]
        assert [each.status_code for each in answers] == [201, 201, 201, 429, 429]
        assert problem(answers[-1])[1] == "too-many-asks"
        assert (await other.post("/api/asks", json=CALL)).status_code == 201


async def test_only_so_many_requests_of_a_program_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_api, "MOST_WAITING", 0)
    store = MemoryStore()
    async with bot(store) as web:
        ask = await asked(web)
        assert problem(await web.get(f"/api/asks/{ask['id']}", params={"wait": 5})) == (429, "too-many-asks")
        assert (await web.get(f"/api/asks/{ask['id']}")).status_code == 200


# -- webhooks ----------------------------------------------------------------------------------------


async def test_a_webhook_is_told_of_a_question_of_a_program_and_of_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    store = MemoryStore()
    with Receiver() as receiver:
        await Webhooks(store).add(receiver.url)
        async with bot(store) as web:
            ask = await asked(web, arguments={"amount": 10, "key": "hunter2"}, redact=["key"], preview="Pays 10.")
        await decide(store, ask)
        assert await Dispatcher(store, base_url="https://inbox.example").send_due() == 2
    told, ended = sorted((each.json for each in receiver.got), key=lambda each: str(each["type"]))
    assert (told["data"]["agent"], told["data"]["tool"]) == ("billing-bot:invoices", "pay")
    assert told["data"]["sentence"] == "billing-bot:invoices says: Pays 10."
    assert told["data"]["link"] == f"https://inbox.example/questions/{ask['question']}"
    assert (ended["data"]["verdict"], ended["data"]["by"]) == ("approve", "ann")
    assert not any(b"hunter2" in each.body for each in receiver.got)


# -- a real server -----------------------------------------------------------------------------------


def at(address: str, name: str, role: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=address, headers=bearer(name, role))


async def test_over_a_real_connection_a_wait_ends_with_the_decision_of_a_person(live_store: Store) -> None:
    app = assentry.inbox.app(live_store, Tokens())
    async with live_store as store, served(app) as address, at(address, "billing-bot", "agent") as web:
        ask = await asked(web)
        path = f"/api/asks/{ask['id']}"
        waits = [asyncio.create_task(web.get(path, params={"wait": 60}, timeout=90)) for _ in range(5)]
        await asyncio.sleep(0)
        async with at(address, "rita", "reviewer") as rita:
            question = (await rita.get(f"/api/questions/{ask['question']}")).json()
            decided = await rita.post(
                f"/api/questions/{ask['question']}/decision",
                json={"type": "approve"},
                headers={"If-Match": f'"{question["digest"]}"'},
            )
            assert decided.status_code == 200
        for each in await soon(asyncio.gather(*waits)):
            assert each.json()["state"] == "approved"
        later = await asked(web)
        await decide(store, later, Reject("no"))
        answer = await web.get(f"/api/asks/{later['id']}", params={"wait": 60})
        assert answer.json()["state"] == "rejected"
