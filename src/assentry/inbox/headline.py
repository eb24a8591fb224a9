"""A question as a person is shown it: in one sentence, with its arguments in the order of the tool's signature.

Pages, API and command line show the same; its hash is recorded with the decision.

A model writes the values of arguments, and sometimes their names. So texts are quoted, and what is left out is said:
no value can look like another argument, or push one out of sight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from ..approval.question import AS_IT_IS, IN_DOUBT, SETTLE, every_call
from ..approval.tool_snapshot import ToolSnapshot
from ..core.digest import BadJSON, canonical, digest, parse_object
from ..definitions.preview import split_lines
from ..errors import UnreadableState
from ..store.record import Question
from ..store.store import Store
from .bounds import is_too_long

T = TypeVar("T")
Translate = Callable[..., str]
"""Returns a text of the program in somebody's language, with values in the place of names."""

TOLD = 3
"""The arguments in a sentence; the names of some more follow."""
NAMED = 6
LONGEST_VALUE = 40
"""The most characters of a text in a sentence."""
EDITED = "Proposed, then edited: "
"""The words before a proposal's sentence once something else was approved in its place."""
_DOUBT = re.compile(
    re.escape(IN_DOUBT).replace(r"\{tool\}", "(?P<tool>.+?)").replace(r"\{attempt\}", "(?P<attempt>[0-9]+)")
    + f" (?P<note>.*){re.escape(SETTLE)}",
    re.DOTALL,
)
"""The reason of a question about a call whose outcome nobody knows."""
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


def in_english(text: str, **values: object) -> str:
    """Return a text of the program as it is, with its values: for a terminal, a chat, and whatever is recorded."""
    return text.format(**values)


def sentence_of(question: Question, translate: Translate = in_english) -> str:
    """Return what a question is about, in one sentence; after an edit it says that something else ran.

    A page gives the function that translates its texts. What tools and models wrote is not translated.
    """
    words = _question_in_words(question, translate)
    return translate("Proposed, then edited: {sentence}", sentence=words) if question.verdict == "edit" else words


def reason_of(question: Question, translate: Translate = in_english) -> str:
    """Return why a question is asked, in one or some sentences."""
    return reason_in_words(question.reason, question.tool, question.kind, translate)


def reason_in_words(reason: str, tool: str, kind: str, translate: Translate = in_english) -> str:
    """Return the reason of a question. The sentences of Assentry itself are translated, what others wrote is not."""
    if reason == every_call(tool):
        return translate("Every call of {tool} needs approval.", tool=tool)
    if kind == "input" and reason == f"{tool} asks.":
        return translate("{tool} asks.", tool=tool)
    doubt = _DOUBT.fullmatch(reason) if kind == "doubt" else None
    if doubt is not None and doubt["tool"] == tool:
        said = (
            translate(
                "{tool} was started, as attempt {attempt}, and how it ended is not known.",
                tool=tool,
                attempt=doubt["attempt"],
            ),
            doubt["note"].strip(),
            translate("Respond with its result if it happened, approve to run it (again), reject to give it up."),
        )
        return " ".join(part for part in said if part)
    before, found, problem = reason.partition(AS_IT_IS)
    return before + translate("This call cannot run as it is: {problem}", problem=problem) if found else reason


def _question_in_words(question: Question, translate: Translate) -> str:
    if question.kind == "input":
        prompt = question.prompt
        lines = split_lines(prompt.strip()) if isinstance(prompt, str) else []
        return lines[0] if lines else translate("{tool} asks for input", tool=question.tool)
    preview = question.preview
    known = preview is not None and bool(preview.sentence)
    if question.kind == "doubt":
        if preview and known:
            return translate("Did this go through? {sentence}", sentence=preview.sentence)
        return translate("Did {tool} go through?", tool=question.tool)
    return preview.sentence if preview and known else _call_in_words(question, translate)


def _call_in_words(question: Question, translate: Translate) -> str:
    """Return a call with its first arguments, and the names of the others."""
    tool = question.tool
    if is_too_long(question.arguments):
        count = f"{len(question.arguments):,}"
        return translate("Run {tool} with arguments that are {n} characters long", tool=tool, n=count)
    try:
        values = in_signature_order(parse_object(question.arguments), order_of(question))
    except BadJSON:
        if question.arguments:
            return translate("Run {tool} with arguments that are not JSON", tool=tool)
        values = {}
    if not values:
        return translate("Run {tool}", tool=tool)
    named = [(_name(name, translate), each) for name, each in values.items()]
    told = ", ".join(f"{name} {_value(each, translate)}" for name, each in named[:TOLD])
    rest = [name for name, _ in named[TOLD:]]
    if not rest:
        return translate("Run {tool} with {arguments}", tool=tool, arguments=told)
    names = f"{', '.join(rest[:NAMED])}{', …' if len(rest) > NAMED else ''}"
    return translate(
        "Run {tool} with {arguments} and {n} more: {names}", tool=tool, arguments=told, n=f"{len(rest):,}", names=names
    )


def _name(name: str, translate: Translate) -> str:
    return name if _NAME.match(name) else _value(name, translate)


def _value(value: Any, translate: Translate) -> str:
    if isinstance(value, list):
        return translate("{n} item", n=1) if len(value) == 1 else translate("{n} items", n=f"{len(value):,}")
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if not isinstance(value, str):
        return canonical(value).decode()
    quoted = _QUOTES.sub(_escaped, canonical(value[:LONGEST_VALUE]).decode())
    if len(value) <= LONGEST_VALUE:
        return quoted
    return translate("{start}… ({n} characters)", start=quoted, n=f"{len(value):,}")


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in found[0])


# -- the hash of what is shown ------------------------------------------------------------------------


CHANGED_LATER = ("verdict", "by", "decided", "shown", "looked", "evidence")
"""The fields that change after a question was asked."""


def shown_of(question: Question) -> dict[str, Any]:
    """Return a question as JSON, without its end: the same for the API and for the page."""
    whole: dict[str, Any] = msgspec.to_builtins(question)
    if question.risk is None:
        del whole["risk"]  # the hash of a question that was asked before there were risks stays as it was
    return {name: whole[name] for name in Question.__struct_fields__ if name in whole and name not in CHANGED_LATER}


def shown_hash(question: Question) -> str:
    """Return the hash of what is shown."""
    return digest(shown_of(question))
