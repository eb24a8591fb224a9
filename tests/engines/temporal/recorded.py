"""Recorded histories of workflows, which every later version has to replay, and the stories that they were made of.

A recorded history is never written anew: it stands for a run that waits on somebody's server, and was begun by an older
version. A new story is recorded with: ASSENTRY_WRITE=1 python -m pytest tests/engines/temporal/test_versions.py
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Worker

from assentry import (
    Approve,
    Decision,
    Edit,
    GuardrailFunctionOutput,
    InputGuardrail,
    OutcomeUnknown,
    Reject,
    Respond,
    RunConfig,
    ToolContext,
    function_tool,
)
from assentry.engines.temporal import (
    ActivityOptions,
    AssentryPlugin,
    FolderStorage,
    ObjectArchive,
    TemporalRun,
    TemporalRuns,
)
from assentry.engines.temporal.client import EngineFailed
from assentry.errors import AssentryError
from assentry.store import SQLiteStore
from assentry.testing import call

from .story import noting, scripted, send

HISTORIES = Path(__file__).with_name("histories")
WORKER = "worker"
"""The identity of clients and workers that record: the usual one names the machine."""
LEFT_OUT = {
    "stackTrace", "identity", "taskId", "requestId", "workerVersion", "meteringMetadata", "header", "priority",
    "retryPolicy", "scheduleToCloseTimeout", "scheduleToStartTimeout", "startToCloseTimeout", "heartbeatTimeout",
    "useWorkflowBuildId", "normalName", "kind",
}  # fmt: skip
"""The fields of events that a replay does not read."""
GIVEN = {
    "activityTaskScheduledEventAttributes": "input",
    "workflowExecutionUpdateCompletedEventAttributes": "outcome",
    "workflowExecutionCompletedEventAttributes": "result",
    "workflowExecutionContinuedAsNewEventAttributes": "input",
    "workflowTaskScheduledEventAttributes": "taskQueue",
}
"""What a workflow has given to others, by the event's attributes. A replay compares only the kinds of commands."""


# -- files -------------------------------------------------------------------------------------------


def recorded(pattern: str = "*") -> list[Path]:
    return sorted(HISTORIES.glob(f"{pattern}.json"))


def files_of(story: str) -> list[Path]:
    """The recorded executions of a story's workflow, in their order."""
    return recorded(story) or recorded(f"{story}-[0-9]")


def read_history(file: Path) -> WorkflowHistory:
    return history_from(json.loads(file.read_text("utf-8")))


