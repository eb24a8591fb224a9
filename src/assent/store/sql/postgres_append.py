"""Appending a change to Postgres with one statement, after a look at the run's own row.

The look gives the values that the rules compare. The statement writes the change if the row is still the one that was
looked at, and the schema the one that this Assent knows. Or else it matches nothing and writes nothing. In that case,
and for unusual changes, the statements of `writing` run in a transaction; they write the change or raise the error.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from psycopg.pq.abc import PGresult
from sqlalchemy import Table

from ...errors import AssentError
from ..news import is_news
from ..record import Change, SavedContext
from ..row_codec import FIRST, head_of
from ..rules import check_append
from .outbox import messages_of
from .postgres_server import NotAtOnce
from .prepared import LOADS, Prepared, Steps
from .schema import NEWS, READY, VERSION, VERSION_TABLE, blobs, contexts, journal, outbox, questions, runs, webhooks
from .writing import LockedRun, columns_of, end_of, is_ready, linked, row_after

WIDEST = 2**26
"""The number of bytes of facts and payloads go into one statement."""

_json = msgspec.json.Encoder().encode
_KINDS = {int: "int8", str: "text", bytes: "bytea"}


def is_ordinary(change: Change, known: set[str]) -> bool:
    """Return True if one statement can write the change. `known` are the definitions already stored."""
    rare = change.evidence or change.granted or change.used or change.revoked or change.chapter
    return not rare and known.issuperset(change.definitions)


def append_at_once(change: Change, now: int) -> Steps[bool]:
    """Write an ordinary change; return True if the run may be claimed now.

    Raises `NotAtOnce` if nothing was written.
    """
    run, head, values = None, FIRST, dict[str, Any]()
    if change.seq:
        result = yield FIND, {"run": change.record.id}
        run, values["version"] = _found(result)
        try:
            check_append(run.row, change, now)
            head = head_of(change.record.id, run.head)
        except AssentError:  # the transaction says so, once other writers are done
            raise NotAtOnce from None
    texts, hashes, kept, after = linked(change, head)
    if sum(map(len, texts)) + sum(map(len, kept.values())) > WIDEST:
        raise NotAtOnce
    row = row_after(run, change, now, after)
    ready = is_ready(row, now)
    values |= {"facts": texts, "hashes": hashes, "before": change.seq, "at": change.record.changed}
    values |= {**row, "number": None if run is None else run.id}
    parts = _parts(change, kept, values)
    tell = tuple(channel for channel, told in ((READY, ready), (NEWS, is_news(change))) if told)
    result = yield statement(run is None, tuple(row), tell, *parts), values
    if result.ntuples == 0:
        raise NotAtOnce
    return ready


def _found(result: PGresult) -> tuple[LockedRun, str]:
    """Return a run's own row, and the transaction that wrote it."""
    if result.ntuples == 0:
        raise NotAtOnce
    *row, version = (load(result.get_value(0, place)) for place, load in enumerate(_LOADS))
    return LockedRun(*row), version


def _parts(change: Change, kept: dict[str, bytes], values: dict[str, Any]) -> list[str]:
    """Return the names of the statement's parts besides the facts, and add their parameters to `values`."""
    parts = []
    if kept:
        values["names"], values["bodies"] = [bytes.fromhex(name) for name in kept], list(kept.values())
        parts.append("blobs")
    if change.context == SavedContext():
        parts += ["forget"] if change.seq else []
    elif change.context is not None:
        values["body"], values["kind"] = change.context.json, change.context.kind
        parts.append("context")
    asked = {question.id: columns_of(0, question) for question in change.asked}
    if len(asked) < len(change.asked):
        raise NotAtOnce
    settled = {}
    for end in change.settled:
        if end.id in asked:  # a statement does not see the rows that it inserts
            asked[end.id] |= end_of(end)
        else:
            settled[end.id] = end_of(end)
    if asked:
        values["asked"] = _json(list(asked.values()))
        parts.append("asked")
    if settled:
        values["ends"] = [id.encode() for id in settled]
        values["decided"] = [end["decided"] for end in settled.values()]
        values["showns"] = [(end["shown"] or "").encode() for end in settled.values()]
        for name in ("verdict", "by", "ended_seal"):
            values[f"{name}s"] = [end[name].encode() for end in settled.values()]
        parts.append("settled")
    if asked or settled:
        messages = messages_of(change)
        for name, place in (("marks", 0), ("events", 1)):
            values[name] = [str(message[place]).encode() for message in messages]
        values["messages"] = [body for _, _, body in messages]
        parts.append("told")
    return parts


