"""Delivery of events to hooks, and to the `on_stream` callbacks of agents that are tools.

Questions and verdicts are delivered after their fact is recorded. An exception of a hook stops the run; an exception
of an `on_stream` callback is only logged.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from ..core import facts as f
from ..core.rules import VERDICTS, verdict_of
from ..core.run import CallState
from ..core.transcript import heard_input, provider_id
from ..definitions.agent import Agent
from ..definitions.agent_tool import AgentTool
from ..definitions.context import AgentHookContext, RunContextWrapper
from ..definitions.hooks import RunHooks
from ..definitions.tool import Tool
from ..models.delta import RawItem, readable
from ..models.model import Model, ModelRequest, ModelResponse
from .agent_graph import AgentGraph
from .event import AgentUpdatedStreamEvent, RawResponsesStreamEvent, ToolProgressEvent, events_of, settlement_of
from .journal import Journal
from .view import Outputs, View

log = logging.getLogger("assentry")

Path = tuple[str, ...]
Work = Coroutine[Any, Any, Any]
Reply = Coroutine[Any, Any, ModelResponse]


class Observer(Protocol):
    """The maker of a run's spans: it awaits the given work inside a span. One that only hears has no trace."""

    @property
    def trace(self) -> dict[str, str] | None:
        """The trace's id and first span, for the journal; None if there is none."""

    async def drive(self, work: Coroutine[Any, Any, None]) -> None:
        """Await a drive."""

    async def reply(
        self, path: Path, agent: Agent[Any], model: Model, request: ModelRequest, work: Reply
    ) -> ModelResponse:
        """Await a model call."""

    def stream(self, model: Model, request: ModelRequest) -> AsyncIterator[Any]:
        """Return the stream of one request to a model. With code around the model, a reply needs any number of them."""
        return model.stream(request)

    async def before_body(self, path: Path, state: CallState, tool: Tool, args: dict[str, Any]) -> bool:
        """Hear of a body before the last look at what was shown; return True if anything was waited for."""
        return False

    async def enter(self, path: Path, state: CallState, tool: Tool, args: dict[str, Any], work: Work) -> Any:
        """Await a call, with the code around its body, until its outcome is recorded."""

    async def body(self, path: Path, state: CallState, work: Awaitable[Any]) -> Any:
        """Await a body itself. Nothing may be awaited before it."""
        return await work


