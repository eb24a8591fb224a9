"""The names of `agents.memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..absent import find_absent
from .openai_conversations_session import OpenAIConversationsSession
from .openai_responses_compaction_session import OpenAIResponsesCompactionSession
from .session import (
    OpenAIResponsesCompactionArgs,
    OpenAIResponsesCompactionAwareSession,
    Session,
    SessionABC,
    is_openai_responses_compaction_aware_session,
)
from .session_settings import SessionSettings
from .sqlite_session import SQLiteSession
from .util import SessionInputCallback

__all__ = [
    "OpenAIConversationsSession",
    "OpenAIResponsesCompactionArgs",
    "OpenAIResponsesCompactionAwareSession",
    "OpenAIResponsesCompactionSession",
    "SQLiteSession",
    "Session",
    "SessionABC",
    "SessionInputCallback",
    "SessionSettings",
    "is_openai_responses_compaction_aware_session",
]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
