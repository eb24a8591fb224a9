"""The audit: decisions by person, tool, verdict and day, with their reasons, everywhere."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest

from assentry import Approve, Edit, Reject
from assentry.cli import main
from assentry.core import facts as f
from assentry.core.codec import replay
from assentry.inbox.decisions import COLUMNS, harmless
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.testing import FakeClock, call
from tests.inbox.office import ask, ask_refund, hire, make_app
from tests.inbox.past import DAY, START, a_week
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes, clock, each_store
from tests.inbox.support import client
from tests.store.support import Script, waiting

__all__ = ["cheap_hashes", "clock", "each_store"]

SINCE, UNTIL = int((START + DAY) * 1000), int((START + 2 * DAY) * 1000)


def table(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize(
    ("query", "verdicts"),
    [
        ("", ["approve", "edit", "respond", "reject", "reject"]),
        ("?by=ann", ["approve", "edit", "respond"]),
        ("?by=deadline", ["reject"]),
        ("?verdict=reject", ["reject", "reject"]),
        ("?tool=shred", ["reject"]),
        ("?agent=Clerk&verdict=edit&by=ann", ["edit"]),
        ("?agent=Nobody", []),
        (f"?decided_after={SINCE}&decided_before={UNTIL}", ["respond", "reject", "reject"]),
        (f"?decided_before={SINCE}&search=send", ["approve", "edit"]),
    ],
)
async def test_exports_have_the_decisions_that_fit_in_every_store(
    each_store: Store, clock: FakeClock, query: str, verdicts: list[str]
) -> None:
    async with each_store as store:
        await a_week(store, clock)
        async with client(store) as web:
            lines = [json.loads(line) for line in (await web.get(f"/api/decisions.jsonl{query}")).text.splitlines()]
            rows = table((await web.get(f"/api/decisions.csv{query}")).content)
            listed = await web.get("/api/questions", params=_settled(query))
    assert sorted(line["verdict"] for line in lines) == sorted(verdicts)
    assert [(row["question"], row["by"], row["verdict"]) for row in rows] == [
        (line["id"], line["by"], line["verdict"]) for line in lines
    ]
    assert [each["id"] for each in listed.json()["items"]] == [line["id"] for line in lines]


def _settled(query: str) -> dict[str, str]:
    return {"settled": "true", **dict(each.split("=") for each in query[1:].split("&") if each)}


async def test_an_export_says_why(each_store: Store, clock: FakeClock) -> None:
    async with each_store as store:
        await a_week(store, clock)
        async with client(store) as web:
            rows = {row["verdict"] + row["by"]: row for row in table((await web.get("/api/decisions.csv")).content)}
    assert tuple(rows["editann"]) == COLUMNS
    assert rows["editann"]["ran"] == '{"copies":1,"to":"ben"}' and rows["editann"]["arguments"] == '{"to":"ann"}'
    assert rows["editann"]["looked_seconds"] == "30.000" and rows["editann"]["waited_seconds"] == "300.000"
    assert rows["rejectben"]["note"] == "Not to him." and rows["rejectben"]["looked_seconds"] == ""
    assert rows["rejectdeadline"]["note"] == "nobody decided in time"
    assert rows["respondann"]["answer"] == '"It was sent already."'
    assert rows["approveann"]["decided"] == "2026-01-16T09:00:20.000+00:00"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
async def test_no_cell_is_a_formula_and_every_text_comes_back(start: str) -> None:
    text = f'{start}HYPERLINK("http://evil")\r\n, "quoted"; 金額'
    async with MemoryStore() as store:
        question = await ask(store, "Writer", call("write", {"text": "x"}))
        await store.decide(question.id, Reject(text), by="ann", digest=question.digest)
        async with client(store) as web:
            answer = await web.get("/api/decisions.csv")
    assert answer.content.startswith(b"\xef\xbb\xbf") and answer.headers["content-type"] == "text/csv; charset=utf-8"
    [row] = table(answer.content)
    assert row["note"] == "'" + text


def test_a_cell_that_no_spreadsheet_can_hold_says_how_long_it_was() -> None:
    assert harmless("x" * 40_000).endswith("(40,000 characters; the JSON Lines have them all)")
    assert harmless("plain - not a formula") == "plain - not a formula"


@pytest.mark.parametrize("role", ["viewer", "reviewer", "operator", "admin"])
async def test_secrets_are_masked_in_reasons_edits_and_exports_for_everybody(role: str) -> None:
    async with MemoryStore() as store:
        await hire(store)
        key = {"key": "hunter2", "where": "db"}
        first, second = [await ask(store, "Ops", call("use_key", key)) for _ in range(2)]
        await store.decide(first.id, Reject("hunter2 is not for that"), by="ben", digest=first.digest)
        edit = Edit(arguments={"key": "hunter2", "where": "hunter3"})
        await store.decide(second.id, edit, by="ben", digest=second.digest)
        async with client(store, "zoe", role) as web:
            texts = [(await web.get(path)).text for path in ("/api/decisions.csv", "/api/decisions.jsonl")]
        async with Reader(make_app(store), "ann") as ann:
            texts.append((await ann.open("/audit")).source)
            texts += [(await ann.client.get(f"/audit.{form}")).text for form in ("csv", "jsonl")]
    for text in texts:
        assert "hunter2" not in text and "hunter3" in text and first.id in text


async def test_the_page_filters_and_says_why(each_store: Store, clock: FakeClock) -> None:
    async with each_store as store:
        await hire(store)
        await a_week(store, clock)
        async with Reader(make_app(store), "vera") as vera:
            page = await vera.open("/audit")
            assert (
                "Not to him." in page.text and "It was sent already." in page.text and "What was changed" in page.text
            )
            assert "nobody, in time" in page.text and "open for 0.9 s" in page.text
            places = [page.text.index(words) for words in ("It was sent already", "Not to him", "open for 0.9 s")]
            assert places == sorted(places)  # the newest first
            for query, has, lacks in (
                ("by=ben", "Not to him.", "It was sent already"),
                ("verdict=respond", "It was sent already", "Not to him."),
                ("tool=shred&since=2026-01-17&until=2026-01-17", "Not to him.", "It was sent already"),
                ("since=2026-01-18", "No decision fits.", "Not to him."),
                ("until=2026-01-16", "open for 0.9 s", "Not to him."),
                ("q=shred", "Not to him.", "It was sent already"),
                ("by=nobody", "No decision fits.", "Not to him."),
            ):
                page = await vera.open(f"/audit?{query}")
                assert has in page.text and lacks not in page.text, query
                assert f"/audit.csv?{query}" in page.links() and f"/audit.jsonl?{query}" in page.links()
                lines = (await vera.client.get(f"/audit.jsonl?{query}")).text.splitlines()
                assert len(lines) == page.source.count("<tr><td>"), query


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("since=soon", "“soon” is no day."),
        ("until=2026-13-01", "“2026-13-01” is no day."),
        ("since=1969-12-31", "is no day"),
        ("since=2026-01-02&until=2026-01-01", "The first day comes after the last."),
        ("verdict=maybe", "There is no such decision as “maybe”."),
        ("q=" + "x" * 201, "at most 200 characters"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_said_to(query: str, words: str) -> None:
    async with MemoryStore() as store:
        await hire(store)
        async with Reader(make_app(store)) as ann:
            assert words in (await ann.open(f"/audit?{query}")).text and ann.answer.status_code == 400
            for form in ("csv", "jsonl"):
                answer = await ann.client.get(f"/audit.{form}?{query}")
                assert answer.status_code == 400 and words in answer.text
            assert (await ann.client.get("/audit.xml")).status_code == 404


async def test_pages_of_the_audit_follow_one_another_with_their_filters(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        await hire(store)
        for n in range(60):
            question = await ask(store, "Writer", call("write", {"text": f"number {n}."}))
            await store.decide(question.id, Approve(), by="ann" if n % 6 else "ben", digest=question.digest)
        async with Reader(make_app(store)) as ann:
            page = await ann.open("/audit")
            assert page.source.count("<tr><td>") == 50
            rest = await ann.open(next(link for link in page.links() if "after=" in link))
            assert rest.source.count("<tr><td>") == 10 and "number 0." in rest.text
            only = await ann.open("/audit?by=ben")
            assert only.source.count("<tr><td>") == 10 and not [link for link in only.links() if "after=" in link]


async def test_a_damaged_row_is_named_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteStore(path) as store:
        await hire(store)
        question = await ask_refund(store)
        await store.decide(question.id, Reject("no"), by="ben", digest=question.digest)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE assentry_questions SET by = 'ann'")
    connection.commit()
    connection.close()
    async with SQLiteStore(path) as store, Reader(make_app(store)) as ann:
        assert "1 row is damaged and left out" in (await ann.open("/audit")).text
        assert json.loads((await ann.client.get("/audit.jsonl")).text) == {"id": question.id, "damaged": True}
        assert question.id in (await ann.client.get("/audit.csv")).text


async def test_the_reasons_of_an_erased_run_are_gone(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db", clock=FakeClock()) as store:
        await waiting(store, "r1")
        await store.decide("q_r1", Reject("a secret reason"), by="ann", digest="digest of q_r1")
        script, stored = Script(store, "r1"), await store.load("r1")
        script.run, script.seq, script.fence = replay(stored.facts), len(stored.facts), stored.fence or 0
        await script.write(f.Told("c1", "no"))
        await script.end()
        await store.erase("r1")
        async with client(store) as web:
            [line] = [json.loads(each) for each in (await web.get("/api/decisions.jsonl")).text.splitlines()]
    assert (line["by"], line["verdict"], line["note"]) == ("ann", "reject", None)


def test_the_command_line_lists_and_exports_decisions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.db")

    async def fill() -> None:
        clock = FakeClock()
        async with SQLiteStore(path, clock=clock) as store:
            await a_week(store, clock)

    asyncio.run(fill())
    words = ("audit", "decisions", "--store", path)
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and "Not to him." in next(line for line in lines if " ben " in line)
    assert main((*words, "--verdict", "reject", "--since", "2026-01-17", "--by", "ben", "--format", "jsonl")) == 0
    assert json.loads(capsys.readouterr().out)["note"] == "Not to him."
    out = tmp_path / "decisions.csv"
    assert main((*words, "--format", "csv", "--out", str(out), "--until", "2026-01-17")) == 0
    assert [row["verdict"] for row in table(out.read_bytes())] == ["approve", "edit"]
    assert main((*words, "--limit", "2")) == 0
    found = capsys.readouterr()
    assert len(found.out.splitlines()) == 3 and "There are more" in found.err
    for more in (("--by", "ben"), ("--settled", "--by", "ben"), ("--verdict", "respond"), ("--since", "2026-01-17")):
        assert main(("questions", *more, "--store", path)) == 0
        found = capsys.readouterr().out
        assert ("ben" in found) is ("respond" not in more) and "approve" not in found
