"""OpenAI's Realtime API over a WebSocket: the connection, its reader, and its failures as Assentry's errors.

The protocol belongs in `wire`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from msgspec.json import encode

from ..core import allowed
from ..core.wording import install_hint, worded
from ..errors import ModelFailed, UsageError
from ..models.failure import is_passing, status_failure, unreachable_failure, without_secrets
from ..version import __version__
from .config import RealtimeModelConfig
from .model import (
    RealtimeModel,
    RealtimeModelConnectionStatusEvent,
    RealtimeModelEvent,
    RealtimeModelListener,
    RealtimeModelSendEvent,
)
from .playback import RealtimePlaybackTracker
from .wire import Message, OpenAIRealtimeProtocol
from .wire_session import LEFT_OUT

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed

log = logging.getLogger("assentry")
quiet = logging.Logger("assentry.realtime", logging.INFO)
"""The logger of the connection. At the level DEBUG it would log the headers, and with them the key."""
quiet.parent = log

DEFAULT_MODEL = "gpt-realtime"
ADDRESS = "wss://api.openai.com/v1/realtime"
CONNECT_TIMEOUT = 10.0
LARGEST_MESSAGE = 16 * 2**20
"""The bytes of the largest message that is read."""
NORMAL = 1000
TOO_LARGE = 1009
NO_PONG = 1011


class OpenAIRealtimeWebSocketModel(RealtimeModel):
    """A model of OpenAI's Realtime API, or of a server that speaks it. Needs `pip install ".[realtime]"`.

    `RealtimeModelConfig` has the address and the key. `OPENAI_API_KEY` is sent over wss:// only; a key that is given is
    sent to any address. A setting `model_name` takes precedence over `model`.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        ping_interval: float | None = 20,
        ping_timeout: float | None = 20,
        close_timeout: float = 2,
        max_size: int | None = LARGEST_MESSAGE,
    ) -> None:
        allowed.check_option("OpenAIRealtimeWebSocketModel", "model", model, allowed.NAME)
        self.name = model
        self._ping_interval = ping_interval
        self._ping_timeout = ping_timeout
        self._close_timeout = close_timeout
        self._max_size = max_size
        self._listeners: list[RealtimeModelListener] = []
        self._connection: ClientConnection | None = None
        self._protocol = OpenAIRealtimeProtocol()
        self._reader: asyncio.Task[None] | None = None
        self._replies: set[asyncio.Task[None]] = set()
        """The tasks that send what follows from a message of the server."""
        self._sending = asyncio.Lock()
        self._connecting = False
        self._closings = 0
        """The number of calls of `close`; a connection that is made meanwhile is closed too."""

    def __repr__(self) -> str:
        return f"OpenAIRealtimeWebSocketModel({self.name!r})"

    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Send the events to this listener from now on."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Send no more events to this listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    # -- connecting and closing ------------------------------------------------------------------

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect, also again after a loss; raise `ModelFailed` if that fails, and `UsageError` for bad options."""
        if self._connecting or self._connection is not None:
            raise UsageError("This realtime model is connected already: close it first, or use one for each session.")
        self._connecting, closings = True, self._closings
        try:
            name, tracker = _check_options(options, self.name)
            key = await _key(options)
            address = options.get("url") or _address(options, name)
            self._tell(RealtimeModelConnectionStatusEvent("connecting"))
            connection = await self._open(name, address, _headers(options, key), options, key)
            if closings != self._closings:
                connection.transport.abort()
                raise ModelFailed(f"The model {name!r} was closed while it was connecting.")
        finally:
            self._connecting = False
        format = "pcm16" if options.get("call_id") is None else LEFT_OUT
        self._connection, self._protocol = connection, OpenAIRealtimeProtocol(tracker, default_format=format)
        self._sending = asyncio.Lock()
        self._tell(RealtimeModelConnectionStatusEvent("connected"))
        self._reader = asyncio.create_task(self._read(connection, self._protocol), name="assentry realtime reader")

    async def _open(
        self, name: str, address: str, headers: dict[str, str], options: RealtimeModelConfig, key: str | None
    ) -> ClientConnection:
        try:
            from websockets.asyncio.client import connect
        except ImportError as error:
            raise UsageError(
                f"Realtime models need the websockets package, which is not installed ({error}): "
                + install_hint("realtime")
            ) from error

        class Connect(connect):
            """A connection that follows no redirect: the key is for this address only."""

            def process_redirect(self, exc: Exception) -> Exception | str:
                return exc

        try:
            return await Connect(
                address,
                additional_headers=headers,
                user_agent_header=f"assentry/{__version__}",
                compression=None,  # audio in base64 hardly gets smaller
                open_timeout=options.get("connect_timeout", CONNECT_TIMEOUT),
                ping_interval=self._ping_interval,
                ping_timeout=self._ping_timeout,
                close_timeout=self._close_timeout,
                max_size=self._max_size,
                logger=quiet,
            )
        except Exception as error:
            raise _failed(name, error, [key, *headers.values()]) from error

    async def close(self) -> None:
        """Close the connection. Closing twice does no harm, and no server can delay it beyond `close_timeout`."""
        self._closings += 1
        connection, reader, self._connection, self._reader = self._connection, self._reader, None, None
        if connection is None:
            return
        try:
            async with asyncio.timeout(self._close_timeout):
                await connection.close()
        except TimeoutError:
            pass
        finally:
            connection.transport.abort()
            tasks = [each for each in (reader, *self._replies) if each is not None]
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- receiving -------------------------------------------------------------------------------

    async def _read(self, connection: ClientConnection, protocol: OpenAIRealtimeProtocol) -> None:
        """Read messages until the connection ends. After `close` they are read without being told."""
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                text = await connection.recv()
                if self._connection is connection:
                    self._receive(text, connection, protocol)
        except ConnectionClosed as closed:
            self._report_loss(connection, _describe_end(closed))
        except Exception as error:
            log.exception("Reading from the realtime model %r failed.", self.name)
            connection.transport.abort()
            self._report_loss(connection, f"Reading from the connection failed ({worded(error)}).")

    def _receive(self, text: str | bytes, connection: ClientConnection, protocol: OpenAIRealtimeProtocol) -> None:
        """Send what follows from a message of the server, and tell the listeners of it."""
        reaction = protocol.received(text)
        if reaction.messages:
            self._reply(connection, reaction.messages)
        for event in reaction.events:
            self._tell(event)

    def _report_loss(self, connection: ClientConnection, reason: str) -> None:
        if self._connection is connection:
            self._connection = self._reader = None
            self._tell(RealtimeModelConnectionStatusEvent("disconnected", reason))

    def _reply(self, connection: ClientConnection, messages: Sequence[Message]) -> None:
        """Send messages in a task of their own, so that a server which is slow to read does not stop the reader."""
        task = asyncio.create_task(self._send_messages(connection, messages), name="assentry realtime reply")
        self._replies.add(task)
        task.add_done_callback(self._end_reply)

    def _end_reply(self, task: asyncio.Task[None]) -> None:
        self._replies.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("A reply to the realtime server was not sent: the connection is lost.")

    def _tell(self, event: RealtimeModelEvent) -> None:
        for listener in tuple(self._listeners):
            try:
                listener.on_event(event)
            except Exception:
                log.exception("A listener of the realtime model %r failed on an event %r.", self.name, event.type)

    # -- sending ---------------------------------------------------------------------------------

    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Send an event; raise `ModelFailed` if there is no connection, and `UsageError` if it cannot be sent."""
        connection = self._connection
        if connection is None:
            raise ModelFailed(f"The model {self.name!r} is not connected; connect it first.")
        reaction = self._protocol.sent(event)
        for each in reaction.events:
            self._tell(each)
        await self._send_messages(connection, reaction.messages)

    async def _send_messages(self, connection: ClientConnection, messages: Sequence[Message]) -> None:
        """Send messages one after the other, after those of earlier calls."""
        from websockets.exceptions import ConnectionClosed

        texts = [encode(message) for message in messages]
        async with self._sending:
            try:
                for text in texts:
                    await connection.send(text, text=True)
            except ConnectionClosed as closed:
                raise ModelFailed(f"The model {self.name!r} was not reached. {_describe_end(closed)}") from closed
            if connection.close_code is not None:  # it ended while the last message was being written
                raise ModelFailed(f"The model {self.name!r} was not reached. The connection was lost.")


