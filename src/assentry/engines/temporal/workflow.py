"""The workflow: one run. It folds facts, derives what is owed, and has activities perform it. It knows no agent.

Everything that depends on an agent's code is the result of an activity, and so is in the history: the gate's verdicts,
guardrails, instructions, previews, model calls, bodies. What is left is the core, which is pure: `fold`, `owed`,
`check` and the decisions of people. So a changed agent cannot break a replay, and a changed core can only if it folds
old facts otherwise, which golden journals forbid.

The order of commands is part of the history of every waiting run. A change here must pass the replay of the recorded
histories in the tests, or be guarded by `workflow.patched`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec.structs import replace
from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ...core import facts as f
    from ...core.rules import RUNNING, verdict_of
    from ...core.run import UNDER_WAY, deadline, overdue, owed, questions, status
    from ...errors import (
        AgentNotFound,
        AlreadyDecided,
        AssentryError,
        Conflict,
        NotPending,
    )
    from . import message as m
    from .ledger import Ledger, Path
    from .options import OF_QUEUES, EngineOptions
    from .people import (
        NeedsTool,
        decision_facts,
        earlier_decision_error,
        recorded,
        repeats,
        says,
        waiting_question,
        word_facts,
    )

STATUS = SearchAttributeKey.for_keyword("AssentryStatus")
AGENT = SearchAttributeKey.for_keyword("AssentryAgent")
TOOLS = SearchAttributeKey.for_keyword_list("AssentryTools")
ATTRIBUTES = (STATUS, AGENT, TOOLS)
"""The search attributes of a run: its status, its agent, and the tools whose calls wait for a person."""
LAST_PROJECTION = timedelta(minutes=1)
"""The longest time that a run which is over waits for the inbox's store to catch up."""
NOT_ENTERED = "NotEntered"
"""The type of the error of an activity that did not enter its body."""
FEWEST = 500
"""The length of a history from which it is left behind although nothing was recorded: many have asked how it stands."""
PATIENCE = 4
"""The number of times longer than wanted that the history may be before nothing new is begun in it."""
PAUSES = (1.0, 5.0, 30.0, 60.0)
"""The seconds before a body is tried again that could not be entered."""

SHOWN = (f.Asked, f.Left, f.Cancelled, f.Resumed, f.Granted, f.Revoked, f.Closed, f.Witnessed)
"""The facts, besides verdicts on questions, that people look for in the store's copy of a run."""

Key = tuple[Path, str | None]


def refusal(error: AssentryError) -> ApplicationError:
    """Return an error of Assentry's as one that reaches the caller of an update, with its class and its details."""
    return ApplicationError(str(error), _details(error), type=type(error).__name__, non_retryable=True)


def _details(error: AssentryError) -> dict[str, Any]:
    return {name: getattr(error, name, None) for name in ("by", "verdict", "at")}


def was_reset(run_id: str) -> str:
    """Return the error of a workflow that was reset."""
    return (
        f"The workflow of run {run_id!r} was reset. Bodies may have begun after the point that it was reset to. "
        "Nothing was recorded, and nothing begins again; begin a new run."
    )


