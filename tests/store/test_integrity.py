"""Rows that were changed behind the store's back: what is shown, what can be decided on, and what `verify` names."""

import itertools
import logging
import re
from typing import Any

import pytest
from msgspec.json import encode

from assentry import Approve, Reject
from assentry.core import facts as f
from assentry.errors import (
    AssentryError,
    DigestMismatch,
    QuestionNotFound,
    UnreadableState,
)
from assentry.inbox.accounts import Accounts, accounts_of
from assentry.store import MemoryStore, SavedContext, Store
from assentry.store.outbox import Webhook
from assentry.store.row_codec import START, Head, tallied
from assentry.store.sql.schema import EARLIER_VERSION_TABLE, VERSION_TABLE, questions, runs
from assentry.store.sql.seal import asked_seal, ended_seal
from assentry.testing import FakeClock
from assentry.testing.store_checks.draft import SEND, SHRED, RunDraft, json, put_asking
from tests.store.place import Place
from tests.store.support import waiting

COLUMNS: dict[str, Any] = {
    "agent": "Other",
    "tool": "other",
    "kind": "doubt",
    "digest": "0" * 64,
    "arguments": '{"amount":0.01}',
    "reason": "It is harmless.",
    "allowed": '["approve"]',
    "call": "c9",
    "call_id": "call_9",
    "path": '["c1"]',
    "definition": "0" * 32,
    "prompt": '{"text":"All is well."}',
    "schema": '{"type":"string"}',
    "at": 5,
    "until": 7,
    "due": 8,
    "replaces": "q_other",
    "evidence": '[{"attempt":1,"output":"paid","at":1}]',
    "reviewers": '["eve"]',
    "redact": '["to"]',
    "started_by": "eve",
    "preview": '{"sentence":"Nothing happens."}',
    "risk": "low",
}
"""Something else in each column that a person is shown."""


async def everything(store: Store, clock: FakeClock, id: str = "r1") -> RunDraft:
    """A run with something of each kind: questions open and settled, grants, a context, late results."""
    draft = RunDraft(clock, id=id, thread="t")
    sent, doubted, shredded = draft.propose(SEND, SEND, SEND)
    first = draft.ask(sent, prompt=json({"a": [1]}), schema=json({}), until=500_000, id=f"q1_{id}")
    await draft.write(store, context=SavedContext(encode({"user": 1}), "dict"))
    question = await store.question(first)
    clock.advance(1)
    terms = {"max_uses": 3, "pins": {"to": "ann"}}
    await store.decide(first, Approve(), by="ann", digest=question.digest, grant=terms)
    draft = await RunDraft.read(store, id)
    [grant] = draft.run.grants
    draft.add(f.Started(sent), f.Finished(sent, json("sent")))
    draft.add(f.Approved(doubted, f"grant:{grant}", at=draft.now), f.Started(doubted))
    draft.ask(doubted, kind="doubt", id=f"q2_{id}")
    draft.ask(shredded, id=f"q3_{id}", until=draft.now + 500_000)
    await draft.write(store)
    await store.witness(id, [f.Witnessed(doubted, 1, json({"sent": [1.0, "\0"]}), at=9)])
    await store.revoke(grant, by="eve", run=id)
    return await RunDraft.read(store, id)


async def over(store: Store, clock: FakeClock, id: str = "r1") -> None:
    """The same, and closed."""
    draft = await everything(store, clock, id)
    question = await store.question(f"q3_{id}")
    await store.decide(question.id, Reject("No."), by="bob", digest=question.digest)
    draft = await RunDraft.read(store, id)
    await draft.add(f.Closed("It failed.", at=draft.now)).write(store)


def reseal(place: Place, id: str) -> None:
    """Seal a row anew, as somebody does who knows how."""
    [row] = place.execute("SELECT * FROM assentry_questions WHERE id = :id", id=id)
    columns = dict(zip(questions.c.keys(), row, strict=True))
    [[columns["run"]]] = place.execute("SELECT run FROM assentry_runs WHERE id = :id", id=columns["run"])
    seals = {"asked": asked_seal(columns), "ended": ended_seal(columns)}
    place.execute(
        "UPDATE assentry_questions SET asked_seal = :asked, ended_seal = :ended WHERE id = :id", id=id, **seals
    )


