"""The messages between client, workflow and activities, as JSON that Temporal's own pages can show.

A message never has a transcript. It has facts that are new, and a `Mark` that names all facts before: their number, and
the hash of the last one, which covers all of them.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from ...core.facts import NOTHING, AnyFact
from ...core.snapshot import Snapshot
from ...errors import UnreadableState

M = TypeVar("M", bound=Struct)

WORKFLOW = "AssentryRun"
"""The name of the workflow's type."""
BEGIN, ADVANCE, ENTER, DECIDE, KEEP, PROJECT = (
    f"assentry_{word}" for word in ("begin", "advance", "enter", "decide", "keep", "project")
)
"""The names of the activities."""
QUEUE = "assentry"
"""The task queue that clients and workers use unless they are given another."""


class EngineMessage(Struct, frozen=True, omit_defaults=True):
    """The base of all messages. New fields need defaults: workers and clients of two versions meet."""


class Mark(EngineMessage, frozen=True):
    """The first `seq` facts of a run."""

    seq: int = 0
    head: str = ""
    """The hash of the last of these facts and of the hash before it, and so of all of them; empty if there are none."""


class ContextText(EngineMessage, frozen=True):
    """The user's context as JSON, and its kind; see `SavedContext`."""

    json: Raw = NOTHING
    kind: str | None = None


class Limits(EngineMessage, frozen=True):
    """The settings that decide when the workflow does something. They are in the history, since a replay repeats it."""

    bodies: int | None = None
    """The most bodies at once; None for no limit."""
    events: int = 4000
    """The number of history events after which the workflow continues as new."""
    queues: bool = False
    """True if some activities are for workers of another task queue, which may not be there."""


class Opening(EngineMessage, frozen=True):
    """The request for a new run."""

    agent: str
    input: Raw
    context: ContextText = ContextText()
    max_turns: int | None = None
    started_by: str | None = None
    session: str | None = None
    conversation: dict[str, str] | None = None
    attributes: bool = False
    """True if the search attributes are registered, so that the workflow may set them."""
    follows: str | None = None
    """The run before, whose conversation this run continues."""


class Carried(EngineMessage, frozen=True):
    """The part of a run that a workflow carries over when it continues as new: no conversation."""

    mark: Mark
    since: list[AnyFact]
    """The facts after the snapshot, or all facts if there is no snapshot."""
    snapshot: Snapshot | None = None
    counting: list[tuple[int, AnyFact]] = []
    """The facts before the snapshot that still count, with their numbers."""
    context: ContextText = ContextText()
    attributes: bool = False
    executions: int = 1
    """The number of workflow executions before, for whoever looks."""
    limits: Limits = Limits()
    projects: bool = False
    """True if the workflow has a store catch up; see `Report.projects`."""
    untold: tuple[str, ...] = ()
    """The questions whose decisions hooks have not heard of."""


class Start(EngineMessage, frozen=True):
    """The input of the workflow: a new run, or one that is carried over."""

    opening: Opening | None = None
    carried: Carried | None = None


class Order(EngineMessage, frozen=True):
    """The input of an activity: the part of a run to perform."""

    run: str
    mark: Mark = Mark()
    """The facts that the archive has."""
    unkept: list[AnyFact] = []
    """The facts after those, which the activity writes to the archive before anything else."""
    head: str = ""
    """The hash after the unkept facts."""
    keeps_context: bool = False
    """True if the activity writes the context, too."""
    path: tuple[str, ...] = ()
    call: str | None = None
    """The call whose body is to be entered; None for everything that is owed at this path and is no body."""
    attempt: int = 0
    settle: tuple[str, ...] = ()
    """The calls in doubt. What became of their bodies is to be found out."""
    decided: tuple[str, ...] = ()
    """The questions whose decisions hooks hear of in this activity, and in no other."""
    context: ContextText = ContextText()
    opening: Opening | None = None
    """The request, for the activity that begins a run."""
    patient: bool = False
    """True if the activity is to wait for a worker that has the agent."""
    decision: DecisionText | None = None
    """The decision that needs the tool's definition, for the activity that looks at it."""
    execution: str = ""
    """The execution of the workflow that has ordered it. A reset makes another one, and repeats the order."""

    @property
    def upto(self) -> Mark:
        """The facts with which the activity is performed."""
        return Mark(self.mark.seq + len(self.unkept), self.head) if self.unkept else self.mark


