"""The store's SQLite file: its tables, and the messages of its errors. All of it blocks."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING

from ...errors import StoreFailed
from ...sql.sqlite_connection import STORE, FileUnusable, SQLiteFile, begin_file, explain_sqlite, header
from .schema import VERSION, VERSION_TABLE, too_new

if TYPE_CHECKING:
    from sqlalchemy import Connection


log = logging.getLogger("assentry")


class StoreFile(SQLiteFile):
    """A store's file."""

    remedy = "Put it back, or make a new store"

    def __init__(self, path: str, busy_timeout: float) -> None:
        super().__init__(path, busy_timeout, f"The store in {path}")

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create or migrate the tables; raise `FileUnusable` if the file is another program's."""
        connection.execute("BEGIN")  # one snapshot for all that is read here
        application, _ = header(connection)
        version = _version(connection)
        connection.execute("COMMIT")
        if not application:
            begin_file(connection)
        if version != VERSION and _upgrade(connection) and version:
            log.warning(
                "Upgraded the store in %s from schema version %d to %d. Processes of an older Assentry cannot write to "
                "it any more; restart them with the newer one",
                self.path,
                version,
                VERSION,
            )

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `FileUnusable` unless the tables are those that this Assentry knows."""
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise FileUnusable(too_new(version))
        if version != VERSION:
            raise FileUnusable(f"it has the older schema version {version} now. Try again, which upgrades it")

    def failure(self, error: Exception, *, unknown: bool = False) -> StoreFailed:
        """Return the error for the store's user; `unknown` if the change may have been written."""
        written = "It is not known whether the change was written" if unknown else "Nothing was written"
        failed = StoreFailed(f"The store cannot use {self.path}: {explain_sqlite(error)}. {written}.")
        failed.unknown = unknown
        return failed

    def traces(self, done: str, error: Exception | None = None) -> StoreFailed:
        """Return the error for deleted content that the log still has."""
        why = "another connection reads it" if error is None else str(error)
        failed = StoreFailed(
            f"{done}, but {self.path}-wal still has what was in it: {why}. When nobody reads the file, do it again, or "
            "run `assentry db vacuum`."
        )
        failed.unknown = True
        return failed


def _upgrade(connection: sqlite3.Connection) -> bool:
    """Run the missing migrations in one transaction; return False if another process was first."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import StaticPool

    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool, pool_reset_on_return=None)
    try:
        with engine.connect() as opened, opened.begin():
            opened.exec_driver_sql("BEGIN IMMEDIATE")  # only here, since a new engine begins with a rollback
            missing = _version(connection) != VERSION
            if missing:
                _run(opened, _version(connection))
                opened.exec_driver_sql(f"PRAGMA application_id={STORE}")
                opened.exec_driver_sql(f"PRAGMA user_version={VERSION}")
            return missing
    except DBAPIError as error:
        raise error.orig or error from error


def _run(opened: Connection, version: int) -> None:
    """Run the migrations. The version is in the file's header; Alembic's version table exists only meanwhile."""
    from .migrating import upgrade

    if version:
        opened.exec_driver_sql(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)")
        opened.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{version:04}')")
    upgrade(opened)
    opened.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")


def _version(connection: sqlite3.Connection) -> int:
    """Return the version of the store's tables, 0 if there are none; raise `FileUnusable` for one that is too new."""
    application, version = header(connection)
    if application != STORE:
        return 0  # an empty file, or one that has only the tables of sessions
    if version > VERSION:
        raise FileUnusable(too_new(version))
    return version
