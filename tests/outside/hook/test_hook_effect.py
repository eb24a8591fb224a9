"""The effect of a coding agent's call, as it is shown to those who decide."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assentry.definitions.preview import Diff, Preview, Sentence, Shell, preview_json
from assentry.outside.hook.dialect import HookDialect, ProposedCall
from assentry.outside.hook.effect import LARGEST_FILE, LONGEST_SHOWN, ShownEffect, show_effect
from assentry.outside.hook.known import AGENTS
from assentry.outside.hook.place_path import resolve_paths

CLAUDE = AGENTS["claude"]


def shown(tool: str, arguments: dict[str, Any], cwd: Path, dialect: HookDialect = CLAUDE) -> ShownEffect:
    call = ProposedCall(tool=tool, arguments=arguments, session="s", call="c", cwd=str(cwd))
    made = show_effect(dialect, call, resolve_paths(dialect, call))
    preview_json(made.preview)  # it can be recorded
    return made


def diffs(preview: Preview) -> list[Diff]:
    return [block for block in preview.blocks if type(block) is Diff]


def warnings(preview: Preview) -> str:
    return " ".join(block.text for block in preview.blocks if type(block) is Sentence and block.warning)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "a.txt"
    made.write_text("one\ntwo\nthree\n")
    return made


def test_a_command_is_shown_with_its_folder(tmp_path: Path) -> None:
    preview = shown("Bash", {"command": "rm -rf build"}, tmp_path).preview
    assert preview == Preview(f"Run a command in {tmp_path}.", (Shell(("rm -rf build",), str(tmp_path)),))


def test_an_edit_is_shown_as_the_difference_of_the_file(tmp_path: Path, file: Path) -> None:
    made = shown("Edit", {"file_path": str(file), "old_string": "two", "new_string": "2"}, tmp_path)
    [diff] = diffs(made.preview)
    assert (diff.path, diff.change) == ("a.txt", "update")
    assert diff.text == "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert warnings(made.preview) == ""
    assert not made.changed()
    file.write_text("other\n")
    assert made.changed()


def test_several_edits_are_one_difference(tmp_path: Path, file: Path) -> None:
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "1\ntwo", "new_string": "1\n2"}]
    [diff] = diffs(shown("MultiEdit", {"file_path": str(file), "edits": edits}, tmp_path).preview)
    assert [line for line in diff.text.splitlines() if line[:1] in "+-"][2:] == ["-one", "-two", "+1", "+2"]


@pytest.mark.parametrize(
    ("old", "words"), [("four", "does not have the text"), ("o", "more than once"), ("", "does not have the text")]
)
def test_an_edit_that_cannot_be_made_is_a_warning(tmp_path: Path, file: Path, old: str, words: str) -> None:
    preview = shown("Edit", {"file_path": str(file), "old_string": old, "new_string": "x"}, tmp_path).preview
    assert words in warnings(preview)


def test_a_replacement_everywhere_is_shown_everywhere(tmp_path: Path, file: Path) -> None:
    arguments = {"file_path": str(file), "old_string": "o", "new_string": "0", "replace_all": True}
    [diff] = diffs(shown("Edit", arguments, tmp_path).preview)
    assert "+0ne" in diff.text
    assert "+tw0" in diff.text


def test_a_written_file_is_compared_with_what_is_there(tmp_path: Path, file: Path) -> None:
    [diff] = diffs(shown("Write", {"file_path": str(file), "content": "one\n"}, tmp_path).preview)
    assert (diff.change, "-two" in diff.text) == ("update", True)
    new = shown("Write", {"file_path": str(tmp_path / "b.txt"), "content": "new\n"}, tmp_path)
    [diff] = diffs(new.preview)
    assert (diff.change, diff.text) == ("create", "--- a/b.txt\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n")
    assert not new.changed()
    (tmp_path / "b.txt").write_text("somebody was first\n")
    assert new.changed()


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "m1", "source": "# Title"},
        {"cell_type": "code", "source": ["a = 1\n", "b = 2\n"], "outputs": [{"text": "private"}]},
    ]
}


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"cell_id": "m1", "new_source": "# Shop"}, ["-# Title", "+# Shop"]),
        ({"cell_id": "cell-1", "new_source": "a = 1\nb = 3\n"}, [" a = 1", "-b = 2", "+b = 3"]),
        ({"cell_id": "cell-1", "edit_mode": "delete", "new_source": ""}, ["-a = 1", "-b = 2"]),
        ({"cell_id": "m1", "edit_mode": "insert", "new_source": "c = 3\n"}, ["+c = 3"]),
    ],
)
def test_a_change_of_a_notebook_is_shown_as_the_difference_of_its_cell(
    tmp_path: Path, arguments: dict[str, Any], lines: list[str]
) -> None:
    book = tmp_path / "a.ipynb"
    book.write_text(json.dumps(NOTEBOOK))
    made = shown("NotebookEdit", {"notebook_path": str(book), **arguments}, tmp_path)
    [diff] = diffs(made.preview)
    text = [line for line in diff.text.splitlines() if not line.startswith(("---", "+++", "@@", "\\"))]
    assert text == lines
    assert warnings(made.preview) == ""
    assert not made.changed()
    book.write_text("{}")
    assert made.changed()


@pytest.mark.parametrize("text", ["{}", "[]", "not json", json.dumps({"cells": [{"id": "x"}, 5]}), None])
def test_a_change_of_a_cell_that_is_not_there_is_a_warning(tmp_path: Path, text: str | None) -> None:
    book = tmp_path / "a.ipynb"
    if text is not None:
        book.write_text(text)
    for arguments in ({"cell_id": "x"}, {"cell_id": 5}, {}):
        preview = shown("NotebookEdit", {"notebook_path": str(book), **arguments, "new_source": "c"}, tmp_path).preview
        assert "not there" in warnings(preview) or "does not have that cell" in warnings(preview)
        assert "+c" in diffs(preview)[0].text


@pytest.mark.parametrize("name", [".env", ".env.local", "server.pem", "id_rsa", "credentials.json", "My-Secrets.yml"])
def test_of_a_file_of_secrets_only_the_arguments_are_shown(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("A=1\nPASSWORD=hunter2\nB=2\n")
    for tool, arguments in (
        ("Edit", {"old_string": "A=1", "new_string": "A=2"}),
        ("Write", {"content": "A=3\n"}),
    ):
        preview = shown(tool, {"file_path": str(file), **arguments}, tmp_path).preview
        assert "hunter2" not in repr(preview)
        assert "secrets" in warnings(preview)
        assert diffs(preview)


def test_of_a_file_outside_of_the_working_directory_only_the_arguments_are_shown(tmp_path: Path, file: Path) -> None:
    inside = tmp_path / "project"
    inside.mkdir()
    os.symlink(file, inside / "link.txt")
    for path in (file, inside / "link.txt", inside / ".." / "a.txt"):
        preview = shown("Edit", {"file_path": str(path), "old_string": "two", "new_string": "2"}, inside).preview
        assert "outside of the agent's working directory" in warnings(preview)
        assert "three" not in repr(preview)


def test_large_and_binary_files_and_pipes_are_not_read(tmp_path: Path) -> None:
    large, binary, pipe = (tmp_path / name for name in ("large.txt", "binary", "pipe"))
    large.write_text("x\n" * LARGEST_FILE)
    binary.write_bytes(b"\x00\xff\x00secret")
    os.mkfifo(pipe)
    for path, words in ((large, "more than 256 KiB"), (binary, "no text"), (pipe, "no regular file")):
        preview = shown("Edit", {"file_path": str(path), "old_string": "x", "new_string": "y"}, tmp_path).preview
        assert words in warnings(preview)
        [diff] = diffs(preview)
        assert len(diff.text) < 200


def test_a_very_long_text_is_cut(tmp_path: Path) -> None:
    content = "a line of text\n" * 100_000
    [diff] = diffs(shown("Write", {"file_path": str(tmp_path / "b"), "content": content}, tmp_path).preview)
    assert LONGEST_SHOWN < len(diff.text) < LONGEST_SHOWN + 100
    assert "more characters" in diff.text


def test_a_patch_is_shown_file_by_file(tmp_path: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: b.txt\n+new\n"
        "*** Delete File: c.txt\n*** End Patch\n"
    )
    preview = shown("apply_patch", {"command": patch}, tmp_path, AGENTS["codex"]).preview
    assert [(diff.path, diff.change) for diff in diffs(preview)] == [
        ("a.txt", "update"),
        ("b.txt", "create"),
        ("c.txt", "delete"),
    ]
    assert "-two\n+2" in diffs(preview)[0].text


def test_a_patch_that_cannot_be_read_is_shown_as_it_is(tmp_path: Path) -> None:
    preview = shown("apply_patch", {"command": "rm -rf /"}, tmp_path, AGENTS["codex"]).preview
    assert "cannot be read" in warnings(preview)
    assert "rm -rf /" in repr(preview.blocks)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"file_path": 5},
        {"file_path": ""},
        {"file_path": "/x", "old_string": 5, "new_string": None},
        {"file_path": "/x", "edits": "none"},
        {"file_path": "/x\n\u202ey", "content": "\x1b[31m"},
    ],
)
def test_odd_arguments_are_shown_somehow(tmp_path: Path, arguments: dict[str, Any]) -> None:
    for tool in ("Edit", "MultiEdit", "Write", "NotebookEdit", "Read", "odd\ntool"):
        assert "\n" not in shown(tool, arguments, tmp_path).preview.sentence
