"""Messages that no client of Assentry's sends: they are refused or ignored, and the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError

from assentry import Approve, function_tool
from assentry.core import facts as f
from assentry.engines.temporal import message as m
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call

from .support import QUEUE, Server, tool_agent, working

pytestmark = pytest.mark.temporal


@function_tool(needs_approval=True)
async def wipe(disk: str) -> str:
    return f"{disk} is empty"


def agent() -> Any:
    return tool_agent(ScriptedModel([call("wipe", {"disk": "sda"}), "Done."]), wipe, name="Admin")


async def test_forged_signals_and_updates_change_nothing(temporal: Server, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store, working(await temporal.client(), agent(), store) as runs:
        run = await runs.start("Admin", "Make room.")
        before = await run.settled()
        asked = before.questions[0]
        call_id = (await store.question(asked.id)).call
        approved = f.Approved(call_id, "ann", asked.id)
        await run.handle.signal("stepped", m.to_wire(m.Report(facts=[approved])))
        await run.handle.signal("stepped", "no report")
        await run.handle.signal("stepped", {"facts": [{"fact": "unheard of"}]})
        for name, given in (("decide", {"question": 7}), ("decide", "x"), ("tell", {"kind": "dance", "by": "ann"})):
            with pytest.raises(WorkflowUpdateFailedError):
                await run.handle.execute_update(name, given)
        after = await run.settled()
        assert (after.seq, after.questions) == (before.seq, before.questions)
        await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        assert await run.result() == "Done."


async def test_a_workflow_with_an_input_that_cannot_be_read_fails_at_once(temporal: Server, tmp_path: Path) -> None:
    client = await temporal.client()
    async with SQLiteStore(tmp_path / "runs.db") as store, working(client, agent(), store):
        run = await client.start_workflow(m.WORKFLOW, {"opening": {"agent": 7}}, id="odd", task_queue=QUEUE)
        with pytest.raises(WorkflowFailureError) as failed:
            await run.result()
        assert "no Start" in str(failed.value.cause)
