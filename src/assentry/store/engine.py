"""The port to the engine of runs that a store only has a copy of, such as workflows on Temporal.

The engine is the authority on such runs. What people do in them is passed to it, and the store's copy follows. Without
the port, a store refuses: a decision in the copy alone would never reach the run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import RunNotFound, StoreFailed

if TYPE_CHECKING:
    from ..approval.decision import Decider, Decision
    from .record import RunRecord

PAUSES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.4, 0.5, 0.5, 1.0, 1.0, 1.0)
"""The seconds between looks at a copy that follows its engine."""


class RecordedByEngine(Protocol):
    """The engine's answer: the number of facts that the run has now."""

    @property
    def seq(self) -> int: ...
    @property
    def verdict(self) -> Any: ...
    @property
    def by(self) -> str | None: ...
    @property
    def at(self) -> int | None: ...
    @property
    def shown(self) -> str | None: ...


class StartedByEngine(Protocol):
    """A run that an engine has started."""

    id: str


class RunEngine(Protocol):
    """The way to the engine of some runs. Errors are Assentry's own; `EngineFailed` if the engine does not answer."""

    async def start(self, agent: str, input: str, *, id: str | None, started_by: str | None) -> StartedByEngine:
        """Start a run; return the run that has this id already, if there is one."""

    async def decide(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        *,
        by: str | Decider,
        digest: str,
        grant: Any = None,
        run: str | None = None,
    ) -> RecordedByEngine:
        """Record a decision; without `run`, find the run by the question's id."""

    async def cancel(self, run_id: str, *, by: str, why: str | None = None) -> RecordedByEngine:
        """Cancel a run."""

    async def resume(self, run_id: str, *, by: str) -> RecordedByEngine:
        """Resume a cancelled run."""

    async def say(self, run_id: str, input: str, *, by: str = "user") -> RecordedByEngine:
        """Add a user message to a run."""

    async def revoke(self, grant_id: str, *, by: str, run: str) -> RecordedByEngine:
        """Revoke a grant of a run."""


class _Copies(Protocol):
    """A store of copies."""

    async def record(self, run_id: str) -> RunRecord:
        """Return a run's record."""


async def await_copy(store: _Copies, run_id: str, seq: int) -> RunRecord | None:
    """Wait a few seconds for a store's copy of a run to have `seq` facts, and return its record; None if it is behind.

    The engine has recorded everything already, so a copy that is behind, or cannot be read, is no error.
    """
    for pause in (*PAUSES, None):
        try:
            record = await store.record(run_id)
        except (RunNotFound, StoreFailed):
            record = None
        if record is not None and record.seq >= seq:
            return record
        if pause is not None:
            await asyncio.sleep(pause)
    return None
