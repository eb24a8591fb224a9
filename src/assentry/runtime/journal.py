"""A journal in memory: the facts so far, the run that they fold into, and the only way to append to them.

Storing the facts belongs in `store_writer`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..approval.decide import ToolOf, decide
from ..approval.decision import Decider, Decision
from ..approval.terms import GrantTerms
from ..core import facts as f
from ..core.codec import replay
from ..core.facts import AnyFact
from ..core.fold import fold
from ..core.rules import verdict_of
from ..core.run import Run
from ..core.transcript import Item
from ..errors import IllegalFact

if TYPE_CHECKING:
    from ..core.snapshot import Snapshot
    from ..store.record import SavedContext
    from ..store.store import Store

OUTSIDE = (f.Granted, f.Revoked, f.Redefined, f.Said)
"""Facts that are recorded while nobody drives a run, besides verdicts and replaced questions."""


class StoredPart(NamedTuple):
    """The parts of a run that a store has."""

    facts: int = 0
    """The number of facts that are stored."""
    worker: str | None = None
    """The worker that holds the lease, if the lease could not be released."""
    fence: int | None = None
    """The fence of the newest lease, if known."""
    context: SavedContext | None = None
    """The stored context, if known."""
    snapshot: Snapshot | None = None
    """The newest snapshot, or the empty one; None if unknown, and no further ones are taken."""


NOT_STORED = StoredPart()


class Writer(Protocol):
    """Stores a journal for the one drive that holds the run's lease."""

    store: Store
    unwritten: list[AnyFact]
    """The facts of the journal that are not stored yet."""
    counts_uses: bool
    """True if the store counts the uses of standing grants with the facts, so that they can decide calls of the run."""

    @property
    def joined(self) -> bool:
        """True if another writer changed the run during this drive."""

    def stored_part(self) -> StoredPart:
        """Return the parts of the run that the store has."""

    @property
    def fence(self) -> int:
        """The fencing token of the lease that this drive holds, or acquires with its first write."""

    async def own(self, *, new: bool = False) -> None:
        """Acquire the lease, unless this drive holds it; with `new`, also for a run that is not stored yet."""

    async def flush(self) -> None:
        """Wait until all facts that are in the journal now are stored and the lease is held."""

    async def check_stops(self, path: tuple[str, ...], call: str) -> None:
        """Raise `AgentStopped` if a stop ended the last drive, and one still holds for this call."""

    def check(self) -> None:
        """Raise `LeaseLost` if this drive is known to have lost the run."""

    async def holds(self) -> bool:
        """Ask the store, and return True if this drive still holds the lease."""


class Journal:
    """The facts, and the run that they fold into. `append` adds all of the given facts, or none."""

    __slots__ = ("__weakref__", "before", "clock", "facts", "listeners", "past", "run", "writer")

    def __init__(self, facts: list[AnyFact], run: Run, clock: Callable[[], float]) -> None:
        self.facts = facts
        self.run = run
        self.clock = clock
        self.listeners: tuple[Callable[[AnyFact], None], ...] = ()
        self.writer: Writer | None = None
        """The writer of the journal, if the run lives in a store."""
        self.before: Sequence[Run] = ()
        """The earlier runs of the same thread, oldest first."""
        self.past: Sequence[Item] = ()
        """The conversation of those earlier runs, as items."""

    def now(self) -> int:
        """Return the time for a fact: milliseconds since the run began, or since 1970 for a run's first fact."""
        began = self.run.began
        now = int(self.clock() * 1000)
        if began is not None:
            now -= began.at
        return now if now > 0 else 0  # noqa: FURB136 - called so often that `max` would cost time

    @property
    def fence(self) -> int:
        """The fencing token that the drive's facts carry; 0 without a store."""
        return self.writer.fence if self.writer is not None else 0

    async def own(self, *, new: bool = False) -> None:
        """Acquire the lease before running user code; with `new`, also for a run that is not stored yet."""
        if self.writer is not None:
            await self.writer.own(new=new)

    def decide(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        by: str | Decider,
        digest: str | None,
        tool_of: ToolOf,
        grant: GrantTerms | dict[str, Any] | bool | None,
    ) -> None:
        """Record a decision on an open question; if `approval.decide` refuses it, raise and record nothing."""
        at = self.now()
        self.append(decide(self.run, question_id, decision, by=by, at=at, digest=digest, tool_of=tool_of, grant=grant))

    def listen(self, listener: Callable[[AnyFact], None]) -> None:
        """Call the listener for every fact from now on."""
        self.listeners = (*self.listeners, listener)

    def add(self, fact: AnyFact) -> None:
        """Append one fact, or raise `IllegalFact` and change nothing."""
        fold(self.run, fact)
        self.facts.append(fact)
        for listener in self.listeners:
            listener(fact)

    def append(self, facts: Sequence[AnyFact]) -> None:
        """Append facts that belong together, or raise `IllegalFact` and change nothing."""
        done = len(self.facts)
        try:
            for fact in facts:
                fold(self.run, fact)
                self.facts.append(fact)
        except IllegalFact:
            if len(self.facts) > done:  # the run was changed in place: fold the journal anew
                del self.facts[done:]
                self.run = replay(self.facts) if self.facts else Run()
            raise
        for listener in self.listeners:
            for fact in facts:
                listener(fact)

    def copy(self) -> Journal:
        """Return a journal with a copy of the facts and the same run; fork the run before you append to the copy."""
        return Journal(self.facts.copy(), self.run, self.clock)


def made_outside(facts: Sequence[AnyFact], after: int) -> Sequence[AnyFact]:
    """Return the decisions, inputs and grants at the journal's end that were recorded while nobody drove the run.

    A drive that records a decision acts on it at once, so facts of these kinds at the end are not a drive's. The first
    `after` facts are left out.
    """
    first = len(facts)
    while first > after and _outside(facts[first - 1]):
        first -= 1
    return facts[first:]


def _outside(fact: AnyFact) -> bool:
    if isinstance(fact, f.Asked):
        return fact.replaces is not None
    return verdict_of(fact) is not None or isinstance(fact, OUTSIDE)
