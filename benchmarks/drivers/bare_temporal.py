"""The yardstick of runs in Temporal: a workflow that stores each call and each answer once, and nothing else.

It is no agent: its model is not shown the conversation, only the number of the turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from ..conversation import FINAL, WIRE, arguments, body
from . import temporal_runs

TIMEOUT = timedelta(seconds=60)


@activity.defn
async def run_tool(call: dict[str, Any]) -> str:
    """Run a tool's body."""
    return body(call["tool"], **call["arguments"])


@workflow.defn
class BareRun:
    """Turns of two activities, the model and the tool."""

    def __init__(self) -> None:
        self.waiting: int | None = None

    @workflow.run
    async def run(self) -> str:
        """Run to the end."""
        turn = 0
        while (call := await workflow.execute_activity("ask_model", turn, start_to_close_timeout=TIMEOUT)) != FINAL:
            if call["tool"] == WIRE:
                self.waiting = turn
                await workflow.wait_condition(lambda: self.waiting is None)
            await workflow.execute_activity(run_tool, call, start_to_close_timeout=TIMEOUT)
            turn += 1
        return FINAL

    @workflow.query
    def question(self) -> int | None:
        """Return the turn whose call waits."""
        return self.waiting

    @workflow.signal
    def approve(self, turn: int) -> None:
        """Let this turn's call run."""
        if turn == self.waiting:
            self.waiting = None


class Driver(temporal_runs.Driver):
    """Temporal alone, driven."""

    shows_outputs = False

    @asynccontextmanager
    async def working(self, address: str) -> AsyncIterator[None]:
        @activity.defn
        async def ask_model(turn: int) -> Any:
            return self.reply([], turn)

        self.client = await Client.connect(address)
        async with Worker(
            self.client,
            task_queue=temporal_runs.QUEUE,
            workflows=[BareRun],
            activities=[ask_model, run_tool],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ):
            yield

    def call(self, turn: int, tool: str) -> dict[str, Any]:
        return {"tool": tool, "arguments": arguments(turn)}

    def final(self) -> str:
        return FINAL

    async def start(self, workflow_id: str, max_turns: int) -> Any:
        return await self.client.start_workflow(BareRun.run, id=workflow_id, task_queue=temporal_runs.QUEUE)

    async def result(self, run: WorkflowHandle[BareRun, str]) -> str:
        return await run.result()

    async def question(self, run: WorkflowHandle[BareRun, str]) -> int | None:
        return await run.query(BareRun.question)

    async def approve(self, run: WorkflowHandle[BareRun, str], question: int) -> None:
        await run.signal(BareRun.approve, question)


def make() -> Driver:
    """The driver."""
    return Driver()
