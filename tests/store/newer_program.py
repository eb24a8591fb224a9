"""An Assentry that is one schema version newer than the one under test, in a process of its own.

    python -m tests.store.newer_program ADDRESS open|upgrade|work FOLDER EFFECTS

It has one migration more, in a folder of its own, and nothing else is different: whatever it does, the code does.
What it came to is the last line of its output, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from assentry.store.sql import schema

if __name__ == "__main__":
    schema.VERSION += 1  # before any other module reads it

from assentry import Agent, Approve, function_tool
from assentry.engines import Worker
from assentry.errors import StoreFailed
from assentry.store import PostgresStore, SQLiteStore
from assentry.store.sql import migrating
from assentry.store.sql.store import SQLStore
from assentry.testing import ScriptedModel, call

MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "{new:04}"
down_revision = "{old:04}"


def upgrade() -> None:
    op.add_column("assentry_runs", sa.Column("newer", sa.Text))
"""


def add_migration(folder: Path) -> None:
    """Let the migrations of a folder follow ours."""
    versions = folder / "versions"
    versions.mkdir(exist_ok=True)
    (versions / "newer.py").write_text(MIGRATION.format(new=schema.VERSION, old=schema.VERSION - 1))
    ours = migrating.config

    def config() -> Any:
        made = ours()
        made.set_main_option(
            "version_locations", os.pathsep.join(map(str, (migrating.MIGRATIONS / "versions", versions)))
        )
        return made

    migrating.config = config


def shop(effects: Path, body: Any = None) -> Agent[Any]:
    """An agent that asks before it sends, and writes down what it sent; `body` is awaited while it sends."""

    @function_tool(needs_approval=True)
    async def send(to: str) -> str:
        """Send a mail."""
        with effects.open("a") as file:
            file.write(f"{to}\n")
        if body is not None:
            await body()
        return f"sent to {to}"

    def think(request: Any) -> Any:
        done = any(item.get("type") == "function_call_output" for item in request.input)
        return "done" if done else call("send", {"to": "ann"})

    return Agent("Shop", tools=[send], model=ScriptedModel(think for _ in range(1000)))


def later() -> float:
    """The time an hour from now, when every lease has expired."""
    return time.time() + 3600


async def work(store: SQLStore, effects: Path) -> Any:
    """Approve what waits for approval, drive everything, and say what there is then."""
    for question in (await store.questions(kind="approval")).items:
        await store.decide(question.id, Approve(), by="bob", digest=question.digest)
    await Worker(store, shop(effects)).run_until_idle()
    runs = (await store.runs()).items
    return {
        "runs": sorted(run.status for run in runs),
        "questions": [question.kind for question in (await store.questions()).items],
        "damaged": [await store.verify(run.id) for run in runs if await store.verify(run.id)] + await store.strays(),
    }


async def main(address: str, what: str, folder: str, effects: str) -> Any:
    add_migration(Path(folder))
    postgres = address.startswith("postgresql")
    async with PostgresStore(address, clock=later) if postgres else SQLiteStore(address, clock=later) as store:
        try:
            if what == "upgrade":
                await store.upgrade()
            return await work(store, Path(effects)) if what == "work" else len((await store.runs()).items)
        except StoreFailed as error:
            return str(error)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
