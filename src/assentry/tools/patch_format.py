"""The patch format that models know (V4A): reading a patch, and finding the edits that it makes to a text.

Nothing here touches a file. Context must match to the letter, and in one place only; there is no guessing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from ..core.wording import described
from ..definitions.context import RunContextWrapper
from ..errors import InvalidArguments, PatchRefused
from .patch_text import LineEdit, TextLines, apply_edits, join_lines

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
OperationType = Literal["create_file", "update_file", "delete_file"]
HEADERS: dict[str, OperationType] = {
    "*** Add File: ": "create_file",
    "*** Update File: ": "update_file",
    "*** Delete File: ": "delete_file",
}
MOVE = "*** Move to: "
MAX_FILES = 100
"""The largest number of files in one patch."""
MAX_SECTIONS = 500
"""The largest number of `@@` lines in one patch. Each means a search in a whole file."""


@dataclass(frozen=True, slots=True)
class ApplyPatchOperation:
    """One file's part of a patch, as an editor gets it."""

    type: OperationType
    path: str
    diff: str | None = None
    """The diff's lines as the model wrote them; None for a file that is deleted, or only moved."""
    ctx_wrapper: RunContextWrapper[Any] | None = None
    move_to: str | None = None
    """The new path of a file that is updated and moved."""


class Section(Struct, frozen=True):
    """A part of a diff: `@@` lines that lead to a place, and the lines that are there, or come or go."""

    anchors: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    """Pairs of sign and text: " " for a line that stays, "-" for one that goes, "+" for a new one."""
    at_end: bool = False

    @property
    def context(self) -> list[str]:
        """The lines that must be in the file, one after another."""
        return [text for sign, text in self.lines if sign != "+"]


# -- the whole patch -------------------------------------------------------------------------------


