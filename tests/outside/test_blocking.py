"""`SyncApprovals`: the same for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from assentry import Approve, NotApproved, NotDecided, Reject, SyncApprovals
from assentry.errors import DigestMismatch, RunBusy, UsageError
from assentry.store import MemoryStore
from tests.outside.support import BOT, AskingPlace
from tests.runtime.support import HANGS

ARGS = {"amount": 10}


def test_a_program_asks_waits_runs_and_reports(asking: AskingPlace) -> None:
    with asking.sync_approvals() as approvals:
        call = approvals.ask("pay", ARGS)
        with pytest.raises(NotDecided):
            call.decision(timeout=0)
        decided = threading.Thread(target=lambda: asyncio.run(asking.decide(call.status, Approve())))
        decided.start()
        assert call.run(lambda amount: f"paid {amount}", timeout=HANGS) == "paid 10"
        decided.join()
        assert (call.refresh().state, call.status.output) == ("finished", "paid 10")
        assert approvals.load(call.id).status.state == "finished"


def test_the_body_runs_on_the_callers_thread(asking: AskingPlace) -> None:
    with asking.sync_approvals() as approvals:
        call = approvals.ask("pay", ARGS)
        asyncio.run(asking.decide(call.status, Approve()))
        assert call.run(lambda amount: threading.get_ident()) == threading.get_ident()


def test_a_body_does_not_run_without_an_approval(asking: AskingPlace) -> None:
    ran: list[Any] = []
    with asking.sync_approvals() as approvals:
        call = approvals.ask("pay", ARGS, key="k")
        asyncio.run(asking.decide(call.status, Reject("no")))
        with pytest.raises(NotApproved, match="refused by ann: no"):
            approvals.run("pay", ARGS, ran.append, key="k")
        assert approvals.find("k").status.state == "rejected"
    assert ran == []


def test_a_body_that_was_interrupted_never_runs_a_second_time_by_itself(asking: AskingPlace) -> None:
    ran: list[int] = []

    def pay(amount: int) -> None:
        ran.append(amount)
        raise KeyboardInterrupt

    with asking.sync_approvals() as approvals:
        call = approvals.ask("pay", ARGS)
        asyncio.run(asking.decide(call.status, Approve()))
        with pytest.raises(KeyboardInterrupt):
            call.run(pay)
        with pytest.raises(RunBusy):
            call.run(pay)
        asking.clock.advance(61)
        assert call.refresh().state == "doubt"
    assert ran == [10]


def test_each_step_can_be_taken_by_itself(asking: AskingPlace) -> None:
    with asking.sync_approvals() as approvals:
        call = approvals.ask("pay", ARGS)
        asyncio.run(asking.decide(call.status, Approve()))
        with pytest.raises(DigestMismatch):
            call.start({"amount": 11})
        assert call.start(ARGS) == ARGS
        assert call.fail("the bank is closed").error == "the bank is closed"


def test_an_async_body_needs_the_other_class() -> None:
    async def pay(amount: int) -> None: ...

    with SyncApprovals(MemoryStore(), source=BOT) as approvals, pytest.raises(UsageError, match="Approvals"):
        approvals.ask("pay", ARGS).run(pay)


def test_what_was_closed_is_closed() -> None:
    approvals = SyncApprovals(MemoryStore(), source=BOT)
    approvals.close()
    approvals.close()
    with pytest.raises(UsageError, match="closed"):
        approvals.ask("pay", ARGS)


def test_a_program_with_an_event_loop_may_block_in_it() -> None:
    async def main() -> str:
        with SyncApprovals(MemoryStore(), source=BOT) as approvals:
            return approvals.ask("pay", ARGS).status.state

    assert asyncio.run(main()) == "waiting"
