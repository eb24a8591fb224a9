"""The names of `agents.tool_guardrails`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from msgspec.structs import force_setattr
from typing_extensions import TypedDict

from ..definitions import guardrail as native
from ..definitions.guardrail import (
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    tool_input_guardrail,
    tool_output_guardrail,
)
from .absent import find_absent

__all__ = [
    "AllowBehavior",
    "RaiseExceptionBehavior",
    "RejectContentBehavior",
    "ToolGuardrailFunctionOutput",
    "ToolInputGuardrail",
    "ToolInputGuardrailData",
    "ToolInputGuardrailResult",
    "ToolOutputGuardrail",
    "ToolOutputGuardrailData",
    "ToolOutputGuardrailResult",
    "tool_input_guardrail",
    "tool_output_guardrail",
]


class AllowBehavior(TypedDict):
    """Let the call run, or its output pass."""

    type: Literal["allow"]


class RejectContentBehavior(TypedDict):
    """Stop the call, or hold back its output; the model gets the message instead."""

    type: Literal["reject_content"]
    message: str


class RaiseExceptionBehavior(TypedDict):
    """Stop the run for good."""

    type: Literal["raise_exception"]


Behavior = AllowBehavior | RejectContentBehavior | RaiseExceptionBehavior


class _ReadableBehavior(str):
    """A behavior as text, as a run reads it, whose parts can be read by the SDK's keys too."""

    parts: Mapping[str, Any]

    def __new__(cls, parts: Mapping[str, Any]) -> _ReadableBehavior:
        made = super().__new__(cls, parts.get("type", ""))
        made.parts = dict(parts)
        return made

    def __getitem__(self, key: Any) -> Any:
        return self.parts[key] if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a part of the behavior."""
        return self.parts.get(key, default)


class ToolGuardrailFunctionOutput(native.ToolGuardrailFunctionOutput, frozen=True):
    """The result of a tool's guardrail function, whose behavior is read as in the SDK: `output.behavior["type"]`."""

    if TYPE_CHECKING:
        behavior: Behavior = ...  # type: ignore[assignment]

        def __init__(self, output_info: Any = None, behavior: Behavior = ...) -> None: ...

    def __post_init__(self) -> None:
        given: Any = self.behavior
        parts: Any = given if isinstance(given, Mapping) else {"type": given}
        if self.message is not None and isinstance(given, str) and not isinstance(given, _ReadableBehavior):
            parts["message"] = self.message
        if not isinstance(given, _ReadableBehavior):
            force_setattr(self, "behavior", _ReadableBehavior(parts))
            force_setattr(self, "message", parts.get("message"))
        super().__post_init__()

    @classmethod
    def allow(cls, output_info: Any = None) -> Self:
        """Let the call run, or its output pass."""
        return cls(output_info, {"type": "allow"})

    @classmethod
    def reject_content(cls, message: str, output_info: Any = None) -> Self:
        """Stop the call, or hold back its output. The model gets `message` instead."""
        return cls(output_info, cast(RejectContentBehavior, {"type": "reject_content", "message": message}))

    @classmethod
    def raise_exception(cls, output_info: Any = None) -> Self:
        """Stop the run for good."""
        return cls(output_info, {"type": "raise_exception"})


if TYPE_CHECKING:

    class ToolInputGuardrailResult(native.ToolInputGuardrailResult, frozen=True):
        """The result of an input guardrail of a tool."""

        output: ToolGuardrailFunctionOutput

    class ToolOutputGuardrailResult(native.ToolOutputGuardrailResult, frozen=True):
        """The result of an output guardrail of a tool."""

        output: ToolGuardrailFunctionOutput
else:
    ToolInputGuardrailResult = native.ToolInputGuardrailResult
    ToolOutputGuardrailResult = native.ToolOutputGuardrailResult
    __getattr__ = find_absent(__name__)
