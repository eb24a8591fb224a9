"""A run in words, from its journal alone: the conversation around a question, and the timeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..approval.foreign_call import OUTSIDE
from ..core.facts import COPIED_REPLY, GIVEN_REPLY, OUTSIDE_REPLY
from ..core.transcript import NOTE, content_text, is_given
from ..store.calls import FAILURE
from ..store.record import Entry, Question, RunRecord
from .headline import in_signature_order, reason_in_words
from .language import local_number, translate
from .permissions import JournalView

LONGEST_LINE = 4000
"""The most characters of one entry; the journal has the rest."""


BEFORE, AFTER = 80, 20
"""The facts before a question's turn, and from there on, that are read for the question's page."""
MOST_EXCERPT_LINES = 30
"""The most entries of the conversation on the question's page."""
MOST_FACTS = 20_000
"""The most facts of a run whose conversation and timeline are shown."""
PROPOSING = ("replied", "proposed")
"""The kinds of facts that propose calls."""
FactJSON = dict[str, Any]
CallKey = tuple[tuple[str, ...], str]
"""A call: the path of its branch, and its id there."""


class ExcerptLine(Struct, frozen=True):
    """One entry of a conversation."""

    who: str
    text: str
    kind: str = "said"
    """"user", "agent", "call" or "said"."""
    tag: str = ""
    cut: int = 0
    """The number of characters that are left out; the run's page has them."""


class Excerpt(Struct):
    """The conversation before a question, and the model's words in the turn that asks."""

    lines: list[ExcerptLine] = []
    says: list[str] = []
    problem: str = ""
    """The reason why the conversation is not here."""
    is_cut: bool = False
    """True if there is more at the beginning."""


async def entries_around(view: JournalView, record: RunRecord, question: Question) -> list[Entry]:
    """Return the part of a run's journal that a question's page shows: up to the reply that asks, and a little more.

    The newest facts are read first, since most questions that are looked at are new.
    """
    start = max(0, record.seq - BEFORE - AFTER)
    found = await view.part(start, BEFORE + AFTER)
    if start and not any(_proposes(entry.fact, question) for entry in found):
        numbers = await view.find(f'"{question.call}"', *PROPOSING)
        start = max(0, min(numbers, default=0) - BEFORE)
        found = await view.part(start, BEFORE + AFTER)
    return found


def excerpt_of(entries: list[Entry], question: Question) -> Excerpt:
    """Return the conversation around a question, from the part of the journal around it."""
    made = Excerpt(is_cut=bool(entries) and entries[0].seq > 1)
    facts = [entry.fact for entry in entries if _path(entry.fact) == question.path]
    calls = _calls(facts)
    was_asked = False
    for fact in facts:
        kind = fact.get("fact")
        if _proposes(fact, question):
            was_asked = True
            made.says = _words(fact)
            made.lines += [_call(calls[id]) for id in _proposed(fact) if id != question.call]
        elif was_asked and kind == "replied":
            break
        elif kind == "said":
            made.lines += _said(fact)
        elif kind in PROPOSING:
            made.lines += [_line(translate("Agent"), text, "agent") for text in _words(fact)]
            made.lines += [_call(calls[id]) for id in _proposed(fact)]
        elif kind == "handedoff":
            taken = translate("{agent} took over", agent=fact.get("name") or fact.get("to"))
            made.lines.append(ExcerptLine(translate("Handoff"), taken))
    made.is_cut = made.is_cut or len(made.lines) > MOST_EXCERPT_LINES
    made.lines = made.lines[-MOST_EXCERPT_LINES:]
    return made


class CallSoFar(Struct):
    """A call as the last fact about it left it."""

    tool: str
    arguments: str
    tag: str | None = None
    """The outcome of the call; None while it waits."""
    told: str | None = None
    """The text that the model gets of the call's end."""
    in_doubt: bool = False


