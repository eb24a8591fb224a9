"""The store writer: writes a run's journal to its store during a drive, and merges the facts that others wrote.

No body is entered before the facts that lead to it are stored. The facts that follow from a body are written in the
background, at most a moment later. So a turn costs at most two writes, however many calls it has, and a dead process
leaves each call not begun, done, or in doubt. The first write creates a new run, or acquires the lease of a stored run,
if nothing but a body or a new run's model call comes before it.

Others may write too: decisions, input, a cancellation. Then a write of this drive is refused. The facts of the others
are folded into the run, and the drive's facts are appended after them. If they cannot follow (the run was cancelled,
and a call was about to begin), the drive stops, and begins again with the stored facts.

If somebody has stopped the agent, the store refuses a write with a `Started`. The drive takes that fact back, so that
the call has not begun, ends, and writes the others when it is closed.

Every write carries the lease and goes through the table in `lease`: a drive that has lost its lease writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Iterable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec.json import Encoder
from msgspec.structs import replace

from ..core import facts as f
from ..core.codec import replay
from ..core.facts import AnyFact
from ..core.fold import fold
from ..core.rules import is_drivers
from ..core.run import UNDER_WAY, Run, owed
from ..core.snapshot import EMPTY, Chapter, Snapshot, is_due, mark, take_chapter
from ..errors import (
    AgentStopped,
    ContextMissing,
    GrantEnded,
    IllegalFact,
    LeaseLost,
    Overtaken,
    RunBusy,
    RunNotFound,
    StoreFailed,
    UnreadableState,
)
from ..store.projection import Projection, agents_behind
from ..store.record import Change, Question, SavedContext
from ..store.stop import stopped
from . import input_order, saved_context
from .journal import Journal, StoredPart
from .lease import HELD, LOST, REFUSED, RELEASED, RELEASING, Heartbeat, RunLease
from .scope import Scope
from .steps.guardrail import await_guardrails
from .view import View, all_said

if TYPE_CHECKING:
    from ..store.store import Store

log = logging.getLogger("assentry")
_encode = Encoder().encode

NO_CONTEXT = SavedContext()
TRIES = 20
"""The number of attempts for one write while others keep writing to the run."""


class WriterPhase(Enum):
    """The phase of a writer, besides the state of its lease."""

    OPEN = "facts are written in the background, and the lease is renewed"
    FAILED = "a write failed: none is begun in the background until the drive begins again"
    CLOSING = "the last facts are written: no more background writes, and no heartbeat, which nobody would stop"


class StoreWriter:
    """Writes one run to its store, for one drive."""

    def __init__(self, scope: Scope, store: Store, lease: RunLease, kept: StoredPart) -> None:
        self.store = store
        self.scope = scope
        self.journal: Journal = scope.journal
        self.lag = scope.config.write_lag
        self.lease = lease
        self.counts_uses = True
        self.was_stopped = False
        """True if a stop ended the last drive: then nothing is done for a call before the stops were looked at."""
        self.phase = WriterPhase.OPEN
        self.seq = kept.facts
        """The number of facts that the store has."""
        self.unwritten = self.journal.facts[kept.facts :]
        self.unsure: Change | None = None
        """A failed write that may have been stored all the same."""
        self.projection = Projection()
        """The changes that the unwritten facts make in the records."""
        self.sent: set[str] = set()
        """The fingerprints of the tools whose definitions this drive has stored."""
        self.saved = kept.context
        """The stored context, if known."""
        self.snapshot = kept.snapshot if self.seq else EMPTY
        """The newest snapshot that is stored, or the empty one; None if no further ones are taken."""
        self.marked: Snapshot | None = None
        """The numbers of the next snapshot, which is written when the run waits."""
        self.merging = False
        """True while facts of others are being appended to the journal."""
        self.merges = 0
        """The number of times that facts of others were merged since the drive began, or began again."""
        self.writing: asyncio.Task[bool] | None = None
        """The last write; there is at most one at a time."""
        self.soon: asyncio.TimerHandle | None = None
        """The timer of the next background write."""
        self.heartbeat: Heartbeat | None = None
        self.closing: asyncio.Task[None] | None = None
        self.news: asyncio.Future[None] | None = None
        """A future for a waiting drive, done when others have written something."""
        if self.unwritten:
            self._project()
        self.journal.listen(self._note_fact)
        self.journal.writer = self

    @property
    def joined(self) -> bool:
        """True if another writer changed the run during this drive."""
        return self.merges > 0

    def _note_fact(self, fact: AnyFact) -> None:
        if not self.merging:
            self.unwritten.append(fact)
            self.projection.note(self.journal.run, fact)
            if self.snapshot is not None and is_due(self.journal.run, self.snapshot):
                self.marked = mark(self.journal.run)
            if self.lag and type(fact) is f.Finished:
                self.kick()  # a hook that runs next may be slow

    async def check_stops(self, path: tuple[str, ...], call: str) -> None:
        """Raise `AgentStopped` if a stop ended the last drive, and one still holds for this call.

        The write of a `Started` looks at the stops in any case. Here guardrails and hooks have not run yet.
        """
        run = self.journal.run
        if self.was_stopped and run.began is not None:
            stop = await self.store.holding_stop(run.began.agent, *agents_behind(run, path, call))
            if stop is not None:
                raise stopped(stop, run.id)

    # -- the lease ---------------------------------------------------------------------------------

    def _can_wait(self) -> bool:
        """Return True if the lease can be acquired with a later write: the run is new, or owes nothing but bodies.

        A new run's model may be asked before that write. If two drives begin the same run, one fails at its first
        write.
        """
        if self.seq == 0 or self.lag == 0:
            return self.lag > 0
        known = self.lease.fence is not None
        return known and all(
            type(effect) is f.Execute and self.scope.state_of(effect).call.kind == "tool"
            for effect in owed(self.journal.run)
        )

    async def begin(self, *, now: bool = False) -> None:
        """Prepare the run for the drive, and read the runs that it follows.

        With `now`, the run is stored and the lease is held on return. Without, that happens later: before a body is
        entered, and before any model call except a new run's.
        """
        if not self.lease.acquired and self.lease.fence is None and self.seq:
            await asyncio.shield(self._begin(self._acquire))
        elif not self.lease.acquired and (now or not self._can_wait()):
            await asyncio.shield(self._begin_write())
        await read_past(self.journal, self.store)

    def stored_part(self) -> StoredPart:
        """Return the parts of the run that the store has."""
        lease, snapshot = self.lease, None if self.unwritten else self.snapshot
        return StoredPart(self.seq, lease.worker if lease.kept else None, lease.fence, self.saved, snapshot)

    @property
    def fence(self) -> int:
        """The fencing token of the lease that this drive holds, or acquires with its first write."""
        return self.lease.next_fence

    async def own(self, *, new: bool = False) -> None:
        """Acquire the lease, unless this drive holds it; with `new`, also for a run that is not stored yet."""
        if not self.lease.acquired and (new or self.seq):
            await self._write_now()

    async def _write_now(self) -> None:
        """Write all unwritten facts; if a write is under way, wait for that instead."""
        await asyncio.shield(self._under_way() or self._begin_write())

    def start(self) -> None:
        """Renew the lease from now on, until the writer is closed."""
        if self.lease.held is not None and self.heartbeat is None and self.phase is not WriterPhase.CLOSING:
            self.heartbeat = Heartbeat(self.lease.run, self.lease.hold, self.look, self._stop)

    async def _acquire(self) -> bool:
        """Acquire the lease by itself.

        If the outcome is unknown, ask once more: the store grants a worker the lease that it already holds.
        """
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
        """Renew the lease and merge the facts of others; raise `LeaseLost` if another worker has the run."""
        if not await self._renew():
            raise self._gone()
        await self.catch_up()

    async def catch_up(self) -> None:
        """Merge the facts that others have written, unless a write is under way, which merges by itself.

        A write that began during the read may be the source of the facts found.
        """
        if self._is_idle() and (await self.store.read(self.lease.run, self.seq)).facts and self._is_idle():
            await asyncio.shield(self._begin(self._merge))

    def _is_idle(self) -> bool:
        """Return True if the lease is held and no write is under way."""
        return self._under_way() is None and self.lease.state is HELD

    async def _renew(self) -> bool:
        """Renew the lease; return False if another worker has it.

        A lease that is being acquired or released is not renewed.
        """
        held = self.lease.held
        if held is None or not self.lease.may("renew"):
            return True
        kept = await self.store.renew([held], hold=self.lease.hold)
        return bool(kept) or self.lease.held is not held or not self.lease.may("renew")

    def check(self) -> None:
        """Raise `LeaseLost` if this drive is known to have lost the run."""
        self.lease.check("begin")

    async def holds(self) -> bool:
        """Ask the store, and return True if this drive still holds the lease; `StoreFailed` if the store is away."""
        if self.lease.state is HELD and not await self._renew():
            self._stop(self._gone())
        return self.lease.state is HELD

    def _gone(self) -> LeaseLost:
        return LeaseLost(f"Run {self.lease.run!r} was taken over by another worker.")

    def _stop(self, error: Exception) -> None:
        if isinstance(error, LeaseLost):
            self.lease.lose()
        if self.phase is WriterPhase.OPEN:
            self.phase = WriterPhase.FAILED
        self.scope.tasks.fail((), error)
        self._tell()

    def hear(self) -> asyncio.Future[None]:
        """Return a future that is done when others have written something, or when this drive cannot write any more."""
        if self.news is None or self.news.done():
            self.news = asyncio.get_running_loop().create_future()
        return self.news

    def _tell(self) -> None:
        if self.news is not None and not self.news.done():
            self.news.set_result(None)

    # -- writing -----------------------------------------------------------------------------------

    def kick(self) -> None:
        """Start a background write soon, and return; facts recorded until then are written with it."""
        if self.soon is None and self._may_write_soon():
            if self.lag:
                self.soon = asyncio.get_running_loop().call_later(self.lag, self._write_soon)
            else:
                self._write_soon()

    def _may_write_soon(self) -> bool:
        return bool(self.unwritten) and self.phase is WriterPhase.OPEN and self.lease.active

    def _write_soon(self) -> None:
        self.soon = None
        if self._under_way() is None:
            if self._may_write_soon():
                self._begin_write()
        elif self.lag:
            self.kick()

    async def flush(self) -> None:
        """Wait until all facts that are in the journal now are stored and the lease is held."""
        wanted = self.unwritten[-1] if self.unwritten else None
        while wanted is not None and any(fact is wanted for fact in reversed(self.unwritten)):
            self.lease.check("write")
            await self._write_now()

    async def finish(self) -> bool:
        """Write the last facts and release the lease; return False if others wrote something to continue with."""
        merges = self.merges
        await self.settle()
        self.lease.check("release")
        if self.merges != merges:
            return False
        return await asyncio.shield(self._begin_write(release=True))

    async def close(self, *, release: bool = True) -> None:
        """Stop: if this drive still has the run, write what can be written, and release the lease if `release` is True.

        This runs to its end even if the caller is cancelled again; otherwise the lease would stay held by nobody.
        """
        if self.closing is None or self.closing.done():
            if self._is_settled(release):
                self._close_now()
                return
            self.closing = asyncio.create_task(self._close(release))
        await asyncio.shield(self.closing)

    def _is_settled(self, release: bool) -> bool:
        """Return True if closing has nothing to write and nothing to wait for."""
        renews = self.heartbeat is not None and self.heartbeat.renews
        return not (renews or self._under_way() or self._has_more(release) or self.lease.state is LOST)

    def _close_now(self) -> None:
        """Stop the timers: there is nothing to write and nothing to wait for."""
        self.phase = WriterPhase.CLOSING
        if self.soon is not None:
            self.soon.cancel()
        if self.heartbeat is not None:
            self.heartbeat.cancel()
            self.heartbeat = None

    async def _close(self, release: bool) -> None:
        self.phase = WriterPhase.CLOSING
        if self.soon is not None:
            self.soon.cancel()
        await self.settle()
        if self.heartbeat is not None:
            await self.heartbeat.end()
            self.heartbeat = None
            await self.settle()
        if self._has_more(release):
            try:
                await self._write_last(release)
            except Exception as error:
                log.warning("What run %s did last could not be written: %s", self.lease.run, error)
        if self.lease.state is LOST:
            await self._bear_witness()

    def _has_more(self, release: bool) -> bool:
        """Return True if a last write is needed: for facts that are not stored, or to release the lease."""
        if self.lease.state in (LOST, REFUSED):
            return False
        return bool(self.unwritten) or self.unsure is not None or (release and self.lease.state is HELD)

    async def _write_last(self, release: bool) -> None:
        """Write the facts that can follow those of others, and release the lease with them.

        Facts that cannot be written stay in the state, and the lease stays held until it expires.
        """
        for _ in range(TRIES):
            if self.lease.state is RELEASED:
                self.lease.step("reopen")
            try:
                stored = await asyncio.shield(self._begin_write(release or self.lease.state is RELEASING))
            except Overtaken:
                if self.lease.state is not HELD:
                    raise
                await self.again()
                continue
            except AgentStopped:
                continue  # without the calls that have not begun
            if stored and not self.unwritten:
                return
        raise Overtaken("It is written to faster than it can be released.")

    def _under_way(self) -> asyncio.Task[bool] | None:
        """Return the write under way, if there is one."""
        return self.writing if self.writing is not None and not self.writing.done() else None

    async def settle(self) -> None:
        """Wait for a write under way, however it ends."""
        while (writing := self._under_way()) is not None:
            await asyncio.wait([writing])

    def _begin_write(self, release: bool = False) -> asyncio.Task[bool]:
        """Begin to write the unwritten facts. The lease changes its state here, before anything else can begin."""
        self.lease.step("release" if release else "write")
        return self._begin(lambda: self._write(release))

    def _begin(self, work: Callable[[], Coroutine[Any, Any, bool]]) -> asyncio.Task[bool]:
        """Begin a write, a merge or an acquisition, in its own task; there is at most one at a time.

        Wait for it with `shield`, so that cancelling the caller does not cut the work in two.
        """
        assert self._under_way() is None
        self.writing = task = asyncio.create_task(self._run_write(work))
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the drive has heard of it
        return task

    async def _run_write(self, work: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        """Do the work. If it fails, the drive stops, and a release that was not stored is given up."""
        try:
            return await work()
        except BaseException as error:
            if self.unsure is None:
                self.lease.give_up_release()
            if isinstance(error, Exception):
                self._stop(error)
            raise

    async def _write(self, release: bool) -> bool:
        """Write the unwritten facts. With `release`, return False if others wrote something; the lease is then kept."""
        lease = self.lease
        for _ in range(TRIES):
            await self._make_sure()
            if lease.state is RELEASED:  # the earlier write was stored after all
                return True
            change, spoiled = self._change(release)
            try:
                await self._append(change)
            except GrantEnded:
                self._project()
                raise  # the drive begins again with the stored facts, and the call is judged again
            except Overtaken:
                self._project()
                if lease.held is None:
                    await self._acquire_first()
                    continue
                await self._merge()
                if release:
                    lease.give_up_release()
                    return False  # the run may have something to do
                continue
            except AgentStopped:
                self._withdraw_starts()
                raise
            except BaseException as error:
                self._project()
                if lease.held is None and isinstance(error, RunBusy | LeaseLost):
                    lease.lose()
                raise
            self._wrote(change)
            self.start()
            if spoiled is not None:
                raise spoiled
            return True
        raise Overtaken(f"Run {lease.run!r} is written to faster than it can be driven.")

    def _wrote(self, change: Change) -> None:
        if self.lease.held is None and change.lease is not None:
            self.lease.acquire(change.lease)
        self.seq += len(change.facts)
        del self.unwritten[: len(change.facts)]
        self.sent |= change.definitions.keys()
        self.saved = change.context or self.saved
        if change.chapter is not None and self.snapshot is not None:
            self.snapshot, self.marked = change.chapter.snapshot, None
        if change.release:
            self.lease.released()

    def _withdraw_starts(self) -> None:
        """Take back the beginnings of calls that are not stored, and what follows from these; keep the other facts."""
        unwritten = {id(fact) for fact in self.unwritten}
        kept = [fact for fact in self.journal.facts if id(fact) not in unwritten]
        run, left = replay(kept) if kept else Run(), list[AnyFact]()
        for fact in self.unwritten:
            if type(fact) is not f.Started:
                with suppress(IllegalFact):
                    fold(run, fact)
                    left.append(fact)
        self.journal.facts[:], self.journal.run = [*kept, *left], run
        self.unwritten, self.marked = left, None
        self._project()

    async def _make_sure(self) -> None:
        """Find out if the last write, whose outcome is unknown, was stored. It may have released the lease."""
        if self.unsure is not None and await self._is_there(self.unsure):
            self._wrote(self.unsure)
            self._project()
        self.unsure = None

    async def _acquire_first(self) -> None:
        """Acquire the lease of a run that others held since it was read; the store refuses if they wrote to the run."""
        if self.seq == 0:
            self.lease.lose()
            raise Overtaken(f"There is a run {self.lease.run!r} already; load it.")
        await self._acquire()

    def _change(self, release: bool) -> tuple[Change, ContextMissing | None]:
        """Return the change that writes the unwritten facts, and the error if the context cannot be saved with it."""
        run, facts, lease, spoiled = self.journal.run, list(self.unwritten), self.lease, None
        change = self.projection.change(run, self.seq, facts, self.store.clock())
        change.lease, change.hold, change.release = lease.offered(), lease.hold, release
        change.take = lease.held is None and self.seq > 0
        if change.asked:
            change.definitions = offered_tools(self.scope, change.asked, self.sent)
        waits = change.asked or (release and change.record.status in UNDER_WAY)
        if facts and waits and self.marked is not None:
            change.chapter = self._chapter(self.marked)
        if self.seq == 0 or release:
            try:
                change.context = self._context()
            except ContextMissing as error:
                if self.seq == 0:
                    raise
                spoiled = error  # the facts are written all the same
        return change, spoiled

    def _chapter(self, marked: Snapshot) -> Chapter | None:
        """Return the snapshot to write before the run waits: whoever decides, and the next drive, go on from it."""
        before = self.snapshot
        if before is None:
            return None
        chapter = take_chapter(self.journal.run, self.journal.facts[before.seq : marked.seq], marked, before)
        if chapter is None:
            self.snapshot = self.marked = None
        return chapter

    def _context(self) -> SavedContext | None:
        if self.saved is not None and self.saved.kind == saved_context.LEFT_OUT:
            return None  # the user was warned
        context, now = self.scope.ctx.context, NO_CONTEXT
        if context is not None:
            json, kind = saved_context.save_context(context, self.scope.config.context_serializer, False)
            now = SavedContext(bytes(json) if json else None, kind)
        return now if now != self.saved else None

    def _project(self) -> None:
        """Collect anew the changes that the unwritten facts make in the records."""
        written = {id(fact) for fact in self.unwritten}
        base = [fact for fact in self.journal.facts if id(fact) not in written]
        run = replay(base) if base else Run()
        self.projection = Projection()
        for fact in self.unwritten:
            fold(run, fact)
            self.projection.note(run, fact)

    async def _append(self, change: Change) -> None:
        """Append the change; if the outcome is unknown, find out and retry."""
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
        """Append once more. The first attempt may have been stored since we looked, and then overtakes this one."""
        try:
            await self.store.append(change)
        except (Overtaken, LeaseLost):  # the first attempt may have released the lease
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
            return False  # another drive may have written equal facts: after two approvals at once, both begin the call
        if not change.facts:  # the change only acquires or releases the lease
            return lease is not None and (stored.fence == lease.fence if change.take else worker != lease.worker)
        return [_encode(fact) for fact in found] == [_encode(fact) for fact in change.facts]

    # -- merging the facts of others -----------------------------------------------------------------

    async def _merge(self) -> bool:
        """Merge the facts that others wrote; raise `Overtaken` if this drive's unwritten facts cannot follow them."""
        stored = await self.store.read(self.lease.run)
        if len(stored.facts) < self.seq and stored.record.erased is None:
            raise StoreFailed(
                f"The store has {len(stored.facts)} facts of run {self.lease.run!r}, and {self.seq} were written: "
                "some are lost. See to the database, and go on with what is there."
            )
        tail = stored.facts[self.seq :]
        if not tail:
            return False
        self._check_nobody_drove(tail)
        self.merging = True
        if self.unwritten:  # the journal here has another order than the stored one from now on
            self.snapshot = self.marked = None
        try:
            ours = replay([*stored.facts, *self.unwritten]) if self.unwritten else None
            self.journal.append(tail)
        except (IllegalFact, UnreadableState) as error:
            raise Overtaken(f"Others have changed run {self.lease.run!r} meanwhile: {error}") from None
        finally:
            self.merging = False
        if ours is not None and _course(ours) != _course(self.journal.run):
            raise Overtaken(f"Others have changed the course of run {self.lease.run!r} meanwhile.")
        self.seq = len(stored.facts)
        self.merges += 1
        await_guardrails(self.scope)
        self._tell()
        return True

    def _check_nobody_drove(self, facts: list[AnyFact]) -> None:
        """Raise `LeaseLost` if one of these facts of others is a driver's: then another drive has, or had, the run."""
        if any(map(is_drivers, facts)):
            self.lease.lose()
            raise self._gone()

    async def again(self) -> None:
        """Begin again with the stored facts, and with the outcomes and tripwires of this drive that are not stored."""
        await self.settle()
        stored = await self.store.read(self.lease.run)
        if self.unsure is None:
            self._check_nobody_drove(stored.facts[self.seq :])
        live, said = self.journal.run.live, all_said(self.journal.run)
        outcomes = [fact for fact in self.unwritten if _happened(fact) or (live and _spoken(fact))]
        self.journal.facts[:] = stored.facts
        self.journal.run = replay(stored.facts)
        self.seq, self.unwritten, self.unsure, self.projection = len(stored.facts), [], None, Projection()
        self.marked = None
        self.merges = 0
        if self.phase is WriterPhase.FAILED:
            self.phase = WriterPhase.OPEN
        for fact in outcomes:
            with suppress(IllegalFact):
                self.journal.add(self._reorder(fact, said))

    def _reorder(self, fact: AnyFact, said: list[f.Said]) -> AnyFact:
        """Return a reply that was not made with the inputs which others have stored before those that it answers.

        `said` has the inputs in the order in which the reply counts them. A reply can only say how many of the first
        inputs it has seen. So it may leave out one that it has seen, but never counts one that it has not.
        """
        run = self.journal.run
        if type(fact) is not f.Replied or fact.saw is None:
            return fact
        saw = max(run.said - len(run.unheard), input_order.seen(said, fact.saw, all_said(run)))
        return fact if saw == fact.saw else replace(fact, saw=saw)

    async def _bear_witness(self) -> None:
        """Store the outcomes of this drive's bodies as evidence only: another worker has the run."""
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


