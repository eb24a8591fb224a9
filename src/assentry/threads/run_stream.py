"""The run of `stream_events(version="v3")`: one run as several sequences, each of which drives the run when it is read.

`values`, `messages`, `tool_calls`, `updates` and `custom` are projections. Whoever reads one, or asks for the output,
drives the run as far as needed; items of the others are kept until they are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from ..errors import UsageError
from .interrupts import Interrupt
from .message import AIMessageChunk
from .stream import Mode

MODES: list[Mode] = ["values", "messages", "updates", "custom"]
PROJECTIONS = ("values", "messages", "tool_calls", "updates", "custom")


def check_run_options(where: str, options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an option that a run stream has of itself, or that is not there."""
    for name in ("stream_mode", "subgraphs", "transformers"):
        if options.get(name):
            raise UsageError(f'{where}(version="v3") takes no {name}: its sequences are {", ".join(PROJECTIONS)}.')


class Pump(Protocol):
    """The interface that a projection drives its run by."""

    def pump(self) -> bool:
        """Read one part; return False at the end of the run."""

    async def apump(self) -> bool:
        """Read one part; return False at the end of the run."""


class Projection:
    """A sequence that grows while the run goes on. Iterate over it, or get its final value."""

    def __init__(self, run: Pump, final: Any = None) -> None:
        self._run = run
        self._items: list[Any] = []
        self.final = final
        """The value of the whole, once the projection is done."""
        self.done = False

    def push(self, item: Any) -> None:
        """Add an item."""
        self._items.append(item)

    def complete(self, final: Any) -> None:
        """End the projection with its final value."""
        self.final, self.done = final, True

    def __iter__(self) -> Iterator[Any]:
        read = 0
        while read < len(self._items) or (not self.done and self._run.pump()):
            while read < len(self._items):
                yield self._items[read]
                read += 1

    async def __aiter__(self) -> AsyncIterator[Any]:
        read = 0
        while read < len(self._items) or (not self.done and await self._run.apump()):
            while read < len(self._items):
                yield self._items[read]
                read += 1

    def get(self) -> Any:
        """Drive the run until the final value is there, and return it."""
        while not self.done and self._run.pump():
            pass
        return self.final

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        while not self.done and await self._run.apump():
            pass
        return self.final

    def __str__(self) -> str:
        return str(self.get())


class MessageStream:
    """One reply of the model: its text and its calls while they come, and the whole message."""

    def __init__(self, run: Pump, id: str | None, node: str | None, is_async: bool) -> None:
        self.message_id, self.node, self.namespace = id, node, list[str]()
        self.text = Projection(run, "")
        """The parts of the text."""
        self.reasoning = Projection(run, "")
        self.tool_calls = Projection(run, [])
        """The parts of the calls; the final value is the list of the calls."""
        self._whole, self._is_async = Projection(run), is_async

    @property
    def output(self) -> Any:
        """The whole message; awaited in an async run."""
        return self._whole if self._is_async else self._whole.get()

    @property
    def done(self) -> bool:
        """True once the message is whole."""
        return self._whole.done

    def take(self, chunk: Any) -> None:
        """Take a part of the message."""
        if chunk.text:
            self.text.push(chunk.text)
        for part in chunk.tool_call_chunks:
            self.tool_calls.push(part)

    def finish(self, message: Any) -> None:
        """End with the whole message."""
        self.text.complete(message.text)
        self.reasoning.complete("")
        self.tool_calls.complete(message.tool_calls)
        self._whole.complete(message)


class ToolCallStream:
    """One call of a tool that has ended."""

    completed = True

    def __init__(self, message: Any, call: Mapping[str, Any]) -> None:
        self.tool_call_id, self.tool_name, self.input = message.tool_call_id, message.name, call.get("args")
        failed = message.status == "error"
        self.output = None if failed else message
        self.error: str | None = str(message.text) if failed else None


