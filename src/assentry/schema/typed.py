"""Arguments of a user-defined type: the input of a handoff, or of an agent that is a tool."""

from __future__ import annotations

from typing import Any

from .parameters import Parameters


def parameters(name: str, kind: Any) -> Parameters:
    """Read a type whose JSON is an object; raise `InvalidDefinition` if no model could fill it in."""
    from .schema import type_schema  # imports much of pydantic

    return type_schema(name, kind)
