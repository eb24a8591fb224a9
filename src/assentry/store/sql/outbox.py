"""The statements of the outbox: webhooks, and the messages that wait to be sent to them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update

from ...ids import new_id
from ..damage import DamageKind, damage_of
from ..outbox import FORMATS, Event, Message, Outbox, Subject, Webhook, told_by, webhook_not_found
from ..record import Change
from .schema import outbox, webhooks
from .statement import Statement, Transaction

R = TypeVar("R")

log = logging.getLogger("assentry")

_live = webhooks.c.disabled.is_(None)
_zero: Any = literal_column("0")

TELL = Statement(
    insert(outbox).from_select(
        ["id", "webhook", "event", "body", "at", "tries", "due"],
        select(
            bindparam("mark", type_=outbox.c.id.type) + literal_column("'_'") + webhooks.c.id,
            webhooks.c.id,
            bindparam("event", type_=outbox.c.event.type),
            bindparam("body", type_=outbox.c.body.type),
            bindparam("at", type_=outbox.c.at.type),
            _zero,
            bindparam("at", type_=outbox.c.at.type),
        ).where(_live, webhooks.c.events.like(bindparam("named"))),
    )
)
ADD = Statement(insert(webhooks))
ALL = Statement(select(webhooks).order_by(webhooks.c.made, webhooks.c.id))
MESSAGES = Statement(select(*outbox.c).order_by(outbox.c.id))
WAITING = Statement(select(outbox.c.webhook, func.count()).group_by(outbox.c.webhook))
ERRORS = Statement(
    select(outbox.c.webhook, func.max(outbox.c.error)).where(outbox.c.error.is_not(None)).group_by(outbox.c.webhook)
)
REMOVE = Statement(delete(webhooks).where(webhooks.c.id == bindparam("hook")))
FORGET = Statement(delete(outbox).where(outbox.c.webhook == bindparam("hook")))
SET = Statement(
    update(webhooks)
    .where(webhooks.c.id == bindparam("hook"))
    .values(disabled=bindparam("disabled"), reason=bindparam("reason"))
)
WAKE = Statement(update(outbox).where(outbox.c.webhook == bindparam("hook")).values(tries=0, due=bindparam("due")))
_due = (outbox.c.due <= bindparam("now"), outbox.c.webhook.in_(select(webhooks.c.id).where(_live)))
DUE = Statement(select(outbox.c.id).where(*_due).limit(1))
_chosen = (
    select(outbox.c.id)
    .where(*_due)
    .order_by(outbox.c.due, outbox.c.id)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
    .cte("chosen")
)
CLAIM = Statement(
    update(outbox)
    .where(outbox.c.id.in_(select(_chosen.c.id)))
    .values(tries=outbox.c.tries + 1, due=bindparam("until"))
    .returning(*outbox.c)
)
DONE = Statement(delete(outbox).where(outbox.c.id == bindparam("message")))
AGAIN = Statement(
    update(outbox)
    .where(outbox.c.id == bindparam("message"), outbox.c.tries == bindparam("known"))
    .values(due=bindparam("due"), error=bindparam("error"))
)

_encode = msgspec.json.Encoder().encode
_subject = msgspec.json.Decoder(Subject).decode
_events = msgspec.json.Decoder(tuple[Event, ...]).decode


def messages_of(change: Change) -> list[tuple[str, str, bytes]]:
    """Return the first part of each message's id, its event and its body. Each webhook's id completes the id."""
    return [(new_id("msg"), event, _encode(subject)) for event, subject in told_by(change)]


def write_messages(transaction: Transaction, change: Change) -> None:
    """Write the messages of a change, one for each webhook that wants it."""
    at = change.record.changed
    rows = [
        {"mark": mark, "event": event, "body": body.decode(), "at": at, "named": f'%"{event}"%'}
        for mark, event, body in messages_of(change)
    ]
    transaction.many(TELL, rows)


class Database(Protocol):
    """The part of an SQL store that the outbox uses."""

    async def _write(self, work: Callable[[Transaction], R]) -> R: ...
    async def _read(self, work: Callable[[Transaction], R]) -> R: ...
    def _now(self) -> int: ...
    def _until(self, hold: float) -> int: ...


class SQLOutbox(Outbox):
    """The outbox of a store in an SQL database."""

    def __init__(self, store: Database) -> None:
        self._store = store

    async def add(self, webhook: Webhook) -> None:
        """Add a webhook."""
        row = msgspec.structs.asdict(webhook) | {"events": _encode(webhook.events).decode()}
        await self._store._write(lambda transaction: transaction.do(ADD, **row))

    async def webhooks(self) -> list[Webhook]:
        """Return all webhooks, the oldest first."""
        rows = await self._store._read(lambda transaction: transaction.rows(ALL))
        hooks: list[Webhook] = []
        for row in rows:
            hook = _webhook(row)
            hooks += [hook] if hook is not None else self._refuse("webhook", damaged_webhook(row[0]))
        return hooks

    async def waiting(self) -> dict[str, int]:
        """Return the number of messages that wait, by webhook."""
        return {row[0]: row[1] for row in await self._store._read(lambda each: each.rows(WAITING))}

    async def errors(self) -> dict[str, str]:
        """Return one error of the messages that wait, by webhook."""
        return {row[0]: row[1] for row in await self._store._read(lambda each: each.rows(ERRORS))}

    async def remove(self, webhook_id: str) -> None:
        """Remove a webhook and its messages."""

        def work(transaction: Transaction) -> int:
            transaction.do(FORGET, hook=webhook_id)
            return transaction.do(REMOVE, hook=webhook_id)

        if not await self._store._write(work):
            raise webhook_not_found(webhook_id)

    async def disable(self, webhook_id: str, reason: str) -> None:
        """Stop sending to a webhook."""
        store = self._store
        await store._write(lambda each: each.do(SET, hook=webhook_id, disabled=store._now(), reason=reason))

    async def enable(self, webhook_id: str) -> None:
        """Send to a webhook again."""

        def work(transaction: Transaction) -> int:
            transaction.do(WAKE, hook=webhook_id, due=self._store._now())
            return transaction.do(SET, hook=webhook_id, disabled=None, reason=None)

        if not await self._store._write(work):
            raise webhook_not_found(webhook_id)

    async def claim(self, *, hold: float, limit: int) -> list[Message]:
        """Claim messages that are due. Without any, nothing is written."""
        store = self._store
        if await store._read(lambda transaction: transaction.row(DUE, now=store._now())) is None:
            return []
        rows = await store._write(
            lambda transaction: transaction.rows(CLAIM, now=store._now(), until=store._until(hold), limit=limit)
        )
        messages: list[Message] = []
        for row in rows:
            message = _message(row)
            messages += [message] if message is not None else self._refuse("message", damaged_message(row[0]))
        return sorted(messages, key=lambda message: (message.at, message.id))

    def _refuse(self, kind: DamageKind, said: str) -> list[Any]:
        log.warning("%s", said)
        damage_of(self._store).note(kind, said, self._store._now())
        return []

    async def done(self, message: Message) -> None:
        """Delete a message that was sent."""
        await self._store._write(lambda transaction: transaction.do(DONE, message=message.id))

    async def again(self, message: Message, *, after: float, error: str) -> None:
        """Make a message due again."""
        store = self._store
        await store._write(
            lambda each: each.do(AGAIN, message=message.id, known=message.tries, due=store._until(after), error=error)
        )


def _webhook(row: tuple[Any, ...]) -> Webhook | None:
    """Return the webhook of a row; None if the row is damaged, so that it holds up no other."""
    columns = dict(zip(webhooks.c.keys(), row, strict=True))
    try:
        if columns["format"] not in FORMATS:
            raise TypeError("the format is unknown")
        return Webhook(**columns | {"events": _events(columns["events"])})
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None


def damaged_webhook(webhook_id: object) -> str:
    """Return what is said of a webhook's row that cannot be read."""
    return f"Webhook {webhook_id!r:.80} is damaged, and gets no messages."


def damaged_message(message_id: object) -> str:
    """Return what is said of a message's row that cannot be read."""
    return f"Message {message_id!r:.120} in the outbox is damaged, and is not sent."


def damaged(transaction: Transaction) -> list[str]:
    """Return one sentence for each webhook and each message that cannot be read, or that has lost its webhook."""
    hooks = transaction.rows(ALL)
    known = {row[0] for row in hooks}
    found = [damaged_webhook(row[0]) for row in hooks if _webhook(row) is None]
    for row in transaction.rows(MESSAGES):
        message = _message(row)
        if message is None:
            found.append(damaged_message(row[0]))
        elif message.webhook not in known:
            found.append(f"Message {row[0]!r} in the outbox is for a webhook that is not there.")
    return found


def _message(row: tuple[Any, ...]) -> Message | None:
    """Return the message of a row; None if the row is damaged, so that it holds up no other."""
    columns = dict(zip(outbox.c.keys(), row, strict=True))
    try:
        return Message(subject=_subject(columns.pop("body")), **columns)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None
