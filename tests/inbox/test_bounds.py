"""No request holds the server's event loop: the work leaves the loop, and each piece of it is bounded."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from msgspec.structs import replace

import assentry.inbox
from assentry import Agent, Approve, Edit, Preview, Runner, Text, function_tool
from assentry.core.mask import MASK
from assentry.errors import InvalidDecision
from assentry.inbox import deciding, mask, model
from assentry.inbox.bounds import MOST_READ, is_too_long
from assentry.inbox.conversation import MOST_FACTS
from assentry.inbox.difference import MOST_EDITS, MOST_LINES, WHOLE, changed_lines
from assentry.inbox.json_values import TooLong, read_json, shown_arguments
from assentry.inbox.loops import Loops, OwnLoopRoute
from assentry.inbox.mask import masked, masked_journal
from assentry.inbox.wording import MOST_COMPARED, compare_texts
from assentry.store import SQLiteStore, Store
from assentry.store.record import Entry, Question
from assentry.store.sql import paging
from assentry.testing import FakeClock, ScriptedModel, call
from tests.inbox.office import TOOLS, ask, ask_everything
from tests.inbox.support import Tokens, bearer, client, routes_of

HEAVY = (
    "assentry/inbox/wording", "assentry/inbox/difference", "assentry/inbox/mask", "assentry/inbox/permissions",
    "assentry/inbox/json_values", "assentry/inbox/conflict", "assentry/inbox/escaping", "assentry/inbox/conversation",
    "assentry/inbox/forms", "assentry/inbox/page_parts.py", "assentry/inbox/deciding", "assentry/inbox/run_pages",
    "assentry/inbox/templating", "assentry/inbox/headline", "assentry/core/mask", "assentry/core/codec",
    "assentry/core/fold", "assentry/store/sql/", "assentry/approval/decide", "jinja2/",
)  # fmt: skip
"""Modules whose work grows with what is stored, or with what is sent."""
NEAR = {"/health", "/metrics", "/api/events", "/openapi.json", "/static/{name}"}
"""The routes that the server's loop answers itself. Add to them only what costs the same whatever is stored."""


