"""The editor that ships: it applies patches below one directory, and nowhere else.

It decides what each file becomes; `workspace_files` reads, and `workspace_plan` writes.
"""

from __future__ import annotations

import functools
import os
import stat
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from ..core import allowed
from ..core.wording import described
from ..definitions.calling import in_thread
from ..definitions.preview import AnyBlock, Diff, Preview, Text, break_warning
from ..errors import InvalidArguments, InvalidDefinition, NotAsShown, PatchRefused
from .patch_editor import ApplyPatchResult, Operations, TracedEditor, change_kind, done_sentence, sentence
from .patch_format import ApplyPatchOperation, OperationType, edits_of, new_file_text
from .patch_text import PatchLine, TextLines, apply_edits, join_lines, unified_diff
from .workspace_files import (
    DIRECTORY,
    SUPPORTED,
    FileChange,
    FileState,
    closing,
    digest_of,
    identity,
    open_directory,
    read_file,
    refusing,
)
from .workspace_plan import EARLIER_PLAN, PLAN, ChangedMeanwhile, Changes, recover

try:
    import fcntl
except ImportError:  # on Windows, where no editor can be made
    fcntl = None  # type: ignore[assignment]

MAX_FILE_BYTES = 1_000_000
MAX_LINES = 100_000
MAX_PATH, MAX_NAME = 1_000, 255
MAX_SHOWN = 100_000
"""The largest file, in bytes, whose whole text is shown before it is deleted."""
WORKSPACE = "workspace/"
"""The precondition that has the root; no path ends so."""
NOTHING: Mapping[str, Any] = {}
PROTECTED = allowed.Values(
    "a list of names without slashes",
    lambda given: not isinstance(given, str) and all(type(name) is str and "/" not in name for name in given),
)


_LOCKS: set[int] = set()
"""The file descriptors of the locks that this process has, or waits for."""


