"""Every public name is documented: it has a docstring, and it is on one page of the reference.

The source is read and not imported, as the site reads it: an attribute's docstring, such as that of `Decision`, is
there only in the source.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import griffe
import pytest

import assentry
import assentry.engines
import assentry.errors
import assentry.mcp
import assentry.outside
import assentry.realtime
import assentry.store
import assentry.testing
import assentry.threads

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(ROOT.glob("docs/reference/*.md"))
ERRORS = ROOT / "docs" / "reference" / "errors.md"
SOURCE = Path(assentry.__file__).parent.parent


def exported(package: str) -> list[str]:
    """The public names of a package, which is not imported: it needs a library with threads of its own."""
    tree = ast.parse((SOURCE / "assentry" / package / "__init__.py").read_text("utf-8"))
    [names] = [ast.literal_eval(each.value) for each in tree.body if isinstance(each, ast.Assign)]
    return list(names)


NAMES = [f"assentry.{name}" for name in assentry.__all__]
NAMES += [f"assentry.engines.{name}" for name in assentry.engines.__all__]
NAMES += [f"assentry.mcp.{name}" for name in assentry.mcp.__all__]
NAMES += [f"assentry.engines.temporal.{name}" for name in exported("engines/temporal")]
NAMES += [f"assentry.outside.{name}" for name in assentry.outside.__all__ if name not in assentry.__all__]
NAMES += [f"assentry.realtime.{name}" for name in assentry.realtime.__all__]
NAMES += [f"assentry.store.{name}" for name in assentry.store.__all__]
NAMES += [f"assentry.outside.openai_agents.{name}" for name in ("ask_first", "run_with_approvals")]
NAMES += ["assentry.outside.pydantic_ai.AskFirst"]
NAMES += ["assentry.outside.langchain.AskFirstMiddleware"]
NAMES += [f"assentry.outside.langgraph.{name}" for name in ("run_graph", "stream_graph")]
NAMES += [f"assentry.testing.{name}" for name in assentry.testing.__all__]
NAMES += [f"assentry.threads.{name}" for name in assentry.threads.__all__]


@functools.cache
def package() -> griffe.Object:
    """The package as its source says it."""
    loaded = griffe.load("assentry", search_paths=[SOURCE], submodules=True)
    assert isinstance(loaded, griffe.Object)
    return loaded


def source_of(name: str) -> griffe.Object:
    """What a public name stands for."""
    found = package()[name.removeprefix("assentry.")]
    return found.final_target if isinstance(found, griffe.Alias) else found


def shown(page: Path) -> list[str]:
    """The names that a page of the reference shows."""
    text = page.read_text("utf-8")
    if page == ERRORS:
        return [f"assentry.{name}" for name in re.findall(r"^###? (\w+)$", text, re.MULTILINE)]
    return re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)


def members(thing: griffe.Object) -> Iterator[griffe.Object]:
    """The public methods and properties of a class, its parents' too."""
    for name, member in thing.all_members.items():
        each = member.final_target if isinstance(member, griffe.Alias) else member
        if not name.startswith("_") and (each.is_function or each.has_labels("property")):
            yield each


def test_every_public_name_is_on_one_page_of_the_reference() -> None:
    pages = Counter(name for page in PAGES for name in shown(page))
    assert [name for name in NAMES if pages[name] != 1] == [], "add them to a page of docs/reference/"


def test_the_reference_shows_nothing_else() -> None:
    for page in PAGES:
        there = set(shown(page)) if page != ERRORS else set(shown(page)) & set(NAMES)
        assert there <= set(NAMES), page.name


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_docstring(name: str) -> None:
    thing = source_of(name)
    assert thing.docstring, f"{name} ({thing.path}) has no docstring"
    assert not thing.docstring.value.startswith(" ")


@pytest.mark.parametrize("name", NAMES)
def test_every_public_method_and_property_has_a_docstring(name: str) -> None:
    thing = source_of(name)
    if thing.is_class:
        assert [each.path for each in members(thing) if not each.docstring] == []
