"""`assent db`: create, repair and check the database of a store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from msgspec.json import encode

from ..store.audit import Heads, head_of, read_heads, runs_of
from ..store.open import open_store
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
    heads = Heads(read_heads(Path(options.against)) if options.against is not None else ())
    return await compared(options.url, heads, run=options.run, write=options.write)


async def compared(url: str, heads: Heads, *, run: str | None = None, write: str | None = None) -> int:
    """Compare all stored data with the journals, and the journals with saved heads; print the differences."""
    whole = damaged = 0
    with writing(write) as file:
        async with open_store(url, create=False) as store:
            strays = [] if run is not None else await store.strays()
            async for each in runs_of(store, run):
                found = await store.verify(each)
                entries = await store.lines(each) if not found and (write or heads.given) else []
                found += heads.compared(each, entries) if not found else []
                for sentence in found:
                    put(sentence)
                damaged += bool(found)
                whole += not found
                if file is not None and entries:
                    file.write(encode(head_of(each, entries)).decode() + "\n")
    return concluded(whole, damaged, [*strays, *(heads.missing() if run is None else ())])


def concluded(whole: int, damaged: int, others: list[str]) -> int:
    """Print what else was found, and the sum of it; return the exit code."""
    for sentence in others:
        put(sentence)
    if damaged or others:
        besides = f"; {len(others)} more things are not as they should be" if others else ""
        say(f"assent: {damaged} of {whole + damaged} runs are damaged{besides}")
        return 1
    put(f"{whole} {'run is' if whole == 1 else 'runs are'} as written.")
    return 0


@contextmanager
def writing(path: str | None) -> Iterator[TextIO | None]:
    """Open a file that replaces the old one only after it is completely written."""
    if path is None:
        yield None
        return
    new = Path(f"{path}.new")
    with new.open("w", encoding="utf-8") as file:
        yield file
    new.replace(path)
