"""Webhooks: other programs are told of questions and decisions. Sending is in `dispatch`.

A message says what happened and where to look. It has no secret argument, and nothing can be decided by answering it.
Messages are signed as the Standard Webhooks specification says (https://www.standardwebhooks.com).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from ..core.digest import BadJSON, parse_object
from ..core.wording import described
from ..errors import UsageError
from ..ids import new_id
from ..store.outbox import EVENTS, FORMATS, Event, Message, Webhook, WebhookFormat, webhook_not_found
from ..store.record import Question
from ..store.store import Store
from .chat import chat_body
from .headline import EDITED, in_signature_order, order_of
from .mask import masked

PREFIX = "whsec_"
LONGEST_URL = 2000
LONGEST_SENTENCE = 1000
LONGEST_ARGUMENTS = 16_384
"""The most bytes of arguments in a message; longer ones are left out, and the message says so."""


class Webhooks:
    """The webhooks of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._outbox = store.outbox

    async def add(
        self,
        url: str,
        events: Sequence[str] = EVENTS,
        *,
        allow_http: bool = False,
        format: WebhookFormat = "standard",
    ) -> Webhook:
        """Add a webhook, which is told of all later events; return it with its secret.

        Args:
            url: Where to send messages. It begins with https, or names this machine.
            events: The events to tell of: "question.asked", "question.settled".
            allow_http: True to allow http to other machines, for a network that is trusted.
            format: "standard" for an event with its data; "chat" for a text, as the incoming webhooks of chats take it.
        """
        check_url(url, allow_http=allow_http)
        if format not in FORMATS:
            raise UsageError(f"A format is one of {', '.join(FORMATS)}, got {described(format)}.")
        await self._store.open()
        made = Webhook(
            id=new_id("hook"),
            url=url,
            secret=PREFIX + base64.b64encode(secrets.token_bytes(32)).decode(),
            events=_checked_events(events),
            made=int(self._store.clock() * 1000),
            format=format,
        )
        await self._outbox.add(made)
        return made

    async def all(self) -> list[Webhook]:
        """Return all webhooks, with their secrets."""
        return await self._outbox.webhooks()

    async def waiting(self) -> dict[str, int]:
        """Return the number of messages that wait, by webhook."""
        return await self._outbox.waiting()

    async def errors(self) -> dict[str, str]:
        """Return why messages that wait have failed, by webhook."""
        return await self._outbox.errors()

    async def remove(self, webhook_id: str) -> None:
        """Remove a webhook, and the messages that wait for it."""
        await self._outbox.remove(webhook_id)

    async def find(self, webhook_id: str) -> Webhook:
        """Return a webhook, with its secret; raise `NotFound` if there is none."""
        found = next((hook for hook in await self.all() if hook.id == webhook_id), None)
        if found is None:
            raise webhook_not_found(webhook_id)
        return found

    async def disable(self, webhook_id: str, *, by: str) -> None:
        """Stop sending to a webhook, and tell it of no new events; what waits is kept."""
        if (await self.find(webhook_id)).disabled is None:
            await self._outbox.disable(webhook_id, f"{by} disabled it")

    async def enable(self, webhook_id: str) -> None:
        """Send to a webhook again that was given up, first the messages that have waited."""
        await self._outbox.enable(webhook_id)


def _checked_events(events: Sequence[str]) -> tuple[Event, ...]:
    named = () if isinstance(events, str) else tuple(event for event in EVENTS if event in events)
    if not named or len(named) != len(set(events)):
        raise UsageError(f"events are some of {', '.join(EVENTS)}, got {described(events)}.")
    return named


def check_url(url: str, *, allow_http: bool = False) -> str:
    """Return the address of a webhook; raise `UsageError` if nothing should be sent there."""
    if type(url) is not str or len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"A webhook's address is a URL such as https://example.com/hook, got {described(url)}.")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"A webhook's address cannot be read: {error}.") from None
    if parts.scheme not in ("https", "http") or not host:
        raise UsageError(f"A webhook's address begins with https://, got {described(url)}.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise UsageError("A webhook's address has no name, password or fragment in it; messages are signed instead.")
    if parts.scheme == "http" and not allow_http and not _is_loopback(host):
        raise UsageError(f"Messages to {host} would not be encrypted: use https, or allow http (--allow-http).")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message: the header `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(webhook: Webhook, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message; `timestamp` is the time of sending, in seconds since 1970."""
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(webhook.secret, message_id, timestamp, body),
    }


def check_base_url(url: str) -> str:
    """Return the address of an inbox's pages, without a slash at its end; raise `UsageError` if it is none."""
    what = "The base URL is the address of the inbox's pages, such as https://inbox.example.com/approve"
    if type(url) is not str or len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{what}; got {described(url)}.")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{what}; this one cannot be read: {error}.") from None
    if parts.scheme not in ("https", "http") or not host:
        raise UsageError(f"{what}; got {described(url)}.")
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        raise UsageError(f"{what}, without a name, a password, a query or a fragment; got {described(url)}.")
    return url.rstrip("/")


def body_of(
    message: Message, question: Question | None, base_url: str | None, format: WebhookFormat = "standard"
) -> bytes:
    """Return the body of a message. A question that is gone, or was erased, leaves only its ids."""
    subject = message.subject
    link = _link(subject.question, base_url)
    if format == "chat":
        return chat_body(message, question, link)
    data: dict[str, Any] = {"question": subject.question, "run": subject.run}
    if link is not None:
        data["link"] = link
    ended = subject if question is None else question  # a question's row is sealed, and a message is not
    if subject.verdict is not None and ended.verdict is not None:
        data |= {"verdict": ended.verdict, "by": ended.by}
    if question is not None:
        data |= _message_about(masked(question))
    return msgspec.json.encode({"type": message.event, "timestamp": utc_time(message.at), "data": data})


def _link(question_id: str, base_url: str | None) -> str | None:
    """Return the address of a question's page, or of the list for no question; None if nobody knows the inbox's."""
    if base_url is None:
        return None
    page = f"/{quote(question_id, safe='')}" if question_id else ""
    return f"{base_url.rstrip('/')}/questions{page}"


def _message_about(question: Question) -> dict[str, Any]:
    """Return what a message tells of a question whose secrets are masked."""
    preview = question.preview
    sentence = preview.sentence if preview is not None else ""
    proposed = EDITED if question.verdict == "edit" else ""
    arguments, left_out = _arguments(question)
    return {
        "agent": _cut(question.agent),
        "tool": _cut(question.tool),
        "kind": question.kind,
        "sentence": _cut(f"{proposed}{sentence or f'{question.agent} wants to call {question.tool}.'}"),
        "arguments": arguments,
        "arguments_left_out": left_out,
        "until": None if question.until is None else utc_time(question.until),
    }


def _arguments(question: Question) -> tuple[dict[str, Any] | None, bool]:
    """Return the arguments, and True if they are left out because they are too long or no JSON."""
    text = question.arguments
    if not text or len(text.encode()) > LONGEST_ARGUMENTS:
        return None, bool(text)
    try:
        return in_signature_order(parse_object(text), order_of(question)), False
    except BadJSON:
        return None, True


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SENTENCE else text[: LONGEST_SENTENCE - 1] + "…"


def utc_time(at: int) -> str:
    """Return a time of the store as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
