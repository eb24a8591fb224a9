"""Asking the model: what it is offered, what it hears, and its reply as a fact.

Deltas are shown as they pass and are never facts; half a stream leaves no trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ..agent import Agent, model_of, schema_of, toolbox_of
from ..core import facts as f
from ..core.digest import described
from ..core.digest import text as clean_text
from ..core.run import Entry, Run, Turn
from ..core.transcript import Item, news, transcript
from ..errors import ModelFailed, UnreadableState, UsageError
from ..models.model import Model, ModelRequest, ModelResponse, OutputSpec, ToolSpec
from ..tools.tool import Tool
from .asking import HERE, Hook
from .cast import Seat
from .definition import definition, same_definition
from .history import keep
from .value import output_json

if TYPE_CHECKING:
    from .driver import Driver

Path = tuple[str, ...]


class Offer:
    """What one agent's model was offered last in this drive."""

    __slots__ = ("names", "output", "parts", "specs")

    def __init__(self) -> None:
        self.parts: tuple[Any, ...] = ()
        """What the definition was made of that was recorded last."""
        self.names: dict[str, Tool] = {}
        """The tools that are enabled."""
        self.specs: tuple[ToolSpec, ...] = ()
        self.output: OutputSpec | None = None


async def ask_model(driver: Driver, effect: f.AskModel) -> None:
    """Ask the model whose word it is, and record its reply."""
    path = effect.path
    run = driver.journal.run.at(path) if path else driver.journal.run
    seat = driver.cast.seat(run.agent)
    agent = seat.agent
    if driver.session is not None and not path:
        await keep(driver, driver.session)
    hooked = driver.audience.wants(agent)
    if run.definition is None and hooked:
        await driver.audience.tell(driver.ctx, "agent_start", agent)
    model, hook = _model(driver, agent), None
    within = getattr(model, "within", None)
    if within is not None:  # a model with hooks around it, which want to know the run that they are in
        hook = Hook(driver.journal, path)
        model = within(driver, hook)
    offer = await _offer(driver, run, seat, path)
    told = agent.instructions
    if callable(told):
        made = told(driver.ctx, agent)
        told = await made if inspect.isawaitable(made) else made
    request = _request(driver, run, agent, told, offer)
    if hooked:
        await driver.audience.tell(
            driver.ctx, "llm_start", agent, told, msgspec.json.decode(msgspec.json.encode(request.input))
        )
    work = _reply(driver, model, request, path)
    work = work if driver.observer is None else driver.observer.reply(path, agent, model, request, work)
    reply = await (work if hook is None else _unless_asked(driver, hook, work))
    if reply is None:
        return  # a person is asked first, and then the model
    driver.journal.add(_replied(driver, run, reply, effect, offer))
    if hooked:
        await driver.audience.tell(driver.ctx, "llm_end", agent, reply)


async def _unless_asked(driver: Driver, hook: Hook, work: Awaitable[ModelResponse]) -> ModelResponse | None:
    """The reply; None if the code around the model asks a person, which is recorded."""
    reply: ModelResponse | None = None
    before = HERE.set(hook)
    try:
        reply = await work
    except BaseException:
        if (hook.pending is None and hook.mismatch is None) or driver.stopping():
            raise
    finally:
        HERE.reset(before)
    if hook.mismatch is not None:
        raise hook.mismatch
    if hook.pending is not None:  # whatever the hook did with `Paused`, it asked and has no answer
        driver.journal.append(hook.pending)
        return None
    return reply


def _request(driver: Driver, run: Run, agent: Agent[Any], told: str | None, offer: Offer) -> ModelRequest:
    settings = agent.model_settings.resolve(driver.config.model_settings)
    if settings.tool_choice is not None and agent.reset_tool_choice and run.turns:
        last = next((entry for entry in reversed(run.entries) if type(entry) is Turn), None)
        if last is not None and last.calls and last.agent == run.agent:
            settings = replace(settings, tool_choice=None)
    kept = run.began.conversation if run.began is not None else None
    if not kept:
        heard = _heard(run, transcript)
        if driver.past and run is driver.journal.run and not any(_filtered(entry) for entry in run.entries):
            heard = [*driver.past, *heard]
        return ModelRequest(told, heard, offer.specs, offer.output, settings)
    replies = (e.reply for e in reversed(run.entries) if type(e) is Turn and type(e.reply) is f.Replied)
    reply, conversation = next(replies, None), kept.get("id")
    chain = reply.id if reply is not None and conversation is None else None
    known = conversation is not None or chain is not None
    if not known:  # the provider has nothing of this run, and at most what was before it
        chain = kept.get("previous")
    heard = _heard(run, news if known else transcript)
    return ModelRequest(told, heard, offer.specs, offer.output, settings, chain, conversation)


