"""A real Postgres server for the tests, in a folder of its own, and places in it for stores."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest


class NotStarted(Exception):
    """There is no server; says why."""


class Server:
    """A server that can be stopped and started again."""

    def __init__(self, programs: Path, folder: Path, *, durable: bool = False) -> None:
        self._programs, self.folder, self._durable = programs, folder, durable
        self._identity = _identity(folder)
        self._data = folder / "data"
        self._names = count(1)

    def make(self) -> None:
        """Make its files."""
        user = ["-U", "assentry", "-A", "trust", "-E", "UTF8", "--locale=C"]
        self._run(["initdb", "-D", self._data, *user, "--no-sync"])

    def start(self) -> None:
        settings = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c max_connections=200"
        if not self._durable:  # the system outlives the server, and with it what was written but not yet synced
            settings += " -c fsync=off"
        self._run(["pg_ctl", "-D", self._data, "-l", self.folder / "log", "-w", "-o", settings, "start"])

    def stop(self, how: str = "immediate") -> None:
        self._run(["pg_ctl", "-D", self._data, "-m", how, "-w", "stop"])

    def restart(self) -> None:
        """As after a power cut."""
        self.stop()
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://assentry@/postgres?host={self.folder}"

    def database(self) -> str:
        """The address of tables of one's own: a schema, which is made in no time."""
        import psycopg

        name = f"test_{next(self._names)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}&options=-csearch_path%3D{name}"

    def _run(self, command: Sequence[str | Path]) -> None:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
        whole = [self._programs / command[0], *command[1:]]
        try:
            subprocess.run(whole, cwd="/", env=plain, capture_output=True, text=True, check=True, **self._identity)
        except subprocess.CalledProcessError as error:
            raise NotStarted((error.stderr or error.stdout).strip()[-500:]) from None


@contextmanager
def server(*, durable: bool = False) -> Iterator[Server]:
    """Start a server; raises NotStarted. With `durable`, a commit waits for the disk."""
    programs = _programs()
    if programs is None:
        raise NotStarted("no Postgres server is installed")
    folder = Path(tempfile.mkdtemp(prefix="assentry-pg-", dir="/tmp"))  # a socket's path must be short
    try:
        made = Server(programs, folder, durable=durable)
        made.make()
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server for all tests. Where none is installed they are skipped; in CI they fail."""
    try:
        with server() as made:
            yield made
    except NotStarted as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Postgres: {error}")


def _programs() -> Path | None:
    """Where the server's programs are: Debian keeps them off the PATH, by version."""

    def version(folder: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", str(folder))]

    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    folders += [Path(found).resolve().parent for found in [shutil.which("pg_ctl")] if found]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def _identity(folder: Path) -> dict[str, Any]:
    """Who runs the server: the server refuses to be root, so root steps down and gives the folder away."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, user.pw_uid, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise NotStarted("a Postgres server does not run as root, and there is no user postgres or nobody")
