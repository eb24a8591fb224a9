"""A slice of a drive: the part of a run that one activity performs, with the same driver, gate and door as any run.

A slice reads the run's facts from the archive, performs what its order names, and reports the facts that it made. It
writes none of them: the workflow does, if they are still legal then. A slice is one of these:

| slice | performs | may be repeated |
|---|---|---|
| begin | the first facts, and what follows as in advance | yes |
| advance | all that is owed at one path and is no body: at most one model call, rules, guardrails, the end | yes |
| enter | the door of one call: the last look and the body | only if the tool is idempotent |
| decide | a decision that needs the tool's definition | yes |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from ...approval.decision import Decider
from ...core import facts as f
from ...core.facts import AnyFact
from ...core.run import ENDED
from ...core.wording import clean_text
from ...errors import AgentNotFound, AssentryError, Conflict, ContextMissing, ModelFailed, RunNotFound, UsageError
from ...ids import bound_to_run
from ...runtime.config import RunConfig
from ...runtime.drive import RunPlace, begin_run, drive_run, resume_run
from ...runtime.driver import Driver
from ...runtime.journal import NOT_STORED, StoredPart
from ...runtime.result import RunResult
from ...runtime.saved_context import LEFT_OUT, load_context, save_context
from ...runtime.scope import Scope
from ...runtime.state import RunState, resumption, state_of
from ...runtime.store_writer import offered_tools, read_past
from ...runtime.value import output_json
from ...store.projection import agents_behind
from ...store.record import RunRecord, SavedContext, Stored
from ...store.stop import stopped
from ..claimed_run import DriveSettings
from ..worker import HOPELESS, one_line
from .archive import ENGINE, JournalArchive
from .message import ContextText, Failure, Limits, Opening, Order, Report

Tell = Callable[[list[AnyFact]], Awaitable[None]]
"""Tells the workflow of facts while the slice goes on."""

ADVICE = "Begin a new run with a higher max_turns."
TELLING = (f.Defined, f.Guarded)
"""The facts before a failure that need not be kept: the next attempt makes them again."""
FIRST = (f.Began, f.Said, *TELLING)
"""The facts before a failure after which the run owes what it owed before."""


STOPPED = ("cancelled", "closed")
"""The statuses of a run, in the archive, in which no body is entered, whenever it was ordered."""


class Repeatable(Exception):
    """A slice failed, made nothing that counts, and may be performed again."""


class NotEntered(Exception):
    """A slice failed before the body of its call was entered."""


class SliceWriter:
    """The writer of a slice's journal. The workflow stores its facts; only steps of a body are told of at once."""

    joined = False
    fence = 0
    counts_uses = False
    """A slice is judged without the store's standing grants: the workflow, not the store, is the authority on it."""

    def __init__(self, store: Any, facts: Sequence[AnyFact], tell: Tell) -> None:
        self.store = store
        self.unwritten: list[AnyFact] = []
        self._facts, self._told, self._tell = facts, len(facts), tell

    def stored_part(self) -> StoredPart:
        """Return nothing: the slice has no store of its own."""
        return NOT_STORED

    async def own(self, *, new: bool = False) -> None:
        """Do nothing: the workflow is the only one that gives out this part of the run."""

    async def flush(self) -> None:
        """Tell the workflow of new steps, so that none runs again if this process dies."""
        steps: list[AnyFact] = [fact for fact in self._facts[self._told :] if type(fact) is f.Stepped]
        self._told = len(self._facts)
        if steps:
            await self._tell(steps)

    async def check_stops(self, path: tuple[str, ...], call: str) -> None:
        """Do nothing: the activity has looked at the stops before the slice."""

    def check(self) -> None:
        """Do nothing: a slice that is not wanted any more is cancelled."""

    async def holds(self) -> bool:
        """Return True."""
        return True


class SliceDriver(Driver):
    """The driver of a slice: it performs what its order names, and leaves everything else."""

    gentle = True
    partial = True

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.order = Order("")
        self._asked = self._entered = False
        self.stays_out = False
        """True if another definition was accepted for the call. It is recorded before the body is entered."""
        scope.journal.listen(self._note)

    def _note(self, fact: AnyFact) -> None:
        if fact.path == self.order.path:
            self._asked = self._asked or isinstance(fact, f.Replied | f.Proposed)
            self._entered = self._entered or getattr(fact, "call", None) == self.order.call

    def _expire(self) -> None:
        """Leave deadlines to the workflow, whose timers they are."""

    def _allowed(self, todo: list[f.AnyEffect]) -> list[f.AnyEffect]:
        return [effect for effect in super()._allowed(todo) if self._takes(effect)]

    def _takes(self, effect: f.AnyEffect) -> bool:
        """Return True if this slice performs the effect. It asks a model once, and enters its call's body once."""
        order, kind = self.order, type(effect)
        if effect.path != order.path:
            return False
        if kind is f.Execute and self._has_body(effect):
            return effect.call == order.call and not self._entered and not self.stays_out
        if order.call is not None:
            return False
        if kind is f.Settle:
            return effect.call in order.settle
        return kind is not f.AskModel or not self._asked


