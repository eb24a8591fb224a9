"""The names of `agents.exceptions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import (
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from .absent import find_absent

__all__ = [
    "InputGuardrailTripwireTriggered",
    "MaxTurnsExceeded",
    "OutputGuardrailTripwireTriggered",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutputGuardrailTripwireTriggered",
]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
