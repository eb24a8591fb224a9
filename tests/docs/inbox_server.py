"""A real `assentry serve` with rules, a person `ann` and a token of the role agent, for what the docs show."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from assentry.inbox.accounts import accounts_of
from assentry.store import SQLiteStore


class ServedInbox(NamedTuple):
    """The address of an inbox, and a token for it."""

    address: str
    token: str


@contextmanager
def served_inbox(folder: Path, program: str, rules: str) -> Iterator[ServedInbox]:
    """Serve the store `runs.db` of a folder, with a token for this program, until the block ends."""

    async def prepare() -> str:
        async with SQLiteStore(folder / "runs.db") as store:
            await accounts_of(store).add_user("ann", "reviewer", "correct horse battery staple")
            return await accounts_of(store).add_token(program, "agent")

    token = asyncio.run(prepare())
    (folder / "rules.toml").write_text(rules, "utf-8")
    options = ["--store", "runs.db", "--rules", "rules.toml", "--port", "0"]
    command = [sys.executable, "-m", "assentry.cli", "serve", *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHONUNBUFFERED": "1"}, **pipes) as started:
        try:
            said = (re.search(r"http://[\w.:]+", line) for line in started.stdout or ())
            address = next((found[0] for found in said if found), None)
            assert address, "the server ended without an address"
            yield ServedInbox(address, token)
        finally:
            started.send_signal(signal.SIGINT)
            started.communicate(timeout=60)
