"""Conflicts about a decision, for pages and API: somebody was first, or something else is asked now."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..errors import AlreadyDecided, Conflict, DigestMismatch, StoreFailed
from ..store.record import Question
from ..store.store import Store


class DecisionConflict(Struct, frozen=True):
    """The state of a question on which a decision was refused. Its questions are as stored: mask them."""

    status: Literal[409, 412]
    """409 if the question was settled before, 412 if something else is asked now."""
    decided_on: Question
    """The question that the decision was about."""
    asked_now: Question
    """The question to look at: the one that took its place, or the same one."""

    @property
    def replaced_by(self) -> str | None:
        """The id of the question that took this one's place; None if none did."""
        return self.asked_now.id if self.asked_now.id != self.decided_on.id else None


async def find_conflict(store: Store, question_id: str, error: Conflict) -> DecisionConflict | None:
    """Return what became of a question on which a decision was refused; None if only the error says something."""
    try:
        question = await store.question(question_id)
        successor = await store.successor(question_id, known=question)
    except StoreFailed:
        return None  # what became of the decision is known; only the details are not
    if isinstance(error, AlreadyDecided) or (question.verdict is not None and successor is None):
        return DecisionConflict(409, question, question)
    if successor is not None or isinstance(error, DigestMismatch):
        return DecisionConflict(412, question, successor or question)
    return None
