"""The same for programs without an event loop: each call blocks until it is done.

One thread has an event loop for all calls of an object, so that a hold is renewed while the program's own body runs.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar

from typing_extensions import Unpack

from ..approval.rule_file import RuleFile
from ..errors import UsageError
from ..store.call_status import CallStatus
from ..store.calls import HOLD
from ..store.store import Store
from .approvals import Approvals, AskedCall
from .options import CallOptions

R = TypeVar("R")


class SyncApprovals:
    """The place where a program without an event loop asks before it acts; see `Approvals`."""

    def __init__(
        self,
        place: Store | str,
        *,
        source: str,
        token: str | None = None,
        rules: RuleFile | str | PathLike[str] | None = None,
    ) -> None:
        self._approvals = Approvals(place, source=source, token=token, rules=rules)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="assentry-approvals", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened for this object, and end its thread."""
        if self._loop.is_closed():
            return
        self._block(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        await self._approvals.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # holds on calls that were not reported: they are in doubt when these run out

    def ask(self, tool: str, arguments: Mapping[str, Any] | str, **options: Unpack[CallOptions]) -> SyncAskedCall:
        """Put a call before the gate; see `Approvals.ask`."""
        return SyncAskedCall(self._block(self._approvals.ask(tool, arguments, **options)), self._block)

    def find(self, key: str) -> SyncAskedCall:
        """Return the ask with this key, or raise `RunNotFound`."""
        return SyncAskedCall(self._block(self._approvals.find(key)), self._block)

    def load(self, id: str) -> SyncAskedCall:
        """Return the ask with this id, or raise `RunNotFound`."""
        return SyncAskedCall(self._block(self._approvals.load(id)), self._block)

    def run(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        body: Callable[..., Any],
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Ask about a call, wait for the decision, and run it with the approved arguments; see `SyncAskedCall.run`."""
        return self.ask(tool, arguments, **options).run(body, timeout=timeout)

    def _block(self, work: Coroutine[Any, Any, R]) -> R:
        """Run this on the thread's event loop, and wait for it."""
        if self._loop.is_closed():
            work.close()
            raise UsageError("These approvals were closed.")
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result()
        except BaseException:
            done.cancel()
            raise


class SyncAskedCall:
    """A call that was put before the gate; see `AskedCall`."""

    def __init__(self, call: AskedCall, block: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._call = call
        self._block = block

    @property
    def id(self) -> str:
        """The id of the ask, by which it can be loaded again."""
        return self._call.id

    @property
    def status(self) -> CallStatus:
        """What became of the call, as it was last seen."""
        return self._call.status

    def refresh(self) -> CallStatus:
        """Look at the call again, and return its status."""
        self._block(self._call.refresh())
        return self.status

    def decision(self, timeout: float | None = None) -> CallStatus:
        """Wait until the call is decided, and return its status; raise `NotDecided` after `timeout` seconds."""
        self._block(self._call.decision(timeout))
        return self.status

    def start(
        self, arguments: Mapping[str, Any] | None = None, *, hold: float = HOLD, holder: str | None = None
    ) -> dict[str, Any]:
        """Report that the call is about to run, and return the approved arguments; see `AskedCall.start`."""
        given: dict[str, Any] = self._block(self._call.start(arguments, hold=hold, holder=holder))
        return given

    def finish(self, output: Any = None, *, holder: str | None = None, taken: bool = False) -> CallStatus:
        """Report the call's output; see `AskedCall.finish`."""
        self._block(self._call.finish(output, holder=holder, taken=taken))
        return self.status

    def fail(self, error: str, *, holder: str | None = None, taken: bool = False) -> CallStatus:
        """Report that the call has failed, and that nothing more of it will happen."""
        self._block(self._call.fail(error, holder=holder, taken=taken))
        return self.status

    def take(self) -> CallStatus:
        """Report that whoever wanted the outcome has it; see `AskedCall.take`."""
        self._block(self._call.take())
        return self.status

    def run(self, body: Callable[..., Any], *, timeout: float | None = None) -> Any:
        """Wait for the decision, run the body on this thread, report its outcome, and return its output.

        See `AskedCall.run`.
        """
        if inspect.iscoroutinefunction(body):
            raise UsageError("An async body needs Approvals, on its own event loop.")
        arguments: dict[str, Any] | None = self._block(self._call.enter(timeout))
        if arguments is None:
            return self.status.output
        try:
            output = body(**arguments)
        except Exception as error:
            self._block(self._call.report_failure(f"{type(error).__name__}: {error}"))
            raise
        except BaseException:  # it may have happened in part: whoever comes next finds the call in doubt
            self._block(self._call.leave())
            raise
        self.finish(output)
        return output
