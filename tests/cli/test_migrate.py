"""`assentry migrate`: what it prints, writes and returns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assentry.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, *lines: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file


# -- the command -------------------------------------------------------------------------------------------


def test_a_difference_is_shown_and_nothing_is_written(project: Path, capsys: Any) -> None:
    file = write("app/main.py", "from agents import Agent", "print('é')")
    before = file.read_bytes()
    assert main(["migrate", "app"]) == 0
    shown = capsys.readouterr()
    assert shown.out == (
        "--- a/app/main.py\n+++ b/app/main.py\n@@ -1,2 +1,2 @@\n"
        "-from agents import Agent\n+from assentry.agents import Agent\n print('é')\n"
    )
    assert shown.err == "1 file would change; --write changes them.\n"
    assert file.read_bytes() == before


def test_the_difference_is_a_patch_that_git_takes(project: Path) -> None:
    file = write("main.py", "import os, agents", "x = 1")
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    command = [sys.executable, "-m", "assentry.cli", "migrate", "."]
    patch = subprocess.run(command, capture_output=True, check=True, cwd=project).stdout
    subprocess.run(["git", "apply", "-"], input=patch, check=True, cwd=project)
    assert file.read_text() == "import os\nfrom assentry import agents\nx = 1"


def test_write_changes_the_files_and_a_second_run_changes_nothing(project: Path, capsys: Any) -> None:
    file = write("main.py", "from agents import Agent, UserError", "raise UserError")
    assert main(["migrate", "--write", "--native", "main.py"]) == 0
    assert file.read_text() == "from assentry import Agent, UsageError\nraise UsageError\n"
    assert capsys.readouterr().err == "Changed 1 file.\n"
    assert main(["migrate", "--write", "--native", "."]) == 0
    assert capsys.readouterr() == ("", "Nothing to change.\n")


def test_what_needs_a_person_is_listed_with_file_and_line(project: Path, capsys: Any) -> None:
    write("a.py", "x = 1", "from agents import ComputerTool")
    write("requirements.txt", "httpx", "openai-agents[litellm]>=0.20", "my-openai-agents-x")
    assert main(["migrate", "."]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("a.py:2: ComputerTool is not in Assentry.")
    assert lines[1] == "requirements.txt:2: The project needs openai-agents: put assentry in its place."
    assert lines[2] == "1 file would change; --write changes them. 2 places for a person to look at."


def test_a_path_that_is_not_there_is_refused(project: Path, capsys: Any) -> None:
    write("a.py", "import agents")
    assert main(["migrate", "--write", "a.py", "nothing.py"]) == 1
    assert capsys.readouterr().err == "assentry: nothing.py is not there.\n"
    assert Path("a.py").read_text() == "import agents\n"
    with pytest.raises(SystemExit):
        main(["migrate"])


def test_without_libcst_the_command_says_what_to_install(project: Path) -> None:
    program = (
        "import sys; sys.modules['libcst'] = None; from assentry.cli import main; sys.exit(main(['migrate', '.']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"assentry: Migrating needs libcst, which is not installed \(libcst\): pip install .*\n", done.stderr
    )


def test_files_that_cannot_be_changed_are_named_and_left_alone(project: Path, capsys: Any) -> None:
    write("broken.py", "import agents", "def")
    Path("latin.py").write_bytes("import agents  # é\n".encode("latin-1"))
    write("said.py", "# -*- coding: latin-1 -*-", "import agents")
    write("data.csv", "import agents")
    write("book.ipynb", '{"source": ["from agents import Agent"]}')
    write("other.ipynb", "{}")
    real = write("real/real.py", "import os")
    Path("link.py").symlink_to(real)
    Path("linked").symlink_to("real")
    locked = write("locked.py", "import agents")
    locked.chmod(0o444)
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert main(["migrate", "--write", ".", "data.csv"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "book.ipynb: A notebook is left alone: change the imports in its cells by hand.",
        "broken.py:2: The file cannot be parsed as Python and is left alone.",
        "data.csv: The file is not a Python program and is left alone.",
        "latin.py: The file is not UTF-8 and is left alone.",
        "link.py: A symbolic link is left alone.",
        "linked: A symbolic link is left alone.",
        "locked.py: The file is read-only and is left alone.",
        "said.py: The file says that it is latin-1, not UTF-8, and is left alone.",
        "8 places for a person to look at.",
    ]
    assert {path: path.read_bytes() for path in before} == before
