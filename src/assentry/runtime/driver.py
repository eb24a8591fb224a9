"""The driver: performs the effects that a run owes until nothing is owed. Plain, sync and streamed runs all use it.

There is no separate path for resuming: a run that was paused, saved or interrupted owes its next effects like any
other. Each kind of effect has its own module in `steps`; the driver only orders them, and handles failure and
cancellation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal

from ..core import facts as f
from ..core.run import UNDER_WAY, CallState, Run, exhausted, overdue, owed, status, turns_used_up
from ..core.wording import clean_text
from ..definitions.agent_tool import AgentTool
from ..errors import IllegalFact, TripwireTriggered
from .guardrail_results import input_guardrails
from .scope import Scope
from .session_sync import patience
from .steps.approval import judge_all, judge_one, tell
from .steps.branch import close_branch
from .steps.door import execute
from .steps.error_handler import handle_error, has_error_handler
from .steps.final_output import conclude
from .steps.guardrail import guard_input, tripwire
from .steps.model_call import ask_model
from .steps.recovery import settle
from .tasks import Key, Path, is_guard, under

if TYPE_CHECKING:
    from .store_writer import StoreWriter

log = logging.getLogger("assentry")


class Driver:
    """One drive of one run."""

    writer: StoreWriter | None = None
    """The writer to the run's store; None without a store."""
    stays = False
    """True while the drive goes on when nothing is owed, because more may come; see `assentry.realtime`."""
    live = False
    """True if the model is not asked, but replies when it likes; see `assentry.realtime`."""
    first: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Appends the first facts of a new run that reads its session before; None if the journal has them."""
    loaded = False
    """True once the run was loaded; see `open_run` in `drive`."""
    advice = ""
    """The advice to a caller whose run has used up its turns."""
    gentle = False
    """True if the drive can be stopped while bodies go on; each long effect then has its own task."""
    partial = False
    """True if the drive performs a part of what is owed: what `_allowed` lets through. Others perform the rest."""
    stop: Literal["immediate", "after_turn"] | None = None
    loading: asyncio.Timeout | None = None
    """The timeout of reading the session; it has a limit only after an immediate stop."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.journal = scope.journal
        self.tasks = scope.tasks

    # -- the loop --------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Drive the run until it waits for somebody or is over."""
        scope, session = self.scope, self.scope.session
        task = self.tasks.begin()
        self._listen()
        try:
            if self.stop == "immediate":  # stopped before the drive began
                await self._wind_down()
                return
            if scope.hooks.hears:
                await scope.journal.own()
            await self._drive_saving(task)
        except asyncio.CancelledError:
            if self.stop != "immediate":
                raise
            task.uncancel()
            await self._wind_down()
        finally:
            left = list(self.tasks.busy.values())
            if session is not None and session.writing is not None:
                left.append(session.writing)
            for work in left:
                work.cancel()
            if left:
                await asyncio.wait(left)
            await self.scope.servers.close()
            if self.tasks.busy or self.tasks.broken:
                self._close_tripped()

    async def _drive_saving(self, task: asyncio.Task[Any]) -> None:
        """Drive the run, and write what its session lacks before and after."""
        session = self.scope.session
        if session is not None:
            await session.save()
        while True:
            await self._drive(task)
            if session is not None:
                await session.save()
            if self.writer is None or await self.writer.finish():
                break
        if session is not None:
            filtered = getattr(self.scope.config, "call_model_input_filter", None) is not None
            await session.compact(kept=self._keeps_replies(), filtered=filtered)

    def _keeps_replies(self) -> bool | None:
        """Return False if the provider is told not to store replies, True if it is told to."""
        given = self.scope.config.model_settings
        if given is not None and given.store is not None:
            return given.store
        return self.scope.graph.agent_at(self.journal.run.agent).agent.model_settings.store

    def _listen(self) -> None:
        hooks, run = self.scope.hooks, self.journal.run
        if hooks.hooks is not None or self._is_hooked(run):
            hooks.hear()
        for path, state in open_branches(run):
            tool = self.scope.graph.of(state).tools.get(state.tool)
            if isinstance(tool, AgentTool):
                hooks.follow(path, tool, state)
        if hooks.streams:
            for fact in hooks.unseen:
                hooks.keep_events(fact)

    def _is_hooked(self, run: Run) -> bool:
        """Return True if the active agent of the run or of an open branch has hooks of its own."""
        if run.agent and self.scope.graph.agent_at(run.agent).agent.hooks is not None:
            return True
        return any(self._is_hooked(state.child) for state in run.open.values() if state.child is not None)

    def _take_up(self) -> None:
        """Apply expired deadlines and earlier tripwires."""
        run = self.journal.run
        self._expire()
        for path in [(), *[path for path, _ in open_branches(run)]]:
            cut_off = tripwire(self.scope, path) if self.scope.run_at(path).guarded else None
            if cut_off is not None:
                self.tasks.fail(path, cut_off)

    def _expire(self) -> None:
        run = self.journal.run
        late = overdue(run, self.journal.now()) if run.open else []
        if late:
            self.journal.append(late)

    async def _drive(self, task: asyncio.Task[Any]) -> None:
        scope, tasks, hooks, journal = self.scope, self.tasks, self.scope.hooks, self.journal
        busy, broken = tasks.busy, tasks.broken
        self._take_up()
        while True:
            if task.cancelling() > tasks.cancels:  # a body may have caught the cancellation; the run stops anyway
                raise asyncio.CancelledError
            if hooks.noted or hooks.waiting:
                await self._attempt((), hooks.deliver())
            if self.writer is not None and not broken:
                self.writer.lease.check("begin")
            todo = owed(journal.run, busy)
            if busy or broken or self.partial or self.stop is not None:
                todo = self._allowed(todo)
                if broken and self._give_up():
                    continue
            if not todo:
                if not await self._go_on():
                    return
            elif len(todo) == 1 and not busy and not self.gentle:
                effect = todo[0]
                kind = type(effect)
                if kind is f.AskModel and self.writer is not None:
                    self.writer.kick()  # write while the model is called
                work = PERFORM[kind](scope, effect)
                try:
                    # A body gets its own task, so that it cannot cancel or change the task of the drive.
                    await (
                        scope.run_loop.loop.create_task(work) if kind is f.Execute and self._has_body(effect) else work
                    )
                except Exception as error:
                    self.tasks.fail(effect.path, error)
            else:
                await self._perform(todo)

    async def _go_on(self) -> bool:
        """Wait for what is under way, or let an error handler end the run; return False if nothing is left to do."""
        if self.tasks.busy or self.stays:
            await self._wait()
            return True
        run = self.journal.run
        if self.scope.config.error_handlers is None or not exhausted(run):
            return False
        if not has_error_handler(self.scope, "max_turns"):
            return False
        await self._attempt((), handle_error(self.scope, "max_turns", turns_used_up(run, self.advice)))
        return True

    def _has_body(self, effect: f.AnyEffect) -> bool:
        return self.scope.state_of(effect).call.kind != "agent"

    async def _attempt(self, path: Path, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self.tasks.fail(path, error)

    def _allowed(self, todo: list[f.AnyEffect]) -> list[f.AnyEffect]:
        """Return the owed effects that may be begun now."""
        todo = [effect for effect in todo if key_of(effect) not in self.tasks.busy and not self._may_yet_fail(effect)]
        if self.tasks.broken:
            todo = [effect for effect in todo if not any(under(effect.path, path) for path in self.tasks.broken)]
        if (
            self.stop == "after_turn"
            and not self.tasks.busy
            and any(type(e) is f.AskModel and not e.path for e in todo)
        ):
            self.journal.add(f.Cancelled("local", at=self.journal.now()))
            return []
        return todo

    def _may_yet_fail(self, effect: f.AnyEffect) -> bool:
        """Return True if the effect goes on from calls of its branch, and the task of one of them has not ended.

        All of these calls have their outcomes then, but a task that has recorded one may still raise.
        """
        if type(effect) not in _AFTER_CALLS:
            return False
        branch = (*effect.path, effect.call) if type(effect) is f.Return else effect.path
        return any(path == branch and call is not None and not is_guard(call) for path, call in self.tasks.busy)

    async def _perform(self, todo: list[f.AnyEffect]) -> None:
        """Perform the quick effects, and begin a task for each long one."""
        judging = [effect for effect in todo if type(effect) is f.Judge]
        if judging:
            await judge_all(self.scope, judging)
        guards = [key for key in [*map(key_of, todo), *self.tasks.busy] if is_guard(key[1])]
        held = {path for path, call in guards if self._blocks(path, call)}
        begun = False
        for effect in todo:
            kind = type(effect)
            if kind in _LONG:
                if not judging and not (kind is f.AskModel and effect.path in held):
                    begun = True
                    self.tasks.busy[key_of(effect)] = asyncio.create_task(PERFORM[kind](self.scope, effect))
            elif kind is not f.Judge:
                begun = True
                await self._attempt(effect.path, PERFORM[kind](self.scope, effect))
        if not begun and not judging:
            await self._wait()  # the model call waits for a guardrail that it may not overlap

    def _blocks(self, path: Path, key: str | None) -> bool:
        """Return True if the model call must wait for this guardrail."""
        run = self.scope.run_at(path)
        placed = self.scope.graph.agent_at(run.began.agent if run.began is not None else run.agent)
        guardrail = input_guardrails(placed, self.scope.config, path).get((key or "")[1:])
        return guardrail is None or not guardrail.run_in_parallel  # a missing guardrail may be a blocking one

    async def _wait(self) -> None:
        done, _ = await asyncio.wait(self._events(), return_when=asyncio.FIRST_COMPLETED)
        self.tasks.take_ended(done)

    def _events(self) -> list[asyncio.Future[None]]:
        """Return what a drive waits for: the tasks under way, and what others write."""
        events: list[asyncio.Future[None]] = list(self.tasks.busy.values())
        if self.writer is not None:
            self.writer.kick()
            events.append(self.writer.hear())
        return events

    # -- failing and stopping ----------------------------------------------------------------------

    def _give_up(self) -> bool:
        """Close the failed branches in which nothing runs any more; raise the error of the run itself.

        Return True if a branch was closed.
        """
        closed = False
        for path, error in sorted(self.tasks.broken.items(), key=lambda each: -len(each[0])):  # inner branches first
            if any(under(where, path) for where, _ in self.tasks.busy):
                continue
            if path or isinstance(error, TripwireTriggered):
                del self.tasks.broken[path]
                self._close(path, error)
                closed = True
            if not path:
                raise error
            if isinstance(error, Exception):
                self.tasks.errors[path] = error
        return closed

    def _close(self, path: Path, error: BaseException) -> None:
        why = clean_text(str(error))[0] or type(error).__name__
        self.journal.add(f.Closed(why, type(error).__name__, at=self.journal.now(), path=path))

    def _close_tripped(self) -> None:
        """Close the run and branches with a tripwire, even if another error has stopped the drive meanwhile."""
        ended = [(path, task) for (path, _), task in self.tasks.busy.items() if not task.cancelled()]
        errors = [*self.tasks.broken.items(), *((path, task.exception()) for path, task in ended)]
        for path, error in sorted(errors, key=lambda each: -len(each[0])):
            if isinstance(error, TripwireTriggered) and self.scope.run_at(path).closed is None:
                self._close(path, error)

    def halt(self, mode: Literal["immediate", "after_turn"]) -> None:
        """Stop the run before its next turn, or at once, with a grace period for the bodies that have begun.

        After an immediate stop, further calls do nothing.
        """
        if self.stop == "immediate":
            return
        self.stop = mode
        if mode == "immediate" and self.tasks.task is not None:
            self.tasks.task.cancel()
        self.limit_loading()

    def limit_loading(self) -> None:
        """Set a timeout for reading the session, if it is being read when the run is stopped at once."""
        if self.loading is not None and self.stop == "immediate":
            self.loading.reschedule(self.scope.run_loop.loop.time() + patience(self.scope.config))

    async def _wind_down(self) -> None:
        run = self.journal.run
        if status(run) in UNDER_WAY:
            self.journal.add(f.Cancelled("local", at=self.journal.now()))
        bodies = [task for (path, call), task in self.tasks.busy.items() if self._is_body(path, call)]
        for task in self.tasks.busy.values():
            if task not in bodies:
                task.cancel()
        if bodies:
            await asyncio.wait(bodies, timeout=self.scope.config.cancel_grace)
        for task in self.tasks.busy.values():
            task.cancel()
        if self.tasks.busy:
            await asyncio.wait(self.tasks.busy.values())
        for (path, _), task in self.tasks.busy.items():
            error = None if task.cancelled() else task.exception()
            if isinstance(error, TripwireTriggered):
                self.tasks.fail(path, error)
            elif error is not None and not isinstance(error, IllegalFact):
                log.warning("This failed while a run was being stopped", exc_info=error)
        self.tasks.busy.clear()
        if self.tasks.broken:
            self._give_up()
        if self.scope.session is not None:
            await self.scope.session.save_within(patience(self.scope.config))

    def _is_body(self, path: Path, call: str | None) -> bool:
        state = self.scope.run_at(path).calls.get(call or "")
        return state is not None and state.attempt > 0

    def restart(self) -> None:
        """Forget the end of the last drive, because the journal has changed."""
        self.tasks.clear()
        self.scope.arguments.clear()
        if self.scope.session is not None:
            self.scope.session.forget()

    def let_go(self) -> None:
        """Drop the writer and the listeners, once nobody resumes the run from this driver.

        Journal and writer refer to each other, so that only the garbage collector would free them.
        """
        self.writer = self.journal.writer = None
        self.journal.listeners = ()


PERFORM: dict[type[f.Effect], Callable[[Scope, Any], Coroutine[Any, Any, None]]] = {
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

_AFTER_CALLS = (f.AskModel, f.Conclude, f.Return)
"""The effects that are owed once the calls of a branch have their outcomes."""


def key_of(effect: f.AnyEffect) -> Key:
    """Return the key of an effect among the tasks under way."""
    return effect.path, f"?{effect.name}" if type(effect) is f.Guard else effect.call


def open_branches(run: Run, path: Path = ()) -> list[tuple[Path, CallState]]:
    """Return the open branches, each with the call that opened it."""
    out: list[tuple[Path, CallState]] = []
    for id, state in run.open.items() if run.branches else ():
        if state.child is not None:
            out += [((*path, id), state), *open_branches(state.child, (*path, id))]
    return out
