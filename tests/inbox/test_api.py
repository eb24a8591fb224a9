"""The HTTP API of the inbox: who may do what, what comes back, and what happens when two decide at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from msgspec.structs import replace
from starlette.requests import Request

import assentry.inbox
from assentry import Approve, Edit
from assentry.core import facts as f
from assentry.errors import NotPending, StoreFailed, UsageError
from assentry.inbox.guard import HEADERS, MOST_BYTES
from assentry.inbox.headline import shown_hash
from assentry.inbox.identity import ROLES, Identity
from assentry.inbox.metrics import KEPT
from assentry.store import MemoryStore
from assentry.store.filter import MOST_SEARCHED
from assentry.store.news import Tally
from assentry.store.store import Store
from assentry.testing import FakeClock
from assentry.testing.store_checks.draft import SEND, RunDraft, asking, put_asking, put_ended
from tests.inbox.support import Tokens, bearer, client, client_of, live_store

__all__ = ["live_store"]

APPROVE = {"type": "approve"}


def if_match(digest: str) -> dict[str, str]:
    return {"If-Match": f'"{digest}"'}


async def one(store: Store, **more: Any) -> Any:
    [question] = await put_asking(store, **more)
    return question


async def decide(web: httpx.AsyncClient, question: Any, body: Any = None, **more: Any) -> httpx.Response:
    headers = {**if_match(question.digest), **more.pop("headers", {})}
    return await web.post(f"/api/questions/{question.id}/decision", json=body or APPROVE, headers=headers, **more)


# -- who ---------------------------------------------------------------------------------------------

PATHS = ["/api/questions", "/api/questions/q", "/api/runs", "/api/runs/r", "/api/runs/r/journal", "/api/grants",
         "/api/agents", "/api/audit", "/api/events", "/metrics", "/openapi.json", "/api/nothing"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_nobody_gets_nothing_but_401(path: str) -> None:
    async with client(MemoryStore()) as web:
        del web.headers["authorization"]
        answer = await web.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"


async def test_nobody_is_sent_from_a_page_to_the_sign_in() -> None:
    async with client(MemoryStore()) as web:
        del web.headers["authorization"]
        answer = await web.get("/questions?tool=send")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?next=%2Fquestions%3Ftool%3Dsend"


async def test_health_needs_nobody() -> None:
    async with client(MemoryStore()) as web:
        del web.headers["authorization"]
        answer = await web.get("/health")
    assert answer.json() == {"status": "ok"}


async def test_health_says_that_the_store_failed_and_nothing_of_its_inside() -> None:
    store = MemoryStore()
    await store.close()
    async with client(store) as web:
        answer = await web.get("/health")
    assert answer.status_code == 502
    assert "closed" not in answer.text


async def test_an_agent_never_decides() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store, "bot", "agent") as web:
        answer = await decide(web, question)
    assert answer.status_code == 403
    assert (await store.question(question.id)).verdict is None


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_does_what_it_may_and_nothing_else(role: str) -> None:
    store = MemoryStore()
    question = await one(store)
    who = Identity("ann", role)  # type: ignore[arg-type]
    async with client(store, "ann", role) as web:
        assert (await web.get("/api/questions")).is_success is who.may("read")
        assert (await web.delete("/api/grants/g_1")).status_code == (404 if who.may("grant") else 403)
        start = await web.post("/api/runs", json={"agent": "Nobody", "input": "Hello"})
        assert start.status_code == (404 if who.may("start") else 403)
        assert (await web.get("/api/audit")).status_code == (400 if who.may("audit") else 403)  # a store without hashes
        assert (await decide(web, question)).is_success is who.may("decide")


async def test_who_asked_for_a_run_does_not_decide_in_it() -> None:
    store = MemoryStore()
    draft = RunDraft(store.clock)
    draft.facts[0] = f.Began(draft.facts[0].agent, 10, draft.id, stored=True, by="ann", at=draft.facts[0].at)
    draft.run.began = draft.facts[0]
    [call] = draft.propose(SEND)
    draft.ask(call)
    [question] = (await draft.write(store)).asked
    async with client(store) as web:
        answer = await decide(web, question)
    assert answer.status_code == 403
    assert "ann asked for this run" in answer.json()["detail"]


async def test_a_question_for_others_is_not_mine_to_decide() -> None:
    store = MemoryStore()
    question = await one(store, reviewers=("group:ops",))
    async with client(store) as web:
        assert (await decide(web, question)).status_code == 403
    async with client(store, "bob", "reviewer", "ops") as web:
        assert (await decide(web, question)).json()["by"] == "bob"


async def test_an_identity_from_a_cookie_needs_its_token_to_change_something() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        assert (await web.get("/api/questions", headers={"Test-Cookie": "secret"})).is_success
        assert (await decide(web, question, headers={"Test-Cookie": "secret"})).status_code == 403
        wrong = {"Test-Cookie": "secret", "X-CSRF-Token": "other"}
        assert (await decide(web, question, headers=wrong)).status_code == 403
        assert (await store.question(question.id)).verdict is None
        right = {"Test-Cookie": "secret", "X-CSRF-Token": "secret"}
        assert (await decide(web, question, headers=right)).is_success


async def test_an_authentication_of_ones_own_may_be_synchronous() -> None:
    class Own:
        def identify(self, request: Request) -> Identity | None:
            return Identity("ann", "viewer")

    app = assentry.inbox.app(MemoryStore(), Own())
    async with client_of(app) as web:
        assert (await web.get("/api/questions")).is_success


async def test_an_authentication_that_returns_something_else_lets_nobody_in() -> None:
    class Wrong:
        def identify(self, request: Request) -> Any:
            return "ann"

    async with client_of(assentry.inbox.app(MemoryStore(), Wrong())) as web:
        answer = await web.get("/api/questions")
    assert answer.status_code == 500
    assert "Identity" not in answer.text


def test_an_inbox_needs_a_store_and_an_authentication_that_identifies() -> None:
    with pytest.raises(UsageError, match="store"):
        assentry.inbox.app("sqlite:///runs.db", Tokens())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="identify"):
        assentry.inbox.app(MemoryStore(), object())


# -- questions ---------------------------------------------------------------------------------------


async def test_questions_are_listed_in_pages() -> None:
    store = MemoryStore()
    ids = sorted([(await one(store)).id for _ in range(5)])
    found: list[str] = []
    async with client(store) as web:
        after = None
        while True:
            page = (await web.get("/api/questions", params={"limit": 2} | ({"after": after} if after else {}))).json()
            found += [each["id"] for each in page["items"]]
            after = page["next"]
            if after is None:
                break
    assert sorted(found) == ids


async def test_questions_are_filtered_and_searched(live_store: Store) -> None:
    async with live_store as store:
        mine, other = await one(store), await one(store, agent="Other")
        secret = await one(store, redact=("to",))
        async with client(store) as web:

            async def ids(**query: Any) -> set[str]:
                answer = await web.get("/api/questions", params=query)
                assert answer.status_code == 200, answer.text
                return {each["id"] for each in answer.json()["items"]}

            assert await ids(agent="Other") == {other.id}
            assert await ids(run=mine.run) == {mine.id}
            assert await ids(tool="send") == {mine.id, other.id, secret.id}
            assert await ids(tool="none") == set()
            assert await ids(kind="doubt") == set()
            assert await ids(kind="approval", agent="Other") == {other.id}
            assert await ids(older_than=3600) == set()
            assert await ids(search=mine.run[4:].upper()) == {mine.id}
            assert await ids(search='"ANN"') == {mine.id, other.id}
            assert await ids(search="100%") == await ids(search="a_n") == set()
            assert await ids(settled=True) == set()
            await decide(web, mine)
            assert await ids(settled=True) == {mine.id}


async def test_a_page_of_a_search_may_be_empty_and_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    agents = ["Other"] * 7 + ["Clerk"] + ["Other"] * 3
    for agent in agents:
        await one(store, agent=agent)
        clock.advance(1)
    pages: list[list[str]] = []
    every = store.page
    monkeypatch.setattr(store, "page", lambda filter: every(replace(filter, reach=3)))
    async with client(store) as web:
        query: dict[str, str] = {"search": "clerk"}
        while True:
            page = (await web.get("/api/questions", params=query)).json()
            pages.append([each["agent"] for each in page["items"]])
            if page["next"] is None:
                break
            query["after"] = page["next"]
        described = (await web.get("/openapi.json")).json()["paths"]["/api/questions"]["get"]["description"]
    assert pages == [[], [], ["Clerk"], []]
    assert f"{MOST_SEARCHED:,} questions" in described


async def test_secret_arguments_are_masked_in_lists_and_shown_to_who_may_decide() -> None:
    store = MemoryStore()
    question = await one(store, redact=("to",))
    async with client(store) as web, client(store, "vic", "viewer") as viewing:
        [listed] = (await web.get("/api/questions")).json()["items"]
        whole = (await web.get(f"/api/questions/{question.id}")).json()
        viewed = (await viewing.get(f"/api/questions/{question.id}")).json()
        journal = (await viewing.get(f"/api/runs/{question.run}/journal")).text
    assert "ann" not in listed["arguments"] and "ann" not in viewed["arguments"]
    assert "ann" not in journal
    assert json.loads(whole["arguments"]) == {"to": "ann"}


async def test_secret_arguments_that_a_grant_pins_are_masked_for_who_may_not_decide() -> None:
    store = MemoryStore()
    question = await one(store, redact=("to",), reviewers=("olga",))
    async with client(store, "olga", "operator") as web:
        order = {"question": question.id, "terms": {"pins": {"to": "ann"}}}
        given = await web.post("/api/grants", json=order, headers=if_match(question.digest))
        assert given.status_code == 201, given.text
        assert (await web.get("/api/grants")).json()["items"][0]["pins"] == {"to": "ann"}
    for name, role in (("vic", "viewer"), ("rita", "reviewer")):
        async with client(store, name, role) as web:
            assert (await web.get("/api/grants")).json()["items"][0]["pins"] == {"to": "[masked]"}
            assert "[masked]" in (await web.get("/grants")).text
            for path in ("/api/grants", "/grants", f"/api/runs/{question.run}/journal", f"/runs/{question.run}?all=1"):
                assert '"ann"' not in (await web.get(path)).text.replace("&#34;", '"'), path


async def test_a_page_of_a_journal_masks_what_an_earlier_page_made_secret() -> None:
    store = MemoryStore()
    question = await one(store, redact=("to",))
    edit = Edit({"to": "new-secret"}, note="as said: new-secret")
    await store.decide(question.id, edit, by="olga", digest=question.digest)
    await store.cancel(question.run, by="olga", why="not new-secret after all")
    async with client(store, "vic", "viewer") as web:
        path = f"/api/runs/{question.run}/journal"
        pages = [(await web.get(path, params={"limit": 1, "after": n})).text for n in range(10)]
    assert any("after all" in page for page in pages)
    assert not any("new-secret" in page for page in pages)


async def test_a_search_does_not_find_out_what_is_masked(live_store: Store) -> None:
    async with live_store as store:
        secret, plain = await one(store, redact=("to",)), await one(store)
        async with client(store, "vic", "viewer") as web:
            for text in ("ann", "a letter"):  # an argument, and the reason, which may quote it
                found = (await web.get("/api/questions", params={"search": text})).json()["items"]
                assert [each["id"] for each in found] == [plain.id]
            found = (await web.get("/api/questions", params={"search": secret.id})).json()["items"]
            assert [each["id"] for each in found] == [secret.id]


async def test_a_question_has_its_digest_as_its_etag() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        answer = await web.get(f"/api/questions/{question.id}")
        missing = await web.get("/api/questions/q_none")
    assert answer.headers["etag"] == f'"{question.digest}"'
    assert missing.status_code == 404
    assert missing.json()["type"] == "urn:assentry:question-not-found"


# -- decisions ---------------------------------------------------------------------------------------


async def test_a_decision_is_recorded_with_its_author_and_what_was_shown() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        answer = await decide(web, question, {"type": "approve", "note": "Fine."})
    decided = await store.question(question.id)
    assert answer.status_code == 200
    assert (decided.verdict, decided.by, decided.shown) == ("approve", "ann", shown_hash(question))
    assert answer.json()["shown"] == decided.shown


async def test_a_decision_without_the_digest_is_428() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        for headers in ({}, {"If-Match": "*"}):
            answer = await web.post(f"/api/questions/{question.id}/decision", json=APPROVE, headers=headers)
            assert answer.status_code == 428
    assert (await store.question(question.id)).verdict is None


async def test_a_decision_about_something_else_is_412_with_the_question_as_it_is() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        answer = await decide(web, question, headers=if_match("0" * 64))
    problem = answer.json()
    assert answer.status_code == problem["status"] == 412
    assert problem["digest"] == question.digest
    assert problem["question"]["id"] == question.id
    assert (await store.question(question.id)).verdict is None


async def test_a_decision_on_a_replaced_question_is_412_with_the_difference() -> None:
    store = MemoryStore()
    draft = asking(store.clock)
    [before] = (await draft.write(store)).asked
    later = f.Asked(before.call, "q_" + "1" * 32, "The tool is another.", "1" * 64, replaces=before.id, at=draft.now)
    draft.add(later)
    await draft.write(store)
    async with client(store) as web:
        answer = await decide(web, before)
    problem = answer.json()
    assert answer.status_code == problem["status"] == 412
    assert problem["replaced_by"] == later.id
    assert problem["digest"] == "1" * 64
    assert "reason" in problem["changes"]


async def test_a_decision_on_a_question_that_was_replaced_twice_names_the_one_that_is_open() -> None:
    store = MemoryStore()
    draft = asking(store.clock)
    [first] = (await draft.write(store)).asked
    second = f.Asked(first.call, "q_" + "1" * 32, "The tool is another.", "1" * 64, replaces=first.id, at=draft.now)
    third = f.Asked(first.call, "q_" + "2" * 32, "And another.", "2" * 64, replaces=second.id, at=draft.now)
    for asked in (second, third):
        draft.add(asked)
        await draft.write(store)
    async with client(store) as web:
        for stale in (first, await store.question(second.id)):
            problem = (await decide(web, stale)).json()
            assert (problem["status"], problem["replaced_by"]) == (412, third.id)
            assert problem["digest"] == "2" * 64 and problem["question"]["id"] == third.id


async def test_the_same_decision_again_is_200_and_another_one_409() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web, client(store, "bob") as other:
        assert (await decide(web, question)).status_code == 200
        again = await decide(web, question)
        late = await decide(other, question, {"type": "reject"})
    assert again.status_code == 200 and again.json()["by"] == "ann"
    assert late.status_code == 409
    assert {"by": "ann", "verdict": "approve"}.items() <= late.json().items()
    assert late.json()["type"] == "urn:assentry:already-decided"


async def test_of_twenty_deciders_one_wins_and_the_others_are_told_who(live_store: Store) -> None:
    async with live_store as store:
        question = await one(store)
        app = assentry.inbox.app(store, Tokens())
        async with client_of(app) as web:

            async def reject(number: int) -> httpx.Response:
                body = {"type": "reject", "message": f"No, says {number}."}
                return await decide(web, question, body, headers=bearer(f"person{number}"))

            answers = await asyncio.gather(*map(reject, range(20)))
        winners = [each for each in answers if each.status_code == 200]
        others = [each for each in answers if each.status_code == 409]
        assert (len(winners), len(others)) == (1, 19)
        name = (await store.question(question.id)).by
        assert winners[0].json()["by"] == name
        assert {each.json()["by"] for each in others} == {name}
        assert {each.json()["verdict"] for each in others} == {"reject"}


BAD_BODIES = [
    (b"", 400),
    (b"[]", 400),
    (b"{", 400),
    (b"\xff", 400),
    (b'{"type": "approve", "type": "reject"}', 400),
    (b'{"type": "allow"}', 422),
    (b'{"type": "approve", "by": "root"}', 422),
    (b'{"decision": {"type": "approve"}, "by": "root"}', 422),
    (b'{"type": "edit", "arguments": {"to": 5}}', 422),
    (b'{"type": "respond"}', 422),
]


@pytest.mark.parametrize(("body", "status"), BAD_BODIES)
async def test_a_body_that_is_no_decision_changes_nothing(body: bytes, status: int) -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        headers = {**if_match(question.digest), "Content-Type": "application/json"}
        answer = await web.post(f"/api/questions/{question.id}/decision", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await store.question(question.id)).verdict is None


async def test_a_form_of_another_site_is_no_decision() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        path = f"/api/questions/{question.id}/decision"
        answer = await web.post(path, data=APPROVE, headers=if_match(question.digest))
    assert answer.status_code == 415
    assert (await store.question(question.id)).verdict is None


async def test_nothing_is_decided_by_get() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        answer = await web.get(f"/api/questions/{question.id}/decision", headers=if_match(question.digest))
    assert answer.status_code == 405
    assert answer.json()["status"] == 405


# -- grants ------------------------------------------------------------------------------------------


async def test_a_decision_may_bring_the_terms_of_a_grant_from_who_may_give_it() -> None:
    store = MemoryStore()
    question = await one(store)
    body = {"decision": APPROVE, "grant": {"max_uses": 3}}
    async with client(store) as web, client(store, "olga", "operator") as operator:
        assert (await decide(web, question, body)).status_code == 403
        assert (await decide(operator, question, body)).status_code == 200
        [grant] = (await web.get("/api/grants")).json()["items"]
    assert (grant["by"], grant["max_uses"]) == ("olga", 3)


async def test_a_grant_is_given_and_revoked() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store, "olga", "operator") as web:
        order = {"question": question.id, "terms": {"max_uses": 2, "pins": {"to": "ann"}, "expires_in": 60}}
        given = await web.post("/api/grants", json=order, headers=if_match(question.digest))
        assert given.status_code == 201, given.text
        assert given.json()["pins"] == {"to": "ann"}
        again = await web.post("/api/grants", json=order, headers=if_match(question.digest))
        assert (await web.get("/api/grants")).json()["items"] == [given.json()]
        for _ in range(2):
            assert (await web.delete(given.headers["location"])).status_code == 204
        assert (await web.get("/api/grants")).json()["items"] == []
        [revoked] = (await web.get("/api/grants", params={"revoked": True})).json()["items"]
    assert again.status_code in (201, 409)
    assert revoked["revoked_by"] == "olga"
    assert (await store.question(question.id)).verdict == "approve"


async def test_a_grant_is_told_without_a_read_after_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    question, append = await one(store), store.append

    async def away(*args: Any, **more: Any) -> Any:
        raise StoreFailed("The store cannot be reached. Nothing was written.")

    async def last(change: Any) -> None:
        await append(change)
        for name in ("read", "lines", "question", "page", "definition"):
            monkeypatch.setattr(store, name, away)

    monkeypatch.setattr(store, "append", last)
    async with client(store, "olga", "operator") as web:
        order = {"question": question.id, "terms": {"max_uses": 2, "pins": {"to": "ann"}}}
        given = await web.post("/api/grants", json=order, headers=if_match(question.digest))
    assert given.status_code == 201, given.text
    monkeypatch.undo()
    [grant] = (await store.grants(run=question.run)).items
    assert (given.json()["id"], grant.by, grant.max_uses) == (grant.id, "olga", 2)


async def test_a_decision_under_a_grant_that_there_is_already_is_told_with_that_grant(live_store: Store) -> None:
    async with live_store as store, client(store, "olga", "operator") as web:
        draft = RunDraft(FakeClock())
        for call in draft.propose(SEND, SEND):
            draft.ask(call)
        await draft.write(store)
        grants = []
        for question in (await store.questions()).items:
            given = await web.post("/api/grants", json={"question": question.id}, headers=if_match(question.digest))
            assert given.status_code == 201, given.text
            grants.append(given.json()["id"])
            assert (await store.question(question.id)).verdict == "approve"
        assert len(grants) == 2 and len(set(grants)) == 1


async def test_no_grant_comes_of_a_question_that_was_decided_before() -> None:
    store = MemoryStore()
    question = await one(store)
    async with client(store, "olga", "operator") as web:
        await decide(web, question)
        order = {"question": question.id, "terms": {"max_uses": 2}}
        given = await web.post("/api/grants", json=order, headers=if_match(question.digest))
    assert given.status_code == 409 and "was decided before; no grant was given" in given.json()["detail"]
    assert (await store.grants()).items == []


@pytest.mark.parametrize("terms", [True, {}, {"max_uses": 2}])
async def test_a_settled_question_takes_no_grant_by_any_way_in(live_store: Store, terms: Any) -> None:
    async with live_store as store:
        question = await one(store)
        await store.decide(question.id, Approve(), by="ben", digest=question.digest)
        with pytest.raises(NotPending, match="no grant was given"):
            await store.decide(question.id, Approve(), by="olga", digest=question.digest, grant=terms)
        async with client(store, "olga", "operator") as web:
            body = {"decision": {"type": "approve"}, "grant": terms}
            headers = if_match(question.digest)
            told = await web.post(f"/api/questions/{question.id}/decision", json=body, headers=headers)
            assert told.status_code == 409 and "no grant was given" in told.json()["detail"]
            order = {"question": question.id, "terms": {} if terms is True else terms}
            assert (await web.post("/api/grants", json=order, headers=headers)).status_code == 409
            form = {"digest": question.digest, "type": "approve", "grant": "1", "uses": "", "pins": ""}
            page = await web.post(f"/questions/{question.id}/decision", data=form)
            assert page.status_code == 409 and "Yours was not recorded" in page.text
        assert (await store.grants(revoked=True)).items == []


async def test_of_two_who_decide_at_once_the_loser_gives_no_grant(live_store: Store) -> None:
    async with live_store as store:
        for _ in range(5):
            question = await one(store)
            tries = [
                store.decide(question.id, Approve(), by="ben", digest=question.digest),
                store.decide(question.id, Approve(), by="olga", digest=question.digest, grant=True),
            ]
            await asyncio.gather(*tries, return_exceptions=True)
            winner = (await store.question(question.id)).by
            assert len((await store.grants(run=question.run)).items) == (1 if winner == "olga" else 0)


# -- runs --------------------------------------------------------------------------------------------


async def test_a_run_and_its_journal_are_read_in_pages() -> None:
    store = MemoryStore()
    draft = await put_ended(store)
    async with client(store) as web:
        [listed] = (await web.get("/api/runs", params={"status": "done"})).json()["items"]
        assert (await web.get(f"/api/runs/{draft.id}")).json() == listed
        first = (await web.get(f"/api/runs/{draft.id}/journal", params={"limit": 1})).json()
        rest = (await web.get(f"/api/runs/{draft.id}/journal", params={"after": first["next"]})).json()
        assert (await web.get("/api/runs/none/journal")).status_code == 404
    assert first["items"][0]["fact"]["fact"] == "began"
    assert [each["seq"] for each in first["items"] + rest["items"]] == list(range(1, listed["seq"] + 1))
    assert rest["next"] is None


# -- what holds for every response ---------------------------------------------------------------------


async def test_every_response_has_the_headers_of_security() -> None:
    async with client(MemoryStore()) as web:
        for path in ("/health", "/api/questions", "/api/none", "/openapi.json", "/metrics", "/api/runs?limit=x"):
            answer = await web.get(path)
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
            assert "access-control-allow-origin" not in answer.headers


async def test_unknown_routes_and_invalid_requests_are_problems() -> None:
    async with client(MemoryStore()) as web:
        wrong = (("/api/runs?limit=0", 422), ("/api/runs?after=x", 400), ("/api/runs?agnet=x", 422))
        for path, status in (("/api/none", 404), *wrong, ("/api/runs?limit=1&limit=2", 422)):
            answer = await web.get(path)
            assert answer.status_code == answer.json()["status"] == status
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["instance"] == path.partition("?")[0]


async def test_a_body_that_is_too_large_is_413_announced_or_not() -> None:
    store = MemoryStore()
    question = await one(store)

    async def chunks() -> Any:
        for _ in range(12):
            yield b" " * 1_000_000

    async with client(store) as web:
        path = f"/api/questions/{question.id}/decision"
        headers = {**if_match(question.digest), "Content-Type": "application/json"}
        told = await web.post(path, content=b" " * (MOST_BYTES + 1), headers=headers)
        untold = await web.post(path, content=chunks(), headers=headers)
        long = await web.get("/api/questions", params={"search": "x" * 9000})
    assert (told.status_code, untold.status_code, long.status_code) == (413, 413, 414)


async def test_an_error_nobody_thought_of_is_a_problem_without_its_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    async def fail(*args: Any, **more: Any) -> Any:
        raise RuntimeError("the inside")

    monkeypatch.setattr(store, "runs", fail)
    async with client(store) as web:
        answer = await web.get("/api/runs")
    assert answer.status_code == answer.json()["status"] == 500
    assert "inside" not in answer.text


@pytest.mark.parametrize("unknown", [True, False])
async def test_what_is_known_of_a_decision_is_told_when_the_store_fails(unknown: bool) -> None:
    store = MemoryStore()
    question = await one(store)

    async def fail(change: Any) -> None:
        error = StoreFailed("The inside of the store.")
        error.unknown = unknown
        raise error

    store.append = fail  # type: ignore[method-assign]
    async with client(store) as web:
        answer = await decide(web, question)
    assert answer.status_code == 502 and "inside" not in answer.text
    words = "it is not known whether anything changed" if unknown else "Nothing was changed"
    assert words in answer.json()["detail"]


async def test_who_was_too_late_is_told_so_though_the_details_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    question = await one(store)
    await store.decide(question.id, {"type": "reject"}, by="bob", digest=question.digest)
    real, looks = store.question, [0]

    async def once(id: str) -> Any:
        looks[0] += 1
        if looks[0] > 2:
            raise StoreFailed("The store cannot be reached. Nothing was written.")
        return await real(id)

    monkeypatch.setattr(store, "question", once)
    async with client(store) as web:
        answer = await decide(web, question)
    assert answer.status_code == 409
    assert (answer.json()["by"], answer.json()["verdict"]) == ("bob", "reject")


async def test_metrics_count_questions_decisions_and_requests() -> None:
    store = MemoryStore()
    question = await one(store)
    await one(store)
    async with client(store) as web:
        await decide(web, question)
        text = (await web.get("/metrics")).text
    assert "assentry_questions_open 1\n" in text
    assert 'assentry_decisions_total{verdict="approve"} 1\n' in text
    assert 'route="/api/questions/{id}/decision",status="200"} 1\n' in text
    assert "assentry_feed_viewers 0\n" in text


class Counting(MemoryStore):
    """A store that counts how often its questions are counted, and can be held up or fail meanwhile."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.counts = 0
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()
        self.error: Exception | None = None

    async def tally(self) -> Tally:
        self.counts += 1
        self.began.set()
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return await super().tally()


