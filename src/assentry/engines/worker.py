"""The worker: drives the runs of a store that have something to do. Any number of workers may share one store."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from msgspec.json import encode
from msgspec.structs import replace

from ..approval.decision import checked_name
from ..core import allowed
from ..core.run import UNDER_WAY
from ..core.wording import clean_text, described
from ..definitions.agent import Agent
from ..definitions.hooks import RunHooks
from ..errors import (
    AgentNotFound,
    AgentStopped,
    AssentryError,
    Conflict,
    ContextMissing,
    DefinitionChanged,
    LeaseLost,
    MaxTurnsExceeded,
    NotFound,
    Overtaken,
    RunBusy,
    RunFinished,
    SessionMissing,
    StoreFailed,
    UnansweredRequest,
    UnreadableState,
    UsageError,
)
from ..ids import new_id
from ..runtime.agent_graph import AgentGraph
from ..runtime.config import DEFAULT, RunConfig
from ..runtime.drive import run_template
from ..runtime.registry import AgentRegistry
from ..sessions.session import Session
from ..store.record import Lease, RunRecord
from ..store.store import Store
from .backoff import delay
from .claimed_run import ClaimedRun, DriveSettings, Halted
from .preview_desk import PreviewDesk
from .signals import signal_handler

log = logging.getLogger("assentry")

NO_FAILURE = (LeaseLost, Overtaken, RunBusy)
"""Errors that mean that another process was quicker; the worker releases the run and looks again."""
HOPELESS = (
    AgentNotFound,
    ContextMissing,
    DefinitionChanged,
    MaxTurnsExceeded,
    RunFinished,
    SessionMissing,
    UnansweredRequest,
    UnreadableState,
)
"""Errors that a retry cannot fix."""
LONGEST_ERROR = 2000
ANNOUNCE = 3600.0
"""The seconds between two announcements of a worker's agents."""
SWEEP = 60.0
"""The seconds between two looks for runs that nothing wakes."""

OnError = Callable[[RunRecord, BaseException], Any]

WORKER_OPTIONS = allowed.Options(
    store=allowed.instance_of(Store, "a Store, such as SQLiteStore(path)"),
    concurrency=allowed.COUNT,
    poll=allowed.POSITIVE_SECONDS,
    drain=allowed.seconds(),
    max_failures=allowed.COUNT,
    run_config=allowed.instance_of(RunConfig).or_none,
    hooks=allowed.instance_of(RunHooks).or_none,
    sessions=allowed.CALLABLE.or_none,
    on_error=allowed.CALLABLE.or_none,
)


