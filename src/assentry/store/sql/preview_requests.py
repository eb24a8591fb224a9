"""The table and the statements of the requests for previews of edits. Their rows live for seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import Column, Table, Text, bindparam, delete, insert, select, update

from ..preview_requests import PreviewAnswer, PreviewRequest, PreviewRequests, has_room
from ..wakeup import Wakeup
from .schema import Big, Id, metadata
from .seal import seal_of_columns
from .statement import Statement, Transaction

R = TypeVar("R")

previews = Table(
    "assentry_previews",
    metadata,
    Column("id", Id, primary_key=True),
    Column("question", Text, nullable=False),
    Column("run_id", Text, nullable=False, key="run"),
    Column("agent", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("definition", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("asker", Text, nullable=False, key="by"),
    Column("until", Big, nullable=False),
    Column("worker", Text),
    Column("answer", Text),
    Column("seal", Text),
)

_one = previews.c.id == bindparam("request")
OVER = Statement(select(previews.c.id).where(previews.c.until <= bindparam("now")).limit(1))
SWEEP = Statement(delete(previews).where(previews.c.until <= bindparam("now")))
ANY = Statement(select(previews.c.id).limit(1))
COUNTED = Statement(select(previews.c.question, previews.c.by))
ADD = Statement(insert(previews))
_live = previews.c.until > bindparam("now")
FREE = Statement(
    select(previews.c.id, previews.c.agent)
    .where(previews.c.worker.is_(None), _live)
    .order_by(previews.c.until, previews.c.id)
)
TAKE = Statement(
    update(previews)
    .where(_one, previews.c.worker.is_(None), _live)
    .values(worker=bindparam("own"))
    .returning(*previews.c)
)
ANSWER = Statement(
    update(previews)
    .where(_one, previews.c.worker == bindparam("own"), previews.c.answer.is_(None), _live)
    .values(answer=bindparam("given"), seal=bindparam("mark"))
)
FIND = Statement(select(*previews.c).where(_one, _live))
FORGET = Statement(delete(previews).where(_one))
REPLACE = Statement(
    delete(previews).where(previews.c.question == bindparam("about"), previews.c.by == bindparam("asker"))
)

_answer = msgspec.json.Decoder(PreviewAnswer)


class RequestsDatabase(Protocol):
    """The part of an SQL store that the requests use."""

    _asks: Wakeup

    async def _write(self, work: Callable[[Transaction], R]) -> R: ...
    async def _read_short(self, work: Callable[[Transaction], R]) -> R: ...
    def _now(self) -> int: ...
    def _notify_asks(self, transaction: Transaction) -> None: ...
    def _wait_for_asks(self, timeout: float) -> Awaitable[None]: ...


def has_requests(transaction: Transaction) -> bool:
    """Return True if there is any request, answered or not."""
    return transaction.row(ANY) is not None


def answer_seal(request_id: str, worker: str, given: str) -> str:
    """Return the seal of an answer: it belongs to this request and this worker."""
    return seal_of_columns([request_id, worker, given])


class SQLPreviewRequests(PreviewRequests):
    """The requests for previews of a store in an SQL database."""

    def __init__(self, store: RequestsDatabase) -> None:
        self._store = store

    async def ask(self, request: PreviewRequest) -> bool:
        """Add a request and wake the workers."""
        store = self._store

        def work(transaction: Transaction) -> bool:
            transaction.do(SWEEP, now=store._now())
            transaction.do(REPLACE, about=request.question, asker=request.by)
            if not has_room(request, [(row[0], row[1]) for row in transaction.rows(COUNTED)]):
                return False
            transaction.do(ADD, **msgspec.structs.asdict(request), seal=None)
            store._notify_asks(transaction)
            return True

        added = await store._write(work)
        if added:
            store._asks.ring()
        return added

    async def take(self, worker: str, *, agents: Sequence[str], limit: int) -> list[PreviewRequest]:
        """Give a worker up to `limit` requests of these agents."""
        store = self._store
        store._asks.listen()

        def look(transaction: Transaction) -> tuple[list[str], bool]:
            now = store._now()
            free = [id for id, agent in transaction.rows(FREE, now=now) if agent in agents]
            return free, transaction.row(OVER, now=now) is not None

        free, over = await store._read_short(look)
        if not free and not over:
            return []

        def work(transaction: Transaction) -> list[PreviewRequest]:
            transaction.do(SWEEP, now=store._now())
            rows = [transaction.row(TAKE, request=id, own=worker, now=store._now()) for id in free[:limit]]
            taken = [request for row in rows if row is not None and (request := _request(row)) is not None]
            if taken:
                store._notify_asks(transaction)
            return taken

        taken = await store._write(work)
        if taken:
            store._asks.ring()
        return taken

    async def answer(self, request_id: str, given: PreviewAnswer, *, worker: str) -> bool:
        """Answer a request and wake whoever asked."""
        store, text = self._store, msgspec.json.encode(given).decode()
        mark = answer_seal(request_id, worker, text)

        def work(transaction: Transaction) -> bool:
            values = {"request": request_id, "own": worker, "given": text, "mark": mark, "now": store._now()}
            done = transaction.do(ANSWER, **values) > 0
            if done:
                store._notify_asks(transaction)
            return done

        done = await store._write(work)
        if done:
            store._asks.ring()
        return done

    async def find(self, request_id: str) -> PreviewRequest | None:
        """Return a request as it is now; None if it is gone, or its row is not what was written."""
        store = self._store
        store._asks.listen()
        row = await store._read_short(lambda each: each.row(FIND, request=request_id, now=store._now()))
        return None if row is None else _request(row)

    async def forget(self, request_id: str) -> None:
        """Delete a request, answered or not."""
        await self._store._write(lambda transaction: transaction.do(FORGET, request=request_id))

    async def wait(self, timeout: float) -> None:
        """Wait until there may be a new request or answer, at most `timeout` seconds."""
        await self._store._wait_for_asks(timeout)


def _request(row: tuple[Any, ...]) -> PreviewRequest | None:
    """Return the request of a row; None if its answer is not what a worker wrote."""
    columns = dict(zip(previews.c.keys(), row, strict=True))
    seal, text = columns.pop("seal"), columns.pop("answer")
    if text is None:
        return PreviewRequest(**columns)
    if seal != answer_seal(columns["id"], columns["worker"] or "", text):
        return None
    try:
        return PreviewRequest(**columns, answer=_answer.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return None
