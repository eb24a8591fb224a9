"""The lean loop: the floor plus the services that a real runtime cannot leave out, each in its cheapest sound form.

- a task for every call (isolation, cancellation), with a timeout
- an event for every model call, tool start and tool end, given to two listeners
- ids and times on items, usage, a limit of turns
- an approval rule asked for every call; a tool's exception is its result
- the new items encoded into an append-only log in memory after every turn
- deltas accumulated, and forwarded as events through a bounded queue

It says what a careful runtime could cost. It is not Assentry and must not become it.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ..conversation import FINAL, LOOKUP, PROMPT, WORD, arguments_json, call_id
from . import floor
from .floor import Agent


class User(msgspec.Struct, tag="user"):
    """What the user said."""

    text: str
    at: float


class Call(msgspec.Struct, tag="call"):
    """A call by the model."""

    id: str
    name: str
    arguments: str
    at: float = 0.0


class Result(msgspec.Struct, tag="result"):
    """What a call gave."""

    call_id: str
    output: str
    status: str
    at: float


class Text(msgspec.Struct, tag="text"):
    """What the model said."""

    text: str
    at: float = 0.0


class Event(msgspec.Struct):
    """Something that listeners are told."""

    kind: str
    run: str
    seq: int
    content: Any


class Pending(msgspec.Struct):
    """A call that waits; `path` leads to it from the root."""

    call_id: str
    tool: str
    arguments: str
    at: float
    path: list[str]


class State(msgspec.Struct):
    """A run: live, paused and saved alike."""

    version: int
    run: str
    agent: str
    items: list[User | Call | Result | Text]
    pending: list[Pending]
    decisions: dict[str, str]
    children: dict[str, State]
    usage: dict[str, int]
    turn: int
    seq: int


class Current(msgspec.Struct):
    """What a tool's body may ask about itself."""

    run: str
    call_id: str
    agent: str


ENCODER = msgspec.json.Encoder()
DECODER = msgspec.json.Decoder(State)
CURRENT: contextvars.ContextVar[Current] = contextvars.ContextVar("current")
MAX_TURNS = 100_000
TIMEOUT = 30.0
Log = list[bytes]


def fresh(name: str, text: str) -> State:
    """A run that has not begun."""
    usage = {"requests": 0, "input": 0, "output": 0}
    return State(1, "run_0123456789abcdef", name, [User(text, time.time())], [], {}, {}, usage, 0, 0)


class Runtime:
    """The loop."""

    def __init__(self, listeners: list[Callable[[Event], None]]) -> None:
        self.listeners = listeners

    def emit(self, state: State, kind: str, content: Any) -> Event:
        """Tell the listeners."""
        state.seq += 1
        event = Event(kind, state.run, state.seq, content)
        for listener in self.listeners:
            listener(event)
        return event

    async def run(self, agent: Agent, state: State, log: Log) -> str | None:
        """Drive a run; the final text, or None when it pauses: `pending` says on what."""
        calls = pending_calls(state)
        while True:
            new: list[Any] = []
            if not calls:
                new = await self.ask(agent, state)
                calls = [item for item in new if type(item) is Call]
                if not calls:
                    log.append(ENCODER.encode(new))
                    self.emit(state, "run.end", new[-1])
                    text: str = new[-1].text
                    return text
                for call in calls:
                    if call.name in agent.gated and call.id not in state.decisions:
                        state.pending.append(Pending(call.id, call.name, call.arguments, call.at, []))
            if not state.pending:
                new = new + await self.execute(agent, state, calls, log)
            log.append(ENCODER.encode(new))
            if state.pending:
                self.emit(state, "run.paused", state.pending)
                return None
            calls = []

    async def ask(self, agent: Agent, state: State) -> list[Any]:
        """One reply of the model."""
        if state.turn >= MAX_TURNS:
            raise RuntimeError("max turns")
        state.turn += 1
        self.emit(state, "model.start", state.turn)
        reply = await agent.model(state.items)
        now = time.time()
        for item in reply:
            item.at = now
        state.items.extend(reply)
        usage = state.usage
        usage["requests"] += 1
        usage["input"] += 10
        usage["output"] += 5
        self.emit(state, "model.end", reply)
        return reply

    async def execute(self, agent: Agent, state: State, calls: list[Call], log: Log) -> list[Any]:
        """All calls of a turn at once; the results, without those that paused."""
        tasks = [asyncio.create_task(self.call(agent, state, call, log)) for call in calls]
        for task in tasks:
            await task
        now = time.time()
        results = []
        for call, task in zip(calls, tasks, strict=True):
            status, value = task.result()
            if status != "paused":
                results.append(Result(call.id, value, status, now))
        state.items.extend(results)
        return results

    async def call(self, agent: Agent, state: State, call: Call, log: Log) -> tuple[str, str]:
        """One call: its status and what it gave."""
        CURRENT.set(Current(state.run, call.id, agent.name))
        if state.decisions.get(call.id) == "rejected":
            return "rejected", "The tool call was rejected."
        self.emit(state, "tool.start", call)
        try:
            validate, function = agent.tools[call.name]
            given = validate(call.arguments)
            if function is None:
                result = await self.delegate(agent, state, call, given.task, log)
            else:
                async with asyncio.timeout(TIMEOUT):
                    result = "ok", await function(given)
        except Exception as error:
            result = "error", f"{type(error).__name__}: {error}"
        self.emit(state, "tool.end", result)
        return result

    async def delegate(self, agent: Agent, state: State, call: Call, task: str, log: Log) -> tuple[str, str]:
        """A call to an agent: what waits inside waits outside too."""
        assert agent.child is not None
        child = state.children.get(call.id)
        if child is None:
            child = state.children[call.id] = fresh(agent.child.name, task)
        text = await self.run(agent.child, child, log)
        if text is not None:
            return "ok", text
        for inside in child.pending:
            path = [call.id, *inside.path]
            state.pending.append(Pending(inside.call_id, inside.tool, inside.arguments, inside.at, path))
        return "paused", ""


