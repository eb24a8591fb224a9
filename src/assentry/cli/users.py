"""`assentry users`: add, list, change, disable and enable users of the inbox."""

from __future__ import annotations

import getpass
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..core.wording import install_hint
from ..errors import UsageError
from ..store.open import open_store
from .table import Cell, Column, TimeCell, print_table
from .write import put, put_done, put_json, say, when

if TYPE_CHECKING:
    from ..inbox.accounts import Accounts, User

LONGEST_LINE = 10_000
USERS = (
    Column("NAME", "text"),
    Column("ROLE"),
    Column("GROUPS", "text"),
    Column("ADDED (UTC)", "time", brief="ADDED"),
    Column("STATUS", "text"),
)


@asynccontextmanager
async def accounts(options: Namespace, *, create: bool = False) -> AsyncIterator[Accounts]:
    """Open the accounts of the store that the options name."""
    async with open_store(options.url, create=create) as store:
        try:
            from ..inbox.accounts import accounts_of
        except ImportError as error:
            raise UsageError(f"Users and tokens need more ({error}): {install_hint('inbox')}") from None
        yield accounts_of(store)


async def _user(known: Accounts, name: str) -> User:
    return next(user for user in await known.users() if user.name == name)


async def add_user(options: Namespace) -> int:
    """Add a user, with a password from the terminal or from stdin."""
    password = _password(options)
    async with accounts(options, create=True) as known:
        await known.add_user(options.name, options.role, password, options.group)
        user = await _user(known, options.name)
    put_done(user, f"Added {user.name}, {user.role}.", json=options.json)
    return 0


async def print_users(options: Namespace) -> int:
    """Print all users."""
    async with accounts(options) as known:
        users = await known.users()
    if options.json:
        put_json(users)
        return 0
    rows: list[tuple[Cell, ...]] = [
        (user.name, user.role, ", ".join(user.groups), TimeCell(user.made), _status(user.disabled, "disabled"))
        for user in users
    ]
    print_table(USERS, rows)
    return 0


def _status(at: int | None, word: str) -> str:
    return "" if at is None else f"{word} {when(at)}"


async def set_user_role(options: Namespace) -> int:
    """Change a user's role and groups."""
    async with accounts(options) as known:
        await known.set_role(options.name, options.role, options.group)
        user = await _user(known, options.name)
    groups = f", in {', '.join(options.group)}" if options.group else ""
    put_done(user, f"{user.name} is {user.role} now{groups}.", json=options.json)
    return 0


async def disable(options: Namespace) -> int:
    """Disable a user."""
    async with accounts(options) as known:
        await known.disable_user(options.name)
        user = await _user(known, options.name)
    sentence = f"Disabled {user.name}. All sign-ins and tokens of that name have ended."
    put_done(user, sentence, json=options.json)
    return 0


async def enable_user(options: Namespace) -> int:
    """Enable a user again."""
    async with accounts(options) as known:
        await known.enable_user(options.name)
        user = await _user(known, options.name)
    put_done(user, f"Enabled {user.name}.", json=options.json)
    return 0


async def print_link(options: Namespace) -> int:
    """Print a link that signs a user in; without the inbox's address, the part after it."""
    from ..inbox.webhooks import check_base_url

    base = "" if options.base_url is None else check_base_url(options.base_url)
    async with accounts(options) as known:
        code = await known.sign_in_link(options.name)
    link = f"{base}/sign-in/link#{code}"
    if options.json:
        put_json({"name": options.name, "link": link})
        return 0
    put(link)
    if not base:
        say("Put the inbox's address before it, or give --base-url.")
    say("It signs in once, within ten minutes, whoever opens it. Give it to nobody else.")
    return 0


async def password(options: Namespace) -> int:
    """Change a user's password."""
    new = _password(options)
    async with accounts(options) as known:
        await known.set_password(options.name, new)
        user = await _user(known, options.name)
    put_done(user, f"The password of {user.name} is changed. All sign-ins have ended.", json=options.json)
    return 0


def _password(options: Namespace) -> str:
    """Return a password from stdin, or one that was typed twice."""
    if options.password_stdin:
        return sys.stdin.readline(LONGEST_LINE).removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask for the password; give it on stdin, with --password-stdin.")
    first = getpass.getpass("Password: ")
    if first != getpass.getpass("Again: "):
        raise UsageError("The two passwords differ. Nothing was changed.")
    return first
