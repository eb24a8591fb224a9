"""Users, API tokens and sign-ins of the inbox. Secrets are stored only as hashes.

Passwords are hashed with argon2id. Tokens, cookies and links are random, 32 bytes, and stored as SHA-256.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
import secrets
import unicodedata
import weakref
from collections.abc import Iterable
from typing import Any, Literal, cast

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from msgspec import Struct

from ..approval.decision import OURS, checked_name
from ..core.hidden import is_hidden
from ..core.wording import described, holds
from ..errors import Forbidden, NotFound, UsageError
from ..sql.thread_queue import ThreadQueue
from ..store.memory import MemoryStore
from ..store.record import check_seconds
from ..store.sql import account as sql
from ..store.sql.account import MemoryRows, Rows, SigninRow, StoreRows, TokenRow, UserRow, groups_of, groups_text
from ..store.sql.statement import Transaction
from ..store.sql.store import SQLStore
from ..store.store import Store
from .identity import ROLES, Identity, Role

LASTS = 14 * 24 * 3600 * 1000
"""The milliseconds after which a sign-in ends."""
IDLE = 24 * 3600 * 1000
"""The milliseconds without a request after which a sign-in ends."""
LINK_LASTS = 10 * 60 * 1000
"""The milliseconds in which a one-time link can be used."""
FRESH = 15 * 60 * 1000
"""The milliseconds after a sign-in in which nobody is asked for the password again."""
GLANCE = 60 * 1000
"""The milliseconds between two writes of the time at which a token or a sign-in was last used."""
LONGEST_NAME = 100
SHORT_ID = 16
"""The characters of the hash of a sign-in by which its owner names it."""
SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 1000
LONGEST_SECRET = 200
"""The most characters of a token or a cookie that are looked at."""
RESERVED = re.compile("(?:group|grant):.*|rule|deadline", re.IGNORECASE)
"""The names that mean something else: a group among reviewers, and decisions that nobody made in person."""

_hasher = PasswordHasher()
_hashing = ThreadQueue(2, "assentry-passwords")  # each hash takes 64 MiB for its time


class User(Struct, frozen=True):
    """A user of the inbox. Times are milliseconds since 1970."""

    name: str
    role: Role
    groups: tuple[str, ...]
    made: int
    disabled: int | None
    """The time at which the user was disabled; None if the user is not."""
    password: bool
    """True if the user has a password; without one, only one-time links sign in."""


class Token(Struct, frozen=True):
    """An API token, without its secret. Times are milliseconds since 1970."""

    id: str
    name: str
    role: Role
    groups: tuple[str, ...]
    made: int
    until: int | None
    """The time at which the token expires; None for never."""
    used: int | None
    """The time of the last use, within a minute."""
    revoked: int | None


class SignIn(Struct, frozen=True):
    """A sign-in of a user in a browser. Times are milliseconds since 1970."""

    id: str
    made: int
    seen: int
    """The time of the last request, within a minute."""
    own: bool
    """True if it is the sign-in that asks."""


class Accounts:
    """The users, API tokens and sign-ins of a store. `accounts_of` makes it.

    `by` names the administrator who asks for a change on a page. The change is refused if that user is none any more,
    and if it is about the own account. Without it a program changes what it likes.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    # -- users -------------------------------------------------------------------------------------

    async def add_user(
        self,
        name: str,
        role: Role,
        password: str | None = None,
        groups: Iterable[str] = (),
        *,
        by: str | None = None,
    ) -> None:
        """Add a user. Without a password, only one-time links sign in."""
        check_account(name, role)
        several = checked_groups(groups)
        hashed = None if password is None else await _hash(checked_password(name, password))

        def work(transaction: Transaction) -> int:
            _need_admin(transaction, by)
            row = UserRow(name, role, groups_text(several), hashed, _stamp(), self._rows.now(), None)
            return transaction.do(sql.ADD_USER, **row.sealed()._asdict())

        if not await self._rows.write(work):
            raise UsageError(f"There is a user {name!r} already.")

    async def set_password(self, name: str, password: str) -> None:
        """Change a user's password. All sign-ins and links of the user end."""
        hashed = await _hash(checked_password(name, password))

        def work(transaction: Transaction) -> None:
            _change_user(transaction, name, password=hashed, stamp=_stamp())
            transaction.do(sql.END_SIGNINS, of_user=name)

        await self._rows.write(work)

    async def set_role(self, name: str, role: Role, groups: Iterable[str] = (), *, by: str | None = None) -> None:
        """Change a user's role and groups. Sign-ins stay, and have the new role from their next request on.

        The row is sealed anew, also one that somebody changed behind the store's back: `assentry db verify` named it.
        """
        check_account(name, role)
        several = checked_groups(groups)

        def work(transaction: Transaction) -> None:
            _need_admin(transaction, by, of=name)
            _change_user(transaction, name, anew=True, role=role, groups=groups_text(several))

        await self._rows.write(work)

    async def disable_user(self, name: str, *, by: str | None = None) -> None:
        """Disable a user. All sign-ins, links and tokens with the user's name end."""

        def work(transaction: Transaction) -> None:
            _need_admin(transaction, by, of=name)
            _change_user(transaction, name, disabled=self._rows.now(), stamp=_stamp())
            transaction.do(sql.END_SIGNINS, of_user=name)

        await self._rows.write(work)

    async def enable_user(self, name: str, *, by: str | None = None) -> None:
        """Let a disabled user sign in again."""

        def work(transaction: Transaction) -> None:
            _need_admin(transaction, by, of=name)
            _change_user(transaction, name, disabled=None, stamp=_stamp())

        await self._rows.write(work)

    async def users(self) -> list[User]:
        """Return all users, sorted by name."""
        return [_user(UserRow(*row)) for row in await self._rows.read(lambda transaction: transaction.rows(sql.USERS))]

    async def seen(self) -> dict[str, int]:
        """Return the time of the last request of each user who is signed in."""
        return {row[0]: row[1] for row in await self._rows.read(lambda transaction: transaction.rows(sql.SEEN))}

    async def check_password(self, name: str, password: str) -> Identity | None:
        """Return whoever has this name and password; None if nobody has. Both answers take the same time."""
        row = await self._verified(name, password)
        return None if row is None else _identity(row)

    async def _verified(self, name: str, password: str) -> UserRow | None:
        """Return the row of a user with this password."""
        usable = type(name) is str and holds(name) and type(password) is str and holds(password)
        row = await self._rows.read(lambda transaction: sql.find_user(transaction, name)) if usable else None
        hashed = row.password if row is not None and row.disabled is None else None
        given = _normal(password) if usable and len(password) <= LONGEST_PASSWORD else ""
        fits = await _hashing.do(lambda: _fits(hashed, given))
        return row if fits else None

    # -- tokens ------------------------------------------------------------------------------------

    async def add_token(
        self,
        name: str,
        role: Role,
        groups: Iterable[str] = (),
        expires_in: float | None = None,
        *,
        by: str | None = None,
    ) -> str:
        """Add an API token and return its text, which cannot be had again.

        A token with the name of a user acts for that user: it cannot decide what the user asked for, and ends when the
        user is disabled.

        Args:
            name: The name in whose place the token acts; recorded with each decision.
            role: The role.
            groups: The groups.
            expires_in: The seconds after which the token expires; None for never.
            by: The administrator who asks for it on a page, who gets none in the name of another user.
        """
        check_account(name, role)
        several = checked_groups(groups)
        if expires_in is not None:
            check_seconds(expires_in=expires_in)
        id = secrets.token_hex(8)
        text = f"assentry_{id}_{secrets.token_urlsafe(32)}"

        def work(transaction: Transaction) -> None:
            _need_admin(transaction, by)
            if by is not None and name != by and sql.find_user(transaction, name) is not None:
                raise Forbidden(
                    f"There is a user {name!r}, and a token of that name would act for that user. Give the program a "
                    "name of its own."
                )
            now = self._rows.now()
            until = None if expires_in is None else now + int(expires_in * 1000)
            row = TokenRow(id, name, role, groups_text(several), _digest("token", text), now, until, None, None)
            transaction.do(sql.ADD_TOKEN, **row.sealed()._asdict())

        await self._rows.write(work)
        return text

    async def revoke_token(self, id: str, *, by: str | None = None) -> None:
        """Revoke a token, by its id. A revoked token stays revoked."""

        def work(transaction: Transaction) -> None:
            _need_admin(transaction, by)
            found = sql.find_token(transaction, id) if type(id) is str and holds(id) else None
            if found is None:
                raise NotFound(f"There is no token {described(id)}; `assentry tokens list` shows their ids.")
            if (row := found[0]).revoked is None:
                revoked = row._replace(revoked=self._rows.now())
                seal = revoked.sealed().seal if row.is_sealed else row.seal
                transaction.do(sql.SET_REVOKED, of_id=id, revoked=revoked.revoked, seal=seal)

        await self._rows.write(work)

    async def tokens(self) -> list[Token]:
        """Return all tokens, the oldest first."""
        return [
            _token(TokenRow(*row)) for row in await self._rows.read(lambda transaction: transaction.rows(sql.TOKENS))
        ]

    async def identity_of_token(self, text: str) -> Identity | None:
        """Return whose token this is; None if it is nobody's, or not any more."""
        mark, _, rest = text.partition("_") if _is_secret(text) else ("", "", "")
        id, _, secret = rest.partition("_")
        if mark not in ("assentry", "assent") or not id or not secret:
            return None

        def work(transaction: Transaction) -> tuple[TokenRow, bool] | None:
            found, now = sql.find_token(transaction, id), self._rows.now()
            if found is None:
                return None
            row, disabled = found
            alive = row.revoked is None and disabled is None and (row.until is None or now < row.until)
            if not hmac.compare_digest(row.hash, _digest("token", text)) or not alive:
                return None
            return row, row.used is None or now - row.used >= GLANCE

        found = await self._rows.read(work)
        if found is None:
            return None
        row, stale = found
        if stale:
            await self._rows.write(lambda transaction: transaction.do(sql.SET_USED, of_id=id, used=self._rows.now()))
        return _identity(row)

    # -- sign-ins ----------------------------------------------------------------------------------

    async def sign_in(self, name: str) -> str:
        """Sign a user in and return the value of the cookie."""
        return await self._rows.write(lambda transaction: self._begin(transaction, _need_enabled(transaction, name)))

    async def sign_in_by_password(self, name: str, password: str) -> str | None:
        """Return the value of the cookie if a user has this name and password; else None.

        If the password changes meanwhile, the cookie is worth nothing.
        """
        row = await self._verified(name, password)
        return None if row is None else await self._rows.write(lambda transaction: self._begin(transaction, row))

    async def sign_in_link(self, name: str, *, by: str | None = None) -> str:
        """Return a token for a link that signs this user in: once, and within ten minutes."""

        def work(transaction: Transaction) -> str:
            _need_admin(transaction, by, of=name)
            return self._keep_secret(transaction, "link", _need_enabled(transaction, name), LINK_LASTS)

        return await self._rows.write(work)

    async def use_link(self, text: str) -> str | None:
        """Return the value of the cookie for a one-time link, and use the link up; None if it is worth nothing."""
        if not _is_secret(text):
            return None
        hash = _digest("link", text)

        def work(transaction: Transaction) -> str | None:
            found = sql.find_signin(transaction, hash)
            if not transaction.do(sql.END_SIGNIN, of_hash=hash) or found is None:  # of two at once, one deletes it
                return None
            link, user = found
            return self._begin(transaction, user) if _is_alive(link, user, self._rows.now()) else None

        return await self._rows.write(work)

    async def identity_of_cookie(self, value: str) -> Identity | None:
        """Return who is signed in with this cookie; None if nobody is, or not any more."""
        if not _is_secret(value):
            return None
        hash = _digest("cookie", value)

        def work(transaction: Transaction) -> tuple[SigninRow, UserRow, bool] | None:
            found, now = sql.find_signin(transaction, hash), self._rows.now()
            if found is None or not _is_alive(*found, now):
                return None
            return *found, now - found[0].seen >= GLANCE

        found = await self._rows.read(work)
        if found is None:
            return None
        signin, user, stale = found
        if stale:
            await self._rows.write(
                lambda transaction: transaction.do(sql.SET_SEEN, of_hash=hash, seen=self._rows.now())
            )
        return _identity(user, signin.csrf)

    async def sign_out(self, value: str) -> None:
        """End the sign-in of this cookie, if there is one."""
        if _is_secret(value):
            hash = _digest("cookie", value)
            await self._rows.write(lambda transaction: transaction.do(sql.END_SIGNIN, of_hash=hash))

    async def sign_ins(self, name: str, value: str) -> list[SignIn]:
        """Return the sign-ins of a user, the last used first; `value` is the cookie of the one that asks."""
        own = _digest("cookie", value)

        def work(transaction: Transaction) -> list[SignIn]:
            now = self._rows.now()
            rows = [SigninRow(*row) for row in transaction.rows(sql.SIGNINS_OF, user=name, now=now)]
            alive = [row for row in rows if now < row.seen + IDLE]
            return [SignIn(row.hash[:SHORT_ID], row.made, row.seen, row.hash == own) for row in alive]

        return await self._rows.read(work)

    async def end_sign_in(self, name: str, id: str) -> None:
        """End one sign-in of a user, if there is one with this id."""

        def work(transaction: Transaction) -> None:
            for row in transaction.rows(sql.SIGNINS_OF, user=name, now=self._rows.now()):
                if row[0][:SHORT_ID] == id:
                    transaction.do(sql.END_OWN, of_user=name, of_hash=row[0])

        await self._rows.write(work)

    async def end_sign_ins(self, name: str, *, keep: str = "", by: str | None = None) -> None:
        """End all sign-ins and links of a user, but the one with the cookie `keep`. Tokens stay."""
        kept = _digest("cookie", keep)

        def work(transaction: Transaction) -> None:
            _need_admin(transaction, by, of=name)
            _need_user(transaction, name)
            transaction.do(sql.END_OTHERS, of_user=name, but_hash=kept)

        await self._rows.write(work)

    async def is_fresh(self, value: str) -> bool:
        """Return True if the sign-in of this cookie began a few minutes ago."""
        if not _is_secret(value):
            return False
        hash = _digest("cookie", value)

        def work(transaction: Transaction) -> bool:
            found = sql.find_signin(transaction, hash)
            return found is not None and self._rows.now() - found[0].made < FRESH

        return await self._rows.read(work)

    def _begin(self, transaction: Transaction, user: UserRow) -> str:
        transaction.do(sql.END_OLD, now=self._rows.now())
        return self._keep_secret(transaction, "cookie", user, LASTS)

    def _keep_secret(self, transaction: Transaction, kind: Literal["cookie", "link"], user: UserRow, lasts: int) -> str:
        """Store the hash of a new random value, and return the value."""
        value, now = secrets.token_urlsafe(32), self._rows.now()
        csrf = secrets.token_urlsafe(32) if kind == "cookie" else ""
        row = SigninRow(_digest(kind, value), user.name, user.stamp, csrf, now, now, now + lasts)
        transaction.do(sql.ADD_SIGNIN, **row._asdict())
        return value


