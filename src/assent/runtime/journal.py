"""A journal in somebody's hands: the facts so far, the run they fold into, and the one way to add."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.codec import replay
from ..core.facts import AnyFact
from ..core.fold import fold
from ..core.run import Run
from ..errors import IllegalFact


class Journal:
    """Facts, and the run they are. `append` adds all of what it is given, or nothing."""

    __slots__ = ("clock", "facts", "listener", "run")

    def __init__(self, facts: list[AnyFact], run: Run, clock: Callable[[], float]) -> None:
        self.facts = facts
        self.run = run
        self.clock = clock
        self.listener: Callable[[AnyFact], None] | None = None

    def now(self) -> int:
        """The time for a fact: milliseconds since the run began, or since 1970 for the fact that begins it."""
        began = self.run.began
        now = int(self.clock() * 1000)
        return now if began is None else max(0, now - began.at)

    def add(self, fact: AnyFact) -> None:
        """Append one fact, or raise `IllegalFact` and change nothing."""
        fold(self.run, fact)
        self.facts.append(fact)
        if self.listener is not None:
            self.listener(fact)

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
        if self.listener is not None:
            for fact in facts:
                self.listener(fact)

    def fork(self) -> Journal:
        """A journal of its own with the same past."""
        return Journal(self.facts.copy(), self.run.fork(), self.clock)
