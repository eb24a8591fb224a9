"""Saved runs of many kinds, and what becomes of them when one value of them is another: for `test_damage.py`."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any, Literal

from pydantic import BaseModel

from assentry import (
    Agent,
    Approve,
    Edit,
    GrantTerms,
    GuardrailFunctionOutput,
    Reject,
    Respond,
    RunConfig,
    Runner,
    RunState,
    SigningKey,
    ToolContext,
    function_tool,
    handoff,
    input_guardrail,
)
from assentry.errors import AssentryError
from assentry.testing import ScriptedModel, call
from tests.runtime.support import scripted, sending, stopped

Json = dict[str, Any]
Way = tuple[Any, ...]
"""Where a value stands in JSON: keys and numbers."""
Made = tuple[Agent[Any], Json]
"""An agent that can go on with a saved run, and the run."""

OTHERS: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    2**40,
    2**70,
    1.5,
    1e300,
    "",
    "x",
    "c1",
    "approve",
    "tool",
    '{"to":"ann"}',
    "\x00",
    [],
    {},
    ["x"],
    [{}],
    {"x": 1},
    {"type": "string"},
    [None],
    "\ud800",
    "RAW 1e400",
    "RAW " + "9" * 5000,
    "RAW " + "[" * 3000 + "]" * 3000,
]
"""What a value may be instead; what is RAW is JSON that Python would not write."""


def _send() -> Any:
    return sending(needs_approval=True)[0]


async def _waiting() -> Made:
    agent = scripted("done", "done", "done", tools=[_send()])

    calls = [call("send", {"to": name}) for name in ("ann", "bob", 1)]
    first = scripted(calls, tools=[_send()])
    state = (await Runner.run(first, "go", context={"user": 1}, run_config=RunConfig(deadline=60))).to_state()
    items = state.get_interruptions()
    state.decide(items[0].id, Approve("fine"), "ann", items[0].digest, GrantTerms(5, 60, {"copies": 1}))
    return agent, state.to_json()


async def _decided() -> Made:
    agent = scripted("done", "done", "done", tools=[_send()])

    first = scripted([call("send", {"to": name}) for name in ("ann", "bob", "cy", "di")], tools=[_send()])
    state = (await Runner.run(first, [{"role": "user", "content": "go"}])).to_state()
    items = state.get_interruptions()
    state.edit(items[0], {"to": "eve", "copies": 2}, by="ann")
    state.reject(items[1], True, "no", by="ann")
    state.respond(items[2], {"sent": True}, by="ann")
    state.add_input("hurry")
    return agent, state.to_json()


class _Place(BaseModel):
    town: str
    size: int = 1


def _booking() -> Any:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        """Book a room."""
        await ctx.step("look", lambda: {"free": 3})
        kind = await ctx.ask("What kind?", schema=Literal["single", "double"])
        place = await ctx.ask({"where": "to"}, schema=_Place)
        return f"{kind} in {place.town}"

    return book


async def _asking() -> Made:
    agent = scripted("done", "done", tools=[_booking()])

    first = scripted(call("book", {}), tools=[_booking()])
    state = (await Runner.run(first, "go")).to_state()
    [item] = state.get_interruptions()
    state.respond(item, "single", by="ann")
    state = (await Runner.run(first, state)).to_state()
    return agent, state.to_json()


def _slow(entered: asyncio.Event | None = None) -> Any:
    @function_tool
    async def slow(to: str) -> str:
        """Take long."""
        if entered is not None:
            entered.set()
            await asyncio.Event().wait()
        return to

    return slow


async def _doubtful() -> Made:
    agent = scripted("done", "done", tools=[_slow()])

    entered = asyncio.Event()
    first = scripted(call("slow", {"to": "ann"}), tools=[_slow(entered)])
    state = await stopped(Runner.run(first, "go", run_config=RunConfig(cancel_grace=0)), entered)
    state = (await Runner.run(agent, await RunState.from_json(agent, state.to_json()))).to_state()
    return agent, state.to_json()


def _office(*steps: Any, inner: tuple[Any, ...]) -> Agent[Any]:
    clerk = scripted(*inner, tools=[_send()], name="clerk")
    desk = scripted("from the desk", name="desk")
    tools = [clerk.as_tool("clerk", "Ask the clerk.", needs_approval=True)]
    return scripted(*steps, tools=tools, handoffs=[desk], name="boss")


async def _nested() -> Made:
    agent = _office("done", "done", inner=("sent", "sent"))

    first = _office(
        [call("clerk", {"input": "Send it."}), call("transfer_to_desk", {})], inner=(call("send", {"to": "ann"}),)
    )
    state = (await Runner.run(first, "go")).to_state()
    [item] = state.get_interruptions()
    state.approve(item, by="ann")
    state = (await Runner.run(first, state)).to_state()
    return agent, state.to_json()


async def _ending() -> Made:
    @input_guardrail
    async def polite(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput({"rude": False}, False)

    def agent(*steps: Any) -> Agent[Any]:
        steps = steps or ('{"town":"Bonn"}', '{"town":"Bonn"}')
        options: Any = {"output_type": _Place, "output_needs_approval": True, "input_guardrails": [polite]}
        return scripted(*steps, tools=[_send()], name="writer", **options)

    state = (await Runner.run(agent('{"town":"Rome"}'), "go")).to_state()
    return agent(), state.to_json()


async def _handed() -> Made:
    def office(*steps: Any) -> Agent[Any]:
        desk = scripted(call("send", {"to": "ann"}), tools=[_send()], name="desk")
        brief = handoff(desk, input_filter=lambda data: data.clone(input_history="in short"))
        return scripted(*steps, handoffs=[brief], name="boss")

    state = (await Runner.run(office(call("transfer_to_desk", {})), "go")).to_state()
    return office(), state.to_json()


async def _done() -> Made:
    agent = scripted("more", "more", tools=[sending()[0]])

    first = scripted(call("send", {"to": "ann"}), "done", tools=[sending()[0]])
    state = (await Runner.run(first, "go", conversation_id="conv_1")).to_state()
    state.add_input("more")
    return agent, state.to_json()


MAKERS: dict[str, Callable[[], Awaitable[Made]]] = {
    "waiting": _waiting,
    "decided": _decided,
    "asking": _asking,
    "doubtful": _doubtful,
    "nested": _nested,
    "ending": _ending,
    "handed": _handed,
    "done": _done,
}


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """Where every value stands in JSON that is inside this."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*way, key)
            yield from ways(inner, (*way, key))


