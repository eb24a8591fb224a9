"""The editor that ships: it applies patches below one directory, and nowhere else.

It decides what each file becomes; `workspace_files` reads and writes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import threading
import unicodedata
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from ..core.digest import described
from ..core.number import is_count
from ..definitions.calling import in_thread
from ..definitions.preview import AnyBlock, Diff, Preview, Text, break_warning
from ..errors import InvalidArguments, InvalidDefinition, PatchRefused
from .patch_editor import ApplyPatchResult, Operations, PatchEditor, done, kind_of, sentence
from .patch_format import ApplyPatchOperation, OperationType, created, edits_of
from .patch_text import Line, Lines, applied, joined, unified
from .workspace_files import (
    DIRECTORY,
    SUPPORTED,
    Change,
    Changes,
    File,
    identity,
    open_directory,
    read_file,
    refusing,
)

MAX_FILE_BYTES = 1_000_000
MAX_LINES = 100_000
MAX_PATH, MAX_NAME = 1_000, 255
MAX_SHOWN = 100_000
"""The largest file, in bytes, whose whole text is shown before it is deleted."""


@functools.cache
def _one_at_a_time() -> threading.Lock:
    """Return the lock by which patches of one process are applied one after another."""
    return threading.Lock()


if hasattr(os, "register_at_fork"):  # a forked child has no thread that would release it
    os.register_at_fork(after_in_child=_one_at_a_time.cache_clear)


class _Effect(Struct, frozen=True):
    """The effect of an operation: the names that it changes, and the lines, if the file is text."""

    operation: ApplyPatchOperation
    changes: list[Change]
    lines: list[Line] | None


class WorkspaceEditor(PatchEditor):
    """An editor for `ApplyPatchTool` that works inside one directory and cannot leave it.

    A patch is applied whole or not at all. Its context must match to the letter and in one place. Paths that are
    absolute or have `..` are refused, and symbolic links are never followed, not even one that is made while the patch
    is applied. The guide on `apply_patch` has the details, and what a power cut can do.

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
        if not SUPPORTED:
            raise InvalidDefinition(
                "WorkspaceEditor cannot keep its promises on this system, which opens no files relative to an open "
                "directory. Use it on Linux or macOS, or give ApplyPatchTool an editor of your own."
            )
        if not is_count(max_file_bytes):
            raise InvalidDefinition(f"WorkspaceEditor: max_file_bytes must be 1 or more, got {max_file_bytes!r}.")
        if isinstance(protected, str) or not all(type(name) is str and "/" not in name for name in protected):
            raise InvalidDefinition(f"WorkspaceEditor: protected is a list of names, got {described(protected)}.")
        try:
            self._root = Path(root).resolve(strict=True)
            self._identity = identity(os.stat(self._root))
            if not self._root.is_dir():
                raise NotADirectoryError(f"{self._root} is no directory")
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            raise InvalidDefinition(f"WorkspaceEditor needs a directory as its root: {error}.") from None
        self._limit = max_file_bytes
        self._protected = frozenset(_key(name) for name in protected)

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

        The preconditions are the digests of all files that it touches, so a file that changes later is noticed.
        """
        self.check(operations)
        with _one_at_a_time():
            root = self._open()
            try:
                effects = [self._effect(root, operation) for operation in operations]
            finally:
                os.close(root)
        files = {change.path: _digest(change.before) for effect in effects for change in effect.changes}
        crlf = any(line.end == "\r\n" for effect in effects if _is_new(effect) for line in effect.lines or ())
        words = sentence(operations) + (" (new lines end in CRLF)" if crlf else "")
        added = (line.text for effect in effects for line in effect.lines or () if line.sign == "+")
        blocks = (*break_warning(added), *map(_block, effects))
        return Preview(words, blocks, {"workspace/": str(self._root), **files})

    async def patch(self, operations: Operations) -> str:
        """Apply a patch in a thread, and return a text for the model."""
        text: str = await in_thread(functools.partial(self.apply, operations))
        return text

    def apply(self, operations: Operations) -> str:
        """Apply all operations or none, and return what was done; raise `PatchRefused` if they do not fit."""
        self.check(operations)
        with _one_at_a_time():
            root = self._open()
            try:
                changes = [change for each in operations for change in self._effect(root, each).changes]
                with Changes(root, self._limit) as work:
                    work.apply(changes)
            finally:
                os.close(root)
        return "\n".join(f"{done(operation)}." for operation in operations)

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

    def _open(self) -> int:
        """Return a file descriptor of the root; raise `PatchRefused` if another directory is there now."""
        with refusing(str(self._root)):
            opened = os.open(self._root, DIRECTORY)
        if identity(os.fstat(opened)) != self._identity:
            os.close(opened)
            raise PatchRefused(f"The workspace {self._root} is another directory than before; no file was changed.")
        return opened

    def _effect(self, root: int, operation: ApplyPatchOperation) -> _Effect:
        """Return what an operation would do; raise `PatchRefused` if it does not fit the files."""
        path, before = operation.path, self._read(root, operation.path)
        if operation.type == "create_file":
            if before is not None:
                raise PatchRefused(f"{path} exists already; update it instead. No file was changed.")
            text = created(operation.diff or "")
            lines = _all("+", text)
            return _Effect(operation, [Change(path, None, self._sized(path, text))], lines)
        if before is None:
            raise PatchRefused(f"{path} does not exist; no file was changed.")
        if not before.stat.st_mode & stat.S_IWUSR:
            raise PatchRefused(f"{path} is read-only; no file was changed.")
        if operation.type == "delete_file":
            whole = _text(before.content)
            return _Effect(operation, [Change(path, before, None)], None if whole is None else _all("-", whole))
        return self._update(root, operation, before)

    def _update(self, root: int, operation: ApplyPatchOperation, before: File) -> _Effect:
        path, to = operation.path, operation.move_to
        after, lines = before.content, list[Line]()
        if operation.diff:
            text = _text(before.content)
            if text is None:
                raise PatchRefused(f"{path} is not text in UTF-8; no file was changed.")
            old = Lines.of(text)
            if len(old.texts) > MAX_LINES:
                raise PatchRefused(f"{path} has more than {MAX_LINES} lines; no file was changed.")
            try:
                lines = applied(old, edits_of(old.texts, operation.diff))
            except PatchRefused as error:
                raise PatchRefused(f"{path}: {error}; no file was changed.") from None
            after = self._sized(path, joined(old, lines))
        if to is None:
            if after == before.content:
                raise PatchRefused(f"{path}: the diff changes nothing; no file was changed.")
            return _Effect(operation, [Change(path, before, after, before.stat)], lines)
        if self._read(root, to) is not None:
            raise PatchRefused(f"{to} exists already, so {path} cannot be moved there; no file was changed.")
        changes = [Change(to, None, after, before.stat), Change(path, before, None)]
        return _Effect(operation, changes, lines)

    def _read(self, root: int, path: str) -> File | None:
        with refusing(path):
            directory = open_directory(root, path)
            if directory is None:
                return None
            try:
                return read_file(directory, path, self._limit)
            finally:
                os.close(directory)

    def _sized(self, path: str, text: str) -> bytes:
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


def _all(sign: str, text: str) -> list[Line]:
    lines = Lines.of(text)
    return [Line("+" if sign == "+" else "-", *each) for each in zip(lines.texts, lines.ends, strict=True)]


def _digest(file: File | None) -> str:
    return "absent" if file is None else f"sha256:{hashlib.sha256(file.content).hexdigest()}"


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
    kind, to = kind_of(operation), operation.move_to
    before = "/dev/null" if kind == "create" else f"a/{operation.path}"
    after = "/dev/null" if kind == "delete" else f"b/{to or operation.path}"
    return Diff(operation.path, unified(before, after, effect.lines), kind, to)