def _proposed(fact: FactJSON) -> dict[str, tuple[str, int]]:
    """Return the calls that a fact proposes, by id: the tool, and the place of the call's item."""
    if fact.get("fact") not in PROPOSING:
        return {}
    given = [*(fact.get("calls") or ()), fact.get("proposal")]
    calls = [each for each in given if isinstance(each, list) and len(each) > 1]
    return {str(each[0]): (str(each[1]), each[2] if len(each) > 2 else 0) for each in calls}


def _proposes(fact: FactJSON, question: Question) -> bool:
    return fact.get("fact") in PROPOSING and _path(fact) == question.path and question.call in _proposed(fact)


def _calls(facts: list[FactJSON]) -> dict[str, CallSoFar]:
    made: dict[str, CallSoFar] = {}
    for fact in facts:
        items = fact.get("items")
        for id, (tool, place) in _proposed(fact).items():
            item = items[place] if isinstance(items, list) and place < len(items) else fact.get("args")
            made[id] = CallSoFar(tool, _arguments(item))
        if (call := made.get(str(fact.get("call")))) is not None:
            _note(call, fact)
    return made


def _arguments(item: Any) -> str:
    """Return the arguments in a call's item."""
    given = item
    if isinstance(item, dict) and "type" in item:
        given = next((item[name] for name in ("arguments", "action", "operation") if name in item), "")
    return "" if given is None else _text(given)


def _note(call: CallSoFar, fact: FactJSON) -> None:
    """Change a call as a fact says."""
    kind, by = fact.get("fact"), str(fact.get("by", ""))
    if kind == "asked":
        call.in_doubt = fact.get("kind") == "doubt"
    if kind in ("asked", "approved") and "args" in fact:
        call.arguments = _text(fact["args"])
    if kind == "approved" and not call.in_doubt:
        call.tool = str(fact.get("tool") or call.tool)
        call.tag = _allowed(by, edited=_is_edit(fact))
    elif kind == "refused":
        call.tag = translate("rejected") if by == "rule" else translate("rejected by {who}", who=by)
        call.told = fact.get("message")
    elif kind == "told":
        call.told = str(fact.get("text") or call.told or "")
    elif kind in ("finished", "handedoff", "concluded"):
        call.tag = call.tag or ""
        call.told = _text(fact["output"]) if "output" in fact else str(fact.get("name") or fact.get("to") or "")


def _is_edit(fact: FactJSON) -> bool:
    return bool(fact.get("asked") and ("args" in fact or fact.get("tool")))


def _said(fact: FactJSON) -> list[ExcerptLine]:
    items, by = fact.get("items"), str(fact.get("by", "user"))
    named = {
        "user": translate("User"),
        "assistant": translate("Agent"),
        "system": translate("System"),
        "developer": translate("Developer"),
    }
    made = []
    for item in items if isinstance(items, list) else [{"role": by, "content": items}]:
        role = str(item.get("role") or "") if isinstance(item, dict) else ""
        who = by if role == "user" and by != "user" else named.get(role, role or translate("Given"))
        given = {name: each for name, each in item.items() if name != NOTE} if isinstance(item, dict) else item
        made.append(_line(who, _message(item) or _text(given), "user" if role == "user" else "said"))
    return made


def _words(fact: FactJSON) -> list[str]:
    """Return the texts that the model wrote in a reply, besides its calls."""
    items = fact.get("items")
    messages = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    texts = [_message(each) for each in messages if each.get("type", "message") == "message"]
    return [text for text in texts if text.strip()]


def _line(who: str, text: str, kind: str = "said", tag: str = "") -> ExcerptLine:
    return ExcerptLine(who, text[:LONGEST_LINE], kind, tag, max(0, len(text) - LONGEST_LINE))


def _call(call: CallSoFar) -> ExcerptLine:
    given = call.arguments
    short = given
    if len(given) > 300:
        short = translate("{start}… ({n} characters)", start=given[:300], n=local_number(len(given)))
    return _line(
        call.tool,
        short if call.told is None else f"{short} → {call.told}",
        "call",
        translate("waits too") if call.tag is None else call.tag,
    )


