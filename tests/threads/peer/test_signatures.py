"""Parameters, fields and methods of LangChain's public names: ours have them, or the guide names the difference."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

import assentry.threads
from tests.agents.peer.signatures import differences
from tests.threads.peer.known_differences import GUIDE, SIGNATURES, not_yet
from tests.threads.peer.names import INNER, TheirAgent, public

THEIRS = ("langchain", "langgraph", TheirAgent.__module__)


@cache
def found() -> frozenset[str]:
    """Return what their public names take or have, and ours do not."""
    lacking = set(differences("ThreadAgent", TheirAgent, assentry.threads.ThreadAgent, THEIRS))
    for name, theirs in public().items():
        try:
            ours = getattr(assentry.threads, name)
        except AttributeError:
            continue  # the test of names says so
        lacking |= set(differences(name, theirs, ours, THEIRS))
    return frozenset(each for each in lacking if not inner(each))


def inner(difference: str) -> bool:
    """True for a member that is not for programs, and for the tag of a class, which nobody gives."""
    _, _, member = difference.partition(".")
    return difference.endswith("(type)") or any(fnmatchcase(member, pattern) for pattern in INNER)


def fits(difference: str, pattern: str) -> bool:
    return difference == pattern or fnmatchcase(difference, pattern)


PATTERNS = [each for patterns in SIGNATURES.values() for each in patterns]


def test_every_parameter_is_taken_or_is_known_to_differ() -> None:
    unknown = {each for each in found() if not any(fits(each, pattern) for pattern in PATTERNS)}
    assert sorted(unknown - not_yet("signature")) == []


def test_what_is_taken_by_now_is_not_listed() -> None:
    assert sorted(not_yet("signature") - found()) == []


def test_every_known_difference_is_one() -> None:
    assert [pattern for pattern in PATTERNS if not any(fits(each, pattern) for each in found())] == []


def test_the_guide_says_every_known_difference() -> None:
    assert [words for words in SIGNATURES if words not in GUIDE] == []
