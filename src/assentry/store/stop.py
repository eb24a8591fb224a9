"""Stops: nothing new begins in the runs of an agent, or of all agents, until somebody lifts the stop.

A store looks at its stops before it gives out a run, and in the transaction that would store a `Started`. No I/O here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from ..approval.decision import checked_name
from ..core.facts import Started
from ..core.wording import described, holds, shortened
from ..errors import AgentStopped, InvalidInput, StopNotFound
from ..ids import new_id
from .record import Change

LONGEST_REASON = 2000
"""The most characters of a reason."""


class AgentStop(Struct, frozen=True, kw_only=True):
    """A stop of one agent or of all: who stopped it, when and why, and who lifted the stop."""

    id: str
    agent: str | None
    """The agent's name; None for all agents."""
    by: str
    why: str
    at: int
    """The time from which it holds, in milliseconds since 1970."""
    lifted: int | None = None
    """The time at which it was lifted; None while it holds."""
    lifted_by: str | None = None

    def covers(self, agents: Collection[str]) -> bool:
        """Return True if it holds, and for one of these agents."""
        return self.lifted is None and (self.agent is None or self.agent in agents)


def new_stop(agent: str | None, by: str, why: str, at: int) -> AgentStop:
    """Return a new stop; raise `InvalidInput` if the agent or the reason is not text."""
    if agent is not None and (type(agent) is not str or not agent or not holds(agent)):
        raise InvalidInput(f"The agent to stop is its name, or None for all agents; got {described(agent)}.")
    if type(why) is not str or not why.strip() or not holds(why) or len(why) > LONGEST_REASON:
        raise InvalidInput(f"Say why, in 1 to {LONGEST_REASON:,} characters; got {described(why)}.")
    return AgentStop(id=new_id("stop"), agent=agent, by=checked_name(by), why=why.strip(), at=at)


def check_reason(why: str | None) -> None:
    """Raise `InvalidInput` unless a reason is text that a journal holds and people can read, or None."""
    if why is not None and (type(why) is not str or not holds(why) or len(why) > LONGEST_REASON):
        raise InvalidInput(f"A reason is text of at most {LONGEST_REASON:,} characters, or None; got {described(why)}.")


def same_stop(stops: Iterable[AgentStop], new: AgentStop) -> AgentStop | None:
    """Return the stop that holds already, if the same person has asked for the same one."""
    return next((each for each in stops if each.lifted is None and _order(each) == _order(new)), None)


def _order(stop: AgentStop) -> tuple[str | None, str, str]:
    return stop.agent, stop.by, stop.why


def agents_of(change: Change) -> tuple[str, ...]:
    """Return the agents that a stop of the change would be of; none if nothing begins with it.

    The facts that an engine has recorded already are copied, whatever the stops.
    """
    if change.copied or not any(type(fact) is Started for fact in change.facts):
        return ()
    return tuple(dict.fromkeys((change.record.agent, *change.starting)))


def stopped(stop: AgentStop, run: str) -> AgentStopped:
    """Return the error for a run in which nothing may begin."""
    error = AgentStopped(f"Nothing begins in run {run!r}: {stop_in_words(stop)}. It goes on once the stop is lifted.")
    error.stop, error.agent = stop.id, stop.agent
    return error


def stop_in_words(stop: AgentStop) -> str:
    """Return who has stopped what, and why."""
    what = "all agents" if stop.agent is None else f"the agent {stop.agent!r}"
    return f"{stop.by} has stopped {what} ({shortened(stop.why)})"


def stop_not_found(id: object) -> StopNotFound:
    """Return the error for a stop that does not exist."""
    return StopNotFound(f"The store has no stop {id!r:.80}.")
