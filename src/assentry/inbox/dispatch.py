"""The dispatcher: sends the messages of a store's outbox to its webhooks, and tries again what failed.

Any number of processes may run one each. A message is claimed before it is sent and deleted after, so a process that
dies in between leaves it to another one: a message arrives at least once, always with the same `webhook-id`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx

from ..errors import NotFound, StoreFailed, UnreadableState
from ..ids import new_id
from ..store.damage import damage_of
from ..store.outbox import Message, Subject, Webhook
from ..store.record import Question
from ..store.store import Store
from ..version import __version__
from .headline import with_order
from .webhooks import body_of, check_base_url, headers

log = logging.getLogger("assentry")

RETRIES = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
"""The seconds before each further attempt, about three and a half days in all; then the webhook is disabled."""
JITTER = 0.2
"""The part of a wait by which it varies, so that messages that failed together do not come together again."""
HOLD = 60.0
"""The seconds for which a message is claimed. Sending takes less."""
BATCH = 20
"""The most messages sent at once."""


class Dispatcher:
    """Sends messages until it is stopped.

    Args:
        store: The store.
        base_url: The address of the inbox's page, for links; None for messages without links.
        poll: The seconds between two looks for messages.
        timeout: The seconds that a receiver has to answer.
    """

    def __init__(self, store: Store, *, base_url: str | None = None, poll: float = 1.0, timeout: float = 10.0) -> None:
        self._store, self._outbox = store, store.outbox
        self._base_url = None if base_url is None else check_base_url(base_url)
        self._poll, self._timeout = poll, min(timeout, HOLD / 2)

    async def run(self) -> None:
        """Send what is due, again and again, until cancelled."""
        while True:
            try:
                sent = await self.send_due()
            except StoreFailed as error:
                log.warning("Messages to webhooks wait, since the store cannot be reached: %s", error)
                sent = 0
            except Exception:  # one message that cannot be sent must not end the sending of others
                log.warning("Messages to webhooks could not be sent; they are tried again", exc_info=True)
                sent = 0
            if not sent:
                await asyncio.sleep(self._poll)

    async def send_due(self) -> int:
        """Send the messages that are due, at most `BATCH`; return how many were tried."""
        await self._store.open()
        messages = await self._outbox.claim(hold=HOLD, limit=BATCH)
        if not messages:
            return 0
        hooks = {hook.id: hook for hook in await self._outbox.webhooks()}
        async with self._client() as client:
            found = [(hooks[message.webhook], message) for message in messages if message.webhook in hooks]
            deliveries = (self._deliver(client, hook, message) for hook, message in found)
            failed = [each for each in await asyncio.gather(*deliveries, return_exceptions=True) if each is not None]
        if failed:
            raise failed[0]  # what is left is due again when its claim ends
        return len(messages)

    async def test(self, webhook: Webhook) -> str | None:
        """Send a message of the type `webhook.test`; return why it failed, or None."""
        await self._store.open()
        subject = Subject("", "")
        message = Message(id=new_id("msg"), webhook=webhook.id, event="webhook.test", subject=subject, at=self._now())
        body = body_of(message, None, self._base_url, webhook.format)
        async with self._client() as client:
            return (await self._send(client, webhook, message, body))[1]

    def _client(self) -> httpx.AsyncClient:
        agent = {"user-agent": f"assentry/{__version__}"}
        return httpx.AsyncClient(timeout=self._timeout, follow_redirects=False, headers=agent)

    def _now(self) -> int:
        return int(self._store.clock() * 1000)

    async def _deliver(self, client: httpx.AsyncClient, hook: Webhook, message: Message) -> None:
        body = body_of(message, await self._question(message), self._base_url, hook.format)
        status, problem = await self._send(client, hook, message, body)
        if problem is None:
            await self._outbox.done(message)
            return
        over = message.tries > len(RETRIES)
        after = RETRIES[min(message.tries, len(RETRIES)) - 1] * random.uniform(1 - JITTER, 1 + JITTER)
        await self._outbox.again(message, after=after, error=problem)
        if over or status == httpx.codes.GONE:
            why = "it answered that it is gone" if not over else f"it failed {message.tries} times, last: {problem}"
            log.warning("Webhook %s is disabled: %s", hook.id, why)
            await self._outbox.disable(hook.id, why)
        else:
            log.info("Message %s to webhook %s failed, and is tried again: %s", message.id, hook.id, problem)

    async def _question(self, message: Message) -> Question | None:
        """Return the question of a message; None if it was purged, or is damaged."""
        try:
            [question] = await with_order(self._store, [await self._store.question(message.subject.question)])
            return question
        except NotFound:
            return None
        except UnreadableState as error:
            damage_of(self._store).note("question", str(error), self._now())
            return None

    async def _send(
        self, client: httpx.AsyncClient, hook: Webhook, message: Message, body: bytes
    ) -> tuple[int | None, str | None]:
        """Send a message once; return the receiver's status, and why it failed. The answer's body is not read."""
        given = headers(hook, message.id, int(self._store.clock()), body)
        try:
            async with (
                asyncio.timeout(self._timeout),
                client.stream("POST", hook.url, content=body, headers=given) as answer,
            ):
                status = answer.status_code
        except TimeoutError:
            return None, f"it did not answer in {self._timeout:g} seconds"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return None, f"{type(error).__name__}: {error}"[:200]
        if 200 <= status < 300:
            return status, None
        redirects = ", and redirects are not followed" if 300 <= status < 400 else ""
        return status, f"it answered {status}{redirects}"


def has_outbox(store: Store) -> bool:
    """Return True if a store keeps messages for webhooks."""
    return type(store).outbox is not Store.outbox


@asynccontextmanager
async def dispatching(store: Store, *, base_url: str | None = None) -> AsyncIterator[None]:
    """Send messages in the background, for the lifespan of an application. A store without an outbox has none."""
    if not has_outbox(store):
        yield
        return
    task = asyncio.create_task(Dispatcher(store, base_url=base_url).run(), name="assentry webhooks")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
