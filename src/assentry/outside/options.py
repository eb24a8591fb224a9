"""The options of an ask, besides the tool and its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from ..core.facts import Risk, Verdict
from ..definitions.preview import Preview


class CallOptions(TypedDict, total=False):
    """The options of `Approvals.ask`; see `CallRequest`, whose fields they are."""

    schema: dict[str, Any] | None
    description: str
    definition: str | None
    server: str | None
    preview: Preview | str | None
    says: str | None
    reviewers: Sequence[str]
    deadline: float | None
    key: str | None
    session: str | None
    redact: Sequence[str]
    risk: Risk | None
    allowed: Sequence[Verdict] | None
    answer_schema: dict[str, Any] | None
    again: bool
