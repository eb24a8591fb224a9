"""Files below a directory, reached from its file descriptor one name at a time; symbolic links are never followed.

Each name is opened relative to the directory that was opened before it, with `O_NOFOLLOW`. So there is no moment
between a check and a use in which a directory can become a link to somewhere else. `Changes` makes several changes, or
none.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from msgspec import Struct

from ..errors import OutcomeUnknown, PatchRefused

SUPPORTED = hasattr(os, "O_NOFOLLOW") and {os.open, os.stat, os.link, os.rename, os.unlink} <= os.supports_dir_fd
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
DIRECTORY = _READ | getattr(os, "O_DIRECTORY", 0)
FILE = _READ | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class File(Struct, frozen=True):
    """A regular file: its content, and its `stat`."""

    content: bytes
    stat: os.stat_result

    def is_same(self, other: File | None) -> bool:
        """Return True if this is the same file with the same content."""
        return other is not None and identity(self.stat) == identity(other.stat) and self.content == other.content


class Change(Struct, frozen=True):
    """One name in the workspace, before and after; None is a file that is not there."""

    path: str
    before: File | None
    after: bytes | None
    like: os.stat_result | None = None
    """The file whose mode and owner the new content gets."""


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return the numbers that tell a file or directory from all others."""
    return found.st_dev, found.st_ino