def history_from(plain: dict[str, Any]) -> WorkflowHistory:
    workflow_id = plain["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    return WorkflowHistory.from_json(workflow_id, plain)


async def write_histories(client: Client, story: str, run_id: str) -> None:
    """Write the history of each execution of a workflow, an event a line."""
    chain: list[WorkflowHistory] = []
    execution = (await client.get_workflow_handle(run_id).describe()).run_id or ""
    while execution:
        history = await client.get_workflow_handle(run_id, run_id=execution).fetch_history()
        chain.insert(0, history)
        started = history.events[0].workflow_execution_started_event_attributes
        started.original_execution_run_id = execution  # the Replayer takes it for the id; a reset leaves the old one
        execution = started.continued_execution_run_id
    HISTORIES.mkdir(exist_ok=True)
    for number, history in enumerate(chain, 1):
        name = story if len(chain) == 1 else f"{story}-{number}"
        events = [json.dumps(_lean(each), separators=(",", ":")) for each in json.loads(history.to_json())["events"]]
        (HISTORIES / f"{name}.json").write_text('{"events":[\n' + ",\n".join(events) + "\n]}\n", "utf-8")


def _lean(event: dict[str, Any]) -> dict[str, Any]:
    """Leave out what names a machine, such as stack traces, and what a workflow gives and no replay reads."""
    for attributes, given in GIVEN.items():
        event.get(attributes, {}).pop(given, None)
    lean: dict[str, Any] = _without(event)
    return lean


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        return [_without(each) for each in value]
    return value


# -- stories -----------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A server, a folder and a task queue for one story."""

    client: Client
    folder: Path
    queue: str

    @asynccontextmanager
    async def working(self, agent: Any, *, queue: str = "", **options: Any) -> AsyncIterator[TemporalRuns]:
        queue = queue or self.queue
        async with SQLiteStore(self.folder / "runs.db") as store:
            plugin = AssentryPlugin(agent, store=store, **options)
            async with Worker(self.client, task_queue=queue, plugins=[plugin], identity=WORKER, build_id="recorded"):
                yield TemporalRuns(self.client, task_queue=queue)

    async def told(
        self, agent: Any, decide: Callable[[Any], Decision] = lambda asked: Approve(), **options: Any
    ) -> TemporalRun:
        """Run an agent to its end, with all questions decided."""
        async with self.working(agent, **options) as runs:
            run = await runs.start(agent.name, "Go.")
            while questions := (await run.settled()).questions:
                for asked in questions:
                    await runs.decide(asked.id, decide(asked), by="ann", digest=asked.digest)
            await run.result()
        return run


Record = Callable[[Scene], Awaitable[TemporalRun]]
STORIES: dict[str, Record] = {}


def story(record: Record) -> Record:
    STORIES[record.__name__] = record
    return record


def by_recipient(**decisions: Decision) -> Callable[[Any], Decision]:
    return lambda asked: decisions[json.loads(asked.arguments)["to"]]


ALL = by_recipient(
    ann=Approve(), bob=Edit({"to": "bert", "copies": 2}), cid=Reject("Not Cid."), dan=Respond("Dan knows.")
)


@story
async def each_verdict(scene: Scene) -> TemporalRun:
    steps = [send(who) for who in ("ann", "bob", "cid")]
    return await scene.told(scripted("Shop", *steps, "Done.", tools=[noting([], needs_approval=True)]), ALL)


@story
async def parallel_calls(scene: Scene) -> TemporalRun:
    calls = [*(send(who) for who in ("ann", "cid", "dan")), send("eve", "free")]
    tools = [noting([], needs_approval=True), noting([], "free")]
    return await scene.told(scripted("Shop", calls, "Done.", tools=tools), ALL)


@story
async def one_body_at_a_time(scene: Scene) -> TemporalRun:
    calls = [send("ann"), send("bob")]
    config = RunConfig(max_parallel_tools=1)
    return await scene.told(scripted("Shop", calls, "Done.", tools=[noting([])]), run_config=config)


@story
async def nested_agents(scene: Scene) -> TemporalRun:
    typist = scripted("Typist", send("ann"), "Typed.", tools=[noting([], needs_approval=True)])
    clerk = scripted("Clerk", [call("typist", {"input": "Type."}), send("dan")], "Sent.",
                     tools=[typist.as_tool(), noting([], needs_approval=True)])  # fmt: skip
    return await scene.told(scripted("Boss", call("clerk", {"input": "Go."}), "Done.", tools=[clerk.as_tool()]), ALL)


@story
async def a_handoff(scene: Scene) -> TemporalRun:
    expert = scripted("Expert", send("ann"), "By the expert.", tools=[noting([], needs_approval=True)])
    return await scene.told(scripted("Front", call("transfer_to_expert"), handoffs=[expert]))


@story
async def a_body_that_asks_and_steps(scene: Scene) -> TemporalRun:
    @function_tool(needs_approval=True)
    async def book(ctx: ToolContext[Any], city: str) -> str:
        room = await ctx.step("reserve", lambda: f"room in {city}")
        return f"{room}, {await ctx.ask('When?')}"

    agent = scripted("Desk", call("book", {"city": "Ghent"}), "Booked.", tools=[book])
    return await scene.told(agent, lambda asked: Respond("Monday") if asked.prompt else Approve())


@story
async def a_deadline_that_expires(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([], needs_approval=True, deadline=0.5)])
    async with scene.working(agent) as runs:
        run = await runs.start("Shop", "Go.")
        assert await run.result() == "Done."
    return run


@story
async def a_grant_with_uses(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", *[send("ann") for _ in range(3)], "Done.", tools=[noting([], needs_approval=True)])
    async with scene.working(agent) as runs:
        run = await runs.start("Shop", "Go.")
        for _ in range(2):  # the first grant covers one more call
            [asked] = (await run.settled()).questions
            await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest, grant={"max_uses": 1})
        assert await run.result() == "Done."
    return run


@story
async def a_call_in_doubt(scene: Scene) -> TemporalRun:
    @function_tool
    async def pay(to: str) -> str:
        raise OutcomeUnknown("The bank did not answer.")

    return await scene.told(scripted("Shop", send("ann", "pay"), "Done.", tools=[pay]), lambda asked: Respond("Paid."))


