"""Sessions: what every one must do, and what SQLite's do when the world fails them."""

# ruff: noqa: ASYNC240 (nobody else is in the loop while a test looks at its files)

import asyncio
import copy
import inspect
import json
import multiprocessing
import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import assentry
from assentry import ExactSession, InvalidInput, Session, SessionFailed, SQLiteSession, UsageError
from assentry.sessions.stored import THREADS
from assentry.testing import check_session
from tests.runtime.support import HANGS, python, soon

Item = dict[str, Any]


def said(*words: str) -> list[Item]:
    return [{"role": "user", "content": word} for word in words]


def words(items: list[Item]) -> list[str]:
    return [item["content"] for item in items]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


# -- what every session must do --------------------------------------------------------------------


class ListSession:
    """A session that keeps its items in a list, and does all it must."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.items: list[str] = []

    async def get_items(self, limit: int | None = None) -> list[Item]:
        start = 0 if limit is None else max(0, len(self.items) - limit)
        return [json.loads(text) for text in self.items[start:]]

    async def add_items(self, items: list[Item]) -> None:
        self.items += [json.dumps(item) for item in items]

    async def pop_item(self) -> Item | None:
        return json.loads(self.items.pop()) if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


class ExactListSession(ListSession):
    """The same, and it stores nothing twice."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.places: dict[tuple[str, int], str] = {}
        """What runs wrote where; texts are told apart by identity, for two may say the same."""

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        texts = {(run_id, position + n): json.dumps(item) for n, item in enumerate(items)}
        if any(self.places.get(place, text) != text for place, text in texts.items()):
            gone = [place for place in self.places if place[0] == run_id and place[1] >= position]
            old = [self.places.pop(place) for place in gone]
            self.items = [text for text in self.items if not any(text is each for each in old)]
        self.items += [text for place, text in texts.items() if place not in self.places]
        self.places = texts | self.places


async def test_a_session_in_a_file_does_what_it_must(path: Path) -> None:
    await check_session(lambda session_id: SQLiteSession(session_id, path))


async def test_a_session_in_a_file_of_its_own_does_what_it_must(tmp_path: Path) -> None:
    await check_session(lambda session_id: SQLiteSession(session_id, tmp_path / f"{session_id}.db"))


async def test_a_session_in_memory_does_what_it_must() -> None:
    await check_session(SQLiteSession)


@pytest.mark.parametrize("kind", [ListSession, ExactListSession])
async def test_anybodys_session_does_what_it_must(kind: type[ListSession]) -> None:
    await check_session(kind)


async def test_a_session_may_take_time_to_make(path: Path) -> None:
    async def make(session_id: str) -> Session:
        await asyncio.sleep(0)
        return SQLiteSession(session_id, path)

    await check_session(make)


async def test_what_was_tried_out_is_left_empty(path: Path) -> None:
    await check_session(lambda session_id: SQLiteSession(session_id, path))
    with sqlite3.connect(path) as look:
        assert look.execute("SELECT count(*) FROM assentry_items").fetchone() == (0,)
    look.close()


def test_protocols_tell_sessions_apart() -> None:
    with SQLiteSession("a") as session:
        assert isinstance(session, ExactSession)
    assert isinstance(ListSession("a"), Session) and not isinstance(ListSession("a"), ExactSession)
    assert not isinstance(object(), Session)


class Shared(ListSession):
    everything: list[str] = []  # noqa: RUF012

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.items = self.everything
        self.items.clear()


class ClearsAll(ListSession):
    made: list[ListSession] = []  # noqa: RUF012

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.made.append(self)

    async def clear_session(self) -> None:
        for session in self.made:
            session.items.clear()


class LimitFromTheStart(ListSession):
    async def get_items(self, limit: int | None = None) -> list[Item]:
        return (await super().get_items())[:limit]


class LimitNewestFirst(ListSession):
    async def get_items(self, limit: int | None = None) -> list[Item]:
        items = await super().get_items(limit)
        return items if limit is None else items[::-1]


class LimitOfZeroIsNone(ListSession):
    async def get_items(self, limit: int | None = None) -> list[Item]:
        return await super().get_items(limit or None)


class PopsTheOldest(ListSession):
    async def pop_item(self) -> Item | None:
        return json.loads(self.items.pop(0)) if self.items else None


class PopsAndKeeps(ListSession):
    async def pop_item(self) -> Item | None:
        return json.loads(self.items[-1]) if self.items else None


class PopRaisesWhenEmpty(ListSession):
    async def pop_item(self) -> Item | None:
        try:
            return json.loads(self.items.pop())  # type: ignore[no-any-return]
        except IndexError as error:
            raise AssertionError("popped from an empty list") from error


