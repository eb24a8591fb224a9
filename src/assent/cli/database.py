"""`assent db`: make, mend and check the database of a store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator

from ..core.codec import replay
from ..errors import UnreadableState
from ..store.open import open_store
from ..store.store import Store
from .write import put, say


async def upgrade(options: Namespace) -> int:
    """Make the tables, or bring them up to date."""
    async with open_store(options.url) as store:
        await store.upgrade()
    put("The store is ready.")
    return 0


async def rebuild(options: Namespace) -> int:
    """Make the records anew."""
    async with open_store(options.url, create=False) as store:
        put(f"Made the records of {await store.rebuild()} runs anew.")
    return 0


async def verify(options: Namespace) -> int:
    """Check the chain of hashes, and that each journal folds; every run that is damaged is named."""
    whole = damaged = 0
    async with open_store(options.url, create=False) as store:
        async for run in _runs(store, options.run):
            try:
                await _check(store, run)
                whole += 1
            except UnreadableState as error:
                put(str(error))
                damaged += 1
    if damaged:
        say(f"assent: {damaged} of {whole + damaged} runs are damaged")
        return 1
    put(f"{whole} {'run is' if whole == 1 else 'runs are'} as written.")
    return 0


async def _runs(store: Store, run: str | None) -> AsyncIterator[str]:
    if run is not None:
        yield run
        return
    after: str | None = None
    while True:
        page = await store.runs(limit=1000, after=after)
        for record in page.items:
            yield record.id
        if page.next is None:
            return
        after = page.next


async def _check(store: Store, run: str) -> None:
    await store.history(run)
    stored = await store.load(run)
    if stored.record.erased is None:
        replay(stored.facts)
