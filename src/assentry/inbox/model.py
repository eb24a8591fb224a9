"""The JSON of the API: records of the store as they are, and a few shapes around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import HTTPException
from msgspec import Meta, Struct

from ..approval.decision import Approve, Decision, Edit, Reject, Respond
from ..approval.foreign_call import CallRequest
from ..approval.standing import GiveStandingGrant, StandingGrant, StandingTerms
from ..approval.terms import GrantTerms
from ..core.digest import BadJSON, parse_object
from ..core.wording import described
from ..definitions.item import Evidence
from ..errors import InvalidInput
from ..store.call_status import CallStatus
from ..store.calls import HOLD
from ..store.record import Entry, GrantRecord, Question, RunRecord
from ..store.statistics import Figures, PeriodPart, Statistics, WaitBar
from ..store.stop import LONGEST_REASON, AgentStop
from .bounds import is_too_long, refusal_of
from .headline import ShownQuestion
from .many import MOST_AT_ONCE
from .problem import Difference, Invalid, Problem

NO_NUL = r"^[^\x00]*$"


class QuestionPage(Struct):
    """A page of questions; `next` is the `after` of the next page, null on the last one."""

    items: list[ShownQuestion]
    next: str | None
    damaged: list[str]
    """The ids of questions that are left out because their rows are damaged."""


class RunPage(Struct):
    """A page of runs."""

    items: list[RunRecord]
    next: str | None


class GrantPage(Struct):
    """A page of grants."""

    items: list[GrantRecord]
    next: str | None


class StandingGrantPage(Struct):
    """A page of standing grants; `damaged` are the ids of rows that are not what was written, and decide nothing."""

    items: list[StandingGrant]
    next: str | None
    damaged: list[str]


class StartReport(Struct, frozen=True, forbid_unknown_fields=True):
    """The report that a program is about to run its approved call."""

    holder: str
    """A text of the program's own, by which it is known again: nobody else can report for this start."""
    arguments: dict[str, Any] | None = None
    """The arguments that are about to run, to be compared with those that were approved."""
    hold: float = HOLD
    """The seconds for which the program will report or renew; after that the call is in doubt."""


class RenewReport(Struct, frozen=True, forbid_unknown_fields=True):
    """The report that a program still runs its call."""

    holder: str
    hold: float = HOLD


class FinishReport(Struct, frozen=True, forbid_unknown_fields=True):
    """The report of a call's outcome: its output, or the error with which it failed."""

    holder: str
    output: Any = None
    error: str | None = None
    taken: bool = False
    """True if whoever wanted the outcome has it, so that the next equal call is a new one."""


