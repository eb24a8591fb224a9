"""Webhooks: written with the question, sent at least once, signed, and without secrets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from assentry import NotFound, Preview, Runner, Secret, UsageError, function_tool
from assentry.cli import main
from assentry.core import facts as f
from assentry.inbox.dispatch import HOLD, RETRIES, Dispatcher, dispatching
from assentry.inbox.webhooks import LONGEST_ARGUMENTS, Webhooks, check_url
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.testing import FakeClock, call
from tests.inbox.receiver import Receiver
from tests.runtime.support import HANGS, SOURCES, scripted
from tests.store.place import Place
from tests.store.support import Script, asked, replied, waiting

SECRET = "four-one-one-one"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Receiver() as receiver:
        yield receiver


class Room:
    """Where a store is, of each kind."""

    def __init__(self, place: Place | None) -> None:
        self.place, self.clock = place, FakeClock(time.time())
        self.memory = MemoryStore(clock=self.clock)
        if place is not None:
            place.clock = self.clock

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        if self.place is None:
            yield self.memory
        else:
            async with self.place.store() as store:
                yield store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    """A store in memory, and one in each kind of database."""
    if request.param == "memory":
        return Room(None)
    if request.param == "sqlite":
        return Room(Place(lambda **more: SQLiteStore(tmp_path / "runs.db", **more), None))  # type: ignore[arg-type]
    from assentry.store import PostgresStore

    url = request.getfixturevalue("postgres").database()
    return Room(Place(lambda **more: PostgresStore(url, upgrade=True, **more), None))  # type: ignore[arg-type]


async def test_a_question_and_its_end_are_told_and_signed(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        hook = await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        await store.decide("q_r1", {"type": "approve"}, by="ann", digest="digest of q_r1")
        assert await Webhooks(store).waiting() == {hook.id: 2}
        sender = Dispatcher(store, base_url="https://inbox.example/assentry/")
        assert await sender.send_due() == 2 and await sender.send_due() == 0
        assert await Webhooks(store).waiting() == {}
    told, ended = sorted((each.json for each in receiver.got), key=lambda each: each["type"])
    assert told["type"] == "question.asked"
    assert told["data"] == {
        "question": "q_r1",
        "run": "r1",
        "link": "https://inbox.example/assentry/questions/q_r1",
        "agent": "helper",
        "tool": "send",
        "kind": "approval",
        "sentence": "helper wants to call send.",
        "arguments": {"to": "ann"},
        "arguments_left_out": False,
        "until": None,
    }
    assert (ended["type"], ended["data"]["verdict"], ended["data"]["by"]) == ("question.settled", "approve", "ann")
    for each in receiver.got:
        Verifier(hook.secret).verify(each.body, each.headers)
        for body, headers in ((each.body + b" ", each.headers), (each.body, each.headers | {"webhook-id": "x"})):
            with pytest.raises(WebhookVerificationError):
                Verifier(hook.secret).verify(body, headers)


async def test_a_webhook_is_told_only_of_the_events_that_it_names(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        only = await Webhooks(store).add(receiver.url, ["question.settled"])
        await Webhooks(store).add(receiver.url, ["question.asked"])
        await waiting(store, "r1")
        assert only.id not in await Webhooks(store).waiting()
        await store.decide("q_r1", {"type": "reject"}, by="ann", digest="digest of q_r1")
        assert sorted((await Webhooks(store).waiting()).values()) == [1, 1]
        assert [hook.events for hook in await Webhooks(store).all()] in (
            [("question.settled",), ("question.asked",)],
            [("question.asked",), ("question.settled",)],
        )


async def test_a_change_that_is_refused_tells_nothing(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        await Webhooks(store).add(receiver.url)
        script = await Script(store, "r1").begin()
        script.seq += 1
        with pytest.raises(Exception, match="facts"):
            await script.ask()
        assert await Webhooks(store).waiting() == {}


async def test_a_change_of_every_kind_tells_once(room: Room, receiver: Receiver) -> None:
    """Also where Postgres needs a transaction: late results, grants, definitions."""
    async with room.store() as store:
        await Webhooks(store).add(receiver.url)
        script = await Script(store, "r1").begin()
        await script.write(replied("c1"), asked("c1", "q1"), definitions={"f" * 32: b"{}"})
        await store.decide("q1", {"type": "approve"}, by="ann", digest="digest of q1", grant=None)
        await store.rebuild()
        [count] = (await Webhooks(store).waiting()).values()
        assert count == 2


async def test_a_receiver_that_fails_and_recovers_gets_the_same_message(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        receiver.answers = [500, 302, 404]
        sender = Dispatcher(store)
        for wait in RETRIES[:3]:
            assert await sender.send_due() == 1
            assert await sender.send_due() == 0, "not yet"
            room.clock.advance(wait * 1.2 + 1)
        assert await sender.send_due() == 1
        assert len(receiver.got) == 4 and len({each.id for each in receiver.got}) == 1
        assert len({each.body for each in receiver.got}) == 1
        assert await Webhooks(store).waiting() == {}


async def test_a_receiver_that_stays_away_is_given_up_with_a_reason_and_can_be_enabled(
    room: Room, receiver: Receiver
) -> None:
    async with room.store() as store:
        hook = await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        receiver.answers = [503] * (len(RETRIES) + 1)
        sender, sent = Dispatcher(store), 0
        for wait in (*RETRIES, 0):
            sent += await sender.send_due()
            room.clock.advance(wait * 1.2 + 1)
        assert sent == len(RETRIES) + 1
        [kept] = await Webhooks(store).all()
        assert kept.disabled is not None and kept.reason == "it failed 10 times, last: it answered 503"
        room.clock.advance(10**6)
        await waiting(store, "r2")
        assert await sender.send_due() == 0 and await Webhooks(store).waiting() == {hook.id: 1}
        await Webhooks(store).enable(hook.id)
        assert await sender.send_due() == 1
        assert receiver.got[-1].json["data"]["question"] == "q_r1"


async def test_a_receiver_that_is_gone_is_disabled_at_once(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        receiver.answers = [410]
        await Dispatcher(store).send_due()
        [hook] = await Webhooks(store).all()
        assert hook.disabled is not None and hook.reason == "it answered that it is gone"


async def test_a_receiver_that_cannot_be_reached_or_does_not_answer_is_tried_again(
    room: Room, receiver: Receiver
) -> None:
    import threading

    async with room.store() as store:
        left = threading.Event()
        receiver.before_answer = lambda: left.wait(HANGS) and None
        slow = await Webhooks(store).add(receiver.url)
        away = await Webhooks(store).add("http://127.0.0.1:9")
        await waiting(store, "r1")
        assert await Dispatcher(store, timeout=0.2).send_due() == 2
        left.set()
        assert await Webhooks(store).waiting() == {slow.id: 1, away.id: 1}


async def test_two_dispatchers_send_each_message_once(room: Room, receiver: Receiver) -> None:
    async with room.store() as one, room.store() as two:
        await Webhooks(one).add(receiver.url)
        for number in range(30):
            await waiting(one, f"r{number}")
        senders = [Dispatcher(one), Dispatcher(two)]
        while sum(await asyncio.gather(*(sender.send_due() for sender in senders))):
            pass
        ids = [each.id for each in receiver.got]
        assert len(ids) == 30 and len(set(ids)) == 30


async def test_an_old_claim_does_not_postpone_what_another_has_claimed(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        [old] = await store.outbox.claim(hold=60, limit=10)
        assert await store.outbox.claim(hold=60, limit=10) == []
        room.clock.advance(61)
        [new] = await store.outbox.claim(hold=60, limit=10)
        assert (old.id, old.tries, new.id, new.tries) == (new.id, 1, old.id, 2)
        await store.outbox.again(old, after=10**6, error="slow")
        await store.outbox.again(new, after=0, error="again")
        [third] = await store.outbox.claim(hold=60, limit=10)
        assert third.error == "again"


async def test_an_erased_or_purged_run_leaves_only_ids(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        await Webhooks(store).add(receiver.url, ["question.asked"])
        for run in ("r1", "r2"):
            script = await waiting(store, run)
            await script.write(f.Refused("c1", "ann", asked=f"q_{run}"))
            await script.write(f.Told("c1", "no"))
            await script.end()
        await store.erase("r1")
        await Dispatcher(store).send_due()
        room.clock.advance(10)
        first, _ = sorted((each.json["data"] for each in receiver.got), key=lambda each: each["question"])
        assert first["arguments"] is None and first["sentence"] == "helper wants to call send."
        await waiting(store, "r3")
        await store.cancel("r3", by="ann")
        await store.purge(unchanged_for=0, statuses=("cancelled", "waiting", "working"))
        await Dispatcher(store).send_due()
        assert receiver.got[-1].json["data"] == {"question": "q_r3", "run": "r3"}


def paying(**options: Any) -> Any:
    def preview(ctx: Any, args: dict[str, Any]) -> Preview:
        return Preview(f"Pay {args['to']} with {args['card']}.")

    @function_tool(needs_approval=True, preview=preview, **options)
    async def pay(card: Secret[str], to: str) -> str:
        """Pay."""
        return "paid"

    return pay


async def test_no_message_has_a_secret(room: Room, receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    clerk = scripted(call("pay", {"card": SECRET, "to": "ann"}), "Done.", tools=[paying()])
    async with room.store() as store:
        hook = await Webhooks(store).add(receiver.url)
        await Runner.run(clerk, "Pay.", store=store)
        receiver.answers = [500]
        await Dispatcher(store).send_due()
        room.clock.advance(10)
        await Dispatcher(store).send_due()
    assert len(receiver.got) == 2
    for each in receiver.got:
        assert SECRET not in repr(each)
        assert each.json["data"]["arguments"] == {"card": "[masked]", "to": "ann"}
        assert each.json["data"]["sentence"] == "Pay ann with [masked]."
    assert SECRET not in caplog.text and hook.secret not in caplog.text


async def test_a_message_is_never_long(room: Room, receiver: Receiver) -> None:
    clerk = scripted(call("pay", {"card": "1", "to": "x" * LONGEST_ARGUMENTS}), "Done.", tools=[paying()])
    async with room.store() as store:
        await Webhooks(store).add(receiver.url)
        await Runner.run(clerk, "Pay.", store=store)
        await Dispatcher(store).send_due()
    [got] = receiver.got
    data = got.json["data"]
    assert data["arguments"] is None and data["arguments_left_out"] and len(got.body) < 5000
    assert data["sentence"].endswith("…")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com/x", "would not be encrypted"),
        ("http://10.0.0.1/x", "would not be encrypted"),
        ("http://127.0.0.1.example.com/x", "would not be encrypted"),
        ("ftp://example.com", "begins with https"),
        ("https://", "begins with https"),
        ("https://ann:pw@example.com/", "no name, password"),
        ("https://example.com/#x", "fragment"),
        ("https://example.com:nan/", "cannot be read"),
        ("https://exämple.com/", "is a URL"),
        ("https://example.com/\r\nx: y", "is a URL"),
        (f"https://example.com/{'x' * 2000}", "is a URL"),
        (None, "is a URL"),
    ],
)
async def test_an_address_that_is_not_safe_is_refused(url: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        await Webhooks(MemoryStore()).add(url)


@pytest.mark.parametrize("url", ["http://localhost:1/x", "http://[::1]/x", "http://127.9.9.9/", "https://10.0.0.1/x"])
def test_an_address_that_is_encrypted_or_on_this_machine_is_taken(url: str) -> None:
    assert check_url(url) == url
    assert check_url("http://example.com/x", allow_http=True)


@pytest.mark.parametrize("events", [[], ["question"], "question.asked", ["question.asked", "x"]])
async def test_an_event_that_is_none_is_refused(events: Any) -> None:
    with pytest.raises(UsageError, match=r"events are some of question\.asked"):
        await Webhooks(MemoryStore()).add("https://example.com", events)


async def test_a_webhook_that_is_not_there_is_not_found(room: Room, receiver: Receiver) -> None:
    async with room.store() as store:
        for act in (Webhooks(store).remove, Webhooks(store).enable):
            with pytest.raises(NotFound, match="no webhook 'hook_x'"):
                await act("hook_x")
        hook = await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        await Webhooks(store).remove(hook.id)
        assert await Webhooks(store).waiting() == {} and await Webhooks(store).all() == []


async def test_an_application_sends_while_it_lives(room: Room, receiver: Receiver) -> None:
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()
    receiver.before_answer = lambda: loop.call_soon_threadsafe(arrived.set) and None
    async with room.store() as store:
        await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        async with dispatching(store, base_url="https://inbox.example"):
            await asyncio.wait_for(arrived.wait(), HANGS)


async def test_a_damaged_message_holds_up_no_other(place: Place, receiver: Receiver) -> None:
    place.clock = FakeClock(time.time())
    async with place.store() as store:
        await Webhooks(store).add(receiver.url, ["question.asked"])
        await waiting(store, "r1")
        place.execute("UPDATE assentry_outbox SET body = 'x'")
        await waiting(store, "r2")
        assert await Dispatcher(store).send_due() == 1
    assert [each.json["data"]["question"] for each in receiver.got] == ["q_r2"]


async def test_a_damaged_webhook_holds_up_no_other(place: Place, receiver: Receiver) -> None:
    place.clock = FakeClock(time.time())
    async with place.store() as store:
        damaged = await Webhooks(store).add(receiver.url, ["question.asked"])
        await Webhooks(store).add(receiver.url, ["question.asked"])
        await waiting(store, "r1")
        place.execute("UPDATE assentry_webhooks SET events = 'x' WHERE id = :id", id=damaged.id)
        await Dispatcher(store).send_due()
        assert list(await Webhooks(store).waiting()) == [damaged.id]
    assert [each.json["data"]["question"] for each in receiver.got] == ["q_r1"]


async def test_a_message_that_was_changed_tells_no_other_end_than_the_question_has(
    place: Place, receiver: Receiver
) -> None:
    place.clock = FakeClock(time.time())
    lie = '{"question":"q_r1","run":"r1","verdict":"approve","by":"ann"}'
    async with place.store() as store:
        await Webhooks(store).add(receiver.url, ["question.settled"])
        await waiting(store, "r1")
        await store.decide("q_r1", {"type": "reject"}, by="bob", digest="digest of q_r1")
        place.execute("UPDATE assentry_outbox SET body = :body", body=lie)
        await Dispatcher(store).send_due()
    [told] = [each.json["data"] for each in receiver.got]
    assert (told["verdict"], told["by"]) == ("reject", "bob")


async def test_a_dispatcher_goes_on_after_what_it_cannot_send(monkeypatch: pytest.MonkeyPatch) -> None:
    again = asyncio.Event()
    sender = Dispatcher(MemoryStore(), poll=0.0)

    async def fails() -> int:
        monkeypatch.setattr(sender, "send_due", works)
        raise ValueError("a secret that is no base64")

    async def works() -> int:
        again.set()
        return 0

    monkeypatch.setattr(sender, "send_due", fails)
    task = asyncio.create_task(sender.run())
    await asyncio.wait_for(again.wait(), HANGS)
    task.cancel()


async def test_a_store_without_an_outbox_sends_nothing() -> None:
    class Plain(MemoryStore):
        outbox = Store.outbox  # type: ignore[assignment]

    async with dispatching(Plain()):
        pass
    with pytest.raises(UsageError, match="A Plain keeps no messages"):
        Webhooks(Plain())


# -- a process that dies -----------------------------------------------------------------------------

DIES = """
import asyncio, os, signal, sys
from assentry.inbox.dispatch import Dispatcher
from assentry.store import open_store

