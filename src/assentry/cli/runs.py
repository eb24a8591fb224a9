"""`assentry runs`: list, show, erase, retry and purge runs."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from msgspec.json import encode

from ..core.run import UNDER_WAY
from ..errors import StoreFailed
from ..store.open import open_store
from ..store.record import Entry, RunRecord
from .source import StoreSource, source
from .table import Cell, Column, TimeCell, print_table
from .write import confirm, put, put_done, put_json, say, spelled_name, when

RUNS = (
    Column("RUN", "id"),
    Column("AGENT", "text"),
    Column("STATUS"),
    Column("QUESTIONS", least=120),
    Column("FACTS", least=120),
    Column("BEGAN (UTC)", "time", least=100, brief="BEGAN"),
    Column("CHANGED (UTC)", "time", brief="CHANGED"),
    Column("NOTE", "text"),
)
FACTS = (
    Column("#"),
    Column("AT (UTC)", "time", brief="AT"),
    Column("FACT"),
    Column("CALL", "text", least=100),
    Column("BY", "text"),
    Column("WHAT", "text"),
)
LONGEST_FACT = 200
"""Characters of a fact on its line; `--json` prints all of the fact."""
LEFT_OUT = ("fact", "at", "call", "by", "path")


async def print_runs(options: Namespace) -> int:
    """Print a page of runs."""
    async with source(options) as place:
        page = await place.runs(agent=options.agent, status=options.status, limit=options.limit, after=options.after)
    if options.json:
        put_json(page)
        return 0
    print_table(RUNS, map(_row, page.items))
    if page.next is not None:
        say(f"There are more: --after '{page.next}'")
    return 0


def _row(run: RunRecord) -> tuple[Cell, ...]:
    return (
        run.id,
        spelled_name(run.agent),
        run.status,
        str(run.waiting),
        str(run.seq),
        TimeCell(run.began),
        TimeCell(run.changed),
        _note(run),
    )


def _note(run: RunRecord) -> str:
    """Return the note of a run: erased, driven by a worker, or failed."""
    if run.erased is not None:
        return f"erased {when(run.erased)}"
    if run.worker is not None:
        return f"driven by {run.worker}"
    left = ", and is left alone" if run.wake is None and run.status in UNDER_WAY else ""
    return f"failed {run.failures} times{left}: {run.error or ''}"[:LONGEST_FACT] if run.failures else ""


async def print_run(options: Namespace) -> int:
    """Print a run, one line for each fact."""
    async with source(options) as place:
        id = await place.whole_id("run", options.run)
        record, history = await place.run(id), await place.history(id)
    if options.json:
        put_json({"run": record, "history": history})
        return 0
    print_table(RUNS, [_row(record)])
    put()
    print_table(FACTS, map(_line, history))
    return 0


def _line(entry: Entry) -> tuple[Cell, ...]:
    fact = entry.fact
    call = "/".join([*fact.get("path", ()), *([fact["call"]] if isinstance(fact.get("call"), str) else [])])
    return str(entry.seq), TimeCell(entry.at), str(fact.get("fact", "")), call, str(fact.get("by", "")), _what(fact)


def _what(fact: dict[str, Any]) -> str:
    rest = {name: value for name, value in fact.items() if name not in LEFT_OUT}
    edited = {name: rest[name] for name in ("tool", "args") if fact.get("asked") and name in rest}
    text = encode({**edited, **rest}).decode() if rest else ""  # what an edit changed comes before what may be cut off
    return text if len(text) <= LONGEST_FACT else text[: LONGEST_FACT - 1] + "…"


async def erase_run(options: Namespace) -> int:
    """Erase the content of a run."""
    async with open_store(options.url, create=False) as store:
        id = await StoreSource(store).whole_id("run", options.run)
        await store.erase(id)
        record = await store.record(id)
    put_done(record, f"Erased what was said in {id}.", json=options.json)
    if store.keeps_dead_rows:
        say("The database still has it in dead rows: `assentry db vacuum` writes the tables anew without them.")
    return 0


async def retry(options: Namespace) -> int:
    """Acquire a run and release it, so that the run is due now and its failures are reset."""
    async with open_store(options.url, create=False) as store:
        id = await StoreSource(store).whole_id("run", options.run)
        record = await store.record(id)
        if record.status not in UNDER_WAY:
            say(f"Run {id} is {record.status}; there is nothing in it for a worker to do.")
            return 1
        lease = await store.take(id, "assentry runs retry", seq=record.seq, hold=10)
        try:
            await store.release(lease, again_in=0)
        except StoreFailed as error:
            say(f"assentry: {error} Run {id} is held for 10 seconds; try again then.")
            return 1
        record = await store.record(id)
    put_done(record, f"Workers look at {id} again.", json=options.json)
    return 0


async def purge_runs(options: Namespace) -> int:
    """Delete runs, after confirmation unless `--yes` is given."""
    which = f"runs that are {' or '.join(options.status)} and have not changed for {options.older_than / 86400:g} days"
    if not options.yes and not confirm(f"Delete all {which}, for good?"):
        say("Nothing was deleted.")
        return 1
    async with open_store(options.url, create=False) as store:
        count = await store.purge(unchanged_for=options.older_than, statuses=options.status)
    put_done({"runs": count}, f"Deleted {count} {'run' if count == 1 else 'runs'}.", json=options.json)
    return 0