class TakeReport(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing but the report that the outcome was taken."""


class JournalPage(Struct):
    """A page of a run's journal."""

    items: list[Entry]
    next: int | None


class KnownAgent(Struct):
    """An agent whose runs can be started, and the time at which a worker last announced it."""

    name: str
    seen: int


class AgentList(Struct):
    """The agents whose runs can be started."""

    items: list[KnownAgent]


class IdList(Struct):
    """Ids that begin with a text, in their order."""

    items: list[str]


class Health(Struct):
    """The inbox is there, and its store can be read."""

    status: Literal["ok"] = "ok"


class StartRun(Struct, forbid_unknown_fields=True):
    """A run to start: the agent's name, and the user's message."""

    agent: str
    input: str


class DecisionWithGrant(Struct, forbid_unknown_fields=True):
    """A decision that applies to later calls of the run too, within these terms."""

    decision: Decision
    grant: GrantTerms | bool


class GiveGrant(Struct, forbid_unknown_fields=True):
    """A grant to give with the decision on an open question; its digest is in `If-Match`."""

    question: str
    decision: Approve | Edit | Reject = Approve()
    terms: GrantTerms = GrantTerms()


class QuestionDigest(Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and the digest of it that was shown."""

    id: Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
    digest: Annotated[str, Meta(min_length=1, max_length=200)]


class DecideMany(Struct, forbid_unknown_fields=True):
    """A decision on several questions about one tool, each with the digest that was shown."""

    decision: Approve | Reject
    questions: Annotated[list[QuestionDigest], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class QuestionOutcome(Struct):
    """The outcome for one of several questions: its status, and the question or the problem, as of one decision."""

    id: str
    status: int
    question: Question | None = None
    problem: Problem | None = None


class QuestionOutcomes(Struct):
    """The outcome for each question, in the order of the request."""

    items: list[QuestionOutcome]


class CancelRun(Struct, forbid_unknown_fields=True):
    """The reason to cancel a run."""

    why: Annotated[str, Meta(max_length=LONGEST_REASON, pattern=NO_NUL)] | None = None


class ResumeRun(Struct, forbid_unknown_fields=True):
    """Nothing but the wish to resume a run."""


class StopAgents(Struct, forbid_unknown_fields=True):
    """The agent to stop, null for all agents, and the reason."""

    agent: Annotated[str, Meta(min_length=1, pattern=NO_NUL)] | None
    why: Annotated[str, Meta(min_length=1, max_length=LONGEST_REASON, pattern=NO_NUL)]


class LiftStop(Struct, forbid_unknown_fields=True):
    """Nothing but the wish to lift a stop."""


class StopPage(Struct):
    """A page of stops."""

    items: list[AgentStop]
    next: str | None


RESPONSES = (
    QuestionPage, RunPage, GrantPage, JournalPage, AgentList, KnownAgent, Health, IdList, Question, ShownQuestion,
    RunRecord, Entry, QuestionOutcome, QuestionOutcomes, AgentStop, StopPage, StandingGrantPage,
    StandingGrant,
    Statistics, Figures, PeriodPart, WaitBar, CallStatus,
)  # fmt: skip
SCHEMAS: tuple[type[Struct], ...] = (
    *RESPONSES, GrantRecord, Evidence, Difference, Invalid, Problem, StartRun, DecisionWithGrant, GiveGrant, GrantTerms,
    Approve, Edit, Reject, Respond, QuestionDigest, DecideMany, CancelRun, ResumeRun, StopAgents, LiftStop,
    GiveStandingGrant, StandingTerms, CallRequest, StartReport, RenewReport, FinishReport, TakeReport,
)  # fmt: skip
"""The shapes that the description of the API names."""
SENT = (
    StartRun, DecisionWithGrant, GiveGrant, GrantTerms, QuestionDigest, DecideMany, CancelRun, ResumeRun, StopAgents,
    LiftStop, GiveStandingGrant, StandingTerms, CallRequest, StartReport, RenewReport, FinishReport, TakeReport,
)  # fmt: skip
"""The shapes that are sent to the inbox."""


def components() -> dict[str, Any]:
    """Return the JSON schemas of all shapes. They are strict: nothing else is in a response."""
    _, found = msgspec.json.schema_components([*SCHEMAS, Decision], ref_template="#/components/schemas/{name}")
    whole = {each.__name__: each for each in SCHEMAS if not each.__struct_config__.omit_defaults}
    sent = {each.__name__ for each in SENT}
    for name, schema in found.items():
        if "properties" in schema:
            schema["additionalProperties"] = False
            if name in whole and name not in sent:
                schema["required"] = list(schema["properties"])
    return found


def ref(name: str) -> dict[str, str]:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def any_of(names: Iterable[str]) -> dict[str, Any]:
    """Return a schema that fits any of these."""
    return {"anyOf": [ref(name) for name in names]}


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; raise `InvalidInput` if it is no JSON with one meaning.

    A body of too many values is refused with 413 before it is read.
    """
    try:
        text = body.decode()
        if is_too_long(text):
            raise HTTPException(413, refusal_of("The body"))
        return parse_object(text)
    except (BadJSON, UnicodeDecodeError) as error:
        raise InvalidInput(f"The body is not a JSON object: {described(str(error), 300)}.") from None


def read_as(body: bytes, kind: Any) -> Any:
    """Return the body as a shape; raise `InvalidInput` if it does not fit."""
    try:
        return msgspec.convert(read_object(body), kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The body does not fit: {error}.") from None
