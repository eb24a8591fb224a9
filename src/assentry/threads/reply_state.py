"""The state of a thread while one reply is made: hooks read it and update it, and the reply records the updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Raw

from ..core import facts as f
from ..errors import UsageError
from ..runtime.journal import Journal
from ..runtime.value import output_json
from .message import REMOVE_ALL_MESSAGES, Message, RemoveMessage
from .message_items import alike, items_of, numbered_id
from .state import State, StateSchema
from .view import Edit, StateView

UNTRACKED: WeakKeyDictionary[Journal, State] = WeakKeyDictionary()
"""The values of keys that are never recorded, while their run is driven."""


class ReplyState:
    """The messages and values that hooks see, and what they changed."""

    def __init__(self, view: StateView, schema: StateSchema, id: str, journal: Journal) -> None:
        self._schema, self._id, self._journal = schema, id, journal
        self._before = view.updates
        self._updates: list[State] = []
        self._edits: list[Edit] = []
        self._edited = view.edited
        self.heard = view.messages
        """The messages before this reply."""
        self.messages = list(view.messages)
        """The messages now."""
        self.made: list[Message] = []
        """The new messages of this reply, from hooks and from the model."""

    @property
    def edited(self) -> bool:
        """True if a recorded message was hidden, replaced or moved, now or earlier."""
        return self._edited or bool(self._edits)

    def values(self) -> State:
        """Return the values of the keys beside the messages."""
        if not self._schema.keys:
            return {}
        return {**self._schema.values([*self._before, *self._updates]), **UNTRACKED.get(self._journal, {})}

    def put(self, whose: str, update: Mapping[str, Any]) -> None:
        """Take the keys of an update, beside the messages."""
        recorded = self._schema.check_update(whose, update)
        if recorded:
            self._updates.append(recorded)
        keep_untracked(self._journal, self._schema, update)

    def update(self) -> Raw:
        """Return what the reply records of the state."""
        every: list[Any] = [{"messages": self._edits}] if self._edits else []
        every += self._updates
        return output_json(every)[0] if every else f.NOTHING

    def known(self, id: str | None) -> Message | None:
        """Return the recorded message with this id as it was before this reply."""
        return next((each for each in self.heard if each.id == id), None) if id else None

    # -- messages ----------------------------------------------------------------------------------

    def add(self, added: Sequence[Message], raw: Mapping[str, Any]) -> None:
        """Add messages. A message with a known id replaces that message, and a `RemoveMessage` hides one.

        `raw` has the ids of the model's own messages of this reply.
        """
        cleared = [n for n, each in enumerate(added) if _removes_all(each)]
        if cleared:
            self.messages, self.made = [], []
            self._edits.append(["clear"])
            added = added[cleared[-1] + 1 :]
        taken = {*raw, *(each.id for each in [*self.made, *added])}
        for new in added:
            if type(new) is RemoveMessage:
                self._remove(new.id)
            elif not self._replaces(new, raw, moved=bool(cleared)):
                free = (numbered_id(self._id, number) for number in count(len(self.made)))
                new.id = new.id or next(id for id in free if id not in taken)
                taken.add(new.id)
                self.made.append(new)
                self.messages.append(new)
                if cleared:
                    self._edits.append(["put", new.id])

    def _remove(self, id: str | None) -> None:
        if not any(each.id == id for each in self.messages):
            raise UsageError(f"A RemoveMessage names the message {id!r}, which the thread does not have.")
        if any(each.id == id for each in self.made):
            self.made = [each for each in self.made if each.id != id]
        else:
            self._edits.append(["remove", id])
        self.messages = [each for each in self.messages if each.id != id]

    def _replaces(self, new: Message, raw: Mapping[str, Any], moved: bool) -> bool:
        """Put a message in the place of the one with its id; return False if there is none."""
        for made in self.made:
            if new.id is not None and made.id == new.id:
                self.replace(made, new)
                return True
        named = new.id is not None and new.id not in raw  # a hook chose the id; it is not from this reply
        old = self.known(new.id) if named else None
        if old is None:
            return False
        if not alike(old, new):
            self._edits.append(["set", new.id, items_of(new)])
        else:
            new = old
        if moved:
            self._edits.append(["put", new.id])
            self.messages.append(new)
        else:
            self.messages = [new if each.id == new.id else each for each in self.messages]
        return True

    def replace(self, old: Message, new: Message) -> None:
        """Put a new message of this reply in the place of another."""
        self.made = [new if each is old else each for each in self.made]
        self.messages = [new if each is old else each for each in self.messages]


def keep_untracked(journal: Journal, schema: StateSchema, update: Mapping[str, Any]) -> None:
    """Keep the values of an update that are never recorded, while the run is driven."""
    live = {name: value for name, value in update.items() if name in schema.keys and not schema.keys[name].tracked}
    if live:
        UNTRACKED.setdefault(journal, {}).update(live)


def _removes_all(message: Message) -> bool:
    return type(message) is RemoveMessage and message.id == REMOVE_ALL_MESSAGES
