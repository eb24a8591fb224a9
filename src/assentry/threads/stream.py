"""The stream of a thread's run: the model's tokens, the updates of each node, the state, and values from tools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Literal, get_args

from ..core import facts as f
from ..core.facts import AnyFact
from ..core.run import Turn
from ..core.transcript import NOTE, Item, as_function
from ..core.wording import described
from ..errors import UsageError
from ..models.delta import as_dict
from ..runtime.driver import Driver
from ..runtime.streaming import RunResultStreaming
from .message import AIMessage, AIMessageChunk, Message
from .message_items import entries_of, tool_message, turn_messages
from .model import ReplyUpdates
from .state import State, updates_in
from .threaded_agent import ThreadedAgent, shown_state
from .view import view_of

Mode = Literal["updates", "messages", "values", "custom"]
Chunk = tuple[Mode, tuple[str, ...], Any]
"""A mode, the namespace of an agent that is a tool, empty for the agent itself, and the chunk."""
Path = tuple[str, ...]
GATE = "HumanInTheLoopMiddleware.after_model"
"""The name of the node that updates about decisions come from."""


def modes_of(given: Any) -> tuple[list[Mode], bool]:
    """Return the modes of a stream, and True if each chunk is paired with its mode."""
    modes = list(given) if isinstance(given, list | tuple) else [given]
    for mode in modes:
        if mode not in get_args(Mode):
            known = ", ".join(f'"{each}"' for each in get_args(Mode))
            raise UsageError(f"stream_mode is one of {known}, or a list of them; got {described(mode)}.")
    if not modes:
        raise UsageError("stream_mode is a list without any mode; name one.")
    return modes, isinstance(given, list | tuple)


def message_chunk(data: Item) -> AIMessageChunk | None:
    """Return a delta as a part of a message, without an id; None for a delta that shows neither text nor a call.

    The first part of a call has the call's name and id.
    """
    kind, name, args, id = data.get("type"), None, data.get("delta"), None
    if kind == "response.output_text.delta":
        return AIMessageChunk(args or "")
    if kind == "response.output_item.added":
        item = as_function(data.get("item") or {})
        kind = item.get("type")
        name, args, id = item.get("name"), item.get("arguments") or "", item.get("call_id")
    if kind not in ("function_call", "response.function_call_arguments.delta"):
        return None
    part = {"name": name, "args": args, "id": id, "index": data.get("output_index"), "type": "tool_call_chunk"}
    return AIMessageChunk("", tool_call_chunks=[part])


class ThreadStream(RunResultStreaming):
    """One drive of a thread as a stream of chunks."""

    def __init__(self, driver: Driver, modes: list[Mode], gated: bool, subgraphs: bool = False) -> None:
        self._modes = modes
        self._subgraphs = subgraphs
        """True if chunks of agents that are tools are shown, too."""
        self._gated = gated
        """True if the agent has a human-in-the-loop middleware."""
        self._replies: dict[Path, str] = {}
        """The ids of the replies under way, from the first delta on: input that comes meanwhile changes no id."""
        self._spoken: set[tuple[Path, str | None]] = set()
        """The messages of replies that were streamed as deltas."""
        self._updates: dict[Path, ReplyUpdates] = {}
        """The updates of hooks for replies that are not recorded yet."""
        self._decided = False
        """True after the update about approved calls was sent."""
        self._unasked = False
        """True while the last reply has calls, and none of them was asked about or begun."""
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        super().__init__(driver)
        hooks = driver.scope.hooks
        hooks.on_event = self._event
        if "messages" not in modes and hooks.observer is None:
            hooks.on_delta = None  # nobody follows the tokens, so the model need not stream
        elif subgraphs:
            hooks.on_branch_delta = self._branch_delta

    def write(self, value: Any) -> None:
        """Send a value of the user's code to the stream; may be called from any thread."""
        if threading.get_ident() == self._thread:
            self._put("custom", value)
        else:
            self._loop.call_soon_threadsafe(self._put, "custom", value)

    @property
    def _batch(self) -> bool:
        """True if decisions are made on all calls of a turn together, between the model and the tools."""
        return self._scope.journal.run.batch

    def _put(self, mode: Mode, chunk: Any, path: Path = ()) -> None:
        if mode in self._modes:
            ns = tuple(f"tools:{call}" for call in path)
            self._queue.put_nowait((mode, ns, chunk))  # type: ignore[arg-type]

    def _put_update(self, node: str, update: State | None, path: Path) -> None:
        if update is not None and "messages" in update:
            update = {**update, "messages": self._shown(update["messages"], path)}
        self._put("updates", {node: update}, path)

    def _put_message(self, message: Message, node: str, path: Path) -> None:
        run, whole = self._scope.run_at(path), self._scope.journal.run
        thread = whole.began.thread if whole.began is not None else None
        meta = {"langgraph_node": node, "langgraph_step": run.turns, "thread_id": thread, "run_id": whole.id}
        self._put("messages", (self._shown([message], path)[0], meta), path)

    def _shown(self, messages: Sequence[Message], path: Path) -> list[Any]:
        agent = self._scope.graph.agent_at(self._scope.run_at(path).agent).agent
        return agent.show_messages(messages) if isinstance(agent, ThreadedAgent) else list(messages)

    def _event(self, event: Any) -> None:
        if isinstance(event, ReplyUpdates):
            self._updates[event.path] = event

    def _delta(self, data: Any) -> None:
        self._branch_delta((), data)

    def _branch_delta(self, path: Path, data: Any) -> None:
        data = as_dict(data)
        chunk = message_chunk(data)
        if chunk is None:
            return
        run = self._scope.run_at(path)
        reply = self._replies.setdefault(path, f"{run.id}.{len(entries_of(run)) + len(run.unheard)}")
        chunk.id = (data.get(NOTE) or {}).get("id") or reply
        self._put_message(chunk, "model", path)
        if not chunk.tool_call_chunks:
            self._spoken.add((path, chunk.id))

    def _fact(self, fact: AnyFact) -> None:
        self._forget()
        path = fact.path
        if path and not self._subgraphs:
            return  # the questions of agents that are tools are in the interrupt
        if isinstance(fact, f.Replied):
            self._on_reply(path)
        elif isinstance(fact, f.Told | f.Finished | f.HandedOff):
            self._on_end(fact.call, path)
        elif isinstance(fact, f.Approved) and fact.asked is not None and not self._decided and self._batch:
            turn = self._scope.run_at(path).calls[fact.call].turn
            made = turn_messages(turn, self._id(turn, path), outputs=False)
            self._put_update(GATE, {"messages": [each for each in made if type(each) is AIMessage][-1:]}, path)
            self._decided = True
            self._values(path)
        elif not path and self._unasked and isinstance(fact, f.Asked | f.Started):
            self._unasked = False
            if isinstance(fact, f.Started):  # the gate let every call of the turn pass
                self._put("updates", {GATE: None})

    def _on_reply(self, path: Path) -> None:
        turn = self._scope.run_at(path).entries[-1]
        assert type(turn) is Turn
        made = turn_messages(turn, self._id(turn, path))
        for message in made:
            if type(message) is AIMessage and message.content and (path, message.id) not in self._spoken:
                chunk = AIMessageChunk(message.content, id=message.id, tool_calls=message.tool_calls)
                self._put_message(chunk, "model", path)
        self._spoken = {each for each in self._spoken if each[0] != path}
        self._replies.pop(path, None)
        by_hooks = self._updates.pop(path, None)
        for node, update in by_hooks.updates if by_hooks is not None else [("model", {"messages": made})]:
            self._put_update(node, update, path)
        if self._gated and not path and not (turn.calls and self._batch):
            self._put("updates", {GATE: None})
        self._unasked = self._unasked if path else self._gated and bool(turn.calls) and self._batch
        self._values(path)

    def _on_end(self, call: str, path: Path) -> None:
        state = self._scope.run_at(path).calls[call]
        message = tool_message(state, self._id(state.turn, path)) if state.call.kind not in ("hook", "output") else None
        if message is None:
            return
        end = state.outcome
        by_person = type(end) is f.Refused or (type(end) is f.Finished and end.asked is not None)
        node = GATE if by_person and self._batch else "tools"
        self._put_message(message, node, path)
        keys = {key: each for update in updates_in(getattr(end, "update", f.NOTHING)) for key, each in update.items()}
        self._put_update(node, {**keys, "messages": [message]}, path)
        self._values(path)

    def _id(self, turn: Turn, path: Path) -> str:
        run = self._scope.run_at(path)
        number = next(n for n, entry in enumerate(entries_of(run)) if entry is turn)
        return f"{run.id}.{number}"

    def _values(self, path: Path) -> None:
        if "values" in self._modes:
            self._put("values", self.state(path), path)

    def state(self, path: Path = ()) -> dict[str, Any]:
        """Return the current state of the thread, or of an agent that is a tool."""
        run = self._scope.run_at(path)
        agent = self._scope.graph.agent_at(run.agent or self._scope.graph.root.name).agent
        return shown_state(agent, view_of([*(() if path else self._scope.journal.before), run]))
