"""Threads of fronts, kept in a store: finds the run that a request means, and begins it, decides in it or resumes it.

A thread belongs to the person who began it: its place in the store is made of the person's name too, so that another
person with the same thread id has another thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from ag_ui.core import RunAgentInput
from msgspec.structs import replace

from ...approval.decision import Decider, Decision
from ...core.run import ENDED, Run
from ...core.transcript import Item
from ...definitions.agent import Agent
from ...definitions.hooks import RunHooks
from ...errors import Forbidden, LeaseLost, Overtaken, RunBusy
from ...runtime.config import RunConfig
from ...runtime.drive import RunPlace, begin_run, open_run, resume_run
from ...runtime.driver import Driver
from ...runtime.state import state_of
from ...runtime.store_writer import past
from ...runtime.value import input_json
from ...store.record import RunRecord, Stored
from ...store.store import Store
from .interrupt import NOBODY_HERE, BoundEntry, bind_entries, choose_decisions
from .talk import new_messages

OVER = (*ENDED, "cancelled")
"""The statuses of runs that a front never resumes. A new message begins the thread's next run."""
PATIENCE = 120.0
"""The seconds for which a request waits while somebody else drives the thread's run."""
LOOK_AGAIN = 1.0
TRIES = 5
"""The number of attempts to begin a run that another front begins too."""


@dataclass(frozen=True)
class ServedAgent:
    """An agent for fronts, with the store that keeps its threads and the settings of its runs."""

    agent: Agent[Any]
    store: Store
    config: RunConfig
    hooks: RunHooks[Any] | None
    max_turns: int | None
    user_decides: bool


class OpenedFrontThread(NamedTuple):
    """A thread as a request finds it: a driver of its newest run, or none if there is nothing to do, and its runs."""

    driver: Driver | None
    read: Sequence[Run] = ()

    @property
    def runs(self) -> list[Run]:
        """The runs of the thread, the oldest first."""
        return list(self.read) if self.driver is None else [*self.driver.journal.before, self.driver.journal.run]


class FrontThread:
    """A thread of one person, for one request."""

    def __init__(self, served: ServedAgent, thread_id: str, who: Decider | None, context: Any) -> None:
        self._served, self._store, self._who, self._context = served, served.store, who, context
        owner = None if who is None else who.name
        key = json.dumps([served.agent.name, owner, thread_id])
        self._key = f"agui_{sha256(key.encode()).hexdigest()[:32]}"
        asker = None if served.user_decides else owner
        self._config = replace(served.config, started_by=asker)
        self._place = RunPlace(store=served.store)

    async def open(self, given: RunAgentInput) -> OpenedFrontThread:
        """Record what a request brings, all of it or nothing, and open the thread's newest run."""
        entries = bind_entries(given.resume or ())
        for _ in range(TRIES):
            last = await self._store.newest(self._key)
            runs = await past(self._store, last.record.id) if last is not None else []
            said = new_messages(given, runs)
            if entries:
                last = await self._answer(last, entries, said)
            elif said and last is not None and not _is_over(last.record):
                last = await self._record(last, [], said)
            if said and (last is None or _is_over(last.record)):
                try:
                    return await self._begin(last, said)
                except (LeaseLost, Overtaken):
                    continue  # another front was first: its message may be the same one
            return await self._take_up(last)
        raise Overtaken("Other messages are recorded on this thread all the time; send this one again.")

    # -- recording -----------------------------------------------------------------------------------

    async def _answer(self, last: Stored | None, entries: Sequence[BoundEntry], said: Sequence[Item]) -> Stored | None:
        """Record the decisions of the entries and the new messages, or nothing of it."""
        resolved = [bound for bound in entries if bound.entry.status == "resolved"]
        if self._who is None and resolved:
            raise Forbidden(NOBODY_HERE)
        if last is None or (_is_over(last.record) and not resolved):
            choose_decisions(Run(), resolved, says=False)
            return last
        decided = entries if self._who is not None else ()
        return await self._record(last, decided, () if _is_over(last.record) else said)

    async def _record(self, last: Stored, entries: Sequence[BoundEntry], said: Sequence[Item]) -> Stored:
        if said and _is_held(last.record, self._store):
            raise RunBusy("The agent is at work on this thread; wait until it is done, and send the message again.")

        def choose(run: Run) -> list[tuple[str, Decision, str]]:
            return choose_decisions(run, entries, says=bool(said))

        by = Decider("user") if self._who is None else self._who
        say = input_json(list(said)) if said else None
        return await self._store.decide_all(last.record.id, choose, by=by, say=say, known=last)

    # -- driving -------------------------------------------------------------------------------------

    async def _begin(self, last: Stored | None, said: Sequence[Item]) -> OpenedFrontThread:
        """Begin the thread's next run. Its id has its number, so of two fronts only one begins it."""
        follows = last.record.id if last is not None else None
        number = 1 if follows is None else int(follows.rpartition(":")[2]) + 1
        place = self._place._replace(run=f"{self._key}:{number}", thread=self._key, follows=follows)
        served = self._served
        await self._store.open()
        input = input_json(list(said))
        driver = begin_run(
            served.agent, input, self._context, served.max_turns, self._config, served.hooks, place, Driver
        )
        await open_run(driver, now=True)
        return OpenedFrontThread(driver)

    async def _take_up(self, stored: Stored | None) -> OpenedFrontThread:
        """Drive the run if something is owed in it. While somebody else drives it, wait for that."""
        served, loop = self._served, asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while stored is not None and self._needs_drive(stored.record):
            if not _is_held(stored.record, self._store):
                state = state_of(served.agent, stored, self._context, self._config)
                driver = resume_run(
                    served.agent, state, self._context, None, self._config, served.hooks, self._place, Driver
                )
                with suppress(Overtaken, RunBusy):  # somebody else was faster
                    await open_run(driver, now=True)
                    return OpenedFrontThread(driver)
            if loop.time() > end:
                raise RunBusy("The agent is at work on this thread for a long time; look again later.")
            await self._store.watch(LOOK_AGAIN)
            stored = await self._store.newest(self._key)
        return OpenedFrontThread(None, await past(self._store, stored.record.id) if stored is not None else ())

    def _needs_drive(self, record: RunRecord) -> bool:
        """Return True if something is owed in a run, or somebody drives it."""
        if record.status in OVER or record.erased is not None:
            return False
        due = record.wake is not None and record.wake <= self._store.clock() * 1000
        return due or record.status == "working" or _is_held(record, self._store)


def _is_over(record: RunRecord) -> bool:
    return record.status in OVER or record.erased is not None


def _is_held(record: RunRecord, store: Store) -> bool:
    """Return True if somebody drives the run."""
    return record.worker is not None and (record.until is None or record.until > store.clock() * 1000)
