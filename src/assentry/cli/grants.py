"""`assentry grants`: list, give and revoke grants."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Literal

from msgspec.json import encode

from ..approval.condition import BadCondition
from ..approval.decision import Approve
from ..approval.standing import GiveStandingGrant, StandingGrant, StandingTerms, is_standing, standing_terms_from
from ..approval.terms import GrantTerms
from ..store.record import GrantRecord, Question
from .condition import conditions_from, conditions_text
from .deciding import author, confirm_and_decide
from .preview import question_lines
from .source import MOST_ENTRIES, Source, only_one, source
from .table import Cell, Column, TimeCell, print_table
from .value import duration_as_given
from .write import confirm, put, put_json, say, spell_out, spelled_name, when

GRANTS = (
    Column("GRANT", "id"),
    Column("RUN", "id", least=130),
    Column("AGENT", "text", least=100),
    Column("TOOL", "text"),
    Column("ARGUMENTS", "text"),
    Column("USES", "text"),
    Column("UNTIL (UTC)", "time", brief="UNTIL"),
    Column("BY", "text"),
    Column("STATUS", "text"),
)


STANDING_GRANTS = (
    Column("GRANT", "id"),
    Column("AGENT", "text"),
    Column("TOOL", "text"),
    Column("VERDICT"),
    Column("WHERE", "text"),
    Column("USES", "text", least=100),
    Column("UNTIL (UTC)", "time", brief="UNTIL"),
    Column("BY", "text", least=100),
    Column("STATUS", "text"),
)


async def print_grants(options: Namespace) -> int:
    """Print a page of grants: of runs, or over all runs."""
    if options.all_runs:
        return await _print_standing_grants(options)
    if options.agent is not None:
        options.misused("--agent goes with --all-runs")
    async with source(options) as place:
        page = await place.grants(
            run=options.run and await place.whole_id("run", options.run),
            tool=options.tool,
            revoked=options.revoked,
            limit=options.limit,
            after=options.after,
        )
    if options.json:
        put_json(page)
        return 0
    print_table(GRANTS, map(_row, page.items))
    if page.next is not None:
        say(f"There are more: --after '{page.next}'")
    return 0


def _row(grant: GrantRecord) -> tuple[Cell, ...]:
    uses = f"{grant.used}" if grant.max_uses is None else f"{grant.used} of {grant.max_uses}"
    pins = encode(grant.pins).decode() if grant.pins else "any"
    return (
        grant.id,
        grant.run,
        spelled_name(grant.agent),
        spelled_name(grant.tool),
        pins,
        uses,
        TimeCell(grant.until),
        grant.by,
        _status(grant),
    )


def _status(grant: GrantRecord | StandingGrant) -> str:
    if grant.revoked is not None:
        return f"revoked {when(grant.revoked)} by {grant.revoked_by}"
    if grant.until is not None and grant.until < time.time() * 1000:
        return "ended"
    return "used up" if grant.max_uses is not None and grant.used >= grant.max_uses else "in force"


async def _print_standing_grants(options: Namespace) -> int:
    if options.run is not None:
        options.misused("--run and --all-runs do not go together")
    async with source(options) as place:
        page = await place.standing_grants(
            agent=options.agent, tool=options.tool, revoked=options.revoked, limit=options.limit, after=options.after
        )
    if options.json:
        put_json(page)
        return 0
    print_table(STANDING_GRANTS, map(_standing_row, page.items))
    for id in page.damaged:
        say(f"The row of standing grant {id} is not what was written, and decides nothing; see assentry db verify.")
    if page.next is not None:
        say(f"There are more: --after '{page.next}'")
    return 0


def _standing_row(grant: StandingGrant) -> tuple[Cell, ...]:
    uses = f"{grant.used}" if grant.max_uses is None else f"{grant.used} of {grant.max_uses}"
    return (
        grant.id,
        spelled_name(grant.agent),
        spelled_name(grant.tool),
        grant.verdict,
        spell_out(conditions_text(grant.where)),
        uses,
        TimeCell(grant.until),
        grant.by,
        _status(grant),
    )


async def _give_standing_grant(options: Namespace) -> int:
    """Give a grant over all runs. Without `--digest` and `--yes` its terms are put in words, and a yes gives it."""
    by = author(options)
    if options.pin is not None:
        options.misused("--pin is for one run; over all runs, write --where 'to = \"ann\"'")
    if options.message is not None and not options.reject:
        options.misused("--message goes with --reject")
    try:
        where = conditions_from(options.where) if options.where else None
    except BadCondition as error:
        options.misused(f"--where: {error}")
        raise
    terms = standing_terms_from(StandingTerms(options.uses, options.expires, where))
    verdict: Literal["approve", "reject"] = "reject" if options.reject else "approve"
    async with source(options) as place:
        id = await place.whole_id("question", options.question)
        order = GiveStandingGrant(id, verdict, terms, options.message)
        digest = options.digest
        if digest is None:
            question = await place.question(id)
            for line in question_lines(question):
                say(line)
            if not options.yes and not confirm(f"{_describe_order(order, question)}?"):
                say("No grant was given.")
                return 1
            digest = question.digest
        grant = await place.give_standing_grant(order, digest=digest, by=by)
    if options.json:
        put_json(grant)
    else:
        put(f"{grant.id}: {grant.verdict}s {grant.tool} of {grant.agent}, where: {conditions_text(grant.where)}")
    return 0


def _describe_order(order: GiveStandingGrant, question: Question) -> str:
    """Return a grant in words, for the confirmation."""
    terms = order.terms
    uses = "" if terms.max_uses is None else f", up to {terms.max_uses} times"
    ends = ", until it is revoked" if terms.expires_in is None else f", for {duration_as_given(terms.expires_in)}"
    which = f"every later call of {question.tool} by {question.agent} in all of its runs"
    return spell_out(f"{order.verdict.capitalize()} {which}, where: {conditions_text(terms.where)}{uses}{ends}")


async def give(options: Namespace) -> int:
    """Approve a question, and later calls within the terms; or give a grant over all runs."""
    if options.all_runs:
        return await _give_standing_grant(options)
    if options.where or options.reject or options.message is not None:
        options.misused("--where, --reject and --message go with --all-runs")
    terms = GrantTerms(options.uses, options.expires, options.pin[0] if options.pin is not None else None)
    return await confirm_and_decide(options, Approve(), terms)


async def _whole_id(place: Source, given: str) -> str:
    """Return the id of the grant that begins with what was given, of a run or a standing one."""
    if not is_standing(given):
        return await place.whole_id("grant", given)
    known = await place.standing_grants(revoked=True, limit=MOST_ENTRIES)
    return only_one([each.id for each in known.items], given)


async def revoke_named_grant(options: Namespace) -> int:
    """Revoke a grant."""
    by = author(options)
    async with source(options) as place:
        id = await _whole_id(place, options.grant)
        await place.revoke(id, by=by)
    if options.json:
        put_json({"grant": id, "revoked": True})
    else:
        put(f"Revoked {id}.")
    return 0
