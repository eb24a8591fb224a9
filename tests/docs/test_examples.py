"""What the documentation shows is run as it is shown.

A page is one story: its ```python blocks run in order and share their names, in an empty directory. `await` may stand
at the top level. An ```output block is what the block before it prints. A block
with a title="name.py" is written to that file, and a ```sh block that is followed by its output is typed in a shell.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from types import CodeType, ModuleType
from typing import Literal

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
APART = ("inbox.py", "temporal_shop.py")
"""The examples with tests of their own: `test_inbox_demo`, and `engines/temporal/test_demo`."""
EXAMPLES = [each for each in sorted(ROOT.glob("examples/*.py")) if each.name not in APART]
"""The examples that come to an end by themselves."""
LIBRARIES = {"openai-agents-approvals.md": "agents", "pydantic-ai.md": "pydantic_ai"}
"""Pages that need another library. The Agents SDK is in an environment of its own; see `tests/peers.py`."""


@dataclass
class Block:
    """A block of a page that does something, and what it prints if the page says so."""

    page: Path
    line: int
    source: str
    kind: Literal["run", "write", "shell"]
    file: str = ""
    output: str | None = None

    def compile(self) -> CodeType:
        """Compile it with the lines it has on the page, so that a traceback leads there."""
        # Not inheriting keeps this module's own __future__ imports out of what readers see.
        padded = "\n" * self.line + self.source
        return compile(padded, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def block_of(page: Path, line: int, source: str, info: str) -> Block | None:
    """What a fence with this info is to do; None if nothing."""
    language, *flags = info.split() or [""]
    if language == "sh":
        return Block(page, line, source, "shell")
    if language != "python":
        return None
    if not flags:
        return Block(page, line, source, "run")
    title = re.fullmatch(r'title="([\w.]+\.py)"', " ".join(flags))
    assert title, f"{page}:{line}: a python block is run, or has the title of a file; not {flags}"
    return Block(page, line, source, "write", title[1])


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that do something, each with the output that follows it."""
    found: list[Block] = []
    fences = [token for token in MarkdownIt().parse(page.read_text("utf-8")) if token.type == "fence" and token.map]
    previous = None
    for fence in fences:
        [line, _] = fence.map
        block = block_of(page, line + 1, fence.content, fence.info)
        if block is not None:
            found.append(block)
        elif fence.info == "output":
            prints = previous is not None and previous.kind in ("run", "shell")
            assert prints, f"{page.relative_to(ROOT)}:{line + 1}: no block that runs before this output"
            previous.output = fence.content
        previous = block
    # A command that the page shows no output of is for the reader alone: it may install something, or never end.
    return [block for block in found if block.kind != "shell" or block.output is not None]


def lines(text: str) -> list[str]:
    """The lines of a text without the blanks at their ends, which nobody sees."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def in_a_shell(commands: str) -> str:
    """What commands print when they are typed in the page's directory; `python` is the one that runs the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-e", "-c", commands],
        env=os.environ | {"PATH": path, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_readme_shows_an_example() -> None:
    assert any(block.kind == "run" for block in blocks(README))


def test_a_page_may_write_files_and_run_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    page = tmp_path / "page.md"
    fences = [('python title="a.py"', "print(1)"), ("sh", "python a.py"), ("output", "1"), ("sh", "rm -rf ."), ("", "")]
    page.write_text("\n\n".join(f"```{info}\n{text}\n```" for info, text in fences), "utf-8")
    write, run = blocks(page)
    assert (write.kind, write.file, write.source) == ("write", "a.py", "print(1)\n")
    assert (run.kind, run.source, run.output) == ("shell", "python a.py\n", "1\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_does_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = LIBRARIES.get(page.name, "assentry")
    if find_spec(library) is None and (library == "agents" or not os.environ.get("CI")):
        pytest.skip(f"{library} is not installed")
    story = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", story)
    monkeypatch.chdir(tmp_path)
    with asyncio.Runner() as loop:
        for block in blocks(page):
            capsys.readouterr()
            if block.kind == "shell":
                print(in_a_shell(block.source))
            elif block.kind == "write":
                Path(block.file).write_text(block.source, "utf-8")
            else:
                # A block without `await` runs outside the loop, as a script would: it may start a loop itself.
                awaitable = eval(block.compile(), story.__dict__)
                if inspect.iscoroutine(awaitable):
                    loop.run(awaitable)
            if block.output is not None:
                assert lines(capsys.readouterr().out) == lines(block.output), f"printed by {page}:{block.line}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_ends_well_and_can_be_started_again(
    path: Path, run_example: Callable[..., CompletedProcess[str]]
) -> None:
    answers = path.with_suffix(".in")
    stdin = answers.read_text("utf-8") if answers.exists() else ""
    for _ in range(2):
        ended = run_example(path.stem, stdin)
        assert ended.returncode == 0, ended.stderr
