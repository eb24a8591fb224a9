"""How many examples the drawn tests draw: all of them in CI, a fifth elsewhere, so that `make test` stays short.

`HYPOTHESIS_PROFILE=ci make test` draws all of them anywhere.
"""

from __future__ import annotations

import os

DRAW_ALL = bool(os.environ.get("CI")) or os.environ.get("HYPOTHESIS_PROFILE") == "ci"


def examples(most: int) -> int:
    """Return how many of so many examples are drawn here."""
    return most if DRAW_ALL else max(most // 5, min(most, 5))
