"""The page on how Assentry is built names modules that are there, and its walk passes through those that it draws."""

from __future__ import annotations

import re

import assentry.approval.decide
import assentry.core.fold
import assentry.core.run
import assentry.runtime.driver
import assentry.store.sql.store
from tests.docs.walk import LEGS, PAGE, SOURCE, legs, row

TEXT = PAGE.read_text("utf-8")
TESTS = PAGE.parent.parent.parent / "tests"


def section(title: str) -> str:
    """Return a section of the page, with the sections in it."""
    return re.split(r"^## ", TEXT.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def modules(text: str) -> set[str]:
    """Return the modules that a text names, as paths."""
    return set(re.findall(r"[\w/]+/\w+\.py", text))


def test_every_module_on_the_page_is_there() -> None:
    places = (SOURCE, SOURCE / "runtime", TESTS, TESTS.parent)
    assert [name for name in sorted(modules(TEXT)) if not any((place / name).exists() for place in places)] == []


def test_the_page_has_the_step_of_every_effect() -> None:
    table = section("The driver and its steps")
    for effect, step in assentry.runtime.driver.PERFORM.items():
        module = step.__module__.removeprefix("assentry.").replace(".", "/")
        assert f"| `{effect.__name__}` | `{step.__name__}` | `{module}.py` |" in table


def test_the_page_names_what_a_new_database_implements() -> None:
    words = section("Where does it go?")
    assert all(f"`{name}(" in words for name in assentry.store.sql.store.SQLStore.__abstractmethods__)


def test_the_functions_that_a_change_leads_to_are_there() -> None:
    homes = {
        assentry.core.fold: ("_started", "_asked", "_approved", "_answered", "_finished"),
        assentry.core.run: ("_WAITS", "_owed_ready", "held"),
        assentry.approval.decide: ("decide",),
    }
    words = section("Where does it go?")
    for home, names in homes.items():
        assert all(hasattr(home, name) and f"`{name}`" in words for name in names)


def test_the_walk_passes_through_the_modules_that_are_drawn() -> None:
    passed = legs()
    drawn = modules(section("The walk of one approval").split("```")[1])
    assert drawn and drawn <= {module for leg in LEGS for module in passed[leg]}
    for leg in LEGS:
        found = row(leg).search(TEXT)
        # A slow disk may take another way through a store, so the number may differ a little.
        assert found and abs(int(found[2]) - len(passed[leg])) <= 3, (
            f"write it anew: python tests/docs/walk.py --write ({leg})"
        )
