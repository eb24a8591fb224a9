"""The store writer: writes a run's journal to its store as the run goes, and takes in what others have written.

No body is entered before the facts that lead there are stored. What follows from a body is written while the run goes
on, after a moment at the latest. So a turn costs two writes at most, however many calls it has, and a dead process
leaves each call not begun, done, or in doubt. The first of these writes makes a new run, or acquires the lease of one
that is there, where nothing but a body or a new run's model comes before it.

Others may write too: decisions, input, a cancellation. Then a write of this drive is refused; what they wrote is folded
into the run, and the drive's facts follow it. If these cannot follow (the run was cancelled, and a call was about to
begin), the drive stops, and begins again with what is stored.

Every write carries the lease, and every write goes through the table in `lease`: a drive that has none writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.json import Encoder

from ..core import facts as f
from ..core.codec import replay
from ..core.facts import AnyFact
from ..core.fold import fold
from ..core.rules import is_drivers
from ..core.run import Run, owed
from ..errors import (
    ContextMissing,
    IllegalFact,
    LeaseLost,
    Overtaken,
    RunBusy,
    RunNotFound,
    StoreFailed,
    UnreadableState,
)
from ..loop import begun
from ..store.projection import Projection
from ..store.record import Change, SavedContext
from . import saved_context
from .journal import Journal
from .lease import HELD, LOST, REFUSED, RELEASED, RELEASING, Heartbeat, RunLease
from .view import View

if TYPE_CHECKING:
    from ..store.store import Store
    from .driver import Driver
    from .state import Kept

log = logging.getLogger("assent")
_encode = Encoder().encode

TRIES = 20
"""How often one write is tried while others keep writing to the run."""


class StoreWriter:
    """Writes one run to its store, for one drive."""

    def __init__(self, driver: Driver, store: Store, lease: RunLease, kept: Kept) -> None:
        self.store = store
        self.driver = driver
        self.journal: Journal = driver.journal
        self.lag = driver.config.write_lag
        self.lease = lease
        self.seq = kept.facts
        """The number of facts that the store has."""
        self.unwritten: list[AnyFact] = []
        self.unsure: Change | None = None
        """A write that failed, and of which it could not be found out whether it was stored."""
        self.projection = kept.noted or Projection()
        self.sent: set[str] = set()
        """The tools whose definitions the store has from this drive."""
        self.saved = kept.context
        """The context as it is stored, if that is known."""
        self.spoiled: ContextMissing | None = None
        """The reason why the context, as bodies left it, could not be written with their outcomes."""
        self.merging = False
        self.merges = 0
        """The number of times that others were found to have written something."""
        self.joined = False
        """True if another writer changed the run during this drive."""
        self.writing: asyncio.Task[bool] | None = None
        """The write under way; there is one at a time."""
        self.soon: asyncio.TimerHandle | None = None
        """The timer of the next write in the background."""
        self.heartbeat: Heartbeat | None = None
        self.closing: asyncio.Task[None] | None = None
        self.news: asyncio.Future[None] | None = None
        """Done when others have written something; for a drive that waits."""
        self.failing = False
        """True after a write failed: none is begun in the background until the drive begins again, or ends."""
        self.unwritten += self._recent(kept.facts, kept.noted is not None)
        self.journal.listen(self._heard)
        self.journal.writer = self

    def _recent(self, known: int, noted: bool) -> list[AnyFact]:
        """Return what was decided on a state in somebody's hands, and the store does not have yet."""
        facts = self.journal.facts[known:]
        if facts and not noted:
            run = replay(self.journal.facts[:known]) if known else Run()
            for fact in facts:
                fold(run, fact)
                self.projection.note(run, fact)
        return facts

    def _heard(self, fact: AnyFact) -> None:
        if not self.merging:
            self.unwritten.append(fact)
            self.projection.note(self.journal.run, fact)
            if self.lag and type(fact) is f.Finished:
                self.kick()  # a hook that comes next may take its time

    # -- the lease ---------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """True if something must be read or written before the run is driven."""
        began = self.journal.run.began
        return (began is not None and began.follows is not None) or not (self.lease.acquired or self._can_wait())

    def _can_wait(self) -> bool:
        """True if the lease can be acquired with a later write: the run is new, or owes nothing but bodies.

        A new run's model may be asked before. Of two who begin the same run one is told so at the first write.
        """
        if self.seq == 0 or self.lag == 0:
            return self.lag > 0
        known = self.lease.fence is not None
        return known and all(
            type(effect) is f.Execute and self.driver.state_of(effect).call.kind == "tool"
            for effect in owed(self.journal.run)
        )

    async def begin(self, *, now: bool = False) -> None:
        """Take the run up, with the runs that it follows.

        With `now` the run is stored and the lease held when this returns. Without, that is so before a body is
        entered, and before any model is asked but a new run's.
        """
        if not self.lease.acquired and self.lease.fence is None and self.seq:
            await self._done(self._begin(self._acquire()))
        elif not self.lease.acquired and (now or not self._can_wait()):
            await self._done(self._begin_write())
        began = self.journal.run.began
        if began is not None and began.follows is not None:
            self.driver.before = await past(self.store, began.follows)
            self.driver.past = [item for run in self.driver.before for item in View(run, None, {}).input_list()]

    async def own(self) -> None:
        """Hold the lease, with everything written that there is."""
        await (self._done(self._begin_write()) if self.writing is None else asyncio.shield(self.writing))

    def start(self) -> None:
        """Renew the lease from now on, for as long as the drive takes."""
        if self.lease.held is not None and self.heartbeat is None:
            self.heartbeat = Heartbeat(self.lease.run, self.lease.hold, self.look, self._stop)

    async def _acquire(self) -> bool:
        """Acquire the lease by itself. If it is not known whether it was given, ask again: a worker may be given its
        own."""
        lease = self.lease
        for tries in (1, 2):
            try:
                lease.acquire(await self.store.take(lease.run, lease.worker, seq=self.seq, hold=lease.hold))
                return True
            except (RunBusy, Overtaken):
                lease.lose()
                raise
            except StoreFailed as error:
                if not error.unknown or tries == 2:
                    raise
        raise AssertionError

    async def look(self) -> None:
        """Renew the lease and take in what others have written; `LeaseLost` if another has the run."""
        if not await self._renewed():
            raise self._gone()
        # A write that is under way finds out by itself; and one that was begun since may be what is found.
        if self._is_idle() and (await self.store.read(self.lease.run, self.seq)).facts and self._is_idle():
            await self._done(self._begin(self._merge()))

    def _is_idle(self) -> bool:
        """Return True if the lease is held and no write is under way."""
        return self.writing is None and self.lease.state is HELD

    async def _renewed(self) -> bool:
        """Renew the lease; False if another has it. One that is being acquired or released is not renewed."""
        held = self.lease.held
        if held is None or not self.lease.may("renew"):
            return True
        kept = await self.store.renew([held], hold=self.lease.hold)
        return bool(kept) or self.lease.held is not held or not self.lease.may("renew")

    def check(self) -> None:
        """Raise `LeaseLost` if it is known that this drive does not have the run any more."""
        self.lease.check("begin")

    async def holds(self) -> bool:
        """Ask the store whether this drive still has the run. `StoreFailed` if it cannot be asked."""
        if self.lease.state is HELD and not await self._renewed():
            self._stop(self._gone())
        return self.lease.state is HELD

    def _gone(self) -> LeaseLost:
        return LeaseLost(f"Run {self.lease.run!r} was taken over by another worker.")

    def _stop(self, error: Exception) -> None:
        if isinstance(error, LeaseLost):
            self.lease.lose()
        self.failing = True
        self.driver.fail((), error)
        self._tell()

    def hear(self) -> asyncio.Future[None]:
        """Return a future: done when others have written something, or the run cannot be written any more."""
        if self.news is None or self.news.done():
            self.news = asyncio.get_running_loop().create_future()
        return self.news

    def _tell(self) -> None:
        if self.news is not None and not self.news.done():
            self.news.set_result(None)

    # -- writing -----------------------------------------------------------------------------------

    def kick(self) -> None:
        """Have what there is written soon, and go on. What is recorded until then is written with it."""
        if self.unwritten and self.soon is None and not self.failing and self.lease.active:
            if self.lag:
                self.soon = asyncio.get_running_loop().call_later(self.lag, self._write_soon)
            else:
                self._write_soon()

    def _write_soon(self) -> None:
        self.soon = None
        if self.writing is not None and self.lag:
            self.kick()
        elif self.writing is None and self.unwritten and not self.failing and self.lease.active:
            with suppress(Exception):  # the drive was told
                self._begin_write()

    async def flush(self) -> None:
        """Return when what is in the journal now is stored, and the lease held."""
        wanted = self.unwritten[-1] if self.unwritten else None
        while wanted is not None and any(fact is wanted for fact in reversed(self.unwritten)):
            self.lease.check("write")
            await (self._done(self._begin_write()) if self.writing is None else asyncio.shield(self.writing))

    async def finish(self) -> bool:
        """Write what is left and release the lease; False if others have written something to go on with."""
        merges = self.merges
        await self.settle()
        self.lease.check("release")
        if self.merges != merges:
            return False
        return await self._done(self._begin_write(release=True))

    async def close(self, *, release: bool = True) -> None:
        """Stop. If the run is still this drive's, write what can be written, and release the lease unless told not to.

        This is done to its end even if whoever waits is cancelled once more: or the lease would be kept for nobody.
        """
        if self.closing is None:
            work = self._close(release)
            left = begun(work) if self.store.immediate else work
            if left is None:
                return
            self.closing = asyncio.create_task(left)
            self.closing.add_done_callback(self._closed)
        await asyncio.shield(self.closing)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self.closing = None

    async def _close(self, release: bool) -> None:
        await self.settle()  # it may have acquired the lease, and so have begun to renew it
        if self.soon is not None:
            self.soon.cancel()
        if self.heartbeat is not None:
            await self.heartbeat.end()
            self.heartbeat = None
            await self.settle()
        if self._has_more(release):
            try:
                await self._write_last(release)
            except Exception as error:
                log.warning("What run %s did last could not be written: %s", self.lease.run, error)
        if self.soon is not None:
            self.soon.cancel()
        if self.lease.state is LOST:
            await self._bear_witness()

    def _has_more(self, release: bool) -> bool:
        """True if a last write is needed: for facts that are not stored, or to release the lease."""
        if self.lease.state in (LOST, REFUSED):
            return False
        return bool(self.unwritten) or self.unsure is not None or (release and self.lease.state is HELD)

    async def _write_last(self, release: bool) -> None:
        """Write what can follow what others have written, and release the lease with it.

        What cannot be written is left to whoever has the state, and so is the lease, until it runs out.
        """
        for _ in range(TRIES):
            if self.lease.state is RELEASED:
                self.lease.step("reopen")
            try:
                stored = await self._done(self._begin_write(release=release or self.lease.state is RELEASING))
            except Overtaken:
                if self.lease.state is not HELD:
                    raise
                await self.again()
                continue
            if stored and not self.unwritten:
                return
        raise Overtaken("It is written to faster than it can be released.")

    async def settle(self) -> None:
        """Wait for a write that is under way, however it ends."""
        while self.writing is not None:
            await asyncio.wait([self.writing])

    async def _done(self, task: asyncio.Task[bool] | bool) -> bool:
        """Wait for a write, which is done to its end even if whoever waits is not there any more."""
        return task if isinstance(task, bool) else await asyncio.shield(task)

    def _begin_write(self, release: bool = False) -> asyncio.Task[bool] | bool:
        """Begin to write what there is. The lease's state changes here, before anything else can be begun."""
        self.lease.step("release" if release else "write")
        return self._begin(self._write(release))

    def _begin(self, work: Coroutine[Any, Any, bool]) -> asyncio.Task[bool] | bool:
        """Begin to write, read or acquire; there is one at a time.

        Work that has to wait gets a task of its own: whoever waits for it may be cancelled, and it may not be cut in
        two. If it is done already, its result is returned.
        """
        assert self.writing is None
        done: list[bool] = []
        written = self._written(work, done)
        left = begun(written) if self.store.immediate else written
        if left is None:
            return done[0]
        task = asyncio.create_task(self._result(left, done))

        def ended(task: asyncio.Task[bool]) -> None:
            if self.writing is task:  # it was cancelled before its first step
                left.close()
                work.close()
                self.writing = None
            if not task.cancelled():
                task.exception()  # whoever waits for it is told

        task.add_done_callback(ended)
        if not task.done():  # a loop may have done it at once
            self.writing = task
        return task

    async def _result(self, work: Coroutine[Any, Any, None], done: list[bool]) -> bool:
        await work
        return done[0]

    async def _written(self, work: Coroutine[Any, Any, bool], done: list[bool]) -> None:
        try:
            done.append(await work)
        except Exception as error:
            self._stop(error)
            raise
        finally:
            self.writing = None

    async def _write(self, release: bool) -> bool:
        """Write what there is. With `release` False means: others have written something, and the lease is kept."""
        try:
            return await self._write_through(release)
        except BaseException:
            if self.unsure is None:
                self.lease.give_up_release()
            raise

    async def _write_through(self, release: bool) -> bool:
        lease = self.lease
        for _ in range(TRIES):
            await self._make_sure()
            if lease.state is RELEASED:  # the write before was stored after all
                return True
            change = self._change(release)
            try:
                await self._append(change)
            except Overtaken:
                self._put_back()
                if lease.held is None:
                    await self._acquire_first()
                    continue
                await self._merge()
                if release:
                    lease.give_up_release()
                    return False  # there may be something to do
                continue
            except BaseException as error:
                self._put_back()
                if lease.held is None and isinstance(error, RunBusy | LeaseLost):
                    lease.lose()
                raise
            self._wrote(change)
            self.start()
            self._tell_of_context()
            return True
        raise Overtaken(f"Run {lease.run!r} is written to faster than it can be driven.")

    def _wrote(self, change: Change) -> None:
        if self.lease.held is None and change.lease is not None:
            self.lease.acquire(change.lease)
        self.seq += len(change.facts)
        del self.unwritten[: len(change.facts)]
        self.sent |= change.definitions.keys()
        self.saved = change.context or self.saved
        if change.release:
            self.lease.released()

    def _tell_of_context(self) -> None:
        spoiled, self.spoiled = self.spoiled, None
        if spoiled is not None:
            raise spoiled

    async def _make_sure(self) -> None:
        """Find out what became of the write before, if that is not known. It may have released the lease."""
        if self.unsure is not None and await self._is_there(self.unsure):
            self._wrote(self.unsure)
            self._put_back()
        self.unsure = None

    async def _acquire_first(self) -> None:
        """Acquire the lease of a run that others have had since it was read; it is refused if they wrote to it."""
        if self.seq == 0:
            self.lease.lose()
            raise Overtaken(f"There is a run {self.lease.run!r} already; load it.")
        await self._acquire()

    def _change(self, release: bool) -> Change:
        run, facts, lease = self.journal.run, list(self.unwritten), self.lease
        change = self.projection.change(run, self.seq, facts, self.store.clock())
        change.lease, change.hold, change.release = lease.offered(), lease.hold, release
        change.take = lease.held is None and self.seq > 0
        if change.asked:
            change.definitions = self._definitions(change)
        if self.seq == 0 or release:
            try:
                change.context = self._context()
            except ContextMissing as error:
                if self.seq == 0:
                    raise
                self.spoiled = error  # what happened is written all the same
        return change

    def _definitions(self, change: Change) -> dict[str, bytes]:
        """Return the tools of the agents that ask, as they were offered, for whoever decides."""
        out: dict[str, bytes] = {}
        for question in change.asked:
            state = self.driver.run_at(question.path).calls[question.call]
            seat = self.driver.cast.of(state)
            for tool in (*seat.tools.values(), *((seat.final,) if seat.final is not None else ())):
                if tool.fingerprint not in self.sent:
                    out[tool.fingerprint] = tool.frozen()
        return out

    def _context(self) -> SavedContext | None:
        if self.saved is not None and self.saved.kind == saved_context.LEFT_OUT:
            return None  # and its user was told
        json, kind = saved_context.save(self.driver.ctx.context, self.driver.config.context_serializer, False)
        now = SavedContext(bytes(json) if json else None, kind)
        return now if now != self.saved else None

    def _put_back(self) -> None:
        """Gather anew what the unwritten facts change in the records."""
        written = {id(fact) for fact in self.unwritten}
        base = [fact for fact in self.journal.facts if id(fact) not in written]
        run = replay(base) if base else type(self.journal.run)()
        self.projection = Projection()
        for fact in self.unwritten:
            fold(run, fact)
            self.projection.note(run, fact)

    async def _append(self, change: Change) -> None:
        """Append; where it is not known whether the change was stored, look."""
        try:
            await self.store.append(change)
        except (asyncio.CancelledError, GeneratorExit):  # with all tasks of the loop, when that ends
            self.unsure = change
            raise
        except StoreFailed as error:
            if not error.unknown:
                raise
            self.unsure = change
            if not await self._is_there(change):
                await self._append_again(change)
            self.unsure = None

    async def _append_again(self, change: Change) -> None:
        """Append once more. The first try may have been on its way when we looked; then it is what overtakes us."""
        try:
            await self.store.append(change)
        except (Overtaken, LeaseLost):  # it may have released the lease
            if not await self._is_there(change):
                self.unsure = None
                raise

    async def _is_there(self, change: Change) -> bool:
        try:
            stored = await self.store.read(change.record.id, change.seq)
        except RunNotFound:
            return False
        lease, worker, found = change.lease, stored.record.worker, stored.facts[: len(change.facts)]
        held = lease is None or (worker == lease.worker and stored.fence in (None, lease.fence))
        if not held and not change.release:
            return False  # others may have written just the same: of two who approve at once, each begins the call
        if not change.facts:  # it acquires the lease, or releases it
            return lease is not None and (stored.fence == lease.fence if change.take else worker != lease.worker)
        return [_encode(fact) for fact in found] == [_encode(fact) for fact in change.facts]

    # -- what others write ---------------------------------------------------------------------------

    async def _merge(self) -> bool:
        """Take in what others have written; `Overtaken` if what this drive has not written yet cannot follow it."""
        stored = await self.store.read(self.lease.run)
        if len(stored.facts) < self.seq and stored.record.erased is None:
            raise StoreFailed(
                f"The store has {len(stored.facts)} facts of run {self.lease.run!r}, and {self.seq} were written: "
                "some are lost. See to the database, and go on with what is there."
            )
        tail = stored.facts[self.seq :]
        if not tail:
            return False
        self._see_that_nobody_drove(tail)
        self.merging = True
        try:
            ours = replay([*stored.facts, *self.unwritten]) if self.unwritten else None
            self.journal.append(tail)
        except (IllegalFact, UnreadableState) as error:
            raise Overtaken(f"Others have changed run {self.lease.run!r} meanwhile: {error}") from None
        finally:
            self.merging = False
        if ours is not None and _course(ours) != _course(self.journal.run):
            raise Overtaken(f"Others have changed the course of run {self.lease.run!r} meanwhile.")
        self.seq, self.joined = len(stored.facts), True
        self.merges += 1
        self.driver.watch()
        self._tell()
        return True

    def _see_that_nobody_drove(self, facts: list[AnyFact]) -> None:
        """Raise `LeaseLost` if one of these facts of others is a driver's: then another has, or had, the run."""
        if any(map(is_drivers, facts)):
            self.lease.lose()
            raise self._gone()

    async def again(self) -> None:
        """Begin again with what is stored, and with what happened here and is not stored: outcomes, tripwires."""
        await self.settle()
        stored = await self.store.read(self.lease.run)
        if self.unsure is None:
            self._see_that_nobody_drove(stored.facts[self.seq :])
        outcomes = [fact for fact in self.unwritten if _happened(fact)]
        self.journal.facts[:] = stored.facts
        self.journal.run = replay(stored.facts)
        self.seq, self.unwritten, self.unsure, self.projection = len(stored.facts), [], None, Projection()
        self.joined = self.failing = False
        for fact in outcomes:
            with suppress(IllegalFact):
                self.journal.add(fact)

    async def _bear_witness(self) -> None:
        """Keep the outcomes of this drive's bodies as evidence, which counts for nothing: the run is another's."""
        run = self.journal.run
        late = [
            f.Witnessed(fact.call, run.at(fact.path).calls[fact.call].attempt, fact.output, at=fact.at, path=fact.path)
            for fact in self.unwritten
            if type(fact) is f.Finished and fact.asked is None and run.at(fact.path).calls[fact.call].attempt
        ]
        self.unwritten.clear()
        if late:
            try:
                await self.store.witness(run.id, late)
            except Exception as error:
                log.warning("Results of run %s that came too late could not be kept: %s", run.id, error)


def _happened(fact: AnyFact) -> bool:
    """True if a fact says what came of a body that was to be entered, or what a guardrail has stopped."""
    if isinstance(fact, f.Guarded):
        return fact.tripped
    if isinstance(fact, f.Asked):
        return fact.kind == "input"
    return isinstance(fact, f.Finished | f.Stepped | f.HandedOff | f.Left | f.Closed)


def _course(run: Run) -> tuple[Any, ...]:
    """Return what determines what happens next; compared after a merge.

    Facts in another order may be as legal, and come to something else: a guardrail that looked before something was
    said has not seen it.
    """
    said = (run.said, run.watched, len(run.unheard), tuple(run.guards), run.armed)
    return (*said, owed(run), run.cancelled, run.closed, run.concluded, run.uses)


async def past(store: Store, run_id: str) -> list[Run]:
    """Return a run and those that it follows, the oldest first, back to the first that was purged or erased."""
    runs: list[Run] = []
    follows: str | None = run_id
    while follows is not None:
        try:
            stored = await store.read(follows)
        except RunNotFound:
            break
        if stored.record.erased is not None:
            break
        run = replay(stored.facts)
        runs.append(run)
        follows = run.began.follows if run.began is not None else None
    return runs[::-1]
