"""Reading a run from Postgres with one statement: its journal and its context in one roundtrip and one snapshot.

The first row of the result is the run's own, with its context. The other rows are the journal's; the run's columns are
NULL in them.
"""

from __future__ import annotations

from psycopg.pq.abc import PGresult

from ...core.digest import holds
from ...errors import UnreadableState
from ..record import Stored
from ..row_codec import head_of
from .postgres_append import Heads
from .postgres_server import NotAtOnce
from .prepared import LOADS, Prepared, Steps
from .reading import FOUND, have_payloads, lines_from, record_from, stored_from
from .schema import blobs, contexts, journal, runs
from .writing import missing

_OWN = [*FOUND, contexts.c.body, contexts.c.kind]
_ROW = [journal.c.seq, journal.c.at, journal.c.fact, journal.c.prev_hash]
_LOADS = [LOADS[column.type.python_type] for column in _OWN]
_SEQ, _AT, _FACT, _PREV_HASH = range(len(_OWN), len(_OWN) + len(_ROW))
_number, _text = LOADS[int], LOADS[str]
FARTHEST = 2**63 - 1
"""The largest number of a fact that a column can hold."""


def _read(which: str) -> Prepared:
    own = ", ".join(f"{column.table.name}.{column.name}" for column in _OWN)
    return Prepared(
        "read",
        f"""
WITH own AS (
    SELECT {own} FROM {runs} LEFT JOIN {contexts} ON {contexts}.run = {runs}.id WHERE {runs}.{which})
SELECT *, NULL::int8, NULL::int8, NULL::text, NULL::bytea FROM own
UNION ALL
(SELECT {"NULL, " * len(_OWN)}{", ".join(column.name for column in _ROW)} FROM {journal}
WHERE run = (SELECT id FROM own) AND seq > (SELECT least(:after::int8, seq) FROM own) ORDER BY seq)""",
    )


READ = _read("run = :run::text")
NEWEST = _read(f"id = (SELECT max(id) FROM {runs} WHERE thread = :thread::text)")

BLOBS = Prepared("blobs", f"SELECT hash, body FROM {blobs} WHERE run = :run::int8")


def read_at_once(run_id: str, after: int, heads: Heads) -> Steps[Stored]:
    """Return a run with all facts but the first `after`; raise `NotAtOnce` if a transaction must read it."""
    if type(run_id) is not str or not holds(run_id):
        raise missing(run_id)
    result = yield READ, {"run": run_id, "after": min(max(after, 0), FARTHEST)}
    if result.ntuples == 0:
        raise missing(run_id)
    return (yield from _stored(result, after, heads))


def newest_at_once(thread: str, heads: Heads) -> Steps[Stored | None]:
    """Return the newest run of a thread, or None; raise `NotAtOnce` if a transaction must read it."""
    if type(thread) is not str or not holds(thread):
        return None
    result = yield NEWEST, {"thread": thread, "after": 0}
    return (yield from _stored(result, 0, heads)) if result.ntuples else None


def _stored(result: PGresult, after: int, heads: Heads) -> Steps[Stored]:
    value = result.get_value
    if value(0, _SEQ) is not None:  # the server does not promise the order of a UNION
        raise NotAtOnce
    *own, body, kind = (load(value(0, place)) for place, load in enumerate(_LOADS))
    record, fence, number, stored_head = record_from(tuple(own)), *own[-3:]
    rows = [
        (_number(value(row, _SEQ)), _number(value(row, _AT)), _text(value(row, _FACT)), value(row, _PREV_HASH))
        for row in range(1, result.ntuples)
    ]
    try:
        head = head_of(record.id, stored_head)
        lines, payloads = lines_from(record, head, rows, after), []
        if have_payloads(lines):
            kept = yield BLOBS, {"run": number}
            payloads = [(kept.get_value(row, 0), kept.get_value(row, 1)) for row in range(kept.ntuples)]
        stored = stored_from(record, fence, head, lines, payloads, (body, kind))
    except UnreadableState as error:  # damaged, or its blobs were erased after the first statement
        raise NotAtOnce from error
    heads.keep(record.id, record.seq, stored_head)
    return stored
