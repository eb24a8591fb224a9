"""A Postgres server for as long as the benchmark runs, in a folder of its own."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "ASSENT_BENCHMARK_POSTGRES"
"""The server's address, for the drivers. Set it to use a server of your own: tables are made in it, and left."""


class NotStarted(Exception):
    """There is no server; says why."""


@contextmanager
def server() -> Iterator[None]:
    """Start a server and name it in the environment; raises NotStarted."""
    if VARIABLE in os.environ:
        yield
        return
    programs = _programs()
    if programs is None:
        raise NotStarted(f"no Postgres server is installed; install one, or name one with {VARIABLE}")
    folder = Path(tempfile.mkdtemp(prefix="assent-pg-", dir="/tmp"))  # a socket's path must be short
    identity = _identity(folder)
    data = folder / "data"
    settings = f"-c listen_addresses= -c unix_socket_directories={folder}"
    try:
        _run([programs / "initdb", "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C"], identity)
        _run([programs / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", settings, "start"], identity)
        os.environ[VARIABLE] = f"host={folder} user=bench dbname=postgres"
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            _run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], identity)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def _run(command: Sequence[str | Path], identity: dict[str, Any]) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
    try:
        subprocess.run(command, cwd="/", env=plain, capture_output=True, text=True, check=True, **identity)
    except subprocess.CalledProcessError as error:
        raise NotStarted((error.stderr or error.stdout).strip()[-500:]) from None
