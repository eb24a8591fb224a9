"""A run whose workflow begins again: an operator resets it, or its id is used twice.

The archive knows what has begun. It refuses other facts, and nothing begins again.
"""

from __future__ import annotations

import asyncio

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.common import WorkflowIDReusePolicy

from assentry import Approve
from assentry.engines.temporal import TemporalRun, TemporalRuns
from assentry.engines.temporal.message import WORKFLOW, Opening, Start, to_wire
from assentry.errors import Conflict
from assentry.runtime.value import input_json

from .processes import Place, asked, result, start

pytestmark = pytest.mark.temporal


async def before(run: TemporalRun, activity: str) -> int:
    """Return the event to reset to: the end of the workflow task that first scheduled this activity."""
    async for event in run.handle.fetch_history_events():
        scheduled = event.activity_task_scheduled_event_attributes
        if (
            event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
            and scheduled.activity_type.name == activity
        ):
            return scheduled.workflow_task_completed_event_id
    raise AssertionError(f"no {activity} in the history")


async def reset(runs: TemporalRuns, run: TemporalRun, event: int) -> TemporalRun:
    """Reset a workflow as an operator does, and return its new execution."""
    answer = await runs.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=runs.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id),
            reason="a test",
            workflow_task_finish_event_id=event,
            request_id=f"{run.id}-{event}",
        )
    )
    handle = runs.client.get_workflow_handle(run.id, run_id=answer.run_id)
    return TemporalRun(runs, handle)


@pytest.mark.parametrize("activity", ["assentry_begin", "assentry_enter", "assentry_advance"])
async def test_a_reset_run_runs_no_body_again(place: Place, activity: str) -> None:
    runs = await place.runs()
    await place.worker().up()
    run = await start(runs, "refund 1, pay 2")
    question = await asked(run)
    await runs.decide(question.id, Approve(), by="ann", digest=question.digest)
    assert await result(run) == "done: refund 1 | done: pay 2"
    done, facts = place.done(), await place.facts(run)

    again = await reset(runs, run, await before(run, activity))
    with pytest.raises(Conflict, match=r"was reset.* nothing begins again"):
        await result(again)
    assert (await again.standing()).run == run.id  # its own history can be replayed
    assert place.done() == done
    assert await place.facts(run) == facts
    assert await place.problems(run) == []


async def test_a_run_that_is_reset_while_it_waits_cannot_be_decided_again(place: Place) -> None:
    runs = await place.runs()
    await place.worker().up()
    run = await start(runs, "refund 1, hold 2")
    question = await asked(run)
    await runs.decide(question.id, Approve(), by="ann", digest=question.digest)
    await place.did("begin hold 2")
    again = await reset(runs, run, await before(run, "assentry_enter"))
    with pytest.raises(Conflict, match="nothing begins again"):
        await result(again)
    assert place.done() == ["begin refund 1", "end refund 1", "begin hold 2"]


async def test_a_body_that_goes_on_during_a_reset_is_not_entered_again(place: Place) -> None:
    """The server repeats the activities that had not ended at the point of the reset."""
    runs = await place.runs()
    await place.worker().up()
    run = await runs.start("Pair", "Go.")
    await place.did("begin hold 1")
    await place.kept(run, "finished")  # the other body has ended
    again = await reset(runs, run, await last_task(run))
    with pytest.raises(Conflict, match="was reset"):
        await result(again)
    assert sorted(place.done()) == ["begin hold 1", "begin pay 2", "end pay 2"]


async def last_task(run: TemporalRun) -> int:
    """Return the last workflow task that has ended."""
    found = 0
    async for event in run.handle.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            found = event.event_id
    return found


async def test_an_id_that_is_used_twice_is_one_run(place: Place) -> None:
    runs = await place.runs()
    await place.worker().up()
    names = await asyncio.gather(*(start(runs, "refund 1", id="order-" + place.queue) for _ in range(5)))
    assert {run.id for run in names} == {"order-" + place.queue}
    run = names[0]
    question = await asked(run)
    found = await runs.run("Clerk", "refund 1", id=run.id)
    assert [each.id for each in found.questions] == [question.id]
    await runs.decide(question.id, Approve(), by="ann", digest=question.digest, run=run.id)
    assert await result(run) == "done: refund 1"
    over = await start(runs, "refund 1", id=run.id)  # the run is over, and stays what it was
    assert await result(over) == "done: refund 1"
    assert (await runs.run("Clerk", "refund 1", id=run.id)).status == "done"
    assert place.done() == ["begin refund 1", "end refund 1"]


async def test_a_second_workflow_for_a_run_that_is_over_is_refused(place: Place) -> None:
    """As if the server had purged the first one, or somebody had started it by hand."""
    runs = await place.runs()
    await place.worker().up()
    run = await start(runs, "pay 1", id="order-" + place.queue)
    assert await result(run) == "done: pay 1"
    opening = Start(Opening("Clerk", input_json("pay 1")))
    await runs.client.start_workflow(
        WORKFLOW,
        to_wire(opening),
        id=run.id,
        task_queue=place.queue,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    )
    with pytest.raises(Conflict, match="begun twice"):
        await result(runs.get(run.id))
    assert place.done() == ["begin pay 1", "end pay 1"]
    assert await place.problems(run) == []
