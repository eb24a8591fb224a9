"""A model with middleware around it: hooks run before and after each model call, and their result is the reply.

Everything that a hook adds or changes is therefore in the journal, and calls from a hook are judged like the model's
own calls. A hook that asks a person stores the model's replies so far with the question; see `runtime.tool_pause.Hook`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from ..core import facts as f
from ..core.digest import parse_object, same
from ..core.transcript import NOTE, Item, as_function, without, without_notes
from ..core.wording import described, holds
from ..definitions.context import THREAD_CONFIG, RunContextWrapper
from ..definitions.tool import Tool
from ..errors import InvalidInput, ModelFailed, UsageError
from ..models.delta import as_dict
from ..models.model import Model, ModelSettings
from ..models.model import ModelRequest as Request
from ..models.model import ModelResponse as Response
from ..models.named import adapt_model, is_model
from ..runtime.layer import LayerReply, ModelLayer
from ..runtime.scope import scope_of
from ..runtime.session_sync import accepted_items
from ..runtime.tool_pause import Hook
from .foreign import is_langchain_message
from .langgraph_context import langgraph_context
from .message import AIMessage, Message, SystemMessage
from .message_items import (
    ai_message,
    as_list,
    call_item,
    entries_of,
    given_message,
    items_of,
    noted_items,
    noted_reply,
    numbered_id,
)
from .message_order import answered_ids, answered_messages, call_ids_of, messages_in_order
from .middleware import JUMPS, AgentMiddleware, call_around, call_hook, hooks_of, nodes_of
from .middleware_context import runtime_in
from .model_request import ModelRequest, ModelResponse, read_model_result
from .reply_state import ReplyState
from .state import EMPTY, State
from .threaded_agent import ThreadedAgent
from .view import is_forked_inside, items_by_message, view_of

REPEATS = 25
"""The limit of model calls within one reply, for hooks that jump back to the model."""


class ReplyUpdates(Struct, frozen=True):
    """The updates of the nodes of one reply."""

    path: tuple[str, ...]
    updates: list[tuple[str, State | None]]


class HookedModel(ModelLayer):
    """An agent's model, with middleware around it."""

    def __init__(
        self, model: Model, middleware: Sequence[AgentMiddleware], shown: Any = None, response_format: Any = None
    ) -> None:
        self.inner = model
        self.response_format = response_format
        self.shown = model if shown is None else shown
        """The model as it was given, which requests show."""
        names = ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call")
        self.hooks = {name: hooks_of(middleware, name) for name in names}
        self.nodes = {name: nodes_of(middleware, name) for name in names}
        """The names of the hooks in updates."""
        self.repeats = not any(self.hooks.values())

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
        return {"messages": self._show(self.state.messages), **self.state.values()}

    def _show(self, messages: Sequence[Message]) -> list[Any]:
        """Return messages in the classes that the program uses."""
        return self.agent.show_messages(messages) if isinstance(self.agent, ThreadedAgent) else list(messages)

    async def _run(self, name: str) -> str | None:
        """Run the hooks of one name, and return the jump of the first hook that jumps; later hooks are not run."""
        for node, hook in zip(self.model.nodes[name], self.model.hooks[name], strict=True):
            state = self._state()
            shown, before = list(state["messages"]), _snapshot(state["messages"])
            try:
                update = await call_hook(hook, state, runtime_in(self.ctx, self.agent))
            except Exception:
                self.hook.keeps = name.startswith("after_")  # the model need not be asked again
                raise
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
        update = _read_update(name, update)
        if update is None:
            self.updates.append((node, None))
            return None
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
        state, agent = self._state(), self.agent
        told = SystemMessage(request.instructions) if request.instructions is not None else None
        if isinstance(agent, ThreadedAgent) and agent.system_message is not None:
            told = agent.system_message
        shown = ModelRequest(
            model=self.model.shown,
            messages=state["messages"],
            system_message=None if told is None else self._show([told])[0],
            tool_choice=request.settings.tool_choice,
            tools=[tool for tool in self.tools if any(tool.spec is spec for spec in request.tools)],
            response_format=self.model.response_format,
            state={**state, "messages": list(state["messages"])},
            runtime=runtime_in(self.ctx, self.agent),
        )
        hooks = self.model.hooks["wrap_model_call"]
        given = [*self.looked, *_snapshot(self.state.made)] if hooks else None
        failures: list[tuple[BaseException, ModelFailed]] = []

        async def inner(asked: ModelRequest) -> tuple[ModelResponse, list[Any]]:
            if not isinstance(asked, ModelRequest):
                raise UsageError(f"The handler takes the request, got {described(asked)}.")
            same = given is None or _snapshot([given_message(each) for each in asked.messages]) == given
            try:
                return await self._ask_model(request, asked, same), []
            except ModelFailed as error:
                if not hooks or error.__cause__ is None or not _is_chat(asked.model):
                    raise
                failures.append((error.__cause__, error))
            raise failures[-1][0]  # hooks around a chat model of LangChain see the exceptions of its provider

        nested = inner
        for hook in reversed(hooks):
            nested = functools.partial(_layered, hook, nested)
        try:
            answer, commands = await nested(shown)
        except Exception as error:
            failed = next((failed for cause, failed in failures if cause is error), None)
            if failed is None:
                raise
            raise failed from error
        self.updates.append(("model", {"messages": self._add(answer.result)}))
        for command in commands:
            if self._take_update("wrap_model_call", "model", command) is not None:
                raise UsageError("The Command of an ExtendedModelResponse has an update, and no goto or jump_to.")

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
                reply = await self._streamed(request, asked, same, id)
            finally:
                del self.raw[id]
            self.hook.keep(to_builtins(reply))
        self.usage.add(reply.usage)
        self.response_id = reply.response_id
        said = noted_reply(reply.output, id)
        self.raw[said.id or id] = reply.output
        if isinstance(self.agent, ThreadedAgent) and self.agent.names_messages:
            said.name = said.name or self.agent.name
        return ModelResponse(self._show([said]))

    async def _streamed(self, request: Request, asked: ModelRequest, same: bool, id: str) -> Response:
        """Ask the model, pass its deltas on, and return the reply."""
        model = adapt_model(asked.model)
        if not is_model(model):
            raise UsageError(f"The model of a request is a Model, got {described(model)}.")
        chat = getattr(model, "takes_messages", False)
        sent = self._chat_request(request, asked) if chat else self._request(request, asked, same)
        reply: Response | None = None
        observer = scope_of(self.ctx).hooks.observer
        async for event in model.stream(sent) if observer is None else observer.stream(model, sent):
            if isinstance(event, Response):
                reply = event
                continue
            delta = as_dict(event)
            if chat and delta.get("type") == "response.created":
                id = self._free_id(delta["response"]["id"], id)
            else:
                self.deltas.put_nowait({**delta, NOTE: {"id": id}})
        if reply is None:
            raise ModelFailed(f"The model {model.name!r} ended its stream without a complete reply.")
        return self._whole(reply, id) if chat else reply

    def _free_id(self, given: str, id: str) -> str:
        """Return the id that the model gave its message, or another one if the thread has that id already."""
        taken = given in self.raw or any(each.id == given for each in (*self.state.heard, *self.state.messages))
        return id if taken or not holds(given) else given

    def _whole(self, reply: Any, id: str) -> Response:
        """Return the reply of a chat model with a note of what its items cannot hold, such as content blocks."""
        said, made = given_message(reply.message), ai_message(reply.output, id)
        content = made.content if reply.output_given else said.content
        said = replace(said, id=id, content=content, invalid_tool_calls=made.invalid_tool_calls)
        noted = noted_items(reply.output, said)
        if id.startswith(self.id) and noted and (note := noted[0].pop(NOTE, None)):
            note = {name: value for name, value in note.items() if name != "id"}
            noted[0] = {**noted[0], NOTE: note} if note else noted[0]
        return Response(noted, reply.usage, reply.response_id)

    def _chat_request(self, request: Request, asked: ModelRequest) -> Request:
        """Return the request to a chat model of LangChain, which gets the messages as they are."""
        from ..models.langchain import ChatRequest
        from .langchain.message import as_langchain

        changed = self._settled_request(request, asked, request.input)
        said: list[Any] = [] if asked.system_message is None else [asked.system_message]
        parts = {name: getattr(changed, name) for name in changed.__struct_fields__}
        messages = [as_langchain(each) for each in (*said, *answered_messages(asked.messages))]
        return ChatRequest(**parts, messages=messages, config=THREAD_CONFIG.get())

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
        return self._settled_request(request, asked, heard)

    def _settled_request(self, request: Request, asked: ModelRequest, heard: Sequence[Item]) -> Request:
        """Return the runtime's request with this input, and with the instructions, tools and settings asked for."""
        offered = {spec.name: spec for spec in request.tools}
        specs = tuple(offered[name] for name in self._names(asked.tools, offered))
        settings = self._settings(request, asked)
        kept = asked.response_format is self.model.response_format
        if not kept and asked.response_format is not None:
            raise UsageError(
                "A middleware may leave out the response_format of a request, and not replace it: the agent's output "
                f"has one type; got {described(asked.response_format)}."
            )
        if not kept and isinstance(self.agent, ThreadedAgent):
            specs = tuple(spec for spec in specs if spec.name not in self.agent.ending)
        return replace(
            request,
            instructions=asked.system_prompt,
            input=heard,
            tools=specs,
            settings=settings,
            output=request.output if kept else None,
        )

    def _settings(self, request: Request, asked: ModelRequest) -> ModelSettings:
        """Return the settings of the agent, with those that the middleware gave."""
        more = asked.model_settings
        if isinstance(more, dict):
            known = set(ModelSettings.__struct_fields__)
            own = {name: value for name, value in more.items() if name not in known}
            if own and not _is_chat(asked.model):
                raise UsageError(f"model_settings are those of ModelSettings, got {described(more)}.")
            given = {name: value for name, value in more.items() if name in known}
            if own:
                given["extra_args"] = {**(given.get("extra_args") or {}), **own}
            more = ModelSettings(**given)
        if not isinstance(more, ModelSettings):
            raise UsageError(f"model_settings are those of ModelSettings, got {described(more)}.")
        settings = request.settings.resolve(more)
        if asked.tool_choice != request.settings.tool_choice:
            choice = "required" if asked.tool_choice == "any" else asked.tool_choice
            settings = replace(settings, tool_choice=choice)
        return settings

    def _accepted(self, messages: Sequence[Message]) -> list[Item]:
        """Return messages as items for the model, without calls that have no output and the reasoning before them."""
        given = [given_message(each) for each in messages]
        said = messages_in_order(given, answered_ids(given))
        return accepted_items(without_notes([{**item} for each in said for item in self._of(each)]))

    def _of(self, said: Message) -> list[Item]:
        """Return a message as items; unchanged parts of a model message keep the original items."""
        raw = self.raw.get(said.id or "")
        own = (said.id or "").startswith(self.id)  # such an id is derived from the position, and need not be stored
        bare = replace(said, id=None) if own else said
        if raw is not None and self._is_as_recorded(said):
            return raw
        if not isinstance(said, AIMessage):
            return items_of(bare)
        was = noted_reply(raw, said.id or "") if raw is not None else None
        if raw is not None and was is not None and _is_like(was, said):
            return raw
        ids = [call_item(call)["call_id"] for call in said.tool_calls]
        if len(set(ids)) < len(ids):
            raise InvalidInput(f"Two calls of a message have the same id, one of: {', '.join(ids)}.")
        if raw is None or was is None:
            return items_of(bare)
        return noted_items(_rebuilt(raw, was, said), replace(bare, usage_metadata=was.usage_metadata))

    def _is_as_recorded(self, said: Message) -> bool:
        """Return True if a message is a recorded one, unchanged; `wrap_model_call` may change messages in place."""
        if not self.looked:
            return said == self.state.known(said.id)
        places = [n for n, each in enumerate(self.state.heard) if each.id == said.id]
        return bool(places) and _snapshot([said])[0] == self.looked[places[0]]

    # -- the reply ---------------------------------------------------------------------------------

    def _waits(self) -> bool:
        """Return True if a call has no output."""
        answered = answered_ids(self.state.made)
        return any(id not in answered for each in self.state.made for id in call_ids_of(each))

    def _settled(self) -> bool:
        """Return True if the model's last message has calls and no call is without output."""
        last = next((each for each in reversed(self.state.made) if isinstance(each, AIMessage)), None)
        return bool(call_ids_of(last)) and not self._waits()

    def _drop_calls(self) -> None:
        """Drop the calls that have no output."""
        answered = answered_ids(self.state.made)
        for each in list(self.state.made):
            if isinstance(each, AIMessage):
                calls = [call for call in each.tool_calls if call.get("id") in answered]
                invalid = [call for call in each.invalid_tool_calls if call.get("id") in answered]
                self.state.replace(each, replace(each, tool_calls=calls, invalid_tool_calls=invalid))

    def _items(self) -> list[Item]:
        """Return the items of the reply: all new messages of hooks and of the model."""
        items = self._apart(
            messages_in_order(self.state.made, {id for each in self.state.made for id in call_ids_of(each)})
        )
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


