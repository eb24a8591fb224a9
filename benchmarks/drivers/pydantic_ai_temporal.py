"""pydantic-ai (slim) by its own capability for Temporal.

The sandbox passes this package through, so that a workflow imports nothing of its own. With the option `continued` the
workflow is continued as new when the server suggests it, by the capability's own hook.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelMessage, RunContext
from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, WIRE, arguments_json, body, call_id
from . import temporal_runs
from .pydantic_ai import UNLIMITED, reply

RESTRICTIONS = SandboxRestrictions.default.with_passthrough_modules("benchmarks")

driving: Driver
"""The driver whose script the model answers from: an agent has to be made before the driver, at the top of a module."""


async def respond(messages: list[ModelMessage], info: Any) -> ModelResponse:
    """Answer from the driver's script."""
    parts = (part for message in messages for part in message.parts)
    answered: ModelResponse = driving.reply([str(part.content) for part in parts if isinstance(part, ToolReturnPart)])
    return answered


def continue_run(ctx: RunContext[None]) -> None:
    """Continue as new with all messages, if the driver wants it."""
    if driving.continued:
        workflow.continue_as_new(ctx.messages)


async def lookup(city: str, days: int, note: str) -> str:
    """Look something up.

    Args:
        city: the city
        days: how many days
        note: free text
    """
    return body(LOOKUP, city, days, note)


async def wire(city: str, days: int, note: str) -> str:
    """Wire money.

    Args:
        city: the city
        days: how many days
        note: free text
    """
    return body(WIRE, city, days, note)


agent: Agent[None, Any] = Agent(
    FunctionModel(respond, model_name="scripted"),
    name="bench",
    instructions=SYSTEM,
    output_type=[str, DeferredToolRequests],
    capabilities=[TemporalDurability(continue_as_new=continue_run)],
)
agent.tool_plain(lookup)
agent.tool_plain(wire, requires_approval=True)


@workflow.defn
class AgentRun(PydanticAIWorkflow):
    """A run of the agent, and approvals by signal."""

    __pydantic_ai_agents__ = (agent,)

    def __init__(self) -> None:
        self.waiting: str | None = None

    @workflow.run
    async def run(self, history: list[ModelMessage] | None = None) -> str:
        """Run to the end."""
        prompt = None if history else PROMPT
        outcome = await agent.run(prompt, message_history=history, usage_limits=UNLIMITED)
        while isinstance(outcome.output, DeferredToolRequests):
            [asked] = outcome.output.approvals
            self.waiting = asked.tool_call_id
            await workflow.wait_condition(lambda: self.waiting is None)
            results = outcome.output.build_results(approve_all=True)
            outcome = await agent.run(
                message_history=outcome.all_messages(), deferred_tool_results=results, usage_limits=UNLIMITED
            )
        text: str = outcome.output
        return text

    @workflow.query
    def question(self) -> str | None:
        """Return the call that waits."""
        return self.waiting

    @workflow.signal
    def approve(self, call_id: str) -> None:
        """Let this call run."""
        if call_id == self.waiting:
            self.waiting = None


class Driver(temporal_runs.Driver):
    """pydantic-ai in Temporal, driven."""

    def __init__(self, continued: bool) -> None:
        global driving
        super().__init__()
        driving, self.continued = self, continued

    @asynccontextmanager
    async def working(self, address: str) -> AsyncIterator[None]:
        self.client = await Client.connect(address, plugins=[PydanticAIPlugin()])
        async with Worker(
            self.client,
            task_queue=temporal_runs.QUEUE,
            workflows=[AgentRun],
            workflow_runner=SandboxedWorkflowRunner(restrictions=RESTRICTIONS),
        ):
            yield

    def call(self, turn: int, tool: str) -> ModelResponse:
        return reply(ToolCallPart(tool, arguments_json(turn), call_id(turn)))

    def final(self) -> ModelResponse:
        return reply(TextPart(FINAL))

    async def start(self, workflow_id: str, max_turns: int) -> Any:
        return await self.client.start_workflow(AgentRun.run, id=workflow_id, task_queue=temporal_runs.QUEUE)

    async def result(self, run: WorkflowHandle[AgentRun, str]) -> str:
        return await run.result()

    async def question(self, run: WorkflowHandle[AgentRun, str]) -> str | None:
        return await run.query(AgentRun.question)

    async def approve(self, run: WorkflowHandle[AgentRun, str], question: str) -> None:
        await run.signal(AgentRun.approve, question)


def make(continued: str = "") -> Driver:
    """The driver."""
    return Driver(bool(continued))