# -- the statements ----------------------------------------------------------------------------------


def _names(table: Table, *without: str) -> list[str]:
    return [column.name for column in table.c if column.name not in without]


def _column(name: str) -> str:
    """Return the name in the database of a column of a run's own row."""
    return runs.c[name].name


def _parameter(name: str) -> str:
    return f":{name}::{_KINDS[runs.c[name].type.python_type]}"


# `xmin` is the transaction that wrote a row last: as long as it is the same, nobody has changed the row since.
_FOUND = ", ".join(map(_column, LockedRun._fields))
FIND = Prepared("find", f"SELECT {_FOUND}, xmin::text FROM {runs} WHERE run = :run::text")
_LOADS = [LOADS[runs.c[name].type.python_type] for name in LockedRun._fields] + [LOADS[str]]

_ASKED = _names(questions, "run")
_PARTS = {
    "blobs": f"""
    INSERT INTO {blobs} (run, hash, body)
    SELECT run.id, b.hash, b.body FROM run, unnest(:names::bytea[], :bodies::bytea[]) AS b (hash, body)
    ON CONFLICT DO NOTHING""",
    "forget": f"""
    DELETE FROM {contexts} USING run WHERE {contexts}.run = run.id""",
    "context": f"""
    INSERT INTO {contexts} (run, body, kind) SELECT run.id, :body::bytea, :kind::text FROM run
    ON CONFLICT (run) DO UPDATE SET body = excluded.body, kind = excluded.kind""",
    "asked": f"""
    INSERT INTO {questions} (run, {", ".join(f'"{name}"' for name in _ASKED)})
    SELECT run.id, {", ".join(f'q."{name}"' for name in _ASKED)}
    FROM run, json_populate_recordset(NULL::{questions}, :asked::json) AS q""",
    "settled": f"""
    UPDATE {questions} SET verdict = s.verdict, by = s.by, decided = s.at, shown = nullif(s.shown, ''),
        ended_seal = s.seal
    FROM run, unnest(
        :ends::text[], :verdicts::text[], :bys::text[], :decided::int8[], :showns::text[], :ended_seals::text[])
        AS s (id, verdict, by, at, shown, seal)
    WHERE {questions}.id = ANY (:ends::text[]) AND {questions}.id = s.id
        AND {questions}.run IS NOT DISTINCT FROM run.id""",
    "told": f"""
    INSERT INTO {outbox} (id, webhook, event, body, at, tries, due)
    SELECT m.mark || '_' || w.id, w.id, m.event, m.body, :at::int8, 0, :at::int8
    FROM run, {webhooks} AS w, unnest(:marks::text[], :events::text[], :messages::text[]) AS m (mark, event, body)
    WHERE w.{webhooks.c.disabled.name} IS NULL AND strpos(w.events, '"' || m.event || '"') > 0""",
}


@functools.cache
def statement(new: bool, columns: tuple[str, ...], tell: tuple[str, ...], *parts: str) -> Prepared:
    """Return the statement that writes these columns of a run's own row, its facts, and these parts.

    `tell` are the channels that are notified.
    """
    if new:
        given = ", ".join(map(_parameter, columns))
        own = f"INSERT INTO {runs} ({', '.join(map(_column, columns))}) SELECT {given} FROM same ON CONFLICT DO NOTHING"
    else:
        given = ", ".join(f"{_column(name)} = {_parameter(name)}" for name in columns)
        looked_at = f"{runs}.id = :number::int8 AND seq = :before::int8 AND {runs}.xmin::text = :version::text"
        own = f"UPDATE {runs} SET {given} FROM same WHERE {looked_at}"
    others = "".join(f",\n{name} AS ({_PARTS[name]})" for name in parts)
    told = ", ".join(f"pg_notify('{channel}', '')::text" for channel in tell)
    return Prepared(
        "append",
        f"""
WITH same AS MATERIALIZED (SELECT FROM {VERSION_TABLE} WHERE version_num = '{VERSION:04}'),
run AS ({own} RETURNING {runs}.id),
facts AS (
    INSERT INTO {journal} (run, seq, at, fact, prev_hash)
    SELECT run.id, :before::int8 + f.number, :at::int8, f.fact, f.prev_hash
    FROM run, unnest(:facts::text[], :hashes::bytea[]) WITH ORDINALITY AS f (fact, prev_hash, number)){others}
SELECT {told or "NULL::text"} FROM run""",
        writes=True,
    )
