"""A model with middleware around it: hooks run before and after each model call, and their result is the reply.

Everything that a hook adds or changes is therefore in the journal, and calls from a hook are judged like the model's
own calls. A hook that asks a person stores the model's replies so far with the question; see `runtime.tool_pause.Hook`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from ..core import facts as f
from ..core.digest import parse_object, same
from ..core.transcript import NOTE, Item, as_function, without, without_notes
from ..core.wording import described
from ..definitions.context import RunContextWrapper
from ..definitions.tool import Tool
from ..errors import InvalidInput, ModelFailed, UsageError
from ..models.delta import as_dict
from ..models.model import DEFAULT_SETTINGS, MCPToolChoice, Model, ModelSettings
from ..models.model import ModelRequest as Request
from ..models.model import ModelResponse as Response
from ..models.named import adapt_model, is_model
from ..runtime.layer import LayerReply, ModelLayer
from ..runtime.scope import scope_of
from ..runtime.session_sync import accepted_items
from ..runtime.tool_pause import Hook
from .langgraph_context import langgraph_context
from .message import AIMessage, Message, SystemMessage, ToolMessage
from .message_items import ai_message, as_list, call_item, entries_of, given_message, items_of, numbered_id
from .middleware import JUMPS, AgentMiddleware, call_hook, hooks_of, nest_hooks, nodes_of
from .middleware_context import C, Runtime, runtime_in
from .reply_state import ReplyState
from .state import EMPTY, State
from .threaded_agent import ThreadedAgent
from .view import is_forked_inside, items_by_message, view_of

REPEATS = 25
"""The limit of model calls within one reply, for hooks that jump back to the model."""


class ModelRequest(Struct, Generic[C]):
    """A request to the model. Change the request with `override`, and pass the result to the handler."""

    messages: list[Message]
    system_prompt: str | None
    tools: list[Tool]
    """The tools that the model is offered. A middleware may offer fewer, and others, which are judged like them."""
    model: Model
    state: State
    runtime: Runtime[C]
    tool_choice: str | MCPToolChoice | None = None
    model_settings: ModelSettings | dict[str, Any] = DEFAULT_SETTINGS
    """Settings that override the agent's own."""

    @property
    def system_message(self) -> SystemMessage | None:
        """The system prompt, as a message."""
        return None if self.system_prompt is None else SystemMessage(self.system_prompt)

    def override(self, **changes: Any) -> ModelRequest[C]:
        """Return a copy of the request with these fields changed. `system_message` sets `system_prompt`."""
        if "system_message" in changes:
            said = changes.pop("system_message")
            changes["system_prompt"] = said.text if isinstance(said, SystemMessage) else said
        other = sorted(changes.keys() - set(self.__struct_fields__))
        if other:
            fields = ", ".join(self.__struct_fields__)
            raise UsageError(f"A request to the model has no {other[0]!r} that could be changed; it has {fields}.")
        return replace(self, **changes)


class ModelResponse(Struct):
    """The result of a model call: the model's message, and the messages that a middleware adds."""

    result: list[Message]


class ReplyUpdates(Struct, frozen=True):
    """The updates of the nodes of one reply."""

    path: tuple[str, ...]
    updates: list[tuple[str, State | None]]


class HookedModel(ModelLayer):
    """An agent's model, with middleware around it."""

    def __init__(self, model: Model, middleware: Sequence[AgentMiddleware]) -> None:
        self.inner = model
        names = ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call")
        self.hooks = {name: hooks_of(middleware, name) for name in names}
        self.nodes = {name: nodes_of(middleware, name) for name in names}
        """The names of the hooks in updates."""

    @property
    def name(self) -> str:
        """The name of the model itself."""
        return self.inner.name

    def within(self, ctx: RunContextWrapper[Any], hook: Hook) -> Asking:
        """Return the model for one reply in the run of this context."""
        return Asking(self, ctx, hook)


