"""A store file full of open questions, made in bulk: sound journals, their chains and their records.

A few runs are run by Assentry to their question. Their rows are then written again under other ids, with the digests
and the hashes that belong to these, in large transactions without indexes, which are made last.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assentry import Agent, Runner, Tool, function_tool
from assentry.approval.question import action_digest
from assentry.core.codec import replay
from assentry.core.run import Run
from assentry.store import SQLiteStore
from assentry.store.row_codec import START, Head, head_of, link, tallied
from assentry.store.sql.seal import asked_seal

from ..conversation import PROMPT, SYSTEM
from . import driver
from .assentry import Model, call, message, reply

AGENTS = [f"desk {number}" for number in range(9)]
RARE = "the last desk"
"""One question in ten thousand is its."""
TOOLS = ["wire", "refund", "cancel", "order"]
BATCH = 20_000
TABLES = ("assentry_runs", "assentry_journal", "assentry_questions")
SPACING = 20
"""Milliseconds between two questions."""


class Template:
    """One paused run of Assentry's: the run itself, and the rows that it has in each table, by column."""

    def __init__(self, connection: sqlite3.Connection, number: int, folded: Run) -> None:
        self.folded = folded
        [self.run] = [dict(row) for row in connection.execute("SELECT * FROM assentry_runs WHERE id = ?", [number])]
        facts = connection.execute("SELECT * FROM assentry_journal WHERE run = ? ORDER BY seq", [number])
        self.facts = [dict(row) for row in facts]
        questions = connection.execute("SELECT * FROM assentry_questions WHERE run = ?", [number])
        [self.question] = [dict(row) for row in questions]
        self.arguments = json.loads(self.question["arguments"])
        assert self.digest(self.run["run"]) == self.question["digest"], "a digest is made in another way"

    def digest(self, run: str) -> str:
        """What its question's digest would be in a run of this id."""
        assert self.folded.began is not None
        self.folded.began = replace(self.folded.began, run=run)
        [state] = self.folded.open.values()
        asked = self.question
        return action_digest(self.folded, (), state, asked["tool"], asked["definition"], self.arguments)

    def again(self, number: int, run: str, question: str, later: int) -> tuple[Any, Any, Any]:
        """The rows of another run that is the same, so many milliseconds later."""
        digest = self.digest(run)
        old = {self.run["run"]: run, self.question["id"]: question, self.question["digest"]: digest}
        old[f'"at":{self.run["began"]}'] = f'"at":{self.run["began"] + later}'
        head, tally, rows = START, START, []
        for row in self.facts:
            text = row["fact"]
            for word, other in old.items():
                if word in text:
                    text = text.replace(word, other)
            made = {**row, "run": number, "fact": text, "at": row["at"] + later, "prev_hash": head}
            rows.append(tuple(made.values()))
            head = link(head, run, row["seq"], text.encode())
            tally = tallied(tally, head, row["seq"], made["at"])
        whole = Head(head, tally, head_of(self.run["run"], self.run["head"]).context)
        record = {**self.run, "id": number, "run": run, "head": whole.packed()}
        record |= {"began": self.run["began"] + later, "changed_at": self.run["changed_at"] + later}
        asked = {**self.question, "id": question, "run": run, "digest": digest, "at": self.question["at"] + later}
        asked |= {"asked_seal": asked_seal(asked), "run": number}
        return tuple(record.values()), rows, tuple(asked.values())


class Inbox:
    """A file, and the questions in it."""

    def __init__(self, path: Path, seed: int = 1) -> None:
        self.path = path
        self.count = 0
        self.runs: list[str] = []
        self.questions: list[str] = []
        self.middle = 0
        """When the question in the middle was asked."""
        self._chance = random.Random(seed)

    async def fill(self, count: int) -> None:
        """Make the file with so many questions."""
        self.count = count
        templates = await self._templates()
        connection = sqlite3.connect(self.path, isolation_level=None)
        for setting in ("synchronous=OFF", "cache_size=-500000", "secure_delete=OFF", "journal_size_limit=0"):
            connection.execute(f"PRAGMA {setting}").fetchall()
        named = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        indexes = connection.execute(named).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        for table in TABLES:
            connection.execute(f"DELETE FROM {table}")
        rows = self._rows(templates)
        for start in range(0, count, BATCH):
            connection.execute("BEGIN")
            _write(connection, [next(rows) for _ in range(min(BATCH, count - start))])
            connection.execute("COMMIT")
        for _, text in indexes:
            connection.execute(text)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()

    def spread(self, count: int) -> list[str]:
        """So many questions from all over the file."""
        return [self.questions[place * (self.count - 1) // max(1, count - 1)] for place in range(count)]

    async def _templates(self) -> dict[tuple[str, str], Template]:
        """One run for each agent and tool."""
        runs: dict[tuple[str, str], Run] = {}
        async with SQLiteStore(self.path) as store:
            for agent, tool in product((*AGENTS, RARE), TOOLS):
                result = await Runner.run(asking(agent, tool), PROMPT, store=store)
                assert result.run_id and result.interruptions
                runs[agent, tool] = replay((await store.load(result.run_id)).facts)
        connection = sqlite3.connect(self.path)
        connection.row_factory = sqlite3.Row
        made = {key: Template(connection, number, run) for number, (key, run) in enumerate(runs.items(), start=1)}
        connection.close()
        return made

    def _rows(self, templates: dict[tuple[str, str], Template]) -> Iterator[tuple[Any, Any, Any]]:
        last = max(template.question["at"] for template in templates.values())
        for number in range(1, self.count + 1):
            agent = RARE if number % 10_000 == 9_999 else AGENTS[number % len(AGENTS)]
            template = templates[agent, TOOLS[number // len(AGENTS) % len(TOOLS)]]
            run, question = (f"{kind}_{self._chance.randbytes(16).hex()}" for kind in ("run", "q"))
            at = last - (self.count - number) * SPACING
            self.runs.append(run)
            self.questions.append(question)
            if number == self.count // 2 + 1:
                self.middle = at
            yield template.again(number, run, question, at - template.question["at"])


def _write(connection: sqlite3.Connection, batch: list[tuple[Any, Any, Any]]) -> None:
    parts = ([row for row, _, _ in batch], [row for _, rows, _ in batch for row in rows], [row for *_, row in batch])
    for table, rows in zip(TABLES, parts, strict=True):
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def asking(agent: str, name: str) -> Agent[Any]:
    """An agent of this name whose model calls this tool, which needs approval."""

    async def pay(city: str, days: int, note: str) -> str:
        """Spend money.

        Args:
            city: the city
            days: how many days
            note: free text
        """
        return note

    tools: list[Tool] = [function_tool(pay, name_override=name, needs_approval=True)]
    script = driver.Script()
    script.respond = lambda items: reply(call(0, 0, name)) if items == 1 else reply(message("done"))
    return Agent(name=agent, instructions=SYSTEM, tools=tools, model=Model(script))
