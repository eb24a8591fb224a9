"""The step that gives a grant with an approval: the terms of a form, and the same in words before they are sent."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..approval.condition import satisfies
from ..approval.standing import StandingTerms, check_arguments, standing_terms_from
from ..approval.terms import GrantTerms
from ..core.digest import BadJSON, parse_object
from ..core.wording import shortened
from ..errors import InvalidDecision
from ..store.comparing import kept_tool
from ..store.record import Question
from .bounds import is_too_long, refusal_of
from .grant_words import LONGEST_VALUE, standing_words, terms_words
from .headline import arguments_in_order, order_of
from .identity import Identity
from .json_values import WrittenNumber, read_json, write_json
from .language import translate
from .page_parts import PageContext

PAST = 200
"""The settled questions that are looked at to say what a grant would have covered."""
GRANT_ENDS = {"hour": 3600, "day": 86400, "week": 7 * 86400}
"""The ends of a grant to choose from, in seconds."""
ALL_RUNS = "all"
"""The choice of a grant over all runs of the agent."""
NUMBER_KINDS = ("is", "at_most", "at_least")
TEXT_KINDS = ("is", "starts_with", "matches", "max_length")
PATH_KINDS = ("is", "under", "starts_with", "matches")
OF_ONE_RUN = ("is", "any")
"""The conditions that a grant for one run can have."""


class ArgumentChoice(Struct):
    """An argument in the form: its value, the conditions to choose from, and the one that is chosen."""

    name: str
    value: Any
    kinds: tuple[str, ...]
    kind: str
    limit: str
    """The limit as it is written in the form."""
    shown: str
    """The value in a few characters."""


def choices_of(question: Question, sent: dict[str, str] | None) -> list[ArgumentChoice]:
    """Return the arguments of a question with what the form says of each."""
    try:
        value = read_json(arguments_in_order(question.arguments, order_of(question)))
    except ValueError:
        value = {}
    found = []
    for name, each in value.items() if isinstance(value, dict) else ():
        kinds = (*_kinds_of(each), "any")
        kind = (sent or {}).get(f"how:{name}", "is")
        limit = (sent or {}).get(f"limit:{name}", "").strip() or (each if isinstance(each, str) else write_json(each))
        shown = shortened(write_json(each), LONGEST_VALUE)
        found.append(ArgumentChoice(name, each, kinds, kind if kind in kinds else "is", limit, shown))
    return found


def _kinds_of(value: Any) -> tuple[str, ...]:
    if isinstance(value, WrittenNumber):
        return NUMBER_KINDS
    if isinstance(value, str):
        return PATH_KINDS if "/" in value else TEXT_KINDS
    return ("is",)


def where_of(choices: list[ArgumentChoice]) -> dict[str, dict[str, Any]]:
    """Return the conditions that a form chooses, or raise `InvalidDecision`."""
    where: dict[str, dict[str, Any]] = {}
    for each in choices:
        name = each.name.replace("~", "~0").replace("/", "~1") if each.name.startswith("/") else each.name
        name = f"/{name}" if each.name.startswith("/") else name
        if each.kind == "is":
            where[name] = {"is": parse_object(f'{{"v": {write_json(each.value)}}}')["v"]}
        elif each.kind in ("at_most", "at_least", "max_length"):
            where[name] = {each.kind: _number(each)}
        elif each.kind != "any":
            where[name] = {each.kind: each.limit}
    return where


def _number(choice: ArgumentChoice) -> Any:
    try:
        return parse_object(f'{{"v": {choice.limit}}}')["v"]
    except BadJSON:
        raise InvalidDecision(
            translate("The limit of {name} is a number, such as 50 or 99.5.", name=choice.name)
        ) from None


def terms_of(sent: dict[str, str], now: int) -> GrantTerms:
    """Return the terms that a form gives for a grant in one run, or raise `InvalidDecision`."""
    uses, lasts = _limits_of(sent, now)
    if is_too_long(sent.get("pins", "")):
        raise InvalidDecision(refusal_of("The list of pinned arguments"))
    try:
        pins = parse_object(sent["pins"]) if sent.get("pins") else None
    except BadJSON as error:
        raise InvalidDecision(f"The pinned arguments are not JSON: {error}.") from None
    return GrantTerms(uses, lasts, pins or None)


def standing_terms_of(sent: dict[str, str], now: int) -> StandingTerms:
    """Return the terms that a form gives for a standing grant, or raise `InvalidDecision`."""
    uses, lasts = _limits_of(sent, now)
    if is_too_long(sent.get("where", "")):
        raise InvalidDecision(refusal_of("The list of conditions"))
    try:
        where = parse_object(sent["where"]) if sent.get("where") else None
    except BadJSON as error:
        raise InvalidDecision(f"The conditions are not JSON: {error}.") from None
    return standing_terms_from(StandingTerms(uses, lasts, where or None))


def _limits_of(sent: dict[str, str], now: int) -> tuple[int | None, float | None]:
    """Return the number of uses and the seconds of a form.

    `until` is the end that was put in words, however long ago; `end` is one to choose, from now on.
    """
    uses = sent.get("uses", "").strip()
    if uses and not (uses.isascii() and uses.isdecimal() and len(uses) <= 7 and 0 < int(uses) <= 1_000_000):
        raise InvalidDecision(translate("The number of times is a whole number from 1 to 1,000,000, or empty."))
    end = sent.get("end", "")
    if end and end not in GRANT_ENDS:
        raise InvalidDecision(f"A grant ends after an hour, a day, a week, or never; got {end!r:.40}.")
    lasts = float(GRANT_ENDS[end]) if end else None
    if until := sent.get("until", ""):
        if not (until.isascii() and until.isdecimal() and len(until) <= 15):
            raise InvalidDecision(f"The end of a grant is a time in milliseconds, got {until!r:.40}.")
        lasts = (int(until) - now) / 1000
        if lasts <= 0:
            raise InvalidDecision(
                translate("The time that was put in words is over; go back and see the terms in words again.")
            )
    return int(uses) if uses else None, lasts


async def grant_context(pages: PageContext, question: Question, sent: dict[str, str] | None) -> dict[str, Any]:
    """Return the context of the step: the form, and what it says in words once somebody asks for them.

    `problem` says why the terms cannot be given.
    """
    choices = choices_of(question, sent)
    form: dict[str, Any] = {
        "choices": choices,
        "runs": (sent or {}).get("runs", "this"),
        "uses": "5" if sent is None else sent.get("uses", ""),
        "end": "day" if sent is None else sent.get("end", ""),
        "words": "",
        "kept_terms": {},
    }
    if sent is None:
        return form
    now = pages.now()
    if form["runs"] == ALL_RUNS:
        return form | await _standing_words(pages, question, choices, sent, now)
    if any(each.kind not in OF_ONE_RUN for each in choices):
        told = translate("In this run only, an argument has exactly this value, or any. Ranges are for all runs.")
        return form | {"problem": told}
    pinned = {each.name: each.value for each in choices if each.kind == "is"}
    pins = write_json(pinned) if pinned else ""
    terms = terms_of({**sent, "pins": pins, "until": ""}, now)
    until = terms.until(now)
    words = terms_words(question.tool, question.agent, pinned, terms.max_uses, until)
    return form | _shown(sent, words, until, pins=pins)


async def _standing_words(
    pages: PageContext, question: Question, choices: list[ArgumentChoice], sent: dict[str, str], now: int
) -> dict[str, Any]:
    _limits_of({**sent, "until": ""}, now)  # raises
    try:
        where = where_of(choices)
        written = write_json(where) if where else ""
        terms = standing_terms_of({**sent, "where": written, "until": ""}, now)
        await check_terms(pages, question, terms)
    except InvalidDecision as error:
        return {"problem": str(error)}
    until = None if terms.expires_in is None else now + int(terms.expires_in * 1000)
    words = standing_words(question.tool, question.agent, where, terms.max_uses, until)
    shown = _shown(sent, words, until, where=written)
    return shown | ({"past": await past_words(pages, question, terms)} if shown else {})


async def past_words(pages: PageContext, question: Question, terms: StandingTerms) -> str:
    """Return how people decided on earlier calls that these terms cover: those of the newest settled questions."""
    page = await pages.store.questions(agent=question.agent, tool=question.tool, settled=True, limit=PAST, newest=True)
    covered = [each.verdict for each in page.items if each.kind == "approval" and _covers(terms, each)]
    known = [covered.count(verdict) for verdict in ("approve", "edit", "reject")]
    if not sum(known):
        return translate("No earlier question of this agent about this tool would have been covered.")
    return translate(
        "Of the last {n} questions of this agent about this tool, it would have covered {covered}: people approved "
        "{approved}, edited {edited} and rejected {rejected} of them.",
        n=len(page.items),
        covered=sum(known),
        approved=known[0],
        edited=known[1],
        rejected=known[2],
    )


def _covers(terms: StandingTerms, question: Question) -> bool:
    try:
        return terms.where is None or satisfies(parse_object(question.arguments), terms.where)
    except BadJSON:
        return False


def _shown(sent: dict[str, str], words: str, until: int | None, **kept: str) -> dict[str, Any]:
    """Return the words, and the terms that the second press sends."""
    if sent.get("do") != "review":
        return {}
    kept |= {"runs": sent.get("runs", "this"), "uses": sent.get("uses", "")}
    return {"words": words, "kept_terms": kept | {"until": "" if until is None else str(until)}}


async def check_terms(pages: PageContext, question: Question, terms: StandingTerms) -> None:
    """Raise `InvalidDecision` unless these terms fit the tool of a question."""
    text = await pages.store.definition(question.definition) if question.definition is not None else None
    if text is None or question.definition is None:
        raise InvalidDecision(translate("The definition of the tool is not there any more; no grant can be given."))
    check_arguments(terms, kept_tool(question.definition, text).takes, question.redact, question.arguments)


async def standing_terms_in(
    pages: PageContext, who: Identity, question: Question, sent: dict[str, str]
) -> StandingTerms | None:
    """Return the terms of the standing grant that a form of a decision gives; None if it gives none."""
    if sent.get("type") != "approve" or not sent.get("grant") or sent.get("runs") != ALL_RUNS:
        return None
    who.need("grant")
    terms = standing_terms_of(sent, pages.now())
    await check_terms(pages, question, terms)
    return terms
