"""A store full of open questions, made in bulk: sound journals, their chains and their records.

A few runs are run by Assentry to their question. Their rows are then written again under other ids, with the digests
and the hashes that belong to these, in large transactions.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

from msgspec.structs import replace

from assentry import Agent, Runner, Tool, function_tool
from assentry.approval.question import action_digest
from assentry.core.codec import replay
from assentry.core.run import Run
from assentry.store.row_codec import START, Head, head_of, link, tallied
from assentry.store.sql.seal import asked_seal

from ..conversation import PROMPT, SYSTEM
from . import driver
from .assentry import Model, call, message, reply
from .bulk import Bulk

AGENTS = [f"desk {number}" for number in range(9)]
RARE = "the last desk"
"""One question in ten thousand is its."""
TOOLS = ["wire", "refund", "cancel", "order"]
BATCH = 20_000
SPACING = 20
"""Milliseconds between two questions."""


class Template:
    """One paused run of Assentry's: the run itself, and the rows that it has in each table, by column."""

    def __init__(self, database: Bulk, number: int, folded: Run) -> None:
        self.folded = folded
        [self.run] = database.read("assentry_runs", "id", number)
        self.facts = database.read("assentry_journal", "run", number)
        [self.question] = database.read("assentry_questions", "run", number)
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
    """A database, and the questions in it."""

    def __init__(self, database: Bulk, seed: int = 1) -> None:
        self.database = database
        self.count = 0
        self.runs: list[str] = []
        self.questions: list[str] = []
        self.middle = 0
        """When the question in the middle was asked."""
        self._chance = random.Random(seed)

    async def fill(self, count: int) -> None:
        """Fill the database with so many questions."""
        self.count = count
        templates = await self._templates()
        self.database.replace(_batches(self._rows(templates)))

    def spread(self, count: int) -> list[str]:
        """So many questions from all over the database."""
        return [self.questions[place * (self.count - 1) // max(1, count - 1)] for place in range(count)]

    async def _templates(self) -> dict[tuple[str, str], Template]:
        """One run for each agent and tool."""
        runs: dict[tuple[str, str], Run] = {}
        async with self.database.open_store() as store:
            for agent, tool in product((*AGENTS, RARE), TOOLS):
                result = await Runner.run(asking(agent, tool), PROMPT, store=store)
                assert result.run_id and result.interruptions
                runs[agent, tool] = replay((await store.load(result.run_id)).facts)
        return {key: Template(self.database, number, run) for number, (key, run) in enumerate(runs.items(), start=1)}

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


def _batches(rows: Iterator[tuple[Any, Any, Any]]) -> Iterator[tuple[list[Any], list[Any], list[Any]]]:
    while batch := list(islice(rows, BATCH)):
        yield [row for row, _, _ in batch], [row for _, facts, _ in batch for row in facts], [row for *_, row in batch]


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
