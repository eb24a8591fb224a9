"""Checks of what the check of a run does not find: rows whose run is gone, and rows that belong to no run.

Those are stored tools, announced agents, webhooks and their messages, users, tokens, sign-ins and stops.
"""

from __future__ import annotations

from sqlalchemy import select

from ...errors import UnreadableState
from ..comparing import kept_tool
from ..starting import is_readable
from .account import changed_accounts
from .chapter import as_bytes
from .news import announced
from .outbox import damaged
from .schema import blobs, chapters, contexts, definitions, grants, journal, questions, runs
from .standing import standing_differences
from .statement import Statement, Transaction
from .stopping import changed_stops

_OWNED = {
    "a journal": journal,
    "payloads": blobs,
    "snapshots": chapters,
    "a context": contexts,
    "questions": questions,
    "grants": grants,
}
_LOST = {
    what: Statement(
        select(table.c.run)
        .distinct()
        .where(~select(runs.c.id).where(runs.c.id == table.c.run).exists())
        .order_by(table.c.run)
    )
    for what, table in _OWNED.items()
}
TOOLS = Statement(select(definitions.c.fingerprint, definitions.c.body).order_by(definitions.c.fingerprint))


def strays(transaction: Transaction) -> list[str]:
    """Return one sentence for each row whose run is gone, and for each damaged row that belongs to no run."""
    lost = [
        f"There is {what} of run number {number}, and no record of that run."
        if what.startswith("a ")
        else f"There are {what} of run number {number}, and no record of that run."
        for what, statement in _LOST.items()
        for (number,) in transaction.rows(statement)
    ]
    tools, announcements = _changed_tools(transaction), _damaged_agents(transaction)
    changed = changed_accounts(transaction) + changed_stops(transaction) + _standing_grants(transaction)
    return lost + tools + announcements + damaged(transaction) + changed


def _standing_grants(transaction: Transaction) -> list[str]:
    try:
        return standing_differences(transaction)
    except UnreadableState as error:
        return [str(error)]


def _changed_tools(transaction: Transaction) -> list[str]:
    said = []
    for fingerprint, body in transaction.rows(TOOLS):
        try:
            kept_tool(fingerprint, as_bytes(body))
        except UnreadableState as error:
            said.append(f"The definition that is kept as {fingerprint!r} is not what was written: {error}")
    return said


def _damaged_agents(transaction: Transaction) -> list[str]:
    return [
        f"The announcement of agent {agent.name!r} is damaged; a worker that drives the agent makes it anew."
        for agent in announced(transaction)
        if not is_readable(agent)
    ]
