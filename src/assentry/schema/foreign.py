"""Arguments for a schema that others wrote: its defaults are filled in, and the rest is checked as JSON Schema says.

A server's tool and its snapshot in a store both read arguments here, so an edit fits the one if it fits the other.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from ..core.wording import shortened, worded
from ..errors import InvalidArguments
from .bounded import best_error, bounded_validator
from .defaults import with_defaults
from .form import PROBLEM, short
from .injected import Injected

Json = dict[str, Any]


class ForeignSchema:
    """A JSON schema of any draft, from outside of the program."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema

    def filled(self, args: Json) -> Json:
        """Return the arguments with the defaults filled in; without any, if the defaults do not fit the schema."""
        try:
            filled = with_defaults(self._schema, args)
        except (AttributeError, KeyError, TypeError, ValueError):  # the schema refers to what is not there
            return args
        return filled if filled == args or not self.problem(filled) or self.problem(args) else args

    def problem(self, args: Json) -> str:
        """Return what is wrong with the arguments; empty if they fit."""
        try:
            error = best_error(self._validator, args)
        except Exception as failure:  # a broken reference, an invalid pattern, too much to check
            return f"the schema of the tool cannot be used ({short(worded(failure), PROBLEM)})"
        if error is None:
            return ""
        where = ".".join(map(str, error.absolute_path)) or "arguments"
        return f"{where}: {shortened(error.message, PROBLEM)}"

    def fits(self, args: Json) -> bool | None:
        """Return True if the arguments fit; None if that cannot be told."""
        try:
            return best_error(self._validator, args) is None
        except Exception:  # as above
            return None

    @functools.cached_property
    def _validator(self) -> Any:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from referencing import Registry

        # With an empty registry, a schema can refer to itself but never makes us fetch anything.
        kind = validator_for(self._schema, Draft202012Validator)
        return bounded_validator(kind)(self._schema, registry=Registry())


class WrittenSchema:
    """The schema of a function that takes the context and all arguments as one JSON text."""

    fills = True
    injected = (Injected("ctx", 0, "context"),)

    def __init__(self, schema: Json) -> None:
        self.loose = schema
        self._foreign = ForeignSchema(schema)

    def canonical(self, args: Json) -> Json:
        """Return the arguments with the defaults filled in."""
        return self._foreign.filled(args)

    def bind(self, args: Json) -> tuple[list[Any], Json]:
        """Return the arguments as text, for the function, or raise `InvalidArguments`."""
        problem = self._foreign.problem(args)
        if problem:
            raise InvalidArguments(problem)
        return [json.dumps(args, ensure_ascii=False)], {}