# -- what is shown -----------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [*COLUMNS, "verdict", "asked_seal"])
async def test_a_question_whose_row_was_changed_is_not_shown(
    place: Place, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with place.store() as store:
        await waiting(store)
        place.clock.advance(1)
        await waiting(store, "r2")
        value = COLUMNS.get(column, "approve")
        place.execute(f"UPDATE assentry_questions SET \"{column}\" = :value WHERE id = 'q_r1'", value=value)
        settled = column == "verdict"
        with caplog.at_level(logging.WARNING, "assentry"):
            page = await store.questions(settled=settled)
        assert [question.id for question in page.items] == ([] if settled else ["q_r2"])
        assert page.damaged == ["q_r1"]
        assert "'q_r1' is not what was written" in caplog.text
        with pytest.raises(UnreadableState, match=r"'q_r1' is not what was written.*`assentry db rebuild`"):
            await store.question("q_r1")
        with pytest.raises(UnreadableState, match="'q_r1' is not what was written"):
            await store.decide("q_r1", Approve(), by="ann", digest="digest of q_r1")
        assert (await store.read("r1")).record.seq == 4
        await store.rebuild()
        assert (await store.question("q_r1")).digest == "digest of q_r1"
        assert [question.id for question in (await store.questions()).items] == ["q_r1", "q_r2"]


async def test_pages_go_on_after_a_row_that_was_changed(place: Place) -> None:
    async with place.store() as store:
        for number in range(4):
            await waiting(store, f"r{number}")
            place.clock.advance(1)
        place.execute("UPDATE assentry_questions SET reason = 'other' WHERE id = 'q_r1'")
        place.execute("UPDATE assentry_questions SET at = -1 WHERE id = 'q_r2'")
        seen, damaged, after = [], [], None
        for _ in range(4):
            page = await store.questions(limit=1, after=after)
            seen += [question.id for question in page.items]
            damaged += page.damaged
            after = page.next
        assert after is None
        assert (seen, sorted(damaged)) == (["q_r0", "q_r3"], ["q_r1", "q_r2"])


async def test_text_that_is_damaged_below_what_text_is_hides_no_other_question(place: Place) -> None:
    if place.engine.dialect.name != "sqlite":
        pytest.skip("it holds only text in its encoding")
    async with place.store() as store:
        await waiting(store)
        await waiting(store, "r2")
        place.execute("UPDATE assentry_questions SET reason = CAST(x'ff' AS TEXT), at = 'x' WHERE id = 'q_r1'")
        page = await store.questions()
        assert ([question.id for question in page.items], page.damaged) == (["q_r2"], ["q_r1"])
        assert "at, reason" in " ".join(await store.verify("r1")) or "reason, at" in " ".join(await store.verify("r1"))


@pytest.mark.parametrize("value", ["'x'", "1000000000000000", "1.5"])
@pytest.mark.parametrize("column", ["assentry_blobs.body", "assentry_blobs.hash", "assentry_definitions.body"])
async def test_what_should_be_bytes_and_is_something_else_is_named(place: Place, column: str, value: str) -> None:
    if place.engine.dialect.name != "sqlite":
        pytest.skip("its columns hold only what they are for")
    async with place.store() as store:
        draft = RunDraft(place.clock, id="r1")
        draft.ask(*draft.propose(SEND), prompt=json({"long": "x" * 30_000}))
        await draft.write(store)
        assert await store.verify("r1") == []
        table, name = column.split(".")
        place.execute(f"UPDATE OR REPLACE {table} SET {name} = {value}")
        [said, *_] = await store.verify("r1")
        assert "lost" in said or "damaged" in said


@pytest.mark.parametrize(
    "change", ["lease_fence = -5", "lease_fence = 9223372036854775807", "until = 'x', worker = 'w'"]
)
async def test_a_run_whose_lease_was_damaged_is_not_driven_and_not_spoiled(place: Place, change: str) -> None:
    if "'x'" in change and place.engine.dialect.name != "sqlite":
        pytest.skip("its columns hold only what they are for")
    async with place.store() as store:
        await waiting(store)
        place.execute(f"UPDATE assentry_runs SET {change}")
        assert await store.verify("r1") == ["The lease in the record of run 'r1' is damaged."]
        with pytest.raises(UnreadableState, match="The lease in the record of run 'r1' is damaged"):
            await store.decide("q_r1", Approve(), by="ann", digest="digest of q_r1")
        with pytest.raises(UnreadableState, match="The lease in the record of run 'r1' is damaged"):
            await store.load("r1")


@pytest.mark.parametrize("column", COLUMNS)
async def test_nothing_is_decided_on_a_row_that_was_changed_and_sealed_anew(place: Place, column: str) -> None:
    async with place.store() as store:
        await waiting(store)
        place.execute(f'UPDATE assentry_questions SET "{column}" = :value', value=COLUMNS[column])
        reseal(place, "q_r1")
        shown = await store.question("q_r1")
        with pytest.raises(
            UnreadableState, match=f"question 'q_r1' is not what is asked: {column}.* Nothing was recorded"
        ):
            await store.decide("q_r1", Approve(), by="ann", digest=shown.digest)
        assert (await store.read("r1")).record.seq == 4
        assert any(column in sentence and "'q_r1'" in sentence for sentence in await store.verify("r1"))


async def test_a_question_that_was_moved_to_another_run_is_not_decided(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        await waiting(store, "r2")
        place.execute(
            "UPDATE assentry_questions SET run = (SELECT id FROM assentry_runs WHERE run = 'r2') WHERE id = 'q_r1'"
        )
        reseal(place, "q_r1")
        with pytest.raises(QuestionNotFound):
            await store.decide("q_r1", Approve(), by="ann", digest="digest of q_r1")
        assert "'q_r1'" in " ".join(await store.verify("r1"))
        assert "'q_r1'" in " ".join(await store.verify("r2"))


async def test_an_end_that_was_not_recorded_is_not_taken_for_one(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        place.execute("UPDATE assentry_questions SET verdict = 'reject', by = 'eve', decided = 1")
        reseal(place, "q_r1")
        with pytest.raises(UnreadableState, match="verdict"):
            await store.decide("q_r1", Approve(), by="ann", digest="digest of q_r1")


async def test_evidence_that_came_since_it_was_shown_is_no_damage(place: Place) -> None:
    async with place.store() as store:
        draft = await everything(store, place.clock)
        question = await store.question("q2_r1")
        assert len(question.evidence) == 1
        real = store.question

        async def question_of_a_moment_ago(id: str) -> Any:
            found = await real(id)
            found.evidence = ()
            return found

        store.question = question_of_a_moment_ago
        settled = await store.decide("q2_r1", Approve(), by="ann", digest=question.digest)
        del store.question
        assert settled == await store.question("q2_r1")
        assert draft.id == settled.run


async def test_an_edit_is_not_checked_against_a_tool_that_was_changed(place: Place) -> None:
    async with place.store() as store:
        [question] = await put_asking(store)
        marks = {"one": SEND.fingerprint, "other": SHRED.fingerprint}
        other = "(SELECT body FROM assentry_definitions WHERE fingerprint = :other)"
        place.execute(f"UPDATE assentry_definitions SET body = {other} WHERE fingerprint = :one", **marks)
        edit = {"type": "edit", "arguments": {"to": "bob"}}
        with pytest.raises(UnreadableState, match=r"definition of tool 'shred' that is kept as .* has changed"):
            await store.decide(question.id, edit, by="ann", digest=question.digest)
        assert (await store.question(question.id)).verdict is None
        for found in (await store.verify(question.run), await store.strays()):
            assert len(found) == 1 and "has changed" in found[0]


async def test_a_tool_that_was_deleted_is_named(place: Place) -> None:
    async with place.store() as store:
        [question] = await put_asking(store)
        place.execute("DELETE FROM assentry_definitions WHERE fingerprint = :one", one=SEND.fingerprint)
        [found] = await store.verify(question.run)
        assert "definition of a tool" in found and "is not there" in found


# -- users and tokens --------------------------------------------------------------------------------


async def accounts_in(store: Any) -> tuple[Accounts, str]:
    """Two users and a token, and the token's id."""
    accounts = accounts_of(store)
    await accounts.add_user("ann", "admin", "correct horse", ["ops"])
    await accounts.add_user("bob", "viewer", "correct horse")
    await accounts.sign_in("bob")
    return accounts, (await accounts.add_token("ann", "viewer")).split("_")[1]


ACCOUNTS = {
    "UPDATE assentry_users SET role = 'admin' WHERE name = 'bob'": "user 'bob'",
    "UPDATE assentry_users SET groups = '[\"ops\"]' WHERE name = 'bob'": "user 'bob'",
    "UPDATE assentry_users SET password = '$argon2id$x' WHERE name = 'ann'": "user 'ann'",
    "UPDATE assentry_users SET disabled_at = 1 WHERE name = 'ann'": "user 'ann'",
    "UPDATE assentry_users SET name = 'eve' WHERE name = 'ann'": "user 'eve'",
    "INSERT INTO assentry_users (name, role, stamp, made) VALUES ('eve', 'admin', 's', 1)": "user 'eve'",
    "DELETE FROM assentry_users WHERE name = 'bob'": "sign-in of 'bob'",
    "UPDATE assentry_tokens SET role = 'admin'": "token",
    "UPDATE assentry_tokens SET hash = 'x'": "token",
    "UPDATE assentry_tokens SET until = NULL, revoked_at = NULL, made = 1": "token",
    "INSERT INTO assentry_tokens (id, name, role, hash, made) VALUES ('t2', 'ann', 'admin', 'x', 1)": "token 't2'",
}


@pytest.mark.parametrize("change", ACCOUNTS)
async def test_a_user_or_a_token_that_was_changed_behind_the_stores_back_is_named(place: Place, change: str) -> None:
    async with place.store() as store:
        await accounts_in(store)
        assert await store.strays() == []
        place.execute(change)
        [found] = await store.strays()
        assert ACCOUNTS[change] in found


async def test_whatever_is_done_to_users_and_tokens_leaves_them_as_written(place: Place) -> None:
    async with place.store() as store:
        accounts, token = await accounts_in(store)
        await accounts.set_role("bob", "admin", ["ops", "sales"])
        await accounts.set_password("bob", "another horse")
        await accounts.disable_user("ann")
        await accounts.enable_user("ann")
        await accounts.use_link(await accounts.sign_in_link("ann"))
        assert await accounts.identity_of_token(await accounts.add_token("carol", "viewer", expires_in=60)) is not None
        await accounts.revoke_token(token)
        assert await store.strays() == []


async def test_a_user_who_was_changed_stays_named_until_the_role_is_set(place: Place) -> None:
    async with place.store() as store:
        accounts, token = await accounts_in(store)
        place.execute("UPDATE assentry_users SET role = 'admin' WHERE name = 'bob'")
        place.execute("UPDATE assentry_tokens SET role = 'admin'")
        await accounts.set_password("bob", "another horse")
        await accounts.disable_user("bob")
        await accounts.revoke_token(token)
        assert [sentence.split(",")[0] for sentence in await store.strays()] == [
            "The row of user 'bob'",
            f"The row of token {token!r}",
        ]
        await accounts.set_role("bob", "viewer")
        assert [sentence.split(",")[0] for sentence in await store.strays()] == [f"The row of token {token!r}"]


# -- verify ------------------------------------------------------------------------------------------


async def test_what_was_not_touched_is_as_written(place: Place) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        await over(store, place.clock, "r2")
        await over(store, place.clock, "r3")
        await store.erase("r3")
        place.clock.advance(1)
        lease = await store.take("r1", "w", seq=(await store.read("r1")).record.seq, hold=10)
        for run in ("r1", "r2", "r3"):
            assert await store.verify(run) == []
        await store.release(lease, again_in=None, error="It broke.")
        assert await store.verify("r1") == []
        assert await store.strays() == []
        await store.rebuild()
        for run in ("r1", "r2", "r3"):
            assert await store.verify(run) == []


async def test_a_run_in_memory_is_as_written() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await everything(store, clock)
    await over(store, clock, "r2")
    await over(store, clock, "r3")
    await store.erase("r3")
    for run in ("r1", "r2", "r3"):
        assert await store.verify(run) == []
    store._questions["q3_r1"].reason = "other"
    assert await store.verify("r1") == ["Question 'q3_r1' of run 'r1' differs from the journal: reason."]


RECORD = {
    "agent": "'Other'",
    "status": "'done'",
    "thread": "NULL",
    "began": "began + 1",
    "changed": "changed_at - 1",
    "waiting": "waiting + 1",
    "wake": "NULL",
    "caller": "'eve'",
}
GRANT = {
    "agent": "'Other'",
    "tool": "'other'",
    "verdict": "'reject'",
    "by": "'eve'",
    "at": "at + 1",
    "message": "'Fine.'",
    "server": "'s'",
    "definition": "'d'",
    "max_uses": "max_uses + 1",
    "used": "used + 1",
    "until": "5",
    "pins": "'{}'",
    "revoked": "NULL",
    "revoked_by": "'bob'",
}


@pytest.mark.parametrize("column", RECORD)
async def test_verify_names_what_was_changed_in_a_runs_record(place: Place, column: str) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        place.execute(f"UPDATE assentry_runs SET {runs.c[column].name} = {RECORD[column]}")
        assert await store.verify("r1") == [f"The record of run 'r1' differs from its journal: {column}."]


@pytest.mark.parametrize("column", GRANT)
async def test_verify_names_what_was_changed_in_a_grant(place: Place, column: str) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        place.execute(f'UPDATE assentry_grants SET "{column}" = {GRANT[column]}')
        [[id]] = place.execute("SELECT id FROM assentry_grants")
        assert await store.verify("r1") == [f"Grant {id!r} of run 'r1' differs from the journal: {column}."]


@pytest.mark.parametrize("column", [*COLUMNS, "verdict", "by", "decided"])
@pytest.mark.parametrize("sealed", [True, False])
async def test_verify_names_what_was_changed_in_a_question(place: Place, column: str, sealed: bool) -> None:
    changed = COLUMNS | {"verdict": "reject", "by": "eve", "decided": 1}
    async with place.store() as store:
        await everything(store, place.clock)
        place.execute(f"UPDATE assentry_questions SET \"{column}\" = :value WHERE id = 'q1_r1'", value=changed[column])
        if sealed:
            reseal(place, "q1_r1")
        named = [f"Question 'q1_r1' of run 'r1' differs from the journal: {column}."]
        assert [each for each in await store.verify("r1") if "definition of tool" not in each] == named


@pytest.mark.parametrize("table", ["questions", "grants"])
async def test_verify_names_records_that_are_missing_or_made_up(place: Place, table: str) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        [[id], *_] = place.execute(f"SELECT id FROM assentry_{table} ORDER BY id")
        place.execute(f"UPDATE assentry_{table} SET id = 'other' WHERE id = :id", id=id)
        found = " ".join(await store.verify("r1"))
        assert f"{id!r} of run 'r1' is in the journal, and has no record." in found
        assert "'other' of run 'r1' differs from the journal: it is in no fact." in found


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE assentry_contexts SET body = (SELECT head FROM assentry_runs)""",
        "UPDATE assentry_contexts SET kind = 'other'",
        "DELETE FROM assentry_contexts",
    ],
)
async def test_a_context_that_is_not_the_one_that_was_written_is_named(place: Place, statement: str) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        place.execute(statement)
        assert await store.verify("r1") == ["The context of run 'r1' is not what was written."]
        with pytest.raises(UnreadableState, match="The context of run 'r1'"):
            await store.load("r1")


async def test_a_context_that_was_put_in_its_place_is_read(place: Place) -> None:
    async with place.store() as store:
        script = await waiting(store, "r2")
        for context in (SavedContext(b"1", "int"), SavedContext(b"2", None), SavedContext(), SavedContext(None, "x")):
            await script.write(context=context)
            assert (await store.read("r2")).context == context
            assert await store.verify("r2") == []


async def test_verify_names_what_belongs_to_no_run(place: Place) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        place.execute("DELETE FROM assentry_runs")
        assert [each.split(" of run")[0] for each in await store.strays()] == [
            "There is a journal",
            "There is a context",
            "There are questions",
            "There are grants",
        ]
        await store.rebuild()
        assert await store.strays() == []


async def test_verify_names_webhooks_messages_and_agents_that_are_damaged(place: Place) -> None:
    async with place.store() as store:
        for name in ("h1", "h2"):
            await store.outbox.add(Webhook(id=name, url="https://h", secret="s", events=("question.asked",), made=1))
        await store.announce({"A": '{"fact":"began","agent":"A","max_turns":1}', "B": "{}"})
        await waiting(store)
        assert await store.strays() == [
            "The announcement of agent 'B' is damaged; a worker that drives the agent makes it anew."
        ]
        place.execute("UPDATE assentry_agents SET name = 'C' WHERE name = 'A'")
        place.execute("DELETE FROM assentry_webhooks WHERE id = 'h1'")
        place.execute("UPDATE assentry_webhooks SET events = 'x' WHERE id = 'h2'")
        place.execute("UPDATE assentry_outbox SET body = 'x' WHERE webhook = 'h2'")
        assert sorted(re.sub("'msg_.*'", "M", sentence) for sentence in await store.strays()) == [
            "Message M in the outbox is damaged, and is not sent.",
            "Message M in the outbox is for a webhook that is not there.",
            "The announcement of agent 'B' is damaged; a worker that drives the agent makes it anew.",
            "The announcement of agent 'C' is damaged; a worker that drives the agent makes it anew.",
            "Webhook 'h2' is damaged, and gets no messages.",
        ]
        assert await store.verify("r1") == []


@pytest.mark.parametrize("announced", ["{}", "x", '{"fact":"began","agent":"Root","max_turns":1}'])
async def test_no_run_is_started_of_an_agent_whose_announcement_is_damaged(place: Place, announced: str) -> None:
    async with place.store() as store:
        await store.announce({"A": announced})
        with pytest.raises(UnreadableState, match="The announcement of agent 'A' is damaged"):
            await store.start("A", "Go.", by="ann")
        assert (await store.runs()).items == []


async def test_a_started_run_has_of_its_announcement_only_what_every_run_of_the_agent_has(place: Place) -> None:
    more = {"run": "r9", "by": "eve", "thread": "t", "follows": "r8", "session": "s", "live": True, "path": ["c1"]}
    async with place.store() as store:
        whole = {"fact": "began", "agent": "A", "max_turns": 3, "guards": ["g"], "release": "batch", **more}
        await store.announce({"A": encode(whole).decode()})
        record = await store.start("A", "Go.", by="ann")
        began = (await store.read(record.id)).facts[0]
        assert began == f.Began("A", 3, record.id, "", "batch", ("g",), stored=True, by="ann", at=began.at)
        assert await store.verify(record.id) == []


# -- a tail that was cut -----------------------------------------------------------------------------


def cut(place: Place, last: int) -> None:
    """Remove the rows after this one, and set the run's record back to it, as somebody does who knows how."""
    [[hash]] = place.execute("SELECT prev_hash FROM assentry_journal WHERE seq = :seq", seq=last + 1)
    rows = place.execute("SELECT seq, at, prev_hash FROM assentry_journal WHERE seq <= :seq ORDER BY seq", seq=last + 1)
    tally = START
    for (seq, at, _), (_, _, own) in itertools.pairwise(rows):
        tally = tallied(tally, bytes(own), seq, at)
    [[head]] = place.execute("SELECT head FROM assentry_runs")
    place.execute("DELETE FROM assentry_journal WHERE seq > :seq", seq=last)
    packed = Head(bytes(hash), tally, bytes(head)[64:]).packed()
    place.execute(
        "UPDATE assentry_runs SET seq = :seq, head = :head, changed_at = :at", seq=last, head=packed, at=rows[-2][1]
    )


async def test_a_tail_that_was_cut_with_its_head_is_named_by_what_came_of_it(place: Place) -> None:
    async with place.store() as store:
        script = await waiting(store)
        await store.decide("q_r1", Reject("No."), by="ann", digest="digest of q_r1")
        assert (await store.read("r1")).record.seq == 5
        cut(place, 4)
        assert len((await store.read("r1")).facts) == 4
        found = " ".join(await store.verify("r1"))
        assert "Question 'q_r1' of run 'r1' differs from the journal: verdict, by, decided." in found
        assert "status" in found
        with pytest.raises(AssentryError):
            await store.decide("q_r1", Approve(), by="eve", digest="digest of q_r1")
        assert script.id == "r1"


# -- erased runs -------------------------------------------------------------------------------------

ERASED = {
    "who decided": "UPDATE assentry_journal SET fact = replace(fact, '\"bob\"', '\"eve\"')",
    "when it happened": "UPDATE assentry_journal SET at = at + 1 WHERE seq = 3",
    "when it was erased": "UPDATE assentry_runs SET erased = erased + 1",
    "that it was erased": "UPDATE assentry_runs SET erased = NULL",
    "how long it was": "DELETE FROM assentry_journal WHERE seq > 5; UPDATE assentry_runs SET seq = 5",
    "its status": "UPDATE assentry_runs SET status = 'done'",
    "its agent": "UPDATE assentry_runs SET agent = 'Other'",
    "its beginning": "UPDATE assentry_runs SET began = began - 1",
    "a verdict": "UPDATE assentry_questions SET verdict = 'approve' WHERE id = 'q3_r1'",
    "an approval": "UPDATE assentry_questions SET verdict = 'reject' WHERE id = 'q1_r1'",
    "who is said to have decided": "UPDATE assentry_questions SET by = 'eve' WHERE id = 'q3_r1'",
    "what was asked": "UPDATE assentry_questions SET reason = 'It is harmless.' WHERE id = 'q3_r1'",
    "a digest": "UPDATE assentry_questions SET digest = 'x' WHERE id = 'q3_r1'",
    "a question": "DELETE FROM assentry_questions WHERE id = 'q3_r1'",
    "a grant": "DELETE FROM assentry_grants",
    "uses": "UPDATE assentry_grants SET used = 7",
    "who took it back": "UPDATE assentry_grants SET revoked_by = 'ann'",
    "a context": "INSERT INTO assentry_contexts SELECT id, head, 'dict' FROM assentry_runs",
}


@pytest.mark.parametrize("what", ERASED)
async def test_verify_names_what_was_changed_in_an_erased_run(place: Place, what: str) -> None:
    async with place.store() as store:
        await over(store, place.clock)
        await store.erase("r1")
        assert await store.verify("r1") == []
        for statement in ERASED[what].split("; "):
            place.execute(statement)
        if "assentry_questions SET" in ERASED[what]:
            reseal(place, "q1_r1")
            reseal(place, "q3_r1")
        [sentence] = await store.verify("r1")
        assert "'r1'" in sentence


async def test_the_questions_of_an_erased_run_are_shown(place: Place) -> None:
    async with place.store() as store:
        await over(store, place.clock)
        place.execute("UPDATE assentry_questions SET tool = 'other' WHERE id = 'q1_r1'")
        await store.erase("r1")
        page = await store.questions(settled=True)
        assert {question.arguments for question in page.items} == {""}
        assert page.damaged == ["q1_r1"]


async def test_an_approval_whose_question_was_replaced_stays_one_in_an_erased_run(place: Place) -> None:
    async with place.store() as store:
        draft = RunDraft(place.clock, id="r1")
        [call] = draft.propose(SEND)
        first = draft.ask(call)
        await draft.write(store)
        await store.decide(first, Approve(), by="ann", digest=(await store.question(first)).digest)
        draft = await RunDraft.read(store, "r1")
        second = draft.ask(call, replaces=first)
        await draft.write(store)
        await store.decide(second, Reject("No."), by="bob", digest=(await store.question(second)).digest)
        draft = await RunDraft.read(store, "r1")
        await draft.add(f.Closed("It failed.", at=draft.now)).write(store)
        for _ in range(2):
            assert await store.verify("r1") == []
            assert ((await store.question(first)).verdict, (await store.question(first)).by) == ("approve", "ann")
            await store.erase("r1")


# -- older tables ------------------------------------------------------------------------------------


async def test_tables_of_the_first_version_are_brought_up_to_date(place: Place) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        await over(store, place.clock, "r2")
        await over(store, place.clock, "r3")
        await store.erase("r3")
        control = "".join(map(chr, range(1, 32))) + "\x7f\u2028\U0001f600"
        await waiting(store, "r4", why=control)
    before = place.tables()
    place.execute("UPDATE assentry_runs SET head = substr(head, 1, 32)")
    for index in ("questions_decided", "runs_rested", "runs_caller"):
        place.execute(f"DROP INDEX assentry_{index}")
    later = "asked_seal ended_seal reviewers redact started_by shown preview risk looked"
    for column in later.split():
        place.execute(f"ALTER TABLE assentry_questions DROP COLUMN {column}")
    for column in ("started_by", "caller"):
        place.execute(f"ALTER TABLE assentry_runs DROP COLUMN {column}")
    for new, old in (("changed_at", "changed"), ("lease_fence", "fence")):
        place.execute(f"ALTER TABLE assentry_runs RENAME COLUMN {new} TO {old}")
    added = ["users", "tokens", "signins", "webhooks", "outbox", "agents", "chapters"]
    for table in [*added, "stops", "standing_log", "standing_grants", "previews"]:
        place.execute(f"DROP TABLE assentry_{table}")
    place.set_version(1)
    for table in ("runs", "journal", "blobs", "contexts", "definitions", "questions", "grants"):
        place.execute(f"ALTER TABLE assentry_{table} RENAME TO assent_{table}")
    if place.engine.dialect.name == "postgresql":
        place.execute(f"DROP TABLE {EARLIER_VERSION_TABLE}")
        place.execute(f"ALTER TABLE {VERSION_TABLE} RENAME TO {EARLIER_VERSION_TABLE}")
    async with place.store() as store:
        await store.upgrade()
        for run in ("r1", "r2", "r3", "r4"):
            assert await store.verify(run) == []
        assert (await store.questions()).damaged == []
    assert place.tables() == before


# -- bytes -------------------------------------------------------------------------------------------


async def test_vacuum_leaves_the_runs_as_they_are(place: Place) -> None:
    async with place.store() as store:
        await everything(store, place.clock)
        before = place.tables()
        await store.vacuum()
        assert place.tables() == before
        assert await store.verify("r1") == []
        await waiting(store, "r2")


async def test_a_digest_that_was_changed_in_the_row_is_not_the_journals(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        with pytest.raises(DigestMismatch):
            await store.decide("q_r1", Approve(), by="ann", digest="0" * 64)
        assert (await store.question("q_r1")).verdict is None
