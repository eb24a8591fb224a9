"""Questions and journals without the arguments that only a decider may see: for lists, messages and logs.

The arguments that a tool names (`Secret`, `redact=`) are replaced by name. Their texts are also hidden wherever else
they are quoted: in other arguments, the reason, the prompt, the preview, and the rest of a journal. That is a second
line of defence: a preview that words a secret in another way (its last digits) shows it, since a preview is the tool's
own words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ..approval.question import AS_IT_IS
from ..core.digest import BadJSON, canonical, parse_object
from ..core.mask import MASK, mask_secrets, mask_secrets_in, masked_object, masked_text, secrets_in
from ..definitions.item import Evidence
from ..definitions.preview import Preview
from ..store.record import Entry, GrantRecord, Question
from .bounds import is_too_long

MOST_LOOKED_FOR = 200_000_000
"""The most characters that are looked through: the number of secrets, times the length of what may quote them."""

AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def masked(question: AnyQuestion) -> AnyQuestion:
    """Return a question with its secret arguments masked; the same question if it has none.

    If that would take too long, everything that may quote a secret is masked.
    """
    names = question.redact
    if not names:
        return question
    if is_too_long(question.arguments):
        return _masked_whole(question)
    secrets = secrets_in(question.arguments, names)
    quoting = (question.arguments, question.reason, question.prompt, question.preview, question.evidence)
    if _takes_long(secrets, quoting):
        return _masked_whole(question)
    return replace(
        question,
        arguments=_arguments(question.arguments, names, secrets) if question.arguments else "",
        reason=_reason(question.reason, secrets),
        prompt=mask_secrets_in(question.prompt, secrets),
        preview=_preview(question.preview, secrets),
        digest="",  # a short secret could be guessed from a hash of it
        shown=None,
        evidence=tuple(
            Evidence(each.attempt, mask_secrets_in(each.output, secrets), each.at) for each in question.evidence
        ),
    )


def _arguments(text: str, names: Collection[str], secrets: Collection[str]) -> str:
    """Return the text of arguments without the secret ones, and without their texts in the others."""
    try:
        args = parse_object(text)
    except BadJSON:
        return masked_text(text, names)
    return canonical(masked_object(mask_secrets_in(args, secrets), names)).decode()


def _takes_long(secrets: Collection[str], value: Any) -> bool:
    """Return True if these secrets cannot be looked for in a value in a short time."""
    return len(secrets) > 1 and len(secrets) * len(msgspec.json.encode(value)) > MOST_LOOKED_FOR


def _masked_whole(question: AnyQuestion) -> AnyQuestion:
    """Return a question without anything that may quote its arguments."""
    return replace(
        question,
        arguments=msgspec.json.encode(MASK).decode(),
        reason=MASK,
        prompt=None if question.prompt is None else MASK,
        preview=None if question.preview is None else Preview(MASK),
        digest="",
        shown=None,
        evidence=tuple(Evidence(each.attempt, MASK, each.at) for each in question.evidence),
    )


def _reason(reason: str, secrets: set[str]) -> str:
    """Return the reason. Of arguments that cannot run nobody knows which part is which, so nothing is quoted."""
    before, problem, _ = reason.partition(AS_IT_IS)
    return mask_secrets(before, secrets) + (f"{problem}{MASK}" if problem else "")


def _preview(preview: Preview | None, secrets: set[str]) -> Preview | None:
    if preview is None or not secrets:
        return preview
    made = msgspec.to_builtins(preview)
    blocks = [_block(each, secrets) for each in made.pop("blocks", ())]
    return msgspec.convert({**mask_secrets_in(made, secrets), "blocks": blocks}, Preview, strict=False)


def _block(block: dict[str, Any], secrets: set[str]) -> dict[str, Any]:
    """Return a block of a preview; a count of rows has no room for a mask, and is left out."""
    made = {name: value if name in KINDS else mask_secrets_in(value, secrets) for name, value in block.items()}
    return {name: value for name, value in made.items() if name != "rows" or value != MASK}


def masked_grant(grant: GrantRecord, questions: Iterable[Question]) -> GrantRecord:
    """Return a grant without the secret arguments of these questions: named, or quoted in other pinned arguments."""
    barred = [question for question in questions if question.redact]
    names = {name for question in barred if question.tool == grant.tool for name in question.redact}
    secrets = {text for question in barred for text in secrets_in(question.arguments, question.redact)}
    return replace(grant, pins=mask_secrets_in(masked_object(grant.pins, names), secrets)) if grant.pins else grant


KINDS = ("type", "change")
"""The fields of a block that say what it is; no argument is in them."""
# fmt: off
STRUCTURE = frozenset((
    "allowed", "asked", "at", "attempt", "call", "calls", "due", "fact", "fence", "guards", "id", "kind",
    "max_argument_bytes", "max_turns", "max_uses", "number", "path", "proposal", "redact", "release", "replaces",
    "saw", "until", "upto", "usage", "verdict", "voids", "where",
))
# fmt: on
"""The fields of a fact that Assentry itself fills in, and that readers reckon with; no argument is in them."""
Key = tuple[tuple[str, ...], str]
"""A call: the path of its branch, and its id there."""
EVERY: Collection[str] = ("*",)
"""The names of all arguments, for a call of which nobody knows which ones are secret."""
BARE = ("fact", "at", "path", "call", "id", "asked", "by", "erased")
"""The fields of a fact that hold no content."""
EVERYTHING = slice(None)
ARGUMENTS = ("args", "fills", "arguments", "pins", "action", "operation", "input")
"""The fields that hold a call's arguments, in facts and in the items of providers."""


