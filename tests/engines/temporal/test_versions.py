"""Versions: every recorded history is replayed, and a run goes on with another definition or another version.

The replays need no server. How to record new stories is said in `recorded`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer

from assentry import Agent, AgentRegistry, Approve, Respond, RunConfig, function_tool
from assentry.core import facts as f
from assentry.engines.temporal import AssentryPlugin, TemporalRun, TemporalRuns
from assentry.engines.temporal import message as m
from assentry.engines.temporal.ledger import Ledger
from assentry.engines.temporal.workflow import RunWorkflow
from assentry.runtime import drive
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import ScriptedModel, call

from .recorded import STORIES, WORKER, Scene, files_of, history_from, read_history, recorded, write_histories
from .support import Server, tool_agent, working

pytestmark = pytest.mark.temporal

LARGEST = 450_000
"""The most bytes of all recorded histories."""


# -- recorded histories ------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("ASSENTRY_WRITE"), reason="writes recorded histories with ASSENTRY_WRITE=1")
@pytest.mark.parametrize("story", [story for story in STORIES if not files_of(story)])
async def test_record(temporal: Server, tmp_path: Path, story: str) -> None:
    await temporal.client()  # once it is up
    client = await Client.connect(temporal.address, identity=WORKER)
    run = await STORIES[story](Scene(client, tmp_path, f"record-{story}"))
    await write_histories(client, story, run.id)


def test_every_story_is_recorded_and_says_nothing_of_a_machine() -> None:
    assert [story for story in STORIES if not files_of(story)] == []
    assert sum(file.stat().st_size for file in recorded()) < LARGEST
    for file in recorded():
        text = file.read_text("utf-8")
        text += "".join(b64decode(data).decode() for data in re.findall(r'"data":"([^"]+)"', text))
        assert re.findall(r"/tmp|/home|/Users|/work|\d+@\w+|stackTrace|identity|\.py\b", text) == [], file


@pytest.mark.parametrize("file", recorded(), ids=lambda file: file.stem)
async def test_every_recorded_history_is_replayed(file: Path) -> None:
    await Replayer(workflows=[RunWorkflow]).replay_workflow(read_history(file))


async def test_the_plugin_replays_histories_of_agents_that_it_does_not_have() -> None:
    plugin = AssentryPlugin(Agent("Other"), store=MemoryStore())
    replayer = Replayer(workflows=[], plugins=[plugin])
    results = await replayer.replay_workflows(all_histories(), raise_on_replay_failure=False)
    assert results.replay_failures == {}


async def all_histories(change: Callable[[str], str] = str) -> AsyncIterator[WorkflowHistory]:
    for file in recorded():
        yield history_from(json.loads(change(file.read_text("utf-8"))))


@pytest.mark.parametrize("version", ["1.7.0", "2.0.0"])
async def test_histories_of_another_sdk_and_another_assentry_are_replayed(version: str) -> None:
    def change(text: str) -> str:
        changed = text.replace('"sdkVersion":"1.35.0"', f'"sdkVersion":"{version}"')
        assert changed != text
        return re.sub(r'(?<="data":")[^"]+', lambda found: as_made_by(version, found[0]), changed)

    replayer = Replayer(workflows=[RunWorkflow])
    results = await replayer.replay_workflows(all_histories(change), raise_on_replay_failure=False)
    assert results.replay_failures == {}


def as_made_by(version: str, data: str) -> str:
    """A payload in whose facts another version of Assentry began the run."""
    plain = re.sub(rb'"version":"[0-9.a-z]+","engine"', b'"version":"%b","engine"' % version.encode(), b64decode(data))
    return b64encode(plain).decode()


# -- the replays can fail ----------------------------------------------------------------------------


def another_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(m, "KEEP", "assentry_write")


def another_order(patch: pytest.MonkeyPatch) -> None:
    true = RunWorkflow._keep

    async def keep(self: RunWorkflow) -> None:
        await workflow.sleep(1)
        await true(self)

    patch.setattr(RunWorkflow, "_keep", keep)


def no_attributes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunWorkflow, "_show", lambda self: None)


def no_projection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunWorkflow, "_project", lambda self: None)


def no_deadlines(patch: pytest.MonkeyPatch) -> None:
    async def wait(self: RunWorkflow, before: int) -> None:
        await workflow.wait_condition(lambda: self._news > before)

    patch.setattr(RunWorkflow, "_wait", wait)


def no_second_execution(patch: pytest.MonkeyPatch) -> None:
    async def stay(self: RunWorkflow, before: int) -> None:
        await self._wait(before)

    patch.setattr(RunWorkflow, "_continue", stay)


def resets_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunWorkflow, "_refuse_reset", lambda self: None)


def another_core(patch: pytest.MonkeyPatch) -> None:
    """Find old facts illegal, as a core with other rules would."""
    true = Ledger.take

    def take(self: Ledger, facts: Any) -> int:
        return true(self, [fact for fact in facts if type(fact) is not f.Concluded])

    patch.setattr(Ledger, "take", take)


MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], set[str]] = {
    another_name: {"each_verdict", "nested_agents", "a_run_that_waits"},
    another_order: {"each_verdict", "nested_agents", "a_run_that_waits"},
    no_attributes: {"each_verdict", "a_handoff", "a_run_that_waits"},
    no_projection: {"an_object_archive"},
    no_deadlines: {"a_deadline_that_expires"},
    no_second_execution: {"continued_as_new-1"},
    resets_unseen: {"reset_by_an_operator"},
    another_core: {"each_verdict"},
}


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
async def test_a_workflow_that_schedules_otherwise_fails(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    failed: dict[str, Exception] = {}
    for file in recorded():
        result = await Replayer(workflows=[RunWorkflow]).replay_workflow(
            read_history(file), raise_on_replay_failure=False
        )
        if result.replay_failure is not None:
            failed[file.stem] = result.replay_failure
    assert MUTANTS[mutate] <= failed.keys()
    assert {type(error) for error in failed.values()} == {workflow.NondeterminismError}


# -- another definition ------------------------------------------------------------------------------


class Till:
    """Refunds, and the version of the tool that made each."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, int]] = []

    def agent(self, version: str, *, tools: bool = True, calls: int = 1) -> Agent[Any]:
        @function_tool(needs_approval=True, description_override=f"Give money back, as in version {version}.")
        async def refund(order: int) -> str:
            self.refunds.append((version, order))
            return f"Refunded {order}."

        def answer(request: Any) -> Any:
            done = sum(item.get("type") == "function_call_output" for item in request.input)
            return "Done." if done else [call("refund", {"order": 7 + number}) for number in range(calls)]

        return tool_agent(ScriptedModel([answer] * 9), *([refund] if tools else []))


