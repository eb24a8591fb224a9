"""Several changes of files made as one: a plan on disk first, so that a killed process leaves all of them or none.

While a patch is applied, the directory `.assentry-patch` is in the root. It holds the new contents, the plan, and later
the old contents. Outside of it, nothing changes before the plan is durable, and the patch has ended when the plan is
removed. Whoever opens the workspace next finishes a plan that it finds there, or takes it back if that was begun.

Everything here is done under the workspace's lock. What a file becomes is decided elsewhere.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

import msgspec
from msgspec import Struct

from ..errors import OutcomeUnknown, PatchRefused
from .workspace_files import (
    ABSENT,
    DIRECTORY,
    FILE,
    NEW,
    FileChange,
    FileState,
    closing,
    copy_owner_and_mode,
    digest_of,
    identity,
    open_directory,
    os_error_words,
    read_file,
    refusing,
)

PLAN = ".assentry-patch"
EARLIER_PLAN = ".assent-patch"
"""The directory's name under the product's earlier name."""
"""The directory of the plan, in the root. No patch may touch a file of this name."""
FORWARD, BACK = "plan", "undo"
"""The plan's name in its directory: before it is taken back, and from then on."""
VERSION = 1


class PlannedChange(Struct, frozen=True):
    """One name in the workspace, with the digests of its content before and after."""

    path: str
    before: str
    after: str


class Plan(Struct, frozen=True):
    """A patch that is under way. The contents of the change with the number 3 are in `new-3` and `old-3`."""

    changes: tuple[PlannedChange, ...]
    made: tuple[str, ...]
    """The directories that the patch makes, outer ones first."""
    limit: int
    """The largest file, in bytes."""
    version: int = VERSION


