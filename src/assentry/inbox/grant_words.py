"""The words of a grant's terms: for one run, and for all runs of an agent. Plain data in, plain data out."""

from __future__ import annotations

from typing import Any

from msgspec.json import encode

from ..approval.condition import Conditions
from ..approval.standing import StandingGrant
from ..core.wording import shortened
from ..store.record import GrantRecord
from .json_values import read_or_text, write_json
from .language import translate, translate_count
from .templating import utc

MOST_PINS = 20
"""The most pinned arguments that are named, if there are too many to be shown with their values."""
LONGEST_VALUE = 60
"""The most characters of a value in a sentence."""


def terms_words(tool: str, agent: str, pins: dict[str, Any] | None, uses: int | None, until: int | None) -> str:
    """Return the terms of a grant for one run in words."""
    pinned = _and([f"{name} = {_value(each)}" for name, each in (pins or {}).items()])
    if pinned:
        which = translate(
            "every later call of {tool} by {agent} in this run with exactly {pins}", tool=tool, agent=agent, pins=pinned
        )
    else:
        which = translate(
            "every later call of {tool} by {agent} in this run, whatever its arguments", tool=tool, agent=agent
        )
    return _limited(which, uses, until)


def grant_words(grant: GrantRecord) -> str:
    """Return a grant for one run in words."""
    return terms_words(grant.tool, grant.agent, _pins_of(grant), grant.max_uses, grant.until)


def _pins_of(grant: GrantRecord) -> dict[str, Any] | None:
    if not grant.pins:
        return None
    pins = read_or_text(encode(grant.pins).decode())
    return pins if isinstance(pins, dict) else dict.fromkeys(list(grant.pins)[:MOST_PINS], "…")


def standing_words(tool: str, agent: str, where: Conditions | None, uses: int | None, until: int | None) -> str:
    """Return the terms of a standing grant in words."""
    limits = _and([condition_words(name, kinds) for name, kinds in (where or {}).items()])
    if limits:
        which = translate(
            "every later call of {tool} by {agent} in all of its runs, where {conditions}",
            tool=tool,
            agent=agent,
            conditions=limits,
        )
    else:
        which = translate(
            "every later call of {tool} by {agent} in all of its runs, whatever its arguments", tool=tool, agent=agent
        )
    return _limited(which, uses, until)


def standing_grant_words(grant: StandingGrant) -> str:
    """Return a standing grant in words."""
    return standing_words(grant.tool, grant.agent, grant.where, grant.max_uses, grant.until)


def condition_words(name: str, kinds: dict[str, Any]) -> str:
    """Return the conditions on one argument in words."""
    return _and([_condition(name, kind, limit) for kind, limit in kinds.items()])


def _condition(name: str, kind: str, limit: Any) -> str:
    values: dict[str, Any] = {"name": name, "limit": _value(limit)}
    match kind:
        case "is":
            return translate("{name} is {limit}", **values)
        case "one_of":
            several = ", ".join(map(_value, limit)) if isinstance(limit, list) else _value(limit)
            return translate("{name} is one of {limit}", name=name, limit=several)
        case "at_most":
            return translate("{name} is at most {limit}", **values)
        case "at_least":
            return translate("{name} is at least {limit}", **values)
        case "below":
            return translate("{name} is below {limit}", **values)
        case "above":
            return translate("{name} is above {limit}", **values)
        case "starts_with":
            return translate("{name} starts with {limit}", **values)
        case "matches":
            return translate("{name} matches {limit}", **values)
        case "under":
            return translate("{name} is below the folder {limit}", **values)
        case "max_length":
            return translate("{name} has at most {limit} characters", **values)
    return f"{name}: {kind} {_value(limit)}"


def _value(value: Any) -> str:
    return shortened(write_json(value), LONGEST_VALUE)


def _and(parts: list[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return translate("{some} and {last}", some=", ".join(parts[:-1]), last=parts[-1])


def _limited(which: str, uses: int | None, until: int | None) -> str:
    """Return the calls that a grant is for, with the number of times and the end."""
    often = "" if uses is None else translate_count("up to {n} time", "up to {n} times", uses)
    end = (
        translate("until it is revoked")
        if until is None
        else translate("until {time}", time=utc(until, "%d %b %Y %H:%M UTC"))
    )
    return ", ".join(part for part in (which, often, end) if part)
