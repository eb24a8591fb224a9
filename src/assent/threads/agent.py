"""Agents with threads: new messages on a thread, answers to its questions, and its state.

A thread is a sequence of runs, each with its journal in the store. The id of a run is derived from the thread and the
run's number, so that only one of two concurrent callers can begin the n-th run. There is no runtime here: the ordinary
runner drives an ordinary agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
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
    DefinitionChanged,
    InvalidOutput,
    LeaseLost,
    MaxTurnsExceeded,
    Overtaken,
    RunBusy,
    RunNotFound,
    ThreadWaiting,
    UnansweredRequest,
    UsageError,
)
from ..output import TRY_AGAIN
from ..runtime.agent_graph import AgentGraph
from ..runtime.config import RunConfig
from ..runtime.driver import Driver
from ..runtime.lease import REFUSED
from ..runtime.runner import Order, drive, prepare
from ..runtime.store_writer import past
from ..runtime.sync import block, iterate
from ..runtime.value import input_json
from ..runtime.view import View
from ..store.memory import MemoryStore
from ..store.record import RunRecord, Stored
from ..store.store import Store
from ..tools.delegation import AgentTool
from .interrupts import Answer, Chosen, Command, Interrupt, interrupts, pending, waits_for
from .message import Message, fresh, given_messages, messages_of, said
from .middleware_context import WRITER
from .policy import ThreadedAgent
from .schema import ContextSchema, kept
from .stream import GATE, Mode, ThreadStream, last_chunks, modes_of

OnPending = Literal["reject", "keep"] | None
MAX_TURNS = 25
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
    """An opened thread: a driver of its newest run, or only the runs as read if there is nothing to drive."""

    driver: Driver | None
    read: Sequence[Run] = ()

    @property
    def runs(self) -> list[Run]:
        """The runs of the thread, oldest first."""
        return list(self.read) if self.driver is None else [*self.driver.before, self.driver.journal.run]


class ThreadAgent:
    """An agent with threads; made with `create_agent`."""

    def __init__(
        self,
        agent: ThreadedAgent,
        store: Store | None,
        *,
        inner: bool = False,
        gated: bool = False,
        schema: ContextSchema | None = None,
        max_turns: int = MAX_TURNS,
    ) -> None:
        self.agent: Agent[Any] = agent
        """The ordinary agent, for a worker or as a tool of another agent."""
        self.store = store
        """The store of the agent's threads."""
        self._prefix, self._inner, self._gated = agent.description_prefix, inner, gated
        self._schema, self._max_turns = schema, max_turns
        saved = schema.saved if schema is not None else None
        self._config = RunConfig(release="batch", context_serializer=saved)

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
        if opened.driver is not None and not await self._driven(opened.driver):
            opened = await self._open(None, config, context, None, now=True)
            if opened.driver is not None:  # the second driver holds the lease, so no other writer can be first
                await self._driven(opened.driver)
        state = self._state(opened)
        if opened.driver is not None:
            opened.driver.let_go()
        return state

    async def _driven(self, driver: Driver) -> bool:
        """Drive the run; return False if others changed it or drive it, so that this drive has not begun."""
        writer = driver.writer
        assert writer is not None
        with self._reworded(driver):
            try:
                await drive(driver, None)
            except (Overtaken, RunBusy):
                if writer.lease.state is not REFUSED or not writer.seq:
                    raise
                return False
        return True

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
            with self._reworded(opened.driver):
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
        for last in last_chunks(modes, opened.runs[-1], state if state != shown else None, self._prefix_at):
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
        run = opened.runs[-1]
        at = datetime.fromtimestamp(last.record.changed / 1000, UTC).isoformat()
        state = self._state(opened)
        state.pop("__interrupt__", None)
        return StateSnapshot(state, _next(run), tuple(interrupts(run, self._prefix_at)), dict(config), at)

    def _state(self, opened: Opened) -> dict[str, Any]:
        """Return the state of a thread in the public form."""
        run = opened.runs[-1]
        state: dict[str, Any] = {"messages": messages_of(opened.runs)}
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
        try:
            made_by = AgentGraph(self.agent).of(state).agent
        except DefinitionChanged:
            return self._prefix
        return made_by.description_prefix if isinstance(made_by, ThreadedAgent) else self._prefix

    # -- threads -----------------------------------------------------------------------------------

    def _kept(self) -> Store:
        if self._inner:
            raise UsageError("This agent is made to be a tool of another: checkpointer=True. Run that one.")
        if self.store is None:
            raise UsageError("There are no threads without a checkpointer; give create_agent one.")
        return self.store

    def _thread(self, config: Any) -> str:
        options = config.get("configurable") if isinstance(config, Mapping) else None
        options = options if isinstance(options, Mapping) else {}
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
            return await self._go_on(store, thread, stored, self._context(stored, context), limit, now)
        items = said(await self._fresh(store, thread, last, given_messages(input)))
        if last is None or last.record.status in ENDED or last.record.erased is not None:
            record = last.record if last is not None else None
            return await self._begin(store, thread, record, items, context, limit, now)
        context = self._context(last, context)
        stored = await self._say(store, thread, last, items, on_pending)
        return await self._go_on(store, thread, stored, context, limit, now)

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
        known = messages_of((await self._look(store, last)).runs) if last is not None else []
        return fresh(given, known, thread)

    async def _begin(
        self, store: Store, thread: str, last: RunRecord | None, items: Any, context: Any, limit: int | None, now: bool
    ) -> Opened:
        follows = last.id if last is not None else None
        number = _number(thread, follows) + 1 if follows is not None else 1
        order = Order(store=store, run=f"{thread}:{number}", thread=thread, follows=follows)
        turns = self._max_turns if limit is None else limit
        await store.open()
        driver, _ = prepare(self.agent, items, context, turns, self._config, None, order)
        with self._reworded(driver):
            await _take(driver, now)
        return Opened(driver)

    async def _go_on(
        self, store: Store, thread: str, stored: Stored, context: Any, limit: int | None, now: bool
    ) -> Opened:
        for _ in range(TRIES):
            with self._reworded():
                driver, _ = prepare(self.agent, stored, context, limit, self._config, None, Order(store=store))
            try:
                await _take(driver, now)
                return Opened(driver)
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
        return Opened(None, [*(await past(store, follows) if follows is not None else ()), run])

    async def _answer(
        self, store: Store, thread: str, command: Command, context: Any, limit: int | None, now: bool
    ) -> Opened:
        stored = _known(thread, await store.newest(thread))
        context = self._context(stored, context)
        answer = Answer(thread, command.resume, lambda state, name: AgentGraph(self.agent).of(state).tools.get(name))
        with answer.placed():
            stored = await store.decide_all(stored.record.id, answer, by=command.by, known=stored)
        return await self._go_on(store, thread, stored, context, limit, now)

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

    @contextmanager
    def _reworded(self, driver: Driver | None = None) -> Iterator[None]:
        """Reword errors with what to do on a thread."""
        try:
            yield
        except (InvalidOutput, UnansweredRequest) as error:
            error.args = (str(error).replace(TRY_AGAIN, "say something on the thread to let the model try again"),)
            raise
        except MaxTurnsExceeded as error:
            again = (
                "To go on, call invoke(None, config) with a higher "
                '"recursion_limit" in the config; or say something new, which begins another run.'
            )
            last = "To give every run more, use create_agent(max_turns=...)."
            error.args = (f"The run used up its turns. {f'{again} ' if self.store is not None else ''}{last}",)
            raise
        except (LeaseLost, Overtaken):
            if driver is None or driver.writer is None or driver.writer.seq:
                raise
            thread = driver.journal.run.began.thread if driver.journal.run.began is not None else None
            raise Overtaken(
                f"Something else was said on thread {thread!r} at the same moment, and this was not recorded. Look at "
                "the thread, and say it again."
            ) from None


