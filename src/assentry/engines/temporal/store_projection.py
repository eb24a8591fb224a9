"""The projection: what a store, and so the inbox, has of runs whose facts are in another archive.

It is derived. A store that is away, that is behind or that has lost its rows is made to catch up from the archive, up
to what the workflow says was kept. The workflow stays the authority on what happened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...core.facts import AnyFact
from ...errors import AssentryError, Conflict, LeaseLost, Overtaken, RunNotFound, UnreadableState, UsageError
from ...store.record import Change, Stored
from ...store.store import Store
from . import message as m
from .archive import TRIES, JournalArchive, StoreArchive, linked_hash
from .client import TemporalRuns

ADVICE = "A store cannot replace the facts of one run: rebuild all runs in an empty store, for the inbox to read."


class StoreProjection:
    """Runs of an archive, as a store shows them."""

    def __init__(self, archive: JournalArchive, store: Store) -> None:
        self._archive = archive
        self._store = StoreArchive(store)

    async def project(self, run_id: str, mark: m.Mark) -> int:
        """Append the facts up to a mark that the store lacks, and return their number.

        Raises `Conflict` if the store has other facts than the archive.
        """
        for _ in range(TRIES):
            stored = await self._store.find(run_id)
            seq = 0 if stored is None else stored.record.seq
            kept = await self._archive.load(run_id, mark)
            if stored is not None:
                await self._compare(stored, min(seq, mark.seq), kept.facts)
            if seq >= mark.seq:
                return 0
            change = self._store.change(run_id, stored, list(kept.facts[seq:]), kept.context)
            await self._add_definitions(change)
            try:
                await self._store.store.append(change)
            except (Overtaken, LeaseLost):
                continue  # another attempt was first, and may have ended the run
            return mark.seq - seq
        raise Overtaken(f"Run {run_id!r} is written to faster than its store can catch up.")

    async def _compare(self, stored: Stored, seq: int, facts: list[AnyFact]) -> None:
        """Raise `Conflict` unless the store has these facts up to a number."""
        run_id = stored.record.id
        if self._store.store.keeps_hashes:
            same = await self._store.hash_at(stored, seq) == linked_hash(run_id, m.Mark(), facts[:seq])
        else:
            same = list(stored.facts[:seq]) == list(facts[:seq])
        if not same:
            raise Conflict(f"The store has other facts of run {run_id!r} than its archive. {ADVICE}")

    async def _add_definitions(self, change: Change) -> None:
        """Add the definitions of the tools that the change's questions are about."""
        for name in {question.definition for question in change.asked if question.definition is not None}:
            if (found := await self._archive.definition(name)) is not None:
                change.definitions[name] = found


async def rebuild_projection(runs: TemporalRuns, archive: JournalArchive, store: Store, run_id: str) -> int:
    """Have a store catch up with one run, and return the number of facts that it lacked.

    A worker must be up, which says what the run's workflow has kept. Of a run that Temporal has forgotten, the archive
    itself says it. Raises `Conflict` if the store has other facts of the run, or records that do not follow from them.
    """
    if isinstance(archive, StoreArchive) and archive.store is store:
        raise UsageError("This store is the archive itself; `await store.rebuild()` makes its records anew.")
    mark = await _kept(runs, archive, run_id)
    try:
        added = await StoreProjection(archive, store).project(run_id, mark)
    except UnreadableState as error:
        raise UnreadableState(f"Run {run_id!r} cannot be read from its archive, or from the store: {error}") from error
    if wrong := await store.verify(run_id):
        raise Conflict(
            f"The facts of run {run_id!r} are in the store, and its records there are wrong: {wrong[0]} "
            "`await store.rebuild()` makes all records anew."
        )
    return added


async def _kept(runs: TemporalRuns, archive: JournalArchive, run_id: str) -> m.Mark:
    """Return what the workflow of a run has kept."""
    mark: m.Mark | None
    try:
        mark = (await runs.get(run_id).standing()).kept
    except RunNotFound:
        mark = await archive.newest(run_id)
    if mark is None or not mark.seq:
        raise RunNotFound(f"Neither Temporal nor the archive has facts of run {run_id!r}.")
    return mark


async def rebuild_projections(
    runs: TemporalRuns, archive: JournalArchive, store: Store
) -> AsyncIterator[tuple[str, int | AssentryError]]:
    """Have a store catch up with all runs of a task queue, and yield each run's id and the facts that it lacked.

    Temporal lists the runs, those that are over too, until it forgets them. `runs` has the task queue.
    The error of a run that could not be rebuilt is yielded in place of the number, and the others go on.
    """
    seen: set[str] = set()
    listed = f"WorkflowType = '{m.WORKFLOW}' AND TaskQueue = '{runs.task_queue}'"
    async for found in runs.client.list_workflows(listed):
        if found.id in seen:
            continue  # an earlier execution of a workflow that continued as new
        seen.add(found.id)
        try:
            yield found.id, await rebuild_projection(runs, archive, store, found.id)
        except AssentryError as error:
            yield found.id, error
