"""Sessions of programs that were written for the Agents SDK: their classes, forms and module paths."""

from __future__ import annotations

import importlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

import assentry.agents as skin
from assentry import Runner, SessionFailed
from assentry import Session as OwnSession
from assentry.agents import (
    OpenAIConversationsSession,
    OpenAIResponsesCompactionArgs,
    OpenAIResponsesCompactionAwareSession,
    OpenAIResponsesCompactionSession,
    Session,
    SessionABC,
    SessionSettings,
    SQLiteSession,
    is_openai_responses_compaction_aware_session,
)
from assentry.agents.absent import NotInAssentry
from assentry.agents.extensions.memory import AsyncSQLiteSession, EncryptedSession, SQLAlchemySession
from assentry.agents.memory.openai_conversations_session import start_openai_conversations_session
from assentry.agents.memory.session_settings import coerce_session_settings, resolve_session_limit
from assentry.errors import UsageError
from assentry.testing import ScriptedModel, check_session
from tests.runtime.support import heard, scripted
from tests.sessions.conversations_server import serving
from tests.sessions.test_session_runs import words

ITEMS: list[Any] = [{"role": "user", "content": text} for text in "abcd"]


class Own(SessionABC):
    """A session as the SDK's docs show it."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.items: list[Any] = []
        self.limits: list[int | None] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        self.limits.append(limit)
        return list(self.items if limit is None else self.items[len(self.items) - min(limit, len(self.items)) :])

    async def add_items(self, items: list[Any]) -> None:
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


class Protocolled(Session):
    """A session made from the protocol itself."""

    def __init__(self) -> None:
        self.session_id = "protocolled"
        self.items: list[Any] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


@pytest.mark.parametrize("make", [lambda: Own("own"), Protocolled])
async def test_a_class_written_for_the_sdk_works_as_it_is(make: Any) -> None:
    session = make()
    assert isinstance(session, Session) and isinstance(session, OwnSession) and session.session_settings is None
    agent = scripted("hello", "so")
    await Runner.run(agent, "hi", session=session)
    await Runner.run(agent, "and?", session=session)
    assert words(heard(agent)) == ["hi", "> hello", "and?"]
    session.session_id = "another"
    assert session.session_id == "another"


async def test_the_settings_of_a_session_limit_what_a_run_loads() -> None:
    session = Own("own")
    session.session_settings = SessionSettings(limit=1)
    agent = scripted("hello", "so")
    await Runner.run(agent, "hi", session=session)
    await Runner.run(agent, "and?", session=session)
    assert session.limits == [1, 1]
    assert words(heard(agent)) == ["> hello", "and?"]


def test_a_session_without_its_methods_cannot_be_made() -> None:
    class Half(SessionABC):
        async def pop_item(self) -> Any: ...

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_settings_are_resolved_and_checked() -> None:
    settings = SessionSettings(limit=3)
    assert settings.resolve(None) is settings
    assert settings.resolve(SessionSettings(limit=5)).limit == settings.resolve({"limit": 5}).limit == 5
    assert settings.resolve(SessionSettings()).limit == 3
    assert settings.to_dict() == {"limit": 3}
    assert resolve_session_limit(7, settings) == 7
    assert resolve_session_limit(None, {"limit": 2}) == 2
    assert resolve_session_limit(None, None) is None
    for bad in ({"limits": 3}, 3, None):
        with pytest.raises(UsageError, match="Session settings are"):
            coerce_session_settings(bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit must be a whole number"):
        SessionSettings(limit="3")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [SQLiteSession, AsyncSQLiteSession])
async def test_the_sdks_constructor_makes_a_session_in_the_sdks_tables(kind: Any, tmp_path: Path) -> None:
    await check_session(lambda id: kind(id, tmp_path / "talk.db"))
    session = kind("user-1", str(tmp_path / "own.db"), "conv", "turns", {"limit": 2})
    assert isinstance(session, SessionABC) and session.db_path == str(tmp_path / "own.db")
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS[2:]
    assert await session.get_items(3) == ITEMS[1:]
    session.session_settings = None
    assert await session.get_items() == ITEMS
    with sqlite3.connect(tmp_path / "own.db") as file:
        assert file.execute("SELECT count(*) FROM turns").fetchone() == (4,)
    agent = scripted("fine")
    session.session_settings = SessionSettings(limit=1)
    await Runner.run(agent, "e", session=session)
    assert words(heard(agent)) == ["d", "e"]


async def test_sessions_are_closed_as_in_the_sdk() -> None:
    plain, other = SQLiteSession("s"), AsyncSQLiteSession("s")
    plain.close()
    await other.close()
    await other.close()
    for session in (plain, other):
        with pytest.raises(SessionFailed, match="was closed"):
            await session.get_items()
    async with AsyncSQLiteSession("s") as again:
        await again.add_items(ITEMS)


async def test_a_conversation_has_the_sdks_constructor_and_an_id_that_can_be_set() -> None:
    with serving() as server:
        client = AsyncOpenAI(base_url=server.url, api_key="sk-planted")
        session = OpenAIConversationsSession(openai_client=client, session_settings=SessionSettings(limit=1))
        assert isinstance(session, SessionABC)
        first = await session._get_session_id()
        assert session.session_id == first and first.startswith("conv_")
        await session.add_items(ITEMS)
        assert [item["content"][0]["text"] for item in await session.get_items()] == ["d"]  # type: ignore
        other = await start_openai_conversations_session(client)
        session.session_id = other
        assert await session.get_items() == []
        assert await OpenAIConversationsSession(conversation_id=first, openai_client=client).get_items(9) != []
        with pytest.raises(TypeError):
            OpenAIConversationsSession("conv_1")  # type: ignore[misc]
        await client.close()


async def test_a_conversation_gives_items_its_own_ids_and_a_run_hears_messages_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Any] = []

    class Items:
        async def create(self, conversation: str, *, items: list[Any]) -> None:
            sent.extend(items)

    class Client:
        class conversations:  # noqa: N801
            items = Items()

    session = OpenAIConversationsSession(conversation_id="conv_1", openai_client=Client())  # type: ignore[arg-type]
    said = {"type": "message", "role": "assistant", "id": "msg_1", "content": []}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    await session.add_items([said, search, thought, {"type": "reasoning", "summary": []}])  # type: ignore[list-item]
    assert sent == [{"type": "message", "role": "assistant", "content": []}, search, thought]

    async def loaded(limit: int | None = None) -> list[Any]:
        return [thought, said, {"type": "message", "role": "user", "id": "msg_2", "content": "x"}]

    monkeypatch.setattr(session, "get_items", loaded)
    agent = scripted("fine")
    await Runner.run(agent, "and?", session=session)
    assert [item.get("id") for item in heard(agent)] == ["rs_1", None, "msg_2", None]


async def test_items_expire_after_ten_minutes_unless_told_otherwise() -> None:
    inside = SQLiteSession("user-1", session_settings={"limit": 3})
    session = EncryptedSession("user-1", inside, "my-secret-encryption-key")
    assert session.ttl == 600 and isinstance(session, SessionABC)
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS[1:]
    assert session.session_settings is inside.session_settings
    session.session_settings = SessionSettings()
    assert await session.get_items() == ITEMS


async def test_a_compacting_session_is_known_as_one() -> None:
    session = OpenAIResponsesCompactionSession("talk", SQLiteSession("talk"))
    assert isinstance(session, SessionABC) and isinstance(session, OpenAIResponsesCompactionAwareSession)
    assert is_openai_responses_compaction_aware_session(session)
    assert not is_openai_responses_compaction_aware_session(SQLiteSession("talk"))
    assert not is_openai_responses_compaction_aware_session(None)
    args: OpenAIResponsesCompactionArgs = {"force": False}
    await session.run_compaction(args)


@pytest.mark.parametrize("name", ["AdvancedSQLiteSession", "DaprSession", "MongoDBSession", "RedisSession"])
def test_a_session_that_is_not_here_says_what_to_do(name: str) -> None:
    import assentry.agents.extensions.memory as memory

    with pytest.raises(NotInAssentry, match=f"^{name} is not in Assentry. .*SQLiteSession"):
        getattr(memory, name)
    module = {"AdvancedSQLiteSession": "advanced_sqlite", "MongoDBSession": "mongodb"}.get(name, name[:-7].lower())
    with pytest.raises(NotInAssentry, match="is not in Assentry"):
        importlib.import_module(f"assentry.agents.extensions.memory.{module}_session")
    with pytest.raises(AttributeError):
        memory.NoSuchSession  # noqa: B018


@pytest.mark.parametrize(
    "module", ["session", "session_settings", "util", "sqlite_session", "openai_responses_compaction_session"]
)
def test_every_module_of_the_sdks_memory_has_its_names(module: str) -> None:
    found = importlib.import_module(f"assentry.agents.memory.{module}")
    assert all(hasattr(found, name) for name in found.__all__)
    with pytest.raises(AttributeError):
        found.NoSuchName  # noqa: B018


# -- in a database of SQLAlchemy's -----------------------------------------------------------------


@pytest.fixture
def url(postgres: Any) -> str:
    address: str = postgres.database()
    return address


def engine_of(url: str) -> Any:
    from psycopg.conninfo import conninfo_to_dict
    from sqlalchemy import URL
    from sqlalchemy.ext.asyncio import create_async_engine

    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    made = URL.create("postgresql+psycopg", parts.pop("user", None), database=parts.pop("dbname"), query=parts)
    return create_async_engine(made)


async def test_a_session_of_an_engine_keeps_the_rules(url: str) -> None:
    engine = engine_of(url)
    await check_session(lambda id: SQLAlchemySession(id, engine=engine, create_tables=True))
    session = SQLAlchemySession("user-1", engine=engine, session_settings={"limit": 2})
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS[2:]
    assert not await session.replace_latest(ITEMS[:2], [])
    assert await session.replace_latest(ITEMS[2:], [{"n": 9}])
    assert await session.get_items(9) == [*ITEMS[:2], {"n": 9}]
    agent = scripted("fine")
    await Runner.run(agent, "e", session=SQLAlchemySession("user-2", engine=engine))
    assert len(await SQLAlchemySession("user-2", engine=engine).get_items()) == 2
    await engine.dispose()


async def test_a_database_without_the_tables_says_so(url: str) -> None:
    engine = engine_of(url)
    with pytest.raises(SessionFailed, match="cannot use its database"):
        await SQLAlchemySession("user-1", engine=engine, messages_table="nowhere").get_items()
    await engine.dispose()
    with pytest.raises(UsageError, match="cannot make an engine for this url"):
        SQLAlchemySession.from_url("user-1", url="nothing://here")
    with pytest.raises(UsageError, match="engine must be an AsyncEngine"):
        SQLAlchemySession("user-1", engine="sqlite://")  # type: ignore[arg-type]


# -- with the skin's own runner --------------------------------------------------------------------


def skin_agent(*steps: Any, **options: Any) -> Any:
    return skin.Agent(name="A", model=ScriptedModel(steps), **options)


async def test_input_is_in_the_session_after_a_tripwire_and_guardrails_get_the_history() -> None:
    seen: list[Any] = []

    @skin.input_guardrail
    async def look(ctx: Any, agent: Any, input: Any) -> Any:
        seen.append(words(input))
        return skin.GuardrailFunctionOutput(output_info=None, tripwire_triggered=words(input)[-1] == "bad")

    session = SQLiteSession("user-1")
    agent = skin_agent("hello", "never", input_guardrails=[look])
    await skin.Runner.run(agent, "hi", session=session)
    with pytest.raises(skin.InputGuardrailTripwireTriggered):
        await skin.Runner.run(agent, "bad", session=session)
    assert seen == [["hi"], ["hi", "> hello", "bad"]]
    assert words(await session.get_items()) == ["hi", "> hello", "bad"]


async def test_input_is_in_the_session_after_an_error_of_the_model() -> None:
    async def fails(request: Any) -> Any:
        raise OSError("no model")

    session = SQLiteSession("user-1")
    with pytest.raises(OSError, match="no model"):
        await skin.Runner.run(skin_agent(fails), "hi", session=session)
    assert words(await session.get_items()) == ["hi"]


@pytest.mark.parametrize(
    "settings", [SessionSettings(limit=0), {"limit": 0}, SessionSettings(limit=2), SessionSettings()]
)
async def test_the_settings_of_a_run_go_before_the_sessions(settings: Any) -> None:
    session = SQLiteSession("user-1", session_settings=SessionSettings(limit=1))
    await session.add_items(ITEMS)
    agent = skin_agent("fine")
    await skin.Runner.run(agent, "e", session=session, run_config=skin.RunConfig(session_settings=settings))
    limit = coerce_session_settings(settings).limit
    assert len(heard(agent)) == (2 if limit is None else limit + 1)
