"""The session in a Postgres database."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

from ..core import allowed
from ..core.wording import install_hint
from ..errors import UsageError
from .stored import SESSION_ID, Shared, Statements, StoredSession, Work, share

if TYPE_CHECKING:
    from .postgres_server import SessionServer

R = TypeVar("R")

TIMEOUT = allowed.Values(
    "a number of seconds above zero, at most 2,000,000",
    lambda value: type(value) in (int, float) and 0 < value <= 2_000_000,
)


class PostgresSession(StoredSession):
    """A conversation in a Postgres database. Needs `pip install ".[postgres]"`.

    The url has libpq's format: `postgresql://user:password@host/database`. Any number of sessions,
    threads, event loops and processes may use one database at once, and a `PostgresStore` may use it too; sessions
    with different ids do not see each other's items. Nothing is opened before the first use, which creates the tables
    if there are none; after a fork, make a new session. A server that is unreachable, refuses a call, or makes it wait
    for a connection or a lock for longer than `timeout` (in seconds) raises `SessionFailed`, which says what to do; the
    next call opens a new connection.
    """

    _table = "assentry_session_items"
    _sql = Statements(
        *(text.replace("assentry_items", "assentry_session_items").replace("?", "%s") for text in Statements())
    )
    _shared: Shared[SessionServer]

    def __init__(self, session_id: str, url: str, *, timeout: float = 10.0) -> None:
        allowed.check_option(type(self).__name__, "session_id", session_id, SESSION_ID, UsageError)
        try:
            from .postgres_server import SessionServer, address, shown  # imports psycopg
        except ImportError as error:
            raise UsageError(
                f"PostgresSession needs psycopg, which is not installed ({error}): {install_hint('postgres')}"
            ) from error
        allowed.check_option("PostgresSession", "timeout", timeout, TIMEOUT, UsageError)
        self._timeout = timeout
        where = address(url, self._timeout)
        shared = share(where, lambda: SessionServer(where))
        super().__init__(session_id, shown(where), shared, shared.number + _lock(self._stored_key(session_id)))

    @property
    def _lock(self) -> int:
        return _lock(self._key)

    def _use(self, work: Work[R], *, writes: bool) -> tuple[R, Any]:
        return self._shared.connections.use(work, self._timeout, self._known, lock=self._lock, writes=writes)

    def _stored_key(self, text: str) -> str:
        """Return a text as stored: unchanged, or its digest if it is too long for an index or has a NUL."""
        data = text.encode()
        if len(data) <= 200 and b"\0" not in data and not text.startswith("sha256:"):
            return text
        return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _lock(key: str) -> int:
    """Return the number of a session's advisory lock. Two sessions with one number only wait for each other."""
    return int.from_bytes(hashlib.sha256(f"assentry session {key}".encode()).digest()[:8], signed=True)