@story
async def cancelled_and_resumed(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([], needs_approval=True)])
    async with scene.working(agent) as runs:
        run = await runs.start("Shop", "Go.")
        [asked] = (await run.settled()).questions
        await runs.cancel(run.id, by="ann", why="a moment")
        await runs.decide(asked.id, Approve(), by="bob", digest=asked.digest)
        assert (await run.settled()).status == "cancelled"
        await runs.say(run.id, "And hurry.", by="cleo")
        await runs.resume(run.id, by="ann")
        assert await run.result() == "Done."
    return run


@story
async def continued_as_new(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", *[send(str(number)) for number in range(3)], "Done.",
                     tools=[noting([], needs_approval=True, deadline=600)])  # fmt: skip
    async with scene.working(agent, continue_after=25) as runs:
        run = await runs.start("Shop", "Go.", context={"user": "ann"})
        for number in range(3):
            [asked] = (await run.settled()).questions
            await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest, grant={"pins": {"to": str(number)}})
        assert await run.result() == "Done."
        assert (await run.standing()).executions > 2
    return run


@story
async def without_search_attributes(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([], needs_approval=True)])
    async with scene.working(agent) as runs:
        runs._attributes = False  # as in a namespace where they are not registered
        run = await runs.start("Shop", "Go.")
        [asked] = (await run.settled()).questions
        await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        assert await run.result() == "Done."
    return run


@story
async def an_object_archive(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([], needs_approval=True)])
    return await scene.told(agent, archive=ObjectArchive(FolderStorage(scene.folder / "objects")))


@story
async def a_body_that_no_worker_took_in_time(scene: Scene) -> TemporalRun:
    far = f"{scene.queue}-far"
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([])])
    waits = ActivityOptions(task_queue=far, schedule_to_start_timeout=timedelta(milliseconds=300))
    async with scene.working(agent, tool_options={"send": waits}) as runs:
        run = await runs.start("Shop", "Go.")
        while not await _timed_out(run):
            pass  # each look is a request to the server
        async with scene.working(agent, queue=far):
            assert await run.result() == "Done."
    return run


async def _timed_out(run: TemporalRun) -> bool:
    events = (await run.handle.fetch_history()).events
    return any(event.HasField("activity_task_timed_out_event_attributes") for event in events)


@story
async def closed_by_a_guardrail(scene: Scene) -> TemporalRun:
    async def no(ctx: Any, agent: Any, value: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info="bad", tripwire_triggered=True)

    agent = scripted("Shop", "Never.", input_guardrails=[InputGuardrail(no, name="no", run_in_parallel=False)])
    async with scene.working(agent) as runs:
        run = await runs.start("Shop", "Go.")
        with suppress(AssentryError):
            await run.result()
    return run


@story
async def cancelled_by_temporal(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([], needs_approval=True)])
    async with scene.working(agent) as runs:
        run = await runs.start("Shop", "Go.")
        await run.settled()
        await run.handle.cancel()
        with suppress(EngineFailed):
            await run.result()
    return run


@story
async def reset_by_an_operator(scene: Scene) -> TemporalRun:
    agent = scripted("Shop", send("ann"), send("bob"), "Done.", tools=[noting([], needs_approval=True)])
    async with scene.working(agent) as runs:
        run = await runs.start("Shop", "Go.")
        [asked] = (await run.settled()).questions
        await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        await run.settled()
        scheduled = [
            event.activity_task_scheduled_event_attributes
            for event in (await run.handle.fetch_history()).events
            if event.HasField("activity_task_scheduled_event_attributes")
        ]
        [entered] = [each for each in scheduled if each.activity_type.name == "assentry_enter"]
        await scene.client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=scene.client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=run.id),
                reason="a test",
                workflow_task_finish_event_id=entered.workflow_task_completed_event_id,
                request_id=run.id,
                identity=WORKER,
            )
        )
        run = runs.get(run.id)
        with suppress(AssentryError):
            await run.result()
    return run


@story
async def a_run_that_waits(scene: Scene) -> TemporalRun:
    """The history of a run in the middle: it is what most runs on a server look like."""
    agent = scripted("Shop", [send("ann"), send("bob")], "Done.", tools=[noting([], needs_approval=True, deadline=600)])
    async with scene.working(agent) as runs:
        run = await runs.start("Shop", "Go.")
        asked = (await run.settled()).questions[0]
        await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        await run.settled()
    return run