_in_memory: weakref.WeakKeyDictionary[Store, Accounts] = weakref.WeakKeyDictionary()


def accounts_of(store: Store) -> Accounts:
    """Return the accounts of a store: in its tables, or in memory for a `MemoryStore`."""
    if isinstance(store, SQLStore):
        return Accounts(StoreRows(store))
    if not isinstance(store, MemoryStore):
        raise UsageError(f"A {type(store).__name__} has no table of users. Give the inbox an auth= of your own.")
    if store not in _in_memory:
        # Bound to the store weakly: the accounts are the value of a dictionary whose key is the store.
        known = weakref.ref(store)
        _in_memory[store] = Accounts(MemoryRows(lambda: cast(MemoryStore, known()).clock()))
    return _in_memory[store]


# -- checks ------------------------------------------------------------------------------------------------------------


def check_account(name: str, role: Role) -> None:
    """Raise `UsageError` for a name or a role that no account can have."""
    _checked_text(name, "A name")
    if name.partition(":")[0].lower() in OURS:
        raise UsageError(f"A name cannot be {name!r}, which means something else in a journal.")
    if role not in ROLES:
        raise UsageError(f"A role is one of {', '.join(ROLES)}, got {described(role)}.")


def checked_groups(groups: Iterable[str]) -> tuple[str, ...]:
    """Return groups, each once; raise `UsageError` for names that no group can have."""
    if isinstance(groups, str):
        raise UsageError(f"Groups are a list of names, got {groups!r:.80}.")
    return tuple(dict.fromkeys(_checked_text(each, "A group's name") for each in groups))


