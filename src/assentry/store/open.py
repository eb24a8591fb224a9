"""Opening a store by its address, without importing the databases that are not used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ..core.wording import install_hint
from ..errors import UsageError

if TYPE_CHECKING:
    from .postgres import PostgresStore
    from .sql.store import SQLStore
    from .sqlite import SQLiteStore

POSTGRES = ("postgresql", "postgres")


def open_store(url: str, *, create: bool = True, upgrade: bool = False) -> SQLStore:
    """Return the store at an address: `postgresql://...`, `sqlite:///runs.db`, or the path of an SQLite file.

    An SQLite address is `sqlite:///` and a path. `sqlite:///runs.db` is relative to the working directory,
    `sqlite:////var/lib/runs.db` is absolute.

    Args:
        url: The address.
        create: True to create an SQLite file that does not exist; False to raise `UsageError`.
        upgrade: True to create the tables of a Postgres database on first use, if there are none. Older tables are
            migrated by `assentry db upgrade` alone. Those of an SQLite file are always migrated.
    """
    if type(url) is not str or not url:
        raise UsageError(f"A store's address is text, such as sqlite:///runs.db, got {url!r:.80}.")
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme.partition("+")[0] in POSTGRES:  # SQLAlchemy's form, such as postgresql+psycopg, too
        return postgres_store()(url, upgrade=upgrade)
    if scheme not in ("", "sqlite"):
        raise UsageError(f"There is no store for {scheme!r:.40}; give postgresql://..., sqlite:///file.db, or a path.")
    path = _path(url) if scheme else url
    if not create and not os.path.exists(path):
        raise UsageError(f"There is no file {path!r}; `assentry db upgrade` makes it.")
    return sqlite_store()(path)


def _path(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or len(parts.path) < 2:
        raise UsageError(f"The address of an SQLite file is sqlite:///file.db or sqlite:////path/file.db, got {url!r}.")
    return unquote(parts.path[1:])


def sqlite_store() -> type[SQLiteStore]:
    """Return the class of the stores in SQLite; raise `UsageError` if what it needs is not installed."""
    try:
        from .sqlite import SQLiteStore
    except ImportError as error:
        raise UsageError(f"A store in SQLite needs more ({error}): {install_hint('store')}") from None
    return SQLiteStore


def postgres_store() -> type[PostgresStore]:
    """Return the class of the stores in Postgres; raise `UsageError` if what it needs is not installed."""
    try:
        from .postgres import PostgresStore
    except ImportError as error:
        raise UsageError(f"A store in Postgres needs more ({error}): {install_hint('postgres')}") from None
    return PostgresStore
