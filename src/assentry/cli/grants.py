"""`assentry grants`: list, give and revoke grants."""

from __future__ import annotations

from argparse import Namespace

from msgspec.json import encode

from ..approval.decision import Approve
from ..approval.terms import GrantTerms
from ..store.record import GrantRecord
from .deciding import author, confirm_and_decide
from .source import source
from .write import put, put_json, put_table, say, spelled_name, when

HEAD = ("GRANT", "RUN", "AGENT", "TOOL", "ARGUMENTS", "USES", "UNTIL (UTC)", "BY", "STATUS")


async def print_grants(options: Namespace) -> int:
    """Print a page of grants."""
    async with source(options) as place:
        page = await place.grants(
            run=options.run, tool=options.tool, revoked=options.revoked, limit=options.limit, after=options.after
        )
    if options.json:
        put_json(page)
        return 0
    put_table([HEAD, *map(_row, page.items)])
    if page.next is not None:
        say(f"There are more: --after '{page.next}'")
    return 0


def _row(grant: GrantRecord) -> tuple[str, ...]:
    uses = f"{grant.used}" if grant.max_uses is None else f"{grant.used} of {grant.max_uses}"
    status = "in force" if grant.revoked is None else f"revoked {when(grant.revoked)} by {grant.revoked_by}"
    pins = encode(grant.pins).decode() if grant.pins else "any"
    return (
        grant.id,
        grant.run,
        spelled_name(grant.agent),
        spelled_name(grant.tool),
        pins,
        uses,
        when(grant.until),
        grant.by,
        status,
    )


async def give(options: Namespace) -> int:
    """Approve a question, and later calls within the terms."""
    terms = GrantTerms(options.uses, options.expires, options.pin[0] if options.pin is not None else None)
    return await confirm_and_decide(options, Approve(), terms)


async def revoke_named_grant(options: Namespace) -> int:
    """Revoke a grant."""
    by = author(options)
    async with source(options) as place:
        await place.revoke(options.grant, by=by)
    if options.json:
        put_json({"grant": options.grant, "revoked": True})
    else:
        put(f"Revoked {options.grant}.")
    return 0
