"""Snapshots of a run: what the fold of its first facts has left, so that only the facts after them are folded.

A snapshot is derived and never the authority. It has numbers and no content: the facts that still count (the beginning,
the definition, the grants) are named by their numbers and read from the journal itself. A snapshot is taken only where
no call is open, so that everything about an open call is in the facts after it.

A chapter is a snapshot, and the facts since the snapshot before in an encoded form: compressed, for whoever looks at
them, and as the items that the model gets. Storing chapters, and checking them, belongs to a store.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..errors import IllegalFact, UnreadableState
from . import facts as f
from .codec import SCHEMA, replay
from .facts import AnyFact
from .fold import fold
from .past import PastDict, PastList
from .run import Run
from .transcript import Item, TranscriptCache, asks, entry_items

FORMAT = f"{SCHEMA}.1"
"""The version of the facts' schema, and of a snapshot's own form. A snapshot with another one is not used."""
EVERY = 64
"""The number of facts after which the next snapshot is due."""


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """The state of a run without open calls after its first `seq` facts."""

    seq: int = 0
    before: int = 0
    """The number of facts of the snapshot before; 0 if there is none."""
    format: str = FORMAT
    definition: int = 0
    """The number of the fact that defines the active agent; 0 if there is none. In a mark: 1 if there is one."""
    marks: tuple[int, ...] = ()
    """The numbers of the definitions that name tools."""
    grants: tuple[int, ...] = ()
    """The numbers of the facts that gave and revoked grants."""
    agent: str = ""
    max_turns: int = 0
    turns: int = 0
    live: bool = False
    said: int = 0
    armed: tuple[str, ...] = ()
    watched: int = 0
    answering: bool = False
    concluding: bool = False
    saved: int = 0
    used: tuple[int, ...] = ()
    uses: dict[str, int] = {}
    entries: int = 0
    calls: int = 0
    guarded: int = 0
    branches: int = 0
    asked: int = 0
    decided: int = 0
    items: int = 0
    """The number of items for the model."""
    asks: bool = False
    bodies: str = ""
    """The hash of the bodies of this chapter and all before."""

    def numbers(self) -> list[int]:
        """Return the numbers of the facts that still count, in order."""
        return sorted({1, *self.marks, *self.grants, self.definition} - {0})


class Chapter(Struct, frozen=True):
    """A snapshot, and the facts since the one before in an encoded form."""

    snapshot: Snapshot
    body: bytes


class ChapterBody(Struct, frozen=True, array_like=True):
    """The content of a chapter."""

    ids: bytes
    """The JSON of the ids of the calls, the questions and the decided questions."""
    items: bytes
    """The JSON of the items for the model."""
    facts: bytes
    """The JSON of the facts, compressed."""
    kept: int = 0
    """The number of items of earlier chapters that still count: none after a handoff with a history of its own."""


EMPTY = Snapshot()
_encode, _pack = msgspec.json.Encoder().encode, msgspec.msgpack.Encoder().encode
_body = msgspec.msgpack.Decoder(ChapterBody).decode
_snapshot = msgspec.json.Decoder(Snapshot).decode
_ids = msgspec.json.Decoder(tuple[list[str], list[str], list[str]]).decode
_items = msgspec.json.Decoder().decode


@functools.cache
def _facts() -> msgspec.json.Decoder[list[AnyFact]]:
    return msgspec.json.Decoder(list[AnyFact])


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as JSON text."""
    return _encode(snapshot)