class Failure(EngineMessage, frozen=True):
    """An error that ended an activity's part of a run; the facts before it count."""

    kind: str
    message: str
    details: dict[str, Any] = {}
    holds: bool = False
    """True if the run is held up although facts were recorded: it would go on without something that was lost."""


class Report(EngineMessage, frozen=True):
    """The result of an activity: the facts that it made, which the workflow records if they are still legal."""

    facts: list[AnyFact] = []
    context: ContextText | None = None
    """The context, if it has changed."""
    failure: Failure | None = None
    output: Raw = NOTHING
    """The run's final output, if this part has concluded the run."""
    limits: Limits | None = None
    """The worker's limits, from the activity that begins a run."""
    execution: str = ""
    """The execution of the workflow that this was done for. One that finds another's in its history was reset."""
    projects: bool = False
    """True if the inbox's store is not the archive, so that the workflow has to have it catch up.

    Only the activity that begins the run says so. What a workflow commands must come from its history: a worker whose
    settings are others, or that replays the history years later, has to come to the same commands.
    """


class Keeping(EngineMessage, frozen=True):
    """The facts to write to the archive, after those of the mark."""

    run: str
    mark: Mark
    facts: list[AnyFact]
    head: str
    """The hash after these facts."""
    context: ContextText | None = None
    """The context, if it has changed."""


class DecisionText(EngineMessage, frozen=True):
    """A decision on a question, as it is sent to the workflow."""

    question: str
    decision: dict[str, Any]
    by: str
    groups: tuple[str, ...] = ()
    shown: str | None = None
    digest: str | None = None
    grant: Any = None
    looked: int | None = None


class Word(EngineMessage, frozen=True):
    """A message of a person to a run, other than a decision."""

    kind: Literal["cancel", "resume", "say", "revoke", "retry"]
    by: str
    text: str | None = None
    """The reason, the input, or the grant's id."""


class Recorded(EngineMessage, frozen=True):
    """The workflow's answer to a decision or a word."""

    seq: int
    """The number of facts that the run has with it."""
    verdict: str | None = None
    by: str | None = None
    at: int | None = None
    shown: str | None = None


class DecisionOutcome(EngineMessage, frozen=True):
    """The answer to a decision on a run that is over: what is recorded, or why the decision is not."""

    recorded: Recorded | None = None
    failure: Failure | None = None


class Waiting(EngineMessage, frozen=True):
    """A question that waits, as the workflow knows it."""

    id: str
    tool: str
    arguments: str
    digest: str
    kind: str
    why: str = ""
    allowed: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    until: int | None = None
    prompt: Raw = NOTHING
    """The question itself, as JSON, if a body or a hook asks."""


class Standing(EngineMessage, frozen=True):
    """The state of a run, as the workflow tells it."""

    run: str
    status: str
    agent: str = ""
    seq: int = 0
    head: str = ""
    turns: int = 0
    questions: tuple[Waiting, ...] = ()
    output: Raw = NOTHING
    failure: Failure | None = None
    executions: int = 1
    """The number of workflow executions that the run has taken."""
    kept: Mark = Mark()
    """The facts that the archive has."""


@functools.cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


_encode = msgspec.json.Encoder().encode
_JSON = {"encoding": b"json/plain"}


def to_wire(message: Struct) -> RawValue:
    """Return a message as a payload of Temporal's, to the letter of its JSON."""
    return RawValue(Payload(metadata=_JSON, data=_encode(message)))


def from_wire(value: RawValue, kind: type[M]) -> M:
    """Return the message of a payload; raise `UnreadableState` if it is another one."""
    try:
        return _decoder(kind).decode(value.payload.data)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableState(f"This is no {kind.__name__} of an Assentry run on Temporal: {error}.") from None
