"""The model step: builds the request, streams the reply, and records it as a fact.

Deltas are passed on as they arrive and are never facts. A stream that breaks off leaves no trace.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from ...core import facts as f
from ...core.number import LARGEST
from ...core.run import NATIVE, Run, TranscriptEntry, Turn
from ...core.transcript import Item, items_since_reply, open_requests, transcript
from ...core.wording import clean_text, described, holds
from ...definitions.agent import Agent, Toolbox, schema_of, split_offer, toolbox_of
from ...definitions.hosted_tool import HostedMCPTool, HostedTool, is_request
from ...definitions.output import TRY_AGAIN
from ...definitions.prompt import resolve_prompt
from ...definitions.tool import Tool
from ...errors import ModelFailed, UnansweredRequest, UnreadableState, UsageError
from ...models.model import Model, ModelRequest, ModelResponse, ModelSettings, OutputSpec
from ..config import choose_model
from ..definition import describe_agent, same_definition
from ..layer import LayerReply, ModelLayer
from ..scope import Scope
from ..tool_pause import HERE, Hook
from ..value import input_json, output_json

log = logging.getLogger("assentry")

Path = tuple[str, ...]
OUTPUTS = ("function_call_output", *(f"{kind}_output" for kind in NATIVE))
REQUEST = "mcp_approval_request"
"""The type of an item that asks for the approval of a hosted MCP call."""
CALLS = ("function_call", REQUEST)
"""The types of items that are calls."""
UNREADABLE = (
    msgspec.MsgspecError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
)
"""The exceptions of reading a damaged item."""


async def ask_model(scope: Scope, effect: f.AskModel) -> None:
    """Ask the active agent's model, and record its reply."""
    path = effect.path
    run = scope.run_at(path)
    agent = scope.graph.agent_at(run.agent).agent
    check_nothing_is_asked(run)
    await scope.journal.own()
    if scope.session is not None and not path:
        await scope.session.save()
    hooked = scope.hooks.wants(agent)
    if hooked:
        scope.hooks.hear()
        if run.definition is None:
            await scope.hooks.tell_of_agent(path, "agent_start", agent)
    model, settings = choose_model(agent, scope.config)
    hook, repeats = None, True
    if isinstance(model, ModelLayer):
        repeats = model.repeats
        hook = Hook(scope.journal, path, effect.saw, tuple(agent.reviewers))
        effect = f.AskModel(None, path, hook.saw)
        model = model.within(scope.ctx, hook)
    told, offer = await prepare_request(scope, run, agent, path)
    request = _request(scope, run, agent, told, offer, effect.saw, settings.as_sent())
    if agent.prompt is not None:
        names_model = scope.config.model is not None or agent.model is not None
        request = replace(request, prompt=await resolve_prompt(scope.ctx, agent), names_model=names_model)
    if scope.config.call_model_input_filter is not None:
        request = await _filter_request(scope, agent, request)
    if hooked:
        await scope.hooks.tell(
            scope.ctx, "llm_start", agent, request.instructions, msgspec.json.decode(msgspec.json.encode(request.input))
        )
    work = _reply(scope, model, request, path, repeats=repeats)
    work = work if scope.hooks.observer is None else scope.hooks.observer.reply(path, agent, model, request, work)
    reply = await (work if hook is None else _unless_asked(scope, hook, work))
    if reply is None:
        return  # a person must answer before the model is asked
    if type(reply) is LayerReply and reply.tools:
        offer = replace(offer, tools={**offer.tools, **{tool.name: tool for tool in reply.tools}})
    saw = None if effect.saw == run.said and scope.journal.writer is None else effect.saw
    scope.journal.add(make_reply(scope, run, reply, saw, offer, path))
    if hooked:
        kind = scope.graph.class_of(ModelResponse)
        shown = kind(reply.output, reply.usage, reply.response_id) if kind is not ModelResponse else reply
        await scope.hooks.tell(scope.ctx, "llm_end", agent, shown)


async def prepare_request(scope: Scope, run: Run, agent: Agent[Any], path: Path) -> tuple[str | None, Toolbox]:
    """Record the agent's definition, and return its instructions and the tools that its model is offered now."""
    if agent.mcp_servers:
        await scope.servers.list_tools(agent)
    box = toolbox_of(agent)
    _define(scope, run, agent, box.tools, path)
    offer = await _offer_enabled(scope, box, agent) if box.choosy else box
    told = agent.instructions
    if callable(told):
        made = told(scope.ctx, agent)
        told = await made if inspect.isawaitable(made) else made
    return told, offer


