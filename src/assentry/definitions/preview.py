"""Previews: the trusted side's own account of a call's effect, made before the call runs.

A preview is data, in blocks. Rendering belongs to whoever shows it: the command line, an inbox.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from ..core.digest import BadJSON, canonical, plain, same
from ..core.wording import described, holds
from ..errors import InvalidDefinition, UnreadableState

MAX_BYTES = 1_000_000
"""The largest preview, as JSON. A larger one has failed: nothing of it is shown in part."""

Scalar = str | int | float | bool | None

BREAKS = {
    "\r": "carriage return",
    "\v": "line tabulation",
    "\f": "form feed",
    "\x1c": "file separator",
    "\x1d": "group separator",
    "\x1e": "record separator",
    "\x85": "next line",
    "\u2028": "line separator",
    "\u2029": "paragraph separator",
}
"""The characters, besides the line feed, at which other programs begin a new line. To Assentry they are characters."""
_HUNK = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")


class Block(Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True):
    """One part of a preview."""


class Sentence(Block, frozen=True):
    """A sentence; a warning stands out."""

    text: str
    warning: bool = False


class Text(Block, frozen=True):
    """A text to be shown as it is, with its line breaks."""

    text: str
    title: str | None = None


class Diff(Block, frozen=True):
    """The change of a file or another text, as a unified diff."""

    path: str
    text: str
    change: Literal["create", "update", "delete", "move"] = "update"
    to: str | None = None
    """The new path, if the file is moved."""

    @classmethod
    def between(cls, path: str, before: str | None, after: str | None, to: str | None = None) -> Diff:
        """Return the difference between two texts; None is a file that is not there."""
        one, two = (re.findall(r"[^\n]*\n|[^\n]+", text or "") for text in (before, after))
        old, new = (name.replace("\n", "\\n") for name in (f"a/{path}", f"b/{to or path}"))
        import difflib  # few programs show a difference

        lines = list(difflib.unified_diff(one, two, old, new))
        text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
        kind: Any = "create" if before is None else "delete" if after is None else "move" if to else "update"
        return cls(path, text, kind, to)


class SQL(Block, frozen=True):
    """A statement that would be sent to a database."""

    statement: str
    params: Any = None
    rows: int | None = None
    """The number of rows that the statement would change, if it is known."""
    dialect: str | None = None


class Money(Block, frozen=True):
    """An amount of money that would move. The amount is text, so that it stays exact."""

    amount: str
    currency: str
    label: str | None = None

    def __post_init__(self) -> None:
        given: Any = self.amount
        if isinstance(given, int | Decimal) and type(given) is not bool:
            force_setattr(self, "amount", str(given))


class Mail(Block, frozen=True):
    """A mail that would be sent."""

    to: tuple[str, ...]
    subject: str
    body: str
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    sender: str | None = None
    attachments: tuple[str, ...] = ()


class Shell(Block, frozen=True):
    """Commands that would run, in this directory."""

    commands: tuple[str, ...]
    cwd: str | None = None


class Table(Block, frozen=True):
    """Rows of values under named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    caption: str | None = None


AnyBlock = Sentence | Text | Diff | SQL | Money | Mail | Shell | Table


class Preview(Struct, frozen=True, omit_defaults=True):
    """A call's effect before it happens: one sentence, blocks with the details, and what must still hold later."""

    sentence: str = ""
    """The effect in one sentence. Lists show it first."""
    blocks: tuple[AnyBlock, ...] = ()
    preconditions: dict[str, Any] = {}
    """Values that the approval relies on: a hash, a version, a row count. They are compared before the call runs."""
    failed: str | None = None
    """The reason why there is no preview; None if there is one."""


def warnings_first(blocks: Iterable[AnyBlock]) -> list[AnyBlock]:
    """Return blocks in the order in which they are shown: warnings stand above everything that can be long."""
    return sorted(blocks, key=lambda block: not (isinstance(block, Sentence) and block.warning))


def split_lines(text: str) -> list[str]:
    """Return the lines of a text as a person is shown them. Only a line feed ends a line."""
    return text.removesuffix("\n").split("\n") if text else []


class DiffLine(Struct, frozen=True):
    """A line of a unified diff."""

    kind: Literal["head", "same", "added", "removed"]
    sign: str
    text: str
    """The line without its sign."""


