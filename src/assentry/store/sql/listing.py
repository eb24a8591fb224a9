"""Lists of questions, runs and grants, in pages. A page starts after the last row of the page before."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import BindParameter, ColumnElement, Select, Table, and_, bindparam, func, literal, or_, select

from ...core.wording import holds
from ...definitions.item import Evidence
from ...definitions.preview import Preview
from ...errors import QuestionNotFound, UnreadableState
from ..filter import Filter, cursor, fields_of, is_for, names_of
from ..record import GrantRecord, Page, Question, RunRecord
from .reading import RECORD
from .schema import grants, questions, runs
from .seal import is_sealed
from .statement import PositionOf, Statement, Transaction

T = TypeVar("T")

log = logging.getLogger("assentry")


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


class _Shape(NamedTuple):
    """The parts of a filter that make the text of its query."""

    kind: type
    names: tuple[str, ...]
    aged: bool
    ended: bool | None
    further: bool
    """True for a page that starts at a cursor."""
    newest: bool
    asleep: bool
    late: bool = False
    """True for questions that ended at a time or later."""
    early: bool = False
    """True for questions that ended before a time."""
    names_of_decider: int = 0
    """The number of names that whoever is to be able to decide has; 0 if anybody may."""

    @property
    def place(self) -> list[Any]:
        """The two columns by which the list is sorted."""
        table, _ = _LISTS[self.kind]
        return [table.c[fields_of(self.kind, self.ended).order], table.c["run" if table is runs else "id"]]

    def of(self, base: Select[Any]) -> Select[Any]:
        """Return a query of the rows that fit, in the order of the list, without the search."""
        table, _ = _LISTS[self.kind]
        _, age, end = fields_of(self.kind, self.ended)
        at, id = self.place
        where = [_equal(table, name, self.names) for name in self.names]
        if self.aged:
            where.append(table.c[age] <= bindparam("until"))
        if self.ended is not None and end is not None:
            where.append(table.c[end].is_not(None) if self.ended else table.c[end].is_(None))
        if self.asleep:
            where.append(runs.c.wake.is_(None))
        if self.late:
            where.append(at >= bindparam("decided_after"))
        if self.early:
            where.append(at < bindparam("decided_before"))
        if self.names_of_decider:
            where.append(_is_for(self.names_of_decider))
        from_at: BindParameter[int] = bindparam("from_at")
        from_id: BindParameter[str] = bindparam("from_id")
        if self.further and self.newest:  # only the first condition lets an index find the start
            where.append(and_(at <= from_at, or_(at < from_at, id < from_id)))
        elif self.further:
            where.append(and_(at >= from_at, or_(at > from_at, id > from_id)))
        return base.where(*where).order_by(*((at.desc(), id.desc()) if self.newest else (at, id)))


@functools.cache
def _query(shape: _Shape, search: bool, bounded: bool) -> Statement:
    """Return the query of a page; `bounded` for a search that ends at a place."""
    query = shape.of(_LISTS[shape.kind][1])
    at, id = shape.place
    to_at: BindParameter[int] = bindparam("to_at")
    to_id: BindParameter[str] = bindparam("to_id")
    if search:
        query = query.where(_contains())
    if bounded and shape.newest:
        query = query.where(at >= to_at, or_(at > to_at, id >= to_id))
    elif bounded:
        query = query.where(at <= to_at, or_(at < to_at, id <= to_id))
    return Statement(query.limit(bindparam("limit")))


@functools.cache
def _end_query(shape: _Shape) -> Statement:
    """Return the query of the last place that a search looks at, and of the place after it."""
    return Statement(shape.of(select(*shape.place)).offset(bindparam("skipped")).limit(2))


def _contains() -> ColumnElement[bool]:
    """Return the condition of a search; `store.filter.searched` does the same in memory."""
    plain = [questions.c.id, runs.c.run, questions.c.agent, questions.c.tool]
    unmasked = [questions.c.reason, questions.c.arguments, func.coalesce(questions.c.preview, "")]
    found = [PositionOf(func.lower(column), bindparam("search")) > 0 for column in (*plain, *unmasked)]
    return or_(*found[: len(plain)], and_(questions.c.redact.is_(None), or_(*found[len(plain) :])))


def _is_for(count: int) -> ColumnElement[bool]:
    """Return the condition that a person may decide; `store.filter.is_for` does the same in memory.

    The reviewers are a JSON list of texts. With a comma for its bracket, each begins with `,"`. Inside of a text there
    is a backslash before the quote.
    """
    listed = literal(",") + func.substr(questions.c.reviewers, 2)
    named = [PositionOf(listed, bindparam(f"decider_{n}")) > 0 for n in range(count)]
    own: BindParameter[str] = bindparam("decider")
    another = or_(questions.c.started_by.is_(None), questions.c.started_by != own)
    return and_(another, or_(questions.c.reviewers.is_(None), *named))


def _decider_values(filter: Filter[Any]) -> dict[str, str]:
    if filter.decider is None:
        return {}
    texts = [msgspec.json.encode(name).decode() for name in names_of(filter.decider) if holds(name)]
    names = {f"decider_{n}": f",{text}" for n, text in enumerate(texts)}
    return {"decider": filter.decider.name, **names}


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
    if not _can_fit(filter):
        return found  # no text in a database can equal such a value
    shape, values, search = _shape_of(filter), _values_of(filter, now), filter.search is not None
    end: tuple[int, str] | None = None
    if filter.search is not None:
        end = _end_of_search(transaction, shape, values, filter.reach)
        values["search"] = filter.search.lower()
    if end is not None:
        values["to_at"], values["to_id"] = end
    rows = transaction.rows(_query(shape, search, end is not None), **values, limit=filter.limit + 1)
    if end is not None and len(rows) <= filter.limit:
        found.next = cursor(*end)
    for row in rows[: filter.limit]:
        columns = _columns(filter.kind, row)
        if filter.kind is not Question or is_sealed(columns):
            record = _record(filter.kind, columns)
            if filter.decider is None or is_for(filter.decider, record):  # the names were looked for in a text
                found.items.append(record)
        else:
            found.damaged.append(str(columns["id"]))
            log.warning("%s", damaged_question(columns["id"]))
        if len(rows) > filter.limit:
            found.next = _end_of(columns[filter.fields.order], columns["id"]) or found.next
    return found


def count(transaction: Transaction, filter: Filter[Any], now: int) -> int:
    """Return the number of rows that fit, at most `limit`, without the search."""
    if not _can_fit(filter):
        return 0
    row = transaction.row(_count_query(_shape_of(filter)), **_values_of(filter, now), limit=filter.limit)
    return int(row[0]) if row is not None else 0


@functools.cache
def _count_query(shape: _Shape) -> Statement:
    rows = shape.of(select(literal(1).label("one")).select_from(_LISTS[shape.kind][0])).order_by(None)
    return Statement(select(func.count()).select_from(rows.limit(bindparam("limit")).subquery()))


def _can_fit(filter: Filter[Any]) -> bool:
    """Return True unless the filter has a value that no text in a database can equal."""
    own = "" if filter.decider is None else filter.decider.name
    return all(map(holds, [*filter.equal.values(), own]))


def _values_of(filter: Filter[Any], now: int) -> dict[str, Any]:
    """Return the parameters of a query, without those of the search."""
    values: dict[str, Any] = {**filter.equal, **_decider_values(filter)}
    if filter.age is not None:
        values["until"] = now - int(filter.age * 1000)
    if filter.start is not None:
        values["from_at"], values["from_id"] = filter.start
    times = {"decided_after": filter.decided_after, "decided_before": filter.decided_before}
    return values | {name: at for name, at in times.items() if at is not None}


def _shape_of(filter: Filter[T]) -> _Shape:
    return _Shape(
        filter.kind,
        tuple(filter.equal),
        filter.age is not None,
        filter.ended,
        filter.start is not None,
        filter.newest,
        filter.asleep,
        filter.decided_after is not None,
        filter.decided_before is not None,
        max(0, len(_decider_values(filter)) - 1),
    )


def _end_of_search(
    transaction: Transaction, shape: _Shape, values: dict[str, Any], reach: int
) -> tuple[int, str] | None:
    """Return the last place that a search looks at; None if it looks at all the rest.

    It does too if a damaged row there has no valid time or id.
    """
    places = transaction.rows(_end_query(shape), **values, skipped=reach - 1)
    if len(places) < 2:
        return None
    at, id = places[0]
    return (at, id) if _is_place(at, id) and at >= 0 else None


def _end_of(at: Any, id: Any) -> str | None:
    """Return the cursor after this row; None if a damaged row has no valid time or id."""
    if not _is_place(at, id):
        return None
    return cursor(at, id) if at >= 0 else cursor(0, "")


def _is_place(at: Any, id: Any) -> bool:
    return type(at) is int and type(id) is str and holds(id)


def find_question(transaction: Transaction, question_id: str) -> Question:
    """Return a question, open or not."""
    row = None
    if type(question_id) is str and holds(question_id):
        row = transaction.row(FIND_QUESTION, question=question_id)
    if row is None:
        raise QuestionNotFound(f"The store has no question {question_id!r:.80}.")
    columns = _columns(Question, row)
    if not is_sealed(columns):
        raise damaged_question(question_id)
    return _record(Question, columns)


def questions_of_run(transaction: Transaction, run_id: str) -> tuple[list[Question], list[str]]:
    """Return all questions of a run, damaged ones too, and the ids of the damaged ones."""
    rows = transaction.rows(QUESTIONS_OF, run=run_id) if holds(run_id) else []
    columns = [_columns(Question, row) for row in rows]
    return [_record(Question, each) for each in columns], [str(each["id"]) for each in columns if not is_sealed(each)]


def damaged_question(question_id: object) -> UnreadableState:
    """Return the error for a question row that the store did not write."""
    return UnreadableState(
        f"The row of question {question_id!r:.80} is not what was written, and is not shown. `assentry db verify` says "
        "what differs; `assentry db rebuild` makes it anew from the journal."
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
