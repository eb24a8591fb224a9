"""The first change of a run that is started without its agent's code."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from ..approval.question import new_id
from ..core.digest import canonical, described, holds
from ..core.facts import Began, Said
from ..errors import AgentNotFound, InvalidInput, UnreadableState
from .projection import anew
from .record import AgentRecord, Change

_began = msgspec.json.Decoder(Began).decode


def first_change(agent: str, known: Mapping[str, AgentRecord], input: str, by: str, now: int) -> Change:
    """Return the change that begins a run of one of the known agents, at `now`, in milliseconds since 1970."""
    if agent not in known:
        there = f"there are {', '.join(map(repr, sorted(known)))}" if known else "no worker has announced an agent yet"
        raise AgentNotFound(f"No worker has announced an agent {described(agent)}; {there}.")
    if type(input) is not str or not input.strip() or not holds(input):
        raise InvalidInput(f"Input is text that is not empty, got {described(input)}.")
    template = _template(known[agent])
    if template is None:
        raise UnreadableState(f"The announcement of agent {agent!r} is damaged; a worker makes it anew.")
    began = Began(
        agent,
        template.max_turns,
        new_id("run"),
        template.version,
        template.release,
        template.guards,
        stored=True,
        by=by,
        max_argument_bytes=template.max_argument_bytes,
        at=now,
    )
    return anew(began.run, [began, Said(Raw(canonical(input)), by)], now)


def is_readable(agent: AgentRecord) -> bool:
    """Return True if runs can be started from what a worker has announced of an agent."""
    return _template(agent) is not None


def _template(agent: AgentRecord) -> Began | None:
    """Return the first fact of an agent's runs, as a worker has announced it; None if it is damaged."""
    try:
        found = _began(agent.began)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None
    return found if found.agent == agent.name else None