class Slices:
    """Performs slices of the runs of some agents."""

    def __init__(self, settings: DriveSettings, archive: JournalArchive, store: Any, limits: Limits) -> None:
        self.settings = settings
        self.archive = archive
        self.store = store
        self.limits = limits

    async def begin(self, order: Order, now: float) -> Report:
        """Begin a run, and perform what it owes first."""
        try:
            driver = await self._begin(order, now)
        except AgentNotFound as error:
            if order.patient:
                raise Repeatable(one_line(error)) from error
            return Report(failure=failure_of(error))
        except Exception as error:
            return Report(failure=_failure(order, error, ()))
        return replace(await self._drive(driver, order, 0, _ignore), limits=self.limits)

    async def _begin(self, order: Order, now: float) -> SliceDriver:
        opening = order.opening
        assert opening is not None
        config = self._config(now, opening.started_by)
        agent = self.settings.agents.get(opening.agent)
        saved = saved_of(opening.context)
        record = RunRecord(id=order.run, agent=opening.agent, status="idle", seq=0, began=0, changed=0)
        context = await self.settings.own_context(saved, record)
        if context is None:
            context = load_context(opening.context.json, saved.kind, None, config.context_deserializer, False)
        place = await self._place_of(opening, order.run)
        turns, hooks = opening.max_turns, self.settings.hooks
        return begin_run(agent, opening.input, context, turns, config, hooks, place, SliceDriver)

    async def _place_of(self, opening: Opening, run_id: str) -> RunPlace:
        session = await self.settings.session(opening.session)
        if opening.session is not None and session is None:
            raise UsageError(f"The run is to be kept in session {opening.session!r}; give the plugin sessions=...")
        place = RunPlace(session, opening.conversation, run=run_id, engine=ENGINE, advice=ADVICE)
        if opening.follows is None:
            return place
        try:
            before = await self.store.record(opening.follows)
        except RunNotFound as error:
            raise UsageError(f"No run can follow one that is not there. {error}") from None
        if before.status not in ENDED:
            raise UsageError(
                f"Run {before.id!r} is not over, so no run can follow it yet. Give it input with say(...)."
            )
        return place._replace(thread=before.thread or before.id, follows=before.id)

    async def perform(self, order: Order, now: float, tell: Tell) -> Report:
        """Perform a slice of a run: advance it at a path, or enter the body of a call."""
        try:
            if order.unkept:
                context = saved_of(order.context) if order.keeps_context else None
                await self.archive.keep(order.run, order.mark, order.unkept, order.head, context)
            stored = await self.archive.load(order.run, order.upto)
            if order.call is not None and stored.record.status in STOPPED:
                raise Conflict(
                    f"The run was {stored.record.status} before the body of call {order.call!r} was entered."
                )
            if order.call is not None:
                await self._check_stops(stored, order)
            stored = _without_start(stored, order)
            driver = await self._resume(stored, order, now)
        except Exception as error:
            return Report(failure=_failure(order, error, ()))
        return await self._drive(driver, order, len(stored.facts), tell)

    async def _check_stops(self, stored: Stored, order: Order) -> None:
        """Raise `AgentStopped` while a stop holds for an agent that the call is made for; the workflow tries again."""
        if not (await self.store.stops(limit=1)).items:
            return
        run, call = stored.run(talks=False), order.call or ""
        behind = agents_behind(run, order.path, call) if call in run.at(order.path).calls else ()
        if (stop := await self.store.holding_stop(stored.record.agent, *behind)) is not None:
            raise stopped(stop, stored.record.id)

    async def _resume(self, stored: Stored, order: Order, now: float) -> SliceDriver:
        state, context, config = await self._open(stored, order, now)
        first = order.call is None and not order.path  # the one slice at a time that may write the session
        session = await self.settings.session(_began(stored).session) if first else None
        place = RunPlace(session, engine=ENGINE, partial=not first, advice=ADVICE)
        driver = resume_run(
            resumption(state).graph.root, state, context, None, config, self.settings.hooks, place, SliceDriver
        )
        run, facts = driver.journal.run, driver.journal.facts
        decisions = [run.decided[question] for question in order.decided if question in run.decided]
        fitted = facts[len(stored.facts) :]
        driver.scope.hooks.unseen = [*decisions, *fitted]
        driver.stays_out = any(type(fact) is f.Redefined and fact.call == order.call for fact in fitted)
        return driver

    async def decide(self, order: Order, now: float) -> Report:
        """Return the facts of a decision, made with the tools of the agent; the error is the report's failure."""
        given = order.decision
        assert given is not None
        stored = await self.archive.load(order.run, order.mark)
        state, _, _ = await self._open(stored, order, now)
        who = Decider(given.by, given.groups, given.shown, given.looked)
        try:
            state.decide(given.question, given.decision, who, given.digest, given.grant)
        except AssentryError as error:
            return Report(failure=failure_of(error))
        return Report(facts=list(resumption(state).journal.facts[len(stored.facts) :]))

    async def _open(self, stored: Stored, order: Order, now: float) -> tuple[RunState[Any], Any, RunConfig]:
        """Return the run's state, the worker's own context if the run has none, and the settings."""
        config, saved = self._config(now), saved_of(order.context)
        stored = replace(stored, context=saved)
        context = await self.settings.own_context(saved, stored.record)
        with bound_to_run(order.run):  # if a tool has changed, there is a new question
            state = state_of(self.settings.agent(stored), stored, context, config)
        return state, context, config

    def _config(self, now: float, started_by: str | None = None) -> RunConfig:
        """Return the settings with the clock of the server, of which an activity knows when it began."""
        begun, config = time.monotonic(), self.settings.config
        by = started_by if started_by is not None else config.started_by
        return replace(config, clock=lambda: now + time.monotonic() - begun, started_by=by)

    async def _drive(self, driver: SliceDriver, order: Order, known: int, tell: Tell) -> Report:
        """Drive the slice, and return its report; `known` is the number of facts that the workflow has."""
        driver.order = order
        journal = driver.journal
        journal.writer = SliceWriter(self.store, journal.facts, tell)
        failure: Failure | None = None
        try:
            await read_past(journal, self.store)
            with bound_to_run(order.run):
                await drive_run(driver)
        except Exception as error:
            failure = _failure(order, error, journal.facts[known:])
        facts = list(journal.facts[known:])
        asked = [fact for fact in facts if type(fact) is f.Asked]
        if asked:
            await self.archive.define(offered_tools(driver.scope, asked))
        output = f.NOTHING
        if journal.run.concluded is not None:
            output = output_json(RunResult(driver.scope).final_output)[0]
        context = None
        try:
            context = self._changed_context(driver, order)
        except ContextMissing as error:  # the facts count: a body may have run
            failure = failure or Failure(type(error).__name__, str(error), holds=True)
        return Report(facts, context, failure, output)

    def _changed_context(self, driver: SliceDriver, order: Order) -> ContextText | None:
        """Return the context, if the slice has changed it; the worker's own context is not kept."""
        before = order.opening.context if order.opening is not None else order.context
        if not before.json and (self.settings.context is not None or before.kind == LEFT_OUT):
            return None
        json, kind = save_context(driver.scope.ctx.context, driver.scope.config.context_serializer, False)
        now = ContextText(json, kind if before.kind is None or not json else before.kind)
        return now if bytes(now.json) != bytes(before.json) else None


