"""What a store keeps besides the facts, and what is written to it at one go. Plain data, no I/O.

Times are milliseconds since 1970 on the store's clock. Records are projections: each can be made again from the
journals alone.
"""

from __future__ import annotations

from typing import Any, Generic, Literal

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from ..core.digest import described, holds
from ..core.facts import AnyFact, QuestionKind, Verdict
from ..core.number import is_count, is_seconds
from ..core.run import Status
from ..errors import UsageError
from ..item import Evidence

T = TypeVar("T", default=Any)

MOST = 1000
"""How many a page holds at most."""
MARK = 8
"""How much of a fingerprint is needed at least to find a tool by it."""

Settlement = Verdict | Literal["replaced", "void"]
"""How a question came to its end: answered, replaced by another one, or void because its run was closed."""


class RunRecord(Struct, kw_only=True):
    """A run as far as a list of runs shows it."""

    id: str
    agent: str
    """The name of the agent that the run began with."""
    status: Status
    thread: str | None = None
    """The conversation that it is a part of."""
    seq: int
    """How many facts it has."""
    began: int
    changed: int
    wake: int | None = None
    """When a worker should look at it: at once, at the next deadline, or never."""
    waiting: int = 0
    """How many questions are open."""
    worker: str | None = None
    """Who drives it, if anybody does, and"""
    until: int | None = None
    """until when that holds if it is not renewed."""
    failures: int = 0
    """How often in a row driving it has failed, and"""
    error: str | None = None
    """how it failed last."""
    erased: int | None = None
    """When what was said in it was erased."""


class Question(Struct, kw_only=True):
    """Something that a person is, or was, asked; all that is needed to decide, without the run or its agent."""

    id: str
    run: str
    agent: str
    """The name of the agent that asks."""
    tool: str
    kind: QuestionKind
    digest: str
    """Of what is shown. A decision carries it."""
    arguments: str
    """The canonical arguments, as JSON text."""
    reason: str
    allowed: tuple[Verdict, ...]
    call: str
    """Our id of the call; `call_id` is the provider's."""
    call_id: str | None = None
    path: tuple[str, ...] = ()
    """The agent calls it is under, outermost first."""
    definition: str | None = None
    """The fingerprint of the tool as it was offered; `Store.definition` gives the whole."""
    prompt: Any = None
    """What a tool's body asks."""
    schema: Any = None
    """What an answer must look like, as JSON schema."""
    at: int
    until: int | None = None
    """When it is rejected, if nobody has decided."""
    due: int | None = None
    """When it is overdue; it goes on waiting."""
    replaces: str | None = None
    """The question before, if this one is asked in its place: what it was about has changed, or is asked otherwise."""
    verdict: Settlement | None = None
    """How it came to its end; None while it is open."""
    by: str | None = None
    decided: int | None = None
    evidence: tuple[Evidence, ...] = ()
    """Results that came too late to count, of a call that is in doubt."""


class Settled(Struct, frozen=True):
    """A question has come to its end."""

    id: str
    verdict: Settlement
    by: str
    at: int


class GrantRecord(Struct, kw_only=True):
    """A decision that holds for later calls of its run too."""

    id: str
    run: str
    agent: str
    """The place of the agent that it is for."""
    tool: str
    verdict: Literal["approve", "reject"]
    by: str
    at: int
    message: str | None = None
    server: str | None = None
    definition: str | None = None
    max_uses: int | None = None
    used: int = 0
    until: int | None = None
    pins: dict[str, Any] | None = None
    """The arguments that a call must have."""
    revoked: int | None = None
    revoked_by: str | None = None


class Revocation(Struct, frozen=True):
    """A grant was taken back."""

    id: str
    by: str
    at: int


class SavedContext(Struct, frozen=True):
    """The user's context, as JSON, and what kind of object it was."""

    json: bytes | None = None
    kind: str | None = None


class Lease(Struct, frozen=True):
    """The right to drive a run. Whoever takes it next has a higher fence, and what this one writes is refused."""

    run: str
    worker: str
    fence: int


class Change(Struct, kw_only=True):
    """What is written at one go, or not at all: facts, and what they change in the records."""

    record: RunRecord
    """The run as it is after the facts; `changed` is the time of all of them, and without facts stays as it was. A
    store keeps `worker`, `until`, `failures`, `error` and `erased` itself."""
    seq: int
    """How many facts the run has before; 0 makes the run."""
    facts: list[AnyFact]
    asked: list[Question] = []
    settled: list[Settled] = []
    evidence: dict[str, tuple[Evidence, ...]] = {}
    """All the late results that there are now, for whoever decides on these questions."""
    granted: list[GrantRecord] = []
    used: dict[str, int] = {}
    """How often each of these grants was used in all."""
    revoked: list[Revocation] = []
    definitions: dict[str, bytes] = {}
    """Tools as they were offered, by fingerprint; a store keeps each once."""
    context: SavedContext | None = None
    """The context, where it has changed."""
    lease: Lease | None = None
    """Set by whoever drives the run: it must still hold. A decision needs none."""
    take: bool = False
    """Take the run with this change: the lease is a new one, with the fence after the newest; nobody else drives it."""
    hold: float | None = None
    """The seconds that the lease is to hold from now on; None leaves it as it is."""
    release: bool = False
    """Give the lease back with this change."""


class Stored(Struct, kw_only=True):
    """A run as it was read: its record, its facts after the ones asked for, and the user's context."""

    record: RunRecord
    facts: list[AnyFact]
    context: SavedContext = SavedContext()
    fence: int | None = None
    """The fence of the run's newest lease: whoever takes the run next has the one after it. None if it is not known."""


class Page(Struct, Generic[T]):
    """Some of a list, and where the next page begins; None on the last one."""

    items: list[T]
    next: str | None = None
    damaged: list[str] = []
    """The ids of questions that belong on this page and are left out: their rows are not what was written."""


class Entry(Struct, frozen=True):
    """A line of a run's history."""

    seq: int
    at: int
    fact: dict[str, Any]
    """The fact as JSON: `fact` says which it is."""
    hash: str
    """Of this line and, through the line before, of all lines before it."""


_cursor = msgspec.json.Decoder(tuple[int, str])


def cursor(at: int, id: str) -> str:
    """Where a page ends: opaque to whoever pages."""
    return msgspec.json.encode((at, id)).decode()


def page_start(limit: int, after: str | None) -> tuple[int, str] | None:
    """What `cursor` was made of; `UsageError` if it was made of nothing, or if the limit is not one."""
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise UsageError(f"limit is a whole number from 1 to {MOST}, got {described(limit)}.")
    try:
        start = None if after is None else _cursor.decode(after)
    except (msgspec.DecodeError, TypeError, UnicodeEncodeError):
        start = (-1, "")
    if start is not None and (not is_count(start[0], 0) or not holds(start[1])):
        raise UsageError(f"after is the `next` of the page before, got {described(after)}.")
    return start


def check_seconds(**given: float) -> None:
    """Raise `UsageError` unless each of these is a number of seconds that a store can reckon with."""
    for name, seconds in given.items():
        if not is_seconds(seconds):
            raise UsageError(f"{name} is a number of seconds from 0 to 100 years, got {described(seconds)}.")


def check_counts(**given: int) -> None:
    """Raise `UsageError` unless each of these is a whole number that a store can hold."""
    for name, number in given.items():
        if not is_count(number, 0):
            raise UsageError(f"{name} is a whole number from 0 to 2**63 - 1, got {described(number)}.")
