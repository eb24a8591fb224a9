"""How long to wait before something that failed is tried again. Pure: chance is an argument."""

from __future__ import annotations

FIRST = 1.0
LONGEST = 300.0


def delay(failures: int, chance: float) -> float:
    """Seconds to wait after so many failures before this one: up to twice as many each time, five minutes at most.

    All of it is left to chance (a number from 0 to 1): those that failed together do not try again together.
    """
    return chance * min(LONGEST, FIRST * 2.0 ** min(failures, 30))
