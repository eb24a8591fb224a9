"""The tables of sessions in a Postgres database, and the connections that its sessions share.

The only module of `sessions` that imports `psycopg`; the first `PostgresSession` imports it.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ..sql.pool import PooledConnection
from ..sql.postgres_connection import DatabaseUnusable, Server, conninfo, explain_postgres
from .stored import SessionFailure, Work

R = TypeVar("R")

CONNECTIONS = 4
"""The most connections of a process to one database."""
VERSION = 1
MAKING = 0x417353655353
"""The advisory lock held while the tables are created."""
TABLES = (
    # `run` and `position` are an item's run and its number there; items from `add_items` have neither. An item is text,
    # since jsonb would lose the order of keys and refuse a NUL.
    "CREATE TABLE assentry_session_items (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    ' session TEXT COLLATE "C" NOT NULL, run TEXT COLLATE "C", position BIGINT, item TEXT NOT NULL)',
    "CREATE INDEX assentry_session_items_of_session ON assentry_session_items (session, seq)",
    "CREATE UNIQUE INDEX assentry_session_items_of_run ON assentry_session_items (session, run, position)"
    " WHERE run IS NOT NULL",
    # The tables' own id: they may be dropped, and created again by another process.
    "CREATE TABLE assentry_session_schema (version INTEGER NOT NULL, tables UUID NOT NULL)",
    f"INSERT INTO assentry_session_schema VALUES ({VERSION}, gen_random_uuid())",
)
RENAMED = (  # tables that were made under the earlier name, Assent; who may use them still may
    # From here on, look and create only where the tables are: the search path may have another schema before.
    "SELECT set_config('search_path', relnamespace::regnamespace::text, true)"
    " FROM pg_class WHERE oid = 'assent_session_schema'::regclass",
    "ALTER TABLE assent_session_schema RENAME TO assentry_session_schema",
    "ALTER TABLE assent_session_items RENAME TO assentry_session_items",
    "ALTER INDEX assent_session_items_pkey RENAME TO assentry_session_items_pkey",
    "ALTER SEQUENCE assent_session_items_seq_seq RENAME TO assentry_session_items_seq_seq",
    "ALTER INDEX assent_session_items_of_session RENAME TO assentry_session_items_of_session",
    "ALTER INDEX assent_session_items_of_run RENAME TO assentry_session_items_of_run",
)
TURN_AWAY = (  # a program under the earlier name finds a version that it does not know, and makes no tables of its own
    "CREATE TABLE IF NOT EXISTS assent_session_schema (version INTEGER NOT NULL, tables UUID NOT NULL)",
    f"INSERT INTO assent_session_schema SELECT {VERSION + 1}, tables FROM assentry_session_schema"
    " WHERE NOT EXISTS (SELECT FROM assent_session_schema)",
    "GRANT SELECT ON assent_session_schema TO PUBLIC",
)
# The order of a session's items is the order in which writers acquire this lock. In READ COMMITTED, and only there, a
# statement sees everything committed before it began; so statements after the lock see all earlier writes under it.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {milliseconds}"
LOCK = (
    # A run never stores a confirmed item again, so the item must survive a power cut. A pooler such as PgBouncer may
    # use another server connection for each transaction, so the setting is the transaction's own.
    "; SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';"
    " SELECT pg_advisory_xact_lock({lock})"
)
GRANT = (
    ". Its user needs the right to create tables in the schema once, and to read and write assentry_session_items and "
    "assentry_session_schema"
)
SHOWN = ("service", "host", "hostaddr", "port", "user", "dbname")
"""The parts of an address that errors show. The password is not among them."""


class TablesGone(DatabaseUnusable):
    """The tables that were used before no longer exist."""


class SessionServer(Server):
    """A database with the tables of sessions, and perhaps with those of a store."""

    def __init__(self, address: str) -> None:
        super().__init__(address, CONNECTIONS, f"The session in {shown(address)}")

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection on which nothing stays from one transaction to the next, for the sake of poolers."""
        connection = super().connect()
        connection.prepare_threshold = None
        return connection

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Create the tables if there are none."""
        if _has_tables(connection):
            return
        try:
            with connection.transaction():
                connection.execute(f"SELECT pg_advisory_xact_lock({MAKING})".encode())
                making = RENAMED if _has_tables(connection, "assent_session_items") else TABLES
                for statement in () if _has_tables(connection) else (*making, *TURN_AWAY):
                    connection.execute(statement.encode())
        except psycopg.errors.DuplicateTable:
            if _has_tables(connection):  # another process made them meanwhile
                return
            raise DatabaseUnusable(
                "it has a table assentry_session_items of another program; it was left as it is. Name another database "
                "in the address, or another schema (?options=-csearch_path%3Dname)"
            ) from None

    def failure(self, error: Exception, *, unknown: bool = False) -> SessionFailure:
        """Return the error; after one about tables that are gone, the next use may create others."""
        gone = isinstance(error, TablesGone)
        if gone:
            self.check_again()
        denied = isinstance(error, psycopg.errors.InsufficientPrivilege)
        return SessionFailure(explain_postgres(error) + (GRANT if denied else ""), gone=gone, unknown=unknown)

    def use(self, work: Work[R], timeout: float, known: UUID | None, *, lock: int, writes: bool) -> tuple[R, UUID]:
        """Run `work` in a transaction, under the advisory lock if it writes; return its result and the tables' id.

        `known` is the id of the tables that were used before. Raises `SessionFailure` if they are gone.
        """
        begin = BEGIN.format(milliseconds=max(1, round(timeout * 1000)))

        def checked(link: PooledConnection) -> tuple[R, UUID]:
            tables = _tables(link.connection)
            if known not in (None, tables):
                raise _gone()
            return work(link.connection), tables

        return self.do(checked, begin + LOCK.format(lock=lock) if writes else begin, writes=writes)


def address(url: Any, timeout: float) -> str:
    """Return an address in libpq's form. Every part of it that is not given has its default."""
    return conninfo(url, connect_timeout=str(max(2, math.ceil(timeout))), client_encoding="UTF8")


def shown(address: str) -> str:
    """Return the parts of an address that may be shown."""
    parts = conninfo_to_dict(address)
    return " ".join(["Postgres", *(f"{name}={parts[name]}" for name in SHOWN if name in parts)])


def _has_tables(connection: psycopg.Connection[Any], table: str = "assentry_session_schema") -> bool:
    row = connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()
    return row is not None and row[0] is not None


def _tables(connection: psycopg.Connection[Any]) -> UUID:
    """Return the id of the tables."""
    try:
        row = connection.execute("SELECT version, tables FROM assentry_session_schema").fetchone()
    except psycopg.errors.UndefinedTable:
        raise _gone() from None
    if row is None:
        raise DatabaseUnusable("its table assentry_session_schema is empty. Restore it from a copy")
    version, tables = row
    if version != VERSION:
        raise DatabaseUnusable(
            f"it has schema version {version} of sessions, and this Assentry knows {VERSION}. "
            "Use the Assentry that made it"
        )
    return UUID(str(tables))


def _gone() -> TablesGone:
    return TablesGone(
        "its tables were removed or replaced while they were in use, and what was stored in them is gone with them. "
        "Put them back, or call again to go on with what is there"
    )
