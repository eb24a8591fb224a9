"""The archive: where the facts of runs on Temporal are kept, so that no transcript is in a workflow's history.

The workflow writes each fact here once, in order, before an activity needs it, and an activity reads what it lacks. The
archive is never ahead of the workflow. What is read is compared with the hash that the workflow has, so a changed
archive is noticed, whoever changed it. An archive that has other facts than the workflow refuses: an operator has reset
the workflow, or two workflows have the same run; nothing that has begun there begins again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec.structs import replace

from ...core.facts import AnyFact
from ...core.fold import fold
from ...core.run import ENDED
from ...core.snapshot import Snapshot, is_due, mark, take_chapter
from ...errors import Conflict, LeaseLost, Overtaken, RunNotFound, UnreadableState
from ...store.projection import Projection, anew
from ...store.record import Change, Lease, SavedContext, Stored
from ...store.row_codec import START, link, pack
from ...store.rules import needs_lease
from ...store.store import Store
from .message import Mark

ENGINE = "temporal"
"""The name of this engine in `Began.engine`, and of the worker that holds the leases of its runs in a store."""
TRIES = 20
FOREVER = 100 * 365 * 86400.0
"""The seconds for which the engine holds the lease of a run in a store: workers never drive its runs."""


@runtime_checkable
class JournalArchive(Protocol):
    """A place that keeps the facts of runs."""

    async def keep(
        self, run_id: str, mark: Mark, facts: Sequence[AnyFact], head: str, context: SavedContext | None
    ) -> None:
        """Keep the facts that come after a mark, and the context unless it is None. Keeping twice does no harm.

        `head` is the hash after these facts. Raises `Conflict` if the archive has other facts, or lacks facts before
        the mark.
        """

    async def load(self, run_id: str, mark: Mark) -> Stored:
        """Return the run up to a mark; raise `UnreadableState` if what is there does not come to the mark's hash."""

    async def define(self, definitions: Mapping[str, bytes]) -> None:
        """Keep definitions of tools, by their fingerprints, for whoever decides on their calls."""

    async def definition(self, fingerprint: str) -> bytes | None:
        """Return the definition of a tool; None if there is none."""

    async def newest(self, run_id: str) -> Mark | None:
        """Return the last mark that was kept of a run, for a run that Temporal has forgotten; None if there is none."""