def check_nothing_is_asked(run: Run) -> None:
    """Raise `UnansweredRequest` if the last reply has a request that no tool answers: neither a call nor an end."""
    try:
        asked = open_requests(run)
    except UNREADABLE as error:
        raise _damage_error(error) from None
    if not asked:
        return
    what = ", ".join(sorted({described(item["type"]) for item in asked}))
    servers = sorted({described(item.get("server_label")) for item in asked if is_request(item)})
    hosted = f" The agent has no HostedMCPTool for {', '.join(servers)}." if servers else ""
    raise UnansweredRequest(
        f"The model's reply asks for something that no tool here answers: {what}.{hosted} Give the agent a tool that "
        f"answers, or leave out the one that asks. The reply is part of the run; {TRY_AGAIN}, or give the answer "
        "there as an item."
    )


async def _unless_asked(scope: Scope, hook: Hook, work: Awaitable[ModelResponse]) -> ModelResponse | None:
    """Return the reply; if the code around the model asks a person, record the question and return None."""
    reply: ModelResponse | None = None
    before = HERE.set(hook)
    try:
        reply = await work
    except BaseException:
        if hook.pending is None or scope.tasks.stopping():
            if kept := hook.kept_facts():
                scope.journal.append(kept)
            raise
    finally:
        HERE.reset(before)
    if hook.pending is not None:  # the hook asked and has no answer, even if it caught `Paused`
        scope.journal.append(hook.pending)
        return None
    return reply


def _request(
    scope: Scope,
    run: Run,
    agent: Agent[Any],
    told: str | None,
    offer: Toolbox,
    saw: int,
    settings: ModelSettings,
) -> ModelRequest:
    if settings.tool_choice is not None and agent.reset_tool_choice and run.turns:
        last = next((entry for entry in reversed(run.entries) if type(entry) is Turn), None)
        if last is not None and last.calls and last.agent == run.agent:
            settings = replace(settings, tool_choice=None)
    if offer.include:
        parts = dict.fromkeys((*(settings.response_include or ()), *offer.include))
        settings = replace(settings, response_include=list(parts))
    kept = run.began.conversation if run.began is not None else None
    if not kept:
        heard = _input_items(run, saw)
        if scope.journal.past and run is scope.journal.run and not any(_is_filtered(entry) for entry in run.entries):
            heard = [*scope.journal.past, *heard]
        return ModelRequest(told, heard, offer.specs, _output(agent), settings, hosted=offer.hosted)
    replies = (e.reply for e in reversed(run.entries) if type(e) is Turn and type(e.reply) is f.Replied)
    reply, conversation = next(replies, None), kept.get("id")
    chain = reply.id if reply is not None and conversation is None else None
    known = conversation is not None or chain is not None
    if not known:  # the provider has nothing of this run, and at most an earlier response
        chain = kept.get("previous")
    heard = _input_items(run, saw, only_new=known)
    return ModelRequest(told, heard, offer.specs, _output(agent), settings, chain, conversation, offer.hosted)


async def _filter_request(scope: Scope, agent: Agent[Any], request: ModelRequest) -> ModelRequest:
    """Return the request with the instructions and items that the `call_model_input_filter` chooses."""
    from ...definitions.model_input import CallModelData, ModelInputData  # few runs need it

    choose: Any = scope.config.call_model_input_filter
    copied = msgspec.json.decode(msgspec.json.encode(request.input))
    chosen = choose(CallModelData(ModelInputData(copied, request.instructions), agent, scope.ctx.context))
    chosen = await chosen if inspect.isawaitable(chosen) else chosen
    if not isinstance(chosen, ModelInputData):
        raise UsageError(f"call_model_input_filter must return a ModelInputData, and gave {described(chosen)}.")
    items, told = chosen.input, chosen.instructions
    if type(items) is not list or type(told) not in (str, type(None)):
        raise UsageError(
            "call_model_input_filter must return a ModelInputData with a list of items (dicts), and with instructions "
            f"that are text or None, and gave {described(chosen)}."
        )
    return replace(request, input=msgspec.json.decode(input_json(items)), instructions=told)


def _is_filtered(entry: TranscriptEntry) -> bool:
    """Return True if the history before this entry was chosen for the agent that took over."""
    return type(entry) is f.HandedOff and bool(entry.history)


def _input_items(run: Run, saw: int, *, only_new: bool = False) -> list[Item]:
    """Return the items that the model gets: the whole conversation, or what came since its last reply."""
    try:
        return items_since_reply(run, saw) if only_new else transcript(run, saw)
    except UNREADABLE as error:
        raise _damage_error(error) from None


