"""Agents with threads: new messages on a thread, answers to its questions, and its state.

A thread is a sequence of runs, each with its journal in the store. The id of a run is derived from the thread and the
run's number, so that only one of two concurrent callers can begin the n-th run. There is no runtime here: the ordinary
runner drives an ordinary agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from msgspec import Struct

from ..agent import Agent
from ..approval.decision import Reject
from ..approval.question import deeds, new_id
from ..core import facts as f
from ..core.codec import replay
from ..core.digest import described, holds
from ..core.number import LARGEST, is_count
from ..core.run import ENDED, CallState, Run, owed
from ..errors import (
    AssentError,
    DefinitionChanged,
    InvalidDecision,
    InvalidOutput,
    LeaseLost,
    MaxTurnsExceeded,
    Overtaken,
    RunBusy,
    RunNotFound,
    StoreFailed,
    ThreadWaiting,
    UnansweredRequest,
    UsageError,
)
from ..output import TRY_AGAIN
from ..runtime.agent_graph import AgentGraph
from ..runtime.config import RunConfig
from ..runtime.driver import Driver
from ..runtime.lease import REFUSED
from ..runtime.runner import Order, Part, drive, prepare
from ..runtime.store_writer import past
from ..runtime.sync import block, iterate
from ..runtime.value import input_json
from ..runtime.view import View
from ..store.memory import MemoryStore
from ..store.record import RunRecord, Stored
from ..store.store import Store
from ..tools.delegation import AgentTool
from ..tools.tool import Tool
from .interrupts import (
    PREFIX,
    Chosen,
    Command,
    Interrupt,
    Pending,
    answered,
    answers,
    interrupts,
    pending,
    placed,
    waits_for,
)
from .message import Message, fresh, given_messages, messages_of, said
from .middleware_context import WRITER
from .policy import prefix_of
from .schema import ContextSchema, kept
from .stream import GATE, Mode, ThreadStream, last_chunks, modes_of

OnPending = Literal["reject", "keep"] | None
MAX_TURNS = 25
MAPPING = (dict, Mapping)
"""The types of a config. `dict` comes first because most configs are dicts and this check is fast."""
TRIES = 5
"""The number of attempts to acquire a run that other writers keep changing."""
SET_ASIDE = "The user said something else instead of answering; the call did not run."
GIVEN_UP = "The user said something else instead of answering, and the call was given up."


class StateSnapshot(Struct, frozen=True):
    """The current state of a thread: its messages, the next node, and the open interrupts."""

    values: dict[str, Any]
    """`{"messages": [...]}`; empty if the thread does not exist."""
    next: tuple[str, ...]
    """The node that runs next; empty when the last run is over."""
    interrupts: tuple[Interrupt, ...]
    config: dict[str, Any]
    created_at: str | None = None
    """The time of the thread's last change, as ISO 8601."""


class Opened(NamedTuple):
    """An opened thread: a driver of its newest run, or only the run if there is nothing to drive."""

    driver: Driver | None
    found: Run
    """The run as it was read from the store, or just begun."""
    found_before: list[Run]
    """The earlier runs of the thread, as read."""
    again: Callable[[], Awaitable[Opened]] | None = None
    """A function that records the answer first and opens the thread again, for when another writer was faster."""

    @property
    def run(self) -> Run:
        """The current run."""
        return self.found if self.driver is None else self.driver.journal.run

    @property
    def before(self) -> list[Run]:
        """The earlier runs of the thread, oldest first."""
        return self.found_before if self.driver is None else self.driver.before


