"""Every public name of LangChain's is in `assentry.threads`, or the error says what to do instead."""

from __future__ import annotations

import pytest

from assentry.errors import AssentryError
from tests.threads.peer.known_differences import not_yet
from tests.threads.peer.names import public

NOT_YET = not_yet("name")


def found(name: str) -> str:
    """Return "here", "explained", or nothing."""
    try:
        exec(f"from assentry.threads import {name}", {})
    except AssentryError as error:
        return "explained" if "from-langchain" in str(error) else ""
    except ImportError:
        return ""
    return "here"


@pytest.mark.parametrize("name", sorted(public()))
def test_a_name_is_here_or_says_what_to_do(name: str) -> None:
    if name in NOT_YET:
        assert not found(name), "take it out of not_yet.txt"
    else:
        assert found(name)


def test_the_names_that_are_not_here_yet_are_names() -> None:
    assert NOT_YET - set(public()) == set()
