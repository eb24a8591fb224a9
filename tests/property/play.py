"""A world's run from its beginning, or from anywhere, to its end: who drives it, who decides, and what is looked at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec import Raw

from assentry import (
    Agent,
    Approve,
    Decision,
    Edit,
    MaxTurnsExceeded,
    Reject,
    Respond,
    Runner,
    RunResultBase,
    RunState,
    ToolApprovalItem,
)
from assentry.core import codec
from assentry.core import facts as f
from assentry.core.run import Run
from assentry.core.transcript import entry_items, said_items
from assentry.errors import ModelFailed, SessionFailed, TripwireTriggered
from assentry.runtime.journal import Journal
from assentry.runtime.session_sync import unsaved
from tests.core.support import snapshot
from tests.property.promise import Account, acceptable
from tests.property.world import WORLDS, Boom, Item, Outside, World, guarded_output, output_trips

COUNTS: Counter[str] = Counter()
"""What has been seen; for the test that all of it is."""


# -- a person ----------------------------------------------------------------------------------------


class Person:
    """Ana, who looks at what is asked, and at the outside, and says the same about the same."""

    def __init__(self, world: World, outside: Outside) -> None:
        self.world = world
        self.outside = outside

    def decide(self, state: RunState[Any], chance: Random) -> None:
        """Decide on some of what is open; what is left is left as it was."""
        open = state.get_interruptions()
        for item in chance.sample(open, chance.randint(1, len(open))):
            before = {each.id: each for each in state.get_interruptions()}
            self.decide_one(state, item)
            after = {each.id: each for each in state.get_interruptions()}
            assert before.pop(item.id) and after.keys() == before.keys(), "a decision is on one question"
            assert [(i.digest, i.arguments) for i in after.values()] == [
                (i.digest, i.arguments) for i in before.values()
            ]

    def decide_one(self, state: RunState[Any], item: ToolApprovalItem) -> None:
        decision, lasting = self.answer(state, item)
        COUNTS[f"{item.kind}: {type(decision).__name__}{' always' if lasting else ''}"] += 1
        if lasting and type(decision) is Approve:
            state.approve(item, always_approve=True, by="ana")
        elif lasting and type(decision) is Reject:
            state.reject(item, always_reject=True, rejection_message=decision.message, by="ana")
        else:
            state.decide(item.id, decision, "ana", item.digest)

    def answer(self, state: RunState[Any], item: ToolApprovalItem) -> tuple[Decision, bool]:
        who = item.agent.instructions
        chance = self.world.chance("ana", who, item.path, item.tool_name, item.arguments, item.question)
        if item.kind == "doubt":
            return self.settle(state, item), False
        if item.kind == "input":
            value = chance.randrange(4) if isinstance(item.question, str) else chance.random() < 0.5
            return (Respond(value) if chance.randrange(5) else Reject("I do not know")), False
        if self.world.has("always"):
            policy = self.world.chance("always", who, item.tool_name).choice(["approve", "reject", None, None])
            if policy == "reject" and self.always_asked(item, who):
                return Reject("never"), True
            if policy == "approve" and "approve" in item.allowed:
                return Approve(), True
        verdict = chance.choice([verdict for verdict in [*item.allowed, "approve"] if verdict in item.allowed])
        if verdict == "approve":
            return Approve(), False
        if verdict == "reject":
            return Reject(chance.choice([None, "no"])), False
        if verdict == "respond":
            return Respond(f"in its place {chance.randrange(9)}"), False
        return self.edit(item, who, chance), False

    def always_asked(self, item: ToolApprovalItem, who: str) -> bool:
        """Whether no rule lets such a call pass: else what is rejected for always depends on what comes first."""
        if item.tool_name in ("act", "pay", "look"):
            return self.world._tool(int(who), item.tool_name).rule == "gated"
        return item.tool_name != "final_output"

    def edit(self, item: ToolApprovalItem, who: str, chance: Random) -> Edit:
        if item.tool_name == "final_output":
            return Edit({"output": "better"})
        if item.tool_name.startswith("ask"):
            return Edit({"input": f"task {len(item.path) + 1} edited"})
        if item.tool_name.startswith("transfer"):
            return Edit({})
        tool = chance.choice([None, None, "pay"])
        return Edit({"n": 1000 + chance.randrange(100), "who": int(who)}, tool)

    def settle(self, state: RunState[Any], item: ToolApprovalItem) -> Decision:
        """What became of a call that nobody knows the end of: Ana looks, unless she does not care."""
        _, call = state._journal.run.asked[item.id]
        done = self.outside.done(item.path, call, "body") or self.outside.done(item.path, call, "last")
        if done is None or self.world.has("reckless") or item.tool_name.startswith("transfer"):
            return Approve()
        plan = self.world._tool(int(item.agent.instructions), item.tool_name)
        stopped = guarded_output(done.output) != done.output or (plan.trips and output_trips(done.output))
        if "output" in plan.guards and stopped:
            return Approve()  # only a guardrail can say what it says
        return Respond(done.output)


# -- a run from its beginning, or from anywhere, to its end ----------------------------------------------


@dataclass
class Ending:
    """How a run ended."""

    status: str
    output: Any
    talk: list[Item]
    usage: f.Usage
    journal: list[Any]
    outside: Outside
    session: list[Item]
    account: Account
    marks: list[int] = field(default_factory=list)

    def effects(self) -> set[Any]:
        """What was done outside, but for what happened beside what failed."""
        closed = [path for path, spot in self.account.spots.items() if spot.closed]
        kept = [e for e in self.outside.effects if not any(e.path[: len(path)] == path for path in closed)]
        return {(*effect.place, effect.tool, json.dumps(effect.args), effect.output) for effect in kept}


class Play:
    """One history of a world: a run, the processes it is in, and the person."""

    def __init__(self, world: World, name: str, outside: Outside | None = None, moving: bool = False) -> None:
        WORLDS[world.seed, world.features] = world
        self.world = world
        self.name = name
        self.moving = moving
        self.broken = outside is not None
        """Whether the run was begun in another history: there its first part was looked at in full."""
        self.outside = world.outsides[name] = outside or Outside()
        self.person = Person(world, self.outside)
        self.chance = world.chance("play", name)
        self.agent = self.fresh()
        self.session = world.session(name)
        self.pauses = 0
        self.talkative = False
        """Whether the user has something to add while the run waits."""
        self.looked = 0
        self.cancel: tuple[int, Any] | None = None
        """After how many events to cancel, and how."""
        self.events = 0

    def fresh(self) -> Agent[Any]:
        """The agents as another process has them."""
        return self.world.agents(self.name)

    @property
    def context(self) -> dict[str, Any]:
        return {"world": [self.world.seed, sorted(self.world.features), self.name]}

    async def go(self, start: Any, **options: Any) -> RunResultBase:
        options |= {"run_config": self.world.config(), "session": self.session}
        if not isinstance(start, RunState):
            options |= {"context": self.context, "max_turns": self.world.max_turns}
        if self.cancel is None:
            return await Runner.run(self.agent, start, **options)
        after, mode = self.cancel
        result = Runner.run_streamed(self.agent, start, **options)
        async for _ in result.stream_events():
            self.events += 1
            if self.events == after:
                result.cancel(mode)
        return result

    async def drive(self, start: Any) -> RunState[Any]:
        """Go on until something stops the run; the state it is in then."""
        try:
            result = await self.go(start)
        except (TripwireTriggered, MaxTurnsExceeded, Boom, ModelFailed, SessionFailed) as error:
            COUNTS[f"raised: {type(error).__name__}"] += 1
            return error.state or start
        state = result.to_state()
        self.look_at(result, state)
        return state

    def look_at(self, result: RunResultBase, state: RunState[Any]) -> None:
        """A result is what its state is."""
        view = state._view()
        assert [item.id for item in result.interruptions] == [item.id for item in view.interruptions()]
        assert (result.final_output is not None) == (state._journal.run.concluded is not None)
        assert result.final_output == view.output()
        assert result.context_wrapper.usage == state._journal.run.usage
        acceptable(result.to_input_list())

    async def finish(self, state: RunState[Any] | None = None) -> Ending:
        """Run to the end, whatever comes in between."""
        start: Any = self.world.input if state is None else state
        for _ in range(80):
            if isinstance(start, RunState):
                self.check(start)
                if not await self.answer(start):
                    return self.ending(start)
                if self.moving:
                    start = await self.moved(start)
            start = await self.drive(start)
        raise AssertionError("the run does not come to an end")

    async def answer(self, state: RunState[Any]) -> bool:
        """Do what a user does with a state; whether it can be resumed then."""
        run = state._journal.run
        status = state.status
        if status == "waiting":
            self.pauses += 1
            self.person.decide(state, self.chance)
            if self.talkative and self.pauses < 4 and self.chance.randrange(2):
                state.add_input(
                    "by the way" + self.chance.choice(["", "", " evil"] if self.world.has("trips") else [""])
                )
                COUNTS["input at a pause"] += 1
        elif status == "done":
            given = sum(fact.by == "user" for fact in state._journal.facts if type(fact) is f.Said and not fact.path)
            if self.world.has("more") and given == 1:
                state.add_input(self.world.more)
            else:
                return self.session is not None and unsaved(run)
        return status in ("working", "waiting", "done", "cancelled")

    async def moved(self, state: RunState[Any]) -> RunState[Any]:
        """The state in another process."""
        self.agent = self.fresh()
        return await RunState.from_string(self.agent, state.to_string())

    async def after(self, journal: list[Any]) -> RunState[Any]:
        """A state of which only these facts were kept."""
        context = Raw(json.dumps(self.context).encode())
        data = codec.encode_run(codec.SavedRun(codec.SCHEMA, "test", journal, context, "mapping"))
        return await RunState.from_string(self.agent, data)

    # -- what must be true at every pause ----------------------------------------------------------------

    def check(self, state: RunState[Any]) -> None:
        journal, run = state._journal.facts, state._journal.run
        account = Account(journal)
        account.holds(self.world, self.outside)
        assert run.usage == account.usage
        for _, items in self.outside.requests[self.looked :]:
            acceptable(items)
        self.looked = len(self.outside.requests)
        self.check_questions(state, account)
        if not self.broken or state.status != "waiting":
            self.check_copy(state)
        if self.session is not None:
            acceptable([*self.kept()])

    def kept(self) -> list[Item]:
        return [item for *_, item in self.outside.written]

    def check_questions(self, state: RunState[Any], account: Account) -> None:
        """Every open question is there once, with its place and its agent."""
        items = state.get_interruptions()
        assert sorted((item.path, item.id) for item in items) == sorted(account.questions())
        for item in items:
            path, call = state._journal.run.asked[item.id]
            line = account.lines[path, call]
            assert item.path == path and item.raw_item.get("arguments", line.proposed) == line.proposed
            if line.call.kind == "tool" and '"who"' in line.proposed and "NaN" not in line.proposed:
                assert json.loads(line.proposed)["who"] == int(item.agent.instructions), "it is its own agent's"

    def check_copy(self, state: RunState[Any]) -> None:
        """What is written down is the run, and is not much larger than its talk."""
        run, text = state._journal.run, state.to_string()
        saved = codec.decode_run(text)
        copy = codec.replay(saved.journal)
        assert snapshot(copy) == snapshot(run)
        assert (saved.journal, copy.usage) == (state._journal.facts, run.usage)
        talk, calls = heard(copy)
        calls += sum(type(fact) is f.Asked and fact.kind != "approval" for fact in saved.journal)
        calls += sum(type(fact) is f.Began for fact in saved.journal)
        guards = sum(type(fact) is f.Guarded for fact in saved.journal)
        assert len(text.encode()) <= 1.5 * talk + 400 * calls + 150 * guards + 2048, "the size of a state is linear"

    def ending(self, state: RunState[Any]) -> Ending:
        view, run = state._view(), state._journal.run
        journal = state._journal.facts
        account, session = Account(journal), self.kept()
        for path, spot in account.spots.items():
            above = any(account.spots[path[:n]].closed for n in range(len(path)))
            assert spot.closed or above or spot.tripped is None, "what a guardrail stops is closed"
        return Ending(
            state.status,
            view.output(),
            view.input_list(),
            run.usage,
            journal,
            self.outside,
            session,
            account,
        )


def heard(run: Run) -> tuple[int, int]:
    """How large the talk of a run and its branches is as JSON, and how many calls there are in it."""
    items = [item for entry in run.entries for item in entry_items(entry)]
    items += [item for said in run.unheard for item in said_items(said)]
    size = len(json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode())
    size += sum(len(bytes(s.turn.items[s.call.item])) for s in run.open.values() if s.turn.items)
    inner = [heard(child) for child in run.children()]
    return size + sum(each[0] for each in inner), len(run.calls) + sum(each[1] for each in inner)


@contextmanager
def taped(outside: Outside) -> Iterator[list[int]]:
    """After how many facts a process may have died: what is recorded together is recorded or not."""
    marks: list[int] = []
    add, append = Journal.add, Journal.append

    def mark(journal: Journal) -> None:
        outside.facts = len(journal.facts)
        marks.append(outside.facts)

    def add_and_mark(self: Journal, fact: Any) -> None:
        add(self, fact)
        mark(self)

    def append_and_mark(self: Journal, facts: Any) -> None:
        append(self, facts)
        mark(self)

    Journal.add, Journal.append = add_and_mark, append_and_mark  # type: ignore[method-assign]
    try:
        yield marks
    finally:
        Journal.add, Journal.append = add, append  # type: ignore[method-assign]


async def told(world: World, name: str = "first", **options: Any) -> Ending:
    """How a world goes when nothing breaks."""
    play = Play(world, name, **options)
    with taped(play.outside) as marks:
        ending = await play.finish()
    ending.marks = sorted(set(marks))
    return ending


def same(one: Ending, other: Ending) -> None:
    """Two histories of one world come to the same."""
    if any(fact.error == "Boom" for fact in one.journal + other.journal if type(fact) is f.Closed):
        return  # an agent whose tool raised has failed, unless it was taken up after that
    assert other.status == one.status
    if one.status == "closed":
        return  # what was under way then is a matter of moments
    assert other.output == one.output
    assert other.talk == one.talk
    last = one.status == "exhausted"  # then the last turn is written when there are more
    kept = min(len(one.session), len(other.session)) if last else None
    assert other.session[:kept] == one.session[:kept]
    assert other.effects() == one.effects()
    closed = any(spot.closed for spot in one.account.spots.values())
    assert closed or other.usage == one.usage
