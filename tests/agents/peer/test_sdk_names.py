"""Every public name of the SDK is in the skin, at its place, or says what to do instead."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from assentry.agents.absent import NotInAssentry
from tests.agents.peer.sdk import INNER, modules, public

GUIDE = " ".join((Path(__file__).parents[3] / "docs/howto/from-openai-agents.md").read_text("utf-8").split())
"""The page's words, each apart by one space."""
ABSENT_MODULES = [
    "agents.extensions.experimental.codex",
    "agents.extensions.sandbox",
    "agents.realtime.testing",
    "agents.sandbox",
    "agents.testing",
    "agents.voice",
]


def in_skin(module: str) -> str:
    return f"assentry.{module}"


def missing(module: str) -> dict[str, str]:
    """Return the names of a module that the skin neither has nor explains, each with its problem."""
    try:
        skin = importlib.import_module(in_skin(module))
    except NotInAssentry:
        return {} if named(module) else {module: "the guide does not name the module"}
    except ModuleNotFoundError:
        return dict.fromkeys(public(module), "there is no such module")
    found = {}
    for name in public(module):
        try:
            getattr(skin, name)
        except NotInAssentry:
            if not named(name):
                found[name] = "the guide does not name it"
        except AttributeError:
            if not is_module(f"{module}.{name}"):
                found[name] = "it is not there"
    return found


def is_module(name: str) -> bool:
    try:
        importlib.import_module(in_skin(name))
    except NotInAssentry:
        return True
    except ModuleNotFoundError:
        return False
    return True


def named(name: str) -> bool:
    return f"`{name}`" in GUIDE or f"`{name}(" in GUIDE


@pytest.mark.parametrize("module", [name for name in modules() if public(name)])
def test_every_public_name_is_here_or_says_what_to_do(module: str) -> None:
    assert missing(module) == {}


@pytest.mark.parametrize("module", ABSENT_MODULES)
def test_a_module_that_is_not_here_says_what_to_do(module: str) -> None:
    with pytest.raises(NotInAssentry, match="from-openai-agents"):
        importlib.import_module(in_skin(module))
    assert named(module)


def test_the_modules_that_are_left_out_are_modules() -> None:
    assert [name for name in INNER if importlib.util.find_spec(name) is None] == []
