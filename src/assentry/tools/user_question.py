"""A model's question to a person: the tool's definition, the form of an answer, and both in words.

The model's words are data here: it names fields of five kinds, and never gives a schema, a pattern or a reference.
How a question is asked belongs elsewhere: on an agent of our own in `tools.ask_user`, for other programs in
`outside.user_question`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from unicodedata import normalize

import msgspec
from msgspec import Struct

from ..core.digest import canonical
from ..errors import InvalidArguments
from ..schema.foreign import ForeignSchema

FieldType = Literal["text", "number", "yes_or_no", "one_of", "several_of"]
NAME = "ask_user"
DESCRIPTION = (
    "Ask a person a question, and wait for the answer, which may take long. Use it when you need a fact, a choice or a "
    "preference that only a person has. Without options and fields the answer is a text. Give options to have one of "
    "them chosen, or fields to ask for several values at once. Do not ask for passwords or other secrets."
)
LONGEST_QUESTION = 500
LONGEST_CONTEXT = 4000
LONGEST_LABEL = 80
LONGEST_OPTION = 120
LONGEST_HINT = 300
LONGEST_ANSWER = 20_000
"""The most characters of a text in an answer."""
MOST_FIELDS = 12
MOST_OPTIONS = 30
_OPTIONS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_OPTION},
    "minItems": 2,
    "maxItems": MOST_OPTIONS,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "question": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_QUESTION,
            "description": "The question, in one sentence.",
        },
        "context": {
            "type": "string",
            "maxLength": LONGEST_CONTEXT,
            "description": "What the person needs to know to answer.",
        },
        "options": {**_OPTIONS, "description": "Answers to choose one of. Leave it out if there are fields."},
        "fields": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_FIELDS,
            "description": "The values to ask for, each under a label of its own.",
            "items": {
                "type": "object",
                "properties": {
                    "label": {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL},
                    "type": {
                        "enum": ["text", "number", "yes_or_no", "one_of", "several_of"],
                        "description": "The kind of value; one_of and several_of need options.",
                    },
                    "options": _OPTIONS,
                    "hint": {
                        "type": "string",
                        "maxLength": LONGEST_HINT,
                        "description": "A remark below the field.",
                    },
                    "optional": {"type": "boolean", "description": "True if the person may leave it out."},
                },
                "required": ["label", "type"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}
"""The JSON schema of the tool's arguments."""
_SCHEMA = ForeignSchema(SCHEMA)


class QuestionField(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value that a model asks a person for."""

    label: str
    type: FieldType
    options: tuple[str, ...] = ()
    hint: str = ""
    optional: bool = False

    @property
    def answer_schema(self) -> dict[str, Any]:
        """The JSON schema of the value."""
        choice: dict[str, Any] = {"type": "string", "enum": list(self.options)}
        several: dict[str, Any] = {"type": "array", "items": choice, "uniqueItems": True, "maxItems": len(self.options)}
        shapes: dict[FieldType, dict[str, Any]] = {
            "text": {"type": "string", "minLength": 0 if self.optional else 1, "maxLength": LONGEST_ANSWER},
            "number": {"type": "number"},
            "yes_or_no": {"type": "boolean"},
            "one_of": choice,
            "several_of": {**several, "minItems": 0 if self.optional else 1},
        }
        shape = shapes[self.type]
        return {**shape, "description": self.hint} if self.hint else shape


class UserQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question of a model to a person, as `read_user_question` makes it."""

    question: str
    context: str = ""
    options: tuple[str, ...] = ()
    fields: tuple[QuestionField, ...] = ()

    @property
    def sentence(self) -> str:
        """The question in one line, which says whose words it is."""
        return f"The agent asks: {self.question}"

    @property
    def prompt(self) -> str:
        """The question and what the model says with it, for the person."""
        return f"{self.sentence}\n\n{self.context}" if self.context else self.sentence

    @property
    def answer_schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        if self.options:
            return {"type": "string", "enum": list(self.options)}
        if not self.fields:
            return {"type": "string", "minLength": 1, "maxLength": LONGEST_ANSWER}
        return {
            "type": "object",
            "properties": {field.label: field.answer_schema for field in self.fields},
            "required": [field.label for field in self.fields if not field.optional],
            "additionalProperties": False,
        }

    def answer_in_words(self, answer: Any) -> str:
        """Return a person's answer in words for the model: a text as it is, values by their labels as JSON."""
        if not self.fields or not isinstance(answer, dict):
            return f"The person answers: {answer if isinstance(answer, str) else canonical(answer).decode()}"
        given = [field.label for field in self.fields if field.label in answer]
        parts = (f"{canonical(label).decode()}: {canonical(answer[label]).decode()}" for label in given)
        return f"The person answers: {{{', '.join(parts)}}}"


def refusal_in_words(message: str | None) -> str:
    """Return words that tell the model that nobody answers its question."""
    words = f" They say: {message}" if message else ""
    return f"The person does not answer this question.{words} Do not ask it again; go on without an answer."


def read_user_question(arguments: Mapping[str, Any]) -> UserQuestion:
    """Return the question that a model's arguments make, or raise `InvalidArguments` with words for the model."""
    given = dict(arguments)
    if problem := _SCHEMA.problem(given):
        raise InvalidArguments(problem)
    read = msgspec.convert(given, UserQuestion)
    if read.options and read.fields:
        raise InvalidArguments("give options or fields, not both")
    fields = tuple(_checked_field(field, n) for n, field in enumerate(read.fields))
    _check_different([field.label for field in fields], "fields: each label")
    return UserQuestion(
        question=_line(read.question, "question"),
        context=_checked_text(read.context, "context").strip(),
        options=_checked_options(read.options, "options"),
        fields=fields,
    )


def _checked_field(field: QuestionField, number: int) -> QuestionField:
    place = f"fields.{number}"
    chosen = field.type in ("one_of", "several_of")
    if chosen != bool(field.options):
        raise InvalidArguments(f"{place}: {field.type} {'needs' if chosen else 'has no'} options")
    return msgspec.structs.replace(
        field,
        label=_line(field.label, f"{place}.label"),
        options=_checked_options(field.options, f"{place}.options"),
        hint=_line(field.hint, f"{place}.hint") if field.hint.strip() else "",
    )


def _checked_options(options: tuple[str, ...], place: str) -> tuple[str, ...]:
    read = tuple(_line(option, f"{place}.{n}") for n, option in enumerate(options))
    _check_different(read, f"{place}: each option")
    return read


def _check_different(texts: tuple[str, ...] | list[str], what: str) -> None:
    """Raise `InvalidArguments` if a person cannot tell two of these texts apart."""
    if len({normalize("NFKC", text).casefold() for text in texts}) < len(texts):
        raise InvalidArguments(f"{what} must differ from the others")


def _line(text: str, place: str) -> str:
    """Return a text as one line of characters that can be seen; raise `InvalidArguments` if it is none."""
    line = " ".join(_checked_text(text, place).split())
    if not line:
        raise InvalidArguments(f"{place}: the text is empty")
    return line


def _checked_text(text: str, place: str) -> str:
    """Return a text; raise `InvalidArguments` if it has characters that nobody sees, such as those that turn it."""
    hidden = next((char for char in text if not char.isprintable() and not char.isspace()), None)
    if hidden is not None:
        raise InvalidArguments(f"{place}: it has a character that cannot be seen, U+{ord(hidden):04X}")
    return text
