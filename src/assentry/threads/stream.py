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
from .message import AIMessage, AIMessageChunk
from .message_items import entries_of, tool_message, turn_messages
from .view import messages_of

Mode = Literal["updates", "messages", "values", "custom"]
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


class ThreadStream(RunResultStreaming):
    """One drive of a thread as a stream of pairs: a mode and its chunk."""

    def __init__(self, driver: Driver, modes: list[Mode], gated: bool) -> None:
        self._modes = modes
        self._gated = gated
        """True if the agent has a human-in-the-loop middleware."""
        self._reply: str | None = None
        """The id of the reply under way, from its first delta on: input that comes meanwhile does not change it."""
        self._spoken: set[str] = set()
        """The ids of messages of the reply that were streamed as deltas."""
        self._decided = False
        """True after the update about approved calls was sent."""
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        super().__init__(driver)

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

    def _put(self, mode: Mode, chunk: Any) -> None:
        if mode in self._modes:
            self._queue.put_nowait((mode, chunk))  # type: ignore[arg-type]

    def _meta(self, node: str) -> dict[str, Any]:
        run = self._scope.journal.run
        thread = run.began.thread if run.began is not None else None
        return {"langgraph_node": node, "langgraph_step": run.turns, "thread_id": thread, "run_id": run.id}

    def _delta(self, data: Any) -> None:
        data = as_dict(data)
        kind = data.get("type")
        if kind == "response.output_text.delta":
            self._spoken.add(self._chunk(data, data.get("delta") or ""))
        elif kind == "response.output_item.added":
            item = as_function(data.get("item") or {})
            if item.get("type") == "function_call":
                self._call_chunk(data, item.get("name"), item.get("arguments") or "", item.get("call_id"))
        elif kind == "response.function_call_arguments.delta":
            self._call_chunk(data, None, data.get("delta"), None)

    def _call_chunk(self, data: Item, name: Any, args: Any, id: Any) -> None:
        """Send a part of a call; the first part has the call's name and id."""
        index = data.get("output_index")
        self._chunk(data, "", [{"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}])

    def _chunk(self, data: Item, text: str, calls: Sequence[dict[str, Any]] = ()) -> str:
        """Send a part of a message, and return the message's id."""
        run = self._scope.journal.run
        self._reply = self._reply or f"{run.id}.{len(entries_of(run)) + len(run.unheard)}"
        id: str = (data.get(NOTE) or {}).get("id") or self._reply
        self._put("messages", (AIMessageChunk(text, id=id, tool_call_chunks=list(calls)), self._meta("model")))
        return id

    def _fact(self, fact: AnyFact) -> None:
        self._forget()
        if fact.path:
            return  # facts of nested agents are not shown; their questions are in the interrupt
        if isinstance(fact, f.Replied):
            self._on_reply()
        elif isinstance(fact, f.Told | f.Finished | f.HandedOff):
            self._on_end(fact.call)
        elif isinstance(fact, f.Approved) and fact.asked is not None and not self._decided and self._batch:
            turn = self._scope.journal.run.calls[fact.call].turn
            made = turn_messages(turn, self._id(turn), outputs=False)
            self._put("updates", {GATE: {"messages": [each for each in made if type(each) is AIMessage][-1:]}})
            self._decided = True

    def _on_reply(self) -> None:
        turn = self._scope.journal.run.entries[-1]
        assert type(turn) is Turn
        made = turn_messages(turn, self._id(turn))
        for message in made:
            if type(message) is AIMessage and message.content and message.id not in self._spoken:
                chunk = AIMessageChunk(message.content, id=message.id, tool_calls=message.tool_calls)
                self._put("messages", (chunk, self._meta("model")))
        self._spoken.clear()
        self._reply = None
        self._put("updates", {"model": {"messages": made}})
        if self._gated and not (turn.calls and self._batch):
            self._put("updates", {GATE: None})
        self._values()

    def _on_end(self, call: str) -> None:
        state = self._scope.journal.run.calls[call]
        message = tool_message(state, self._id(state.turn)) if state.call.kind not in ("hook", "output") else None
        if message is None:
            return
        end = state.outcome
        by_person = type(end) is f.Refused or (type(end) is f.Finished and end.asked is not None)
        node = GATE if by_person and self._batch else "tools"
        self._put("messages", (message, self._meta(node)))
        self._put("updates", {node: {"messages": [message]}})
        self._values()

    def _id(self, turn: Turn) -> str:
        run = self._scope.journal.run
        number = next(n for n, entry in enumerate(entries_of(run)) if entry is turn)
        return f"{run.id}.{number}"

    def _values(self) -> None:
        if "values" in self._modes:
            self._put("values", self.state())

    def state(self) -> dict[str, Any]:
        """Return the current state of the thread."""
        return {"messages": messages_of([*self._scope.journal.before, self._scope.journal.run])}
