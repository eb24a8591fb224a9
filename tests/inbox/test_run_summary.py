"""What a run's page and the list of runs say in short: the user's words, where the run stands, what it cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assentry import Agent, Approve, Runner, Secret, function_tool
from assentry.core import facts as f
from assentry.inbox import run_summary
from assentry.inbox.identity import Identity
from assentry.inbox.permissions import JournalView
from assentry.inbox.run_summary import RunWords, cost_of, standing_of, words_of, words_of_runs
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.store.damage import damage_of
from assentry.store.record import Entry
from assentry.store.row_codec import LARGE
from assentry.testing import FakeClock, ScriptedModel, call
from assentry.testing.store_checks.draft import RunDraft, json, put_asking
from tests.inbox.support import live_store

__all__ = ["live_store"]

OLGA, VERA = Identity("olga", "operator"), Identity("vera", "viewer")


async def words(store: Store, run: str, who: Identity = VERA) -> RunWords:
    return await words_of(JournalView(who, store, await store.record(run)))


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ("  Refund\n order 7. ", "Refund order 7."),
        ([{"role": "user", "content": "Earlier."}, {"role": "assistant", "content": "Yes?"},
          {"role": "user", "content": [{"type": "input_text", "text": "Refund it."}]}], "Refund it."),
        ([{"role": "system", "content": "Be kind."}], ""),
        ([], ""),
    ],
)  # fmt: skip
async def test_a_run_is_about_the_users_newest_words_at_its_beginning(items: Any, said: str) -> None:
    store = MemoryStore()
    draft = RunDraft(store.clock)
    draft.facts[1] = f.Said(json(items))
    await draft.write(store)
    assert (await words(store, draft.id)).text == said


async def test_long_words_are_cut_and_marked_so() -> None:
    store = MemoryStore()
    draft = RunDraft(store.clock)
    draft.facts[1] = f.Said(json("word " * 200))
    await draft.write(store)
    found = await words(store, draft.id)
    assert found.is_cut and found.text.endswith("…") and len(found.text) <= run_summary.LONGEST_WORDS + 1


@function_tool(needs_approval=True)
async def send(to: str, key: Secret[str]) -> str:
    """Send a mail."""
    return to


async def test_whoever_may_not_decide_sees_no_secret_in_the_users_words_nor_in_the_reason(live_store: Store) -> None:
    async with live_store as store:
        model = ScriptedModel([call("send", {"to": "ann", "key": "my-secret-key"}), "done"])
        run = (await Runner.run(Agent("Shop", tools=[send], model=model), "Use my-secret-key.", store=store)).run_id
        await store.cancel(run, by="otto", why="It showed my-secret-key.")
        record = await store.record(run)
        for who, is_seen in ((VERA, False), (OLGA, True)):
            listed = (await words_of_runs(who, store, [record]))[run].text
            view = JournalView(who, store, record)
            standing = await standing_of(who, store, record, view)
            assert ("my-secret-key" in listed) is is_seen
            assert ("my-secret-key" in standing.ended["why"]) is is_seen
            assert standing.ended["by"] == "otto"


async def test_a_list_reads_no_more_journals_than_are_short_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for _ in range(3):
        await put_asking(store)
    runs = (await store.runs()).items
    monkeypatch.setattr(run_summary, "MOST_LISTED", runs[0].seq + runs[1].seq)
    assert list(await words_of_runs(VERA, store, runs)) == [runs[0].id, runs[1].id]


async def test_a_list_reads_the_journals_of_short_runs_at_once(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_store as store:
        for _ in range(3):
            await put_asking(store)
        runs = (await store.runs()).items
        alone = {run.id: await words(store, run.id) for run in runs}
        read = await store.histories([run.id for run in runs])

        async def histories(run_ids: Collection[str]) -> dict[str, list[Entry]]:
            return {run_id: read[run_id] for run_id in run_ids}

        async def history(run_id: str, **part: Any) -> list[Entry]:
            raise AssertionError(f"{run_id} is read alone.")

        monkeypatch.setattr(store, "histories", histories)
        monkeypatch.setattr(store, "history", history)
        assert await words_of_runs(VERA, store, runs) == alone
        assert all(each.text for each in alone.values())


async def test_a_long_run_of_a_list_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await put_asking(store)
    runs = (await store.runs()).items
    found = await words_of_runs(VERA, store, runs)
    monkeypatch.setattr(run_summary, "SHORT", runs[0].seq - 1)
    assert await words_of_runs(VERA, store, runs) == found


async def test_a_list_shows_large_words_as_the_page_of_their_run_does() -> None:
    store = MemoryStore()
    draft = RunDraft(store.clock)
    draft.facts[1] = f.Said(json("word " * LARGE))
    await draft.write(store)
    assert (await words_of_runs(VERA, store, [await store.record(draft.id)]))[draft.id] == await words(store, draft.id)


@pytest.mark.parametrize("short", [0, 25])
async def test_a_damaged_or_deleted_run_is_listed_without_its_words(
    short: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_summary, "SHORT", short)
    async with SQLiteStore(tmp_path / "runs.db") as store:
        for _ in range(2):
            await put_asking(store)
        sound, damaged = (await store.runs()).items
        deleted = replace(sound, id="r_deleted")
        with sqlite3.connect(tmp_path / "runs.db") as file:
            where = "WHERE seq = 2 AND run = (SELECT id FROM assentry_runs WHERE run = ?)"
            file.execute(f"UPDATE assentry_journal SET fact = replace(fact, 'said', 'Said') {where}", (damaged.id,))
        found = await words_of_runs(VERA, store, [sound, damaged, deleted])
        assert found[sound.id].text
        assert found[damaged.id] == found["r_deleted"] == RunWords()
        [noted] = damage_of(store).rows
        assert damaged.id in noted.said


async def test_a_run_costs_its_turns_tokens_calls_and_the_time_in_which_people_were_asked() -> None:
    @function_tool
    async def look(x: int) -> int:
        """Look."""
        return x

    @function_tool(needs_approval=True)
    async def pay(x: int) -> str:
        """Pay."""
        return "paid"

    clock = FakeClock()
    store = MemoryStore(clock=clock)
    steps = [[call("look", {"x": 1}), call("look", {"x": 2})], [call("pay", {"x": 1}), call("pay", {"x": 2})], "done"]
    agent = Agent("Shop", tools=[look, pay], model=ScriptedModel(steps))
    waiting = await Runner.run(agent, "go", store=store)
    first, second = (await store.questions()).items
    clock.advance(60)
    await store.decide(first.id, Approve(), by="ann", digest=first.digest)
    clock.advance(30)
    now = int(clock() * 1000)
    cost = await cost_of(store, await store.record(waiting.run_id), now)
    assert cost is not None
    assert (cost.turns, cost.usage.requests, cost.calls) == (2, 2, 2)
    assert (cost.lasted, cost.waited) == (90_000, 90_000)  # two questions at once are one wait
    await store.decide(second.id, Approve(), by="ann", digest=second.digest)
    await Runner.run(agent, await store.load(waiting.run_id), store=store)
    clock.advance(1000)
    done = await cost_of(store, await store.record(waiting.run_id), int(clock() * 1000))
    assert done is not None
    assert (done.turns, done.usage.requests, done.calls, done.lasted) == (3, 3, 4, 90_000)
    assert done.usage.total_tokens > cost.usage.total_tokens


async def test_a_run_that_is_too_long_is_not_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    [question] = await put_asking(store)
    record = await store.record(question.run)
    monkeypatch.setattr(run_summary, "MOST_FACTS", record.seq - 1)
    assert await cost_of(store, record, 0) is None


async def test_a_run_says_which_questions_are_open_and_which_stop_holds() -> None:
    store = MemoryStore()
    [question] = await put_asking(store)
    stop = await store.stop("Clerk", by="otto", why="It repeats itself.")
    record = await store.record(question.run)
    standing = await standing_of(VERA, store, record, JournalView(VERA, store, record))
    assert [id for id, _ in standing.open] == [question.id]
    assert standing.stop == stop
