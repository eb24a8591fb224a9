"""Conversion of a run's context to and from the type that `context_schema` declares."""

from __future__ import annotations

from typing import Any

from msgspec.json import decode
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from ..core.wording import described
from ..errors import ContextMissing, InvalidDefinition, InvalidInput
from ..runtime.saved_context import LEFT_OUT
from ..store.record import SavedContext

AGAIN = "give it again: invoke(..., context=...). Nothing was recorded."


class ContextSchema:
    """The declared type of a context."""

    def __init__(self, declared: Any) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(declared)
        except (PydanticUserError, TypeError, NameError) as error:
            raise InvalidDefinition(
                "context_schema is a dataclass, a pydantic model, a TypedDict or a type that JSON can become; "
                f"got {described(declared)}: {str(error).splitlines()[0]}"
            ) from None

    def validate(self, context: Any) -> Any:
        """Return the user's context as the declared type, or raise `InvalidInput`."""
        try:
            return self._adapter.validate_python(context)
        except ValidationError as error:
            raise InvalidInput(f"The context is not what context_schema says: {_why(error)}.") from None

    def save(self, context: Any) -> Any:
        """Return a context as a value that JSON can hold."""
        return self._adapter.dump_python(context, mode="json")

    def load(self, value: Any) -> Any:
        """Return a saved context as the declared type, or raise `ContextMissing`."""
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise ContextMissing(
                f"The context that was kept is not what context_schema says: {_why(error)}; {AGAIN}"
            ) from None


def restore_context(saved: SavedContext, schema: ContextSchema | None) -> Any:
    """Restore the saved context of a run, or raise `ContextMissing` if the caller has to give the context again."""
    if saved.kind == LEFT_OUT:
        raise ContextMissing(f"The context of this run could not be kept; {AGAIN}")
    if saved.json is None:
        return None
    if schema is not None:
        return schema.load(decode(saved.json))
    if saved.kind != "mapping":
        raise ContextMissing(
            "The context of this run was not a mapping, and its type is not known: give create_agent a "
            f"context_schema, or {AGAIN}"
        )
    return decode(saved.json)


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])
