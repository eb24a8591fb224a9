"""The part of a worker that makes previews of edits: it answers requests of the store beside the worker's drives.

It holds no lease and records nothing, so it disturbs no drive of a run, by whatever worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..core.wording import shortened
from ..errors import AssentryError, StoreFailed
from ..runtime.edit_preview import preview_edit
from ..store.preview_requests import PreviewAnswer, PreviewRequest, PreviewRequests
from ..store.store import Store
from .claimed_run import DriveSettings

log = logging.getLogger("assentry")

AT_ONCE = 4
"""The most previews that a worker makes at once."""
AWAY = 2.0
"""The seconds before another look at a store that failed."""
LONGEST = 4.0
"""The seconds that a preview of an edit may take: its request is gone soon after."""
LONGEST_PROBLEM = 500


class PreviewDesk:
    """Makes the previews that are asked for of a worker's agents, until it is cancelled."""

    def __init__(self, store: Store, plan: DriveSettings, worker: str, agents: Callable[[], list[str]]) -> None:
        self._store, self._plan, self._worker, self._agents = store, plan, worker, agents
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, poll: float) -> None:
        """Answer requests; look for them when the store reports some, or every `poll` seconds."""
        requests = self._store.previews
        if requests is None:
            return
        try:
            while True:
                try:
                    await self._answer_some(requests)
                    await requests.wait(poll)
                except Exception as error:  # the drives go on; a person who edits is told that nobody answers
                    trace = None if isinstance(error, AssentryError) else error
                    log.warning("No previews of edits for %.0f seconds: %s", AWAY, error, exc_info=trace)
                    await asyncio.sleep(AWAY)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer_some(self, requests: PreviewRequests) -> None:
        """Take as many requests as there is room for, and begin to answer them."""
        while len(self._tasks) >= AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for request in await requests.take(self._worker, agents=self._agents(), limit=AT_ONCE - len(self._tasks)):
            task = asyncio.create_task(self._answer(requests, request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, requests: PreviewRequests, request: PreviewRequest) -> None:
        """Answer a request with a preview, or with the reason why there is none."""
        try:
            try:
                async with asyncio.timeout(LONGEST):
                    given = await self._made(request)
            except TimeoutError:
                given = PreviewAnswer(problem=f"It took longer than {LONGEST:g} seconds.")
            await requests.answer(request.id, given, worker=self._worker)
        except StoreFailed as error:
            log.info("The preview of an edit of question %s is lost: %s", request.question, error)

    async def _made(self, request: PreviewRequest) -> PreviewAnswer:
        try:
            stored = await self._store.load(request.run)
            agent, context = self._plan.agent(stored), await self._plan.own_context(stored.context, stored.record)
            made = await preview_edit(agent, stored, context, self._plan.config, request)
        except StoreFailed:
            raise
        except AssentryError as error:
            return PreviewAnswer(problem=shortened(str(error), LONGEST_PROBLEM))
        except Exception as error:
            log.warning("The preview of an edit of question %s failed", request.question, exc_info=True)
            return PreviewAnswer(problem=f"It failed with {type(error).__name__}.")
        return PreviewAnswer(bytes(made).decode() if made else None)
