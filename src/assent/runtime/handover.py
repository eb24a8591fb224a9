"""Handing over: what the next agent hears, and the fact that it has the word."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..agent import Agent
from ..core import facts as f
from ..core.digest import described
from ..core.run import CallState, Run
from ..core.transcript import Item, handed_text, provider_id, said_items
from ..errors import UsageError
from ..handoff import Handoff, HandoffInputData
from ..item import HandoffOutputItem, RunItem
from .history import accepted
from .value import input_json
from .view import View, all_said

if TYPE_CHECKING:
    from .driver import Driver

Path = tuple[str, ...]


async def hand_over(driver: Driver, path: Path, state: CallState, tool: Handoff) -> str:
    """Let the other agent have the word; its name."""
    run, target = driver.run_at(path), tool.agent
    choose = tool.input_filter or driver.config.handoff_input_filter
    history = f.NOTHING
    if choose is not None:
        if run.began is not None and run.began.conversation:
            raise UsageError("An input_filter cannot change a talk that the provider keeps; leave one of them out.")
        before = _heard(driver.view(path), run, state, target)
        after = choose(HandoffInputData(*before, driver.ctx))
        after = await after if inspect.isawaitable(after) else after
        if not isinstance(after, HandoffInputData):
            raise UsageError(f"An input_filter must return HandoffInputData, and gave {described(after)}.")
        history = input_json(accepted(_items(after)))
    now = driver.journal.now()
    source = driver.cast.of(state).agent
    to = driver.cast.place(target)
    driver.journal.add(f.HandedOff(state.call.id, to, history, target.name, at=now, path=path))
    if driver.hooks is not None or target.hooks is not None:
        await driver.tell("handoff", source, target)
    return target.name


def _heard(
    view: View, run: Run, state: CallState, target: Agent[Any]
) -> tuple[str | tuple[Item, ...], tuple[RunItem, ...], tuple[RunItem, ...]]:
    """The talk as it is before a filter: what was given, what was generated, and what in the turn that hands over."""
    said = [item for each in all_said(run) for item in said_items(each)]
    turns = [entry for entry in run.entries if not isinstance(entry, f.Said | f.HandedOff)]
    before = [item for turn in turns if turn is not state.turn for item in view.turn_items(turn)]
    agent = view.agent(state.turn)
    raw = {
        "type": "function_call_output",
        "call_id": provider_id(state),
        "output": handed_text(target.name),
    }
    here = [*view.turn_items(state.turn), HandoffOutputItem(agent, raw, agent, target)]
    return tuple(said), tuple(before), tuple(here)


def _items(data: HandoffInputData) -> list[Item]:
    given = data.input_history
    history: list[Item] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    return history + [item.to_input_item() for item in (*data.pre_handoff_items, *data.new_items)]
