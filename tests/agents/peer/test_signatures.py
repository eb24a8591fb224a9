"""Parameters, fields and methods of the SDK's public names: the skin has them, or the guide names the difference."""

from __future__ import annotations

import importlib
from fnmatch import fnmatchcase
from functools import cache

from tests.agents.peer.known_differences import KNOWN
from tests.agents.peer.sdk import modules, public
from tests.agents.peer.signatures import differences
from tests.agents.peer.test_sdk_names import GUIDE, in_skin


@cache
def found() -> frozenset[str]:
    """Return what the SDK's public names take or have, and the skin's do not."""
    lacking: set[str] = set()
    for module, theirs in modules().items():
        for name in public(module):
            try:
                pair = getattr(theirs, name), getattr(importlib.import_module(in_skin(module)), name)
            except (AttributeError, ImportError):
                continue  # the test of names says so, or the SDK needs more than is installed
            lacking |= set(differences(name, *pair))
    return frozenset(lacking)


def fits(difference: str, pattern: str) -> bool:
    return difference == pattern or fnmatchcase(difference, pattern)


def test_every_parameter_is_taken_or_is_known_to_differ() -> None:
    patterns = [each for patterns in KNOWN.values() for each in patterns]
    assert sorted(each for each in found() if not any(fits(each, pattern) for pattern in patterns)) == []


def test_every_known_difference_is_one() -> None:
    patterns = [each for patterns in KNOWN.values() for each in patterns]
    assert [pattern for pattern in patterns if not any(fits(each, pattern) for each in found())] == []


def test_the_guide_says_every_known_difference() -> None:
    assert [words for words in KNOWN if words not in GUIDE] == []
