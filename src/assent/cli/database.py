"""`assent db`: create, repair and check the database of a store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

from ..errors import UsageError
from ..store.open import open_store
from ..store.record import Entry
from ..store.row_codec import START, tallied
from ..store.store import Store
from .write import put, say


async def upgrade(options: Namespace) -> int:
    """Create the tables, or bring them up to date."""
    async with open_store(options.url) as store:
        await store.upgrade()
    put("The store is ready.")
    return 0


async def rebuild(options: Namespace) -> int:
    """Rebuild the records from the journals."""
    async with open_store(options.url, create=False) as store:
        put(f"Made the records of {await store.rebuild()} runs anew.")
    return 0


async def vacuum(options: Namespace) -> int:
    """Rewrite the database without erased and deleted data."""
    async with open_store(options.url, create=False) as store:
        await store.vacuum()
    put("The database was written anew, without what was erased or deleted.")
    return 0


async def verify(options: Namespace) -> int:
    """Compare all stored data with the journals, and print the differences run by run."""
    heads = Heads(options.against)
    whole = damaged = 0
    with _writing(options.write) as write:
        async with open_store(options.url, create=False) as store:
            strays = [] if options.run is not None else await store.strays()
            async for run in _runs(store, options.run):
                found = await store.verify(run)
                entries = await store.lines(run) if not found and (options.write or options.against) else []
                found += heads.compared(run, entries) if not found else []
                for sentence in found:
                    put(sentence)
                damaged += bool(found)
                whole += not found
                if write is not None and entries:
                    write.write(encode(head_of(run, entries)).decode() + "\n")
    others = [*strays, *(heads.missing() if options.run is None else ())]
    for sentence in others:
        put(sentence)
    if damaged or others:
        besides = f"; {len(others)} more things are not as they should be" if others else ""
        say(f"assent: {damaged} of {whole + damaged} runs are damaged{besides}")
        return 1
    put(f"{whole} {'run is' if whole == 1 else 'runs are'} as written.")
    return 0


class SavedHead(Struct, frozen=True):
    """The length and hash of a run's journal when its head was saved."""

    run: str
    facts: int
    hash: str
    """Hash of the facts up to this point, and of their times."""


def head_of(run: str, entries: list[Entry]) -> SavedHead:
    """Make the head of these lines of a run. Erasing does not change the head."""
    tally = START
    for entry in entries:
        tally = tallied(tally, bytes.fromhex(entry.hash), entry.seq, entry.at)
    return SavedHead(run, len(entries), tally.hex())


class Heads:
    """Saved heads from an earlier `--write`, to compare runs with."""

    def __init__(self, path: str | None) -> None:
        self._left: dict[str, SavedHead] = {}
        try:
            for line in Path(path).read_bytes().splitlines() if path is not None else ():
                head = decode(line, type=SavedHead)
                self._left[head.run] = head
        except (DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} was not written by `assent db verify --write`: {error}") from None

    def compared(self, run: str, entries: list[Entry]) -> list[str]:
        """Return the differences from the saved head of a run."""
        head = self._left.pop(run, None)
        if head is None:
            return []
        if len(entries) < head.facts:
            return [f"Run {run!r} has {len(entries)} facts, and had {head.facts} when its head was written down."]
        same = head_of(run, entries[: head.facts]) == head
        return [] if same else [f"The first {head.facts} facts of run {run!r} are not those that were written down."]

    def missing(self) -> list[str]:
        """Return a sentence for each saved head whose run does not exist any more."""
        return [
            f"Run {head.run!r}, of {head.facts} facts, is not there: purged, or removed."
            for head in self._left.values()
        ]


@contextmanager
def _writing(path: str | None) -> Iterator[TextIO | None]:
    """Open a file that replaces the old one only after it is completely written."""
    if path is None:
        yield None
        return
    new = Path(f"{path}.new")
    with new.open("w", encoding="utf-8") as file:
        yield file
    new.replace(path)


async def _runs(store: Store, run: str | None) -> AsyncIterator[str]:
    if run is not None:
        yield run
        return
    after: str | None = None
    while True:
        page = await store.runs(limit=1000, after=after)
        for record in page.items:
            yield record.id
        if page.next is None:
            return
        after = page.next
