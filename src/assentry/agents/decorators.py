"""The names of `agents.decorators`."""

from __future__ import annotations

from .guardrail import input_guardrail, output_guardrail
from .tool import function_tool
from .tool_guardrails import tool_input_guardrail, tool_output_guardrail

__all__ = [
    "function_tool",
    "input_guardrail",
    "output_guardrail",
    "tool",
    "tool_input_guardrail",
    "tool_output_guardrail",
]

tool = function_tool