def decode_snapshot(text: str | bytes) -> Snapshot | None:
    """Return a snapshot from its JSON text; None if it is damaged, or of another version."""
    try:
        found = _snapshot(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if found.format == FORMAT else None


# -- taking a snapshot -----------------------------------------------------------------------------


def is_long(facts: int) -> bool:
    """Return True if a run with this number of facts may have a snapshot."""
    return facts >= EVERY


def is_due(run: Run, before: Snapshot) -> bool:
    """Return True if the next snapshot is due, and can be taken here: nothing is open, unheard or stopped."""
    if run.seq - before.seq < EVERY or run.open or run.unheard or run.guards:
        return False
    return run.concluded is None and run.cancelled is None and run.closed is None


def mark(run: Run) -> Snapshot:
    """Return the numbers of a snapshot here. It costs little; `take` makes a chapter of it, if one is needed."""
    return Snapshot(
        seq=run.seq,
        definition=run.definition is not None,
        agent=run.agent,
        max_turns=run.max_turns,
        turns=run.turns,
        live=run.live,
        said=run.said,
        armed=run.armed,
        watched=run.watched,
        answering=run.answering,
        concluding=run.concluding,
        saved=run.saved,
        used=run.own_usage.numbers(),
        uses=run.uses.copy(),
        entries=len(run.entries),
        calls=len(run.calls),
        guarded=len(run.guarded),
        branches=len(run.branches),
        asked=len(run.asked),
        decided=len(run.decided),
    )


UNFIT = (
    msgspec.MsgspecError,
    UnreadableState,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The errors of items that cannot be read, or not be written again. A run with such items gets no snapshot."""


def take_chapter(run: Run, facts: Sequence[AnyFact], marked: Snapshot, before: Snapshot) -> Chapter | None:
    """Return the chapter that ends where a run was marked; None if there can be none.

    That is so if a guardrail stopped the run, or if an item cannot be read: whoever needs it says so. The run may have
    gone on since. `facts` are those from the snapshot before to the mark.
    """
    if any(fact.tripped for fact in run.guarded[before.guarded : marked.guarded]):
        return None
    items: list[Item] = []
    kept = before.items
    try:
        for entry in run.entries[before.entries : marked.entries]:
            if type(entry) is f.HandedOff and entry.history:
                items, kept = [], 0
            items += entry_items(entry)
        talk = _encode(items)
    except UNFIT:
        return None
    ids = [
        _keys(run.calls, before.calls, marked.calls),
        _keys(run.asked, before.asked, marked.asked),
        _keys(run.decided, before.decided, marked.decided),
    ]
    body = _pack(ChapterBody(_encode(ids), talk, zlib.compress(_encode(facts), 1), kept))
    definition, marks, grants = _counting(facts, before)
    made = replace(
        marked,
        before=before.seq,
        definition=definition if marked.definition else 0,
        marks=marks,
        grants=grants,
        items=kept + len(items),
        asks=before.asks or any(map(asks, items)),
        bodies=hash_bodies([body], before.bodies),
    )
    return Chapter(made, body)


def _keys(of: Any, start: int, stop: int) -> list[str]:
    """Return the keys of a run's dict from one number to another."""
    if isinstance(of, PastDict) and (past := len(of) - len(of.own)) <= start:
        return list(islice(of.own, start - past, stop - past))
    return list(islice(of, start, stop))


def hash_bodies(bodies: Sequence[bytes], before: str = "") -> str:
    """Return the hash of chapters' bodies, given that of the chapters before."""
    for body in bodies:
        hash = sha256(before.encode())
        hash.update(body)
        before = hash.hexdigest()
    return before


def _counting(facts: Sequence[AnyFact], before: Snapshot) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the facts that still count: the definition, those that name tools, and the grants."""
    definition, marks, grants = before.definition, list(before.marks), list(before.grants)
    for seq, fact in enumerate(facts, before.seq + 1):
        if type(fact) is f.Defined:
            definition = definition if fact.path else seq
            marks += [seq] if fact.tools else []
        elif type(fact) in (f.Granted, f.Revoked):
            grants.append(seq)
    return definition, tuple(marks), tuple(grants)


# -- going on from a snapshot ----------------------------------------------------------------------


class PastNeeded(Exception):
    """Something before the snapshot is needed, and was not read: read the whole journal."""


@contextmanager
def _readable() -> Iterator[None]:
    """Raise `UnreadableState` for a chapter that was sealed and cannot be read."""
    try:
        yield
    except (msgspec.DecodeError, zlib.error, TypeError, UnicodeError, RecursionError) as error:
        raise UnreadableState(
            f"A snapshot of this run is damaged ({error}). `assentry db rebuild` removes snapshots; the run goes on "
            "from its journal."
        ) from None


class Past:
    """The chapters of a run, decoded when somebody looks. Without `bodies` nobody may look."""

    def __init__(self, bodies: list[bytes] | None) -> None:
        self._bodies = bodies

    @functools.cached_property
    def bodies(self) -> list[ChapterBody]:
        """The contents of the chapters."""
        if self._bodies is None:
            raise PastNeeded
        with _readable():
            return [_body(body) for body in self._bodies]

    @functools.cached_property
    def facts(self) -> list[AnyFact]:
        """The facts before the snapshot."""
        decode = _facts().decode
        with _readable():
            return [fact for body in self.bodies for fact in decode(zlib.decompress(body.facts))]

    @functools.cached_property
    def run(self) -> Run:
        """The run of those facts, folded in full."""
        return replay(self.facts)

    def has(self, kind: int, id: object) -> bool:
        """Return True if there is a call (kind 0), a question (1) or a decided question (2) with this id.

        Where the past is missing there is none: stored facts were compared with it when they were written, and nobody
        but the run's driver makes new calls and questions.
        """
        if self._bodies is None or type(id) is not str:
            return False
        text = _encode(id)  # nearly always new: looking for its bytes is quicker than decoding all ids
        return any(text in body.ids and id in _ids(body.ids)[kind] for body in self.bodies)

    def items(self) -> list[Item]:
        """Return the items for the model."""
        found: list[Item] = []
        with _readable():
            for body in self.bodies:
                del found[body.kept :]
                found += _items(body.items)
        return found


class Restored(Struct, frozen=True, eq=False):
    """A snapshot with everything that it needs to go on: the facts that still count, by number, and the past."""

    snapshot: Snapshot
    counting: dict[int, AnyFact]
    past: Past

    def facts(self, tail: list[AnyFact]) -> PastList[AnyFact]:
        """Return all facts of the run, of which `tail` come after the snapshot."""
        return PastList(self.snapshot.seq, lambda: self.past.facts, tail)

    def run(self, tail: Sequence[AnyFact], *, talks: bool = True) -> Run:
        """Return the run after the facts of `tail`; with `talks`, its conversation is ready for the model."""
        run = restore(self)
        if talks:
            run.transcript_cache = TranscriptCache(self.past.items(), self.snapshot.entries, self.snapshot.asks)
        try:
            for fact in tail:
                fold(run, fact)
        except IllegalFact as error:
            raise UnreadableState(f"This saved run is damaged: {error}") from None
        return run


NOTHING_BEFORE = Restored(EMPTY, {}, Past([]))
"""The beginning of a run that has no snapshot yet."""


def restore(restored: Restored) -> Run:
    """Return the run of a snapshot. What was over before is loaded when somebody looks at it."""
    found, counting, past = restored.snapshot, restored.counting, restored.past
    began, definition = counting.get(1), counting.get(found.definition)
    if type(began) is not f.Began or type(definition) not in (f.Defined, type(None)):
        raise UnreadableState("A fact that a snapshot counts on is another one.")
    run = Run(
        began=began,
        seq=found.seq,
        agent=found.agent,
        max_turns=found.max_turns,
        turns=found.turns,
        live=found.live,
        batch=began.release == "batch",
        definition=definition,  # type: ignore[arg-type]
        said=found.said,
        armed=found.armed,
        watched=found.watched,
        answering=found.answering,
        concluding=found.concluding,
        saved=found.saved,
        counted=found.entries,
        used=f.Usage(*found.used),
        uses=dict(found.uses),
    )
    _give_past(run, found, past)
    for number in found.marks:
        if type(fact := counting.get(number)) is f.Defined:
            run.marks[fact.digest] = fact.tools
    for number in found.grants:
        fact = counting.get(number)
        if type(fact) is f.Granted:
            run.grants[fact.id] = fact
            run.revoked.pop(fact.id, None)
        elif type(fact) is f.Revoked:
            run.grants.pop(fact.grant, None)
            run.revoked[fact.grant] = fact
    return run


def _give_past(run: Run, found: Snapshot, past: Past) -> None:
    """Set the run's lists and dicts to such as load their first part when it is needed."""
    parts: dict[str, Any] = {
        "entries": PastList(found.entries, lambda: past.run.entries),
        "guarded": PastList(found.guarded, lambda: past.run.guarded),
        "branches": PastList(found.branches, lambda: past.run.branches),
        "calls": PastDict(found.calls, functools.partial(past.has, 0), lambda: past.run.calls),
        "asked": PastDict(found.asked, functools.partial(past.has, 1), lambda: past.run.asked),
        "decided": PastDict(found.decided, functools.partial(past.has, 2), lambda: past.run.decided),
    }
    for name, part in parts.items():
        setattr(run, name, part)


def same_chapter(one: Chapter, other: Chapter) -> bool:
    """Return True if two chapters say the same; the compressed forms may differ."""
    if replace(one.snapshot, bodies="") != replace(other.snapshot, bodies=""):
        return False
    try:
        mine, theirs = _body(one.body), _body(other.body)
        same = (mine.ids, mine.items, mine.kept) == (theirs.ids, theirs.items, theirs.kept)
        return same and zlib.decompress(mine.facts) == zlib.decompress(theirs.facts)
    except (msgspec.DecodeError, zlib.error, RecursionError):
        return False
