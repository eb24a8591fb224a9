"""The activities of a worker: each performs a slice of a run, and shows signs of life meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from msgspec.structs import replace
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from ...core.facts import AnyFact
from ...errors import AssentryError, Conflict, Overtaken, UnreadableState
from . import message as m
from .archive import JournalArchive
from .slice import NotEntered, Repeatable, Slices, saved_of
from .store_projection import StoreProjection
from .workflow import NOT_ENTERED, was_reset

BEATS = 3
"""The signs of life within the time after which a worker without any is given up."""


class RunActivities:
    """The activities with which workflows have the runs of some agents performed."""

    def __init__(self, slices: Slices, archive: JournalArchive, projection: StoreProjection | None = None) -> None:
        self._slices = slices
        self._archive = archive
        self._projection = projection

    def all(self) -> list[Callable[..., Any]]:
        """Return all activities."""
        return [self.begin, self.advance, self.enter, self.decide, self.keep, self.project]

    @activity.defn(name=m.BEGIN)
    async def begin(self, order: RawValue) -> RawValue:
        """Begin a run, and perform what it owes first."""
        return await _perform(self._begin(m.from_wire(order, m.Order)))

    async def _begin(self, order: m.Order) -> m.Report:
        report = await self._slices.begin(order, _now())
        return replace(report, projects=self._projection is not None)

    @activity.defn(name=m.ADVANCE)
    async def advance(self, order: RawValue) -> RawValue:
        """Perform what a run owes at one path, except bodies."""
        return await _perform(self._slices.perform(m.from_wire(order, m.Order), _now(), _tell))

    @activity.defn(name=m.ENTER)
    async def enter(self, order: RawValue) -> RawValue:
        """Take one call through the door: the last look, and the body."""
        given, execution = m.from_wire(order, m.Order), activity.info().workflow_run_id
        if given.execution and given.execution != execution:  # the server repeats what had not ended before a reset
            raise ApplicationError(was_reset(given.run), type=Conflict.__name__, non_retryable=True)
        return await _perform(self._slices.perform(given, _now(), _tell))

    @activity.defn(name=m.DECIDE)
    async def decide(self, order: RawValue) -> RawValue:
        """Look at a decision with the tools of the agent."""
        return await _perform(self._slices.decide(m.from_wire(order, m.Order), _now()))

    @activity.defn(name=m.KEEP)
    async def keep(self, order: RawValue) -> RawValue:
        """Write facts to the archive."""
        given = m.from_wire(order, m.Keeping)
        context = None if given.context is None else saved_of(given.context)
        with _final(Conflict, UnreadableState):
            async with _alive():
                await self._archive.keep(given.run, given.mark, given.facts, given.head, context)
        return m.to_wire(m.Report(execution=activity.info().workflow_run_id or ""))

    @activity.defn(name=m.PROJECT)
    async def project(self, order: RawValue) -> None:
        """Have the inbox's store catch up with the archive."""
        given = m.from_wire(order, m.Order)
        if self._projection is not None:
            with _final(Conflict, UnreadableState):
                async with _alive():
                    await self._projection.project(given.run, given.mark)


@contextmanager
def _final(*kinds: type[AssentryError]) -> Iterator[None]:
    """Raise errors of these kinds so that the activity is not attempted again."""
    try:
        yield
    except Overtaken:
        raise  # the next attempt may be the first one
    except kinds as error:
        raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error


def _now() -> float:
    """Return the time on the server's clock at which this attempt began, in seconds since 1970."""
    return activity.info().started_time.timestamp()


async def _perform(work: Awaitable[m.Report]) -> RawValue:
    async with _alive():
        try:
            return m.to_wire(replace(await work, execution=activity.info().workflow_run_id or ""))
        except NotEntered as error:
            raise ApplicationError(str(error), type=NOT_ENTERED, non_retryable=True) from error.__cause__
        except Repeatable as error:
            kind = type(error.__cause__).__name__
            raise ApplicationError(str(error), type=kind) from error.__cause__
        except AssentryError as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error


@asynccontextmanager
async def _alive() -> AsyncIterator[None]:
    """Show signs of life until the activity ends, so that a dead worker is noticed. Cancellations come this way too."""
    limit = activity.info().heartbeat_timeout

    async def beat() -> None:
        while limit is not None:
            activity.heartbeat()
            await asyncio.sleep(limit.total_seconds() / BEATS)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _tell(facts: list[AnyFact]) -> None:
    """Tell the activity's workflow of facts; on return they are in its history."""
    info = activity.info()
    handle = activity.client().get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
    await handle.signal("stepped", m.to_wire(m.Report(facts=facts)))
