"""Files below a directory, reached from its file descriptor one name at a time; symbolic links are never followed.

Each name is opened relative to the directory that was opened before it, with `O_NOFOLLOW`. So there is no moment
between a check and a use in which a directory can become a link to somewhere else. `workspace_plan` changes files.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from ..errors import PatchRefused

_RELATIVE = {os.open, os.stat, os.link, os.rename, os.unlink, os.mkdir, os.rmdir}
SUPPORTED = hasattr(os, "O_NOFOLLOW") and os.supports_dir_fd >= _RELATIVE and os.listdir in os.supports_fd
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
DIRECTORY = _READ | getattr(os, "O_DIRECTORY", 0)
FILE = _READ | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
ABSENT = "absent"
"""The digest of a file that is not there."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class FileState(Struct, frozen=True):
    """A regular file: its content, and its `stat`."""

    content: bytes
    stat: os.stat_result

    def is_same(self, other: FileState | None) -> bool:
        """Return True if this is the same file with the same content."""
        return other is not None and identity(self.stat) == identity(other.stat) and self.content == other.content


class FileChange(Struct, frozen=True):
    """One name in the workspace, before and after; None is a file that is not there."""

    path: str
    before: FileState | None
    after: bytes | None
    like: os.stat_result | None = None
    """The file whose mode and owner the new content gets."""


def digest_of(content: bytes | None) -> str:
    """Return the digest of a file's content; None is a file that is not there."""
    return ABSENT if content is None else f"sha256:{hashlib.sha256(content).hexdigest()}"


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return the numbers that tell a file or directory from all others."""
    return found.st_dev, found.st_ino


@contextmanager
def refusing(path: str) -> Iterator[None]:
    """Raise `PatchRefused` for an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise PatchRefused(f"{path}: {os_error_words(error)}; no file was changed.") from error


def os_error_words(error: OSError) -> str:
    """Return what an error of the operating system means here."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a part of the path is a symbolic link, or no directory"
    if error.errno == errno.EXDEV:
        return "it is on another file system than the workspace's root; make an editor for that directory"
    if error.errno in (errno.EPERM, errno.EOPNOTSUPP):
        return "it is not permitted, or the file system has no hard links, which the editor needs"
    return os.strerror(error.errno) if error.errno else str(error)


@contextmanager
def closing(opened: int) -> Iterator[int]:
    """Close a file descriptor at the end."""
    try:
        yield opened
    finally:
        os.close(opened)


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


def read_file(directory: int, path: str, limit: int) -> FileState | None:
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
    return FileState(content, found)


def _regular(found: os.stat_result, path: str, limit: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PatchRefused(f"{path} is a symbolic link, and links are not followed; no file was changed.")
    if not stat.S_ISREG(found.st_mode):
        raise PatchRefused(f"{path} is not a regular file; no file was changed.")
    if found.st_size > limit:
        raise PatchRefused(_too_large(path, limit))


def _too_large(path: str, limit: int) -> str:
    return f"{path} is larger than {limit} bytes (max_file_bytes); no file was changed."


def copy_owner_and_mode(file: int, change: FileChange) -> None:
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