def _set_aside(state: CallState, asked: f.Asked) -> Chosen:
    """Return the rejection of an unanswered question; its text mentions what the call has already done."""
    done = deeds(state, asked.id)
    return asked.id, Reject(f"{GIVEN_UP} {done}" if done else SET_ASIDE), asked.digest


def _number(thread: str, run_id: str) -> int:
    """Return the number of a run in its thread, from 1 on."""
    number = run_id.removeprefix(f"{thread}:")
    if not number.isascii() or not number.isdigit():
        raise UsageError(
            f"The last run of thread {thread!r:.80} is {run_id!r:.80}, which no agent with threads has begun; say this "
            "on another thread."
        )
    return int(number)


def _limit(config: Any) -> int | None:
    """Return the limit of model calls in the run; None if the config has no `recursion_limit`."""
    limit = config.get("recursion_limit") if isinstance(config, Mapping) else None
    if limit is not None and not is_count(limit):
        raise UsageError(f"recursion_limit must be a whole number from 1 to 2**63 - 1, got {described(limit)}.")
    return limit


def _known(thread: str, last: Stored | None) -> Stored:
    if last is None:
        raise RunNotFound(f"There is no thread {thread!r:.80}; begin it with a message.")
    return last


async def _take(driver: Driver, now: bool) -> None:
    """Store the run and acquire its lease. Without `now`, both may wait for the first write."""
    writer = driver.writer
    assert writer is not None
    if not now and not writer.waits:
        return
    try:
        await writer.begin(now=now)
    except GeneratorExit:  # the coroutine is garbage-collected with its event loop: awaiting is impossible
        raise
    except BaseException:
        await writer.close()
        raise


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