def _damage_error(error: Exception) -> UnreadableState:
    return UnreadableState(f"This run is damaged: an item of its transcript cannot be read ({error}).")


def _define(scope: Scope, run: Run, agent: Agent[Any], tools: dict[str, Tool], path: Path) -> None:
    """Record the agent's definition if it has changed."""
    fact, last = describe_agent(agent, tools), run.definition
    if last is fact or (last is not None and same_definition(last, fact) and not _hides_more(last, fact)):
        return
    known = fact.digest in scope.journal.run.marks
    if known or path or run.turns or run.live:  # facts are told apart by identity: add the cached one only once
        fact = replace(fact, tools={} if known else fact.tools, path=path)
    scope.journal.add(fact)


def _hides_more(last: f.Defined, fact: f.Defined) -> bool:
    """Return True if other arguments are to be masked than the run has recorded."""
    return (last.redact or {}) != (fact.redact or {})


async def _offer_enabled(scope: Scope, box: Toolbox, agent: Agent[Any]) -> Toolbox:
    """Return the toolbox with the tools that are enabled now."""
    tools = {name: tool for name, tool in box.tools.items() if await is_tool_enabled(scope, tool, agent)}
    specs, hosted, include = split_offer(tools)
    return replace(box, tools=tools, specs=specs, hosted=hosted, include=include)


def _output(agent: Agent[Any]) -> OutputSpec | None:
    """Return the schema of the agent's final output; None if there is none to show to the model."""
    shape = schema_of(agent) if agent.output_type is not None else None
    if shape is None or not shape.json_schema:
        return None
    return OutputSpec(agent.output_name or shape.name, shape.json_schema, shape.strict)


async def is_tool_enabled(scope: Scope, tool: Tool, agent: Agent[Any]) -> bool:
    """Return True if the agent's model is offered the tool now."""
    if type(tool.is_enabled) is bool:
        return tool.is_enabled
    answer = tool.is_enabled(scope.ctx, agent)
    answer = await answer if inspect.isawaitable(answer) else answer
    return answer is True


async def _reply(scope: Scope, model: Model, request: ModelRequest, path: Path, *, repeats: bool) -> ModelResponse:
    """Return the model's reply. With `repeats`, the call is made again as its settings say."""
    settings, show = request.settings, scope.hooks.delta(path)
    if show is not None:
        request = replace(request, streamed=True)
    if settings.retry is None and settings.timeout is None:
        return await _attempt(scope, model, request, show)
    from .model_retry import ShownDeltas, seconds_to_retry, within_timeout  # few runs need it

    shown = ShownDeltas(show)
    while True:
        work = _attempt(scope, model, request, shown if show is not None else None)
        try:
            reply = await within_timeout(work, settings.timeout, model.name)
        except Exception as error:
            retry = settings.retry if repeats and not shown.any else None
            delay = None if retry is None else await seconds_to_retry(retry, error, request, model)
            if delay is None:
                raise
            log.info("Model %r is asked again in %.2f seconds: %s", model.name, delay, error)
            await asyncio.sleep(delay)
            request = replace(request, attempt=request.attempt + 1)
        else:
            reply.usage.requests += request.attempt - 1
            return reply


async def _attempt(
    scope: Scope, model: Model, request: ModelRequest, show: Callable[[Any], None] | None
) -> ModelResponse:
    reply: ModelResponse | None = None
    observer = scope.hooks.observer
    events = model.stream(request) if observer is None else observer.stream(model, request)
    try:
        async for event in events:
            if isinstance(event, ModelResponse):
                reply = event
            elif show is not None:
                show(event)
                if scope.hooks.waiting:
                    await scope.hooks.flush()
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
    if reply is None:
        raise ModelFailed(f"The model {model.name!r} ended its stream without a complete reply.")
    return reply


def _check(reply: Any) -> tuple[int, ...]:
    """Return the numbers of the reply's usage; raise `ModelFailed` unless the reply can be recorded and read again."""
    if not isinstance(reply.output, list):
        raise ModelFailed(f"The model's output is a list of items (dicts), got {described(reply.output)}.")
    usage: tuple[Any, ...] = reply.usage.numbers() if isinstance(reply.usage, f.Usage) else (None,)
    for number in usage:
        if type(number) is not int or not 0 <= number <= LARGEST:
            raise ModelFailed(f"The model's usage is a Usage of whole numbers, got {described(reply.usage)}.")
    if reply.response_id is not None and type(reply.response_id) is not str:
        raise ModelFailed(f"The id of the model's response is text, got {described(reply.response_id)}.")
    return usage


