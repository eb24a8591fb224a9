"""Checks of actions by people: `decide`, `revoke`, `cancel`, `resume`, `say`, also several at once."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from ...approval.decision import Approve, Decision, Edit, Reject, Respond
from ...approval.terms import GrantTerms
from ...core import facts as f
from ...core.facts import AnyFact
from ...errors import (
    AlreadyDecided,
    Conflict,
    DigestMismatch,
    GrantNotFound,
    InvalidArguments,
    InvalidDecision,
    NotPending,
    Overtaken,
    QuestionNotFound,
    RunFinished,
    RunNotFound,
    StoreFailed,
    UnreadableState,
    UsageError,
)
from ...store.record import Change, Question
from ...store.store import Store
from ..clock import FakeClock
from .draft import SEND, SHRED, RunDraft, json, put_asking, put_begun, put_ended
from .expect import alike, only, raises, same_facts, true
from .journal import STRANGE


async def _decide(store: Store, question: Question, decision: Any, by: str = "ann", **more: Any) -> Question:
    return await store.decide(question.id, decision, by=by, digest=question.digest, **more)


async def _last(store: Store, run_id: str) -> AnyFact:
    return (await store.read(run_id)).facts[-1]


async def records_decisions(store: Store, clock: FakeClock) -> None:
    """A decision is a fact of the run, and the question says it."""
    cases: list[tuple[Decision | dict[str, Any], str, type[f.Fact]]] = [
        (Approve(note=STRANGE), "approve", f.Approved),
        ({"type": "approve"}, "approve", f.Approved),
        (Edit({"to": STRANGE}), "edit", f.Approved),
        (Reject("Not today."), "reject", f.Refused),
        (Respond({"sent": False}), "respond", f.Finished),
    ]
    for decision, verdict, kind in cases:
        (question,) = await put_asking(store)
        seq = (await store.read(question.run)).record.seq
        clock.advance(3)
        settled = await _decide(store, question, decision, "żółć 漢字")
        now = int(clock() * 1000)
        found = (settled.verdict, settled.by, settled.decided)
        alike(found, (verdict, "żółć 漢字", now), "Deciding gives the question as it is then.")
        alike(await store.question(question.id), settled, "A question says who decided what, and when.")
        fact = await _last(store, question.run)
        true(isinstance(fact, kind) and getattr(fact, "asked", None) == question.id, "A decision is a fact of its run.")
        record = (await store.read(question.run)).record
        alike((record.seq, record.waiting, record.status), (seq + 1, 0, "working"), "A decided run waits no more.")
    fact = await _last(store, (await _edit(store)).run)
    alike(
        bytes(getattr(fact, "args", b"")),
        b'{"copies":1,"to":"bob"}',
        "An edit is recorded with its defaults filled in.",
    )


async def _edit(store: Store) -> Question:
    (question,) = await put_asking(store)
    return await _decide(store, question, Edit({"to": "bob"}))


async def checks_decisions(store: Store, clock: FakeClock) -> None:
    """A decision that does not fit the question is refused, and nothing is recorded."""
    (question,) = await put_asking(store, allowed=("edit", "reject"))
    before = await store.read(question.run)
    wrong: list[tuple[type[Exception], Any]] = [
        (InvalidDecision, Approve()),
        (InvalidDecision, Respond("no")),
        (InvalidDecision, {"type": "maybe"}),
        (InvalidDecision, None),
        (InvalidArguments, Edit({})),
        (InvalidArguments, Edit({"to": 7})),
        (InvalidArguments, Edit({"to": "bob", "copies": 0})),
        (InvalidArguments, Edit({"to": "bob", "cc": "eve"})),
        (InvalidDecision, Edit({"to": "bob"}, tool="burn")),
    ]
    for error, decision in wrong:
        await raises(error, _decide(store, question, decision), f"{decision!r} does not fit the question.")
    for by in ("", None, "\ud800"):
        await raises(InvalidDecision, _decide(store, question, Reject(), by), f"{by!r} is nobody.")  # type: ignore[arg-type]
    work = store.decide(question.id, Reject(), by="ann", digest="0" * 64)
    await raises(DigestMismatch, work, "A decision about something else is refused.")
    nothing: Any = None
    work = store.decide(question.id, Reject(), by="ann", digest=nothing)
    await raises(UsageError, work, "A decision without a digest is refused.")
    work = store.decide("no", Reject(), by="ann", digest=question.digest)
    await raises(QuestionNotFound, work, "A question that was never asked cannot be decided.")
    alike(await store.read(question.run), before, "A decision that is refused is not recorded.")
    alike((await store.question(question.id)).verdict, None, "A question is open after a decision that was refused.")
    other = await _decide(store, question, Edit({"to": "bob"}, tool="shred"))
    alike(other.verdict, "edit", "An edit may choose another tool, as it was when the question was asked.")
    fact = await _last(store, question.run)
    alike(getattr(fact, "definition", None), SHRED.fingerprint, "An edit with another tool says how that was defined.")


async def takes_answers(store: Store, clock: FakeClock) -> None:
    """A question of a tool's body takes only answers of the type that it asks for."""
    draft = await put_begun(store)
    (call,) = draft.propose(SEND)
    draft.add(f.Approved(call, "rule", at=0), f.Started(call))
    draft.ask(call, kind="input", prompt=json("How many?"), schema=json({"type": "integer", "minimum": 1}))
    question = (await draft.write(store)).asked[0]
    before = await store.read(draft.id)
    for wrong in (Respond("two"), Respond(0), Approve(), Edit({"to": "bob"})):
        await raises(InvalidDecision, _decide(store, question, wrong), f"{wrong!r} does not answer the question.")
    alike(await store.read(draft.id), before, "An answer that is refused is not recorded.")
    alike((await _decide(store, question, Respond(2))).verdict, "respond", "An answer settles its question.")
    fact = await _last(store, draft.id)
    true(isinstance(fact, f.Answered) and bytes(fact.value) == b"2", "An answer is a fact of its run.")


