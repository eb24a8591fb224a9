"""`assentry tokens`: add, list and revoke API tokens."""

from __future__ import annotations

from argparse import Namespace

from ..inbox.identity import Role
from .source import only_one
from .table import Cell, Column, TimeCell, print_table
from .users import accounts
from .write import put, put_done, put_json, say, when

TOKENS = (
    Column("ID", "id"),
    Column("NAME", "text"),
    Column("ROLE"),
    Column("GROUPS", "text", least=100),
    Column("ADDED (UTC)", "time", least=120, brief="ADDED"),
    Column("LAST USED (UTC)", "time", brief="LAST USED"),
    Column("UNTIL (UTC)", "time", brief="UNTIL"),
    Column("STATUS", "text"),
)


async def add_token(options: Namespace) -> int:
    """Add a token and print it, which happens only once."""
    role: Role = options.role
    async with accounts(options, create=True) as known:
        text = await known.add_token(options.name, role, options.group, options.expires)
    if options.json:
        put_json({"id": text.split("_")[1], "name": options.name, "role": role, "token": text})
    else:
        put(text)
        say("This is shown only once. Keep it as you keep a password.")
    return 0


async def print_tokens(options: Namespace) -> int:
    """Print all tokens, without their secrets."""
    async with accounts(options) as known:
        tokens = await known.tokens()
    if options.json:
        put_json(tokens)
        return 0
    rows: list[tuple[Cell, ...]] = [
        (
            token.id,
            token.name,
            token.role,
            ", ".join(token.groups),
            TimeCell(token.made),
            TimeCell(token.used),
            TimeCell(token.until),
            "" if token.revoked is None else f"revoked {when(token.revoked)}",
        )
        for token in tokens
    ]
    print_table(TOKENS, rows)
    return 0


async def revoke_token(options: Namespace) -> int:
    """Revoke a token by its id."""
    async with accounts(options) as known:
        id = only_one([token.id for token in await known.tokens()], options.id)
        await known.revoke_token(id)
        token = next(token for token in await known.tokens() if token.id == id)
    put_done(token, f"Revoked {id}.", json=options.json)
    return 0
