"""`POST /api/decisions`: one decision on many questions, each by its own digest, and those that mean harm."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from assentry import Edit, Reject, Runner
from assentry.core import facts as f
from assentry.errors import StoreFailed
from assentry.inbox.headline import shown_hash
from assentry.inbox.many import MOST_AT_ONCE
from assentry.store import MemoryStore, Store
from assentry.store.record import Question
from assentry.testing import FakeClock
from assentry.testing.store_checks.draft import asking, put_asking
from tests.inbox.batch import ask_credits, make_credit
from tests.inbox.office import agent, ask, call
from tests.inbox.stores import clock
from tests.inbox.support import client, live_store

__all__ = ["clock", "live_store"]

APPROVE = {"type": "approve"}


def order(questions: list[Question], decision: Any = None, **digests: str) -> dict[str, Any]:
    named = [{"id": each.id, "digest": digests.get(each.id, each.digest)} for each in questions]
    return {"decision": decision or APPROVE, "questions": named}


async def send(web: httpx.AsyncClient, questions: list[Question], decision: Any = None, **digests: str) -> Any:
    answer = await web.post("/api/decisions", json=order(questions, decision, **digests))
    assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    assert [each["id"] for each in items] == [each.id for each in questions]
    return items


async def ends(store: Store, questions: list[Question]) -> list[tuple[str | None, str | None]]:
    found = [await store.question(each.id) for each in questions]
    return [(each.verdict, each.by) for each in found]


def statuses(items: Any) -> list[int]:
    return [each["status"] for each in items]


async def test_each_is_decided_by_its_own_digest_with_what_was_shown(live_store: Store) -> None:
    async with live_store as store, client(store) as web:
        asked = await ask_credits(store, 10, 20, 30)
        items = await send(web, asked, {"type": "approve", "note": "all returned"})
        assert statuses(items) == [200] * 3 and all(each["problem"] is None for each in items)
        assert await ends(store, asked) == [("approve", "ann")] * 3
        settled = [await store.question(each.id) for each in asked]
        assert [each.shown for each in settled] == [shown_hash(each) for each in asked]
        assert [each["question"]["digest"] for each in items] == [each.digest for each in asked]
        for each in asked:
            last = [entry.fact for entry in await store.history(each.run) if entry.fact["fact"] == "approved"][-1]
            assert (last["by"], last["why"]) == ("ann", "all returned")


async def test_all_are_rejected_with_one_message(live_store: Store) -> None:
    async with live_store as store, client(store) as web:
        asked = await ask_credits(store, 10, 20)
        assert statuses(await send(web, asked, {"type": "reject", "message": "no"})) == [200, 200]
        assert await ends(store, asked) == [("reject", "ann")] * 2


async def test_the_same_again_is_no_error_and_changes_nothing(live_store: Store) -> None:
    async with live_store as store, client(store) as web:
        asked = await ask_credits(store, 10, 20)
        first = await send(web, asked)
        facts = [len(await store.history(each.run)) for each in asked]
        assert await send(web, asked) == first
        assert [len(await store.history(each.run)) for each in asked] == facts


async def test_one_that_was_taken_and_one_that_is_gone_are_named_and_the_rest_stand(live_store: Store) -> None:
    async with live_store as store, client(store) as web:
        asked = await ask_credits(store, 10, 20, 30)
        await store.decide(asked[1].id, Reject("no"), by="otto", digest=asked[1].digest)
        body = order(asked)
        body["questions"].append({"id": "q_none", "digest": "d"})
        items = (await web.post("/api/decisions", json=body)).json()["items"]
        assert statuses(items) == [200, 409, 200, 404]
        problem = items[1]["problem"]
        assert (problem["by"], problem["verdict"]) == ("otto", "reject") and problem["at"] > 0
        alone = await web.post(
            f"/api/questions/{asked[1].id}/decision", json=APPROVE, headers={"If-Match": f'"{asked[1].digest}"'}
        )
        assert {**alone.json(), "instance": ""} == {**problem, "instance": ""}
        assert await ends(store, asked) == [("approve", "ann"), ("reject", "otto"), ("approve", "ann")]


async def test_the_digest_of_another_question_decides_nothing(live_store: Store) -> None:
    async with live_store as store, client(store) as web:
        asked = await ask_credits(store, 10, 20, 30)
        items = await send(web, asked, **{asked[0].id: asked[1].digest, asked[1].id: "forged"})
        assert statuses(items) == [412, 412, 200]
        assert items[0]["problem"]["digest"] == asked[0].digest
        assert await ends(store, asked) == [(None, None), (None, None), ("approve", "ann")]


async def test_one_that_was_replaced_says_by_what() -> None:
    async with MemoryStore() as store, client(store) as web:
        draft = asking(store.clock)
        [first] = (await draft.write(store)).asked
        [second] = await put_asking(store)
        fresh = f.Asked(first.call, "q_" + "1" * 32, "The tool is another.", "1" * 64, replaces=first.id, at=draft.now)
        draft.add(fresh)
        await draft.write(store)
        items = await send(web, [first, second])
        assert statuses(items) == [412, 200]
        assert items[0]["problem"]["replaced_by"] == items[0]["problem"]["question"]["id"] == fresh.id
        assert (await store.question(fresh.id)).verdict is None


async def test_an_expired_one_is_named(clock: FakeClock) -> None:
    async with MemoryStore(clock=clock) as store, client(store) as web:
        late = make_credit(deadline=60)
        [first] = await ask_credits(store, 10, tool=late)
        clock.advance(50)
        [second] = await ask_credits(store, 20, tool=late)
        clock.advance(20)
        items = await send(web, [first, second])
        assert statuses(items) == [409, 200]
        assert items[0]["problem"]["by"] == "deadline"
        assert await ends(store, [first, second]) == [("reject", "deadline"), ("approve", "ann")]


async def test_what_is_for_others_to_decide_is_refused_alone() -> None:
    async with MemoryStore() as store, client(store) as web:
        own = await ask_credits(store, 10, by="ann")
        others = await ask_credits(store, 20)
        items = await send(web, [*own, *others])
        assert statuses(items) == [403, 200] and "ann asked for this run" in items[0]["problem"]["detail"]
        assert await ends(store, own) == [(None, None)]


async def test_two_people_at_once_decide_each_question_once(live_store: Store) -> None:
    async with live_store as store, client(store, "ann") as ann, client(store, "ben") as ben:
        asked = await ask_credits(store, *range(1, 13))
        mine, theirs = await asyncio.gather(send(ann, asked), send(ben, asked[::-1], {"type": "reject"}))
        first = {each["id"]: each["status"] for each in mine}
        second = {each["id"]: each["status"] for each in theirs}
        for question, (verdict, by) in zip(asked, await ends(store, asked), strict=True):
            assert (verdict, by) in (("approve", "ann"), ("reject", "ben"))
            assert first[question.id] == (200 if by == "ann" else 409)
            assert second[question.id] == (200 if by == "ben" else 409)
            kinds = [entry.fact["fact"] for entry in await store.history(question.run)]
            assert kinds.count("approved") + kinds.count("refused") == 1


async def test_calls_of_one_turn_are_decided_together() -> None:
    async with MemoryStore() as store, client(store) as web:
        calls = [call("write", {"text": str(n)}) for n in range(20)]
        result = await Runner.run(agent("Scribe", calls), "go", store=store)
        asked = [await store.question(each.id) for each in result.interruptions]
        assert len(asked) == 20
        assert statuses(await send(web, asked)) == [200] * 20


class Failing(MemoryStore):
    """A store that fails at the n-th decision, and from then on."""

    fails_at, unknown, seen = 0, False, 0

    async def decide(self, *args: Any, **more: Any) -> Question:
        self.seen += 1
        if self.fails_at and self.seen >= self.fails_at:
            error = StoreFailed("the secret inside of the store")
            error.unknown = self.unknown
            raise error
        return await super().decide(*args, **more)


@pytest.mark.parametrize("unknown", [False, True])
async def test_if_the_store_fails_in_the_middle_the_rest_is_left_alone_and_said_so(unknown: bool) -> None:
    async with Failing() as store, client(store) as web:
        asked = await ask_credits(store, *range(1, 11))
        store.fails_at, store.unknown = 5, unknown
        items = await send(web, asked)
        assert sorted(statuses(items)) == [200] * 4 + [502] * 6
        made = await ends(store, asked)
        assert [each["status"] == 200 for each in items] == [verdict == "approve" for verdict, _ in made]
        assert "secret" not in json.dumps(items)
        told = [each["problem"]["detail"] for each in items if each["problem"]]
        assert sum("not known" in each for each in told) == (store.seen - 4 if unknown else 0)
        assert store.seen < 10


async def test_an_error_nobody_thought_of_is_told_of_its_question_alone() -> None:
    class Odd(MemoryStore):
        async def decide(self, question_id: str, *args: Any, **more: Any) -> Question:
            if question_id == asked[1].id:
                raise ZeroDivisionError("inside")
            return await super().decide(question_id, *args, **more)

    async with Odd() as store, client(store) as web:
        asked = await ask_credits(store, 10, 20, 30)
        items = await send(web, asked)
        assert statuses(items) == [200, 500, 200] and "inside" not in json.dumps(items)


# -- refused as a whole ------------------------------------------------------------------------------


def bodies(asked: list[Question]) -> dict[str, tuple[Any, int]]:
    good = order(asked)
    first, *rest = good["questions"]
    return {
        "no JSON": (b"{", 400),
        "a list": (b"[]", 400),
        "nothing": ({}, 400),
        "no questions": ({"decision": APPROVE, "questions": []}, 400),
        "no decision": ({"questions": good["questions"]}, 400),
        "no digest": ({**good, "questions": [{"id": first["id"]}, *rest]}, 400),
        "an empty digest": ({**good, "questions": [{**first, "digest": ""}, *rest]}, 400),
        "any digest": ({**good, "questions": [{**first, "digest": None}, *rest]}, 400),
        "a question twice": ({**good, "questions": [first, *rest, first]}, 400),
        "another key": ({**good, "force": True}, 400),
        "a grant": ({**good, "grant": True}, 400),
        "an author": ({**good, "questions": [{**first, "by": "otto"}, *rest]}, 400),
        "an edit": ({**good, "decision": {"type": "edit", "arguments": {}}}, 400),
        "an answer": ({**good, "decision": {"type": "respond", "output": "x"}}, 400),
        "no verdict": ({**good, "decision": {}}, 400),
        "a null character": ({**good, "questions": [{**first, "id": "q\x00"}, *rest]}, 400),
        "half of a character": (json.dumps({**good, "questions": [{**first, "id": "q\ud800"}, *rest]}).encode(), 400),
        "too many": ({**good, "questions": [{"id": f"q{n}", "digest": "d"} for n in range(MOST_AT_ONCE + 1)]}, 400),
        "ten thousand": ({**good, "questions": [{"id": f"q{n}", "digest": "d"} for n in range(10_000)]}, 400),
        "a long note": ({**good, "decision": {"type": "approve", "note": "x" * 70_000}}, 422),
    }


@pytest.mark.parametrize(
    "what",
    [
        "no JSON", "a list", "nothing", "no questions", "no decision", "no digest", "an empty digest", "any digest",
        "a question twice", "another key", "a grant", "an author", "an edit", "an answer", "no verdict",
        "a null character", "half of a character", "too many", "ten thousand", "a long note",
    ],
)  # fmt: skip
async def test_bad_input_is_refused_before_anything_is_recorded(what: str, live_store: Store) -> None:
    async with live_store as store, client(store) as web:
        asked = await ask_credits(store, 10, 20)
        body, status = bodies(asked)[what]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await web.post("/api/decisions", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert await ends(store, asked) == [(None, None)] * 2


async def test_questions_that_are_not_alike_are_refused_before_anything_is_recorded() -> None:
    async with MemoryStore() as store, client(store) as web:
        asked = await ask_credits(store, 10)
        other = await ask_credits(store, 20, tool=make_credit("Something else."))
        mail = await ask(store, "Post", call("send_mail", {"to": "a@example.com", "subject": "x"}))
        doubt = await ask(store, "Till", call("payout", {"to": "Flores", "amount": 1.0}))
        prompt = await ask(store, "Post", call("ship", {"order": 1}))
        for mixed, why in (
            ([*asked, *other], "The definition of 'credit' changed"),
            ([*asked, mail], "about 2: 'credit', 'send_mail'"),
            ([*asked, doubt], "'doubt' is decided alone"),
            ([prompt], "'input' is decided alone"),
        ):
            answer = await web.post("/api/decisions", json=order(mixed))
            assert answer.status_code == 422 and why in answer.json()["detail"], answer.text
        assert await ends(store, [*asked, *other, mail, doubt, prompt]) == [(None, None)] * 5


@pytest.mark.parametrize("role", ["viewer", "agent"])
async def test_whoever_may_not_decide_learns_nothing(role: str) -> None:
    async with MemoryStore() as store, client(store, "vic", role) as web:
        asked = await ask_credits(store, 10, 20)
        answer = await web.post("/api/decisions", json=order(asked))
        assert answer.status_code == 403 and "credit" not in answer.text
        assert await ends(store, asked) == [(None, None)] * 2


async def test_a_cookie_needs_the_pages_token() -> None:
    async with MemoryStore() as store, client(store) as web:
        asked = await ask_credits(store, 10)
        web.headers["test-cookie"] = "the token"
        for given, status in (({}, 403), ({"X-CSRF-Token": "another"}, 403), ({"X-CSRF-Token": "the token"}, 200)):
            answer = await web.post("/api/decisions", json=order(asked), headers=given)
            assert answer.status_code == status
            assert await ends(store, asked) == [("approve", "ann") if status == 200 else (None, None)]


async def test_questions_that_are_too_large_together_are_refused_in_words() -> None:
    async with MemoryStore() as store, client(store) as web:
        asked = await ask_credits(store, *range(1, 10), reason="x" * 500_000)
        answer = await web.post("/api/decisions", json=order(asked))
        assert answer.status_code == 422 and "more than 4 MB" in answer.json()["detail"]
        assert statuses(await send(web, asked[:2])) == [200, 200]


async def test_a_secret_argument_is_masked_for_whoever_may_not_decide() -> None:
    async with MemoryStore() as store, client(store, "ann") as web:
        asked = [
            await ask(store, "Keys", call("use_key", {"key": "hidden-key-1", "where": "a"}), by=by)
            for by in ("ann", "x")
        ]
        await store.decide(asked[0].id, Reject("no"), by="otto", digest=asked[0].digest)
        items = await send(web, asked, **{asked[0].id: "forged"})
        assert statuses(items)[0] in (403, 409, 412) and "hidden-key-1" not in json.dumps(items[0])
        assert await ends(store, asked) == [("reject", "otto"), ("approve", "ann")]


async def test_an_edit_of_somebody_else_comes_first() -> None:
    async with MemoryStore() as store, client(store) as web:
        asked = await ask_credits(store, 10, 20)
        await store.decide(asked[0].id, Edit({"order": 1, "amount": 1.0}), by="otto", digest=asked[0].digest)
        items = await send(web, asked)
        assert statuses(items) == [409, 200] and items[0]["problem"]["verdict"] == "edit"
        assert (await store.question(asked[0].id)).verdict == "edit"
