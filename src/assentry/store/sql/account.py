"""The tables, rows and seals of users, API tokens and sign-ins. Passwords and secrets are hashed before they come here.

The tables are those of a store in SQL. A `MemoryStore` gets the same tables in memory, so that there is one set of
statements. The seals are checked by `assentry db verify`. They are in no journal: a change by somebody who also
recomputes the seal is not found, nor is a row that was deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from sqlalchemy import Column, Table, Text, bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import insert as insert_new  # its ON CONFLICT is the same in SQLite
from sqlalchemy.schema import CreateTable

from ...errors import UnreadableState
from .schema import Big, Id, metadata
from .seal import seal_of_columns
from .statement import SQLITE, Statement, Transaction

R = TypeVar("R")
Work = Callable[[Transaction], R]


users = Table(
    "assentry_users",
    metadata,
    Column("name", Id, primary_key=True),
    Column("role", Text, nullable=False),
    Column("groups", Text),
    Column("password", Text),
    Column("stamp", Text, nullable=False),
    Column("made", Big, nullable=False),
    Column("disabled_at", Big, key="disabled"),
    Column("seal", Text),
)

tokens = Table(
    "assentry_tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Id, nullable=False),
    Column("role", Text, nullable=False),
    Column("groups", Text),
    Column("hash", Text, nullable=False),
    Column("made", Big, nullable=False),
    Column("until", Big),
    Column("used", Big),
    Column("revoked_at", Big, key="revoked"),
    Column("seal", Text),
)

signins = Table(
    "assentry_signins",
    metadata,
    Column("hash", Id, primary_key=True),
    Column("user", Id, nullable=False),
    Column("stamp", Text, nullable=False),
    Column("csrf", Text, nullable=False),
    Column("made", Big, nullable=False),
    Column("seen", Big, nullable=False),
    Column("until", Big, nullable=False),
)


# -- seals --------------------------------------------------------------------------------------------


AccountKind = Literal["user", "token"]
SEALED_COLUMNS: dict[AccountKind, tuple[str, ...]] = {
    "user": ("name", "role", "groups", "password", "stamp", "made", "disabled"),
    "token": ("id", "name", "role", "groups", "hash", "made", "until", "revoked"),
}
"""The columns of users and tokens that their seals cover. The time of a token's last use is not covered."""


def account_seal(kind: AccountKind, columns: Mapping[str, Any]) -> str:
    """Return the seal of a user's or a token's row."""
    return seal_of_columns([kind, *(columns[name] for name in SEALED_COLUMNS[kind])])


def is_sealed_account(kind: AccountKind, columns: Mapping[str, Any]) -> bool:
    """Return True if the row of a user or a token matches its seal."""
    try:
        return bool(columns["seal"] == account_seal(kind, columns))
    except (TypeError, ValueError):  # text that UTF-8 cannot hold, or a value that JSON cannot
        return False


_TABLES: dict[AccountKind, Table] = {"user": users, "token": tokens}
_REMEDIES: dict[AccountKind, str] = {
    "user": "See that the role and the groups are right: `assentry users change` sets them, and seals the row anew.",
    "token": "Revoke it, and make another.",
}
ALL_ROWS = {kind: Statement(select(table).order_by(*table.primary_key)) for kind, table in _TABLES.items()}
SIGNED_IN = Statement(
    select(signins.c.user)
    .distinct()
    .where(~select(users.c.name).where(users.c.name == signins.c.user).exists())
    .order_by(signins.c.user)
)


def changed_accounts(transaction: Transaction) -> list[str]:
    """Return one sentence for each user and token that was not written by the store, and each sign-in of nobody."""
    said = []
    for kind, table in _TABLES.items():
        for row in transaction.rows(ALL_ROWS[kind]):
            columns = dict(zip(table.c.keys(), row, strict=True))
            if not is_sealed_account(kind, columns):
                role = columns["role"]
                said.append(
                    f"The row of {kind} {row[0]!r}, with the role {role!r}, is not what was written. {_REMEDIES[kind]}"
                )
    for (user,) in transaction.rows(SIGNED_IN):
        said.append(f"There is a sign-in of {user!r}, and no such user.")
    return said


