"""The names of `agents.extensions.tool_output_trimmer`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...core import allowed
from ...definitions.model_input import CallModelData, ModelInputData
from ...errors import InvalidDefinition

__all__ = ["ToolOutputTrimmer"]

TRIMMER_OPTIONS = allowed.Options(
    recent_turns=allowed.COUNT, max_output_chars=allowed.COUNT, preview_chars=allowed.whole_number(0)
)


@dataclass(frozen=True)
class ToolOutputTrimmer:
    """A `call_model_input_filter` that shortens the long outputs of tools from earlier turns. The run keeps them whole.

    An output that is made of parts, such as images, is left as it is.
    """

    recent_turns: int = 2
    """The last turns, each from a message of the user on, in which nothing is shortened."""
    max_output_chars: int = 500
    """The most characters of an output that is left as it is."""
    preview_chars: int = 200
    """The characters that are left of a longer output."""
    trimmable_tools: str | Iterable[str] | None = None
    """The tools whose outputs may be shortened; None for all."""

    def __post_init__(self) -> None:
        TRIMMER_OPTIONS.check("ToolOutputTrimmer", self)
        given = self.trimmable_tools
        if given is not None:
            names = frozenset({given} if isinstance(given, str) else given)
            if not all(isinstance(name, str) for name in names):
                raise InvalidDefinition("ToolOutputTrimmer: trimmable_tools must be names of tools.")
            object.__setattr__(self, "trimmable_tools", names)

    def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the model's input with shorter outputs."""
        items = data.model_data.input
        said = [number for number, item in enumerate(items) if item.get("role") == "user"]
        old = said[-self.recent_turns] if len(said) >= self.recent_turns else 0
        names = {item.get("call_id"): item.get("name") for item in items if item.get("type") == "function_call"}
        kept = [self._shortened(item, names.get(item.get("call_id"))) for item in items[:old]]
        return ModelInputData([*kept, *items[old:]], data.model_data.instructions)

    def _shortened(self, item: dict[str, Any], name: str | None) -> dict[str, Any]:
        output = item.get("output")
        tools: Any = self.trimmable_tools
        if item.get("type") != "function_call_output" or not isinstance(output, str):
            return item
        if len(output) <= self.max_output_chars or (tools is not None and name not in tools):
            return item
        note = f"[Trimmed: {name or 'unknown_tool'} output — {len(output)} chars → {self.preview_chars} char preview]"
        short = f"{note}\n{output[: self.preview_chars]}..."
        return {**item, "output": short} if len(short) < len(output) else item