async def test_open_questions_are_counted_at_most_every_ten_seconds() -> None:
    clock = FakeClock()
    store = Counting(clock=clock)
    await one(store)
    async with client(store) as web:
        assert "assentry_questions_open 1\n" in (await web.get("/metrics")).text
        await one(store)
        clock.advance(9.5)
        text = (await web.get("/metrics")).text
        assert "assentry_questions_open 1\n" in text and "assentry_questions_oldest_seconds 9.5\n" in text
        assert "# HELP assentry_questions_open Open questions, counted at most every 10 seconds.\n" in text
        clock.advance(0.5)
        assert "assentry_questions_open 2\n" in (await web.get("/metrics")).text
        assert store.counts == 2
        clock.advance(-3600)  # somebody put the clock right
        await web.get("/metrics")
        assert store.counts == 3
        described = (await web.get("/openapi.json")).json()["paths"]["/metrics"]["get"]["description"]
    assert f"every {KEPT} seconds" in described


async def test_those_who_ask_for_metrics_at_once_share_one_count() -> None:
    store = Counting(clock=FakeClock())
    await one(store)
    store.may_end.clear()
    async with client(store) as web:
        first, *others = [asyncio.create_task(web.get("/metrics")) for _ in range(5)]
        await store.began.wait()
        first.cancel()  # its count goes on, for the others
        store.may_end.set()
        texts = [(await each).text for each in others]
        with pytest.raises(asyncio.CancelledError):
            await first
    assert all("assentry_questions_open 1\n" in text for text in texts)
    assert store.counts == 1