class Asking:
    """One reply: the hooks before and after the model, and as many model calls as the hooks ask for."""

    def __init__(self, model: HookedModel, ctx: RunContextWrapper[Any], hook: Hook) -> None:
        self.model, self.ctx, self.hook = model, ctx, hook
        self.name = model.name
        scope = scope_of(ctx)
        run = scope.run_at(hook.path)
        placed = scope.graph.agent_at(run.agent)
        self.agent = placed.agent
        added = self.agent.added if isinstance(self.agent, ThreadedAgent) else {}
        self.tools = [tool for name, tool in placed.tools.items() if name not in added]
        self.first = run.turns == 0 and not is_forked_inside(run)
        self.id = f"{run.id}.{len(entries_of(run)) + len(run.news(hook.saw))}"
        self.runs = [*(() if hook.path else scope.journal.before), run]
        schema = self.agent.state_schema if isinstance(self.agent, ThreadedAgent) else EMPTY
        view = view_of(self.runs[:-1]).take_run(run, hook.saw)
        self.state = ReplyState(view, schema, self.id, scope.journal)
        self.looked = _snapshot(self.state.heard) if model.hooks["wrap_model_call"] else []
        """The input messages before any hook ran."""
        self.raw: dict[str, list[Item]] = {}
        """The items of the model's own messages, by message id."""
        self.added: dict[str, Tool] = {}
        """The tools that middleware offers beside the agent's own, by name."""
        self.usage = f.Usage()
        self.response_id: str | None = None
        self.deltas: asyncio.Queue[Item | None] = asyncio.Queue()
        self.updates: list[tuple[str, State | None]] = []
        """The updates of hooks and of the model, by the names of their nodes; for whoever reads a stream."""

    async def stream(self, request: Request) -> AsyncIterator[Item | Response]:
        """Yield the model's deltas as they arrive, and then the complete response."""
        task = asyncio.create_task(self._reply(request))
        task.add_done_callback(lambda _: self.deltas.put_nowait(None))
        try:
            while (delta := await self.deltas.get()) is not None:
                yield delta
            yield await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _reply(self, request: Request) -> Response:
        with langgraph_context(self.ctx, self.agent):
            return await self._reply_by_hooks(request)

    async def _reply_by_hooks(self, request: Request) -> Response:
        jump = await self._run("before_agent") if self.first else None
        for _ in range(REPEATS):
            jump = jump if jump in ("end", "tools") else await self._run("before_model")
            if jump not in ("end", "tools"):
                await self._ask(request)
                jump = await self._run("after_model")
            if jump == "end":
                self._drop_calls()
            elif jump != "model" and self._settled():
                jump = "model"  # hooks have answered all calls, and the model has not seen the answers
            if jump != "model" and not self._waits():
                jump = await self._run("after_agent")
            if jump != "model":
                self._show_updates()
                return LayerReply(
                    self._items(),
                    self.usage,
                    self.response_id,
                    update=self.state.update(),
                    tools=tuple(self.added.values()),
                )
            self._drop_calls()
        raise UsageError(f"Middleware called the model {REPEATS} times in one turn without an end; check its jump_to.")

    # -- hooks -------------------------------------------------------------------------------------

    def _state(self) -> State:
        """Return the state as hooks see it."""
        state = self.state.values()
        messages = self.state.messages
        shown = self.agent.show_messages(messages) if isinstance(self.agent, ThreadedAgent) else list(messages)
        return {"messages": shown, **state}

    async def _run(self, name: str) -> str | None:
        """Run the hooks of one name, and return the jump of the first hook that jumps; later hooks are not run."""
        for node, hook in zip(self.model.nodes[name], self.model.hooks[name], strict=True):
            state = self._state()
            shown, before = list(state["messages"]), _snapshot(state["messages"])
            update = await call_hook(hook, state, runtime_in(self.ctx, self.agent))
            self.hook.still_goes()
            self._take_changes(name, state.get("messages"), shown, before)
            jump = self._take_update(name, node, update)
            if jump is not None:
                return jump
        return None

    def _take_changes(self, name: str, now: Any, shown: list[Any], before: list[Any]) -> None:
        """Take over new messages that a hook changed in place; recorded ones cannot be changed so."""
        changed = [n for n, (was, each) in enumerate(zip(before, _snapshot(shown), strict=True)) if was != each]
        owns = [self.state.messages[n] for n in changed]
        if _ids(now) != _ids(shown) or not all(any(own is made for made in self.state.made) for own in owns):
            raise UsageError(
                f"{name} changed recorded messages in place. Give new and changed messages as an update; change what "
                "the model gets in wrap_model_call."
            )
        for number, own in zip(changed, owns, strict=True):
            if shown[number] is not own:
                self.state.replace(own, given_message(shown[number]))

    def _take_update(self, name: str, node: str, update: Any) -> str | None:
        """Take the update of a hook into the state, and return the jump that it asks for."""
        if update is None:
            self.updates.append((node, None))
            return None
        if not isinstance(update, dict):
            raise UsageError(
                f'{name} gives None, or {{"messages": [...], "jump_to": ...}}, and gave {described(update)}.'
            )
        added = self._add(update.get("messages") or ())
        self.state.put(name, update)
        shown = {key: added if key == "messages" else each for key, each in update.items() if key != "jump_to"}
        self.updates.append((node, shown))
        jump: str | None = update.get("jump_to")
        if jump is not None and jump not in JUMPS:
            raise UsageError(f'{name}: jump_to is "end", "model" or "tools", got {described(jump)}.')
        return jump

    def _add(self, given: Any) -> list[Message]:
        """Add messages to the state, and return them; a message with a known id replaces that message."""
        added = [replace(given_message(each)) for each in as_list(given)]  # copies: a hook may give them again
        self.state.add(added, self.raw)
        return added

    def _show_updates(self) -> None:
        """Give the updates to whoever reads a stream, which shows them once the reply is recorded."""
        show = scope_of(self.ctx).hooks.on_event
        if show is not None:
            show(ReplyUpdates(self.hook.path, self.updates))

    # -- the model ---------------------------------------------------------------------------------

    async def _ask(self, request: Request) -> None:
        shown = ModelRequest(
            self._state()["messages"],
            request.instructions,
            [tool for tool in self.tools if any(tool.spec is spec for spec in request.tools)],
            self.model.inner,
            self._state(),
            runtime_in(self.ctx, self.agent),
            request.settings.tool_choice,
        )
        hooks = self.model.hooks["wrap_model_call"]
        given = [*self.looked, *_snapshot(self.state.made)] if hooks else None

        async def inner(asked: ModelRequest) -> ModelResponse:
            if not isinstance(asked, ModelRequest):
                raise UsageError(f"The handler takes the request, got {described(asked)}.")
            same = given is None or _snapshot([given_message(each) for each in asked.messages]) == given
            return await self._ask_model(request, asked, same)

        answer = await nest_hooks(hooks, inner)(shown)
        result = answer.result if isinstance(answer, ModelResponse) else answer
        if not isinstance(result, list | Message):
            raise UsageError(
                f"wrap_model_call gives what its handler gave, or an AIMessage of assentry.threads; it gave "
                f"{described(answer)}."
            )
        self.updates.append(("model", {"messages": self._add(result)}))

    async def _ask_model(self, request: Request, asked: ModelRequest, same: bool) -> ModelResponse:
        self.hook.still_goes()
        kept = self.hook.recorded_reply()
        id = numbered_id(self.id, len(self.state.made))
        id = id if id not in self.raw else f"{id}.{len(self.raw)}"  # a middleware called the handler again
        if kept is not None:
            reply = convert(kept, Response)
            self._names(asked.tools, {spec.name: spec for spec in request.tools})
        else:
            self.raw[id] = []  # reserves the id: a concurrent model call must get another
            try:
                reply = await self._streamed(asked.model, self._request(request, asked, same), id)
            except BaseException:
                del self.raw[id]
                raise
            self.hook.keep(to_builtins(reply))
        self.usage.add(reply.usage)
        self.response_id = reply.response_id
        self.raw[id] = reply.output
        return ModelResponse([ai_message(reply.output, id)])

    async def _streamed(self, model: Model, request: Request, id: str) -> Response:
        model = adapt_model(model)
        if not is_model(model):
            raise UsageError(f"The model of a request is a Model, got {described(model)}.")
        reply: Response | None = None
        observer = scope_of(self.ctx).hooks.observer
        async for event in model.stream(request) if observer is None else observer.stream(model, request):
            if isinstance(event, Response):
                reply = event
            else:
                self.deltas.put_nowait({**as_dict(event), NOTE: {"id": id}})
        if reply is None:
            raise ModelFailed(f"The model {model.name!r} ended its stream without a complete reply.")
        return reply

    def _names(self, tools: Sequence[Any], offered: dict[str, Any]) -> list[str]:
        """Return the names of the tools that a middleware offers; add those that the agent does not have."""
        names: list[str] = []
        own = {tool.name for tool in self.tools}
        for tool in tools:
            name = tool if isinstance(tool, str) else getattr(tool, "name", None)
            if name not in offered:
                if name in own or isinstance(tool, str) or not isinstance(self.agent, ThreadedAgent):
                    raise UsageError(
                        f"A middleware offers {described(tool)}, which is not offered to the model now. Leave it out."
                    )
                added = self.agent.add_tool(tool)
                name, offered[added.name] = added.name, added.spec
                self.added[added.name] = added
            names.append(name)
        return names

    def _request(self, request: Request, asked: ModelRequest, same: bool) -> Request:
        """Return the runtime's request with the changes of the middleware."""
        if same and not self.state.edited:
            heard = [*request.input, *self._accepted(self.state.made)]
        else:
            self.raw = {**items_by_message(self.runs), **self.raw}
            heard = self._accepted(asked.messages)
        offered = {spec.name: spec for spec in request.tools}
        specs = tuple(offered[name] for name in self._names(asked.tools, offered))
        more = asked.model_settings
        if isinstance(more, dict) and more.keys() <= set(ModelSettings.__struct_fields__):
            more = ModelSettings(**more)
        if not isinstance(more, ModelSettings):
            raise UsageError(f"model_settings are those of ModelSettings, got {described(more)}.")
        settings = request.settings.resolve(more)
        if asked.tool_choice != request.settings.tool_choice:
            settings = replace(settings, tool_choice=asked.tool_choice)
        return replace(
            request,
            instructions=asked.system_prompt,
            input=heard,
            tools=specs,
            settings=settings,
        )

    def _accepted(self, messages: Sequence[Message]) -> list[Item]:
        """Return messages as items for the model, without calls that have no output and the reasoning before them."""
        given = [given_message(each) for each in messages]
        said = _in_order(given, _answered_ids(given))
        return accepted_items(without_notes([item for each in said for item in self._of(each)]))

    def _of(self, said: Message) -> list[Item]:
        """Return a message as items; unchanged parts of a model message keep the original items."""
        raw = self.raw.get(said.id or "")
        own = (said.id or "").startswith(self.id)  # such an id is derived from the position, and need not be stored
        bare = replace(said, id=None) if own else said
        if raw is not None and self._is_as_recorded(said):
            return raw
        if not isinstance(said, AIMessage):
            return items_of(bare)
        was = ai_message(raw, said.id or "") if raw is not None else None
        if raw is not None and was == replace(said, name=None, usage_metadata=None, response_metadata={}):
            return raw
        ids = [call_item(call)["call_id"] for call in said.tool_calls]
        if len(set(ids)) < len(ids):
            raise InvalidInput(f"Two calls of a message have the same id, one of: {', '.join(ids)}.")
        return items_of(bare) if raw is None or was is None else _rebuilt(raw, was, said)

    def _is_as_recorded(self, said: Message) -> bool:
        """Return True if a message is a recorded one, unchanged; `wrap_model_call` may change messages in place."""
        if not self.looked:
            return said == self.state.known(said.id)
        places = [n for n, each in enumerate(self.state.heard) if each.id == said.id]
        return bool(places) and _snapshot([said])[0] == self.looked[places[0]]

    # -- the reply ---------------------------------------------------------------------------------

    def _waits(self) -> bool:
        """Return True if a call has no output."""
        answered = _answered_ids(self.state.made)
        return any(id not in answered for each in self.state.made for id in _calls(each))

    def _settled(self) -> bool:
        """Return True if the model's last message has calls and no call is without output."""
        last = next((each for each in reversed(self.state.made) if isinstance(each, AIMessage)), None)
        return bool(_calls(last)) and not self._waits()

    def _drop_calls(self) -> None:
        """Drop the calls that have no output."""
        answered = _answered_ids(self.state.made)
        for each in list(self.state.made):
            if isinstance(each, AIMessage):
                calls = [call for call in each.tool_calls if call.get("id") in answered]
                invalid = [call for call in each.invalid_tool_calls if call.get("id") in answered]
                self.state.replace(each, replace(each, tool_calls=calls, invalid_tool_calls=invalid))

    def _items(self) -> list[Item]:
        """Return the items of the reply: all new messages of hooks and of the model."""
        items = self._apart(_in_order(self.state.made, {id for each in self.state.made for id in _calls(each)}))
        calls: set[Any] = set()
        for item in map(as_function, items):
            if item.get("type") == "function_call":
                calls.add(item.get("call_id"))
            elif item.get("type") == "function_call_output" and item["call_id"] not in calls:
                raise InvalidInput(
                    f"A ToolMessage answers {described(item['call_id'])}, which is no call before it in this reply."
                )
        return items

    def _apart(self, made: Sequence[Message]) -> list[Item]:
        """Return messages as items that can be turned back into the same messages.

        A message gets a mark with its id if it would otherwise be merged into the message before, or get another id.
        """
        items: list[Item] = []
        before: list[Message] = []
        for each in made:
            said = self._of(each)
            if not said:
                continue
            joins = isinstance(each, AIMessage) and isinstance(before[-1] if before else None, AIMessage)
            if joins or each.id != numbered_id(self.id, len(before)):
                said = [{**said[0], NOTE: {"id": each.id, **(said[0].get(NOTE) or {})}}, *said[1:]]
            items += said
            before.append(each)
        return items


