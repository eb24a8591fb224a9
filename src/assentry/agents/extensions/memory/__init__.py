"""The names of `agents.extensions.memory`, each imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ...absent import not_here

if TYPE_CHECKING:
    from .async_sqlite_session import AsyncSQLiteSession
    from .encrypt_session import EncryptedSession
    from .sqlalchemy_session import SQLAlchemySession

__all__ = ["AsyncSQLiteSession", "EncryptedSession", "SQLAlchemySession"]

_HOMES = {
    "AsyncSQLiteSession": "async_sqlite_session",
    "EncryptedSession": "encrypt_session",
    "SQLAlchemySession": "sqlalchemy_session",
}

ELSEWHERE = "Keep sessions in a file with SQLiteSession, or in a database with assentry.PostgresSession"
ADVANCED = "SQLiteSession keeps one course of a conversation; a store has each run with its journal and usage"
ABSENT = {
    "AdvancedSQLiteSession": ADVANCED,
    "DAPR_CONSISTENCY_EVENTUAL": ELSEWHERE,
    "DAPR_CONSISTENCY_STRONG": ELSEWHERE,
    "DaprSession": ELSEWHERE,
    "MongoDBSession": ELSEWHERE,
    "RedisSession": ELSEWHERE,
}
"""The reason that a name is not here, and the thing to do, by the name."""


def _find(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        return value
    if name in ABSENT:
        raise not_here(name, ABSENT[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:
    __getattr__ = _find
