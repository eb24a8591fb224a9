"""Synchronization of a run with its session: load the history at the beginning, and write each turn when it is done.

A turn is written in one write, with the input before it, after all its calls have their outcomes. So the session holds
no call without its output, whatever stops the run and whoever else uses the session.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections import Counter
from typing import Any

from ..core import allowed
from ..core import facts as f
from ..core.digest import canonical
from ..core.run import Run, TranscriptEntry, Turn
from ..core.transcript import Item, as_function, entry_items, is_given, unanswered
from ..core.wording import described, holds
from ..errors import InvalidInput, SessionFailed, UsageError
from ..sessions.session import HEARD, HeardSession, OpeningSession, Session, SessionAround, compacts, writes_exactly
from .config import RunConfig
from .journal import Journal
from .value import input_json

log = logging.getLogger("assentry")

LIMIT = allowed.whole_number(0).or_none
PATIENCE = 5.0
"""The minimum timeout of a session in seconds when a run is stopped, even if `cancel_grace` is less."""


def patience(config: RunConfig) -> float:
    """Return the seconds that a run that is stopped waits for its session."""
    return max(PATIENCE, config.cancel_grace)


async def first_inputs(session: Session, input: str | list[Item], config: RunConfig) -> list[f.Said]:
    """Return the run's first inputs: the session's history and the new input, or the callback's merge of the two."""
    limit = _limit(session, config)
    loaded = await (session.get_items() if limit is None else session.get_items(limit=limit))
    history = accepted_items(_items_of(session, loaded))
    if isinstance(session, HeardSession):
        history = session.as_heard(history)
    merge = config.session_input_callback
    if merge is None:
        return [*_input_facts([(item, True) for item in history]), f.Said(input_json(input))]
    fresh: list[Item] = [{"role": "user", "content": input}] if isinstance(input, str) else input
    merged: Any = merge(list(history), list(fresh))
    merged = await merged if inspect.isawaitable(merged) else merged
    if not isinstance(merged, list) or not all(isinstance(item, dict) for item in merged):
        raise InvalidInput(f"session_input_callback must return a list of items (dicts), and gave {described(merged)}.")
    input_json(merged)  # refuse what cannot be recorded, before anything else is done with it
    fit = {id(item) for item in accepted_items(merged)}  # a callback may separate a call from its output
    known = zip(merged, _known(merged, history, fresh), strict=True)
    said = _input_facts([(item, old) for item, old in known if not old or id(item) in fit])
    if not said:
        raise InvalidInput("session_input_callback gave nothing for the run to hear.")
    return said


def _limit(session: Session, config: RunConfig) -> int | None:
    """Return the number of items to load: the run's limit, or that of the session's own settings."""
    if config.session_limit is not None:
        return config.session_limit
    found = getattr(getattr(session, "session_settings", None), "limit", None)
    allowed.check_option(type(session).__name__, "session_settings.limit", found, LIMIT, UsageError)
    return found


def _items_of(session: Session, items: Any) -> list[Item]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UsageError(
            f"get_items of session {session.session_id!r} must give a list of items (dicts), and gave "
            f"{described(items)}; try the session out with assentry.testing.check_session."
        )
    return items


def _known(merged: list[Item], history: list[Item], fresh: list[Item]) -> list[bool]:
    """Return, for each merged item, True if it is in the session already.

    Items are compared by value too, because a callback may copy them.
    """
    old, new = {id(item) for item in history}, {id(item) for item in fresh}
    others = [item for item in merged if id(item) not in old and id(item) not in new]
    if not others:
        return [id(item) in old for item in merged]
    gone = {id(item) for item in merged}
    said = Counter(canonical(item) for item in fresh if id(item) not in gone)
    kept = Counter(canonical(item) for item in history if id(item) not in gone)
    copies: list[bool] = []
    for item in reversed(others):  # of two equal items, the later one is the new one
        text = canonical(item)
        known = said[text] == 0 and kept[text] > 0
        (kept if known else said)[text] -= 1
        copies.append(known)
    return [id(item) in old or (id(item) not in new and copies.pop()) for item in merged]


