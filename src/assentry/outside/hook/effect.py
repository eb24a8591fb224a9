"""The effect of a call, for those who decide: commands with their folder, edits as differences.

Files are read where the agent runs, by the hook, and only in the agent's working directory. Nothing of a file is shown
if its name is one of secrets, or if it is large or no text: then the arguments alone say what changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ...definitions.preview import AnyBlock, Diff, Preview, Sentence, Shell, Text, preview_json
from ...errors import InvalidDefinition
from .dialect import HookDialect, ProposedCall
from .place_path import argument_path, is_inside
from .secret_file import is_secret_file

LARGEST_FILE = 256 * 1024
"""The most bytes of a file that is compared with what becomes of it."""
LONGEST_SHOWN = 100_000
"""The most characters of one difference. The arguments are shown whole in any case."""
GONE = "not there"


class ShownEffect(Struct, frozen=True):
    """The preview of a call, and the state of the file that it was made from."""

    preview: Preview
    path: str | None = None
    state: str | None = None
    """A digest of the file as it was shown; None if no file was."""

    def changed(self) -> bool:
        """Return True if the file is not any more what was shown."""
        return self.path is not None and self.state is not None and _state(_content(self.path)) != self.state


def show_effect(dialect: HookDialect, call: ProposedCall, arguments: dict[str, Any]) -> ShownEffect:
    """Return what a call would do, as far as its arguments and the file tell."""
    place = f" in {_one_line(call.cwd)}" if call.cwd else ""
    line = arguments.get("command")
    if call.tool == "apply_patch" and type(line) is str:
        return ShownEffect(Preview(f"Apply a patch{place}.", _patch_blocks(line)))
    if call.tool == dialect.shell and type(line) is str:
        return ShownEffect(Preview(f"Run a command{place}.", (Shell((line,), call.cwd or None),)))
    path = argument_path(dialect, call.tool, arguments)
    change = CHANGES.get(call.tool)
    if change is None or path is None:
        about = f" on {_one_line(path)}" if path is not None else ""
        return ShownEffect(Preview(f"Use {_one_line(call.tool)}{about}{place}."))
    return _shown_change(change, call, path, arguments)


def _shown_change(change: EditKind, call: ProposedCall, path: str, arguments: dict[str, Any]) -> ShownEffect:
    """Return the difference between a file and what becomes of it, or between the texts of the arguments."""
    why = None
    content: bytes | None = None
    if not is_inside(path, call.cwd):
        why = "The file is outside of the agent's working directory. Its content is not shown."
    elif is_secret_file(path):
        why = "The name of the file is one of secrets. Only what the arguments say of it is shown."
    else:
        content, why = _readable(path)
    blocks: list[AnyBlock] = [] if why is None else [Sentence(why, True)]
    before = None if content is None else content.decode()
    after: str | None = None
    pairs = change.parts(arguments)
    if why is None:
        if change.cell:
            pairs, problem = _changed_cell(before, arguments)
        else:
            after, problem = change.applied(before, arguments)
        if problem is not None:
            blocks.append(Sentence(problem, True))
    name = os.path.relpath(path, os.path.realpath(call.cwd)) if is_inside(path, call.cwd) else path.lstrip(os.sep)
    shown = [Diff.between(name, before, after)] if after is not None else [Diff.between(name, *pair) for pair in pairs]
    blocks += [_cut(each) for each in shown]
    made = Preview(f"{change.verb} {_one_line(path)}.", tuple(blocks))
    state = _state(content) if why is None else None
    return ShownEffect(_small(made), path, state)


# -- changes by tool ---------------------------------------------------------------------------------


class EditKind(Struct, frozen=True):
    """The way in which a tool changes a file."""

    verb: str
    parts: Callable[[Mapping[str, Any]], list[tuple[str, str]]]
    """Returns the texts before and after, as the arguments have them."""
    whole: bool = False
    """True if the new text is the whole file."""
    cell: bool = False
    """True if the change is of one cell of a notebook. It is shown without the rest of the file."""

    def applied(self, before: str | None, arguments: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return the text after the change, and what is wrong with the change; None for what there is not."""
        parts = self.parts(arguments)
        if self.whole:
            return "".join(new for _, new in parts), None
        if before is None:
            made = parts[0][1] if len(parts) == 1 and not parts[0][0] else None
            return made, None if made is not None else "The file is not there."
        after = before
        for old, new in parts:
            if not old or old not in after:
                return None, "The file does not have the text that is to be replaced."
            if after.count(old) > 1 and not _all_places(arguments, old):
                return None, "The text that is to be replaced is in the file more than once."
            after = after.replace(old, new)
        return after, None