class ThreadAgent:
    """An agent with threads; made with `create_agent`."""

    def __init__(
        self,
        agent: Agent[Any],
        store: Store | None,
        *,
        inner: bool = False,
        prefix: str = PREFIX,
        gated: bool = False,
        config: RunConfig,
        schema: ContextSchema | None = None,
        max_turns: int = MAX_TURNS,
    ) -> None:
        self.agent = agent
        """The ordinary agent, for a worker or as a tool of another agent."""
        self.store = store
        """The store of the agent's threads."""
        self._inner, self._prefix, self._gated, self._config, self._max_turns = inner, prefix, gated, config, max_turns
        self._schema = schema

    def __repr__(self) -> str:
        return f"<ThreadAgent {self.agent.name!r}>"

    def as_tool(self, name: str | None = None, description: str | None = None, **options: Any) -> AgentTool:
        """Return this agent as a tool. Its questions appear in the thread of the outer agent. See `Agent.as_tool`."""
        return self.agent.as_tool(name, description, **options)

    # -- running -----------------------------------------------------------------------------------

    def invoke(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        on_pending: OnPending = None,
    ) -> dict[str, Any]:
        """Call `ainvoke` and block until it returns. Works inside a running event loop too."""
        return block(self.ainvoke(input, config, context=context, on_pending=on_pending))

    async def ainvoke(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        on_pending: OnPending = None,
    ) -> dict[str, Any]:
        """Add messages to a thread, or answer its open questions, and run until the run is done or waits again.

        Args:
            input: `{"messages": [...]}`, `Command(resume=...)`, or None to continue an unfinished run.
            config: `{"configurable": {"thread_id": ...}}`. `recursion_limit` is the number of model calls allowed in
                the run.
            context: Any object for tools and hooks; stored with the run if possible.
            on_pending: The treatment of open questions when there is a new message: "reject" rejects the questions,
                "keep" keeps them open, and the model gets the message after their answers. By default such a message
                is refused with `ThreadWaiting`.

        Returns:
            The state: "messages", all messages of the thread; "__interrupt__", a list, if the thread waits;
            "structured_response", if there is a `response_format` and the run is done.
        """
        opened = await self._open(input, config, context, on_pending)
        if opened.driver is not None and not await _driven(opened.driver) and opened.again is not None:
            opened = await opened.again()
            if opened.driver is not None:  # the second driver holds the lease, so no other writer can be first
                await _driven(opened.driver)
        state = self._state(opened)
        if opened.driver is not None:
            opened.driver.let_go()
        return state

    def stream(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        stream_mode: Mode | Sequence[Mode] = "updates",
        context: Any = None,
        on_pending: OnPending = None,
    ) -> Iterator[Any]:
        """Iterate over `astream` and block for each chunk. Works inside a running event loop too."""
        modes_of(stream_mode)
        return iterate(self.astream(input, config, stream_mode=stream_mode, context=context, on_pending=on_pending))

    async def astream(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        stream_mode: Mode | Sequence[Mode] = "updates",
        context: Any = None,
        on_pending: OnPending = None,
    ) -> AsyncGenerator[Any, None]:
        """Run like `ainvoke`, and yield chunks while the run goes on.

        Closing the stream stops the run; `invoke(None)` continues the run later.

        Args:
            input: As for `ainvoke`.
            config: As for `ainvoke`.
            stream_mode: "updates": the result of each node, `{"model": {...}}`, and `{"__interrupt__": (...)}` at a
                pause; "messages": pairs of a token, or a tool's message, and metadata about its origin; "values": the
                whole state after each step; "custom": the values that tools and hooks pass to `get_stream_writer()`.
                With a list, each chunk is a pair of the mode and the chunk.
            context: As for `ainvoke`.
            on_pending: As for `ainvoke`.
        """
        modes, told_apart = modes_of(stream_mode)
        opened = await self._open(input, config, context, on_pending, now=True)
        async with aclosing(self._chunks(opened, modes)) as chunks:
            async for mode, chunk in chunks:
                yield (mode, chunk) if told_apart else chunk

    async def _chunks(self, opened: Opened, modes: list[Mode]) -> AsyncGenerator[tuple[Mode, Any], None]:
        shown = None
        if opened.driver is not None:
            stream = ThreadStream(opened.driver, modes, self._gated)
            before = WRITER.set(stream.write)
            stream._start(drive(opened.driver, None))
            WRITER.reset(before)
            with _told_on_a_thread():
                try:
                    if "values" in modes:
                        shown = stream.state()
                        yield "values", shown
                    async with aclosing(stream.stream_events()) as events:  # type: ignore[type-var]
                        async for event in events:
                            if isinstance(event, tuple):
                                shown = event[1] if event[0] == "values" else shown
                                yield event
                finally:  # a reader that stops at the first chunk has not begun to read events
                    await stream._left()
        state = self._state(opened)
        for last in last_chunks(modes, opened.run, state if state != shown else None, self._prefix_at):
            yield last

    # -- state -------------------------------------------------------------------------------------

    def get_state(self, config: Mapping[str, Any]) -> StateSnapshot:
        """Call `aget_state` and block until it returns."""
        return block(self.aget_state(config))

    async def aget_state(self, config: Mapping[str, Any]) -> StateSnapshot:
        """Return the current state of a thread; an empty state if the thread does not exist."""
        thread, store = self._thread(config), self._kept()
        last = await store.newest(thread)
        if last is None:
            return StateSnapshot({}, (), (), dict(config))
        opened = await self._look(store, last)
        at = datetime.fromtimestamp(last.record.changed / 1000, UTC).isoformat()
        waiting = tuple(interrupts(opened.run, self._prefix_at))
        state = self._state(opened)
        state.pop("__interrupt__", None)
        return StateSnapshot(state, _next(opened.run), waiting, dict(config), at)

    def _state(self, opened: Opened) -> dict[str, Any]:
        """Return the state of a thread in the public form."""
        run = opened.run
        state: dict[str, Any] = {"messages": messages_of([*opened.before, run])}
        if run.open and (waiting := interrupts(run, self._prefix_at)):
            if self.store is None:
                raise UsageError(
                    f"The agent {self.agent.name!r} waits for {waits_for(run)}, and nobody can answer: give it a "
                    "checkpointer. If a tool of another agent runs it, give that agent agent.as_tool() in the tool's "
                    "place: what it asks comes up there."
                )
            state["__interrupt__"] = waiting
        if self.agent.output_type is not None and run.concluded is not None:
            state["structured_response"] = View(run, AgentGraph(self.agent), {}).output()
        return state

    def _prefix_at(self, state: CallState) -> str:
        """Return the prefix of a call's default description, from the agent that made the call if it has a prefix."""
        if state.turn.agent == self.agent.name:
            return self._prefix
        try:
            return prefix_of(AgentGraph(self.agent).of(state).agent, self._prefix)
        except DefinitionChanged:
            return self._prefix

    # -- threads -----------------------------------------------------------------------------------

    def _kept(self) -> Store:
        if self._inner:
            raise UsageError("This agent is made to be a tool of another: checkpointer=True. Run that one.")
        if self.store is None:
            raise UsageError("There are no threads without a checkpointer; give create_agent one.")
        return self.store

    def _thread(self, config: Any) -> str:
        options = config.get("configurable") if isinstance(config, MAPPING) else None
        options = options if isinstance(options, MAPPING) else {}
        thread = options.get("thread_id")
        if type(thread) is UUID or is_count(thread, -LARGEST):
            thread = str(thread)
        if type(thread) is not str or not thread or not holds(thread):
            raise UsageError(
                'Say which thread: config={"configurable": {"thread_id": "..."}}, a text of your own; '
                f"got {described(config)}."
            )
        if options.get("checkpoint_id") is not None:
            raise UsageError("A thread goes on where it stands, and cannot go back to a checkpoint_id; leave it out.")
        return thread

    async def _open(self, input: Any, config: Any, context: Any, on_pending: OnPending, *, now: bool = False) -> Opened:
        """Open a thread with new messages or answers, ready to be driven.

        With `now`, the input is stored and the lease is held when this returns. Otherwise both may happen with the
        first write of the drive.
        """
        if on_pending not in (None, "reject", "keep"):
            raise UsageError(f'on_pending is "reject", "keep" or None, got {described(on_pending)}.')
        limit = _limit(config)
        if self._schema is not None and context is not None:
            context = self._schema.given(context)
        if self.store is None and not self._inner:
            return await self._alone(input, context, limit)
        store, thread = self._kept(), self._thread(config)
        if isinstance(input, Command):
            return await self._answer(store, thread, input, context, limit, now)
        last = await store.newest(thread)
        if input is None:
            stored = _known(thread, last)
            if stored.record.status in ("done", "closed"):
                return await self._look(store, stored)
            return await self._go_on(store, thread, stored, self._context(stored, context), limit)
        items = said(await self._fresh(store, thread, last, given_messages(input)))
        if last is None or last.record.status in ENDED or last.record.erased is not None:
            record = last.record if last is not None else None
            return await self._begin(store, thread, record, items, context, limit, now)
        context = self._context(last, context)
        stored = await self._say(store, thread, last, items, on_pending)
        return await self._go_on(store, thread, stored, context, limit)

    def _context(self, stored: Stored, given: Any) -> Any:
        """Return the context to continue with, or raise `ContextMissing` before anything is recorded."""
        return kept(stored.context, self._schema) if given is None else given

    async def _alone(self, input: Any, context: Any, limit: int | None) -> Opened:
        """Begin a run without a checkpointer, which cannot be continued later."""
        if input is None or isinstance(input, Command):
            raise UsageError("There is nothing to go on with without a checkpointer; give create_agent one.")
        items = said(given_messages(input))
        return await self._begin(MemoryStore(), new_id("thread"), None, items, context, limit, False)

    async def _fresh(self, store: Store, thread: str, last: Stored | None, given: list[Message]) -> list[Message]:
        """Return the new messages of an input; messages that the thread already has, by id, are left out."""
        if all(each.id is None for each in given):
            return given
        opened = await self._look(store, last) if last is not None else None
        return fresh(given, messages_of([*opened.before, opened.run]) if opened is not None else [], thread)

    async def _begin(
        self, store: Store, thread: str, last: RunRecord | None, items: Any, context: Any, limit: int | None, now: bool
    ) -> Opened:
        part = Part(thread, f"{thread}:{_number(last) + 1}", last.id if last is not None else None)
        order = Order(store=store, part=part)
        turns = self._max_turns if limit is None else limit
        await store.open()
        driver, _ = prepare(self.agent, items, context, turns, self._config, None, order)
        with _told_of_others(driver):
            await _taken_up(driver, now)
        return Opened(driver, driver.journal.run, driver.before)

    async def _go_on(self, store: Store, thread: str, stored: Stored, context: Any, limit: int | None) -> Opened:
        for _ in range(TRIES):
            with _told_on_a_thread():
                driver, _ = prepare(self.agent, stored, context, limit, self._config, None, Order(store=store))
            try:
                await _taken_up(driver, now=True)
                return Opened(driver, driver.journal.run, driver.before)
            except Overtaken:
                stored = await store.read(stored.record.id)
                if stored.record.status in ("done", "closed"):
                    return await self._look(store, stored)
            except RunBusy:
                raise RunBusy(
                    f"Thread {thread!r} is driven by somebody else at the moment, who goes on with what is recorded; "
                    "or by a stream that was left and is not closed yet."
                ) from None
        raise Overtaken(f"Thread {thread!r} changes faster than it can be taken up; try again.")

    async def _look(self, store: Store, stored: Stored) -> Opened:
        run = replay(stored.facts) if stored.record.erased is None else Run()
        follows = run.began.follows if run.began is not None else None
        return Opened(None, run, await past(store, follows) if follows is not None else [])

    async def _answer(
        self, store: Store, thread: str, command: Command, context: Any, limit: int | None, now: bool
    ) -> Opened:
        """Continue with an answer.

        The answer is written together with the first write of the drive. It is recorded first with `now`, if that is
        not possible, or if another writer was faster.
        """
        stored = _known(thread, await store.newest(thread))
        choose, proposal = Choice(self.agent, thread, command), None
        run_id, context = stored.record.id, self._context(stored, context)

        async def record(known: Stored | None = None) -> Opened:
            with choose.placed():
                recorded = await store.decide_all(run_id, choose, by=command.by, known=known)
            return await self._go_on(store, thread, recorded, context, limit)

        if not now:
            with choose.placed():
                proposal = await store.propose(stored, choose, by=command.by)
        if proposal is None:
            return await record(stored)
        try:
            driver, _ = prepare(self.agent, proposal, context, limit, self._config, None, Order(store=store))
            await _taken_up(driver, now=False)
        except StoreFailed:
            raise  # the answer may be recorded already
        except AssentError:
            return await record()  # raises the error again if the cause remains
        return Opened(driver, driver.journal.run, driver.before, record)

    async def _say(self, store: Store, thread: str, stored: Stored, items: Any, on_pending: OnPending) -> Stored:
        """Add messages to a thread whose last run is not over, and settle open questions as `on_pending` says."""
        record = stored.record
        if record.worker is not None and (record.until is None or record.until > store.clock() * 1000):
            raise RunBusy(f"Thread {thread!r} is being worked on; wait until that is done, and say it again.")

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

        return await store.decide_all(record.id, choose, by="user", say=input_json(items), known=stored)


