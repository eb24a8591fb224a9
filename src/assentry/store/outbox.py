"""The outbox: the webhooks of a store, and the messages that wait to be sent to them.

A message is written in the same transaction as the question or the decision that it tells of, so neither is there
without the other. A message holds ids and no content: whoever sends it reads the question then, so erasing a run leaves
nothing behind here. Sending belongs to the inbox.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from ..errors import NotFound
from ..ids import new_id
from .record import Change, Settlement

Event = Literal["question.asked", "question.settled"]
EVENTS: tuple[Event, ...] = get_args(Event)
WebhookFormat = Literal["standard", "chat"]
FORMATS: tuple[WebhookFormat, ...] = get_args(WebhookFormat)
"""The forms of messages: an event with its data, or a text for a chat."""


class Webhook(Struct, kw_only=True):
    """An address that is told of events, and the secret that signs the messages to it."""

    id: str
    url: str
    secret: str
    events: tuple[Event, ...]
    made: int
    disabled: int | None = None
    """The time at which sending was given up; None while messages are sent."""
    reason: str | None = None
    """The reason why sending was given up."""
    format: WebhookFormat = "standard"


class Subject(Struct, frozen=True, omit_defaults=True):
    """The question that a message is about, and its end if the message tells of it."""

    question: str
    run: str
    verdict: Settlement | None = None
    by: str | None = None


class Message(Struct, kw_only=True):
    """A message to one webhook. Its id stays the same however often it is sent."""

    id: str
    webhook: str
    event: str
    subject: Subject
    at: int
    tries: int = 0
    """The number of claims so far, this one included."""
    due: int = 0
    error: str | None = None
    """The reason why the last attempt failed."""


def told_by(change: Change) -> list[tuple[Event, Subject]]:
    """Return the events of a change."""
    run = change.record.id
    asked: list[tuple[Event, Subject]] = [("question.asked", Subject(each.id, run)) for each in change.asked]
    return asked + [("question.settled", Subject(each.id, run, each.verdict, each.by)) for each in change.settled]


def webhook_not_found(webhook_id: object) -> NotFound:
    """Return the error for a webhook that does not exist."""
    return NotFound(f"The store has no webhook {webhook_id!r:.80}.")


class Outbox(ABC):
    """The webhooks of a store and the messages to them. A webhook that is disabled gets no new messages."""

    @abstractmethod
    async def add(self, webhook: Webhook) -> None:
        """Add a webhook, which is told of all later events that it names."""

    @abstractmethod
    async def webhooks(self) -> list[Webhook]:
        """Return all webhooks, the oldest first."""

    @abstractmethod
    async def waiting(self) -> dict[str, int]:
        """Return the number of messages that wait, by webhook."""

    @abstractmethod
    async def errors(self) -> dict[str, str]:
        """Return one error of the messages that wait, by webhook."""

    @abstractmethod
    async def remove(self, webhook_id: str) -> None:
        """Remove a webhook and the messages that wait for it; raise `NotFound` if there is none."""

    @abstractmethod
    async def disable(self, webhook_id: str, reason: str) -> None:
        """Stop sending to a webhook. Its messages stay."""

    @abstractmethod
    async def enable(self, webhook_id: str) -> None:
        """Send to a webhook again, first the messages that have waited; raise `NotFound` if there is none."""

    @abstractmethod
    async def claim(self, *, hold: float, limit: int) -> list[Message]:
        """Claim up to `limit` messages that are due. No other claim returns them for `hold` seconds."""

    @abstractmethod
    async def done(self, message: Message) -> None:
        """Delete a message that was sent."""

    @abstractmethod
    async def again(self, message: Message, *, after: float, error: str) -> None:
        """Make a message due again after so many seconds, unless somebody else has claimed it since."""


class MemoryOutbox(Outbox):
    """The outbox of a `MemoryStore`, under the store's lock."""

    def __init__(self, locked: Callable[[], AbstractContextManager[object]], now: Callable[[], int]) -> None:
        self._locked, self._now = locked, now
        self._webhooks: dict[str, Webhook] = {}
        self._messages: dict[str, Message] = {}

    def note(self, change: Change) -> None:
        """Add the messages of a change. The caller holds the lock."""
        if not self._webhooks:
            return
        for event, subject in told_by(change):
            for hook in self._webhooks.values():
                if hook.disabled is None and event in hook.events:
                    at, id = change.record.changed, new_id("msg")
                    self._messages[id] = Message(id=id, webhook=hook.id, event=event, subject=subject, at=at, due=at)

    async def add(self, webhook: Webhook) -> None:
        """Add a webhook."""
        with self._locked():
            self._webhooks[webhook.id] = replace(webhook)

    async def webhooks(self) -> list[Webhook]:
        """Return all webhooks."""
        with self._locked():
            return [replace(hook) for hook in self._webhooks.values()]

    async def waiting(self) -> dict[str, int]:
        """Return the number of messages that wait, by webhook."""
        with self._locked():
            found: dict[str, int] = {}
            for message in self._messages.values():
                found[message.webhook] = found.get(message.webhook, 0) + 1
            return found

    async def errors(self) -> dict[str, str]:
        """Return one error of the messages that wait, by webhook."""
        with self._locked():
            return {each.webhook: each.error for each in self._messages.values() if each.error is not None}

    async def remove(self, webhook_id: str) -> None:
        """Remove a webhook and its messages."""
        with self._locked():
            if self._webhooks.pop(webhook_id, None) is None:
                raise webhook_not_found(webhook_id)
            self._messages = {id: each for id, each in self._messages.items() if each.webhook != webhook_id}

    async def disable(self, webhook_id: str, reason: str) -> None:
        """Stop sending to a webhook."""
        with self._locked():
            hook = self._webhooks.get(webhook_id)
            if hook is not None:
                hook.disabled, hook.reason = self._now(), reason

    async def enable(self, webhook_id: str) -> None:
        """Send to a webhook again."""
        with self._locked():
            hook = self._webhooks.get(webhook_id)
            if hook is None:
                raise webhook_not_found(webhook_id)
            hook.disabled = hook.reason = None
            for message in self._messages.values():
                if message.webhook == webhook_id:
                    message.tries, message.due = 0, self._now()

    async def claim(self, *, hold: float, limit: int) -> list[Message]:
        """Claim messages that are due."""
        with self._locked():
            now = self._now()
            live = {hook.id for hook in self._webhooks.values() if hook.disabled is None}
            due = [each for each in self._messages.values() if each.due <= now and each.webhook in live]
            claimed = sorted(due, key=lambda each: (each.due, each.id))[:limit]
            for message in claimed:
                message.tries, message.due = message.tries + 1, now + int(hold * 1000)
            return [replace(message) for message in claimed]

    async def done(self, message: Message) -> None:
        """Delete a message that was sent."""
        with self._locked():
            self._messages.pop(message.id, None)

    async def again(self, message: Message, *, after: float, error: str) -> None:
        """Make a message due again."""
        with self._locked():
            kept = self._messages.get(message.id)
            if kept is not None and kept.tries == message.tries:
                kept.due, kept.error = self._now() + int(after * 1000), error
