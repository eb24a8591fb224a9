"""The changes since a time, the number of open questions, and the agents that workers announced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Select, bindparam, func, literal_column, select
from sqlalchemy.dialects.postgresql import insert

from ...core.wording import holds
from ..news import MOST_NEWS, News, Tally, end_news, merged, run_news, stop_news
from ..record import AgentRecord
from .schema import agents, at_rest, questions, runs
from .statement import Statement, Transaction
from .stopping import changed_since

_ABOUT = (questions.c.id, runs.c.run, questions.c.agent, questions.c.tool)
_RUN = (runs.c.run, runs.c.agent, runs.c.status, runs.c.waiting, runs.c.seq, runs.c.changed)


def _first(query: Select[tuple[object, ...]]) -> Statement:
    return Statement(query.limit(bindparam("limit")))


ASKED = _first(
    select(*_ABOUT, questions.c.at)
    .join_from(questions, runs, questions.c.run == runs.c.id)
    .where(questions.c.verdict.is_(None), questions.c.at >= bindparam("since"))
    .order_by(questions.c.at, questions.c.id)
)
ENDED = _first(
    select(*_ABOUT, questions.c.verdict, questions.c.by, questions.c.decided)
    .join_from(questions, runs, questions.c.run == runs.c.id)
    .where(questions.c.verdict.is_not(None), questions.c.decided >= bindparam("since"))
    .order_by(questions.c.decided, questions.c.id)
)
RESTED = _first(select(*_RUN).where(at_rest, runs.c.changed >= bindparam("since")).order_by(runs.c.changed, runs.c.run))
BEGUN = _first(
    select(*_RUN[:-1], runs.c.began)
    .where(runs.c.status == literal_column("'working'"), runs.c.began >= bindparam("since"))
    .order_by(runs.c.began, runs.c.run)
)
ONE = Statement(select(*_RUN).where(runs.c.run == bindparam("run")))
COUNT = Statement(select(func.count(), func.min(questions.c.at)).where(questions.c.verdict.is_(None)))
_new = insert(agents).values(name=bindparam("name"), began=bindparam("began"), seen=bindparam("seen"))
ANNOUNCE = Statement(
    _new.on_conflict_do_update(
        index_elements=[agents.c.name], set_={"began": _new.excluded.began, "seen": _new.excluded.seen}
    )
)
AGENTS = Statement(select(agents.c.name, agents.c.began, agents.c.seen).order_by(agents.c.name))


def news(transaction: Transaction, since: int, watched: Iterable[str]) -> list[News]:
    """Return what changed since a time, and the watched runs that changed since."""
    window = {"since": since, "limit": MOST_NEWS}
    asked = [
        News(kind="question.asked", id=id, run=run, agent=agent, tool=tool, at=at)
        for id, run, agent, tool, at in transaction.rows(ASKED, **window)
    ]
    ended = [end_news(*row) for row in transaction.rows(ENDED, **window)]
    rested = [run_news(*row) for row in transaction.rows(RESTED, **window)]
    begun = [run_news(*row) for row in transaction.rows(BEGUN, **window)]
    rows = [transaction.row(ONE, run=run) for run in watched if holds(run)]
    seen = [run_news(*row) for row in rows if row is not None and row[-1] >= since]
    stops = [stop_news(each) for each in changed_since(transaction, **window)]
    return merged([asked, ended, rested, begun, seen, stops])


def tally(transaction: Transaction) -> Tally:
    """Count the open questions."""
    row = transaction.row(COUNT)
    return Tally(0) if row is None else Tally(*row)


def announce(transaction: Transaction, given: Mapping[str, str], now: int) -> None:
    """Record the agents that a worker drives, each with its first fact as JSON."""
    for name, began in sorted(given.items()):  # a fixed order prevents deadlocks
        transaction.do(ANNOUNCE, name=name, began=began, seen=now)


def announced(transaction: Transaction) -> list[AgentRecord]:
    """Return the agents that workers have announced."""
    return [AgentRecord(*row) for row in transaction.rows(AGENTS)]
