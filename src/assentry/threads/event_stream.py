"""The events of a call, for `astream_events`: dicts in LangChain's form, for programs that do not use LangChain.

If LangChain is imported, its own stream of events is used, which also has the events of whatever of LangChain's a tool
calls; see `langchain.event_stream`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID, uuid4

from msgspec import Struct

from ..core import allowed
from ..core.wording import described
from ..errors import UnknownOption, UsageError
from ..models.model import Model
from .message import AIMessageChunk
from .observer import Kind, Start

FILTERS = tuple(f"{how}_{what}" for how in ("include", "exclude") for what in ("names", "types", "tags"))
FILTER = allowed.list_of(allowed.is_text, "a list of texts").or_none


class EventRun(Struct):
    """A run that there are events of."""

    kind: Kind
    name: str
    id: str
    parents: list[str]
    metadata: dict[str, Any]
    input: Any
    call_id: str | None = None


class EventStream:
    """The listener that makes events."""

    def __init__(self, config: Mapping[str, Any], filters: Mapping[str, Sequence[str] | None]) -> None:
        self.queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._filters = filters
        self._tags = list(config.get("tags") or ())
        self._metadata = dict(config.get("metadata") or {})
        given = config.get("run_id")
        self._root_id = str(given) if isinstance(given, UUID | str) else str(uuid4())
        self._current: ContextVar[EventRun | None] = ContextVar("assentry_event_run", default=None)
        self.root: EventRun | None = None

    async def start(self, start: Start) -> EventRun:
        """Make the event of a start."""
        parent = start.parent or self._current.get()
        above = [*parent.parents, parent.id] if parent is not None else []
        inherited = parent.metadata if parent is not None else self._metadata
        asked = {"messages": start.input} if start.kind == "chat_model" else start.input
        id = str(uuid4()) if parent is not None else self._root_id
        run = EventRun(start.kind, start.name, id, above, {**inherited, **start.metadata}, asked, start.call_id)
        if start.model is not None:
            run.metadata = {**run.metadata, "ls_model_type": "chat", "ls_model_name": start.model.name}
        self.root = self.root or run
        self._send(run, "start", {"input": asked})
        return run

    async def token(self, run: EventRun, chunk: AIMessageChunk) -> None:
        """Make the event of a part of a model's reply."""
        self.chunk(run, chunk)

    def chunk(self, run: EventRun, chunk: Any) -> None:
        """Make the event of a chunk."""
        self._send(run, "stream", {"chunk": chunk})

    async def end(self, run: EventRun, output: Any) -> None:
        """Make the event of an end."""
        self._send(run, "end", {"output": output} if run is self.root else {"output": output, "input": run.input})

    async def fail(self, run: EventRun, error: BaseException) -> None:
        """Make the event of a tool's error; the others have none."""
        if run.kind == "tool":
            self._send(run, "error", {"error": error, "input": run.input, "tool_call_id": run.call_id})

    @contextmanager
    def inside(self, run: EventRun) -> Iterator[None]:
        """Make a run the parent of the next ones."""
        before = self._current.set(run)
        try:
            yield
        finally:
            self._current.reset(before)

    def hears(self, model: Model) -> bool:
        """Return False: no model tells of itself."""
        return False

    def _send(self, run: EventRun, what: str, data: dict[str, Any]) -> None:
        if self._is_wanted(run):
            self.queue.put_nowait(
                {
                    "event": f"on_{run.kind}_{what}",
                    "data": data,
                    "name": run.name,
                    "tags": list(self._tags),
                    "run_id": run.id,
                    "metadata": dict(run.metadata),
                    "parent_ids": list(run.parents),
                }
            )

    def _is_wanted(self, run: EventRun) -> bool:
        """Return True if the run is included by any filter, or there is none, and excluded by none."""
        has: dict[str, list[str]] = {"names": [run.name], "types": [run.kind], "tags": self._tags}

        def matches(key: str) -> bool:
            return bool(set(self._filters[key] or ()) & set(has[key.partition("_")[2]]))

        included = [key for key, given in self._filters.items() if given is not None and key.startswith("include")]
        excluded = [key for key in self._filters if key.startswith("exclude")]
        return (not included or any(map(matches, included))) and not any(map(matches, excluded))


async def call_events(
    config: Mapping[str, Any],
    filters: Mapping[str, Any],
    stream: Callable[[EventStream], AsyncGenerator[Any, None]],
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the events of a stream of chunks, which is started with the listener that makes them."""
    listener = EventStream(config, filters)

    async def read() -> None:
        try:
            async with aclosing(stream(listener)) as chunks:
                async for chunk in chunks:
                    if listener.root is not None:
                        listener.chunk(listener.root, chunk)
        finally:
            listener.queue.put_nowait(None)

    task = asyncio.create_task(read())
    try:
        while (event := await listener.queue.get()) is not None:
            yield event
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


def check_event_options(version: Any, options: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the filters among the options, or raise `UsageError`."""
    if version not in ("v1", "v2"):
        raise UsageError(f'stream_events has the versions "v1", "v2" and "v3"; got {described(version)}.')
    allowed.check_names("astream_events", options, (*known, *FILTERS), UnknownOption)
    filters = {name: options[name] for name in FILTERS if name in options}
    for name, given in filters.items():
        allowed.check_option("astream_events", name, given, FILTER, UsageError)
    return filters
