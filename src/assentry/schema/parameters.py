"""The arguments of a tool: their schema, and their binding to a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ..core.wording import shortened
from ..errors import InvalidArguments

Json = dict[str, Any]


class Parameters(Struct, frozen=True, eq=False):
    """The schema that a model is offered, and the binding of JSON arguments to a value of the type."""

    json_schema: Json
    required: frozenset[str] = frozenset()
    defaults: Json = {}
    fill: Callable[[Json], Json] | None = None
    validate: Callable[[Json], Any] | None = None
    loose: Json | None = None
    """The schema before it is made strict, with the defaults at every depth."""

    def canonical(self, args: Json) -> Json:
        """Return the arguments with the type's defaults filled in; nothing is coerced."""
        return self.fill(args) if self.fill is not None else args

    def bind(self, args: Json) -> Any:
        """Return a value of the type, or raise `InvalidArguments`."""
        schema = self.json_schema
        more = [] if schema.get("additionalProperties") else [name for name in args if name not in schema["properties"]]
        if more:
            raise InvalidArguments(f'"{shortened(more[0])}": there is no such argument')
        return self.validate(args) if self.validate is not None else None


NONE = Parameters({"type": "object", "properties": {}, "required": [], "additionalProperties": False})
"""No arguments."""