async def _ignore(facts: list[AnyFact]) -> None:
    """Tell nobody: nothing but a body takes steps."""


def _failure(order: Order, error: Exception, facts: Sequence[AnyFact]) -> Failure:
    """Return what the workflow is told of an error, or raise `Repeatable` or `NotEntered` in its place."""
    if order.call is not None and not any(type(fact) is f.Started for fact in facts):
        if not facts:
            raise NotEntered(one_line(error)) from error
    elif order.call is None and is_repeatable(error) and all(isinstance(fact, TELLING) for fact in facts):
        raise Repeatable(one_line(error)) from error
    idle = order.call is None and all(isinstance(fact, FIRST) for fact in facts)
    return replace(failure_of(error), holds=idle and not is_repeatable(error))


def is_repeatable(error: BaseException) -> bool:
    """Return True if the same slice may succeed later."""
    if isinstance(error, AgentNotFound):
        return True  # another worker may have the agent
    if isinstance(error, ModelFailed):
        return error.retryable
    return not isinstance(error, (*HOPELESS, UsageError, asyncio.CancelledError))


def failure_of(error: BaseException) -> Failure:
    """Return an error as the workflow records it."""
    return Failure(type(error).__name__, clean_text(str(error))[0] or type(error).__name__)


def saved_of(context: ContextText) -> SavedContext:
    """Return a context from its form on the wire."""
    return SavedContext(bytes(context.json) or None, context.kind)


def context_text(saved: SavedContext) -> ContextText:
    """Return a context in its form on the wire."""
    return ContextText(Raw(saved.json) if saved.json else f.NOTHING, saved.kind)


def _began(stored: Stored) -> f.Began:
    began = stored.facts[0]
    assert type(began) is f.Began
    return began


def _without_start(stored: Stored, order: Order) -> Stored:
    """Return the run without the `Started` that the workflow has recorded for this slice: its door records it again."""
    if order.call is None:
        return stored
    after = stored.before.snapshot.seq if stored.before is not None and stored.is_late else 0
    own = (order.call, order.attempt, order.path)
    tail = [
        fact
        for fact in stored.facts[after:]
        if not (type(fact) is f.Started and (fact.call, fact.attempt, fact.path) == own)
    ]
    facts: Any = stored.before.facts(tail) if after and stored.before is not None else tail
    return replace(stored, facts=facts)
