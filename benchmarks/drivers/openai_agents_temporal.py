"""openai-agents by Temporal's own plugin, with tracing off.

Tools are activities by `activity_as_tool`, as its guide has it. The sandbox passes this package through, so that a
workflow imports nothing of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from agents import Agent, ModelProvider, RunConfig, Runner
from agents.items import ModelResponse
from agents.models.interface import Model as ModelInterface
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.workflow import activity_as_tool
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, WIRE, arguments_json, body, call_id
from . import temporal_runs
from .openai_agents import call, message, reply

CONFIG = RunConfig(tracing_disabled=True)
TIMEOUT = timedelta(seconds=60)
RESTRICTIONS = SandboxRestrictions.default.with_passthrough_modules("benchmarks")


@activity.defn
async def lookup(city: str, days: int, note: str) -> str:
    """Look something up.

    Args:
        city: the city
        days: how many days
        note: free text
    """
    return body(LOOKUP, city, days, note)


@activity.defn
async def wire(city: str, days: int, note: str) -> str:
    """Wire money.

    Args:
        city: the city
        days: how many days
        note: free text
    """
    return body(WIRE, city, days, note)


@workflow.defn
class AgentRun:
    """A run of an agent with both tools, and approvals by signal."""

    def __init__(self) -> None:
        self.waiting: str | None = None

    @workflow.run
    async def run(self, max_turns: int) -> str:
        """Run to the end."""
        gated: Any = activity_as_tool(wire, start_to_close_timeout=TIMEOUT)
        tools = [
            activity_as_tool(lookup, start_to_close_timeout=TIMEOUT),
            dataclasses.replace(gated, needs_approval=True),
        ]
        agent = Agent(name="bench", instructions=SYSTEM, model="scripted", tools=tools)
        outcome = await Runner.run(agent, PROMPT, max_turns=max_turns, run_config=CONFIG)
        while outcome.interruptions:
            [asked] = outcome.interruptions
            self.waiting = asked.raw_item.call_id
            await workflow.wait_condition(lambda: self.waiting is None)
            state = outcome.to_state()
            state.approve(asked)
            outcome = await Runner.run(agent, state, max_turns=max_turns, run_config=CONFIG)
        text: str = outcome.final_output
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


class Model(ModelInterface):
    """Answers at once, from the driver's script."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **options: Any) -> ModelResponse:
        items = input if isinstance(input, list) else []
        outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
        answered: ModelResponse = self.driver.reply(outputs)
        return answered

    async def stream_response(self, *rest: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield


class Provider(ModelProvider):
    """Has the one model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def get_model(self, model_name: str | None) -> Model:
        """Return the model."""
        return self.model


class Driver(temporal_runs.Driver):
    """openai-agents in Temporal, driven."""

    @asynccontextmanager
    async def working(self, address: str) -> AsyncIterator[None]:
        params = ModelActivityParameters(start_to_close_timeout=TIMEOUT)
        plugin = OpenAIAgentsPlugin(model_params=params, model_provider=Provider(Model(self)))
        self.client = await Client.connect(address, plugins=[plugin])
        async with Worker(
            self.client,
            task_queue=temporal_runs.QUEUE,
            workflows=[AgentRun],
            activities=[lookup, wire],
            workflow_runner=SandboxedWorkflowRunner(restrictions=RESTRICTIONS),
        ):
            yield

    def call(self, turn: int, tool: str) -> ModelResponse:
        return reply(call(call_id(turn), tool, arguments_json(turn)))

    def final(self) -> ModelResponse:
        return reply(message(FINAL))

    async def start(self, workflow_id: str, max_turns: int) -> Any:
        return await self.client.start_workflow(AgentRun.run, max_turns, id=workflow_id, task_queue=temporal_runs.QUEUE)

    async def result(self, run: WorkflowHandle[AgentRun, str]) -> str:
        return await run.result()

    async def question(self, run: WorkflowHandle[AgentRun, str]) -> str | None:
        return await run.query(AgentRun.question)

    async def approve(self, run: WorkflowHandle[AgentRun, str], question: str) -> None:
        await run.signal(AgentRun.approve, question)


def make() -> Driver:
    """The driver."""
    return Driver()
