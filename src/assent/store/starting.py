"""The first change of a run that is started without its agent's code."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

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
    try:
        template = _began(known[agent].began)
    except msgspec.DecodeError as error:
        raise UnreadableState(f"The announcement of agent {agent!r} is damaged: {error}.") from None
    began = replace(template, run=new_id("run"), by=by, stored=True, at=now)
    return anew(began.run, [began, Said(Raw(canonical(input)), by)], now)
