"""The keeper: writes a run's journal to its store as the run goes, and learns what others have written.

Nothing enters a body before the facts that lead there are in the store. What follows from a body is written while the
run goes on, after a moment at the latest. So a turn costs two writes at most, however many calls it has, and a dead
process leaves nothing that nobody knows of: a call is not begun, or done, or in doubt. A run is made, or taken, with
the first of these writes, where nothing but a body or a new run's model comes before it.

Others may write too: decisions, input, a cancellation. Then a write of ours is refused; what they wrote is folded into
the run, and ours follows it. If it cannot follow (the run was cancelled, and we were about to begin a call), the drive
stops, and begins again with what is in the store.
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
from ..store.record import Change, Lease, SavedContext
from . import saved_context
from .journal import Journal
from .view import View

if TYPE_CHECKING:
    from ..store.store import Store
    from .driver import Driver
    from .state import Kept

log = logging.getLogger("assent")
_encode = Encoder().encode

TRIES = 20
"""How often one write is tried while others keep writing to the run."""


class Keeper:
    """One run and its store, for one drive."""

    def __init__(self, driver: Driver, store: Store, worker: str, hold: float, lease: Lease | None, kept: Kept) -> None:
        self.store = store
        self.driver = driver
        self.journal: Journal = driver.journal
        self.worker = worker
        self.hold = hold
        self.lag = driver.config.write_lag
        self.lease = lease
        self.taken = lease is not None
        """Whether the run has been ours in this drive; if not, the first write takes it."""
        self.refused = False
        """Whether it could not be: it is another's, or others have written to it."""
        self.fence = kept.fence if lease is None else lease.fence
        """The fence of the run's newest lease, as far as it is known."""
        self.seq = kept.facts
        """How many facts the store has."""
        self.unwritten: list[AnyFact] = []
        self.unsure: Change | None = None
        """A write that has failed, and of which it could not be found out whether it came to pass."""
        self.projection = kept.noted or Projection()
        self.sent: set[str] = set()
        """The tools whose definitions the store has from us."""
        self.saved = kept.context
        """The context as it is stored, if that is known."""
        self.spoiled: ContextMissing | None = None
        """Why the context, as bodies have left it, could not be written with what they came to."""
        self.merging = False
        self.merges = 0
        """How often others were found to have written something."""
        self.ending = False
        """Whether the next write is to give the run back."""
        self.joined = False
        """Whether others have written something that a drive which is under way may not have reckoned with."""
        self.writing: asyncio.Task[None] | None = None
        self.soon: asyncio.TimerHandle | None = None
        """Has what there is written."""
        self.timer: asyncio.TimerHandle | None = None
        self.beating: asyncio.Task[None] | None = None
        """Keeps the lease, for a drive that takes its time."""
        self.closing: asyncio.Task[None] | None = None
        self.news: asyncio.Future[None] | None = None
        """Done when others have written something; for a drive that waits."""
        self.lost = False
        self.failing = False
        """Whether a write has failed: none is begun by the way until the drive begins again, or ends."""
        self.unwritten += self._recent(kept.facts, kept.noted is not None)
        self.journal.listen(self._heard)
        self.journal.flush = self.flush

    def _recent(self, known: int, noted: bool) -> list[AnyFact]:
        """What was decided on a state in somebody's hands, and the store does not have yet."""
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
                self.kick()  # whatever comes next, such as a hook, may take its time

    # -- the lease ---------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether something must be read or written before the run is driven."""
        began = self.journal.run.began
        return (began is not None and began.follows is not None) or not (self.taken or self._can_wait())

    def _can_wait(self) -> bool:
        """Whether the run can be taken with a later write: it is new, or owes nothing but bodies, which wait for one.

        A new run's model may be asked before. Of two who begin the same run one is told so at the first write.
        """
        if self.seq == 0 or self.lag == 0:
            return self.lag > 0
        todo = owed(self.journal.run) if self.fence is not None else ()
        return self.fence is not None and all(
            type(effect) is f.Execute and self.driver.state_of(effect).call.kind == "tool" for effect in todo
        )

    async def begin(self, *, now: bool = False) -> None:
        """Take the run up, with what it follows. With `now` it is in the store, and ours, when this returns; without,
        it is so before a body is entered, and before any model is asked but a new run's."""
        if not self.taken and self.fence is None and self.seq:
            await self._done(self._take_now())
        elif not self.taken and (now or not self._can_wait()):
            await self._done(self._write())
        began = self.journal.run.began
        if began is not None and began.follows is not None:
            self.driver.before = await past(self.store, began.follows)
            self.driver.past = [item for run in self.driver.before for item in View(run, None, {}).input_list()]

    async def take(self) -> None:
        """Have the run, with what is not written yet."""
        await (self._done(self._write()) if self.writing is None else asyncio.shield(self.writing))

    def start(self) -> None:
        """See that the lease holds as long as the drive takes."""
        if self.timer is None and self.lease is not None:
            self.timer = asyncio.get_running_loop().call_later(self.hold / 3, self._wake)

    def _take_over(self, lease: Lease) -> None:
        self.lease, self.fence, self.taken = lease, lease.fence, True

    def _wake(self) -> None:
        self.beating = asyncio.create_task(self._beat())

    async def _take_now(self) -> None:
        self._take_over(await self._take())

    async def _take(self) -> Lease:
        """The lease. If it is not known whether it was given, ask again: its own worker may have it twice."""
        run = self.journal.run.id
        for tries in (1, 2):
            try:
                return await self.store.take(run, self.worker, seq=self.seq, hold=self.hold)
            except (RunBusy, Overtaken):
                self.refused = True
                raise
            except StoreFailed as error:
                if not error.unknown or tries == 2:
                    raise
        raise AssertionError

    async def _beat(self) -> None:
        """Keep the lease, and look whether others have written something."""
        while True:
            try:
                await self.look()
            except StoreFailed as error:
                log.warning("The lease of run %s could not be renewed: %s", self.journal.run.id, error)
            except Overtaken:
                pass  # the drive was told, and may begin again: it needs the lease
            except Exception as error:
                self._stop(error)
                return
            await asyncio.sleep(self.hold / 3)

    async def look(self) -> None:
        """Renew the lease and take in what others have written; `LeaseLost` if the run is not ours any more."""
        if self.lease is None:
            return  # it is being taken, or given back
        if not await self.store.renew([self.lease], hold=self.hold):
            raise LeaseLost(f"Run {self.journal.run.id!r} was taken over by another worker.")
        if self.writing is not None:
            return  # it finds out by itself
        found = (await self.store.read(self.journal.run.id, self.seq)).facts
        if found and self.writing is None:  # what was begun meanwhile may be what was found
            await self._done(self._merge())

    def _stop(self, error: Exception) -> None:
        self.lost, self.failing = self.lost or isinstance(error, LeaseLost), True
        self.driver.fail((), error)
        self._tell()

    def hear(self) -> asyncio.Future[None]:
        """Done when others have written something, or the run cannot be written any more."""
        if self.news is None or self.news.done():
            self.news = asyncio.get_running_loop().create_future()
        return self.news

    def _tell(self) -> None:
        if self.news is not None and not self.news.done():
            self.news.set_result(None)

    # -- writing -----------------------------------------------------------------------------------

    def kick(self) -> None:
        """Have what there is written soon, and go on. What comes to be until then is written with it."""
        if self.unwritten and self.soon is None and not self.failing:
            if self.lag:
                self.soon = asyncio.get_running_loop().call_later(self.lag, self._write_soon)
            else:
                self._write_soon()

    def _write_soon(self) -> None:
        self.soon = None
        if self.writing is not None and self.lag:
            self.kick()
        elif self.writing is None and self.unwritten and not self.failing:
            with suppress(Exception):  # the drive was told
                self._begin(self._write())

    async def flush(self) -> None:
        """What is in the journal now is in the store when this returns."""
        wanted = self.unwritten[-1] if self.unwritten else None
        while wanted is not None and any(fact is wanted for fact in reversed(self.unwritten)):
            if self.lost:
                raise LeaseLost(f"Run {self.journal.run.id!r} was taken over by another worker.")
            await (self._done(self._write()) if self.writing is None else asyncio.shield(self.writing))

    async def save(self) -> None:
        """Write what is left; what cannot follow what others have written is left out, and what happened is not."""
        try:
            await self.flush()
        except Overtaken:
            await self.again()
            await self.flush()

    async def finish(self) -> bool:
        """Write what is left and give the run back; False if others have written something to go on with."""
        merges, self.ending = self.merges, True
        try:
            await self.settle()  # one that has not begun gives the run back, too
            if self.lost:
                raise LeaseLost(f"Run {self.journal.run.id!r} was taken over by another worker.")
            if (self.lease is not None or not self.taken) and self.merges == merges:
                await self._done(self._write())
        finally:
            self.ending = False
        return self.lease is None

    async def close(self) -> None:
        """Stop, and if the run is still ours write what can be written and give it back.

        That is done to its end even if whoever waits is cancelled once more: or the lease would be kept for nobody.
        """
        if self.closing is None:
            left = begun(self._close()) if self.store.immediate else self._close()
            if left is None:
                return
            self.closing = asyncio.create_task(left)
            self.closing.add_done_callback(self._closed)
        await asyncio.shield(self.closing)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self.closing = None

    async def _close(self) -> None:
        await self.settle()  # it may have taken the run, and so have begun to keep the lease
        for timer in (self.timer, self.soon):
            if timer is not None:
                timer.cancel()
        if self.beating is not None:
            self.beating.cancel()
            with suppress(asyncio.CancelledError):
                await self.beating
            await self.settle()
        ours = self.lease is not None or (not self.taken and bool(self.unwritten)) or self.unsure is not None
        if ours and not self.lost and not self.refused:
            try:
                await self._write_last()
            except Exception as error:
                log.warning("What run %s did last could not be written: %s", self.journal.run.id, error)
        if self.soon is not None:
            self.soon.cancel()
        if self.lost:
            await self._bear_witness()

    async def _write_last(self) -> None:
        """Write what can follow what others have written, and give the run back with it.

        What cannot be written is left to whoever has the state, and so is the lease, until it runs out.
        """
        for _ in range(TRIES):
            try:
                await self._done(self._write(release=True))
            except Overtaken:
                if self.refused:
                    raise
                await self.again()
            if self.lease is None:
                return
        raise Overtaken("It is written to faster than it can be given back.")

    async def settle(self) -> None:
        """Wait for a write that is under way, however it ends."""
        while self.writing is not None:
            await asyncio.wait([self.writing])

    async def _done(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for a write, which is done to its end even if whoever waits is not there any more."""
        task = self._begin(work)
        if task is not None:
            await asyncio.shield(task)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Begin a write; there is one at a time. One that has to wait has a task of its own: whoever waits for it may
        be cancelled, and it may not be cut in two. None if it is done already."""
        assert self.writing is None
        written = self._written(work)
        left = begun(written) if self.store.immediate else written
        if left is None:
            return None
        task = asyncio.create_task(left)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits for it is told
        if not task.done():  # a loop may have done it at once
            self.writing = task
        return task

    async def _written(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._stop(error)
            raise
        finally:
            self.writing = None

    async def _write(self, release: bool = False) -> None:
        for _ in range(TRIES):
            await self._make_sure()
            release = release or self.ending
            change = self._change(release)
            try:
                await self._append(change)
            except Overtaken:
                self._put_back()
                if not self.taken:
                    await self._take_first()
                    continue
                await self._merge()
                if release:
                    return  # there may be something to do
                continue
            except Exception as error:
                self._put_back()
                self.refused = self.refused or (not self.taken and isinstance(error, RunBusy | LeaseLost))
                raise
            self._wrote(change)
            self.start()
            self._tell_of_context()
            return
        raise Overtaken(f"Run {self.journal.run.id!r} is written to faster than it can be driven.")

    def _wrote(self, change: Change) -> None:
        if change.lease is not None and not self.taken:
            self._take_over(change.lease)
        self.seq += len(change.facts)
        del self.unwritten[: len(change.facts)]
        self.sent |= change.definitions.keys()
        self.saved = change.context or self.saved
        if change.release:
            self.lease = None

    def _tell_of_context(self) -> None:
        spoiled, self.spoiled = self.spoiled, None
        if spoiled is not None:
            raise spoiled

    async def _make_sure(self) -> None:
        """Find out what became of the write before, if that is not known. It may have given the run back."""
        if self.unsure is not None and await self._is_there(self.unsure):
            self._wrote(self.unsure)
            self._put_back()
            self.taken = self.lease is not None
        self.unsure = None

    async def _take_first(self) -> None:
        """Take a run that could not be taken with a write: others have had it, or written to it. Then it is refused."""
        if self.seq == 0:
            self.refused = True
            raise Overtaken(f"There is a run {self.journal.run.id!r} already; load it.")
        await self._take_now()

    def _change(self, release: bool) -> Change:
        run, facts = self.journal.run, list(self.unwritten)
        change = self.projection.change(run, self.seq, facts, self.store.clock())
        change.lease, change.hold, change.release = self.lease, self.hold, release
        if not self.taken:
            change.lease, change.take = Lease(run.id, self.worker, (self.fence or 0) + 1), self.seq > 0
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
        """The tools of the agents that ask, as they were offered, for whoever decides."""
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
        """What was not written is still to be: gather anew what it changes."""
        written = {id(fact) for fact in self.unwritten}
        base = [fact for fact in self.journal.facts if id(fact) not in written]
        run = replay(base) if base else type(self.journal.run)()
        self.projection = Projection()
        for fact in self.unwritten:
            fold(run, fact)
            self.projection.note(run, fact)

    async def _append(self, change: Change) -> None:
        """Append; where it is not known whether that came to pass, look."""
        try:
            await self.store.append(change)
        except StoreFailed as error:
            if not error.unknown:
                raise
            self.unsure = change
            if not await self._is_there(change):
                await self._append_again(change)
            self.unsure = None

    async def _append_again(self, change: Change) -> None:
        """What was not there when we looked may still have been on its way; then it is what overtakes us."""
        try:
            await self.store.append(change)
        except (Overtaken, LeaseLost):  # it may have given the lease back
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
        if not change.facts:  # it takes the lease, or gives it back
            return lease is not None and (stored.fence == lease.fence if change.take else worker != lease.worker)
        return [_encode(fact) for fact in found] == [_encode(fact) for fact in change.facts]

    # -- what others write ---------------------------------------------------------------------------

    async def _merge(self) -> None:
        """Take in what others have written; `Overtaken` if what we have not written yet cannot follow it."""
        stored = await self.store.read(self.journal.run.id)
        if len(stored.facts) < self.seq and stored.record.erased is None:
            raise StoreFailed(
                f"The store has {len(stored.facts)} facts of run {self.journal.run.id!r}, and {self.seq} were written: "
                "some are lost. See to the database, and go on with what is there."
            )
        tail = stored.facts[self.seq :]
        if not tail:
            return
        self.merging = True
        try:
            ours = replay([*stored.facts, *self.unwritten]) if self.unwritten else None
            self.journal.append(tail)
        except (IllegalFact, UnreadableState) as error:
            raise Overtaken(f"Others have changed run {self.journal.run.id!r} meanwhile: {error}") from None
        finally:
            self.merging = False
        if ours is not None and _course(ours) != _course(self.journal.run):
            raise Overtaken(f"Others have changed the course of run {self.journal.run.id!r} meanwhile.")
        self.seq, self.joined = len(stored.facts), True
        self.merges += 1
        self.driver.watch()
        self._tell()

    async def again(self) -> None:
        """Begin again with what is in the store, but for what bodies came to, and what a guardrail stopped: that
        happened."""
        await self.settle()
        stored = await self.store.read(self.journal.run.id)
        outcomes = [fact for fact in self.unwritten if _happened(fact)]
        self.journal.facts[:] = stored.facts
        self.journal.run = replay(stored.facts)
        self.seq, self.unwritten, self.unsure, self.projection = len(stored.facts), [], None, Projection()
        self.joined = self.failing = False
        for fact in outcomes:
            with suppress(IllegalFact):
                self.journal.add(fact)

    async def _bear_witness(self) -> None:
        """The run is another's. What our bodies came to is kept as evidence, and counts for nothing."""
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
    """Whether a fact says what came of a body that was to be entered, or what a guardrail has stopped."""
    if isinstance(fact, f.Guarded):
        return fact.tripped
    if isinstance(fact, f.Asked):
        return fact.kind == "input"
    return isinstance(fact, f.Finished | f.Stepped | f.HandedOff | f.Left | f.Closed)


def _course(run: Run) -> tuple[Any, ...]:
    """Where a run goes from here. Facts in another order may be as legal, and come to something else: a guardrail
    that looked before something was said has not seen it."""
    said = (run.said, run.watched, len(run.unheard), tuple(run.guards), run.armed)
    return (*said, owed(run), run.cancelled, run.closed, run.concluded, run.uses)


async def past(store: Store, run_id: str) -> list[Run]:
    """A run and those that it follows, the oldest first. What was purged or erased is not known any more, nor is what
    came before it."""
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