class _RunStream:
    """The projections of a run."""

    _is_async = False

    def __init__(self) -> None:
        self.values, self.messages, self.tool_calls, self.updates, self.custom = (Projection(self) for _ in PROJECTIONS)
        self._events, self._log = Projection(self), Projection(self)
        self._open: dict[str | None, MessageStream] = {}
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._state: dict[str, Any] | None = None
        self._waiting: list[Interrupt] = []

    def pump(self) -> bool:
        """Raise `UsageError`: an async run is read with `async for` and `await`."""
        raise UsageError("A run of astream_events is read with async for and await.")

    async def apump(self) -> bool:
        """Raise `UsageError`: a run that is not async is read with `for`."""
        raise UsageError("A run of stream_events is read with for; in async code, use astream_events.")

    def _take(self, part: Mapping[str, Any]) -> None:
        kind, data, ns = part["type"], part["data"], part["ns"]
        params = {"namespace": list(ns), "timestamp": int(time.time() * 1000), "data": data}
        if kind == "values":
            params["interrupts"] = part["interrupts"]
        self._events.push({"type": "event", "method": kind, "params": params})
        if ns:
            return
        if kind == "messages":
            self._take_message(*data)
        elif kind == "custom":
            self._push("custom", data)
        elif kind == "values":
            self._state, self._waiting = data, list(part["interrupts"])
            self._push("values", data)
        else:
            self._take_update(data)

    def _push(self, name: str, item: Any) -> None:
        getattr(self, name).push(item)
        self._log.push((name, item))

    def _take_message(self, message: Any, metadata: Mapping[str, Any]) -> None:
        if message.type == "tool":
            if metadata.get("langgraph_node") != "tools":
                return  # a person has answered in its place
            self._push("tool_calls", ToolCallStream(message, self._calls.get(message.tool_call_id, {})))
            return
        if message.id not in self._open:
            made = MessageStream(self, message.id, metadata.get("langgraph_node"), self._is_async)
            self._open[message.id] = made
            self._push("messages", made)
        self._open[message.id].take(message)

    def _take_update(self, update: Mapping[str, Any]) -> None:
        self._push("updates", update)
        for node in update.values():
            for message in node.get("messages", ()) if isinstance(node, dict) else ():
                if message.type != "ai":
                    continue
                self._calls.update({call["id"]: call for call in message.tool_calls})
                if message.id not in self._open:
                    self._take_message(_as_chunk(message), {"langgraph_node": next(iter(update))})
                self._open.pop(message.id).finish(message)

    def _end(self) -> None:
        for projection in (self._events, self._log, *(getattr(self, name) for name in PROJECTIONS)):
            projection.complete(None)


def _as_chunk(message: Any) -> Any:
    """Return a message that was not streamed as a part without content; its calls come with the whole."""
    return AIMessageChunk("", id=message.id)


class GraphRunStream(_RunStream):
    """A run of `stream_events(version="v3")`. Reading any of its sequences drives it."""

    def __init__(self, parts: Iterator[Any]) -> None:
        super().__init__()
        self._parts = parts

    def pump(self) -> bool:
        """Read one part; return False at the end of the run."""
        part = next(self._parts, None)
        if part is None:
            self._end()
            return False
        self._take(part)
        return True

    @property
    def output(self) -> dict[str, Any] | None:
        """The state at the end of the run."""
        self._log.get()
        return self._state

    @property
    def interrupts(self) -> list[Interrupt]:
        """The interrupts that the run waits for at its end."""
        self._log.get()
        return self._waiting

    @property
    def interrupted(self) -> bool:
        """True if the run waits for somebody at its end."""
        return bool(self.interrupts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._events)

    def interleave(self, *names: str) -> Iterator[tuple[str, Any]]:
        """Iterate over several sequences at once, as pairs of a name and an item."""
        return (each for each in self._log if each[0] in names)

    def abort(self) -> None:
        """Stop the run; `invoke(None)` goes on with it."""
        self._parts.close()  # type: ignore[attr-defined]
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.abort()


class AsyncGraphRunStream(_RunStream):
    """A run of `astream_events(version="v3")`. Reading any of its sequences drives it; several may be read at once."""

    _is_async = True

    def __init__(self, parts: AsyncGenerator[Any, None]) -> None:
        super().__init__()
        self._parts, self._turn = parts, asyncio.Lock()

    async def apump(self) -> bool:
        """Read one part, or wait until another reader has; return False at the end of the run."""
        if self._turn.locked():
            async with self._turn:
                return not self._log.done
        async with self._turn:
            part = await anext(self._parts, None)
            if part is None:
                self._end()
                return False
            self._take(part)
            return True

    async def output(self) -> dict[str, Any] | None:
        """Drive the run to its end, and return its state."""
        await self._log
        return self._state

    async def interrupts(self) -> list[Interrupt]:
        """Drive the run to its end, and return the interrupts that it waits for."""
        await self._log
        return self._waiting

    async def interrupted(self) -> bool:
        """Drive the run to its end, and return True if it waits for somebody."""
        return bool(await self.interrupts())

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events.__aiter__()

    async def abort(self) -> None:
        """Stop the run; `invoke(None)` goes on with it."""
        await self._parts.aclose()
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type | None, error: BaseException | None, where: TracebackType | None) -> None:
        await self.abort()