def _input_facts(items: list[tuple[Item, bool]]) -> list[f.Said]:
    """Return items as inputs; items that are in the session already and new items are in separate inputs."""
    groups: list[tuple[bool, list[Item]]] = []
    for item, old in items:
        if not groups or groups[-1][0] is not old:
            groups.append((old, []))
        groups[-1][1].append(item)
    return [f.Said(input_json(group), "session" if old else "user") for old, group in groups]


def accepted_items(items: list[Item]) -> list[Item]:
    """Return the items that a provider accepts as history: no call without its output, no output without its call.

    Reasoning that led to an item that is left out is left out too.
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
    """Return the positions of all items but the calls and outputs that have no counterpart.

    A call may have the id of an earlier call.
    """
    kept: set[int] = set()
    waiting: dict[Any, list[int]] = {}
    """The positions of a turn's calls that have no output yet, by call id."""
    answered = False
    asked = [item.get("id") for item in items if item.get("type") == "mcp_approval_request"]
    for number, item in enumerate(items):
        kind, call = as_function(item).get("type"), item.get("call_id")
        if kind == "function_call":
            if answered:  # a new turn: earlier calls get no output any more
                waiting, answered = {}, False
            waiting.setdefault(call, []).append(number)
        elif kind == "function_call_output":
            answered = True
            if waiting.get(call):
                kept |= {waiting[call].pop(0), number}
        elif kind == "mcp_approval_response":  # an output of the same turn, which may have other outputs
            kept |= {number} if item.get("approval_request_id") in asked else set()
        else:
            kept.add(number)
            if is_given(item):
                waiting = {}
    return kept


def check_session_given(session: Any) -> None:
    """Raise `UsageError` unless this is a session with an id, or one that gets its id when it is opened."""
    if not isinstance(session, Session):
        raise UsageError(
            f"session must have get_items, add_items, pop_item and clear_session, got {described(session)}."
        )
    name: Any = session.session_id
    if name == "" and isinstance(session, OpeningSession):
        return
    if type(name) is not str or not name or not holds(name):
        raise UsageError(f"A session's session_id is a text that is not empty, got {described(name)}.")


def done_upto(run: Run, *, input_first: bool = False) -> int:
    """Return the number of entries that can be written to the session: up to the last turn that is done.

    A reply is not written while the run is being concluded with it. With `input_first`, inputs are written before
    their turn is done, also those that the model has not heard yet.
    """
    upto, known = run.saved, len(run.entries)
    for number in range(run.saved, known):
        entry = run.entries[number]
        if type(entry) is Turn:
            if entry.pending or (run.concluding and number == _last_reply(run)):
                break
            upto = number + 1
        elif is_handled(entry) or (upto == number and (input_first or type(entry) is f.HandedOff)):
            upto = number + 1
    return known + len(run.unheard) if input_first and upto >= known else upto


def is_handled(entry: TranscriptEntry) -> bool:
    """Return True for the message that an error handler's output has put into the conversation."""
    return type(entry) is f.Said and entry.by == f.ERROR_HANDLER


def _last_reply(run: Run) -> int:
    """Return the position of the model's last reply."""
    numbers = reversed(range(len(run.entries)))
    return next(n for n in numbers if type(entry := run.entries[n]) is Turn and type(entry.reply) is f.Replied)


def _reply_id(run: Run) -> str | None:
    """Return the id of the model's last reply."""
    reply = run.entries[_last_reply(run)].reply  # type: ignore[union-attr]
    return reply.id if type(reply) is f.Replied else None


def unsaved(run: Run, *, input_first: bool = False) -> bool:
    """Return True if finished turns, or inputs that are written first, are missing in the session."""
    return done_upto(run, input_first=input_first) > run.saved


class _ContextSession:
    """A session of a user's whose methods get the run's context, as their argument `wrapper`."""

    def __init__(self, session: Any, context: Any) -> None:
        self._session, self._context = session, context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def get_items(self, limit: int | None = None) -> list[Item]:
        given = {} if limit is None else {"limit": limit}
        items: list[Item] = await self._session.get_items(**given, wrapper=self._context)
        return items

    async def add_items(self, items: list[Item]) -> None:
        await self._session.add_items(items, wrapper=self._context)

    async def pop_item(self) -> Item | None:
        item: Item | None = await self._session.pop_item(wrapper=self._context)
        return item

    async def clear_session(self) -> None:
        await self._session.clear_session(wrapper=self._context)