def _checked_text(name: str, what: str) -> str:
    """Return a name that nobody can mistake for another; raise `UsageError` for any other."""
    checked_name(name, f"{what} must be text that can be seen")
    if name != name.strip() or any(map(is_hidden, name)) or not name.isprintable():
        raise UsageError(
            f"{what} has no space at its ends and no character that cannot be seen, got {described(name)}."
        )
    if name != unicodedata.normalize("NFC", name):
        raise UsageError(f"{what} must be in Unicode's composed form (NFC), got {described(name)}.")
    if len(name) > LONGEST_NAME:
        raise UsageError(f"{what} has at most {LONGEST_NAME} characters, got {len(name)}.")
    if RESERVED.fullmatch(name):
        raise UsageError(f"{what} cannot be {name!r}, which means something else in a journal.")
    return name


def checked_password(name: str, password: str) -> str:
    """Return a password that a user may have; raise `UsageError` for any other."""
    if type(password) is not str or not holds(password):
        raise UsageError("A password must be text.")
    if len(password) < SHORTEST_PASSWORD:
        raise UsageError(f"A password needs at least {SHORTEST_PASSWORD} characters; this one has {len(password)}.")
    if len(password) > LONGEST_PASSWORD:
        raise UsageError(f"A password has at most {LONGEST_PASSWORD} characters; this one has {len(password)}.")
    if password.casefold() == name.casefold() or len(set(password)) < 3:
        raise UsageError("This password is too easy to guess: the name itself, or one or two characters repeated.")
    return password


