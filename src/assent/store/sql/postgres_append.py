"""Appending a change to Postgres with one statement, and so in one roundtrip.

The statement compares the run and writes the change, or matches nothing and writes nothing. In that case, after a
conflict with another writer, and for unusual changes, the statements of `writing` run in a transaction; they write the
change or raise the error.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import msgspec
from sqlalchemy import Table

from ..record import Change, SavedContext
from ..row_codec import FIRST, head_of
from ..rules import needs_lease
from .postgres_server import NotAtOnce
from .prepared import Prepared, Steps
from .schema import READY, blobs, contexts, journal, questions, runs
from .writing import end_seal, linked, question_columns, run_columns

MOST = 4096
"""The most runs whose heads are cached."""
WIDEST = 2**26
"""How many bytes of facts and payloads go into one statement."""

_json = msgspec.json.Encoder().encode
_KINDS = {int: "int8", str: "text", bytes: "bytea"}


class Heads:
    """A cache of heads, as last written or read here. Only hints: the statement compares with the database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, bytes]] = {}

    def keep(self, run: str, seq: int, head: bytes) -> None:
        """Cache the head of a run with `seq` facts."""
        with self._lock:
            self._known.pop(run, None)
            self._known[run] = (seq, head)
            if len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def of(self, run: str, seq: int) -> bytes | None:
        """Return the cached head of a run with `seq` facts; None if there is none."""
        known = self._known.get(run)
        return known[1] if known is not None and known[0] == seq else None


def is_ordinary(change: Change, known: set[str]) -> bool:
    """Return True if one statement can write the change. `known` are the definitions already stored."""
    rare = change.evidence or change.granted or change.used or change.revoked
    allowed = change.lease is not None or not needs_lease(change)
    return allowed and not rare and known.issuperset(change.definitions)


def append_at_once(change: Change, now: int, heads: Heads) -> Steps[bool]:
    """Write an ordinary change; return True if the run may be claimed now.

    Raises `NotAtOnce` if nothing was written.
    """
    head = FIRST.packed() if change.seq == 0 else (yield from _head(change, heads))
    texts, hashes, kept, after = linked(change, head_of(change.record.id, head))
    last = after.packed()
    if sum(map(len, texts)) + sum(map(len, kept.values())) > WIDEST:
        raise NotAtOnce
    values: dict[str, Any] = {"facts": texts, "hashes": hashes, "before": change.seq, "at": change.record.changed}
    parts = _parts(change, kept, values)
    start = _begin(change, now, last, values) if change.seq == 0 else _go_on(change, now, head, last, values)
    result = yield statement(start, *parts), values
    if result.ntuples == 0:
        raise NotAtOnce
    heads.keep(change.record.id, change.record.seq, last)
    return result.get_value(0, 0) is not None


def _head(change: Change, heads: Heads) -> Steps[bytes]:
    head = heads.of(change.record.id, change.seq)
    if head is None:
        found = yield HEAD, {"run": change.record.id, "seq": change.seq}
        head = found.get_value(0, 0) if found.ntuples else None
    if head is None:
        raise NotAtOnce
    return head


def _begin(change: Change, now: int, last: bytes, values: dict[str, Any]) -> str:
    lease = change.lease
    held = lease is not None and not change.release
    values |= run_columns(change.record)
    values["head"], values["fence"] = last, lease.fence if lease is not None else 0
    values["worker"] = lease.worker if lease is not None and held else None
    values["until"] = now + int((change.hold or 0) * 1000) if held else None
    return "begin"


def _go_on(change: Change, now: int, head: bytes, last: bytes, values: dict[str, Any]) -> str:
    record, lease = change.record, change.lease
    values |= {
        "run": record.id,
        "seq": record.seq,
        "wake": record.wake,
        "waiting": record.waiting,
        "status": record.status,
        "changed": record.changed if change.facts else None,
        "head": last,
        "head_before": head,
        "now": now,
    }
    if lease is None:
        return "free"
    values["worker"], values["fence"] = lease.worker, lease.fence
    if not change.release:
        values["until"] = now + int(change.hold * 1000) if change.hold is not None else now if change.take else None
    return ("take" if change.take else "hold") + (" release" if change.release else "")


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
    asked = {question.id: question_columns(0, question) for question in change.asked}
    if len(asked) < len(change.asked):
        raise NotAtOnce
    settled = {}
    for end in change.settled:
        if end.id in asked:  # a statement does not see the rows that it inserts
            asked[end.id] |= {"verdict": end.verdict, "by": end.by, "decided": end.at, "ended_seal": end_seal(end)}
        else:
            settled[end.id] = end
    if asked:
        values["asked"] = _json(list(asked.values()))
        parts.append("asked")
    if settled:
        values["ends"] = [id.encode() for id in settled]
        values["verdicts"] = [end.verdict.encode() for end in settled.values()]
        values["authors"] = [end.by.encode() for end in settled.values()]
        values["decided"] = [end.at for end in settled.values()]
        values["seals"] = [(end_seal(end) or "").encode() for end in settled.values()]
        parts.append("settled")
    return parts


