"""What people read costs the same however long the run is: a question's page, a page of a journal, a timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from assentry import Agent, Approve, Edit, Runner, Secret, function_tool
from assentry.core import facts as f
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.store.chain import ExactJournal
from assentry.store.record import Entry, Question
from assentry.store.sql.statement import Transaction
from assentry.testing import ScriptedModel, call
from assentry.testing.store_checks.draft import asking
from tests.inbox.support import client


@function_tool
async def look(number: int) -> str:
    """Look at something."""
    return f"saw number {number}"


@function_tool(needs_approval=True)
async def pay(number: int, note: str = "") -> str:
    """Pay something."""
    return f"paid number {number}"


@function_tool
async def unlock(key: Secret[str]) -> str:
    """Open a door."""
    return f"open with {key}"


async def run_turns(store: Store, steps: list[Any], decisions: list[Any] | None = None) -> Question:
    """Let an agent take these steps, decide as often as told, and return its last question."""
    agent = Agent(name="Clerk", tools=[look, pay, unlock], model=ScriptedModel([*steps, "Done."]))
    result = await Runner.run(agent, "Go on.", store=store, max_turns=1000)
    for decision in decisions or []:
        question = await store.question(result.interruptions[0].id)
        await store.decide(question.id, decision, by="ann", digest=question.digest)
        result = await Runner.run(agent, await store.load(question.run), store=store)
    return await store.question(result.interruptions[0].id)


def looking(turns: int) -> list[Any]:
    return [[f"I look at {n}.", call("look", {"number": n})] for n in range(turns)]


@contextmanager
def counted_rows() -> Iterator[list[int]]:
    """Count the rows that are read from the database."""
    count, rows, row = [0], Transaction.rows, Transaction.row

    def noted_rows(self: Transaction, *args: Any, **values: Any) -> list[tuple[Any, ...]]:
        found = rows(self, *args, **values)
        count[0] += len(found)
        return found

    def noted_row(self: Transaction, *args: Any, **values: Any) -> tuple[Any, ...] | None:
        found = row(self, *args, **values)
        count[0] += found is not None
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "rows", noted_rows)
        patch.setattr(Transaction, "row", noted_row)
        yield count


@pytest.mark.parametrize("role", ["reviewer", "viewer"])
@pytest.mark.parametrize("asks", [False, True])
async def test_a_page_reads_no_more_rows_of_a_longer_run(tmp_path: Path, role: str, asks: bool) -> None:
    read: dict[str, list[int]] = {"question": [], "first": [], "last": []}
    for turns in (40, 160):
        async with SQLiteStore(tmp_path / f"{turns}.db") as store:
            steps = [call("pay", {"number": n}) for n in range(turns)] if asks else looking(turns)
            question = await run_turns(store, [*steps, call("pay", {"number": 7})], [Approve()] * turns * asks)
            last = (await store.record(question.run)).seq - 10
            async with client(store, "zoe", role) as web:
                for name, path in (
                    ("question", f"/questions/{question.id}"),
                    ("first", f"/api/runs/{question.run}/journal?limit=10"),
                    ("last", f"/api/runs/{question.run}/journal?limit=10&after={last}"),
                ):
                    counts = []
                    for _ in range(3):  # a read that another one holds up takes another way, which has a row more
                        with counted_rows() as count:
                            assert (await web.get(path)).status_code == 200
                        counts.append(count[0])
                    read[name].append(min(counts))
    assert read["question"][0] == read["question"][1] < 150
    assert read["first"][0] == read["first"][1] < 20
    assert read["last"][0] == read["last"][1] < 20


async def test_an_old_question_of_a_long_run_has_its_own_conversation_and_decision(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        asks = ["I pay the first one.", call("pay", {"number": 1}), call("look", {"number": 555})]
        steps = [*looking(3), asks, *looking(60), call("pay", {"number": 2})]
        await run_turns(store, steps, [Edit({"number": 41, "note": "x" * 9000})])
        [old] = (await store.questions(settled=True)).items
        async with client(store) as web:
            page = (await web.get(f"/questions/{old.id}")).text
        assert "I pay the first one." in page and "saw number 2" in page and "saw number 555" in page
        assert "saw number 30" not in page, "it came later"
        assert "What runs instead" in page and "xxxx" in page
        assert "&#34;number&#34;: 41" in re.sub(r"</?(ins|del|mark|b|i|u|span)\b[^>]*>", "", page)


async def test_a_long_conversation_says_that_there_is_more(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        question = await run_turns(store, [*looking(60), ["Now I pay.", call("pay", {"number": 2})]])
        async with client(store) as web:
            page = (await web.get(f"/questions/{question.id}")).text
        assert "Now I pay." in page and "saw number 59" in page and "saw number 1<" not in page
        assert "the newest 30 entries" in page and "Earlier entries are in the run." in page


async def test_a_timeline_names_the_tools_of_calls_that_were_proposed_long_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assentry.inbox.run_pages.ENTRIES", 3)
    monkeypatch.setattr("assentry.inbox.run_pages.EARLIER", 1)
    async with SQLiteStore(tmp_path / "a.db") as store:
        draft = asking(store.clock)
        [question] = (await draft.write(store)).asked
        for _ in range(9):
            draft.add(f.Said(Raw(b'"More."'), at=draft.now))
        draft.add(f.Refused(question.call, "ann", question.id, "No.", at=draft.now))
        await draft.write(store)
        async with client(store) as web:
            page = (await web.get(f"/runs/{question.run}")).text
        assert f"<code>{question.tool}</code> was rejected by ann" in page


async def test_an_early_secret_is_masked_on_a_late_page(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        steps = [
            call("unlock", {"key": "marlinspike"}),
            *looking(50),
            ["With marlinspike.", call("pay", {"number": 2})],
        ]
        question = await run_turns(store, steps)
        last = (await store.record(question.run)).seq - 5
        async with client(store) as web:
            paths = (f"/questions/{question.id}", f"/api/runs/{question.run}/journal?after={last}")
            for text in [(await web.get(path)).text for path in paths]:
                assert "marlinspike" not in text and "With [masked]." in text


async def test_a_wrong_digest_of_a_replaced_question_gets_the_one_that_is_open() -> None:
    store = MemoryStore()
    draft = asking(store.clock)
    [before] = (await draft.write(store)).asked
    draft.add(f.Asked(before.call, "q_" + "1" * 32, "Another.", "1" * 64, replaces=before.id, at=draft.now))
    await draft.write(store)
    path = f"/api/questions/{before.id}/decision"
    async with client(store) as web:
        answer = await web.post(path, json={"type": "approve"}, headers={"If-Match": '"wrong"'})
        page = await web.get(f"/questions/{before.id}")
    assert answer.status_code == 412 and answer.json()["replaced_by"] == "q_" + "1" * 32
    assert answer.json()["digest"] == "1" * 64
    assert f"/questions/{answer.json()['replaced_by']}" in page.text


async def test_a_wrong_digest_of_a_settled_question_says_who_settled_it() -> None:
    store = MemoryStore()
    draft = asking(store.clock)
    [question] = (await draft.write(store)).asked
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    path = f"/api/questions/{question.id}/decision"
    async with client(store, "ben") as web:
        answer = await web.post(path, json={"type": "approve"}, headers={"If-Match": '"wrong"'})
    assert answer.status_code == answer.json()["status"] == 409
    assert (answer.json()["by"], answer.json()["verdict"]) == ("ann", "approve")


class WrittenWhileReadStore(SQLiteStore):
    """A store in which a run goes on just before a part of its journal is read."""

    go_on: Any = None

    async def history(self, run_id: str, *, kinds: Any = None, **options: Any) -> list[Entry]:
        if kinds is None and self.go_on is not None:
            go_on, self.go_on = self.go_on, None
            await go_on()
        return await super().history(run_id, kinds=kinds, **options)

    async def journal(self, run_id: str) -> ExactJournal:
        if self.go_on is not None:
            go_on, self.go_on = self.go_on, None
            await go_on()
        return await super().journal(run_id)


@pytest.mark.parametrize("path", ["/api/runs/{run}/journal", "/runs/{run}", "/questions/{id}", "/api/audit"])
async def test_a_secret_that_is_written_while_a_page_is_read_is_not_on_it(tmp_path: Path, path: str) -> None:
    store, key = WrittenWhileReadStore(tmp_path / "runs.db"), "hunter2-of-the-vault"
    steps = [call("pay", {"number": 1}), call("unlock", {"key": key}), call("pay", {"number": 2})]
    agent = Agent(name="Clerk", tools=[look, pay, unlock], model=ScriptedModel(steps))
    result = await Runner.run(agent, "Go on.", store=store)
    question = await store.question(result.interruptions[0].id)

    async def go_on() -> None:
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        await Runner.run(agent, await store.load(question.run), store=store)

    store.go_on = go_on
    async with client(store, "zoe", "operator") as web:
        page = await web.get(path.format(run=question.run, id=question.id))
    assert page.status_code == 200 and store.go_on is None
    assert key in str(await store.lines(question.run)) and key not in page.text
