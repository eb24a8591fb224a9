"""The conversation that every driver replays: what is said, which tools are called, and what they answer.

Imported in every peer's environment, so nothing here may import a peer.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import shake_256
from typing import Any

PROMPT = "Plan the trip; look things up as needed, then book it."
SYSTEM = "You are a careful travel assistant. Use tools. Ask before spending money."
FINAL = "All done: the trip is planned and booked."
WORD = "word "  # one delta of a stream

# Both tools are `async def (city: str, days: int, note: str) -> str`.
LOOKUP = "lookup"  # runs at once
WIRE = "wire"  # needs approval

RESULT_LENGTH = 128
"""How long a tool's answer is, where a scenario does not say otherwise."""

executed = {LOOKUP: 0, WIRE: 0}
"""How often each body ran in this execution; the drivers' checks read it."""


_length: int | None = None
_even = False


def forget(length: int | None = None, even: bool = False) -> None:
    """Begin another execution: no body has run, and answers will be about this long, or exactly if `even`.

    Without a length all are of RESULT_LENGTH.
    """
    global _length, _even
    _even = even
    executed[LOOKUP] = executed[WIRE] = 0
    _length = length


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
    return _answer(_length, _even, city, days, note)


@cache
def _answer(about: int | None, even: bool, city: str, days: int, note: str) -> str:
    text = f"{city}/{days}: {note}; sunny, 21C, 3 hotels free, next train 09:40; "
    # The rest is nothing that a database could compress, as it would a row of one letter.
    chance = shake_256(note.encode())
    length = RESULT_LENGTH if about is None else about
    if about is not None and not even:
        length = about // 2 + int(chance.hexdigest(4), 16) % (about + 1)
    return (text + chance.hexdigest(length))[:length]


def answer(turn: int, length: int | None = None, even: bool = False) -> str:
    """What a call of this turn must have answered."""
    return _answer(length, even, **arguments(turn))


def useful(turns: int, length: int, even: bool = False) -> int:
    """The bytes of a run's transcript as JSON, by nobody's format: all that was said, called and answered, once."""
    items: list[dict[str, str]] = [{"role": "user", "content": PROMPT}]
    for turn in range(turns):
        call = {"type": "function_call", "call_id": call_id(turn), "name": LOOKUP, "arguments": arguments_json(turn)}
        items += [
            call,
            {"type": "function_call_output", "call_id": call_id(turn), "output": answer(turn, length, even)},
        ]
    return len(json.dumps([*items, {"role": "assistant", "content": FINAL}], separators=(",", ":")))