async def decides_once(store: Store, clock: FakeClock) -> None:
    """Of several decisions the first counts, and the others are told."""
    cases: list[tuple[Any, str, Any]] = [
        (Approve(), "approve", Reject()),
        (Edit({"to": "bob"}), "edit", Approve()),
        (Reject("No."), "reject", Approve()),
        (Respond("Done."), "respond", Respond("Undone.")),
    ]
    for decision, verdict, other in cases:
        (question,) = await put_asking(store)
        await _decide(store, question, decision, "ann")
        at, before = int(clock() * 1000), await store.read(question.run)
        clock.advance(5)
        error = await raises(AlreadyDecided, _decide(store, question, other, "bob"), "Who is second is told so.")
        alike(
            (error.by, error.verdict, error.at), ("ann", verdict, at), "Who is second is told who decided what, when."
        )
        again = await _decide(store, question, decision, "bob")
        alike((again.by, again.verdict, again.decided), ("ann", verdict, at), "The same decision again is no error.")
        alike(await store.read(question.run), before, "The same decision again changes nothing.")


async def decides_once_at_once(store: Store, clock: FakeClock) -> None:
    """Of several that decide at the same time, one does."""
    for _ in range(3):
        (question,) = await put_asking(store)
        decisions = (Approve(), Reject("No."), Respond("Done."), Edit({"to": "bob"}))
        work = (_decide(store, question, decision, f"person {n}") for n, decision in enumerate(decisions))
        ends = await asyncio.gather(*work, return_exceptions=True)
        won = [n for n, end in enumerate(ends) if isinstance(end, Question)]
        alike(len(won), 1, f"Of several that decide at the same time, one does: {ends!r:.300}")
        alike((await store.question(question.id)).by, f"person {won[0]}", "The one that was told so has decided.")
        for end in ends:
            true(isinstance(end, Question | AlreadyDecided), f"The others get `AlreadyDecided`, not {end!r:.200}.")
            if isinstance(end, AlreadyDecided):
                alike(end.by, f"person {won[0]}", "The others are told who decided.")


async def loses_no_decision(store: Store, clock: FakeClock) -> None:
    """Decisions, and what a driver writes meanwhile, are all there."""
    first, second = await put_asking(store, (SEND, SHRED))
    driver = await RunDraft.read(store, first.run)
    lease = await store.take(first.run, "w1", seq=driver.seq, hold=60)
    await _decide(store, first, Approve())
    change = driver.add(f.Said(json("By the driver."), at=driver.now)).change(lease=lease, hold=60)
    await raises(Overtaken, store.append(change), "A driver that does not know of a decision is overtaken.")
    alike((await store.question(first.id)).verdict, "approve", "A decision is not lost when a driver writes.")
    driver = await RunDraft.read(store, first.run)
    await driver.add(f.Started("c0", at=driver.now)).write(store, lease=lease, hold=60)
    both = (_decide(store, second, Reject()), *(store.say(first.run, f"Line {n}.") for n in range(9)))
    await asyncio.gather(*both)
    facts = (await store.read(first.run)).facts
    said = {bytes(fact.items) for fact in facts if isinstance(fact, f.Said)}
    alike(len(said), 10, "What several say at the same time is all there.")
    alike((await store.question(second.id)).verdict, "reject", "A decision among much else is not lost.")
    alike((await store.read(first.run)).record.worker, "w1", "What people do takes the run from no driver.")


