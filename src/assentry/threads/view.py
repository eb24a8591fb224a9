"""The view of a thread: its messages and state updates, put together from the facts of its runs in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Raw

from ..core import facts as f
from ..core.run import Run, Turn
from ..core.transcript import GIVEN, Item, items_in, kept_items, output_item, output_text
from ..runtime.tool_pause import asked_at, kept_replies
from .message import Message
from .message_items import (
    entries_of,
    groups_of,
    messages_from,
    noted_reply,
    numbered_id,
    tool_message,
    turn_messages,
)
from .state import EMPTY, State, StateSchema, updates_in

Edit = list[Any]
"""One change of the messages: `["clear"]`, `["remove", id]`, `["put", id]` or `["set", id, items]`.

"put" moves a message to the end; "set" gives the message with this id another content."""


class StateView:
    """The messages and the state updates of consecutive runs."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.updates: list[State] = []
        """The updates of keys beside the messages, in order."""
        self.edited = False
        """True if a message was hidden, replaced or moved: the model gets the messages, not the recorded items."""

    def take(self, made: Sequence[Message], update: Raw) -> None:
        """Add the new messages of a fact, and apply its updates."""
        left = list(made)
        for each in updates_in(update):
            if edits := each.pop("messages", None):
                self.edited = True
                self.messages, left = edited_messages(self.messages, left, edits)
            if each:
                self.updates.append(each)
        self.messages += left

    def take_run(self, run: Run, saw: int | None = None, last: Turn | None = None) -> StateView:
        """Add one run; inputs that the model has not answered yet come last.

        With `saw`, only the first `saw` inputs of the run count. With a `last` turn, the messages end with that turn's
        reply, without the outputs of its calls.
        """
        id, unheard, asked = run.id, run.unheard if saw is None else run.news(saw), asked_at(run)
        upto = len(unheard if asked is None else run.news(asked))
        reply = None  # reserves the number of the reply under way, which precedes inputs given since
        for number, entry in enumerate([*entries_of(run), *unheard[:upto], reply, *unheard[upto:]]):
            if type(entry) is Turn:
                self._take_turn(entry, f"{id}.{number}", outputs=entry is not last)
                if entry is last:
                    break
            elif type(entry) is f.Said:
                self.take(messages_from(kept_items(entry), f"{id}.{number}"), entry.update)
        return self

    def _take_turn(self, turn: Turn, id: str, outputs: bool) -> None:
        update = turn.reply.update if type(turn.reply) is f.Replied else f.NOTHING
        if not update and not outputs:
            self.messages += turn_messages(turn, id, outputs=False)
            return
        self.take(turn_messages(turn, id, outputs=False), update)
        for state in turn.calls if outputs else ():
            made = tool_message(state, id)
            end = state.outcome
            self.take([] if made is None else [made], end.update if type(end) is f.Finished else f.NOTHING)

    def state(self, schema: StateSchema = EMPTY) -> State:
        """Return the state: the messages, and the values of the schema's keys."""
        return {"messages": list(self.messages), **(schema.values(self.updates) if schema.keys else {})}


def view_of(runs: Iterable[Run]) -> StateView:
    """Return the view of consecutive runs."""
    view = StateView()
    for run in runs:
        view.take_run(run)
    return view


def kept_messages(run: Run) -> list[Message]:
    """Return the model's reply that a hook after the model raised on; none if the run goes on without it.

    It is no part of the conversation yet: the hooks have not passed it, and its calls are not judged.
    """
    replies = kept_replies(run).get("replies")
    number = len(entries_of(run)) + len(run.unheard)
    return [noted_reply(replies[-1]["output"], f"{run.id}.{number}")] if replies else []


def messages_of(runs: Iterable[Run]) -> list[Message]:
    """Return the messages of consecutive runs."""
    return view_of(runs).messages


def edited_messages(
    known: Sequence[Message], made: Sequence[Message], edits: Iterable[Edit]
) -> tuple[list[Message], list[Message]]:
    """Return the messages after the edits, and those of the new messages that no edit has placed."""
    out, by_id = list(known), {each.id: each for each in (*known, *made)}
    placed: set[str | None] = set()
    for kind, *what in edits:
        if kind == "clear":
            out = []
            continue
        id = what[0]
        place = next((number for number, each in enumerate(out) if each.id == id), None)
        if kind == "set":
            by_id[id] = messages_from(what[1], id)[0]
            if place is not None:
                out[place] = by_id[id]
            continue
        if place is not None:
            del out[place]
        placed.add(id)
        if kind == "put" and id in by_id:
            out.append(by_id[id])
    return out, [each for each in made if each.id not in placed]


def is_forked_inside(run: Run) -> bool:
    """Return True if a run is a fork whose conversation ends with the outputs of calls: the agent has begun before."""
    if run.began is None or run.began.forked is None:
        return False
    said = next((each for each in (*run.entries, *run.unheard) if type(each) is f.Said), None)
    items = kept_items(said) if said is not None else []
    return bool(items) and items[-1].get("type") in GIVEN


def items_by_message(runs: Iterable[Run]) -> dict[str, list[Item]]:
    """Return the recorded items of each message by the message's id: reasoning and a provider's own items too."""
    out: dict[str, list[Item]] = {}
    for run in runs:
        for number, entry in enumerate([*entries_of(run), *run.unheard]):
            id = f"{run.id}.{number}"
            if type(entry) is f.Said:
                _take_groups(out, kept_items(entry), id)
            elif type(entry) is Turn and type(entry.reply) is f.Replied:
                _take_groups(out, items_in(entry.reply.items), id)
                for state in entry.calls:
                    if (text := output_text(state)) is not None:
                        out[f"{id}.{state.call.id}"] = [output_item(state, text)]
    return out


def _take_groups(out: dict[str, list[Item]], items: Sequence[Item], id: str) -> None:
    for number, (known, group) in enumerate(groups_of(items)):
        out[known.get("id") or numbered_id(id, number)] = group