async def asked(run: TemporalRun) -> m.Waiting:
    [question] = (await run.settled()).questions
    return question


async def approve(runs: TemporalRuns, question: m.Waiting) -> None:
    await runs.decide(question.id, Approve(), by="ann", digest=question.digest)


@pytest.mark.parametrize("cached", [0, 1000])
async def test_a_tool_that_changed_while_the_run_waited_is_put_to_a_person_again(
    temporal: Server, tmp_path: Path, cached: int
) -> None:
    client, till, place = await temporal.client(), Till(), {"queue": f"changed-{cached}", "cached": cached}
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, till.agent("A"), store, **place) as runs:
            run = await runs.start("Shop", "Go.")
            first = await asked(run)
        async with working(client, till.agent("B"), store, **place) as runs:
            await approve(runs, first)
            second = await asked(run)
            assert second.id != first.id
            assert re.fullmatch(r"Tool 'refund' has changed since call \w+ was made\.", second.why)
            assert (await store.question(second.id)).digest == second.digest
            assert till.refunds == []
            await approve(runs, second)
            assert await run.result() == "Done."
        assert till.refunds == [("B", 7)]
        assert await store.verify(run.id) == []
    await Replayer(workflows=[RunWorkflow]).replay_workflow(await run.handle.fetch_history())


async def test_calls_beside_each_other_are_each_asked_about_again_once(temporal: Server, tmp_path: Path) -> None:
    """Several activities find at the same time that the tool of the call that still waits has changed."""
    client, till, place = await temporal.client(), Till(), {"queue": "beside"}
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, till.agent("A", calls=3), store, **place) as runs:
            run = await runs.start("Shop", "Go.")
            questions = (await run.settled()).questions
        async with working(client, till.agent("B", calls=3), store, **place) as runs:
            await asyncio.gather(*(approve(runs, each) for each in questions[:2]))
            questions = (await run.settled()).questions
            assert [bool(each.why) for each in questions] == [True] * 3
            assert till.refunds == []
            for each in questions:
                await approve(runs, each)
            assert await run.result() == "Done."
        assert sorted(till.refunds) == [("B", 7), ("B", 8), ("B", 9)]
        assert await store.verify(run.id) == []