# -- rows and statements ------------------------------------------------------------------------------


def _set(table: Table, key: str, *columns: str) -> Statement:
    """Return the update of these columns of the row with a key."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    return Statement(update(table).where(table.c[key] == bindparam(f"of_{key}")).values(values))


ADD_USER = Statement(
    insert_new(users).values({column.key: bindparam(column.key) for column in users.c}).on_conflict_do_nothing()
)
FIND_USER = Statement(select(users).where(users.c.name == bindparam("name")))
LOCK_USER = Statement(select(users).where(users.c.name == bindparam("name")).with_for_update())
USERS = Statement(select(users).order_by(users.c.name))
# A change by an administrator locks all administrators, in one order, so that two cannot change each other at once.
LOCK_ADMINS = Statement(
    select(users.c.name)
    .where(users.c.role == literal_column("'admin'"), users.c.disabled.is_(None))
    .order_by(users.c.name)
    .with_for_update()
)
SET_USER = _set(users, "name", "role", "groups", "password", "stamp", "disabled", "seal")

ADD_TOKEN = Statement(insert(tokens))
# A token with the name of a user acts for that user, and ends with that user.
FIND_TOKEN = Statement(
    select(*tokens.c, users.c.disabled)
    .outerjoin_from(tokens, users, users.c.name == tokens.c.name)
    .where(tokens.c.id == bindparam("id"))
)
TOKENS = Statement(select(*tokens.c).order_by(tokens.c.made, tokens.c.id))
SET_USED = _set(tokens, "id", "used")
SET_REVOKED = _set(tokens, "id", "revoked", "seal")

ADD_SIGNIN = Statement(insert(signins))
FIND_SIGNIN = Statement(
    select(*signins.c, *users.c)
    .join_from(signins, users, users.c.name == signins.c.user)
    .where(signins.c.hash == bindparam("hash"))
)
SET_SEEN = _set(signins, "hash", "seen")
END_SIGNIN = Statement(delete(signins).where(signins.c.hash == bindparam("of_hash")))
END_SIGNINS = Statement(delete(signins).where(signins.c.user == bindparam("of_user")))
_in_a_browser = signins.c.csrf != literal_column("''")  # a one-time link has none
SIGNINS_OF = Statement(
    select(signins)
    .where(signins.c.user == bindparam("user"), _in_a_browser, signins.c.until > bindparam("now"))
    .order_by(signins.c.seen.desc(), signins.c.hash)
)
SEEN = Statement(select(signins.c.user, func.max(signins.c.seen)).where(_in_a_browser).group_by(signins.c.user))
END_OWN = Statement(
    delete(signins).where(signins.c.user == bindparam("of_user"), signins.c.hash == bindparam("of_hash"))
)
END_OTHERS = Statement(
    delete(signins).where(signins.c.user == bindparam("of_user"), signins.c.hash != bindparam("but_hash"))
)
END_OLD = Statement(delete(signins).where(signins.c.until <= bindparam("now")))


class UserRow(NamedTuple):
    """A row of users."""

    name: str
    role: str
    groups: str | None
    password: str | None
    stamp: str
    made: int
    disabled: int | None
    seal: str | None = None

    @property
    def is_sealed(self) -> bool:
        """True if the row is as it was written."""
        return is_sealed_account("user", self._asdict())

    def sealed(self) -> UserRow:
        """Return the row with its seal."""
        return self._replace(seal=account_seal("user", self._asdict()))


class TokenRow(NamedTuple):
    """A row of tokens."""

    id: str
    name: str
    role: str
    groups: str | None
    hash: str
    made: int
    until: int | None
    used: int | None
    revoked: int | None
    seal: str | None = None

    @property
    def is_sealed(self) -> bool:
        """True if the row is as it was written."""
        return is_sealed_account("token", self._asdict())

    def sealed(self) -> TokenRow:
        """Return the row with its seal."""
        return self._replace(seal=account_seal("token", self._asdict()))


class SigninRow(NamedTuple):
    """A row of sign-ins. A one-time link is a row without a CSRF token."""

    hash: str
    user: str
    stamp: str
    csrf: str
    made: int
    seen: int
    until: int


def find_user(transaction: Transaction, name: str) -> UserRow | None:
    """Return a user's row."""
    row = transaction.row(FIND_USER, name=name)
    return None if row is None else UserRow(*row)