class Choice:
    """A function that turns an answer into decisions on the current run."""

    def __init__(self, agent: Agent[Any], thread: str, command: Command) -> None:
        self.agent, self.thread, self.command = agent, thread, command
        self.chosen: list[Chosen] = []
        self.shown: list[Pending] = []
        """The open interrupts of the run."""

    def __call__(self, run: Run) -> list[Chosen]:
        for question, _, _ in self.chosen:  # open in the last call; another person may have answered since
            if (already := answered(run, question)) is not None:
                raise already
        self.shown = pending(run)
        self.chosen = answers(run, self.thread, self.command.resume, self._tool_at)
        return self.chosen

    def _tool_at(self, state: CallState, name: str) -> Tool | None:
        return AgentGraph(self.agent).of(state).tools.get(name)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Add the position of the decision to an `InvalidDecision` from the store."""
        try:
            yield
        except InvalidDecision as error:
            for each in self.shown:
                for number, (_, state) in enumerate(each.states):
                    if state.question is not None and state.question.id == error.question:
                        with placed(state.tool, number, len(each.states)):
                            raise
            raise


def _set_aside(state: CallState, asked: f.Asked) -> Chosen:
    """Return the rejection of an unanswered question; its text mentions what the call has already done."""
    done = deeds(state, asked.id)
    return asked.id, Reject(f"{GIVEN_UP} {done}" if done else SET_ASIDE), asked.digest


def _number(record: RunRecord | None) -> int:
    """Return the run's number in its thread, from 1 on; 0 if there is no run, or no number in its id."""
    if record is None:
        return 0
    number = record.id.rpartition(":")[2]
    return int(number) if number.isascii() and number.isdigit() else 0


