"""Lists of questions, runs and grants, in pages. A page starts after the last row of the page before."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, func, or_, select

from ...core.digest import holds
from ...errors import QuestionNotFound, UnreadableState
from ...item import Evidence
from ..record import GrantRecord, Page, Question, RunRecord, cursor
from .reading import RECORD, record_from
from .schema import grants, questions, runs
from .seal import is_sealed
from .statement import Statement, Transaction

T = TypeVar("T", RunRecord, GrantRecord)

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


@functools.cache
def _conditions() -> dict[tuple[str, str], ColumnElement[bool]]:
    """Return the SQL condition of each filter, by list and filter name."""
    made = {
        (list_, name): table.c[name] == bindparam(name)
        for list_, table, names in (
            ("questions", questions, ("agent", "tool")),
            ("runs", runs, ("agent", "status", "thread")),
            ("grants", grants, ("agent", "tool")),
        )
        for name in names
    }
    number = select(runs.c.id).where(runs.c.run == bindparam("run")).scalar_subquery()
    made |= {
        ("questions", "run"): questions.c.run == number,
        ("grants", "run"): grants.c.run == number,
        ("questions", "until"): questions.c.at <= bindparam("until"),
        ("runs", "until"): runs.c.changed <= bindparam("until"),
        ("questions", "open"): questions.c.verdict.is_(None),
        ("questions", "settled"): questions.c.verdict.is_not(None),
        ("grants", "held"): grants.c.revoked.is_(None),
    }
    return made


def _condition(list_: str, name: str, filters: tuple[str, ...]) -> ColumnElement[bool]:
    if list_ == "questions" and "run" in filters and name in ("agent", "tool"):
        # A run has few questions. coalesce keeps the database from using the index of agents or tools instead.
        return func.coalesce(questions.c[name], "") == bindparam(name)
    return _conditions()[list_, name]


@functools.cache
def _page_of(list_: str, filters: tuple[str, ...], further: bool) -> Statement:
    """Return the query of a page with these filters; `further` for a page that starts at a cursor."""
    base: Select[Any]
    base, at, id = {
        "questions": (_QUESTION, questions.c.at, questions.c.id),
        "runs": (select(*RECORD), runs.c.began, runs.c.run),
        "grants": (_GRANT, grants.c.at, grants.c.id),
    }[list_]
    chosen = base.where(*(_condition(list_, name, filters) for name in filters))
    if further:  # only the first condition lets an index find the start
        later = and_(at >= bindparam("from_at"), or_(at > bindparam("from_at"), id > bindparam("from_id")))
        chosen = chosen.where(later)
    return Statement(chosen.order_by(at, id).limit(bindparam("limit")))


def _rows(
    transaction: Transaction, list_: str, given: dict[str, Any], limit: int, after: tuple[int, str] | None
) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the rows of a page, and True if there are more. Filters in `given` that are None are ignored."""
    values = {name: value for name, value in given.items() if value is not None}
    if not all(type(value) is not str or holds(value) for value in values.values()):
        return [], False  # no text in a database can equal such a value
    statement = _page_of(list_, tuple(values), after is not None)
    values = {name: value for name, value in values.items() if value is not True}
    if after is not None:
        values |= {"from_at": after[0], "from_id": after[1]}
    rows = transaction.rows(statement, **values, limit=limit + 1)
    return rows[:limit], len(rows) > limit


def _page(
    transaction: Transaction,
    list_: str,
    given: dict[str, Any],
    limit: int,
    after: tuple[int, str] | None,
    made: Callable[[tuple[Any, ...]], T],
    place: Callable[[T], tuple[int, str]],
) -> Page[T]:
    rows, more = _rows(transaction, list_, given, limit, after)
    page: Page[T] = Page([])
    for row in rows:
        item = made(row)
        page.items.append(item)
        page.next = _end_of(*place(item)) or page.next if more else None
    return page


