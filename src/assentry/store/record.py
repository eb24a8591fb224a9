"""The records that a store keeps besides the facts, and the change that is written in one transaction.

Plain data, no I/O. Times are milliseconds since 1970 on the store's clock. Records are projections: each can be
rebuilt from the journals alone.
"""

from __future__ import annotations

from typing import Any, Generic, Literal

from msgspec import Struct
from typing_extensions import TypeVar

from ..approval.grant import Grant
from ..core.codec import replay
from ..core.facts import AnyFact, QuestionKind, Risk, Verdict
from ..core.number import is_count, is_seconds
from ..core.run import Run, Status
from ..core.snapshot import Chapter, Restored
from ..core.wording import described
from ..definitions.item import Evidence
from ..definitions.preview import Preview
from ..errors import UsageError

T = TypeVar("T", default=Any)

MOST = 1000
"""The most items on a page."""
MARK = 8
"""The fewest characters of a fingerprint that find a tool."""

Settlement = Verdict | Literal["replaced", "void"]
"""The end of a question: answered, replaced by another question, or void because its run was closed."""


class RunRecord(Struct, kw_only=True):
    """A run's entry in a list of runs."""

    id: str
    agent: str
    """The name of the agent that the run began with."""
    status: Status
    thread: str | None = None
    """The conversation that the run is part of."""
    seq: int
    """The number of facts."""
    began: int
    changed: int
    wake: int | None = None
    """The time from which a worker should drive the run: now, or the next deadline; None for never."""
    waiting: int = 0
    """The number of open questions."""
    worker: str | None = None
    """The worker that holds the lease; None if nobody does."""
    until: int | None = None
    """The end of the lease, unless the lease is renewed."""
    failures: int = 0
    """The number of failed drives in a row."""
    error: str | None = None
    """The error of the last failed drive."""
    erased: int | None = None
    """The time at which the run's content was erased."""
    started_by: str | None = None
    """The user who asked for the run, if known."""
    caller: str | None = None
    """The program outside that drives the run; None for runs that workers drive."""


class Question(Struct, kw_only=True):
    """A question to a person, open or not, with everything needed to decide without the run or its agent."""

    id: str
    run: str
    agent: str
    """The name of the agent that asks."""
    tool: str
    kind: QuestionKind
    digest: str
    """The digest of what is shown. A decision carries the same digest."""
    arguments: str
    """The canonical arguments, as JSON text."""
    reason: str
    allowed: tuple[Verdict, ...]
    call: str
    """Assentry's id of the call; `call_id` is the provider's."""
    call_id: str | None = None
    path: tuple[str, ...] = ()
    """The ids of the agent calls around the question, outermost first."""
    definition: str | None = None
    """The fingerprint of the tool as it was offered; `Store.definition` returns the tool."""
    prompt: Any = None
    """The prompt of a tool body that asks."""
    schema: Any = None
    """The JSON schema of an answer."""
    at: int
    until: int | None = None
    """The deadline, after which an undecided question is rejected."""
    due: int | None = None
    """The time from which the question is overdue; it stays open."""
    replaces: str | None = None
    """The id of the earlier question that this question replaces: its subject changed, or its wording did."""
    verdict: Settlement | None = None
    """The end of the question; None while the question is open."""
    by: str | None = None
    decided: int | None = None
    evidence: tuple[Evidence, ...] = ()
    """Late results, which no longer count, of a call in doubt."""
    reviewers: tuple[str, ...] = ()
    """The users, and the groups as "group:name", who may decide; empty if anybody may."""
    redact: tuple[str, ...] = ()
    """The arguments to mask wherever nobody decides: in lists, messages and logs."""
    started_by: str | None = None
    """The user who asked for the run and cannot decide in it, if known."""
    shown: str | None = None
    """The hash of what the decider was shown, if it was recorded."""
    preview: Preview | None = None
    """The call's effect, as the tool's own side says; None if the tool has no preview."""
    risk: Risk | None = None
    """The risk of the call, as its tool or its rule says; None if neither says any."""
    looked: int | None = None
    """The milliseconds that the decider had the question open, if a page knew it."""


class AgentRecord(Struct, frozen=True):
    """An agent that a worker drives, so that a run can be started without the agent's code."""

    name: str
    began: str
    """The first fact of a new run, as JSON, without the run's id and time."""
    seen: int
    """The time at which a worker last announced the agent."""


class Settled(Struct, frozen=True):
    """The end of a question."""

    id: str
    verdict: Settlement
    by: str
    at: int
    shown: str | None = None
    looked: int | None = None


