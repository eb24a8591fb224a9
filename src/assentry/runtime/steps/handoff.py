"""The handoff: apply the input filter, and record that the next agent is the active agent."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from ...core import facts as f
from ...core.run import CallState, Run, TranscriptEntry, Turn
from ...core.transcript import Item, entry_items, handed_text, output_item, ran_text, text_or_items
from ...core.wording import described
from ...definitions.agent import Agent
from ...definitions.handoff import Handoff, HandoffInputData, InputFilter
from ...definitions.item import HandoffOutputItem, RunItem
from ...errors import InvalidInput, UsageError
from ..scope import Scope
from ..session_sync import accepted_items
from ..value import input_json
from ..view import View

Path = tuple[str, ...]
Heard = tuple[str | tuple[Item, ...], tuple[RunItem, ...], tuple[RunItem, ...]]


class ChosenHistory(NamedTuple):
    """The conversation that an input filter chose; empty without a filter."""

    items: Raw = f.NOTHING
    split: tuple[int, int] | None = None
    """The numbers of items that are input, and that are input or of earlier turns."""


def hand_over(scope: Scope, path: Path, state: CallState, tool: Handoff, chosen: ChosenHistory) -> str:
    """Record that the other agent is the active agent, and return its name."""
    journal = scope.journal
    target: Agent[Any] = tool.agent
    to = scope.graph.place(target)
    journal.add(f.HandedOff(state.call.id, to, chosen.items, target.name, chosen.split, at=journal.now(), path=path))
    return target.name


def check_filter(scope: Scope, path: Path, tool: Handoff) -> None:
    """Raise `UsageError` if a filter is set and the provider keeps the conversation, which no filter can change."""
    run = scope.run_at(path)
    began = run.began
    if _filter(scope, tool) is not None and began is not None and (began.conversation or run.live):
        raise UsageError("An input_filter cannot change a talk that the provider keeps; leave one of them out.")


async def filter_history(scope: Scope, path: Path, state: CallState, tool: Handoff) -> ChosenHistory:
    """Return the conversation that the input filter chose for the next agent; empty without a filter."""
    choose = _filter(scope, tool)
    if choose is None:
        return ChosenHistory()
    run = scope.run_at(path)
    chosen = choose(HandoffInputData(*_handoff_data(scope.view(path), run, state, tool.agent), scope.ctx))
    parts = _items(await chosen if inspect.isawaitable(chosen) else chosen)
    items = accepted_items([item for part in parts for item in part])
    if not items and not run.unheard:
        raise UsageError("The input_filter left nothing that the next agent could hear.")
    try:
        given, before = ({id(item) for item in part} for part in parts[:2])
        first = sum(id(item) in given for item in items)
        return ChosenHistory(input_json(items), (first, first + sum(id(item) in before for item in items)))
    except InvalidInput as error:
        raise InvalidInput(f"What the input_filter gave cannot be heard: {error}") from None


def _filter(scope: Scope, tool: Handoff) -> InputFilter | None:
    return tool.filter_for(scope.config)


def _handoff_data(view: View, run: Run, state: CallState, target: Agent[Any]) -> Heard:
    """Return the conversation of the agent that hands over: the input, the items since, and the items of this turn.

    Items that an earlier filter took out are not included.
    """
    entries = run.entries
    first = max((n for n, entry in enumerate(entries) if type(entry) is f.HandedOff and entry.history), default=0)
    since = max((n for n, entry in enumerate(entries) if n >= first and _is_input(entry)), default=first - 1) + 1
    heard = entries[first:since]
    text = _as_given(heard) if view.graph is not None and view.graph.root.gives_text else None
    given = text if text is not None else tuple(item for entry in heard for item in entry_items(entry))
    turns = [entry for entry in entries[since:] if type(entry) is Turn and entry is not state.turn]
    agent = view.agent(state.turn)
    words = ran_text(state, handed_text(target.name))
    over = HandoffOutputItem(agent, output_item(state, words), agent, target)
    before = tuple(item for turn in turns for item in view.turn_items(turn))
    outputs = (over if each is state else view.output_of(each) for each in state.turn.calls)
    here = [*view.reply_items(state.turn), *(output for output in outputs if output is not None)]
    return given, before, tuple(here)


def _as_given(entries: Sequence[TranscriptEntry]) -> str | None:
    """Return the run's input if it is one text; None if it is more than that."""
    said = entries[0] if len(entries) == 1 else None
    text = text_or_items(said) if type(said) is f.Said and said.by == "user" else None
    return text if isinstance(text, str) else None


def _is_input(entry: TranscriptEntry) -> bool:
    """Return True if an entry is not from the model: input, a filtered history, or a proposal of the runtime."""
    if type(entry) is f.HandedOff:
        return bool(entry.history)
    return type(entry) is f.Said or (type(entry) is Turn and type(entry.reply) is f.Proposed)


def _items(data: Any) -> tuple[list[Item], ...]:
    """Return the items that a filter gave: the input, those of earlier turns, and those of the handoff's turn."""
    if not isinstance(data, HandoffInputData):
        raise UsageError(f"An input_filter must return HandoffInputData, and gave {described(data)}.")
    last = data.new_items if data.input_items is None else data.input_items
    given, made = data.input_history, (data.pre_handoff_items, last)
    if not isinstance(given, str) and not _all(given, dict):
        raise UsageError(f"An input_filter must give an input_history of text or items, and gave {described(given)}.")
    for items in made:
        if not _all(items, RunItem):
            raise UsageError(f"An input_filter must give run items, and gave {described(items)}.")
    history: list[Item] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    return history, *([item.to_input_item() for item in items] for items in made)


def _all(items: Any, kind: type[Any]) -> bool:
    return isinstance(items, list | tuple) and all(isinstance(item, kind) for item in items)
