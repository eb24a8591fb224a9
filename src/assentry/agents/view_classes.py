"""The classes in which runs of the skin's agents show themselves, by Assentry's own."""

from __future__ import annotations

from typing import Any

from ..core import facts as f
from ..definitions.context import ToolContext as OwnToolContext
from ..definitions.guardrail import ToolGuardrailFunctionOutput as OwnToolGuardrailFunctionOutput
from ..runtime import result as own
from ..runtime import state, streaming
from .items import ITEM_CLASSES
from .result import RunResult, RunResultStreaming
from .run_state import RunState
from .tool_context import ToolContext
from .tool_guardrails import ToolGuardrailFunctionOutput
from .usage import Usage

VIEW_CLASSES: dict[type[Any], type[Any]] = {
    **ITEM_CLASSES,
    OwnToolContext: ToolContext,
    f.Usage: Usage,
    own.RunResult: RunResult,
    state.RunState: RunState,
    streaming.RunResultStreaming: RunResultStreaming,
    OwnToolGuardrailFunctionOutput: ToolGuardrailFunctionOutput,
}
