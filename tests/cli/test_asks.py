"""Calls of programs outside on the command line: listed, shown, decided and exported like any other."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from assentry.approval.foreign_call import CallRequest
from assentry.cli import main
from assentry.errors import DigestMismatch
from assentry.store import SQLiteStore, Store
from assentry.store.call_status import CallStatus
from assentry.store.calls import ask_about_call, finish_call, look_at_call, start_call

BOT = "billing-bot"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CallStatus:
    """An ask in the store of the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSENTRY_STORE", "runs.db")

    async def ask() -> CallStatus:
        request = CallRequest(
            source="claude", tool="pay", arguments={"amount": 10}, says="It is due.", preview="Pays 10.", session="s1"
        )
        async with SQLiteStore("runs.db") as store:
            return (await ask_about_call(store, request, by=BOT))[0]

    return asyncio.run(ask())


async def report(status: CallStatus) -> None:
    async with SQLiteStore("runs.db") as store:
        with contextlib.suppress(DigestMismatch):
            await start_call(store, status.id, by=BOT, holder="h", arguments={"amount": 9000})
        await start_call(store, status.id, by=BOT, holder="h")
        await finish_call(store, status.id, by=BOT, holder="h", output="paid 10")


async def state_of(store: Store, status: CallStatus) -> str:
    async with store:
        return (await look_at_call(store, status.id, by=BOT)).state


def test_a_call_is_listed_shown_approved_and_exported(
    asked: CallStatus, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def told(*words: str) -> str:
        assert main(words) == 0
        return capsys.readouterr().out

    listed = told("questions", "list")
    assert "billing-bot:claude" in listed
    assert "pay" in listed
    shown = told("questions", "show", str(asked.question))
    assert "billing-bot:claude says: Pays 10." in shown
    assert "Assentry has not checked it" in shown
    told("approve", str(asked.question), "--by", "ann", "--yes")
    assert asyncio.run(state_of(SQLiteStore("runs.db"), asked)) == "approved"
    asyncio.run(report(asked))
    run = told("runs", "show", asked.id)
    assert "billing-bot:claude" in run
    assert "9000" in told("runs", "show", asked.id, "--json") + run
    assert "done" in told("runs", "list")
    told("db", "verify")
    export = told("audit", "export")
    assert asked.id in export
    assert "caller" in export
