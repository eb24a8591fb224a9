"""Whoever is told what happens while a run goes on: hooks, and those who follow a branch.

They are told after the fact is recorded. What a hook raises stops the run; what a follower raises is logged.
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


class Audience:
    """The hooks of a run, and the followers of its branches. It does not hold the drive, which holds it: what is told
    is told with what it is about."""

    def __init__(self, hooks: RunHooks[Any] | None) -> None:
        self.hooks = hooks
        self.mute = False
        """Whether a hook has raised what it thought of a question or a verdict: it is told the rest on resume."""
        self.faults: list[Exception] = []
        """What hooks have raised."""
        self.noted: list[f.AnyFact] = []
        """Questions and verdicts that hooks are to be told of."""
        self.streams: dict[Path, tuple[AgentTool, str]] = {}
        self.waiting: list[tuple[AgentTool, dict[str, Any]]] = []
        """Events of branches that are to be given to somebody."""
        self.flushing: asyncio.Lock | None = None

    def wants(self, agent: Agent[Any]) -> bool:
        """Whether any hook is to be told what this agent does."""
        return self.hooks is not None or agent.hooks is not None

    async def tell(self, ctx: RunContextWrapper[Any], what: str, agent: Agent[Any], *args: Any) -> None:
        """Tell the hooks of the run, and then those of the agent. What they raise stops the run, wherever it is."""
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
        """Tell hooks of questions and verdicts, and branches' listeners of their events."""
        await self.flush()
        while self.noted and not self.mute:
            self.mute = True
            await self._tell_of(driver, self.noted[0])
            self.mute = False
            del self.noted[0]

    async def _tell_of(self, driver: Driver, fact: Any) -> None:
        state = driver.run_at(fact.path).calls[fact.call]
        agent = driver.cast.of(state).agent
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
        """Give the events of this branch to whoever wants them."""
        if tool.on_stream is None:
            return
        if self.flushing is None:
            self.flushing = asyncio.Lock()
            driver.journal.listen(partial(self.heard, driver))
        self.streams[path] = tool, provider_id(state)
        self._event(path, [AgentUpdatedStreamEvent(driver.cast.seat(driver.run_at(path).agent).agent)])

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
        """Give the events of branches to whoever wants them, in their order; what they raise is only logged."""
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
