"""The tables and statements of standing grants: the log with its hash chain, and the list that is made of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Column, Index, LargeBinary, Table, Text, bindparam, delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert as insert_new  # its ON CONFLICT is the same in SQLite

from ...approval.standing import StandingGrant
from ...core.number import is_count
from ...errors import GrantNotFound, StoreFailed
from ..chain import ExactJournal
from ..standing import (
    LogEntry,
    grant_ended,
    grants_in,
    is_as_logged,
    is_same_grant,
    log_differences,
    log_journal,
    next_row,
)
from .schema import Big, Id, metadata
from .seal import seal_of_columns
from .statement import Statement, Transaction

log = logging.getLogger("assentry")
TRIES = 50
"""The attempts to add to the log while others add to it."""

standing_log = Table(
    "assentry_standing_log",
    metadata,
    Column("seq", Big, primary_key=True, autoincrement=False),
    Column("entry", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

standing = Table(
    "assentry_standing_grants",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("max_uses", Big),
    Column("until", Big),
    Column("used", Big, nullable=False),
    Column("revoked_at", Big, key="revoked"),
    Column("revoked_by", Text),
    Column("seal", Text, nullable=False),
)
_held = standing.c.revoked.is_(None)
Index("assentry_standing_grants_tool", standing.c.tool, sqlite_where=_held, postgresql_where=_held)

SEALED = ("id", "tool", "body", "max_uses", "until", "revoked", "revoked_by")
"""The columns that the seal covers. The number of uses changes with each use, and is not covered."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StandingGrant).decode

LAST = Statement(select(standing_log.c.seq, standing_log.c.hash).order_by(standing_log.c.seq.desc()).limit(1))
ADD = Statement(
    insert_new(standing_log)
    .values({column.key: bindparam(column.key) for column in standing_log.c})
    .on_conflict_do_nothing()
    .returning(standing_log.c.seq)
)
LOG = Statement(select(standing_log).order_by(standing_log.c.seq))
GIVE = Statement(insert_new(standing).values({column.key: bindparam(column.key) for column in standing.c}))
LOCK = Statement(select(standing).where(standing.c.id == bindparam("id")).with_for_update())
ALL = Statement(select(standing).order_by(standing.c.id))
END = Statement(
    update(standing)
    .where(standing.c.id == bindparam("of_id"))
    .values({name: bindparam(name) for name in ("revoked", "revoked_by", "seal")})
)
USE = Statement(
    update(standing)
    .where(
        standing.c.id == bindparam("of_id"),
        _held,
        or_(standing.c.max_uses.is_(None), standing.c.used + bindparam("uses") <= standing.c.max_uses),
    )
    .values(used=standing.c.used + bindparam("uses"))
)
DROP = Statement(delete(standing).where(standing.c.id == bindparam("of_id")))
_FOR = {
    number: Statement(
        select(standing).where(_held, or_(*(standing.c.tool == bindparam(f"tool{each}") for each in range(number))))
    )
    for number in range(1, 9)
}
"""The statements that find the grants for so many tools."""


def _row(grant: StandingGrant) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(grant, name) for name in ("id", "tool", "max_uses", "until")}
    row |= {"used": grant.used, "revoked": grant.revoked, "revoked_by": grant.revoked_by}
    row["body"] = _encode(replace(grant, used=0, revoked=None, revoked_by=None)).decode()
    return {**row, "seal": seal_of_columns([row[name] for name in SEALED])}


def _grant_of(row: tuple[Any, ...]) -> StandingGrant | None:
    """Return the grant of a row; None if the row is not what was written."""
    columns: Mapping[str, Any] = dict(zip(standing.c.keys(), row, strict=True))
    try:
        if columns["seal"] != seal_of_columns([columns[name] for name in SEALED]) or type(columns["used"]) is not int:
            return None
        later = {name: columns[name] for name in ("used", "revoked", "revoked_by")}
        return replace(_decode(columns["body"]), **later)
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError):
        return None


def give_standing(transaction: Transaction, grant: StandingGrant) -> StandingGrant:
    """Write a grant to the log and to the list; the same request again changes nothing."""
    for other in find_standing(transaction, [grant.tool])[0]:
        if is_same_grant(grant, other):
            return other
    _add(transaction, LogEntry(grant.at, grant.by, given=grant))
    transaction.execute(GIVE, **_row(grant))
    return grant


