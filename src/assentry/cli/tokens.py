"""`assentry tokens`: add, list and revoke API tokens."""

from __future__ import annotations

from argparse import Namespace

from ..inbox.identity import Role
from .users import accounts
from .write import put, put_json, put_table, say, when

HEAD = ("ID", "NAME", "ROLE", "GROUPS", "ADDED (UTC)", "LAST USED (UTC)", "UNTIL (UTC)", "STATUS")


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
    rows = [
        (
            token.id,
            token.name,
            token.role,
            ", ".join(token.groups),
            when(token.made),
            when(token.used),
            when(token.until),
            "" if token.revoked is None else f"revoked {when(token.revoked)}",
        )
        for token in tokens
    ]
    put_table([HEAD, *rows])
    return 0


async def revoke_token(options: Namespace) -> int:
    """Revoke a token by its id."""
    async with accounts(options) as known:
        await known.revoke_token(options.id)
    put(f"Revoked {options.id}.")
    return 0
