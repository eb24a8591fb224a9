"""The first change of a run that is started without its agent's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from ..core.digest import canonical, digest
from ..core.facts import AnyFact, Began, Said
from ..core.opening import first_facts
from ..core.wording import described, holds
from ..errors import AgentNotFound, InvalidInput, UnreadableState, UsageError
from ..ids import new_id
from .projection import anew
from .record import AgentRecord, Change

_began = msgspec.json.Decoder(Began).decode


LONGEST_KEY = 200
"""The most characters of a key."""


def keyed_run(by: str, key: str) -> str:
    """Return the id of the run that a user starts with a key: the same whenever it is asked for."""
    if type(key) is not str or not 1 <= len(key) <= LONGEST_KEY or not holds(key):
        raise UsageError(f"A key is text of 1 to {LONGEST_KEY} characters, got {described(key)}.")
    return f"run_{digest({'by': by, 'key': key})[:32]}"


def is_same_order(facts: Sequence[AnyFact], agent: str, input: str) -> bool:
    """Return True if a run began with this agent and this input."""
    match facts:
        case [Began(agent=began), Said(items=items), *_]:
            return (began, bytes(items)) == (agent, canonical(input))
    return False  # an erased run


def first_change(
    agent: str, known: Mapping[str, AgentRecord], input: str, by: str, now: int, run_id: str | None = None
) -> Change:
    """Return the change that begins a run of one of the known agents, at `now`, in milliseconds since 1970."""
    if agent not in known:
        there = f"there are {', '.join(map(repr, sorted(known)))}" if known else "no worker has announced an agent yet"
        raise AgentNotFound(f"No worker has announced an agent {described(agent)}; {there}.")
    if type(input) is not str or not input.strip() or not holds(input):
        raise InvalidInput(f"Input is text that is not empty, got {described(input)}.")
    template = _template(known[agent])
    if template is None:
        raise UnreadableState(f"The announcement of agent {agent!r} is damaged; a worker makes it anew.")
    run, said = run_id or new_id("run"), Said(Raw(canonical(input)), by)
    return anew(run, [*first_facts(template, run, now, [said], by=by, stored=True)], now)


def engine_of(agent: AgentRecord) -> str | None:
    """Return the engine that runs an agent, as its worker has announced it; None if workers of the store do."""
    template = _template(agent)
    return template.engine if template is not None else None


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
