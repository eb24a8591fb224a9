"""The names of `agents.run_error_handlers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.error_handler import (
    RunErrorData,
    RunErrorHandler,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    RunErrorHandlers,
)
from .absent import find_absent

__all__ = ["RunErrorData", "RunErrorHandler", "RunErrorHandlerInput", "RunErrorHandlerResult", "RunErrorHandlers"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