def damaged(data: Json, way: Way, other: Any) -> str:
    """The text of the run with another value there; with `...` without any."""
    copy = deepcopy(data)
    place: Any = copy
    for key in way[:-1]:
        place = place[key]
    raw = isinstance(other, str) and other.startswith("RAW ")
    if other is ...:
        del place[way[-1]]
    else:
        place[way[-1]] = "RAW" if raw else other
    return json.dumps(copy).replace('"RAW"', other[4:]) if raw else json.dumps(copy)


CHANGES: list[Any] = ["refuse", "accept", "ask"]
DECISIONS: list[Any] = [Approve(), Reject("no"), Edit({"to": "zoe"}), Respond("single"), Respond({"town": "Ulm"})]
STEPS: list[Any] = [call("send", {"to": "kim"}), "that is all"]


async def tried(agent: Agent[Any], text: str, number: int) -> None:
    """Do what a user can do with a saved run; what Assentry refuses, it refuses with an error of its own."""
    with suppress(AssentryError):
        RunState.peek(text)
    with suppress(AssentryError):
        await RunState.from_string(agent, text, keys=[SigningKey("k", b"s" * 32)])
    with suppress(AssentryError):
        change, decision = CHANGES[number % 3], DECISIONS[number % 5]
        state = await RunState.from_string(agent, text, on_change=change, context_override={})
        _ = (repr(state), state.status, state.grants())
        with suppress(AssentryError):
            state.to_json()
        for item in state.get_interruptions():
            with suppress(AssentryError):
                state.decide(item.id, decision, "ann", item.digest, number % 2 == 0 and type(decision) is Approve)
        for grant in state.grants() if number % 4 == 0 else ():
            state.revoke(grant.id, "ann")
        model = ScriptedModel(itertools.cycle(STEPS))
        result = await Runner.run(agent, state, run_config=RunConfig(model=model))
        _ = (result.new_items, result.interruptions, result.raw_responses, result.to_input_list(), result.final_output)
        _ = (result.input, result.input_guardrail_results, result.last_agent, result.to_state().to_string())
        _ = result.context_wrapper.usage.total_tokens
