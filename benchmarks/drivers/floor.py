"""The floor: a bare asyncio loop that does the same semantic work and nothing else.

It appends items, validates JSON arguments with pydantic, awaits the function, appends the result; msgspec is its codec.
A yardstick, not a design: no hooks, retries, tracing, cancellation, schema versions or error handling.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
from pydantic import BaseModel, TypeAdapter

from ..conversation import FINAL, LOOKUP, PROMPT, WIRE, WORD, arguments_json, body, call_id
from . import driver


class User(msgspec.Struct, tag="user"):
    """What the user said."""

    text: str


class Call(msgspec.Struct, tag="call"):
    """A call by the model."""

    id: str
    name: str
    arguments: str


class Result(msgspec.Struct, tag="result"):
    """What a call gave."""

    call_id: str
    output: str


class Text(msgspec.Struct, tag="text"):
    """What the model said."""

    text: str


class Delta(msgspec.Struct, tag="delta"):
    """A piece of what the model says."""

    text: str


class State(msgspec.Struct):
    """A run: live, paused and saved alike."""

    agent: str
    items: list[User | Call | Result | Text]
    pending: list[str]
    decisions: dict[str, bool]
    children: dict[str, State]
    usage: list[int]


class Arguments(BaseModel):
    """What both tools take."""

    city: str
    days: int
    note: str


class Task(BaseModel):
    """What `delegate` takes."""

    task: str


ARGUMENTS = TypeAdapter(Arguments).validator.validate_json
TASK = TypeAdapter(Task).validator.validate_json
ENCODER = msgspec.json.Encoder()
DECODER = msgspec.json.Decoder(State)


async def lookup(given: Arguments) -> str:
    """Look something up."""
    return body(LOOKUP, given.city, given.days, given.note)


async def wire(given: Arguments) -> str:
    """Spend money."""
    return body(WIRE, given.city, given.days, given.note)


class Agent:
    """A model, its tools, and those of them that need approval."""

    def __init__(self, name: str, script: driver.Script, child: Agent | None = None) -> None:
        self.name, self.script, self.child = name, script, child
        self.tools: dict[str, tuple[Callable[[str], Any], Callable[[Any], Awaitable[str]] | None]]
        if child is None:
            self.tools = {LOOKUP: (ARGUMENTS, lookup), WIRE: (ARGUMENTS, wire)}
        else:
            self.tools = {"delegate": (TASK, None)}
        self.gated = frozenset([WIRE])

    async def model(self, items: Sequence[Any]) -> list[Any]:
        """Answer at once."""
        replies: list[Any] = self.script.respond(len(items))
        return replies


def fresh(name: str, text: str) -> State:
    """A run that has not begun."""
    return State(name, [User(text)], [], {}, {}, [0, 0])


async def run(agent: Agent, state: State) -> str | None:
    """Drive a run; the final text, or None when it pauses: `pending` says on what."""
    items = state.items
    waited = set(state.pending)
    calls = [item for item in items if type(item) is Call and item.id in waited]
    state.pending = []
    while True:
        if not calls:
            reply = await agent.model(items)
            items.extend(reply)
            state.usage[0] += 10
            state.usage[1] += 5
            calls = [item for item in reply if type(item) is Call]
            if not calls:
                text: str = reply[-1].text
                return text
            state.pending = [call.id for call in calls if call.name in agent.gated and call.id not in state.decisions]
            if state.pending:
                return None
        if len(calls) == 1:
            results = [await execute(agent, state, calls[0])]
        else:
            results = await asyncio.gather(*[execute(agent, state, call) for call in calls])
        for call, result in zip(calls, results, strict=True):
            if result is None:
                state.pending.append(call.id)
            else:
                items.append(Result(call.id, result))
        if state.pending:
            return None
        calls = []


async def execute(agent: Agent, state: State, call: Call) -> str | None:
    """Run a tool's body, or the agent that is a tool."""
    validate, function = agent.tools[call.name]
    given = validate(call.arguments)
    if function is not None:
        return await function(given)
    assert agent.child is not None
    child = state.children.get(call.id)
    if child is None:
        child = state.children[call.id] = fresh(agent.child.name, given.task)
    return await run(agent.child, child)


class Driver(driver.Driver):
    """The floor, driven. An outcome is the state: it ends with a text when the run is over."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = Agent("bench", self.script)
        self.outer = Agent("outer", self.outer_script, Agent("inner", self.inner_script))

    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> list[Any]:
        return [Call(call_id(turn, position), tool, arguments_json(turn)) for position in range(count)]

    def delegation(self) -> list[Any]:
        return [Call("call_outer", "delegate", '{"task":"book it"}')]

    def final(self) -> list[Any]:
        return [Text(FINAL)]

    async def begin(self, agent: Agent) -> Any:
        return await self.resume(agent, fresh(agent.name, PROMPT))

    def waiting(self, outcome: Any) -> int:
        return len(outcome.pending)

    def text(self, outcome: Any) -> str:
        text: str = outcome.items[-1].text
        return text

    def outputs(self, outcome: Any) -> list[str]:
        return [item.output for item in outcome.items if hasattr(item, "output")]

    def keep(self, outcome: Any) -> Any:
        return outcome

    def save(self, kept: Any) -> bytes:
        return ENCODER.encode(kept)

    async def load(self, agent: Agent, saved: bytes) -> Any:
        return DECODER.decode(saved)

    def approve(self, state: Any) -> Any:
        for waits in [state, *state.children.values()]:
            for pending in waits.pending:
                waits.decisions[pending] = True
        return state

    async def resume(self, agent: Agent, state: Any) -> Any:
        await run(agent, state)
        return state

    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        provided = provider([Delta(WORD) for _ in range(deltas)])

        async def read() -> str:
            return "".join([delta.text async for delta in provided])

        return read


async def provider(deltas: Iterable[Delta]) -> AsyncIterator[Delta]:
    """A model's stream."""
    for delta in deltas:
        yield delta


def make() -> Driver:
    """The driver."""
    return Driver()
