"""What the documentation shows is run as it is shown.

A page is one story: its ```python blocks run in order and share their names, in an empty directory. `await` may stand
at the top level. An ```output block is what the block before it prints. A ```python no-run block must only compile.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from types import CodeType, ModuleType

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("docs/**/*.md"))]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


@dataclass
class Block:
    """A ```python block of a page, and what it prints if the page says so."""

    page: Path
    line: int
    source: str
    runs: bool
    output: str | None = None

    def compile(self) -> CodeType:
        """Compile it with the lines it has on the page, so that a traceback leads there."""
        # Not inheriting keeps this module's own __future__ imports out of what readers see.
        padded = "\n" * self.line + self.source
        return compile(padded, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def blocks(page: Path) -> list[Block]:
    """The python blocks of a page, each with the output that follows it."""
    found: list[Block] = []
    fences = [token for token in MarkdownIt().parse(page.read_text("utf-8")) if token.type == "fence" and token.map]
    previous = ""
    for fence in fences:
        [line, _] = fence.map
        where = f"{page.relative_to(ROOT)}:{line + 1}"
        language, *flags = fence.info.split() or [""]
        if language == "python":
            assert flags in ([], ["no-run"]), f"{where}: a python block is run, or marked no-run; not {flags}"
            found.append(Block(page, line + 1, fence.content, runs=not flags))
        elif language == "output":
            assert previous == "python" and found[-1].runs, f"{where}: no python block before this output"
            found[-1].output = fence.content
        previous = language
    return found


def lines(text: str) -> list[str]:
    """The lines of a text without the blanks at their ends, which nobody sees."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def test_readme_shows_an_example() -> None:
    assert any(block.runs for block in blocks(README))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_does_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    story = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", story)
    monkeypatch.chdir(tmp_path)
    with asyncio.Runner() as loop:
        for block in blocks(page):
            code = block.compile()
            if not block.runs:
                continue
            capsys.readouterr()
            # A block without `await` runs outside the loop, as a script would: it may start a loop itself.
            awaitable = eval(code, story.__dict__)
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
