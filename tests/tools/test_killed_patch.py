"""A process that applies a patch is killed at every moment: afterwards the patch is applied whole, or not at all.

No plan and no temporary file stays. The probe knows what happened, and "run it" is right wherever the process was
killed: a patch that is applied is not applied again.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from assentry import Approve, PatchRefused, Runner, RunState, WorkspaceEditor
from assentry.core import facts as f
from assentry.tools.patch_format import read_patch
from assentry.tools.workspace_plan import EARLIER_PLAN, PLAN
from tests.runtime.support import python
from tests.tools import patch_program as program
from tests.tools.patch_program import AFTER, BEFORE, LATER, PATCH, Case
from tests.tools.test_patch_format import in_patch

HERE = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the program looks at open files in /proc")


class Nursery:
    """Processes that live in workspaces of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count(1)
        command = [sys.executable, "-m", "tests.tools.patch_program"]
        self.process = subprocess.Popen(command, cwd=HERE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def workspace(self) -> Path:
        root = self.folder / f"{next(self.numbers)}" / "root"
        program.furnish(root)
        return root

    def lived(self, *cases: Case) -> list[int]:
        """Let processes live at the same time, and return how they ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(cases) + "\n")
        self.process.stdin.flush()
        ended: list[int] = json.loads(self.process.stdout.readline())
        return ended

    def died(self, work: str, root: Path, number: int = 0) -> bool:
        """Let a process live, and return True if it was killed."""
        [ended] = self.lived(Case(work, str(root), number))
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


def half_done(nursery: Nursery) -> Path:
    """A workspace in which the first file is new and others are old."""
    for root in nursery.killed("apply"):
        if (root / "a.py").read_text() == AFTER["a.py"] and (root / "gone").exists():
            return root
    raise AssertionError("there is no such moment")


def test_a_file_that_somebody_changed_after_the_kill_is_left_alone_until_they_put_it_back(nursery: Nursery) -> None:
    root = half_done(nursery)
    (root / "gone").write_text("mine\n")
    before = texts(root)
    for use in (WorkspaceEditor(root).preview, WorkspaceEditor(root).apply):
        with pytest.raises(PatchRefused, match=r"changed by somebody else: gone; new: a\.py.*delete the directory"):
            use(read_patch(in_patch("*** Add File: b", "+x")))
    assert texts(root) == before
    (root / "gone").write_text(BEFORE["gone"])
    assert look_again(root) == AFTER


def test_a_plan_under_the_earlier_name_is_carried_out(nursery: Nursery) -> None:
    root = half_done(nursery)
    (root / PLAN).rename(root / EARLIER_PLAN)
    assert look_again(root) == AFTER
    assert not (root / EARLIER_PLAN).exists() and not (root / PLAN).exists()


def test_whoever_deletes_the_plan_leaves_all_files_as_they_are(nursery: Nursery) -> None:
    root = half_done(nursery)
    files = {name: text for name, text in texts(root).items() if not name.startswith(PLAN)}
    shutil.rmtree(root / PLAN)
    assert WorkspaceEditor(root).apply(read_patch(in_patch("*** Add File: b", "+x"))) == "Created b."
    assert texts(root) == {**files, "b": "x\n"}


def test_the_lock_of_a_killed_process_ends_although_its_forked_child_lives(nursery: Nursery) -> None:
    root = nursery.workspace()
    pipe = root.with_suffix(".pipe")
    os.mkfifo(pipe)
    assert nursery.lived(Case("leave a child", str(root))) == [-signal.SIGKILL]
    with open(pipe, "wb"):  # the child has it open, and reads until we close it
        code = f"from tests.tools.patch_program import *; look(Path({str(root)!r}), None)"
        assert python(code, cwd=HERE).stderr == ""
    assert look_again(root) == AFTER


def test_processes_that_patch_one_file_at_the_same_time_wait_for_each_other(nursery: Nursery) -> None:
    root = nursery.workspace()
    assert nursery.lived(*[Case("count", str(root))] * 4) == [0] * 4
    lines = (root / "list").read_text().splitlines()
    assert len(set(lines)) == len(lines) == 1 + 4 * 20


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
        assert known["probe"] > 15 and known["tool"] > 5
        assert asked <= (0 if work == "approved" else 3), "only before the body has recorded what it is about to do"


async def test_what_cannot_be_finished_is_put_to_a_person_who_is_told_what_was_seen(nursery: Nursery) -> None:
    for number in itertools.count(1):
        root = nursery.workspace()
        await program.ask(root, {})
        assert nursery.died("approved", root, number)
        if (root / "a.py").read_text() == AFTER["a.py"] and (root / "gone").exists():
            break
    (root / "gone").write_text("mine\n")
    agent = program.agent_of(root)
    async with program.store_of(root, LATER) as store:
        stored = await program.taken_up(store)
        assert stored is not None
        [item] = (await Runner.run(agent, stored, store=store)).interruptions
        assert item.kind == "doubt"
        assert "changed by somebody else: gone; new: a.py" in item.reason
        assert (root / "gone").read_text() == "mine\n"
        (root / "gone").write_text(BEFORE["gone"])  # the person has looked
        [question] = (await store.questions()).items
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    outcome, doubts = await next_process(root, "approved")
    assert (outcome.error, doubts) == (None, 0)
    assert look_again(root) == AFTER


async def test_run_it_is_asked_again_if_somebody_else_has_changed_a_file(nursery: Nursery) -> None:
    """The person said so after a doubt, when nothing had been changed; the file still fits the patch."""
    for number in itertools.count(1):
        root = nursery.workspace()
        await program.ask(root, program.OPTIONS["doubted"])
        assert nursery.died("doubted", root, number)
        if (root / PLAN).exists():
            break
    (root / "a.py").write_text("zero\none\ntwo\n")
    agent = program.agent_of(root, **program.OPTIONS["doubted"])
    async with program.store_of(root, LATER) as store:
        for kind in ("doubt", "approval"):
            stored = await program.taken_up(store)
            assert stored is not None
            await Runner.run(agent, stored, store=store)
            [question] = (await store.questions()).items
            assert question.kind == kind
            assert texts(root) == {**BEFORE, "a.py": "zero\none\ntwo\n"}
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    assert "a.py is not as it was shown" in question.reason
    outcome, _ = await next_process(root, "doubted")
    assert outcome.error is None
    assert texts(root) == {**AFTER, "a.py": "zero\none\nTWO\n"}


async def test_a_run_without_a_store_that_is_resumed_again_after_a_kill_finds_the_patch_whole_or_absent(
    nursery: Nursery,
) -> None:
    seen = Counter[bool]()
    for number in itertools.count(1):
        root = nursery.workspace()
        agent = program.agent_of(root)
        state = (await Runner.run(agent, "go")).to_state()
        state.approve(state.get_interruptions()[0])
        root.with_suffix(".state").write_text(state.to_string())
        if not nursery.died("resume", root, number):
            break
        again = await RunState.from_string(agent, root.with_suffix(".state").read_text())
        result = await Runner.run(agent, again)
        if result.interruptions:  # it was applied already, so it does not fit any more
            assert "What was shown has changed" in result.interruptions[0].reason
        else:
            assert result.final_output == "done"
        assert look_again(root) == AFTER
        seen[bool(result.interruptions)] += 1
    assert min(seen[True], seen[False]) > 5