# -- options -------------------------------------------------------------------------------------


def _check_options(options: Any, name: str) -> tuple[str, RealtimePlaybackTracker | None]:
    """Return the model's name and the playback tracker, or raise `UsageError` for options that do not fit."""
    allowed.check_option("Realtime model", "options", options, DICT, UsageError)
    CONNECTION_OPTIONS.check_items("RealtimeModelConfig", options, UsageError)
    settings = options.get("initial_model_settings") or {}
    if options.get("call_id") is not None and "model_name" in settings:
        raise UsageError("A call has its model already: give RealtimeModelConfig a call_id or a model_name, not both.")
    name = settings.get("model_name", name)
    allowed.check_option("initial_model_settings", "model_name", name, allowed.NAME)
    return name, options.get("playback_tracker")


def _address(options: RealtimeModelConfig, name: str) -> str:
    """Return OpenAI's address: of a new conversation with the model, or of a call that it has already."""
    call = options.get("call_id")
    return f"{ADDRESS}?model={quote(name, safe='')}" if call is None else f"{ADDRESS}?call_id={quote(call, safe='')}"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0 and not parts.fragment
    except ValueError:  # the port is read here, and may be none
        return False


DICT = allowed.instance_of(Mapping, "a dict")
CONNECTION_OPTIONS = allowed.Options(
    api_key=allowed.ANYTHING,  # checked by `_key`, which may call it
    url=allowed.Values(
        "an address of ws:// or wss://", lambda given: isinstance(given, str) and _is_address(given)
    ).or_none,
    headers=DICT.secret.or_none,
    initial_model_settings=DICT.or_none,
    playback_tracker=allowed.instance_of(RealtimePlaybackTracker).or_none,
    connect_timeout=allowed.POSITIVE_SECONDS,
    call_id=allowed.NAME.or_none,
)


