"""The deadline of a question, and what happens if nobody answers in time. Silence never approves."""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct

from ..core import allowed

SILENCE = allowed.one_of("reject", "wait")
DEADLINE = allowed.POSITIVE_SECONDS.in_words(f"a Deadline or {allowed.POSITIVE_SECONDS.words}")


class Deadline(Struct, frozen=True):
    """The time that a question waits for a person.

    With `silence="reject"` the call is rejected when the time is up. With `silence="wait"` the question is then
    overdue and stays open; lists of questions show that it is overdue.
    """

    seconds: float
    silence: Literal["reject", "wait"] = "reject"

    def __post_init__(self) -> None:
        allowed.check_option("Deadline", "seconds", self.seconds, allowed.POSITIVE_SECONDS)
        allowed.check_option("Deadline", "silence", self.silence, SILENCE)

    def until(self, at: int) -> int | None:
        """Return the time when a question asked at `at` is rejected; None if it stays open."""
        return self._end(at) if self.silence == "reject" else None

    def due(self, at: int) -> int | None:
        """Return the time from which a question asked at `at` is overdue; None if it is rejected instead."""
        return self._end(at) if self.silence == "wait" else None

    def _end(self, at: int) -> int:
        return at + math.ceil(self.seconds * 1000)


def deadline_from(whose: str, given: Any) -> Deadline | None:
    """Return the deadline from a `Deadline`, or from the seconds after which the call is rejected; None stays None."""
    if given is None or isinstance(given, Deadline):
        return given
    allowed.check_option(whose, "deadline", given, DEADLINE)
    return Deadline(given)
