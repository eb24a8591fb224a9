"""The one check that connections are used only by the process that opened them.

A forked child inherits its parent's connections, but not the threads that use them, and both processes would talk on
one connection at once. So the child gets an error, and leaves the parent's connections alone: it does not even close
them, since that would end the parent's session on a Postgres server, and SQLite forbids it. An SQLite file that was
open at the fork cannot be opened anew in the child; `sqlite_connection` says why.
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

    def open_at_fork(self) -> UsageError:
        """Return the error for a file that was open when this process was forked."""
        return UsageError(
            f"{self._name} was opened in another process and was still open when this one was forked; what is written "
            "to it from here could be lost. Open it after the fork, or close it before."
        )
