"""A run's talk and the session it is kept in: what is loaded at the beginning, what is written as turns are done.

A turn is written when all its calls have their outcomes, with what was said before it, at one go: so whatever
stops a run, and whoever else uses the session, it holds no call without its output.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..core import facts as f
from ..core.digest import canonical, described, holds
from ..core.run import Run, Turn
from ..core.transcript import Item, entry_items, is_given, unanswered
from ..errors import InvalidInput, UsageError
from ..sessions.session import ExactSession, Session
from .value import input_json

if TYPE_CHECKING:
    from .config import RunConfig
    from .driver import Driver


PATIENCE = 5.0
"""Seconds that a session has when a run is told to stop, even if bodies have less."""


def patience(config: RunConfig) -> float:
    """How long a run that is told to stop waits for its session."""
    return max(PATIENCE, config.cancel_grace)


async def heard(session: Session, input: str | list[Item], config: RunConfig) -> list[f.Said]:
    """What a run is to hear: the session's history and the new input, or what the callback makes of the two."""
    history = accepted(_items_of(session, await session.get_items(config.session_limit)))
    merge = config.session_input_callback
    if merge is None:
        return [*_said([(item, True) for item in history]), f.Said(input_json(input))]
    fresh: list[Item] = [{"role": "user", "content": input}] if isinstance(input, str) else input
    merged: Any = merge(list(history), list(fresh))
    merged = await merged if inspect.isawaitable(merged) else merged
    if not isinstance(merged, list) or not all(isinstance(item, dict) for item in merged):
        raise InvalidInput(f"session_input_callback must return a list of items (dicts), and gave {described(merged)}.")
    input_json(merged)  # what cannot be recorded is refused before anything is made of it
    fit = {id(item) for item in accepted(merged)}  # a callback may cut a call from its output
    known = zip(merged, _known(merged, history, fresh), strict=True)
    said = _said([(item, old) for item, old in known if not old or id(item) in fit])
    if not said:
        raise InvalidInput("session_input_callback gave nothing for the run to hear.")
    return said


def _items_of(session: Session, items: Any) -> list[Item]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UsageError(
            f"get_items of session {session.session_id!r} must give a list of items (dicts), and gave "
            f"{described(items)}; try the session out with assent.testing.check_session."
        )
    return items


def _known(merged: list[Item], history: list[Item], fresh: list[Item]) -> list[bool]:
    """Which of the merged items are in the session already. A callback may copy what it is given."""
    old, new = {id(item) for item in history}, {id(item) for item in fresh}
    others = [item for item in merged if id(item) not in old and id(item) not in new]
    if not others:
        return [id(item) in old for item in merged]
    gone = {id(item) for item in merged}
    said = Counter(canonical(item) for item in fresh if id(item) not in gone)
    kept = Counter(canonical(item) for item in history if id(item) not in gone)
    copies: list[bool] = []
    for item in reversed(others):  # of two that are alike, the later one is the new one
        text = canonical(item)
        known = said[text] == 0 and kept[text] > 0
        (kept if known else said)[text] -= 1
        copies.append(known)
    return [id(item) in old or (id(item) not in new and copies.pop()) for item in merged]


def _said(items: list[tuple[Item, bool]]) -> list[f.Said]:
    """Items as inputs, where those that are in the session already stand apart from those that are not."""
    groups: list[tuple[bool, list[Item]]] = []
    for item, old in items:
        if not groups or groups[-1][0] is not old:
            groups.append((old, []))
        groups[-1][1].append(item)
    return [f.Said(input_json(group), "session" if old else "user") for old, group in groups]


def accepted(items: list[Item]) -> list[Item]:
    """The items that a provider accepts as history: no call without its output, and no output without its call.

    What was reasoned on the way to something that is left out is left out with it.
    """
    kept = _paired(items) - unanswered(items)
    out: list[Item] = []
    thoughts: list[Item] = []
    for number, item in enumerate(items):
        if item.get("type") == "reasoning":
            follows = number > 0 and items[number - 1].get("type") == "reasoning"
            thoughts = [*thoughts, item] if follows else [item]
        elif number in kept:
            out += [item] if is_given(item) else [*thoughts, item]
            thoughts = []
    return out


def _paired(items: list[Item]) -> set[int]:
    """Which items to keep: all but calls and outputs that have no counterpart. Ids may be those of calls before."""
    kept: set[int] = set()
    waiting: dict[Any, list[int]] = {}
    """Where the calls of a turn stand that have no output yet, by their ids."""
    answered = False
    for number, item in enumerate(items):
        kind, call = item.get("type"), item.get("call_id")
        if kind == "function_call":
            if answered:  # another turn: what has no output yet gets none
                waiting, answered = {}, False
            waiting.setdefault(call, []).append(number)
        elif kind == "function_call_output":
            answered = True
            if waiting.get(call):
                kept |= {waiting[call].pop(0), number}
        else:
            kept.add(number)
            if is_given(item):
                waiting = {}
    return kept


def checked_session(session: Any) -> Session | None:
    """A session, or None; anything else is an error."""
    if session is None:
        return None
    if not isinstance(session, Session):
        raise UsageError(
            f"session must be a Session, with get_items, add_items, pop_item and clear_session, got {session!r:.80}."
        )
    name: Any = session.session_id
    if type(name) is not str or not name or not holds(name):
        raise UsageError(f"A session's session_id is a text that is not empty, got {name!r:.80}.")
    return session


def done_upto(run: Run) -> int:
    """How many entries of the talk can be kept: up to the last turn that is done, and is no output in the balance."""
    upto = run.saved
    for number in range(run.saved, len(run.entries)):
        entry = run.entries[number]
        if type(entry) is Turn:
            if entry.left or (run.concluding and number == _last_reply(run)):
                break
            upto = number + 1
        elif type(entry) is f.HandedOff and upto == number:
            upto = number + 1
    return upto


def _last_reply(run: Run) -> int:
    """Where the model's last reply stands."""
    numbers = reversed(range(len(run.entries)))
    return next(n for n in numbers if type(entry := run.entries[n]) is Turn and type(entry.reply) is f.Replied)


def unsaved(run: Run) -> bool:
    """Whether a session misses something of a run."""
    return done_upto(run) > run.saved


async def keep(driver: Driver, session: Session) -> None:
    """Write what is done and not in the session yet, and record that it is.

    Whoever stops waiting for it does not stop it: what a session made of half a call, nobody knows.
    """
    if driver.writing is not None:
        await asyncio.wait([driver.writing])  # begun by somebody who did not wait for its end
    if unsaved(driver.journal.run):
        await driver.own(new=True)  # or the session would have what a run said that there is not
        driver.writing = asyncio.create_task(_write(driver, session))
        await asyncio.shield(driver.writing)
    driver.writing = None


async def _write(driver: Driver, session: Session) -> None:
    run = driver.journal.run
    upto = done_upto(run)
    items = _items(run, run.saved, upto)
    if driver.kept is None:  # counted once a drive; from then on it goes along
        driver.kept = len(_items(run, 0, run.saved))
    if items:
        if isinstance(session, ExactSession):
            await session.write(run.id, driver.kept, items)
        else:
            await session.add_items(items)
    driver.kept += len(items)
    driver.journal.add(f.Saved(upto))


def _items(run: Run, first: int, last: int) -> list[Item]:
    entries = run.entries[first:last]
    return [
        item
        for entry in entries
        if type(entry) is not f.HandedOff and not (type(entry) is f.Said and entry.by == "session")
        for item in entry_items(entry)
    ]
