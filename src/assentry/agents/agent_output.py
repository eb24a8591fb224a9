"""The names of `agents.agent_output`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_origin

from ..definitions.output import AgentOutputSchema as NativeOutputSchema
from ..definitions.output import AgentOutputSchemaBase
from ..errors import UsageError
from .absent import find_absent

__all__ = ["AgentOutputSchema", "AgentOutputSchemaBase"]


class WrappingOutputSchema(NativeOutputSchema):
    """The form of a final output for a run, with the wrapper where the SDK has it: for all but models and dicts."""

    def _is_always_wrapped(self) -> bool:
        kind = get_origin(self.output_type) or self.output_type
        return not (isinstance(kind, type) and (issubclass(kind, dict) or hasattr(kind, "model_fields")))


class AgentOutputSchema(AgentOutputSchemaBase):
    """The form of an agent's final output, with the SDK's methods; see `assentry.AgentOutputSchema`."""

    def __init__(self, output_type: Any, strict_json_schema: bool = True) -> None:
        self.output_type = output_type
        self._native = WrappingOutputSchema(output_type, strict_json_schema)

    def adapted(self) -> NativeOutputSchema:
        """Return the schema in the form that a run uses."""
        return self._native

    def is_plain_text(self) -> bool:
        """Return True if the output is the model's text, unchanged."""
        return self._native.is_plain_text()

    def name(self) -> str:
        """Return the type as it is written."""
        return self._native.name

    def is_strict_json_schema(self) -> bool:
        """Return True if the schema is strict."""
        return self._native.strict

    def json_schema(self) -> dict[str, Any]:
        """Return the schema that the model is given; raise `UsageError` for text, which has none."""
        if self._native.json_schema is None:
            raise UsageError("The output is text, which has no JSON schema.")
        return self._native.json_schema

    def validate_json(self, json_str: str) -> Any:
        """Return the model's text as an instance of the type, or raise `InvalidOutput`."""
        return self._native.parse(json_str)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