class ChangedMeanwhile(Exception):
    """A file was changed by somebody else while the patch was applied; the editor says what that means."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed by somebody else meanwhile; no file was changed by this patch.")
        self.path = path


@dataclass
class _Staged:
    """A change with its directory held open; None if the directory has to be made."""

    number: int
    change: FileChange
    directory: int | None

    @property
    def planned(self) -> PlannedChange:
        before = self.change.before.content if self.change.before is not None else None
        return PlannedChange(self.change.path, digest_of(before), digest_of(self.change.after))


@dataclass
class Changes:
    """Changes that are made together.

    All new contents are written first. Then all files are looked at once more, the plan is written, and only then does
    each file get its new content, by a rename. If one of them fails, the earlier ones are taken back.
    """

    root: int
    limit: int
    staged: list[_Staged] = field(default_factory=list)
    made: list[tuple[int, str]] = field(default_factory=list)
    plan: int | None = None
    """A file descriptor of the plan's directory."""
    planned: bool = False
    """True once the plan is on disk."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error is not None and self.planned:
                self._take_back(error)
            if self.plan is not None:
                with suppress(OSError):  # whoever opens the workspace next tries it again
                    _remove(self.root, self.plan)
        finally:
            self._close()

    def apply(self, changes: list[FileChange]) -> None:
        """Make all changes, or none."""
        with refusing(PLAN):
            self.plan = _make(self.root)
        for number, change in enumerate(changes):
            with refusing(change.path):
                self._stage(number, change)
        for each in self.staged:
            with refusing(each.change.path):
                self._check(each)
        with refusing(PLAN):
            self._write()
        self.planned = True
        for each in self.staged:
            with refusing(each.change.path):
                self._commit(each)
        for each in self.staged:
            with refusing(each.change.path):
                self._confirm(each)
        with refusing(PLAN):
            for parent, _ in self.made:
                os.fsync(parent)

    @property
    def _plan(self) -> int:
        assert self.plan is not None
        return self.plan

    def _stage(self, number: int, change: FileChange) -> None:
        """Write the new content into the plan's directory."""
        directory = open_directory(self.root, change.path)
        self.staged.append(_Staged(number, change, directory))
        if change.after is None:
            return
        mode = 0o600 if change.like is not None else 0o666  # a new file gets the usual mode
        with open(os.open(f"new-{number}", NEW, mode, dir_fd=self._plan), "wb") as file:
            file.write(change.after)
            copy_owner_and_mode(file.fileno(), change)
            file.flush()
            os.fsync(file.fileno())

    def _check(self, staged: _Staged) -> None:
        """Raise `ChangedMeanwhile` unless the file, and its directory, are those that the change was made for."""
        change = staged.change
        now = open_directory(self.root, change.path)
        if now is None and staged.directory is None and change.before is None:
            return
        if now is None:
            raise ChangedMeanwhile(change.path)
        try:
            if staged.directory is None:
                staged.directory = os.dup(now)
            same = identity(os.fstat(now)) == identity(os.fstat(staged.directory))
        finally:
            os.close(now)
        found = read_file(staged.directory, change.path, self.limit)
        if not same or (found is not None if change.before is None else not change.before.is_same(found)):
            raise ChangedMeanwhile(change.path)

    def _write(self) -> None:
        """Write the plan, whole and for good."""
        changes = tuple(each.planned for each in self.staged)
        new = [each.change.path for each in self.staged if each.directory is None]
        made = dict.fromkeys(name for path in new for name in _missing_directories(self.root, path))
        plan = Plan(changes, tuple(made), self.limit)
        with open(os.open("plan.tmp", NEW, 0o600, dir_fd=self._plan), "wb") as file:
            file.write(msgspec.json.encode(plan))
            file.flush()
            os.fsync(file.fileno())
        os.rename("plan.tmp", FORWARD, src_dir_fd=self._plan, dst_dir_fd=self._plan)
        os.fsync(self._plan)
        os.fsync(self.root)

    def _commit(self, staged: _Staged) -> None:
        """Give the name its new content, or none."""
        change = staged.change
        if staged.directory is None:
            staged.directory = open_directory(self.root, change.path, self.made)
        assert staged.directory is not None
        _switch(self._plan, staged.number, change.path, staged.directory, change.before, change.after is not None)

    def _confirm(self, staged: _Staged) -> None:
        """Make the change durable; raise `ChangedMeanwhile` if somebody wrote to the old file before the rename."""
        assert staged.directory is not None
        os.fsync(staged.directory)
        before = staged.change.before
        if before is None:
            return
        try:
            found = read_file(self._plan, f"old-{staged.number}", self.limit)
        except PatchRefused:  # it has grown beyond the limit
            found = None
        if not before.is_same(found):
            raise ChangedMeanwhile(staged.change.path)

    def _take_back(self, error: BaseException) -> None:
        """Give each name that was changed its old file, the last one first."""
        left: list[str] = []
        try:
            _turn_back(self._plan)
            for staged in reversed(self.staged):
                try:
                    if staged.directory is not None:
                        _undo(self._plan, staged.number, staged.planned, staged.directory, self.limit)
                        os.fsync(staged.directory)
                except OSError as problem:
                    left.append(f"{staged.change.path} ({os_error_words(problem)})")
        except OSError as problem:
            left = [f"{each.change.path} ({os_error_words(problem)})" for each in self.staged]
        if left:
            raise OutcomeUnknown(
                f"The patch failed ({error}), and these files could not be put back: {', '.join(left)}. "
                f"Their old contents are in {PLAN}, and it is tried again when the workspace is next used."
            ) from error
        for parent, name in reversed(self.made):
            with suppress(OSError):  # somebody else has put something there
                os.rmdir(name, dir_fd=parent)

    def _close(self) -> None:
        if self.plan is not None:
            os.close(self.plan)
        for staged in self.staged:
            if staged.directory is not None:
                os.close(staged.directory)
        for parent, _ in self.made:
            os.close(parent)


# -- what a killed process left --------------------------------------------------------------------


def recover(root: int) -> None:
    """Finish or take back the patch of a process that was killed; raise `PatchRefused` if neither is possible."""
    with refusing(PLAN):
        opened = _open(root)
    if opened is None:
        return
    with closing(opened):
        try:
            names = os.listdir(opened)
            if BACK in names:
                _roll_back(root, opened, _read(opened, BACK))
            elif FORWARD in names:
                _roll_forward(root, opened, _read(opened, FORWARD))
            _remove(root, opened)
        except (OSError, ChangedMeanwhile) as error:
            why = (
                os_error_words(error)
                if isinstance(error, OSError)
                else f"{error.path} was changed by somebody else just now"
            )
            raise PatchRefused(
                f"A patch was interrupted in this workspace, and cannot be finished now: {why}. Try again, or delete "
                f"the directory {PLAN} in the workspace to leave all files as they are."
            ) from error


