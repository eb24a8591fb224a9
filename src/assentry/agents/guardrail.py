"""The names of `agents.guardrail`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    input_guardrail,
    output_guardrail,
)
from .absent import find_absent

__all__ = [
    "GuardrailFunctionOutput",
    "InputGuardrail",
    "InputGuardrailResult",
    "OutputGuardrail",
    "OutputGuardrailResult",
    "input_guardrail",
    "output_guardrail",
]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
