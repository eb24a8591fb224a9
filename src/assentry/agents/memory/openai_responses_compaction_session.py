"""The names of `agents.memory.openai_responses_compaction_session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...sessions import openai_compaction
from ...sessions.openai_compaction import (
    CompactionMode as OpenAIResponsesCompactionMode,
)
from ...sessions.openai_compaction import (
    default_should_trigger_compaction,
    is_openai_model_name,
    select_compaction_candidate_items,
)
from ..absent import find_absent
from .session import SessionABC

if TYPE_CHECKING:
    from collections.abc import Callable

    from openai import AsyncOpenAI

    from ...sessions.session import Session as OwnSession
    from ..items import TResponseInputItem
    from .session import Session

__all__ = [
    "DEFAULT_COMPACTION_THRESHOLD",
    "OpenAIResponsesCompactionMode",
    "OpenAIResponsesCompactionSession",
    "default_should_trigger_compaction",
    "is_openai_model_name",
    "select_compaction_candidate_items",
]

DEFAULT_COMPACTION_THRESHOLD = openai_compaction.THRESHOLD


class OpenAIResponsesCompactionSession(openai_compaction.OpenAIResponsesCompactionSession, SessionABC):
    """A conversation that another session keeps, and that OpenAI makes shorter when a run is over."""

    if TYPE_CHECKING:

        def __init__(
            self,
            session_id: str,
            underlying_session: Session | OwnSession,
            *,
            client: AsyncOpenAI | None = None,
            model: str = "gpt-4.1",
            compaction_mode: OpenAIResponsesCompactionMode = "auto",
            should_trigger_compaction: Callable[[dict[str, Any]], bool] | None = None,
            max_rollback_items: int | None = None,
        ) -> None: ...
        async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]: ...  # type: ignore[override]
        async def add_items(self, items: list[TResponseInputItem]) -> None: ...  # type: ignore[override]
        async def pop_item(self) -> TResponseInputItem | None: ...  # type: ignore[override]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
