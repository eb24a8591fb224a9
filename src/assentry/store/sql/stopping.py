"""The table, statements and seals of stops; the rules are in `store.stop`.

A transaction that stores a `Started` reads the stops that hold, with a row lock, and so holds a weak lock on the table
until its end. On Postgres a new stop takes a lock that waits for these transactions and makes later ones wait. So once
`stop` has returned, no transaction that has not seen the stop can commit. In SQLite there is one writer at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import asdict, replace
from sqlalchemy import Column, Index, Table, Text, bindparam, func, insert, or_, select, text, tuple_, update

from ...core.wording import holds
from ..filter import cursor
from ..record import Change, Page
from ..stop import AgentStop, agents_of, same_stop, stop_not_found, stopped
from .schema import Big, Id, metadata, runs
from .seal import seal_of_columns
from .statement import POSTGRES, Statement, Transaction

stops = Table(
    "assentry_stops",
    metadata,
    Column("id", Id, primary_key=True),
    Column("agent", Id),
    Column("stopped_by", Text, key="by", nullable=False),
    Column("why", Text, nullable=False),
    Column("at", Big, nullable=False),
    Column("lifted_at", Big, key="lifted"),
    Column("lifted_by", Text),
    Column("seal", Text),
)
_holding = stops.c.lifted.is_(None)
Index("assentry_stops_holding", stops.c.at, stops.c.id, sqlite_where=_holding, postgresql_where=_holding)

_named: dict[str, Any] = {column.key: bindparam(column.key) for column in stops.c}
_newest = (stops.c.at.desc(), stops.c.id.desc())
_fields = tuple(stops.c[name] for name in AgentStop.__struct_fields__)

LOCK = Statement(text("LOCK TABLE assentry_stops IN EXCLUSIVE MODE"))
ADD_STOP = Statement(insert(stops).values(_named))
ALL_STOPS = Statement(select(stops).order_by(stops.c.at, stops.c.id))
HOLDING = Statement(select(*_fields).where(_holding).order_by(stops.c.at, stops.c.id))
HOLDING_LOCKED = Statement(
    select(*_fields).where(_holding).order_by(stops.c.at, stops.c.id).with_for_update(read=True, key_share=True)
)
LOCK_STOP = Statement(select(stops).where(stops.c.id == bindparam("id")).with_for_update())
LIFT = Statement(
    update(stops)
    .where(stops.c.id == bindparam("of_id"))
    .values({name: bindparam(name) for name in ("lifted", "lifted_by", "seal")})
)
_before = tuple_(stops.c.at, stops.c.id) < tuple_(bindparam("start_at"), bindparam("start_id"))
CHANGED_AT = func.coalesce(stops.c.lifted, stops.c.at)
CHANGED = Statement(
    select(*_fields).where(bindparam("since") <= CHANGED_AT).order_by(CHANGED_AT, stops.c.id).limit(bindparam("limit"))
)
STOPS = {
    (lifted, further): Statement(
        select(*_fields)
        .where(*(() if lifted else (_holding,)), *((_before,) if further else ()))
        .order_by(*_newest)
        .limit(bindparam("limit"))
    )
    for lifted in (False, True)
    for further in (False, True)
}
is_stopped = select(stops.c.id).where(_holding, or_(stops.c.agent.is_(None), stops.c.agent == runs.c.agent)).exists()
"""The condition that a stop holds for the agent of a run."""


def look_at_stops(transaction: Transaction, change: Change) -> Callable[[], None]:
    """Read the stops if the change begins a call, with the next statement; return a check of what was read.

    The check raises `AgentStopped` if a stop holds for the run's agent or the call's.
    """
    agents = agents_of(change)
    rows = transaction.later(HOLDING_LOCKED) if agents else list

    def check() -> None:
        for stop in map(_stop_in, rows()):
            if stop.covers(agents):
                raise stopped(stop, change.record.id)

    return check


def add_stop(transaction: Transaction, new: AgentStop) -> AgentStop:
    """Add a stop, unless the same person's same stop holds already; return the one that holds."""
    if transaction.dialect == POSTGRES:
        transaction.execute(LOCK)
    known = same_stop(_stops(transaction, HOLDING), new)
    if known is None:
        transaction.execute(ADD_STOP, **asdict(new), seal=stop_seal(asdict(new)))
    return known or new


def mark_lifted(transaction: Transaction, id: str, by: str, now: int) -> AgentStop:
    """Lift a stop, unless it was lifted before; raise `StopNotFound` if there is none."""
    row = transaction.row(LOCK_STOP, id=id) if type(id) is str and holds(id) else None
    if row is None:
        raise stop_not_found(id)
    columns = dict(zip(stops.c.keys(), row, strict=True))
    sealed, found = is_sealed_stop(columns), _stop_of(columns)
    if found.lifted is not None:
        return found
    after = replace(found, lifted=now, lifted_by=by)
    seal = stop_seal(asdict(after)) if sealed else columns["seal"]  # a damaged row stays marked
    transaction.execute(LIFT, of_id=id, lifted=now, lifted_by=by, seal=seal)
    return after


def find_stops(transaction: Transaction, lifted: bool, limit: int, start: tuple[int, str] | None) -> Page[AgentStop]:
    """Return a page of the stops that hold, or with `lifted` of all stops, the newest first."""
    given = {} if start is None else {"start_at": start[0], "start_id": start[1]}
    found = _stops(transaction, STOPS[lifted, start is not None], limit=limit + 1, **given)
    shown = found[:limit]
    return Page(shown, cursor(shown[-1].at, shown[-1].id) if len(found) > limit else None)


def changed_since(transaction: Transaction, since: int, limit: int) -> list[AgentStop]:
    """Return the stops that were made or lifted since a time, in this order."""
    return _stops(transaction, CHANGED, since=since, limit=limit)


def changed_stops(transaction: Transaction) -> list[str]:
    """Return one sentence for each stop whose row was not written by the store."""
    rows = (dict(zip(stops.c.keys(), row, strict=True)) for row in transaction.rows(ALL_STOPS))
    return [
        f"The row of stop {row['id']!r}, of {row['agent'] or 'all agents'}, is not what was written. See that what is "
        "to be stopped is stopped."
        for row in rows
        if not is_sealed_stop(row)
    ]


def _stops(transaction: Transaction, statement: Statement, **given: Any) -> list[AgentStop]:
    return list(map(_stop_in, transaction.rows(statement, **given)))


def _stop_in(row: tuple[Any, ...]) -> AgentStop:
    return AgentStop(**dict(zip(AgentStop.__struct_fields__, row, strict=True)))


def _stop_of(columns: Mapping[str, Any]) -> AgentStop:
    return AgentStop(**{name: columns[name] for name in AgentStop.__struct_fields__})


def stop_seal(columns: Mapping[str, Any]) -> str:
    """Return the seal of a stop's row."""
    return seal_of_columns(["stop", *(columns[name] for name in AgentStop.__struct_fields__)])


def is_sealed_stop(columns: Mapping[str, Any]) -> bool:
    """Return True if a stop's row matches its seal."""
    try:
        return bool(columns["seal"] == stop_seal(columns))
    except (TypeError, ValueError):  # text that UTF-8 cannot hold, or a value that JSON cannot
        return False
