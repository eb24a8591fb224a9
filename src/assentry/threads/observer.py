"""The observer of a thread's drive: tells a listener when models and tools start and end.

Listeners are LangChain's callbacks and the stream of events. A listener hears of a body before the last look at what
was shown, and of its end once the outcome is recorded, so that it never stands between an approval and its body.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

from ..core import facts as f
from ..core.rules import ASKED
from ..core.run import CallState
from ..core.transcript import Item, provider_id
from ..definitions.agent import Agent
from ..definitions.agent_tool import AgentTool
from ..definitions.tool import Tool
from ..models.delta import as_dict
from ..models.model import Model, ModelRequest, ModelResponse
from ..runtime.hook_dispatch import Observer
from ..runtime.scope import Scope
from ..runtime.tool_pause import Paused
from .message import AIMessage, AIMessageChunk, Message, SystemMessage, ToolMessage, tool_call
from .message_items import messages_from, tool_message
from .model import Asking
from .stream import message_chunk

log = logging.getLogger("assentry")

Path = tuple[str, ...]
Kind = Literal["chain", "chat_model", "tool"]


class Start(Struct, frozen=True):
    """The start of a run that a listener hears of: of the agent, of a node, of a model or of a tool."""

    kind: Kind
    name: str
    input: Any
    parent: Any = None
    """The listener's value for the run that this one is part of; None if it is part of the current one."""
    metadata: dict[str, Any] = {}
    model: Model | None = None
    tool: Tool | None = None
    call_id: str | None = None


class NotEntered(Exception):
    """The call did not run: the run was stopped, or a person is asked again."""


class Listener(Protocol):
    """The interface of whoever hears of an agent's runs. What it returns for a start stands for the run afterwards."""

    async def start(self, start: Start) -> Any:
        """Hear of the start of a run."""

    async def token(self, run: Any, chunk: AIMessageChunk) -> None:
        """Hear of a part of a model's reply."""

    async def end(self, run: Any, output: Any) -> None:
        """Hear of the end of a run."""

    async def fail(self, run: Any, error: BaseException) -> None:
        """Hear of a run that ended with an exception, or that waits for a person, which is `Paused`."""

    def inside(self, run: Any) -> AbstractContextManager[None]:
        """Make a run the current one."""

    def hears(self, model: Model) -> bool:
        """Return True if the model itself tells the listener of its requests."""


class OpenBody(Struct):
    """A body that a listener has heard of."""

    node: Any
    run: Any
    tool: Tool
    value: Any = None
    error: BaseException | None = None
    ended: bool = False


