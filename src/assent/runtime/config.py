"""How a run is driven: settings that are live objects and are given again on resume."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from ..context import RunContextWrapper
from ..core.facts import Release
from ..errors import InvalidDefinition
from ..models.model import Model

DEFAULT_MAX_TURNS = 10


class ToolErrorFormatterArgs(Struct, frozen=True):
    """What a `tool_error_formatter` is told of a call that did not run."""

    kind: Literal["approval_rejected", "tool_not_found", "invalid_arguments"]
    tool_name: str
    call_id: str
    default_message: str
    by: str
    run_context: RunContextWrapper[Any]


ToolErrorFormatter = Callable[[ToolErrorFormatterArgs], str | Awaitable[str | None] | None]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run."""

    model: Model | None = None
    """Goes before the agent's own model."""
    tool_error_formatter: ToolErrorFormatter | None = None
    """Words a refusal for the model where whoever refused did not; None keeps the default text."""
    release: Release = "each"
    """"each": a call runs as soon as it may. "batch": none of a turn runs until all are settled.
    Kept in the run: it counts where the run begins."""
    tool_not_found: Literal["tell", "raise"] = "tell"
    """Whether the model is told that it called a tool it does not have, or you are."""
    max_parallel_tools: int | None = None
    """How many tool bodies run at once; None for no limit."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970, for the times in the journal."""

    def __post_init__(self) -> None:
        if self.release not in ("each", "batch"):
            raise InvalidDefinition(f'RunConfig: release must be "each" or "batch", got {self.release!r:.80}.')
        if self.tool_not_found not in ("tell", "raise"):
            raise InvalidDefinition(
                f'RunConfig: tool_not_found must be "tell" or "raise", got {self.tool_not_found!r:.80}.'
            )
        limit = self.max_parallel_tools
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidDefinition(f"RunConfig: max_parallel_tools must be at least 1, got {limit!r:.80}.")
        if self.tool_error_formatter is not None and not callable(self.tool_error_formatter):
            raise InvalidDefinition("RunConfig: tool_error_formatter must be a callable.")
        if self.model is not None and not hasattr(self.model, "stream"):
            raise InvalidDefinition(f"RunConfig: model must be a Model, got {self.model!r:.80}.")
