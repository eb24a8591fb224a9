"""Calls of programs outside, in every kind of store: asked about, started once, reported, and never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Approve, Edit, Reject, Respond, Runner
from assentry.approval.foreign_call import CallRequest
from assentry.approval.rule_file import RuleFile
from assentry.core import facts as f
from assentry.engines import Worker
from assentry.errors import (
    AgentStopped,
    AlreadyDecided,
    Conflict,
    DigestMismatch,
    Forbidden,
    InvalidArguments,
    InvalidInput,
    LeaseLost,
    NotPending,
    RunBusy,
    RunElsewhere,
    RunNotFound,
    TooManyAsks,
    UsageError,
)
from assentry.inbox.mask import masked, masked_journal
from assentry.store import (
    Change,
    MemoryStore,
    PostgresStore,
    Question,
    SQLiteStore,
    Store,
    call_report,
    call_watch,
    calls,
)
from assentry.store.audit import check_export, export_journals
from assentry.store.call_status import CallStatus
from assentry.store.call_tending import tend_calls
from assentry.store.call_watch import wait_for_call
from assentry.store.calls import ask_about_call, finish_call, look_at_call, renew_call, start_call
from assentry.testing import FakeClock, ScriptedModel
from tests.runtime.support import soon
from tests.store.place import Place
from tests.store.support import Script

BOT = "billing-bot"
SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "to": {"type": "string", "default": "ann"}},
    "required": ["amount"],
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").database()
        made: Store = PostgresStore(url, upgrade=True, clock=clock)
    else:
        made = SQLiteStore(tmp_path / "runs.db", clock=clock) if request.param == "sqlite" else MemoryStore(clock=clock)
    yield made
    asyncio.run(made.close())


def request_for(amount: Any = 10, **options: Any) -> CallRequest:
    given = {"source": BOT, "tool": "pay", "arguments": {"amount": amount}, "schema": SCHEMA}
    return CallRequest(**(given | options))


async def ask(store: Store, amount: Any = 10, *, rules: str = "", by: str = BOT, **options: Any) -> CallStatus:
    owner = options.pop("owner", None)
    given = RuleFile.parse(rules) if rules else None
    status, _ = await ask_about_call(store, request_for(amount, **options), by=by, rules=given, owner=owner)
    return status


async def question_of(store: Store, status: CallStatus) -> Question:
    assert status.question is not None
    return await store.question(status.question)


async def decide(store: Store, status: CallStatus, decision: Any, by: str = "ann") -> None:
    question = await question_of(store, await look_at_call(store, status.id, by=None))
    await store.decide(question.id, decision, by=by, digest=question.digest)


async def approved(store: Store, **options: Any) -> CallStatus:
    status = await ask(store, **options)
    await decide(store, status, Approve())
    return status


async def started(store: Store, holder: str = "h1", hold: float = 60.0, **options: Any) -> CallStatus:
    status = await approved(store, **options)
    return await start_call(store, status.id, by=BOT, holder=holder, hold=hold)


async def facts_of(store: Store, status: CallStatus, kind: type) -> list[Any]:
    return [fact for fact in (await store.read(status.id)).facts if type(fact) is kind]


async def is_sound(store: Store, status: CallStatus) -> None:
    """The run is what its journal says, and its export can be checked offline."""
    assert await store.verify(status.id) == []
    if not isinstance(store, MemoryStore):
        found = check_export([line async for line in export_journals(store)])
        assert (found.problems, found.others) == ([], [])


# -- the way of a call -------------------------------------------------------------------------------


async def test_a_call_is_asked_about_approved_started_and_finished(store: Store) -> None:
    status = await ask(store, says="The invoice is due.", session="s1")
    assert (status.state, status.source, status.tool, status.attempt) == ("waiting", BOT, "pay", 0)
    assert status.arguments == {"amount": 10, "to": "ann"}  # with the schema's default
    question = await question_of(store, status)
    assert (question.agent, question.tool, question.digest) == (BOT, "pay", status.digest)
    await decide(store, status, Approve("fine"))
    seen = await look_at_call(store, status.id, by=BOT)
    assert (seen.state, seen.verdict, seen.by, seen.note) == ("approved", "approve", "ann", "fine")
    begun = await start_call(store, status.id, by=BOT, holder="h1", arguments={"amount": 10, "to": "ann"})
    assert (begun.state, begun.attempt) == ("running", 1)
    done = await finish_call(store, status.id, by=BOT, holder="h1", output={"paid": 10})
    assert (done.state, done.output, done.error) == ("finished", {"paid": 10}, None)
    record = (await store.read(status.id)).record
    assert (record.status, record.caller, record.worker, record.wake, record.waiting) == ("done", BOT, None, None, 0)
    assert record.thread == f"outside/{BOT}/s1"
    await is_sound(store, status)


async def test_a_call_that_failed_says_so_and_is_over(store: Store) -> None:
    status = await started(store)
    done = await finish_call(store, status.id, by=BOT, holder="h1", error="Timeout: the bank did not answer")
    assert (done.state, done.error, done.output) == ("failed", "Timeout: the bank did not answer", None)
    with pytest.raises(NotPending, match="failed"):
        await start_call(store, status.id, by=BOT, holder="h2")
    await is_sound(store, status)


async def test_what_a_person_changed_is_what_may_run(store: Store) -> None:
    status = await ask(store)
    with pytest.raises(InvalidArguments):
        await decide(store, status, Edit({"amount": "ten"}))
    await decide(store, status, Edit({"amount": 5}))
    begun = await start_call(store, status.id, by=BOT, holder="h1")
    assert (begun.arguments, begun.edited, begun.verdict) == ({"amount": 5, "to": "ann"}, True, "edit")
    await is_sound(store, status)


@pytest.mark.parametrize(
    ("decision", "state", "told"),
    [(Reject("not today"), "rejected", "not today"), (Respond("paid in cash"), "answered", None)],
)
async def test_what_a_person_refused_or_answered_never_starts(
    store: Store, decision: Any, state: str, told: str | None
) -> None:
    status = await ask(store)
    await decide(store, status, decision)
    seen = await look_at_call(store, status.id, by=BOT)
    assert (seen.state, seen.by, seen.message) == (state, "ann", told)
    assert seen.output == ("paid in cash" if state == "answered" else None)
    with pytest.raises(NotPending, match=state):
        await start_call(store, status.id, by=BOT, holder="h1")
    assert (await store.read(status.id)).record.status == "done"
    assert await facts_of(store, status, f.Started) == []
    await is_sound(store, status)


async def test_a_call_that_waits_does_not_start(store: Store) -> None:
    status = await ask(store)
    with pytest.raises(NotPending, match="waits"):
        await start_call(store, status.id, by=BOT, holder="h1")
    assert await facts_of(store, status, f.Started) == []


async def test_silence_is_a_rejection_and_never_an_approval(store: Store, clock: FakeClock) -> None:
    status = await ask(store, deadline=60)
    question = await question_of(store, status)
    assert status.until == question.until == int(clock() * 1000) + 60_000
    clock.advance(61)
    seen = await look_at_call(store, status.id, by=BOT)
    assert (seen.state, seen.by) == ("rejected", "deadline")
    with pytest.raises(NotPending):
        await start_call(store, status.id, by=BOT, holder="h1")
    with pytest.raises(AlreadyDecided):
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    await is_sound(store, status)


async def test_whoever_looks_after_the_store_records_a_deadline_that_nobody_looks_at(
    store: Store, clock: FakeClock
) -> None:
    status = await ask(store, deadline=60)
    assert await tend_calls(store) == 0
    clock.advance(61)
    assert await tend_calls(store) == 1
    assert (await store.question(status.question or "")).verdict == "reject"
    assert await tend_calls(store) == 0


# -- once --------------------------------------------------------------------------------------------


async def test_of_many_programs_that_start_one_call_one_does(store: Store) -> None:
    status = await approved(store)

    async def start(number: int) -> str:
        try:
            await start_call(store, status.id, by=BOT, holder=f"h{number}")
        except RunBusy:
            return "busy"
        return "started"

    assert sorted(await asyncio.gather(*map(start, range(8)))) == ["busy"] * 7 + ["started"]
    assert len(await facts_of(store, status, f.Started)) == 1


async def test_a_start_whose_response_was_lost_can_be_sent_again(store: Store) -> None:
    status = await started(store)
    again = await start_call(store, status.id, by=BOT, holder="h1", arguments={"amount": 10, "to": "ann"})
    assert (again.state, again.attempt) == ("running", 1)
    assert len(await facts_of(store, status, f.Started)) == 1


async def test_a_report_whose_response_was_lost_can_be_sent_again(store: Store) -> None:
    status = await started(store)
    for _ in range(2):
        done = await finish_call(store, status.id, by=BOT, holder="h1", output="ok")
        assert done.state == "finished"
    with pytest.raises(LeaseLost):
        await finish_call(store, status.id, by=BOT, holder="h1", output="something else")
    assert len(await facts_of(store, status, f.Finished)) == 1
    assert (await look_at_call(store, status.id, by=BOT)).output == "ok"


async def test_a_replayed_approval_starts_nothing_a_second_time(store: Store) -> None:
    status = await started(store)
    await finish_call(store, status.id, by=BOT, holder="h1", output="ok")
    question = await question_of(store, status)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)  # the same again is no error
    for holder in ("h1", "h2"):
        with pytest.raises(NotPending, match="finished"):
            await start_call(store, status.id, by=BOT, holder=holder)
    assert len(await facts_of(store, status, f.Started)) == 1


async def test_an_outcome_without_a_start_is_refused(store: Store) -> None:
    for status in (await ask(store), await approved(store)):
        with pytest.raises(Conflict, match="report the start first"):
            await finish_call(store, status.id, by=BOT, holder="h1", output="ok")
        assert await facts_of(store, status, f.Finished) == []


async def test_nobody_reports_for_another_holder(store: Store) -> None:
    status = await started(store)
    with pytest.raises(LeaseLost):
        await finish_call(store, status.id, by=BOT, holder="h2", output="stolen")
    with pytest.raises(LeaseLost):
        await renew_call(store, status.id, by=BOT, holder="h2")
    assert (await look_at_call(store, status.id, by=BOT)).state == "running"
    assert (await finish_call(store, status.id, by=BOT, holder="h1", output="ok")).output == "ok"


# -- keys --------------------------------------------------------------------------------------------


async def test_two_programs_with_one_key_have_one_ask(store: Store) -> None:
    made = await asyncio.gather(
        *(ask_about_call(store, request_for(key="invoice 7"), by=BOT) for _ in range(6)),
    )
    assert len({status.id for status, _ in made}) == 1
    assert sum(new for _, new in made) == 1
    assert len((await store.questions()).items) == 1


@pytest.mark.parametrize(
    "other", [{"amount": 11}, {"tool": "refund"}, {"definition": "v2"}, {"schema": None}, {"server": "bank"}]
)
async def test_a_key_is_for_one_call(store: Store, other: dict[str, Any]) -> None:
    await ask(store, key="k")
    with pytest.raises(Conflict, match="Choose a new key"):
        await ask(store, key="k", **other)
    assert len((await store.runs()).items) == 1


async def test_a_key_is_the_callers_own(store: Store) -> None:
    made = [await ask(store, key="k", by=by) for by in (BOT, "other-bot")]
    assert made[0].id != made[1].id
    assert made[0].source == made[1].source == BOT


async def test_a_key_finds_what_became_of_the_call(store: Store) -> None:
    status = await started(store, key="k")
    await finish_call(store, status.id, by=BOT, holder="h1", output="ok")
    again, new = await ask_about_call(store, request_for(key="k"), by=BOT)
    assert (again.id, again.state, again.output, new) == (status.id, "finished", "ok", False)


async def test_the_key_of_an_erased_call_is_spent(store: Store) -> None:
    status = await started(store, key="k")
    await finish_call(store, status.id, by=BOT, holder="h1", output="ok")
    await store.erase(status.id)
    with pytest.raises(Conflict):
        await ask(store, key="k")
    with pytest.raises(RunNotFound):
        await look_at_call(store, status.id, by=BOT)
    assert await store.verify(status.id) == []


async def test_a_program_knows_nothing_of_another_ones_calls(store: Store) -> None:
    status = await started(store)
    for work in (
        look_at_call(store, status.id, by="other-bot"),
        start_call(store, status.id, by="other-bot", holder="h1"),
        renew_call(store, status.id, by="other-bot", holder="h1"),
        finish_call(store, status.id, by="other-bot", holder="h1"),
    ):
        with pytest.raises(RunNotFound):
            await work
    assert (await look_at_call(store, status.id, by=BOT)).state == "running"


async def test_names_of_programs_cannot_be_made_to_meet(store: Store) -> None:
    pairs = [("a:b", "c"), ("a", "b:c"), ("a:b:c", "a:b:c"), ("a", "b"), ("a:b", "a:b"), ("a%3Ab", "c"), ("x", "x")]
    made = [await ask(store, by=by, source=source) for by, source in pairs]
    agents = {(await question_of(store, each)).agent for each in made}
    assert len(agents) == len(pairs)
    assert [each.source for each in made] == [source for _, source in pairs]


# -- doubt -------------------------------------------------------------------------------------------


async def in_doubt(store: Store, clock: FakeClock, **options: Any) -> CallStatus:
    status = await started(store, hold=30, **options)
    clock.advance(31)
    return await look_at_call(store, status.id, by=BOT)


async def test_a_call_that_was_started_and_is_reported_no_more_is_in_doubt(store: Store, clock: FakeClock) -> None:
    status = await started(store, hold=30)
    clock.advance(20)
    assert (await renew_call(store, status.id, by=BOT, holder="h1", hold=30)).state == "running"
    clock.advance(20)
    assert await tend_calls(store) == 0  # it renewed
    clock.advance(20)
    assert await tend_calls(store) == 1
    seen = await look_at_call(store, status.id, by=BOT)
    assert (seen.state, seen.attempt) == ("doubt", 1)
    for holder in ("h1", "h2"):
        with pytest.raises(Conflict, match="nobody knows how it ended"):
            await start_call(store, status.id, by=BOT, holder=holder)
    with pytest.raises(LeaseLost):
        await renew_call(store, status.id, by=BOT, holder="h1")
    await is_sound(store, status)


async def test_a_person_in_doubt_says_what_happened(store: Store, clock: FakeClock) -> None:
    status = await in_doubt(store, clock)
    await decide(store, status, Respond("paid, I saw it"))
    seen = await look_at_call(store, status.id, by=BOT)
    assert (seen.state, seen.output, seen.attempt) == ("answered", "paid, I saw it", 1)
    await is_sound(store, status)


async def test_a_person_in_doubt_lets_it_run_again_once(store: Store, clock: FakeClock) -> None:
    status = await in_doubt(store, clock)
    await decide(store, status, Approve("it did not happen"), by="bob")
    seen = await look_at_call(store, status.id, by=BOT)
    assert (seen.state, seen.by, seen.note, seen.attempt) == ("approved", "bob", "it did not happen", 1)
    again = await start_call(store, status.id, by=BOT, holder="h2", arguments={"amount": 10, "to": "ann"})
    assert (again.state, again.attempt) == ("running", 2)
    with pytest.raises(RunBusy):
        await start_call(store, status.id, by=BOT, holder="h3")
    with pytest.raises(LeaseLost):  # the first one lives, and is too late
        await finish_call(store, status.id, by=BOT, holder="h1", output="paid after all")
    assert (await finish_call(store, status.id, by=BOT, holder="h2", output="ok")).output == "ok"
    assert [bytes(fact.output) for fact in await facts_of(store, status, f.Witnessed)] == [b'"paid after all"']
    await is_sound(store, status)


async def test_a_person_in_doubt_gives_it_up_and_the_program_hears_that_it_may_have_run(
    store: Store, clock: FakeClock
) -> None:
    status = await in_doubt(store, clock)
    await decide(store, status, Reject("leave it"))
    seen = await look_at_call(store, status.id, by=BOT)
    assert (seen.state, seen.attempt) == ("rejected", 1)
    with pytest.raises(NotPending):
        await start_call(store, status.id, by=BOT, holder="h2")


async def test_a_report_that_comes_too_late_is_evidence_for_the_person(store: Store, clock: FakeClock) -> None:
    status = await in_doubt(store, clock)
    for _ in range(2):
        with pytest.raises(LeaseLost, match="evidence"):
            await finish_call(store, status.id, by=BOT, holder="h1", output="paid 10")
    question = await question_of(store, await look_at_call(store, status.id, by=BOT))
    assert [each.output for each in question.evidence] == ["paid 10"]
    assert (await look_at_call(store, status.id, by=BOT)).state == "doubt"
    await is_sound(store, status)


async def test_late_reports_do_not_fill_the_journal(store: Store, clock: FakeClock) -> None:
    status = await in_doubt(store, clock)
    for number in range(call_report.MOST_REPORTS + 5):
        with pytest.raises(LeaseLost):
            await finish_call(store, status.id, by=BOT, holder="h1", output=number)
    assert len(await facts_of(store, status, f.Witnessed)) == call_report.MOST_REPORTS


async def test_a_call_that_a_rule_let_pass_comes_into_doubt_with_everything_a_person_needs(
    store: Store, clock: FakeClock
) -> None:
    rules = '[[rule]]\nname = "all"\nverdict = "allow"'
    status = await ask(store, rules=rules, redact=("to",), arguments={"amount": 1, "to": "IBAN-4711"})
    assert (status.state, status.by) == ("approved", "rule:all")
    await start_call(store, status.id, by=BOT, holder="h1", hold=10)
    clock.advance(11)
    await tend_calls(store)
    question = await question_of(store, await look_at_call(store, status.id, by=BOT))
    assert (question.kind, question.redact) == ("doubt", ("to",))
    assert "IBAN-4711" not in str(masked(question))
    await is_sound(store, status)


# -- other arguments, secrets ------------------------------------------------------------------------


async def test_a_report_for_other_arguments_is_refused_and_shown(store: Store) -> None:
    status = await approved(store)
    for _ in range(3):
        with pytest.raises(DigestMismatch):
            await start_call(store, status.id, by=BOT, holder="h1", arguments={"amount": 1000, "to": "ann"})
    assert await facts_of(store, status, f.Started) == []
    said = [fact for fact in await facts_of(store, status, f.Said) if fact.by == "outside"]
    assert len(said) == 1  # the same is said once
    assert b"1000" in bytes(said[0].items)
    begun = await start_call(store, status.id, by=BOT, holder="h1", arguments={"amount": 10, "to": "ann"})
    assert begun.state == "running"
    await is_sound(store, status)


async def test_refused_reports_do_not_fill_the_journal(store: Store) -> None:
    status = await approved(store)
    for number in range(100, 100 + call_report.MOST_REPORTS + 5):
        with pytest.raises(DigestMismatch):
            await start_call(store, status.id, by=BOT, holder="h1", arguments={"amount": number})
    said = [fact for fact in await facts_of(store, status, f.Said) if fact.by == "outside"]
    assert len(said) == call_report.MOST_REPORTS


async def test_a_refused_report_does_not_tell_secrets(store: Store) -> None:
    status = await approved(store, redact=("to",), arguments={"amount": 1, "to": "hunter2-secret"})
    with pytest.raises(DigestMismatch):
        await start_call(store, status.id, by=BOT, holder="h1", arguments={"amount": 1, "to": "other-secret"})
    lines, questions = await store.lines(status.id), (await store.questions(settled=True)).items
    shown = str(masked_journal(lines, questions))
    assert "hunter2-secret" not in shown
    assert "other-secret" not in shown
    assert "A report was refused" in shown


async def test_the_journal_of_a_call_nobody_was_asked_about_masks_its_secrets(store: Store) -> None:
    rules = '[[rule]]\nname = "all"\nverdict = "allow"'
    status = await ask(store, rules=rules, redact=("to",), arguments={"amount": 1, "to": "hunter2-secret"})
    shown = str(masked_journal(await store.lines(status.id), []))
    assert "hunter2-secret" not in shown


# -- who decides -------------------------------------------------------------------------------------


async def test_the_one_who_asks_never_decides(store: Store) -> None:
    status = await ask(store)
    with pytest.raises(Forbidden):
        await decide(store, status, Approve(), by=BOT)
    owned = await ask(store, by="ann", owner="ann")
    with pytest.raises(Forbidden):
        await decide(store, owned, Approve(), by=f"ann:{BOT}")
    await decide(store, owned, Approve(), by="ann")  # the token's owner is another


async def test_a_rule_keeps_the_owner_of_the_token_from_deciding(store: Store) -> None:
    rules = '[[rule]]\nname = "four eyes"\nverdict = "ask"\nowner = false\nreviewers = ["ann", "group:bank"]'
    status = await ask(store, by="ann", owner="ann", rules=rules)
    with pytest.raises(Forbidden):
        await decide(store, status, Approve(), by="ann")
    with pytest.raises(Forbidden):
        await decide(store, status, Approve(), by="carl")
    question = await question_of(store, status)
    assert (question.reviewers, question.reason) == (("ann", "group:bank"), "The rule 'four eyes' asks a person.")


async def test_a_rule_of_the_server_names_the_reviewers_whatever_the_program_says(store: Store) -> None:
    rules = '[[rule]]\nname = "bank"\nverdict = "ask"\nreviewers = ["bob"]\nrisk = "high"\ndeadline = 5'
    status = await ask(store, rules=rules, reviewers=("eve",), risk="low", deadline=1e6)
    question = await question_of(store, status)
    assert (question.reviewers, question.risk) == (("bob",), "high")
    assert question.until == question.at + 5000


# -- rules and grants --------------------------------------------------------------------------------


async def test_a_rule_that_denies_refuses_at_once(store: Store) -> None:
    rules = '[[rule]]\nname = "no"\nverdict = "deny"\nreason = "Never pay."'
    status = await ask(store, rules=rules)
    assert (status.state, status.by, status.message) == ("rejected", "rule:no", "Never pay.")
    assert (await store.read(status.id)).record.status == "done"
    with pytest.raises(NotPending):
        await start_call(store, status.id, by=BOT, holder="h1")
    await is_sound(store, status)


async def test_an_allowed_call_is_started_with_its_arguments_and_no_others(store: Store) -> None:
    status = await ask(store, rules='[[rule]]\nname = "all"\nverdict = "allow"')
    with pytest.raises(DigestMismatch):
        await start_call(store, status.id, by=BOT, holder="h1", arguments={"amount": 11, "to": "ann"})
    assert (await start_call(store, status.id, by=BOT, holder="h1")).arguments == {"amount": 10, "to": "ann"}
    await is_sound(store, status)


async def granted(store: Store, **terms: Any) -> str:
    """A standing grant from a first question, which is rejected itself."""
    first = await ask(store)
    grant = await store.give_standing_grant(first.question or "", by="ann", terms=terms or None)
    await decide(store, first, Reject())
    return grant.id


async def test_a_standing_grant_decides_later_calls_and_counts_them(store: Store) -> None:
    id = await granted(store, max_uses=2, where={"amount": {"at_most": 50}})
    made = [await ask(store, amount) for amount in (10, 500, 20, 30)]
    assert [each.state for each in made] == ["approved", "waiting", "approved", "waiting"]
    assert made[0].by == f"grant:{id}"
    (fact,) = await facts_of(store, made[0], f.Approved)
    assert b"max_uses" in bytes(fact.terms)
    assert (await store.standing_grants()).items[0].used == 2
    assert await store.verify_standing() == []
    for each in made:
        await is_sound(store, each)


async def test_calls_at_once_have_no_more_uses_than_a_grant_has(store: Store) -> None:
    await granted(store, max_uses=3)
    made = await asyncio.gather(*(ask(store, number) for number in range(8)))
    assert sorted(each.state for each in made) == ["approved"] * 3 + ["waiting"] * 5


async def test_a_call_is_judged_again_if_its_grant_ended_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await granted(store, max_uses=1)
    append, ended = store.append, []

    async def late(change: Change) -> None:
        if change.standing and not ended:
            ended.append(await store.revoke_standing_grant(next(iter(change.standing)), by="ann"))
        await append(change)

    monkeypatch.setattr(store, "append", late)
    assert (await ask(store)).state == "waiting"
    assert ended


async def test_a_grant_is_for_the_program_that_it_was_given_to_and_for_its_tool_as_it_was(store: Store) -> None:
    await granted(store)
    assert (await ask(store)).state == "approved"
    for other in (
        {"by": "eve", "source": BOT},
        {"source": "other"},
        {"definition": "v2"},
        {"server": "bank"},
        {"schema": None},
    ):
        assert (await ask(store, **other)).state == "waiting"


async def test_a_grant_of_the_tokens_owner_counts_unless_a_rule_forbids(store: Store) -> None:
    first = await ask(store, by="ann", owner="ann")
    await store.give_standing_grant(first.question or "", by="ann")
    assert (await ask(store, by="ann", owner="ann")).state == "approved"
    rules = '[[rule]]\nname = "four eyes"\nverdict = "ask"\nowner = false'
    assert (await ask(store, by="ann", owner="ann", rules=rules)).state == "waiting"


async def test_a_standing_rejection_beats_a_rule_that_allows(store: Store) -> None:
    first = await ask(store)
    await store.give_standing_grant(first.question or "", by="ann", verdict="reject", message="Never.")
    status = await ask(store, rules='[[rule]]\nname = "all"\nverdict = "allow"')
    assert (status.state, status.message) == ("rejected", "Never.")


async def test_no_rule_and_no_grant_answers_a_question_to_a_person(store: Store) -> None:
    await granted(store)
    options: dict[str, Any] = {"allowed": ("respond", "reject"), "answer_schema": {"type": "string"}}
    status = await ask(store, rules='[[rule]]\nname = "all"\nverdict = "allow"', **options)
    assert status.state == "waiting"
    await decide(store, status, Respond("blue"))
    assert (await look_at_call(store, status.id, by=BOT)).output == "blue"


# -- stops, cancels ----------------------------------------------------------------------------------


async def test_a_stop_keeps_a_program_from_asking_and_from_starting(store: Store) -> None:
    status = await approved(store, key="k")
    stop = await store.stop(BOT, by="ann", why="It repeats itself.")
    with pytest.raises(AgentStopped, match="It repeats itself"):
        await ask(store)
    with pytest.raises(AgentStopped):
        await start_call(store, status.id, by=BOT, holder="h1")
    assert (await ask(store, key="k")).state == "approved"  # what was asked before can be looked at
    assert await facts_of(store, status, f.Started) == []
    await store.lift(stop.id, by="ann")
    assert (await start_call(store, status.id, by=BOT, holder="h1")).state == "running"


async def test_a_cancelled_run_starts_nothing_and_says_so(store: Store) -> None:
    for status in (await ask(store), await approved(store)):
        await store.cancel(status.id, by="ann")
        assert (await look_at_call(store, status.id, by=BOT)).state == "cancelled"
        with pytest.raises(NotPending, match="cancelled"):
            await start_call(store, status.id, by=BOT, holder="h1")
        await is_sound(store, status)
        await store.resume(status.id, by="ann")
    assert (await start_call(store, status.id, by=BOT, holder="h1")).state == "running"


async def test_a_call_under_way_in_a_cancelled_run_can_be_reported(store: Store, clock: FakeClock) -> None:
    status = await started(store)
    await store.cancel(status.id, by="ann")
    assert (await renew_call(store, status.id, by=BOT, holder="h1")).state == "running"
    assert (await finish_call(store, status.id, by=BOT, holder="h1", output="ok")).state == "finished"
    await is_sound(store, status)


async def test_a_call_in_doubt_is_in_doubt_in_a_cancelled_run_too(store: Store, clock: FakeClock) -> None:
    status = await in_doubt(store, clock)
    await store.cancel(status.id, by="ann")
    assert (await look_at_call(store, status.id, by=BOT)).state == "doubt"


async def test_a_lapsed_call_of_a_cancelled_run_is_asked_about_once_the_run_is_resumed(
    store: Store, clock: FakeClock
) -> None:
    status = await started(store, hold=10)
    await store.cancel(status.id, by="ann")
    clock.advance(11)
    assert await tend_calls(store) == 0
    await store.resume(status.id, by="ann")
    assert await tend_calls(store) == 1
    assert (await look_at_call(store, status.id, by=BOT)).state == "doubt"


# -- workers and runners -----------------------------------------------------------------------------


def agent() -> Agent[Any]:
    return Agent(BOT, model=ScriptedModel(["hello"]))


async def test_a_worker_leaves_such_runs_alone_and_drives_its_own(store: Store, clock: FakeClock) -> None:
    status = await started(store, hold=10)
    clock.advance(11)  # it is due now
    own = Agent(BOT, model=ScriptedModel(["hello"]))
    worker = Worker(store, [own])
    await store.announce({})
    await soon(worker.run_until_idle())
    assert len(await facts_of(store, status, f.Asked)) == 1  # no worker has asked about the doubt
    assert await store.claim("w1", agents=None, hold=10, limit=10) == []
    assert await tend_calls(store) == 1


async def test_nobody_runs_anything_of_such_a_run(store: Store) -> None:
    for status in (await ask(store), await approved(store), await started(store)):
        stored = await store.load(status.id)
        with pytest.raises(RunElsewhere, match=BOT):
            await Runner.run(agent(), stored, store=store)
        assert (await store.read(status.id)).facts == stored.facts


async def test_the_journals_facts_are_those_of_any_run(store: Store) -> None:
    status = await started(store)
    await finish_call(store, status.id, by=BOT, holder="h1", output="ok")
    kinds = [type(fact).__name__ for fact in (await store.read(status.id)).facts]
    assert kinds == ["Began", "Said", "Defined", "Replied", "Asked", "Approved", "Started", "Finished"]


async def test_ended_calls_are_purged_and_those_that_wait_stay(store: Store, clock: FakeClock) -> None:
    done, waits = await started(store), await ask(store)
    await finish_call(store, done.id, by=BOT, holder="h1", output="ok")
    clock.advance(100)
    assert await store.purge(unchanged_for=50) == 1
    assert (await look_at_call(store, waits.id, by=BOT)).state == "waiting"
    with pytest.raises(RunNotFound):
        await look_at_call(store, done.id, by=BOT)


async def test_records_can_be_made_anew(store: Store) -> None:
    statuses = [await ask(store), await approved(store), await started(store)]
    await store.rebuild()
    for status in statuses:
        await is_sound(store, status)
        assert (await store.read(status.id)).record.caller == BOT


async def test_runs_from_before_schema_version_10_are_claimed_as_before(place: Place) -> None:
    async with place.store() as store:
        await Script(store).begin()
    place.execute("DROP INDEX assentry_runs_caller")
    place.execute("ALTER TABLE assentry_runs DROP COLUMN caller")
    place.set_version(9)
    async with place.store() as store:
        await store.upgrade()
        status = await ask(store, deadline=1)
        place.clock.advance(2)
        assert (await store.read("r1")).record.caller is None
        assert await store.verify("r1") == []
        assert [lease.run for lease in await store.claim("w", agents=None, hold=1, limit=5)] == ["r1"]
        assert await tend_calls(store) == 1
        assert (await look_at_call(store, status.id, by=BOT)).by == "deadline"


# -- floods and bad input ----------------------------------------------------------------------------


async def test_a_program_with_very_many_open_questions_must_wait(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_OPEN", 3)
    made = [await ask(store, source=f"name {number}") for number in range(3)]  # another name helps nothing
    with pytest.raises(TooManyAsks, match="3 open questions"):
        await ask(store)
    assert (await ask(store, by="other-bot")).state == "waiting"
    await decide(store, made[0], Approve())
    clock.advance(1)
    assert (await ask(store)).state == "waiting"
    with pytest.raises(TooManyAsks):
        await ask(store)


async def test_calls_that_nobody_is_asked_about_do_not_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_OPEN", 3)
    for _ in range(8):
        assert (await ask(store, rules='[[rule]]\nname = "all"\nverdict = "allow"')).state == "approved"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source": ""}, "source"),
        ({"source": "x" * 201}, "source"),
        ({"tool": " "}, "tool"),
        ({"key": ""}, "key"),
        ({"key": "\ud800"}, "key"),
        ({"session": "s" * 201}, "session"),
        ({"source": "a\0b"}, "source"),
        ({"key": "a\0b"}, "key"),
        ({"arguments": 5}, "arguments"),
        ({"arguments": {"amount": float("nan")}}, "arguments"),
        ({"arguments": {"amount": "\ud800"}}, "arguments"),
        ({"schema": []}, "schema"),
        ({"schema": {"type": "nonsense"}}, "schema"),
        ({"schema": {"properties": {"a": {"pattern": "("}}}}, "schema"),
        ({"answer_schema": {"type": "nonsense"}}, "schema"),
        ({"answer_schema": "text"}, "answer_schema"),
        ({"answer_schema": {"pattern": "^(?!x)"}}, "answer_schema"),
        ({"answer_schema": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}}, "answer_schema"),
        ({"preview": 5}, "preview"),
        ({"preview": "two\nlines"}, "preview"),
        ({"says": 5}, "says"),
        ({"says": "x" * 70_000}, "says"),
        ({"reviewers": "ann"}, "reviewers"),
        ({"reviewers": tuple(map(str, range(101)))}, "reviewers"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": float("inf")}, "deadline"),
        ({"redact": ("nothing",)}, "redact"),
        ({"risk": "huge"}, "risk"),
        ({"allowed": ()}, "allowed"),
        ({"allowed": ("approve",)}, "reject"),
        ({"allowed": ("reject", "reject")}, "allowed"),
        ({"allowed": ("reject", {})}, "allowed"),
        ({"description": 5}, "description"),
    ],
)
async def test_a_bad_request_is_named_and_nothing_is_recorded(options: dict[str, Any], words: str) -> None:
    store = MemoryStore()
    schema = {**SCHEMA, "additionalProperties": False}
    with pytest.raises((InvalidInput, UsageError), match=words):
        await ask(store, **({"schema": schema} | options))
    assert (await store.runs()).items == []


@pytest.mark.parametrize("arguments", ["{", '{"amount": 1, "amount": 2}', '{"amount": "x"}', "[1]", '{"amount": NaN}'])
async def test_arguments_that_cannot_run_are_a_persons_to_mend_and_never_start_as_they_are(arguments: str) -> None:
    store = MemoryStore()
    status = await ask(
        store, arguments=arguments, rules='[[rule]]\nname = "small"\nverdict = "allow"\nwhere.amount.at_most = 5'
    )
    question = await question_of(store, status)
    assert "approve" not in question.allowed
    assert "This call cannot run as it is" in (status.reason or "")
    await decide(store, status, Edit({"amount": 3}))
    assert (await start_call(store, status.id, by=BOT, holder="h1")).arguments == {"amount": 3, "to": "ann"}


@pytest.mark.parametrize("holder", ["", "x" * 201, "\ud800", "a\0b", None, 5])
async def test_a_holder_is_text_that_can_be_known_again(holder: Any) -> None:
    store = MemoryStore()
    status = await approved(store)
    for work in (start_call, renew_call, finish_call):
        with pytest.raises(UsageError, match="holder"):
            await work(store, status.id, by=BOT, holder=holder)  # type: ignore[operator]


@pytest.mark.parametrize("hold", [0, -1, float("nan"), float("inf"), 1e9, True, "60"])
async def test_a_hold_is_a_number_of_seconds(hold: Any) -> None:
    store = MemoryStore()
    status = await approved(store)
    with pytest.raises(UsageError, match="hold"):
        await start_call(store, status.id, by=BOT, holder="h1", hold=hold)


async def test_a_report_has_an_output_or_an_error(store: Store) -> None:
    status = await started(store)
    with pytest.raises(InvalidInput, match="both"):
        await finish_call(store, status.id, by=BOT, holder="h1", output="paid", error="The bank said no.")
    assert (await look_at_call(store, status.id, by=BOT)).state == "running"


async def test_a_report_that_is_no_json_is_refused(store: Store) -> None:
    status = await started(store)
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for output in (float("nan"), {1, 2}, object(), "\ud800", deep):
        with pytest.raises(InvalidInput, match="not JSON"):
            await finish_call(store, status.id, by=BOT, holder="h1", output=output)
    with pytest.raises(InvalidInput):
        await finish_call(store, status.id, by=BOT, holder="h1", error="\ud800")
    assert (await finish_call(store, status.id, by=BOT, holder="h1", output=None)).state == "finished"


async def test_runs_that_are_no_calls_of_programs_outside_are_not_there(store: Store) -> None:
    result = await Runner.run(agent(), "hello", store=store)
    run = result.to_state().id if hasattr(result.to_state(), "id") else (await store.runs()).items[0].id
    with pytest.raises(RunNotFound):
        await look_at_call(store, run, by=BOT)
    with pytest.raises(RunNotFound):
        await start_call(store, run, by=BOT, holder="h1")
    with pytest.raises(RunNotFound):
        await look_at_call(store, "run_" + "0" * 32, by=None)


# -- waiting -----------------------------------------------------------------------------------------


async def test_whoever_waits_hears_of_the_decision(store: Store) -> None:
    status = await ask(store)
    waits = asyncio.create_task(wait_for_call(store, status.id, None, lambda: look_at_call(store, status.id, by=BOT)))
    await asyncio.sleep(0)
    await decide(store, status, Approve())
    assert (await soon(waits)).state == "approved"


async def test_whoever_waits_hears_that_the_run_was_cancelled(store: Store) -> None:
    status = await ask(store)
    waits = asyncio.create_task(wait_for_call(store, status.id, None, lambda: look_at_call(store, status.id, by=BOT)))
    await asyncio.sleep(0)
    await store.cancel(status.id, by="ann")
    assert (await soon(waits)).state == "cancelled"


async def test_whoever_does_not_want_to_wait_does_not(store: Store) -> None:
    status = await ask(store)
    for timeout in (0, 0.001):
        seen = await soon(wait_for_call(store, status.id, timeout, lambda: look_at_call(store, status.id, by=BOT)))
        assert seen.state == "waiting"


@pytest.mark.parametrize("turns", range(6))
async def test_the_end_of_a_wait_is_not_lost_to_news_that_come_with_it(clock: FakeClock, turns: int) -> None:
    store = MemoryStore(clock=clock)
    status = await ask(store)
    looked, again = asyncio.Event(), asyncio.Event()

    async def look() -> CallStatus:
        (again if looked.is_set() else looked).set()
        return status

    waits = asyncio.create_task(wait_for_call(store, status.id, None, look))
    await again.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    [waiter] = call_watch._watch_of(store).members
    waiter.news.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    waits.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert waits.cancelled()


async def test_many_wait_at_once_and_each_hears_of_its_own(store: Store) -> None:
    made = [await ask(store, number) for number in range(20)]
    waits = [
        asyncio.create_task(wait_for_call(store, each.id, None, lambda id=each.id: look_at_call(store, id, by=BOT)))
        for each in made
    ]
    await asyncio.sleep(0)
    for number, each in enumerate(made):
        await decide(store, each, Approve() if number % 2 else Reject())
    seen = await soon(asyncio.gather(*waits))
    assert [each.state for each in seen] == ["rejected", "approved"] * 10
