"""Ids by their beginning, as people give them."""

from __future__ import annotations

from sqlalchemy import ColumnElement, bindparam, select

from ..beginning import WithId
from ..record import GrantRecord, Question, RunRecord
from .schema import grants, questions, runs
from .statement import Statement, Transaction

_COLUMNS: dict[WithId, ColumnElement[str]] = {Question: questions.c.id, RunRecord: runs.c.run, GrantRecord: grants.c.id}
_STATEMENTS = {
    kind: Statement(
        select(column)
        .where(column >= bindparam("start"), column < bindparam("end"))
        .order_by(column)
        .limit(bindparam("limit"))
    )
    for kind, column in _COLUMNS.items()
}


def find_ids(transaction: Transaction, kind: WithId, beginning: str, limit: int) -> list[str]:
    """Return the first ids that begin with this text."""
    rows = transaction.rows(_STATEMENTS[kind], start=beginning, end=beginning + "\U0010ffff", limit=limit)
    return [str(row[0]) for row in rows]