class CallObserver(Observer):
    """The observer of one drive, for a listener."""

    def __init__(self, scope: Scope, listener: Listener, root: Any) -> None:
        self.scope, self.listener = scope, listener
        self.inner = scope.hooks.observer
        """The maker of spans, if the run is traced."""
        self.places: dict[Path, Any] = {(): root}
        """The runs that the nodes of the agent, and of agents that are tools, are part of."""
        self.open: dict[tuple[Path, str], list[OpenBody]] = {}
        self.branches: list[tuple[Path, str]] = []
        """The calls of agents that have ended, and that the listener has not heard of."""
        began = scope.journal.run.began
        self.thread = {"thread_id": began.thread} if began is not None and began.thread is not None else {}

    @property
    def trace(self) -> dict[str, str] | None:
        """The trace of the maker of spans."""
        return None if self.inner is None else self.inner.trace

    async def drive(self, work: Coroutine[Any, Any, None]) -> None:
        """Await a drive, and then tell the listener of what it left open."""
        self.scope.journal.listen(self._fact)
        try:
            await (work if self.inner is None else self.inner.drive(work))
        finally:
            await self._tell_of_branches()
            for key in list(self.open):
                await self._tell_end(*key)

    # -- models ------------------------------------------------------------------------------------

    async def reply(
        self,
        path: Path,
        agent: Agent[Any],
        model: Model,
        request: ModelRequest,
        work: Coroutine[Any, Any, ModelResponse],
    ) -> ModelResponse:
        """Await a model call, with the code around it, as the node "model"."""
        try:
            await self._tell_of_branches()
            node = await self._start_node("model", path, {"messages": asked_messages(request)})
        except BaseException:
            work.close()
            raise
        work = work if self.inner is None else self.inner.reply(path, agent, model, request, work)
        try:
            with self.listener.inside(node):
                reply = await work
        except BaseException as error:
            await self.listener.fail(node, error)
            raise
        await self.listener.end(node, {"messages": _readable(reply.output)})
        return reply

    def stream(self, model: Model, request: ModelRequest) -> AsyncIterator[Any]:
        """Return the stream of a request, of which the listener hears."""
        if isinstance(model, Asking) or self.listener.hears(model):
            return model.stream(request)
        return self._stream(model, request)

    async def _stream(self, model: Model, request: ModelRequest) -> AsyncIterator[Any]:
        asked = [asked_messages(request)]
        start = Start("chat_model", type(model).__name__, asked, metadata=self.thread, model=model)
        run, ended = await self.listener.start(start), False
        events = model.stream(request)
        try:
            async for event in events:
                if isinstance(event, ModelResponse):
                    ended = True
                    await self.listener.end(run, reply_message(event))
                elif request.streamed and (chunk := message_chunk(as_dict(event))) is not None:
                    await self.listener.token(run, chunk)
                yield event
        except BaseException as error:
            if not ended:
                await self.listener.fail(run, error)
            raise
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    # -- tools -------------------------------------------------------------------------------------

    async def before_body(self, path: Path, state: CallState, tool: Tool, args: dict[str, Any]) -> bool:
        """Tell the listener of a body before it is entered."""
        key, id = (path, state.call.id), provider_id(state)
        args = copy.deepcopy(args)  # a listener may change what it gets
        await self._tell_of_branches()
        if key in self.open:
            await self._tell_end(*key)
        node = await self._start_node("tools", path, [tool_call(tool.name, args, id)])
        run = await self.listener.start(
            Start("tool", tool.name, args, node, self._metadata("tools"), tool=tool, call_id=id)
        )
        self.open.setdefault(key, []).append(OpenBody(node, run, tool))
        if isinstance(tool, AgentTool):
            self.places[(*path, state.call.id)] = run
        return True

    async def body(self, path: Path, state: CallState, work: Awaitable[Any]) -> Any:
        """Await a body, and note how it ended; the listener hears of that once it is recorded."""
        heard = self.open[path, state.call.id][-1]
        with self.listener.inside(heard.run):
            try:
                heard.value = await work
            except BaseException as error:
                heard.error = error
                raise
            heard.ended = True
            return heard.value

    async def enter(
        self, path: Path, state: CallState, tool: Tool, args: dict[str, Any], work: Coroutine[Any, Any, Any]
    ) -> Any:
        """Await a call until its outcome is recorded, and tell the listener of its end."""
        try:
            return await (work if self.inner is None else self.inner.enter(path, state, tool, args, work))
        finally:
            await self._tell_end(path, state.call.id)

    async def _tell_end(self, path: Path, call: str) -> None:
        state = self.scope.run_at(path).calls[call]
        for heard in self.open.pop((path, call), ()):
            message = _tool_message(heard, state)
            if heard.ended and state.phase is not ASKED:
                await self.listener.end(heard.run, message)
            else:
                error = heard.error if state.phase is not ASKED else Paused()
                await self.listener.fail(heard.run, error or NotEntered("The call did not run."))
            if state.phase is ASKED:
                await self.listener.fail(heard.node, Paused())
            else:
                await self.listener.end(heard.node, {"messages": [message]})

    def _fact(self, fact: f.AnyFact) -> None:
        if isinstance(fact, f.Finished) and (*fact.path, fact.call) in self.places:
            self.branches.append((fact.path, fact.call))

    async def _tell_of_branches(self) -> None:
        """Tell the listener of the agents that are tools and have ended."""
        while self.branches:
            path, call = self.branches.pop(0)
            for heard in self.open.get((path, call), ()):
                heard.ended = True
            await self._tell_end(path, call)

    # -- nodes -------------------------------------------------------------------------------------

    async def _start_node(self, node: str, path: Path, input: Any) -> Any:
        while path not in self.places:  # opened in an earlier drive
            path = path[:-1]
        return await self.listener.start(Start("chain", node, input, self.places[path], self._metadata(node)))

    def _metadata(self, node: str) -> dict[str, Any]:
        return {**self.thread, "langgraph_node": node, "langgraph_step": self.scope.journal.run.turns}


def asked_messages(request: ModelRequest) -> list[Message]:
    """Return the messages of a request to a model, with its instructions."""
    told: list[Message] = [SystemMessage(request.instructions)] if request.instructions else []
    return [*told, *_readable(request.input)]


def reply_message(reply: ModelResponse) -> AIMessage:
    """Return a model's reply as a message; other messages in it are those of hooks."""
    made = [each for each in _readable(reply.output) if isinstance(each, AIMessage)]
    message = made[-1] if made else AIMessage("")
    used = reply.usage
    message.usage_metadata = {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
    }
    return message


def _readable(items: Sequence[Item]) -> list[Message]:
    """Return items as messages without the ids that only their place would give; none if they cannot be read."""
    try:
        made = messages_from(items, "")
    except Exception:
        log.warning("The messages of an event could not be read; the run goes on", exc_info=True)
        return []
    for each in made:
        each.id = each.id if each.id and not each.id.startswith("-") else None
    return made


def _tool_message(heard: OpenBody, state: CallState) -> ToolMessage:
    """Return the message of a call: what the body gave, or how the call ended."""
    if isinstance(heard.value, ToolMessage):
        return heard.value
    message = tool_message(state, "") or ToolMessage("", name=heard.tool.name, tool_call_id=provider_id(state))
    message.id = None
    return message
