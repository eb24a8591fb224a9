"""Runs that wait: for a worker, for a person until a deadline, for somebody who resumes them."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from temporalio.client import WorkflowExecutionStatus

from assentry import Approve, Edit, Reject, Respond
from assentry.engines.temporal.client import EngineFailed
from assentry.errors import AlreadyDecided, GrantNotFound, NotPending, RunNotFound

from .processes import Place, asked, result, start
from .support import until

pytestmark = pytest.mark.temporal


async def test_a_decision_before_a_worker_is_up_is_recorded_once_there_is_one(place: Place) -> None:
    runs = await place.runs()
    first = await place.worker().up()
    run = await start(runs, "refund 1")
    question = await asked(run)
    first.kill()
    await first.dead()

    hasty = await place.runs(patience=timedelta(seconds=1))
    with pytest.raises(EngineFailed, match=r"No worker answered .* the same one again is no error"):
        await hasty.decide(question.id, Approve(), by="ann", digest=question.digest)
    patient = await place.runs(patience=timedelta(seconds=60))
    waiting = asyncio.create_task(patient.decide(question.id, Approve(), by="ann", digest=question.digest))
    await place.worker().up()
    assert ((await waiting).verdict, (await waiting).by) == ("approve", "ann")
    assert (await runs.decide(question.id, Approve(), by="ann", digest=question.digest)).verdict == "approve"
    assert await result(run) == "done: refund 1"
    assert place.done() == ["begin refund 1", "end refund 1"]
    assert await place.problems(run) == []


async def test_a_run_that_is_begun_before_a_worker_is_up(place: Place) -> None:
    runs = await place.runs()
    run = await start(runs, "pay 1")
    waiting = asyncio.create_task(run.settled())
    await place.worker().up()
    assert (await waiting).status == "done"
    assert await result(run) == "done: pay 1"


async def test_a_body_that_no_worker_listens_for_is_not_in_doubt(place: Place) -> None:
    runs = await place.runs()
    await place.worker().up()
    run = await start(runs, "far 1")
    await place.kept(run, "left")  # it waited too long, and was given back
    assert place.done() == []
    await place.worker("-far").up()
    assert await result(run) == "done: far 1"
    assert place.done() == ["begin far 1", "end far 1"]
    assert "asked" not in await place.facts(run)
    assert await place.problems(run) == []


async def test_a_cancelled_run_does_not_enter_a_body_that_waited_for_a_worker(place: Place) -> None:
    runs = await place.runs()
    await place.worker().up()
    run = await start(runs, "far 1")
    await place.kept(run, "left")
    await runs.cancel(run.id, by="ann")
    await place.worker("-far").up()
    # Whatever was under way is over; what would be entered now would be entered after the cancellation.
    assert (await run.settled()).status == "cancelled"
    assert place.done() == []
    await runs.resume(run.id, by="ann")
    assert await result(run) == "done: far 1"
    assert place.done() == ["begin far 1", "end far 1"]


async def test_a_deadline_passes_while_a_worker_is_up(place: Place) -> None:
    runs = await place.runs()
    await place.worker(cached=0).up()
    run = await start(runs, "hurry 1")
    question = await asked(run)
    assert question.until is not None
    assert "not approved" in await result(run)
    with pytest.raises(AlreadyDecided, match="rejected by deadline"):  # the run is over, and still knows
        await runs.decide(question.id, Approve(), by="ann", digest=question.digest)
    assert place.done() == []


async def test_a_deadline_passes_while_no_worker_is_up(place: Place) -> None:
    runs = await place.runs(patience=timedelta(seconds=60))
    first = await place.worker().up()
    run = await start(runs, "hurry 1, refund 2")
    question = await asked(run)
    first.kill()
    await first.dead()
    over = time.monotonic() + 3
    await until(lambda: time.monotonic() > over, "the deadline")
    late = asyncio.create_task(runs.decide(question.id, Approve(), by="ann", digest=question.digest))
    await place.worker().up()
    with pytest.raises((AlreadyDecided, NotPending)):
        await late
    second = await asked(run)
    assert second.tool == "refund"
    with pytest.raises(AlreadyDecided, match="rejected by deadline") as refused:
        await runs.decide(question.id, Approve(), by="ann", digest=question.digest)
    assert (refused.value.by, refused.value.verdict) == ("deadline", "reject")
    assert place.done() == []
    assert await place.problems(run) == []


async def test_a_person_cancels_resumes_says_and_revokes(place: Place) -> None:
    runs = await place.runs()
    await place.worker(cached=0).up()
    run = await start(runs, "refund 1, refund 2, refund 3")
    first = await asked(run)
    await runs.cancel(run.id, by="ann", why="a moment")
    assert (await run.settled()).status == "cancelled"
    await runs.cancel(run.id, by="ann")  # again is no error
    await runs.decide(first.id, Approve(), by="bob", digest=first.digest, grant=True)
    assert (await run.settled()).status == "cancelled"
    assert place.done() == []  # nothing new starts
    await runs.resume(run.id, by="ann")
    await run.settled()
    assert await result(run) == "done: refund 1 | done: refund 2 | done: refund 3"

    other = await start(runs, "refund 4, refund 5")
    question = await asked(other)
    with pytest.raises(GrantNotFound):
        await runs.revoke("g_0", by="ann", run=other.id)
    await runs.cancel(other.id, by="ann")
    await runs.decide(question.id, Approve(), by="bob", digest=question.digest, grant=True)
    granted = await place.kept(other, "granted")
    await runs.revoke(granted["id"], by="ann", run=other.id)
    await runs.say(other.id, "refund 6", by="cleo")
    await runs.resume(other.id, by="ann")
    again = await asked(other)  # the grant does not count any more
    assert again.arguments == '{"order":5}'
    await runs.decide(again.id, Edit({"order": 55}), by="bob", digest=again.digest)
    last = await asked(other)
    assert last.arguments == '{"order":6}'
    await runs.decide(last.id, Reject("enough"), by="bob", digest=last.digest)
    assert (await result(other)).startswith("done: refund 4 | done: refund 55 | ")
    with pytest.raises(RunNotFound, match="it is over"):
        await runs.say(other.id, "refund 7", by="cleo")
    assert [line for line in place.done() if line.startswith("end")] == [
        f"end refund {order}" for order in (1, 2, 3, 4, 55)
    ]
    assert await place.problems(run) == await place.problems(other) == []


async def test_temporal_cancels_a_run_that_waits(place: Place) -> None:
    runs = await place.runs()
    await place.worker().up()
    run = await start(runs, "refund 1")
    await asked(run)
    await run.handle.cancel()
    with pytest.raises(EngineFailed, match="cancelled"):
        await result(run)
    assert (await run.handle.describe()).status is WorkflowExecutionStatus.CANCELED
    assert (await place.facts(run))[-1] == "cancelled"
    assert place.done() == []


async def test_temporal_cancels_a_run_in_the_middle_of_a_body(place: Place) -> None:
    """The body ends, and its result is kept."""
    runs = await place.runs()
    await place.worker().up()
    run = await start(runs, "hold 1, pay 2")
    await place.did("begin hold 1")
    await run.handle.cancel()
    await place.kept(run, "cancelled")
    (place.folder / "go").touch()
    with pytest.raises(EngineFailed, match="cancelled"):
        await result(run)
    assert (await run.handle.describe()).status is WorkflowExecutionStatus.CANCELED
    assert place.done() == ["begin hold 1", "end hold 1"]
    assert (await place.facts(run))[-1] == "finished"
    assert await place.problems(run) == []


async def test_temporal_cancels_a_run_that_begins(place: Place) -> None:
    runs = await place.runs()
    await place.worker().up()
    (place.folder / "hang").touch()
    run = await start(runs, "hang 1")
    await place.did("hang")
    await run.handle.cancel()
    with pytest.raises(EngineFailed, match="cancelled"):
        await result(run)
    assert (await run.handle.describe()).status is WorkflowExecutionStatus.CANCELED


async def test_a_run_that_cannot_begin_can_be_retried(place: Place) -> None:
    runs = await place.runs()
    await place.worker().up()
    run = await runs.start("Clerk", "pay 1", session="nowhere")
    standing = await run.settled()
    assert standing.failure is not None and "sessions=" in standing.failure.message
    await runs.retry(run.id, by="ann")
    assert (await run.settled()).failure is not None


async def test_a_body_in_the_middle_does_not_keep_a_person_from_deciding(place: Place) -> None:
    """A person answers for a body in doubt, whose worker is dead, and the answer is what the model hears."""
    runs = await place.runs()
    first = await place.worker().up()
    run = await start(runs, "hold 1")
    await place.did("begin hold 1")
    first.kill()
    await place.worker().up()
    question = await asked(run)
    assert (question.kind, question.allowed) == ("doubt", ("approve", "respond", "reject"))
    await runs.decide(question.id, Respond("It was held."), by="ann", digest=question.digest)
    assert await result(run) == "It was held."
    assert place.done() == ["begin hold 1"]
