"""The terms of a grant: the limits of a decision that applies to later calls too."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..core.digest import BadJSON, canonical, plain
from ..core.facts import NOTHING
from ..core.number import is_count, is_seconds
from ..core.wording import described
from ..errors import InvalidDecision
from .decision import Approve, Decision, Edit, Reject


class GrantTerms(Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a grant: the number of calls, the time, the arguments. None means no limit."""

    max_uses: int | None = None
    expires_in: float | None = None
    """The number of seconds that the grant holds, from the decision on."""
    pins: dict[str, Any] | None = None
    """The arguments that a call must have, by name. Other arguments may have any value."""

    def until(self, at: int) -> int | None:
        """Return the time when a grant given at `at` ends; None if it does not end."""
        return None if self.expires_in is None else at + int(self.expires_in * 1000)

    def pinned(self) -> Raw:
        """Return the pins as canonical JSON."""
        return NOTHING if not self.pins else Raw(canonical(self.pins))


def always(name: str, flag: Any) -> bool:
    """Return the flag of this name, which turns a decision into a grant, or raise `InvalidDecision`."""
    if type(flag) is not bool:
        raise InvalidDecision(f"{name} is True or False, got {described(flag)}.")
    return flag


def terms_from(grant: Any, decision: Decision) -> GrantTerms | None:
    """Return the terms of the grant that comes with a decision, or raise `InvalidDecision`; None without a grant."""
    if grant is None or grant is False:
        return None
    if type(decision) not in (Approve, Edit, Reject):
        raise InvalidDecision(
            f"A {type(decision).__name__} is for one call; only an approval or a rejection can hold for later calls."
        )
    if grant is True:
        return GrantTerms()
    try:
        given = msgspec.to_builtins(grant)
        if type(given) is dict and type(given.get("expires_in")) is int:
            _check_time(given["expires_in"])  # an integer that no float can hold is too much for some msgspecs
        terms = msgspec.convert(given, GrantTerms)
        pins = plain(terms.pins) if terms.pins is not None else None
    except (msgspec.ValidationError, BadJSON, TypeError, ValueError) as error:
        raise InvalidDecision(
            f"These are not the terms of a grant: {error}. Give True, or GrantTerms(max_uses, expires_in, pins)."
        ) from None
    if terms.max_uses is not None and not is_count(terms.max_uses):
        raise InvalidDecision(f"max_uses is a whole number from 1 to 2**63 - 1, got {described(terms.max_uses)}.")
    if terms.expires_in is not None:
        _check_time(terms.expires_in)
    return GrantTerms(terms.max_uses, terms.expires_in, pins)


def _check_time(seconds: float) -> None:
    if not (is_seconds(seconds) and seconds):
        given = described(seconds)
        raise InvalidDecision(f"expires_in is a number of seconds above zero, at most 100 years, got {given}.")
