"""The driver: pays what a run owes until nothing is owed. All runs, plain, sync or streamed, use it.

There is no path for resuming: a run that was paused, saved or broken off owes what it owes.
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
from .audience import Audience
from .blocking import Home
from .branch import close_branch
from .cast import Cast
from .concluding import conclude
from .config import RunConfig
from .control import RunControl
from .definition import resolve
from .door import enter
from .doubt import settle
from .guarding import guard_input, input_guardrails, tripwire
from .history import keep, patience
from .journal import Journal
from .judging import judge_all, judge_one, tell
from .model_call import ask_model
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
    """Writes the run to its store, if it lives in one."""
    past: Sequence[Item] = ()
    """What was said in the runs that this one follows."""
    kept: int | None = None
    """How many items of the run are in the session."""
    writing: asyncio.Task[None] | None = None
    """What is being written to the session."""
    loading: asyncio.Timeout | None = None
    """The limit on reading the session, which there is once the run is told to stop."""
    observer: Observer | None = None
    """Makes spans of the run, if it is traced."""
    on_delta: Callable[[Item], None] | None = None
    gentle = False
    """Whether the drive can be told to stop while bodies go on: then nothing is awaited in the drive itself."""
    stop: Literal["immediate", "after_turn"] | None = None
    unseen: Sequence[f.AnyFact] = ()
    """What was recorded while nobody drove the run."""
    hears = False
    """Whether hooks are told of questions and verdicts: from when an agent has the word that has any."""
    left: RunState[Any] | None = None
    """The run as it was left, once somebody has it."""
    task: asyncio.Task[Any] | None = None
    cancels = 0
    """How often the task had been told to stop when the drive began."""

    def __init__(
        self,
        journal: Journal,
        cast: Cast,
        config: RunConfig,
        context: Any,
        outputs: Outputs,
        *,
        hooks: RunHooks[Any] | None = None,
        session: Session | None = None,
    ) -> None:
        self.journal = journal
        self.cast = cast
        self.config = config
        self.audience = Audience(hooks)
        self.session = session
        self.outputs = outputs
        """What bodies gave in this process, as Python objects."""
        self.home = Home()
        self.control = RunControl(self, journal, cast, self.home)
        self.ctx: RunContextWrapper[Any] = RunContextWrapper(context, self.control)
        self.before: list[Run] = []
        """The runs that this one follows, the oldest first."""
        self.busy: dict[Key, asyncio.Task[None]] = {}
        self.dropped: set[asyncio.Task[None]] = set()
        """Work that was cancelled on purpose, because what it is for has failed."""
        self.broken: dict[Path, BaseException] = {}
        """What failed, and why: the run itself, or a branch. Nothing new is begun there."""
        self.tripped: set[Path] = set()
        """Where a guardrail has stopped the run, from the moment it has."""
        self.errors: dict[Path, Exception] = {}
        """Why branches were closed in this drive."""
        self.read: dict[tuple[Path, str], Arguments] = {}
        """What the gate let pass in this drive, as it read it, for the door: nobody has seen or changed it since."""
        limit = config.max_parallel_tools
        self.slots = asyncio.Semaphore(limit) if limit is not None else None

    # -- the loop --------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Go on until the run waits for somebody or is over."""
        self.task = asyncio.current_task(self.home.loop)
        assert self.task is not None, "a coroutine that runs is in a task"
        self.cancels = self.task.cancelling()
        self._listen()
        try:
            if self.stop == "immediate":  # before it had begun
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
        """Acquire the lease before running user code; with `new` that of a new run too."""
        writer = self.writer
        if writer is not None and not writer.lease.acquired and (new or writer.seq):
            await writer.own()

    @property
    def fence(self) -> int:
        """The fence of the lease that this drive has, or acquires with its first write; 0 without a store."""
        return self.writer.lease.next_fence if self.writer is not None else 0

    def _listen(self) -> None:
        audience, run = self.audience, self.journal.run
        if audience.hooks is not None or self._is_hooked(run):
            self.hear()
        for path, state in open_branches(run):
            tool = self.cast.of(state).tools.get(state.tool)
            if isinstance(tool, AgentTool):
                audience.follow(self, path, tool, state)
        if audience.streams:
            for fact in self.unseen:
                audience.heard(self, fact)

    def _is_hooked(self, run: Run) -> bool:
        """Whether an agent that has the word, in the run or in a branch that is open, has hooks of its own."""
        if run.agent and self.cast.seat(run.agent).agent.hooks is not None:
            return True
        return any(self._is_hooked(state.child) for state in run.open.values() if state.child is not None)

    def hear(self) -> None:
        """Have hooks told of questions and verdicts from now on, and of those that came while nobody drove the run."""
        if not self.hears:
            self.hears = True
            for fact in self.unseen:
                self.audience.note(fact)
            self.journal.listen(self.audience.note)

    def _take_up(self) -> None:
        """What time has decided, and what a guardrail has stopped, before this drive."""
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
            if task.cancelling() > self.cancels:  # a body may have caught the cancellation; the run stops all the same
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
                    self.writer.kick()  # meanwhile
                work = PERFORM[kind](self, effect)
                try:
                    # A body has a task of its own: what it does to its task is not done to the run's.
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
        """Whether the task this is asked in was told to stop since the drive began."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > (self.cancels if task is self.task else 0)

    def _allowed(self, todo: list[f.AnyEffect]) -> list[f.AnyEffect]:
        """What may be begun now of what is owed."""
        todo = [effect for effect in todo if key_of(effect) not in self.busy]
        if self.broken:
            todo = [effect for effect in todo if not any(under(effect.path, path) for path in self.broken)]
        if self.stop == "after_turn" and not self.busy and any(type(e) is f.AskModel and not e.path for e in todo):
            self.journal.add(f.Cancelled("local", at=self.journal.now()))
            return []
        return todo

    async def _perform(self, todo: list[f.AnyEffect]) -> None:
        """What is quick is done now, and what takes its time is begun."""
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
            await self._wait()  # the model, for a guardrail that it may not overlap

    def _blocks(self, path: Path, key: str | None) -> bool:
        """Whether the model must wait for this guardrail."""
        run = self.run_at(path)
        seat = self.cast.seat(run.began.agent if run.began is not None else run.agent)
        guardrail = input_guardrails(seat, self.config, path).get((key or "")[1:])
        return guardrail is None or not guardrail.run_in_parallel  # which one is missing, nobody knows

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
        """Nothing new is begun in what failed, its model is not waited for, and its bodies come to their end.

        What fails in a branch is the outcome of its call, unless it is a fault of the program, or of its use.
        """
        if isinstance(error, IllegalFact) and self.writer is not None and self.writer.joined:
            error = Overtaken(f"Others have changed run {self.journal.run.id!r} meanwhile: {error}")
        fault = isinstance(error, UsageError | Conflict | NotFound | StoreFailed) or any(
            error is each for each in self.audience.faults
        )
        if not isinstance(error, Exception) or fault:
            path = ()
        if isinstance(error, TripwireTriggered) and not isinstance(self.broken.get(path), TripwireTriggered):
            self.broken[path] = error  # it closes the run, whatever else has failed
        self.broken.setdefault(path, error)
        for (where, call), task in self.busy.items():
            if under(where, path) and (call is None or is_guard(call)) and task not in self.dropped:
                self.dropped.add(task)
                task.cancel()

    def stopped(self, path: Path) -> bool:
        """Whether this run or branch, or one that it is in, has failed: what has not begun, does not begin."""
        failed = bool(self.tripped or self.broken)
        return failed and any(under(path, where) for where in (*self.tripped, *self.broken))

    def _give_up(self) -> bool:
        """Close the branches that failed and in which nothing runs any more; raise what failed in the run itself."""
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
        """A tripwire closes what it guards, whatever else has stopped the run meanwhile."""
        ended = [(path, task) for (path, _), task in self.busy.items() if not task.cancelled()]
        errors = [*self.broken.items(), *((path, task.exception()) for path, task in ended)]
        for path, error in sorted(errors, key=lambda each: -len(each[0])):
            if isinstance(error, TripwireTriggered) and self.run_at(path).closed is None:
                self._close(path, error)

    def halt(self, mode: Literal["immediate", "after_turn"]) -> None:
        """Stop the run: before the next turn, or at once, with some grace for what has begun. Once is enough."""
        if self.stop == "immediate":
            return
        self.stop = mode
        if mode == "immediate" and self.task is not None:
            self.task.cancel()
        self.limit_loading()

    def limit_loading(self) -> None:
        """A session that is being read when the run is told to stop has some time for it, as bodies have."""
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
        """Have the guardrails look at what was said since they did."""
        run = self.journal.run
        if run.began is not None and run.unheard and not run.guards and run.watched < run.said:
            guards = tuple(input_guardrails(self.cast.seat(run.began.agent), self.config, ())) or run.armed
            if guards:  # today's, or else those that the run knows: none is left out because it was not given again
                self.journal.add(f.Awaited(guards, at=self.journal.now()))

    def restart(self) -> None:
        """Forget how a drive ended: what is in the journal has changed."""
        self.kept = None
        for kept in (self.broken, self.tripped, self.errors, self.read, self.dropped):
            kept.clear()

    def let_go(self) -> None:
        """Part from the writer, once nobody takes the run up from here: each holds the other, and all that they know
        would be left to the garbage collector."""
        self.writer = self.journal.writer = None
        self.journal.listeners = ()

    # -- what others need to know ----------------------------------------------------------------

    @property
    def agent(self) -> Agent[Any]:
        """The agent the run began with."""
        return self.cast.root

    def run_at(self, path: Path) -> Run:
        """The run, or the branch under these calls."""
        return self.journal.run.at(path) if path else self.journal.run

    def view(self, path: Path) -> View:
        """The run, or a branch, as it looks from outside."""
        return View(self.journal.run, self.cast, self.outputs, path)

    def state_of(self, effect: f.AnyEffect) -> CallState:
        """The call that an effect is about."""
        run = self.journal.run
        return (run.at(effect.path) if effect.path else run).calls[effect.call or ""]

    def tool_for(self, state: CallState) -> Tool | None:
        """The tool that a call was offered, as it was offered; None if none was."""
        return resolve(state, self.cast.of(state).tool(state.call.kind, state.tool))


async def execute(driver: Driver, effect: f.Execute) -> None:
    """Take a call through the door, when there is room for it."""
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
"""How each effect is paid."""

_LONG = (f.AskModel, f.Execute, f.Guard, f.Conclude, f.Return, f.Settle)
"""What may take its time, and is begun rather than done."""


def key_of(effect: f.AnyEffect) -> Key:
    """What tells one effect from another while it is being paid."""
    return effect.path, f"?{effect.name}" if type(effect) is f.Guard else effect.call


def is_guard(call: str | None) -> bool:
    """Whether this part of a key is an input guardrail's."""
    return call is not None and call.startswith("?")


def under(path: Path, branch: Path) -> bool:
    """Whether a path is of this branch, or of one inside it."""
    return path[: len(branch)] == branch


def open_branches(run: Run, path: Path = ()) -> list[tuple[Path, CallState]]:
    """The branches that are being worked on, each with the call that opened it."""
    out: list[tuple[Path, CallState]] = []
    for id, state in run.open.items() if run.branches else ():
        if state.child is not None:
            out += [((*path, id), state), *open_branches(state.child, (*path, id))]
    return out
