"""An archive in object storage: for runs that one database does not carry any more.

The facts are in objects, and a store is only what the inbox reads: see `store_projection`. The layout of the objects is
in `chunk`.

Temporal's own external payload storage (`temporalio.converter.ExternalStorage`, with its driver for S3) does not do
this. It takes each payload that is too large out of the history and stores it as one object, by its hash. A workflow
that passes a conversation to each model call still writes all of it each time: the bytes grow with the square of the
turns, only elsewhere. It can be used beside this, for large inputs and contexts.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ...core.codec import replay
from ...core.facts import AnyFact
from ...core.snapshot import NOTHING_BEFORE
from ...core.wording import described
from ...errors import Conflict, RunNotFound, UnreadableState, UsageError
from ...store.projection import record_of
from ...store.record import SavedContext, Stored
from . import chunk as c
from .archive import ENGINE
from .message import Mark
from .object_storage import ObjectStorage

T = TypeVar("T")
AnyObject = c.JournalChunk | c.ChunkPage

CACHE = 32 * 2**20
PARALLEL = 32
"""The most requests that one load has under way."""


class ObjectArchive:
    """An archive in object storage. The storage of all workers is the same one.

    Args:
        storage: The storage: `FolderStorage(path)`, `ObstoreStorage(...)`, or one of your own.
        prefix: The beginning of all keys, for archives that share a bucket.
        cache: The most bytes of objects that are kept in memory, to save reading them again.
    """

    def __init__(self, storage: ObjectStorage, *, prefix: str = "", cache: int = CACHE) -> None:
        if not all(hasattr(storage, name) for name in ("create", "put", "get")):
            raise UsageError(f"ObjectArchive: storage must have create, put and get, got {described(storage)}.")
        self.storage = storage
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._cache = ObjectCache(cache)
        self._defined: set[str] = set()

    def __repr__(self) -> str:
        return f"<ObjectArchive in {self.storage!r}>"

    def _key(self, run_id: str, name: str) -> str:
        return f"{self._prefix}runs/{c.folder_of(run_id)}/{name}"

    # -- writing -----------------------------------------------------------------------------------

    async def keep(
        self, run_id: str, mark: Mark, facts: Sequence[AnyFact], head: str, context: SavedContext | None
    ) -> None:
        """Write the facts as one chunk, and claim their place; both at once, since each can be written again."""
        writes: list[Coroutine[Any, Any, Any]] = []
        if facts:
            rows, heads = c.linked_rows(run_id, mark, facts)
            upto = Mark(mark.seq + len(facts), head)
            if heads[upto.seq] != head:
                raise UnreadableState(f"The facts of run {run_id!r} to keep do not come to the hash of its workflow.")
            writes += await self._chunk_writes(run_id, mark, rows, upto)
            writes.append(self._claim(run_id, mark.seq, heads))
        if context is not None:
            text = msgspec.json.encode({"kind": context.kind, "json": (context.json or b"").decode()})
            writes.append(self.storage.put(self._key(run_id, "context"), text))
        await _all(*writes)

    async def _chunk_writes(
        self, run_id: str, mark: Mark, rows: c.ChunkRows, upto: Mark
    ) -> list[Coroutine[Any, Any, Any]]:
        """Return the writes of the chunk from one mark to another, and of the page that is due with it."""
        before: c.JournalChunk | None = None
        if mark.seq:
            before = await self._find(run_id, c.ref_of(mark), c.JournalChunk)
            if before is None:
                raise Conflict(
                    f"The archive lacks facts of run {run_id!r}, of which {mark.seq} were kept: some are lost."
                )
        chunk, paged = c.next_chunk(rows, before, mark)
        writes = [self._write(run_id, c.ref_of(upto), chunk)]
        if paged and before is not None:
            page = await self._page(run_id, paged, before.page)
            newest = msgspec.json.encode(mark)
            writes += [
                self._write(run_id, c.ref_of(mark), page),
                self.storage.put(self._key(run_id, "newest"), newest),
            ]
        return writes

    async def _page(self, run_id: str, paged: list[c.ChunkRef], last: c.ChunkRef | None) -> c.ChunkPage:
        """Return the page of some chunks, which are read if they are not in the cache."""
        before = None if last is None else await self._read(run_id, last, c.ChunkPage)
        chunks = await _all(*(self._read(run_id, ref, c.JournalChunk) for ref in paged))
        return c.page_of(dict(zip(paged, chunks, strict=True)), last, before)

    async def _write(self, run_id: str, ref: c.ChunkRef, made: AnyObject) -> None:
        key, data = self._object_key(run_id, ref, type(made)), c.encode_object(made)
        await self.storage.put(key, data)
        self._cache.add(key, made, len(data))

    async def _claim(self, run_id: str, after: int, heads: Mapping[int, str]) -> None:
        """Claim the places of facts for these; raise `Conflict` if another writer has one for other facts.

        The workflow was reset then, or there are two with the same id, and what was begun there would begin again.
        """
        upto = max(heads)
        own = msgspec.json.encode(Mark(upto, heads[upto]))
        while after < upto:
            key = self._key(run_id, f"{after:08d}.claim")
            if await self.storage.create(key, own):
                return
            found = await self._claim_at(key)
            if found is None or heads.get(found.seq) != found.head:
                raise Conflict(
                    f"The archive has other facts of run {run_id!r} than its workflow, from fact {after + 1} on. The "
                    "workflow was reset, or begun twice. Nothing was recorded, and nothing begins again."
                )
            after = found.seq

    async def _claim_at(self, key: str) -> Mark | None:
        data = await self.storage.get(key)
        try:
            return None if data is None else msgspec.json.decode(data, type=Mark)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnreadableState(f"Object {key} is damaged: {error}.") from None

    # -- reading -----------------------------------------------------------------------------------

    async def load(self, run_id: str, mark: Mark) -> Stored:
        """Read the run as it was at the mark, in a few rounds of parallel requests."""
        if not mark.seq:
            raise RunNotFound(f"The archive has no facts of run {run_id!r}: none were kept.")
        parts, context = await _all(_Reading(self, run_id).parts(c.ref_of(mark)), self._context(run_id))
        try:
            facts = c.checked_facts(run_id, parts, mark)
        except UnreadableState:
            self._cache.drop(self._key(run_id, ""))  # whoever repairs the storage need not restart the workers
            raise
        run = replay(facts)
        began = run.began.at if run.began is not None else 0
        record = record_of(run, len(facts), began + facts[-1].at)
        record.worker = ENGINE
        head = bytes.fromhex(mark.head)
        return Stored(record=record, facts=facts, context=context, before=NOTHING_BEFORE, head=head)

    async def newest(self, run_id: str) -> Mark | None:
        """Return the last mark that was kept of a run, for a run that Temporal has forgotten; None if there is none.

        A workflow that is there is the authority, and its own mark is better.
        """
        data = await self.storage.get(self._key(run_id, "newest"))
        mark = Mark() if data is None else msgspec.json.decode(data, type=Mark)
        while (found := await self._claim_at(self._key(run_id, f"{mark.seq:08d}.claim"))) is not None:
            mark = found
        return mark if mark.seq else None

    async def _context(self, run_id: str) -> SavedContext:
        data = await self.storage.get(self._key(run_id, "context"))
        if data is None:
            return SavedContext()
        saved = msgspec.json.decode(data)
        return SavedContext(saved["json"].encode() or None, saved["kind"])

    def _object_key(self, run_id: str, ref: c.ChunkRef, kind: type[AnyObject]) -> str:
        return self._key(run_id, f"{ref.name}.{'chunk' if kind is c.JournalChunk else 'page'}")

    async def _find(self, run_id: str, ref: c.ChunkRef, kind: type[Any]) -> Any:
        """Return a chunk or a page; None if it is not there."""
        key = self._object_key(run_id, ref, kind)
        if (known := self._cache.get(key)) is not None:
            return known
        data = await self.storage.get(key)
        if data is None:
            return None
        found = c.decode_object(key, data, kind)
        self._cache.add(key, found, len(data))
        return found

    async def _read(self, run_id: str, ref: c.ChunkRef, kind: type[Any]) -> Any:
        """Return a chunk or a page; raise `UnreadableState` if it is not there."""
        found = await self._find(run_id, ref, kind)
        if found is None:
            raise UnreadableState(f"The archive lacks facts of run {run_id!r}, up to fact {ref.seq}: some are lost.")
        return found

    # -- definitions -------------------------------------------------------------------------------

    async def define(self, definitions: Mapping[str, bytes]) -> None:
        """Keep definitions of tools, each as an object of its own."""
        fresh = {name: text for name, text in definitions.items() if name not in self._defined}
        await _all(*(self.storage.create(f"{self._prefix}tools/{name}", text) for name, text in fresh.items()))
        self._defined |= fresh.keys()

    async def definition(self, fingerprint: str) -> bytes | None:
        """Return the definition of a tool; None if there is none."""
        return await self.storage.get(f"{self._prefix}tools/{fingerprint}")


class _Reading:
    """One reading of a run: all that its last chunk leads to, with so many requests at once."""

    def __init__(self, archive: ObjectArchive, run_id: str) -> None:
        self._archive = archive
        self._run = run_id
        self._turns = asyncio.Semaphore(PARALLEL)

    async def parts(self, ref: c.ChunkRef) -> list[c.ChunkRows]:
        """Return all rows up to a chunk, in order."""
        last: c.JournalChunk = await self._read(ref, c.JournalChunk)
        paged, singles = await _all(self._paged(last.page), self._chunks(last.singles))
        return [*paged, *singles, last.rows]

    async def _paged(self, ref: c.ChunkRef | None) -> list[c.ChunkRows]:
        """Return all rows up to a page."""
        if ref is None:
            return []
        last: c.ChunkPage = await self._read(ref, c.ChunkPage)
        pages = await _all(*(self._read(each, c.ChunkPage) for each in last.pages))
        parts = [part for page in (*pages, last) for part in page.parts]
        refs = [part.elsewhere for part in parts if part.elsewhere is not None]
        large = dict(zip(refs, await self._chunks(refs), strict=True))
        return [part if part.elsewhere is None else large[part.elsewhere] for part in parts]

    async def _chunks(self, refs: Sequence[c.ChunkRef]) -> list[c.ChunkRows]:
        return [each.rows for each in await _all(*(self._read(ref, c.JournalChunk) for ref in refs))]

    async def _read(self, ref: c.ChunkRef, kind: type[Any]) -> Any:
        async with self._turns:
            return await self._archive._read(self._run, ref, kind)


class ObjectCache:
    """The objects that were read or written last, up to a number of bytes. Usable from any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[AnyObject, int]] = OrderedDict()

    def get(self, key: str) -> AnyObject | None:
        """Return an object; None if it is not here."""
        with self._lock:
            if (found := self._known.get(key)) is None:
                return None
            self._known.move_to_end(key)
            return found[0]

    def add(self, key: str, made: AnyObject, size: int) -> None:
        """Keep an object, and forget those that were not used for longest."""
        with self._lock:
            self.size += size - self._known.pop(key, (made, 0))[1]
            self._known[key] = made, size
            while self.size > self.limit and self._known:
                self.size -= self._known.popitem(last=False)[1][1]

    def drop(self, prefix: str) -> None:
        """Forget all objects whose keys begin so."""
        with self._lock:
            for key in [key for key in self._known if key.startswith(prefix)]:
                self.size -= self._known.pop(key)[1]


async def _all(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Wait for everything, also after an error; then return the results, or raise the first error."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
