"""A journal in somebody's hands: the facts so far, the run they fold into, and the one way to add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..core import facts as f
from ..core.codec import replay
from ..core.facts import AnyFact
from ..core.fold import fold
from ..core.rules import verdict_of
from ..core.run import Run
from ..errors import IllegalFact

OUTSIDE = (f.Granted, f.Revoked, f.Redefined, f.Said)
"""What is recorded while nobody drives a run, besides verdicts and new questions."""


class Writer(Protocol):
    """Stores what a journal holds, for the one drive that has the run."""

    async def flush(self) -> None:
        """Return when what is in the journal now is stored, and the lease held."""

    def check(self) -> None:
        """Raise `LeaseLost` if it is known that this drive does not have the run any more."""

    async def holds(self) -> bool:
        """Ask the store whether this drive still has the run."""


class Journal:
    """Facts, and the run they are. `append` adds all of what it is given, or nothing."""

    __slots__ = ("clock", "facts", "listeners", "run", "writer")

    def __init__(self, facts: list[AnyFact], run: Run, clock: Callable[[], float]) -> None:
        self.facts = facts
        self.run = run
        self.clock = clock
        self.listeners: tuple[Callable[[AnyFact], None], ...] = ()
        self.writer: Writer | None = None
        """Writes the journal, where the run lives in a store."""

    def now(self) -> int:
        """The time for a fact: milliseconds since the run began, or since 1970 for the fact that begins it."""
        began = self.run.began
        now = int(self.clock() * 1000)
        if began is not None:
            now -= began.at
        return now if now > 0 else 0  # noqa: FURB136 - asked for so often that a call would count

    def listen(self, listener: Callable[[AnyFact], None]) -> None:
        """Be told of every fact from now on."""
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
            if len(self.facts) > done:  # some were folded in place: the journal is the truth, fold it anew
                del self.facts[done:]
                self.run = replay(self.facts) if self.facts else Run()
            raise
        for listener in self.listeners:
            for fact in facts:
                listener(fact)

    def copy(self) -> Journal:
        """A journal with the same past, and with the same run: whoever adds to it needs a fork of that."""
        return Journal(self.facts.copy(), self.run, self.clock)


def made_outside(facts: Sequence[AnyFact]) -> Sequence[AnyFact]:
    """What was recorded at the journal's end while nobody drove the run: decisions, input, grants.

    A drive that records a decision goes on to act on it, so what stands last is of no drive.
    """
    first = len(facts)
    while first and _outside(facts[first - 1]):
        first -= 1
    return facts[first:]


def _outside(fact: AnyFact) -> bool:
    if isinstance(fact, f.Asked):
        return fact.replaces is not None
    return verdict_of(fact) is not None or isinstance(fact, OUTSIDE)