def read_patch(patch: str) -> tuple[ApplyPatchOperation, ...]:
    """Return the operations of a patch, or raise `InvalidArguments`. Their diffs are well-formed."""
    lines = patch.strip("\r\n").split("\n")
    if lines[0].rstrip("\r") != BEGIN or lines[-1] != END:
        raise InvalidArguments(f'patch: it must begin with "{BEGIN}" and end with "{END}"')
    _count_sections(lines)
    found: list[ApplyPatchOperation] = []
    for header, body in _blocks(lines[1:-1]):
        if len(found) == MAX_FILES:
            raise InvalidArguments(f"patch: it has more than {MAX_FILES} files; send several patches")
        found.append(_operation(header, body))
    if not found:
        raise InvalidArguments('patch: it names no file; begin with "*** Update File: path" or the like')
    return tuple(found)


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the header of each file with the lines below it."""
    header, body = "", list[str]()
    for line in lines:
        if line.startswith(tuple(HEADERS)):
            if header:
                yield header, body
            header, body = line.rstrip("\r"), []
        elif not header:
            raise InvalidArguments(f"patch: a file's header is expected, got {described(line)}")
        else:
            body.append(line)
    if header:
        yield header, body


def _operation(header: str, body: list[str]) -> ApplyPatchOperation:
    start = next(each for each in HEADERS if header.startswith(each))
    kind, path, move_to = HEADERS[start], header[len(start) :], None
    if kind == "update_file" and body and body[0].startswith(MOVE):
        move_to = body.pop(0)[len(MOVE) :].rstrip("\r")
    diff = "".join(f"{line}\n" for line in body) if body or kind == "create_file" else None
    return check_operation(ApplyPatchOperation(kind, path, diff, move_to=move_to))


def check_operation(operation: ApplyPatchOperation) -> ApplyPatchOperation:
    """Return the operation, or raise `InvalidArguments` unless its diff and `move_to` fit its type."""
    kind, diff, where = operation.type, operation.diff or "", described(operation.path)
    for path in (operation.path, operation.move_to):
        if path is not None and not (path and path.isprintable()):
            raise InvalidArguments(f"{described(path)}: a path is text that a person can read, on one line")
    if operation.move_to is not None and kind != "update_file":
        raise InvalidArguments(f"{where}: only a file that is updated can be moved")
    if kind == "delete_file" and diff:
        raise InvalidArguments(f"{where}: a file that is deleted has no diff")
    try:
        if kind == "create_file":
            new_file_text(diff)
        elif kind == "update_file" and (diff or operation.move_to is None):
            sections(diff)
    except InvalidArguments as error:
        raise InvalidArguments(f"{where}: {error}") from None
    return operation


def patch_of(operation: ApplyPatchOperation) -> str:
    """Return a patch with this one operation, which `read_patch` reads back."""
    header = next(each for each, kind in HEADERS.items() if kind == operation.type)
    parts = [BEGIN, f"{header}{operation.path}"]
    if operation.move_to is not None:
        parts.append(f"{MOVE}{operation.move_to}")
    if operation.diff:
        parts.append(operation.diff.removesuffix("\n"))
    return "\n".join([*parts, END])


# -- one file's diff -------------------------------------------------------------------------------


def _diff_lines(diff: str) -> list[str]:
    """Return the lines of a diff. A diff may have CRLF line ends; the file keeps its own."""
    return [line.removesuffix("\r") for line in diff.removesuffix("\n").split("\n")] if diff else []


def new_file_text(diff: str) -> str:
    """Return the text of a new file, or raise `InvalidArguments`. Each line of the diff is a line of the file."""
    lines = _diff_lines(diff)
    for line in lines:
        if not line.startswith("+"):
            raise InvalidArguments(f'every line of a new file begins with "+", got {described(line)}')
    returns = diff.removesuffix("\n").count("\r\n") + diff.removesuffix("\n").endswith("\r")
    if returns not in (0, len(lines)):
        raise InvalidArguments("some lines of the new file end in CRLF and some do not; use one of them")
    end = "\r\n" if returns else "\n"
    return "".join(f"{line[1:]}{end}" for line in lines)


def sections(diff: str) -> tuple[Section, ...]:
    """Return the sections of a diff that updates a file, or raise `InvalidArguments`."""
    found: list[Section] = []
    anchors, lines, closed = list[str](), list[tuple[str, str]](), False
    _count_sections(diff.split("\n"))
    for line in _diff_lines(diff):
        if closed:
            raise InvalidArguments(f'nothing may follow "{END_OF_FILE}", got {described(line)}')
        if line == "@@" or line.startswith("@@ "):
            if lines:
                found.append(Section(tuple(anchors), tuple(lines)))
                anchors, lines = [], []
            if line[3:].strip():
                anchors.append(line[3:])
        elif line == END_OF_FILE:
            closed = True
        elif not line or line[0] in " +-":
            lines.append((line[:1] or " ", line[1:]))  # models leave out the space of an empty line
        else:
            raise InvalidArguments(f'a line begins with " ", "+", "-" or "@@", got {described(line)}')
    if not lines:
        raise InvalidArguments("the diff has no lines" if not found else "the last @@ has no lines below it")
    found.append(Section(tuple(anchors), tuple(lines), closed))
    return tuple(found)


def _count_sections(lines: list[str]) -> None:
    if sum(line.startswith("@@") for line in lines) > MAX_SECTIONS:
        raise InvalidArguments(f"there are more than {MAX_SECTIONS} @@ lines; send several patches")


def edits_of(lines: list[str], diff: str) -> list[LineEdit]:
    """Return the edits that a diff makes to these lines; raise `PatchRefused` unless each has exactly one place."""
    edits: list[LineEdit] = []
    cursor = 0
    for number, section in enumerate(sections(diff), start=1):
        try:
            place = _place(lines, section, cursor)
        except PatchRefused as error:
            raise PatchRefused(f"section {number} of the diff: {error}") from None
        edits.extend(_section_edits(section, place))
        cursor = place + len(section.context)
    return edits


def _section_edits(section: Section, place: int) -> Iterator[LineEdit]:
    start, removed, added = place, 0, list[str]()
    for sign, text in section.lines:
        if sign == "-":
            removed += 1
        elif sign == "+":
            added.append(text)
        else:
            if removed or added:
                yield LineEdit(start, removed, tuple(added))
            start, removed, added = start + removed + 1, 0, []
    if removed or added:
        yield LineEdit(start, removed, tuple(added))


def _place(lines: list[str], section: Section, cursor: int) -> int:
    """Return the number of the line at which a section's context begins, at or after the cursor."""
    context = section.context
    first = max(cursor, len(lines) - len(context)) if section.at_end else cursor
    found = list(_matches(lines, context, first)) if context else []
    starts = _after_anchors(lines, section.anchors)
    if not context:
        places = _bare(lines, section, starts, cursor)
    elif section.anchors:
        nexts = (bisect_left(found, start) for start in starts)
        places = sorted({found[n] for n in nexts if n < len(found)})
    else:
        places = found[:2]
    if not places:
        raise PatchRefused(_why_no_place(lines, section, first))
    if len(places) > 1:
        more = "give more lines around the change, or an @@ line that occurs once"
        raise PatchRefused(f"it fits at line {places[0] + 1} and at line {places[1] + 1}; {more}")
    return places[0]


