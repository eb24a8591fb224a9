"""Agents with threads: new messages on a thread, answers to its questions, and its state.

A thread is a sequence of runs, each with its journal in the store. The id of a run is derived from the thread and the
run's number, so that only one of two concurrent callers can begin the n-th run. There is no runtime here: the ordinary
runner drives an ordinary agent.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Literal, NoReturn, Unpack, overload

from msgspec.structs import replace

from ..core.rules import NEW
from ..core.run import CallState, Run
from ..core.wording import described
from ..definitions.agent_tool import AgentTool
from ..definitions.context import THREAD_CONFIG
from ..definitions.output import TRY_AGAIN
from ..definitions.tool import Tool
from ..errors import (
    DefinitionChanged,
    InvalidDefinition,
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
from ..runtime.tool_pause import HERE, Body
from ..runtime.view import View
from ..store.memory import MemoryStore
from ..store.store import Store
from .batch import iterate_batch, run_batch
from .call_config import bind_config, concurrency_of, merge_configs
from .call_option import STREAM_NAMES, CallOptions, CallShape, StreamOptions, Version, call_shape
from .event_stream import call_events, check_event_options
from .fork_opening import ForkOpening, removes
from .heard_call import HeardCall, listen_to_call
from .history import ThreadHistory, limited
from .inner_run import InnerAgent, run_inside
from .interrupts import Command, interrupts, waits_for
from .middleware_context import WRITER
from .observer import Listener
from .opening import (
    OnPending,
    Opened,
    Opening,
    Setup,
    explain_race,
    find_run_number,
    look,
    run_number,
    thread_of,
    turns_of,
)
from .run_stream import MODES, AsyncGraphRunStream, GraphRunStream, check_run_options
from .schema import ContextSchema
from .snapshot import StateSnapshot, StateUpdate, ThreadPoint, next_steps, point_of
from .stream import Chunk, Mode, ThreadStream
from .stream_part import GraphOutput
from .threaded_agent import ThreadedAgent
from .tool_result import command_from
from .view import kept_messages, view_of

MAX_TURNS = 25
GO_ON = (
    'To go on, call invoke(None, config) with a higher "recursion_limit" in the config; or say something new, which '
    "begins another run."
)
STATE_KEYS = ("messages", "structured_response")
"""The keys of a thread's state."""
MORE = "To give every run more, use create_agent(max_turns=...)."
"""The advice to a caller whose thread has used up its turns."""


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
        debug: bool = False,
    ) -> None:
        self.agent: ThreadedAgent = agent
        """The ordinary agent, for a worker or as a tool of another agent."""
        self.store = store
        """The store of the agent's threads."""
        self._state_keys = (*STATE_KEYS, *agent.state_schema.keys)
        self._prefix, self._inner, self._gated = agent.description_prefix, inner, gated
        self._debug = debug
        self.unanswerable: str | None = None
        """The reason why the agent can only run inside of another's threads, if it has no checkpointer."""
        self.config: dict[str, Any] = {}
        """The config that `with_config` bound."""
        serializer = schema.save if schema is not None else None
        config = RunConfig(release=agent.nested_release or "batch", context_serializer=serializer)
        self._setup = Setup(agent, config, schema, max_turns, MORE if store is None else f"{GO_ON} {MORE}")

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.agent.name

    def __call__(self, input: Any, config: Mapping[str, Any] | None = None) -> Any:
        """Call `invoke`, so that an agent can be a part of a chain of LangChain: `prompt | agent | parse`."""
        return self.invoke(input, config)

    def __repr__(self) -> str:
        return f"<ThreadAgent {self.agent.name!r}>"

    def as_tool(self, name: str | None = None, description: str | None = None, **options: Any) -> AgentTool:
        """Return this agent as a tool. Its questions appear in the thread of the outer agent. See `Agent.as_tool`."""
        return self.agent.as_tool(name, description, **options)

    # -- running -----------------------------------------------------------------------------------

    @overload
    def invoke(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        version: Literal["v2"],
        context: Any = None,
        on_pending: OnPending = None,
        **options: Unpack[CallOptions],
    ) -> GraphOutput: ...

    @overload
    def invoke(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        version: Literal["v1"] = "v1",
        context: Any = None,
        on_pending: OnPending = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]: ...

    def invoke(self, input: Any, config: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call `ainvoke` and block until it returns. Works inside a running event loop too."""
        return block(self.ainvoke(input, config, **options))

    @overload
    async def ainvoke(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        version: Literal["v2"],
        context: Any = None,
        on_pending: OnPending = None,
        **options: Unpack[CallOptions],
    ) -> GraphOutput: ...

    @overload
    async def ainvoke(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        version: Literal["v1"] = "v1",
        context: Any = None,
        on_pending: OnPending = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]: ...

    async def ainvoke(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        version: Version = "v1",
        context: Any = None,
        on_pending: OnPending = None,
        **options: Any,
    ) -> Any:
        """Add messages to a thread, or answer its open questions, and run until the run is done or waits again.

        Args:
            input: `{"messages": [...]}`, `Command(resume=...)`, or None to continue an unfinished run.
            config: `{"configurable": {"thread_id": ...}}`. `recursion_limit` is the number of model calls allowed in
                the run; `callbacks` are LangChain's handlers, which hear of models and tools.
            version: "v2" for a `GraphOutput`, with the state as `.value` and the interrupts as `.interrupts`.
            context: Any object for tools and hooks; stored with the run if possible.
            on_pending: The treatment of open questions when there is a new message: "reject" rejects the questions,
                "keep" keeps them open, and the model gets the message after their answers. By default such a message
                is refused with `ThreadWaiting`.
            options: See `CallOptions`.

        Returns:
            The state: "messages", all messages of the thread; "__interrupt__", a list, if the thread waits;
            "structured_response", if there is a `response_format` and the run is done. With another `stream_mode` than
            "values", the list of the chunks.
        """
        mode = options.pop("stream_mode", "values")
        shape = call_shape("invoke", mode, version, options, self._state_keys, self._debug)
        config = self._merged(config)
        if shape.modes != ["values"] or shape.printed:
            return await self._collect(shape, input, config, context, on_pending)
        heard = await listen_to_call(self.agent.name, input, config)
        try:
            state = await self._run(input, config, context, on_pending, heard)
        except BaseException as error:
            if heard is not None:
                await heard.fail(error)
            raise
        if heard is not None:
            await heard.end(state)
        return shape.result(state)

    async def _run(
        self, input: Any, config: Any, context: Any, on_pending: OnPending, heard: HeardCall | None
    ) -> dict[str, Any]:
        """Open a thread, drive it, and return its state."""
        body = HERE.get()
        if self.store is None and isinstance(body, Body):
            return await self._run_inside(body, input, config, context, heard)
        opened = await self._open(input, config, context, on_pending)
        if opened.driver is not None and not await self._drive(opened.driver, config, heard):
            opened = await self._open(None, config, context, None, now=True, again=True)
            if opened.driver is not None:  # the second driver holds the lease, so no other writer can be first
                await self._drive(opened.driver, config, heard)
        state = self._state(opened)
        if opened.driver is not None:
            opened.driver.let_go()
        return state

    async def _run_inside(
        self, body: Body, input: Any, config: Any, context: Any, heard: HeardCall | None
    ) -> dict[str, Any]:
        """Run this agent inside of a tool of another agent, in whose thread its questions are asked."""
        self._check_nothing_hidden()
        alone, store = copy.copy(self), MemoryStore()
        alone._keep_in(store)

        async def invoke(given: Any, here: Mapping[str, Any]) -> dict[str, Any]:
            return await alone._run(given, here, context, None, heard)

        async def state(here: Mapping[str, Any]) -> dict[str, Any]:
            return (await alone.aget_state(here)).values

        given = config or THREAD_CONFIG.get()
        return await run_inside(body, InnerAgent(self.agent.name, store, invoke, state), input, given)

    def _keep_in(self, store: Store) -> None:
        """Keep the threads in a store of its own."""
        self.store, self._inner = store, False

    def _check_nothing_hidden(self) -> None:
        """Raise `UsageError` if a tool hides arguments: the outer call shows what this agent asks and does."""
        for placed in AgentGraph(self.agent).all_placed():
            for tool in placed.tools.values():
                if tool.redact:
                    raise UsageError(
                        f"The agent {self.agent.name!r} cannot be invoked inside of another's tool: its tool "
                        f"{tool.name!r} hides {', '.join(tool.redact)}, which the other's questions would show. Give "
                        "the other agent this one as a tool: agent.as_tool()."
                    )

    async def _collect(self, shape: CallShape, input: Any, config: Any, context: Any, on_pending: OnPending) -> Any:
        """Run a call whose chunks are wanted, or printed, and return its result."""
        kept: list[Any] = []
        state: dict[str, Any] = {}
        values = shape.modes == ["values"] and not shape.paired
        modes: list[Mode] = [*shape.read, "values"]
        async with aclosing(self._stream(input, config, context, on_pending, modes)) as chunks:
            async for mode, ns, chunk in chunks:
                shape.show(mode, chunk)
                if mode == "values":
                    state = chunk
                if mode in shape.modes and not values:
                    kept.append(shape.chunk(mode, ns, chunk))
        return shape.result(state) if values else kept

    async def _drive(self, driver: Driver, config: Any, heard: HeardCall | None) -> bool:
        """Drive the run; return False if others changed it or drive it, so that this drive has not begun."""
        writer = driver.writer
        assert writer is not None
        if heard is not None:
            heard.observe(driver)
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
        stream_mode: Mode | Sequence[Mode] | None = None,
        version: Version = "v1",
        context: Any = None,
        on_pending: OnPending = None,
        **options: Unpack[StreamOptions],
    ) -> Iterator[Any]:
        """Iterate over `astream` and block for each chunk. Works inside a running event loop too."""
        shape = self._stream_shape(stream_mode, version, options)
        return iterate(self._shaped(shape, input, self._merged(config), context, on_pending))

    def astream(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        stream_mode: Mode | Sequence[Mode] | None = None,
        version: Version = "v1",
        context: Any = None,
        on_pending: OnPending = None,
        **options: Unpack[StreamOptions],
    ) -> AsyncGenerator[Any, None]:
        """Run like `ainvoke`, and yield chunks while the run goes on.

        Closing the stream stops the run; `invoke(None)` continues the run later.

        Args:
            input: As for `ainvoke`.
            config: As for `ainvoke`.
            stream_mode: "updates", the default: the result of each node, `{"model": {...}}`, and
                `{"__interrupt__": (interrupt,)}` for each interrupt at a pause; "messages": pairs of a token, or a
                tool's message, and metadata about its origin; "values": the whole state after each step; "custom": the
                values that tools and hooks pass to `get_stream_writer()`. With a list, each chunk is a pair of the mode
                and the chunk.
            version: "v2" for chunks in one form, `{"type": mode, "ns": (), "data": chunk}`; see `StreamPart`.
            context: As for `ainvoke`.
            on_pending: As for `ainvoke`.
            options: See `StreamOptions`.
        """
        shape = self._stream_shape(stream_mode, version, options)
        return self._shaped(shape, input, self._merged(config), context, on_pending)

    def _stream_shape(self, mode: Any, version: Any, options: Mapping[str, Any]) -> CallShape:
        return call_shape(
            "stream", "updates" if mode is None else mode, version, options, self._state_keys, self._debug
        )

    async def _shaped(
        self,
        shape: CallShape,
        input: Any,
        config: Any,
        context: Any,
        on_pending: OnPending,
        listener: Listener | None = None,
    ) -> AsyncGenerator[Any, None]:
        chunks = self._stream(input, config, context, on_pending, shape.read, shape.subgraphs, listener)
        async with aclosing(chunks):
            async for mode, ns, chunk in chunks:
                shape.show(mode, chunk)
                if mode in shape.modes:
                    yield shape.chunk(mode, ns, chunk)

    async def _stream(
        self,
        input: Any,
        config: Any,
        context: Any,
        on_pending: OnPending,
        modes: Iterable[Mode],
        subgraphs: bool = False,
        listener: Listener | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        heard = await listen_to_call(self.agent.name, input, config, listener)
        try:
            opened = await self._open(input, config, context, on_pending, now=True)
            async with aclosing(self._chunks(opened, list(modes), config, subgraphs, heard)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except BaseException as error:
            if heard is not None:
                await heard.fail(error)
            raise
        if heard is not None:
            await heard.end(self._state(opened))

    async def _chunks(
        self, opened: Opened, modes: list[Mode], config: Any, subgraphs: bool, heard: HeardCall | None
    ) -> AsyncGenerator[Chunk, None]:
        shown = None
        if opened.driver is not None:
            if heard is not None:
                heard.observe(opened.driver)
            stream = ThreadStream(opened.driver, modes, self._gated, subgraphs)
            before = WRITER.set(stream.write)
            with _invoked_with(config):
                stream._start(drive_run(opened.driver))
            WRITER.reset(before)
            with self._reword_errors():
                try:
                    if "values" in modes:
                        shown = stream.state()
                        yield "values", (), shown
                    async with aclosing(stream.stream_events()) as events:  # type: ignore[type-var]
                        async for event in events:
                            if isinstance(event, tuple):
                                shown = event[2] if event[0] == "values" and not event[1] else shown
                                yield event
                finally:  # a reader that stops at the first chunk has not begun to read events
                    await stream._left()
        state = self._state(opened)
        if "updates" in modes:
            for interrupt in state.get("__interrupt__", ()):
                yield "updates", (), {"__interrupt__": (interrupt,)}
        if "values" in modes and state != shown:
            yield "values", (), state

    def stream_events(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        **options: Any,
    ) -> Any:
        """Iterate over `astream_events` and block for each event; with version "v3", return a `GraphRunStream`."""
        if version == "v3":
            check_run_options("stream_events", options)
            return GraphRunStream(
                self.stream(input, config, stream_mode=MODES, version="v2", subgraphs=True, **options)
            )
        return iterate(self.astream_events(input, config, version=version, **options))

    def astream_events(
        self,
        input: dict[str, Any] | Command | None,
        config: Mapping[str, Any] | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        **options: Any,
    ) -> Any:
        """Run like `ainvoke`, and yield an event for each start, part and end of the agent, its models and its tools.

        An event is a dict: "event", such as "on_chat_model_stream", "name", "run_id", "parent_ids", "tags", "metadata"
        and "data". If the program has imported LangChain, LangChain makes the events, with its messages, and there are
        events of whatever of LangChain's a tool calls.

        Args:
            input: As for `ainvoke`.
            config: As for `ainvoke`.
            version: "v2", or "v1", LangChain's older form. With "v3", await the result: it is an
                `AsyncGraphRunStream`, with the run's messages, values and tool calls as sequences of their own.
            options: `include_names`, `include_types`, `include_tags`, and the same with `exclude_`; and the options of
                `astream`.
        """
        if version == "v3":
            check_run_options("astream_events", options)
            parts = self.astream(input, config, stream_mode=MODES, version="v2", subgraphs=True, **options)
            return _ready(AsyncGraphRunStream(parts))
        filters = check_event_options(version, options, STREAM_NAMES)
        config, rest = self._merged(config), {key: value for key, value in options.items() if key not in filters}
        if "langchain_core" in sys.modules:
            from .langchain.event_stream import langchain_events

            return langchain_events(self, input, config, version, filters, rest)
        context, on_pending = rest.pop("context", None), rest.pop("on_pending", None)
        shape = self._stream_shape(rest.pop("stream_mode", None), "v1", rest)
        call = functools.partial(self._shaped, shape, input, config, context, on_pending)
        return call_events(config or {}, filters, call)

    # -- several calls, and configs ----------------------------------------------------------------

    def batch(self, inputs: Sequence[Any], config: Any = None, **options: Any) -> list[Any]:
        """Call `abatch` and block until it returns."""
        return block(self.abatch(inputs, config, **options))

    async def abatch(
        self, inputs: Sequence[Any], config: Any = None, *, return_exceptions: bool = False, **options: Any
    ) -> list[Any]:
        """Call `ainvoke` for each input at once, and return the results in the order of the inputs.

        Args:
            inputs: The inputs.
            config: A config for each input, or one for all. `max_concurrency` limits how many run at once.
            return_exceptions: True to return exceptions among the results; otherwise the first is raised once all
                calls have ended.
            options: As for `ainvoke`.
        """
        return await run_batch(functools.partial(self.ainvoke, **options), inputs, config, return_exceptions)

    def batch_as_completed(self, inputs: Sequence[Any], config: Any = None, **options: Any) -> Iterator[Any]:
        """Iterate over `abatch_as_completed` and block for each result."""
        return iterate(self.abatch_as_completed(inputs, config, **options))

    def abatch_as_completed(
        self, inputs: Sequence[Any], config: Any = None, *, return_exceptions: bool = False, **options: Any
    ) -> AsyncGenerator[tuple[int, Any], None]:
        """Run like `abatch`, and yield the number and the result of each call as it ends."""
        return iterate_batch(functools.partial(self.ainvoke, **options), inputs, config, return_exceptions)

    def with_config(self, config: Mapping[str, Any] | None = None, **more: Any) -> ThreadAgent:
        """Return this agent with a config that is part of the config of each call."""
        made = copy.copy(self)
        made.config = bind_config(self.config, config, more)
        return made

    def _merged(self, config: Any) -> Any:
        """Return the config of a call with the bound one."""
        if not self.config:
            return config
        return merge_configs(self.config, config) if isinstance(config, Mapping) else self.config

    def get_graph(self, *args: Any, **options: Any) -> NoReturn:
        """Raise `UsageError`: there is no graph."""
        raise UsageError(
            "An agent has no graph to show: its model and its tools take turns. What happened in a thread is in its "
            "run: `assentry runs show`."
        )

    # -- state -------------------------------------------------------------------------------------

    def get_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """Call `aget_state` and block until it returns."""
        return block(self.aget_state(config, subgraphs=subgraphs))

    async def aget_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread now, or at the `checkpoint_id` of the config; empty if there is no such thread.

        `subgraphs` changes nothing: what agents inside this one ask is among the thread's own interrupts.
        """
        config = self._merged(config)
        thread, point, history = thread_of(config), point_of(config), self._history(config)
        if point is not None:
            return await history.snapshot(point)
        last = await history.store.newest(thread)
        if last is None or last.record.erased is not None:
            return StateSnapshot({}, (), dict(config))
        number = find_run_number(thread, last.record.id)
        if number is None:  # a run that was not begun by an agent with threads has no points
            state = self._show(runs := (await look(history.store, last)).runs)
            return StateSnapshot(state, next_steps(runs[-1]), dict(config))
        return await history.snapshot(ThreadPoint(number, last.record.seq), last)

    def get_state_history(
        self,
        config: Mapping[str, Any],
        *,
        filter: Mapping[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """Iterate over `aget_state_history`, and block for each snapshot."""
        return iterate(self.aget_state_history(config, filter=filter, before=before, limit=limit))

    async def aget_state_history(
        self,
        config: Mapping[str, Any],
        *,
        filter: Mapping[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[StateSnapshot, None]:
        """Yield the snapshots of a thread, newest first: of its run now, then of the runs before, forks included.

        Args:
            config: The thread.
            filter: Only snapshots whose metadata have these values.
            before: Only snapshots before the `checkpoint_id` of this config.
            limit: The most snapshots.
        """
        history = self._history(self._merged(config))
        last = await history.store.newest(history.thread)
        newest = run_number(history.thread, last.record.id) if last is not None else 0
        upto = point_of(before)
        async with aclosing(limited(history.snapshots(newest, upto, filter), limit)) as found:
            async for each in found:
                yield each

    def update_state(
        self,
        config: Mapping[str, Any],
        values: Mapping[str, Any] | None,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> dict[str, Any]:
        """Call `aupdate_state` and block until it returns."""
        return block(self.aupdate_state(config, values, as_node, task_id))

    async def aupdate_state(
        self,
        config: Mapping[str, Any],
        values: Mapping[str, Any] | None,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> dict[str, Any]:
        """Change the state of a thread, as a new run that goes on from its present point or the config's checkpoint.

        Nothing recorded is changed. If the thread waits, its questions are withdrawn, unanswered: calls without an
        outcome are judged anew when somebody goes on, with `invoke(None, config)` or a message. A tool's result cannot
        be given here.

        Args:
            config: The thread, and the checkpoint if it is not the present one.
            values: `{"messages": [...]}`: messages are added, replaced by their ids, and removed by `RemoveMessage`.
                Other keys go through their reducers.
            as_node: The step in whose place this is: "model" (calls in its last message are due next), "tools" or
                "__start__" (the model is next), "__end__" (nothing is). By default the step that came last.
            task_id: Accepted, and not used.

        Returns:
            The config of the new point.
        """
        config = self._merged(config)
        opening = ForkOpening(self._limited(config), self._check_store(), thread_of(config), None, None, now=True)
        point = await opening.update(point_of(config), values, as_node)
        return point.config(opening.thread)

    def bulk_update_state(
        self, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
    ) -> dict[str, Any]:
        """Call `abulk_update_state` and block until it returns."""
        return block(self.abulk_update_state(config, supersteps))

    async def abulk_update_state(
        self, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
    ) -> dict[str, Any]:
        """Make one update after the other, each on the result of the one before."""
        updates = [StateUpdate(*each) for step in supersteps for each in step]
        if not updates:
            raise UsageError("bulk_update_state got no updates.")
        at = dict(config)
        for each in updates:
            at = await self.aupdate_state(at, *each)
        return at

    def _history(self, config: Any) -> ThreadHistory:
        return ThreadHistory(
            self._check_store(), thread_of(config), self._show, self._is_gated if self._gated else None
        )

    def _is_gated(self, run: Run) -> bool:
        """Return True if a call that is not judged yet is one of a tool that needs approval."""
        tools = AgentGraph(self.agent).agent_at(self.agent.name).tools if run.open else {}
        unjudged = (tools.get(state.tool) for state in run.open.values() if state.phase is NEW)
        return any(tool is not None and tool.needs_approval is not False for tool in unjudged)

    def _state(self, opened: Opened) -> dict[str, Any]:
        """Return the state of a thread in the public form."""
        return self._show(opened.runs)

    def _show(self, runs: Sequence[Run]) -> dict[str, Any]:
        """Return the state after consecutive runs in the public form."""
        run = runs[-1]
        view = view_of(runs)
        view.messages += kept_messages(run)
        state = self.agent.show_state(view)
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

    async def _open(
        self,
        input: Any,
        config: Any,
        context: Any,
        on_pending: OnPending,
        *,
        now: bool = False,
        again: bool = False,
    ) -> Opened:
        """Open a thread with new messages or answers, ready to be driven; see `Opening` and `ForkOpening`.

        With `again`, the thread was opened by the same call before, and goes on where it stands.
        """
        input = command_from(input)
        if on_pending not in (None, "reject", "keep"):
            raise UsageError(f'on_pending is "reject", "keep" or None, got {described(on_pending)}.')
        limit, schema = turns_of(config), self._setup.schema
        if schema is not None and context is not None:
            context = schema.validate(context)
        alone = self.store is None and not self._inner
        if alone and self.unanswerable is not None:
            raise InvalidDefinition(self.unanswerable)
        if alone and (input is None or isinstance(input, Command)):
            raise UsageError("Without a checkpointer there is no run to go on with; give create_agent one.")
        store, thread = (MemoryStore(), new_id("thread")) if alone else (self._check_store(), thread_of(config))
        point = None if alone or again else point_of(config)
        opening = (Opening if point is None and not removes(input) else ForkOpening)(
            self._limited(config), store, thread, context, limit, now=now
        )
        with self._reword_errors():
            if isinstance(opening, ForkOpening):
                return await (
                    opening.change(input, on_pending) if point is None else opening.fork(point, input, on_pending)
                )
            if isinstance(input, Command):
                return await opening.answer(input)
            return await (opening.go_on() if input is None else opening.say(input, on_pending))

    def _limited(self, config: Any) -> Setup:
        """Return the settings of the runs, with the `max_concurrency` of a config as the limit of parallel tools."""
        limit = concurrency_of(config)
        if limit is None:
            return self._setup
        return self._setup._replace(config=replace(self._setup.config, max_parallel_tools=limit))

    @contextmanager
    def _reword_errors(self) -> Iterator[None]:
        """Reword errors about invalid output with what to do on a thread."""
        try:
            yield
        except (InvalidOutput, UnansweredRequest) as error:
            error.args = (str(error).replace(TRY_AGAIN, "say something on the thread to let the model try again"),)
            raise


async def _ready(run: AsyncGraphRunStream) -> AsyncGraphRunStream:
    return run


@contextmanager
def _invoked_with(config: Any) -> Iterator[None]:
    """Give the config to the tools that take it, while the thread is driven."""
    before = THREAD_CONFIG.set(config if isinstance(config, Mapping) else {})
    try:
        yield
    finally:
        THREAD_CONFIG.reset(before)