class GrantRecord(Grant, frozen=True, kw_only=True):
    """A grant in a store."""

    run: str
    server: str | None = None
    definition: str | None = None
    revoked: int | None = None
    revoked_by: str | None = None


class Revocation(Struct, frozen=True):
    """The revocation of a grant."""

    id: str
    by: str
    at: int


class SavedContext(Struct, frozen=True):
    """The user's context, as JSON, and the type of the object."""

    json: bytes | None = None
    kind: str | None = None


class Lease(Struct, frozen=True):
    """The right to drive a run. The next lease has a higher fence; from then on, writes with this lease are refused."""

    run: str
    worker: str
    fence: int


class Change(Struct, kw_only=True):
    """Facts and their changes to the records, written in one transaction."""

    record: RunRecord
    """The run's record after the facts.

    `changed` is the time of all of the facts; without facts it stays as it was. A store keeps `worker`, `until`,
    `failures`, `error` and `erased` itself.
    """
    seq: int
    """The run's number of facts before the change; 0 creates the run."""
    facts: list[AnyFact]
    asked: list[Question] = []
    settled: list[Settled] = []
    evidence: dict[str, tuple[Evidence, ...]] = {}
    """All late results so far, by question id."""
    granted: list[GrantRecord] = []
    used: dict[str, int] = {}
    """The total number of uses, by grant id."""
    revoked: list[Revocation] = []
    standing: dict[str, int] = {}
    """The number of calls that each standing grant decides with these facts. An ended grant refuses the change."""
    definitions: dict[str, bytes] = {}
    """Definitions of the tools as they were offered, by fingerprint; a store keeps each once."""
    context: SavedContext | None = None
    """The context; None if it did not change."""
    chapter: Chapter | None = None
    """A snapshot of the run after one of these facts. A store may keep it, and give it back with `Stored.before`."""
    lease: Lease | None = None
    """The driver's lease, which must still hold. A decision needs no lease."""
    take: bool = False
    """True to acquire the lease with this change; its fence must be one above the newest."""
    hold: float | None = None
    """The seconds that the lease holds from now on; None leaves the lease's end unchanged."""
    release: bool = False
    """True to release the lease with this change."""
    starting: tuple[str, ...] = ()
    """The names of the agents that calls begin for with this change. A stop of one of them refuses the change."""
    copied: bool = False
    """True if an engine has recorded the facts already, so that no stop refuses them."""


class Stored(Struct, kw_only=True):
    """A run as it was read: its record, the requested facts, and the user's context."""

    record: RunRecord
    facts: list[AnyFact]
    context: SavedContext = SavedContext()
    fence: int | None = None
    """The fence of the run's newest lease; the next lease has this fence plus one. None if unknown."""
    before: Restored | None = None
    """The snapshot that the facts go on from, or the beginning; None if it was not looked for.

    The facts before the snapshot are decoded when somebody looks at them.
    """
    head: bytes | None = None
    """The hash of the run's last row, and so of all its rows; None in a store without hashes."""

    def run(self, *, talks: bool = True) -> Run:
        """Return the run that the facts fold into; with `talks`, its conversation is ready for the model."""
        if self.before is None or not self.is_late:
            return replay(self.facts)
        return self.before.run(self.facts[self.before.snapshot.seq :], talks=talks)

    @property
    def is_late(self) -> bool:
        """True if the facts go on from a snapshot."""
        return self.before is not None and self.before.snapshot.seq > 0


class Page(Struct, Generic[T]):
    """A part of a list, and the cursor of the next page.

    A page of a search may have few items, or none, although it is not the last: only `next` tells.
    """

    items: list[T]
    next: str | None = None
    """The `after` of the next page; None on the last page."""
    damaged: list[str] = []
    """The ids of the questions that are left out of this page because their rows are damaged."""


class Entry(Struct, frozen=True):
    """An entry of a run's history."""

    seq: int
    at: int
    fact: dict[str, Any]
    """The fact as JSON; the key `fact` is its kind."""
    hash: str = ""
    """The hash of this row and of the hash before it, and so of all rows before it. Empty in a store without hashes."""


def check_seconds(**given: float) -> None:
    """Raise `UsageError` unless each value is a number of seconds from 0 to 100 years."""
    for name, seconds in given.items():
        if not is_seconds(seconds):
            raise UsageError(f"{name} is a number of seconds from 0 to 100 years, got {described(seconds)}.")


def check_counts(**given: int) -> None:
    """Raise `UsageError` unless each value is a whole number that a database column can hold."""
    for name, number in given.items():
        if not is_count(number, 0):
            raise UsageError(f"{name} is a whole number from 0 to 2**63 - 1, got {described(number)}.")