def _in_order(messages: Sequence[Message], answered: set[Any]) -> list[Message]:
    """Return messages in an order that providers accept: nothing stands between a call and its output.

    Messages from between the two move before the call. `answered` are the ids of the calls that have an output, or will
    get one.
    """
    out: list[Message] = []
    open_: set[Any] = set()
    place = 0
    for each in messages:
        calls = answered.intersection(_calls(each))
        if not open_:
            place = len(out)
        if not open_ or calls or isinstance(each, ToolMessage):
            out.append(each)
        else:
            out.insert(place, each)
            place += 1
        open_.update(calls)
        if isinstance(each, ToolMessage):
            open_.discard(each.tool_call_id)
    return out


def _answered_ids(messages: Sequence[Message]) -> set[Any]:
    """Return the ids of the calls that have an output among the messages."""
    return {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}


def _calls(message: Message | None) -> list[Any]:
    """Return the ids of a message's calls."""
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    return [call.get("id") for call in calls if isinstance(call, dict)]


def _ids(messages: Any) -> list[int] | None:
    return list(map(id, messages)) if isinstance(messages, list) else None


def _snapshot(messages: Sequence[Any]) -> list[Any]:
    """Return a snapshot of messages, to detect changes later, even changes in place."""
    return [(type(each), to_builtins(each, enc_hook=repr)) for each in messages]