SECRET_KINDS = {"defined": "", "said": '"items":[', "asked": '"redact":'}
"""The facts that say which arguments are secret, or that nobody knows: kinds and texts for `Store.history`."""


def secret_tools(entries: Iterable[Entry], *, trusted: bool) -> set[str] | None:
    """Return the tools of a run that have secret arguments; None if a call has some, or that is not known.

    It is not known if content was erased, if a definition does not say what is secret, or if input brought calls of
    earlier runs along, whose tools are unknown. With `trusted` that does not count.

    Args:
        entries: The facts of the run that are of `SECRET_KINDS`, or all of its facts.
        trusted: True to look only for what is known to be secret.
    """
    found: set[str] = set()
    for fact in (entry.fact for entry in entries):
        kind, names = fact.get("fact"), fact.get("redact")
        unknown = (kind == "defined" and names is None) or (kind == "said" and not isinstance(fact.get("items"), str))
        if (kind == "asked" and names) or (not trusted and (unknown or fact.get("erased"))):
            return None
        if kind == "defined" and isinstance(names, dict):
            found |= {tool for tool, secret in names.items() if secret}
    return found


def masked_journal(
    entries: Iterable[Entry],
    questions: Iterable[Question],
    may_see: Callable[[Question], bool] = lambda question: False,
    *,
    trusted: bool = False,
    shown: slice = EVERYTHING,
) -> list[Entry]:
    """Return the journal of a run with the secret arguments masked; hashes of what is masked are left out.

    If that would take too long, the entries have nothing but their kinds, times and authors.

    Args:
        entries: The journal.
        questions: All of the run's questions, open and settled, as they are stored.
        may_see: Returns True for a question whose arguments are not masked. The secret arguments of a call that
            nobody was asked about are always masked.
        trusted: True to show the arguments of calls of which the journal does not say if they are secret.
        shown: The entries to return. All are read, since a later one may quote an earlier one, but only these are
            looked through for secrets.
    """
    entries, questions = list(entries), list(questions)
    if secret_tools(entries, trusted=trusted) == set() and not any(each.redact for each in questions):
        return entries[shown]
    masks = _Masks(entries, questions, may_see, trusted)
    made = [masks.fact(entry.fact) for entry in entries]
    facts = made[shown]
    if _takes_long(masks.secrets, facts):
        facts = [{name: each for name, each in fact.items() if name in BARE} for fact in facts]
    elif masks.secrets:
        facts = [
            {
                name: value if name in STRUCTURE else mask_secrets_in(value, masks.secrets)
                for name, value in fact.items()
            }
            for fact in facts
        ]
    elif all(entry.fact == fact and not fact.get("erased") for entry, fact in zip(entries, made, strict=True)):
        return entries[shown]
    # Each hash covers the facts before it: a short secret could be guessed from any hash after it.
    return [replace(entry, fact=fact, hash="") for entry, fact in zip(entries[shown], facts, strict=True)]


