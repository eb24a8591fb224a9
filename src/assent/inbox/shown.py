"""The question as a person is shown it, and its hash, which is recorded with the decision."""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.digest import digest
from ..store.record import Question

ENDS = ("verdict", "by", "decided", "shown", "evidence")
"""The fields that change after a question was asked."""


def shown_of(question: Question) -> dict[str, Any]:
    """Return a question as JSON, without its end: the same for the API and for the page."""
    whole: dict[str, Any] = msgspec.to_builtins(question)
    return {name: whole[name] for name in Question.__struct_fields__ if name not in ENDS}


def shown_hash(question: Question) -> str:
    """Return the hash of what is shown."""
    return digest(shown_of(question))
