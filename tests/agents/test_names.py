"""The names of the skin: where they come from, and what those that are not here say."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import openai
import pytest

import assentry.agents as skin
from assentry.agents.absent import ABSENT, NotInAssentry
from assentry.errors import UsageError

HOMES = {name: module for module, names in skin._HOMES.items() for name in names}
PRESENT = sorted(set(HOMES) - set(ABSENT))


@pytest.mark.parametrize("name", PRESENT)
def test_a_name_of_the_package_is_the_one_of_its_module(name: str) -> None:
    home = importlib.import_module(f"assentry.agents.{HOMES[name]}")
    assert getattr(skin, name) is getattr(home, name)
    assert name in home.__all__


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_a_name_that_is_not_here_says_what_to_do(name: str) -> None:
    with pytest.raises(NotInAssentry, match=f"^{name} is not in Assentry. .* See docs/howto/from-openai-agents.md"):
        getattr(skin, name)


def test_the_client_of_openai_can_be_imported_with_the_other_names() -> None:
    assert skin.AsyncOpenAI is openai.AsyncOpenAI


def test_the_client_of_openai_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    home = importlib.import_module("assentry.agents.models.openai_provider")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError, match=r"need the openai package, .*: pip install"):
        getattr(home, "AsyncOpenAI")  # noqa: B009 - it is looked up when it is asked for


def test_a_name_that_nobody_has_is_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError):
        getattr(skin, "NoSuchName")  # noqa: B009 - a type checker knows that it is not there


def test_type_checkers_see_every_module_that_names_come_from() -> None:
    tree = ast.parse(Path(skin.__file__).read_text("utf-8"))
    seen = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"}
    assert seen == set(skin._HOMES)