def _bare(lines: list[str], section: Section, starts: list[int], cursor: int) -> list[int]:
    """Return the places of a section that only adds lines: the end, below the anchor, or in an empty file."""
    if section.at_end:
        return [len(lines)] if not section.anchors or starts else []
    if section.anchors:
        return sorted({start for start in starts if start >= cursor})
    if lines:
        raise PatchRefused(f'it only adds lines and does not say where; give lines around them, or "{END_OF_FILE}"')
    return [0]


def _after_anchors(lines: list[str], anchors: tuple[str, ...]) -> list[int]:
    """Return the numbers of the lines below the anchors, for each occurrence of the first."""
    starts = [0]
    for number, anchor in enumerate(anchors):
        at = [n for n, line in enumerate(lines) if line == anchor]
        at = at or [n for n, line in enumerate(lines) if line.strip() == anchor.strip()]  # without its indentation
        if not at:
            raise PatchRefused(f"the file has no line {described(anchor)}; after @@ comes a whole line of the file")
        if number == 0:
            starts = [n + 1 for n in at]
            continue
        nexts = (bisect_left(at, start) for start in starts)
        starts = sorted({at[n] + 1 for n in nexts if n < len(at)})
    return starts


def _matches(lines: list[str], context: list[str], start: int) -> Iterator[int]:
    """Yield each place of the context at or after `start`, in one pass (Knuth, Morris and Pratt)."""
    back, k = [0] * len(context), 0
    for n in range(1, len(context)):
        while k and context[n] != context[k]:
            k = back[k - 1]
        k += context[n] == context[k]
        back[n] = k
    k = 0
    for n in range(start, len(lines)):
        while k and lines[n] != context[k]:
            k = back[k - 1]
        k += lines[n] == context[k]
        if k == len(context):
            yield n - k + 1
            k = back[k - 1]


def _why_no_place(lines: list[str], section: Section, start: int) -> str:
    """Say why a section has no place."""
    if section.at_end:
        return f'its lines are not the last of the file, as "{END_OF_FILE}" says'
    rest = set(lines[start:])
    for text in section.context:
        if text not in rest:
            near = next((n for n, line in enumerate(lines) if line.strip() == text.strip()), None)
            hint = f"; line {near + 1} differs only in white space" if near is not None and text.strip() else ""
            earlier = "; it comes earlier, and sections go from top to bottom" if text in lines else hint
            return f"the file does not have the line {described(text)} there{earlier}"
    where = " below its @@ line" if section.anchors else ""
    return f"its lines, beginning with {described(section.context[0])}, are not one after another{where}"


def apply_diff(text: str, diff: str, mode: Literal["default", "create"] = "default") -> str:
    """Return the text with a diff applied; for editors of your own.

    Args:
        text: The file's text. Its line ends, and a missing one at its end, stay.
        diff: The diff of an `ApplyPatchOperation`.
        mode: "create" if the diff is that of a new file; the text must be empty then.

    Raises:
        InvalidArguments: The diff is malformed.
        PatchRefused: The diff does not fit the text, or fits in more than one place.
    """
    if mode == "create":
        if text:
            raise PatchRefused("the diff is that of a new file, and there is a text already")
        return new_file_text(diff)
    old = TextLines.of(text)
    return join_lines(old, apply_edits(old, edits_of(old.texts, diff)))
