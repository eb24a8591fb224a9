"""`assentry migrate`: show or make the changes that bring programs of other libraries here."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from .write import put_text, say


async def migrate(options: Namespace) -> int:
    """Print the changes as a diff, or make them, and list what needs a person; return 1 if something does."""
    from ..migrate.project import plan_migration

    changes, notes = plan_migration([Path(each) for each in options.paths], native=options.native)
    written = 0
    for change in changes:
        if options.write:
            change.write()
            written += 1
        else:
            put_text(change.difference)
    for note in notes:
        say(str(note))
    say(_summary(len(changes), written, len(notes)))
    return 1 if notes else 0


def _summary(changes: int, written: int, notes: int) -> str:
    """Return what was done, and what is left."""
    files = f"{changes} file{'' if changes == 1 else 's'}"
    done = f"Changed {files}." if written else f"{files} would change; --write changes them." if changes else ""
    left = f"{notes} place{'' if notes == 1 else 's'} for a person to look at." if notes else ""
    return " ".join(each for each in (done, left) if each) or "Nothing to change."
