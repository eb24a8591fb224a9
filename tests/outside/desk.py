"""Parts that the tests of adapters share: a place to ask at, a person who decides there, and a record of effects."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import assentry.inbox
from assentry import Approve, Edit, Reject, Respond
from assentry.outside import Approvals, RuleFile
from assentry.store import Question, SQLiteStore
from tests.inbox.support import Tokens, served

ROOT = Path(__file__).parent.parent.parent
KINDS = ("store", "inbox")
EDITED = 'A person changed this call before it ran. What ran was: refund {"amount":20,"order":7}'
"""The words for the model about the edit that the tests make."""
MASKED = EDITED.replace("7", '"[masked]"')
"""The same, of an ask that masks the order."""
PATIENCE = 240.0
"""The seconds after which a test gives up; nothing depends on how many they are."""
RULES = """
[[rule]]
name = "small amounts"
verdict = "allow"
where = {amount = {at_most = 10}}

[[rule]]
name = "no large amounts"
verdict = "deny"
where = {amount = {at_least = 1000}}
reason = "Nobody refunds that much."
"""


class Desk:
    """A store with the person who decides in it, and the way in which programs ask: the store itself, or an inbox."""

    def __init__(self, store: SQLiteStore, approvals: Approvals) -> None:
        self.store, self.approvals = store, approvals

    async def questions(self, number: int = 1) -> list[Question]:
        """Return the open questions, once there are so many."""
        async with asyncio.timeout(PATIENCE):
            while len(found := (await self.store.questions()).items) < number:
                await self.store.watch(1.0)
        assert len(found) == number
        return list(found)

    async def decide(self, *decisions: Approve | Edit | Reject | Respond) -> list[Question]:
        """Decide on all open questions, in the order of their arguments; wait until there are as many as decisions."""
        found = sorted(await self.questions(len(decisions)), key=lambda each: str(each.arguments))
        for question, decision in zip(found, decisions, strict=True):
            await self.store.decide(question.id, decision, by="ann", digest=question.digest)
        return found

    async def runs(self) -> list[str]:
        """Return the status of every ask there was."""
        found = (await self.store.runs()).items
        return sorted([(await self.approvals.load(run.id)).status.state for run in found])


@asynccontextmanager
async def desk(kind: str, folder: Path, rules: str = RULES, **options: Any) -> AsyncIterator[Desk]:
    """Open a SQLite store in a folder, and a way to ask: itself ("store") or an inbox over HTTP in front of it."""
    read = RuleFile.parse(rules)
    async with SQLiteStore(folder / "runs.db", **options) as store:
        if kind == "store":
            yield Desk(store, Approvals(store, source="shop", rules=read))
            return
        app = assentry.inbox.app(store, Tokens())
        app.state.rules = read
        async with served(app) as address, Approvals(address, source="shop", token="shop:agent") as approvals:
            yield Desk(store, approvals)


class Effects:
    """A file with a line for each time that a body was entered, by whatever process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "effects.txt"

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def add(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")


async def start_program(program: Path, *args: object) -> asyncio.subprocess.Process:
    """Start a test program in another process."""
    path = os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]).lstrip(os.pathsep)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        *map(str, args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "OPENAI_AGENTS_DISABLE_TRACING": "1"},
    )


async def output_of(process: asyncio.subprocess.Process) -> str:
    """Wait until a program ends, and return what it printed; fail with its errors if it printed nothing."""
    async with asyncio.timeout(PATIENCE):
        out, errors = await process.communicate()
    assert out, errors.decode()
    return out.decode().strip()
