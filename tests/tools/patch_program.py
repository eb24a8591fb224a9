"""A program that is killed while it applies a patch: by SIGKILL, just before the n-th change of a file or of the store.

Changes of files are known by Python's audit events, so no function that changes files is left out. As a program it is
a nursery: it imports everything once, and forks a child for every line on its standard input.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from assentry import (
    Agent,
    ApplyPatchTool,
    Approve,
    ModelRequest,
    PatchRefused,
    RunConfig,
    Runner,
    RunState,
    WorkspaceEditor,
)
from assentry.store.record import Stored
from assentry.store.sqlite import SQLiteStore
from assentry.testing import ScriptedModel, call
from assentry.tools.patch_format import read_patch
from assentry.tools.workspace_plan import BACK, FORWARD, PLAN, Changes
from tests.tools.test_patch_format import in_patch

HANGS = 100
"""Seconds after which a child hangs, and is ended."""
CHANGING = {
    *("os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"),
    *("os.chmod", "os.chown", "os.chflags", "os.utime", "os.setxattr", "os.removexattr"),
}
"""The audit events of changes; opening a file to write is one, too."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

BEFORE = {"a.py": "one\ntwo\n", "list": "first\n", "notes.txt": "hello\n", "gone": "x\n", "picture": "p\n"}
AFTER = {
    "a.py": "one\nTWO\n",
    "list": "first\nadded\n",
    "old/notes.md": "bye\n",
    "new/deep/b": "new\n",
    "new/picture": "p\n",
}
PATCH = in_patch(
    "*** Update File: a.py", "@@", "-two", "+TWO",
    "*** Update File: list", "@@", " first", "+added",
    "*** Add File: new/deep/b", "+new",
    "*** Update File: notes.txt", "*** Move to: old/notes.md", "-hello", "+bye",
    "*** Delete File: gone",
    "*** Update File: picture", "*** Move to: new/picture",
)  # fmt: skip
"""A patch of every kind; the second part would fit again when it is done."""
LATER = 3600.0
"""Seconds after which the lease of a dead process has run out."""


class Case(NamedTuple):
    """One process: what it does, in which workspace, and at which change it is killed; at none, if that is 0."""

    work: str
    root: str
    number: int = 0


class Moments:
    """Counts the changes of files and of the store, and kills the process just before one of them.

    A file is changed inside the plan's directory, or while a plan stands; any other change ends the process.
    """

    def __init__(self, case: Case) -> None:
        self.root, self.number, self.count = os.path.realpath(case.root), case.number, 0
        self.opens_in: Any = None
        self.looking = False

    def watch(self) -> None:
        real = os.open

        def opening(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            self.opens_in = dir_fd
            return real(path, flags, mode, dir_fd=dir_fd)

        os.open = opening  # an audit event does not have the directory
        os.fsync = lambda opened: None  # what a killed process has written stays
        sys.addaudithook(self.hear)

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        writes = event == "open" and type(given[2]) is int and given[2] & WRITES and not os.path.isabs(str(given[0]))
        if self.looking or not (writes or event in CHANGING):
            return
        self.looking = True
        try:
            where = self.places(event, given)
            if any(each.startswith(self.root) for each in where):
                self.come()
                self.check(event, where)
        finally:
            self.looking = False

    def come(self) -> None:
        """Tell that a moment has come."""
        self.count += 1
        if self.count == self.number:
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()  # it is on its way

    def places(self, event: str, given: tuple[Any, ...]) -> list[str]:
        """Return the paths that are changed."""
        if event == "open":
            return [_path(given[0], self.opens_in)]
        if event == "os.link":  # its source stays as it is
            return [_path(given[1], given[3])]
        if event == "os.rename":
            return [_path(given[0], given[2]), _path(given[1], given[3])]
        if event in ("os.chmod", "os.mkdir"):
            return [_path(given[0], given[2])]
        if event in ("os.remove", "os.rmdir"):
            return [_path(given[0], given[1])]
        return [_path(given[0], given[-1])]

    def check(self, event: str, where: list[str]) -> None:
        plan = os.path.join(self.root, PLAN)
        stands = any(os.path.exists(os.path.join(plan, name)) for name in (FORWARD, BACK))
        outside = [path for path in where if path != plan and not path.startswith(plan + os.sep)]
        if outside and not stands:
            print(f"{event} changed {outside} while no plan stood", file=sys.stderr, flush=True)
            os._exit(3)


def _path(name: Any, directory: Any) -> str:
    """Return the path of a name in an open directory, or of an open file."""
    at = type(directory) is int and directory >= 0
    if type(name) is int:
        return os.readlink(f"/proc/self/fd/{name}")
    return os.path.join(os.readlink(f"/proc/self/fd/{directory}") if at else os.getcwd(), os.fsdecode(name))


# -- what a process does -------------------------------------------------------------------------------


def furnish(root: Path) -> None:
    root.mkdir(parents=True)
    for name, text in BEFORE.items():
        (root / name).write_text(text)


def apply(root: Path, moments: Moments) -> None:
    WorkspaceEditor(root).apply(read_patch(PATCH))


def fail(root: Path, moments: Moments) -> None:
    """Apply the patch; the last step of it fails, so that all is taken back."""
    real = Changes._confirm

    def cannot(self: Changes, staged: Any) -> None:
        if staged is self.staged[-1]:
            raise OSError(5, "Input/output error")
        real(self, staged)

    Changes._confirm = cannot  # type: ignore[method-assign]
    with suppress(PatchRefused):
        apply(root, moments)


def look(root: Path, moments: Moments) -> None:
    """Look at the patch again, as the next process of a run does."""
    with suppress(PatchRefused):  # it is applied
        WorkspaceEditor(root).preview(read_patch(PATCH))


def says(request: ModelRequest) -> Any:
    """What the model says, by what it hears."""
    given = any(item.get("type") == "function_call_output" for item in request.input)
    return "done" if given else call("apply_patch", {"patch": PATCH})


def agent_of(root: Path, **options: Any) -> Agent[Any]:
    tool = ApplyPatchTool(WorkspaceEditor(root), **options)
    return Agent("Editor", tools=[tool], model=ScriptedModel(itertools.repeat(says)))


def store_of(root: Path, later: float = 0.0) -> SQLiteStore:
    return SQLiteStore(str(root.with_suffix(".db")), clock=lambda: time.time() + later)


def doubting(ctx: Any, args: Any) -> None:
    """Find out nothing, so that a person is asked."""


OPTIONS: dict[str, dict[str, Any]] = {
    "approved": {},
    "not asked about": {"needs_approval": False},
    "doubted": {"probe": doubting},
}


async def taken_up(store: SQLiteStore) -> Stored | None:
    """The run as the store has it, if it was begun."""
    records = (await store.runs()).items
    return await store.load(records[0].id) if records else None


async def ask(root: Path, options: dict[str, Any]) -> None:
    """Begin a run whose patch needs approval, and approve it."""
    async with store_of(root) as store:
        if "needs_approval" not in options:
            await Runner.run(agent_of(root, **options), "go", store=store)
        for question in (await store.questions()).items:
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)


