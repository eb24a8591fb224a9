"""The time that somebody had a question open before deciding: from its page to the decision, less what was held."""

from __future__ import annotations

from collections.abc import Mapping

LONGEST = 30 * 24 * 3600 * 1000
"""The most milliseconds that count; a page that was left open for longer says nothing."""
FIELD = "opened"
"""The field of a form, and of an address, with the time at which the question was opened, in milliseconds."""
HELD = "held"
"""The field with the milliseconds for which the page held the decision back, so that it could be undone."""


def opened_at(given: Mapping[str, str], now: int) -> int:
    """Return when a question was opened, as a page's form or address says; now if they say nothing that can be."""
    opened = _number(given.get(FIELD, ""))
    return opened if opened is not None and now - LONGEST <= opened <= now else now


def looked_for(sent: Mapping[str, str], now: int) -> int | None:
    """Return for how many milliseconds the question of a form was open to its sender; None if the form does not say."""
    opened, held = _number(sent.get(FIELD, "")), _number(sent.get(HELD, "0"))
    if opened is None or held is None or not 0 <= now - opened - held <= LONGEST:
        return None
    return now - opened - held


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None
