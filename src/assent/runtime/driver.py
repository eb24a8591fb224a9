"""The driver: performs the effects that a run owes until nothing is owed. Plain, sync and streamed runs all use it.

There is no separate path for resuming: a run that was paused, saved or interrupted owes its next effects like any
other. Each effect has its own module; the driver only orders them, and handles failure and cancellation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..agent import Agent
from ..approval.gate import Arguments
from ..context import RunContextWrapper
from ..core import facts as f
from ..core.digest import text as clean_text
from ..core.run import UNDER_WAY, CallState, Run, overdue, owed, status
from ..core.transcript import Item
from ..errors import (
    Conflict,
    IllegalFact,
    NotFound,
    Overtaken,
    SessionFailed,
    StoreFailed,
    TripwireTriggered,
    UsageError,
)
from ..hooks import RunHooks
from ..sessions.session import Session
from ..tools.delegation import AgentTool
from ..tools.tool import Tool
from .agent_graph import AgentGraph
from .approval_step import judge_all, judge_one, tell
from .branch import close_branch
from .config import RunConfig
from .control import RunControl
from .definition import resolve
from .door import enter
from .final_output import conclude
from .guardrail_step import guard_input, input_guardrails, tripwire
from .hook_dispatch import HookDispatch
from .journal import Journal
from .model_call import ask_model
from .recovery import settle
from .session_sync import keep, patience
from .sync import Home
from .view import Outputs, View

if TYPE_CHECKING:
    from .observe import Observer
    from .state import RunState
    from .store_writer import StoreWriter

log = logging.getLogger("assent")

Path = tuple[str, ...]
Key = tuple[Path, str | None]


class Driver:
    """One drive of one run."""

    writer: StoreWriter | None = None
    """The writer to the run's store; None without a store."""
    past: Sequence[Item] = ()
    """The conversation of the runs before, as items."""
    kept: int | None = None
    """The number of the run's items that are in the session; None before they are counted."""
    writing: asyncio.Task[None] | None = None
    """The task that is writing to the session."""
    loading: asyncio.Timeout | None = None
    """The timeout of reading the session; it has a limit only after an immediate stop."""
    observer: Observer | None = None
    """The observer that makes the run's spans; None if the run is not traced."""
    on_delta: Callable[[Item], None] | None = None
    gentle = False
    """True if the drive can be stopped while bodies go on; each long effect then has its own task."""
    stop: Literal["immediate", "after_turn"] | None = None
    unseen: Sequence[f.AnyFact] = ()
    """The facts that were recorded while nobody drove the run."""
    hears = False
    """True once the run or an active agent has hooks; they then receive approval events."""
    left: RunState[Any] | None = None
    """The run's state after this drive, once somebody has asked for it."""
    task: asyncio.Task[Any] | None = None
    cancels = 0
    """The task's number of cancellation requests when the drive began."""

    def __init__(
        self,
        journal: Journal,
        graph: AgentGraph,
        config: RunConfig,
        context: Any,
        outputs: Outputs,
        *,
        hooks: RunHooks[Any] | None = None,
        session: Session | None = None,
    ) -> None:
        self.journal = journal
        self.graph = graph
        self.config = config
        self.audience = HookDispatch(hooks)
        self.session = session
        self.outputs = outputs
        """The values that bodies returned in this process, as Python objects."""
        self.home = Home()
        self.control = RunControl(self, journal, graph, self.home)
        self.ctx: RunContextWrapper[Any] = RunContextWrapper(context, self.control)
        self.before: list[Run] = []
        """The runs before, whose conversation this run continues, oldest first."""
        self.busy: dict[Key, asyncio.Task[None]] = {}
        self.dropped: set[asyncio.Task[None]] = set()
        """Tasks that were cancelled on purpose, because their run or branch has failed."""
        self.broken: dict[Path, BaseException] = {}
        """The errors of the run and branches that failed, by path. Nothing new is begun there."""
        self.tripped: set[Path] = set()
        """The paths of the run and branches that a guardrail has stopped."""
        self.errors: dict[Path, Exception] = {}
        """The errors with which branches were closed in this drive, by path."""
        self.read: dict[tuple[Path, str], Arguments] = {}
        """The arguments that the gate read and let pass in this drive; the door uses them without reading again."""
        limit = config.max_parallel_tools
        self.slots = asyncio.Semaphore(limit) if limit is not None else None

    # -- the loop --------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Drive the run until it waits for somebody or is over."""
        self.task = asyncio.current_task(self.home.loop)
        assert self.task is not None, "a coroutine that runs is in a task"
        self.cancels = self.task.cancelling()
        self._listen()
        try:
            if self.stop == "immediate":  # stopped before the drive began
                await self._wind_down()
                return
            if self.hears:
                await self.own()
            while True:
                await self._drive(self.task)
                if self.session is not None:
                    await keep(self, self.session)
                if self.writer is None or await self.writer.finish():
                    break
        except asyncio.CancelledError:
            if self.stop != "immediate" or self.task is None:
                raise
            self.task.uncancel()
            await self._wind_down()
        finally:
            left = [*self.busy.values(), *([self.writing] if self.writing is not None else [])]
            for work in left:
                work.cancel()
            if left:
                await asyncio.wait(left)
            if self.busy or self.broken:
                self._close_tripped()

    async def own(self, *, new: bool = False) -> None:
        """Acquire the lease before running user code; with `new`, also for a run that is not stored yet."""
        writer = self.writer
        if writer is not None and not writer.lease.acquired and (new or writer.seq):
            await writer.own()

    @property
    def fence(self) -> int:
        """The fencing token of the lease that this drive holds, or acquires with its first write; 0 without a store."""
        return self.writer.lease.next_fence if self.writer is not None else 0

    def _listen(self) -> None:
        audience, run = self.audience, self.journal.run
        if audience.hooks is not None or self._is_hooked(run):
            self.hear()
        for path, state in open_branches(run):
            tool = self.graph.of(state).tools.get(state.tool)
            if isinstance(tool, AgentTool):
                audience.follow(self, path, tool, state)
        if audience.streams:
            for fact in self.unseen:
                audience.heard(self, fact)

    def _is_hooked(self, run: Run) -> bool:
        """Return True if the active agent of the run or of an open branch has hooks of its own."""
        if run.agent and self.graph.seat(run.agent).agent.hooks is not None:
            return True
        return any(self._is_hooked(state.child) for state in run.open.values() if state.child is not None)

    def hear(self) -> None:
        """Send approval events to hooks from now on, and those that came while nobody drove the run."""
        if not self.hears:
            self.hears = True
            for fact in self.unseen:
                self.audience.note(fact)
            self.journal.listen(self.audience.note)

    def _take_up(self) -> None:
        """Apply expired deadlines and earlier tripwires."""
        run = self.journal.run
        late = overdue(run, self.journal.now()) if run.open else []
        if late:
            self.journal.append(late)
        for path in [(), *[path for path, _ in open_branches(run)]]:
            cut_off = tripwire(self, path) if self.run_at(path).guarded else None
            if cut_off is not None:
                self.fail(path, cut_off)

    async def _drive(self, task: asyncio.Task[Any]) -> None:
        busy, broken, audience, journal = self.busy, self.broken, self.audience, self.journal
        self._take_up()
        while True:
            if task.cancelling() > self.cancels:  # a body may have caught the cancellation; the run stops anyway
                raise asyncio.CancelledError
            if audience.noted or audience.waiting:
                await self._attempt((), audience.deliver(self))
            if self.writer is not None and not broken:
                self.writer.lease.check("begin")
            todo = owed(journal.run, busy)
            if busy or broken or self.stop is not None:
                todo = self._allowed(todo)
                if broken and self._give_up():
                    continue
            if not todo:
                if not busy:
                    return
                await self._wait()
            elif len(todo) == 1 and not busy and not self.gentle:
                effect = todo[0]
                kind = type(effect)
                if kind is f.AskModel and self.writer is not None:
                    self.writer.kick()  # write while the model is called
                work = PERFORM[kind](self, effect)
                try:
                    # A body gets its own task, so that it cannot cancel or change the task of the drive.
                    await (self.home.loop.create_task(work) if kind is f.Execute and self._has_body(effect) else work)
                except Exception as error:
                    self.fail(effect.path, error)
            else:
                await self._perform(todo)

    def _has_body(self, effect: f.AnyEffect) -> bool:
        return self.state_of(effect).call.kind != "agent"

    async def _attempt(self, path: Path, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self.fail(path, error)

    def stopping(self) -> bool:
        """Return True if the current task was cancelled since the drive began."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > (self.cancels if task is self.task else 0)

    def _allowed(self, todo: list[f.AnyEffect]) -> list[f.AnyEffect]:
        """Return the owed effects that may be begun now."""
        todo = [effect for effect in todo if key_of(effect) not in self.busy]
        if self.broken:
            todo = [effect for effect in todo if not any(under(effect.path, path) for path in self.broken)]
        if self.stop == "after_turn" and not self.busy and any(type(e) is f.AskModel and not e.path for e in todo):
            self.journal.add(f.Cancelled("local", at=self.journal.now()))
            return []
        return todo

    async def _perform(self, todo: list[f.AnyEffect]) -> None:
        """Perform the quick effects, and begin a task for each long one."""
        judging = [effect for effect in todo if type(effect) is f.Judge]
        if judging:
            await judge_all(self, judging)
        guards = [key for key in [*map(key_of, todo), *self.busy] if is_guard(key[1])]
        held = {path for path, call in guards if self._blocks(path, call)}
        begun = False
        for effect in todo:
            kind = type(effect)
            if kind in _LONG:
                if not judging and not (kind is f.AskModel and effect.path in held):
                    begun = True
                    self.busy[key_of(effect)] = asyncio.create_task(PERFORM[kind](self, effect))
            elif kind is not f.Judge:
                begun = True
                await self._attempt(effect.path, PERFORM[kind](self, effect))
        if not begun and not judging:
            await self._wait()  # the model call waits for a guardrail that it may not overlap

    def _blocks(self, path: Path, key: str | None) -> bool:
        """Return True if the model call must wait for this guardrail."""
        run = self.run_at(path)
        seat = self.graph.seat(run.began.agent if run.began is not None else run.agent)
        guardrail = input_guardrails(seat, self.config, path).get((key or "")[1:])
        return guardrail is None or not guardrail.run_in_parallel  # a missing guardrail may be a blocking one

    async def _wait(self) -> None:
        events: list[asyncio.Future[None]] = list(self.busy.values())
        if self.writer is not None:
            self.writer.kick()
            events.append(self.writer.hear())
        done, _ = await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        for key in [key for key, task in self.busy.items() if task in done]:
            task = self.busy.pop(key)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is not None and (task not in self.dropped or isinstance(error, TripwireTriggered)):
                self.fail(key[0], error)
            self.dropped.discard(task)

    # -- failing and stopping ----------------------------------------------------------------------

    def fail(self, path: Path, error: BaseException) -> None:
        """Stop the run or branch that failed: begin nothing new, cancel its model call, and let its bodies end.

        A failure in a branch becomes the outcome of its call. Usage, conflict, not-found and store errors and the
        exceptions of hooks stop the whole run.
        """
        if isinstance(error, IllegalFact) and self.writer is not None and self.writer.joined:
            error = Overtaken(f"Others have changed run {self.journal.run.id!r} meanwhile: {error}")
        fault = isinstance(error, UsageError | Conflict | NotFound | StoreFailed) or any(
            error is each for each in self.audience.faults
        )
        if not isinstance(error, Exception) or fault:
            path = ()
        if isinstance(error, TripwireTriggered) and not isinstance(self.broken.get(path), TripwireTriggered):
            self.broken[path] = error  # a tripwire closes the run, so it replaces any other error
        self.broken.setdefault(path, error)
        for (where, call), task in self.busy.items():
            if under(where, path) and (call is None or is_guard(call)) and task not in self.dropped:
                self.dropped.add(task)
                task.cancel()

    def stopped(self, path: Path) -> bool:
        """Return True if this run or branch, or an outer one, has failed; nothing new is begun in it."""
        failed = bool(self.tripped or self.broken)
        return failed and any(under(path, where) for where in (*self.tripped, *self.broken))

    def _give_up(self) -> bool:
        """Close the failed branches in which nothing runs any more; raise the error of the run itself.

        Return True if a branch was closed.
        """
        closed = False
        for path, error in sorted(self.broken.items(), key=lambda each: -len(each[0])):  # inner branches first
            if any(under(where, path) for where, _ in self.busy):
                continue
            if path or isinstance(error, TripwireTriggered):
                del self.broken[path]
                self._close(path, error)
                closed = True
            if not path:
                raise error
            if isinstance(error, Exception):
                self.errors[path] = error
        return closed

    def _close(self, path: Path, error: BaseException) -> None:
        why = clean_text(str(error))[0] or type(error).__name__
        self.journal.add(f.Closed(why, type(error).__name__, at=self.journal.now(), path=path))

    def _close_tripped(self) -> None:
        """Close the run and branches with a tripwire, even if another error has stopped the drive meanwhile."""
        ended = [(path, task) for (path, _), task in self.busy.items() if not task.cancelled()]
        errors = [*self.broken.items(), *((path, task.exception()) for path, task in ended)]
        for path, error in sorted(errors, key=lambda each: -len(each[0])):
            if isinstance(error, TripwireTriggered) and self.run_at(path).closed is None:
                self._close(path, error)

    def halt(self, mode: Literal["immediate", "after_turn"]) -> None:
        """Stop the run before its next turn, or at once, with a grace period for the bodies that have begun.

        After an immediate stop, further calls do nothing.
        """
        if self.stop == "immediate":
            return
        self.stop = mode
        if mode == "immediate" and self.task is not None:
            self.task.cancel()
        self.limit_loading()

    def limit_loading(self) -> None:
        """Set a timeout for reading the session, if it is being read when the run is stopped at once."""
        if self.loading is not None and self.stop == "immediate":
            self.loading.reschedule(self.home.loop.time() + patience(self.config))

    async def _wind_down(self) -> None:
        run = self.journal.run
        if status(run) in UNDER_WAY:
            self.journal.add(f.Cancelled("local", at=self.journal.now()))
        bodies = [task for (path, call), task in self.busy.items() if self._is_body(path, call)]
        for task in self.busy.values():
            if task not in bodies:
                task.cancel()
        if bodies:
            await asyncio.wait(bodies, timeout=self.config.cancel_grace)
        for task in self.busy.values():
            task.cancel()
        if self.busy:
            await asyncio.wait(self.busy.values())
        for (path, _), task in self.busy.items():
            error = None if task.cancelled() else task.exception()
            if isinstance(error, TripwireTriggered):
                self.fail(path, error)
            elif error is not None and not isinstance(error, IllegalFact):
                log.warning("While a run was stopped, this failed", exc_info=error)
        self.busy.clear()
        if self.broken:
            self._give_up()
        if self.session is not None:
            await self._kept(self.session)

    async def _kept(self, session: Session) -> None:
        try:
            async with asyncio.timeout(patience(self.config)):
                await keep(self, session)
        except TimeoutError:
            raise SessionFailed(
                f"Session {session.session_id!r} did not take what was done before the run was stopped. Resume the "
                "state to write it."
            ) from None

    def _is_body(self, path: Path, call: str | None) -> bool:
        state = self.run_at(path).calls.get(call or "")
        return state is not None and state.attempt > 0

    def watch(self) -> None:
        """Require the input guardrails to check input that they have not seen yet."""
        run = self.journal.run
        if run.began is not None and run.unheard and not run.guards and run.watched < run.said:
            guards = tuple(input_guardrails(self.graph.seat(run.began.agent), self.config, ())) or run.armed
            if guards:  # the current ones, or else the recorded ones: none is skipped because it was not given again
                self.journal.add(f.Awaited(guards, at=self.journal.now()))

    def restart(self) -> None:
        """Forget the end of the last drive, because the journal has changed."""
        self.kept = None
        for kept in (self.broken, self.tripped, self.errors, self.read, self.dropped):
            kept.clear()

    def let_go(self) -> None:
        """Drop the writer and the listeners, once nobody resumes the run from this driver.

        Driver and writer refer to each other, so that only the garbage collector would free them.
        """
        self.writer = self.journal.writer = None
        self.journal.listeners = ()

    # -- lookups ---------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent[Any]:
        """The agent that the run began with."""
        return self.graph.root

    def run_at(self, path: Path) -> Run:
        """Return the run, or the branch under these calls."""
        return self.journal.run.at(path) if path else self.journal.run

    def view(self, path: Path) -> View:
        """Return a view of the run or of a branch."""
        return View(self.journal.run, self.graph, self.outputs, path)

    def state_of(self, effect: f.AnyEffect) -> CallState:
        """Return the call that an effect is about."""
        run = self.journal.run
        return (run.at(effect.path) if effect.path else run).calls[effect.call or ""]

    def tool_for(self, state: CallState) -> Tool | None:
        """Return the tool that a call was offered; None if it was offered none. See `resolve`."""
        return resolve(state, self.graph.of(state).tool(state.call.kind, state.tool))


async def execute(driver: Driver, effect: f.Execute) -> None:
    """Run a call through the door, once `max_parallel_tools` allows it."""
    if driver.slots is None:
        await enter(driver, effect.path, driver.state_of(effect))
    else:
        async with driver.slots:
            await enter(driver, effect.path, driver.state_of(effect))


PERFORM: dict[type[f.Effect], Callable[[Driver, Any], Coroutine[Any, Any, None]]] = {
    f.AskModel: ask_model,
    f.Guard: guard_input,
    f.Judge: judge_one,
    f.Execute: execute,
    f.Settle: settle,
    f.Tell: tell,
    f.Conclude: conclude,
    f.Return: close_branch,
}
"""The function that performs each kind of effect."""

_LONG = (f.AskModel, f.Execute, f.Guard, f.Conclude, f.Return, f.Settle)
"""The effects that may take long, and get a task of their own."""


def key_of(effect: f.AnyEffect) -> Key:
    """Return the key of an effect among the tasks under way."""
    return effect.path, f"?{effect.name}" if type(effect) is f.Guard else effect.call


def is_guard(call: str | None) -> bool:
    """Return True if this part of a key belongs to an input guardrail."""
    return call is not None and call.startswith("?")


def under(path: Path, branch: Path) -> bool:
    """Return True if a path is that of this branch, or of a branch inside it."""
    return path[: len(branch)] == branch


def open_branches(run: Run, path: Path = ()) -> list[tuple[Path, CallState]]:
    """Return the open branches, each with the call that opened it."""
    out: list[tuple[Path, CallState]] = []
    for id, state in run.open.items() if run.branches else ():
        if state.child is not None:
            out += [((*path, id), state), *open_branches(state.child, (*path, id))]
    return out
