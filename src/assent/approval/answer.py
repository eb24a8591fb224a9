"""Answers to what a tool's body asks: the schema they must fit, and whether they do.

An answer is checked by the schema when it is given, by the type when the body gets it, and is recorded as it was given:
the three agree, since an answer is read as a tool's arguments are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw
from pydantic import TypeAdapter

from ..core.digest import canonical, plain, worded
from ..core.facts import NOTHING
from ..errors import InvalidArguments, InvalidDecision, UsageError

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from pydantic.json_schema import GenerateJsonSchema


def schema_of(schema: Any, generator: type[GenerateJsonSchema] | None = None) -> Raw:
    """Return the JSON schema of an answer, from a JSON schema or a type; nothing if any answer will do."""
    if schema is None:
        return NOTHING
    try:
        if not isinstance(schema, dict):
            from ..tools.schema import Exact  # brings in much of pydantic

            return Raw(canonical(plain(TypeAdapter(schema).json_schema(schema_generator=generator or Exact))))
        from jsonschema import Draft202012Validator

        Draft202012Validator.check_schema(schema)
        return Raw(canonical(plain(schema)))
    except Exception as error:
        raise UsageError(
            f"{schema!r:.80} is not a type or a JSON schema that an answer can be checked by: {worded(error)}"
        ) from None


def earlier_schema_of(schema: Any) -> Raw:
    """Return the schema as questions had it that were asked before answers were read to the letter."""
    from pydantic.json_schema import GenerateJsonSchema

    return schema_of(schema, GenerateJsonSchema)


def typed(schema: Any, value: Any) -> Any:
    """Return a recorded answer as the body wants it: an instance of the type, if it asked for one."""
    if schema is None or isinstance(schema, dict):
        return value
    from ..tools.binding import Binding
    from ..tools.schema import Exact

    adapter: TypeAdapter[Any] = TypeAdapter(schema)
    binding = Binding.of(adapter.json_schema(schema_generator=Exact), adapter.core_schema, adapter.validate_json)
    try:
        return binding.read(value, "answer")
    except InvalidArguments as error:
        raise InvalidDecision(f"The answer that was given does not fit {schema!r:.80}: {error}.") from error


def problem_with(value: Any, schema: Raw) -> str | None:
    """Return what is wrong with an answer; None if it fits."""
    from jsonschema import Draft202012Validator

    shape = msgspec.json.decode(schema)
    return misfit(value, shape) or over_limit(value, shape, Draft202012Validator.FORMAT_CHECKER)


def misfit(value: Any, schema: Any) -> str | None:
    """Return how a value is not of the form that a schema takes; None if it is."""
    from ..tools.form import form_of, listed

    if not isinstance(schema, dict):
        return None  # it allows anything, or nothing
    try:
        return listed(form_of(schema).problems(value, "")).removeprefix('"": ') or None
    except (AttributeError, KeyError, TypeError, RecursionError) as failure:  # it is damaged
        return f"the schema cannot be used ({worded(failure)})"


def over_limit(value: Any, schema: Any, formats: FormatChecker | None = None) -> str | None:
    """Return how a value of the right form is outside of what a schema allows; None if it is not."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry

    # An empty registry: a schema may point into itself, and never makes us fetch anything.
    try:
        validator = Draft202012Validator(schema, registry=Registry(), format_checker=formats)
        error = best_match(validator.iter_errors(value))
    except Exception as failure:  # a reference that leads nowhere, a pattern that is none
        return f"the question's schema cannot be used ({worded(failure)})"
    if error is None:
        return None
    where = "/".join(map(str, error.absolute_path))
    return f"{where}: {error.message:.200}" if where else f"{error.message:.200}"
