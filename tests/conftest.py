"""What all tests share: `async def` tests, hypothesis profiles, and a way to run an example."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from assentry.models import default
from assentry.models.embedded_parts import LIBRARY
from tests.draws import examples
from tests.models.embedded import embedded
from tests.store.postgres import postgres

__all__ = ["embedded", "postgres"]  # fixtures; here, so that each of them is made once for all tests of a process

EXAMPLES = Path(__file__).parent.parent / "examples"

# Deadlines measure the machine, not the code. CI draws the same values every time, so that a failure there is the
# change's own; chance is for the developer's machine.
hypothesis.settings.register_profile("dev", deadline=None, max_examples=examples(100))
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def blocking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, run to its end in an event loop of its own."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest first, so that nobody waits for it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Let a test be an `async def`, under `@given` too: there every example has its own event loop."""
    given = getattr(pyfuncitem.obj, "hypothesis", None)
    if given is not None and inspect.iscoroutinefunction(given.inner_test):
        given.inner_test = blocking(given.inner_test)
    elif inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = blocking(pyfuncitem.obj)


@pytest.fixture(scope="session", autouse=True)
def no_default_model() -> Iterator[None]:
    """See that no test asks a model by accident: there is no key, no name, and no embedded model by default."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ASSENTRY_MODEL", "OPENAI_API_KEY", "OPENAI_DEFAULT_MODEL"):
            patch.delenv(name, raising=False)
        patch.setattr(default, "missing_parts", lambda: [LIBRARY])
        yield


@pytest.fixture
def run_example(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_example("shop", stdin="y\\n")` starts examples/shop.py as a person would, and types that.

    All starts of one test share a working directory, so a second one finds what the first left there.
    """

    def run(name: str, stdin: str = "", *args: str) -> subprocess.CompletedProcess[str]:
        plain = {"COLUMNS": "120", "NO_COLOR": "1", "PYTHONUTF8": "1", "TERM": "dumb"}
        return subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py"), *args],
            input=stdin,
            cwd=tmp_path,
            env=os.environ | plain,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )

    return run
