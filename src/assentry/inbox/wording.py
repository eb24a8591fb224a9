"""The words of the page about a question, a run or a grant. Plain data in, plain data out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from ..approval.decide import may_decide
from ..approval.decision import Decider
from ..core.digest import canonical
from ..core.wording import shortened
from ..definitions.preview import Preview, Sentence
from ..store.record import Entry, Question
from .difference import ChangedLine, changed_lines
from .headline import in_signature_order, order_of, sentence_of
from .identity import Identity
from .json_values import laid_out_json, read_json, read_or_text, size_of
from .language import translate
from .mask import masked
from .templating import left

MOST_COMPARED = 400_000
"""The most characters of two texts that are compared."""
SOON = 60 * 60 * 1000
"""Milliseconds before a deadline from which a question is due soon."""


class Tag(Struct, frozen=True):
    """A short mark beside a question."""

    text: str
    tone: str = ""
    until: int | None = None
    """The deadline that the mark counts down to."""
    counts: str = ""
    """The words in which the script counts down: "left", "due" or "rejected"."""


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
    approval: bool
    """True if it waits for an approval, and so can be decided together with others."""


def place_of(row: QuestionRow) -> tuple[int, int, int, str]:
    """Return the place of a question in the list: those that are due soon come first, then the oldest."""
    return (0, row.deadline, row.at, row.id) if row.soon else (1, 0, row.at, row.id)


def deadline_tag(question: Question, now: int, *, long: bool = False) -> Tag | None:
    """Return the mark of a question's deadline; None if it has none."""
    if question.until is not None:
        close = question.until - now
        tone = "stop" if close < 5 * 60_000 else "warn" if close < SOON else ""
        counts = "rejected" if long else "left"
        if close < 0:
            return Tag(translate("the deadline has passed"), tone, question.until, counts)
        words = left(question.until, now)
        if long:
            return Tag(translate("rejected in {time} if nobody answers", time=words), tone, question.until, counts)
        return Tag(translate("{time} left", time=words), tone, question.until, counts)
    if question.due is not None:
        if question.due <= now:
            return Tag(translate("overdue"), "stop", None)
        said = translate("due in {time}", time=left(question.due, now))
        return Tag(said, "warn" if question.due - now < SOON else "", question.due, "due")
    return None


def headline_of(question: Question) -> str:
    """Return what a question is about, in one sentence in the reader's language."""
    return sentence_of(question, translate)


def row_of(question: Question, now: int, looking: list[str]) -> QuestionRow:
    """Return a question for the list; secret arguments are masked there for everybody."""
    tags = [tag] if (tag := deadline_tag(question, now)) is not None else []
    if question.risk == "high":
        tags.append(Tag(translate("high risk"), "stop"))
    if preview_warnings(question):
        tags.append(Tag(translate("warning"), "warn"))
    question = masked(question)
    if question.kind != "approval":
        tags.append(
            Tag(translate("asks for input")) if question.kind == "input" else Tag(translate("in doubt"), "stop")
        )
    if looking:
        one = translate("{name} is looking", name=looking[0])
        tags.append(Tag(one if len(looking) == 1 else translate("{n} are looking", n=len(looking)), "info"))
    ends = [each for each in (question.until, question.due) if each is not None]
    deadline = min(ends) if ends else 2**62
    sentence = headline_of(question)
    return QuestionRow(
        question.id,
        shortened(sentence, 300),
        question.tool,
        question.agent,
        question.at,
        tags,
        deadline - now < SOON,
        deadline,
        question.kind == "approval",
    )


def settled_row(question: Question) -> QuestionRow:
    """Return a question that was decided, for the list; its time is that of the decision."""
    row = row_of(question, question.decided or 0, [])
    ends = {"approve": translate("approved"), "edit": translate("edited"), "respond": translate("answered")}
    rejected = Tag(translate("rejected"), "stop")
    end = rejected if question.verdict == "reject" else Tag(ends.get(question.verdict or "", ""))
    row.tags, row.at, row.soon = [end], question.decided or 0, False
    return row


def preview_warnings(question: Question) -> list[str]:
    """Return the warnings of a question's preview."""
    return warnings_of(question.preview)


def warnings_of(preview: Preview | None) -> list[str]:
    """Return the warnings of a preview; that it failed is one."""
    if preview is None:
        return []
    failed = [] if preview.failed is None else [translate("The preview failed: {why}", why=preview.failed)]
    return failed + [each.text for each in preview.blocks if isinstance(each, Sentence) and each.warning]


