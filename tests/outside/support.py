"""The place to ask at that the tests of programs outside share: a store, or a running inbox in front of one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

import assentry.inbox
from assentry import Approvals, SyncApprovals
from assentry.store import MemoryStore, Store
from assentry.store.call_status import CallStatus
from assentry.testing import FakeClock
from tests.inbox.support import Tokens

BOT = "billing-bot"
TOKEN = f"{BOT}:agent"


@contextmanager
def running_inbox(store: Store, **options: Any) -> Iterator[str]:
    """Serve the inbox of a store on a thread of its own, and give its address."""
    app = assentry.inbox.app(store, Tokens(), **options)
    config = uvicorn.Config(app, port=0, ws="none", log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    thread = threading.Thread(target=lambda: server.run(sockets=[socket]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        socket.close()


class AskingPlace:
    """A store, and the way in which programs reach it: the store itself, or its inbox over HTTP."""

    def __init__(self, store: Store, address: str | None, clock: FakeClock) -> None:
        self.store, self.address, self.clock = store, address, clock

    def approvals(self, source: str = BOT, **options: Any) -> Approvals:
        if self.address is None:
            return Approvals(self.store, source=source, **options)
        return Approvals(self.address, source=source, token=f"{source}:agent", **options)

    def sync_approvals(self, source: str = BOT, **options: Any) -> SyncApprovals:
        if self.address is None:
            return SyncApprovals(self.store, source=source, **options)
        return SyncApprovals(self.address, source=source, token=f"{source}:agent", **options)

    async def decide(self, status: CallStatus, decision: Any, by: str = "ann") -> None:
        question = next(
            each for each in (await self.store.questions(run=status.id)).items
        )  # the open one, which may be another than the first
        await self.store.decide(question.id, decision, by=by, digest=question.digest)


@pytest.fixture(params=["store", "inbox"])
def asking(request: pytest.FixtureRequest) -> Iterator[AskingPlace]:
    """A place of each kind, over a store whose clock stands still."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    if request.param == "store":
        yield AskingPlace(store, None, clock)
        return
    with running_inbox(store) as address:
        yield AskingPlace(store, address, clock)
