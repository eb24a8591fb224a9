"""The ledger: a workflow's own account of its run. Pure: it folds facts and links their hashes, and nothing else.

The workflow's history is the authority on a run. The ledger is what the history's events come to: the folded run, the
facts that are not in the archive yet, and the hash that covers all facts. It needs no agent, so a changed agent cannot
change what a replay comes to.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ...core import facts as f
from ...core.codec import replay
from ...core.facts import AnyFact
from ...core.fold import check, fold
from ...core.past import PastDict
from ...core.run import CallState, Run
from ...core.snapshot import EMPTY, Past, Restored, Snapshot, is_due, mark
from ...errors import IllegalFact
from ...store.row_codec import START, link, pack
from .message import Carried, Mark

Path = tuple[str, ...]

LARGEST = 1_000_000
"""The most bytes of facts in one message, unless a single fact has more; the server refuses messages above 2 MB."""


class Ledger:
    """The facts of one run, as its workflow has recorded them."""

    def __init__(self, run_id: str, carried: Carried | None = None) -> None:
        self.id = run_id
        self.run = Run()
        self.mark = Mark()
        """The facts that the archive has."""
        self.unkept: list[AnyFact] = []
        """The facts after those."""
        self._after: list[tuple[bytes, int]] = []
        """The hash after each of these facts, and the fact's size."""
        self.head = START
        """The hash of the last fact and of all before it."""
        self._marked: Snapshot | None = None
        self._since: list[AnyFact] = []
        """The facts after the snapshot; all of them as long as there is none."""
        self._counting: dict[int, AnyFact] = {}
        """The facts that a snapshot needs: the beginning, definitions and grants."""
        if carried is not None:
            self._go_on(carried)

    def _go_on(self, carried: Carried) -> None:
        """Go on from what an earlier execution of the workflow carried over."""
        if carried.snapshot is None:
            self.run = replay(carried.since)
            numbered = enumerate(carried.since, 1)
        else:
            self._counting = dict(carried.counting)
            self.run = Restored(carried.snapshot, self._counting, Past(None)).run(carried.since, talks=False)
            self._marked = carried.snapshot
            numbered = enumerate(carried.since, carried.snapshot.seq + 1)
        for seq, fact in numbered:
            if seq == 1 or isinstance(fact, f.Defined | f.Granted | f.Revoked):
                self._counting[seq] = fact
        self._since = list(carried.since)
        self.mark, self.head = carried.mark, bytes.fromhex(carried.mark.head)

    @property
    def whole(self) -> bool:
        """True if everything that ever happened in the run can be looked up here."""
        return not isinstance(self.run.asked, PastDict)

    def at(self, path: Path, call: str) -> CallState | None:
        """Return the state of a call; None if there is none."""
        try:
            return self.run.at(path).calls.get(call)
        except IllegalFact:
            return None

    # -- recording ---------------------------------------------------------------------------------

    def add(self, fact: AnyFact) -> None:
        """Record a fact, or raise `IllegalFact` and change nothing."""
        fold(self.run, fact)
        seq = self.run.seq
        packed = pack(fact)[0]
        self.head = link(self.head, self.id, seq, packed)
        self.unkept.append(fact)
        self._after.append((self.head, len(packed)))
        self._since.append(fact)
        if isinstance(fact, f.Began | f.Defined | f.Granted | f.Revoked) and (seq == 1 or type(fact) is not f.Began):
            self._counting[seq] = fact
        if is_due(self.run, EMPTY):
            self._marked = mark(self.run)
            self._since.clear()

    def take(self, facts: Iterable[AnyFact]) -> int:
        """Record those facts of an activity that are still legal, and return their number.

        Others may have written meanwhile: a person has cancelled the run, or a grant is used up. What was not recorded
        is owed again, if it is owed at all.
        """
        return sum(self._try(fact) for fact in facts)

    def _try(self, fact: AnyFact) -> bool:
        if type(fact) is f.Stepped and self._has_step(fact):
            return False  # the body has told of this step already
        try:
            self.add(fact)
        except IllegalFact:
            return False
        return True

    def _has_step(self, fact: f.Stepped) -> bool:
        state = self.at(fact.path, fact.call)
        return state is not None and (fact.name, fact.number) in {(step.name, step.number) for step in state.steps}

    def start(self, path: Path, call: str, at: int) -> int:
        """Record that a body is about to be entered, and return the number of the attempt."""
        state = self.run.at(path).calls[call]
        self.add(f.Started(call, state.attempt + 1, at=at, path=path))
        return state.attempt

    def leave(self, path: Path, call: str, attempt: int, at: int) -> bool:
        """Record that the body was not entered; return False if the attempt is not under way."""
        return self._try(f.Left(call, attempt, at=at, path=path))

    def take_body(self, path: Path, call: str, attempt: int, facts: list[AnyFact], at: int) -> int:
        """Record the facts of an activity that went through the door for this attempt; return their number.

        The door's own `Started` stands in the ledger already. Without one the body was not entered. A result that is
        not legal any more is kept as evidence.
        """
        entered = next((fact for fact in facts if type(fact) is f.Started and fact.call == call), None)
        taken = 0
        if entered is None:
            taken += self.leave(path, call, attempt, at)
        for fact in facts:
            if fact is entered:
                continue
            if self._try(fact):
                taken += 1
            elif type(fact) is f.Finished and fact.call == call:
                taken += self._try(f.Witnessed(call, attempt, fact.output, at=fact.at, path=path))
        return taken + (entered is not None)

    def refuses(self, facts: Iterable[AnyFact]) -> IllegalFact | None:
        """Return the error of the first of these facts that may not follow; None if each may."""
        for fact in facts:
            try:
                check(self.run, fact)
            except IllegalFact as error:
                return error
        return None

    # -- keeping and carrying ----------------------------------------------------------------------

    def here(self) -> Mark:
        """Return the mark of all facts so far."""
        return Mark(self.run.seq, self.head.hex())

    def next_unkept(self) -> tuple[list[AnyFact], Mark]:
        """Return the next facts for the archive, as many as one message may have, and the mark after them."""
        size, facts = 0, 0
        for _, each in self._after:
            if facts and size + each > LARGEST:
                break
            size, facts = size + each, facts + 1
        if not facts:
            return [], self.mark
        return self.unkept[:facts], Mark(self.mark.seq + facts, self._after[facts - 1][0].hex())

    def kept(self, upto: Mark) -> None:
        """Note that the archive has the facts up to a mark."""
        facts = upto.seq - self.mark.seq
        del self.unkept[:facts], self._after[:facts]
        self.mark = upto

    def carry(self) -> Carried:
        """Return what the next execution of the workflow needs to go on. Everything is in the archive then."""
        at, counting = self._marked, self._counting
        if at is None:
            return Carried(self.mark, list(self._since))
        before = {seq: fact for seq, fact in counting.items() if seq <= at.seq}
        defined = {seq: fact for seq, fact in before.items() if type(fact) is f.Defined}
        roots = [seq for seq, fact in defined.items() if not fact.path]
        snapshot = replace(
            at,
            definition=roots[-1] if at.definition and roots else 0,
            marks=tuple(seq for seq, fact in defined.items() if fact.tools),
            grants=tuple(seq for seq, fact in before.items() if isinstance(fact, f.Granted | f.Revoked)),
        )
        numbers = set(snapshot.numbers())
        rows = [(seq, fact) for seq, fact in before.items() if seq in numbers]
        return Carried(self.mark, list(self._since), snapshot, rows)
