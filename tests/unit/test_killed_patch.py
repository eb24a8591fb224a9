"""A process that applies a patch is killed at every moment: afterwards the patch is applied whole, or not at all.

No plan and no temporary file stays. The probe knows what happened, and "run it" is right wherever the process was
killed: a patch that is applied is not applied again.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from assent import Approve, PatchRefused, Runner, WorkspaceEditor
from assent.core import facts as f
from assent.tools.patch_format import read_patch
from tests.unit import patch_program as program
from tests.unit.patch_program import AFTER, BEFORE, LATER, PATCH, Case

HERE = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the program looks at open files in /proc")


class Nursery:
    """Processes that live in workspaces of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count(1)
        command = [sys.executable, "-m", "tests.unit.patch_program"]
        self.process = subprocess.Popen(command, cwd=HERE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def workspace(self) -> Path:
        root = self.folder / f"{next(self.numbers)}" / "root"
        program.furnish(root)
        return root

    def died(self, work: str, root: Path, number: int = 0) -> bool:
        """Let a process live, and return True if it was killed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(Case(work, str(root), number)) + "\n")
        self.process.stdin.flush()
        ended = int(self.process.stdout.readline())
        assert ended in (0, -signal.SIGKILL), "it ended otherwise; see above"
        return ended != 0

    def killed(self, work: str) -> Iterator[Path]:
        """Yield a workspace for each moment at which a process can be killed in it."""
        for number in itertools.count(1):
            root = self.workspace()
            if not self.died(work, root, number):
                assert number > 20, "every moment was tried"
                return
            yield root


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("killed"))
    yield made
    made.process.communicate(timeout=program.HANGS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process has written stays, so nothing has to be forced to the disk."""
    monkeypatch.setattr(os, "fsync", lambda opened: None)


def texts(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def names(root: Path) -> set[str]:
    """All names below a directory."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def look_again(root: Path) -> dict[str, str]:
    """Use the workspace once more; return its files, which are all old or all new, and nothing else."""
    with suppress(PatchRefused):
        WorkspaceEditor(root).preview(read_patch(PATCH))
    files = texts(root)
    if files == BEFORE:
        assert names(root) == set(BEFORE)
    else:
        assert files == AFTER
        assert names(root) == {*AFTER, "old", "new", "new/deep"}
    return files


# -- the editor alone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("work", ["apply", "fail"])
def test_a_patch_that_is_killed_at_any_moment_is_whole_or_absent_when_the_workspace_is_next_used(
    nursery: Nursery, work: str
) -> None:
    seen = set()
    for root in nursery.killed(work):
        files = look_again(root)
        seen.add(files == AFTER)
        if files == BEFORE:
            WorkspaceEditor(root).apply(read_patch(PATCH))
            assert look_again(root) == AFTER
    assert seen == {True, False}


@pytest.mark.parametrize("work", ["apply", "fail"])
def test_whoever_finishes_the_work_of_the_killed_may_be_killed_too(nursery: Nursery, work: str) -> None:
    for root in nursery.killed(work):
        for number in itertools.count(1):
            if not nursery.died("look", root, number):
                break
        look_again(root)


@pytest.mark.parametrize("work", ["apply", "fail"])
def test_no_file_is_changed_while_no_plan_stands(nursery: Nursery, work: str) -> None:
    """The program ends with another status at such a change, in this process and in the one that comes after it."""
    assert not nursery.died(work, nursery.workspace())
    for root in nursery.killed(work):
        assert not nursery.died("look", root)


# -- runs ----------------------------------------------------------------------------------------------


async def next_process(root: Path, work: str) -> tuple[f.Finished, int]:
    """Go on with the run, when the lease of the dead has run out; return the patch's outcome, and the doubts asked."""
    agent, doubts = program.agent_of(root, **program.OPTIONS[work]), 0
    async with program.store_of(root, LATER) as store:
        while (stored := await program.taken_up(store)) is None or stored.record.status != "done":
            result = await Runner.run(agent, stored or "go", store=store)
            if result.interruptions:
                [question] = (await store.questions()).items
                assert question.kind == "doubt"
                doubts += 1
                await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    [outcome] = [fact for fact in stored.facts if type(fact) is f.Finished]
    return outcome, doubts


@pytest.mark.parametrize("work", ["approved", "not asked about", "doubted"])
async def test_a_run_whose_process_is_killed_at_any_moment_of_a_patch_goes_on_with_the_patch_applied_once(
    nursery: Nursery, work: str
) -> None:
    known, asked = Counter[str](), 0
    for number in itertools.count(1):
        root = nursery.workspace()
        await program.ask(root, program.OPTIONS[work])
        if not nursery.died(work, root, number):
            break
        outcome, doubts = await next_process(root, work)
        assert look_again(root) == AFTER
        assert (outcome.error, json.loads(bytes(outcome.output))["status"]) == (None, "completed")
        known[outcome.by] += 1
        asked += doubts
    assert known.total() > 40
    if work == "doubted":
        assert known.keys() == {"tool"} and asked > 30
    else:
        assert known["probe"] > 15 and known["tool"] > 5 and asked <= 3
