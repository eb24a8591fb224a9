"""Opening a thread: finds the run to drive, or begins it, and records new messages or answers first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from uuid import UUID

from msgspec import Raw

from ..approval.decision import Reject
from ..approval.question import possible_effects
from ..core import allowed
from ..core import facts as f
from ..core.number import LARGEST, is_count
from ..core.run import ENDED, CallState, Run
from ..core.wording import described, holds
from ..definitions.tool import Tool
from ..errors import LeaseLost, Overtaken, RunBusy, RunNotFound, ThreadWaiting, UsageError
from ..runtime.agent_graph import AgentGraph
from ..runtime.config import RunConfig
from ..runtime.drive import RunPlace, begin_run, open_run, resume_run
from ..runtime.driver import Driver
from ..runtime.state import state_of
from ..runtime.store_writer import past
from ..runtime.value import input_json, output_json
from ..store.record import Stored
from ..store.store import Store
from .foreign import is_langchain_message
from .interrupts import Answer, Chosen, Command, pending, waits_for
from .message_items import as_list, given_messages, run_input, unknown_messages
from .review import GIVEN_UP, SET_ASIDE
from .schema import ContextSchema, restore_context
from .threaded_agent import ThreadedAgent
from .view import messages_of

OnPending = Literal["reject", "keep"] | None
RECURSION_LIMIT = allowed.COUNT.or_none
TRIES = 5
"""The number of attempts to acquire a run that other writers keep changing."""


class Opened(NamedTuple):
    """An opened thread: a driver of its newest run, or only the runs as read if there is nothing to drive."""

    driver: Driver | None
    read: Sequence[Run] = ()

    @property
    def runs(self) -> list[Run]:
        """The runs of the thread, oldest first."""
        return list(self.read) if self.driver is None else [*self.driver.journal.before, self.driver.journal.run]


class Setup(NamedTuple):
    """An agent with the settings of its runs."""

    agent: ThreadedAgent
    config: RunConfig
    schema: ContextSchema | None
    max_turns: int
    advice: str
    """The advice to a caller whose thread has used up its turns."""


class Opening:
    """One call on a thread.

    With `now`, the input is stored and the lease is held once the thread is opened. Otherwise both may happen with the
    first write of the drive.
    """

    def __init__(self, setup: Setup, store: Store, thread: str, context: Any, limit: int | None, *, now: bool) -> None:
        self.setup, self.store, self.thread = setup, store, thread
        self.place = RunPlace(store=store, advice=setup.advice)
        self.context, self.limit, self.now = context, limit, now

    async def say(self, input: Any, on_pending: OnPending) -> Opened:
        """Open the thread with new messages: begin a run, or add the messages to the run that is not over."""
        messages = given_messages(input)
        if not self.setup.agent.speaks_langchain and any(map(is_langchain_message, as_list(input["messages"]))):
            self.setup.agent.speaks_langchain = True
        values = self.setup.agent.state_schema.check_input(input)
        update = output_json([values])[0] if values else f.NOTHING
        last = await self.store.newest(self.thread)
        if any(each.id is not None for each in messages):
            known = messages_of((await look(self.store, last)).runs) if last is not None else []
            messages = unknown_messages(messages, known, self.thread)
        items = run_input(messages)
        if last is None or last.record.status in ENDED or last.record.erased is not None:
            return await self._begin(last.record.id if last is not None else None, items, update)
        self._restore_context(last)
        said = f.Said(input_json(items), update=update)
        return await self._take_up(await self._record_messages(last, said, on_pending))

    async def answer(self, command: Command) -> Opened:
        """Open the thread with an answer."""
        resume = command.answer()
        stored = await self._newest()
        self._restore_context(stored)
        answer = Answer(self.thread, resume, self._tool_at)
        with answer.name_position():
            stored = await self.store.decide_all(stored.record.id, answer, by=command.by, known=stored)
        return await self._take_up(stored)

    async def go_on(self) -> Opened:
        """Open the thread as it is."""
        stored = await self._newest()
        if stored.record.status in ("done", "closed"):
            return await look(self.store, stored)
        self._restore_context(stored)
        return await self._take_up(stored)

    async def _newest(self) -> Stored:
        last = await self.store.newest(self.thread)
        if last is None:
            raise RunNotFound(f"There is no thread {self.thread!r:.80}; begin it with a message.")
        return last

    def _restore_context(self, stored: Stored) -> None:
        """Use the saved context if none is given, or raise `ContextMissing` before anything is recorded."""
        if self.context is None:
            self.context = restore_context(stored.context, self.setup.schema)

    def _tool_at(self, state: CallState, name: str) -> Tool | None:
        return AgentGraph(self.setup.agent).of(state).tools.get(name)

    async def _record_messages(self, stored: Stored, said: f.Said, on_pending: OnPending) -> Stored:
        """Record messages on a run that is not over, and settle open questions as `on_pending` says."""
        record, thread = stored.record, self.thread
        if record.worker is not None and (record.until is None or record.until > self.store.clock() * 1000):
            raise RunBusy(f"Thread {thread!r} is being worked on; wait until that is done, and send the message again.")

        def choose(run: Run) -> list[Chosen]:
            waiting = pending(run)
            if on_pending == "keep" or not waiting:
                return []
            if on_pending is None:
                raise ThreadWaiting(
                    f"Thread {thread!r} waits for {waits_for(run)}. Answer with Command(resume=...); or say with this "
                    'message what becomes of it: on_pending="reject" rejects it, on_pending="keep" lets it wait.'
                )
            states = [state for each in waiting for _, state in each.states]
            fixed = [state.tool for state in states if "reject" not in state.allowed()]
            if fixed:
                raise ThreadWaiting(
                    f"Thread {thread!r} waits for {waits_for(run)}, and {', '.join(fixed)} can only be answered, not "
                    'rejected. Answer with Command(resume=...), or say the message with on_pending="keep".'
                )
            return [_set_aside(state, state.question) for state in states if state.question]

        return await self.store.decide_all(record.id, choose, by="user", say=said, known=stored)

    async def _begin(self, follows: str | None, items: Any, update: Raw) -> Opened:
        number = run_number(self.thread, follows) + 1 if follows is not None else 1
        run = f"{self.thread}:{number}"
        place = self.place._replace(run=run, thread=self.thread, follows=follows, update=update)
        turns = self.setup.max_turns if self.limit is None else self.limit
        await self.store.open()
        input = input_json(items)
        driver = begin_run(self.setup.agent, input, self.context, turns, self.setup.config, None, place, Driver)
        with explain_race(driver):
            await open_run(driver, now=self.now)
        return Opened(driver)

    async def _take_up(self, stored: Stored) -> Opened:
        """Prepare a drive of a run that is not over."""
        agent, config, context = self.setup.agent, self.setup.config, self.context
        for _ in range(TRIES):
            state = state_of(agent, stored, context, config)
            driver = resume_run(agent, state, context, self.limit, config, None, self.place, Driver)
            try:
                await open_run(driver, now=self.now)
                return Opened(driver)
            except Overtaken:
                stored = await self.store.read(stored.record.id)
                if stored.record.status in ("done", "closed"):
                    return await look(self.store, stored)
            except RunBusy:
                raise RunBusy(
                    f"Thread {self.thread!r} is driven by somebody else at the moment, who goes on with what is "
                    "recorded; or by a stream that was left and is not closed yet."
                ) from None
        raise Overtaken(f"Thread {self.thread!r} changes faster than this call can acquire it; try again.")


async def look(store: Store, stored: Stored) -> Opened:
    """Return a thread as it was read; there is nothing to drive."""
    run = stored.run() if stored.record.erased is None else Run()
    follows = run.began.follows if run.began is not None else None
    return Opened(None, [*(await past(store, follows) if follows is not None else ()), run])


@contextmanager
def explain_race(driver: Driver) -> Iterator[None]:
    """Raise `Overtaken` with a clear message if another caller began the same run first."""
    try:
        yield
    except (LeaseLost, Overtaken):
        began = driver.journal.run.began
        if driver.writer is None or driver.writer.seq or began is None:
            raise
        raise Overtaken(
            f"Another message was recorded on thread {began.thread!r} at the same moment, and this one was not. Look "
            "at the thread, and send it again."
        ) from None


def thread_of(config: Any) -> str:
    """Return the thread's id in a config, or raise `UsageError`."""
    options = config.get("configurable") if isinstance(config, Mapping) else None
    options = options if isinstance(options, Mapping) else {}
    thread = options.get("thread_id")
    if type(thread) is UUID or isinstance(thread, str) or is_count(thread, -LARGEST):
        thread = str(thread)
    if type(thread) is not str or not thread or not holds(thread):
        raise UsageError(
            'Say which thread: config={"configurable": {"thread_id": "..."}}, a text of your own; '
            f"got {described(config)}."
        )
    return thread


def turns_of(config: Any) -> int | None:
    """Return the limit of model calls in the run; None if the config has no `recursion_limit`."""
    limit = config.get("recursion_limit") if isinstance(config, Mapping) else None
    allowed.check_option("config", "recursion_limit", limit, RECURSION_LIMIT, UsageError)
    return limit


def _set_aside(state: CallState, asked: f.Asked) -> Chosen:
    """Return the rejection of an unanswered question; its text mentions what the call has already done."""
    done = possible_effects(state, asked.id)
    return asked.id, Reject(f"{GIVEN_UP} {done}" if done else SET_ASIDE), asked.digest


def find_run_number(thread: str, run_id: str) -> int | None:
    """Return the number of a run in its thread, from 1 on; None if no agent with threads has begun it."""
    number = run_id.removeprefix(f"{thread}:")
    return int(number) if number.isascii() and number.isdigit() else None


def run_number(thread: str, run_id: str) -> int:
    """Return the number of a run in its thread, or raise `UsageError` if no agent with threads has begun it."""
    number = find_run_number(thread, run_id)
    if number is None:
        raise UsageError(
            f"The last run of thread {thread!r:.80} is {run_id!r:.80}, which no agent with threads has begun; say this "
            "on another thread."
        )
    return number
