"""The driver of a live run: the same driver, which stays when nothing is owed, because somebody may still speak."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..core import facts as f
from ..core.run import deadline
from ..runtime.driver import Driver
from ..runtime.scope import Scope


class LiveDriver(Driver):
    """One live session's drive of its run. It wakes up at every fact and at every deadline."""

    gentle = True
    stays = True
    live = True

    on_restart: Callable[[], None] = staticmethod(lambda: None)
    """Called when the journal was replaced by the stored one, of which no listener hears."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._wakeup: asyncio.Future[None] | None = None
        scope.journal.listen(lambda fact: self.wake())

    def wake(self) -> None:
        """Wake the driver, so that it looks again at what is owed."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    def leave(self) -> None:
        """Begin nothing more, and end once the bodies that have begun have ended."""
        self.stays = False
        self.stop = "after_turn"
        self.wake()

    def restart(self) -> None:
        """Begin again with the stored facts."""
        super().restart()
        self.on_restart()

    def _allowed(self, todo: list[f.AnyEffect]) -> list[f.AnyEffect]:
        return super()._allowed(todo) if self.stays else []

    def _events(self) -> list[asyncio.Future[None]]:
        self._wakeup = asyncio.get_running_loop().create_future()
        return [*super()._events(), self._wakeup]

    async def _wait(self) -> None:
        until, timer = deadline(self.journal.run), None
        if until is not None:
            delay = max(0, until - self.journal.now() + 1) / 1000
            timer = asyncio.get_running_loop().call_later(delay, self.wake)
        try:
            await super()._wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._take_up()