class Watch:
    """Notes the functions of heavy modules that run in this thread."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            path = frame.f_code.co_filename.replace("\\", "/")
            if any(each in path for each in HEAVY) and frame.f_code.co_name != "get_route_handler":  # makes the route
                self.found.add(f"{path.rpartition('/assentry/')[2]}:{frame.f_code.co_name}")


@function_tool(needs_approval=True, preview=lambda ctx, args: Preview("Write it", (Text("lorem ipsum\n" * 80_000),)))
async def write_much(text: str) -> str:
    """Write something long down."""
    return "written"


async def large_data(store: Store) -> dict[str, Question]:
    """Ask, decide and edit about as much as a question may hold."""
    asked = await ask_everything(store)
    long = "\n".join(f"line {n} of the text" for n in range(2_000))
    model = ScriptedModel([call("write_much", {"text": long}), "Done."])
    result = await Runner.run(Agent(name="Much", tools=[*TOOLS, write_much], model=model), "Go on.", store=store)
    asked["write_much"] = await store.question(result.interruptions[0].id)
    secret = await ask(store, "Keeper", call("use_key", {"key": "marlinspike" * 1000, "where": "there"}))
    edited = await ask(store, "Writer", call("write", {"text": long}))
    changed = {"text": long.replace("7", "8")}
    await store.decide(edited.id, Edit(changed), by="otto", digest=edited.digest)
    granted = await ask(store, "Writer", call("write", {"text": "short"}))
    await store.decide(granted.id, Approve(), by="otto", digest=granted.digest, grant={"pins": {"text": "short"}})
    return {**asked, "use_key": secret, "edited": edited, "granted": granted}


def addresses(route: APIRoute, asked: dict[str, Question], grants: list[Any]) -> list[str]:
    """The addresses of a route, with the largest data that there is."""
    ids = [each.id for each in asked.values()]
    if "{run}" in route.path:
        return [route.path.format(run=each.run, id=each.id) for each in grants]
    if "grants" in route.path:
        return [route.path.format(id=each.id) for each in grants] if "{id}" in route.path else [route.path]
    if "runs" in route.path and "{id}" in route.path:
        return [route.path.format(id=asked[name].run) for name in ("write_much", "edited", "use_key")]
    if "{what}" in route.path:
        return [route.path.format(id="wh_none", what=what) for what in ("test", "enable", "disable", "remove")]
    if "{form}" in route.path:
        return [route.path.format(form=form) for form in ("csv", "jsonl")]
    if "{step}" in route.path:
        steps = ("edit", "reject", "respond", "always", "again", "approve")
        return [route.path.format(id=asked[name].id, step=step) for step in steps for name in ("write_much", "payout")]
    return [route.path.format(id=id) for id in ids] if "{id}" in route.path else [route.path]


@pytest.mark.parametrize("role", ["viewer", "reviewer", "operator", "admin"])
async def test_no_route_does_work_that_grows_with_what_is_stored_on_the_servers_loop(tmp_path: Path, role: str) -> None:
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        asked = await large_data(store)
        grants = (await store.grants(revoked=True)).items
        app = assentry.inbox.app(store, Tokens())
        routes = [each for each in routes_of(app) if each.path not in NEAR]
        assert len(routes) > 25
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://inbox", headers=bearer("pat", role)) as http:
            for route in routes:
                for address in addresses(route, asked, grants):
                    for method in sorted(route.methods - {"HEAD"}):
                        watch = Watch()
                        sys.setprofile(watch)
                        try:
                            answer = await http.request(method, address, **sent(method, address, asked))
                        finally:
                            sys.setprofile(None)
                        assert answer.status_code < 500, (method, address, answer.text[:300])
                        assert watch.found == set(), f"{method} {address} holds the loop"
            for query in ("q=" + "a" * 200, "part=list", "part=count", "q=lorem&tool=write_much&at=x"):
                sys.setprofile(watch := Watch())
                try:
                    await http.get(f"/questions?{query}")
                finally:
                    sys.setprofile(None)
                assert watch.found == set(), query


def sent(method: str, address: str, asked: dict[str, Question]) -> dict[str, Any]:
    """What is sent with a request, so that it gets as far as it can."""
    if method != "POST":
        return {}
    digest = next((each.digest for each in asked.values() if each.id in address), "")
    if address.startswith("/api"):
        body = {"type": "edit", "arguments": {"text": "x" * 100_000}}
        return {"json": body, "headers": {"If-Match": f'"{digest}"'}}
    edit = json.dumps({"text": "x\n" * 20_000})
    return {"data": {"digest": digest, "type": "edit", "json": edit, "do": "review", "uses": "5", "end": "day"}}


async def test_an_export_is_made_off_the_servers_loop_piece_by_piece(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        await large_data(store)
        here, seen = threading.get_ident(), set()
        original = mask.masked

        def noted(question: Question) -> Question:
            seen.add(threading.get_ident())
            return original(question)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("assentry.inbox.decisions.masked", noted)
            app = assentry.inbox.app(store, Tokens())
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://inbox", headers=bearer()) as http:
                lines = (await http.get("/audit.jsonl")).text.splitlines()
        assert len(lines) == 2 and seen and here not in seen


async def test_one_users_requests_share_a_thread_and_others_have_their_own() -> None:
    loops = Loops(3)
    gate = threading.Event()

    async def hold(name: str) -> int:
        await asyncio.to_thread(gate.wait, 60)
        return threading.get_ident()

    tasks = [asyncio.ensure_future(loops.run(name, hold(name))) for name in ("ann", "ann", "ben", "vera", "otto")]
    await asyncio.sleep(0)
    gate.set()
    ann, again, ben, vera, otto = await asyncio.gather(*tasks)
    assert ann == again and len({ann, ben, vera}) == 3 and otto in (ann, ben, vera)
    assert threading.get_ident() not in (ann, ben, vera, otto)


async def test_the_threads_end_with_the_application() -> None:
    loops = Loops()
    threads: list[threading.Thread] = []

    async def note() -> None:
        threads.append(threading.current_thread())

    await loops.run("ann", note())
    del loops
    gc.collect()
    await asyncio.to_thread(threads[0].join, 60)
    assert not threads[0].is_alive()


async def test_a_stream_that_is_cut_off_while_it_waits_ends_as_cancelled_and_is_closed() -> None:
    loops, waits, closed = Loops(), threading.Event(), threading.Event()

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
            try:
                waits.set()
                await asyncio.Event().wait()
            finally:
                for _ in range(20):
                    await asyncio.sleep(0)  # as if a connection were given back
        finally:
            closed.set()

    async def read() -> None:
        async for _ in loops.each("ann", items()):
            pass

    task = asyncio.create_task(read())
    assert await asyncio.to_thread(waits.wait, 60)
    task.cancel()
    [error] = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(error, asyncio.CancelledError)
    assert await asyncio.to_thread(closed.wait, 60)


async def test_a_stream_goes_on_where_its_request_was_answered() -> None:
    app, here, seen = FastAPI(), threading.Event(), []
    app.state.loops = Loops()

    async def stream() -> Response:
        async def items() -> AsyncIterator[bytes]:
            seen.append(threading.get_ident())
            yield b"more"

        seen.append(threading.get_ident())
        return StreamingResponse(items())

    app.router.add_api_route("/stream", stream, route_class_override=OwnLoopRoute)

    async def wait() -> None:
        here.set()
        await asyncio.Event().wait()

    other = asyncio.create_task(app.state.loops.run("ben", wait()))
    assert await asyncio.to_thread(here.wait, 60)  # so that the stream gets the second loop
    sent = None

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False} if not sent else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        nonlocal sent
        sent = message
        if message["type"] == "http.response.start":  # before its first piece, the first loop is free again
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}, "method": "GET", "path": "/stream", "headers": [],
             "query_string": b"", "raw_path": b"/stream", "root_path": "", "scheme": "http"}  # fmt: skip
    await app(scope, receive, send)
    assert len(seen) == 2 and seen[0] == seen[1]


# -- differences -------------------------------------------------------------------------------------------------------


class Counted(str):
    """A line that counts how often it is compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Counted.count += 1
        return str.__eq__(self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def lines_of(kind: str, count: int) -> tuple[list[str], list[str]]:
    draw = random.Random(7)
    match kind:
        case "two letters":
            made = [draw.choice("ab") for _ in range(count)], [draw.choice("ab") for _ in range(count)]
        case "alike":
            made = ["x"] * count, ["x"] * (count // 2) + ["y"] + ["x"] * (count // 2)
        case "shifted":
            made = ["a", "b"] * (count // 2), ["b", "a", "a"] * (count // 3)
        case "all different":
            made = [f"old {n}" for n in range(count)], [f"new {n}" for n in range(count)]
        case _:
            made = [f"line {n}" for n in range(count)], [f"line {n}" if n % 9 else "other" for n in range(count)]
    return [Counted(line) for line in made[0]], [Counted(line) for line in made[1]]


@pytest.mark.parametrize("kind", ["two letters", "alike", "shifted", "all different", "every ninth"])
def test_a_difference_compares_a_bounded_number_of_lines(kind: str) -> None:
    one, two = lines_of(kind, MOST_LINES // 2)
    Counted.count = 0
    changed_lines(one, two)
    assert Counted.count <= (2 * MOST_EDITS + 3) * MOST_LINES


@pytest.mark.parametrize("kind", ["two letters", "alike", "shifted", "all different", "every ninth"])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 50, 199, MOST_LINES])
def test_a_difference_has_every_changed_line_of_both_texts(kind: str, count: int) -> None:
    one, two = lines_of(kind, count)
    changes = changed_lines(one, two)
    if one == two:
        assert changes == []
        return
    removed, added = ([each.text for each in changes if each.sign == sign] for sign in "-+")
    assert removed or added
    assert len(one) - len(removed) == len(two) - len(added)  # the lines that stay are in both
    if len(one) + len(two) < WHOLE:
        assert [each.text for each in changes if each.sign in "- "] == one
        assert [each.text for each in changes if each.sign in "+ "] == two


def test_texts_that_are_too_long_to_compare_are_said_to_be() -> None:
    long = json.dumps({"text": "x" * MOST_COMPARED})
    [before, after] = compare_texts(long, long.replace("x", "y"))
    assert (before.sign, after.sign) == ("-", "+") and "too long to compare" in before.text
    assert compare_texts(long, long) == []


async def test_an_edit_that_is_too_long_to_compare_is_shown_whole(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        question = await ask(store, "Writer", call("write", {"text": "x" * MOST_COMPARED}))
        await store.decide(question.id, Edit({"text": "y" * 1000 + "THE END"}), by="otto", digest=question.digest)
        transport = httpx.ASGITransport(app=assentry.inbox.app(store, Tokens()))
        async with httpx.AsyncClient(transport=transport, base_url="http://inbox", headers=bearer()) as http:
            page = (await http.get(f"/questions/{question.id}")).text
        assert "too long to compare" in page and "THE END" in page


# -- texts, masks, journals --------------------------------------------------------------------------------------------


def test_json_of_too_many_values_is_shown_as_text_and_not_read() -> None:
    text = json.dumps({"numbers": [1] * (MOST_READ + 1)})
    with pytest.raises(TooLong):
        read_json(text)
    assert "150.0 KB" in shown_arguments(text) and text[:200].replace('"', "&#34;") in shown_arguments(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"text": "one, two, [three], {four} " * MOST_READ}),
        json.dumps(["a, b"] * (MOST_READ // 2) + ['say "yes, no", \\ or {']),
        json.dumps({"text": '\\",[{' * MOST_READ}),
        '"' + "," * MOST_READ * 2 + "\\",
    ],
    ids=["one long text", "texts with quotes", "a text of escapes", "a text without an end"],
)
def test_what_is_in_a_text_is_not_counted(text: str) -> None:
    assert not is_too_long(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({f"{n}": [] for n in range(MOST_READ)}),
        json.dumps(['",'] * (MOST_READ + 2)),
        json.dumps([*range(MOST_READ + 1), "the end"]),
        json.dumps(["the beginning", *range(MOST_READ + 1)]),
        "{" * (MOST_READ + 1),
    ],
    ids=["objects", "texts", "before a text", "after a text", "no JSON"],
)
def test_every_value_is_counted_whatever_is_around_it(text: str) -> None:
    assert is_too_long(text)


async def test_a_request_of_too_many_values_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(text: str) -> Any:
        raise AssertionError("a text of too many values was read")

    numbers = "[" + ",".join("1" * (MOST_READ + 1)) + "]"
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        question = await ask(store, "Writer", call("write", {"text": "x"}))
        for module in (model, deciding):
            monkeypatch.setattr(module, "parse_object", never)
        monkeypatch.setattr(deciding, "parse", never)
        async with client(store, "ann", "admin") as http:
            for path in (f"/api/questions/{question.id}/decision", "/api/grants", "/api/runs"):
                headers = {"content-type": "application/json", "if-match": question.digest}
                response = await http.post(path, content=f'{{"type": "edit", "args": {numbers}}}', headers=headers)
                assert response.status_code == 413 and "more than 50,000 values" in response.json()["detail"], path
        for sent in ({"type": "edit", "json": numbers}, {"type": "approve", "grant": "1", "pins": numbers}):
            with pytest.raises(InvalidDecision, match="more than 50,000 values"):
                deciding._decision(sent, 0)
        with pytest.raises(InvalidDecision, match="more than 50,000 values"):
            deciding._outcome(numbers)
        assert await store.question(question.id) == question


async def test_too_many_secrets_mask_everything_that_may_quote_one(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        question = await ask(store, "Keeper", call("use_key", {"key": "marlinspike", "where": "there"}))
    many = replace(question, arguments=json.dumps({"key": [f"secret {n}" for n in range(MOST_READ)], "where": "there"}))
    quoting = replace(many, preview=Preview("It uses secret 77"), reason="secret 78", prompt="secret 79")
    shown = masked(quoting)
    assert "secret" not in json.dumps([shown.arguments, str(shown.preview), shown.reason, shown.prompt])
    assert shown.digest == "" and shown.tool == "use_key"

    some = json.dumps({"key": [f"secret {n}" for n in range(1000)]})
    long = replace(question, arguments=some, preview=Preview("secret 77", (Text("lorem " * 100_000),)))
    assert masked(long).preview == Preview(MASK)


def test_a_journal_with_too_many_secrets_is_reduced_to_what_happened() -> None:
    call_of = ["c1", "use_key", 0]
    keys = {"key": [f"secret {n}" for n in range(3000)]}
    item = {"name": "use_key", "arguments": json.dumps(keys)}
    entries = [
        Entry(1, 0, {"fact": "defined", "redact": {"use_key": ["key"]}}, "h1"),
        Entry(2, 0, {"fact": "replied", "calls": [call_of], "items": [item]}, "h2"),
        Entry(3, 0, {"fact": "finished", "call": "c1", "output": "secret 7 " + "lorem " * 50_000, "at": 5}, "h3"),
    ]
    seen = masked_journal(entries, [], trusted=True)
    assert seen[2].fact == {"fact": "finished", "call": "c1", "at": 5} and not any(each.hash for each in seen)
    only = masked_journal(entries, [], trusted=True, shown=slice(2, 3))
    assert [each.seq for each in only] == [3]


async def test_a_long_timeline_is_shown_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.inbox.run_pages.ENTRIES", 4)
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        question = await ask(store, "Shop", call("look_up", {"order": 7}), call("write", {"text": "x"}))
        count = (await store.read(question.run)).record.seq
        transport = httpx.ASGITransport(app=assentry.inbox.app(store, Tokens()))
        async with httpx.AsyncClient(transport=transport, base_url="http://inbox", headers=bearer()) as http:
            page = (await http.get(f"/runs/{question.run}?all=1")).text
            assert f"Entries {count - 3} to {count} of {count}" in page and f"?to={count - 4}&amp;all=1" in page
            assert "waits for a person" in page and "User wrote" not in page
            first = (await http.get(f"/runs/{question.run}?to=4&all=1")).text
            assert "Entries 1 to 4" in first and "Shop began" in first and "waits for a person" not in first
            monkeypatch.setattr("assentry.inbox.run_pages.MOST_FACTS", 3)
            monkeypatch.setattr("assentry.inbox.page_parts.MOST_FACTS", 3)
            monkeypatch.setattr("assentry.inbox.conversation.MOST_FACTS", 3)
            assert "too many to be shown here" in (await http.get(f"/runs/{question.run}")).text
            assert "too many to show what was said" in (await http.get(f"/questions/{question.id}")).text
    assert MOST_FACTS > 1000


# -- lists and searches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", ["arguments", "preview"])
async def test_a_page_of_large_questions_ends_at_a_number_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: str
) -> None:
    monkeypatch.setattr(paging, "MOST_BYTES", 5_000 if large == "arguments" else 300)
    monkeypatch.setattr(paging, "FIRST", 2)
    asks = call("write", {"text": "x" * 2_000}) if large == "arguments" else call("change_file", {"path": "x"})
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        asked = [await ask(store, "Writer", asks) for _ in range(7)]
        ids = [each.id for each in sorted(asked, key=lambda each: (each.at, each.id))]
        found: list[str] = []
        sizes, after = [], None
        while True:
            page = await store.questions(limit=50, after=after)
            found += [each.id for each in page.items]
            sizes.append(len(page.items))
            after = page.next
            if after is None:
                break
        assert found == ids and max(sizes) < 7


async def test_a_search_ends_when_it_has_taken_its_time_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MOST_SECONDS", -1.0)
    monkeypatch.setattr(paging, "FIRST_SEARCHED", 2)
    clock = FakeClock()
    async with SQLiteStore(tmp_path / "inbox.db", clock=clock) as store:
        for word in ("plain", "plain", "plain", "plain", "rare"):
            await ask(store, "Writer", call("write", {"text": word}))
            clock.advance(1)  # questions of one millisecond are in the order of their ids
        pages, after = [], None
        while True:
            page = await store.questions(search="RARE", after=after)
            pages.append(len(page.items))
            after = page.next
            if after is None:
                break
        assert pages == [0, 0, 1]


@pytest.mark.parametrize("words", ["100%", "a_b", "!x", "é", "[a-z]*", "\\", "a" * 200])
async def test_a_search_takes_its_text_literally(tmp_path: Path, words: str) -> None:
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        await ask(store, "Writer", call("write", {"text": "other"}))
        wanted = await ask(store, "Writer", call("write", {"text": f"before {words} after"}))
        shown = json.dumps(words)[1:-1] if words == "\\" else words
        assert [each.id for each in (await store.questions(search=shown)).items] == [wanted.id]


async def test_health_is_told_while_a_long_read_is_under_way(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "inbox.db") as store:
        await store.runs(limit=1)
        transport = httpx.ASGITransport(app=assentry.inbox.app(store, Tokens()))
        async with httpx.AsyncClient(transport=transport, base_url="http://inbox") as http:
            assert (await http.get("/health")).status_code == 200
            gate = threading.Event()
            long = asyncio.ensure_future(store._read(lambda transaction: gate.wait(60)))
            try:
                assert (await asyncio.wait_for(http.get("/health"), 60)).status_code == 200
                assert not long.done()
            finally:
                gate.set()
                await long
