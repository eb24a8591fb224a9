"""What the tests of the core share: short ways to write facts, and a run as data that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence
from typing import Any, get_args

import msgspec
from msgspec import Raw

from assentry.core import facts as f
from assentry.core.fold import check, fold
from assentry.core.run import CallState, Run, TranscriptEntry, Turn
from assentry.errors import IllegalFact

FACTS: tuple[type[f.Fact], ...] = get_args(f.AnyFact)
EFFECTS: tuple[type[f.Effect], ...] = get_args(f.AnyEffect)
KINDS: tuple[f.CallKind, ...] = get_args(f.CallKind)

Path = tuple[str, ...]


# -- facts -----------------------------------------------------------------------------------------


def js(value: Any) -> Raw:
    """A value as the JSON that facts hold."""
    return Raw(msgspec.json.encode(value))


def began(**more: Any) -> f.Began:
    return f.Began(**{"agent": "root", "max_turns": 10, "run": "r1"} | more)


def branch(*path: str, **more: Any) -> f.Began:
    """The beginning of the branch under these calls."""
    return f.Began(**{"agent": "child", "max_turns": 10, "path": path} | more)


def said(text: str = "hello", **more: Any) -> f.Said:
    return f.Said(js(text), **more)


def call(id: str, kind: f.CallKind = "tool", item: int = 0) -> f.Call:
    return f.Call(id, {"tool": "send", "agent": "ask_child"}.get(kind, kind), item, kind)


def replied(saw: int | None, *calls: str | f.Call, text: str = "", **more: Any) -> f.Replied:
    """A reply with this text, if any, and calls: `"c1"` is one of a tool, `"c1:agent"` of another kind."""
    items: list[Any] = [{"type": "message", "role": "assistant", "content": text}] if text or not calls else []
    made = []
    for one in calls:
        if isinstance(one, str):
            id, _, kind = one.partition(":")
            one = call(id, kind or "tool")  # type: ignore[arg-type]
        made.append(f.Call(one.id, one.tool, len(items), one.kind))
        items.append({"type": "function_call", "name": one.tool, "arguments": "{}", "call_id": f"call_{one.id}"})
    return f.Replied(js(items), saw, tuple(made), **more)


def proposed(id: str, kind: f.CallKind, args: Any = None, **more: Any) -> f.Proposed:
    return f.Proposed(call(id, kind), js(args), **more)


def asked(call: str, id: str, kind: f.QuestionKind = "approval", **more: Any) -> f.Asked:
    return f.Asked(**{"call": call, "id": id, "why": "risky", "digest": f"digest of {id}", "kind": kind} | more)


def approved(call: str, asked: str | None = None, **more: Any) -> f.Approved:
    return f.Approved(call, "ana" if asked else "rule", asked, **more)


def refused(call: str, asked: str | None = None, **more: Any) -> f.Refused:
    return f.Refused(call, "ana" if asked else "rule", asked, **more)


def finished(call: str, output: Any = "done", **more: Any) -> f.Finished:
    return f.Finished(call, js(output), **more)


def answered(call: str, asked: str, value: Any = "yes", **more: Any) -> f.Answered:
    return f.Answered(call, "ana", asked, js(value), **more)


def under(path: Path, facts: Iterable[Any]) -> list[Any]:
    """The same facts, in the branch at this path."""
    return [msgspec.structs.replace(fact, path=(*path, *fact.path)) for fact in facts]


# -- runs ------------------------------------------------------------------------------------------


def play(*facts: Any) -> Run:
    """The run that this journal folds into."""
    run = Run()
    for fact in facts:
        fold(run, fact)
    return run


def legal(run: Run, fact: Any) -> bool:
    """Whether the fact may follow; `fold` on a copy must agree, and asking must change nothing."""
    before, copy = snapshot(run), run.fork()
    try:
        check(run, fact)
    except IllegalFact:
        verdict = False
    else:
        verdict = True
    try:
        fold(copy, fact)
    except IllegalFact:
        assert not verdict, f"check lets {fact} pass and fold does not"
        assert snapshot(copy) == before, f"{fact} was refused and changed the run"
    else:
        assert verdict, f"fold lets {fact} pass and check does not"
        assert copy.seq == run.seq + 1, f"{fact} was not counted"
    assert snapshot(run) == before, f"checking {fact}, or folding it into a fork, changed the run"
    return verdict


CACHES = {"transcript_cache", "read", "parts", "counted", "used"}


def snapshot(run: Run) -> dict[str, Any]:
    """All a run holds, its branches included, as data of its own that can be compared.

    Facts are frozen and stand for themselves. Only the caches are left out. A call's turn is its position among the
    entries, so that two runs with the same past compare equal; that every way to a call leads to the same one is
    asserted on the way.
    """
    turn_of: dict[int, int] = {}
    for position, entry in enumerate(run.entries):
        if type(entry) is Turn:
            for state in entry.calls:
                assert run.calls[state.call.id] is state
                assert state.turn.reply is entry.reply
                turn_of[id(state)] = position
    assert len(turn_of) == len(run.calls)
    assert all(run.calls[id] is state for id, state in run.open.items())
    return {
        name: _plain_run_field(name, getattr(run, name), turn_of)
        for name in run.__struct_fields__
        if name not in CACHES
    }


def _plain_run_field(name: str, value: Any, turn_of: dict[int, int]) -> Any:
    if name == "entries":
        return [_plain_entry(entry) for entry in value]
    if name == "calls":
        return [(id, _plain_call(state, turn_of)) for id, state in value.items()]
    if name == "open":
        return list(value)
    if isinstance(value, Mapping):
        return list(value.items())
    return list(value) if isinstance(value, MutableSequence) else value


def _plain_entry(entry: TranscriptEntry) -> Any:
    if type(entry) is not Turn:
        return entry
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name not in CACHES}
    return fields | {"calls": [state.call.id for state in entry.calls]}


def _plain_call(state: CallState, turn_of: dict[int, int]) -> dict[str, Any]:
    fields = {name: getattr(state, name) for name in state.__struct_fields__ if name not in CACHES}
    return fields | {"turn": turn_of[id(state)], "child": snapshot(state.child) if state.child else None}


def phase_of(run: Run, call: str, path: Path = ()) -> str:
    return run.at(path).calls[call].phase.name
