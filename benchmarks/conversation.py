"""The conversation that every driver replays: what is said, which tools are called, and what they answer.

Imported in every peer's environment, so nothing here may import a peer.
"""

from __future__ import annotations

from functools import cache
from typing import Any

PROMPT = "Plan the trip; look things up as needed, then book it."
SYSTEM = "You are a careful travel assistant. Use tools. Ask before spending money."
FINAL = "All done: the trip is planned and booked."
WORD = "word "  # one delta of a stream

# Both tools are `async def (city: str, days: int, note: str) -> str`.
LOOKUP = "lookup"  # runs at once
WIRE = "wire"  # needs approval

RESULT_LENGTH = 128

executed = {LOOKUP: 0, WIRE: 0}
"""How often each body ran in this execution; the drivers' checks read it."""


def forget() -> None:
    """Begin another execution: no body has run."""
    executed[LOOKUP] = executed[WIRE] = 0


def arguments(turn: int) -> dict[str, Any]:
    """The arguments of a turn's calls."""
    return {"city": "Lisbon", "days": turn % 14 + 1, "note": f"step {turn:06d}: weather, hotels, trains"}


def arguments_json(turn: int) -> str:
    """The same as a model writes them."""
    return f'{{"city":"Lisbon","days":{turn % 14 + 1},"note":"step {turn:06d}: weather, hotels, trains"}}'


def call_id(turn: int, position: int = 0) -> str:
    """The id of a call."""
    return f"call_{turn:06d}_{position:04d}"


def body(tool: str, city: str, days: int, note: str) -> str:
    """What a tool does: note that it ran, and answer."""
    executed[tool] += 1
    return _answer(city, days, note)


def _answer(city: str, days: int, note: str) -> str:
    text = f"{city}/{days}: {note}; sunny, 21C, 3 hotels free, next train 09:40; "
    return (text + "x" * RESULT_LENGTH)[:RESULT_LENGTH]


@cache
def answer(turn: int) -> str:
    """What a call of this turn must have answered."""
    return _answer(**arguments(turn))