class HookDispatch:
    """The hooks of a run, the observer that makes its spans, and the `on_stream` callbacks of its branches."""

    on_delta: Callable[[Any], None] | None = None
    """The callback for deltas of the run's own model calls."""
    on_branch_delta: Callable[[Path, Any], None] | None = None
    """The callback for deltas of model calls of agents that are tools."""
    on_event: Callable[[Any], None] | None = None
    """The callback for events of the run that are neither deltas nor facts."""
    observer: Observer | None = None
    """The observer that makes the run's spans; None if the run is not traced."""
    unseen: Sequence[f.AnyFact] = ()
    """The facts that were recorded while nobody drove the run."""
    hears = False
    """True once the run or an active agent has hooks; they then receive approval events."""

    def __init__(
        self,
        hooks: RunHooks[Any] | None,
        journal: Journal,
        graph: AgentGraph,
        ctx: RunContextWrapper[Any],
        outputs: Outputs,
    ) -> None:
        self.hooks = hooks
        self._journal = journal
        self._graph = graph
        self._ctx = ctx
        self._outputs = outputs
        self.mute = False
        """True during a delivery of approval events, and after a hook has raised; the rest is delivered on resume."""
        self.faults: list[Exception] = []
        """The exceptions that hooks have raised."""
        self.noted: list[f.AnyFact] = []
        """Questions and verdicts that are not delivered to the hooks yet."""
        self.streams: dict[Path, tuple[AgentTool, dict[str, Any]]] = {}
        """The agent tools of the branches that are followed, and what their callbacks get besides the events."""
        self.waiting: list[tuple[AgentTool, dict[str, Any]]] = []
        """Events of branches that are not delivered to their callbacks yet."""
        self.flushing: asyncio.Lock | None = None

    def wants(self, agent: Agent[Any]) -> bool:
        """Return True if the run or this agent has hooks."""
        return self.hooks is not None or agent.hooks is not None

    async def tell(self, ctx: RunContextWrapper[Any], what: str, agent: Agent[Any], *args: Any) -> None:
        """Call the hooks of the run, and then those of the agent.

        An exception of a hook stops the whole run, even if the hook was called in a branch.
        """
        try:
            await self._call_hook(ctx, what, agent, *args)
        except Exception as error:
            self.faults.append(error)
            raise

    async def tell_of_agent(self, path: Path, what: str, agent: Agent[Any], *args: Any) -> None:
        """Call the hooks for the start or the end of an agent, with a context that has the agent's input."""
        run = self._journal.run.at(path)
        ctx: AgentHookContext[Any] = AgentHookContext(
            self._ctx.context, control=self._ctx._bound(), read_input=lambda: heard_input(run)
        )
        await self.tell(ctx, what, agent, *args)

    async def _call_hook(self, ctx: RunContextWrapper[Any], what: str, agent: Agent[Any], *args: Any) -> None:
        if self.hooks is not None:
            await _await_result(getattr(self.hooks, f"on_{what}")(ctx, agent, *args))
        if what == "handoff":
            (target,) = args
            for each in (agent, target):
                if each.hooks is not None and each.hooks.told_of_leaving is (each is agent):
                    await _await_result(each.hooks.on_handoff(ctx, target, agent))
        elif agent.hooks is not None:
            name = what.removeprefix("agent_")
            await _await_result(getattr(agent.hooks, f"on_{name}")(ctx, agent, *args))

    def hear(self) -> None:
        """Send approval events to hooks from now on, and those that came while nobody drove the run."""
        if not self.hears:
            self.hears = True
            for fact in self.unseen:
                self._note(fact)
            self._journal.listen(self._note)

    def _note(self, fact: f.AnyFact) -> None:
        kind = type(fact)
        if kind is f.Asked or (kind in VERDICTS and verdict_of(fact) is not None):
            self.noted.append(fact)

    async def deliver(self) -> None:
        """Deliver branch events to their callbacks, then questions and verdicts to the hooks."""
        await self.flush()
        while self.noted and not self.mute:
            self.mute = True
            await self._tell_of(self.noted[0])
            self.mute = False
            del self.noted[0]

    async def _tell_of(self, fact: Any) -> None:
        state = self._journal.run.at(fact.path).calls[fact.call]
        agent = self._graph.of(state).agent
        if self.hooks is None and agent.hooks is None:
            return
        view, decided = self._view(()), settlement_of(fact)
        if decided is None:
            await self.tell(self._ctx, "approval_requested", agent, view.question(fact.path, state, fact))
            return
        id, verdict, by = decided
        asked = next(each for each in reversed(self._journal.facts) if isinstance(each, f.Asked) and each.id == id)
        await self.tell(self._ctx, "approval_decided", agent, view.question(fact.path, state, asked), verdict, by)

    def follow(self, path: Path, tool: AgentTool, state: CallState) -> None:
        """Deliver this branch's events to the tool's `on_stream` callback from now on, if it has one."""
        if tool.on_stream is None:
            return
        if self.flushing is None:
            self.flushing = asyncio.Lock()
            self._journal.listen(self.keep_events)
        items = state.turn.items
        made = RawItem(f.decode(items[state.call.item])) if items else None
        self.streams[path] = tool, {"agent": tool.agent, "call_id": provider_id(state), "tool_call": made}
        self._event(path, [AgentUpdatedStreamEvent(self._graph.agent_at(self._journal.run.at(path).agent).agent)])

    def keep_events(self, fact: f.AnyFact) -> None:
        """Keep the events of a branch's fact for the branch's callback."""
        if fact.path in self.streams:
            self._event(fact.path, events_of(self._view(fact.path), fact))

    def release(self, graph: AgentGraph) -> None:
        """Drop the hooks and the agents."""
        self.hooks, self._graph = None, graph
        self.streams.clear()

    def _view(self, path: Path) -> View:
        return View(self._journal.run, self._graph, self._outputs, path)

    def delta(self, path: Path) -> Callable[[Any], None] | None:
        """Return the callback for the deltas of a model call; None if nobody follows them."""
        if not path:
            return self.on_delta
        follows, show = path in self.streams, self.on_branch_delta
        if not follows and show is None:
            return None

        def delta(data: Any) -> None:
            if follows:
                self._event(path, [RawResponsesStreamEvent(readable(data))])
            if show is not None:
                show(path, data)

        return delta

    def progress(self, path: Path, tool: str, call_id: str) -> Callable[[float, float | None, str | None], None] | None:
        """Return the callback for the progress of a body; None if nobody follows it."""
        if path in self.streams:
            return lambda *far: self._event(path, [ToolProgressEvent(tool, call_id, *far)])
        on_event = self.on_event
        return None if path or on_event is None else lambda *far: on_event(ToolProgressEvent(tool, call_id, *far))

    def _event(self, path: Path, found: Any) -> None:
        tool, more = self.streams[path]
        for event in found:
            self.waiting.append((tool, {"event": event, **more}))

    async def flush(self) -> None:
        """Deliver the waiting branch events to their callbacks, in order; log what the callbacks raise."""
        if self.flushing is None:
            return
        async with self.flushing:
            while self.waiting:
                tool, payload = self.waiting.pop(0)
                try:
                    await _await_result(tool.on_stream(payload))  # type: ignore[misc]
                except Exception:
                    log.warning("on_stream of %r failed; the run goes on", tool.name, exc_info=True)


async def _await_result(result: Any) -> None:
    if inspect.isawaitable(result):
        await result
