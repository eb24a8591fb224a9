"""The words of the page about a question, a run or a grant. Plain data in, plain data out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from ..approval.decide import may_decide
from ..approval.decision import Decider
from ..core.digest import canonical
from ..core.wording import shortened
from ..store.record import Entry, GrantRecord, Question
from .difference import ChangedLine, changed_lines
from .headline import in_signature_order, order_of, sentence_of
from .identity import Identity
from .json_values import read_json, read_or_text, size_of, write_json
from .mask import masked
from .templating import left, utc

MOST_COMPARED = 400_000
"""The most characters of two texts that are compared."""
SOON = 60 * 60 * 1000
"""Milliseconds before a deadline from which a question is due soon."""
MOST_PINS = 20
"""The most pinned arguments that are named, if there are too many to be shown with their values."""
PAST = {
    "approve": "approved",
    "edit": "approved with changes",
    "reject": "rejected",
    "respond": "answered",
    "replaced": "replaced by a newer question",
    "void": "closed with its run",
}


class Tag(Struct, frozen=True):
    """A short mark beside a question."""

    text: str
    tone: str = ""
    until: int | None = None
    """The deadline that the mark counts down to."""


class QuestionRow(Struct):
    """A question in the list."""

    id: str
    sentence: str
    tool: str
    agent: str
    at: int
    tags: list[Tag]
    soon: bool
    deadline: int


def place_of(row: QuestionRow) -> tuple[int, int, int, str]:
    """Return the place of a question in the list: those that are due soon come first, then the oldest."""
    return (0, row.deadline, row.at, row.id) if row.soon else (1, 0, row.at, row.id)


def deadline_tag(question: Question, now: int, *, long: bool = False) -> Tag | None:
    """Return the mark of a question's deadline; None if it has none."""
    if question.until is not None:
        close = question.until - now
        tone = "stop" if close < 5 * 60_000 else "warn" if close < SOON else ""
        if close < 0:
            return Tag("the deadline has passed", tone, question.until)
        words = left(question.until, now)
        return Tag(f"rejected in {words} if nobody answers" if long else f"{words} left", tone, question.until)
    if question.due is not None:
        if question.due <= now:
            return Tag("overdue", "stop", None)
        words = left(question.due, now)
        return Tag(f"due in {words}", "warn" if question.due - now < SOON else "", question.due)
    return None


def row_of(question: Question, now: int, looking: list[str]) -> QuestionRow:
    """Return a question for the list; secret arguments are masked there for everybody."""
    question = masked(question)
    tags = [tag] if (tag := deadline_tag(question, now)) is not None else []
    if question.kind != "approval":
        tags.append(Tag("asks for input") if question.kind == "input" else Tag("in doubt", "stop"))
    if looking:
        tags.append(Tag(f"{looking[0]} is looking" if len(looking) == 1 else f"{len(looking)} are looking", "info"))
    ends = [each for each in (question.until, question.due) if each is not None]
    deadline = min(ends) if ends else 2**62
    sentence = sentence_of(question)
    return QuestionRow(
        question.id,
        shortened(sentence, 300),
        question.tool,
        question.agent,
        question.at,
        tags,
        deadline - now < SOON,
        deadline,
    )


def why_not(question: Question, who: Identity) -> str:
    """Return the reason why somebody may not decide a question; empty if they may."""
    if not who.may("decide"):
        return f"You are signed in as {who.role}, and may look but not decide."
    if question.started_by == who.name:
        return "You asked for this run. Somebody else must decide in it."
    if not may_decide(question.reviewers, Decider(who.name, who.groups)):
        return f"This is for {people(question.reviewers)} to decide."
    return ""


