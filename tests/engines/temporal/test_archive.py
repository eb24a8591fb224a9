"""Archives: what each of them promises, and what the one in object storage does with objects. No server is needed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from obstore.store import LocalStore
from obstore.store import MemoryStore as MemoryObjects

from assentry import Agent, Runner, function_tool
from assentry.core import facts as f
from assentry.core.facts import AnyFact
from assentry.engines.temporal import (
    FolderStorage,
    JournalArchive,
    ObjectArchive,
    ObjectStorage,
    ObstoreStorage,
    StoreArchive,
)
from assentry.engines.temporal.chunk import PAGE, folder_of, linked_rows
from assentry.engines.temporal.message import Mark
from assentry.engines.temporal.store_projection import StoreProjection
from assentry.errors import Conflict, RunNotFound, StoreFailed, UnreadableState, UsageError
from assentry.runtime.state import resumption
from assentry.store import MemoryStore, SavedContext, SQLiteStore
from assentry.testing import ScriptedModel, call


async def journal(turns: int = 3, size: int = 10, *, asks: bool = False) -> list[AnyFact]:
    """The facts of a run with so many calls of a tool, each with an output of so many letters."""

    @function_tool
    async def look(number: int) -> str:
        return f"{number}:" + "x" * size

    @function_tool(needs_approval=True)
    async def wipe(disk: str) -> str:
        return disk

    script: list[Any] = [call("look", {"number": number}) for number in range(turns)]
    script.append(call("wipe", {"disk": "sda"}) if asks else "Done.")
    agent = Agent(name="Admin", tools=[look, wipe], model=ScriptedModel(script))
    result = await Runner.run(agent, "Look.", max_turns=turns + 2)
    return list(resumption(result.to_state()).journal.facts)


def run_of(facts: list[AnyFact]) -> str:
    assert isinstance(facts[0], f.Began)
    return facts[0].run


def mark_at(facts: list[AnyFact], seq: int) -> Mark:
    """The mark after the first facts."""
    return Mark(seq, linked_rows(run_of(facts), Mark(), facts[:seq])[1][seq]) if seq else Mark()


async def keep(
    archive: JournalArchive, facts: list[AnyFact], start: int, stop: int, context: SavedContext | None = None
) -> Mark:
    """Keep the facts from one number to another, and return the mark after them."""
    after = mark_at(facts, stop)
    await archive.keep(run_of(facts), mark_at(facts, start), facts[start:stop], after.head, context)
    return after


def other(facts: list[AnyFact], seq: int) -> list[AnyFact]:
    """The same facts, but the one with this number happened a little later."""
    return [*facts[: seq - 1], replace(facts[seq - 1], at=facts[seq - 1].at + 7), *facts[seq:]]


KINDS = ["sqlite", "memory", "folder", "objects in memory", "objects in files"]


@pytest.fixture(params=KINDS)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalArchive]:
    if request.param == "sqlite":
        store = SQLiteStore(tmp_path / "runs.db")
        yield StoreArchive(store)
        asyncio.run(store.close())
    elif request.param == "memory":
        yield StoreArchive(MemoryStore())
    elif request.param == "folder":
        yield ObjectArchive(FolderStorage(tmp_path / "objects"))
    elif request.param == "objects in memory":
        yield ObjectArchive(ObstoreStorage(MemoryObjects()))
    else:
        (tmp_path / "objects").mkdir()
        yield ObjectArchive(ObstoreStorage(LocalStore(tmp_path / "objects")))


# -- what every archive promises -----------------------------------------------------------------------


async def test_facts_that_were_kept_are_loaded(archive: JournalArchive) -> None:
    facts = await journal()
    context = SavedContext(b'{"user":"ann"}', "dict")
    await keep(archive, facts, 0, 3, context=context)
    end = await keep(archive, facts, 3, len(facts))
    stored = await archive.load(run_of(facts), end)
    assert list(stored.facts) == facts
    assert stored.context == context
    assert (stored.record.seq, stored.record.status, stored.record.agent) == (len(facts), "done", "Admin")
    assert stored.run().concluded is not None


async def test_keeping_twice_does_no_harm(archive: JournalArchive) -> None:
    facts = await journal()
    for _ in range(2):
        await keep(archive, facts, 0, 3)
    for _ in range(2):
        end = await keep(archive, facts, 3, len(facts))
    assert list((await archive.load(run_of(facts), end)).facts) == facts


async def test_the_rest_is_kept_after_a_part_was(archive: JournalArchive) -> None:
    facts = await journal()
    await keep(archive, facts, 0, 2)
    await keep(archive, facts, 2, 5)
    end = await keep(archive, facts, 2, len(facts))
    assert list((await archive.load(run_of(facts), end)).facts) == facts


async def test_other_facts_are_a_conflict(archive: JournalArchive) -> None:
    facts = await journal()
    await keep(archive, facts, 0, 3)
    end = await keep(archive, facts, 3, 6)
    with pytest.raises(Conflict, match="from fact 4 on"):
        await keep(archive, other(facts, 5), 3, 6)
    assert list((await archive.load(run_of(facts), end)).facts) == facts[:6]


async def test_a_second_workflow_with_the_same_id_is_a_conflict(archive: JournalArchive) -> None:
    facts = await journal()
    await keep(archive, facts, 0, 3)
    with pytest.raises(Conflict, match="from fact 1 on"):
        await keep(archive, other(facts, 1), 0, 3)


async def test_facts_before_the_mark_that_are_lost_are_a_conflict(archive: JournalArchive) -> None:
    facts = await journal()
    with pytest.raises(Conflict, match="lost"):
        await keep(archive, facts, 3, 6)
    await keep(archive, facts, 0, 2)
    with pytest.raises(Conflict, match="lost"):
        await keep(archive, facts, 3, 6)


async def test_a_run_is_loaded_as_it_was_at_an_older_mark(archive: JournalArchive) -> None:
    facts = await journal(60)
    marks = [await keep(archive, facts, start, min(start + 5, len(facts))) for start in range(0, len(facts), 5)]
    for mark in marks[::7]:
        stored = await archive.load(run_of(facts), mark)
        assert list(stored.facts) == facts[: mark.seq]
        assert stored.run().seq == mark.seq


async def test_more_than_was_kept_cannot_be_loaded(archive: JournalArchive) -> None:
    facts = await journal()
    await keep(archive, facts, 0, 3)
    with pytest.raises(UnreadableState, match="lost"):
        await archive.load(run_of(facts), mark_at(facts, 5))
    with pytest.raises(RunNotFound):
        await archive.load("another", Mark())


async def test_large_payloads_are_kept(archive: JournalArchive) -> None:
    facts = await journal(3, 100_000)
    await keep(archive, facts, 0, 4)
    end = await keep(archive, facts, 4, len(facts))
    assert list((await archive.load(run_of(facts), end)).facts) == facts


async def test_of_two_writers_at_once_with_other_facts_one_wins(archive: JournalArchive) -> None:
    facts = await journal()
    await keep(archive, facts, 0, 3)
    rivals = [facts, other(facts, 4), other(facts, 5), other(facts, 6)]
    each = (keep(archive, rival, 3, 6) for rival in rivals)
    results = await asyncio.gather(*each, return_exceptions=True)
    won = [number for number, result in enumerate(results) if isinstance(result, Mark)]
    assert len(won) == 1
    assert [type(result) for result in results if not isinstance(result, Mark)] == [Conflict] * 3
    winner = rivals[won[0]]
    assert list((await archive.load(run_of(facts), mark_at(winner, 6))).facts) == winner[:6]


async def test_of_two_writers_at_once_with_the_same_facts_both_succeed(archive: JournalArchive) -> None:
    facts = await journal()
    marks = await asyncio.gather(*(keep(archive, facts, 0, len(facts)) for _ in range(3)))
    assert list((await archive.load(run_of(facts), marks[0])).facts) == facts


async def test_a_context_is_kept_without_facts(archive: JournalArchive) -> None:
    facts = await journal()
    mark = await keep(archive, facts, 0, 3, context=SavedContext(b"1", "int"))
    await archive.keep(run_of(facts), mark, [], mark.head, SavedContext(b"2", "int"))
    assert (await archive.load(run_of(facts), mark)).context == SavedContext(b"2", "int")


async def test_a_run_that_used_up_its_turns_may_still_be_concluded(archive: JournalArchive) -> None:
    script = [call("look", {"number": 1}), call("look", {"number": 2})]

    @function_tool
    async def look(number: int) -> str:
        return str(number)

    agent = Agent(name="Admin", tools=[look], model=ScriptedModel(script))
    result = await Runner.run(agent, "Look.", max_turns=2, error_handlers={"max_turns": lambda _: "Sorry."})
    facts = list(resumption(result.to_state()).journal.facts)
    mark = await keep(archive, facts, 0, len(facts) - 2)
    assert (await archive.load(run_of(facts), mark)).record.status == "exhausted"
    end = await keep(archive, facts, len(facts) - 2, len(facts))
    assert (await archive.load(run_of(facts), end)).record.status == "done"


async def test_the_newest_mark_is_found(archive: JournalArchive) -> None:
    facts = await journal(40)
    assert await archive.newest(run_of(facts)) is None
    for seq in range(len(facts)):
        end = await keep(archive, facts, seq, seq + 1)
    found = await archive.newest(run_of(facts))
    assert found is not None
    assert found.seq == end.seq
    if not isinstance(archive, StoreArchive) or archive.store.keeps_hashes:
        assert found == end


async def test_definitions_of_tools_are_kept(archive: JournalArchive) -> None:
    await archive.define({"ab" * 32: b'{"name":"one"}'})
    await archive.define({"ab" * 32: b'{"name":"one"}', "cd" * 32: b'{"name":"two"}'})
    assert await archive.definition("cd" * 32) == b'{"name":"two"}'
    assert await archive.definition("ef" * 32) is None


# -- the archive in object storage ---------------------------------------------------------------------


class Counted:
    """A storage in memory that counts what is done, and may be away."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.done: Counter[str] = Counter()
        self.written = 0
        self.rounds = 0
        self._under_way = 0

    async def create(self, key: str, data: bytes) -> bool:
        self.done["create"] += 1
        await asyncio.sleep(0)
        self.written += len(data)
        return self.objects.setdefault(key, data) is data

    async def put(self, key: str, data: bytes) -> None:
        self.done["put"] += 1
        await asyncio.sleep(0)
        self.written += len(data)
        self.objects[key] = data

    async def get(self, key: str) -> bytes | None:
        self.done["get"] += 1
        self.rounds += not self._under_way
        self._under_way += 1
        await asyncio.sleep(0)
        self._under_way -= 1
        return self.objects.get(key)


