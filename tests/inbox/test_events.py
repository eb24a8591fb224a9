"""The live feed: what a viewer is told, at once, after it was away, and with many others."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

import assentry.inbox
from assentry.inbox import feed, streams
from assentry.inbox.feed import Feed, Feeds, Viewer
from assentry.inbox.metrics import Metrics
from assentry.store import MemoryStore, SQLiteStore, news, watch
from assentry.store.news import News
from assentry.store.sql import news as sql
from assentry.store.store import Store
from assentry.testing import FakeClock
from assentry.testing.store_checks.draft import asking, put_asking, put_begun, put_ended
from tests.inbox.stores import clock, each_store
from tests.inbox.support import Tokens, bearer, live_store, served

__all__ = ["clock", "each_store", "live_store"]

Event = tuple[str, str, dict[str, Any]]


@asynccontextmanager
async def viewing(web: httpx.AsyncClient, last: str | None = None, **query: Any) -> AsyncIterator[AsyncIterator[Event]]:
    """Open a stream; the events come as kind, id and data."""
    headers = {} if last is None else {"Last-Event-ID": last}
    async with web.stream("GET", "/api/events", params=query, headers=headers, timeout=60) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = _events(answer)
        assert (await anext(events))[0] == "open"
        yield events


async def _events(answer: httpx.Response) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields["event"], fields["id"], json.loads(fields["data"])
            fields = {}


async def until(events: AsyncIterator[Event], kind: str, id: str) -> Event:
    """Read on to the event of this kind about this question or run."""
    async with asyncio.timeout(60):
        async for event in events:
            if event[0] == kind and event[2]["id"] == id:
                return event
    raise AssertionError("the stream ended")


@asynccontextmanager
async def inbox(store: Store, auth: Any = None) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        served(assentry.inbox.app(store, auth or Tokens())) as address,
        httpx.AsyncClient(base_url=address, headers=bearer(), timeout=60) as web,
    ):
        yield web


async def test_a_viewer_sees_questions_and_decisions_as_they_come(live_store: Store) -> None:
    async with live_store as store, inbox(store) as web, viewing(web) as events:
        [question] = await put_asking(store)
        _, _, asked = await until(events, "question.asked", question.id)
        assert (asked["run"], asked["tool"]) == (question.run, "send")
        await store.decide(question.id, {"type": "approve"}, by="bob", digest=question.digest)
        _, _, decided = await until(events, "question.decided", question.id)
        assert (decided["by"], decided["verdict"]) == ("bob", "approve")
        done = await put_ended(store)
        assert (await until(events, "run.changed", done.id))[2]["status"] == "done"


async def test_a_question_that_another_process_writes_arrives(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    async with SQLiteStore(path) as store, SQLiteStore(path) as other, inbox(store) as web, viewing(web) as events:
        [question] = await put_asking(other)
        await until(events, "question.asked", question.id)


async def test_a_viewer_that_was_away_gets_what_it_missed(live_store: Store) -> None:
    async with live_store as store, inbox(store) as web:
        async with viewing(web) as events:
            [first] = await put_asking(store)
            _, last, _ = await until(events, "question.asked", first.id)
        [second] = await put_asking(store)
        await store.decide(first.id, {"type": "approve"}, by="bob", digest=first.digest)
        async with viewing(web, last) as events:
            await until(events, "question.decided", first.id)
        async with viewing(web, last) as events:
            await until(events, "question.asked", second.id)
        async with viewing(web, since=first.at) as events:
            await until(events, "question.asked", second.id)


async def test_fifty_viewers_all_see_a_question() -> None:
    store = MemoryStore()
    app = assentry.inbox.app(store, Tokens())
    async with (
        served(app) as address,
        httpx.AsyncClient(
            base_url=address, headers=bearer(), limits=httpx.Limits(max_connections=100), timeout=60
        ) as web,
        AsyncExitStack() as stack,
    ):
        viewers = [await stack.enter_async_context(viewing(web)) for _ in range(50)]
        assert "assentry_feed_viewers 50\n" in (await web.get("/metrics")).text
        [question] = await put_asking(store)
        await asyncio.gather(*(until(events, "question.asked", question.id) for events in viewers))


async def test_a_user_has_a_limited_number_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 3)
    gone, end = asyncio.Event(), streams.Streams.end

    def ended(self: streams.Streams, name: str) -> None:
        end(self, name)
        if name == "ann" and not self.open(name):
            gone.set()

    monkeypatch.setattr(streams.Streams, "end", ended)
    app = assentry.inbox.app(MemoryStore(), Tokens())
    async with served(app) as address, httpx.AsyncClient(base_url=address, headers=bearer(), timeout=60) as web:
        async with AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(viewing(web))
            answer = await web.get("/api/events")
            assert answer.status_code == 429
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"] == "ann has 3 event streams open, which is the most. Close one first."
            async with viewing(httpx.AsyncClient(base_url=address, headers=bearer("bob"))):
                pass  # others are not counted with her
        async with asyncio.timeout(60):
            await gone.wait()  # the server notices it
        async with viewing(web):
            pass


async def test_a_viewer_of_one_run_sees_its_progress_and_no_other(live_store: Store) -> None:
    async with live_store as store, inbox(store) as web:
        mine = await put_begun(store)
        async with viewing(web, run=mine.id) as events:
            await put_asking(store)
            mine.conclude()
            await mine.write(store)
            _, _, data = await until(events, "run.changed", mine.id)
            while data["status"] != "done":
                _, _, data = await until(events, "run.changed", mine.id)
            assert data["run"] == mine.id


async def test_an_agent_sees_no_events() -> None:
    async with inbox(MemoryStore()) as web:
        answer = await web.get("/api/events", headers=bearer("bot", "agent"))
    assert answer.status_code == 403


async def test_an_id_that_is_no_number_is_refused() -> None:
    async with inbox(MemoryStore()) as web:
        assert (await web.get("/api/events", headers={"Last-Event-ID": "x"})).status_code == 422


async def test_the_stream_ends_when_the_viewer_is_not_known_any_more(monkeypatch: Any) -> None:
    monkeypatch.setattr(feed, "BEAT", 0.0)
    tokens = Tokens()
    async with inbox(MemoryStore(), tokens) as web, viewing(web) as events:
        tokens.revoked.add("ann")
        async with asyncio.timeout(60):
            assert [event async for event in events] == []


async def test_a_viewer_that_reads_too_slowly_is_dropped_and_the_others_go_on() -> None:
    metrics = Metrics()
    telling = Feed(MemoryStore(), metrics)
    slow, quick = Viewer(None), Viewer(None)
    telling.join(slow)
    telling.join(quick)
    for number in range(600):
        telling._tell(News(kind="run.changed", id=f"r{number}", run=f"r{number}", at=number, agent="A"))
        quick.queue.get_nowait()
    assert (slow.dropped, quick.dropped, metrics.dropped) == (True, False, 1)
    telling.leave(slow)
    telling.leave(quick)
    assert metrics.viewers == 0


async def test_who_missed_too_much_is_told_to_read_everything_anew() -> None:
    store = MemoryStore()
    for _ in range(1000):
        await put_asking(store)
    feeds = Feeds(store, Metrics())
    [piece] = await feeds._missed(Viewer(None), 0)
    assert b"event: reset\n" in piece


async def test_a_fact_that_is_written_late_is_still_told() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    late = asking(clock)
    looking, viewer = Feed(store, Metrics()), Viewer(None)
    clock.advance(1.5)
    await looking._look(feed.FAR, tell=False)
    looking.members.add(viewer)
    [question] = (await late.write(store)).asked
    await looking._look(feed.OVERLAP)
    assert question.id in {viewer.queue.get_nowait().id for _ in range(viewer.queue.qsize())}


async def test_a_look_for_news_reads_indexes_and_no_table(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    async with SQLiteStore(path) as store:
        await store.upgrade()
    with closing(sqlite3.connect(path)) as connection:
        for statement, index in (
            (sql.ASKED, "assentry_questions_open"),
            (sql.ENDED, "assentry_questions_decided"),
            (sql.RESTED, "assentry_runs_rested"),
            (sql.BEGUN, "assentry_runs_status"),
        ):
            text, fixed = statement.on("sqlite")
            plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", {**fixed, "since": 0, "limit": 10}).fetchall()
            assert f"INDEX {index}" in plan[0][-1]


async def test_more_than_one_look_can_read_is_told_all_the_same(
    each_store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (feed, news, sql):
        monkeypatch.setattr(module, "MOST_NEWS", 2)
    async with each_store as store:
        await store.open()
        looking, viewer = Feed(store, Metrics()), Viewer(None)
        viewer.queue = asyncio.Queue()
        await looking._look(feed.FAR, tell=False)
        looking.members.add(viewer)
        many = []
        for _ in range(4):
            clock.advance(0.001)
            many += await put_asking(store)
        clock.advance(0.001)
        [last] = await put_asking(store)
        await store.decide(last.id, {"type": "approve"}, by="bob", digest=last.digest)
        await looking._look(feed.OVERLAP)
        told = {viewer.queue.get_nowait().id for _ in range(viewer.queue.qsize())}
        assert {question.id for question in [*many, last]} <= told


class Broken(MemoryStore):
    """A store with a fault: its first look for news raises an error that is none of ours."""

    broken = True

    async def news(self, since: int, watched: Any = ()) -> list[News]:
        if self.broken:
            self.broken = False
            raise RuntimeError("a fault")
        return await super().news(since, watched)


async def test_a_feed_that_fails_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "AWAY", 0.0)

    async def known() -> bool:
        return True

    async with Broken() as store:
        stream = Feeds(store, Metrics()).stream(None, None, known)
        async with asyncio.timeout(60):
            assert b"event: open" in await anext(stream)
            [question] = await put_asking(store)
            told = b"".join([piece async for piece in _up_to(stream, b"question.asked")])
        assert question.id.encode() in told
        await stream.aclose()  # type: ignore[attr-defined]


class Slow(MemoryStore):
    """A store whose first look for news waits for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.looks, self.go_on = 0, asyncio.Event()

    async def news(self, since: int, watched: Any = ()) -> list[News]:
        self.looks += 1
        if self.looks == 1:
            await self.go_on.wait()
        return await super().news(since, watched)


async def test_a_question_that_is_written_while_the_feed_begins_is_not_lost() -> None:
    async def known() -> bool:
        return True

    async with Slow() as store:
        stream = Feeds(store, Metrics()).stream(None, None, known)

        async def told() -> bytes:
            return b"".join([piece async for piece in _up_to(stream, b"question.asked")])

        reading = asyncio.create_task(told())
        for _ in range(20):
            await asyncio.sleep(0)
        [question] = await put_asking(store)
        store.go_on.set()
        async with asyncio.timeout(60):
            assert question.id.encode() in await reading
        await stream.aclose()  # type: ignore[attr-defined]


async def _up_to(stream: AsyncIterator[bytes], words: bytes) -> AsyncIterator[bytes]:
    async for piece in stream:
        yield piece
        if words in piece:
            return
