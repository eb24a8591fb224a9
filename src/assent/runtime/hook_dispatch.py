"""Delivery of events to hooks, and to the `on_stream` callbacks of agents that are tools.

Questions and verdicts are delivered after their fact is recorded. An exception of a hook stops the run; an exception
of an `on_stream` callback is only logged.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..agent import Agent
from ..context import RunContextWrapper
from ..core import facts as f
from ..core.rules import VERDICTS, verdict_of
from ..core.run import CallState
from ..core.transcript import Item, provider_id
from ..hooks import RunHooks
from ..tools.delegation import AgentTool
from .event import AgentUpdatedStreamEvent, RawResponsesStreamEvent, events, settled

if TYPE_CHECKING:
    from .driver import Driver

log = logging.getLogger("assent")

Path = tuple[str, ...]


class HookDispatch:
    """The hooks of a run, and the `on_stream` callbacks of its branches.

    The driver is passed to each method and not kept, because the driver holds this object.
    """

    def __init__(self, hooks: RunHooks[Any] | None) -> None:
        self.hooks = hooks
        self.mute = False
        """True during a delivery of approval events, and after a hook has raised; the rest is delivered on resume."""
        self.faults: list[Exception] = []
        """The exceptions that hooks have raised."""
        self.noted: list[f.AnyFact] = []
        """Questions and verdicts that are not delivered to the hooks yet."""
        self.streams: dict[Path, tuple[AgentTool, str]] = {}
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
            await self._told(ctx, what, agent, *args)
        except Exception as error:
            self.faults.append(error)
            raise

    async def _told(self, ctx: RunContextWrapper[Any], what: str, agent: Agent[Any], *args: Any) -> None:
        if self.hooks is not None:
            await _called(getattr(self.hooks, f"on_{what}")(ctx, agent, *args))
        if what == "handoff":
            (target,) = args
            if target.hooks is not None:
                await _called(target.hooks.on_handoff(ctx, target, agent))
        elif agent.hooks is not None:
            name = what.removeprefix("agent_")
            await _called(getattr(agent.hooks, f"on_{name}")(ctx, agent, *args))

    def note(self, fact: f.AnyFact) -> None:
        kind = type(fact)
        if kind is f.Asked or (kind in VERDICTS and verdict_of(fact) is not None):
            self.noted.append(fact)

    async def deliver(self, driver: Driver) -> None:
        """Deliver branch events to their callbacks, then questions and verdicts to the hooks."""
        await self.flush()
        while self.noted and not self.mute:
            self.mute = True
            await self._tell_of(driver, self.noted[0])
            self.mute = False
            del self.noted[0]

    async def _tell_of(self, driver: Driver, fact: Any) -> None:
        state = driver.run_at(fact.path).calls[fact.call]
        agent = driver.graph.of(state).agent
        if self.hooks is None and agent.hooks is None:
            return
        view, decided = driver.view(()), settled(fact)
        if decided is None:
            await self.tell(driver.ctx, "approval_requested", agent, view.question(fact.path, state, fact))
            return
        id, verdict, by = decided
        asked = next(each for each in reversed(driver.journal.facts) if isinstance(each, f.Asked) and each.id == id)
        await self.tell(driver.ctx, "approval_decided", agent, view.question(fact.path, state, asked), verdict, by)

    def follow(self, driver: Driver, path: Path, tool: AgentTool, state: CallState) -> None:
        """Deliver this branch's events to the tool's `on_stream` callback from now on, if it has one."""
        if tool.on_stream is None:
            return
        if self.flushing is None:
            self.flushing = asyncio.Lock()
            driver.journal.listen(partial(self.heard, driver))
        self.streams[path] = tool, provider_id(state)
        self._event(path, [AgentUpdatedStreamEvent(driver.graph.seat(driver.run_at(path).agent).agent)])

    def heard(self, driver: Driver, fact: f.AnyFact) -> None:
        if fact.path in self.streams:
            self._event(fact.path, events(driver.view(fact.path), fact))

    def delta(self, path: Path) -> Callable[[Item], None] | None:
        if path not in self.streams:
            return None
        return lambda data: self._event(path, [RawResponsesStreamEvent(data)])

    def _event(self, path: Path, found: Any) -> None:
        tool, call_id = self.streams[path]
        for event in found:
            self.waiting.append((tool, {"event": event, "agent": tool.agent, "call_id": call_id}))

    async def flush(self) -> None:
        """Deliver the waiting branch events to their callbacks, in order; log what the callbacks raise."""
        if self.flushing is None:
            return
        async with self.flushing:
            while self.waiting:
                tool, payload = self.waiting.pop(0)
                try:
                    await _called(tool.on_stream(payload))  # type: ignore[misc]
                except Exception:
                    log.warning("on_stream of %r failed; the run goes on", tool.name, exc_info=True)


async def _called(result: Any) -> None:
    if inspect.isawaitable(result):
        await result
