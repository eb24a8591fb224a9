"""Agents with threads: new messages on a thread, answers to its questions, and its state.

A thread is a sequence of runs, each with its journal in the store. The id of a run is derived from the thread and the
run's number, so that only one of two concurrent callers can begin the n-th run. There is no runtime here: the ordinary
runner drives an ordinary agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from ..core import facts as f
from ..core.run import CallState, Run, owed
from ..core.wording import described
from ..definitions.agent_tool import AgentTool
from ..definitions.context import THREAD_CONFIG
from ..definitions.output import TRY_AGAIN
from ..definitions.tool import Tool
from ..errors import (
    DefinitionChanged,
    InvalidOutput,
    Overtaken,
    RunBusy,
    UnansweredRequest,
    UsageError,
)
from ..ids import new_id
from ..runtime.agent_graph import AgentGraph
from ..runtime.config import RunConfig
from ..runtime.drive import drive_run
from ..runtime.driver import Driver
from ..runtime.lease import REFUSED
from ..runtime.sync import block, iterate
from ..runtime.view import View
from ..store.memory import MemoryStore
from ..store.store import Store
from .interrupts import Command, Interrupt, interrupts, pending, waits_for
from .middleware_context import WRITER
from .opening import OnPending, Opened, Opening, Setup, explain_race, look, thread_of, turns_of
from .schema import ContextSchema
from .stream import GATE, Mode, ThreadStream, modes_of
from .threaded_agent import ThreadedAgent
from .view import view_of

MAX_TURNS = 25
GO_ON = (
    'To go on, call invoke(None, config) with a higher "recursion_limit" in the config; or say something new, which '
    "begins another run."
)
MORE = "To give every run more, use create_agent(max_turns=...)."
"""The advice to a caller whose thread has used up its turns."""


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
        self.agent: ThreadedAgent = agent
        """The ordinary agent, for a worker or as a tool of another agent."""
        self.store = store
        """The store of the agent's threads."""
        self._prefix, self._inner, self._gated = agent.description_prefix, inner, gated
        serializer = schema.save if schema is not None else None
        config = RunConfig(release=agent.nested_release or "batch", context_serializer=serializer)
        self._setup = Setup(agent, config, schema, max_turns, MORE if store is None else f"{GO_ON} {MORE}")

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
        if opened.driver is not None and not await self._drive(opened.driver, config):
            opened = await self._open(None, config, context, None, now=True)
            if opened.driver is not None:  # the second driver holds the lease, so no other writer can be first
                await self._drive(opened.driver, config)
        state = self._state(opened)
        if opened.driver is not None:
            opened.driver.let_go()
        return state

    async def _drive(self, driver: Driver, config: Any) -> bool:
        """Drive the run; return False if others changed it or drive it, so that this drive has not begun."""
        writer = driver.writer
        assert writer is not None
        with self._reword_errors(), explain_race(driver), _invoked_with(config):
            try:
                await drive_run(driver)
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
        async with aclosing(self._chunks(opened, modes, config)) as chunks:
            async for mode, chunk in chunks:
                yield (mode, chunk) if told_apart else chunk

    async def _chunks(self, opened: Opened, modes: list[Mode], config: Any) -> AsyncGenerator[tuple[Mode, Any], None]:
        shown = None
        if opened.driver is not None:
            stream = ThreadStream(opened.driver, modes, self._gated)
            before = WRITER.set(stream.write)
            with _invoked_with(config):
                stream._start(drive_run(opened.driver))
            WRITER.reset(before)
            with self._reword_errors():
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
        if "updates" in modes and (waiting := state.get("__interrupt__")):
            yield "updates", {"__interrupt__": tuple(waiting)}
        if "values" in modes and state != shown:
            yield "values", state

    # -- state -------------------------------------------------------------------------------------

    def get_state(self, config: Mapping[str, Any]) -> StateSnapshot:
        """Call `aget_state` and block until it returns."""
        return block(self.aget_state(config))

    async def aget_state(self, config: Mapping[str, Any]) -> StateSnapshot:
        """Return the current state of a thread; an empty state if the thread does not exist."""
        thread, store = thread_of(config), self._check_store()
        last = await store.newest(thread)
        if last is None:
            return StateSnapshot({}, (), (), dict(config))
        opened = await look(store, last)
        at = datetime.fromtimestamp(last.record.changed / 1000, UTC).isoformat()
        state = self._state(opened)
        waiting = tuple(state.pop("__interrupt__", ()))
        return StateSnapshot(state, _next(opened.runs[-1]), waiting, dict(config), at)

    def _state(self, opened: Opened) -> dict[str, Any]:
        """Return the state of a thread in the public form."""
        run = opened.runs[-1]
        state = self.agent.show_state(view_of(opened.runs))
        state = {"messages": state.pop("messages"), **self.agent.state_schema.output(state)}
        if run.open and (waiting := interrupts(run, self._prefix_at, self._tool_at)):
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

    def _tool_at(self, state: CallState, name: str) -> Tool | None:
        """Return the tool of this name of the agent that made the call; None if there is none any more."""
        try:
            return AgentGraph(self.agent).of(state).tools.get(name)
        except DefinitionChanged:
            return None

    # -- threads -----------------------------------------------------------------------------------

    def _check_store(self) -> Store:
        if self._inner:
            raise UsageError("This agent was made with checkpointer=True, as a tool of another agent. Run that agent.")
        if self.store is None:
            raise UsageError("There are no threads without a checkpointer; give create_agent one.")
        return self.store

    async def _open(self, input: Any, config: Any, context: Any, on_pending: OnPending, *, now: bool = False) -> Opened:
        """Open a thread with new messages or answers, ready to be driven; see `Opening`."""
        if on_pending not in (None, "reject", "keep"):
            raise UsageError(f'on_pending is "reject", "keep" or None, got {described(on_pending)}.')
        limit, schema = turns_of(config), self._setup.schema
        if schema is not None and context is not None:
            context = schema.validate(context)
        alone = self.store is None and not self._inner
        if alone and (input is None or isinstance(input, Command)):
            raise UsageError("Without a checkpointer there is no run to go on with; give create_agent one.")
        store, thread = (MemoryStore(), new_id("thread")) if alone else (self._check_store(), thread_of(config))
        opening = Opening(self._setup, store, thread, context, limit, now=now)
        with self._reword_errors():
            if isinstance(input, Command):
                return await opening.answer(input)
            return await (opening.go_on() if input is None else opening.say(input, on_pending))

    @contextmanager
    def _reword_errors(self) -> Iterator[None]:
        """Reword errors about invalid output with what to do on a thread."""
        try:
            yield
        except (InvalidOutput, UnansweredRequest) as error:
            error.args = (str(error).replace(TRY_AGAIN, "say something on the thread to let the model try again"),)
            raise


@contextmanager
def _invoked_with(config: Any) -> Iterator[None]:
    """Give the config to the tools that take it, while the thread is driven."""
    before = THREAD_CONFIG.set(config if isinstance(config, Mapping) else {})
    try:
        yield
    finally:
        THREAD_CONFIG.reset(before)


def _next(run: Run) -> tuple[str, ...]:
    """Return the node that runs next."""
    waiting = pending(run)
    if waiting:
        first, state = waiting[0], waiting[0].states[0][1]
        by_gate = first.decides and not first.alone
        return ((GATE if by_gate else "model" if state.call.kind == "hook" else "tools"),)
    if run.cancelled is not None:  # it stays stopped until it is resumed
        return ("tools",) if run.open else ("model",)
    left = owed(run)
    return () if not left else ("model",) if type(left[0]) in (f.AskModel, f.Guard, f.Conclude) else ("tools",)
