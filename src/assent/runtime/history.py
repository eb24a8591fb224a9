"""A run's talk and the session it is kept in: what is loaded at the beginning, what is written as turns are done.

A turn is written when all its calls have their outcomes, with what was said before it, at one go: so whatever
stops a run, and whoever else uses the session, it holds no call without its output.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..core import facts as f
from ..core.digest import canonical, described
from ..core.run import Run, Turn
from ..core.transcript import Item, entry_items
from ..errors import InvalidInput, UsageError
from ..sessions.session import ExactSession, Session
from .value import input_json

if TYPE_CHECKING:
    from .config import RunConfig
    from .driver import Driver


async def heard(session: Session, input: str | list[Item], config: RunConfig) -> list[f.Said]:
    """What a run is to hear: the session's history and the new input, or what the callback makes of the two."""
    history = accepted(await session.get_items(config.session_limit))
    fresh: list[Item] = [{"role": "user", "content": input}] if isinstance(input, str) else input
    merge = config.session_input_callback
    if merge is None:
        return [*_said([(item, True) for item in history]), f.Said(input_json(input))]
    merged = merge(list(history), list(fresh))
    merged = await merged if inspect.isawaitable(merged) else merged
    if not isinstance(merged, list):
        raise InvalidInput(f"session_input_callback must return a list of items, and gave {described(merged)}.")
    known, new = {id(item) for item in history}, {id(item) for item in fresh}
    kept = {canonical(item) for item in history}  # a callback may copy what it is given
    return _said([(each, id(each) in known or (id(each) not in new and canonical(each) in kept)) for each in merged])


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

    What was reasoned on the way to a call that is left out is left out with it.
    """
    made = {item.get("call_id") for item in items if item.get("type") == "function_call"}
    given = {item.get("call_id") for item in items if item.get("type") == "function_call_output"}
    out: list[Item] = []
    called: set[Any] = set()
    for item in items:
        kind, id = item.get("type"), item.get("call_id")
        if kind == "function_call":
            if id not in given or id in called:
                while out and out[-1].get("type") == "reasoning":
                    out.pop()
                continue
            called.add(id)
        elif kind == "function_call_output" and (id not in made or id not in called):
            continue
        out.append(item)
    while out and out[-1].get("type") == "reasoning":
        out.pop()
    return out


def checked_session(session: Any) -> Session | None:
    """A session, or None; anything else is an error."""
    if session is None or isinstance(session, Session):
        return session
    raise UsageError(
        f"session must be a Session, with get_items, add_items, pop_item and clear_session, got {session!r:.80}."
    )


def done_upto(run: Run) -> int:
    """How many entries of the talk can be kept: up to the last turn that is done, and is no output in the balance."""
    upto = run.saved
    pending = run.concluding and not run.open
    for number in range(run.saved, len(run.entries)):
        entry = run.entries[number]
        if type(entry) is Turn:
            if entry.left or (pending and number == _last_turn(run)):
                break
            upto = number + 1
        elif type(entry) is f.HandedOff and upto == number:
            upto = number + 1
    return upto


def _last_turn(run: Run) -> int:
    return next(number for number in reversed(range(len(run.entries))) if type(run.entries[number]) is Turn)


def unsaved(run: Run) -> bool:
    """Whether a session misses something of a run."""
    return done_upto(run) > run.saved


async def keep(driver: Driver, session: Session) -> None:
    """Write what is done and not in the session yet, and record that it is."""
    run = driver.journal.run
    upto = done_upto(run)
    if upto <= run.saved:
        return
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
