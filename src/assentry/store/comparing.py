"""Comparison of a run's records with its journal: the records that differ, and their differing fields.

Nothing here reads a store: callers pass in the records and the journal, whose rows they have checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..approval.tool_snapshot import ToolSnapshot
from ..core.digest import canonical
from ..core.rules import VERDICTS
from ..core.run import ENDED, UNDER_WAY
from ..errors import UnreadableState
from .projection import anew, note
from .record import Entry, GrantRecord, Question, RunRecord, SavedContext, Stored

DERIVED = ("agent", "status", "thread", "seq", "began", "changed", "waiting", "started_by", "caller")
"""The fields of a run's own record that follow from the journal, besides `wake`."""
ENDS = ("verdict", "by", "decided", "shown", "looked")
EMPTIED: dict[type[Struct], dict[str, Any]] = {
    Question: {"arguments": "", "reason": "", "prompt": None, "schema": None, "evidence": (), "preview": None},
    GrantRecord: {"message": None, "pins": None},
}
"""The values that erasing puts in place of the content."""

_encode, _decode = msgspec.json.encode, msgspec.json.decode


def unlike(one: Struct, other: Struct | Mapping[str, Any], names: Iterable[str] | None = None) -> list[str]:
    """Return the names of the fields in which a record differs from another record or from a mapping."""
    values = other if isinstance(other, Mapping) else msgspec.structs.asdict(other)
    chosen = values if names is None else names
    return [name for name in chosen if not _same(getattr(one, name), values[name])]


def _same(one: Any, other: Any) -> bool:
    plain = type(one) is type(other) and type(one) in (str, int)
    return one is other or (plain and one == other) or _text(one) == _text(other)


def _text(value: Any) -> bytes | None:
    """Return a value as canonical JSON; None if no column can hold the value."""
    if type(value) is str:
        value = value.replace("\0", "\ufffd")  # Postgres cannot hold the character 0; the store writes this instead
    try:
        return canonical(_decode(_encode(value)))
    except (TypeError, ValueError, RecursionError, msgspec.DecodeError):
        return None


def check_it_was_asked(shown: Question, asked: Question) -> None:
    """Raise `UnreadableState` if the question that was shown differs from the journal's.

    The shown question may be older: since then late results may have arrived, and the question may have ended.
    """
    names = [name for name in Question.__struct_fields__ if name not in (*ENDS, "evidence")]
    differs = unlike(shown, asked, names)
    if not _same(shown.evidence, asked.evidence[: len(shown.evidence)]):
        differs.append("evidence")
    if shown.verdict is not None and asked.verdict is None:
        differs.append("verdict")
    if differs:
        raise UnreadableState(
            f"What is shown of question {shown.id!r} is not what is asked: {_list(differs)}. Nothing was recorded. "
            "`assentry db rebuild` makes what is shown anew from the journal; then look at it again."
        )


def kept_tool(fingerprint: str, text: bytes) -> ToolSnapshot:
    """Read a stored tool; raise `UnreadableState` unless the tool's fingerprint begins with this one."""
    tool = ToolSnapshot.read(text)
    if not tool.fingerprint.startswith(fingerprint):
        raise UnreadableState(f"The definition of tool {tool.name!r} that is kept as {fingerprint} has changed.")
    return tool


def records_of(run_id: str, stored: Stored, at: int) -> tuple[RunRecord, dict[str, Question], dict[str, GrantRecord]]:
    """Rebuild the records of a run from its facts; `at` is the time of the last fact."""
    change = anew(run_id, stored.facts, at)
    questions = {question.id: question for question in change.asked}
    grants = {(run_id, grant.id): grant for grant in change.granted}
    note(questions, grants, change)
    return change.record, questions, {id: grant for (_, id), grant in grants.items()}


def differences(stored: Stored, lines: list[Entry], questions: list[Question], grants: list[GrantRecord]) -> list[str]:
    """Return one sentence for each difference between a run's journal and its records."""
    run = stored.record.id
    if stored.record.erased is not None:
        return _erased(stored, lines, questions, grants)
    try:
        record, asked, granted = records_of(run, stored, lines[-1].at)
    except UnreadableState as error:
        return [str(error)]
    own = unlike(stored.record, record, DERIVED) + ([] if _wakes(stored.record, record) else ["wake"])
    said = [f"The record of run {run!r} differs from its journal: {_list(own)}."] if own else []
    of = f"of run {run!r}"
    return [*said, *_compared("Question", of, questions, asked), *_compared("Grant", of, grants, granted)]


def _wakes(record: RunRecord, derived: RunRecord) -> bool:
    """Return True if `wake` is plausible. A worker that releases a run may set another time, or none."""
    if derived.status not in UNDER_WAY:
        return record.wake is None
    return derived.wake is None or record.wake is not None or record.failures > 0