def diff_lines(lines: list[str]) -> list[DiffLine]:
    """Read the lines of a unified diff. The counts of its hunks tell a head from a line that looks like one."""
    made: list[DiffLine] = []
    old = new = 0
    for number, line in enumerate(lines):
        sign = line[:1] or " "
        if (old > 0 or new > 0) and sign in " +-":  # whatever it looks like
            old, new = old - (sign != "+"), new - (sign != "-")
        elif hunk := _HUNK.match(line):
            old, new = (1 if count is None else int(count) for count in hunk.groups())
            sign = ""
        elif sign == "\\":  # no newline at the end of the file
            sign = ""
        else:
            old = new = 0
            sign = "" if _is_head(lines, number) else sign
        made.append(_diff_line(sign, line))
    return made


def _is_head(lines: list[str], number: int) -> bool:
    """Return True for the names of the two files, which stand right above a hunk, and for what a tool put there."""
    line = lines[number]
    if not line.startswith(("+", "-")):
        return True
    first = number if line.startswith("--- ") else number - 1
    pair = lines[first : first + 3] if first >= 0 else []
    return len(pair) == 3 and pair[0].startswith("--- ") and pair[1].startswith("+++ ") and bool(_HUNK.match(pair[2]))


def _diff_line(sign: str, line: str) -> DiffLine:
    match sign:
        case "+":
            return DiffLine("added", sign, line[1:])
        case "-":
            return DiffLine("removed", sign, line[1:])
        case " ":
            return DiffLine("same", sign, line[1:])
    return DiffLine("head", "", line)


def break_warning(texts: Iterable[str]) -> list[AnyBlock]:
    """Return a warning if one of these lines holds a character at which other programs begin a new line."""
    found = {char for text in texts if not text.isascii() or not text.isprintable() for char in text if char in BREAKS}
    if not found:
        return []
    names = ", ".join(f"U+{ord(char):04X} {name}" for char, name in BREAKS.items() if char in found)
    return [
        Sentence(f"Added lines hold {names}. Many programs begin a new line there; what follows is added too.", True)
    ]


_encode = msgspec.json.encode


@functools.cache
def _decoder() -> msgspec.json.Decoder[Preview]:
    return msgspec.json.Decoder(Preview)


def preview_json(given: Any) -> Raw:
    """Return what a preview function gave as JSON; raise `InvalidDefinition` if it is no preview."""
    made = Preview(given) if type(given) is str else given
    if not isinstance(made, Preview) or made.failed is not None:
        raise InvalidDefinition(f"it gave {described(given)}, which is neither text nor a Preview")
    try:
        whole = plain(msgspec.to_builtins(made))
        json = canonical(whole)
        checked = _decoder().decode(json)
    except (BadJSON, msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InvalidDefinition(f"its preview cannot be recorded: {error}") from None
    if not checked.sentence.strip() or "\n" in checked.sentence:
        raise InvalidDefinition("its preview needs a sentence on one line")
    if any(type(block) is Table and len({len(block.columns), *map(len, block.rows)}) > 1 for block in checked.blocks):
        raise InvalidDefinition("its table has rows that do not fit its columns")
    if len(json) > MAX_BYTES:
        raise InvalidDefinition(f"its preview is {len(json)} bytes long, and at most {MAX_BYTES} are shown")
    return Raw(json)


def failed_preview(why: str) -> Raw:
    """Return a preview that says why there is none, as JSON."""
    return Raw(_encode(Preview(failed=why if holds(why) else described(why))))


def read_preview(json: Raw) -> Preview | None:
    """Return the preview of a question; None if it has none. Raise `UnreadableState` if it is damaged."""
    if not json:
        return None
    try:
        return _decoder().decode(json)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableState(f"This run is damaged: a preview in it cannot be read ({error}).") from None


def broken_preconditions(before: Preview, now: Preview | None) -> list[str]:
    """Return a sentence for each precondition that does not hold any more, or that nobody was shown."""
    if before.failed is not None:
        known = now is not None and now.failed is None and bool(now.preconditions)
        return ["There was no preview then, and there is one now."] if known else []
    if not before.preconditions:
        return []
    if now is None or now.failed is not None:
        return [f"It cannot be checked any more: {now.failed if now is not None else 'there is no preview'}."]
    old, new = before.preconditions, now.preconditions
    gone = [f"{name} was {described(old[name])} and is not known now." for name in old if name not in new]
    differs = [
        f"{name} was {described(old[name])} and is {described(new[name])}."
        for name in old
        if name in new and not same(old[name], new[name])
    ]
    more = [f"{name} is {described(new[name])} and was not known." for name in new if name not in old]
    return [*gone, *differs, *more]
