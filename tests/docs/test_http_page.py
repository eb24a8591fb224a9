"""The page about asking over HTTP: its commands are typed into a shell, with a real server, and print what it shows.

ASSENTRY_WRITE=1 writes the answers into the page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.docs.inbox_server import served_inbox

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "ask-http.md"
DRAWN = re.compile(r"\b(run|q)_[0-9a-f]{32}\b|\b[0-9a-f]{64}\b")
"""The ids and digests, which are others each time."""


class Step(NamedTuple):
    """A command of the page, and the block with what it prints; None if the page does not show it."""

    command: str
    answer: Token | None


def steps() -> list[Step]:
    """Return the commands of the page, in order."""
    fences = [each for each in MarkdownIt().parse(PAGE.read_text("utf-8")) if each.type == "fence"]
    found = []
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        if fence.info == "bash":
            found.append(Step(fence.content, after if after is not None and after.info in ("json", "text") else None))
    return found


def rules() -> str:
    """Return the rules file of the page."""
    [found] = [each for each in MarkdownIt().parse(PAGE.read_text("utf-8")) if each.info.startswith("toml")]
    return found.content


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the commands: a server, a token and an empty folder."""
    if shutil.which("curl") is None:
        if os.environ.get("CI"):
            raise RuntimeError("There is no curl: apt-get install curl.")
        pytest.skip("no curl: apt-get install curl")

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with served_inbox(tmp_path, "billing-bot", rules()) as inbox:
        yield {"INBOX": inbox.address, "TOKEN": inbox.token, "PATH": path, "HOME": str(tmp_path)}


def type_into(shell: dict[str, str], folder: Path, command: str) -> str:
    """Return what a command prints."""
    pythonpath = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
    ended = subprocess.run(
        ["bash", "-e", "-c", command], cwd=folder, env=shell | pythonpath, capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stderr) == (0, ""), command
    return ended.stdout


def shown(answer: str) -> str:
    """Return an answer as the page shows it: without the fields that are null."""
    kept = {name: value for name, value in json.loads(answer).items() if value is not None}
    return json.dumps(kept, indent=2, ensure_ascii=False) + "\n"


def alike(texts: list[str]) -> list[str]:
    """Return texts with a number in the place of each id and digest, the same for the same."""
    names: dict[str, str] = {}
    return [DRAWN.sub(lambda found: names.setdefault(found[0], f"<{len(names)}>"), text) for text in texts]


def written(text: str, answers: list[tuple[Token, str]]) -> str:
    """Return the page with these answers in their blocks."""
    lines = text.splitlines(keepends=True)
    for fence, answer in reversed(answers):
        assert fence.map is not None
        lines[fence.map[0] + 1 : fence.map[1] - 1] = [answer]
    return "".join(lines)


def test_the_commands_print_what_the_page_shows(shell: dict[str, str], tmp_path: Path) -> None:
    [define, *others] = steps()
    answers: list[tuple[Token, str]] = []
    first: dict[str, Any] = {}
    for step in others:
        printed = type_into(shell, tmp_path, f"{define.command}\n{step.command}")
        if step.answer is None:
            continue
        if step.answer.info == "text":
            answers.append((step.answer, printed))
            continue
        first = first or json.loads(printed)
        shell |= {"ID": first["id"], "QUESTION": first["question"], "DIGEST": first["digest"]}
        answers.append((step.answer, shown(printed)))
    if os.environ.get("ASSENTRY_WRITE"):
        PAGE.write_text(written(PAGE.read_text("utf-8"), answers), "utf-8")
        return
    assert len(answers) > 10
    assert alike([answer for _, answer in answers]) == alike([fence.content for fence, _ in answers])
