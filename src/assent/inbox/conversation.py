"""A run in words, from its journal alone: the conversation around a question, and the timeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..core import facts as f
from ..core.codec import replay
from ..core.run import CallState, Run, Turn
from ..core.transcript import content_text, items_in, kept_items, output_text
from ..errors import AssentError
from ..store.record import Entry, Question, Stored
from .headline import in_signature_order

LONGEST = 4000
"""The most characters of one entry; the journal has the rest."""


MOST_FACTS = 20_000
"""The most facts of a run whose conversation and timeline are shown."""


class Line(Struct, frozen=True):
    """One entry of a conversation."""

    who: str
    text: str
    kind: str = "said"
    """"user", "agent", "call" or "said"."""
    tag: str = ""
    cut: int = 0
    """The number of characters that are left out; the run's page has them."""


class Talk(Struct):
    """The conversation up to a question, and the model's words in the turn that asks."""

    lines: list[Line] = []
    says: list[str] = []
    problem: str = ""


def talk_of(stored: Stored, question: Question) -> Talk:
    """Return the conversation around a question; if its run cannot be read, the reason."""
    if stored.record.seq > MOST_FACTS:
        return Talk(problem=f"This run has {stored.record.seq:,} facts, too many to show what was said before.")
    if not stored.facts:
        return Talk(problem="This run was erased." if stored.record.erased is not None else "This run has no journal.")
    try:
        run = replay(stored.facts).at(question.path)
        state = run.calls.get(question.call)
        return _talk(run, state)
    except AssentError as error:
        return Talk(problem=str(error))


def _talk(run: Run, state: CallState | None) -> Talk:
    made = Talk()
    turn = state.turn if state is not None else None
    for entry in run.entries:
        if entry is turn:
            break
        made.lines += _lines(entry)
    if turn is not None:
        made.says = words_of(turn)
        made.lines += [_call(each) for each in turn.calls if each is not state]
    made.lines += [line for said in run.unheard for line in _said(said)]
    return made


def _lines(entry: Any) -> list[Line]:
    if type(entry) is f.Said:
        return _said(entry)
    if type(entry) is Turn:
        return [*(_line("Agent", text, "agent") for text in words_of(entry)), *map(_call, entry.calls)]
    return [Line("Handoff", f"{entry.name or entry.to} took over")] if type(entry) is f.HandedOff else []


def _said(said: f.Said) -> list[Line]:
    named = {"user": "User", "assistant": "Agent", "system": "System", "developer": "Developer"}
    made = []
    for item in kept_items(said):
        role = str(item.get("role") or "")
        text = content_text(item.get("content")) if "content" in item else ""
        who = said.by if role == "user" and said.by != "user" else named.get(role, role or "Given")
        made.append(_line(who, text or msgspec.json.encode(item).decode(), "user" if role == "user" else "said"))
    return made


def words_of(turn: Turn) -> list[str]:
    """Return the texts that the model wrote in a turn, besides its calls."""
    if not isinstance(turn.reply, f.Replied):
        return []
    items = items_in(turn.reply.items)
    texts = [content_text(item.get("content")) for item in items if item.get("type", "message") == "message"]
    return [text for text in texts if text.strip()]


def _line(who: str, text: str, kind: str = "said", tag: str = "") -> Line:
    return Line(who, text[:LONGEST], kind, tag, max(0, len(text) - LONGEST))


def _call(state: CallState) -> Line:
    arguments = bytes(state.args).decode() if state.args else state.proposal.arguments
    told = output_text(state)
    short = arguments if len(arguments) <= 300 else f"{arguments[:300]}… ({len(arguments):,} characters)"
    return _line(state.tool, short if told is None else f"{short} → {told}", "call", _tag(state))


def _allowed(by: str, how: str) -> str:
    """Return who let a call pass."""
    if by == "rule":
        return "allowed by rule"
    return "allowed by a grant" if by.startswith("grant:") else f"{how} by {by}"