def make_reply(
    scope: Scope, run: Run, reply: ModelResponse, saw: int | None, offer: Toolbox, path: Path = ()
) -> f.Replied:
    """Return the fact of a reply, with the calls that the gate judges; `ModelFailed` if it cannot be recorded."""
    usage = _check(reply)
    calls = _calls(run, reply.output, offer)
    items, note = output_json(reply.output)
    return f.Replied(
        items,
        saw,
        calls,
        usage,
        clean_text(reply.response_id)[0] if reply.response_id else None,
        note,
        update=reply.update if type(reply) is LayerReply else f.NOTHING,
        at=scope.journal.now(),
        path=path,
    )


def _calls(run: Run, items: list[Item], offer: Toolbox) -> tuple[f.Call, ...]:
    """Return the calls of a reply that are to be judged, each with the tool that was offered under its name."""
    calls: list[f.Call] = []
    number, answered = len(run.calls), _answered_ids(items) if len(items) > 1 else ()
    asked: set[str | None] = set()
    """The ids of the requests for approval in this run."""
    for index, item in enumerate(items):
        name = called_tool(item, offer)
        if name is None or item.get("call_id") in answered:
            continue
        tool = offer.tools.get(name)
        if item["type"] == REQUEST:
            server = offer.tools.get(f"mcp:{item.get('server_label')}")
            if not isinstance(server, HostedMCPTool):
                continue  # nobody here can answer for this server: see `check_nothing_is_asked`
            asked = asked or {state.proposal.id for state in run.calls.values() if state.call.kind == "hosted"}
            if item["id"] in asked:
                raise ModelFailed("The provider asks for two approvals with one id; an answer would count for both.")
            asked.add(item["id"])
            tool = server.tool_named(name)
        elif isinstance(tool, HostedTool):
            tool = None
        number += 1
        if tool is None:
            calls.append(f.Call(f"c{number}", clean_text(name)[0], index))
        else:
            calls.append(f.Call(f"c{number}", name, index, tool.kind, tool.fingerprint))
    return tuple(calls)


def _answered_ids(items: list[Item]) -> set[str]:
    """Return the ids of calls whose outputs are in the same reply: a hook has given the outputs, so nothing runs."""
    given = (each["call_id"] for each in items if type(each) is dict and each.get("type") in OUTPUTS)
    return {call for call in given if call}


def called_tool(item: Any, offer: Toolbox) -> str | None:
    """Return the name of the tool that an item calls; None if the item is no call, `ModelFailed` if it is malformed."""
    kind = item.get("type", "") if isinstance(item, dict) else None
    if type(kind) is not str:
        raise ModelFailed(f"The model's output is a list of items (dicts), got {described(item)}.")
    if kind in NATIVE:
        return _native_tool(item, kind, offer)
    if kind not in CALLS:
        return None
    name: str | None = item.get("name")
    if type(name) is not str or type(item.get("arguments")) is not str or not _can_be_read(item):
        raise ModelFailed(f"The model sent a call whose name, arguments or id is not text: {described(item)}")
    if kind == REQUEST and not (_is_text(name) and _is_text(item.get("id")) and type(item.get("server_label")) is str):
        raise ModelFailed(f"The provider asks for an approval without a name, id or server_label: {described(item)}")
    return name


def _native_tool(item: Item, kind: str, offer: Toolbox) -> str | None:
    """Return the name of the offered tool that a provider's own kind of call is for; None if none was offered."""
    if not _is_text(item.get("call_id")):
        raise ModelFailed(f"The model sent a {kind} without a call_id: {described(item)}")
    if not _can_be_read(item):
        raise ModelFailed(f"The model sent a {kind} whose name, arguments or id is not text: {described(item)}")
    return next((tool.name for tool in offer.tools.values() if tool.native == NATIVE[kind]), None)


def _can_be_read(item: Item) -> bool:
    """Return True if the fields of a call that are texts are texts, so that a saved run can be read."""
    if type(item.get("name", "")) is not str or type(item.get("arguments", "")) is not str:
        return False
    for field in ("call_id", "id", "server_label"):
        value = item.get(field)
        if value is not None and type(value) is not str:
            return False
    return True


def _is_text(value: Any) -> bool:
    """Return True for a text that is not empty and that UTF-8 can hold."""
    return type(value) is str and value != "" and holds(value)
