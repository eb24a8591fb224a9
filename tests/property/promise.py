"""What a run has promised, held against its journal and against what happened outside.

Like `ledger`, this reads a journal naively and knows nothing of phases: but a journal that the runtime wrote, with real
bodies behind it. `Account` fails where a promise was broken.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from msgspec.json import decode

from assentry.core import facts as f
from tests.property.world import Effect, Outside, World

Path = tuple[str, ...]


@dataclass
class Line:
    """What is known of one call: when, by how many facts, it was let pass and started."""

    call: f.Call
    place: str
    proposed: str
    turn: int
    go: tuple[int, f.Approved] | None = None
    open: f.Asked | None = None
    asked: dict[str, f.Asked] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    again: int = 0
    """How often a person said to run it again."""
    end: Any = None


@dataclass
class Spot:
    """The run itself, or a branch: who has the word, and which guardrails are awaited."""

    place: str
    awaited: set[str]
    armed: set[str]
    tripped: int | None = None
    closed: bool = False
    handed: Counter[int] = field(default_factory=Counter)


class Account:
    """A journal, read from its beginning."""

    def __init__(self, journal: list[Any]) -> None:
        self.journal = journal
        self.lines: dict[tuple[Path, str], Line] = {}
        self.spots: dict[Path, Spot] = {}
        self.grants: dict[str, f.Granted] = {}
        self.usage = f.Usage()
        for number, fact in enumerate(journal, 1):
            self._not_after_a_tripwire(fact)
            read = getattr(self, "_" + type(fact).__name__.lower(), None)
            if read is not None:
                read(number, fact)

    # -- reading -------------------------------------------------------------------------------------

    def _began(self, number: int, fact: f.Began) -> None:
        if fact.path:
            self._starts(number, fact.path[:-1], fact.path[-1])
        self.spots[fact.path] = Spot(fact.agent, set(fact.guards), set(fact.guards))

    def _said(self, number: int, fact: f.Said) -> None:
        spot = self.spots[fact.path]
        if spot.awaited:
            spot.awaited |= spot.armed

    def _awaited(self, number: int, fact: f.Awaited) -> None:
        spot = self.spots[fact.path]
        spot.armed = set(fact.guards)
        spot.awaited |= spot.armed

    def _guarded(self, number: int, fact: f.Guarded) -> None:
        if fact.tripped:
            self.spots[fact.path].tripped = number
        elif fact.where == "input":
            self.spots[fact.path].awaited.remove(fact.name)

    def _replied(self, number: int, fact: f.Replied) -> None:
        items = decode(fact.items)
        self.usage.add(f.Usage(*fact.usage))
        for call in fact.calls:
            where = self.spots[fact.path].place
            self.lines[fact.path, call.id] = Line(call, where, items[call.item]["arguments"], number)

    def _proposed(self, number: int, fact: f.Proposed) -> None:
        call = fact.proposal
        where = self.spots[fact.path].place
        self.lines[fact.path, call.id] = Line(call, where, bytes(fact.args).decode(), number)

    def _asked(self, number: int, fact: f.Asked) -> None:
        line = self.lines[fact.path, fact.call]
        line.open = line.asked[fact.id] = fact

    def _approved(self, number: int, fact: f.Approved) -> None:
        line = self.lines[fact.path, fact.call]
        if fact.asked is not None:
            assert line.open is not None and fact.asked == line.open.id, "a decision is on the question now open"
        if line.open is not None and line.open.kind == "doubt":
            line.again += 1
        else:
            line.go = number, fact
        line.open = None

    def _answered(self, number: int, fact: f.Answered) -> None:
        self.lines[fact.path, fact.call].open = None

    def _refused(self, number: int, fact: f.Refused) -> None:
        line = self.lines[fact.path, fact.call]
        line.open, line.end = None, fact

    def _finished(self, number: int, fact: f.Finished) -> None:
        line = self.lines[fact.path, fact.call]
        line.open, line.end = None, fact

    def _started(self, number: int, fact: f.Started) -> None:
        self._starts(number, fact.path, fact.call)

    def _starts(self, number: int, path: Path, call: str) -> None:
        line = self.lines[path, call]
        assert line.go is not None and line.open is None, "nothing starts that was not let pass"
        line.starts.append(number)
        for depth in range(len(path) + 1):
            assert not self.spots[path[:depth]].awaited, "nothing starts before the input guardrails are in"

    def _left(self, number: int, fact: f.Left) -> None:
        assert fact.by == "runtime", "no tool here says how it ended"
        self.lines[fact.path, fact.call].starts.pop()  # the body was not entered after all

    def _handedoff(self, number: int, fact: f.HandedOff) -> None:
        spot, line = self.spots[fact.path], self.lines[fact.path, fact.call]
        spot.handed[line.turn] += 1
        spot.place, line.end = fact.to, fact
        assert spot.handed[line.turn] == 1, "of a turn's handoffs one is taken"

    def _granted(self, number: int, fact: f.Granted) -> None:
        self.grants[fact.id] = fact

    def _closed(self, number: int, fact: f.Closed) -> None:
        self.spots[fact.path].closed = True

    def _not_after_a_tripwire(self, fact: Any) -> None:
        if type(fact) in (f.Started, f.HandedOff, f.Began, f.Concluded, f.Proposed):  # a reply may be under way
            begun = self.lines[fact.path, fact.call].starts[-1] if type(fact) is f.HandedOff else len(self.journal)
            for depth in range(len(fact.path) + 1):
                above = self.spots.get(fact.path[:depth])
                stopped = above.tripped if above is not None else None
                assert stopped is None or begun < stopped, f"{fact} came after a guardrail had stopped the run"

    # -- what must hold ------------------------------------------------------------------------------

    def questions(self) -> list[tuple[Path, str]]:
        """The open questions, each with its path."""
        return [
            (path, line.open.id)
            for (path, _), line in self.lines.items()
            if line.open is not None and not any(self.spots[path[:n]].closed for n in range(len(path) + 1))
        ]

    def holds(self, world: World, outside: Outside) -> None:
        """What happened outside is what was let pass, and no more."""
        done = Counter(effect.place for effect in outside.effects)
        for (path, call, _), times in done.items():
            line = self.lines[path, call]
            assert times <= 1 + line.again, "nothing is done twice unless a person says so"
        for place, times in outside.entries.items():
            line = self.lines[place]
            assert times <= len(line.starts), "a body is entered after that was recorded"
            asks = any(question.kind == "input" for question in line.asked.values())
            assert len(line.starts) <= 1 + line.again or asks
        keys: dict[str, tuple[Path, str]] = {}
        for effect in outside.effects:
            self._was_let_pass(world, effect)
            assert keys.setdefault(effect.key, (effect.path, effect.call)) == (effect.path, effect.call)

    def _was_let_pass(self, world: World, effect: Effect) -> None:
        line = self.lines[effect.path, effect.call]
        assert line.go is not None and line.go[0] <= effect.facts, "the approval is recorded before the body does it"
        assert line.starts and line.starts[0] <= effect.facts
        go = line.go[1]
        assert effect.tool == (go.tool or line.call.tool)
        if line.call.kind == "tool":
            given = json.loads(bytes(go.args) or line.proposed)
            assert effect.args == {"note": "-"} | given, "what runs is what was let pass"
            assert bool(go.args) or effect.args["who"] == effect.agent, "a call is its own agent's"
            self._had_the_right(world, effect, line, go)

    def _had_the_right(self, world: World, effect: Effect, line: Line, go: f.Approved) -> None:
        rule = world._tool(effect.agent, line.call.tool).rule
        if go.asked is not None:
            assert go.by == "ana" and line.asked[go.asked].kind == "approval"
        elif go.by.startswith("grant:"):
            grant = self.grants[go.by[6:]]
            assert (grant.verdict, grant.agent, grant.tool) == ("approve", line.place, line.call.tool)
        elif go.by.startswith("rule:"):
            assert rule == "rule" and effect.args["n"] % 5 in (1, 2)
        else:
            assert (go.by, rule) == ("rule", "free")


def acceptable(items: list[dict[str, Any]]) -> None:
    """Fails if a provider would refuse these items."""
    waiting: list[str] = []
    answered = thinking = False
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            assert not (answered and waiting), "the outputs of a turn come before the next one's calls"
            waiting.append(item["call_id"])
            answered = False
        elif kind == "function_call_output":
            assert waiting and item["call_id"] == waiting.pop(0), "outputs come in the order of the calls, once"
            answered = True
        elif kind == "message":
            assert not waiting or (not answered and item["role"] == "assistant"), "a call waits for its output"
        assert not thinking or kind == "reasoning" or kind == "function_call" or item.get("role") == "assistant"
        thinking = kind == "reasoning"
    assert not waiting and not thinking, "a call without its output, or a thought without its end"
