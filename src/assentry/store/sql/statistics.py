"""The counts of which statistics are made: settled questions in groups, read off indexes that have every column."""

from __future__ import annotations

import functools
from typing import Any, Literal

from sqlalchemy import ColumnElement, bindparam, case, func, literal_column, or_, select

from ..statistics import DECISIONS, ENDS, PROGRAMS, UNREAD, WAITS, Cell, Counted, TimeSlice
from .schema import questions
from .statement import PositionOf, Statement, Transaction

_q = questions.c
_settled = _q.verdict.is_not(None)
_open = _q.verdict.is_(None)
_start: ColumnElement[int] = bindparam("start")
_end: ColumnElement[int] = bindparam("end")


def _number(value: int) -> ColumnElement[int]:
    """Return a number as it stands: Postgres takes two parameters for different, and so two equal groups."""
    return literal_column(str(value))


def _class_of(wait: ColumnElement[int], low: int = 0, high: int = len(WAITS)) -> ColumnElement[int]:
    """Return the number of `WAITS` that a time has reached, by halves: a chain would compare up to 70 times."""
    if low == high:
        return _number(low)
    middle = (low + high) // 2
    below, above = _class_of(wait, low, middle), _class_of(wait, middle + 1, high)
    return case((wait < _number(WAITS[middle]), below), else_=above)


def _chosen(*names: str) -> list[ColumnElement[bool]]:
    return [_q[name] == bindparam(name) for name in names]


def _sum(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, _number(1)), else_=_number(0)))


_author = func.coalesce(_q.by, literal_column("''"))
_is_decision = or_(*(_q.verdict == literal_column(f"'{each}'") for each in DECISIONS))
_is_person = func.substr(_author, _number(1), PositionOf(_author.concat(literal_column("':'")), literal_column("':'"))
                         - _number(1)).not_in([literal_column(f"'{each}'") for each in PROGRAMS])  # fmt: skip


@functools.cache
def _cells(name: Literal["author", "tool"], chosen: tuple[str, ...]) -> Statement:
    """Return the query of all ends by their author, or of people's decisions by tool."""
    wait = _q.decided - _q.at
    found = select(
        (_author if name == "author" else _q.tool).label("group_name"),
        _class_of(wait).label("group_wait"),
        func.count(),
        *(_sum(_q.verdict == literal_column(f"'{each}'")) for each in ENDS),
        func.count(_q.looked),
        _sum(_q.looked < _number(UNREAD)),
        func.max(wait),
    ).where(_settled, _q.decided >= _start, _q.decided < _end, *_chosen(*chosen))
    if name == "tool":
        found = found.where(_is_decision, _is_person)
    return Statement(found.group_by(literal_column("group_name"), literal_column("group_wait")))


@functools.cache
def _asked(settled: bool, chosen: tuple[str, ...]) -> Statement:
    state = _settled if settled else _open
    return Statement(select(func.count()).where(state, _q.at >= _start, _q.at < _end, *_chosen(*chosen)))


@functools.cache
def _still_open(chosen: tuple[str, ...]) -> Statement:
    return Statement(select(func.count()).where(_open, _q.at < _end, *_chosen(*chosen)))


@functools.cache
def _open_then(chosen: tuple[str, ...]) -> Statement:
    """Return the query of the questions that have ended since a time, and were asked before it."""
    return Statement(select(func.count()).where(_settled, _q.decided >= _end, _q.at < _end, *_chosen(*chosen)))


def read_counts(transaction: Transaction, part: TimeSlice) -> Counted:
    """Count the questions of a part of a period."""
    values = _given(part, "tool", "agent")
    names, range = tuple(values), {"start": part.start, "end": part.end}
    asked = sum(_one(transaction, _asked(settled, names), **range, **values) for settled in (False, True))
    authors = transaction.rows(_cells("author", names), **range, **values)
    values = _given(part, "tool", "agent", "by")
    tools = transaction.rows(_cells("tool", tuple(values)), **range, **values)
    return Counted(asked, [Cell(*map(_whole, row)) for row in authors], [Cell(*map(_whole, row)) for row in tools])


def _whole(value: Any) -> Any:
    """Return a number of Postgres, whose sums are decimals, as an integer."""
    return value if type(value) is str else int(value)


def read_open_count(transaction: Transaction, part: TimeSlice) -> int:
    """Return the number of questions that were open at the end of a part."""
    values = _given(part, "tool", "agent")
    both = (_still_open(tuple(values)), _open_then(tuple(values)))
    return sum(_one(transaction, each, end=part.end, **values) for each in both)


def _given(part: TimeSlice, *names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names if getattr(part, name) is not None}


def _one(transaction: Transaction, statement: Statement, **values: Any) -> int:
    row = transaction.row(statement, **values)
    return 0 if row is None else int(row[0])
