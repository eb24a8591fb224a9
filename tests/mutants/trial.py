"""A trial: the tests run on one mutant, in a process of its own, until one fails.

The process is a fork of one that has imported everything but Assentry and its tests, which are imported in it with the
fault in place; so a trial that ends early costs a fraction of a second. Nothing is written anywhere.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import pytest
from hypothesis import Phase, settings

from .mutant import ROOT, SOURCE, Mutant
from .seeds import CORE, RUNTIME

for _name in ("asyncio", "griffe", "hypothesis.stateful", "jsonschema", "msgspec", "pydantic"):
    importlib.import_module(_name)  # once, for all the forks

LIMIT = 240
"""Seconds, after which a mutant that still runs is one that runs for ever."""


@dataclass(frozen=True)
class Verdict:
    """How a trial ended: which tests found the fault, in which of them, at which line; or that none did."""

    mutant: Mutant
    judge: str | None = None
    test: str = ""
    where: str = ""
    seconds: float = 0.0


# -- the mutant in place of the module -------------------------------------------------------------


class _Loader(SourceFileLoader):
    """Loads a module with the fault in it; there is no bytecode of that to be found, or to be left behind."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.mutant.source(), str(self.path), "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin)
        spec.loader.mutant = self.mutant
        return spec


# -- the judges: what runs on a mutant, in this order -------------------------------------------------


class Caught(Exception):
    """A test failed: in this test, at this line."""

    def __init__(self, test: str, error: BaseException | None, tb: TracebackType | None) -> None:
        super().__init__(test)
        self.test = test
        self.where = _where(error, tb)


def _where(error: BaseException | None, tb: TracebackType | None) -> str:
    """The innermost line of ours that did not hold."""
    frames = [frame for frame in traceback.extract_tb(tb) if Path(frame.filename).is_relative_to(ROOT / "tests")]
    kind = type(error).__name__ if error else "?"
    if not frames:
        return kind
    place = f"{Path(frames[-1].filename).stem}.{frames[-1].name}"
    return place if kind == "AssertionError" else f"{place}: {kind}"


SALVO = 30


def fire() -> None:
    """The property tests' machine for a few seeds, without the machinery of a test."""
    from tests.property.test_core import play

    for seed in range(SALVO):
        try:
            play(seed)
        except (Exception, pytest.fail.Exception) as error:
            raise Caught(f"property/test_core.py::play({seed})", error, error.__traceback__) from None


class _Witness:
    """Tells of the first failure, and has hypothesis draw the same each time, and not shrink what it found."""

    caught: Caught | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for case in {item.cls for item in items if isinstance(item, pytest.Function) and item.cls}:
            if hasattr(case, "settings"):
                quick = [Phase.explicit, Phase.generate, Phase.target]
                case.settings = settings(case.settings, phases=quick, derandomize=True, database=None, deadline=None)
        items.sort(key=lambda item: hasattr(getattr(item, "cls", None), "settings"))

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        if self.caught is None:
            name = node.nodeid.removeprefix("tests/")
            self.caught = Caught(name, call.excinfo.value, call.excinfo.tb)


def tests(*names: str) -> Callable[[], None]:
    """A judge that runs these tests, until one fails."""

    def judge() -> None:
        witness = _Witness()
        options = ["--exitfirst", "--quiet", "--assert=plain", "-p", "no:cacheprovider"]
        code = pytest.main([*options, *(str(ROOT / "tests" / name) for name in names)], plugins=[witness])
        if code != pytest.ExitCode.OK:
            raise witness.caught or Caught(f"pytest: {code!r}", None, None)

    return judge


PROPERTY = "property"
JUDGES: dict[str, dict[str, Callable[[], None]]] = {
    CORE: {"salvo": fire, PROPERTY: tests("property/test_core.py"), "table": tests("core")},
    RUNTIME: {
        "gate and door": tests(
            "approval/test_gate.py",
            "runtime/test_door.py",
            "runtime/test_checks.py",
            "approval/test_grant_terms.py",
            "approval/test_deadlines.py",
            "approval/test_previews.py",
            "schema/test_exact_arguments.py",
            "tools/test_hosted_tools.py",
            "runtime/test_doubt.py",
        ),
        "runtime": tests(
            "runtime/test_handoffs.py",
            "runtime/test_agent_tools.py",
            "runtime/test_guardrails.py",
            "runtime/test_tripwires.py",
            "runtime/test_hooks.py",
            "tracing/test_tracing.py",
            "runtime/test_cancel.py",
            "definitions/test_definitions.py",
            "runtime/test_asking.py",
            "runtime/test_servers.py",
            "runtime/test_last_look.py",
            "runtime/test_bad_input.py",
            "runtime/test_context.py",
            "runtime/test_flow.py",
            "runtime/test_state.py",
            "runtime/test_streaming.py",
            "runtime/test_size.py",
        ),
        "store": tests("store/test_stored_runs.py", "store/test_interference.py"),
        "threads": tests(
            "threads/test_instead.py",
            "threads/test_policy.py",
            "threads/test_middleware.py",
            "threads/test_given_up.py",
            "threads/test_once.py",
            "threads/test_faults.py",
            "threads/test_tool_messages.py",
            "threads/test_inner.py",
        ),
    },
}
BY_PROPERTY = ("salvo", PROPERTY)


# -- one process for each ------------------------------------------------------------------------------


def _try(mutant: Mutant, judges: Iterable[str], answer: Connection) -> None:
    """In the fork: put the fault in place, and let the judges see it."""
    signal.alarm(LIMIT)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.environ["HYPOTHESIS_PROFILE"] = "ci"
    sys.path.insert(0, str(SOURCE))
    sys.meta_path.insert(0, _Finder(mutant))
    verdict = Verdict(mutant)
    for name in judges:
        try:
            JUDGES[mutant.group][name]()
        except Caught as caught:
            verdict = Verdict(mutant, name, caught.test, caught.where)
            break
        except Exception as error:  # the module itself does not import any more
            verdict = Verdict(mutant, name, "import", _where(error, error.__traceback__))
            break
    answer.send(verdict)
    answer.close()
    os._exit(0)


def trials(mutants: Iterable[Mutant], jobs: int, judges: Callable[[Mutant], Iterable[str]]) -> Iterator[Verdict]:
    """The verdict on each mutant, as they come in."""
    assert not any(name.partition(".")[0] == "assentry" for name in sys.modules), "it would not be imported again"
    context = multiprocessing.get_context("fork")
    waiting = deque(mutants)
    running: dict[Connection, tuple[Any, Mutant, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.popleft()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_try, args=(mutant, list(judges(mutant)), theirs), daemon=True)
            process.start()
            theirs.close()
            running[ours] = process, mutant, time.monotonic()
        for answer in wait(list(running)):
            assert isinstance(answer, Connection)
            process, mutant, since = running.pop(answer)
            try:
                verdict = answer.recv()
            except EOFError:
                verdict = Verdict(mutant, "limit", "", "it was killed: out of time, or worse")
            answer.close()
            process.join()
            yield replace(verdict, seconds=time.monotonic() - since)
