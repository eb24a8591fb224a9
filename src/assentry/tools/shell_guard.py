"""Commands that die with this process, however it dies: the worker's side of `shell_watcher`.

One watcher serves all commands of a process. It holds the read end of a pipe whose write end only this process has, so
it hears of the end of this process even if that is killed. It starts with the first command, and ends with the process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

from .shell_watcher import READY

PROGRAM = Path(__file__).with_name("shell_watcher.py")
STARTS = 60.0
"""The seconds after which a watcher that does not answer has failed."""
NEEDED = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH")
"""The variables without which some interpreters do not start. The watcher gets no others."""


class CommandGuard:
    """The running commands of this process, as its watcher knows them. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self._watcher: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def add(self, mark: str, pid: int = 0) -> None:
        """Have a command killed if this process dies. Its pid is 0 before it starts. Raise `OSError` if nobody can."""
        with self._lock:
            self._running[mark] = pid
            try:
                if not self._tell(f"{pid} {mark}\n"):
                    self._start()
            except BaseException:
                del self._running[mark]
                raise

    def remove(self, mark: str) -> None:
        """Forget a command that is over."""
        with self._lock:
            if self._running.pop(mark, None) is not None:
                self._tell(f"- {mark}\n")

    def close(self) -> None:
        """End the watcher, and with it all commands that still run."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Leave the commands to the process from which this one was forked."""
        if self._watcher is not None:
            os.close(self._pipe)
            self._watcher.returncode = 0  # it is no child of this process
        self._lock, self._running, self._watcher = threading.Lock(), {}, None

    def _tell(self, line: str) -> bool:
        """Write a line to the watcher; return False if there is none, or if it does not read."""
        if self._watcher is None:
            return False
        try:
            os.write(self._pipe, line.encode())
        except (BrokenPipeError, BlockingIOError):
            return False
        return True

    def _start(self) -> None:
        """Start a watcher in place of one that is gone, and tell it of all commands."""
        if self._watcher is not None:
            self._watcher.kill()  # one that was only stopped must not go on
        self._end()
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("there is no Python interpreter for the process that ends commands if this one is killed")
        reader, writer = os.pipe()
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(os.getpid())],
                stdin=reader,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in NEEDED if name in os.environ},
                start_new_session=True,
            )
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        self._pipe = writer
        os.set_blocking(writer, False)
        if not (_answers(self._watcher) and all(self._tell(f"{pid} {each}\n") for each, pid in self._running.items())):
            self._watcher.kill()
            self._end()
            raise OSError(f"the process that ends commands if this one is killed did not start ({sys.executable})")

    def _end(self) -> None:
        if self._watcher is not None:
            os.close(self._pipe)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._watcher.wait(STARTS)
            self._watcher = None


def _answers(watcher: subprocess.Popen[bytes]) -> bool:
    """Return True once the watcher says that it watches."""
    assert watcher.stdout is not None
    with watcher.stdout as answer:
        if not select.select([answer], [], [], STARTS)[0]:
            return False
        return os.read(answer.fileno(), len(READY)) == READY


guard = CommandGuard()
"""The commands of this process."""
atexit.register(guard.close)
if hasattr(os, "register_at_fork"):  # not on Windows, where no command runs
    os.register_at_fork(after_in_child=guard.forget)
