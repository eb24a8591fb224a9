"""`assentry webhooks`: the addresses that are told of questions and decisions."""

from __future__ import annotations

from argparse import Namespace

from msgspec.structs import asdict

from ..core.wording import install_hint
from ..errors import NotFound, UsageError
from ..inbox.webhooks import Webhooks
from ..store.open import open_store
from ..store.outbox import EVENTS, Webhook
from .write import put, put_json, put_table, say, when

HEAD = ("WEBHOOK", "URL", "EVENTS", "MADE (UTC)", "WAITING", "STATE")


async def add_webhook(options: Namespace) -> int:
    """Add a webhook, and print its id and its secret. The secret is not printed again."""
    async with open_store(options.url, create=False) as store:
        made = await Webhooks(store).add(options.address, options.event or EVENTS, allow_http=options.allow_http)
    if options.json:
        put_json({"id": made.id, "url": made.url, "events": made.events, "secret": made.secret})
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
        shown = [{**asdict(hook), "waiting": waiting.get(hook.id, 0)} for hook in hooks]
        put_json([{name: value for name, value in hook.items() if name != "secret"} for hook in shown])
        return 0
    put_table([HEAD, *(_row(hook, waiting.get(hook.id, 0)) for hook in hooks)])
    return 0


def _row(hook: Webhook, waiting: int) -> tuple[str, ...]:
    state = "on" if hook.disabled is None else f"off since {when(hook.disabled)}: {hook.reason}"
    return hook.id, hook.url, ", ".join(hook.events), when(hook.made), str(waiting), state


async def remove(options: Namespace) -> int:
    """Remove a webhook."""
    async with open_store(options.url, create=False) as store:
        await Webhooks(store).remove(options.webhook)
    put(f"Removed {options.webhook}.")
    return 0


async def enable_webhook(options: Namespace) -> int:
    """Send to a webhook again that was given up."""
    async with open_store(options.url, create=False) as store:
        await Webhooks(store).enable(options.webhook)
    put(f"Messages are sent to {options.webhook} again.")
    return 0


async def test(options: Namespace) -> int:
    """Send a message that says nothing, to see that it arrives."""
    try:
        from ..inbox.dispatch import Dispatcher
    except ImportError as error:
        raise UsageError(f"Sending messages needs more ({error}): {install_hint('inbox')}") from None
    async with open_store(options.url, create=False) as store:
        hook = next((each for each in await Webhooks(store).all() if each.id == options.webhook), None)
        if hook is None:
            raise NotFound(f"The store has no webhook {options.webhook!r:.80}.")
        problem = await Dispatcher(store).test(hook)
    if problem is not None:
        say(f"assentry: the message to {hook.url} failed: {problem}")
        return 1
    put(f"The message to {hook.url} was accepted.")
    return 0
