"""Sessions of ours with methods of the user's: every override is honoured, and nothing is stored twice."""

from __future__ import annotations

import base64
import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import assentry
from assentry import (
    Agent,
    EncryptedSession,
    ExactSession,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    PostgresSession,
    Runner,
    Session,
    SQLiteSession,
)
from assentry.errors import SessionFailed
from assentry.testing import ScriptedModel, call, check_session
from tests.runtime.support import reloaded, sending
from tests.sessions.conversations_server import ConversationsServer, serving

Item = dict[str, Any]
ITEMS = [{"role": "user", "content": text} for text in ("a", "b", "c")]
numbers = itertools.count()


@pytest.fixture
def conversations(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConversationsServer]:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
        yield server


OURS = [
    each
    for name in assentry.__all__
    if name.endswith("Session") and (each := getattr(assentry, name)) not in (ExactSession, Session)
]
"""Every session that comes with Assentry; a new one is found here."""


@pytest.fixture
def makes(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Make a session of a class: in a file, in a schema of the test's own, or at a server."""
    addresses: list[str] = []

    def make(kind: type, session_id: str = "s") -> Any:
        if issubclass(kind, SQLiteSession):
            return kind(session_id, tmp_path / "s.db")
        if issubclass(kind, PostgresSession):
            if not addresses:
                addresses.append(request.getfixturevalue("postgres").database())
            return kind(session_id, addresses[0])
        if issubclass(kind, EncryptedSession):
            return kind(session_id, SQLiteSession(session_id, tmp_path / "s.db"), "a key of the test's")
        if issubclass(kind, OpenAIResponsesCompactionSession):
            return kind(session_id, SQLiteSession(session_id, tmp_path / "s.db"))
        assert issubclass(kind, OpenAIConversationsSession), "a new session needs its way to be made here"
        request.getfixturevalue("conversations")
        return kind()

    return make


def public_methods(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]


def recording(kind: type, name: str, heard: list[Any]) -> type:
    """Return a subclass that notes the calls of one method, and passes them on."""
    original = getattr(kind, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        heard.append(args)
        return original(self, *args, **kwargs)

    return type(f"Own{kind.__name__}", (kind,), {name: method})


async def used(session: Any) -> None:
    """Use a session in every way that Assentry or a program does."""
    send, _ = sending()
    agent = Agent(name="A", tools=[send], model=ScriptedModel([call("send", {"to": "ann"}), "Done.", "Again."]))
    await Runner.run(agent, "Send it.", session=session)
    await Runner.run(agent, "And?", session=session)
    if hasattr(session, "replace_latest"):
        await session.replace_latest([], [])
    if hasattr(session, "run_compaction"):
        await session.run_compaction()
    await session.pop_item()
    await session.clear_session()
    if hasattr(session, "__aenter__"):
        async with session:
            pass


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in OURS for name in public_methods(kind)])
async def test_every_public_method_of_every_session_can_be_overridden(kind: type, name: str, makes: Any) -> None:
    heard: list[Any] = []
    session = makes(recording(kind, name, heard))
    await used(session)
    assert heard, f"{kind.__name__}.{name} was passed by"
    if name == "add_items":
        assert sum(len(items) for [items] in heard) == 6  # two questions, two answers, a call and its output


@pytest.mark.parametrize("kind", OURS)
async def test_a_method_of_one_object_is_honoured_too(kind: type, makes: Any) -> None:
    heard: list[Any] = []
    session = makes(kind)
    original = session.add_items

    async def add_items(items: list[Item]) -> None:
        heard.append(items)
        await original(items)

    session.add_items = add_items
    await used(session)
    assert sum(map(len, heard)) == 6


def encrypted(kind: type, nonce: Callable[[], int] = numbers.__next__) -> Any:
    """Return a session whose stored texts differ each time, as those of a cipher with a nonce do."""

    class Encrypted(kind):  # type: ignore[misc]
        async def add_items(self, items: list[Item]) -> None:
            await super().add_items([self.closed(item) for item in items])

        async def get_items(self, limit: int | None = None) -> list[Item]:
            return [self.opened(item) for item in await super().get_items(limit)]

        async def pop_item(self) -> Item | None:
            item = await super().pop_item()
            return None if item is None else self.opened(item)

        @staticmethod
        def closed(item: Item) -> Item:
            return {"nonce": nonce(), "text": base64.b64encode(json.dumps(item).encode()).decode()}

        @staticmethod
        def opened(item: Item) -> Item:
            found: Item = json.loads(base64.b64decode(item["text"]))
            return found

    return Encrypted


