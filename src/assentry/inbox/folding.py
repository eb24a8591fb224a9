"""Long texts as HTML: the first rows, and the rest behind a line that says how much it is. Nothing scrolls by itself.

Runs of blank lines are folded too, so that no text can be pushed out of sight. Everything stays in the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from markupsafe import Markup, escape
from msgspec import Struct

from ..definitions.preview import diff_lines, split_lines
from .difference import ChangedLine
from .escaping import escaped, has_many_marks, spell_out_hidden, too_many_marks
from .language import local_number, translate, translate_count

ROWS = 30
"""The rows of a text that are shown at once."""
SPARE = 5
"""The rows by which a text may be longer before it is folded."""
WIDTH = 90
"""The characters of a row, about; a longer line counts as several rows."""
BLANK = 3
"""The fewest blank lines in a row that are folded."""


SIGNS = {"+": "+ ", "-": "- ", "@": "⋯ "}
"""The signs of the lines of a difference."""
MOST_ROWS = 2000
"""The rows that are laid out one by one. What follows is one text, with its signs."""


class PageRow(Struct, frozen=True):
    """A line of a text on the page."""

    text: str
    kind: str = ""
    """The class of the row: "a" for added, "d" for removed, "h" for a head."""
    sign: str = ""
    """A mark before the text that is not part of it."""
    marks: tuple[tuple[int, int], ...] = ()
    """The places in the text that are marked: the words in which a line differs from another."""

    @property
    def is_blank(self) -> bool:
        """True if the line shows nothing."""
        return not self.text.strip(" \t")


class BlankRun(Struct, frozen=True):
    """Blank lines that are shown as one line until somebody opens it."""

    rows: list[PageRow]


Piece = PageRow | BlankRun


def folded_text(text: str) -> Markup:
    """Return a text as HTML with its line breaks, folded if it is long."""
    if len(text) <= WIDTH and text.isascii() and text.isprintable():
        return escape(text)
    lines = split_lines(text)
    return _folded([PageRow(line) for line in lines[:MOST_ROWS]], lines[MOST_ROWS:], has_many_marks(text))


def folded_diff(text: str) -> Markup:
    """Return a unified diff as HTML, row by row."""
    kinds = {"added": "a", "removed": "d", "head": "h", "same": ""}
    lines = split_lines(text)
    rows = [PageRow(line.text, kinds[line.kind], line.sign) for line in diff_lines(lines[:MOST_ROWS])]
    return _folded(rows, lines[MOST_ROWS:], has_many_marks(text))


def folded_changes(changes: Iterable[ChangedLine]) -> Markup:
    """Return a difference as HTML, row by row, with its changed words marked."""
    kinds = {"+": "a", "-": "d", "@": "h"}
    rows = [PageRow(line.text, kinds.get(line.sign, ""), SIGNS.get(line.sign, "  "), line.marks) for line in changes]
    return _folded_rows(rows)


def folded_commands(commands: Iterable[str]) -> Markup:
    """Return commands as HTML as a shell shows them: further lines of the same command have another mark."""
    return _folded_rows(
        [
            PageRow(line, "", "> " if number else "$ ")
            for command in commands
            for number, line in enumerate(split_lines(command))
        ]
    )


def _folded_rows(rows: list[PageRow]) -> Markup:
    far = [row.sign + row.text for row in rows[MOST_ROWS:]]
    return _folded(rows[:MOST_ROWS], far, has_many_marks("\n".join(row.text for row in rows)))


def _folded(rows: list[PageRow], far: list[str], many: bool) -> Markup:
    """Return rows, and the lines that follow them, as HTML; with `many` hidden characters, as JSON escapes."""
    pieces, made = list(_pieces(rows)), Markup("")
    if many:
        made += too_many_marks()
    short = not far and sum(map(_height, pieces)) <= ROWS + SPARE
    head, cut, tail = (pieces, None, []) if short else _split(pieces)
    made += _html(head, many)
    if cut is None and not tail and not far:
        return made
    rest = _html([*([cut] if cut is not None else []), *tail], many)
    if far:
        rest += Markup('<div class="r">{}</div>').format(_shown("\n".join(far), many))
    return made + Markup('<details class="fold"><summary>{}</summary>{}</details>').format(_more(cut, tail, far), rest)


def _pieces(rows: list[PageRow]) -> Iterator[Piece]:
    """Yield the rows, with runs of blank ones folded."""
    for (blank, _, _), each in groupby(rows, key=lambda row: (row.is_blank, row.kind, row.sign)):
        run = list(each)
        if blank and len(run) >= BLANK:
            yield BlankRun(run)
        else:
            yield from run


def _height(piece: Piece) -> int:
    """Return the number of rows that a piece takes on the page, about."""
    return 1 if isinstance(piece, BlankRun) else 1 + len(piece.text) // WIDTH


def _split(pieces: list[Piece]) -> tuple[list[Piece], PageRow | None, list[Piece]]:
    """Return the pieces that are shown at once, the rest of a long line that is cut in two, and all other pieces."""
    left = ROWS
    for number, piece in enumerate(pieces):
        if _height(piece) > left:
            if isinstance(piece, BlankRun) or left == 0:
                return pieces[:number], None, pieces[number:]
            at = left * WIDTH
            one, rest = PageRow(piece.text[:at], piece.kind, piece.sign), piece.text[at:]
            return [*pieces[:number], one], PageRow(rest, piece.kind) if rest else None, pieces[number + 1 :]
        left -= _height(piece)
    return pieces, None, []


def _more(cut: PageRow | None, tail: list[Piece], far: list[str]) -> str:
    """Return what is folded away, in words: "42 more lines below: 30 added, 2 removed"."""
    rows = [row for piece in tail for row in (piece.rows if isinstance(piece, BlankRun) else [piece])]
    line = "" if cut is None else _more_characters(len(cut.text))
    count = len(rows) + len(far)
    lines = _more_lines(count, [] if far else [row.kind for row in rows]) if count else ""
    return translate("{one} and {other}", one=line, other=lines) if line and lines else line or lines


def _more_characters(count: int) -> str:
    return translate_count("{n} more character of this line", "{n} more characters of this line", count)


def _more_lines(count: int, kinds: list[str]) -> str:
    added, removed = kinds.count("a"), kinds.count("d")
    which = [translate("{n} added", n=local_number(added))] if added else []
    which += [translate("{n} removed", n=local_number(removed))] if removed else []
    if not which:
        return translate_count("{n} more line below", "{n} more lines below", count)
    told = ", ".join(which)
    return translate_count("{n} more line below: {kinds}", "{n} more lines below: {kinds}", count, kinds=told)


def _html(pieces: list[Piece], many: bool) -> Markup:
    made: list[Markup] = []
    rows: list[PageRow] = []
    for piece in pieces:
        if isinstance(piece, PageRow):
            rows.append(piece)
        else:
            made += [_rows(rows, many), _blank(piece)]
            rows = []
    return Markup("").join([*made, _rows(rows, many)])


def _blank(run: BlankRun) -> Markup:
    kind, count = run.rows[0].kind, local_number(len(run.rows))
    if kind == "a":
        words = translate("{n} added blank lines", n=count)
    elif kind == "d":
        words = translate("{n} removed blank lines", n=count)
    else:
        words = translate("{n} blank lines", n=count)
    found = Markup('<details class="fold{}"><summary>{}</summary>{}</details>')
    return found.format(f" {kind}" if kind else "", words, _rows(run.rows, False))


def _rows(rows: list[PageRow], many: bool) -> Markup:
    """Return rows as HTML: one element each if they have marks, else one text."""
    if not any(row.kind or row.sign for row in rows):
        return _shown("\n".join(row.text for row in rows), many)
    return Markup("").join([_row(row, many) for row in rows])


ELEMENTS = {"a": "ins", "d": "del"}
"""The elements of added and removed rows, so that they are not told apart by colour alone."""


def _row(row: PageRow, many: bool) -> Markup:
    line = Markup('<{0} class="{1}"><span class="sg">{2}</span>{3}</{0}>')
    words = _shown(row.text, many) if many or not row.marks else _with_marks(row)
    return line.format(ELEMENTS.get(row.kind, "div"), f"r {row.kind}".rstrip(), row.sign, words)


def _with_marks(row: PageRow) -> Markup:
    """Return the text of a row with its changed words marked."""
    made, at = Markup(""), 0
    for start, end in row.marks:
        changed = Markup("<mark>{}</mark>").format(_shown(row.text[start:end], False))
        made, at = made + _shown(row.text[at:start], False) + changed, end
    return made + _shown(row.text[at:], False)


def _shown(text: str, many: bool) -> Markup:
    return escape(escaped(text)) if many else spell_out_hidden(text, lines=True)
