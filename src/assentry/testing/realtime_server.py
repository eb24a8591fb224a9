"""A local server that speaks OpenAI's Realtime API: real WebSockets on loopback, scripted replies, faults on demand.

Its model is a script, or simple rules, and its voice a tone. `ClientConnection` is one client's conversation.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from ..core.wording import install_hint
from ..errors import UsageError
from .model import ScriptedCall
from .realtime_connection import ClientConnection, ClientGone, Refusal
from .realtime_reply import ServerReply
from .realtime_rules import reply_by_rules

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

Event = dict[str, Any]
Step = str | ScriptedCall | asyncio.Event | list[Any] | Callable[[list[Event]], Any]
"""A spoken text, a call, a list of these, or a function of the conversation's items that returns one.

An `asyncio.Event` after a text or a call holds the reply there, before that item is complete, until it is set or the
reply is cancelled.
"""
Responder = Callable[[Sequence[Event], Sequence[Mapping[str, Any]]], Any]
"""A function of the conversation's items and the session's tools that returns a step."""
Transcribe = Iterable[str | None] | Callable[[bytes], str | None]
"""The transcripts of spoken messages, one after another, or a function of their audio; None for one that fails."""


class RealtimeServer:
    """A realtime server for tests and demos: `async with RealtimeServer(["Hello."]) as server:`, then `server.url`.

    It replies with one step after another, across connections; without steps, `responder` makes each reply. Text is
    spoken as a tone with its transcript, or sent as text if the session's output_modalities are ["text"]. The user's
    turns are detected by loudness. With an `api_key`, other keys are refused. Needs `pip install ".[realtime]"`.
    """

    def __init__(
        self,
        steps: Iterable[Step] | None = None,
        *,
        responder: Responder = reply_by_rules,
        transcripts: Transcribe = (),
        api_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.url = ""
        """The address, once the server runs."""
        self.received: list[list[Event]] = []
        """The client's events, a list for each connection. What is not JSON is kept as {"unreadable": ...}."""
        self.sent: list[list[Event]] = []
        """The server's events, a list for each connection."""
        self.refuse: tuple[int, str] | None = None
        """An HTTP status and a text to refuse connections with."""
        self._steps = None if steps is None else iter(tuple(steps) if isinstance(steps, Sequence) else steps)
        self._responder = responder
        self._transcripts = transcripts if callable(transcripts) else iter(transcripts)
        self._api_key = api_key
        self._where = (host, port)
        self._server: Server | None = None
        self._open: dict[ServerConnection, ClientConnection] = {}
        self._running = asyncio.Event()
        self._running.set()
        self._changed = asyncio.Condition()
        self._error: BaseException | None = None
        self._replies = 0
        self._counts: defaultdict[str, int] = defaultdict(int)

    async def __aenter__(self) -> RealtimeServer:
        try:
            from websockets.asyncio.server import serve
        except ImportError as error:
            raise UsageError(
                f"RealtimeServer needs the websockets package, which is not installed ({error}): "
                + install_hint("realtime")
            ) from error
        self._server = await serve(
            self._serve,
            *self._where,
            process_request=self._admit,
            compression=None,
            max_size=32 * 2**20,
            ping_interval=None,
            close_timeout=1,
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"ws://{host}:{port}/v1/realtime"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resume()
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        if kind is None and self._error is not None:
            raise self._error

    # -- faults ----------------------------------------------------------------------------------

    def drop(self) -> None:
        """End all connections without a word."""
        for connection in list(self._open):
            connection.transport.abort()

    def stall(self) -> None:
        """Read and send nothing, pings and closing included, and answer no new connection, until `resume`."""
        self._running.clear()
        for connection in self._open:
            connection.transport.pause_reading()

    def resume(self) -> None:
        """End a `stall`."""
        if not self._running.is_set():
            for connection in self._open:
                if not connection.transport.is_closing():
                    connection.transport.resume_reading()
        self._running.set()

    async def close_all(self, code: int = 1001, reason: str = "going away") -> None:
        """Close all connections with this code and reason."""
        for connection in list(self._open):
            await connection.close(code, reason)

    async def send_garbage(self, garbage: str | bytes) -> None:
        """Send this as it is on all connections."""
        for connection in list(self._open):
            await connection.send(garbage)

    async def repeat_last(self, n: int = 1) -> None:
        """Send the last `n` events once more, as they were, on all connections."""
        for connection, client in list(self._open.items()):
            for event in client.sent[-n:]:
                await connection.send(json.dumps(event))

    async def until(self, type: str, count: int = 1) -> Event:
        """Wait until clients have sent so many events of this type, and return the last of these."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._events_of(type)) >= count)
            return self._events_of(type)[count - 1]

    def _events_of(self, type: str) -> list[Event]:
        return [event for events in self.received for event in events if event.get("type") == type]

    # -- connections -----------------------------------------------------------------------------

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        await self._running.wait()
        status, text = self.refuse or (0, "")
        known = self._api_key is None or request.headers.get("Authorization") == f"Bearer {self._api_key}"
        if not status and not known:
            status, text = 401, "Incorrect API key provided."
        if not status:
            return None
        kind = "invalid_request_error" if status < 500 else "server_error"
        body = json.dumps({"error": {"type": kind, "code": None, "message": text, "param": None}})
        return connection.respond(HTTPStatus(status), body)

    async def _serve(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        received: list[Event] = []
        sent: list[Event] = []
        self.received.append(received)
        self.sent.append(sent)
        query = parse_qs(urlsplit(connection.request.path if connection.request else "").query)

        async def send(event: Event) -> None:
            await self._running.wait()
            sent.append(event)
            try:
                await connection.send(json.dumps(event))
            except ConnectionClosed as closed:
                raise ClientGone from closed

        model = query.get("model", ["gpt-realtime"])[0]
        client = ClientConnection(model, send, sent, self._reply_of, self._transcript_of, self._id)
        self._open[connection] = client
        try:
            await client.open()
            async for text in connection:
                await self._running.wait()
                event = _event(text)
                received.append(event if isinstance(event, dict) else {"unreadable": event})
                async with self._changed:
                    self._changed.notify_all()
                await client.take(event)
        except (ConnectionClosed, ClientGone):
            pass
        finally:
            del self._open[connection]
            await client.close()

    # -- the model -------------------------------------------------------------------------------

    def _id(self, kind: str) -> str:
        """Return a new id, such as item_3; ids are new on each connection too."""
        self._counts[kind] += 1
        return f"{kind}_{self._counts[kind]}"

    async def _reply_of(self, items: list[Event], tools: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the parts of the next reply. An exception of a function is raised when the server ends."""
        self._replies += 1
        try:
            if self._steps is None:
                step: Any = self._responder(items, tools)
            else:
                step = next(self._steps, None)
                if step is None:
                    raise Refusal(
                        "script_exhausted", f"The script has no step {self._replies}. Give it one for each reply."
                    )
                step = step(items) if callable(step) else step
            step = await step if inspect.isawaitable(step) else step
            return ServerReply.parts_of(step)
        except Exception as error:
            if not isinstance(error, Refusal):
                self._error = self._error or error
            raise

    async def _transcript_of(self, audio: bytes) -> str | None:
        transcripts = self._transcripts
        if not callable(transcripts):
            return next(transcripts, "Something was said.")
        try:
            made: Any = transcripts(audio)
            transcript: str | None = await made if inspect.isawaitable(made) else made
            return transcript
        except Exception as error:
            self._error = self._error or error
            return None


def _event(text: str | bytes) -> Any:
    """Return a client's event; the text itself if it cannot be read."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return text
