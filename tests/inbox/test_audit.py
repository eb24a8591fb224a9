"""The audit: whatever was changed is found and named; what was rewritten as a whole is found by a seal."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assentry import BadSignature, UnreadableState, UsageError
from assentry.approval.decision import Decider
from assentry.cli import main
from assentry.core import facts as f
from assentry.core.codec import replay
from assentry.inbox.audit import make_key, read_key, read_public_key, read_seal, seal_runs
from assentry.store import MemoryStore, PostgresStore, SQLiteStore, Store
from assentry.store.audit import Checked, Heads, check_export, export_journals, heads_of
from assentry.testing import FakeClock
from tests.store.support import Script, js, waiting

Make = Callable[[str], Any]
Damage = Callable[[str, str], None]


class Rooms:
    """Stores of one kind by name, and a way to change them behind their backs."""

    def __init__(self, kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
        self.kind, self.folder, self._request = kind, folder, request
        self._urls: dict[str, str] = {}

    def url(self, name: str) -> str:
        if name not in self._urls:
            server = self._request.getfixturevalue("postgres") if self.kind == "postgres" else None
            self._urls[name] = str(self.folder / f"{name}.db") if server is None else server.database()
        return self._urls[name]

    @asynccontextmanager
    async def store(self, name: str = "a") -> AsyncIterator[Store]:
        url, clock = self.url(name), FakeClock()
        made = SQLiteStore(url, clock=clock) if self.kind == "sqlite" else PostgresStore(url, clock=clock, upgrade=True)
        async with made as store:
            yield store

    def execute(self, statement: str, name: str = "a") -> None:
        if self.kind == "sqlite":
            with sqlite3.connect(self.url(name)) as connection:
                connection.execute(statement)
            connection.close()
            return
        import psycopg

        with psycopg.connect(self.url(name)) as connection_:
            connection_.execute(statement.encode())


@pytest.fixture(params=["sqlite", "postgres"])
def rooms(request: pytest.FixtureRequest, tmp_path: Path) -> Rooms:
    return Rooms(request.param, tmp_path, request)


async def filled(store: Store, said: str = "hello", decide: bool = True) -> None:
    """Three runs: decided with what was shown, with a large payload, and erased."""
    await waiting(store, "r1")
    if decide:
        by = Decider("ann", (), "hash of what was shown")
        await store.decide("q_r1", {"type": "approve"}, by=by, digest="digest of q_r1")
    large = await Script(store, "r2").begin()
    await large.write(f.Said(js([{"role": "user", "content": said * 5000}])))
    await (await Script(store, "r3").begin()).end()
    await store.erase("r3")


async def lines_of(store: Store) -> list[bytes]:
    return [line async for line in export_journals(store)]


def wrong(lines: list[bytes], heads: Heads | None = None) -> list[str]:
    try:
        found = check_export(lines, heads)
    except UnreadableState as error:
        return [str(error)]
    return found.problems + found.others


async def test_an_export_has_every_fact_to_the_letter_and_is_sound(rooms: Rooms) -> None:
    async with rooms.store() as store:
        await filled(store)
        lines = await lines_of(store)
        histories = {run: await store.history(run) for run in ("r1", "r2", "r3")}
    assert check_export(lines) == Checked(runs=3)
    read = [json.loads(line) for line in lines]
    for run, history in histories.items():
        facts = [each for each in read if each.get("run") == run and "fact" in each]
        assert [(each["seq"], each["at"], each["hash"]) for each in facts] == [(e.seq, e.at, e.hash) for e in history]
        assert [json.loads(each["fact"]) for each in facts] == [entry.fact for entry in history]
    decided = [json.loads(each["fact"]) for each in read if '"approved"' in each.get("fact", "")]
    assert [(each["by"], each["shown"]) for each in decided] == [("ann", "hash of what was shown")]
    [blob] = [text for each in read for text in each.get("blobs", {}).values()]
    assert "hellohello" in blob
    assert "hello" not in "".join(each["fact"] for each in read if each.get("run") == "r3" and "fact" in each)


async def test_what_was_shown_stays_when_a_run_is_erased(rooms: Rooms) -> None:
    async with rooms.store() as store:
        await waiting(store, "r1")
        by = Decider("ann", (), "hash of what was shown")
        await store.decide("q_r1", {"type": "reject"}, by=by, digest="digest of q_r1")
        script = Script(store, "r1")
        stored = await store.load("r1")
        script.run, script.seq, script.fence = replay(stored.facts), len(stored.facts), stored.fence or 0
        await script.write(f.Told("c1", "no"))
        await script.end()
        await store.erase("r1")
        assert [each.fact.get("shown") for each in await store.history("r1") if each.fact["fact"] == "refused"] == [
            "hash of what was shown"
        ]
        assert await store.verify("r1") == []
        assert check_export(await lines_of(store)) == Checked(runs=1)


async def test_any_changed_byte_of_an_export_is_found(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db", clock=FakeClock()) as store:
        await waiting(store, "r1")
        by = Decider("ann", (), "shown")
        await store.decide("q_r1", {"type": "approve"}, by=by, digest="digest of q_r1")
        await (await Script(store, "r3").begin()).end()
        await store.erase("r3")
        whole = await lines_of(store)
    text = b"".join(whole)
    missed = []
    for place in range(len(text)):
        changed = text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]
        if not wrong(changed.splitlines(keepends=True)):
            missed.append(text[max(0, place - 20) : place + 20])
    assert missed == []


@pytest.mark.parametrize("left_out", [0, 3, -2, -1])
async def test_a_line_that_is_missing_is_found(left_out: int, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db", clock=FakeClock()) as store:
        await filled(store)
        lines = await lines_of(store)
    place = left_out % len(lines)
    assert wrong(lines[:place] + lines[place + 1 :])


async def test_an_export_that_is_cut_doubled_or_mixed_up_is_found(rooms: Rooms) -> None:
    async with rooms.store() as store:
        await filled(store)
        lines = await lines_of(store)
    ends = [number for number, line in enumerate(lines, 1) if b'"tally"' in line]
    one, two = lines[: ends[0]], lines[ends[0] : ends[1]]
    assert wrong(lines[: ends[1]]) == ["The export has lost its last line: it was cut off."]
    assert wrong(lines[: ends[1] + 1])[0].startswith("The export ends in the middle of run 'r3', after fact 1")
    assert "twice" in wrong([*one, *lines])[0]
    assert "had 3 runs" in wrong([*one, *lines[ends[1] :]])[0]
    assert wrong([*lines, lines[0]]) == [f"Line {len(lines) + 1} comes after the last line of the export."]
    swapped = [line.replace(b'"run":"r1"', b'"run":"r2"') for line in one]
    assert "Fact 1 of run 'r2' is not what was written" in wrong([*swapped, *lines[ends[0] :]])[0]
    assert "among those of" in wrong([*one[:-1], *two, *lines[ends[1] :]])[0]
    assert wrong([b"nonsense\n"])[0].startswith("Line 1 is not a line of an export")
    assert wrong([b"[]\n"])[0].startswith("Line 1 is not a line of an export")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE assentry_journal SET fact = replace(fact, 'hello', 'hallo') WHERE seq = 2", "Fact 2 of run 'r1'"),
        ("UPDATE assentry_journal SET at = at + 1 WHERE seq = 2", "The times of the facts of run 'r1'"),
        ("DELETE FROM assentry_journal WHERE seq = (SELECT max(seq) FROM assentry_journal)", "is missing"),
        ("UPDATE assentry_runs SET run = 'r9' WHERE run = 'r1'", "Fact 1 of run 'r9'"),
        ("UPDATE assentry_blobs SET body = '1'", "is not what was written"),
    ],
)
async def test_a_changed_database_is_found_named_and_left_out(rooms: Rooms, statement: str, said: str) -> None:
    async with rooms.store() as store:
        await filled(store)
    rooms.execute(statement)
    async with rooms.store() as store:
        damaged: list[str] = []
        lines = [line async for line in export_journals(store, damaged)]
        heads, unsealed = await heads_of(store)
    assert said in damaged[0]
    assert f"Left out as damaged: {damaged[0]}" in wrong(lines)
    if "blobs" not in statement:  # the chain has the hash of a blob, not the blob
        assert unsealed[0] == damaged[0] and len(heads) < 3


@pytest.fixture
def keys(tmp_path: Path) -> Any:
    make_key(tmp_path / "key")
    return read_key(tmp_path / "key"), read_public_key(tmp_path / "key.pub")


Rewrite = Callable[[Store], Awaitable[None]]


async def other_words(store: Store) -> None:
    await filled(store, said="goodbye")


async def shorter(store: Store) -> None:
    await filled(store, decide=False)


async def fewer(store: Store) -> None:
    await waiting(store, "r1")
    await store.decide(
        "q_r1", {"type": "approve"}, by=Decider("ann", (), "hash of what was shown"), digest="digest of q_r1"
    )


async def other_author(store: Store) -> None:
    await waiting(store, "r1")
    await store.decide("q_r1", {"type": "approve"}, by="eve", digest="digest of q_r1")


async def longer(store: Store) -> None:
    await filled(store)
    await store.say("r2", "more")
    await waiting(store, "r4")


@pytest.mark.parametrize(
    ("rewrite", "said"),
    [
        (filled, None),
        (longer, None),
        (other_words, "The first 3 facts of run 'r2' are not those that were written down."),
        (shorter, "Run 'r1' has 4 facts, and had 5 when its head was written down."),
        (fewer, "Run 'r2', of 3 facts, is not there: purged, or removed."),
        (other_author, "The first 5 facts of run 'r1' are not those that were written down."),
    ],
)
async def test_a_database_that_was_rewritten_as_a_whole_is_found_by_its_seal(
    rooms: Rooms, keys: Any, rewrite: Rewrite, said: str | None
) -> None:
    private, public = keys
    async with rooms.store() as store:
        await filled(store)
        seal = read_seal(msgspec.json.encode(await seal_runs(store, private)), public)
    async with rooms.store("b") as store:
        await rewrite(store)
        assert [await store.verify(run.id) for run in (await store.runs()).items] in ([[]], [[]] * 3, [[]] * 4)
        lines = await lines_of(store)
    assert wrong(lines) == [], "the chain alone does not show it"
    found = wrong(lines, Heads(seal.heads))
    assert (found == []) if said is None else (said in found)
    purged = wrong(lines, Heads(seal.heads, purged=True))
    assert bool(purged) == (said is not None and rewrite is not fewer)


async def test_erasing_does_not_break_a_seal(rooms: Rooms, keys: Any) -> None:
    async with rooms.store() as store:
        await filled(store)
        await (await Script(store, "r5").begin()).end()
        seal = await seal_runs(store, keys[0])
        await store.erase("r5")
        assert wrong(await lines_of(store), Heads(seal.heads)) == []


async def test_a_seal_that_was_changed_or_is_anothers_is_refused(tmp_path: Path, keys: Any) -> None:
    private, public = keys
    async with SQLiteStore(tmp_path / "a.db") as store:
        await filled(store)
        text = msgspec.json.encode(await seal_runs(store, private))
    assert read_seal(text, public).heads[0].run == "r1"
    make_key(tmp_path / "other")
    with pytest.raises(BadSignature, match="signed with key"):
        read_seal(text, read_public_key(tmp_path / "other.pub"))
    for place in range(len(text)):
        with pytest.raises(UnreadableState):
            read_seal(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :], public)
    for damaged in (b"", text[:-9], b"[]", b"\xff"):
        with pytest.raises(UnreadableState):
            read_seal(damaged, public)


async def test_a_key_is_private_and_is_never_replaced(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    for name in ("key", "new"):
        shutil.copy(tmp_path / "key.pub", tmp_path / "new.pub")
        with pytest.raises(UsageError, match="already"):
            make_key(tmp_path / name)
    (tmp_path / "text").write_text("-----BEGIN PRIVATE KEY-----")
    for wrong_file in ("text", "key.pub"):
        with pytest.raises(UsageError, match="not a private key"):
            read_key(tmp_path / wrong_file)
    (tmp_path / "text").write_text("x")
    with pytest.raises(UsageError, match="not a public key"):
        read_public_key(tmp_path / "text")
    assert read_public_key(tmp_path / "key") == read_public_key(tmp_path / "key.pub")


async def test_a_store_without_hashes_has_nothing_to_check() -> None:
    store = MemoryStore()
    await waiting(store)
    with pytest.raises(UsageError, match="keeps no hashes"):
        await lines_of(store)


def test_the_command_line_exports_seals_and_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSENTRY_STORE", raising=False)

    async def fill(path: str, said: str = "hello") -> None:
        async with SQLiteStore(path) as store:
            await filled(store, said)

    asyncio.run(fill("a.db"))
    asyncio.run(fill("rewritten.db", "goodbye"))

    def cli(*words: str) -> tuple[int, str, str]:
        try:
            code = main(["audit", *words])
        except SystemExit as left:
            code = int(str(left.code))
        return (code, *capsys.readouterr())

    assert cli("key", "k")[0] == 0
    assert cli("export", "--store", "a.db", "--out", "a.jsonl")[0] == 0
    code, out, _ = cli("export", "--store", "a.db")
    assert (code, out) == (0, Path("a.jsonl").read_text())
    assert cli("seal", "--store", "a.db", "--key", "k", "--out", "a.seal") == (0, "", "")
    assert cli("verify", "--store", "a.db") == (0, "3 runs are as written.\n", "")
    for target in (("--store", "a.db"), ("--file", "a.jsonl")):
        code, out, err = cli("verify", *target, "--seal", "a.seal", "--key", "k.pub")
        assert (code, err) == (0, "") and out.startswith("3 runs are as written.\nThey go on from the seal of ")
    assert cli("verify", "--store", "rewritten.db")[0] == 0
    code, out, _ = cli("verify", "--store", "rewritten.db", "--seal", "a.seal", "--key", "k.pub")
    assert code == 1 and "The first 3 facts of run 'r2' are not those that were written down." in out
    assert cli("verify", "--file", "a.jsonl", "--seal", "a.seal")[0] == 2
    assert cli("verify")[0] == 2
    assert cli("key", "other")[0] == 0
    code, _, err = cli("verify", "--file", "a.jsonl", "--seal", "a.seal", "--key", "other.pub")
    assert code == 1 and "signed with key" in err
    code, _, err = cli("verify", "--file", "none.jsonl")
    assert code == 1 and "none.jsonl" in err
    code, _, err = cli("verify", "--file", "k.pub")
    assert code == 1 and "Line 1 is not a line of an export" in err
    with sqlite3.connect("a.db") as connection:
        connection.execute("UPDATE assentry_journal SET fact = replace(fact, 'hello', 'hallo') WHERE run = 1")
    connection.close()
    code, out, err = cli("verify", "--store", "a.db")
    assert code == 1 and "Fact 2 of run 'r1' is not what was written" in out and "1 of 3 runs are damaged" in err
    code, _, err = cli("export", "--store", "a.db", "--out", "b.jsonl")
    assert code == 1 and "left out: Fact 2 of run 'r1'" in err
    code, out, _ = cli("verify", "--file", "b.jsonl", "--seal", "a.seal", "--key", "k.pub")
    assert code == 1 and "Run 'r1', of 5 facts, is not there" in out
    code, _, err = cli("seal", "--store", "a.db", "--key", "k", "--out", "b.seal")
    assert code == 1 and "not sealed: Fact 2 of run 'r1'" in err
