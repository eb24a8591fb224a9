"""`assentry db`: create, repair and check the database of a store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from msgspec.json import encode

from ..store.audit import Checked, Heads, head_of_lines, log_entries, read_heads, runs_of
from ..store.open import open_store
from ..store.standing import LOG
from ..store.store import Store
from .source import StoreSource
from .write import put, put_done, put_json, say


async def upgrade_store(options: Namespace) -> int:
    """Create the tables, or bring them up to date."""
    async with open_store(options.url) as store:
        await store.upgrade()
    put_done({"ready": True}, "The store is ready.", json=options.json)
    return 0


async def rebuild_records(options: Namespace) -> int:
    """Rebuild the records from the journals."""
    async with open_store(options.url, create=False) as store:
        count = await store.rebuild()
    put_done({"runs": count}, f"Made the records of {count} runs anew.", json=options.json)
    return 0


async def vacuum(options: Namespace) -> int:
    """Rewrite the database without erased and deleted data."""
    async with open_store(options.url, create=False) as store:
        await store.vacuum()
    sentence = "The database was written anew, without what was erased or deleted."
    put_done({"vacuumed": True}, sentence, json=options.json)
    return 0


async def verify_store(options: Namespace) -> int:
    """Compare all stored data with the journals, and print the differences run by run."""
    heads = Heads(read_heads(Path(options.against)) if options.against is not None else ())
    found = await compare_store(options.url, heads, run=options.run, write=options.write)
    return print_result(found, json=options.json)


async def compare_store(url: str, heads: Heads, *, run: str | None = None, write: str | None = None) -> Checked:
    """Compare all stored data with the journals, and the journals with saved heads."""
    checked = Checked()
    with writing(write) as file:
        async with open_store(url, create=False) as store:
            strays = [] if run is not None else await store.strays()
            only = run if run is None else await StoreSource(store).whole_id("run", run)
            async for each in runs_of(store, only):
                found = await store.verify(each)
                entries = await store.lines(each) if not found and (write or heads.given) else []
                found += heads.compared(each, entries) if not found else []
                checked.runs += 1
                checked.damaged += bool(found)
                checked.problems += found
                if file is not None and entries:
                    file.write(encode(head_of_lines(each, entries)).decode() + "\n")
            strays += await _compare_log(store, heads, file) if run is None and not strays else []
    checked.others = [*strays, *(heads.missing() if run is None else ())]
    return checked


async def _compare_log(store: Store, heads: Heads, file: TextIO | None) -> list[str]:
    """Compare the log of standing grants with its saved head, and write its head."""
    entries = await log_entries(store)
    if file is not None and entries:
        file.write(encode(head_of_lines(LOG, entries)).decode() + "\n")
    return heads.compared(LOG, entries)


def print_result(checked: Checked, *, json: bool = False) -> int:
    """Print what was found, and the sum of it; return the exit code."""
    if json:
        put_json(checked)
        return 1 if checked.damaged or checked.others else 0
    for sentence in (*checked.problems, *checked.others):
        put(sentence)
    if checked.withheld:
        say(f"assentry: not checked, since this token may not see all of them: {', '.join(checked.withheld)}")
    if checked.damaged or checked.others:
        count = len(checked.others)
        besides = f"; {count} more things are not as they should be" if count else ""
        say(f"assentry: {checked.damaged} of {checked.runs} runs are damaged{besides}")
        return 1
    put(f"{checked.runs} {'run is' if checked.runs == 1 else 'runs are'} as written.")
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