class Worker:
    """Drives the runs of a store, many at once, until it is stopped.

    A run is claimed when it has something to do: a person decided, new input came, a deadline has passed, or the
    process that drove the run is gone. The worker drives the run to its next pause or its end, with the version of its
    agent that the run was made with. A drive that fails is retried, with a growing delay.

    Args:
        store: The store that holds the runs.
        agents: An `AgentRegistry`, an agent, or several; runs of other agents are left to other workers.
        concurrency: The number of runs driven at once.
        lease: Seconds after which another worker may take over a run whose worker is gone. A live worker renews its
            leases in time.
        poll: Seconds between two looks at the store when the store reports nothing; this finds passed deadlines and
            runs whose worker is gone.
        drain: Seconds that runs have to reach their next pause when the worker is stopped.
        max_failures: The number of failures in a row after which a run is left alone until something is appended to it.
        name: The worker's name in the store, unique among workers; generated if not given.
        run_config: Settings of the runs.
        hooks: Hooks that are called for all runs.
        context: The context of runs that have none, or whose context was not saved: an object, or a function that
            makes one from the `RunRecord`. It is not saved.
        sessions: A function that returns the session with a given id, for runs that were begun with a session.
        on_error: A callback for each drive that failed, called with the `RunRecord` and the exception.
        random: A function that returns a number from 0 to 1; it spreads retries over time.
    """

    def __init__(
        self,
        store: Store,
        agents: AgentRegistry | Agent[Any] | Iterable[Agent[Any]],
        *,
        concurrency: int = 10,
        lease: float = 30.0,
        poll: float = 5.0,
        drain: float = 20.0,
        max_failures: int = 20,
        name: str | None = None,
        run_config: RunConfig | None = None,
        hooks: RunHooks[Any] | None = None,
        context: Any = None,
        sessions: Callable[[str], Session | Awaitable[Session]] | None = None,
        on_error: OnError | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in WORKER_OPTIONS.options}
        WORKER_OPTIONS.check_items("Worker", given, UsageError)
        made_up = f"{socket.gethostname()}.{os.getpid()}.{new_id('w')}"
        self.name = made_up if name is None else checked_name(name, "A worker's name is text that can be seen")
        self.store = store
        self.agents = registry_of(agents)
        config = replace(run_config or DEFAULT, lease=RunConfig(lease=lease).lease)  # checked: `replace` may not check
        self._plan = DriveSettings(store, self.agents, config, hooks, context, sessions)
        self._concurrency, self._poll, self._drain_for = concurrency, poll, drain
        self._max_failures, self._on_error, self._random = max_failures, on_error, random
        self._drives: dict[str, tuple[ClaimedRun, asyncio.Task[None]]] = {}
        """The drives under way, by the run's id."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked = self._now_asked = False
        self._stopping: asyncio.Future[None]
        self._at_once: asyncio.Future[None]
        self._announced: float | None = None
        """The event loop's time when the store was last told of the agents."""
        self._swept: float | None = None
        """The event loop's time when runs that nothing wakes were last looked for."""
        self._stopped: set[str] = set()
        """The runs whose last drive here was ended by a stop of another agent than their own."""
        self._away = 0
        """The number of times in a row that the store could not be reached."""

    def __repr__(self) -> str:
        return f"<Worker {self.name} of {', '.join(map(repr, self.agents.names()))}: {len(self._drives)} runs>"

    # -- the public methods ------------------------------------------------------------------------

    async def run(self, *, signals: bool = True) -> None:
        """Drive runs until `stop` is called, or SIGTERM or SIGINT arrives; then finish in order.

        With `signals=False`, and outside of the main thread, no signal handlers are set; a program may have its own.
        """
        with self._running(), signal_handler(self._on_signal) if signals else nullcontext():
            try:
                await self._serve_beside_previews()
                await self._drain()
            finally:
                await self._cut_off()

    async def run_until_idle(self) -> int:
        """Drive runs until none has anything to do, and return the number of drives. For tests and cron jobs."""
        count = 0
        with self._running():
            try:
                await self._announce()
                await self._sweep()
                while not self._stopping.done():
                    count += await self._fill()
                    if not self._drives:
                        break
                    await self._any_of(self._tasks())
                await self._drain()
            finally:
                await self._cut_off()
        return count

    def stop(self, *, at_once: bool = False) -> None:
        """Claim nothing more, and let `run` finish. May be called from any thread.

        Runs have `drain` seconds to reach their next pause. After that nothing new is begun in them, and tool bodies
        have `RunConfig(cancel_grace=...)` seconds to end; the outcome of a body that did not end is in doubt. With
        `at_once` nothing is waited for. The next worker can claim each run.
        """
        self._stop_asked, self._now_asked = True, self._now_asked or at_once
        if self._loop is not None:
            with suppress(RuntimeError):  # the worker's event loop is closed
                self._loop.call_soon_threadsafe(self._pass_on)

    # -- starting and stopping ---------------------------------------------------------------------

    @contextmanager
    def _running(self) -> Iterator[None]:
        if self._loop is not None:
            raise UsageError("This worker runs already; make another one to have two.")
        self._loop = asyncio.get_running_loop()
        self._stopping, self._at_once = self._loop.create_future(), self._loop.create_future()
        self._pass_on()
        try:
            yield
        finally:
            self._loop = self._announced = self._swept = None
            self._stop_asked = self._now_asked = False

    def _pass_on(self) -> None:
        for asked, future in ((self._stop_asked, self._stopping), (self._now_asked, self._at_once)):
            if asked and not future.done():
                future.set_result(None)

    def _on_signal(self) -> None:
        self.stop(at_once=self._stop_asked)

    async def _drain(self) -> None:
        """Wait for the drives to reach their next pause, and halt those that do not."""
        await self._wait_for_drives(self._drain_for)
        for drive, _ in self._drives.values():
            drive.halt()
        await self._wait_for_drives(self._plan.config.cancel_grace)

    async def _wait_for_drives(self, seconds: float) -> None:
        """Wait for the drives, at most this many seconds; return at once if the worker must stop at once."""
        if self._drives and not self._at_once.done():
            ended: asyncio.Future[Any] = asyncio.gather(*self._tasks(), return_exceptions=True)
            await asyncio.wait([ended, self._at_once], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def _cut_off(self) -> None:
        while tasks := self._tasks():
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for drive, _ in self._drives.values():  # cancelled before their first step, with all tasks of the loop
            await self._give_back(drive.lease)
        self._drives.clear()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for _, task in self._drives.values() if not task.done()]

    # -- claiming ----------------------------------------------------------------------------------

    async def _serve_beside_previews(self) -> None:
        """Serve, and make previews of edits meanwhile."""
        desk = PreviewDesk(self.store, self._plan, self.name, self.agents.names)
        previews = asyncio.create_task(desk.serve(self._poll))
        try:
            await self._serve()
        finally:
            previews.cancel()
            await asyncio.wait([previews])

    async def _serve(self) -> None:
        """Claim and start runs until the worker is told to stop, waiting for news of the store in between."""
        news: asyncio.Future[None] | None = None
        try:
            while not self._stopping.done():
                try:
                    if news is None or news.done():
                        if news is not None:
                            news.result()
                        news = asyncio.ensure_future(self.store.wait(self._poll))
                        await asyncio.sleep(0)  # listen before claiming, so that nothing is missed in between
                    await self._announce()
                    await self._sweep()
                    await self._fill()
                except StoreFailed as error:
                    news = None if news is not None and news.done() else news
                    await self._wait_for_store(error)
                    continue
                self._away = 0
                await self._any_of(self._tasks() if len(self._drives) >= self._concurrency else [news])
        finally:
            if news is not None:
                news.cancel()
                await asyncio.wait([news])
                with suppress(asyncio.CancelledError):
                    news.exception()

    async def _announce(self) -> None:
        """Tell the store which agents this worker drives, once an hour, so that an inbox can start runs of them."""
        now = asyncio.get_running_loop().time()
        if self._announced is not None and now - self._announced < ANNOUNCE:
            return
        newest = {name: AgentGraph(self.agents.get(name)) for name in self.agents.names()}
        config = self._plan.config
        templates = {name: encode(run_template(graph, config)).decode() for name, graph in newest.items()}
        await self.store.announce(templates)
        self._announced = now

    async def _sweep(self) -> None:
        """Once a minute, make the runs due that have something to do, and that nothing would wake."""
        now = asyncio.get_running_loop().time()
        if self._swept is not None and now - self._swept < SWEEP:
            return
        names = self.agents.names()
        for record in await self.store.lost():
            if record.agent in names and record.failures < self._max_failures:
                log.warning("Run %s has something to do, and nothing would wake it; it is due now", record.id)
                with suppress(Conflict, NotFound, UnreadableState):  # another worker was quicker, or it is damaged
                    lease = await self.store.take(record.id, self.name, seq=record.seq, hold=self._plan.config.lease)
                    await self.store.release(lease, again_in=0.0)
        if self._stopped and not (await self.store.stops(limit=1)).items:
            self._stopped.clear()
        self._swept = now

    async def _any_of(self, futures: Sequence[asyncio.Future[Any]]) -> None:
        await asyncio.wait([*futures, self._stopping], return_when=asyncio.FIRST_COMPLETED)

    async def _fill(self) -> int:
        """Claim as many runs as there is room for, start their drives, and return their number."""
        free = self._concurrency - len(self._drives)
        leases = await self._claim(free) if free > 0 else []
        for lease in leases:
            drive = ClaimedRun(self._plan, lease)
            drive.was_stopped = lease.run in self._stopped
            self._drives[lease.run] = drive, asyncio.create_task(self._drive(drive))
        return len(leases)

    async def _claim(self, limit: int) -> list[Lease]:
        names, hold = self.agents.names(), self._plan.config.lease
        claiming = asyncio.ensure_future(self.store.claim(self.name, agents=names, hold=hold, limit=limit))
        try:
            leases = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(StoreFailed):
                for lease in await claiming:
                    await self._give_back(lease)
            raise
        mine = [] if self._stopping.done() else [lease for lease in leases if lease.run not in self._drives]
        for lease in leases:
            if lease not in mine:  # the worker stops, or an older drive here lost the lease and does not know it yet
                await self._give_back(lease, None if self._stopping.done() else self._poll)
        return mine

    async def _wait_for_store(self, error: StoreFailed) -> None:
        seconds = delay(self._away, self._random())
        self._away += 1
        log.warning("The store cannot be reached; trying again in %.1f seconds: %s", seconds, error)
        await asyncio.wait([self._stopping], timeout=seconds)

    # -- driving -----------------------------------------------------------------------------------

    async def _drive(self, drive: ClaimedRun) -> None:
        try:
            await drive.run()
            self._stopped.discard(drive.lease.run)
        except AgentStopped as error:
            log.info("Run %s waits: %s", drive.lease.run, error)
            await self._give_back(drive.lease, self._after_stop(drive, error))
        except (Halted, *NO_FAILURE) as error:
            log.info("Run %s is released for now: %s", drive.lease.run, str(error) or "the worker stops")
            await self._give_back(drive.lease)
        except Exception as error:
            await self._handle_failure(drive, error)
        except GeneratorExit:  # the coroutine is garbage-collected with its event loop: nothing can be awaited
            raise
        except BaseException:
            await self._give_back(drive.lease)
            raise
        finally:
            del self._drives[drive.lease.run]

    def _after_stop(self, drive: ClaimedRun, stop: AgentStopped) -> float:
        """Return the seconds after which a run is due again in which nothing may begin.

        While its own agent is stopped, no claim returns it. If it is the agent of one of its calls, the run is looked
        at again and again.
        """
        own = stop.agent is None or (drive.record is not None and drive.record.agent == stop.agent)
        if own:
            return 0.0
        self._stopped.add(drive.lease.run)
        return self._poll

    async def _give_back(
        self, lease: Lease, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        try:
            await self.store.release(lease, again_in=again_in, error=error, seq=seq)
        except StoreFailed as away:
            log.warning("The lease of run %s could not be released; it expires by itself: %s", lease.run, away)

    async def _handle_failure(self, drive: ClaimedRun, error: Exception) -> None:
        """Log the failure, release the lease with the time of the retry, if there is one, and call `on_error`.

        What is stored decides: the drive may know facts that could not be written.
        """
        run = drive.lease.run
        stored = await self._record(run)
        latest = stored or drive.record
        failures = 1 if latest is None else latest.failures + 1
        over = stored is not None and stored.status not in UNDER_WAY
        hopeless = isinstance(error, HOPELESS) and not drive.lost_facts
        seconds: float | None = delay(failures - 1, self._random())
        if over or hopeless or failures >= self._max_failures:
            seconds = 0.0 if drive.joined and not over else None
        then = "it is left alone until something new is recorded" if seconds is None else f"again in {seconds:.1f} s"
        trace = None if isinstance(error, AssentryError) else error
        log.warning("Run %s failed (%d in a row; %s): %s", run, failures, then, one_line(error), exc_info=trace)
        await self._give_back(drive.lease, seconds, one_line(error), drive.known)
        if self._on_error is not None and (record := drive.record or stored) is not None:
            await self._tell(record, error)

    async def _record(self, run: str) -> RunRecord | None:
        """Return the stored record of a run; None if it cannot be read."""
        with suppress(StoreFailed, NotFound, UnreadableState):
            return await self.store.record(run)
        return None

    async def _tell(self, record: RunRecord, error: Exception) -> None:
        assert self._on_error is not None
        try:
            told = self._on_error(record, error)
            if inspect.isawaitable(told):
                await told
        except Exception:
            log.warning("on_error failed", exc_info=True)


def registry_of(agents: Any) -> AgentRegistry:
    """Return a registry of one agent or of several; return a given registry as it is."""
    if isinstance(agents, AgentRegistry):
        registry = agents
    else:
        registry = AgentRegistry()
        single = isinstance(agents, Agent)
        if not single and not isinstance(agents, Iterable):
            raise UsageError(f"agents is an AgentRegistry, an Agent, or a list of agents, got {described(agents)}.")
        for agent in [agents] if single else agents:
            registry.add(agent, version="1")
    if not registry.names():
        raise UsageError("A worker needs at least one agent; add it to the registry first.")
    return registry


def one_line(error: BaseException) -> str:
    """Return an error as one line that any store can keep."""
    text = clean_text(f"{type(error).__name__}: {error}")[0].replace("\0", "")
    return " ".join(text.split())[:LONGEST_ERROR]
