"""Answers to what a tool's body asks: the schema they must fit, and whether they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw
from pydantic import TypeAdapter

from ..core.digest import canonical, plain, worded
from ..core.facts import NOTHING
from ..errors import UsageError

if TYPE_CHECKING:
    from jsonschema import FormatChecker


def schema_of(schema: Any) -> Raw:
    """The JSON schema of an answer, from a JSON schema or a type; nothing if any answer will do."""
    if schema is None:
        return NOTHING
    try:
        if not isinstance(schema, dict):
            return Raw(canonical(plain(TypeAdapter(schema).json_schema())))
        from jsonschema import Draft202012Validator

        Draft202012Validator.check_schema(schema)
        return Raw(canonical(plain(schema)))
    except Exception as error:
        raise UsageError(
            f"{schema!r:.80} is not a type or a JSON schema that an answer can be checked by: {worded(error)}"
        ) from None


def typed(schema: Any, value: Any) -> Any:
    """A recorded answer as the body wants it: an instance of the type, if it asked for one."""
    return value if schema is None or isinstance(schema, dict) else TypeAdapter(schema).validate_python(value)


def problem_with(value: Any, schema: Raw, formats: FormatChecker | None = None) -> str | None:
    """What is wrong with an answer; None if it fits. `formats` checks them, if not as the standard says."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry

    # An empty registry: a schema may point into itself, and never makes us fetch anything.
    try:
        validator = Draft202012Validator(
            msgspec.json.decode(schema),
            registry=Registry(),
            format_checker=formats or Draft202012Validator.FORMAT_CHECKER,
        )
        error = best_match(validator.iter_errors(value))
    except Exception as failure:  # a reference that leads nowhere, a pattern that is none
        return f"the question's schema cannot be used ({worded(failure)})"
    if error is None:
        return None
    where = "/".join(map(str, error.absolute_path))
    return f"{where}: {error.message:.200}" if where else f"{error.message:.200}"