def with_context(session: Session, context: Any) -> Session:
    """Return the session, or one that gives the run's context to its methods if all four of them take a `wrapper`."""
    if isinstance(session, SessionAround):
        inside = with_context(session.underlying_session, context)
        if inside is not session.underlying_session:
            session = copy.copy(session)
            session.underlying_session = inside
        return session
    methods = (session.get_items, session.add_items, session.pop_item, session.clear_session)
    if all(_takes_wrapper(method) for method in methods):
        return _ContextSession(session, context)
    return session


def _takes_wrapper(method: Any) -> bool:
    try:
        found = inspect.signature(method).parameters.get("wrapper")
    except (TypeError, ValueError):  # a method without a signature
        return False
    return found is not None and found.kind in (found.KEYWORD_ONLY, found.POSITIONAL_OR_KEYWORD)


class SessionSync:
    """The writing of one run's finished turns to its session, during one drive."""

    def __init__(self, session: Session, journal: Journal, *, input_first: bool = False) -> None:
        self.session = session
        self._input_first = input_first
        self._journal = journal
        self._written: int | None = None
        """The number of the run's items that are in the session; None before they are counted."""
        self.writing: asyncio.Task[None] | None = None
        """The write under way."""

    async def save(self) -> None:
        """Write finished turns that are not in the session yet, and record that they are written.

        Cancelling the caller does not cancel the write, because the result of an interrupted write would be unknown.
        """
        if self.writing is not None:
            await asyncio.wait([self.writing])  # begun by a caller that was cancelled
        if unsaved(self._journal.run, input_first=self._input_first):
            await self._journal.own(new=True)  # or the session would hold items of a run that the store does not have
            self.writing = asyncio.create_task(self._write())
            await asyncio.shield(self.writing)
        self.writing = None

    async def _write(self) -> None:
        run = self._journal.run
        upto = done_upto(run, input_first=self._input_first)
        items = _items(run, run.saved, upto)
        if self._written is None:  # counted once a drive, then kept up to date
            self._written = len(_items(run, 0, run.saved))
        if items:
            if writes_exactly(self.session):
                await self.session.write(run.id, self._written, items)
            else:
                await self.session.add_items(items)
        self._written += len(items)
        self._journal.add(f.Saved(upto))

    async def compact(self, *, kept: bool | None, filtered: bool) -> None:
        """Let a session that can make its history shorter do so, once the run is over and has written to it.

        `kept` is False if the provider does not store the replies; `filtered` is True if the model got something else
        than the conversation. The run is done, so a failure is logged.
        """
        run, session = self._journal.run, self.session
        if run.concluded is None or not self._written or not compacts(session):
            return
        given = {"response_id": _reply_id(run), "store": kept}
        filtered = filtered or any(type(entry) is f.HandedOff and entry.history for entry in run.entries)
        talk = (entry for entry in run.entries if type(entry) is not f.HandedOff and not filtered)
        before = HEARD.set([item for entry in talk for item in entry_items(entry)])
        try:
            await session.run_compaction({name: value for name, value in given.items() if value is not None})
        except Exception as error:
            log.warning("Session %r was not compacted: %s", session.session_id, str(error) or repr(error))
        finally:
            HEARD.reset(before)

    async def save_within(self, seconds: float) -> None:
        """Write like `save`; raise `SessionFailed` if the session takes longer than this."""
        try:
            async with asyncio.timeout(seconds):
                await self.save()
        except TimeoutError:
            raise SessionFailed(
                f"Session {self.session.session_id!r} did not accept the last items before the run was stopped. Resume "
                "the state to write it."
            ) from None

    def forget(self) -> None:
        """Count the written items anew, because the journal has changed."""
        self._written = None


def _items(run: Run, first: int, last: int) -> list[Item]:
    entries = [*run.entries, *run.unheard][first:last] if last > len(run.entries) else run.entries[first:last]
    return [
        item
        for entry in entries
        if type(entry) is not f.HandedOff and not (type(entry) is f.Said and entry.by == "session")
        for item in entry_items(entry)
    ]
