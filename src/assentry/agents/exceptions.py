"""The names of `agents.exceptions`: most are Assentry's own errors under the SDK's names, so that they are caught."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import (
    AssentryError,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    MCPToolFailed,
    ModelRefused,
    ModelTimedOut,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimedOut,
    UnexpectedReply,
    UsageError,
)
from ..runtime.result import RunResultBase
from .absent import find_absent

__all__ = [
    "AgentsException",
    "InputGuardrailTripwireTriggered",
    "MCPToolCancellationError",
    "MaxTurnsExceeded",
    "ModelBehaviorError",
    "ModelRefusalError",
    "ModelTimeoutError",
    "OutputGuardrailTripwireTriggered",
    "RunErrorDetails",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolTimeoutError",
    "UserError",
]

AgentsException = AssentryError
UserError = UsageError
ModelBehaviorError = UnexpectedReply
ModelRefusalError = ModelRefused
ModelTimeoutError = ModelTimedOut
MCPToolCancellationError = MCPToolFailed
ToolTimeoutError = ToolTimedOut
RunErrorDetails = RunResultBase

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
