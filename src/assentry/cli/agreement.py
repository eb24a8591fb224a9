"""The question to whoever decides at the command line: whether this is to be recorded."""

from __future__ import annotations

from argparse import Namespace

from msgspec.json import encode

from ..approval.decision import Decision, Edit, Reject, Respond
from ..approval.terms import GrantTerms
from .write import confirm, confirm_typed, say, spell_out


def agree(
    options: Namespace,
    decision: Decision,
    by: str | None,
    warnings: list[str],
    what: str,
    sure: str,
    grant: GrantTerms | None = None,
) -> bool:
    """Ask if a decision is to be recorded. Where there are warnings, a yes is not enough: `sure` must be typed."""
    words = f"{describe_decision(decision, grant, what)}{'' if by is None else f' as {spell_out(by)}'}"
    if not options.yes:
        return confirm_typed(f"{words} despite the warnings?", sure) if warnings else confirm(f"{words}?")
    if warnings and not options.despite_warnings:
        say("There are warnings, so --yes is not enough: add --despite-warnings, or leave both out and be asked.")
        return False
    return True


def describe_decision(decision: Decision, grant: GrantTerms | None, what: str = "") -> str:
    """Return the decision in words, for the confirmation."""
    on = f" {what}" if what else ""
    match decision:
        case Edit(arguments=arguments, tool=tool):
            text = f"Approve{f' {tool}' if tool else ''} with the arguments {encode(arguments).decode()}"
        case Respond(output=output):
            text = f"Answer {encode(output).decode()}"
        case Reject(message=str(message)):
            text = f"Reject{on} with the message {encode(message).decode()}"
        case _:
            text = f"{type(decision).__name__}{on}"
    return text if grant is None else f"{text} and later calls too, within {encode(grant).decode()}"