async def kept_singly(storage: ObjectStorage, facts: list[AnyFact]) -> Mark:
    """Keep each fact with a write of its own."""
    archive, run, end = ObjectArchive(storage), run_of(facts), Mark()
    for seq, head in linked_rows(run, Mark(), facts)[1].items():
        await archive.keep(run, end, facts[seq - 1 : seq], head, None)
        end = Mark(seq, head)
    return end


async def test_a_claim_without_its_chunk_is_written_again() -> None:
    facts, storage = await journal(), Counted()
    await keep(ObjectArchive(storage), facts, 0, 3)
    for key in [key for key in storage.objects if key.endswith(".chunk")]:
        del storage.objects[key]  # the process died between the two writes
    end = await keep(ObjectArchive(storage), facts, 0, 3)
    assert list((await ObjectArchive(storage).load(run_of(facts), end)).facts) == facts[:3]


async def test_a_long_run_is_read_in_few_rounds_of_requests() -> None:
    facts, storage = await journal(400), Counted()
    end = await kept_singly(storage, facts)
    written, puts = storage.written, storage.done["put"] + storage.done["create"]
    rows = sum(map(len, linked_rows(run_of(facts), Mark(), facts)[0].texts))
    assert len(facts) > 1200
    assert puts < 2.1 * len(facts)
    assert written < 2 * rows + 400 * len(facts)  # each fact twice, and what each write costs
    assert storage.done["get"] == 0  # what was written is still in memory
    stored = await ObjectArchive(storage).load(run_of(facts), end)
    assert list(stored.facts) == facts
    assert storage.done["get"] <= len(facts) / PAGE + PAGE + 3
    assert storage.rounds <= 6


