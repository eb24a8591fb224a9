"""Decisions from the command line: `assentry approve`, `edit`, `reject`, `respond` and `questions decide`."""

from __future__ import annotations

import getpass
from argparse import Namespace

from ..approval.decision import Approve, Decision, Edit, Reject, Respond, checked_name
from ..approval.terms import GrantTerms
from ..inbox.headline import shown_hash
from ..inbox.many import cautions_of
from .agreement import agree
from .deciding_many import show_and_decide_many
from .preview import question_lines
from .source import source
from .write import put, put_json, say, when


async def decide_as_told(options: Namespace) -> int:
    """Record a decision on the question as it was shown, or on each of several."""
    decision = _decision(options)
    if len(options.question) == 1:
        options.question = options.question[0]
        return await confirm_and_decide(options, decision)
    if options.digest is not None:
        options.misused("--digest goes with one question; several are shown, and decided by what was shown")
    if options.verdict not in ("approve", "reject"):
        options.misused(f"{options.verdict} goes with one question; approve and reject go with several")
    by = author(options)
    async with source(options) as place:
        return await show_and_decide_many(options, place, decision, options.verdict, by)


async def confirm_and_decide(options: Namespace, decision: Decision, grant: GrantTerms | None = None) -> int:
    """Record a decision. Without `--digest` the question is shown first, and only a yes records it."""
    by = author(options)
    async with source(options) as place:
        digest, shown = options.digest, None
        id = await place.whole_id("question", options.question)
        if digest is None:
            question = await place.question(id)
            for line in question_lines(question):
                say(line)
            if question.verdict is not None:
                following = await place.successor(question)
                instead = "" if following is None else f" Question {following.id} took its place."
                say(f"It was decided already. Nothing was recorded.{instead}")
                return 1
            warnings = cautions_of(question) if type(decision) in (Approve, Edit) else []
            verdict = "edit" if type(decision) is Edit else "approve"
            if not agree(options, decision, by, warnings, "", verdict, grant):
                say("Nothing was decided.")
                return 1
            digest, shown = question.digest, shown_hash(question)
        settled = await place.decide(id, decision, digest=digest, by=by, shown=shown, grant=grant)
    if options.json:
        put_json(settled)
    else:
        put(f"{settled.id}: {settled.verdict} by {settled.by}, {when(settled.decided)}")
    return 0


def author(options: Namespace) -> str | None:
    """Return who decides: `--by`, or the login name; None for a server, whose token says it."""
    if options.server is not None:
        if options.by is not None:
            options.misused("--by does not go with a server: the token says who decides")
        return None
    if options.by is None and options.by_required:
        options.misused("--by NAME says who decides")
    try:
        return checked_name(getpass.getuser() if options.by is None else options.by)
    except (OSError, KeyError):  # a user without a name, in a container
        options.misused("--by NAME says who decides")
        raise


def _decision(options: Namespace) -> Decision:
    """Return the decision from the options; options that do not fit the verdict are misuse."""
    given = {name for name in ("message", "arguments", "output") if getattr(options, name, None) is not None}
    needs = {"edit": {"arguments"}, "respond": {"output"}}.get(options.verdict, set())
    takes = needs | ({"message"} if options.verdict == "reject" else set())
    if needs - given:
        options.misused(f"{options.verdict} needs --{(needs - given).pop()}")
    if given - takes:
        options.misused(f"--{min(given - takes)} does not go with {options.verdict}")
    if options.verdict == "edit":
        return Edit(options.arguments[0])
    if options.verdict == "respond":
        return Respond(options.output[0])
    return Reject(options.message) if options.verdict == "reject" else Approve()
