"""Facts as rows: their text, the large payloads that are kept apart, and the chain of hashes.

A row's text is the fact's JSON. A payload of more than `LARGE` bytes is not in it, only its hash: `{"blobs": {field:
hash}, "fact": ...}`. So a payload can be erased, and the chain over the rows still holds.

The run's own row ends the chain. Its `head` has three hashes: of the last row; of the number and the times of all
rows, and of the rows themselves once they are erased; and of the context, which is kept beside the journal.
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
START = bytes(32)
"""What the first row's `prev_hash` is."""
_HEAD = b'{"blobs":'
_ERASED = b'{"erased":'
WORDS = "fact at path run agent version max_turns call id kind tool digest by asked replaces attempt verdict grant to"
KEPT = frozenset(WORDS.split())
"""What is left of an erased fact: that it happened, when, to which call, and who saw to it."""


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
    """The fields of a fact that hold JSON of other people's."""
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if field.type is Raw)


def is_small(fact: AnyFact) -> bool:
    """Whether all of a fact is in its row."""
    return all(len(getattr(fact, name)) <= LARGE for name in payloads(type(fact)))


def pack(fact: AnyFact) -> tuple[bytes, dict[str, bytes]]:
    """A fact's row, and the payloads that are kept apart, by their hashes."""
    large = {name: bytes(value) for name in payloads(type(fact)) if len(value := getattr(fact, name)) > LARGE}
    if not large:
        return _encode(fact), {}
    hashes = {name: sha256(value).hexdigest() for name, value in large.items()}
    text = _encode(replace(fact, **dict.fromkeys(large, Raw(b"0"))))
    return b"%s%s,%s" % (_HEAD, _encode(hashes), text[1:]), {hashes[name]: large[name] for name in large}


def needed(text: bytes) -> list[str]:
    """The hashes of the payloads that a row needs."""
    return list(_blobs.decode(text).blobs.values()) if text.startswith(_HEAD) else []


def unpack(run: str, seq: int, text: bytes, kept: Mapping[str, bytes]) -> AnyFact:
    """The fact of a row; `UnreadableState` names the row that cannot be read."""
    try:
        fact = _decoder().decode(text)
        if not text.startswith(_HEAD):
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
    """A row without what was said in it. The row after it still holds the hash of what it was."""
    if is_erased(text):
        return text
    fact = {name: value for name, value in msgspec.json.decode(text).items() if name in KEPT}
    return _encode({"erased": True, **fact})


def is_erased(text: bytes) -> bool:
    """Whether a row's content was erased: it cannot be folded, and its own hash cannot be made again."""
    return text.startswith(_ERASED)


def link(before: bytes, run: str, seq: int, text: bytes) -> bytes:
    """The hash of a row: of its run, its number and its text, and of the row before it."""
    return sha256(b"%s\n%s\n%d\n%s" % (before, run.encode(), seq, text)).digest()


class Head(NamedTuple):
    """The end of a run's chain, kept in the run's own row."""

    hash: bytes
    """The hash of the last row."""
    tally: bytes
    """Binds how many rows there are, and when each was written."""
    context: bytes
    """The hash of the context; zeros without one."""

    def packed(self) -> bytes:
        """Return the head as it is stored."""
        return b"".join(self)


FIRST = Head(START, START, START)
"""The head of a run without facts."""


def head_of(run: str, stored: Any) -> Head:
    """Read a head from its column, or raise `UnreadableState`."""
    if not isinstance(stored, bytes | memoryview) or len(stored) != 3 * len(START):
        raise UnreadableState(f"The head of run {run!r} is damaged.")
    whole, size = bytes(stored), len(START)
    return Head(whole[:size], whole[size : 2 * size], whole[2 * size :])


def tallied(before: bytes, hash: bytes, seq: int, at: int, text: bytes = b"") -> bytes:
    """Count one row more: its number, its time and its hash, and its text if it was erased."""
    return sha256(b"%s%s%d %d\n%s" % (before, hash, seq, at, text)).digest()


def erased_tally(tally: bytes, erased: int) -> bytes:
    """End the tally of an erased run with the time of its erasure."""
    return sha256(b"%serased %d" % (tally, erased)).digest()


def context_mark(context: SavedContext) -> bytes:
    """Return the hash of a context; zeros without one."""
    if context == SavedContext():
        return START
    return sha256(b"%s\n%s" % (_encode([context.kind, context.json is None]), context.json or b"")).digest()
