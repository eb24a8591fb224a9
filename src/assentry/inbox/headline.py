"""A question as a person is shown it: in one sentence, with its arguments in the order of the tool's signature.

Pages, API and command line show the same; its hash is recorded with the decision.

A model writes the values of arguments, and sometimes their names. So texts are quoted, and what is left out is said:
no value can look like another argument, or push one out of sight.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from ..approval.tool_snapshot import ToolSnapshot
from ..core.digest import BadJSON, canonical, digest, parse_object
from ..core.number import counted
from ..definitions.preview import split_lines
from ..errors import UnreadableState
from ..store.record import Question
from ..store.store import Store
from .bounds import is_too_long

T = TypeVar("T")

TOLD = 3
"""The arguments in a sentence; the names of some more follow."""
NAMED = 6
LONGEST_VALUE = 40
"""The most characters of a text in a sentence."""
EDITED = "Proposed, then edited: "
"""The words before a proposal's sentence once something else was approved in its place."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}\Z")
_LIKE_TWO = "\u00a8\u02ba\u02dd\u02ee\u02f5\u02f6\u05f4\u201c-\u201f\u2033\u2036\u275d\u275e\u301d-\u301f\uff02"
_LIKE_ONE = "'`\u00b4\u02b9\u02bc\u2018-\u201b\u2032\uff07"
_QUOTES = re.compile(f"[{_LIKE_TWO}]|[{_LIKE_ONE}]{{2,}}")
"""Signs that look like the quotation mark at the end of a text, as in: note "a”, to “b"."""


class ShownQuestion(Question, kw_only=True):
    """A question as it is shown: with the order of its arguments."""

    order: tuple[str, ...] = ()
    """The names of the tool's parameters, in the order of its signature; empty if the definition is not known."""


async def with_order(store: Store, questions: Iterable[Question]) -> list[ShownQuestion]:
    """Return questions with the order of their arguments."""
    found = list(questions)
    marks = {each.definition for each in found if each.definition is not None}
    orders = {mark: order_in(await store.definition(mark)) for mark in marks}
    fields = Question.__struct_fields__
    return [
        ShownQuestion(**{name: getattr(each, name) for name in fields}, order=orders.get(each.definition or "", ()))
        for each in found
    ]


def order_in(definition: bytes | None) -> tuple[str, ...]:
    """Return the order of the parameters in a tool's definition; empty if it is not known."""
    try:
        return tuple(ToolSnapshot.read(definition).parameters) if definition is not None else ()
    except UnreadableState:
        return ()  # `assentry db verify` names it


def order_of(question: Question) -> tuple[str, ...]:
    """Return the order of a question's arguments; empty if it is not known."""
    return question.order if isinstance(question, ShownQuestion) else ()


def in_signature_order(values: Mapping[str, T], order: Collection[str]) -> dict[str, T]:
    """Return values by name with those in `order` first; the others follow as they come."""
    return {**{name: values[name] for name in order if name in values}, **values}


def arguments_in_order(arguments: str, order: Collection[str]) -> str:
    """Return the JSON text of arguments in this order; text that is no JSON object, or too long, as it is."""
    if is_too_long(arguments):
        return arguments
    try:
        values = parse_object(arguments)
    except BadJSON:
        return arguments
    parts = (b"%s:%s" % (canonical(name), canonical(each)) for name, each in in_signature_order(values, order).items())
    return f"{{{b','.join(parts).decode()}}}"


def sentence_of(question: Question) -> str:
    """Return what a question is about, in one sentence; after an edit it says that something else ran."""
    words = _question_in_words(question)
    return f"{EDITED}{words}" if question.verdict == "edit" else words


def _question_in_words(question: Question) -> str:
    if question.kind == "input":
        prompt = question.prompt
        lines = split_lines(prompt.strip()) if isinstance(prompt, str) else []
        return lines[0] if lines else f"{question.tool} asks for input"
    preview = question.preview
    known = preview is not None and bool(preview.sentence)
    if question.kind == "doubt":
        return f"Did this go through? {preview.sentence}" if preview and known else f"Did {question.tool} go through?"
    if preview and known:
        return preview.sentence
    return f"Run {question.tool}{_arguments_in_words(question)}"


def _arguments_in_words(question: Question) -> str:
    """Return the first arguments of a call in words, and the names of the others."""
    if is_too_long(question.arguments):
        return f" with arguments that are {len(question.arguments):,} characters long"
    try:
        values = in_signature_order(parse_object(question.arguments), order_of(question))
    except BadJSON:
        return " with arguments that are not JSON" if question.arguments else ""
    if not values:
        return ""
    named = [(_name(name), each) for name, each in values.items()]
    told = ", ".join(f"{name} {_value(each)}" for name, each in named[:TOLD])
    rest = [name for name, _ in named[TOLD:]]
    more = f"{', '.join(rest[:NAMED])}{', …' if len(rest) > NAMED else ''}"
    return f" with {told} and {len(rest):,} more: {more}" if rest else f" with {told}"


def _name(name: str) -> str:
    return name if _NAME.match(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return counted(len(value), "item")
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if not isinstance(value, str):
        return canonical(value).decode()
    quoted = _QUOTES.sub(_escaped, canonical(value[:LONGEST_VALUE]).decode())
    return quoted if len(value) <= LONGEST_VALUE else f"{quoted}… ({len(value):,} characters)"


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in found[0])


# -- the hash of what is shown ------------------------------------------------------------------------


CHANGED_LATER = ("verdict", "by", "decided", "shown", "evidence")
"""The fields that change after a question was asked."""


def shown_of(question: Question) -> dict[str, Any]:
    """Return a question as JSON, without its end: the same for the API and for the page."""
    whole: dict[str, Any] = msgspec.to_builtins(question)
    return {name: whole[name] for name in Question.__struct_fields__ if name not in CHANGED_LATER}


def shown_hash(question: Question) -> str:
    """Return the hash of what is shown."""
    return digest(shown_of(question))
