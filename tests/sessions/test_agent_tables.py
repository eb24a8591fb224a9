"""The session in the tables of the OpenAI Agents SDK: its files are read, continued, and left so that it can go on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from assentry import Runner, RunState, SQLiteSession
from assentry.errors import SessionFailed, UsageError
from assentry.sessions.agent_tables import AgentTablesSession
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, check_session
from tests.runtime.support import heard, python, scripted, sending, soon
from tests.sessions.test_session_runs import Died, failed, sends, stored, words

SDK_FILE = """
CREATE TABLE agent_messages (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                session_id TEXT NOT NULL,
                message_data TEXT NOT NULL,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                FOREIGN KEY (session_id) REFERENCES agent_sessions (session_id)
                    ON DELETE CASCADE
            );
INSERT INTO "agent_messages" VALUES(1,'user-1','{"role": "user", "content": "Where is order 7? \\u00e4"}',
    '2026-11-18 06:46:32');
INSERT INTO "agent_messages" VALUES(2,'user-1','{"id": "msg_1", "content": [{"annotations": [], "text": "On its way.",
    "type": "output_text", "logprobs": []}], "role": "assistant", "status": "completed", "type": "message"}',
    '2026-11-18 06:46:32');
CREATE TABLE agent_sessions (
                session_id TEXT PRIMARY KEY,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
            );
INSERT INTO "agent_sessions" VALUES('user-1','2026-11-18 06:46:32','2026-11-18 06:46:32');
INSERT INTO "agent_sessions" VALUES('user-2','2026-11-18 06:46:32','2026-11-18 06:46:32');
CREATE INDEX idx_agent_messages_session_id
            ON agent_messages (session_id, id)
        ;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('agent_messages',3);
"""
"""The dump of a file that openai-agents 0.24 made."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that the SDK made."""
    made = sqlite3.connect(tmp_path / "talk.db")
    made.executescript(SDK_FILE)
    made.close()
    return tmp_path / "talk.db"


def of_sdk(path: Path, session_id: str = "user-1") -> list[Any]:
    """What the SDK reads: the rows in their order, each as JSON."""
    with sqlite3.connect(path) as file:
        rows = file.execute("SELECT message_data FROM agent_messages WHERE session_id = ? ORDER BY id", (session_id,))
        return [json.loads(text) for [text] in rows]


def by_sdk(path: Path, *statements: str) -> None:
    """Do what the SDK does, in a connection of its own."""
    file = sqlite3.connect(path)
    for statement in statements:
        file.execute(statement)
    file.commit()
    file.close()


async def test_a_session_in_the_sdks_tables_keeps_the_rules(tmp_path: Path) -> None:
    await check_session(lambda session_id: AgentTablesSession(session_id, tmp_path / "talk.db"))
    await check_session(AgentTablesSession)
    names = {"sessions_table": "conv", "messages_table": "turns"}
    await check_session(lambda session_id: AgentTablesSession(session_id, tmp_path / "talk.db", **names))  # type: ignore[arg-type]


async def test_a_file_of_the_sdk_is_read_and_continued_for_both(path: Path) -> None:
    session = AgentTablesSession("user-1", path)
    before = await session.get_items()
    assert words(before) == ["Where is order 7? ä", "> On its way."] and before == of_sdk(path)
    agent = scripted("On Friday.")
    await Runner.run(agent, "When?", session=session)
    assert words(heard(agent)) == ["Where is order 7? ä", "> On its way.", "When?"]
    assert words(of_sdk(path)) == ["Where is order 7? ä", "> On its way.", "When?", "> On Friday."]
    by_sdk(path, """INSERT INTO agent_messages (session_id, message_data) VALUES ('user-1', '{"role": "user"}')""")
    assert await session.get_items(1) == [{"role": "user"}]
    assert await session.pop_item() == {"role": "user"}
    assert await AgentTablesSession("user-2", path).get_items() == []
    with sqlite3.connect(path) as file:
        [[updated]] = file.execute("SELECT updated_at FROM agent_sessions WHERE session_id = 'user-1'")
    assert updated != "2026-11-18 06:46:32"


async def test_a_cleared_session_is_gone_for_both(path: Path) -> None:
    session = AgentTablesSession("user-1", path)
    await Runner.run(scripted("done"), "go", session=session)
    await session.clear_session()
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT session_id FROM agent_sessions").fetchall() == [("user-2",)]
        assert file.execute("SELECT count(*) FROM assentry_places_agent_messages").fetchone() == (0,)
    assert of_sdk(path) == []


class Dying(AgentTablesSession):
    """A session whose process dies after a write."""

    dies = False

    async def write(self, run_id: str, position: int, items: list[Any]) -> None:
        await super().write(run_id, position, items)
        if self.dies:
            raise Died


async def test_a_crash_between_writing_and_knowing_it_stores_nothing_twice(path: Path) -> None:
    session = Dying("user-1", path)
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    text = state.to_string()
    session.dies = True
    await failed(Runner.run(agent, state, session=session), Died)
    session.dies = False
    await Runner.run(agent, await RunState.from_string(agent, text), session=session)
    assert (await stored(session))[2:] == ["go", "call ann", "out ann", "> done"]
    agent.model = ScriptedModel(["so"])  # from the old save again, and with another end
    await Runner.run(agent, await RunState.from_string(agent, text), session=session)
    assert (await stored(session))[2:] == ["go", "call ann", "out ann", "> so"]


