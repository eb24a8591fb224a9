"""Decisions from the command line: `assentry approve`, `edit`, `reject`, `respond` and `questions decide`."""

from __future__ import annotations

import getpass
from argparse import Namespace

from msgspec.json import encode

from ..approval.decision import Approve, Decision, Edit, Reject, Respond, checked_name
from ..approval.terms import GrantTerms
from ..inbox.headline import shown_hash
from .preview import question_lines
from .source import source
from .write import confirm, put, put_json, say, spell_out, when


async def decide_as_told(options: Namespace) -> int:
    """Record a decision on the question as it was shown."""
    return await confirm_and_decide(options, _decision(options))


async def confirm_and_decide(options: Namespace, decision: Decision, grant: GrantTerms | None = None) -> int:
    """Record a decision. Without `--digest` the question is shown first, and only a yes records it."""
    by = author(options)
    async with source(options) as place:
        digest, shown = options.digest, None
        if digest is None:
            question = await place.question(options.question)
            for line in question_lines(question):
                say(line)
            if question.verdict is not None:
                following = await place.successor(question)
                instead = "" if following is None else f" Question {following.id} took its place."
                say(f"It was decided already. Nothing was recorded.{instead}")
                return 1
            if not confirm(f"{_describe_decision(decision, grant)}{'' if by is None else f' as {spell_out(by)}'}?"):
                say("Nothing was decided.")
                return 1
            digest, shown = question.digest, shown_hash(question)
        settled = await place.decide(options.question, decision, digest=digest, by=by, shown=shown, grant=grant)
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


def _describe_decision(decision: Decision, grant: GrantTerms | None) -> str:
    """Return the decision in words, for the confirmation."""
    match decision:
        case Edit(arguments=arguments, tool=tool):
            text = f"Approve{f' {tool}' if tool else ''} with the arguments {encode(arguments).decode()}"
        case Respond(output=output):
            text = f"Answer {encode(output).decode()}"
        case Reject(message=str(message)):
            text = f"Reject with the message {encode(message).decode()}"
        case _:
            text = type(decision).__name__
    return text if grant is None else f"{text} and later calls too, within {encode(grant).decode()}"
