"""Opening a thread at an earlier point, or with changed messages: begins a fork, to be driven or to wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..core import facts as f
from ..core.opening import first_facts
from ..core.wording import described
from ..errors import InvalidInput, NotPending, Overtaken, ThreadWaiting, UsageError
from ..runtime.agent_graph import AgentGraph
from ..runtime.drive import begin_run, open_run, run_template
from ..runtime.driver import Driver
from ..store.projection import anew
from ..store.record import Stored
from .fork import ForkDraft, ForkPoint, close_newest, ending_facts, read_point, updated_step
from .history import ThreadHistory
from .interrupts import Command
from .message import RemoveMessage
from .message_items import as_list, given_message
from .opening import OnPending, Opened, Opening, explain_race, run_number
from .snapshot import END, ThreadPoint, next_steps
from .state import OWN_KEYS, State
from .stream import GATE
from .view import view_of

WITHDRAWN = "The thread goes on in run {!r}, from another point. Nothing of this run was decided by that."


def removes(input: Any) -> bool:
    """Return True if an input has a `RemoveMessage`."""
    given = input.get("messages") if isinstance(input, Mapping) else None
    return any(isinstance(each, RemoveMessage) for each in (given if isinstance(given, list | tuple) else (given,)))


class ForkOpening(Opening):
    """One call on a thread that goes on from another point than the present one, or with other messages."""

    async def fork(self, point: ThreadPoint, input: Any, on_pending: OnPending) -> Opened:
        """Open the thread at a point: the present one as it is, an earlier one as a fork."""
        newest = await self.store.newest(self.thread)
        if newest is not None and point == self._point(newest):
            if isinstance(input, Command):
                return await self.answer(input)
            return await (self.go_on() if input is None else self.say(input, on_pending))
        if isinstance(input, Command):
            raise NotPending(
                f"The checkpoint {point.id!r} is not where thread {self.thread!r} stands, and what was asked there is "
                "asked anew by whoever goes on from it. Call invoke(None, config) with it, and answer that question."
            )
        at = await self._read(point, input=input is not None)
        if input is None and not next_steps(at.run):
            return Opened(None, [*at.before, at.run])
        draft, values = ForkDraft(self.setup.agent, at), {}
        if input is not None:
            values = self._put(draft, input, on_pending)
        return await self._drive(draft, newest, values)

    async def change(self, input: Any, on_pending: OnPending) -> Opened:
        """Open the thread with messages removed: fork its present point."""
        newest = await self._newest()
        at = await self._read(self._point(newest), input=True) if newest.record.erased is None else None
        draft = ForkDraft(self.setup.agent, at)
        values = self._put(draft, input, on_pending)
        if not draft.messages:
            raise InvalidInput("No message would be left, so there is nothing for the model to answer; give one.")
        return await self._drive(draft, newest, values)

    def _put(self, draft: ForkDraft, input: Any, on_pending: OnPending) -> State:
        """Put an input into a draft, and return its other keys as JSON."""
        if not isinstance(input, Mapping) or input.get("messages") is None:
            raise InvalidInput(
                'The input is {"messages": [...]}, a Command(resume=...), or None to go on; got '
                + f"{described(input)}."
            )
        if draft.calls and on_pending is None:
            raise ThreadWaiting(
                f"At this point of thread {self.thread!r} the calls of {', '.join(draft.calls)} have no outcome. Say "
                'with the message what becomes of them: on_pending="reject" leaves them out, on_pending="keep" judges '
                "them anew, and the model gets the message after their outcomes."
            )
        if on_pending == "reject":
            draft.drop_calls()
        draft.put([given_message(each) for each in as_list(input["messages"])])
        return self.setup.agent.state_schema.check_input(input)

    async def update(self, point: ThreadPoint | None, values: Any, as_node: Any) -> ThreadPoint:
        """Begin a fork of a point with updated values, which nobody drives, and return the fork's first point."""
        newest = await self.store.newest(self.thread)
        erased = newest is None or newest.record.erased is not None
        if point is None and not erased and newest is not None:
            point = self._point(newest)
        at = await self._read(point, input=True) if point is not None else None
        step = updated_step(as_node, at)
        draft = ForkDraft(self.setup.agent, at)
        draft.after_hooks = as_node == GATE
        keys = self._check_values(values, step)
        if values and values.get("messages") is not None:
            draft.put(values["messages"])
        end = ending_facts(draft, step)
        follows, facts = draft.facts(keys)
        return await self._store(newest, at, follows, [*facts, end])

    def _check_values(self, values: Any, step: str) -> State:
        if values is not None and not isinstance(values, Mapping):
            raise UsageError(f'An update is a dict such as {{"messages": [...]}}, or None; got {described(values)}.')
        if step == END and values:
            raise UsageError("as_node=END ends what is due, and takes no values; update the state before.")
        if own := sorted((values or {}).keys() & (OWN_KEYS - {"messages"})):
            raise UsageError(f"{own[0]!r} is not kept in the state of a thread, so no update can set it.")
        return self.setup.agent.state_schema.check_update("update_state", values or {})

    # -- beginning ---------------------------------------------------------------------------------

    def _point(self, stored: Stored) -> ThreadPoint:
        return ThreadPoint(run_number(self.thread, stored.record.id), stored.record.seq)

    async def _read(self, point: ThreadPoint, *, input: bool) -> ForkPoint:
        history = ThreadHistory(self.store, self.thread, lambda runs: view_of(runs).state())
        return await read_point(history, point, input=input)

    async def _drive(self, draft: ForkDraft, newest: Stored | None, values: State) -> Opened:
        """Begin the fork, and prepare its drive."""
        at = draft.at
        if at is not None:
            self._restore_context(at.stored)
        follows, facts = draft.facts(values)
        run = await self._close_newest(newest)
        forked = at.name if at is not None else ""
        place = self.place._replace(run=run, thread=self.thread, follows=follows, forked=forked)
        config = replace(self.setup.config, started_by=_started_by(at) or self.setup.config.started_by)
        said, *more = facts
        assert isinstance(said, f.Said)
        place = place._replace(update=said.update)
        driver = begin_run(self.setup.agent, said.items, self.context, self._turns, config, None, place, Driver)
        driver.journal.append(more)
        with explain_race(driver):
            await open_run(driver, now=True)
        return Opened(driver)

    @property
    def _turns(self) -> int:
        return self.setup.max_turns if self.limit is None else self.limit

    async def _store(
        self, newest: Stored | None, at: ForkPoint | None, follows: str | None, facts: list[f.AnyFact]
    ) -> ThreadPoint:
        """Store a fork that waits, and return its point."""
        run = await self._close_newest(newest)
        template = run_template(AgentGraph(self.setup.agent), self.setup.config, self._turns)
        now = int(self.store.clock() * 1000)
        began, *_ = first_facts(
            template,
            run,
            now,
            by=_started_by(at) or self.setup.config.started_by,
            stored=True,
            thread=self.thread,
            follows=follows,
            forked=at.name if at is not None else "",
        )
        change = anew(run, [began, *facts], now)
        if at is not None:
            change.context = at.stored.context
        try:
            await self.store.append(change)
        except Overtaken:
            raise Overtaken(
                f"Something else was recorded on thread {self.thread!r} at the same moment, and this update was not. "
                "Look at the thread, and update it again."
            ) from None
        return ThreadPoint(run_number(self.thread, run), len(change.facts))

    async def _close_newest(self, newest: Stored | None) -> str:
        """Close the thread's newest run, unless it is over, and return the id of the next one."""
        await self.store.open()
        number = run_number(self.thread, newest.record.id) + 1 if newest is not None else 1
        run = f"{self.thread}:{number}"
        if newest is not None:
            await close_newest(self.store, newest, WITHDRAWN.format(run))
        return run


def _started_by(at: ForkPoint | None) -> str | None:
    """Return the user who asked for the run that is forked from: a fork lets nobody decide on their own run."""
    began = at.stored.facts[0] if at is not None else None
    return began.by if isinstance(began, f.Began) else None
