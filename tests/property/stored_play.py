"""Plays whose run lives in a store: several processes, of which any may die at any write, and others who interfere.

A process has a door of its own to the store. When it dies, all that it tries from then on is refused, and what its
bodies do is not done: as if it were not there. What others do comes before or after a write that was drawn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from assentry import MaxTurnsExceeded, RunConfig, Runner, RunState
from assentry.core import facts as f
from assentry.errors import (
    AlreadyDecided,
    LeaseLost,
    ModelFailed,
    NotPending,
    Overtaken,
    RunBusy,
    RunNotFound,
    TripwireTriggered,
)
from assentry.runtime.state import state_of
from assentry.store import Change, Entry, Filter, Lease, Page, Question, Store, Stored
from assentry.testing import FakeClock
from tests.property.play import COUNTS, Ending, Play
from tests.property.world import Boom, Memory, World
from tests.runtime.support import UNRENEWED

LEASE = UNRENEWED.lease
Deed = Callable[["Door", Change], Awaitable[None]]

T = TypeVar("T")


class Died(BaseException):
    """The process is dead."""


class Door(Store):
    """One process's way to a store that others use too."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.writes = 0
        self.dead = False
        self.taken = False
        """Whether another process has taken the run over."""
        self.before: dict[int, Deed] = {}
        """What happens right before the n-th write,"""
        self.after: dict[int, Deed] = {}
        """and right after it."""

    async def die(self, change: Change | None = None) -> None:
        """Be dead from now on."""
        self.dead = True
        raise Died

    def _live(self) -> None:
        if self.dead:
            raise Died

    def clock(self) -> float:
        return self.store.clock()

    async def append(self, change: Change) -> None:
        self._live()
        self.writes += 1
        number = self.writes
        if number in self.before:
            await self.before[number](self, change)
        self._live()
        await self.store.append(change)
        if number in self.after:
            await self.after[number](self, change)
        self._live()

    async def read(self, run_id: str, after: int = 0) -> Stored:
        self._live()
        return await self.store.read(run_id, after)

    async def define(self, definitions: Mapping[str, bytes]) -> None:
        raise NotImplementedError

    async def newest(self, thread: str) -> Stored | None:
        raise NotImplementedError

    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        self._live()
        return await self.store.take(run_id, worker, seq=seq, hold=hold)

    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        self._live()
        return await self.store.renew(leases, hold=hold)

    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        self._live()
        await self.store.release(lease, again_in=again_in, error=error, seq=seq)

    async def question(self, question_id: str) -> Question:
        self._live()
        return await self.store.question(question_id)

    async def page(self, filter: Filter[T]) -> Page[T]:
        self._live()
        return await self.store.page(filter)

    async def definition(self, fingerprint: str) -> bytes | None:
        self._live()
        return await self.store.definition(fingerprint)

    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        raise NotImplementedError

    async def wait(self, timeout: float) -> None:
        raise NotImplementedError

    async def lines(self, run_id: str) -> list[Entry]:
        raise NotImplementedError

    async def erase(self, run_id: str) -> None:
        raise NotImplementedError

    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ()) -> int:
        raise NotImplementedError

    async def rebuild(self) -> int:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Lasting(list[Any]):
    """What was done outside; a process that is dead does nothing more."""

    door: Door | None = None

    def append(self, each: Any) -> None:
        if self.door is None or not self.door.dead:
            super().append(each)


class Rewinding(Memory):
    """A session that goes back with a run that took another course, as ours do."""

    async def write(self, run_id: str, position: int, items: list[Any]) -> None:
        written: Any = self.outside.written
        if written.door is None or not written.door.dead:
            there = {at: item for _, _, at, item in written}
            if any(there.get(at, item) != item for at, item in enumerate(items, position)):
                written[:] = [each for each in written if each[2] < position]
        await super().write(run_id, position, items)


