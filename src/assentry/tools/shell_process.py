"""One process with all its children: started, read with limits, and ended.

This blocks, so it runs in a thread. It depends on no event loop, and never waits for a pipe that a stray process keeps
open. Shells and commands do not belong here.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, Any

from .shell_guard import guard
from .shell_watcher import MARK, kill_command, pidfd_of

TERM_GRACE = 1.0
"""The seconds that processes have to end by themselves after SIGTERM."""
DRAIN = 1.0
"""The seconds in which the rest of the output is read, once all known processes are dead."""
LOOK = 0.05
"""The seconds between two looks at a process, where the system cannot tell of its end."""
STILL_THERE = "\n[the process could not be killed and may still run]\n"
CHUNK = 65_536


class Stop:
    """A signal from the event loop to the thread that runs a process."""

    def __init__(self) -> None:
        self.is_set = False
        self.reader, self._writer = os.pipe()

    def set(self) -> None:
        """Stop the process."""
        if not self.is_set:
            self.is_set = True
            os.write(self._writer, b"x")

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.reader)
        os.close(self._writer)


@dataclass
class ProcessEnd:
    """The end of a process. The code is None after a timeout."""

    code: int | None
    stdout: str
    stderr: str


@dataclass
class OutputBuffer:
    """The beginning and the end of an output of any length."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        """Take more of the output."""
        self.total += len(data)
        room = self.limit - self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > self.limit // 2 + CHUNK:
            del self.tail[: len(self.tail) - self.limit // 2]

    def text(self) -> str:
        """Return the output as text. It says what was left out, and that bytes were no text."""
        left_out = self.total - self.limit
        if left_out <= 0:
            return _decode(bytes(self.head + self.tail))
        tail = bytes(self.tail[len(self.tail) - self.limit // 2 :])
        begin, end = _without_last_part(bytes(self.head)), _without_first_part(tail)
        return _decode(begin, end, f"\n[{left_out} bytes left out]\n")


def _without_first_part(data: bytes) -> bytes:
    """Return the data without the end of a UTF-8 character that was cut at its beginning."""
    start = next((n for n, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), min(3, len(data)))
    return data[start:]


def _without_last_part(data: bytes) -> bytes:
    """Return the data without the beginning of a UTF-8 character that was cut at its end."""
    for back, byte in enumerate(reversed(data[-3:]), 1):
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if needed <= back else data[:-back]
    return data


def _decode(begin: bytes, end: bytes = b"", between: str = "") -> str:
    try:
        return begin.decode() + between + end.decode()
    except UnicodeDecodeError:
        text = begin.decode(errors="replace") + between + end.decode(errors="replace")
        return f"{text}\n[some bytes are no UTF-8 text and are shown as \ufffd]\n"


class Process:
    """A program that runs in a session of its own, and dies with this process.

    `call` marks its processes, and those of all other programs of the same call. Raise `OSError` if it cannot be
    started.
    """

    def __init__(self, argv: list[str | bytes], cwd: str, env: dict[str, str], call: str) -> None:
        self.mark = f"{call}.{secrets.token_hex(8)}."
        guard.add(self.mark)  # before it starts, or a worker that is killed right then would leave it behind
        try:
            self.popen = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**env, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            guard.remove(self.mark)
            raise

    def run(self, timeout: float, limit: int, stop: Stop) -> ProcessEnd:
        """Wait until the program exits, the time is over, or it is stopped; then kill all that it has started."""
        out, err = OutputBuffer(limit), OutputBuffer(limit)
        exited = False
        try:
            with _Watch(self.popen, stop) as watch:
                guard.add(self.mark, self.popen.pid)
                watch.read(self.popen.stdout, out)
                watch.read(self.popen.stderr, err)
                exited = watch.until(time.monotonic() + timeout)
                if not exited:
                    _signal_group(self.popen, signal.SIGTERM)
                    watch.until(time.monotonic() + TERM_GRACE, stoppable=False)
                _kill(self.popen, self.mark)
                watch.drain(time.monotonic() + DRAIN)
        except BaseException:
            _kill(self.popen, self.mark)  # it could not be watched
            raise
        finally:
            guard.remove(self.mark)  # while the shell's pid is still its own
            code = self._exit_code()
        told = STILL_THERE if code is None else ""
        return ProcessEnd(code if exited else None, out.text(), err.text() + told)

    def _exit_code(self) -> int | None:
        """Return the exit code as shells have it; None if the program cannot be killed, such as one of another user."""
        try:
            code = self.popen.wait(DRAIN)
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else 128 - code


class _Watch:
    """Reads the outputs of a process, and notices its end."""

    def __init__(self, process: subprocess.Popen[bytes], stop: Stop) -> None:
        self.process, self.stop = process, stop
        self.selector = selectors.DefaultSelector()
        self.pidfd = pidfd_of(process.pid)
        self.selector.register(stop.reader, selectors.EVENT_READ)
        if self.pidfd is not None:
            self.selector.register(self.pidfd, selectors.EVENT_READ)
        self.open: set[int] = set()

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.selector.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def read(self, stream: IO[bytes] | None, kept: OutputBuffer) -> None:
        """Keep the output of one stream."""
        assert stream is not None  # it is a pipe
        os.set_blocking(stream.fileno(), False)
        self.selector.register(stream, selectors.EVENT_READ, kept)
        self.open.add(stream.fileno())

    def until(self, end: float, stoppable: bool = True) -> bool:
        """Read until the process exits, and return True; False if the time is over, or it was stopped."""
        if not stoppable:
            with contextlib.suppress(KeyError):
                self.selector.unregister(self.stop.reader)
        while not _has_exited(self.process):
            left = end - time.monotonic()
            if left <= 0 or (stoppable and self.stop.is_set):
                return False
            self._read_some(left if self.pidfd is not None else min(left, LOOK))
        return True

    def drain(self, end: float) -> None:
        """Read what is left, as long as there is time: somebody unknown may keep a pipe open."""
        for fd in (self.stop.reader, self.pidfd):
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(fd)  # type: ignore[arg-type]
        while self.open and (left := end - time.monotonic()) > 0:
            self._read_some(left)

    def _read_some(self, timeout: float) -> None:
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                continue
            try:
                data = os.read(key.fd, CHUNK)
            except BlockingIOError:
                continue
            if data:
                key.data.add(data)
            else:
                self.selector.unregister(key.fileobj)
                self.open.discard(key.fd)


def _has_exited(process: subprocess.Popen[Any]) -> bool:
    """Return True if the process is over. It stays a zombie where possible, so that its group keeps its number."""
    if process.returncode is not None:
        return True
    if hasattr(os, "waitid"):
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # the program has taken its exit code elsewhere
            return True
    return process.poll() is not None


def _signal_group(process: subprocess.Popen[Any], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # some systems say so of a group of zombies
        os.killpg(process.pid, number)


def _kill(process: subprocess.Popen[Any], mark: str) -> None:
    """Kill the process, its group, and on Linux all other processes that carry its mark."""
    kill_command(process.pid, mark)
