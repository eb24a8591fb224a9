"""Type checkers find nothing in migrated programs that they do not find in them on the SDK."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.peer.test_programs import IMPORT, PROGRAMS

Found = set[tuple[str, int]]
"""Where a checker found something: the program and the line."""


def mypy(folder: Path) -> Found:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--scripts-are-modules",
        "--output=json",
        "--no-warn-unused-ignores",
    ]
    done = subprocess.run([*command, *PROGRAMS_FILES], cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return {
        (each["file"], each["line"])
        for each in map(json.loads, filter(None, done.stdout.splitlines()))
        if each["severity"] == "error"
    }


def pyright(folder: Path) -> Found:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found if each["severity"] == "error"
    }


PROGRAMS_FILES = [f"{name}.py" for name in PROGRAMS]


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_migrated_program_has_no_new_faults(check: Callable[[Path], Found], tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    for name, text in PROGRAMS.items():
        (theirs / f"{name}.py").write_text(text, "utf-8")
        (ours / f"{name}.py").write_text(IMPORT.sub("from assentry.agents", text), "utf-8")
    assert sorted(check(ours) - check(theirs)) == []