class StoredPlay(Play):
    """A history of a world whose run lives in a store."""

    def __init__(self, world: World, name: str, store: Store, clock: FakeClock) -> None:
        super().__init__(world, name)
        self.store, self.clock = store, clock
        self.effects = self.outside.effects = Lasting()
        self.written = self.outside.written = Lasting()
        self.session = Rewinding(self.outside, world.before) if self.session is not None else None
        self.run_id: str | None = None
        self.deeds: list[tuple[str, int, Deed]] = []
        """What happens around the writes of the processes to come: of the next one, then of the one after it."""
        self.deaths = 0
        self.lag = self.chance.choice((0, 0.01))
        """How soon things are written."""

    # -- processes -------------------------------------------------------------------------------------

    def door(self) -> Door:
        """A new process, and what is to happen to it."""
        door = Door(self.store)
        self.effects.door = self.written.door = door
        if self.deeds:
            when, number, deed = self.deeds.pop(0)
            (door.before if when == "before" else door.after)[number] = deed
        return door

    async def process(self) -> None:
        """A process: take the run up, or begin it, and drive it to its next stop, or to death."""
        agent, door = self.fresh(), self.door()
        options: dict[str, Any] = {"run_config": self.config(), "session": self.session, "store": door}
        stored = await self.stored()
        if stored is None:
            options |= {"context": self.context, "max_turns": self.world.max_turns}
            self.remember_new_run(door)
        try:
            result = await Runner.run(agent, self.world.input if stored is None else stored, **options)
            state = result.to_state()
            self.look_at(result, state)
        except Died:
            self.deaths += 1
            COUNTS["died"] += 1
            self.clock.advance(LEASE + 1)
        except LeaseLost:
            COUNTS["raised: LeaseLost"] += 1
            if not door.taken:
                raise
        except (Overtaken, RunBusy) as error:  # others were first, before the run was ours
            COUNTS[f"raised: {type(error).__name__}"] += 1
            if stored is None or door.writes > 1:
                raise
        except (TripwireTriggered, MaxTurnsExceeded, Boom, ModelFailed) as error:
            COUNTS[f"raised: {type(error).__name__}"] += 1
            if door.dead:
                self.clock.advance(LEASE + 1)

    def remember_new_run(self, door: Door) -> None:
        first = door.before.get(1)

        async def note(door: Door, change: Change) -> None:
            self.run_id = change.record.id
            if first is not None:
                await first(door, change)

        door.before[1] = note

    def config(self) -> RunConfig:
        return replace(self.world.config(), write_lag=self.lag, lease=LEASE)

    async def stored(self) -> Stored | None:
        """The run as it is now, if it has begun."""
        if self.run_id is None:
            return None
        try:
            return await self.store.load(self.run_id)
        except RunNotFound:
            return None

    def kept(self) -> list[Any]:
        """What the session holds: by position, for processes may write at once."""
        return [item for *_, item in sorted(self.outside.written, key=lambda each: each[2])]

    # -- to the end ------------------------------------------------------------------------------------

    async def finish(self, state: RunState[Any] | None = None) -> Ending:
        """Run to the end, whatever comes in between."""
        for _ in range(80):
            stored = await self.stored()
            if stored is not None:
                now = state_of(self.fresh(), stored, None, self.config())
                self.check(now)
                self.check_records(stored, now)
                if not await self.answer(now):
                    return self.ending(now)
            await self.process()
        raise AssertionError("the run does not come to an end")

    def check_records(self, stored: Stored, state: RunState[Any]) -> None:
        record = stored.record
        assert (record.status, record.seq) == (state.status, len(stored.facts))
        assert record.waiting == len(state.get_interruptions())

    async def answer(self, state: RunState[Any]) -> bool:
        """Do what a user does with a run of a store; whether it can go on then."""
        if state.status == "waiting":
            self.pauses += 1
            open = (await self.store.questions(run=state.run_id, limit=1000)).items
            items = {item.id: item for item in state.get_interruptions()}
            assert {question.id for question in open} == items.keys()
            for question in self.chance.sample(open, self.chance.randint(1, len(open))):
                await self.decide(state, items[question.id], question)
            return True
        if state.status == "done" and self.wants_more(state):
            await self.store.say(state.run_id, self.world.more)
            return True
        return await super().answer(state)

    def wants_more(self, state: RunState[Any]) -> bool:
        given = sum(fact.by == "user" for fact in state._journal.facts if type(fact) is f.Said and not fact.path)
        return self.world.has("more") and given == 1

    async def decide(self, state: RunState[Any], item: Any, question: Question) -> None:
        """Ana's decision on one question, in the store."""
        assert (item.digest, item.arguments, item.tool_name) == (question.digest, question.arguments, question.tool)
        decision, lasting = self.person.answer(state, item)
        COUNTS[f"{item.kind}: {type(decision).__name__}{' always' if lasting else ''}"] += 1
        told = await self.store.decide(question.id, decision, by="ana", digest=item.digest, grant=lasting or None)
        assert told.verdict is not None and told.by == "ana"

    # -- what others do --------------------------------------------------------------------------------

    async def cancelled(self, door: Door, change: Change) -> None:
        """Somebody stops the run; it is taken up again when it has come to a stop."""
        if change.seq:
            await self.store.cancel(change.record.id, by="bob")
            COUNTS["cancelled in the store"] += 1

    async def cancelled_and_resumed(self, door: Door, change: Change) -> None:
        if change.seq:
            await self.store.cancel(change.record.id, by="bob")
            await self.store.resume(change.record.id, by="bob")
            COUNTS["cancelled and resumed"] += 1

    async def decided(self, door: Door, change: Change) -> None:
        """Ana is quick: she decides on all that is open while the run is driven."""
        stored = await self.stored()
        if stored is None:
            return
        state = state_of(self.fresh(), stored, None, self.config())
        for item in state.get_interruptions():
            with suppress(NotPending, AlreadyDecided):
                await self.decide(state, item, await self.store.question(item.id))
                COUNTS["decided early"] += 1

    async def taken_over(self, door: Door, change: Change) -> None:
        """The process seems dead and is not: another one takes the run up, and drives it to its next stop."""
        stored = await self.stored()
        if stored is not None and stored.record.status in ("working", "waiting"):
            door.taken = True
            self.clock.advance(LEASE + 1)
            COUNTS["taken over"] += 1
            await self.process()

    async def said(self, door: Door, change: Change) -> None:
        if change.seq:
            await self.store.say(change.record.id, "by the way", by="bob")
            COUNTS["said meanwhile"] += 1

    async def revoked(self, door: Door, change: Change) -> None:
        """Somebody takes all grants back."""
        if change.seq:
            for grant in (await self.store.grants(run=change.record.id)).items:
                await self.store.revoke(grant.id, by="bob", run=change.record.id)
                COUNTS["revoked meanwhile"] += 1