class ClearsNothing(ListSession):
    async def clear_session(self) -> None:
        pass


class LosesTwins(ListSession):
    async def add_items(self, items: list[Item]) -> None:
        self.items += [text for item in items if (text := json.dumps(item)) not in self.items]


class AsciiOnly(ListSession):
    async def add_items(self, items: list[Item]) -> None:
        texts = [json.dumps(item, ensure_ascii=False) for item in items]
        self.items += [text.encode("ascii", "replace").decode() for text in texts]


class FloatsOnly(ListSession):
    async def get_items(self, limit: int | None = None) -> list[Item]:
        items = await super().get_items(limit)
        return [json.loads(json.dumps(item), parse_int=lambda n: float(n) if len(n) < 5 else int(n)) for item in items]


class ShortensTheLarge(ListSession):
    async def add_items(self, items: list[Item]) -> None:
        await super().add_items([item if len(str(item)) < 100_000 else {"large": "..."} for item in items])


class KeepsTheCallersDicts(ListSession):
    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.dicts: list[Item] = []

    async def get_items(self, limit: int | None = None) -> list[Item]:
        start = 0 if limit is None else max(0, len(self.dicts) - limit)
        return self.handed(self.dicts[start:])

    def handed(self, items: list[Item]) -> list[Item]:
        return copy.deepcopy(items)

    async def add_items(self, items: list[Item]) -> None:
        self.dicts += items

    async def pop_item(self) -> Item | None:
        return self.dicts.pop() if self.dicts else None

    async def clear_session(self) -> None:
        self.dicts.clear()


class HandsOutItsOwnDicts(KeepsTheCallersDicts):
    def handed(self, items: list[Item]) -> list[Item]:
        return items

    async def add_items(self, items: list[Item]) -> None:
        self.dicts += copy.deepcopy(items)


class AddsOneByOne(ListSession):
    async def add_items(self, items: list[Item]) -> None:
        for text in [json.dumps(item) for item in items]:
            self.items.append(text)
            await asyncio.sleep(0)


class LosesWhatIsAddedAtOnce(ListSession):
    async def add_items(self, items: list[Item]) -> None:
        before = list(self.items)
        await asyncio.sleep(0)
        self.items = before + [json.dumps(item) for item in items]


class PopsOneTwice(ListSession):
    async def pop_item(self) -> Item | None:
        if not self.items:
            return None
        item: Item = json.loads(self.items[-1])
        await asyncio.sleep(0)
        self.items = self.items[:-1]
        return item


class KeepsHalfOfWhatFails(ListSession):
    async def add_items(self, items: list[Item]) -> None:
        for item in items:
            self.items.append(json.dumps(item))


class BoundToALoop(ListSession):
    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.loop = asyncio.get_running_loop()

    async def add_items(self, items: list[Item]) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("attached to a different loop")
        await super().add_items(items)


class NoPop:
    session_id = "x"
    get_items = ListSession.get_items
    add_items = ListSession.add_items
    clear_session = ListSession.clear_session

    def __init__(self, session_id: str) -> None:
        self.items: list[str] = []


class StaysOnTheOldCourse(ListSession):
    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.places: set[tuple[str, int]] = set()

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        texts = {(run_id, position + n): json.dumps(item) for n, item in enumerate(items)}
        self.items += [text for place, text in texts.items() if place not in self.places]
        self.places.update(texts)


class WritesTwice(ListSession):
    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        await self.add_items(items)


class WritesWholeBatchesOrNone(StaysOnTheOldCourse):
    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        if (run_id, position) not in self.places:
            await super().write(run_id, position, items)


class WritesByContent(ListSession):
    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        self.items += [text for item in items if (text := json.dumps(item)) not in self.items]


class WritesByPosition(StaysOnTheOldCourse):
    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        await super().write("", position, items)


class WritesOnceForAllSessions(StaysOnTheOldCourse):
    runs: set[tuple[str, int]] = set()  # noqa: RUF012

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.places = self.runs


class WritesTwiceAtOnce(StaysOnTheOldCourse):
    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        new = [n for n in range(len(items)) if (run_id, position + n) not in self.places]
        await asyncio.sleep(0)
        await self.add_items([items[n] for n in new])
        self.places |= {(run_id, position + n) for n in new}


class ForgetsToWriteAgain(StaysOnTheOldCourse):
    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        places = {(run_id, position + n) for n in range(len(items))}
        new = [item for n, item in enumerate(items) if (run_id, position + n) not in self.places]
        self.places |= places
        await self.add_items(new)


