"""Questions and journals without the arguments that only a decider may see: for lists, messages and logs.

The arguments that a tool names (`Secret`, `redact=`) are replaced by name. Their texts are also hidden wherever else
they are quoted: in the reason, the prompt, the preview, and the rest of a journal. That is a second line of defence: a
preview that words a secret in another way (its last digits) shows it, since a preview is the tool's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ..approval.question import AS_IT_IS
from ..core.mask import MASK, hidden, hidden_in, masked_object, masked_text, secrets_in
from ..definitions.item import Evidence
from ..definitions.preview import Preview
from ..store.record import Entry, GrantRecord, Question


def masked(question: Question) -> Question:
    """Return a question with its secret arguments masked; the same question if it has none."""
    names = question.redact
    if not names:
        return question
    secrets = secrets_in(question.arguments, names)
    return replace(
        question,
        arguments=masked_text(question.arguments, names) if question.arguments else "",
        reason=_reason(question.reason, secrets),
        prompt=hidden_in(question.prompt, secrets),
        preview=_preview(question.preview, secrets),
        evidence=tuple(Evidence(each.attempt, hidden_in(each.output, secrets), each.at) for each in question.evidence),
    )


def _reason(reason: str, secrets: set[str]) -> str:
    """Return the reason. Of arguments that cannot run nobody knows which part is which, so nothing is quoted."""
    before, problem, _ = reason.partition(AS_IT_IS)
    return hidden(before, secrets) + (f"{problem}{MASK}" if problem else "")


def _preview(preview: Preview | None, secrets: set[str]) -> Preview | None:
    if preview is None or not secrets:
        return preview
    return msgspec.convert(hidden_in(msgspec.to_builtins(preview), secrets), Preview, strict=False)


def masked_grant(grant: GrantRecord, questions: Iterable[Question]) -> GrantRecord:
    """Return a grant with the pinned arguments masked that these questions about its tool name as secret."""
    names = {name for question in questions if question.tool == grant.tool for name in question.redact}
    return replace(grant, pins=masked_object(grant.pins, names)) if grant.pins and names else grant


def masked_journal(entries: Iterable[Entry], questions: Iterable[Question]) -> list[Entry]:
    """Return the journal of a run with the secret arguments masked that its questions name.

    Args:
        entries: The journal.
        questions: All of the run's questions, open and settled, as they are stored.
    """
    tools: dict[str, set[str]] = {}
    calls: dict[str, set[str]] = {}
    secrets: set[str] = set()
    for question in questions:
        if question.redact:
            tools.setdefault(question.tool, set()).update(question.redact)
            calls.setdefault(question.call, set()).update(question.redact)
            secrets |= secrets_in(question.arguments, question.redact)
    if not tools:
        return list(entries)
    facts = [(entry, _fact(entry.fact, tools, calls, secrets)) for entry in entries]
    return [replace(entry, fact=hidden_in(fact, secrets)) for entry, fact in facts]


def _fact(fact: Any, tools: Mapping[str, set[str]], calls: Mapping[str, set[str]], secrets: set[str]) -> Any:
    """Mask the arguments of calls by name, at any depth; add the values of edited ones to `secrets`."""
    if isinstance(fact, list):
        return [_fact(each, tools, calls, secrets) for each in fact]
    if not isinstance(fact, dict):
        return fact
    made = {name: _fact(value, tools, calls, secrets) for name, value in fact.items()}
    names = calls.get(str(fact.get("call")), set()) | tools.get(str(fact.get("name") or fact.get("tool")), set())
    for name in ("args", "fills", "arguments", "pins") if names else ():
        value = fact.get(name)
        if isinstance(value, dict):
            secrets |= secrets_in(msgspec.json.encode(value).decode(), names)
            made[name] = masked_object(value, names)
        elif isinstance(value, str):
            secrets |= secrets_in(value, names)
            made[name] = masked_text(value, names)
    return made