async def keeps_deadlines(store: Store, clock: FakeClock) -> None:
    """A question that nobody decides in time is rejected, on the store's clock, and never approved."""
    (question,) = await put_asking(store, until=30_000)
    later, other = await put_asking(store, (SEND, SHRED), until=30_000)
    kept = (await put_asking(store, due=10_000))[0]
    clock.advance(30)
    await store.expire(question.run)
    alike((await store.question(question.id)).verdict, None, "A question is open until its deadline has passed.")
    clock.advance(0.001)
    await raises(NotPending, _decide(store, question, Approve()), "After the deadline nobody approves.")
    found = await store.question(question.id)
    alike((found.verdict, found.by), ("reject", "deadline"), "What nobody decided in time is rejected by the deadline.")
    await raises(Conflict, _decide(store, question, Approve()), "What the deadline rejected stays rejected.")
    await store.expire(later.run)
    for id in (later.id, other.id):
        found = await store.question(id)
        alike((found.verdict, found.by), ("reject", "deadline"), "Expiring rejects what nobody decided in time.")
    before = await store.read(later.run)
    await store.expire(later.run)
    alike(await store.read(later.run), before, "Expiring twice is once.")
    await store.expire(kept.run)
    alike((await store.question(kept.id)).verdict, None, "A question that is only overdue goes on waiting.")
    await _decide(store, kept, Approve())


async def grants(store: Store, clock: FakeClock) -> None:
    """A decision can hold for later calls, within its terms, until it is taken back."""
    (question,) = await put_asking(store)
    terms = GrantTerms(max_uses=2, expires_in=60, pins={"to": "ann"})
    await _decide(store, question, Approve(), grant=terms)
    grant = only((await store.grants(run=question.run)).items, "A decision with a grant makes one, and it is kept.")
    now = int(clock() * 1000)
    alike(
        (grant.agent, grant.tool, grant.verdict, grant.by),
        ("Clerk", "send", "approve", "ann"),
        "A grant says for what.",
    )
    alike((grant.max_uses, grant.until, grant.pins), (2, now + 60_000, {"to": "ann"}), "A grant has its terms.")
    alike((grant.at, grant.used, grant.definition), (now, 0, SEND.fingerprint), "A grant is of a tool as it was.")
    await _decide(store, question, Approve(), grant=terms)
    alike(len((await store.grants()).items), 1, "The same decision again grants nothing more.")
    (rejected,) = await put_asking(store, (SHRED,))
    await _decide(store, rejected, Reject("Never."), grant=True)
    never = only((await store.grants(run=rejected.run)).items, "A decision with a grant makes one, and it is kept.")
    alike((never.verdict, never.message, never.pins), ("reject", "Never.", None), "A rejection can hold on, too.")
    (third,) = await put_asking(store)
    work = _decide(store, third, Respond("Done."), grant=True)
    await raises(InvalidDecision, work, "An answer is for one call.")
    work = _decide(store, third, Approve(), grant={"max_uses": 0})
    await raises(InvalidDecision, work, "Terms that make no sense are refused.")
    alike((await store.question(third.id)).verdict, None, "A decision with a grant that is refused is refused.")
    clock.advance(1)
    await store.revoke(grant.id, by="eve", run=question.run)
    alike((await store.grants(run=question.run)).items, [], "A grant that was taken back is not listed.")
    gone = only(
        (await store.grants(run=question.run, revoked=True)).items, "A decision with a grant makes one, and it is kept."
    )
    alike((gone.revoked, gone.revoked_by), (now + 1_000, "eve"), "A grant that was taken back says by whom, and when.")
    work_: Any = store.revoke(grant.id, by="eve", run=question.run)
    await raises(GrantNotFound, work_, "What was taken back cannot be taken back again.")
    work_ = store.revoke(never.id, by="eve", run=question.run)
    await raises(GrantNotFound, work_, "A grant is taken back in its own run.")


async def stops_and_goes_on(store: Store, clock: FakeClock) -> None:
    """A run can be cancelled, resumed and spoken to."""
    draft = await put_begun(store)
    await store.cancel(draft.id, by="ann", why=STRANGE)
    await store.cancel(draft.id, by="bob")
    stored = await store.read(draft.id)
    alike((stored.record.status, stored.record.wake), ("cancelled", None), "A cancelled run is nobody's to work on.")
    expected: list[AnyFact] = [f.Cancelled("ann", STRANGE, at=0)]
    same_facts(stored.facts[2:], expected, "Cancelling twice is once.")
    await store.resume(draft.id, by="eve")
    await store.resume(draft.id, by="eve")
    await store.say(draft.id, STRANGE, by="ann")
    expected.append(f.Resumed("eve", at=0))
    stored = await store.read(draft.id)
    same_facts(stored.facts[2:-1], expected, "Resuming twice is once.")
    said = stored.facts[-1]
    heard = isinstance(said, f.Said) and said.by == "ann" and bytes(json(STRANGE)) in bytes(said.items)
    true(heard, f"What is said to a run is there, with who said it. It is {said!r:.300}.")
    alike(stored.record.status, "working", "A run that is resumed is worked on.")
    for words in ("", "\ud800"):
        await raises(UsageError, store.say(draft.id, words), "What is said is text that can be written.")
    for act in (store.cancel, store.resume):
        await raises(RunNotFound, act("no", by="ann"), "A run that is not there cannot be stopped.")
    await raises(RunNotFound, store.say("no", "Hello."), "Nobody can speak to a run that is not there.")
    done = await put_ended(store)
    await store.say(done.id, "One more thing.")
    alike((await store.read(done.id)).record.status, "working", "A run that is done goes on when spoken to.")
    closed = await put_begun(store)
    await closed.add(f.Closed("It failed.", at=1)).write(store)
    await raises(Conflict, store.say(closed.id, "Hello?"), "A closed run is not spoken to.")