async def test_what_the_sdk_removed_is_stored_again_and_removes_nothing_else(path: Path) -> None:
    session = AgentTablesSession("user-1", path)
    await session.write("run", 0, [{"n": 0}, {"n": 1}])
    by_sdk(
        path,
        """DELETE FROM agent_messages WHERE message_data = '{"n":1}'""",
        """INSERT INTO agent_messages (session_id, message_data) VALUES ('user-1', '{"by": "sdk"}')""",
    )
    await session.write("run", 1, [{"n": 1}])
    await session.write("run", 0, [{"n": 0}, {"n": 1}])
    assert (await session.get_items())[2:] == [{"n": 0}, {"by": "sdk"}, {"n": 1}]


async def test_both_programs_write_at_once_and_lose_nothing(path: Path) -> None:
    """The SDK is another process here, which writes as it does."""
    program = f"""
import sqlite3
for n in range(10):
    file = sqlite3.connect({str(path)!r}, timeout=60)
    file.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('user-1', '{{\\"by\\": \\"sdk\\"}}')")
    file.commit(); file.close()
"""
    other = asyncio.create_task(asyncio.to_thread(python, program))
    session = AgentTablesSession("user-1", path, busy_timeout=60)
    for n in range(10):
        await session.write("run", 2 * n, [{"n": n}, {"n": n}])
    done = await soon(other)
    assert done.stderr == ""
    items = (await session.get_items())[2:]
    assert len(items) == 30
    ours = [item["n"] for item in items if "n" in item]
    assert ours == [n for n in range(10) for _ in range(2)]
    both = [at for at, item in enumerate(items) if "n" in item]
    assert all(b - a == 1 for a, b in zip(both[::2], both[1::2], strict=True)), "what is written at once stays together"


async def test_a_killed_process_leaves_all_of_a_write_or_nothing(path: Path) -> None:
    program = f"""
import asyncio, os
from assentry.sessions.agent_tables import AgentTablesSession

class Killed(AgentTablesSession):
    def _append_of_run(self, connection, here, texts):
        super()._append_of_run(connection, here, texts)
        os._exit(7)

session = Killed("user-1", {str(path)!r})
asyncio.run(session.write("run", 0, [{{"n": 0}}, {{"n": 1}}]))
"""
    done = await asyncio.to_thread(python, program)
    assert done.returncode == 7, done.stderr
    session = AgentTablesSession("user-1", path)
    assert len(await session.get_items()) == 2
    await session.write("run", 0, [{"n": 0}, {"n": 1}])
    assert (await session.get_items())[2:] == [{"n": 0}, {"n": 1}]


async def test_a_session_that_is_given_another_id_goes_on_with_another_conversation(path: Path) -> None:
    session = AgentTablesSession("user-2", path)
    session.session_id = "user-1"
    assert len(await session.get_items()) == 2
    with pytest.raises(UsageError, match="session_id must be text"):
        session.session_id = ""
    assert session.session_id == "user-1"


async def test_each_kind_of_session_leaves_the_others_file_and_says_so(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SessionFailed, match=r"Go on with them by the SQLiteSession of assentry\.agents"):
        await SQLiteSession("user-1", path).get_items()
    assert len(of_sdk(path)) == 2
    own = SQLiteSession("user-1", tmp_path / "own.db")
    await own.add_items([{"role": "user", "content": "hi"}])
    with pytest.raises(SessionFailed, match="Go on with them by `from assentry import SQLiteSession`"):
        await AgentTablesSession("user-1", tmp_path / "own.db").get_items()
    assert len(await own.get_items()) == 1


async def test_a_table_that_is_not_the_sdks_is_left_as_it_is(tmp_path: Path) -> None:
    by_sdk(tmp_path / "a.db", "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data)")
    by_sdk(tmp_path / "b.db", "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)")
    for name in ("a.db", "b.db"):
        with pytest.raises(SessionFailed, match="is not one of the Agents SDK's"):
            await AgentTablesSession("user-1", tmp_path / name).get_items()
    by_sdk(tmp_path / "c.db", "CREATE TABLE orders (id INTEGER)")
    session = AgentTablesSession("user-1", tmp_path / "c.db")
    await session.add_items([{"role": "user", "content": "beside other tables"}])
    assert len(await session.get_items()) == 1


async def test_a_store_and_a_session_share_a_file(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "all.db")
    session = AgentTablesSession("user-1", tmp_path / "all.db")
    result = await Runner.run(scripted("hello"), "hi", store=store, session=session)
    assert await stored(session) == ["hi", "> hello"]
    assert (await store.load(result.run_id)) is not None
    await store.close()


@pytest.mark.parametrize("name", ["", "a b", "x;DROP TABLE y", "1st", None, 3])
def test_a_tables_name_is_a_name(name: Any) -> None:
    with pytest.raises(UsageError, match="messages_table must be a table's name"):
        AgentTablesSession("s", messages_table=name)
    with pytest.raises(UsageError, match="two tables"):
        AgentTablesSession("s", messages_table="Same", sessions_table="same")


async def test_the_latest_items_are_replaced_at_once_or_not_at_all(path: Path, tmp_path: Path) -> None:
    kinds = (AgentTablesSession("user-3", path), SQLiteSession("user-3", tmp_path / "own.db"))
    for session in kinds:
        items = [{"n": n} for n in range(4)]
        await session.add_items(items)
        assert not await session.replace_latest([{"n": 1}, {"n": 2}], [])
        assert not await session.replace_latest([], [{"n": 9}])
        assert await session.replace_latest([{"n": 2}, {"n": 3}], [{"n": 9}])
        assert await session.get_items() == [{"n": 0}, {"n": 1}, {"n": 9}]
