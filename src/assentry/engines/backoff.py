"""The delay before a failed attempt is retried.

Pure: the random number is an argument.
"""

from __future__ import annotations

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0


def delay(failures: int, chance: float) -> float:
    """Return the seconds to wait before the next attempt, after `failures` earlier failures.

    The upper limit doubles with each failure, from one second to five minutes. `chance`, a random number from 0 to 1,
    picks the delay below the limit, so that runs that failed together do not retry together.
    """
    return chance * min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures, 30))