def people(names: tuple[str, ...]) -> str:
    """Return names and groups in words."""
    words = [f"the group {name[6:]}" if name.startswith("group:") else name for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def settled_words(question: Question, who: Identity) -> str:
    """Return how a question ended: "Approved by you"."""
    verdict = PAST.get(question.verdict or "", question.verdict or "")
    if question.verdict in ("replaced", "void"):
        return verdict.capitalize()
    by = "you" if question.by == who.name else question.by or "somebody"
    if question.verdict == "reject" and question.by == "deadline":
        return "Rejected because nobody answered in time"
    return f"{verdict} by {by}".capitalize() if by == "you" else f"{verdict.capitalize()} by {by}"


def compare_texts(before: str, after: str, order: Collection[str] = ()) -> list[ChangedLine]:
    """Return the difference between two JSON texts, line by line; equal texts have none. `order` is the arguments'.

    Of texts that are too long to be compared, it says how long they are.
    """
    if before == after:
        return []
    if len(before) + len(after) > MOST_COMPARED:
        return [ChangedLine("-", f"{size_of(before)}, too long to compare"), ChangedLine("+", size_of(after))]
    one, two = (_pretty(each, order).split("\n") for each in (before, after))
    return changed_lines(one, two) if one != two else []


def too_long_to_compare(before: str, after: str) -> bool:
    """Return True if `difference` only says how long two texts are."""
    return before != after and len(before) + len(after) > MOST_COMPARED


def _pretty(text: str, order: Collection[str]) -> str:
    try:
        value = read_json(text)
        return write_json(in_signature_order(value, order) if isinstance(value, dict) else value, 2)
    except ValueError:
        return text


class Decided(Struct, frozen=True):
    """The content of a decision, besides its verdict."""

    title: str
    changes: list[ChangedLine] = []
    """With `edited`, the difference between the arguments that were asked about and those that run."""
    tool: str = ""
    """The tool that runs in the place of the one that was asked about."""
    whole: str = ""
    """The arguments that run, if they are too long to be compared."""
    words: str = ""
    """The reason or the note."""
    answer: Any = None
    """With `answered`, the answer, as JSON values."""
    edited: bool = False
    answered: bool = False


def as_text(value: Any) -> str:
    """Return the JSON text of a value in a fact, with its numbers as the fact has them."""
    return canonical(value).decode()


DECIDING = ("approved", "refused", "answered", "finished")
"""The kinds of facts that settle a question."""


def decided_in(entries: list[Entry], question: Question) -> Decided | None:
    """Return the content of the decision on a question; None if it is not in these entries, or only has a verdict."""
    facts = [each.fact for each in entries if each.fact.get("fact") in DECIDING]
    fact = next((each for each in facts if each.get("asked") == question.id), None)
    if fact is None:
        return None
    kind, why, args, tool = fact["fact"], str(fact.get("why") or ""), fact.get("args"), fact.get("tool")
    if kind == "approved" and (args is not None or tool):
        after = question.arguments if args is None else as_text(args)
        changes = compare_texts(question.arguments, after, order_of(question))
        whole = after if too_long_to_compare(question.arguments, after) else ""
        return Decided("What runs instead", changes, str(tool or ""), whole, why, edited=True)
    if kind == "approved":
        return Decided("The note to the approval", words=why) if why else None
    if kind == "refused":
        message = fact.get("message")
        return Decided("The reason for the rejection", words=str(message)) if message is not None else None
    value = as_text(fact.get("value" if kind == "answered" else "output"))
    return Decided("The answer", words=str(fact.get("note") or ""), answer=read_or_text(value), answered=True)


def terms_words(
    question_tool: str, agent: str, pins: dict[str, Any] | None, uses: int | None, until: int | None
) -> str:
    """Return the terms of a grant in words."""
    pinned = " and ".join(f"{name} = {shortened(write_json(each), 60)}" for name, each in (pins or {}).items())
    which = f"every later call of {question_tool} by {agent} in this run"
    with_ = f" with exactly {pinned}" if pinned else ", whatever its arguments"
    often = "" if uses is None else f", up to {uses:,} time{'s' if uses != 1 else ''}"
    end = "until it is revoked" if until is None else f"until {utc(until, '%d %b %Y %H:%M UTC')}"
    return f"{which}{with_}{often}, {end}"


def _pins_of(grant: GrantRecord) -> dict[str, Any] | None:
    if not grant.pins:
        return None
    pins = read_or_text(encode(grant.pins).decode())
    return pins if isinstance(pins, dict) else dict.fromkeys(list(grant.pins)[:MOST_PINS], "…")


def grant_words(grant: GrantRecord) -> str:
    """Return a grant in words."""
    pins = _pins_of(grant)
    return terms_words(grant.tool, grant.agent, pins, grant.max_uses, grant.until)
