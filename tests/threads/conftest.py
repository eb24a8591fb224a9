"""What the tests of threads share with those of the stores: a Postgres server, started when it is first needed."""

import pytest

from assent.threads import held
from tests.store.postgres import postgres

__all__ = ["postgres"]


@pytest.fixture(autouse=True, params=[held.MOST, 0], ids=["at hand", "read"])
def at_hand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many runs an agent keeps at hand: what holds, holds too when it is all read from the store."""
    monkeypatch.setattr(held, "MOST", request.param)
