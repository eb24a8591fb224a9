"""The run of an agent that a tool's body invokes: its questions are asked in the thread of the outer agent.

The inner run is kept with the outer call, as steps of the body: at each pause, and at its end. The body is entered
again for each answer; the inner run goes on from where it was, and bodies of its tools do not run again. If the process
dies in the middle, the outer call is in doubt, like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from ..core import codec
from ..core.digest import digest
from ..core.facts import decode
from ..errors import Forbidden, InvalidDecision, ReplayMismatch
from ..runtime.tool_pause import OURS, Body, Paused
from ..runtime.value import output_json
from ..store.memory import MemoryStore
from ..store.projection import anew
from ..version import __version__
from .interrupts import Command, inner_response
from .state import State

INNER = f"{OURS}inner"
"""The name of the steps that number the agents that a body invokes, and the beginning of the names of their rounds."""


class InnerAgent(NamedTuple):
    """An agent that a body invokes, with a store of its own for this entry of the body."""

    name: str
    store: MemoryStore
    invoke: Callable[[Any, Mapping[str, Any]], Awaitable[State]]
    state: Callable[[Mapping[str, Any]], Awaitable[State]]


async def run_inside(body: Body, agent: InnerAgent, input: Any, config: Any) -> State:
    """Run an agent inside of a body until it is done, and return its state; the body pauses for each question."""
    place = _place(body, agent.name, input)
    thread = f"inner_{body.key_of(INNER, str(place))}"
    own = config.get("configurable") if isinstance(config, Mapping) else None
    here = {**(config or {}), "configurable": {**(own or {}), "thread_id": thread}}
    given, kept, state = input, None, None
    while True:
        number, done = body.recorded_step(f"{INNER}:{place}")
        if done is not None:
            before, kept = kept, decode(done.value)
        else:
            before = kept
            if before is not None:
                await _restore(agent.store, thread, before)
            try:
                state = await agent.invoke(given, here)
                kept = await _kept(agent.store, thread, state)
            except (InvalidDecision, Forbidden) as error:  # nothing was decided inside: ask again
                if before is None:
                    raise
                kept = _noted(before, error)
            body.record_late(f"{INNER}:{place}", number, kept)
        if not kept["waits"]:
            if state is None:
                await _restore(agent.store, thread, kept)
                state = await agent.state(here)
            return state
        given = _ask(body, kept["waits"])


def _place(body: Body, name: str, input: Any) -> int:
    """Return the number of this call in the body; stop a body that invokes something else than before."""
    number, done = body.recorded_step(INNER)
    mark = digest({"agent": name, "input": bytes(output_json(input)[0]).decode()})
    if done is None:
        body.record_late(INNER, number, mark)
    elif decode(done.value) != mark:
        body.mismatch = ReplayMismatch(
            f"Tool {body.state.tool!r} invoked the agent {name!r} with another input than before its answers came. A "
            "body that asks must do the same each time it is entered; wrap what may differ in ctx.step."
        )
        raise Paused
    return number


async def _kept(store: MemoryStore, thread: str, state: State) -> dict[str, Any]:
    """Return the inner run, and what it waits for, as JSON."""
    stored = await store.newest(thread)
    assert stored is not None
    waits = [[each.id, each.value, each.response_schema] for each in state.get("__interrupt__", ())]
    run = codec.encode_run(codec.SavedRun(codec.SCHEMA, __version__, stored.facts)).decode()
    return {"waits": waits, "run": run, "tools": {mark: text.decode() for mark, text in store.definitions.items()}}


async def _restore(store: MemoryStore, thread: str, kept: dict[str, Any]) -> None:
    """Put the inner run into the store, unless it is there."""
    if await store.newest(thread) is None:
        facts = codec.decode_run(kept["run"]).journal
        change = anew(f"{thread}:1", facts, facts[-1].at or 0)
        change.definitions = {mark: text.encode() for mark, text in kept["tools"].items()}
        await store.append(change)


def _noted(kept: dict[str, Any], error: Exception) -> dict[str, Any]:
    """Return what an inner run waits for, with a note about the last answer, which did not fit."""
    waits = []
    for id, value, schema in kept["waits"]:
        if isinstance(value, dict) and "action_requests" in value:
            note = f"\n\nNote: The last answer did not fit. {error}"
            actions = [{**each, "description": each["description"] + note} for each in value["action_requests"]]
            value = {**value, "action_requests": actions}
        waits.append([id, value, schema])
    return {**kept, "waits": waits}


def _ask(body: Body, waits: list[Any]) -> Command:
    """Ask in the outer thread what the inner run waits for, and return the answers."""
    answers, by = {}, "user"
    for id, value, schema in waits:
        answers[id] = body.ask_sync(value, inner_response(value) or schema)
        by = body.answered_by()
    return Command(resume=answers, by=by)