def end(transaction: Transaction, id: str, by: str, now: int) -> StandingGrant:
    """Revoke a grant, unless it is revoked already; raise `GrantNotFound` if there is none."""
    row = transaction.row(LOCK, id=id)
    if row is None:
        raise GrantNotFound(f"The store has no standing grant {id!r:.80}.")
    grant = _grant_of(row)
    if grant is None:
        raise StoreFailed(f"{damaged_grant(id)} Then revoke it.")
    if grant.revoked is not None:
        return grant
    over = replace(grant, revoked=now, revoked_by=by)
    _add(transaction, LogEntry(now, by, revoked=id))
    changed = _row(over)
    transaction.execute(END, of_id=id, **{name: changed[name] for name in ("revoked", "revoked_by", "seal")})
    return over


def damaged_grant(id: object) -> str:
    """Return what is said of a standing grant whose row the store did not write."""
    return (
        f"The row of standing grant {id!r:.80} is not what was written, and decides nothing. `assentry db rebuild` "
        "makes it anew from the log of standing grants."
    )


def _add(transaction: Transaction, entry: LogEntry) -> None:
    """Add an entry to the log. If another transaction was first, its entry is visible once it is committed."""
    for _ in range(TRIES):
        last = transaction.row(LAST)
        made = next_row(None if last is None else (last[0], bytes(last[1])), entry)
        if transaction.row(ADD, seq=made.seq, entry=made.text, hash=made.hash) is not None:
            return
    raise StoreFailed("The log of standing grants is written to faster than this could be added; try again.")


def use(transaction: Transaction, uses: Mapping[str, int]) -> None:
    """Count uses; raise `GrantEnded` if a grant was revoked, or has fewer uses left."""
    for id, count in sorted(uses.items()):  # a fixed order prevents deadlocks
        if not transaction.do(USE, of_id=id, uses=count):
            raise grant_ended(id)


def find_standing(transaction: Transaction, tools: Collection[str]) -> tuple[list[StandingGrant], dict[str, str]]:
    """Return the grants for these tools that are not revoked, and the tools of the damaged rows by the row's id."""
    names, found, damaged = sorted(set(tools)), list[StandingGrant](), dict[str, str]()
    for start in range(0, len(names), len(_FOR)):
        part = names[start : start + len(_FOR)]
        for row in transaction.rows(_FOR[len(part)], **{f"tool{n}": name for n, name in enumerate(part)}):
            grant = _grant_of(row)
            if grant is None:
                log.warning("%s", damaged_grant(row[0]))
                damaged[str(row[0])] = str(row[1])
            else:
                found.append(grant)
    return found, damaged


def every(transaction: Transaction) -> tuple[list[StandingGrant], list[str]]:
    """Return all grants, and the ids of the rows that are not what was written."""
    rows = transaction.rows(ALL)
    made = [(str(row[0]), _grant_of(row)) for row in rows]
    return [grant for _, grant in made if grant is not None], [id for id, grant in made if grant is None]


def rebuild_standing(transaction: Transaction) -> None:
    """Make the rows anew that are damaged, gone, or not what the log says; their numbers of uses stay, if known.

    A row that is in no entry of the log is left, and `standing_differences` names it.
    """
    known = grants_in(journal_of_log(transaction).rows)
    rows = {str(row[0]): row for row in transaction.rows(ALL)}
    for id, wanted in known.items():
        row = rows.get(id)
        found = None if row is None else _grant_of(row)
        if found is not None and is_as_logged(found, wanted):
            continue
        used = None if row is None else dict(zip(standing.c.keys(), row, strict=True))["used"]
        count = used if is_count(used, 0) else wanted.max_uses or 0  # of a number that is lost, none is left
        transaction.do(DROP, of_id=id)
        transaction.execute(GIVE, **_row(replace(wanted, used=count)))


def journal_of_log(transaction: Transaction) -> ExactJournal:
    """Return the log to the letter."""
    return log_journal([(row[0], row[1], row[2]) for row in transaction.rows(LOG)])


def standing_differences(transaction: Transaction) -> list[str]:
    """Return one sentence for each difference between the log and the list."""
    return log_differences(journal_of_log(transaction), *every(transaction))
