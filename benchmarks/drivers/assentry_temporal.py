"""Assentry's runs in Temporal, with their store in an SQLite file."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from assentry import Agent, Approve, ModelRequest, ModelResponse
from assentry.store import SQLiteStore

try:
    from assentry.engines.temporal import AssentryPlugin, TemporalRuns
except ImportError as error:
    raise ImportError(f"runs in Temporal need assentry.engines.temporal, which was not imported: {error}") from error

from ..conversation import FINAL, PROMPT, SYSTEM
from . import assentry, temporal_runs


class Model:
    """Answers at once, from the driver's script."""

    name = "bench"

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def stream(self, request: ModelRequest) -> AsyncIterator[dict[str, Any] | ModelResponse]:
        """One reply, without deltas."""
        yield self.driver.reply(
            [item["output"] for item in request.input if item.get("type") == "function_call_output"]
        )


class Driver(temporal_runs.Driver):
    """Assentry in Temporal, driven."""

    path: Path
    runs: Any

    def __init__(self) -> None:
        super().__init__()
        tools = [assentry.lookup, assentry.wire]
        self.agent: Agent[Any] = Agent(name="bench", instructions=SYSTEM, tools=tools, model=Model(self))

    @asynccontextmanager
    async def working(self, address: str) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="assentry-benchmark-") as folder:
            self.path = Path(folder, "store.db")
            plugin = AssentryPlugin([self.agent], store=SQLiteStore(self.path))
            self.client = await Client.connect(address)
            self.runs = TemporalRuns(self.client, task_queue=temporal_runs.QUEUE)
            async with Worker(self.client, task_queue=temporal_runs.QUEUE, plugins=[plugin]):
                yield

    def call(self, turn: int, tool: str) -> ModelResponse:
        return assentry.reply(assentry.call(turn, 0, tool))

    def final(self) -> ModelResponse:
        return assentry.reply(assentry.message(FINAL))

    async def start(self, workflow_id: str, max_turns: int) -> Any:
        return await self.runs.start("bench", PROMPT, max_turns=max_turns)

    async def result(self, run: Any) -> str:
        ended = await run.result()
        text: str = ended if isinstance(ended, str) else ended.final_output
        return text

    async def question(self, run: Any) -> Any:
        return next(iter(await run.questions()), None)

    async def approve(self, run: Any, question: Any) -> None:
        await self.runs.decide(question.id, Approve(), by="ann", digest=question.digest)

    def beside(self) -> int:
        return sum(each.stat().st_size for each in self.path.parent.glob(f"{self.path.name}*"))


def make() -> Driver:
    """The driver."""
    return Driver()
