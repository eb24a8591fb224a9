"""Long runs: the history stays linear, and a workflow continues as new without losing anything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from assentry import Approve, Reject, function_tool
from assentry.engines.temporal import TemporalRun
from assentry.errors import AlreadyDecided, NotPending
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call

from .support import Server, tool_agent, working

pytestmark = pytest.mark.temporal

TEXT = "x" * 500


@function_tool
async def look(turn: int) -> str:
    return f"{turn}: {TEXT}"


@function_tool(needs_approval=True)
async def act(turn: int) -> str:
    return f"did {turn}"


def outputs(request: Any) -> list[str]:
    return [str(item["output"]) for item in request.input if item.get("type") == "function_call_output"]


def script(turns: int, every: int = 0) -> ScriptedModel:
    """A model that calls a tool in each turn, and in every so manieth one that a person must agree to."""

    def answer(request: Any) -> Any:
        done = len(outputs(request))
        if done == turns:
            return f"Done: {done}."
        return call("act" if every and done % every == every - 1 else "look", {"turn": done})

    return ScriptedModel([answer] * (turns + 1))


async def sizes(client: Client, run: TemporalRun) -> list[int]:
    """The bytes of history before each model call, over all executions of the workflow."""
    found, total, run_id = [0], 0, (await run.handle.describe()).run_id
    chain: list[list[int]] = []
    first = run_id
    while first:
        history = await client.get_workflow_handle(run.id, run_id=first).fetch_history()
        part: list[int] = []
        for event in history.events:
            size = event.ByteSize()
            begins = event.activity_task_scheduled_event_attributes.activity_type.name in (
                "assentry_begin",
                "assentry_advance",
            )
            part.append(-size if begins else size)
        chain.insert(0, part)
        first = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    for part in chain:
        for size in part:
            if size < 0:
                found.append(total)
            total += abs(size)
    return found


@pytest.mark.longest
async def test_400_turns_through_continue_as_new_have_a_linear_history(temporal: Server, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        client, agent = await temporal.client(), tool_agent(script(400, every=40), look, act)
        async with working(client, agent, store, queue="long", continue_after=1000) as runs:
            run = await runs.start("Shop", "Go on.", max_turns=500)
            asked: list[Any] = []
            while (standing := await run.settled()).status == "waiting":
                question = standing.questions[0]
                asked.append(question)
                await runs.decide(question.id, Approve(), by="ann", digest=question.digest)
                if len(asked) == 9:  # decided in an execution of the workflow that is over
                    early = asked[0]
                    with pytest.raises((AlreadyDecided, NotPending)):
                        await runs.decide(early.id, Reject(), by="bob", digest=early.digest)
                    await runs.decide(early.id, Approve(), by="ann", digest=early.digest)
            assert await run.result() == "Done: 400."
            assert standing.executions > 3
            assert len(asked) == 10
            at = await sizes(client, run)
        assert await store.verify(run.id) == []
        early, late = at[20] - at[10], at[-10] - at[-20]
        assert late < 1.3 * early, (early, late)  # without the conversation, ten turns are ten turns


async def test_a_decision_that_arrives_as_the_workflow_continues_is_not_lost(temporal: Server, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        agent = tool_agent(script(30, every=1), look, act)
        async with working(await temporal.client(), agent, store, queue="racing", continue_after=1) as runs:
            run = await runs.start("Shop", "Go on.", max_turns=500)
            for _ in range(30):
                question = (await run.settled()).questions[0]
                verdicts = await asyncio.gather(
                    runs.decide(question.id, Approve(), by="ann", digest=question.digest),
                    runs.decide(question.id, Reject("no"), by="bob", digest=question.digest),
                    return_exceptions=True,
                )
                assert sum(isinstance(each, BaseException) for each in verdicts) == 1, verdicts
            assert await run.result() == "Done: 30."
            standing = await run.standing()
            assert standing.executions > 10
        assert await store.verify(run.id) == []


async def test_a_question_that_is_open_is_carried_over_with_its_grants(temporal: Server, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        agent = tool_agent(script(60, every=5), look, act)
        async with working(await temporal.client(), agent, store, queue="carried", continue_after=120) as runs:
            run = await runs.start("Shop", "Go on.", max_turns=500, context={"who": "ann"})
            question = (await run.settled()).questions[0]
            await runs.decide(question.id, Approve(), by="ann", digest=question.digest, grant={"max_uses": 3})
            standing = await run.settled()
            assert [question.arguments for question in standing.questions] == ['{"turn":24}']
            question = standing.questions[0]
            await runs.decide(question.id, Approve(), by="ann", digest=question.digest, grant=True)
            assert await run.result() == "Done: 60."
        assert await store.verify(run.id) == []