def _roll_forward(root: int, opened: int, plan: Plan) -> None:
    """Make the changes that are not made yet; change nothing if a file is neither as before nor as planned."""
    looks = [_look(root, opened, number, change, plan.limit) for number, change in enumerate(plan.changes)]
    if any(state == "other" for state, _ in looks):
        raise PatchRefused(_unfinished(plan, [state for state, _ in looks]))
    for number, (change, (state, found)) in enumerate(zip(plan.changes, looks, strict=True)):
        made: list[tuple[int, str]] = []
        directory = open_directory(root, change.path, None if change.after == ABSENT else made)
        for parent, _ in made:
            os.fsync(parent)
            os.close(parent)
        if directory is None:
            continue
        with closing(directory):
            if state == "before":
                with suppress(FileNotFoundError):  # a link from just before the process was killed
                    os.unlink(f"old-{number}", dir_fd=opened)
                _switch(opened, number, change.path, directory, found, change.after != ABSENT)
            os.fsync(directory)


def _roll_back(root: int, opened: int, plan: Plan) -> None:
    """Give each name its old file again, where the planned one still is."""
    for number, change in reversed(list(enumerate(plan.changes))):
        directory = open_directory(root, change.path)
        if directory is not None:
            with closing(directory):
                _undo(opened, number, change, directory, plan.limit)
                os.fsync(directory)
    for path in reversed(plan.made):
        parent = open_directory(root, path)
        if parent is not None:
            with closing(parent), suppress(OSError):  # somebody else has put something there
                os.rmdir(path.split("/")[-1], dir_fd=parent)


def _look(
    root: int, opened: int, number: int, change: PlannedChange, limit: int
) -> tuple[Literal["before", "after", "other"], FileState | None]:
    """Return how a file is now, and the file itself."""
    try:
        directory = open_directory(root, change.path)
        if directory is None:
            found = None
        else:
            with closing(directory):
                found = read_file(directory, change.path, limit)
        now = digest_of(found.content if found is not None else None)
        moved_away = _digest_in(opened, f"old-{number}", limit)
        if moved_away not in (ABSENT, change.before):
            return "other", found
        if now == change.after:
            return "after", found
        whole = change.after in (ABSENT, _digest_in(opened, f"new-{number}", limit))
        return ("before" if now == change.before and whole else "other"), found
    except (OSError, PatchRefused):  # a link, a directory, or too large: not what the patch has seen or made
        return "other", None


def _digest_in(directory: int, name: str, limit: int) -> str:
    file = read_file(directory, name, limit)
    return digest_of(file.content if file is not None else None)


def _unfinished(plan: Plan, states: list[Literal["before", "after", "other"]]) -> str:
    """Return the refusal of a patch after which another one cannot be finished."""
    words = {"other": "changed by somebody else", "after": "new", "before": "old"}
    paths: dict[str, list[str]] = {}
    for change, state in zip(plan.changes, states, strict=True):
        paths.setdefault(state, []).append(change.path)
    seen = "; ".join(f"{words[state]}: {', '.join(paths[state])}" for state in words if state in paths)
    return (
        f"A patch was interrupted in this workspace and cannot be finished ({seen}). No file was changed now. Put the "
        f"files that somebody changed back and try again, or delete the directory {PLAN} in the workspace, which has "
        "the old and new contents, to leave all files as they are."
    )


# -- the plan's directory --------------------------------------------------------------------------


def _make(root: int) -> int:
    """Make the plan's directory, which nobody else may enter, and return a file descriptor of it."""
    os.mkdir(PLAN, 0o700, dir_fd=root)
    try:
        return os.open(PLAN, DIRECTORY, dir_fd=root)
    except OSError:
        os.rmdir(PLAN, dir_fd=root)
        raise


def _open(root: int) -> int | None:
    """Return a file descriptor of the plan's directory; None if there is none.

    Raise `PatchRefused` if another user made it, or may have written to it: its plan is nobody's approved patch.
    """
    with suppress(FileNotFoundError):
        os.stat(EARLIER_PLAN, dir_fd=root, follow_symlinks=False)
        os.rename(EARLIER_PLAN, PLAN, src_dir_fd=root, dst_dir_fd=root)
    try:
        opened = os.open(PLAN, DIRECTORY, dir_fd=root)
    except FileNotFoundError:
        return None
    found = os.fstat(opened)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(opened)
        raise PatchRefused(
            f"The workspace has a directory {PLAN} that belongs to another user, or that others may enter; no file was "
            "changed. Apply patches as one user, or look who made it, and delete it."
        )
    return opened


