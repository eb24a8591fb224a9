"""Secret arguments of calls that nobody was asked about, and digests of what is masked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Approve, Edit, RunConfig, Runner, Secret, function_tool
from assentry.approval.terms import GrantTerms
from assentry.core.mask import MASK
from assentry.inbox.identity import Identity, Role
from assentry.inbox.mask import masked_journal
from assentry.inbox.permissions import JournalView
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.store.record import Entry, Question
from assentry.testing import ScriptedModel, call
from tests.inbox.office import ask, hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes
from tests.inbox.support import client

__all__ = ["cheap_hashes"]  # a fixture

KEY = "hunter2-of-the-vault"


@function_tool
async def unlock(key: Secret[str], door: str) -> str:
    """Open a door."""
    return f"{door} is open with {key}"


@function_tool(needs_approval=True)
async def carry(what: str) -> str:
    """Carry something away."""
    return "carried"


@function_tool(needs_approval=True, reviewers=("ann",))
async def use_pin(pin: Secret[str], where: str) -> str:
    """Use a PIN."""
    return "used"


async def visit(store: Store, *steps: Any, by: str | None = None) -> Question:
    """Let an agent unlock a door, and ask about something else."""
    agent = Agent(name="Guard", tools=[unlock, carry, use_pin], model=ScriptedModel([*steps, "Done."]))
    result = await Runner.run(agent, "Go on.", store=store, run_config=RunConfig(started_by=by))
    return await store.question(result.interruptions[-1].id)


STEPS = (call("unlock", {"key": KEY, "door": "north"}), call("carry", {"what": "chest"}))


@pytest.mark.parametrize("role", ["viewer", "reviewer", "operator", "admin"])
async def test_secrets_of_calls_that_nobody_was_asked_about_are_in_no_journal(role: str) -> None:
    store = MemoryStore()
    question = await visit(store, *STEPS)
    async with client(store, "zoe", role) as web:
        answer = await web.get(f"/api/runs/{question.run}/journal")
    assert answer.status_code == 200
    assert KEY not in answer.text and MASK in answer.text
    assert "north" in answer.text and "chest" in answer.text  # nothing else is masked
    assert all(entry["hash"] == "" for entry in answer.json()["items"])


@pytest.mark.usefixtures("cheap_hashes")
@pytest.mark.parametrize("name", ["vera", "ben"])
async def test_secrets_of_calls_that_nobody_was_asked_about_are_on_no_page(name: str) -> None:
    store = MemoryStore()
    await hire(store)
    question = await visit(store, *STEPS)
    async with Reader(make_app(store), name) as reader:
        for path in (f"/questions/{question.id}", f"/runs/{question.run}", f"/runs/{question.run}?all=1"):
            page = await reader.open(path)
            assert reader.answer.status_code == 200
            assert KEY not in page.source, path
        page = await reader.open(f"/questions/{question.id}")
        assert "north is open with [masked]" in page.text  # the conversation is there, and only the secret is not


async def test_a_journal_without_secrets_stays_as_it_is(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    question = await visit(store, call("carry", {"what": "chest"}))
    async with client(store, "zoe", "viewer") as web:
        items = (await web.get(f"/api/runs/{question.run}/journal")).json()["items"]
    assert [entry["hash"] for entry in items] == [entry.hash for entry in await store.lines(question.run)]
    assert MASK not in json.dumps(items) and all(entry["hash"] for entry in items)
    await store.close()


def old_journal() -> list[Entry]:
    """A journal from before definitions said which arguments are secret."""
    item = {"type": "function_call", "name": "unlock", "arguments": json.dumps({"key": KEY}), "call_id": "p1"}
    facts: list[dict[str, Any]] = [
        {"fact": "began", "agent": "Guard", "max_turns": 5},
        {"fact": "said", "items": "Go on."},
        {"fact": "defined", "agent": "Guard", "tools": {"unlock": "12345678"}},
        {"fact": "replied", "items": [item], "calls": [["c1", "unlock", 0, "tool", "f"]]},
        {"fact": "approved", "call": "c1", "by": "rule", "args": {"key": KEY}},
        {"fact": "finished", "call": "c1", "output": f"open with {KEY}"},
    ]
    return [Entry(n, 0, fact, f"{n:064x}") for n, fact in enumerate(facts, 1)]


def test_a_journal_that_does_not_say_what_is_secret_hides_all_arguments_from_who_may_not_decide() -> None:
    hides = masked_journal(old_journal(), [])
    assert KEY not in json.dumps([entry.fact for entry in hides])
    assert {entry.hash for entry in hides} == {""}
    assert masked_journal(old_journal(), [], trusted=True) == old_journal()


def test_calls_that_input_brings_along_are_hidden_too() -> None:
    """A session may give a run the calls of an earlier one, whose tools the run's own journal does not have."""
    entries = old_journal()
    entries[2].fact["redact"] = {}
    item = {"type": "function_call", "name": "elsewhere", "arguments": json.dumps({"key": "another secret"})}
    entries[1].fact["items"] = [item, {"role": "user", "content": "Go on with another secret."}]
    text = json.dumps([entry.fact for entry in masked_journal(entries, [])])
    assert "another secret" not in text and "Go on with [masked]." in text
    assert KEY in text  # this run says that its own tools have no secrets