def _tag(state: CallState) -> str:
    end = state.outcome
    if type(end) is f.Refused:
        return "rejected" if end.by == "rule" else f"rejected by {end.by}"
    if state.approval is not None:
        return _allowed(state.approval.by, "edited" if state.edited else "approved")
    return "waits too" if end is None else ""


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


Fact = dict[str, Any]
_QUIET = ("defined", "saved", "told", "stepped", "continued", "awaited", "limited")
"""The kinds of facts that only the whole journal shows."""


def timeline(
    entries: list[Entry],
    *,
    everything: bool = False,
    orders: Mapping[Key, Collection[str]] | None = None,
    whole: list[Entry] | None = None,
) -> list[Moment]:
    """Return a run's journal as moments.

    Args:
        entries: The entries to show.
        everything: True to include the book-keeping.
        orders: The order of a call's arguments, where it is known.
        whole: The journal that the entries are a part of: an earlier entry may have the name of a call's tool.
    """
    made = []
    facts = [entry.fact for entry in (entries if whole is None else whole)]
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
            text, detail = f"{text}{runs[key].took}", " · ".join(filter(None, (runs[key].allowed, detail)))
        link = str(fact.get("id", "")) if kind == "asked" else ""
        depth = len(fact.get("path") or ())
        made.append(Moment(entry.seq, entry.at, text, code, _short(detail), tone, link, depth))
    return made


Key = tuple[tuple[str, ...], str]
"""A call: the path of its branch, and its id there."""


def _tools(facts: list[Fact]) -> dict[Key, str]:
    """Return the name of each call's tool."""
    calls = [(_path(fact), call) for fact in facts for call in fact.get("calls") or ()]
    return {(path, str(call[0])): str(call[1]) for path, call in calls if isinstance(call, list) and len(call) > 1}


class Ran(Struct):
    """A call that came to its end by itself, told in one moment."""

    allowed: str = ""
    took: str = ""


def _path(fact: Fact) -> tuple[str, ...]:
    return tuple(fact.get("path") or ())


def _is_told_later(fact: Fact) -> bool:
    """Return True for the steps that lead to a call's end without a person."""
    return fact.get("fact") == "started" or (fact.get("fact") == "approved" and _is_automatic(fact))


def _is_automatic(fact: Fact) -> bool:
    by = str(fact.get("by", ""))
    return by == "rule" or by.startswith("grant:")


def _ran(facts: list[Fact]) -> dict[Key, Ran]:
    """Return the calls that ran once, to their end."""
    began: dict[Key, list[int]] = {}
    allowed: dict[Key, str] = {}
    made: dict[Key, Ran] = {}
    for fact in facts:
        key, kind = (_path(fact), str(fact.get("call"))), fact.get("fact")
        if kind == "started":
            began.setdefault(key, []).append(int(fact.get("at") or 0))
        elif kind == "approved" and _is_automatic(fact):
            allowed[key] = _allowed(str(fact["by"]), "approved")
        elif kind == "finished" and fact.get("by", "tool") == "tool" and len(began.get(key, ())) == 1:
            took = int(fact.get("at") or 0) - began[key][0]
            made[key] = Ran(allowed.get(key, ""), f" in {_seconds(took)}" if fact.get("at") else "")
    return made


def _seconds(milliseconds: int) -> str:
    """Return a span in words: "0.1 s"."""
    if milliseconds < 100:
        return f"{max(1, milliseconds)} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _short(text: str, limit: int = 600) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters; the journal has all of them)"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


Words = tuple[str, str, str, str]
"""Tone, code, text, detail."""


def _other(fact: Fact, tool: str) -> Words:
    rest = {name: each for name, each in fact.items() if name not in ("fact", "at", "path", "call")}
    return "", tool, str(fact.get("fact", "an unknown fact")), _text(rest) if rest else ""


def _began(fact: Fact, tool: str) -> Words:
    by = f" for {fact['by']}" if fact.get("by") else ""
    return "ok", "", f"{fact.get('agent', 'An agent')} began{by}", ""