async def _layered(hook: Callable[..., Any], inner: Any, request: Any) -> tuple[ModelResponse, list[Any]]:
    """Call a `wrap_model_call` hook, and return its response, and the commands of the hook and of those inside it."""
    commands: list[Any] = []

    async def handle(request: Any) -> ModelResponse:
        response, given = await inner(request)
        commands[:] = given  # of several calls of the handler the last one counts
        return response  # type: ignore[no-any-return]

    response, own = read_model_result(await call_around(hook, handle, request))
    return response, [*commands, *own]


def _read_update(name: str, given: Any) -> dict[str, Any] | None:
    """Return the update that a hook gave as a dict: of a `Command` its `update`, with its `goto` as the jump."""
    if given is None or isinstance(given, dict):
        return given
    if not hasattr(given, "update") or type(given).__name__ != "Command":
        raise UsageError(
            f'{name} gives None, {{"messages": [...], "jump_to": ...}}, or a Command(update=...), and gave '
            f"{described(given)}."
        )
    goto = given.goto[0] if isinstance(given.goto, list | tuple) and len(given.goto) == 1 else given.goto or None
    goto = NODES.get(goto, goto) if isinstance(goto, str) else goto
    if given.graph is not None or given.resume not in (None, ...) or goto not in (None, *JUMPS):
        raise UsageError(
            f'{name} gave a Command that does something else than update the state, or go to "end", "model" or '
            f'"tools"; got {described(given)}.'
        )
    update = dict(given.update or {})
    return update if goto is None else {**update, "jump_to": goto}


NODES = {"__end__": "end"}
"""LangGraph's names of the places to jump to, where they differ."""


def _is_chat(model: Any) -> bool:
    """Return True for a chat model of LangChain."""
    return bool(getattr(adapt_model(model), "takes_messages", False))


def _is_like(one: AIMessage, other: AIMessage) -> bool:
    """Return True if two messages are the same but for their usage, which is recorded with the reply."""
    return one == replace(other, usage_metadata=one.usage_metadata)


def _ids(messages: Any) -> list[int] | None:
    return list(map(id, messages)) if isinstance(messages, list) else None


def _snapshot(messages: Sequence[Any]) -> list[Any]:
    """Return a snapshot of messages, to detect changes later, even changes in place."""
    ours = (given_message(each) if is_langchain_message(each) else each for each in messages)
    return [(type(each), to_builtins(each, enc_hook=repr)) for each in ours]


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
