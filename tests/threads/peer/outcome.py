"""The outcome of a case: the same on both sides, a difference that is listed, a sentence of ours, or a fault."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.store.postgres import Server

from .known_differences import DIFFERENT, SENTENCES
from .program import everything, ours
from .worker import Ended, Worker

SAME, LISTED, SENTENCE, BARE, DIFFERS = "same", "listed difference", "sentence of ours", "BARE", "DIFFERS"
IDS = [
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b(?:lc_)?run-{1,2}ID(?:-\d+)?"), "ID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
]


class Outcome(NamedTuple):
    """The outcome of a case on both sides."""

    name: str
    kind: str
    theirs: Ended
    ours: Ended

    @property
    def good(self) -> bool:
        """True if nothing has to be done: the same, or different by design."""
        known = SENTENCES.get(self.name)
        by_design = self.kind == SENTENCE and known is not None and known.words in self.ours.text
        return self.kind in (SAME, LISTED) or by_design

    @property
    def why(self) -> str:
        """The first thing to look at, in one line."""
        if self.ours.error:
            return f"{self.ours.error}: {self.ours.text}".partition("\n")[0]
        theirs, mine = plain(self.theirs.printed).splitlines(), plain(self.ours.printed).splitlines()
        pairs = zip([*theirs, *[""] * len(mine)], [*mine, *[""] * len(theirs)], strict=False)
        return next((f"{one!r} / {other!r}" for one, other in pairs if one != other), "")


def needs_postgres(name: str) -> bool:
    return "POSTGRES" in everything()[name]


def compared(worker: Worker, name: str, postgres: Server | None) -> Outcome:
    """Run a case on both sides, each with a database of its own if it needs one."""
    text, server = everything()[name], postgres if needs_postgres(name) else None
    theirs = worker.run(text, "theirs", server.database() if server else "")
    mine = worker.run(ours(name, text), "ours", server.database() if server else "")
    return Outcome(name, _kind(name, theirs, mine), theirs, mine)


def _kind(name: str, theirs: Ended, mine: Ended) -> str:
    if mine.ours:
        return SENTENCE
    if mine.error or "BARE" in mine.printed:
        return BARE
    text, listed = plain(theirs.printed), DIFFERENT.get(name, [])
    for each in listed:
        if each.theirs not in text:  # a difference that is listed must be one
            return DIFFERS
        text = text.replace(each.theirs, each.ours)
    if text != plain(mine.printed):
        return DIFFERS
    return LISTED if listed else SAME


def plain(text: str) -> str:
    """Return a text with ids that are made up left out."""
    for pattern, stands in IDS:
        text = pattern.sub(stands, text)
    return text
