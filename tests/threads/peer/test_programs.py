"""Programs for LangChain run on `assentry.threads` with their imports changed: same printed text, or a known reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.threads.peer.known_differences import DIFFERENT, GUIDE, SENTENCES, not_yet
from tests.threads.peer.outcome import compared, needs_postgres
from tests.threads.peer.program import everything
from tests.threads.peer.worker import Worker

NOT_YET = not_yet("case")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


@pytest.mark.parametrize("name", everything())
def test_a_program_does_the_same_with_its_imports_changed(
    name: str, worker: Worker, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres") if needs_postgres(name) else None
    outcome = compared(worker, name, server)
    assert not outcome.theirs.error, outcome.theirs.trace
    if name in NOT_YET:
        assert not outcome.good, "it is the same by now: take it out of not_yet.txt"
    else:
        assert outcome.good, f"{outcome.kind}: {outcome.why}\n{outcome.ours.trace}"


def test_every_difference_is_in_the_guide() -> None:
    words = [each.guide for differences in DIFFERENT.values() for each in differences]
    words += [each.guide for each in SENTENCES.values()]
    assert [each for each in words if each not in GUIDE] == []


def test_what_is_listed_is_there() -> None:
    assert {*DIFFERENT, *SENTENCES, *NOT_YET} - set(everything()) == set()