def _need_admin(transaction: Transaction, by: str | None, *, of: str | None = None) -> None:
    """Raise `Forbidden` unless `by` is an administrator now, and changes somebody else; None may do everything.

    Nobody changes the own account, so the last administrator stays one.
    """
    if by is None:
        return
    if by not in [row[0] for row in transaction.rows(sql.LOCK_ADMINS)]:
        raise Forbidden(f"{by} is no administrator any more. Nothing was changed.")
    if of == by:
        raise Forbidden("This is your own account: another administrator changes it, or `assentry users` does.")


def _need_user(transaction: Transaction, name: str) -> UserRow:
    row = sql.find_user(transaction, name) if type(name) is str and holds(name) else None
    if row is None:
        raise _no_user(name)
    return row


def _change_user(transaction: Transaction, name: str, *, anew: bool = False, **columns: Any) -> None:
    if type(name) is not str or not holds(name) or not sql.change_user(transaction, name, anew=anew, **columns):
        raise _no_user(name)


def _no_user(name: object) -> NotFound:
    return NotFound(f"There is no user {described(name)}; `assentry users add` makes one.")


def _need_enabled(transaction: Transaction, name: str) -> UserRow:
    row = _need_user(transaction, name)
    if row.disabled is not None:
        raise Forbidden(f"The user {name!r} is disabled.")
    return row