def offered_tools(scope: Scope, asked: Iterable[Question | f.Asked], sent: Container[str] = ()) -> dict[str, bytes]:
    """Return the tool definitions, as offered, of the agents that ask; the person who decides needs them.

    Those whose fingerprints are in `sent` are left out.
    """
    out: dict[str, bytes] = {}
    for question in asked:
        state = scope.run_at(question.path).calls[question.call]
        placed = scope.graph.of(state)
        for tool in (*placed.tools.values(), placed.final, placed.tool_of(state)):
            if tool is not None and tool.fingerprint not in sent:
                out[tool.fingerprint] = tool.frozen()
    return out


SPOKEN = (f.Said, f.Replied, f.Defined, f.Switched)
"""The facts of a live conversation, which cannot be made again."""


def _spoken(fact: AnyFact) -> bool:
    return not fact.path and isinstance(fact, SPOKEN)


def _happened(fact: AnyFact) -> bool:
    """Return True if a fact records what came of a body, or what a guardrail stopped."""
    if isinstance(fact, f.Guarded):
        return fact.tripped
    if isinstance(fact, f.Asked):
        return fact.kind == "input"
    return isinstance(fact, f.Finished | f.Stepped | f.HandedOff | f.Left | f.Closed)


def _course(run: Run) -> tuple[Any, ...]:
    """Return the values that determine what happens next; compared after a merge.

    Facts in another order may be legal too, and lead elsewhere: a guardrail that ran before an input has not seen it,
    and a reply has not answered it.
    """
    unheard = sorted(map(input_order.input_key, run.unheard))
    said = (run.said, run.watched, unheard, tuple(run.guards), run.armed)
    return (*said, owed(run), run.cancelled, run.closed, run.concluded, run.uses)


async def read_past(journal: Journal, store: Store) -> None:
    """Read the runs that a journal's run follows, and their conversation."""
    began = journal.run.began
    if began is not None and began.follows is not None:
        journal.before = await past(store, began.follows)
        journal.past = [item for run in journal.before for item in View(run, None, {}).input_list()]


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
