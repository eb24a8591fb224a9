"""A clock that stands still until it is told to go."""

from __future__ import annotations


class FakeClock:
    """Seconds since 1970 for `RunConfig(clock=...)`."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
