"""Sessions that are stored encrypted: what is there can be read with the key alone, and a wrong key loses nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from assentry import EncryptedSession, Runner, RunState, SQLiteSession
from assentry.errors import InvalidInput, SessionFailed, UsageError
from assentry.sessions.openai_compaction import OpenAIResponsesCompactionSession
from assentry.testing import check_session
from tests.runtime.support import heard, scripted, sending
from tests.sessions.test_session_runs import Died, Exact, Plain, failed, sends, stored, words

KEY = "IvsQIDgL3pEOjdp3AMX3v0XQsYH9nC4ySlNaWEdOlYc="
HI = {"role": "user", "content": "hi"}
BY_SDK = (
    (
        "my-secret-encryption-key",
        "gAAAAABq_U0otyToWXpBnH_0rpGpbQgO0JJa48J-VWAi7XQiWWWlOHdJ_ISEiqnRwBxQmy5jIDXIRxN1NuWL7Y6DsPkjc3VpUSTMatkrkl3YuVg"
        "COiLEd7cAfEIeztZQbJLZJSzIUQ7I",
        "Hello ä",
    ),
    (
        KEY,
        "gAAAAABq_U0oN_UcyO6kIU6yUp0VK2LcF6RJvA3ER1aek1TaUCpB0M5Z7rhdrICIc-6qjIAUC56BxT8u1CBYOD153Y0eqMG5YDTIqCXsD_aB-0n2"
        "nK1E7Z66u63IA6PRQN9Q02qeC0Un",
        "Hello",
    ),
)
"""Keys, and what openai-agents 0.24 encrypted with them for the session "user-1"."""


def envelope(session: EncryptedSession, item: Any, age: int = 0) -> dict[str, Any]:
    """An item as it was stored some seconds ago."""
    token = session.cipher.encrypt_at_time(json.dumps(item).encode(), int(time.time()) - age).decode()
    return {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": token}


@pytest.fixture(params=[Plain, Exact])
def inside(request: pytest.FixtureRequest) -> Any:
    return request.param("user-1")


async def test_an_encrypted_session_keeps_the_rules(tmp_path: Path) -> None:
    await check_session(lambda id: EncryptedSession(id, SQLiteSession(id, tmp_path / "s.db"), KEY))
    await check_session(lambda id: EncryptedSession(id, Plain(id), KEY, ttl=600))


async def test_a_run_hears_what_was_said_and_nothing_of_it_is_stored_in_clear(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY)
    agent = scripted("secret answer", "so")
    await Runner.run(agent, "secret question", session=session)
    await Runner.run(agent, "and?", session=session)
    assert words(heard(agent)) == ["secret question", "> secret answer", "and?"]
    raw = await inside.get_items()
    assert [sorted(item) for item in raw] == [["__enc__", "kid", "payload", "v"]] * 4
    assert "secret" not in json.dumps(raw)


@pytest.mark.parametrize(("key", "payload", "text"), BY_SDK)
async def test_what_the_sdk_encrypted_is_read(key: str, payload: str, text: str, inside: Any) -> None:
    await inside.add_items([{"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": payload}])
    assert await EncryptedSession("user-1", inside, key).get_items() == [{"role": "user", "content": text}]


async def test_a_wrong_key_is_an_error_and_nothing_is_lost(inside: Any) -> None:
    await EncryptedSession("user-1", inside, KEY).add_items([HI])
    raw = await inside.get_items()
    for wrong in (
        EncryptedSession("user-1", inside, Fernet.generate_key().decode()),
        EncryptedSession("user-2", inside, KEY),
        EncryptedSession("user-1", inside, "other", ttl=1),
    ):
        for use in (wrong.get_items, lambda wrong=wrong: wrong.get_items(1), wrong.pop_item):  # type: ignore[misc]
            with pytest.raises(SessionFailed, match="encryption_key does not fit"):
                await use()
        with pytest.raises(SessionFailed, match="encryption_key does not fit"):
            await Runner.run(scripted("never"), "and?", session=wrong)
    assert await inside.get_items() == raw
    assert await EncryptedSession("user-1", inside, KEY).get_items() == [HI]


async def test_a_damaged_item_is_an_error(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY)
    for payload in ("", "gAAAA", 3, session.cipher.encrypt(b"[1]").decode(), session.cipher.encrypt(b"{").decode()):
        await inside.clear_session()
        await inside.add_items([{"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": payload}])
        with pytest.raises(SessionFailed, match="or is damaged"):
            await session.get_items()


async def test_items_expire_and_are_counted_neither_by_a_limit(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY, ttl=600)
    old = [envelope(session, {"n": n}, age=3600) for n in range(5)]
    await inside.add_items([*old[:2], envelope(session, {"n": 5}), *old[2:], envelope(session, {"n": 6}, age=590)])
    assert await session.get_items() == [{"n": 5}, {"n": 6}]
    assert await session.get_items(2) == [{"n": 5}, {"n": 6}]
    assert await session.get_items(1) == [{"n": 6}]
    assert await session.get_items(0) == []
    assert len(await EncryptedSession("user-1", inside, KEY).get_items()) == 7, "without a ttl they are still there"
    assert await session.pop_item() == {"n": 6}
    assert await session.pop_item() == {"n": 5}
    assert await session.pop_item() is None


async def test_a_call_whose_output_expired_is_not_heard(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY, ttl=600)
    await inside.add_items(
        [
            envelope(session, HI, age=3600),
            envelope(session, {"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"}, age=3600),
            envelope(session, {"type": "function_call_output", "call_id": "a", "output": "y"}),
        ]
    )
    agent = scripted("fine")
    await Runner.run(agent, "and now?", session=session)
    assert words(heard(agent)) == ["and now?"]


async def test_items_in_clear_are_left_out_and_stay(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY)
    await inside.add_items([HI, {"__enc__": 1}])
    assert await session.get_items() == []
    with pytest.raises(SessionFailed, match="is not encrypted, so it was not removed"):
        await session.pop_item()
    assert len(await inside.get_items()) == 2


async def test_a_scan_has_its_limit(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY, ttl=600, max_scan_items=3)
    await inside.add_items([envelope(session, {"n": n}, age=3600) for n in range(3)])
    assert await session.get_items() == []
    await session.add_items([{"n": 4}])
    assert await session.get_items(1) == [{"n": 4}]
    for limit in (None, 2):
        with pytest.raises(SessionFailed, match="max_scan_items=3"):
            await session.get_items(limit)


async def test_a_crash_between_writing_and_knowing_it_stores_nothing_twice() -> None:
    inside = Exact("user-1")
    session = EncryptedSession("user-1", inside, KEY)
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    text = state.to_string()
    inside.fails_after = [Died()]
    await failed(Runner.run(agent, state, session=session), Died)
    assert await stored(session) == ["go", "call ann", "out ann"]
    await Runner.run(agent, await RunState.from_string(agent, text), session=session)
    assert await stored(session) == ["go", "call ann", "out ann", "> done"]


async def test_the_latest_items_are_replaced_and_expired_ones_between_them_go(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY, ttl=600)
    await inside.add_items(
        [envelope(session, {"n": 0}), envelope(session, {"n": 1}, 3600), envelope(session, {"n": 2})]
    )
    assert not await session.replace_latest([{"n": 2}, {"n": 0}], [])
    assert await session.replace_latest([{"n": 0}, {"n": 2}], [{"n": 9}])
    assert await session.get_items() == [{"n": 9}]
    assert "n" not in (await inside.get_items())[0]


async def test_what_only_the_session_inside_has_is_its_own() -> None:
    inside = SQLiteSession("user-1")
    session = EncryptedSession("user-1", inside, KEY)
    session.close()
    with pytest.raises(SessionFailed, match="was closed"):
        await session.get_items()
    with pytest.raises(AttributeError):
        session._nothing  # noqa: B018
    assert repr(session) == "EncryptedSession('user-1', SQLiteSession('user-1', ':memory:'))"


async def test_what_json_cannot_say_is_refused(inside: Any) -> None:
    session = EncryptedSession("user-1", inside, KEY)
    for bad in ([{"x": object()}], "text", [1]):
        with pytest.raises(InvalidInput, match="Nothing was stored"):
            await session.add_items(bad)  # type: ignore[arg-type]
    assert await inside.get_items() == []


def test_bad_options_are_refused_and_the_key_is_not_shown() -> None:
    inside = SQLiteSession("user-1")
    with pytest.raises(UsageError, match="encryption_key must be text") as caught:
        EncryptedSession("user-1", inside, b"planted secret")  # type: ignore[arg-type]
    assert "planted" not in str(caught.value)
    with pytest.raises(UsageError, match="session_id"):
        EncryptedSession("", inside, KEY)
    with pytest.raises(UsageError, match="ttl"):
        EncryptedSession("user-1", inside, KEY, ttl=-1)
    with pytest.raises(UsageError, match="max_scan_items"):
        EncryptedSession("user-1", inside, KEY, max_scan_items=0)
    with pytest.raises(UsageError, match="underlying_session must be a session"):
        EncryptedSession("user-1", "talk.db", KEY)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Put it outside"):
        EncryptedSession("user-1", OpenAIResponsesCompactionSession("user-1", inside), KEY)
