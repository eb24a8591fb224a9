"""One drive of a run that a worker has claimed: from its lease to the run's next pause, its end, or a failure.

Claiming runs, and deciding when a failed run is retried, belong in `worker`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..core.facts import AnyFact
from ..core.run import UNDER_WAY
from ..definitions.agent import Agent
from ..definitions.hooks import RunHooks
from ..errors import RunFinished
from ..runtime.config import RunConfig
from ..runtime.drive import RunPlace, drive_run, resume_run
from ..runtime.driver import Driver
from ..runtime.registry import AgentRegistry
from ..runtime.saved_context import LEFT_OUT
from ..runtime.session_sync import check_session_given
from ..runtime.state import resumption, state_of
from ..runtime.store_writer import StoreWriter
from ..sessions.session import Session
from ..store.record import Lease, RunRecord, SavedContext, Stored
from ..store.store import Store

log = logging.getLogger("assentry")

NOT_SAVED = SavedContext(kind=LEFT_OUT)
ADVICE = "Go on in the store with Runner.run(max_turns=...)."


class Halted(Exception):
    """The worker stops: nothing new is begun, and the next worker that claims the run continues it."""


class DriveSettings:
    """The settings with which a worker drives all of its runs. `store` is None if the runs are in none."""

    def __init__(
        self,
        store: Store | None,
        agents: AgentRegistry,
        config: RunConfig,
        hooks: RunHooks[Any] | None,
        context: Any,
        sessions: Callable[[str], Session | Awaitable[Session]] | None,
    ) -> None:
        self.store = store
        self.agents = agents
        self.config = config
        self.hooks = hooks
        self.context = context
        self.sessions = sessions

    async def driver(self, stored: Stored, lease: Lease) -> Driver:
        """Return a driver for this run, with the version of its agent that the run was made with."""
        agent = self.agent(stored)
        context = await self.own_context(stored.context, stored.record)
        state = state_of(agent, stored, context, self.config)
        began = resumption(state).journal.run.began
        session = await self.session(began.session if began is not None else None)
        place = RunPlace(session, store=self.store, advice=ADVICE)
        driver = resume_run(agent, state, context, None, self.config, self.hooks, place, Driver, lease)
        writer_of(driver).saved = NOT_SAVED if context is not None else stored.context
        driver.gentle = True
        return driver

    async def own_context(self, saved: SavedContext, record: RunRecord) -> Any:
        """Return the worker's own context for a run that has none, which is not saved; None if the run has one."""
        return await _make_context(self.context, record) if saved.json is None else None

    def agent(self, stored: Stored) -> Agent[Any]:
        """Return the version of its agent that a run was made with."""
        run = stored.record.id

        def tell(text: str) -> None:
            log.warning("Run %s: %s", run, text)

        return self.agents.route_stored(stored, self.config.on_change, tell)

    async def session(self, session_id: str | None) -> Session | None:
        """Return the session with this id; None without an id, or without `sessions`."""
        if session_id is None or self.sessions is None:
            return None  # `resume_run` raises `SessionMissing` if the run needs a session
        session = self.sessions(session_id)
        session = await session if inspect.isawaitable(session) else session
        check_session_given(session)
        return session


async def _make_context(context: Any, record: RunRecord) -> Any:
    """Return the worker's context for a run: the given object, or what the given function returns for the record."""
    made = context(record) if callable(context) else context
    return await made if inspect.isawaitable(made) else made


class ClaimedRun:
    """One drive of one run. When it ends, the lease is released or belongs to another worker."""

    def __init__(self, plan: DriveSettings, lease: Lease) -> None:
        self.plan = plan
        self.lease = lease
        self.record: RunRecord | None = None
        """The run's record, as read when the drive began."""
        self.known: int | None = None
        """The number of stored facts that the drive knows; None if the run could not be read."""
        self.joined = False
        """True if the drive has merged facts that other writers recorded since it began."""
        self.halted = False
        self.was_stopped = False
        """True if a stop ended this worker's last drive of the run."""
        self._driver: Driver | None = None

    async def run(self) -> None:
        """Read the run and drive it.

        An exception is the reason why the run could not continue; the lease is then still held.
        """
        assert self.plan.store is not None, "a lease is of a store's run"
        stored = await self.plan.store.load(self.lease.run)
        self.record, self.known = stored.record, stored.record.seq
        if stored.record.status not in UNDER_WAY:  # a person resumes a cancelled run
            raise RunFinished(f"The run is {stored.record.status}; there is nothing to do in it.")
        driver = self._driver = await self.plan.driver(stored, self.lease)
        if self.halted:
            raise Halted
        writer = writer_of(driver)
        writer.was_stopped = self.was_stopped

        def note_merge(fact: AnyFact) -> None:
            self.joined = self.joined or writer.merging

        driver.journal.listen(note_merge)
        try:
            await drive_run(driver, release=False)  # the worker releases the lease, and sets the time of the retry
        finally:
            self.known = writer.seq

    def halt(self) -> None:
        """Begin nothing more: running tool bodies may end, and a pending model call is not waited for."""
        self.halted = True
        if self._driver is not None:
            self._driver.tasks.fail((), Halted())

    @property
    def lost_facts(self) -> bool:
        """True if the drive recorded something that may not be stored: the next drive knows nothing of it."""
        writer = None if self._driver is None else self._driver.writer
        return writer is not None and bool(writer.unwritten or writer.unsure)


def writer_of(driver: Driver) -> StoreWriter:
    """Return the driver's store writer, which every run of a store has."""
    assert driver.writer is not None
    return driver.writer
