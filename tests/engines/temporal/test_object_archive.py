"""Runs on Temporal whose facts are in object storage: the inbox's store only catches up, and can be rebuilt."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client

from assentry import Approve, Reject, function_tool
from assentry.engines.temporal import (
    FolderStorage,
    ObjectArchive,
    StoreArchive,
    TemporalRuns,
    rebuild_projection,
    rebuild_projections,
)
from assentry.engines.temporal.message import Mark
from assentry.errors import Conflict, RunNotFound, StoreFailed, UsageError
from assentry.store import Change, Question, SQLiteStore, Store, Stored
from assentry.testing import ScriptedModel, call

from .support import Server, tool_agent, working
from .test_archive import journal, keep, mark_at, other, run_of

pytestmark = pytest.mark.temporal


class MovableStore(SQLiteStore):
    """A store that can be away."""

    away = False

    async def append(self, change: Change) -> None:
        self._reach()
        await super().append(change)

    async def load(self, run_id: str) -> Stored:
        self._reach()
        return await super().load(run_id)

    def _reach(self) -> None:
        if self.away:
            raise StoreFailed("The database is away.")


class Shop:
    """An agent that asks before each refund, and what it refunded."""

    def __init__(self, turns: int = 2) -> None:
        self.refunds: Counter[int] = Counter()
        self.turns = turns

    def agent(self) -> Any:
        @function_tool(needs_approval=True)
        async def refund(order_id: int) -> str:
            self.refunds[order_id] += 1
            return f"Refunded order {order_id}."

        script: list[Any] = [call("refund", {"order_id": number}) for number in range(self.turns)]
        return tool_agent(ScriptedModel([*script, "Done."]), refund)


async def shown(store: Store, question: str) -> Question:
    """A question of the store's, once the store has caught up."""
    for _ in range(600):
        found = [each for each in (await store.questions()).items if each.id == question]
        if found:
            return found[0]
        await asyncio.sleep(0.05)
    raise AssertionError("the store did not catch up")


async def count_activities(client: Client, run_id: str, name: str) -> int:
    """The number of activities of a name that a workflow has scheduled."""
    events = (await client.get_workflow_handle(run_id).fetch_history()).events
    named = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
    return named.count(name)


async def test_the_inbox_sees_questions_and_the_end_of_a_run_in_objects(temporal: Server, tmp_path: Path) -> None:
    shop, client = Shop(), await temporal.client()
    archive = ObjectArchive(FolderStorage(tmp_path / "objects"))
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        async with working(client, shop.agent(), store, archive=archive, cached=0) as runs:
            run = await runs.start("Shop", "Nothing came.", context={"user": "ann"})
            first = (await run.settled()).questions[0]
            seen = await shown(store, first.id)
            assert (seen.digest, seen.tool) == (first.digest, "refund")
            assert seen.definition is not None
            assert await store.definition(seen.definition) is not None
            await runs.decide(first.id, Approve(), by="ann", digest=first.digest)
            second = (await run.settled()).questions[0]
            await shown(store, second.id)
            assert (await store.question(first.id)).verdict == "approve"
            await runs.decide(second.id, Reject("No."), by="bob", digest=second.digest)
            assert await run.result() == "Done."
            standing = await run.standing()
        assert shop.refunds == {0: 1}
        record = await store.record(run.id)
        assert (record.status, record.seq, standing.kept) == ("done", standing.seq, Mark(standing.seq, standing.head))
        assert await store.verify(run.id) == []
        assert (await store.load(run.id)).context.json == b'{"user":"ann"}'
        assert 3 <= await count_activities(client, run.id, "assentry_project") <= 6


async def test_without_another_archive_nothing_is_projected(temporal: Server, tmp_path: Path) -> None:
    shop, client = Shop(0), await temporal.client()
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, shop.agent(), store) as runs:
            run = await runs.start("Shop", "Hello.")
            assert await run.result() == "Done."
        assert await count_activities(client, run.id, "assentry_project") == 0


async def test_a_run_goes_on_while_the_store_is_away(temporal: Server, tmp_path: Path) -> None:
    shop, client = Shop(4), await temporal.client()
    archive = ObjectArchive(FolderStorage(tmp_path / "objects"))
    async with MovableStore(tmp_path / "inbox.db") as store:
        store.away = True
        async with working(client, shop.agent(), store, archive=archive) as runs:
            run = await runs.start("Shop", "Nothing came.")
            for _ in range(3):
                asked = (await run.settled()).questions[0]
                await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            last = (await run.settled()).questions[0]
            assert shop.refunds == {0: 1, 1: 1, 2: 1}
            assert (await store.runs()).items == []
            store.away = False
            await shown(store, last.id)
            assert [each.verdict for each in (await store.questions(settled=True)).items] == ["approve"] * 3
            store.away = True
            await runs.decide(last.id, Approve(), by="ann", digest=last.digest)
            assert (await run.settled()).status == "done"
            store.away = False
            assert await run.result() == "Done."
        assert (await store.record(run.id)).status == "done"
        assert await store.verify(run.id) == []
        assert await count_activities(client, run.id, "assentry_project") <= 5  # those of three turns are one


