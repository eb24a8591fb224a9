"""The rows of a store that this process refused since it began, because they are not what was written.

Whoever reads a store leaves such a row out, or raises `UnreadableState`. It is noted here besides, so that people
can be told. Only rows that somebody read are here: `assentry db verify` looks at all of them.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Literal, get_args

from msgspec import Struct

DamageKind = Literal["question", "webhook", "message", "other"]
DAMAGE_KINDS: tuple[DamageKind, ...] = get_args(DamageKind)

MOST_NOTED = 100
"""The most refused rows that are named; further ones are only counted."""
LONGEST_NOTE = 500


class RefusedRow(Struct, frozen=True):
    """A row that was refused: its kind, what is said of it, and the time of its first refusal."""

    kind: DamageKind
    said: str
    at: int


class DamageNotes:
    """The refused rows of a store, each once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, RefusedRow] = {}
        self.count = 0
        """The number of refused rows that were noted and not forgotten since."""
        self.total: Counter[DamageKind] = Counter()
        """The number of refused rows since the process began, by kind."""

    def note(self, kind: DamageKind, said: str, at: int) -> None:
        """Note a refused row, unless it was noted before."""
        said = said[:LONGEST_NOTE]
        with self._lock:
            if said in self._rows:
                return
            if len(self._rows) < MOST_NOTED:
                self._rows[said] = RefusedRow(kind, said, at)
            self.count += 1
            self.total[kind] += 1

    @property
    def rows(self) -> list[RefusedRow]:
        """The refused rows, the first one first."""
        with self._lock:
            return list(self._rows.values())

    def forget(self) -> None:
        """Forget all rows, after a repair. One that is still damaged is noted again when somebody reads it."""
        with self._lock:
            self._rows.clear()
            self.count = 0


_noted: weakref.WeakKeyDictionary[object, DamageNotes] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def damage_of(store: object) -> DamageNotes:
    """Return the notes of a store."""
    with _making:
        return _noted.setdefault(store, DamageNotes())