async def test_a_run_is_routed_to_the_definition_it_was_made_with(temporal: Server, tmp_path: Path) -> None:
    client, till, place = await temporal.client(), Till(), {"queue": "routed"}
    both = AgentRegistry()
    for version in ("A", "B"):
        both.add(till.agent(version), version=version)
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, till.agent("A"), store, **place) as runs:
            old = await runs.start("Shop", "Go.")
            question = await asked(old)
        async with working(client, both, store, **place) as runs:
            await approve(runs, question)
            assert await old.result() == "Done."
            new = await runs.start("Shop", "Go.")
            await approve(runs, await asked(new))
            assert await new.result() == "Done."
        assert till.refunds == [("A", 7), ("B", 7)]
        assert len([each for each in (await store.read(old.id)).facts if type(each) is f.Asked]) == 1


async def test_a_tool_that_is_gone_can_only_be_answered_for(temporal: Server, tmp_path: Path) -> None:
    client, till, place = await temporal.client(), Till(), {"queue": "gone"}
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, till.agent("A"), store, **place) as runs:
            run = await runs.start("Shop", "Go.")
            first = await asked(run)
        agent = till.agent("A", tools=False)
        async with working(client, agent, store, **place) as runs:
            await approve(runs, first)
            second = await asked(run)
            assert second.why.startswith("Tool 'refund' is gone since")
            assert set(second.allowed) == {"respond", "reject"}
            await runs.decide(second.id, Respond("Refunded by hand."), by="ann", digest=second.digest)
            assert await run.result() == "Done."
        assert till.refunds == []
        assert isinstance(agent.model, ScriptedModel)
        assert "Refunded by hand." in str(agent.model.requests[-1].input[-1])


async def test_a_change_that_is_accepted_asks_nobody(temporal: Server, tmp_path: Path) -> None:
    client, till, place = await temporal.client(), Till(), {"queue": "accepted"}
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, till.agent("A"), store, **place) as runs:
            run = await runs.start("Shop", "Go.")
            question = await asked(run)
        async with working(client, till.agent("B"), store, run_config=RunConfig(on_change="accept"), **place) as runs:
            await approve(runs, question)
            assert await run.result() == "Done."
        assert till.refunds == [("B", 7)]
        kinds = [type(fact) for fact in (await store.read(run.id)).facts]
        assert (kinds.count(f.Asked), kinds.count(f.Redefined)) == (1, 1)


async def test_a_change_that_is_refused_waits_for_the_old_definition(temporal: Server, tmp_path: Path) -> None:
    client, till, place = await temporal.client(), Till(), {"queue": "refused"}
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, till.agent("A"), store, **place) as runs:
            run = await runs.start("Shop", "Go.")
            question = await asked(run)
        async with working(client, till.agent("B"), store, run_config=RunConfig(on_change="refuse"), **place) as runs:
            await approve(runs, question)
            while not any("has changed" in failed for failed in await failures(run)):
                pass  # each look is a request to the server
        assert till.refunds == []
        async with working(client, till.agent("A"), store, **place) as runs:
            assert await run.result() == "Done."
        assert till.refunds == [("A", 7)]


async def failures(run: TemporalRun) -> list[str]:
    """The messages of the activities that failed."""
    events = (await run.handle.fetch_history()).events
    return [event.activity_task_failed_event_attributes.failure.message for event in events]


# -- another version of Assentry ---------------------------------------------------------------------


async def test_a_run_of_another_version_of_assentry_goes_on(
    temporal: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, till, place = await temporal.client(), Till(), {"queue": "older", "cached": 0}
    async with SQLiteStore(tmp_path / "runs.db") as store:
        with monkeypatch.context() as patch:
            patch.setattr(drive, "__version__", "0.0.1")
            async with working(client, till.agent("A"), store, **place) as runs:
                run = await runs.start("Shop", "Go.")
                question = await asked(run)
        async with working(client, till.agent("A"), store, **place) as runs:
            await approve(runs, question)
            assert await run.result() == "Done."
        began = (await store.read(run.id)).facts[0]
        assert isinstance(began, f.Began)
        assert began.version == "0.0.1"
        assert till.refunds == [("A", 7)]
        assert await store.verify(run.id) == []