def list_questions(
    transaction: Transaction,
    run: str | None,
    agent: str | None,
    tool: str | None,
    until: int | None,
    settled: bool,
    limit: int,
    after: tuple[int, str] | None,
) -> Page[Question]:
    """Return a page of questions, the oldest first. A damaged row is left out, and its id is in `damaged`."""
    given = {"settled" if settled else "open": True, "run": run, "agent": agent, "tool": tool, "until": until}
    rows, more = _rows(transaction, "questions", given, limit, after)
    page: Page[Question] = Page([])
    for row in rows:
        columns = _columns(row)
        at, id = columns["at"], columns["id"]
        if is_sealed(columns):
            page.items.append(_question(columns))
        else:
            page.damaged.append(str(id))
            log.warning("%s", damaged(id))
        page.next = _end_of(at, id) or page.next if more else None
    return page


def _end_of(at: Any, id: Any) -> str | None:
    """Return the cursor after this row; None if a damaged row has no valid time or id."""
    if type(at) is not int or type(id) is not str or not holds(id):
        return None
    return cursor(at, id) if at >= 0 else cursor(0, "")


def list_runs(
    transaction: Transaction,
    agent: str | None,
    status: str | None,
    thread: str | None,
    until: int | None,
    limit: int,
    after: tuple[int, str] | None,
) -> Page[RunRecord]:
    """Return a page of runs, the oldest first."""
    given = {"agent": agent, "status": status, "thread": thread, "until": until}
    return _page(transaction, "runs", given, limit, after, record_from, lambda made: (made.began, made.id))


def list_grants(
    transaction: Transaction,
    run: str | None,
    agent: str | None,
    tool: str | None,
    revoked: bool,
    limit: int,
    after: tuple[int, str] | None,
) -> Page[GrantRecord]:
    """Return a page of grants, the oldest first."""
    given = {"run": run, "agent": agent, "tool": tool, "held": None if revoked else True}
    return _page(transaction, "grants", given, limit, after, _grant_from, lambda made: (made.at, made.id))


def find_question(transaction: Transaction, question_id: str) -> Question:
    """Return a question, open or not."""
    row = None
    if type(question_id) is str and holds(question_id):
        row = transaction.row(FIND_QUESTION, question=question_id)
    if row is None:
        raise QuestionNotFound(f"The store has no question {question_id!r:.80}.")
    columns = _columns(row)
    if not is_sealed(columns):
        raise damaged(question_id)
    return _question(columns)


def questions_of(transaction: Transaction, run_id: str) -> tuple[list[Question], list[str]]:
    """Return all questions of a run, damaged ones too, and the ids of the damaged ones."""
    given = {"run": run_id} if holds(run_id) else {}
    columns = [_columns(row) for row in transaction.rows(QUESTIONS_OF, **given)] if given else []
    return list(map(_question, columns)), [str(each["id"]) for each in columns if not is_sealed(each)]


def damaged(question_id: object) -> UnreadableState:
    """Return the error for a question row that the store did not write."""
    return UnreadableState(
        f"The row of question {question_id!r:.80} is not what was written, and is not shown. `assent db verify` says "
        "what differs; `assent db rebuild` makes it anew from the journal."
    )


_evidence = msgspec.json.Decoder(tuple[Evidence, ...]).decode
_names = msgspec.json.Decoder(tuple[Any, ...]).decode
_any = msgspec.json.decode


def _columns(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip((*Question.__struct_fields__, "asked_seal", "ended_seal"), row, strict=True))


def _question(columns: dict[str, Any]) -> Question:
    """Return the question of a row. A damaged column that cannot be decoded keeps its stored value."""
    values = {name: columns[name] for name in Question.__struct_fields__}
    for name, read in (("allowed", _names), ("path", _names), ("prompt", _any), ("schema", _any)):
        with suppress(msgspec.DecodeError, UnicodeError, TypeError):
            values[name] = values[name] if values[name] is None else read(values[name])
    with suppress(msgspec.DecodeError, UnicodeError, TypeError):
        values["evidence"] = _evidence(values["evidence"]) if values["evidence"] is not None else ()
    return Question(**values)


def _grant_from(row: tuple[Any, ...]) -> GrantRecord:
    values = dict(zip(GrantRecord.__struct_fields__, row, strict=True))
    with suppress(msgspec.DecodeError, UnicodeError, TypeError):  # damaged pins keep their stored value
        values["pins"] = values["pins"] if values["pins"] is None else _any(values["pins"])
    return GrantRecord(**values)
