"""The encoding of facts as rows: their text, the blobs of large payloads, and the hash chain. No I/O here.

A row's text is the fact's JSON. A payload of more than `LARGE` bytes is stored as a blob, and the row has only its
hash: `{"blobs": {field: hash}, "fact": ...}`. So a blob can be erased without breaking the chain.

The run's own row ends the chain. Its `head` has three hashes: of the last row; of the number and the times of all
rows, and of the rows themselves once they are erased; and of the context, which is stored beside the journal.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.facts import AnyFact
from ..errors import UnreadableState
from .record import SavedContext

LARGE = 8192
"""The most bytes of a payload that is stored in its row; a larger payload is stored as a blob."""
START = bytes(32)
"""The `prev_hash` of the first row."""
_HEAD = b'{"blobs":'
_ERASED = b'{"erased":'
WORDS = "fact at path run agent version max_turns call id kind tool digest by asked replaces attempt verdict grant to"
KEPT = frozenset([*WORDS.split(), "shown", "looked"])
"""The fields that stay in an erased fact: its kind, its time, its call, its author, and the like."""


class _Blobs(Struct):
    blobs: dict[str, str] = {}


_encode = msgspec.json.Encoder().encode
_blobs = msgspec.json.Decoder(_Blobs)


@functools.cache
def _decoder() -> msgspec.json.Decoder[AnyFact]:
    from ..core.decoders import FACT

    return FACT


@functools.cache
def payloads(kind: type[AnyFact]) -> tuple[str, ...]:
    """Return the names of a fact's fields that hold raw JSON of users, models and tools."""
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if field.type is Raw)


def is_small(fact: AnyFact) -> bool:
    """Return True if a fact fits into its row without blobs."""
    return all(len(getattr(fact, name)) <= LARGE for name in payloads(type(fact)))


def pack(fact: AnyFact) -> tuple[bytes, dict[str, bytes]]:
    """Return a fact's row text, and its blobs by their hashes."""
    large = {name: bytes(value) for name in payloads(type(fact)) if len(value := getattr(fact, name)) > LARGE}
    if not large:
        return _encode(fact), {}
    hashes = {name: sha256(value).hexdigest() for name, value in large.items()}
    text = _encode(replace(fact, **dict.fromkeys(large, Raw(b"0"))))
    return b"%s%s,%s" % (_HEAD, _encode(hashes), text[1:]), {hashes[name]: large[name] for name in large}


def has_blobs(text: bytes) -> bool:
    """Return True if a part of a row is stored in blobs."""
    return text.startswith(_HEAD)


def blob_names(text: bytes) -> list[str]:
    """Return the hashes of a row's blobs; none if the row is damaged."""
    try:
        names = list(_blobs.decode(text).blobs.values())
        return [name for name in names if len(bytes.fromhex(name)) == len(START)]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []


def unpack(run: str, seq: int, text: bytes, kept: Mapping[str, bytes]) -> AnyFact:
    """Decode the fact of a row; raise `UnreadableState`, which names the row, if it is damaged."""
    try:
        fact = _decoder().decode(text)
        if not has_blobs(text):
            return fact
        found = {}
        for name, hash in _blobs.decode(text).blobs.items():
            payload = kept.get(hash)
            if payload is None:
                raise UnreadableState(f"Fact {seq} of run {run!r} has lost its {name!r}: blob {hash} is not there.")
            if name not in payloads(type(fact)) or sha256(payload).hexdigest() != hash:
                raise UnreadableState(f"Fact {seq} of run {run!r} is damaged: its {name!r} is not what was written.")
            found[name] = Raw(payload)
        return replace(fact, **found)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnreadableState(f"Fact {seq} of run {run!r} is damaged: {error}.") from None


def redacted(text: bytes) -> bytes:
    """Return a row's text without its content. The next row still has the hash of the original text."""
    if is_erased(text):
        return text
    fact = {name: value for name, value in msgspec.json.decode(text).items() if name in KEPT}
    return _encode({"erased": True, **fact})


def is_erased(text: bytes) -> bool:
    """Return True if a row's content was erased. Such a row cannot be folded, and its hash cannot be recomputed."""
    return text.startswith(_ERASED)


def link(before: bytes, run: str, seq: int, text: bytes) -> bytes:
    """Return the hash of a row: of the hash before it, its run, its number and its text."""
    return sha256(b"%s\n%s\n%d\n%s" % (before, run.encode(), seq, text)).digest()


class Head(NamedTuple):
    """The end of a run's chain, kept in the run's own row."""

    hash: bytes
    """The hash of the last row."""
    tally: bytes
    """A hash of the number of rows and the time of each."""
    context: bytes
    """The hash of the context; zeros without a context."""

    def packed(self) -> bytes:
        """Return the head as stored in its column."""
        return b"".join(self)


FIRST = Head(START, START, START)
"""The head of a run without facts."""


def head_of(run: str, stored: Any) -> Head:
    """Read a head from its column; raise `UnreadableState` if the column is damaged."""
    if not isinstance(stored, bytes | memoryview) or len(stored) != 3 * len(START):
        raise UnreadableState(f"The head of run {run!r} is damaged.")
    whole, size = bytes(stored), len(START)
    return Head(whole[:size], whole[size : 2 * size], whole[2 * size :])


def tallied(before: bytes, hash: bytes, seq: int, at: int, text: bytes = b"") -> bytes:
    """Add a row to the tally: its number, its time and its hash, and its text if it was erased."""
    return sha256(b"%s%s%d %d\n%s" % (before, hash, seq, at, text)).digest()


def erased_tally(tally: bytes, erased: int) -> bytes:
    """End the tally of an erased run with the time of its erasure."""
    return sha256(b"%serased %d" % (tally, erased)).digest()


def context_mark(context: SavedContext) -> bytes:
    """Return the hash of a context; zeros without a context."""
    if context == SavedContext():
        return START
    return sha256(b"%s\n%s" % (_encode([context.kind, context.json is None]), context.json or b"")).digest()
