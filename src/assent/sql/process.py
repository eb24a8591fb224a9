"""The one check that connections are used only by the process that opened them.

A forked child inherits its parent's connections, but not the threads that use them, and both processes would talk on
one connection at once. So the child gets an error, and leaves the parent's connections alone: it does not even close
them, since that would end the parent's session on a Postgres server, and SQLite forbids it.
"""

from __future__ import annotations

import os

from ..errors import UsageError


class Owner:
    """The process that opened the connections of a store or of sessions. Nothing is opened before the first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process: int | None = None

    @property
    def elsewhere(self) -> bool:
        """True if another process opened the connections."""
        return self._process is not None and self._process != os.getpid()

    def check(self) -> None:
        """Note the process on the first use; raise `UsageError` in any other process."""
        if self.elsewhere:
            raise UsageError(
                f"{self._name} was opened in another process, and a fork cannot share its connections. Open it after "
                "the fork: make a new one in each process."
            )
        self._process = os.getpid()