async def _key(options: RealtimeModelConfig) -> str | None:
    """Return the key to send; None if the headers stand in for it, or if another server is to be asked without one."""
    if options.get("headers") is not None:
        return None
    key: Any = options.get("api_key")
    if callable(key):
        key = key()
        key = await key if inspect.isawaitable(key) else key
        if not key:
            raise UsageError("The function api_key of a realtime model returned no key.")
    if key is not None and (not isinstance(key, str) or not key.isprintable() or not key.isascii()):
        raise UsageError(
            f"The api_key of a realtime model is text, or a function that returns it; got a {type(key).__name__}."
        )
    url = options.get("url") or ADDRESS
    if not key and url.startswith("wss:"):
        key = os.environ.get("OPENAI_API_KEY")
    if not key and options.get("url") is None:
        raise UsageError(
            "There is no key for OpenAI: set the environment variable OPENAI_API_KEY, or give one, "
            'model_config={"api_key": ...}.'
        )
    return key or None


def _headers(options: RealtimeModelConfig, key: str | None) -> dict[str, str]:
    given: Any = options.get("headers")
    if given is None:
        return {"Authorization": f"Bearer {key}"} if key else {}
    words = [each for pair in given.items() for each in pair] if isinstance(given, Mapping) else [None]
    if not all(isinstance(each, str) and each.isprintable() for each in words):
        raise UsageError("The headers of a realtime model are a dict of texts, each on one line.")
    return dict(given)


# -- failures ------------------------------------------------------------------------------------


def _failed(name: str, error: Exception, secrets: Sequence[str | None]) -> ModelFailed:
    """Return the error for a connection that was not made, without secrets in it or in its cause."""
    failure = _failure(name, error)
    for secret in secrets:
        for word in (secret or "").split():
            if len(word) >= 6 and word != "Bearer":
                without_secrets(error, failure, word)
    return failure


def _failure(name: str, error: Exception) -> ModelFailed:
    from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, ProxyError

    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        return status_failure(name, status, _error_text(error.response.body), retryable=is_passing(status))
    if isinstance(error, InvalidHandshake) and not isinstance(error, InvalidMessage | ProxyError):
        return ModelFailed(
            f"The server of the model {name!r} speaks no WebSocket at this address: {error}.", retryable=False
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return ModelFailed(f"The server of the model {name!r} cannot be trusted: {error}.", retryable=False)
    if isinstance(error, OSError | EOFError | InvalidMessage | ProxyError):
        return unreachable_failure(name, error)
    return ModelFailed(f"The model {name!r} cannot be connected ({worded(error)}).", retryable=False)


def _error_text(body: bytes | bytearray | None) -> str:
    """Return what a server says with a refusal: the message of its error, or the beginning of its text."""
    text = bytes(body or b"").decode("utf-8", "replace").strip()
    try:
        said = json.loads(text)["error"]
        text = said["message"] if isinstance(said, dict) else said
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return f"{str(text)[:300].rstrip('.')}." if text else "The server gives no reason."


def _describe_end(closed: ConnectionClosed) -> str:
    """Return how a connection ended, in words."""
    got, sent = closed.rcvd, closed.sent
    if got is not None and (sent is None or closed.rcvd_then_sent):
        why = f", {got.reason}" if got.reason else ""
        return f"The server closed the connection (code {got.code}{why})."
    if sent is not None and sent.code == NO_PONG:
        return "The server did not answer a ping in time, so the connection was given up."
    if sent is not None and sent.code == TOO_LARGE:
        return "The server sent a message that is too large, so the connection was closed (code 1009)."
    if sent is not None and sent.code != NORMAL:
        return (
            f"The server broke the rules of WebSockets, so the connection was closed (code {sent.code}, {sent.reason})."
        )
    if sent is not None:
        return "The connection was closed here."
    return "The connection was lost: the server ended it without a word (code 1006)."
