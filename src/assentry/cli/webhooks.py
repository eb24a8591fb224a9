"""`assentry webhooks`: the addresses that are told of questions and decisions."""

from __future__ import annotations

import getpass
from argparse import Namespace
from typing import Any

from msgspec.structs import asdict

from ..core.wording import install_hint
from ..errors import UsageError
from ..inbox.webhooks import Webhooks
from ..store.open import open_store
from ..store.outbox import EVENTS, Webhook
from ..store.store import Store
from .source import only_one
from .table import Cell, Column, TimeCell, print_table
from .write import put, put_done, put_json, say, when

WEBHOOKS = (
    Column("WEBHOOK", "id"),
    Column("URL", "text"),
    Column("EVENTS", "text", least=100),
    Column("FORMAT"),
    Column("MADE (UTC)", "time", least=120, brief="MADE"),
    Column("WAITING"),
    Column("STATE", "text"),
)


async def add_webhook(options: Namespace) -> int:
    """Add a webhook, and print its id and its secret. The secret is not printed again."""
    async with open_store(options.url, create=False) as store:
        made = await Webhooks(store).add(
            options.address, options.event or EVENTS, allow_http=options.allow_http, format=options.format
        )
    if options.json:
        shown = {"id": made.id, "url": made.url, "events": made.events, "format": made.format, "secret": made.secret}
        put_json(shown)
        return 0
    put(f"webhook: {made.id}")
    put(f"secret: {made.secret}")
    say("Keep the secret now: it checks the signatures, and is not shown again.")
    return 0


async def print_webhooks(options: Namespace) -> int:
    """Print the webhooks, without their secrets."""
    async with open_store(options.url, create=False) as store:
        hooks, waiting = await Webhooks(store).all(), await Webhooks(store).waiting()
    if options.json:
        put_json([_shown(hook, waiting) for hook in hooks])
        return 0
    print_table(WEBHOOKS, [_row(hook, waiting.get(hook.id, 0)) for hook in hooks])
    return 0


def _shown(hook: Webhook, waiting: dict[str, int]) -> dict[str, Any]:
    """Return what programs read of a webhook: all but its secret."""
    whole = {**asdict(hook), "waiting": waiting.get(hook.id, 0)}
    return {name: value for name, value in whole.items() if name != "secret"}


async def _found(store: Store, id: str) -> dict[str, Any]:
    hooks = Webhooks(store)
    return _shown(await hooks.find(id), await hooks.waiting())


def _row(hook: Webhook, waiting: int) -> tuple[Cell, ...]:
    state = "on" if hook.disabled is None else f"off since {when(hook.disabled)}: {hook.reason}"
    return hook.id, hook.url, ", ".join(hook.events), hook.format, TimeCell(hook.made), str(waiting), state


async def _whole_id(store: Store, given: str) -> str:
    return only_one([hook.id for hook in await Webhooks(store).all()], given)


async def remove(options: Namespace) -> int:
    """Remove a webhook."""
    async with open_store(options.url, create=False) as store:
        id = await _whole_id(store, options.webhook)
        found = await _found(store, id)
        await Webhooks(store).remove(id)
    put_done(found, f"Removed {id}.", json=options.json)
    return 0


async def enable_webhook(options: Namespace) -> int:
    """Send to a webhook again that was given up."""
    async with open_store(options.url, create=False) as store:
        id = await _whole_id(store, options.webhook)
        await Webhooks(store).enable(id)
        found = await _found(store, id)
    put_done(found, f"Messages are sent to {id} again.", json=options.json)
    return 0


async def disable_webhook(options: Namespace) -> int:
    """Send nothing to a webhook, until it is enabled again."""
    async with open_store(options.url, create=False) as store:
        id = await _whole_id(store, options.webhook)
        await Webhooks(store).disable(id, by=getpass.getuser())
        found = await _found(store, id)
    put_done(found, f"Nothing is sent to {id} until it is enabled again.", json=options.json)
    return 0


async def test(options: Namespace) -> int:
    """Send a message that says nothing, to see that it arrives."""
    try:
        from ..inbox.dispatch import Dispatcher
    except ImportError as error:
        raise UsageError(f"Sending messages needs more ({error}): {install_hint('inbox')}") from None
    async with open_store(options.url, create=False) as store:
        hook = await Webhooks(store).find(await _whole_id(store, options.webhook))
        problem = await Dispatcher(store, base_url=options.base_url).test(hook)
    if options.json:
        put_json({"id": hook.id, "url": hook.url, "problem": problem})
        return 0 if problem is None else 1
    if problem is not None:
        say(f"assentry: the message to {hook.url} failed: {problem}")
        return 1
    put(f"The message to {hook.url} was accepted.")
    return 0
