"""The names of `agents.realtime.config`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from ...realtime.config import (
    RealtimeAudioConfig,
    RealtimeAudioFormat,
    RealtimeAudioInputConfig,
    RealtimeAudioOutputConfig,
    RealtimeGuardrailsSettings,
    RealtimeSessionModelSettings,
    RealtimeToolExecutionConfig,
    RealtimeTurnDetectionConfig,
)
from ...realtime.config import RealtimeRunConfig as OwnRunConfig
from ...realtime.config import RealtimeTranscriptionConfig as RealtimeInputAudioTranscriptionConfig
from ..absent import find_absent

__all__ = [
    "RealtimeAudioConfig",
    "RealtimeAudioFormat",
    "RealtimeAudioInputConfig",
    "RealtimeAudioOutputConfig",
    "RealtimeClientMessage",
    "RealtimeCustomVoice",
    "RealtimeGuardrailsSettings",
    "RealtimeInputAudioNoiseReductionConfig",
    "RealtimeInputAudioTranscriptionConfig",
    "RealtimeModelName",
    "RealtimeModelTracingConfig",
    "RealtimeReasoningConfig",
    "RealtimeReasoningEffort",
    "RealtimeRunConfig",
    "RealtimeSessionModelSettings",
    "RealtimeToolExecutionConfig",
    "RealtimeTurnDetectionConfig",
    "RealtimeUserInput",
    "RealtimeUserInputImage",
    "RealtimeUserInputMessage",
    "RealtimeUserInputText",
    "RealtimeVoice",
]

RealtimeModelName: TypeAlias = str
"""The name of a realtime model."""
RealtimeReasoningEffort: TypeAlias = str
"""The effort that a model puts into reasoning."""


class RealtimeCustomVoice(TypedDict):
    """A voice of one's own."""

    id: str


RealtimeVoice: TypeAlias = str | RealtimeCustomVoice
"""A voice."""


class RealtimeClientMessage(TypedDict):
    """A message of the provider's own protocol: its type, and its other fields."""

    type: str
    other_data: NotRequired[dict[str, Any]]


class RealtimeInputAudioNoiseReductionConfig(TypedDict, total=False):
    """The reduction of noise in what the user says."""

    type: Literal["near_field", "far_field"]


class RealtimeReasoningConfig(TypedDict, total=False):
    """The reasoning of the model."""

    effort: RealtimeReasoningEffort


class RealtimeModelTracingConfig(TypedDict, total=False):
    """The provider's own trace of a session."""

    workflow_name: str
    group_id: str
    metadata: dict[str, Any]


class RealtimeRunConfig(OwnRunConfig):
    """The settings of live sessions."""

    tracing_disabled: NotRequired[bool]
    """True to have no trace of the session at the provider."""
    async_tool_calls: NotRequired[bool]
    """True, the default: the conversation goes on while tools run. False is refused."""
    assentry_events: NotRequired[bool]
    """True to have Assentry's own events as well: `RealtimeToolApprovalDecided` and `RealtimeEventsDropped` of
    `assentry.realtime`. They are not in `RealtimeSessionEvent`."""


class RealtimeUserInputText(TypedDict):
    """Text of a user's message."""

    type: Literal["input_text"]
    text: str


class RealtimeUserInputImage(TypedDict, total=False):
    """An image of a user's message."""

    type: Literal["input_image"]
    image_url: str
    detail: str


class RealtimeUserInputMessage(TypedDict):
    """A user's message."""

    type: Literal["message"]
    role: Literal["user"]
    content: list[RealtimeUserInputText | RealtimeUserInputImage]


RealtimeUserInput: TypeAlias = str | RealtimeUserInputMessage
"""A user's message, or its text."""

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