def needs_second_act(question: Question) -> bool:
    """Return True if approving takes a second, deliberate act: the risk is high, or the preview warns or failed."""
    return question.kind == "approval" and (question.risk == "high" or bool(preview_warnings(question)))


def is_expired(question: Question, now: int) -> bool:
    """Return True if nobody settled a question in time; a decision in the deadline's own millisecond is in time."""
    return question.verdict is None and question.until is not None and now > question.until


def why_not_theirs(question: Question, who: Identity) -> str:
    """Return the reason why somebody may not decide a question; empty if they may."""
    if not who.may("decide"):
        return translate("You are signed in as {role}, and may look but not decide.", role=who.role)
    if question.started_by == who.name:
        return translate("You asked for this run. Somebody else must decide in it.")
    if not may_decide(question.reviewers, Decider(who.name, who.groups)):
        return translate("This is for {people} to decide.", people=people(question.reviewers))
    return ""


def people(names: tuple[str, ...]) -> str:
    """Return names and groups in words."""
    words = [translate("the group {name}", name=name[6:]) if name.startswith("group:") else name for name in names]
    return words[0] if len(words) == 1 else translate("{some} or {last}", some=", ".join(words[:-1]), last=words[-1])


def verdict_words() -> dict[str, str]:
    """Return the ends that a question may have, each in a word or two: "approved"."""
    return {
        "approve": translate("approved"),
        "edit": translate("approved with changes"),
        "reject": translate("rejected"),
        "respond": translate("answered"),
        "replaced": translate("replaced by a newer question"),
        "void": translate("closed with its run"),
    }


def settled_words(question: Question, who: Identity) -> str:
    """Return how a question ended: "Approved by you"."""
    by = question.by or translate("somebody")
    match question.verdict, question.by == who.name:
        case "replaced", _:
            return translate("Replaced by a newer question")
        case "void", _:
            return translate("Closed with its run")
        case "reject", _ if question.by == "deadline":
            return translate("Rejected because nobody answered in time")
        case "approve", own:
            return translate("Approved by you") if own else translate("Approved by {name}", name=by)
        case "edit", own:
            mine = translate("Approved with changes by you")
            return mine if own else translate("Approved with changes by {name}", name=by)
        case "reject", own:
            return translate("Rejected by you") if own else translate("Rejected by {name}", name=by)
        case _, own:
            return translate("Answered by you") if own else translate("Answered by {name}", name=by)


def compare_texts(before: str, after: str, order: Collection[str] = ()) -> list[ChangedLine]:
    """Return the difference between two JSON texts, line by line; equal texts have none. `order` is the arguments'.

    Of texts that are too long to be compared, it says how long they are.
    """
    if before == after:
        return []
    if len(before) + len(after) > MOST_COMPARED:
        return [
            ChangedLine("-", translate("{size}, too long to compare", size=size_of(before))),
            ChangedLine("+", size_of(after)),
        ]
    one, two = (_pretty(each, order).split("\n") for each in (before, after))
    return changed_lines(one, two) if one != two else []


def too_long_to_compare(before: str, after: str) -> bool:
    """Return True if `difference` only says how long two texts are."""
    return before != after and len(before) + len(after) > MOST_COMPARED


def _pretty(text: str, order: Collection[str]) -> str:
    try:
        value = read_json(text)
        return laid_out_json(in_signature_order(value, order) if isinstance(value, dict) else value)
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
        return Decided(translate("What runs instead"), changes, str(tool or ""), whole, why, edited=True)
    if kind == "approved":
        return Decided(translate("The note to the approval"), words=why) if why else None
    if kind == "refused":
        message = fact.get("message")
        return Decided(translate("The reason for the rejection"), words=str(message)) if message is not None else None
    value = as_text(fact.get("value" if kind == "answered" else "output"))
    note = str(fact.get("note") or "")
    return Decided(translate("The answer"), words=note, answer=read_or_text(value), answered=True)


def status_word(status: str) -> str:
    """Return a run's status in the reader's language."""
    words = {
        "working": translate("working"),
        "waiting": translate("waiting"),
        "idle": translate("idle"),
        "done": translate("done"),
        "exhausted": translate("out of turns"),
        "cancelled": translate("cancelled"),
        "closed": translate("ended"),
    }
    return words.get(status, status)