async def test_what_was_read_is_not_read_again() -> None:
    facts, storage = await journal(60), Counted()
    end, reader = await kept_singly(storage, facts), ObjectArchive(storage)
    await reader.load(run_of(facts), end)
    before = storage.done["get"]
    await reader.load(run_of(facts), end)
    assert storage.done["get"] == before + 1  # the context may have changed
    small = ObjectArchive(storage, cache=2000)
    await small.load(run_of(facts), end)
    assert small._cache.size <= 2000


async def test_large_chunks_are_not_copied_into_pages() -> None:
    facts, storage = await journal(50, 100_000), Counted()
    end = await kept_singly(storage, facts)
    assert storage.written < 50 * 100_000 * 1.2
    assert list((await ObjectArchive(storage).load(run_of(facts), end)).facts) == facts


@pytest.mark.parametrize("size", [10, 20_000, 100_000])
async def test_every_changed_or_lost_object_is_noticed(size: int) -> None:
    facts, storage = await journal(25, size), Counted()
    end, run = await kept_singly(storage, facts), run_of(facts)
    used = 0
    for key, data in list(storage.objects.items()):
        if key.endswith((".claim", "newest")):
            continue  # not read by a load
        for wrong in (None, data[: len(data) // 2], data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]):
            storage.objects[key] = wrong  # type: ignore[assignment]
            try:
                stored = await ObjectArchive(storage).load(run, end)
            except UnreadableState:
                used += 1
            else:
                assert list(stored.facts) == facts  # a chunk that a page has copied
        storage.objects[key] = data
    assert used > 3 * (len(facts) % PAGE)


async def test_a_repaired_object_is_read_without_a_restart() -> None:
    facts, storage = await journal(), Counted()
    end, run, reader = await kept_singly(storage, facts), run_of(facts), ObjectArchive(storage)
    key = next(key for key in storage.objects if key.endswith(".chunk"))
    good = storage.objects[key]
    storage.objects[key] = good.replace(b"Admin", b"Adnim")
    with pytest.raises(UnreadableState, match="not those that its workflow recorded"):
        await reader.load(run, end)
    storage.objects[key] = good
    assert list((await reader.load(run, end)).facts) == facts


async def test_an_object_of_a_later_format_is_refused() -> None:
    facts, storage = await journal(), Counted()
    end = await kept_singly(storage, facts[:1])
    key = next(key for key in storage.objects if key.endswith(".chunk"))
    storage.objects[key] = storage.objects[key][:1] + b"\x02" + storage.objects[key][2:]
    with pytest.raises(UnreadableState, match="format 2"):
        await ObjectArchive(storage).load(run_of(facts), end)


async def test_facts_that_do_not_come_to_their_hash_are_refused() -> None:
    facts = await journal()
    with pytest.raises(UnreadableState, match="hash of its workflow"):
        await ObjectArchive(Counted()).keep(run_of(facts), Mark(), facts[:3], "00" * 32, None)


def test_run_ids_of_any_form_have_folders_of_their_own() -> None:
    ids = ["run_0a", "Run_0a", "RUN_0A", "../x", "a/b", "é", "", ".", "x" * 300, "x" * 301, "order 7"]
    folders = [folder_of(id) for id in ids]
    assert len({folder.lower() for folder in folders}) == len(ids)
    assert folders[0] == "run_0a"
    assert all("/" not in folder and "." not in folder for folder in folders)


async def test_archives_with_prefixes_share_a_storage() -> None:
    facts, storage = await journal(), Counted()
    await keep(ObjectArchive(storage, prefix="one/"), facts, 0, 3)
    end = await keep(ObjectArchive(storage, prefix="two"), other(facts, 1), 0, 3)
    assert end.seq == 3
    assert {key.split("/")[0] for key in storage.objects} == {"one", "two"}


def test_a_storage_without_the_methods_is_refused() -> None:
    with pytest.raises(UsageError, match="create, put and get"):
        ObjectArchive(object())  # type: ignore[arg-type]


# -- storages ------------------------------------------------------------------------------------------


@pytest.fixture(params=["folder", "memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStorage:
    if request.param == "folder":
        return FolderStorage(tmp_path / "deep" / "objects")
    return ObstoreStorage(MemoryObjects() if request.param == "memory" else LocalStore(tmp_path))


async def test_a_storage_creates_once_replaces_and_reads(storage: ObjectStorage) -> None:
    assert await storage.get("a/b") is None
    assert await storage.create("a/b", b"one")
    assert not await storage.create("a/b", b"two")
    assert await storage.get("a/b") == b"one"
    await storage.put("a/b", b"three" * 100_000)
    await storage.put("a/c", b"")
    assert await storage.get("a/b") == b"three" * 100_000
    assert await storage.get("a/c") == b""


async def test_of_many_who_create_one_object_one_does(storage: ObjectStorage) -> None:
    made = await asyncio.gather(*(storage.create("x/y", str(number).encode()) for number in range(40)))
    assert sum(made) == 1
    assert await storage.get("x/y") == str(made.index(True)).encode()


@pytest.mark.parametrize("key", ["", "/a", "a/", "../a", "a/../b", "a//b", ".a", "a/.b", "a b", "a\\b", "a\n"])
async def test_a_folder_refuses_keys_that_lead_elsewhere(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match="no key"):
        await FolderStorage(tmp_path).put(key, b"")


async def test_a_folder_leaves_no_parts_of_files(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    await storage.create("a/b", b"one")
    await storage.create("a/b", b"two")
    await storage.put("a/b", b"two")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


async def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFailed, match="could not be written"):
        await FolderStorage(tmp_path / "file").put("a", b"")
    (tmp_path / "a").mkdir()
    with pytest.raises(StoreFailed, match="could not be read"):
        await FolderStorage(tmp_path).get("a")


# -- the projection ------------------------------------------------------------------------------------


async def test_a_store_catches_up_with_an_archive(tmp_path: Path) -> None:
    facts, archive = await journal(3, asks=True), ObjectArchive(Counted())
    run, context = run_of(facts), SavedContext(b'{"user":"ann"}', "dict")
    early = await keep(archive, facts, 0, 4, context=context)
    late = await keep(archive, facts, 4, len(facts))
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        projection = StoreProjection(archive, store)
        assert await projection.project(run, early) == 4
        assert await projection.project(run, early) == 0
        assert await projection.project(run, late) == len(facts) - 4
        assert await projection.project(run, early) == 0  # an attempt that was overtaken
        record = await store.record(run)
        assert (record.status, record.worker, record.seq) == ("waiting", "temporal", len(facts))
        assert [each.tool for each in (await store.questions()).items] == ["wipe"]
        assert (await store.load(run)).context == context
        assert await store.claim("other", agents=None, hold=10, limit=10) == []  # workers leave it alone


@pytest.mark.parametrize("memory", [False, True])
async def test_a_store_with_other_facts_is_refused(tmp_path: Path, memory: bool) -> None:
    facts, archive = await journal(), ObjectArchive(Counted())
    end = await keep(archive, facts, 0, len(facts))
    async with MemoryStore() if memory else SQLiteStore(tmp_path / "inbox.db") as store:
        wrong = other(facts, 2)
        await StoreArchive(store).keep(run_of(facts), Mark(), wrong[:5], mark_at(wrong, 5).head, None)
        with pytest.raises(Conflict, match="empty store"):
            await StoreProjection(archive, store).project(run_of(facts), end)
        assert (await store.record(run_of(facts))).seq == 5


async def test_two_that_catch_up_at_once_write_each_fact_once(tmp_path: Path) -> None:
    facts, archive = await journal(10), ObjectArchive(Counted())
    marks = [await keep(archive, facts, seq, seq + 1) for seq in range(len(facts))]
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        projection = StoreProjection(archive, store)
        added = await asyncio.gather(*(projection.project(run_of(facts), mark) for mark in marks[::4] + marks[-1:]))
        assert sum(added) == len(facts)
        assert await store.verify(run_of(facts)) == []


def test_a_raw_payload_keeps_its_letters() -> None:
    said = f.Said(Raw(b'[ {"role" : "user",\n "content": "caf\\u00e9"} ]'), at=1)
    rows, _ = linked_rows("run", Mark(), [said])
    assert b'"caf\\u00e9"} ]' in rows.texts[0]