def _allowed(by: str, *, edited: bool) -> str:
    """Return who let a call pass."""
    if by == "rule":
        return translate("allowed by rule")
    if by.startswith("grant:"):
        return translate("allowed by a grant")
    return translate("edited by {who}", who=by) if edited else translate("approved by {who}", who=by)


# -- the timeline -------------------------------------------------------------------------------


class Moment(Struct, frozen=True):
    """One entry of a timeline."""

    seq: int
    at: int
    text: str
    code: str = ""
    """A name that stands before the text, such as the tool's."""
    detail: str = ""
    tone: str = ""
    """"ok", "wait", "bad" or empty."""
    link: str = ""
    """The id of a question to open."""
    depth: int = 0


_QUIET = ("defined", "saved", "told", "stepped", "continued", "awaited", "limited")
"""The kinds of facts that only the whole journal shows."""


def timeline(
    entries: list[Entry],
    *,
    everything: bool = False,
    before: Iterable[Entry] = (),
    orders: Mapping[CallKey, Collection[str]] | None = None,
) -> list[Moment]:
    """Return a run's journal as moments.

    Args:
        entries: The entries to show.
        everything: True to include the book-keeping.
        before: Earlier entries that say what the calls in `entries` are.
        orders: The order of a call's arguments, where it is known.
    """
    made = []
    facts = [entry.fact for entry in (*before, *entries)]
    tools = _tools(facts)
    runs = {} if everything else _ran(facts)
    for entry in entries:
        fact = entry.fact
        kind = str(fact.get("fact", ""))
        key = _path(fact), str(fact.get("call"))
        if (kind in _QUIET and not everything) or (key in runs and _is_told_later(fact)):
            continue
        tool = tools.get(key, "")
        if isinstance(fact.get("args"), dict) and orders is not None:
            fact = {**fact, "args": in_signature_order(fact["args"], orders.get(key, ()))}
        tone, code, text, detail = _WORDS.get(kind, _other)(fact, tool)
        if kind == "finished" and key in runs:
            took = runs[key].took
            text = translate("ran in {time}", time=took) if took and not fact.get("error") else text
            detail = " · ".join(filter(None, (runs[key].allowed, detail)))
        link = str(fact.get("id", "")) if kind == "asked" else ""
        depth = len(fact.get("path") or ())
        made.append(Moment(entry.seq, entry.at, text, code, _short(detail), tone, link, depth))
    return made


def unknown_calls(entries: Iterable[Entry], before: Iterable[Entry]) -> set[str]:
    """Return the ids of the calls in these entries that neither they nor those before them propose."""
    facts = [entry.fact for entry in (*before, *entries)]
    known = {id for fact in facts for id in _proposed(fact)}
    return {str(entry.fact["call"]) for entry in entries if entry.fact.get("call")} - known


def definitions_of(entries: Iterable[Entry]) -> dict[CallKey, str]:
    """Return the fingerprints of the tools of those calls in these entries of which there are other arguments."""
    facts = [entry.fact for entry in entries]
    changed = {(_path(fact), str(fact.get("call"))) for fact in facts if isinstance(fact.get("args"), dict)}
    calls = [(_path(fact), call) for fact in facts for call in fact.get("calls") or ()]
    return {
        (path, call[0]): call[4] for path, call in calls if len(call) > 4 and call[4] and (path, call[0]) in changed
    }


def _tools(facts: list[FactJSON]) -> dict[CallKey, str]:
    """Return the name of each call's tool."""
    return {(_path(fact), id): tool for fact in facts for id, (tool, _) in _proposed(fact).items()}


class FinishedCall(Struct):
    """A call that came to its end by itself, told in one moment."""

    allowed: str = ""
    took: str = ""
    """The time that it took; empty if it is not known."""


def _path(fact: FactJSON) -> tuple[str, ...]:
    return tuple(fact.get("path") or ())


def _is_told_later(fact: FactJSON) -> bool:
    """Return True for the steps that lead to a call's end without a person."""
    return fact.get("fact") == "started" or (fact.get("fact") == "approved" and _is_automatic(fact))