def _rebuilt(raw: list[Item], was: AIMessage, now: AIMessage) -> list[Item]:
    """Return the model's items with the changes of a middleware: other text, and changed, removed or new calls."""
    calls = {call["id"]: call for call in now.tool_calls if call.get("id")}
    kept = {call["id"] for call in now.invalid_tool_calls}
    items: list[Item] = []
    gone: set[int] = set()
    spoken = was.content == now.content
    for number, item in enumerate(raw):
        plain = as_function(item)
        if plain.get("type") == "function_call":
            id = plain.get("call_id") or f"{now.id}.{number}"
            if id in calls:
                made = call_item(calls.pop(id))
                same_call = same(parse_object(plain["arguments"]), parse_object(made["arguments"]))
                item = item if plain is not item and same_call else {**plain, **made}
            elif id not in kept:
                gone.add(number)
        elif item.get("type", "message") == "message" and was.content != now.content:
            if spoken or not now.text:
                gone.add(number)
            else:
                item, spoken = items_of(AIMessage(now.content))[0], True
        items.append(item)
    new = items_of(AIMessage(now.content)) if not spoken and now.text else []
    more = [call for call in now.tool_calls if call.get("id") in (None, "", *calls)]
    return [*without(items, gone), *new, *map(call_item, more)]
