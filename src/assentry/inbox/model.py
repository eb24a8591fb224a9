"""The JSON of the API: records of the store as they are, and a few shapes around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from fastapi import HTTPException
from msgspec import Struct

from ..approval.decision import Approve, Decision, Edit, Reject, Respond
from ..approval.terms import GrantTerms
from ..core.digest import BadJSON, parse_object
from ..core.wording import described
from ..definitions.item import Evidence
from ..errors import InvalidInput
from ..store.record import Entry, GrantRecord, Question, RunRecord
from .bounds import is_too_long, refusal_of
from .headline import ShownQuestion
from .problem import Difference, Invalid, Problem


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


RESPONSES = (
    QuestionPage, RunPage, GrantPage, JournalPage, AgentList, KnownAgent, Health, Question, ShownQuestion, RunRecord,
    Entry,
)  # fmt: skip
SCHEMAS: tuple[type[Struct], ...] = (
    *RESPONSES, GrantRecord, Evidence, Difference, Invalid, Problem, StartRun, DecisionWithGrant, GiveGrant, GrantTerms,
    Approve, Edit, Reject, Respond,
)  # fmt: skip
"""The shapes that the description of the API names."""


def components() -> dict[str, Any]:
    """Return the JSON schemas of all shapes. They are strict: nothing else is in a response."""
    _, found = msgspec.json.schema_components([*SCHEMAS, Decision], ref_template="#/components/schemas/{name}")
    whole = {each.__name__: each for each in SCHEMAS if not each.__struct_config__.omit_defaults}
    sent = {each.__name__ for each in (StartRun, DecisionWithGrant, GiveGrant, GrantTerms)}
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