STORED = [SQLiteSession, PostgresSession]


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.parametrize("kind", STORED)
async def test_a_session_that_encrypts_stores_no_plain_text(kind: type, makes: Any, tmp_path: Path) -> None:
    session = makes(encrypted(kind))
    model = ScriptedModel(["a secret answer", "Yes."])
    agent = Agent(name="A", model=model)
    await Runner.run(agent, "a secret question", session=session)
    raw = await kind.get_items(session)
    assert len(raw) == 2 and "secret" not in str(raw)
    assert not any(b"secret" in file.read_bytes() for file in files(tmp_path))
    await Runner.run(agent, "Was it?", session=session)
    assert "a secret answer" in str(model.requests[1].input)


@pytest.mark.parametrize("kind", STORED)
async def test_a_session_that_encrypts_keeps_the_promises_of_ours(kind: type, makes: Any) -> None:
    own = encrypted(kind, lambda: 0)
    await check_session(lambda session_id: makes(own, session_id))


@pytest.mark.parametrize("kind", STORED)
async def test_a_turn_that_is_written_again_is_stored_once_through_an_override(kind: type, makes: Any) -> None:
    session = makes(encrypted(kind))
    await session.write("run", 0, ITEMS[:2])
    await session.write("run", 0, ITEMS[:2])  # a process died before it knew of the first write
    await session.write("run", 2, ITEMS[2:])
    await session.write("run", 2, ITEMS[2:])
    assert await session.get_items() == ITEMS


class OneByOne(SQLiteSession):
    async def add_items(self, items: list[Item]) -> None:
        for item in items:
            await super().add_items([item])


class OnlyMessages(SQLiteSession):
    async def add_items(self, items: list[Item]) -> None:
        await super().add_items([item for item in items if "role" in item])


@pytest.mark.parametrize("kind", [OneByOne, OnlyMessages])
async def test_an_override_may_store_one_by_one_or_leave_something_out(kind: type, makes: Any) -> None:
    session = makes(kind)
    turn = [*ITEMS[:2], {"type": "function_call", "call_id": "c"}]
    for position in (0, 0, 3, 3):
        await session.write("run", position, turn)
    kept = turn if kind is OneByOne else ITEMS[:2]
    assert await session.get_items() == kept * 2


async def test_an_override_may_try_again(makes: Any, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "s.db")

    class Stubborn(SQLiteSession):
        async def add_items(self, items: list[Item]) -> None:
            try:
                await super().add_items(items)
            except SessionFailed:
                other.rollback()
                await super().add_items(items)

    session = makes(Stubborn)
    await session.write("run", 0, ITEMS[:1])
    session._busy_timeout = 0.0
    for _ in range(2):
        other.execute("BEGIN IMMEDIATE")
        await session.write("run", 1, ITEMS[1:])
    other.close()
    assert await session.get_items() == ITEMS


async def test_an_override_that_adds_items_loses_none(makes: Any) -> None:
    class Twice(SQLiteSession):
        async def add_items(self, items: list[Item]) -> None:
            await super().add_items([item for item in items for _ in range(2)])

    session = makes(Twice)
    await session.write("run", 0, ITEMS[:1])
    await session.write("run", 1, ITEMS[1:])
    assert [item["content"] for item in await session.get_items()] == ["a", "a", "b", "b", "c", "c"]


async def test_a_run_that_is_resumed_twice_is_stored_once_through_an_override(makes: Any) -> None:
    session = makes(encrypted(SQLiteSession))
    send, _ = sending(needs_approval=True)
    agent = Agent(name="A", tools=[send], model=ScriptedModel([call("send", {"to": "ann"}), "Done.", "Done."]))
    state = (await Runner.run(agent, "Send it.", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    again = await reloaded(agent, state)
    await Runner.run(agent, state, session=session)
    once = await session.get_items()
    await Runner.run(agent, again, session=session)  # as if the first had died before it knew of its writes
    assert len(await session.get_items()) == len(once) == 4


class Around:
    """A session around one of ours, that hands on whatever it does not have itself."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.heard: list[Item] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def add_items(self, items: list[Item]) -> None:
        self.heard += items
        await self.inner.add_items(items)


async def test_a_session_around_ours_is_not_passed_by(makes: Any) -> None:
    session = Around(makes(SQLiteSession))
    agent = Agent(name="A", model=ScriptedModel(["Hello."]))
    await Runner.run(agent, "Hello?", session=session)
    assert len(session.heard) == 2


async def test_a_subclass_that_overrides_nothing_writes_at_its_places(makes: Any) -> None:
    class Plain(SQLiteSession):
        def more(self) -> None: ...

    session = makes(Plain)
    await session.write("run", 0, ITEMS)
    await session.write("run", 0, ITEMS)
    assert await session.get_items() == ITEMS
    assert not session._overrides("add_items")