BROKEN: dict[type, str] = {
    Shared: "its own items only",
    ClearsAll: "leaves the others as they are",
    LimitFromTheStart: "gives the latest items",
    LimitNewestFirst: "oldest first",
    LimitOfZeroIsNone: "limit of 0 gives nothing",
    PopsTheOldest: "newest item is popped",
    PopsAndKeeps: "is not there any more",
    PopRaisesWhenEmpty: "popped from an empty list",
    ClearsNothing: "cleared session has no items",
    LosesTwins: "three times",
    AsciiOnly: "Any JSON is kept",
    FloatsOnly: "kind of number",
    ShortensTheLarge: "Any JSON is kept",
    KeepsTheCallersDicts: "after it was added changes nothing",
    HandsOutItsOwnDicts: "handed out changes nothing",
    AddsOneByOne: "stay together",
    LosesWhatIsAddedAtOnce: "is all there",
    PopsOneTwice: "each gets another item",
    KeepsHalfOfWhatFails: "none is added",
    BoundToALoop: "any event loop",
    NoPop: "has no pop_item",
    WritesTwice: "is stored once",
    WritesWholeBatchesOrNone: "only what is new is stored",
    WritesByContent: "not by what they say",
    WritesByPosition: "told apart by run and position",
    WritesOnceForAllSessions: "told apart by run and position",
    WritesTwiceAtOnce: "at the same time is stored once",
    ForgetsToWriteAgain: "can be written afterwards",
    StaysOnTheOldCourse: "taken up from an earlier save",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
async def test_a_broken_session_is_found_out_with_a_sentence(kind: Any) -> None:
    with pytest.raises(AssertionError, match=BROKEN[kind]):
        await soon(check_session(kind))


# -- a file ----------------------------------------------------------------------------------------


async def test_a_conversation_is_found_again_by_another_session_object(path: Path) -> None:
    async with SQLiteSession("user-1", path) as session:
        await session.add_items(said("hello"))
    again = SQLiteSession("user-1", str(path))
    assert words(await again.get_items()) == ["hello"]
    again.close()


async def test_sessions_in_memory_are_apart_even_with_one_id() -> None:
    one, other = SQLiteSession("user-1"), SQLiteSession("user-1", ":memory:")
    await one.add_items(said("hello"))
    assert await other.get_items() == []


async def test_a_session_is_not_moved_by_a_change_of_directory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    session = SQLiteSession("user-1", path.name)
    (path.parent / "elsewhere").mkdir()
    monkeypatch.chdir(path.parent / "elsewhere")
    await session.add_items(said("hello"))
    assert path.exists() and not Path(path.name).exists()


async def test_nothing_is_opened_before_the_first_use(path: Path) -> None:
    with SQLiteSession("user-1", path):
        assert not path.exists()


async def test_ids_are_any_text(path: Path) -> None:
    ids = ["a", "A", "a ", "a\0b", "a\0", "'; DROP TABLE assentry_items; --", "ü", "u\u0308", "%", "x" * 10_000]
    sessions = [SQLiteSession(session_id, path) for session_id in ids]
    for session in sessions:
        await session.add_items(said(session.session_id))
    assert [words(await session.get_items()) for session in sessions] == [[each] for each in ids]


async def test_what_is_stored_outlives_a_power_cut(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("hello"))
    assert await session._do(lambda connection: connection.execute("PRAGMA synchronous").fetchone()) == (2,)
    with sqlite3.connect(path) as look:
        assert look.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    look.close()


async def test_reading_the_latest_looks_at_no_others(path: Path) -> None:
    async with SQLiteSession("user-1", path) as session:
        await session.add_items(said("hello"))
    look = sqlite3.connect(path)
    [plan] = [row[3] for row in look.execute(f"EXPLAIN QUERY PLAN {SQLiteSession._sql.latest}", ("user-1", 1))]
    look.close()
    assert plan == "SEARCH assentry_items USING INDEX assentry_items_of_session (session=?)"


async def test_many_sessions_need_few_threads(tmp_path: Path) -> None:
    sessions = [SQLiteSession(f"user-{n}") for n in range(200)]
    sessions += [SQLiteSession(f"user-{n}", tmp_path / f"{n % 20}.db") for n in range(200)]
    await asyncio.gather(*(session.add_items(said("hello")) for session in sessions))
    assert len({session._shared for session in sessions}) == 220, "a file has one connection for all its sessions"
    assert sum(thread.name.startswith("assentry-session") for thread in threading.enumerate()) <= THREADS
    for session in sessions:
        session.close()


def test_importing_assentry_or_a_session_imports_no_database() -> None:
    ended = python("import sys, assentry, assentry.testing; assentry.SQLiteSession; print('sqlite3' in sys.modules)")
    assert ended.stdout.strip() == "False", ended.stderr


# -- any loop, any thread, any process -------------------------------------------------------------


def test_a_session_is_used_from_loop_after_loop(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    for n in range(5):
        asyncio.run(session.add_items(said(f"{n}")))
    assert words(asyncio.run(session.get_items())) == ["0", "1", "2", "3", "4"]
    session.close()


@pytest.mark.parametrize("where", ["file", "memory"])
def test_threads_with_loops_of_their_own_share_a_session(where: str, path: Path) -> None:
    session = SQLiteSession("user-1", path if where == "file" else ":memory:")
    begin = threading.Barrier(4)

    async def talk(name: str) -> None:
        begin.wait(HANGS)
        for n in range(20):
            await session.add_items(said(f"{name} {n} a", f"{name} {n} b"))

    threads = [threading.Thread(target=lambda name=f"t{n}": asyncio.run(talk(name))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    found = words(asyncio.run(session.get_items()))
    assert len(found) == 160
    assert all(first[:-1] == second[:-1] for first, second in zip(found[::2], found[1::2], strict=True))
    for name in ("t0", "t1", "t2", "t3"):
        own = [word for word in found if word.startswith(name)]
        assert own == [f"{name} {n} {part}" for n in range(20) for part in "ab"]
    session.close()


async def talk_in_a_process(path: str, name: str) -> None:
    session = SQLiteSession("user-1", path, busy_timeout=HANGS)
    tasks, done = SQLiteSession("tasks", path, busy_timeout=HANGS), SQLiteSession("done", path, busy_timeout=HANGS)
    for n in range(25):
        await session.write("the same run", n, said(f"run {n}"))
        await session.add_items(said(*(f"{name} {n} {part}" for part in "abc")))
    while task := await tasks.pop_item():
        await done.add_items([task])


def process(path: str, name: str, begin: Any) -> None:
    begin.wait(HANGS)
    asyncio.run(talk_in_a_process(path, name))


async def test_a_change_to_wal_waits_for_its_turn_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch()
    writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(time, "sleep", lambda seconds: writer.close())
    session = SQLiteSession("user-1", path, busy_timeout=HANGS)
    await soon(session.add_items(said("x")))
    assert words(await session.get_items()) == ["x"]


def test_processes_that_write_at_once_lose_nothing_and_store_nothing_twice(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    begin = spawn.Barrier(3)
    asyncio.run(SQLiteSession("tasks", path).add_items(said(*(f"task {n}" for n in range(100)))))
    children = [spawn.Process(target=process, args=(str(path), f"p{n}", begin)) for n in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(3 * HANGS)
    assert [child.exitcode for child in children] == [0, 0, 0]
    found = words(asyncio.run(SQLiteSession("user-1", path).get_items()))
    done = words(asyncio.run(SQLiteSession("done", path).get_items()))
    assert sorted(done) == sorted(f"task {n}" for n in range(100)), "each was popped by one"
    assert [word for word in found if word.startswith("run")] == [f"run {n}" for n in range(25)]
    added = [word for word in found if not word.startswith("run")]
    assert len(added) == 3 * 25 * 3
    for n in range(3):
        own = [word for word in added if word.startswith(f"p{n}")]
        assert own == [f"p{n} {m} {part}" for m in range(25) for part in "abc"]
    for at, word in enumerate(found):
        if word.endswith(" a"):
            assert found[at + 1 : at + 3] == [f"{word[:-1]}b", f"{word[:-1]}c"], "a batch was torn apart"


async def test_the_loop_goes_on_while_a_database_is_locked(path: Path, tmp_path: Path) -> None:
    session, other = SQLiteSession("user-1", path, busy_timeout=HANGS), SQLiteSession("user-1", tmp_path / "other.db")
    await session.add_items(said("first"))
    lock = locked(path)
    adding = [asyncio.ensure_future(session.add_items(said(f"{n}"))) for n in range(2 * THREADS)]
    await soon(other.add_items(said("meanwhile")))
    assert words(await soon(other.get_items())) == ["meanwhile"]
    assert not any(each.done() for each in adding)
    lock.close()
    await soon(asyncio.gather(*adding))
    assert words(await session.get_items()) == ["first", *(f"{n}" for n in range(2 * THREADS))]


async def test_a_call_that_is_cancelled_while_it_waits_stores_nothing(path: Path) -> None:
    session = SQLiteSession("user-1", path, busy_timeout=HANGS)
    await session.add_items(said("first"))
    lock = locked(path)
    waiting = asyncio.ensure_future(session.add_items(said("second")))
    queued = asyncio.ensure_future(session.add_items(said("third")))
    await asyncio.sleep(0)
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    lock.close()
    await soon(waiting)
    assert words(await session.get_items()) == ["first", "second"]


# -- storing once ----------------------------------------------------------------------------------


def test_a_crash_between_writing_and_knowing_it_stores_nothing_twice(path: Path) -> None:
    code = """
        import asyncio, os, sys
        from assentry import SQLiteSession

        async def main():
            items = [{"role": "user", "content": word} for word in ("a", "b")]
            await SQLiteSession("user-1", sys.argv[1]).write("run", 0, items)
            os._exit(9)

        sys.argv = ["", PATH]
        asyncio.run(main())
    """
    ended = python(f"PATH = {str(path)!r}\n" + inspect.cleandoc(code))
    assert ended.returncode == 9, ended.stderr
    session = SQLiteSession("user-1", path)
    asyncio.run(session.write("run", 0, said("a", "b")))
    asyncio.run(session.write("run", 2, said("c")))
    assert words(asyncio.run(session.get_items())) == ["a", "b", "c"]
    session.close()


async def test_positions_are_a_runs_own_in_a_session_of_its_own(path: Path) -> None:
    one, other = SQLiteSession("one", path), SQLiteSession("other", path)
    await one.write("run", 0, said("a"))
    await other.write("run", 0, said("b"))
    await one.write("run 2", 0, said("c"))
    await one.write("run", 7, said("d"))
    assert words(await one.get_items()) == ["a", "c", "d"]
    assert words(await other.get_items()) == ["b"]


# -- trouble ---------------------------------------------------------------------------------------


def locked(path: Path) -> sqlite3.Connection:
    """Another connection that is in the middle of writing."""
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    return lock


def calls(session: SQLiteSession) -> dict[str, Callable[[], Awaitable[Any]]]:
    return {
        "add_items": lambda: session.add_items(said("x")),
        "write": lambda: session.write("run", 0, said("x")),
        "pop_item": session.pop_item,
        "clear_session": session.clear_session,
    }


async def failing(work: Awaitable[Any], *parts: str) -> str:
    """What the session says when it fails: who it is, what is wrong, and what to do."""
    with pytest.raises(SessionFailed) as caught:
        await soon(work)
    message = str(caught.value)
    assert type(caught.value) is SessionFailed
    assert message.startswith("Session 'user-1' ") and message.endswith(".")
    for part in parts:
        assert part in message, message
    return message


@pytest.mark.parametrize("name", ["add_items", "write", "pop_item", "clear_session"])
async def test_a_locked_database_changes_nothing_and_works_when_it_is_free(name: str, path: Path) -> None:
    session = SQLiteSession("user-1", path, busy_timeout=0)
    await session.add_items(said("kept"))
    lock = locked(path)
    await failing(calls(session)[name](), str(path), "locked", "Nothing was changed", "busy_timeout")
    assert words(await session.get_items()) == ["kept"], "reading waits for nobody"
    lock.close()
    assert words(await session.get_items()) == ["kept"]
    await calls(session)[name]()
    assert words(await session.get_items()) == (["kept", "x"] if name in ("add_items", "write") else [])


async def test_each_session_has_its_own_patience(path: Path) -> None:
    patient, hasty = (
        SQLiteSession("patient", path, busy_timeout=HANGS * 2),
        SQLiteSession("user-1", path, busy_timeout=0),
    )
    await patient.add_items(said("x"))
    lock = locked(path)
    await failing(hasty.add_items(said("x")), "locked")
    lock.close()


async def test_a_database_that_is_locked_at_the_first_use_works_when_it_is_free(path: Path) -> None:
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    session = SQLiteSession("user-1", path, busy_timeout=0)
    await failing(session.get_items(), "locked")
    await failing(session.add_items(said("x")), "locked")
    lock.close()
    await session.add_items(said("x"))
    assert words(await session.get_items()) == ["x"]


async def test_a_failure_in_the_middle_stores_nothing_and_locks_nobody_out(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("first"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(
        "CREATE TRIGGER no BEFORE INSERT ON assentry_items WHEN NEW.item LIKE '%poison%'"
        " BEGIN SELECT RAISE(ABORT, 'no poison'); END"
    )
    await failing(session.add_items(said("second", "poison")), "no poison")
    await failing(session.write("run", 0, said("second", "poison")), "no poison")
    assert words(await session.get_items()) == ["first"]
    other.execute("BEGIN IMMEDIATE")
    other.execute("DROP TRIGGER no")
    other.execute("COMMIT")
    other.close()
    await session.write("run", 0, said("second", "poison"))
    assert words(await session.get_items()) == ["first", "second", "poison"]


async def test_a_failure_in_memory_loses_nothing() -> None:
    session = SQLiteSession("user-1")
    await session.add_items(said("first"))

    def forbid(connection: sqlite3.Connection) -> None:
        connection.execute(
            "CREATE TEMP TRIGGER no BEFORE INSERT ON assentry_items WHEN NEW.item LIKE '%poison%'"
            " BEGIN SELECT RAISE(ABORT, 'no poison'); END"
        )

    await session._do(forbid)
    await failing(session.add_items(said("second", "poison")), "no poison", ":memory:")
    await session.add_items(said("third"))
    assert words(await session.get_items()) == ["first", "third"]


async def test_a_deleted_file_is_told_to_each_session_and_then_made_anew(path: Path) -> None:
    session, other, late = (SQLiteSession(each, path) for each in ("user-1", "user-1", "user-2"))
    await session.write("run", 0, said("a"))
    await other.get_items()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    await failing(session.write("run", 1, said("b")), str(path), "removed", "call again")
    assert not path.exists(), "nothing is made before somebody has been told"
    await session.write("run", 1, said("b"))
    assert words(await session.get_items()) == ["b"]
    await failing(other.get_items(), "removed")
    assert words(await other.get_items()) == ["b"]
    assert await late.get_items() == [], "it never knew the other file"


async def test_a_file_that_is_put_back_is_found_again(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("a"))
    session.close()
    session = SQLiteSession("user-1", path)
    await session.get_items()
    copied = path.read_bytes()
    path.unlink()
    await failing(session.get_items(), "removed")
    path.write_bytes(copied)
    assert words(await session.get_items()) == ["a"]


async def test_a_file_that_is_put_back_before_anybody_missed_it_is_the_same(path: Path, tmp_path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("a"))
    program(path, f"VACUUM INTO '{tmp_path / 'copy.db'}'")
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    (tmp_path / "copy.db").replace(path)
    await session.add_items(said("b"))
    assert words(await session.get_items()) == ["a", "b"]
    assert words(await SQLiteSession("user-1", path).get_items()) == ["a", "b"]


async def test_a_file_that_is_removed_while_it_is_written_has_stored_nothing(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("a"))
    await failing(session._do(lambda connection: path.unlink()), "removed")
    assert await session.get_items() == []


async def test_a_loss_is_told_even_if_there_was_other_trouble_before(path: Path) -> None:
    session = SQLiteSession("user-1", path, busy_timeout=0)
    await session.add_items(said("a"))
    lock = locked(path)
    await failing(session.add_items(said("b")), "locked")
    lock.close()
    path.unlink()
    await failing(session.add_items(said("b")), "removed")


async def test_a_file_that_was_replaced_is_noticed(path: Path, tmp_path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("mine"))
    async with SQLiteSession("user-1", tmp_path / "new.db") as new:
        await new.add_items(said("theirs"))
    for file in path.parent.glob(f"{path.name}-*"):
        file.unlink()  # SQLite would take them for the new file's
    (tmp_path / "new.db").replace(path)
    await failing(session.add_items(said("x")), "replaced")
    assert words(await session.get_items()) == ["theirs"]


async def test_a_directory_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    session = SQLiteSession("user-1", directory / "x.db")
    await session.add_items(said("a"))
    shutil.rmtree(directory)
    await failing(session.add_items(said("b")), "removed")
    await failing(session.add_items(said("b")), "directory exists")
    directory.mkdir()
    await session.add_items(said("b"))
    assert words(await session.get_items()) == ["b"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_stores_nothing_and_works_when_there_is_room(path: Path) -> None:
    code = """
        import asyncio, resource
        from assentry import SessionFailed, SQLiteSession

        async def main():
            session = SQLiteSession("user-1", PATH)
            await session.add_items([{"n": 0}])
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
            large = [{"n": n, "text": "x" * 50_000} for n in range(10)]
            try:
                await session.write("run", 0, large)
            except SessionFailed as error:
                print(error)
            print([item["n"] for item in await session.get_items()])
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await session.write("run", 0, large)
            print([item["n"] for item in await session.get_items()])

        asyncio.run(main())
    """
    ended = python(f"PATH = {str(path)!r}\n" + inspect.cleandoc(code))
    assert ended.returncode == 0, ended.stderr
    error, before, after = ended.stdout.splitlines()
    assert error.startswith(f"Session 'user-1' cannot use {path}: ") and "try again" in error
    assert (before, after) == ("[0]", "[0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]")


def program(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as other:
        for statement in statements:
            other.execute(statement)
    other.close()


NOT_OURS: dict[str, tuple[Callable[[Path], None], str]] = {
    "text": (lambda path: [path.write_text("Dear diary, " * 1000), None][1], "not an SQLite database"),
    "a table": (lambda path: program(path, "CREATE TABLE users (name TEXT)"), "another program"),
    "a table of our name": (lambda path: program(path, "CREATE TABLE assentry_items (x)"), "another program"),
    "a version": (lambda path: program(path, "PRAGMA user_version=7"), "another program"),
    "an application": (lambda path: program(path, "PRAGMA application_id=7"), "another program"),
}


@pytest.mark.parametrize("what", NOT_OURS)
async def test_a_file_of_somebody_else_is_refused_and_left_as_it_is(what: str, path: Path) -> None:
    make, why = NOT_OURS[what]
    make(path)
    before = path.read_bytes()
    session = SQLiteSession("user-1", path)
    for work in (session.get_items, *calls(session).values()):
        await failing(work(), str(path), why, "left as it is", "another path")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    path.unlink()
    await session.add_items(said("x"))
    assert words(await session.get_items()) == ["x"]


async def test_an_empty_file_is_taken(path: Path) -> None:
    path.touch()
    session = SQLiteSession("user-1", path)
    await session.add_items(said("x"))
    assert words(await session.get_items()) == ["x"]


async def test_a_file_of_a_later_assentry_is_refused(path: Path) -> None:
    async with SQLiteSession("user-1", path) as session:
        await session.add_items(said("x"))
    program(path, "UPDATE assentry_file SET version = 99")
    await failing(SQLiteSession("user-1", path).get_items(), "schema version 99", "Assentry that made it")


async def test_a_file_without_its_id_is_refused(path: Path) -> None:
    async with SQLiteSession("user-1", path) as session:
        await session.add_items(said("x"))
    program(path, "DELETE FROM assentry_file")
    await failing(SQLiteSession("user-1", path).get_items(), "assentry_file is empty", "Restore")


@pytest.mark.parametrize("damage", ["'{'", "'[1]'", "x'ff00'", "'{}' || x'ff'", "5", "''", "'{\"a\": NaN}'"])
async def test_a_damaged_row_is_named(damage: str, path: Path) -> None:
    session, other = SQLiteSession("user-1", path), SQLiteSession("user-2", path)
    await other.add_items(said("other"))
    await session.add_items(said("a", "b", "c"))
    program(path, f"UPDATE assentry_items SET item = {damage} WHERE seq = 3")
    await failing(session.get_items(), "row 3", "damaged", str(path), "clear the session")
    assert words(await session.get_items(1)) == ["c"]
    assert words([await session.pop_item() or {}]) == ["c"]
    await failing(session.pop_item(), "row 3")
    await failing(session.get_items(1), "row 3")
    assert words(await other.get_items()) == ["other"]
    program(path, "DELETE FROM assentry_items WHERE seq = 3")
    assert words(await session.get_items()) == ["a"]


async def test_a_damaged_file_is_an_error(path: Path) -> None:
    async with SQLiteSession("user-1", path) as session:
        await session.add_items(said(*("x" * 1000 for _ in range(100))))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    await failing(SQLiteSession("user-1", path).get_items(), str(path), "damaged", "Restore")


# -- closing ---------------------------------------------------------------------------------------


async def test_a_closed_session_says_so_and_its_file_is_whole(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("x"))
    session.close()
    session.close()
    for work in (session.get_items, *calls(session).values()):
        await failing(work(), "closed", "Make a new one")
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing is left in a file beside it"
    assert words(await SQLiteSession("user-1", path).get_items()) == ["x"]


async def test_closing_one_session_leaves_the_others_of_its_file(path: Path) -> None:
    one, other = SQLiteSession("one", path), SQLiteSession("other", path)
    await one.add_items(said("x"))
    await other.add_items(said("y"))
    async with one:
        pass
    assert words(await other.get_items()) == ["y"]
    with other:
        pass
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_closing_waits_for_what_was_begun(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    adding = [asyncio.ensure_future(session.add_items(said(f"{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    session.close()
    await soon(asyncio.gather(*adding))
    assert len(await SQLiteSession("user-1", path).get_items()) == 20


async def test_a_session_that_nobody_closes_is_closed_when_it_is_forgotten(path: Path) -> None:
    session = SQLiteSession("user-1", path)
    await session.add_items(said("x"))
    session._queue.wait(lambda: None)  # and so the thread is done with the one before
    del session
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert words(await SQLiteSession("user-1", path).get_items()) == ["x"]


def test_a_session_can_be_used_while_the_interpreter_goes_down(path: Path) -> None:
    code = """
        import asyncio, atexit
        from assentry import SQLiteSession

        session = SQLiteSession("user-1", PATH)

        @atexit.register
        def last_words():
            asyncio.run(session.add_items([{"content": "bye"}]))
            session.close()

        asyncio.run(session.add_items([{"content": "hello"}]))
    """
    ended = python(f"PATH = {str(path)!r}\n" + inspect.cleandoc(code))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert words(asyncio.run(SQLiteSession("user-1", path).get_items())) == ["hello", "bye"]


# -- bad input -------------------------------------------------------------------------------------

CIRCLE: Item = {}
CIRCLE["self"] = CIRCLE


@pytest.mark.parametrize(
    "items",
    [
        [{"content": object()}],
        [{"content": float("nan")}],
        [{"content": float("inf")}],
        [{"content": b"bytes"}],
        [{"content": {1, 2}}],
        [{1: "a key that is not text"}],
        [{"content": "\ud800"}],
        [{"\ud800": 1}],
        [CIRCLE],
        ["text"],
        [None],
        [[]],
        "text",
        {"role": "user"},
        None,
        5,
    ],
    ids=lambda items: f"{items!r:.30}",
)
@pytest.mark.parametrize("where", ["file", "memory"])
async def test_what_is_not_json_is_refused_and_nothing_is_stored(items: Any, where: str, path: Path) -> None:
    session = SQLiteSession("user-1", path if where == "file" else ":memory:")
    given = [{"role": "user", "content": "good"}, *items] if isinstance(items, list) else items
    for work in (session.add_items(given), session.write("run", 0, given)):
        with pytest.raises(InvalidInput, match="Nothing was stored"):
            await work
    assert await session.get_items() == []


@pytest.mark.parametrize("limit", [-1, True, 1.0, "3", [], float("inf")])
async def test_a_limit_is_a_whole_number(limit: Any) -> None:
    session = SQLiteSession("user-1")
    await session.add_items(said("a", "b"))
    with pytest.raises(UsageError, match="limit must be a whole number"):
        await session.get_items(limit)
    assert words(await session.get_items(10**30)) == ["a", "b"]
    assert await session.get_items(0) == []


@pytest.mark.parametrize("run_id", ["", None, 5, "\ud800"])
async def test_a_runs_id_is_text(run_id: Any) -> None:
    with pytest.raises(UsageError, match="run_id must be text"):
        await SQLiteSession("user-1").write(run_id, 0, said("x"))


@pytest.mark.parametrize("position", [-1, None, 1.5, True, "0", 2**63, 2**80])
async def test_a_position_is_a_whole_number(position: Any) -> None:
    session = SQLiteSession("user-1")
    with pytest.raises(UsageError, match="position"):
        await session.write("run", position, said("x"))
    assert await session.get_items() == []


@pytest.mark.parametrize("session_id", ["", None, 5, b"user", "\ud800"])
def test_a_sessions_id_is_text(session_id: Any) -> None:
    with pytest.raises(UsageError, match="session_id must be text"):
        SQLiteSession(session_id)


@pytest.mark.parametrize("db_path", ["", None, 5, b"x.db", "a\0b"])
def test_a_path_is_a_path(db_path: Any) -> None:
    with pytest.raises(UsageError, match="db_path"):
        SQLiteSession("user-1", db_path)


def test_a_directory_that_is_not_there_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no directory .*missing.*; make it first"):
        SQLiteSession("user-1", tmp_path / "missing" / "x.db")
    with pytest.raises(UsageError, match="is a directory"):
        SQLiteSession("user-1", tmp_path)


@pytest.mark.parametrize("busy_timeout", [-1, None, "5", True, float("nan"), float("inf")])
def test_a_busy_timeout_is_a_number_of_seconds(busy_timeout: Any) -> None:
    with pytest.raises(UsageError, match="busy_timeout"):
        SQLiteSession("user-1", busy_timeout=busy_timeout)


def test_the_failure_of_a_session_is_the_worlds() -> None:
    assert issubclass(SessionFailed, assentry.Upstream)
    assert not issubclass(SessionFailed, UsageError)


async def test_only_its_owner_may_read_a_file_that_a_session_makes(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with SQLiteSession("s", tmp_path / "sessions.db") as session:
            await session.add_items([{"role": "user", "content": "hello"}])
            assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)