class StoreArchive:
    """An archive in a store of Assentry's: one database has the facts, and is what the inbox reads.

    A run in it looks like any other, except that its lease is the engine's for good, so that no worker claims it.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    async def keep(
        self, run_id: str, mark: Mark, facts: Sequence[AnyFact], head: str, context: SavedContext | None
    ) -> None:
        """Append the facts to the run's journal in the store, with the records that follow from them."""
        upto = mark.seq + len(facts)
        for _ in range(TRIES):
            stored = await self.find(run_id)
            seq = 0 if stored is None else stored.record.seq
            if stored is not None and seq >= mark.seq:
                await self._compare(stored, min(seq, upto), mark, facts)
            if seq >= upto and (facts or stored is None or context in (None, stored.context)):
                return
            if seq < mark.seq:
                raise Conflict(
                    f"The archive has {seq} facts of run {run_id!r}, and {mark.seq} were kept: some are lost."
                )
            try:
                await self.store.append(self.change(run_id, stored, list(facts[seq - mark.seq :]), context))
            except (Overtaken, LeaseLost):
                continue  # another attempt of the same write was first, and may have ended the run
            return
        raise Overtaken(f"Run {run_id!r} is written to faster than it can be kept.")

    async def find(self, run_id: str) -> Stored | None:
        """Return the run as the store has it; None if it has none."""
        try:
            return await self.store.load(run_id)
        except RunNotFound:
            return None

    async def _compare(self, stored: Stored, seq: int, mark: Mark, facts: Sequence[AnyFact]) -> None:
        """Raise `Conflict` unless the store has the workflow's own facts up to a number."""
        run_id, known = stored.record.id, facts[: seq - mark.seq]
        if self.store.keeps_hashes:
            same = await self.hash_at(stored, seq) == linked_hash(run_id, mark, known)
        else:
            same = list(stored.facts[mark.seq : seq]) == list(known)
        if not same:
            raise Conflict(
                f"The archive has other facts of run {run_id!r} than its workflow, from fact {mark.seq + 1} on. The "
                "workflow was reset, or begun twice. Nothing was recorded, and nothing begins again."
            )

    async def hash_at(self, stored: Stored, seq: int) -> str:
        """Return the hash of the run's first `seq` facts."""
        if stored.record.seq == seq and stored.head is not None:
            return stored.head.hex()
        found = await self.store.history(stored.record.id, after=seq - 1, limit=1)
        return found[0].hash if found else ""

    def change(self, run_id: str, stored: Stored | None, facts: list[AnyFact], context: SavedContext | None) -> Change:
        """Return the change that appends facts to a run, or begins it, under the engine's lease."""
        now = self.store.clock()
        if stored is None:
            change = anew(run_id, facts, int(now * 1000))
            change.lease, change.hold = Lease(run_id, ENGINE, 1), FOREVER
        else:
            change, fence = self._next(stored, facts, now), stored.fence or 1
            if stored.record.worker is not None:
                change.lease = Lease(run_id, ENGINE, fence)
            elif needs_lease(change):  # the run had used up its turns, and an error handler concludes it
                change.lease, change.take, change.hold = Lease(run_id, ENGINE, fence + 1), True, FOREVER
        change.context = context if context != (SavedContext() if stored is None else stored.context) else None
        change.copied = True
        change.release = change.lease is not None and change.record.status in ENDED
        return change

    def _next(self, stored: Stored, facts: list[AnyFact], now: float) -> Change:
        """Return the change that appends facts to a run, with a snapshot if one is due."""
        run, projection = stored.run(talks=False), Projection()
        before = stored.before.snapshot if stored.before is not None else None
        marked: Snapshot | None = None
        for fact in facts:
            fold(run, fact)
            projection.note(run, fact)
            if before is not None and is_due(run, before):
                marked = mark(run)
        seq = stored.record.seq
        change = projection.change(run, seq, facts, now)
        if before is not None and marked is not None:
            since = [*stored.facts[before.seq :], *facts][: marked.seq - before.seq]
            change.chapter = take_chapter(run, since, marked, before)
        return change

    async def load(self, run_id: str, mark: Mark) -> Stored:
        """Read the run from the store, as it was at the mark."""
        stored = await self.store.load(run_id)
        if stored.record.seq < mark.seq:
            raise UnreadableState(
                f"The archive has {stored.record.seq} facts of run {run_id!r}, not {mark.seq}: some are lost."
            )
        if self.store.keeps_hashes and await self.hash_at(stored, mark.seq) != mark.head:
            raise UnreadableState(f"The archive's facts of run {run_id!r} are not those that its workflow recorded.")
        if stored.record.seq == mark.seq:
            return stored
        if stored.before is not None and stored.before.snapshot.seq > mark.seq:
            stored = await self.store.read(run_id)
        return replace(stored, facts=stored.facts[: mark.seq] if not stored.is_late else _cut(stored, mark.seq))

    async def define(self, definitions: Mapping[str, bytes]) -> None:
        """Keep definitions of tools in the store."""
        await self.store.define(definitions)

    async def definition(self, fingerprint: str) -> bytes | None:
        """Return the definition of a tool from the store."""
        return await self.store.definition(fingerprint)

    async def newest(self, run_id: str) -> Mark | None:
        """Return the mark of all facts that the store has of a run."""
        stored = await self.find(run_id)
        return None if stored is None else Mark(stored.record.seq, await self.hash_at(stored, stored.record.seq))


def linked_hash(run_id: str, mark: Mark, facts: Sequence[AnyFact]) -> str:
    """Return the hash of all facts up to a mark and of these after it."""
    head = bytes.fromhex(mark.head) if mark.head else START
    for seq, fact in enumerate(facts, mark.seq + 1):
        head = link(head, run_id, seq, pack(fact)[0])
    return head.hex()


def _cut(stored: Stored, seq: int) -> list[AnyFact]:
    """Return the first facts of a run that goes on from a snapshot; the past stays encoded."""
    assert stored.before is not None
    return stored.before.facts(list(stored.facts[stored.before.snapshot.seq : seq]))  # type: ignore[return-value]