def pending_calls(state: State) -> list[Call]:
    """The calls that a paused run goes on with; they are at the tail of its items."""
    if not state.pending:
        return []
    wanted = {pending.path[0] if pending.path else pending.call_id for pending in state.pending}
    calls: list[Call] = []
    for item in reversed(state.items):
        if type(item) is Call and item.id in wanted:
            calls.append(item)
            if len(calls) == len(wanted):
                break
    calls.reverse()
    state.pending = []
    return calls


class Driver(floor.Driver):
    """The lean loop, driven."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = 0
        recent: list[Event] = []

        def count(event: Event) -> None:
            self.heard += 1

        def remember(event: Event) -> None:
            recent.append(event)
            if len(recent) > 256:
                recent.clear()

        self.runtime = Runtime([count, remember])

    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> list[Any]:
        return [Call(call_id(turn, position), tool, arguments_json(turn)) for position in range(count)]

    def delegation(self) -> list[Any]:
        return [Call("call_outer", "delegate", '{"task":"book it"}')]

    def final(self) -> list[Any]:
        return [Text(FINAL)]

    async def begin(self, agent: Agent) -> Any:
        return await self.resume(agent, fresh(agent.name, PROMPT))

    async def load(self, agent: Agent, saved: bytes) -> Any:
        return DECODER.decode(saved)

    def approve(self, state: Any) -> Any:
        for pending in state.pending:
            waits = state
            for hop in pending.path:
                waits = waits.children[hop]
            waits.decisions[pending.call_id] = "approved"
        return state

    async def resume(self, agent: Agent, state: Any) -> Any:
        await self.runtime.run(agent, state, [])
        return state

    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        provided = floor.provider([floor.Delta(WORD) for _ in range(deltas)])
        state = fresh("bench", PROMPT)
        queue: asyncio.Queue[Event | None] = asyncio.Queue(256)

        async def pump() -> str:
            parts = []
            async for delta in provided:
                parts.append(delta.text)
                event = self.runtime.emit(state, "delta", delta.text)
                if queue.full():
                    await queue.put(event)
                else:
                    queue.put_nowait(event)
            await queue.put(None)
            return "".join(parts)

        async def read() -> str:
            pumping = asyncio.create_task(pump())
            parts: list[str] = []
            while (event := await queue.get()) is not None:
                parts.append(event.content)
            text = "".join(parts)
            assert await pumping == text
            return text

        return read


def make() -> Driver:
    """The driver."""
    return Driver()