def _limit(config: Any) -> int | None:
    """Return the limit of model calls in the run; None if the config has no `recursion_limit`."""
    limit = config.get("recursion_limit") if isinstance(config, MAPPING) else None
    if limit is not None and not is_count(limit):
        raise UsageError(f"recursion_limit must be a whole number from 1 to 2**63 - 1, got {described(limit)}.")
    return limit


@contextmanager
def _told_on_a_thread() -> Iterator[None]:
    """Reword errors about used-up turns and invalid output with what to do on a thread."""
    try:
        yield
    except (InvalidOutput, UnansweredRequest) as error:
        error.args = (str(error).replace(TRY_AGAIN, "say something on the thread to let the model try again"),)
        raise
    except MaxTurnsExceeded as error:
        error.args = (
            "The run used up its turns. To go on, call invoke(None, config) with a higher "
            '"recursion_limit" in the config; or say something new, which begins another run. To give every run more, '
            "use create_agent(max_turns=...).",
        )
        raise


def _known(thread: str, last: Stored | None) -> Stored:
    if last is None:
        raise RunNotFound(f"There is no thread {thread!r:.80}; begin it with a message.")
    return last


async def _taken_up(driver: Driver, now: bool) -> None:
    """Store the run and acquire its lease. Without `now`, both may wait for the first write."""
    writer = driver.writer
    assert writer is not None
    try:
        await writer.begin(now=now)
    except GeneratorExit:  # the coroutine is garbage-collected with its event loop: awaiting is impossible
        raise
    except BaseException:
        await writer.close()
        raise