class _Masks:
    """The secret arguments of a run, for one reader of its journal."""

    def __init__(
        self, entries: list[Entry], questions: list[Question], may_see: Callable[[Question], bool], trusted: bool
    ) -> None:
        self._tools: dict[str, set[str]] = {}
        """The secret parameters by tool."""
        self._calls: dict[Key, str] = {}
        """The tools of the calls."""
        self._open: set[Key] = set()
        """The calls whose arguments are shown."""
        self._trusted, self._says = trusted, True
        self.secrets: set[str] = set()
        """The texts to hide wherever they are quoted."""
        self._asked = {(tuple(each.path), each.call) for each in questions}
        barred = [each for each in questions if not may_see(each)]
        self._open = self._asked - {(tuple(each.path), each.call) for each in barred}
        self._shown = {text for each in questions if each not in barred for text in _secrets(each)}
        for each in questions:
            self._tools.setdefault(each.tool, set()).update(each.redact)
        for each in barred:
            self._found(each.arguments, each.redact)
        for entry in entries:
            self._survey(entry.fact)

    def _survey(self, fact: Any) -> None:
        if fact.get("fact") == "defined":
            told = fact.get("redact")
            self._says = self._says and isinstance(told, dict)
            for tool, names in told.items() if isinstance(told, dict) else ():
                self._tools.setdefault(tool, set()).update(names)
        for call in (*(fact.get("calls") or ()), fact.get("proposal") or ()):
            if len(call) > 1:
                self._calls[_path(fact), str(call[0])] = str(call[1])

    def fact(self, fact: Any) -> Any:
        """Return a fact with the arguments of calls masked."""
        path, call = _path(fact), fact.get("call")
        if call is not None and (path, call) in self._open:
            return fact
        names = self._names(self._calls.get((path, str(call)), ""), (path, str(call))) if call is not None else ()
        made = {name: self._inside(value, fact, path, name) for name, value in fact.items()}
        made |= self._arguments(fact, {*names, *self._own(fact)})
        if names:
            made |= {name: "" for name in ("digest", "shown") if fact.get(name)}
        return made

    def _inside(self, value: Any, fact: Any, path: tuple[str, ...], name: str) -> Any:
        """Return a field of a fact; the items of a reply belong to calls, of which some may be seen."""
        if name != "items" or not isinstance(value, list):
            return self._any(value)
        seen = {call[2] for call in fact.get("calls") or () if len(call) > 2 and (path, str(call[0])) in self._open}
        asked = {call[2] for call in fact.get("calls") or () if len(call) > 2 and (path, str(call[0])) in self._asked}
        return [each if n in seen else self._any(each, known=n in asked) for n, each in enumerate(value)]

    def _any(self, value: Any, known: bool = False) -> Any:
        if isinstance(value, list):
            return [self._any(each, known) for each in value]
        if not isinstance(value, dict):
            return value
        made = {name: self._any(each, known) for name, each in value.items()}
        return made | self._arguments(value, self._own(value, known))

    def _own(self, value: dict[str, Any], known: bool = False) -> Collection[str]:
        """Return the secret arguments of whatever tool a value names itself."""
        tool = value.get("name") or value.get("tool")
        if not isinstance(tool, str) and value.get("type") not in ("shell_call", "apply_patch_call"):
            return ()
        return self._names(str(tool or value["type"]), None, known)

    def _names(self, tool: str, call: Key | None, known: bool = False) -> Collection[str]:
        """Return the secret arguments of a tool; all if nobody knows them and the reader is not trusted."""
        if self._tools.get(tool):
            return self._tools[tool]
        says = self._says and (call is not None or tool in self._calls.values() or tool in self._tools)
        return () if known or says or self._trusted or call in self._asked else EVERY

    def _arguments(self, value: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
        """Return the fields of a value that hold arguments, masked."""
        made: dict[str, Any] = {}
        for field in ARGUMENTS if names else ():
            given = value.get(field)
            if isinstance(given, dict):
                every = given.keys() if "*" in names else names
                self._found(msgspec.json.encode(given).decode(), every)
                made[field] = masked_object(given, every)
            elif isinstance(given, str):
                every = _keys(given) if "*" in names else names
                self._found(given, every)
                made[field] = masked_text(given, every) if every else MASK
        return made

    def _found(self, arguments: str, names: Collection[str]) -> None:
        self.secrets |= secrets_in(arguments, names) - self._shown


def _path(fact: Any) -> tuple[str, ...]:
    return tuple(fact.get("path") or ())


def _keys(arguments: str) -> Collection[str]:
    try:
        return parse_object(arguments).keys()
    except BadJSON:
        return ()


def _secrets(question: Question) -> set[str]:
    return secrets_in(question.arguments, question.redact)
