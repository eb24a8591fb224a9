"""CPU time and memory of other processes, read from `/proc`; None where the system has none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""The units of `/proc` in a second."""


def cpu_of(pids: Iterable[int]) -> float | None:
    """The seconds of CPU time of these processes."""
    spent = [_times(pid)[:2] for pid in pids]
    return sum(map(sum, spent)) / TICKS if all(spent) else None


def resident_of(pid: int) -> int | None:
    """The resident memory of a process in bytes."""
    fields = _fields(pid)
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if fields else None


def cpu_of_server(backend: int) -> float | None:
    """The seconds of CPU time of the Postgres server that has this backend: all of its processes, the ended too."""
    parent = _parent(backend)
    if parent is None or not _name(parent).startswith("postgres"):
        return None
    children = [pid for pid in _pids() if _parent(pid) == parent]
    return (sum(_times(parent)) + sum(sum(_times(pid)[:2]) for pid in children)) / TICKS


def cpu_of_machine() -> float | None:
    """The seconds of CPU time of all processes since the system started."""
    try:
        [line] = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu ")]
    except FileNotFoundError:
        return None
    user, nice, system, _idle, _wait, interrupts, soft = map(int, line.split()[1:8])
    return (user + nice + system + interrupts + soft) / TICKS


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _fields(pid: int) -> list[str]:
    """The fields of a process after its name, which may have spaces in it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it has ended, or there is no such folder
        return []


def _times(pid: int) -> list[int]:
    """The time in the process and in the system, and both of its children that have ended."""
    return [int(field) for field in _fields(pid)[11:15]]


def _parent(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except FileNotFoundError:
        return ""