def _compared(
    what: str, of: str, found: Iterable[Question | GrantRecord], expected: Mapping[str, Struct | dict[str, Any]]
) -> list[str]:
    said, left = [], dict(expected)
    for each in found:
        known = left.pop(each.id, None)
        differs = ["it is in no fact"] if known is None else unlike(each, known)
        if differs:
            said.append(f"{what} {each.id!r} {of} differs from the journal: {_list(differs)}.")
    return [*said, *(f"{what} {id!r} {of} is in the journal, and has no record." for id in left)]


# -- erased runs -------------------------------------------------------------------------------------


def _erased(stored: Stored, lines: list[Entry], questions: list[Question], grants: list[GrantRecord]) -> list[str]:
    try:
        return [*_erased_record(stored, lines), *_erased_parts(stored.record.id, lines, questions, grants)]
    except (AttributeError, KeyError, TypeError):  # a row that erasing cannot have left
        return [f"What is left of erased run {stored.record.id!r} cannot be read."]


def _erased_record(stored: Stored, lines: list[Entry]) -> list[str]:
    """Compare an erased run's own record with the rest of its journal."""
    record, first = stored.record, lines[0].fact
    known = {"agent": first.get("agent"), "began": first.get("at", 0), "changed": lines[-1].at, "waiting": 0}
    differs = unlike(record, known | {"seq": len(lines), "wake": None})
    closed = any(line.fact.get("fact") == "closed" and not line.fact.get("path") for line in lines)
    if record.status not in ENDED or (record.status == "closed") != closed:
        differs.append("status")
    if stored.context != SavedContext():
        differs.append("context")
    said = [f"The record of erased run {record.id!r} differs from its journal: {_list(differs)}."] if differs else []
    kept = [line.seq for line in lines if line.fact.get("erased") is not True]
    return said + [f"Fact {seq} of erased run {record.id!r} is not erased." for seq in kept]


def _erased_parts(run: str, lines: list[Entry], questions: list[Question], grants: list[GrantRecord]) -> list[str]:
    """Compare an erased run's questions and grants with the rest of its journal."""
    facts = [line.fact for line in lines]
    began = facts[0].get("at", 0)
    asked = {fact["id"]: _left_of_question(facts, fact, began) for fact in facts if fact["fact"] == "asked"}
    granted = {fact["id"]: _left_of_grant(facts, fact, began) for fact in facts if fact["fact"] == "granted"}
    for question in questions:
        known = asked.get(question.id, {})
        if known.get("verdict") == "approve" and question.verdict == "edit":
            known["verdict"] = "edit"  # the arguments are erased, so an edit cannot be told from an approval
    of = f"of erased run {run!r}"
    return [*_compared("Question", of, questions, asked), *_compared("Grant", of, grants, granted)]


def _left_of_question(facts: list[dict[str, Any]], asked: dict[str, Any], began: int) -> dict[str, Any]:
    """Return the fields of a question that the journal still has after erasing, such as its decider."""
    known: dict[str, Any] = {"call": asked["call"], "digest": asked["digest"], "kind": asked.get("kind", "approval")}
    known |= {"path": asked.get("path", []), "at": began + asked.get("at", 0)} | EMPTIED[Question]
    if "replaces" in asked:
        known["replaces"] = asked["replaces"]
    for fact in facts:
        if fact.get("asked") == asked["id"]:
            known |= {"verdict": _VERDICTS[fact["fact"]], "by": fact["by"], "decided": began + fact.get("at", 0)}
            known |= {"shown": fact.get("shown"), "looked": fact.get("looked")}
        elif fact["fact"] == "asked" and fact.get("replaces") == asked["id"] and "by" not in known:
            known |= {"verdict": "replaced", "by": "runtime", "decided": began + fact.get("at", 0)}
    return known


def _left_of_grant(facts: list[dict[str, Any]], granted: dict[str, Any], began: int) -> dict[str, Any]:
    known: dict[str, Any] = {name: granted.get(name) for name in ("agent", "tool", "verdict", "by")}
    known |= {"at": began + granted.get("at", 0), "revoked": None, "revoked_by": None} | EMPTIED[GrantRecord]
    known["used"] = sum(fact.get("by") == f"grant:{granted['id']}" for fact in facts)
    for fact in facts:
        if fact["fact"] == "revoked" and fact.get("grant") == granted["id"]:
            known |= {"revoked": began + fact.get("at", 0), "revoked_by": fact["by"]}
    return known


_VERDICTS = {kind.__struct_config__.tag: verdict for kind, verdict in VERDICTS.items()}


def _list(names: list[str]) -> str:
    return ", ".join(names)
