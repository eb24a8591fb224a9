"""Lists of questions, runs and grants, in pages. A page starts after the last row of the page before."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from sqlalchemy import BindParameter, ColumnElement, Select, Table, and_, bindparam, func, or_, select

from ...core.digest import holds
from ...definitions.item import Evidence
from ...definitions.preview import Preview
from ...errors import QuestionNotFound, UnreadableState
from ..filter import Filter, cursor, fields_of
from ..record import GrantRecord, Page, Question, RunRecord
from .reading import RECORD
from .schema import grants, questions, runs
from .seal import is_sealed
from .statement import Statement, Transaction

T = TypeVar("T")

log = logging.getLogger("assent")


def _fields(kind: type[msgspec.Struct], table: Table) -> list[Any]:
    """Return the columns of a record, in the order of its fields; `run` is the run's id, not its number."""
    return [runs.c.run if name == "run" else table.c[name] for name in kind.__struct_fields__]


_QUESTION = select(*_fields(Question, questions), questions.c.asked_seal, questions.c.ended_seal).join_from(
    questions, runs, questions.c.run == runs.c.id
)
_GRANT = select(*_fields(GrantRecord, grants)).join_from(grants, runs, grants.c.run == runs.c.id)
FIND_QUESTION = Statement(_QUESTION.where(questions.c.id == bindparam("question")))
QUESTIONS_OF = Statement(_QUESTION.where(runs.c.run == bindparam("run")))


_LISTS: dict[type, tuple[Table, Select[Any]]] = {
    Question: (questions, _QUESTION),
    RunRecord: (runs, select(*RECORD)),
    GrantRecord: (grants, _GRANT),
}


@functools.cache
def _query(
    kind: type, names: tuple[str, ...], aged: bool, ended: bool | None, search: bool, further: bool, newest: bool
) -> Statement:
    """Return the query of a page; `further` for a page that starts at a cursor."""
    table, base = _LISTS[kind]
    order, age, end = fields_of(kind, ended)
    at, id = table.c[order], table.c["run" if table is runs else "id"]
    where = [_equal(table, name, names) for name in names]
    if aged:
        where.append(table.c[age] <= bindparam("until"))
    if ended is not None and end is not None:
        where.append(table.c[end].is_not(None) if ended else table.c[end].is_(None))
    if search:
        where.append(_contains())
    from_at: BindParameter[int] = bindparam("from_at")
    from_id: BindParameter[str] = bindparam("from_id")
    if further and newest:  # only the first condition lets an index find the start
        where.append(and_(at <= from_at, or_(at < from_at, id < from_id)))
    elif further:
        where.append(and_(at >= from_at, or_(at > from_at, id > from_id)))
    order_by = (at.desc(), id.desc()) if newest else (at, id)
    return Statement(base.where(*where).order_by(*order_by).limit(bindparam("limit")))


def _contains() -> ColumnElement[bool]:
    """Return the condition of a search; `store.filter.searched` does the same in memory."""
    plain = [questions.c.id, runs.c.run, questions.c.agent, questions.c.tool]
    unmasked = [questions.c.reason, questions.c.arguments, func.coalesce(questions.c.preview, "")]
    found = [func.lower(column).like(bindparam("search"), escape="!") for column in (*plain, *unmasked)]
    return or_(*found[: len(plain)], and_(questions.c.redact.is_(None), or_(*found[len(plain) :])))


def _pattern(search: str) -> str:
    escaped = search.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped}%"


def _equal(table: Table, name: str, names: tuple[str, ...]) -> ColumnElement[bool]:
    if name == "run":
        return table.c.run == select(runs.c.id).where(runs.c.run == bindparam("run")).scalar_subquery()
    if table is questions and "run" in names:
        # A run has few questions. coalesce keeps the database from using the index of agents or tools instead.
        return func.coalesce(table.c[name], "") == bindparam(name)
    return table.c[name] == bindparam(name)


