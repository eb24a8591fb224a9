"""The page on errors is made from the error tree, so it has all of them and says what they say.

After a change of the tree, write the page anew with: ASSENTRY_WRITE=1 python -m pytest tests/docs/test_errors.py
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import assentry
import assentry.errors
from assentry import AssentryError

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "errors.md"

ACTS = {
    "UsageError": "the developer. The program, or what it was given, must change.",
    "Conflict": "the caller. Something has changed meanwhile; look again.",
    "Forbidden": "whoever gives rights. This caller may not do this.",
    "NotFound": "the caller. What is named is not there.",
    "Upstream": "whoever sees to the outside world: a model, a server, a database. Trying again may help.",
}
"""Who must act on the errors of a branch."""

TEXT = """\
# Errors

Every error that Assentry raises is an `AssentryError`. The branches say who must act, and each error has the HTTP
status that it maps to. They can be imported from `assentry` and from `assentry.errors`. This page is made from the tree
itself, and a test keeps it so.

A pause, a rejection and a tool's failure are not errors. They are part of the run, and the model is told of them.
[How to go on after an error](../howto/errors.md) says what to do with the rest.

## AssentryError

{root} What all errors have:

| attribute | is |
|---|---|
| `status` | the HTTP status |
| `message` | the error's text |
| `state` | the run as a `RunState` to resume, on every error that leaves a run; `None` if nothing had begun |
| `run_data` | the run as a result: items, replies and guardrail results up to the error; `None` if nothing had begun |

An exception that is not Assentry's, such as one of your model's, carries `.state` too when it leaves a run.
"""


def children(error: type[AssentryError]) -> list[type[AssentryError]]:
    """The errors right below one, in the order they are defined; one with two parents is below the first."""
    below = [each for each in error.__subclasses__() if each.__module__ == assentry.errors.__name__]
    return [each for each in below if each.__bases__[0] is error]


def tree(error: type[AssentryError]) -> Iterator[type[AssentryError]]:
    """An error and all below it."""
    yield error
    for child in children(error):
        yield from tree(child)


def drawn(error: type[AssentryError], stem: str = "") -> Iterator[str]:
    """The tree below an error, with the branches drawn."""
    below = children(error)
    for child in below:
        last = child is below[-1]
        yield f"{stem}{'└── ' if last else '├── '}{child.__name__}"
        yield from drawn(child, f"{stem}{'    ' if last else '│   '}")


def branch(error: type[AssentryError]) -> type[AssentryError] | None:
    """The branch an error is in; None for the root."""
    return next((each for each in error.__mro__ if AssentryError in each.__bases__), None)


def linked(error: type[AssentryError]) -> str:
    return f"[`{error.__name__}`](#{error.__name__.lower()})"


def entry(error: type[AssentryError]) -> list[str]:
    """An error's part of the page: who must act, its status, where it is, and what it says of itself."""
    level = "##" if AssentryError in error.__bases__ else "###"
    parents = [each for each in reversed(error.__mro__) if issubclass(each, AssentryError) and each is not error]
    where = " › ".join(map(linked, parents))
    above = branch(error)
    assert above is not None
    lines = [f"{level} {error.__name__}", "", inspect.getdoc(error) or "", ""]
    lines += [f"- Who must act: {ACTS[above.__name__]}", f"- HTTP status: {error.status}", f"- Under: {where}"]
    return [*lines, ""]


def page() -> str:
    """The page as the tree has it today."""
    lines = [
        TEXT.format(root=inspect.getdoc(AssentryError)),
        "## The tree",
        "",
        "```text",
        "AssentryError",
        *drawn(AssentryError),
        "```",
        "",
    ]
    for error in tree(AssentryError):
        if error is not AssentryError:
            lines += entry(error)
    return "\n".join(lines)


def test_the_page_shows_the_tree_as_it_is() -> None:
    if os.environ.get("ASSENTRY_WRITE"):
        PAGE.write_text(page(), "utf-8")
    assert PAGE.exists() and PAGE.read_text("utf-8") == page(), (
        f"{PAGE.name} is not what the tree says; write it anew with ASSENTRY_WRITE=1 and read what changed"
    )


def test_every_error_is_on_the_page() -> None:
    headings = [line.lstrip("# ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("##")]
    for name, error in vars(assentry.errors).items():
        if inspect.isclass(error) and issubclass(error, AssentryError):
            assert headings.count(name) == 1, name


def test_every_error_is_at_the_front_door() -> None:
    assert {error.__name__ for error in tree(AssentryError)} <= set(assentry.__all__)


def test_every_branch_says_who_must_act() -> None:
    assert {error.__name__ for error in children(AssentryError)} == set(ACTS)
