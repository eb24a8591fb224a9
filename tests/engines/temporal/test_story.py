"""The story of a run on Temporal: it asks, waits, is decided by whoever has the question's id, and runs once."""

from __future__ import annotations

from pathlib import Path

import pytest

from assentry import Approve, Edit, Reject, function_tool
from assentry.errors import AlreadyDecided, DigestMismatch, InvalidArguments, QuestionNotFound
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call

from .support import Server, tool_agent, working

pytestmark = pytest.mark.temporal


async def test_a_run_waits_is_decided_and_ends(temporal: Server, tmp_path: Path) -> None:
    ran: list[tuple[int, float]] = []

    @function_tool(needs_approval=True)
    async def refund(order_id: int, amount: float) -> str:
        ran.append((order_id, amount))
        return f"Refunded {amount:.2f} on order {order_id}."

    script = [
        call("refund", {"order_id": 7, "amount": 90}),
        call("refund", {"order_id": 8, "amount": 5}),
        "Done.",
    ]
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(await temporal.client(), tool_agent(ScriptedModel(script), refund), store, cached=0) as runs:
            run = await runs.start("Shop", "My order 7 never came.")
            first = await run.settled()
            assert (first.status, [each.tool for each in first.questions]) == ("waiting", ["refund"])
            asked = first.questions[0]
            assert asked.arguments == '{"amount":90,"order_id":7}'
            assert (await store.question(asked.id)).digest == asked.digest  # the inbox has it, too

            with pytest.raises(DigestMismatch):
                await runs.decide(asked.id, Approve(), by="ann", digest="0" * 64)
            with pytest.raises(QuestionNotFound):
                await runs.decide(asked.id[:-8] + "00000000", Approve(), by="ann", digest=asked.digest)
            recorded = await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            assert (recorded.verdict, recorded.by) == ("approve", "ann")
            with pytest.raises(AlreadyDecided, match="approved by ann") as refused:
                await runs.decide(asked.id, Reject("no"), by="bob", digest=asked.digest)
            assert (refused.value.by, refused.value.verdict, refused.value.at) == ("ann", "approve", recorded.at)
            again = await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            assert again.verdict == "approve"

            second = (await run.settled()).questions[0]
            with pytest.raises(InvalidArguments, match="whole number"):
                await runs.decide(second.id, Edit({"order_id": "x", "amount": 1}), by="ann", digest=second.digest)
            await runs.decide(second.id, Edit({"order_id": 8, "amount": 4.5}), by="ann", digest=second.digest)
            assert await run.result() == "Done."
        assert ran == [(7, 90.0), (8, 4.5)]
        assert await store.verify(run.id) == []
        assert (await store.record(run.id)).status == "done"