def resume(root: Path, moments: Moments) -> None:
    """Go on with a run that was saved as a text, and lives in no store."""

    async def go_on() -> None:
        agent = agent_of(root)
        await Runner.run(agent, await RunState.from_string(agent, root.with_suffix(".state").read_text()))

    asyncio.run(go_on())


def leave_a_child(root: Path, moments: Moments) -> None:
    """Apply the patch, with a forked child that is there as long as somebody holds its pipe open, and be killed."""
    real = Changes._commit

    def fork(self: Changes, staged: Any) -> None:
        if os.fork() == 0:
            signal.alarm(HANGS)
            with open(root.with_suffix(".pipe"), "rb") as pipe:
                pipe.read()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
        real(self, staged)

    Changes._commit = fork  # type: ignore[method-assign]
    apply(root, moments)


def count(root: Path, moments: Moments) -> None:
    """Apply many small patches of one file, as other processes do at the same time."""
    for number in range(20):
        lines = in_patch("*** Update File: list", "@@", " first", f"+{os.getpid()} {number}")
        WorkspaceEditor(root).apply(read_patch(lines))


def run(root: Path, moments: Moments, **options: Any) -> None:
    """Go on with the run."""

    async def go_on() -> None:
        async with store_of(root) as store:
            append = store.append

            async def telling(change: Any) -> None:
                moments.come()
                await append(change)
                moments.come()

            store.append = telling  # type: ignore[method-assign]
            given = await taken_up(store) or "go"
            await Runner.run(agent_of(root, **options), given, store=store, run_config=RunConfig(lease=30))

    asyncio.run(go_on())


WORK: dict[str, Callable[[Path, Moments], None]] = {
    "apply": apply,
    "fail": fail,
    "look": look,
    "resume": resume,
    "leave a child": leave_a_child,
    "count": count,
}


def child(case: Case) -> None:
    signal.alarm(HANGS)
    moments = Moments(case)
    try:
        moments.watch()
        if case.work in WORK:
            WORK[case.work](Path(case.root), moments)
        else:
            run(Path(case.root), moments, **OPTIONS[case.work])
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def nursery() -> None:
    """Fork a child for every case on a line, all at once, and say how each ended."""
    gc.freeze()
    for line in sys.stdin:
        processes = []
        for case in json.loads(line):
            processes.append(os.fork())
            if processes[-1] == 0:
                child(Case(*case))
        ended = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    nursery()
