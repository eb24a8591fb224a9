"""Tables: whole and plain for programs, and for people fitted to their terminal, with colours where it has them.

People see short ids and how long ago something was; programs read whole ids and times, from a pipe or `--json`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from .write import put_table, spell_out, when

SHORTEST = 8
"""The fewest characters that are shown of the random part of an id."""
UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
STYLES = {
    "waiting": "yellow", "doubt": "yellow", "working": "cyan", "done": "green", "in force": "green", "on": "green",
    "approve": "green", "edit": "green", "respond": "green", "reject": "red", "failed": "red", "expired": "red",
    "asked": "yellow", "approved": "green", "rejected": "red", "returned": "green", "raised": "red", "high": "red",
}  # fmt: skip
"""The colours of words that stand alone in a cell."""
LEAST_TEXT = 12
"""The narrowest column in which a text is wrapped."""
STYLES_OF_KINDS = {"id": "bold", "time": "dim", "text": ""}


class TimeCell(NamedTuple):
    """A time of the store in a cell, and what is said about it."""

    at: int | None
    note: str = ""


class Column(NamedTuple):
    """A column of a table."""

    head: str
    kind: Literal["id", "word", "time", "text"] = "word"
    """Texts are wrapped where the terminal is narrow; ids, words and times are not."""
    least: int = 0
    """The width of the terminal below which the column is left out."""
    brief: str = ""
    """The head for people, if it is another."""


Cell = str | TimeCell


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table, for whoever reads stdout."""
    lines = [list(row) for row in rows]
    console = console_of_people()
    if console is None:
        heads = [column.head for column in columns]
        put_table([heads, *([_plain(cell) for cell in line] for line in lines)])
    else:
        _put_fitted(console, columns, lines)


def console_of_people() -> Any:
    """Return the console if stdout is a terminal and rich is there; else None."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(highlight=False, markup=False, emoji=False)


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return the shortest beginning of each id that no other of these has."""
    ordered = sorted(set(ids))
    found = {}
    for before, each, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        shared = max(_shared(each, before), _shared(each, after))
        mark = each.find("_") + 1
        found[each] = each[: max(mark + SHORTEST, shared + 1)]
    return found


def _shared(one: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def in_brief(at: int | None, now: float) -> str:
    """Return a time as people say it: "4 min ago", "in 2 h"."""
    if at is None:
        return "-"
    seconds = round(now - at / 1000)
    for unit, size in UNITS:
        if abs(seconds) >= size:
            count = abs(seconds) // size
            return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"
    return "now"


def _plain(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{when(cell.at)} ({cell.note})" if cell.note else when(cell.at)


def _put_fitted(console: Any, columns: Sequence[Column], lines: Sequence[Sequence[Cell]]) -> None:
    """Print a table that is as wide as the terminal. Nothing in a cell is markup."""
    from rich.text import Text

    now = time.time()
    kept = [place for place, column in enumerate(columns) if console.width >= column.least]
    short = [
        short_ids([str(line[place]) for line in lines]) if column.kind == "id" else {}
        for place, column in enumerate(columns)
    ]
    rows = []
    for line in lines:
        cells = []
        for place in kept:
            cell, kind = line[place], columns[place].kind
            text = _in_people_words(cell, now) if isinstance(cell, TimeCell) else short[place].get(cell, cell)
            style = STYLES.get(text, "") if kind == "word" else STYLES_OF_KINDS[kind]
            cells.append(Text(spell_out(text), style=style))
        rows.append(cells)
    shown = [columns[place] for place in kept]
    if console.width < _least_width(shown, rows):
        _put_records(console, shown, rows)
    else:
        _put_rows(console, shown, rows)


def _least_width(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> int:
    """Return the width of the narrowest terminal in which the rows of a table can be read."""
    least = 2 * (len(columns) - 1)
    for place, column in enumerate(columns):
        width: int = max([_head(column).cell_len, *(row[place].cell_len for row in rows)])
        least += min(width, LEAST_TEXT) if column.kind == "text" else width
    return least


def _head(column: Column) -> Any:
    from rich.text import Text

    return Text(column.brief or column.head)


def _put_rows(console: Any, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(_head(column), no_wrap=column.kind != "text", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _put_records(console: Any, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
    """Print each row as lines, one for each cell that is not empty: the terminal is too narrow for columns."""
    from rich.table import Table

    for row in rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(style="dim", overflow="fold")
        table.add_column(overflow="fold")
        for column, cell in zip(columns, row, strict=True):
            if cell.plain:
                table.add_row(_head(column), cell)
        console.print(table)
        console.print()


def _in_people_words(moment: TimeCell, now: float) -> str:
    said = in_brief(moment.at, now)
    return f"{said} ({moment.note})" if moment.note else said


def print_lines(lines: Iterable[str]) -> None:
    """Print lines about one thing; warnings, names and changes are coloured for people."""
    console = console_of_people()
    if console is None:
        for line in lines:
            print(spell_out(line))
        return
    from rich.text import Text

    for line in lines:
        text = Text(spell_out(line), style=_style_of(line))
        name, colon, _ = line.partition(": ")
        if colon and name.isidentifier():
            text.stylize("dim", 0, len(name) + 1)
        console.print(text, soft_wrap=True)


def _style_of(line: str) -> str:
    """Return the style of a line: of a warning, or of a line of a difference."""
    inner = line.strip()
    if inner.startswith("WARNING: "):
        return "bold red"
    if line.startswith("  + "):
        return "green"
    if line.startswith("  - "):
        return "red"
    return "bold" if line.startswith("preview: ") else ""