def _all_places(arguments: Mapping[str, Any], old: str) -> bool:
    """Return True if a change is to be made wherever the text is."""
    edits = arguments.get("edits")
    each = [edit for edit in edits if type(edit) is dict] if type(edits) is list else [arguments]
    return any(edit.get("replace_all") is True for edit in each if edit.get("old_string") == old)


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _one_edit(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_text(arguments.get("old_string")), _text(arguments.get("new_string")))]


def _many_edits(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    edits = arguments.get("edits")
    return [pair for edit in edits if type(edit) is dict for pair in _one_edit(edit)] if type(edits) is list else []


def _new_content(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("", _text(arguments.get("content", arguments.get("contents"))))]


def _new_source(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("", _text(arguments.get("new_source")))]


def _changed_cell(notebook: str | None, arguments: Mapping[str, Any]) -> tuple[list[tuple[str, str]], str | None]:
    """Return a notebook's cell before and after a change, and what is wrong with the change."""
    new, mode, wanted = _new_source(arguments), arguments.get("edit_mode"), arguments.get("cell_id")
    if notebook is None:
        return new, "The file is not there."
    if mode == "insert":
        return new, None
    try:
        cells = json.loads(notebook)["cells"]
        [found] = [each for n, each in enumerate(cells) if wanted and wanted in (each.get("id"), f"cell-{n}")]
        old = "".join(found["source"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return new, "The notebook does not have that cell, or is none."
    return [(old, "" if mode == "delete" else new[0][1])], None


CHANGES: dict[str, EditKind] = {
    "Edit": EditKind("Change", _one_edit),
    "MultiEdit": EditKind("Change", _many_edits),
    "Write": EditKind("Write", _new_content, whole=True),
    "NotebookEdit": EditKind("Change a cell of", _new_source, cell=True),
}
"""The changes by the name of the tool."""


# -- files -------------------------------------------------------------------------------------------


def _content(path: str) -> bytes | None:
    """Return the content of a regular file that is not large; None if there is none."""
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        with open(opened, "rb", closefd=False) as file:
            return file.read(LARGEST_FILE + 1)
    except OSError:
        return None
    finally:
        os.close(opened)


def _readable(path: str) -> tuple[bytes | None, str | None]:
    """Return a file's content, and why it is not compared; both are None for a file that is not there."""
    if not os.path.lexists(path):
        return None, None
    content = _content(path)
    if content is None:
        return None, "The file cannot be read, or is no regular file."
    if len(content) > LARGEST_FILE:
        return None, f"The file has more than {LARGEST_FILE // 1024} KiB. Only what the arguments say of it is shown."
    try:
        if "\0" not in content.decode():
            return content, None
    except UnicodeDecodeError:
        pass
    return None, "The file is no text. Only what the arguments say of it is shown."


def _state(content: bytes | None) -> str:
    return GONE if content is None else hashlib.sha256(content).hexdigest()


# -- blocks ------------------------------------------------------------------------------------------


def _patch_blocks(patch: str) -> tuple[AnyBlock, ...]:
    """Return a patch of the format that models know, file by file; as text if it cannot be read."""
    from ...tools.patch_format import read_patch

    kinds: dict[str, Any] = {"create_file": "create", "update_file": "update", "delete_file": "delete"}
    try:
        parts = read_patch(patch)
    except Exception as error:  # it is shown in any case; the agent's own reader may see it differently
        return (Sentence(f"The patch cannot be read: {_one_line(str(error))}", True), _cut(Text(patch, "Patch")))
    return tuple(
        _cut(Diff(part.path, part.diff or "", "move" if part.move_to else kinds[part.type], part.move_to))
        for part in parts
    )


def _cut(block: Any) -> Any:
    """Return a block whose text is not too long for a page."""
    if len(block.text) <= LONGEST_SHOWN:
        return block
    from msgspec.structs import replace

    left = len(block.text) - LONGEST_SHOWN
    return replace(block, text=f"{block.text[:LONGEST_SHOWN]}\n... {left} more characters; see the arguments.\n")


def _small(preview: Preview) -> Preview:
    """Return the preview, or one without its details if it cannot be recorded."""
    try:
        preview_json(preview)
    except InvalidDefinition as error:
        return Preview(preview.sentence, (Sentence(f"The change is not shown: {_one_line(str(error))}", True),))
    return preview


def _one_line(text: str) -> str:
    """Return a name on one line, and not too long."""
    clean = "".join(each if each.isprintable() else "?" for each in text)
    return clean if len(clean) <= 300 else f"{clean[:300]}..."