def _filtered(entry: Entry) -> bool:
    """Whether what comes before this was chosen for the agent that took over."""
    return type(entry) is f.HandedOff and bool(entry.history)


def _heard(run: Run, hear: Callable[[Run], list[Item]]) -> list[Item]:
    try:
        return hear(run)
    except (msgspec.MsgspecError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UnreadableState(f"This run is damaged: an item of its transcript cannot be read ({error}).") from None


def _model(driver: Driver, agent: Agent[Any]) -> Model:
    model = driver.config.own_model or model_of(agent)
    if model is None:
        raise UsageError(f"Agent {agent.name!r} has no model; give Agent(model=...) or RunConfig(model=...).")
    return model


async def _offer(driver: Driver, run: Run, seat: Seat, path: Path) -> Offer:
    """Record the agent's definition where it is a new one, and settle which tools the model is offered."""
    agent, box = seat.agent, toolbox_of(seat.agent)
    tools = box.tools
    offer = driver.offers.get(path)
    if offer is None:
        offer = driver.offers[path] = Offer()
    parts = (tools, agent.instructions, agent.model, agent.output_type, agent.tool_use_behavior)
    if run.definition is None or parts != offer.parts:
        offer.parts = parts
        fact = definition(agent, tools)
        if run.definition is None or not same_definition(run.definition, fact):
            known = fact.digest in driver.journal.run.marks
            driver.journal.add(replace(fact, tools={} if known else fact.tools, path=path))
        shape = schema_of(agent)
        schema = shape.json_schema if shape is not None else None
        offer.output = OutputSpec(shape.name, schema, shape.strict) if shape is not None and schema else None
    if not box.choosy:
        offer.names, offer.specs = tools, box.specs
    else:
        offer.names = {n: tool for n, tool in tools.items() if await enabled(driver, tool, agent)}
        offer.specs = tuple(tool.spec for tool in offer.names.values())
    return offer


async def enabled(driver: Driver, tool: Tool, agent: Agent[Any]) -> bool:
    """Whether the agent's model is offered the tool now."""
    if type(tool.is_enabled) is bool:
        return tool.is_enabled
    answer = tool.is_enabled(driver.ctx, agent)
    answer = await answer if inspect.isawaitable(answer) else answer
    return answer is True


async def _reply(driver: Driver, model: Model, request: ModelRequest, path: Path) -> ModelResponse:
    reply: ModelResponse | None = None
    show = driver.on_delta if not path else driver.audience.delta(path)
    events = model.stream(request)
    try:
        async for event in events:
            if isinstance(event, ModelResponse):
                reply = event
            elif show is not None:
                show(event)
                if driver.audience.waiting:
                    await driver.audience.flush()
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
    if reply is None:
        raise ModelFailed(f"The model {model.name!r} ended its stream without a complete reply.")
    return reply


def _replied(driver: Driver, run: Run, reply: ModelResponse, effect: f.AskModel, offer: Offer) -> f.Replied:
    calls: list[f.Call] = []
    number = len(run.calls)
    answered = _answered(reply.output)
    for index, item in enumerate(reply.output):
        name = called(item)
        if name is not None and item.get("call_id") not in answered:
            tool = offer.names.get(name)
            number += 1
            id, name = f"c{number}", clean_text(name)[0]
            calls.append(f.Call(id, name, index, tool.kind, tool.fingerprint) if tool else f.Call(id, name, index))
    items, note = output_json(reply.output)
    return f.Replied(
        items,
        None if effect.saw == run.said and driver.keeper is None else effect.saw,
        tuple(calls),
        reply.usage.numbers(),
        clean_text(reply.response_id)[0] if reply.response_id else None,
        note,
        at=driver.journal.now(),
        path=effect.path,
    )


def _answered(items: list[Item]) -> set[str]:
    """The calls of a reply that have their outputs in it: a hook has given them, and nothing runs."""
    given = (each["call_id"] for each in items if type(each) is dict and each.get("type") == "function_call_output")
    return {call for call in given if call}


def called(item: Any) -> str | None:
    """The name a reply's item calls, if it is a call; `ModelFailed` if it is not what an item should be."""
    kind = item.get("type", "") if isinstance(item, dict) else None
    if type(kind) is not str:
        raise ModelFailed(f"The model's output is a list of items (dicts), got {described(item)}.")
    if kind != "function_call":
        return None
    name, arguments = item.get("name"), item.get("arguments")
    call_id, id = item.get("call_id", ""), item.get("id", "")
    if not (type(name) is type(arguments) is str and type(call_id or "") is type(id or "") is str):
        raise ModelFailed(f"The model sent a call whose name, arguments or id is not text: {described(item)}")
    return name
