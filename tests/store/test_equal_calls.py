"""Asks that are found by their call: the newest equal one whose outcome nobody took."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assentry import Approve, Edit, Reject
from assentry.errors import Conflict, InvalidInput, NotPending
from assentry.outside import Approvals, RuleFile
from assentry.store import MemoryStore, SQLiteStore
from assentry.store.store import Store

ALLOW = RuleFile.parse('[[rule]]\nname = "reads"\nverdict = "allow"\ntool = "read*"\n')
KINDS = ("memory", "sqlite")


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Store]:
    async with MemoryStore() if kind == "memory" else SQLiteStore(folder / "runs.db") as store:
        yield store


def program(store: Store, **options: Any) -> Approvals:
    return Approvals(store, **{"source": "shop", "rules": ALLOW, **options})


async def decide(store: Store, asked: Any, decision: Any) -> None:
    await store.decide(asked.status.question, decision, by="ann", digest=asked.status.digest)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_equal_ask_is_the_same_until_its_outcome_is_taken(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        first = await program(store).ask("read", {"a": 1}, again=True)
        assert (await program(store).ask("read", {"a": 1}, again=True)).id == first.id
        await first.start()
        await first.finish({"found": 3})
        later = await program(store).ask("read", {"a": 1}, again=True)
        assert (later.id, later.status.state, later.status.output) == (first.id, "finished", {"found": 3})
        await later.take()
        await later.take()
        new = await program(store).ask("read", {"a": 1}, again=True)
        assert new.id != first.id and new.status.state == "approved"
        assert (await store.runs()).items[0].status == "done"
        assert await store.verify(first.id) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_an_outcome_may_be_taken_with_its_report(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        for report in ("finish", "fail"):
            asked = await program(store).ask("read", {"a": 1}, again=True)
            assert asked.status.state == "approved"
            await asked.start()
            await getattr(asked, report)("said", taken=True)
        assert len((await store.runs()).items) == 2


async def test_a_rejection_is_taken_too() -> None:
    store = MemoryStore()
    asked = await program(store).ask("write", {"a": 1}, again=True)
    await decide(store, asked, Reject("no"))
    told = await program(store).ask("write", {"a": 1}, again=True)
    assert told.status.state == "rejected" and told.status.message == "no"
    await told.take()
    assert (await program(store).ask("write", {"a": 1}, again=True)).status.state == "waiting"


async def test_an_edited_call_is_found_by_what_was_asked() -> None:
    store = MemoryStore()
    asked = await program(store).ask("write", {"a": 1}, again=True)
    await decide(store, asked, Edit({"a": 2}))
    assert (await program(store).ask("write", {"a": 1}, again=True)).status.arguments == {"a": 2}
    assert (await program(store).ask("write", {"a": 2}, again=True)).status.state == "waiting"


@pytest.mark.parametrize(
    "other",
    [
        {"definition": "v2"},
        {"server": "other"},
        {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        {"description": "Another tool."},
    ],
)
async def test_another_definition_or_server_is_another_call(other: dict[str, Any]) -> None:
    store = MemoryStore()
    first = await program(store).ask("write", {"a": 1}, again=True)
    await decide(store, first, Approve())
    second = await program(store).ask("write", {"a": 1}, again=True, **other)
    assert second.id != first.id and second.status.state == "waiting"


async def test_another_programs_call_is_another() -> None:
    store = MemoryStore()
    first = await program(store).ask("write", {"a": 1}, again=True)
    assert (await program(store, source="other").ask("write", {"a": 1}, again=True)).id != first.id


@pytest.mark.parametrize("kind", KINDS)
async def test_programs_that_ask_at_once_get_one_ask(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        asked = await asyncio.gather(*(program(store).ask("write", {"a": 1}, again=True) for _ in range(8)))
        assert len({each.id for each in asked}) == 1
        assert len((await store.questions()).items) == 1


async def test_what_has_no_outcome_cannot_be_taken() -> None:
    store = MemoryStore()
    asked = await program(store).ask("write", {"a": 1}, again=True)
    with pytest.raises(NotPending):
        await asked.take()
    await decide(store, asked, Approve())
    with pytest.raises(NotPending):
        await asked.take()
    await asked.start()
    with pytest.raises(NotPending):
        await asked.take()


@pytest.mark.parametrize("option", [{"key": "k"}, {"session": "s"}])
async def test_again_has_no_other_key(option: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="neither key nor session"):
        await program(MemoryStore()).ask("write", {}, again=True, **option)


async def test_a_session_named_like_a_call_is_not_taken_for_it() -> None:
    store = MemoryStore()
    first = await program(store).ask("write", {"a": 1}, again=True)
    thread = (await store.runs()).items[0].thread
    assert thread is not None
    mark = thread.rpartition("/")[2]
    forged = await program(store).ask("read", {"a": 9}, session=mark)
    found = await program(store).ask("write", {"a": 1}, again=True)
    assert found.id != forged.id and found.status.tool == "write" and found.status.arguments == {"a": 1}
    assert first.status.tool == "write"


async def test_a_cancelled_ask_gives_way_to_a_new_one() -> None:
    store = MemoryStore()
    first = await program(store).ask("write", {"a": 1}, again=True)
    await store.cancel(first.id, by="ann")
    assert (await program(store).ask("write", {"a": 1}, again=True)).id != first.id


async def test_a_call_whose_outcome_nobody_can_know_is_in_doubt_at_once() -> None:
    store = MemoryStore()
    asked = await program(store).ask("read", {"a": 1}, again=True)
    await asked.start()
    await asked.lose()
    assert asked.status.state == "doubt"
    with pytest.raises(Conflict):
        await asked.finish("late")