async def test_a_store_is_rebuilt_from_archive_and_workflows(temporal: Server, tmp_path: Path) -> None:
    shop, client = Shop(), await temporal.client()
    archive = ObjectArchive(FolderStorage(tmp_path / "objects"))
    queue = "rebuilt"
    async with SQLiteStore(tmp_path / "inbox.db") as store, SQLiteStore(tmp_path / "new.db") as new:  # noqa: SIM117
        async with working(client, shop.agent(), store, archive=archive, queue=queue) as runs:
            run = await runs.start("Shop", "Nothing came.")
            asked = (await run.settled()).questions[0]
            added = await rebuild_projection(runs, archive, new, run.id)
            assert added == (await new.record(run.id)).seq
            assert (await new.question(asked.id)).digest == asked.digest
            assert await rebuild_projection(runs, archive, new, run.id) == 0

            await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            second = (await run.settled()).questions[0]
            assert await rebuild_projection(runs, archive, new, run.id) > 0  # it was behind
            await runs.decide(second.id, Approve(), by="ann", digest=second.digest)
            await run.result()
            found = {id: added async for id, added in rebuild_projections(runs, archive, new) if id == run.id}
            assert isinstance(found[run.id], int)
            assert found[run.id] > 0
            assert (await new.record(run.id)).status == "done"
            assert await new.verify(run.id) == []

            with pytest.raises(UsageError, match="the archive itself"):
                await rebuild_projection(runs, StoreArchive(store), store, run.id)
            with pytest.raises(RunNotFound):
                await rebuild_projection(runs, archive, new, "never")


async def test_a_rebuild_refuses_a_store_with_other_facts(temporal: Server, tmp_path: Path) -> None:
    facts, runs = await journal(), TemporalRuns(await temporal.client())
    archive = ObjectArchive(FolderStorage(tmp_path / "objects"))
    await keep(archive, facts, 0, 4)
    await keep(archive, facts, 4, len(facts))
    async with SQLiteStore(tmp_path / "inbox.db") as store, SQLiteStore(tmp_path / "new.db") as new:
        wrong = other(facts, 2)
        await StoreArchive(store).keep(run_of(facts), Mark(), wrong[:5], mark_at(wrong, 5).head, None)
        with pytest.raises(Conflict, match="empty store"):
            await rebuild_projection(runs, archive, store, run_of(facts))
        # Temporal never had this run, or has forgotten it: the archive knows where it ended.
        assert await rebuild_projection(runs, archive, new, run_of(facts)) == len(facts)


async def test_two_workers_share_a_folder(temporal: Server, tmp_path: Path) -> None:
    client, queue = await temporal.client(), "shared"
    refunds: Counter[str] = Counter()

    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        refunds[order] += 1
        return "ok"

    def agent(order: str) -> Any:
        script = [call("refund", {"order": f"{order}{number}"}) for number in range(3)]
        return tool_agent(ScriptedModel([*script, "Done."]), refund, name=order)

    def archive() -> ObjectArchive:
        return ObjectArchive(FolderStorage(tmp_path / "objects"))

    names = [f"order{letter}" for letter in "abcdefgh"]
    agents = [agent(name) for name in names]
    options: dict[str, Any] = {"queue": queue}
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        async with (
            working(client, agents, store, archive=archive(), **options) as runs,
            working(await temporal.client(), agents, store, archive=archive(), **options),
        ):
            begun = [await runs.start(name, "Go.") for name in names]
            for _ in range(3):
                for run in begun:
                    asked = (await run.settled()).questions[0]
                    await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            assert [await run.result() for run in begun] == ["Done."] * len(names)
        assert refunds == {f"{name}{number}": 1 for name in names for number in range(3)}
        for run in begun:
            assert await store.verify(run.id) == []
            assert (await store.record(run.id)).status == "done"


async def test_a_run_that_continues_as_new_goes_on_in_objects(temporal: Server, tmp_path: Path) -> None:
    shop, client = Shop(6), await temporal.client()
    archive = ObjectArchive(FolderStorage(tmp_path / "objects"))
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        async with working(client, shop.agent(), store, archive=archive, continue_after=40) as runs:
            run = await runs.start("Shop", "Nothing came.")
            for _ in range(6):
                asked = (await run.settled()).questions[0]
                await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            assert await run.result() == "Done."
            assert (await run.standing()).executions > 1
        assert shop.refunds == dict.fromkeys(range(6), 1)
        assert await store.verify(run.id) == []
        assert (await store.record(run.id)).status == "done"


async def test_a_workflow_that_was_reset_begins_nothing_again(temporal: Server, tmp_path: Path) -> None:
    shop, client = Shop(), await temporal.client()
    archive = ObjectArchive(FolderStorage(tmp_path / "objects"))
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        async with working(client, shop.agent(), store, archive=archive) as runs:
            run = await runs.start("Shop", "Nothing came.")
            first = (await run.settled()).questions[0]
            await runs.decide(first.id, Approve(), by="ann", digest=first.digest)
            await run.settled()
            history = await run.handle.fetch_history()
            started = next(
                event for event in history.events if event.HasField("workflow_task_completed_event_attributes")
            )
            await client.workflow_service.reset_workflow_execution(
                ResetWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=run.id),
                    reason="test",
                    workflow_task_finish_event_id=started.event_id,
                    request_id="1",
                )
            )
            with pytest.raises(Conflict, match=r"from fact 1 on\. The workflow was reset"):
                await runs.get(run.id).result()
        assert shop.refunds == {0: 1}
