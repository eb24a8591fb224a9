"""The names of `agents.strict_schema`."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..schema.strict import Tightening

__all__ = ["ensure_strict_json_schema"]


def ensure_strict_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema in strict form: closed objects, in which every property is required."""
    given = {"type": "object", "properties": {}, **schema}
    try:
        return Tightening("", given, _refusal).top()
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"No strict form of this JSON schema can be made ({error!r}).") from None


def _refusal(path: tuple[str, ...]) -> str:
    place = f" in {'.'.join(path)}" if path else ""
    return f"The schema allows any keys{place}, which a strict schema cannot say."
