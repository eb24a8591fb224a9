"""Answers to the questions of tool bodies: the schema of an answer, and the check against the schema.

An answer is checked against the schema when it is given, and against the type when the body gets it. The journal keeps
the answer as it was given. All three agree, because answers are read as strictly as a tool's arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw
from pydantic import TypeAdapter

from ..core.digest import canonical, plain
from ..core.facts import NOTHING
from ..core.wording import described, shortened, worded
from ..errors import InvalidArguments, InvalidDecision, UsageError

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from pydantic.json_schema import GenerateJsonSchema


def answer_schema(schema: Any, generator: type[GenerateJsonSchema] | None = None) -> Raw:
    """Return the JSON schema of an answer, from a JSON schema or a type; `NOTHING` if any answer fits."""
    if schema is None:
        return NOTHING
    try:
        if not isinstance(schema, dict):
            from ..schema.schema import Exact  # slow to import

            return Raw(canonical(plain(TypeAdapter(schema).json_schema(schema_generator=generator or Exact))))
        from jsonschema import Draft202012Validator

        Draft202012Validator.check_schema(schema)
        return Raw(canonical(plain(schema)))
    except Exception as error:
        raise UsageError(
            f"{described(schema)} is not a type or a JSON schema that an answer can be checked by: {worded(error)}"
        ) from None


def earlier_answer_schema(schema: Any) -> Raw:
    """Return the schema of an answer as older questions have it, from before answers were read strictly."""
    from pydantic.json_schema import GenerateJsonSchema

    return answer_schema(schema, GenerateJsonSchema)


def typed_answer(schema: Any, value: Any) -> Any:
    """Return a recorded answer as the body asked for it: an instance if `schema` is a type, else the JSON value."""
    if schema is None or isinstance(schema, dict):
        return value
    from ..schema.binding import Binding
    from ..schema.schema import Exact

    adapter: TypeAdapter[Any] = TypeAdapter(schema)
    binding = Binding.of(adapter.json_schema(schema_generator=Exact), adapter.core_schema, adapter.validate_json)
    try:
        return binding.read(value, "answer")
    except InvalidArguments as error:
        raise InvalidDecision(f"The answer that was given does not fit {described(schema)}: {error}.") from error


def problem_with(value: Any, schema: Raw) -> str | None:
    """Return a text that says why an answer does not fit the schema; None if the answer fits."""
    from jsonschema import Draft202012Validator

    shape = msgspec.json.decode(schema)
    return misfit(value, shape) or over_limit(value, shape, Draft202012Validator.FORMAT_CHECKER)


def misfit(value: Any, schema: Any) -> str | None:
    """Return a text that says why the form of a value does not fit the schema; None if the form fits."""
    from ..schema.form import form_of, join_problems

    if not isinstance(schema, dict):
        return None  # a schema that is True or False has no form
    try:
        return join_problems(form_of(schema).problems(value, "")).removeprefix('"": ') or None
    except (AttributeError, KeyError, TypeError, RecursionError) as failure:  # the schema is damaged
        return f"the schema cannot be used ({worded(failure)})"


def over_limit(value: Any, schema: Any, formats: FormatChecker | None = None) -> str | None:
    """Return a text that says which limit of the schema a value of the right form breaks; None if it breaks none."""
    from jsonschema import Draft202012Validator
    from referencing import Registry

    from ..schema.bounded import best_error, bounded_validator

    # With an empty registry, a schema can refer to itself but never makes us fetch anything.
    try:
        kind = bounded_validator(Draft202012Validator)
        error = best_error(kind(schema, registry=Registry(), format_checker=formats), value)
    except Exception as failure:  # a broken reference, an invalid pattern
        return f"the question's schema cannot be used ({worded(failure)})"
    if error is None:
        return None
    where = "/".join(map(str, error.absolute_path))
    words = shortened(error.message, 200)
    return f"{where}: {words}" if where else words