@pytest.mark.parametrize("long", ["", "x" * 9000], ids=["short", "long"])
async def test_arguments_of_hosted_calls_are_hidden_where_tools_have_secrets(tmp_path: Path, long: str) -> None:
    """Nobody says which arguments of a provider's own calls are secret, so a viewer sees none of them."""
    given = json.dumps({"card": "4111-secret", "note": long})
    item = {"type": "mcp_call", "id": "m1", "server_label": "bank", "name": "charge", "arguments": given}
    for store in (MemoryStore(), SQLiteStore(tmp_path / "a.db")):
        question = await visit(store, [item, call("carry", {"what": "chest"})])
        roles: dict[Role, bool] = {"viewer": False, "reviewer": True}
        for role, sees in roles.items():
            who, record = Identity("zoe", role), await store.record(question.run)
            whole = await JournalView(who, store, record, payloads=True).part()
            assert ("4111-secret" in str(whole)) is sees
            async with client(store, "zoe", role) as web:
                for path in (f"/api/runs/{question.run}/journal", f"/runs/{question.run}", f"/questions/{question.id}"):
                    page = await web.get(path)
                    assert page.status_code == 200 and (sees or "4111-secret" not in page.text)
        await store.close()


async def test_who_decides_sees_the_secrets_of_that_call_and_no_other() -> None:
    store = MemoryStore()
    steps = (STEPS[0], call("use_pin", {"pin": "7264-9", "where": "vault"}))
    question = await visit(store, *steps)
    async with client(store, "ann", "reviewer") as web:
        text = (await web.get(f"/api/runs/{question.run}/journal")).text
    assert "7264-9" in text and KEY not in text
    async with client(store, "bob", "admin") as web:  # not one of the tool's reviewers
        text = (await web.get(f"/api/runs/{question.run}/journal")).text
    assert "7264-9" not in text and KEY not in text


# -- digests -----------------------------------------------------------------------------------------


async def masked_question(store: Store) -> Question:
    question = await visit(store, call("use_pin", {"pin": "7264", "where": "vault"}))
    return await store.decide(question.id, Edit({"pin": "7265", "where": "vault"}), by="ann", digest=question.digest)


@pytest.mark.parametrize(("name", "role"), [("zoe", "viewer"), ("bob", "operator")])
async def test_digests_of_masked_arguments_are_not_given_away(name: str, role: str, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    open_one = await visit(store, call("use_pin", {"pin": "7264", "where": "vault"}))
    settled = await masked_question(store)
    hashes = [entry.hash for each in (open_one, settled) for entry in await store.lines(each.run)]
    async with client(store, name, role) as web:
        answers = [
            await web.get(path)
            for path in (
                "/api/questions",
                "/api/questions?settled=true",
                f"/api/questions/{open_one.id}",
                f"/api/questions/{settled.id}",
                f"/api/runs/{open_one.run}/journal",
                f"/api/runs/{settled.run}/journal",
                "/audit.jsonl",
                "/audit",
                f"/questions/{open_one.id}",
                f"/runs/{open_one.run}?all=1",
            )
        ]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert "etag" not in answer.headers
        for digest in (open_one.digest, settled.digest, *hashes):
            assert digest[:8] not in answer.text, answer.url
    await store.close()


async def test_a_refused_decision_gives_no_digest_away() -> None:
    store = MemoryStore()
    question = await visit(store, call("use_pin", {"pin": "7264", "where": "vault"}))
    async with client(store, "bob", "operator") as web:
        answer = await web.post(
            f"/api/questions/{question.id}/decision", json={"type": "approve"}, headers={"If-Match": '"guess"'}
        )
    assert answer.status_code in (403, 412)
    assert question.digest not in answer.text and "7264" not in answer.text


async def test_who_may_decide_gets_the_digest_in_lists_too() -> None:
    store = MemoryStore()
    question = await visit(store, call("use_pin", {"pin": "7264", "where": "vault"}))
    async with client(store, "ann", "reviewer") as web:
        [row] = (await web.get("/api/questions")).json()["items"]
        answer = await web.get(f"/api/questions/{question.id}")
    assert row["digest"] == question.digest and json.loads(row["arguments"])["pin"] == MASK
    assert answer.headers["etag"] == f'"{question.digest}"'


async def test_a_grant_shows_no_secret_that_another_pinned_argument_quotes() -> None:
    async with MemoryStore() as store:
        asked = await ask(store, "Keys", call("use_key", {"key": "s3cret-0815", "where": "at s3cret-0815"}))
        pins = GrantTerms(pins={"where": "at s3cret-0815"})
        await store.decide(asked.id, Approve(), by="ann", digest=asked.digest, grant=pins)
        for role, sees in (("viewer", False), ("operator", True)):
            async with client(store, "vera", role) as reader:
                for path in ("/grants", "/api/grants"):
                    answer = await reader.get(path)
                    assert answer.status_code == 200 and ("s3cret-0815" in answer.text) is sees