async def test_a_count_that_failed_is_not_kept() -> None:
    store = Counting(clock=FakeClock())
    store.error = StoreFailed("The disk is gone.")
    async with client(store) as web:
        assert (await web.get("/metrics")).status_code == 502
        store.error = None
        assert "assentry_questions_open 0\n" in (await web.get("/metrics")).text


async def test_methods_that_a_client_makes_up_are_counted_as_one() -> None:
    async with client(MemoryStore(), role="viewer") as web:
        for method in ("MADE", "UP"):
            await web.request(method, "/api/runs")
        text = (await web.get("/metrics")).text
    assert 'assentry_http_requests_total{method="other",route="/api/runs",status="405"} 2' in text


async def test_a_mounted_inbox_works_under_its_prefix() -> None:
    store = MemoryStore()
    question = await one(store)
    await store.announce({"Clerk": '{"fact":"began","agent":"Clerk","max_turns":10}'})
    main = FastAPI()
    main.mount("/assentry", assentry.inbox.app(store, Tokens()))
    async with client_of(main, "olga", "operator", base="/assentry") as web:
        assert [each["id"] for each in (await web.get("/api/questions")).json()["items"]] == [question.id]
        assert (await decide(web, question)).is_success
        started = await web.post("/api/runs", json={"agent": "Clerk", "input": "Hello"})
        assert started.headers["location"] == f"/assentry/api/runs/{started.json()['id']}"
        assert (await web.get("/openapi.json")).json()["servers"] == [{"url": "/assentry"}]
        del web.headers["authorization"]
        assert (await web.get("/questions")).headers["location"].startswith("/assentry/sign-in?next=%2Fassentry%2F")
        assert (await web.get("/api/questions")).status_code == 401
        assert (await web.get("/health")).is_success


# -- cost --------------------------------------------------------------------------------------------


async def test_a_decision_is_made_without_a_thread_of_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*given: Any, **options: Any) -> Any:
        raise AssertionError("a thread was used")

    monkeypatch.setattr("anyio.to_thread.run_sync", refuse)
    store = MemoryStore()
    question = await one(store)
    async with client(store) as web:
        assert (await decide(web, question)).status_code == 200
        assert (await web.get("/api/questions")).status_code == 200
