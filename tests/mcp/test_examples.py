"""The stories of the examples with MCP servers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.mcp.peers import Missing, program

Run = Callable[..., CompletedProcess[str]]

STOCK = 'Let the warehouse run stock with {"item":"lamp"}? [y/N] '
REORDER = 'Let the warehouse run reorder with {"count":40,"item":"lamp"}? [y/N] '
REFUSED = "The call was not approved and did not run."


def lines(ended: CompletedProcess[str]) -> list[str]:
    """What a program that ended well has shown."""
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.parametrize("name", ["mcp_stdio", "mcp_sse", "mcp_streamable_http"])
def test_every_call_waits_for_the_person_over_each_transport(name: str, run_example: Run) -> None:
    assert lines(run_example(name, "n\ny\n")) == [f"{STOCK}{REORDER}{REFUSED} 40 lamps are ordered."]


def test_a_filter_hides_tools_by_name_or_by_a_function(run_example: Run) -> None:
    assert lines(run_example("mcp_tool_filter", "y\n")) == [
        "The model is offered: stock",
        "I can only look.",
        "The model is offered: reorder, stock",
        f"{REORDER}40 lamps are ordered.",
    ]


@pytest.fixture
def with_git_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the real git server on the PATH. Where it is not installed the test is skipped; in CI it fails."""
    try:
        folder = Path(program("mcp-server-git")).parent
    except Missing as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{folder}")


def git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.peers
@pytest.mark.usefixtures("with_git_server")
def test_the_maintainer_commits_what_is_approved(run_example: Run, tmp_path: Path) -> None:
    shown = lines(run_example("git_maintainer", "y\ny\ny\n"))
    assert shown[0].startswith("Run git_reset with")
    lamps = tmp_path / "lamps"
    assert git(lamps, "log", "--format=%s") == "Correct a typing error\nBegin"
    assert git(lamps, "status", "--short") == "?? debug.log"
    assert not (tmp_path / "git-maintainer.json").exists()


@pytest.mark.peers
@pytest.mark.usefixtures("with_git_server")
def test_the_maintainer_waits_on_disk_and_changes_only_what_is_approved(run_example: Run, tmp_path: Path) -> None:
    lamps = tmp_path / "lamps"
    assert lines(run_example("git_maintainer"))[-1] == "The run waits in git-maintainer.json; start again to decide."
    assert git(lamps, "diff", "--cached", "--name-only") == "debug.log"
    shown = lines(run_example("git_maintainer", "y\nn\nn\n"))
    assert shown[0] == "Going on with git-maintainer.json." and shown[-1] == REFUSED
    assert git(lamps, "log", "--format=%s") == "Begin" and git(lamps, "diff", "--cached", "--name-only") == ""


def test_the_maintainer_says_what_it_needs_where_the_server_is_missing(
    run_example: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lines(run_example("git_maintainer")) == [
        "This example needs git and its MCP server: pip install mcp-server-git"
    ]