def page(transaction: Transaction, filter: Filter[T], now: int) -> Page[T]:
    """Return a page of a list. A damaged question is left out, and its id is in `damaged`."""
    found: Page[T] = Page([])
    if not all(map(holds, filter.equal.values())):
        return found  # no text in a database can equal such a value
    values: dict[str, Any] = dict(filter.equal)
    if filter.age is not None:
        values["until"] = now - int(filter.age * 1000)
    if filter.start is not None:
        values["from_at"], values["from_id"] = filter.start
    if filter.search is not None:
        values["search"] = _pattern(filter.search)
    kind: type = filter.kind
    aged, further, search = filter.age is not None, filter.start is not None, filter.search is not None
    query = _query(kind, tuple(filter.equal), aged, filter.ended, search, further, filter.newest)
    rows = transaction.rows(query, **values, limit=filter.limit + 1)
    for row in rows[: filter.limit]:
        columns = _columns(filter.kind, row)
        if filter.kind is not Question or is_sealed(columns):
            found.items.append(_record(filter.kind, columns))
        else:
            found.damaged.append(str(columns["id"]))
            log.warning("%s", damaged(columns["id"]))
        if len(rows) > filter.limit:
            found.next = _end_of(columns[filter.fields.order], columns["id"]) or found.next
    return found


def _end_of(at: Any, id: Any) -> str | None:
    """Return the cursor after this row; None if a damaged row has no valid time or id."""
    if type(at) is not int or type(id) is not str or not holds(id):
        return None
    return cursor(at, id) if at >= 0 else cursor(0, "")


def find_question(transaction: Transaction, question_id: str) -> Question:
    """Return a question, open or not."""
    row = None
    if type(question_id) is str and holds(question_id):
        row = transaction.row(FIND_QUESTION, question=question_id)
    if row is None:
        raise QuestionNotFound(f"The store has no question {question_id!r:.80}.")
    columns = _columns(Question, row)
    if not is_sealed(columns):
        raise damaged(question_id)
    return _record(Question, columns)


def questions_of(transaction: Transaction, run_id: str) -> tuple[list[Question], list[str]]:
    """Return all questions of a run, damaged ones too, and the ids of the damaged ones."""
    rows = transaction.rows(QUESTIONS_OF, run=run_id) if holds(run_id) else []
    columns = [_columns(Question, row) for row in rows]
    return [_record(Question, each) for each in columns], [str(each["id"]) for each in columns if not is_sealed(each)]


def damaged(question_id: object) -> UnreadableState:
    """Return the error for a question row that the store did not write."""
    return UnreadableState(
        f"The row of question {question_id!r:.80} is not what was written, and is not shown. `assent db verify` says "
        "what differs; `assent db rebuild` makes it anew from the journal."
    )


_names = msgspec.json.Decoder(tuple[Any, ...]).decode
_any = msgspec.json.decode
_DECODE: dict[str, Callable[[str], Any]] = {
    "allowed": _names,
    "reviewers": _names,
    "redact": _names,
    "path": _names,
    "prompt": _any,
    "schema": _any,
    "pins": _any,
    "evidence": msgspec.json.Decoder(tuple[Evidence, ...]).decode,
    "preview": msgspec.json.Decoder(Preview).decode,
}
"""The decoders of the columns that hold JSON."""


def _columns(kind: type[T], row: tuple[Any, ...]) -> dict[str, Any]:
    names = kind.__struct_fields__  # type: ignore[attr-defined]
    return dict(zip((*names, "asked_seal", "ended_seal"), row, strict=False))


def _record(kind: type[T], columns: dict[str, Any]) -> T:
    """Return the record of a row. A damaged column that cannot be decoded keeps its stored value."""
    values = {name: columns[name] for name in kind.__struct_fields__}  # type: ignore[attr-defined]
    for name in values.keys() & _DECODE.keys():
        if values[name] is None:
            del values[name]
            continue
        with suppress(msgspec.DecodeError, UnicodeError, TypeError):
            values[name] = _DECODE[name](values[name])
    return kind(**values)