@contextmanager
def refusing(path: str) -> Iterator[None]:
    """Raise `PatchRefused` for an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise PatchRefused(f"{path}: {_worded(error)}; no file was changed.") from error


def _worded(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a part of the path is a symbolic link, or no directory"
    if error.errno in (errno.EPERM, errno.EOPNOTSUPP):
        return "it is not permitted, or the file system has no hard links, which the editor needs"
    return os.strerror(error.errno) if error.errno else str(error)


def open_directory(root: int, path: str, made: list[tuple[int, str]] | None = None) -> int | None:
    """Return a file descriptor of the directory that holds a path; None if it does not exist.

    With `made`, missing directories are made, and noted there with a descriptor of their parent.
    """
    here = os.dup(root)
    try:
        for name in path.split("/")[:-1]:
            try:
                below = os.open(name, DIRECTORY, dir_fd=here)
            except FileNotFoundError:
                if made is None:
                    os.close(here)
                    return None
                os.mkdir(name, dir_fd=here)
                made.append((os.dup(here), name))
                below = os.open(name, DIRECTORY, dir_fd=here)
            here, above = below, here
            os.close(above)
    except BaseException:
        os.close(here)
        raise
    return here


def read_file(directory: int, path: str, limit: int) -> File | None:
    """Return the file of a path in its directory; None if it is not there. Only a regular file is opened."""
    name = path.split("/")[-1]
    try:
        _regular(os.stat(name, dir_fd=directory, follow_symlinks=False), path, limit)
        opened = os.open(name, FILE, dir_fd=directory)
    except FileNotFoundError:
        return None
    with open(opened, "rb") as file:
        found = os.fstat(opened)
        _regular(found, path, limit)
        content = file.read(limit + 1)
    if len(content) > limit:
        raise PatchRefused(_too_large(path, limit))
    return File(content, found)


def _regular(found: os.stat_result, path: str, limit: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PatchRefused(f"{path} is a symbolic link, and links are not followed; no file was changed.")
    if not stat.S_ISREG(found.st_mode):
        raise PatchRefused(f"{path} is not a regular file; no file was changed.")
    if found.st_size > limit:
        raise PatchRefused(_too_large(path, limit))


def _too_large(path: str, limit: int) -> str:
    return f"{path} is larger than {limit} bytes (max_file_bytes); no file was changed."


@dataclass
class _Staged:
    """A change with its directory held open, and its temporary files there."""

    change: Change
    directory: int
    temporary: str | None = None
    written: tuple[int, int] | None = None
    """The identity of the new file."""
    backup: str | None = None
    done: bool = False

    @property
    def name(self) -> str:
        return self.change.path.split("/")[-1]


@dataclass
class Changes:
    """Changes that are made together.

    All new contents are written beside their files first. Then all files are looked at once more, and only then does
    each file get its new content, by a rename. If one of them fails, the earlier ones are taken back.
    """

    root: int
    limit: int
    staged: list[_Staged] = field(default_factory=list)
    made: list[tuple[int, str]] = field(default_factory=list)
    unknown: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error is not None:
                self._take_back(error)
        finally:
            self._clean_up(failed=error is not None)

    def apply(self, changes: list[Change]) -> None:
        """Make all changes, or none."""
        for change in changes:
            with refusing(change.path):
                self._stage(change)
        for each in self.staged:
            with refusing(each.change.path):
                self._check(each)
        for each in self.staged:
            with refusing(each.change.path):
                self._commit(each)
        for each in self.staged:
            with refusing(each.change.path):
                self._confirm(each)

    def _stage(self, change: Change) -> None:
        """Write the new content into a temporary file beside the file."""
        directory = open_directory(self.root, change.path, self.made if change.after is not None else None)
        if directory is None:
            raise PatchRefused(changed_meanwhile(change.path))
        staged = _Staged(change, directory)
        self.staged.append(staged)
        if change.after is None:
            return
        staged.temporary = _temporary()
        mode = 0o600 if change.like is not None else 0o666  # a new file gets the usual mode
        with open(os.open(staged.temporary, NEW, mode, dir_fd=directory), "wb") as file:
            file.write(change.after)
            _dress(file.fileno(), change)
            file.flush()
            os.fsync(file.fileno())
            staged.written = identity(os.fstat(file.fileno()))

    def _check(self, staged: _Staged) -> None:
        """Raise `PatchRefused` unless the file, and its directory, are those that the change was made for."""
        change = staged.change
        now = open_directory(self.root, change.path)
        if now is None:
            raise PatchRefused(changed_meanwhile(change.path))
        try:
            same = identity(os.fstat(now)) == identity(os.fstat(staged.directory))
        finally:
            os.close(now)
        found = read_file(staged.directory, change.path, self.limit)
        if not same or (found is not None if change.before is None else not change.before.is_same(found)):
            raise PatchRefused(changed_meanwhile(change.path))

    def _commit(self, staged: _Staged) -> None:
        """Give the name its new content, or none. Links are replaced, never followed."""
        name, at, before = staged.name, staged.directory, staged.change.before
        if before is None:
            assert staged.temporary is not None
            _link(staged.temporary, name, at)  # never overwrites
            staged.done = True
            return
        staged.backup = _temporary()
        if staged.temporary is None:
            os.rename(name, staged.backup, src_dir_fd=at, dst_dir_fd=at)
            staged.done = True
        else:
            _link(name, staged.backup, at)
        if identity(os.stat(staged.backup, dir_fd=at, follow_symlinks=False)) != identity(before.stat):
            raise PatchRefused(changed_meanwhile(staged.change.path))
        if staged.temporary is not None:
            os.rename(staged.temporary, name, src_dir_fd=at, dst_dir_fd=at)
            staged.done = True

    def _confirm(self, staged: _Staged) -> None:
        """Raise `PatchRefused` if somebody wrote to the old file between the last look and the rename."""
        before = staged.change.before
        if before is None or staged.backup is None:
            return
        try:
            found = read_file(staged.directory, staged.backup, self.limit)
        except PatchRefused:  # it has grown beyond the limit
            found = None
        if not before.is_same(found):
            raise PatchRefused(changed_meanwhile(staged.change.path))

    def _take_back(self, error: BaseException) -> None:
        """Give each name that was changed its old file, the last one first."""
        left: list[str] = []
        for staged in reversed(self.staged):
            if staged.done:
                try:
                    _undo(staged)
                except OSError as problem:
                    left.append(f"{staged.change.path} ({_worded(problem)})")
        if left:
            self.unknown = True
            raise OutcomeUnknown(
                f"The patch failed ({error}), and these files could not be put back: {', '.join(left)}. "
                "Their old contents are beside them, in files that begin with .assent-."
            ) from error

    def _clean_up(self, *, failed: bool) -> None:
        for staged in self.staged:
            if not self.unknown:
                for name in (staged.temporary, staged.backup):
                    if name is not None:
                        with suppress(OSError):
                            os.unlink(name, dir_fd=staged.directory)
            with suppress(OSError):
                os.fsync(staged.directory)
            os.close(staged.directory)
        for parent, name in reversed(self.made):
            if failed:
                with suppress(OSError):  # somebody else has put something there
                    os.rmdir(name, dir_fd=parent)
            os.close(parent)


def changed_meanwhile(path: str) -> str:
    """Return the refusal of a patch whose file was changed by somebody else."""
    return f"{path} was changed by somebody else meanwhile; no file was changed by this patch."


def _undo(staged: _Staged) -> None:
    name, at = staged.name, staged.directory
    if staged.change.before is None:
        if identity(os.stat(name, dir_fd=at, follow_symlinks=False)) == staged.written:
            os.unlink(name, dir_fd=at)
        return
    assert staged.backup is not None
    if staged.temporary is None:
        _link(staged.backup, name, at)
    else:
        os.rename(staged.backup, name, src_dir_fd=at, dst_dir_fd=at)


def _link(name: str, to: str, directory: int) -> None:
    """Give a file a second name in its directory."""
    os.link(name, to, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)


def _temporary() -> str:
    return f".assent-{os.urandom(8).hex()}.tmp"


def _dress(file: int, change: Change) -> None:
    """Give the new file the owner and the mode of the old; bits that lend its owner's rights are left out."""
    like, mine = change.like, os.fstat(file)
    if like is None:
        return
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(file, like.st_uid, like.st_gid)
        except PermissionError:
            why = "belongs to another user or group, which would change"
            raise PatchRefused(f"{change.path} {why}; no file was changed.") from None
    os.fchmod(file, stat.S_IMODE(like.st_mode) & 0o777)
