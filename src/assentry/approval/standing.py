"""Standing grants: decisions that hold for later calls in all runs of an agent. Plain data and pure functions.

Keeping them belongs to the store, and judging by them to the gate. A grant for one run is a fact of that run.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from ..core import facts as f
from ..core.digest import BadJSON, canonical
from ..core.mask import mask_secrets_in, secrets_in
from ..core.number import is_count, is_seconds
from ..core.wording import described
from ..errors import InvalidDecision
from .condition import BadCondition, Conditions, first_name, read_conditions

STANDING = "always"
"""The beginning of the ids of standing grants; those of a run's own grants begin with `g`."""


def is_standing(grant_id: str) -> bool:
    """Return True if this is the id of a standing grant."""
    return grant_id.startswith(f"{STANDING}_")


class StandingTerms(Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a standing grant: the number of calls, the time, the arguments. None means no limit."""

    max_uses: int | None = None
    """The number of calls that the grant may decide, over all runs."""
    expires_in: float | None = None
    """The number of seconds that the grant holds."""
    where: Conditions | None = None
    """Conditions on the arguments, by name: `{"amount": {"at_most": 50}}`. See `approval.condition`."""


class GiveStandingGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a grant over all runs of an agent, from a question, open or settled."""

    question: str
    verdict: Literal["approve", "reject"] = "approve"
    terms: StandingTerms = StandingTerms()
    message: str | None = None
    """The words for the model, with a rejection."""


class StandingGrant(Struct, frozen=True, kw_only=True):
    """A decision that holds for later calls in all runs of an agent."""

    id: str
    agent: str
    """The place of the agent under the root agent: `Office`, or `Office/research`."""
    tool: str
    server: str | None = None
    definition: str | None = None
    """The tool's fingerprint. An approval does not cover a changed tool."""
    verdict: Literal["approve", "reject"]
    where: Conditions | None = None
    """The conditions on the arguments; None for any arguments."""
    max_uses: int | None = None
    until: int | None = None
    """The end, in milliseconds since 1970; None if the grant has no end."""
    message: str | None = None
    """The words for the model, of a rejection."""
    by: str
    groups: tuple[str, ...] = ()
    """The groups of the person who gave it, at that time."""
    at: int
    question: str | None = None
    """The question from which the grant was made."""
    used: int = 0
    """The number of calls that the grant has decided."""
    revoked: int | None = None
    revoked_by: str | None = None

    def in_force(self, now: int) -> bool:
        """Return True if the grant still decides calls at this time."""
        return self.revoked is None and not self.is_over(now)

    def is_over(self, now: int) -> bool:
        """Return True if the grant's time is over, or its uses are used up."""
        return (self.until is not None and now > self.until) or (
            self.max_uses is not None and self.used >= self.max_uses
        )


def standing_terms_from(given: Any) -> StandingTerms:
    """Return the terms of a standing grant, or raise `InvalidDecision`. None and True are terms without limits."""
    if given is None or given is True:
        return StandingTerms()
    try:
        terms = msgspec.convert(msgspec.to_builtins(given), StandingTerms)
        where = read_conditions(terms.where) if terms.where is not None else None
    except (msgspec.ValidationError, BadCondition, TypeError, ValueError) as error:
        raise InvalidDecision(f"These are not the terms of a standing grant: {error}.") from None
    if terms.max_uses is not None and not is_count(terms.max_uses):
        raise InvalidDecision(f"max_uses is a whole number from 1 to 2**63 - 1, got {described(terms.max_uses)}.")
    seconds = terms.expires_in
    if seconds is not None and not (is_seconds(seconds) and seconds):
        raise InvalidDecision(f"expires_in is a number of seconds above zero, at most 100 years, got {seconds!r}.")
    return StandingTerms(terms.max_uses, seconds, where or None)


def check_arguments(terms: StandingTerms, takes: Any, redact: tuple[str, ...], arguments: str) -> None:
    """Raise `InvalidDecision` if conditions name an argument that the tool does not have, or or a masked one.

    A grant is shown to everybody who may read, so it quotes no secret.
    """
    for name in terms.where or ():
        first = first_name(name)
        if not takes(first):
            raise InvalidDecision(
                f"The tool has no parameter {described(first)} that a grant could have a condition on."
            )
        if first in redact:
            raise InvalidDecision(f"{described(first)} is masked, and a standing grant is shown to all who may read.")
    if mask_secrets_in(terms.where, secrets_in(arguments, redact)) != terms.where:
        raise InvalidDecision(
            "A condition quotes a masked argument, and a standing grant is shown to whoever may read."
        )


def terms_json(grant: StandingGrant) -> Raw:
    """Return the terms of a grant as canonical JSON, for the fact of a verdict."""
    terms: dict[str, Any] = {"runs": "all"}
    if grant.where is not None:
        terms["where"] = grant.where
    if grant.max_uses is not None:
        terms["max_uses"] = grant.max_uses
    if grant.until is not None:
        terms["until"] = grant.until
    try:
        return Raw(canonical(terms))
    except (BadJSON, TypeError, ValueError):  # the row of the grant is damaged
        return f.NOTHING
