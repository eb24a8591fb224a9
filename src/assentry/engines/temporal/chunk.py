"""Chunks: the facts of a run as objects that never change. Pure: it decides which objects there are, and does no I/O.

| object | has | named by |
|---|---|---|
| chunk | the facts of one write, and the index: the last page, and the chunks since | the mark after its facts |
| page | the facts of 32 chunks again, and the pages before | the mark after its facts |
| claim | the mark that a writer went on to | the number of facts before, so that one writer goes on |

A mark's hash covers all facts up to it. So whatever object has a mark's name leads to the same facts, a copy can be
kept for good, and an object that was changed is noticed. A chunk of more than 64 KB is not copied into its page, which
names it instead. So small facts are written twice, large payloads once, and reading takes four rounds of requests
however long the run is: the last chunk; its page and the chunks since; the other pages; the large chunks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import Struct

from ...core.facts import AnyFact
from ...errors import UnreadableState
from ...store.row_codec import START, link, pack, unpack
from .message import Mark

FORMAT = 1
PAGE = 32
"""The number of chunks that become a page."""
COPIED = 64 * 1024
"""The most bytes of a chunk that is copied into its page."""
DIGITS = 16
"""The hex digits of a mark's hash in an object's name: enough to tell the writes of one run apart."""

S = TypeVar("S", bound=Struct)


class ChunkRef(Struct, frozen=True, array_like=True):
    """The name of a chunk or a page: the mark after its facts."""

    seq: int
    head: bytes

    @property
    def name(self) -> str:
        """The name as a part of a key."""
        return f"{self.seq:08d}-{self.head.hex()}"


class ChunkRows(Struct, frozen=True, array_like=True):
    """Facts as rows of a journal, or the chunk that has them."""

    texts: tuple[bytes, ...] = ()
    """The exact texts of the rows; see `store.row_codec`."""
    blobs: tuple[bytes, ...] = ()
    """The large payloads, each once."""
    elsewhere: ChunkRef | None = None

    @property
    def size(self) -> int:
        """The number of bytes of the facts."""
        return sum(map(len, self.texts)) + sum(map(len, self.blobs))


class JournalChunk(Struct, frozen=True, array_like=True):
    """The facts of one write, and where those before are."""

    format: int
    rows: ChunkRows
    page: ChunkRef | None = None
    """The last page."""
    singles: tuple[ChunkRef, ...] = ()
    """The chunks after that page and before this one."""


class ChunkPage(Struct, frozen=True, array_like=True):
    """The facts of several chunks, and where those before are."""

    format: int
    parts: tuple[ChunkRows, ...]
    pages: tuple[ChunkRef, ...] = ()
    """All pages before."""


def ref_of(mark: Mark) -> ChunkRef:
    """Return the name of the chunk that ends at a mark."""
    return ChunkRef(mark.seq, bytes.fromhex(mark.head[:DIGITS]))


def linked_rows(run_id: str, mark: Mark, facts: Sequence[AnyFact]) -> tuple[ChunkRows, dict[int, str]]:
    """Return the rows of the facts after a mark, and the hash after each by its number."""
    texts: list[bytes] = []
    blobs: dict[str, bytes] = {}
    heads: dict[int, str] = {}
    head = bytes.fromhex(mark.head) if mark.seq else START
    for seq, fact in enumerate(facts, mark.seq + 1):
        text, large = pack(fact)
        head = link(head, run_id, seq, text)
        heads[seq] = head.hex()
        texts.append(text)
        blobs |= large
    return ChunkRows(tuple(texts), tuple(blobs.values())), heads


def checked_facts(run_id: str, parts: Iterable[ChunkRows], mark: Mark) -> list[AnyFact]:
    """Return the facts of all rows of a run; raise `UnreadableState` unless they come to the mark."""
    facts: list[AnyFact] = []
    head, seq = START, 0
    for rows in parts:
        kept = {sha256(blob).hexdigest(): blob for blob in rows.blobs}
        for text in rows.texts:
            seq += 1
            head = link(head, run_id, seq, text)
            facts.append(unpack(run_id, seq, text, kept))
    if (seq, head.hex()) != (mark.seq, mark.head):
        raise UnreadableState(f"The archive's facts of run {run_id!r} are not those that its workflow recorded.")
    return facts


def next_chunk(rows: ChunkRows, before: JournalChunk | None, mark: Mark) -> tuple[JournalChunk, list[ChunkRef]]:
    """Return the chunk after a mark, and the chunks of which a page is to be made for it; none if no page is due.

    `before` is the chunk that ends at the mark; None for the first.
    """
    if before is None:
        return JournalChunk(FORMAT, rows), []
    singles = (*before.singles, ref_of(mark))
    if len(singles) < PAGE:
        return JournalChunk(FORMAT, rows, before.page, singles), []
    return JournalChunk(FORMAT, rows, ref_of(mark)), list(singles)


def page_of(chunks: Mapping[ChunkRef, JournalChunk], last: ChunkRef | None, before: ChunkPage | None) -> ChunkPage:
    """Return the page of these chunks, in order; `last` is the page before them."""
    parts: list[ChunkRows] = []
    texts: list[bytes] = []
    blobs: dict[bytes, None] = {}
    for ref, chunk in chunks.items():
        if chunk.rows.size <= COPIED:
            texts += chunk.rows.texts
            blobs |= dict.fromkeys(chunk.rows.blobs)
            continue
        parts += [ChunkRows(tuple(texts), tuple(blobs)), ChunkRows(elsewhere=ref)]
        texts, blobs = [], {}
    parts.append(ChunkRows(tuple(texts), tuple(blobs)))
    earlier = (*before.pages, last) if before is not None and last is not None else ()
    return ChunkPage(FORMAT, tuple(part for part in parts if part != ChunkRows()), earlier)


_encode = msgspec.msgpack.Encoder().encode
_PLAIN = re.compile(r"[a-z0-9_-]{1,100}")


def encode_object(made: Struct) -> bytes:
    """Return the bytes of a chunk or a page."""
    return _encode(made)


def decode_object(key: str, data: bytes, kind: type[S]) -> S:
    """Return a chunk or a page from its bytes; raise `UnreadableState` if they are something else."""
    try:
        found = msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableState(f"Object {key} is damaged: {error}.") from None
    if (form := getattr(found, "format", FORMAT)) != FORMAT:
        raise UnreadableState(f"Object {key} has format {form}, which this version of Assentry does not know.")
    return found


def folder_of(run_id: str) -> str:
    """Return the part of a key that is a run's own, on file systems too that know no small and capital letters."""
    return run_id if _PLAIN.fullmatch(run_id) else f"={sha256(run_id.encode()).hexdigest()}"
