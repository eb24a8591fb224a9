"""The names of `agents.memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...sessions.openai_conversations import OpenAIConversationsSession
from ...sessions.session import Session
from ..absent import find_absent

__all__ = ["OpenAIConversationsSession", "Session"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
