"""Messages in pydantic models and FastAPI: how they are read, written and described there."""

from __future__ import annotations

from typing import Any

from pydantic_core import core_schema

from ..errors import InvalidInput
from .message import Message, message


def message_schema(kind: type[Message]) -> core_schema.CoreSchema:
    """Return the schema of a message class: reads what `invoke` accepts as a message, writes `model_dump`."""

    def read(value: Any) -> Message:
        try:
            made = message(value)
        except InvalidInput as error:
            raise ValueError(str(error)) from None
        if not isinstance(made, kind):
            raise ValueError(f"a {kind.__name__} is needed, got a {type(made).__name__}")
        return made

    parts = {name: core_schema.typed_dict_field(core_schema.any_schema()) for name in ("content", "type", "id", "name")}
    return core_schema.no_info_plain_validator_function(
        read,
        json_schema_input_schema=core_schema.typed_dict_schema(parts, cls_name=kind.__name__),
        serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.model_dump()),
    )