async def keeps_evidence(store: Store, clock: FakeClock) -> None:
    """A result that came too late to count is kept."""
    draft = await put_begun(store)
    (call,) = draft.propose(SEND)
    draft.add(f.Approved(call, "rule", at=0), f.Started(call))
    draft.ask(call, kind="doubt")
    change = await draft.write(store)
    late = f.Witnessed(call, 1, json("It was sent after all."), at=9)
    await store.witness(draft.id, [late])
    same_facts((await store.read(draft.id)).facts[-1:], [late], "What came too late is in the journal.")
    question = await store.question(change.asked[0].id)
    alike(question.verdict, None, "What came too late decides nothing.")
    alike([each.output for each in question.evidence], ["It was sent after all."], "The question shows it.")
    await raises(
        Conflict, store.witness(draft.id, [f.Witnessed("c9", 1, json(None), at=9)]), "Evidence is of a call of the run."
    )


async def leaves_erased_runs_alone(store: Store, clock: FakeClock) -> None:
    """Nothing is added to a run that was erased."""
    draft = await put_ended(store)
    await store.erase(draft.id)
    lines = await store.lines(draft.id)
    for act in (store.cancel, store.resume):
        await raises(RunFinished, act(draft.id, by="ann"), "Nothing can be done to a run that was erased.")
    await raises(RunFinished, store.say(draft.id, "Hello?"), "Nobody can speak to a run that was erased.")
    await raises(RunFinished, store.expire(draft.id), "Nothing can be done to a run that was erased.")
    alike(await store.lines(draft.id), lines, "Nothing is added to a run that was erased.")
    alike(await store.histories([draft.id]), {draft.id: lines}, "An erased run has the history that is left of it.")


async def decides_on_what_is_asked(store: Store, clock: FakeClock) -> None:
    """Nothing is decided on a record that says something else than the journal."""
    (question,) = await put_asking(store)
    before, shows = await store.read(question.run), store.question
    for name, value in (("arguments", "{}"), ("reason", "It is harmless."), ("tool", "shred"), ("until", 5)):
        sentence = f"A question that is shown with another {name} than the journal's is not decided on."

        async def question_as_changed(id: str, name: str = name, value: Any = value) -> Question:
            return replace(await shows(id), **{name: value})

        setattr(store, "question", question_as_changed)  # noqa: B010
        try:
            await raises(UnreadableState, _decide(store, question, Approve()), sentence)
        finally:
            delattr(store, "question")
        alike(await store.read(question.run), before, "A decision that is refused is not recorded.")
    await _decide(store, question, Approve())


async def reads_nothing_after_deciding(store: Store, clock: FakeClock) -> None:
    """A store that goes away when a decision is written does not say that it was not."""
    (question,) = await put_asking(store)
    append = store.append

    async def gone(*given: Any, **more: Any) -> Any:
        raise StoreFailed("It went away after the decision was written. Nothing was written.")

    async def append_and_go(change: Change) -> None:
        await append(change)
        for name in ("read", "question", "questions", "lines", "definition"):
            setattr(store, name, gone)

    setattr(store, "append", append_and_go)  # noqa: B010
    try:
        settled = await _decide(store, question, Approve())
    except StoreFailed as error:
        raise AssertionError(f"A decision reads nothing after it was written. It raised {error!r:.300}.") from error
    finally:
        for name in ("append", "read", "question", "questions", "lines", "definition"):
            vars(store).pop(name, None)
    alike(await store.question(question.id), settled, "Deciding gives the question that whoever reads it gets.")
    alike(
        await _decide(store, question, Approve(), "bob"), settled, "Deciding the same again gives the first decision."
    )


DECISION_CHECKS = (
    records_decisions,
    checks_decisions,
    takes_answers,
    decides_once,
    decides_once_at_once,
    loses_no_decision,
    keeps_deadlines,
    grants,
    stops_and_goes_on,
    keeps_evidence,
    leaves_erased_runs_alone,
    decides_on_what_is_asked,
    reads_nothing_after_deciding,
)