def _is_automatic(fact: FactJSON) -> bool:
    by = str(fact.get("by", ""))
    return by == "rule" or by.startswith("grant:")


def _ran(facts: list[FactJSON]) -> dict[CallKey, FinishedCall]:
    """Return the calls that ran once, to their end."""
    began: dict[CallKey, list[int]] = {}
    allowed: dict[CallKey, str] = {}
    made: dict[CallKey, FinishedCall] = {}
    for fact in facts:
        key, kind = (_path(fact), str(fact.get("call"))), fact.get("fact")
        if kind == "started":
            began.setdefault(key, []).append(int(fact.get("at") or 0))
        elif kind == "approved" and _is_automatic(fact):
            allowed[key] = _allowed(str(fact["by"]), edited=False)
        elif kind == "finished" and fact.get("by", "tool") == "tool" and len(began.get(key, ())) == 1:
            took = int(fact.get("at") or 0) - began[key][0]
            made[key] = FinishedCall(allowed.get(key, ""), _seconds(took) if fact.get("at") else "")
    return made


def _seconds(milliseconds: int) -> str:
    """Return a span in words: "0.1 s"."""
    if milliseconds < 100:
        return f"{max(1, milliseconds)} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _short(text: str, limit: int = 600) -> str:
    if len(text) <= limit:
        return text
    return translate(
        "{start}… ({n} characters; the journal has all of them)", start=text[:limit], n=local_number(len(text))
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


Words = tuple[str, str, str, str]
"""Tone, code, text, detail."""


def _other(fact: FactJSON, tool: str) -> Words:
    rest = {name: each for name, each in fact.items() if name not in ("fact", "at", "path", "call")}
    return "", tool, str(fact.get("fact", "an unknown fact")), _text(rest) if rest else ""


def _began(fact: FactJSON, tool: str) -> Words:
    agent = fact.get("agent") or translate("An agent")
    began = translate("{agent} began", agent=agent)
    if fact.get("by") and fact["by"] != agent:
        began = translate("{agent} began for {who}", agent=agent, who=fact["by"])
    if fact.get("forked"):
        began = translate("{agent} began, forked from {run}", agent=agent, run=fact["forked"])
    return "ok", "", began, ""


def _heard(fact: FactJSON, tool: str) -> Words:
    items = fact.get("items")
    words = items if isinstance(items, str) else " ".join(_message(each) for each in items or ())
    brought = isinstance(items, list) and any(isinstance(each, dict) and not is_given(each) for each in items)
    by = str(fact.get("by", "user"))
    who = translate("User") if by == "user" else by.capitalize()
    if brought:
        return "ok", "", translate("{who} brought an earlier conversation", who=who), words
    if by == OUTSIDE:
        return "bad", "", translate("A report was refused"), words
    return "ok", "", translate("{who} wrote", who=who), words


def _message(item: Any) -> str:
    return content_text(item.get("content")) if isinstance(item, dict) else ""


def _replied(fact: FactJSON, tool: str) -> Words:
    calls = ", ".join(tool for tool, _ in _proposed(fact).values())
    note = str(fact.get("note"))
    if note == COPIED_REPLY:
        text = translate("The fork proposed {calls}", calls=calls) if calls else translate("The fork answered")
    elif note in (GIVEN_REPLY, OUTSIDE_REPLY):
        text = translate("The program proposed {calls}", calls=calls) if calls else translate("The program answered")
    else:
        text = translate("The model proposed {calls}", calls=calls) if calls else translate("The model answered")
    return "ok", "", text, " ".join(_words(fact))


def _asked(fact: FactJSON, tool: str) -> Words:
    kinds = {"input": translate("asks for input"), "doubt": translate("is in doubt")}
    text = kinds.get(str(fact.get("kind", "")), translate("waits for a person"))
    given = reason_in_words(str(fact.get("why") or ""), tool, str(fact.get("kind", "")), translate)
    why = given or translate("Every call needs approval.")
    return "wait", tool, text, f"{why} · {translate('digest {digest}', digest=str(fact.get('digest'))[:8] + '…')}"


def _terms(fact: FactJSON) -> str:
    """Return the terms of the standing grant that decided, if one did."""
    terms, grant = fact.get("terms"), str(fact.get("by", ""))[6:]
    return "" if terms is None else translate("grant {id} over all runs: {terms}", id=grant, terms=_text(terms))


def _approved(fact: FactJSON, tool: str) -> Words:
    edited, by = _is_edit(fact), str(fact.get("by", ""))
    what = f"{fact.get('tool') or ''} {_text(fact.get('args') or '')}".strip() if edited else ""
    if by == "rule":
        text = translate("was allowed by rule")
    elif by.startswith("grant:"):
        text = translate("was allowed by a grant")
    elif edited:
        text = translate("was edited and approved by {who}", who=by)
    else:
        text = translate("was approved by {who}", who=by)
    runs = translate("It runs with {what}", what=what) if what else ""
    return "ok", tool, text, " · ".join(filter(None, (runs, str(fact.get("why") or ""), _terms(fact))))


def _refused(fact: FactJSON, tool: str) -> Words:
    why = str(fact.get("message") or fact.get("why") or "")
    detail = " · ".join(filter(None, (why, _terms(fact))))
    return "bad", tool, translate("was rejected by {who}", who=fact.get("by")), detail


def _finished(fact: FactJSON, tool: str) -> Words:
    by = str(fact.get("by", "tool"))
    if fact.get("error"):
        told = _text(fact.get("output")) if fact["error"] == FAILURE else str(fact["error"])
        return "bad", tool, translate("failed"), told
    text = translate("ran") if by == "tool" else translate("was answered by {who}", who=by)
    return "ok", tool, text, _text(fact.get("output"))


def _guarded(fact: FactJSON, tool: str) -> Words:
    tripped = bool(fact.get("tripped"))
    text = translate("stopped it") if tripped else translate("had no objection")
    return "bad" if tripped else "ok", str(fact.get("name")), text, str(fact.get("message") or "")


_WORDS: dict[str, Callable[[FactJSON, str], Words]] = {
    "began": _began,
    "said": _heard,
    "replied": _replied,
    "proposed": lambda fact, tool: ("ok", "", translate("The output was proposed"), _text(fact.get("args"))),
    "asked": _asked,
    "approved": _approved,
    "refused": _refused,
    "answered": lambda fact, tool: (
        "ok",
        tool,
        translate("was answered by {who}", who=fact.get("by")),
        _text(fact.get("value")),
    ),
    "started": lambda fact, tool: ("", tool, translate("started"), ""),
    "finished": _finished,
    "left": lambda fact, tool: ("bad", tool, translate("stopped without a result"), ""),
    "witnessed": lambda fact, tool: (
        "bad",
        tool,
        translate("gave a result too late to count"),
        _text(fact.get("output")),
    ),
    "handedoff": lambda fact, tool: (
        "ok",
        "",
        translate("{agent} took over", agent=fact.get("name") or fact.get("to")),
        "",
    ),
    "concluded": lambda fact, tool: (
        "ok",
        "",
        translate("The run is done"),
        _text(fact["output"]) if "output" in fact else "",
    ),
    "granted": lambda fact, tool: (
        "ok",
        str(fact.get("tool")),
        translate("has a grant from {who}", who=fact.get("by")),
        "",
    ),
    "revoked": lambda fact, tool: ("bad", "", translate("{who} revoked a grant", who=fact.get("by")), ""),
    "cancelled": lambda fact, tool: (
        "bad",
        "",
        translate("{who} cancelled the run", who=fact.get("by")),
        str(fact.get("why") or ""),
    ),
    "resumed": lambda fact, tool: ("ok", "", translate("{who} resumed the run", who=fact.get("by")), ""),
    "switched": lambda fact, tool: (
        "ok",
        "",
        translate("The run went on live") if fact.get("live") else translate("It went on as text"),
        "",
    ),
    "closed": lambda fact, tool: ("bad", "", translate("The run ended without an output"), str(fact.get("why") or "")),
    "guarded": _guarded,
}