def _heard(fact: Fact, tool: str) -> Words:
    items = fact.get("items")
    words = items if isinstance(items, str) else " ".join(_message(each) for each in items or ())
    return "ok", "", f"{str(fact.get('by', 'user')).capitalize()} wrote", words


def _message(item: Any) -> str:
    return content_text(item.get("content")) if isinstance(item, dict) else ""


def _replied(fact: Fact, tool: str) -> Words:
    items = [each for each in fact.get("items") or () if isinstance(each, dict)]
    words = " ".join(_message(each) for each in items if each.get("type", "message") == "message")
    calls = [str(call[1]) for call in fact.get("calls") or () if isinstance(call, list) and len(call) > 1]
    text = f"The model proposed {', '.join(calls)}" if calls else "The model answered"
    return "ok", "", text, words


def _asked(fact: Fact, tool: str) -> Words:
    kinds = {"input": "asks for input", "doubt": "is in doubt"}
    text = kinds.get(str(fact.get("kind", "")), "waits for a person")
    return (
        "wait",
        tool,
        text,
        f"{fact.get('why') or 'Every call needs approval.'} · digest {str(fact.get('digest'))[:8]}…",
    )


def _approved(fact: Fact, tool: str) -> Words:
    edited = bool(fact.get("asked") and (fact.get("args") or fact.get("tool")))
    runs = f"{fact.get('tool') or ''} {_text(fact.get('args') or '')}".strip() if edited else ""
    how = "edited and approved" if edited else "approved"
    detail = " · ".join(filter(None, (f"It runs with {runs}" if runs else "", str(fact.get("why") or ""))))
    return "ok", tool, f"was {_allowed(str(fact.get('by', '')), how)}", detail


def _refused(fact: Fact, tool: str) -> Words:
    return "bad", tool, f"was rejected by {fact.get('by')}", str(fact.get("message") or fact.get("why") or "")


def _finished(fact: Fact, tool: str) -> Words:
    by = str(fact.get("by", "tool"))
    if fact.get("error"):
        return "bad", tool, "failed", str(fact["error"])
    return "ok", tool, "ran" if by == "tool" else f"was answered by {by}", _text(fact.get("output"))


_WORDS: dict[str, Callable[[Fact, str], Words]] = {
    "began": _began,
    "said": _heard,
    "replied": _replied,
    "proposed": lambda fact, tool: ("ok", "", "The output was proposed", _text(fact.get("args"))),
    "asked": _asked,
    "approved": _approved,
    "refused": _refused,
    "answered": lambda fact, tool: ("ok", tool, f"was answered by {fact.get('by')}", _text(fact.get("value"))),
    "started": lambda fact, tool: ("", tool, "started", ""),
    "finished": _finished,
    "left": lambda fact, tool: ("bad", tool, "stopped without a result", ""),
    "witnessed": lambda fact, tool: ("bad", tool, "gave a result too late to count", _text(fact.get("output"))),
    "handedoff": lambda fact, tool: ("ok", "", f"{fact.get('name') or fact.get('to')} took over", ""),
    "concluded": lambda fact, tool: ("ok", "", "The run is done", _text(fact["output"]) if "output" in fact else ""),
    "granted": lambda fact, tool: ("ok", str(fact.get("tool")), f"has a grant from {fact.get('by')}", ""),
    "revoked": lambda fact, tool: ("bad", "", f"{fact.get('by')} revoked a grant", ""),
    "cancelled": lambda fact, tool: ("bad", "", f"{fact.get('by')} cancelled the run", str(fact.get("why") or "")),
    "resumed": lambda fact, tool: ("ok", "", f"{fact.get('by')} resumed the run", ""),
    "switched": lambda fact, tool: ("ok", "", "The run went on live" if fact.get("live") else "It went on as text", ""),
    "closed": lambda fact, tool: ("bad", "", "The run ended without an output", str(fact.get("why") or "")),
    "guarded": lambda fact, tool: (
        "bad" if fact.get("tripped") else "ok",
        str(fact.get("name")),
        "stopped it" if fact.get("tripped") else "had no objection",
        str(fact.get("message") or ""),
    ),
}