@workflow.defn(name=m.WORKFLOW, sandboxed=False)
class RunWorkflow:
    """One run of an agent. Its id is the run's id."""

    @workflow.init
    def __init__(self, start: RawValue) -> None:
        self._unreadable: AssentryError | None = None
        try:
            self._start = m.from_wire(start, m.Start)
        except AssentryError as error:
            self._start, self._unreadable = m.Start(m.Opening("", f.NOTHING)), error
        self._id = workflow.info().workflow_id
        carried, opening = self._start.carried, self._start.opening
        self._ledger = Ledger(self._id, carried)
        source: Any = carried or opening
        self._context: m.ContextText = source.context
        self._attributes: bool = source.attributes
        self._executions = 1 if carried is None else carried.executions + 1
        self._first = self._ledger.run.seq
        """The number of facts with which this execution began."""
        self._limits = m.Limits() if carried is None else carried.limits
        self._leaving = False
        """True once the workflow waits for its handlers, to continue as new."""
        self._unkept_context: m.ContextText | None = None if carried is not None else source.context
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        """The activities under way: bodies by path and call, all else by path."""
        self._pauses: dict[Key, int] = {}
        """The number of times that each body could not be entered."""
        self._handed: m.Mark | None = None
        """The facts that an activity under way writes to the archive, if one does."""
        self._wanted = 0
        """The number of facts that the archive must have before a handler goes on."""
        self._news = 0
        """Counts what has happened that may change what is owed."""
        self._failure: m.Failure | None = None
        """The error that holds the run up, until somebody does something."""
        self._reset = False
        """True if the history has results that were given to another execution: an operator has reset the workflow."""
        self._looks = 0
        self._untold: list[str] = [] if carried is None else list(carried.untold)
        """The questions whose decisions no activity has told hooks of yet."""
        self._output = f.NOTHING
        self._shown: tuple[Any, ...] = ()
        self._projects = carried is not None and carried.projects
        """True if the inbox's store has to catch up with the archive."""
        self._projected: tuple[Any, ...] | None = None if carried is not None else ("", ())
        """The status and the questions with which the store was last told to catch up."""
        self._behind = False
        self._projection: asyncio.Task[None] | None = None
        self._options = OF_QUEUES.get(workflow.info().task_queue, EngineOptions())

    # -- the run ---------------------------------------------------------------------------------------

    @workflow.run
    async def run(self, start: RawValue) -> RawValue:
        """Drive the run to its end."""
        if self._unreadable is not None:
            raise refusal(self._unreadable)
        try:
            if self._start.carried is None:
                await self._begin()
            await self._drive()
        except (asyncio.CancelledError, ActivityError) as error:
            if is_cancelled_exception(error):
                await self._cancelled()
            raise
        while not workflow.all_handlers_finished() or self._ledger.unkept:
            await self._keep()
            await workflow.wait_condition(lambda: workflow.all_handlers_finished() or bool(self._ledger.unkept))
        await self._project_last()
        run = self._ledger.run
        if run.closed is not None:
            raise ApplicationError(run.closed.why, type=run.closed.error or "Closed", non_retryable=True)
        if status(run) == "exhausted":
            failed = self._failure or m.Failure("MaxTurnsExceeded", "The run used up its turns.")
            raise ApplicationError(failed.message, type=failed.kind, non_retryable=True)
        return m.to_wire(self._standing())

    async def _begin(self) -> None:
        opening = self._start.opening
        assert opening is not None
        order = m.Order(self._id, opening=opening)
        while True:
            try:
                report = await self._perform(m.BEGIN, order, self._options.of_agent(opening.agent))
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                self._failure = _failure_of(error)
            else:
                self._failure = None
                self._take(report, self._ledger.take(report.facts))
                self._projects = report.projects
                if self._ledger.run.began is not None:
                    return
            if self._failure is not None and self._failure.kind == AgentNotFound.__name__ and not order.patient:
                order = replace(order, patient=True)  # whoever looks is told, and a worker that has it may come
                continue
            order = replace(order, patient=False)
            await self._wait(self._news)

    async def _drive(self) -> None:
        """Have everything performed that is owed, until the run is over; wait for people and activities in between."""
        while True:
            self._refuse_reset()
            self._expire()
            before, length = self._news, workflow.info().get_current_history_length()
            leaves = length >= self._limits.events or workflow.info().is_continue_as_new_suggested()
            if length < FEWEST and self._ledger.run.seq == self._first:
                leaves = False  # an execution that does nothing helps nobody
            holds = leaves and (not self._tasks or length >= PATIENCE * self._limits.events)
            if self._failure is None and not holds:
                await self._schedule()
            if self._must_keep():
                await self._keep()
            self._show()
            self._project()
            if self._news > before or self._must_keep():
                continue
            if self._is_over():
                return
            if holds and not self._tasks:
                await self._continue(before)
            else:
                await self._wait(before)

    def _refuse_reset(self) -> None:
        """Fail if the workflow was reset: bodies may have begun after the point that it was reset to.

        Until that point the history is repeated as it was. `patched` tells it from what is new, in later replays too.
        """
        if not self._reset:
            return
        self._looks += 1  # its answer to a name stays what it was first
        if workflow.patched(f"assentry-reset-{self._looks}"):
            raise ApplicationError(was_reset(self._id), type=Conflict.__name__, non_retryable=True)

    async def _wait(self, before: int) -> None:
        """Wait until something happens, or the next deadline passes."""
        run = self._ledger.run
        until = deadline(run) if run.open and run.closed is None else None
        seconds = None if until is None else max(0.0, (until - self._now() + 1) / 1000)
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda: self._news > before, timeout=None if seconds is None else timedelta(seconds=seconds)
            )

    def _is_over(self) -> bool:
        return not self._tasks and status(self._ledger.run) in ("done", "closed", "exhausted")

    def _expire(self) -> None:
        """Reject the open questions whose deadline has passed."""
        run = self._ledger.run
        if run.open and run.closed is None:
            late = overdue(run, self._now())
            self._ledger.take(late)
            self._note_decisions(late)

    def _now(self) -> int:
        """Return the milliseconds since the run began, on the server's clock."""
        began = self._ledger.run.began
        return max(0, int(workflow.time() * 1000) - (began.at if began is not None else 0))

    async def _cancelled(self) -> None:
        """Record that Temporal was told to cancel the workflow, and wait for the bodies that have begun."""
        run = self._ledger.run
        if run.began is not None and run.cancelled is None and run.closed is None:
            self._ledger.take([f.Cancelled("temporal", at=self._now())])
        bodies = [task for (_, call), task in self._tasks.items() if call is not None]
        for (_, call), task in self._tasks.items():
            if call is None:
                task.cancel()
        if run.began is not None:
            await self._keep()  # bodies may take long, and whoever looks should know
        if bodies:
            await workflow.wait(bodies)
        if run.began is not None:
            await self._keep()
            await self._project_last()

    # -- performing ------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        """Begin an activity for each body and for each path that owes something and has none."""
        run, mine = self._ledger.run, self._tasks
        due: dict[Path, list[f.AnyEffect]] = {}
        bodies: list[f.AnyEffect] = []
        effects = owed(run, mine)
        if not effects and not mine and status(run) == "exhausted":
            effects = [f.Conclude()]  # an error handler of the agent's may give an output
        for effect in effects:
            if type(effect) is f.Execute and run.at(effect.path).calls[effect.call or ""].call.kind != "agent":
                bodies.append(effect)
            elif (effect.path, None) not in mine:
                due.setdefault(effect.path, []).append(effect)
        limit = self._limits.bodies
        if limit is not None:
            bodies = bodies[: max(0, limit - sum(call is not None for _, call in mine))]
        started = [(each, self._ledger.start(each.path, each.call or "", self._now())) for each in bodies]
        if not started and not due:
            return
        alone = len(started) + len(due) == 1 and self._handed is None and not self._limits.queues
        order = self._hand_over() if alone else None
        if order is None:  # each fact is in one message, and not in one for each activity
            await self._keep()
            order = m.Order(self._id, self._ledger.mark, context=self._context)
        self._refuse_reset()
        order = replace(order, execution=workflow.info().run_id)
        entered = [((each.path, each.call or ""), attempt) for each, attempt in started]
        entered = [each for each in entered if self._may_enter_or_leave(*each)]
        told = self._share_decisions([*(key for key, _ in entered), *((path, None) for path in due)])
        for (path, call), attempt in entered:
            self._enter(replace(order, path=path, call=call, attempt=attempt, decided=told.get((path, call), ())))
        for path, effects in due.items():
            settle = tuple(each.call or "" for each in effects if type(each) is f.Settle)
            decided = told.get((path, None), ())
            self._begin_task((path, None), self._advance(replace(order, path=path, settle=settle, decided=decided)))

    def _hand_over(self) -> m.Order | None:
        """Return an order whose activity writes all unkept facts first; None if they cannot wait for its worker.

        Facts that people see cannot, nor facts that are too many for one message.
        """
        ledger = self._ledger
        facts, upto = ledger.next_unkept()
        if upto.seq != ledger.run.seq or any(isinstance(each, SHOWN) or verdict_of(each) for each in facts):
            return None
        keeps = self._unkept_context is not None and bool(facts)
        self._unkept_context = None if keeps else self._unkept_context
        self._handed = upto if facts else None
        return m.Order(self._id, ledger.mark, facts, upto.head, keeps, context=self._context)

    def _take_back(self, order: m.Order, *, done: bool) -> None:
        """Note what became of the facts that an activity was handed, once it has ended."""
        if not order.unkept:
            return
        self._handed = None
        if done and self._ledger.mark.seq < order.upto.seq:
            self._ledger.kept(order.upto)
        elif not done and order.keeps_context and self._unkept_context is None:
            self._unkept_context = self._context

    def _note_decisions(self, facts: Iterable[f.AnyFact]) -> None:
        """Have hooks hear of the decisions among these facts, by the next activities."""
        decided = self._ledger.run.decided
        asked = [getattr(fact, "asked", None) for fact in facts if verdict_of(fact) is not None]
        self._untold += [question for question in asked if question is not None and question in decided]

    def _share_decisions(self, keys: list[Key]) -> dict[Key, tuple[str, ...]]:
        """Give each decision to one activity, which tells hooks of it: that of its call, of its path, or any."""
        shared: dict[Key, tuple[str, ...]] = {}
        for question in self._untold if keys else ():
            path, call = self._ledger.run.asked.get(question, ((), ""))
            key = next((each for each in ((path, call), (path, None)) if each in keys), keys[0])
            shared[key] = (*shared.get(key, ()), question)
        if keys:
            self._untold.clear()
        return shared

    def _may_enter_or_leave(self, key: tuple[Path, str], attempt: int) -> bool:
        """Return True if a body may be entered; else record that it was not: the run was stopped meanwhile."""
        may = self._may_enter(*key)
        if not may:
            self._ledger.leave(*key, attempt, self._now())
        return may

    def _enter(self, order: m.Order) -> None:
        """Begin the activity of a body."""
        path, call = order.path, order.call or ""
        self._begin_task(
            (path, call), self._body(order, self._agent_at(path), self._ledger.run.at(path).calls[call].tool)
        )

    def _may_enter(self, path: Path, call: str) -> bool:
        """Return True if a body that was about to be entered still is: nobody has stopped the run."""
        run, state = self._ledger.run, self._ledger.at(path, call)
        return state is not None and state.phase is RUNNING and run.cancelled is None and run.closed is None

    def _begin_task(self, key: Key, work: Coroutine[Any, Any, None]) -> None:
        async def performed() -> None:
            try:
                await work
            finally:
                del self._tasks[key]
                self._news += 1

        self._tasks[key] = asyncio.create_task(performed())

    async def _advance(self, order: m.Order) -> None:
        """Have all performed that is owed at a path and is no body."""
        try:
            report = await self._perform(m.ADVANCE, order, self._options.of_agent(self._agent_at(order.path)))
        except ActivityError as error:
            self._take_back(order, done=False)
            if not is_cancelled_exception(error):
                self._failure = _failure_of(error)
            return
        self._take_back(order, done=True)
        unchanged = self._ledger.run.seq == order.upto.seq
        taken = self._ledger.take(report.facts)
        self._take(report, taken)
        if not taken and unchanged and self._failure is None:  # the next activity would come to the same
            self._failure = m.Failure("Conflict", "Nothing that the run owes could be performed.")

    async def _body(self, order: m.Order, agent: str, tool: str) -> None:
        """Have a body entered, and record what came of it. A body whose end is not known is in doubt."""
        call = order.call or ""
        key: Key = (order.path, call)
        if (tried := self._pauses.get(key, 0)) > 0:
            await workflow.sleep(PAUSES[min(tried, len(PAUSES)) - 1])
            if not self._may_enter_or_leave((order.path, call), order.attempt):
                self._take_back(order, done=False)
                self._untold += order.decided
                return
        try:
            report = await self._perform(m.ENTER, order, self._options.of_body(agent, tool))
        except ActivityError as error:
            self._take_back(order, done=False)
            if _never_entered(error):
                self._ledger.leave(order.path, call, order.attempt, self._now())
                self._pauses[key] = tried + 1
                self._untold += order.decided
            self._reset = self._reset or _failure_of(error).kind == Conflict.__name__
            return
        self._take_back(order, done=True)
        self._pauses[key] = 0 if report.facts else tried + 1
        taken = self._ledger.take_body(order.path, call, order.attempt, report.facts, self._now())
        self._take(report, taken)

    async def _perform(self, name: str, order: m.Order, options: dict[str, Any]) -> m.Report:
        summary = order.call or "/".join(order.path) or None
        given = await workflow.execute_activity(
            name, m.to_wire(order), result_type=RawValue, summary=summary, **options
        )
        return self._noted(m.from_wire(given, m.Report))

    def _noted(self, report: m.Report) -> m.Report:
        """Note whether a report of the history was given to this execution."""
        if report.execution and report.execution != workflow.info().run_id:
            self._reset = True
        return report

    def _take(self, report: m.Report, taken: int) -> None:
        """Take over what a report has besides facts."""
        self._limits = report.limits or self._limits
        if report.context is not None:
            self._context = self._unkept_context = report.context
        if report.output:
            self._output = report.output
        if report.failure is not None:
            workflow.logger.warning("Run %s failed: %s: %s", self._id, report.failure.kind, report.failure.message)
            if not taken or report.failure.holds or status(self._ledger.run) == "exhausted":
                self._failure = report.failure

    def _must_keep(self) -> bool:
        """Return True if there are facts that the archive needs now, and that no activity under way writes."""
        ledger = self._ledger
        if self._handed is not None and self._wanted <= ledger.mark.seq:
            return ledger.run.seq > max(self._handed.seq, ledger.mark.seq)
        return bool(ledger.unkept) or (self._unkept_context is not None and ledger.mark.seq > 0)

    async def _keep(self) -> None:
        """Write all facts to the archive.

        Not by a local activity: that would write facts before they are certain. The history gets them when the workflow
        task is complete; if the worker dies before, the next task may come to others, at another time and in another
        order.
        """
        ledger = self._ledger
        while ledger.unkept or (self._unkept_context is not None and ledger.mark.seq):
            facts, upto = ledger.next_unkept()
            context, self._unkept_context = self._unkept_context, None
            order = m.Keeping(self._id, ledger.mark, facts, upto.head, context)
            try:
                given = await workflow.execute_activity(
                    m.KEEP, m.to_wire(order), result_type=RawValue, **self._options.of_keeping()
                )
            except ActivityError as error:
                if context is not None and self._unkept_context is None:
                    self._unkept_context = context
                if is_cancelled_exception(error):
                    raise
                failed = _failure_of(error)
                raise ApplicationError(failed.message, type=failed.kind, non_retryable=True) from None
            self._noted(m.from_wire(given, m.Report))
            ledger.kept(upto)

    def _project(self) -> None:
        """Have the inbox's store catch up, if a question was asked or settled, or the run has come to rest.

        An activity of its own does it, one at a time, for as long as it takes. So a store that is away holds nothing
        up.
        """
        run = self._ledger.run
        if not self._projects or not self._ledger.mark.seq:
            return
        where = status(run)
        now = (
            where if where not in UNDER_WAY else "",
            tuple(each.question.id for _, each in questions(run) if each.question),
        )
        if now != self._projected:
            self._projected, self._behind = now, True
        if self._behind and self._projection is None:
            self._projection = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        while self._behind:
            self._behind = False
            order = m.Order(self._id, self._ledger.mark)
            try:
                await workflow.execute_activity(
                    m.PROJECT, m.to_wire(order), result_type=RawValue, **self._options.of_keeping()
                )
            except ActivityError as error:
                workflow.logger.warning("Run %s: the store is behind: %s", self._id, error.cause)
        self._projection = None

    async def _project_last(self) -> None:
        """Have the store catch up with the end of the run, and wait for it, but not for ever."""
        self._project()
        if self._projection is None:
            return
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(lambda: self._projection is None, timeout=LAST_PROJECTION)

    def _agent_at(self, path: Path) -> str:
        """Return the name of the agent that works at a path."""
        run = self._ledger.run.at(path)
        if run.definition is not None:
            return run.definition.agent
        return run.began.agent.rpartition("/")[2] if run.began is not None else ""

    # -- continuing as new -----------------------------------------------------------------------------

    async def _continue(self, before: int) -> None:
        """Continue with a short history, unless something happens meanwhile.

        All is kept and no activity is under way. A handler that is under way is waited for.
        """
        self._leaving = True
        await workflow.wait_condition(lambda: workflow.all_handlers_finished() or self._news > before)
        self._leaving = False
        if self._news > before or self._ledger.unkept:
            return
        carried = replace(
            self._ledger.carry(),
            context=self._context,
            attributes=self._attributes,
            executions=self._executions,
            limits=self._limits,
            projects=self._projects,
            untold=tuple(self._untold),
        )
        workflow.continue_as_new(m.to_wire(m.Start(carried=carried)))

    # -- what people do --------------------------------------------------------------------------------

    @workflow.update(name="decide")
    async def decide(self, given: RawValue) -> RawValue:
        """Record a decision on an open question; of several deciders the first wins."""
        text = m.from_wire(given, m.DecisionText)
        try:
            facts = decision_facts(self._ledger, text, self._now())
        except NeedsTool:
            facts = await self._look_at(text)
        except AssentryError as error:
            raise refusal(error) from None
        self._record(facts)
        return m.to_wire(recorded(self._ledger, text.question))

    async def _look_at(self, text: m.DecisionText) -> list[f.AnyFact]:
        """Have an activity look at a decision with the agent's tools; return its facts, or raise the refusal."""
        await self._keep_once()
        order = m.Order(self._id, self._ledger.mark, context=self._context, decision=text)
        try:
            report = await self._perform(m.DECIDE, order, self._options.of_agent(self._agent_at(())))
        except ActivityError as error:
            report = m.Report(failure=_failure_of(error))
        if (failed := report.failure) is not None:
            if failed.kind == AlreadyDecided.__name__:
                raise refusal(earlier_decision_error(self._ledger, text))
            raise ApplicationError(failed.message, type=failed.kind, non_retryable=True)
        if not self._ledger.refuses(report.facts[:1]):
            return report.facts
        earlier = self._ledger.run.decided.get(text.question)
        if earlier is not None and says(earlier) == says(report.facts[0]):
            return []  # the same decision, sent twice at the same time
        raise refusal(earlier_decision_error(self._ledger, text))

    @decide.validator
    def _check_decision(self, given: RawValue) -> None:
        """Refuse a decision that cannot be recorded, before anything of it is in the history."""
        try:
            decision_facts(self._ledger, m.from_wire(given, m.DecisionText), self._now())
        except NeedsTool:
            return
        except AssentryError as error:
            raise refusal(error) from None

    @workflow.query(name="decided")
    def decided(self, given: RawValue) -> RawValue:
        """Return what became of a decision. A run that is over takes no updates, and can still be asked this."""
        text = m.from_wire(given, m.DecisionText)
        try:
            decision_facts(self._ledger, text, self._now())
            if text.question not in self._ledger.run.decided:
                raise NotPending(f"Question {text.question} is not open any more: the run is over.")
        except NeedsTool:
            if not repeats(self._ledger.run.decided.get(text.question), text):
                return m.to_wire(m.DecisionOutcome(failure=_refused(earlier_decision_error(self._ledger, text))))
        except AssentryError as error:
            return m.to_wire(m.DecisionOutcome(failure=_refused(error)))
        return m.to_wire(m.DecisionOutcome(recorded(self._ledger, text.question)))

    async def _keep_once(self) -> None:
        """Wait until the archive has all facts so far; the run's own loop writes them."""
        wanted = self._wanted = self._ledger.run.seq
        self._news += 1
        await workflow.wait_condition(lambda: self._ledger.mark.seq >= wanted)

    def _record(self, facts: list[f.AnyFact]) -> None:
        for fact in facts:
            self._ledger.add(fact)
        self._note_decisions(facts)
        self._failure = None
        self._news += 1

    @workflow.update(name="tell")
    async def tell(self, given: RawValue) -> RawValue:
        """Record what a person does to the run: cancel it, resume it, give it input, revoke a grant, or retry it."""
        try:
            self._record(word_facts(self._ledger, m.from_wire(given, m.Word), self._now()))
        except AssentryError as error:
            raise refusal(error) from None
        return m.to_wire(recorded(self._ledger))

    @tell.validator
    def _check_word(self, given: RawValue) -> None:
        try:
            word_facts(self._ledger, m.from_wire(given, m.Word), self._now())
        except AssentryError as error:
            raise refusal(error) from None

    @workflow.signal(name="stepped")
    def stepped(self, given: RawValue) -> None:
        """Record steps of a body that goes on, and nothing else: anybody may send a signal."""
        try:
            facts = m.from_wire(given, m.Report).facts
        except AssentryError as error:
            workflow.logger.warning("Run %s was told of steps that cannot be read: %s", self._id, error)
            return
        self._ledger.take(fact for fact in facts if type(fact) is f.Stepped)
        self._news += 1

    # -- what people see -------------------------------------------------------------------------------

    @workflow.query(name="standing")
    def standing(self) -> RawValue:
        """Return where the run stands, and what waits for a person."""
        return m.to_wire(self._standing())

    @workflow.update(name="settled", unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def settled(self) -> RawValue:
        """Wait until the run waits for a person, is over, or cannot go on; then return where it stands.

        It returns while the run is working if the workflow continues as new; whoever waits asks again.
        """
        await workflow.wait_condition(self._is_settled)
        if workflow.info().is_continue_as_new_suggested():  # the server counts updates, too
            self._news += 1
        return m.to_wire(self._standing())

    def _is_settled(self) -> bool:
        run = self._ledger.run
        busy = bool(self._tasks or self._ledger.unkept)
        if run.began is None or self._leaving:
            return self._leaving or self._failure is not None
        return not busy and (self._failure is not None or status(run) != "working")

    def _standing(self) -> m.Standing:
        ledger, run = self._ledger, self._ledger.run
        where = status(run) if run.began is not None else "idle"
        if where == "waiting" and self._tasks:
            where = "working"
        return m.Standing(
            self._id,
            where,
            run.began.agent if run.began is not None else "",
            run.seq,
            ledger.head.hex(),
            run.turns,
            tuple(waiting_question(path, state) for path, state in questions(run)) if run.open else (),
            self._output,
            self._failure,
            self._executions,
            ledger.mark,
        )

    def _show(self) -> None:
        """Set the search attributes, if they are registered and have changed."""
        run = self._ledger.run
        if not self._attributes or run.began is None:
            return
        where = "failed" if self._failure is not None else status(run)
        tools = sorted({state.tool for _, state in questions(run)}) if run.open else []
        now = (where, run.began.agent, tools)
        if now != self._shown:
            self._shown = now
            workflow.upsert_search_attributes(
                [STATUS.value_set(where), AGENT.value_set(run.began.agent), TOOLS.value_set(tools)]
            )


def _never_entered(error: ActivityError) -> bool:
    """Return True if an activity that failed cannot have entered its body."""
    cause = error.cause
    if isinstance(cause, TimeoutError):
        return cause.type is TimeoutType.SCHEDULE_TO_START
    return isinstance(cause, ApplicationError) and cause.type == NOT_ENTERED


def _refused(error: AssentryError) -> m.Failure:
    return m.Failure(type(error).__name__, str(error), _details(error))


def _failure_of(error: ActivityError) -> m.Failure:
    cause = error.cause or error
    kind = cause.type if isinstance(cause, ApplicationError) and cause.type else type(cause).__name__
    return m.Failure(kind, cause.message if isinstance(cause, ApplicationError) else str(cause))
