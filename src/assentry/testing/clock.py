"""A clock that only moves when a test advances it."""

from __future__ import annotations


class FakeClock:
    """A clock for `RunConfig(clock=...)`, in seconds since 1970; it stands still until `advance`."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now += seconds
