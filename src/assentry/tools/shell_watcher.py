"""The process that kills the commands of a worker that died, and the mark by which their processes are found.

The worker starts this file as a program of its own, with a pipe to it; see `shell_guard`. So it imports nothing but
the standard library, and little of that: it must start at once, and live beside each worker for next to nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

MARK = "ASSENTRY_COMMAND"
"""The variable that marks the processes of a command, wherever they go. Its value is `<call>.<command>.`"""
READY = b"ready\n"
LATE = 1.0
"""The seconds in which processes of a dead worker's commands are looked for: one may just be starting."""
PAUSE = 0.02


def pidfd_of(pid: int) -> int | None:
    """Return a descriptor that tells of the end of a process; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def marks_are_seen() -> bool:
    """Return True if this system shows the variables of processes."""
    return os.path.exists("/proc/self/environ")


def marked_processes(mark: str) -> Iterator[int]:
    """Yield the processes whose mark begins with this, as far as this user may look at them."""
    try:
        entries = os.listdir("/proc")
    except OSError:
        return
    for entry in entries:
        if entry.isdigit() and _carries(int(entry), mark):
            yield int(entry)


def _carries(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"\0{MARK}={mark}".encode() in b"\0" + file.read()
    except OSError:
        return False  # of another user, or over


def kill_command(pid: int, mark: str) -> None:
    """Kill the group of a command's shell, if it is known, and on Linux all other processes with the mark."""
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # some systems say so of a group of zombies
            os.killpg(pid, signal.SIGKILL)
    for _ in range(10):  # a process may have forked while others were looked for
        if not sum(_kill_marked(each, mark) for each in marked_processes(mark)):
            return


def _kill_marked(pid: int, mark: str) -> bool:
    """Kill a process that carries the mark. The descriptor makes sure that it is the one that was looked at."""
    fd = pidfd_of(pid)
    if fd is None:
        return False
    try:
        if not _carries(pid, mark):
            return False
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def watch(worker: int) -> dict[str, int]:
    """Wait for the worker's end, and return the commands that then run: their marks, and the pids of their shells."""
    running: dict[str, int] = {}
    ended, rest = pidfd_of(worker), b""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if ended is not None:  # the pipe alone may be held open by a process that the worker has forked
        poll.register(ended, select.POLLIN)
        if os.getppid() != worker:
            return running  # it has ended already, and this is another process
    os.write(1, READY)
    os.close(1)
    while True:
        if 0 not in {fd for fd, _ in poll.poll()}:
            break  # the worker has ended, and all that it wrote was read
        data = os.read(0, 65_536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            pid, mark = line.decode().split()
            if pid == "-":
                running.pop(mark, None)
            else:
                running[mark] = int(pid)
    return running


def kill_all(running: dict[str, int]) -> None:
    """Kill the commands of a worker that has died."""
    for mark, pid in running.items():
        kill_command(pid, mark)
    end = time.monotonic() + LATE
    while running and marks_are_seen() and time.monotonic() < end:
        time.sleep(PAUSE)
        for mark in running:
            kill_command(0, mark)


if __name__ == "__main__":
    kill_all(watch(int(sys.argv[1])))