def _read(opened: int, name: str) -> Plan:
    try:
        with open(os.open(name, FILE, dir_fd=opened), "rb") as file:
            plan = msgspec.json.decode(file.read(), type=Plan)
    except (msgspec.MsgspecError, RecursionError):
        plan = None
    if (
        plan is None
        or plan.version != VERSION
        or not all(map(_is_inside, [*plan.made, *(c.path for c in plan.changes)]))
    ):
        raise PatchRefused(
            f"The workspace has a plan in {PLAN} that this version of Assentry did not write; no file was changed. "
            "Open the workspace with the version that wrote it, or delete the directory to leave all files as they are."
        )
    return plan


def _is_inside(path: str) -> bool:
    return not any(part in ("", ".", "..") for part in path.split("/"))


def _turn_back(opened: int) -> None:
    """Note for good that the plan is taken back from now on."""
    os.rename(FORWARD, BACK, src_dir_fd=opened, dst_dir_fd=opened)
    os.fsync(opened)


def _remove(root: int, opened: int) -> None:
    """Remove the plan, which ends the patch, and then the rest."""
    for name in (FORWARD, BACK):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=opened)
    for name in os.listdir(opened):
        os.unlink(name, dir_fd=opened)
    os.rmdir(PLAN, dir_fd=root)
    with suppress(OSError):
        os.fsync(root)


# -- one change ------------------------------------------------------------------------------------


def _missing_directories(root: int, path: str) -> list[str]:
    """Return the directories above a path that do not exist, outer ones first."""
    parts = path.split("/")
    found: list[str] = []
    for depth in range(1, len(parts)):
        opened = open_directory(root, "/".join(parts[: depth + 1]))
        if opened is None:
            found.append("/".join(parts[:depth]))
        else:
            os.close(opened)
    return found


def _switch(plan: int, number: int, path: str, directory: int, before: FileState | None, is_written: bool) -> None:
    """Give a name its new content, or none, and keep the old one. Links are replaced, never followed."""
    name, new, old = path.split("/")[-1], f"new-{number}", f"old-{number}"
    if before is None:
        _share(plan, new, directory)
        _link(new, plan, name, directory)  # never overwrites
        return
    if is_written:
        _link(name, directory, old, plan)
    else:
        os.rename(name, old, src_dir_fd=directory, dst_dir_fd=plan)
    if identity(os.stat(old, dir_fd=plan, follow_symlinks=False)) != identity(before.stat):
        raise ChangedMeanwhile(path)
    if is_written:
        os.rename(new, name, src_dir_fd=plan, dst_dir_fd=directory)


def _undo(plan: int, number: int, change: PlannedChange, directory: int, limit: int) -> None:
    """Give a name its old file again, unless it was not changed, or somebody else has changed it since."""
    name, old = change.path.split("/")[-1], f"old-{number}"
    try:
        now = _digest_in(directory, change.path, limit)
    except PatchRefused:
        return
    if now != change.after:
        return
    with suppress(FileNotFoundError, FileExistsError):
        if change.before == ABSENT:
            os.unlink(name, dir_fd=directory)
        elif change.after == ABSENT:
            _link(old, plan, name, directory)
        else:
            os.rename(old, name, src_dir_fd=plan, dst_dir_fd=directory)


def _link(name: str, directory: int, to: str, there: int) -> None:
    """Give a file a second name."""
    os.link(name, to, src_dir_fd=directory, dst_dir_fd=there, follow_symlinks=False)


def _share(plan: int, new: str, directory: int) -> None:
    """Give a new file the group of its directory, if that is how the directory shares its files."""
    above = os.fstat(directory)
    if above.st_mode & stat.S_ISGID and os.stat(new, dir_fd=plan, follow_symlinks=False).st_gid != above.st_gid:
        os.chown(new, -1, above.st_gid, dir_fd=plan, follow_symlinks=False)
