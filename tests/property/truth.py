"""A run that is written fact by fact, and what must be true of it after every one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, get_args

import pytest
from hypothesis import currently_in_test_context, event, note, target
from hypothesis.stateful import RuleBasedStateMachine
from msgspec.json import decode

from assentry.core import codec
from assentry.core import facts as f
from assentry.core.fold import check, fold
from assentry.core.rules import NEXT
from assentry.core.run import CallState, Run, Status, Turn, deadline, overdue, owed, questions, status
from assentry.core.transcript import items_since_reply, output_text, transcript
from assentry.errors import IllegalFact
from tests.core.support import Path, asked, finished, js, snapshot
from tests.property.law import due, fits, may_follow, standing
from tests.property.ledger import Ledger, Line, Place


def refuses(run: Run, fact: Any) -> bool:
    try:
        check(run, fact)
    except IllegalFact:
        return True
    return False


class Journalled(RuleBasedStateMachine):
    """A run, its journal, and the ways to add to it."""

    rows: ClassVar[Counter[tuple[str, str]]] = Counter()
    effects: ClassVar[Counter[str]] = Counter()
    facts: ClassVar[Counter[str]] = Counter()
    refusals: ClassVar[Counter[str]] = Counter()
    statuses: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.run = Run()
        self.journal: list[Any] = []
        self.ledger = Ledger()
        self.snapshots: list[Any] = [snapshot(self.run)]
        self.talks: list[dict[Path, list[Any]]] = [{(): []}]
        self.forks: list[tuple[Run, Any, f.Usage]] = []
        self.now = 0
        self.number = 0

    # -- adding facts ----------------------------------------------------------------------------

    def offer(self, fact: Any) -> bool:
        """Try a fact: `check` and `fold` agree, and what is refused leaves the run exactly as it was."""
        before, phase = self.snapshots[-1], self.phase(fact)
        refused = self.judged(fact)
        assert snapshot(self.run) == before, "asking changed the run"
        try:
            fold(self.run, fact)
        except IllegalFact:
            assert refused, "check lets pass what fold refuses"
            assert snapshot(self.run) == before, "a refused fact changed the run"
            self.refusals[type(fact).__name__] += 1
            return False
        assert not refused, "check refuses what fold lets pass"
        self.journal.append(fact)
        if currently_in_test_context():
            note(f"  {len(self.journal)}. {fact}")
        self.ledger.observe(fact)
        self.snapshots.append(snapshot(self.run))
        self.talks.append({path: list(transcript(self.run.at(path))) for path in self.ledger.places})
        self.facts[type(fact).__name__] += 1
        if phase is not None:
            self.rows[phase, type(fact).__name__] += 1
        for truth in TRUTHS:
            truth(self)
        return True

    def judged(self, fact: Any) -> bool:
        """Whether the core refuses a fact; the law must do the same."""
        refused = refuses(self.run, fact)
        assert refused != may_follow(self.ledger, fact), f"{fact} is {'refused' if refused else 'let pass'}"
        return refused

    def put(self, fact: Any) -> None:
        """Add a fact that must be right."""
        assert self.offer(fact), f"{fact} was refused"

    def phase(self, fact: Any) -> str | None:
        if type(fact) not in NEXT or fact.call is None:
            return None
        parent = fact.path[:-1] if type(fact) is f.Began else fact.path
        if parent not in self.ledger.places:
            return None
        state = self.run.at(parent).calls.get(fact.call)
        return state.phase.name if state else None

    def tick(self, step: int = 1) -> int:
        self.now += step
        return self.now

    def new_id(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def state(self, path: Path, call: str) -> CallState:
        return self.run.at(path).calls[call]

    def living(self) -> list[Path]:
        """The run and its branches that are not over."""
        return [path for path in self.ledger.places if not self.ledger.over(path)]

    def calls(self, *phases: str) -> list[tuple[Path, CallState]]:
        """The calls in these phases, where something may still happen to them."""
        places = [(path, self.run.at(path)) for path in self.living()]
        return [(path, state) for path, run in places for state in run.open.values() if state.phase.name in phases]

    # -- what must be true after every step --------------------------------------------------------

    def what_is_owed_is_derived(self) -> None:
        now = owed(self.run)
        assert owed(self.run) == now == owed(self.run.fork())
        assert len(set(now)) == len(now)
        list(questions(self.run)), deadline(self.run), status(self.run)
        assert snapshot(self.run) == self.snapshots[-1]

    def what_is_owed_is_what_the_law_says(self) -> None:
        now = owed(self.run)
        assert now == list(due(self.ledger))
        mine = {(effect.path, effect.call) for effect in now[::2]}
        theirs = [effect for effect in now if type(effect) is not f.Settle or (effect.path, effect.call) not in mine]
        assert owed(self.run, mine) == theirs, "nobody doubts what they are executing themselves"

    def what_is_owed_can_be_paid(self) -> None:
        for effect in owed(self.run):
            for fact in self.payments(effect):
                check(self.run, fact)

    def payments(self, effect: Any) -> list[Any]:
        path, call = effect.path, effect.call
        if type(effect) is f.AskModel:
            return [f.Replied(js([]), effect.saw, path=path)]
        if type(effect) is f.Guard:
            return [f.Guarded("input", effect.name, path=path)]
        if type(effect) is f.Conclude:
            return [f.Concluded(call=call, path=path)]
        state = self.state(path, call)
        if type(effect) is f.Judge:
            verdicts = [f.Refused(call, "rule", path=path), asked(call, "fresh", path=path)]
            return verdicts if state.phase.name == "READY" else [*verdicts, f.Approved(call, "rule", path=path)]
        if type(effect) is f.Execute:
            if state.call.kind == "agent":
                return [f.Began("child", 1, path=(*path, call))]
            return [f.Started(call, state.attempt + 1, path=path)]
        if type(effect) is f.Settle:
            left = f.Left(call, state.attempt, fence=state.fence, path=path)
            return [asked(call, "fresh", "doubt", path=path), finished(call, path=path), left]
        return [f.Told(call, "no", path=path)] if type(effect) is f.Tell else [finished(call, path=path)]

    def the_status_is_what_it_says(self) -> None:
        now, due, open = status(self.run), owed(self.run), list(self.ledger.questions())
        self.statuses[now] += 1
        assert now in get_args(Status)
        assert now == standing(self.ledger)
        root = self.ledger.places.get(())
        if root is None:
            return
        assert (now == "closed") == root.closed
        assert (now == "cancelled") == (self.ledger.cancelled and not root.closed)
        if now in ("closed", "cancelled"):
            assert not due
            return
        assert (now == "working") == bool(due)
        assert (now == "waiting") == (not due and bool(open))
        if now in ("done", "exhausted"):
            assert not root.open()
        if now == "done":
            assert root.said == root.heard, "done means that every word was heard"
            assert not root.awaited
        if now == "exhausted":
            assert root.turns >= root.max_turns

    def questions_are_those_that_were_asked_and_not_settled(self) -> None:
        open = [(path, state.question.id) for path, state in questions(self.run) if state.question]
        assert open == list(self.ledger.questions())
        assert list(self.run.asked) == self.ledger.asked
        assert set(self.run.decided) == self.ledger.decided
        ends = [state.question.until for _, state in questions(self.run) if state.question.until is not None]
        assert deadline(self.run) == (min(ends) if ends else None)
        for at in {self.now, *ends}:
            open_ones = [s.question for _, s in questions(self.run)]
            late = [question.id for question in open_ones if question.until is not None and question.until < at]
            assert [fact.asked for fact in overdue(self.run, at)] == late, "silence comes to a rejection"
            assert not any(refuses(self.run, fact) for fact in overdue(self.run, at))

    def the_run_holds_what_was_recorded(self) -> None:
        assert self.run.seq == len(self.journal)
        assert self.run.grants == self.ledger.grants
        assert (self.run.uses, set(self.run.revoked)) == (self.ledger.uses, self.ledger.revoked)
        assert self.run.marks == {d.digest: d.tools for d in self.journal if type(d) is f.Defined and d.tools}
        assert (self.run.cancelled is not None) == self.ledger.cancelled
        for path, place in self.ledger.places.items():
            run = self.run.at(path)
            self.holds(run, place)
            assert run.id == place.began.run
            for call in ("nope", *(id for id, line in place.lines.items() if line.branch is None)):
                with pytest.raises(IllegalFact):
                    self.run.at((*path, call))

    def holds(self, run: Run, place: Place) -> None:
        assert (run.definition, run.concluded, run.guarded) == (place.definition, place.concluded, place.guarded)
        assert (run.turns, run.max_turns, run.said) == (place.turns, place.max_turns, place.said)
        assert (run.saved, len(run.entries), list(run.guards)) == (place.saved, place.entries, place.awaited)
        assert (run.said - run.watched, run.closed is not None) == (place.unwatched, place.closed)
        assert (run.answering, run.concluding) == (place.answering, place.concluding)

    def the_model_is_never_owed_while_calls_are_open(self) -> None:
        for effect in owed(self.run):
            if type(effect) is f.AskModel:
                place = self.ledger.places[effect.path]
                assert not place.live and not place.open() and effect.saw == place.said

    def calls_are_as_the_ledger_has_them(self) -> None:
        for path, place in self.ledger.places.items():
            run = self.run.at(path)
            assert list(run.calls) == list(place.lines)
            assert list(run.open) == [line.call.id for line in place.open()]
            for id, line in place.lines.items():
                self.agrees(run.calls[id], line)

    def agrees(self, state: CallState, line: Line) -> None:
        assert (state.proposal.name, state.proposal.arguments) == line.proposal
        assert (state.turn.items == []) == (line.call.kind in ("output", "hook"))
        assert (state.outcome, state.approval) == (line.outcome, line.approval)
        assert state.attempt == len(line.starts)
        assert (state.phase.name == "DONE") == line.done
        assert state.phase.name not in ("READY", "RUNNING", "DELEGATED") or line.may_run
        assert (bytes(state.args), bytes(state.fills)) == (bytes(line.args), bytes(line.fills))
        assert (state.tool, state.digest, bytes(state.preview)) == (line.tool, line.digest, bytes(line.preview))
        assert (state.shown, state.passed) == (line.shown, line.passed)
        assert (state.words, state.told) == (line.words, line.told)
        question = line.question
        fit = () if question is None else question.allowed or fits(line, question.kind)
        assert set(state.allowed()) == set(fit)
        assert (state.edited, state.fingerprint) == (line.edited, line.fingerprint)
        assert (list(state.answers), list(state.steps)) == (line.answers, line.steps)
        assert (state.retries, state.void, list(state.witnessed)) == (line.in_vain, line.void, line.late)
        if type(line.outcome) is f.Finished and state.call.kind not in ("hook", "output"):
            told = "[A person changed this call" in (output_text(state) or "")
            assert told == line.edited, "the model is told what ran instead of what it proposed"

    def an_attempt_that_was_started_cannot_be_started_again(self) -> None:
        for path, place in self.ledger.places.items():
            for id, line in place.lines.items():
                for attempt in line.starts:
                    assert refuses(self.run, f.Started(id, attempt, path=path))

    def guardrails_look_again_exactly_when_there_is_something_new(self) -> None:
        for path in self.ledger.places:
            awaited = f.Awaited(("g1",), path=path)
            assert refuses(self.run, awaited) != self.ledger.may_await(path)
            assert list(self.run.at(path).guards) == self.ledger.places[path].awaited
        for effect in owed(self.run):
            above = [self.ledger.places[effect.path[:depth]] for depth in range(len(effect.path))]
            assert not any(place.awaited for place in above), "nothing goes on under guardrails that are awaited"

    def usage_is_that_of_every_reply_here_and_below(self) -> None:
        for path in self.ledger.places:
            assert self.run.at(path).usage == self.ledger.used(path)

    def news_are_what_the_model_hears_after_its_last_reply(self) -> None:
        for path, heard in self.talks[-1].items():
            run = self.run.at(path)
            replies = [entry for entry in run.entries if type(entry) is Turn and type(entry.reply) is f.Replied]
            last = run.entries.index(replies[-1]) if replies else 0
            if run.open or any(type(entry) is f.HandedOff and entry.history for entry in run.entries[last:]):
                continue  # what waits is in neither; and a provider that keeps the talk has it as it was
            new = items_since_reply(run)
            old = heard[: len(heard) - len(new)]
            assert old + new == heard
            said_last = decode(replies[-1].reply.items) if replies else []
            assert old[len(old) - len(said_last) :] == said_last
            assert replies or not old

    def the_model_never_hears_a_call_without_its_output(self) -> None:
        for items in self.talks[-1].values():
            waiting: list[Any] = []
            answered = False
            for item in items:
                kind = item.get("type")
                if kind in ("function_call", "mcp_approval_request"):
                    assert not answered or not waiting
                    answered = False
                    waiting.append(item["id"] if kind == "mcp_approval_request" else item.get("call_id", item["ours"]))
                elif kind in ("function_call_output", "mcp_approval_response"):
                    given = item["call_id"] if kind == "function_call_output" else item["approval_request_id"]
                    assert waiting and given == waiting.pop(0), "outputs come in the order of the calls, once"
                    answered = True
                else:
                    assert not waiting or (not answered and item["role"] == "assistant")
            assert not waiting

    # -- what must be true of the whole journal ------------------------------------------------------

    def teardown(self) -> None:
        for fork, was, used in self.forks:
            assert snapshot(fork) == was, "a fork changed with the other"
            assert fork.usage == used
        data = codec.encode_run(codec.SavedRun(codec.SCHEMA, "test", self.journal))
        saved = codec.decode_run(data)
        assert codec.encode_run(saved) == data
        assert saved.journal == self.journal
        self.replays(saved.journal)
        if currently_in_test_context():
            self.counts()

    def replays(self, journal: list[Any]) -> None:
        """Every prefix of the decoded journal gives the run, and the transcript, that it gave when it was written."""
        run = Run()
        for position, fact in enumerate(journal, 1):
            fold(run, fact)
            assert snapshot(run) == self.snapshots[position]
            if position % 7 == 0 or position == len(journal):
                fresh = codec.replay(journal[:position])
                heard = {path: transcript(fresh.at(path)) for path in self.talks[position]}
                assert heard == self.talks[position]
        assert run.usage == self.run.usage

    def counts(self) -> None:
        depth = max((len(fact.path) for fact in self.journal), default=0)
        event(f"depth {depth}")
        event(f"ends {status(self.run)}")
        target(float(len(set(map(type, self.journal)))), label="kinds of fact")
        target(float(len(self.ledger.places)), label="branches")


TRUTHS: list[Callable[[Journalled], None]] = [
    Journalled.what_is_owed_is_derived,
    Journalled.what_is_owed_is_what_the_law_says,
    Journalled.what_is_owed_can_be_paid,
    Journalled.the_run_holds_what_was_recorded,
    Journalled.the_status_is_what_it_says,
    Journalled.questions_are_those_that_were_asked_and_not_settled,
    Journalled.the_model_is_never_owed_while_calls_are_open,
    Journalled.calls_are_as_the_ledger_has_them,
    Journalled.an_attempt_that_was_started_cannot_be_started_again,
    Journalled.the_model_never_hears_a_call_without_its_output,
    Journalled.guardrails_look_again_exactly_when_there_is_something_new,
    Journalled.usage_is_that_of_every_reply_here_and_below,
    Journalled.news_are_what_the_model_hears_after_its_last_reply,
]
