"""Object storage: bytes by key, in a folder of files or in a bucket. It knows nothing of runs.

One property counts: `create` writes an object only if there is none, even if two processes try at once. Amazon S3,
Google Cloud Storage and Azure have it, and so has a file system.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ...core.wording import described, install_hint
from ...errors import StoreFailed, UsageError

_KEY = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*")


class ObjectStorage(Protocol):
    """A place for bytes by key. A key is made of letters, digits, `-`, `_`, `=`, and `.` and `/` inside of it.

    What was written is there for the next `get` of anybody. An error of the storage is raised as `StoreFailed`.
    """

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object and return True, or return False if there is one. Of two at once one gets True.

        A writer whose answer was lost may get False for its own object.
        """

    async def put(self, key: str, data: bytes) -> None:
        """Write an object, instead of the one that is there. Nobody reads a part of it."""

    async def get(self, key: str) -> bytes | None:
        """Return an object; None if there is none."""


class FolderStorage:
    """Objects as files in a folder, on a disk or on a network file system that all workers share.

    Each file is written elsewhere and put in place whole, so a process that dies leaves no part of one.

    Args:
        path: The folder. It is made on the first write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"FolderStorage({str(self.path)!r})"

    async def create(self, key: str, data: bytes) -> bool:
        """Write a file unless it exists; it is on the disk on return."""
        return await asyncio.to_thread(self._write, key, data, False)

    async def put(self, key: str, data: bytes) -> None:
        """Write a file, instead of the one that is there; it is on the disk on return."""
        await asyncio.to_thread(self._write, key, data, True)

    async def get(self, key: str) -> bytes | None:
        """Read a file; None if there is none."""
        return await asyncio.to_thread(self._read, key)

    def _file(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise UsageError(f"This is no key of an object: {described(key)}.")
        return self.path / key

    def _write(self, key: str, data: bytes, replace: bool) -> bool:
        file = self._file(key)
        part = file.with_name(f".{secrets.token_hex(8)}.part")  # no key begins with a dot
        try:
            _make_folder(file.parent)
            try:
                _write_new(part, data)
                placed = _place(part, file, replace)
            finally:
                with suppress(FileNotFoundError):
                    part.unlink()
            if placed:
                _sync_folder(file.parent)
        except OSError as error:
            raise StoreFailed(f"{file} could not be written: {error}.") from error
        return placed

    def _read(self, key: str) -> bytes | None:
        file = self._file(key)
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFailed(f"{file} could not be read: {error}.") from error


def _make_folder(folder: Path) -> None:
    """Make a folder and those around it, each of them on the disk."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
        _sync_folder(folder.parent)


def _write_new(file: Path, data: bytes) -> None:
    with open(file, "xb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def _place(part: Path, file: Path, replace: bool) -> bool:
    """Give a complete file its name; return False if the name is taken and the file there is to stay."""
    if replace:
        part.replace(file)
        return True
    try:
        os.link(part, file)  # unlike a rename it never replaces, and unlike O_EXCL it never shows a part of a file
    except FileExistsError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk; Windows knows no such thing."""
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class ObstoreStorage:
    """Objects in a store of obstore's: Amazon S3 and what speaks like it, Google Cloud Storage, Azure, memory.

    `ObstoreStorage(S3Store("bucket", prefix="assentry"))`; `pip install obstore` first.

    Args:
        store: A store of `obstore.store`. It must have conditional writes: an `HTTPStore` has none, and old servers
            that speak like S3 may have none either.
    """

    def __init__(self, store: Any) -> None:
        try:
            import obstore
            from obstore.exceptions import AlreadyExistsError, BaseError
        except ImportError as error:
            raise UsageError(
                f"ObstoreStorage needs obstore, which is not installed ({error}): {install_hint('objects')}"
            ) from error
        self.store = store
        self._obstore, self._exists = obstore, AlreadyExistsError
        self._errors = (BaseError, OSError, ValueError)

    def __repr__(self) -> str:
        return f"ObstoreStorage({self.store!r})"

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object with a conditional request."""
        try:
            await self._obstore.put_async(self.store, key, data, mode="create")
        except self._exists:
            return False
        except self._errors as error:
            raise StoreFailed(f"Object {key} could not be written: {error}") from error
        return True

    async def put(self, key: str, data: bytes) -> None:
        """Write an object; a large one in several parts."""
        try:
            await self._obstore.put_async(self.store, key, data)
        except self._errors as error:
            raise StoreFailed(f"Object {key} could not be written: {error}") from error

    async def get(self, key: str) -> bytes | None:
        """Read an object; None if there is none."""
        try:
            found = await self._obstore.get_async(self.store, key)
            return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None
        except self._errors as error:
            raise StoreFailed(f"Object {key} could not be read: {error}") from error
