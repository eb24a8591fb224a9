"""Ids that are unique over all runs and stores.

Every id of Assentry's own in a journal is made here. An engine that replays its code sets another `random_bytes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

random_bytes: Callable[[int], bytes] = os.urandom
"""The source of randomness."""


def new_id(prefix: str) -> str:
    """Return a random id, unique over all runs."""
    return f"{prefix}_{random_bytes(16).hex()}"
