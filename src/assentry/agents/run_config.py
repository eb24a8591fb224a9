"""The names of `agents.run_config`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import force_setattr

from ..core import allowed
from ..runtime import config as own
from ..runtime.config import ToolErrorFormatterArgs
from ..tracing.settings import Tracing
from .absent import find_absent
from .tracing.config import TracingConfig

__all__ = ["RunConfig", "ToolErrorFormatterArgs"]


def _shows_contents() -> bool:
    """Return the default of `trace_include_sensitive_data`, as the SDK's variable says."""
    said = os.environ.get("OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", "true")
    return said.strip().lower() in ("1", "true", "yes", "on")


OPTIONS = allowed.Options(
    workflow_name=allowed.NONEMPTY,
    trace_id=allowed.NONEMPTY.or_none,
    group_id=allowed.NONEMPTY.or_none,
    trace_metadata=allowed.instance_of(dict).secret.or_none,
    tracing_disabled=allowed.BOOL,
    trace_include_sensitive_data=allowed.BOOL,
)


TRACING_OPTIONS = allowed.Options(api_key=allowed.TEXT.secret, include_task_and_turn_spans=allowed.BOOL)


class RunConfig(own.RunConfig, frozen=True, kw_only=True):
    """Settings of a run."""

    workflow_name: str = "Agent workflow"
    """The run's name in traces."""
    trace_id: str | None = None
    """The id of the run's trace, if the run begins one; by default a new id."""
    group_id: str | None = None
    """The group of the run's trace, such as a conversation."""
    trace_metadata: dict[str, Any] | None = None
    """More about the run's trace."""
    tracing_disabled: bool = False
    """True if nobody hears of the run's spans."""
    trace_include_sensitive_data: bool = field(default_factory=_shows_contents)
    """True if spans contain messages, arguments, outputs and the texts of errors."""
    tracing: Tracing | TracingConfig | None = None  # type: ignore[assignment]  # a dict is moved to `tracing_config`
    """Options for the run's trace as the SDK has them, or the place where OpenTelemetry spans go."""
    tracing_config: TracingConfig | None = None
    """The dict that `tracing` was."""

    def __post_init__(self) -> None:
        if isinstance(self.tracing, dict):
            TRACING_OPTIONS.check_items("RunConfig", self.tracing, within="tracing.")
            force_setattr(self, "tracing_config", self.tracing)
            force_setattr(self, "tracing", None)
        OPTIONS.check("RunConfig", self)
        super().__post_init__()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