# -- the statements ----------------------------------------------------------------------------------


def _names(table: Table, *without: str) -> list[str]:
    return [column.name for column in table.c if column.name not in without]


def _parameter(name: str) -> str:
    return f":{name}::{_KINDS[runs.c[name].type.python_type]}"


HEAD = Prepared("head", f"SELECT head FROM {runs} WHERE run = :run::text AND seq = :seq::int8")

_ROW = _names(runs, "id", "failures", "error", "erased")
_BEGIN = f"""
    INSERT INTO {runs} ({", ".join(_ROW)}, failures) VALUES ({", ".join(map(_parameter, _ROW))}, 0)
    ON CONFLICT DO NOTHING"""
# A statement sees the questions and the context as they were when it began. So it must not change a run that another
# transaction has changed since, even if the run has as many facts as before. `xmin` identifies that transaction.
_GO_ON = f"""
    UPDATE {runs} SET seq = :seq::int8, wake = :wake::int8, waiting = :waiting::int8, status = :status::text,
        changed = coalesce(:changed::int8, changed), head = :head::bytea{{set}}
    WHERE run = :run::text AND seq = :before::int8 AND head = :head_before::bytea AND erased IS NULL
        AND xmin = (SELECT xmin FROM {runs} WHERE run = :run::text){{where}}"""
# IS NOT DISTINCT FROM compares like an equals sign, but uses no index. So a run is found by its id and not among all
# runs of its worker, and a question by its id and not among all questions of its run.
_MINE = " AND fence = :fence::int8 AND worker IS NOT DISTINCT FROM :worker::text"
_UNTAKEN = " AND fence = :fence::int8 - 1 AND (worker IS NULL OR worker = :worker::text OR until <= :now::int8)"
_BACK = ", worker = NULL, until = NULL, failures = 0, error = NULL"
_STARTS = {
    "begin": (_BEGIN, "run.worker IS NULL"),
    "free": (_GO_ON.format(set="", where=""), "(run.worker IS NULL OR run.until <= :now::int8)"),
    "hold": (_GO_ON.format(set=", until = coalesce(:until::int8, until)", where=_MINE), "false"),
    "hold release": (_GO_ON.format(set=_BACK, where=_MINE), "true"),
    "take": (
        _GO_ON.format(set=", worker = :worker::text, fence = :fence::int8, until = :until::int8", where=_UNTAKEN),
        "false",
    ),
    "take release": (_GO_ON.format(set=f", fence = :fence::int8{_BACK}", where=_UNTAKEN), "true"),
}
"""The statements that write a run's own row, and the conditions under which others may claim a due run."""
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
    UPDATE {questions} SET verdict = s.verdict, by = s.by, decided = s.at, ended_seal = s.seal
    FROM run, unnest(:ends::text[], :verdicts::text[], :authors::text[], :decided::int8[], :seals::text[])
        AS s (id, verdict, by, at, seal)
    WHERE {questions}.id = ANY (:ends::text[]) AND {questions}.id = s.id
        AND {questions}.run IS NOT DISTINCT FROM run.id""",
}


@functools.cache
def statement(start: str, *parts: str) -> Prepared:
    """Return the statement of a change with this start and these parts."""
    own, claimable = _STARTS[start]
    others = "".join(f",\n{name} AS ({_PARTS[name]})" for name in parts)
    return Prepared(
        "append",
        f"""
WITH run AS ({own} RETURNING id, wake, worker, until),
facts AS (
    INSERT INTO {journal} (run, seq, at, fact, prev_hash)
    SELECT run.id, :before::int8 + f.number, :at::int8, f.fact, f.prev_hash
    FROM run, unnest(:facts::text[], :hashes::bytea[]) WITH ORDINALITY AS f (fact, prev_hash, number)){others}
SELECT CASE WHEN run.wake IS NOT NULL AND {claimable} THEN pg_notify('{READY}', '')::text END FROM run""",
        writes=True,
    )