def _is_alive(signin: SigninRow, user: UserRow, now: int) -> bool:
    """Return True if a sign-in or a link still counts."""
    same = hmac.compare_digest(signin.stamp.encode(), user.stamp.encode())
    return same and user.disabled is None and now < signin.until and now < signin.seen + IDLE


# -- secrets -----------------------------------------------------------------------------------------------------------


def _is_secret(text: object) -> bool:
    """Return True if the text can be a token or a cookie at all."""
    return type(text) is str and 0 < len(text) <= LONGEST_SECRET and text.isascii()


def _digest(kind: Literal["token", "cookie", "link"], text: str) -> str:
    """Return the hash of a secret. Secrets of different kinds have different hashes, so none passes for another."""
    return hashlib.sha256(f"{kind}:{text}".encode()).hexdigest()


def _stamp() -> str:
    return secrets.token_hex(16)


def _normal(password: str) -> str:
    """Return a password in the form in which it is hashed: keyboards differ in how they compose characters."""
    return unicodedata.normalize("NFC", password)


async def _hash(password: str) -> str:
    return await _hashing.do(lambda: _hasher.hash(_normal(password)))


@functools.cache
def _decoy() -> str:
    """Return the hash of a password that nobody knows."""
    return _hasher.hash(secrets.token_urlsafe(32))


def _fits(hashed: str | None, password: str) -> bool:
    """Return True if the password has this hash. Without a hash this takes as long, and returns False."""
    decoy = _decoy()
    try:
        _hasher.verify(decoy if hashed is None else hashed, password)
    except (VerificationError, InvalidHashError):
        return False
    return hashed is not None


# -- records -----------------------------------------------------------------------------------------------------------


def _identity(row: UserRow | TokenRow, csrf: str | None = None) -> Identity | None:
    """Return who this is; None if the role in the row is none."""
    if row.role not in ROLES:
        return None
    return Identity(row.name, row.role, groups_of(row.groups), csrf)


def _user(row: UserRow) -> User:
    return User(row.name, cast(Role, row.role), groups_of(row.groups), row.made, row.disabled, row.password is not None)


def _token(row: TokenRow) -> Token:
    groups = groups_of(row.groups)
    return Token(row.id, row.name, cast(Role, row.role), groups, row.made, row.until, row.used, row.revoked)
