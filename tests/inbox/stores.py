"""What the tests of the inbox share: a store of each kind, with a clock that stands still."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from assentry.inbox import accounts
from assentry.store import MemoryStore, PostgresStore, SQLiteStore, Store
from assentry.testing import FakeClock
from tests.store.postgres import Server

__all__ = ["cheap_hashes", "clock", "each_store"]


@pytest.fixture
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords whose hashes cost little, since tests make hundreds."""
    monkeypatch.setattr(accounts, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    accounts._decoy.cache_clear()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def each_store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    """A store of each kind; the test closes it."""
    if request.param == "memory":
        yield MemoryStore(clock=clock)
    elif request.param == "sqlite":
        yield SQLiteStore(tmp_path / "inbox.db", clock=clock)
    else:
        server: Server = request.getfixturevalue("postgres")
        yield PostgresStore(server.database(), upgrade=True, clock=clock)