async def _driven(driver: Driver) -> bool:
    """Drive the run; return False if another writer was first and nothing was written."""
    writer = driver.writer
    assert writer is not None
    try:
        await drive(driver, None)
    except AssentError as error:
        if isinstance(error, Overtaken | RunBusy) and writer.lease.state is REFUSED and writer.seq:
            return False
        with _told_on_a_thread(), _told_of_others(driver):
            raise
    return True


@contextmanager
def _told_of_others(driver: Driver) -> Iterator[None]:
    """Raise `Overtaken` with a clear message if another caller began the same run first."""
    try:
        yield
    except (LeaseLost, Overtaken):
        writer, began = driver.writer, driver.journal.run.began
        if writer is None or writer.seq or began is None:
            raise
        raise Overtaken(
            f"Something else was said on thread {began.thread!r} at the same moment, and this was not recorded. Look "
            "at the thread, and say it again."
        ) from None


def _next(run: Run) -> tuple[str, ...]:
    """Return the node that runs next."""
    waiting = pending(run)
    if waiting:
        state = waiting[0].states[0][1]
        return ((GATE if waiting[0].decides else "model" if state.call.kind == "hook" else "tools"),)
    if run.cancelled is not None:  # it stays stopped until it is resumed
        return ("tools",) if run.open else ("model",)
    left = owed(run)
    return () if not left else ("model",) if type(left[0]) in (f.AskModel, f.Guard, f.Conclude) else ("tools",)