async def work():
    async with open_store(sys.argv[1]) as store:
        sender = Dispatcher(store)
        if sys.argv[2] == "before":
            async def dies(*given):
                os.kill(os.getpid(), signal.SIGKILL)
            sender._send = dies
        else:
            store.outbox.__class__.done = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
        await sender.send_due()

asyncio.run(work())
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_process_that_dies_while_it_sends_loses_nothing(
    moment: str,
    kind: str,
    receiver: Receiver,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    from assentry.store import PostgresStore

    url = str(tmp_path / "runs.db") if kind == "sqlite" else request.getfixturevalue("postgres").database()
    clock = FakeClock(time.time())
    make = SQLiteStore(url, clock=clock) if kind == "sqlite" else PostgresStore(url, clock=clock, upgrade=True)
    async with make as store:
        await Webhooks(store).add(receiver.url)
        await waiting(store, "r1")
        env = os.environ | {"PYTHONPATH": str(SOURCES)}
        command = [sys.executable, "-c", DIES, url, moment]
        done = await asyncio.to_thread(subprocess.run, command, env=env, timeout=HANGS, check=False)
        assert done.returncode == -signal.SIGKILL
        assert len(receiver.got) == (0 if moment == "before" else 1)
        clock.now = time.time() + HOLD + 1
        assert await Dispatcher(store).send_due() == 1
    assert len({each.id for each in receiver.got}) == 1
    assert len(receiver.got) == (1 if moment == "before" else 2)


# -- the command line --------------------------------------------------------------------------------


def test_the_command_line_manages_webhooks(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "runs.db")

    def cli(*words: str) -> tuple[int, str, str]:
        code = main(["webhooks", *words, "--store", path])
        return (code, *capsys.readouterr())

    assert main(["db", "upgrade", path]) == 0
    capsys.readouterr()
    code, out, err = cli("add", receiver.url, "--event", "question.asked")
    assert code == 0 and "not shown again" in err
    hook, secret = [line.split(": ")[1] for line in out.splitlines()]
    code, out, _ = cli("list")
    assert code == 0 and hook in out and receiver.url in out and secret not in out
    code, out, _ = cli("list", "--json")
    [listed] = json.loads(out)
    assert listed["id"] == hook and "secret" not in listed and secret not in out
    code, out, _ = cli("test", hook)
    assert code == 0 and "accepted" in out
    assert receiver.got[0].json["type"] == "webhook.test"
    Verifier(secret).verify(receiver.got[0].body, receiver.got[0].headers)
    receiver.answers = [500]
    code, _, err = cli("test", hook)
    assert (code, err) == (1, f"assentry: the message to {receiver.url} failed: it answered 500\n")
    assert cli("enable", hook)[0] == 0 and cli("remove", hook)[0] == 0
    for words in (("remove", hook), ("test", hook), ("enable", hook)):
        code, _, err = cli(*words)
        assert code == 1 and "no webhook" in err
    code, _, err = cli("add", "http://example.com")
    assert code == 1 and "would not be encrypted" in err
    code, out, _ = cli("add", "http://example.com", "--allow-http", "--json")
    assert code == 0 and json.loads(out)["secret"].startswith("whsec_")