def _forget_locks() -> None:
    """Close a forked child's copies of the locks, so that they end with the parent."""
    while _LOCKS:
        os.close(_LOCKS.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


class _Effect(Struct, frozen=True):
    """The effect of an operation: the names that it changes, and the lines, if the file is text."""

    operation: ApplyPatchOperation
    changes: list[FileChange]
    lines: list[PatchLine] | None


class WorkspaceEditor(TracedEditor):
    """An editor for `ApplyPatchTool` that works inside one directory and cannot leave it.

    A patch is applied whole or not at all. Its context must match to the letter and in one place. Paths that are
    absolute or have `..` are refused, and symbolic links are never followed, not even one that is made while the patch
    is applied. If the process is killed, the next use of the workspace finishes the patch. Processes that patch one
    workspace wait for each other. The guide on `apply_patch` has the details.

    Args:
        root: The directory. A symbolic link to a directory is resolved now, and never again.
        max_file_bytes: The largest file that is read or written.
        protected: Names of files and directories that no patch may touch, at any depth.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        protected: Collection[str] = (".git",),
    ) -> None:
        if not SUPPORTED or fcntl is None:
            raise InvalidDefinition(
                "WorkspaceEditor cannot keep its promises on this system, which opens no files relative to an open "
                "directory. Use it on Linux or macOS, or give ApplyPatchTool an editor of your own."
            )
        allowed.check_option("WorkspaceEditor", "max_file_bytes", max_file_bytes, allowed.COUNT)
        allowed.check_option("WorkspaceEditor", "protected", protected, PROTECTED)
        try:
            self._root = Path(root).resolve(strict=True)
            self._identity = identity(os.stat(self._root))
            if not self._root.is_dir():
                raise NotADirectoryError(f"{self._root} is no directory")
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            raise InvalidDefinition(f"WorkspaceEditor needs a directory as its root: {error}.") from None
        self._limit = max_file_bytes
        self._protected = frozenset(_key(name) for name in (PLAN, EARLIER_PLAN, *protected))

    @property
    def root(self) -> Path:
        """The directory, with all symbolic links resolved."""
        return self._root

    def __repr__(self) -> str:
        return f"<WorkspaceEditor {str(self._root)!r}>"

    # -- the editor's three parts ----------------------------------------------------------------

    def check(self, operations: Operations) -> None:
        """Raise `InvalidArguments` if a path leaves the root or is protected, or if two operations share a file."""
        seen: dict[str, str] = {}
        for path in (path for each in operations for path in (each.path, each.move_to) if path is not None):
            self._check_path(path)
            key = _key(path)
            if key in seen:
                raise InvalidArguments(
                    f"{described(path)}: the patch has this file twice, or another whose name differs only in case"
                )
            seen[key] = path
        for key, path in seen.items():
            parts = key.split("/")
            if any("/".join(parts[:n]) in seen for n in range(1, len(parts))):
                raise InvalidArguments(f"{described(path)}: the patch has a file where this path needs a directory")

    def _check_path(self, path: str) -> None:
        parts = path.split("/")
        wrong = None
        if not path.isprintable():
            wrong = "it has characters that cannot be shown"
        elif path.startswith("/") or "\\" in path:
            wrong = 'it must be relative to the workspace, with "/" between names'
        elif any(part in ("", ".", "..") for part in parts):
            wrong = 'it must not have ".", ".." or an empty name in it'
        elif any(part != part.strip() for part in parts):
            wrong = "a name in it begins or ends with a space"
        elif len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_NAME for part in parts):
            wrong = "it is too long"
        elif any(_key(part) in self._protected for part in parts):
            wrong = "it is protected, and no patch may touch it"
        if wrong is not None:
            raise InvalidArguments(f"the path {described(path)}: {wrong}")

    def preview(self, operations: Operations) -> Preview:
        """Return the changes as diffs; raise `PatchRefused` if the patch does not fit the files as they are.

        The preconditions are the digests of all files that it touches, so a file that changes later is noticed. The
        patch of a process that was killed is finished first.
        """
        self.check(operations)
        with self._open_root() as root:
            effects = [self._effect(root, operation) for operation in operations]
        files = {change.path: _digest(change.before) for effect in effects for change in effect.changes}
        crlf = any(line.end == "\r\n" for effect in effects if _is_new(effect) for line in effect.lines or ())
        words = sentence(operations) + (" (new lines end in CRLF)" if crlf else "")
        added = (line.text for effect in effects for line in effect.lines or () if line.sign == "+")
        blocks = (*break_warning(added), *map(_block, effects))
        return Preview(words, blocks, {WORKSPACE: str(self._root), **files})

    async def patch(self, operations: Operations, *, shown: Mapping[str, Any] | None = None) -> str:
        """Apply a patch in a thread, and return a text for the model; see `apply`."""
        text: str = await in_thread(functools.partial(self.apply, operations, shown=shown))
        return text

    def apply(self, operations: Operations, *, shown: Mapping[str, Any] | None = None) -> str:
        """Apply all operations or none, and return what was done; raise `PatchRefused` if they do not fit.

        Args:
            operations: The patch.
            shown: The preconditions of the preview that was approved. If a file in them has another digest when it is
                opened, `NotAsShown` is raised, and nothing is changed.
        """
        self.check(operations)
        shown = shown or {}
        if shown.get(WORKSPACE, str(self._root)) != str(self._root):
            raise NotAsShown(f"The patch was shown for another workspace than {self._root}; no file was changed.")
        with self._open_root() as root:
            changes = [change for each in operations for change in self._effect(root, each, shown).changes]
            try:
                with Changes(root, self._limit) as work:
                    work.apply(changes)
            except ChangedMeanwhile as error:
                raise (NotAsShown if shown else PatchRefused)(str(error)) from None
        return "\n".join(f"{done_sentence(operation)}." for operation in operations)

    def digests(self, operations: Operations) -> dict[str, list[str]]:
        """Return the digests of each file before and after the patch; raise `PatchRefused` if it does not fit."""
        self.check(operations)
        with self._open_root() as root:
            changes = [change for each in operations for change in self._effect(root, each).changes]
        return {change.path: [_digest(change.before), digest_of(change.after)] for change in changes}

    def standing(self, digests: Mapping[str, list[str]]) -> Literal["before", "after"]:
        """Return "before" or "after" if that is what all files are like now; raise `PatchRefused` if neither is."""
        with self._open_root() as root:
            now = {path: _digest(self._read(root, path)) for path in digests}
        for number, which in enumerate(("before", "after")):
            if all(now[path] == each[number] for path, each in digests.items()):
                return which  # type: ignore[return-value]
        words = (
            f"{path} ({'old' if now[path] == old else 'new' if now[path] == new else 'changed by somebody else'})"
            for path, (old, new) in digests.items()
        )
        seen = ", ".join(words)
        raise PatchRefused(f"The files are neither all as before the patch nor all as after it: {seen}.")

    def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        """Create one file."""
        return self._single(operation, "create_file")

    def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        """Change one file, and move it if there is a `move_to`."""
        return self._single(operation, "update_file")

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        """Delete one file."""
        return self._single(operation, "delete_file")

    def _single(self, operation: ApplyPatchOperation, kind: OperationType) -> ApplyPatchResult:
        if operation.type != kind:
            raise InvalidArguments(f"{kind} got an operation of the type {described(operation.type)}")
        return ApplyPatchResult("completed", self.apply([operation]))

    # -- what each file becomes ------------------------------------------------------------------

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        """Open and lock the root, and settle what a killed process left there."""
        with closing(self._open()) as root, self._lock_root(root):
            recover(root)
            yield root

    @contextmanager
    def _lock_root(self, root: int) -> Iterator[None]:
        """Wait until no other process or thread patches the root.

        The lock belongs to a descriptor of its own, which is never duplicated. The system ends it with the process.
        """
        with refusing(str(self._root)):
            opened = os.open(".", DIRECTORY, dir_fd=root)
        with closing(opened) as lock:
            _LOCKS.add(lock)
            try:
                with refusing(str(self._root)):
                    fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                _LOCKS.discard(lock)
                fcntl.flock(lock, fcntl.LOCK_UN)  # a process that is being forked may have a copy still

    def _open(self) -> int:
        """Return a file descriptor of the root; raise `PatchRefused` if another directory is there now."""
        with refusing(str(self._root)):
            opened = os.open(self._root, DIRECTORY)
        if identity(os.fstat(opened)) != self._identity:
            os.close(opened)
            raise PatchRefused(f"The workspace {self._root} is another directory than before; no file was changed.")
        return opened

    def _effect(self, root: int, operation: ApplyPatchOperation, shown: Mapping[str, Any] = NOTHING) -> _Effect:
        """Return what an operation would do; raise `PatchRefused` if it does not fit the files."""
        path, before = operation.path, self._read(root, operation.path, shown)
        if operation.type == "create_file":
            if before is not None:
                raise PatchRefused(f"{path} exists already; update it instead. No file was changed.")
            text = new_file_text(operation.diff or "")
            lines = _all("+", text)
            return _Effect(operation, [FileChange(path, None, self._check_size(path, text))], lines)
        if before is None:
            raise PatchRefused(f"{path} does not exist; no file was changed.")
        if not before.stat.st_mode & stat.S_IWUSR:
            raise PatchRefused(f"{path} is read-only; no file was changed.")
        if operation.type == "delete_file":
            whole = _text(before.content)
            return _Effect(operation, [FileChange(path, before, None)], None if whole is None else _all("-", whole))
        return self._update(root, operation, before, shown)

    def _update(
        self, root: int, operation: ApplyPatchOperation, before: FileState, shown: Mapping[str, Any]
    ) -> _Effect:
        path, to = operation.path, operation.move_to
        after, lines = before.content, list[PatchLine]()
        if operation.diff:
            text = _text(before.content)
            if text is None:
                raise PatchRefused(f"{path} is not text in UTF-8; no file was changed.")
            old = TextLines.of(text)
            if len(old.texts) > MAX_LINES:
                raise PatchRefused(f"{path} has more than {MAX_LINES} lines; no file was changed.")
            try:
                lines = apply_edits(old, edits_of(old.texts, operation.diff))
            except PatchRefused as error:
                raise PatchRefused(f"{path}: {error}; no file was changed.") from None
            after = self._check_size(path, join_lines(old, lines))
        if to is None:
            if after == before.content:
                raise PatchRefused(f"{path}: the diff changes nothing; no file was changed.")
            return _Effect(operation, [FileChange(path, before, after, before.stat)], lines)
        if self._read(root, to, shown) is not None:
            raise PatchRefused(f"{to} exists already, so {path} cannot be moved there; no file was changed.")
        changes = [FileChange(to, None, after, before.stat), FileChange(path, before, None)]
        return _Effect(operation, changes, lines)

    def _read(self, root: int, path: str, shown: Mapping[str, Any] = NOTHING) -> FileState | None:
        """Return the file of a path; raise `NotAsShown` if it is not as it was shown."""
        try:
            with refusing(path):
                directory = open_directory(root, path)
                if directory is None:
                    file = None
                else:
                    with closing(directory):
                        file = read_file(directory, path, self._limit)
        except PatchRefused as error:
            if path not in shown:
                raise
            raise NotAsShown(f"{path} is not as it was shown: {error}") from None
        if shown.get(path, _digest(file)) != _digest(file):
            raise NotAsShown(f"{path} is not as it was shown; no file was changed.")
        return file

    def _check_size(self, path: str, text: str) -> bytes:
        content = text.encode()
        if len(content) > self._limit:
            raise PatchRefused(
                f"{path} would be larger than {self._limit} bytes (max_file_bytes); no file was changed."
            )
        return content


def _key(path: str) -> str:
    """Return the same text for paths that are one file where names differ only in case or in composition."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _text(content: bytes) -> str | None:
    """Return the content as text; None if it is binary."""
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def _all(sign: str, text: str) -> list[PatchLine]:
    lines = TextLines.of(text)
    return [PatchLine("+" if sign == "+" else "-", *each) for each in zip(lines.texts, lines.ends, strict=True)]


def _digest(file: FileState | None) -> str:
    return digest_of(file.content if file is not None else None)


def _is_new(effect: _Effect) -> bool:
    return effect.operation.type == "create_file"


def _block(effect: _Effect) -> AnyBlock:
    """Return what a person is shown of an operation."""
    operation, change = effect.operation, effect.changes[-1]
    size = len(change.before.content) if change.before is not None else 0
    if effect.lines is None:
        return Text(f"{size} bytes that are not text in UTF-8", title=operation.path)
    if operation.type == "delete_file" and size > MAX_SHOWN:
        return Text(f"{size} bytes, {len(effect.lines)} lines; too large to show", title=operation.path)
    kind, to = change_kind(operation), operation.move_to
    before = "/dev/null" if kind == "create" else f"a/{operation.path}"
    after = "/dev/null" if kind == "delete" else f"b/{to or operation.path}"
    return Diff(operation.path, unified_diff(before, after, effect.lines), kind, to)
