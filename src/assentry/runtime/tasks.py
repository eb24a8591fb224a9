"""The tasks of a drive, and the failures that stop a run or some of its branches."""

from __future__ import annotations

import asyncio

from ..errors import Conflict, IllegalFact, NotFound, Overtaken, StoreFailed, TripwireTriggered, UsageError
from .hook_dispatch import HookDispatch
from .journal import Journal

Path = tuple[str, ...]
Key = tuple[Path, str | None]


class Tasks:
    """The effects of a drive that are under way, and the errors of the run and branches that failed."""

    task: asyncio.Task[None] | None = None
    """The task of the drive itself."""
    cancels = 0
    """The task's number of cancellation requests when the drive began."""

    def __init__(self, journal: Journal, hooks: HookDispatch, limit: int | None) -> None:
        self._journal = journal
        self._hooks = hooks
        self.busy: dict[Key, asyncio.Task[None]] = {}
        self.dropped: set[asyncio.Task[None]] = set()
        """Tasks that were cancelled on purpose, because their run or branch has failed."""
        self.broken: dict[Path, BaseException] = {}
        """The errors of the run and branches that failed, by path. Nothing new is begun there."""
        self.tripped: set[Path] = set()
        """The paths of the run and branches that a guardrail has stopped."""
        self.errors: dict[Path, Exception] = {}
        """The errors with which branches were closed in this drive, by path."""

        self.slots = asyncio.Semaphore(limit) if limit is not None else None
        """The limit of bodies that run at once, if there is one."""

    def begin(self) -> asyncio.Task[None]:
        """Note the current task as that of the drive, and return it."""
        self.task = asyncio.current_task()
        assert self.task is not None, "a coroutine that runs is in a task"
        self.cancels = self.task.cancelling()
        return self.task

    def fail(self, path: Path, error: BaseException) -> None:
        """Stop the run or branch that failed: begin nothing new, cancel its model call, and let its bodies end.

        A failure in a branch becomes the outcome of its call. Usage, conflict, not-found and store errors and the
        exceptions of hooks stop the whole run.
        """
        writer = self._journal.writer
        if isinstance(error, IllegalFact) and writer is not None and writer.joined:
            error = Overtaken(f"Others have changed run {self._journal.run.id!r} meanwhile: {error}")
        fault = isinstance(error, UsageError | Conflict | NotFound | StoreFailed) or any(
            error is each for each in self._hooks.faults
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

    def stopping(self) -> bool:
        """Return True if the current task was cancelled since the drive began."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > (self.cancels if task is self.task else 0)

    def take_ended(self, done: set[asyncio.Future[None]]) -> None:
        """Forget the tasks that have ended; an error that was not caused on purpose is a failure."""
        for key in [key for key, task in self.busy.items() if task in done]:
            task = self.busy.pop(key)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is not None and (task not in self.dropped or isinstance(error, TripwireTriggered)):
                self.fail(key[0], error)
            self.dropped.discard(task)

    def clear(self) -> None:
        """Forget the failures of the last drive, because the journal has changed."""
        for failures in (self.broken, self.tripped, self.errors, self.dropped):
            failures.clear()


def is_guard(call: str | None) -> bool:
    """Return True if this part of a key belongs to an input guardrail."""
    return call is not None and call.startswith("?")


def under(path: Path, branch: Path) -> bool:
    """Return True if a path is that of this branch, or of a branch inside it."""
    return path[: len(branch)] == branch