def change_user(transaction: Transaction, name: str, *, anew: bool = False, **columns: Any) -> bool:
    """Change columns of a user's row; return False if there is no such user.

    A row that somebody changed behind the store's back stays marked, unless the seal is made `anew`.
    """
    row = transaction.row(LOCK_USER, name=name)
    if row is None:
        return False
    before = UserRow(*row)
    after = before._replace(**columns)
    values = (after.sealed() if anew or before.is_sealed else after)._asdict()
    del values["name"], values["made"]
    transaction.do(SET_USER, of_name=name, **values)
    return True


def find_token(transaction: Transaction, id: str) -> tuple[TokenRow, int | None] | None:
    """Return a token's row, and the time at which the user of its name was disabled."""
    row = transaction.row(FIND_TOKEN, id=id)
    return None if row is None else (TokenRow(*row[:-1]), row[-1])


def find_signin(transaction: Transaction, hash: str) -> tuple[SigninRow, UserRow] | None:
    """Return the row of a sign-in or a link, and its user's."""
    row = transaction.row(FIND_SIGNIN, hash=hash)
    own = len(SigninRow._fields)
    return None if row is None else (SigninRow(*row[:own]), UserRow(*row[own:]))


def groups_text(groups: tuple[str, ...]) -> str | None:
    """Return groups as the text of their column."""
    return msgspec.json.encode(groups).decode() if groups else None


def groups_of(text: str | None) -> tuple[str, ...]:
    """Return the groups in a column."""
    try:
        return () if text is None else msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.DecodeError, TypeError, RecursionError) as error:
        raise UnreadableState(f"The groups of a user or a token are damaged: {error}.") from None


class Rows(Protocol):
    """A place of the rows."""

    def now(self) -> int:
        """Return the time in milliseconds since 1970; called only inside of a transaction."""

    async def read(self, work: Work[R]) -> R:
        """Run `work`, which only reads."""

    async def write(self, work: Work[R]) -> R:
        """Run `work` in one transaction."""


class StoreRows:
    """The rows in the tables of an `SQLStore`."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def now(self) -> int:
        """Return the time on the store's clock."""
        now: int = self._store._now()
        return now

    async def read(self, work: Work[R]) -> R:
        """Read from the store's database."""
        found: R = await self._store._read_short(work)
        return found

    async def write(self, work: Work[R]) -> R:
        """Write to the store's database."""
        done: R = await self._store._write(work)
        return done


class MemoryRows:
    """The rows in memory, for a store in memory. Its clock is the store's."""

    def __init__(self, clock: Callable[[], float]) -> None:
        import sqlite3

        self._clock = clock
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        for table in (users, tokens, signins):
            self._connection.execute(str(CreateTable(table).compile(dialect=sqlite.dialect())))

    def now(self) -> int:
        """Return the time on the store's clock."""
        return int(self._clock() * 1000)

    async def read(self, work: Work[R]) -> R:
        """Read from memory."""
        return await self.write(work)

    async def write(self, work: Work[R]) -> R:
        """Change what is in memory, or nothing after an error."""
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                result = work(Transaction(self._connection, SQLITE))
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
            return result

    def __del__(self) -> None:
        self._connection.close()
