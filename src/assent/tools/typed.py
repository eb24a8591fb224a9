"""Arguments that are a type of the user's: what a handoff says, what an agent that is a tool is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidArguments

Json = dict[str, Any]


@dataclass(frozen=True)
class Parameters:
    """What a model is offered, and how JSON arguments become a value of the type."""

    json_schema: Json
    required: frozenset[str] = frozenset()
    defaults: Json = field(default_factory=dict)
    fill: Callable[[Json], Json] | None = field(default=None, compare=False)
    validate: Callable[[Json], Any] | None = field(default=None, compare=False)

    def canonical(self, args: Json) -> Json:
        """The arguments with the type's defaults filled in; nothing is coerced."""
        return self.fill(args) if self.fill is not None else args

    def bind(self, args: Json) -> Any:
        """A value of the type, or `InvalidArguments`."""
        if self.validate is not None:
            return self.validate(args)
        if args:
            raise InvalidArguments(f"arguments: there are none to give, and {', '.join(args):.80} was given")
        return None


NONE = Parameters({"type": "object", "properties": {}, "required": [], "additionalProperties": False})
"""No arguments."""


def parameters(name: str, kind: Any) -> Parameters:
    """Read a type whose JSON is an object; `InvalidDefinition` says what no model could fill in."""
    from .schema import type_schema  # brings in much of pydantic

    schema = type_schema(name, kind)
    return Parameters(schema.json_schema, schema.required, schema.defaults, schema.canonical, schema.bind)
