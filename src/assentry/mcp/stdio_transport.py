"""The transport to a server that is a child process: JSON-RPC messages as lines on its standard streams.

It differs from the SDK's in two ways. A line has a limit, so that an answer of any size costs no more memory than that.
The last lines of the error output are kept, because they are often the only reason that a dying server gives.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.abc
from mcp import types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from ..core.wording import shortened
from .sdk_words import TOO_LARGE

log = logging.getLogger("assentry.mcp")

GRACE = 2.0
"""The seconds that a server has to exit after its standard input was closed, and again after SIGTERM."""
KILLED = 30.0
"""The seconds for which a server that was killed is waited for. Only the system can delay its end then."""
FLUSH = 0.5
"""The seconds that remaining messages may take to be written before the standard input is closed."""
POLL = 0.01
EDGE = 256
"""The number of bytes that are kept of each end of a line that is too long."""
TAIL = 20
"""The number of lines of error output that are kept."""

_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,100}")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID)
_LAST = re.compile(_ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*$")
"""A message's id, where it is a member of the message itself and not of what is inside."""


class Stderr:
    """The last lines of a server's error output, and of what it wrote among its messages that was no message."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=TAIL)
        self._garbage = 0
        self._last_garbage = ""

    def add(self, line: bytes) -> None:
        """Keep a line of error output."""
        text = shortened(line.decode("utf-8", "replace").rstrip(), 400)
        if text:
            log.debug("server: %s", text)
            self._lines.append(text)

    def add_garbage(self, line: bytes) -> None:
        """Count a line of standard output that is not a message."""
        self._garbage += 1
        self._last_garbage = shortened(line.decode("utf-8", "replace").strip(), 200)

    def as_suffix(self) -> str:
        """Return the kept lines as the end of an error message; empty if there are none."""
        parts = []
        if self._garbage:
            parts.append(f" It wrote {self._garbage} lines that are not JSON-RPC, the last: {self._last_garbage}")
        if self._lines:
            parts.append(" The end of its error output:\n  " + "\n  ".join(self._lines))
        return "".join(parts)


class LineReader:
    """The lines of a stream, each at most `limit` bytes; of a longer one only the beginning and the end are kept."""

    def __init__(self, stream: anyio.abc.ByteReceiveStream, limit: int) -> None:
        self._stream, self._limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[tuple[bytes, int]]:
        """Yield each line, and its length in bytes."""
        parts: list[bytes] = []
        length = 0
        async for chunk in self._stream:
            *ended, rest = chunk.split(b"\n")
            for end in ended:
                parts.append(end)
                yield b"".join(parts), length + len(end)
                parts, length = [], 0
            parts.append(rest)
            length += len(rest)
            if length > max(self._limit, 2 * EDGE):
                line = b"".join(parts)
                parts = [line[:EDGE], line[-EDGE:]]
        if length:
            yield b"".join(parts), length


@asynccontextmanager
async def stdio_transport(params: Mapping[str, Any], limit: int, stderr: Stderr) -> AsyncIterator[Any]:
    """Start the server and yield the streams of messages from it and to it."""
    process = await anyio.open_process(
        [params["command"], *params.get("args", ())],
        env=get_default_environment() | dict(params.get("env") or {}),
        cwd=params.get("cwd"),
        start_new_session=True,
    )
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()

    async def read_messages() -> None:
        assert process.stdout is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            async with incoming:
                async for line, length in LineReader(process.stdout, limit):
                    if line.strip():
                        await incoming.send(_message(line, length, limit, stderr))

    async def read_errors() -> None:
        assert process.stderr is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            async for line, _ in LineReader(process.stderr, 10_000):
                stderr.add(line)

    async def write_messages() -> None:
        assert process.stdin is not None
        try:
            async with outgoing:
                async for each in outgoing:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(text.encode() + b"\n")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await incoming.aclose()  # nobody reads our messages: the connection is at its end
        finally:
            written.set()

    async with anyio.create_task_group() as tasks:
        for task in (read_messages, read_errors, write_messages):
            tasks.start_soon(task)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()
                write.close()
                with anyio.move_on_after(FLUSH):
                    await written.wait()
                await _stop(process)
                for stream in (incoming, outgoing):
                    stream.close()
            tasks.cancel_scope.cancel()


def _message(line: bytes, length: int, limit: int, stderr: Stderr) -> SessionMessage | Exception:
    """Return the message on a line. For one over the limit, return an error as the answer to the same request."""
    if length <= limit:
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            stderr.add_garbage(line)
            return error
    found = _FIRST.match(line) or _LAST.search(line[-EDGE:])
    stderr.add(b"(a message of %d bytes was dropped)" % length)
    if found is None:
        return ValueError(f"a message of {length} bytes")
    told = f"its answer has {length:,} bytes, and the limit is {limit:,}"
    refused = types.ErrorData(code=TOO_LARGE, message=told)
    known = types.jsonrpc_message_adapter.validate_json(b'{"jsonrpc":"2.0","result":{},"id":%s}' % found[1])
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=known.id, error=refused))  # type: ignore[union-attr]


async def _stop(process: anyio.abc.Process) -> None:
    """Close the standard input; end the process and all it has started if it does not exit by itself."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    await _close_quietly(process.stdin)
    if not await _exits(process):
        _signal(process, "SIGTERM")
        if not await _exits(process):
            _signal(process, "SIGKILL")
            await _exits(process, KILLED)
    await _close_quietly(process.stdout)
    await _close_quietly(process.stderr)
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:  # else it stays open while a descendant of the server holds a pipe
        with suppress(PermissionError):
            transport.close()


async def _close_quietly(stream: anyio.abc.AsyncResource) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.aclose()


async def _exits(process: anyio.abc.Process, seconds: float | None = None) -> bool:
    """Wait for the exit of the process and return True; False if it takes too long.

    `process.wait()` would also wait for everyone who holds a pipe of the process.
    """
    for _ in range(int((GRACE if seconds is None else seconds) / POLL)):
        if process.returncode is not None:
            return True
        await anyio.sleep(POLL)
    return process.returncode is not None


def _signal(process: anyio.abc.Process, name: str) -> None:
    """Send a signal to the server's process group; on Windows end the server alone."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, getattr(signal, name))
