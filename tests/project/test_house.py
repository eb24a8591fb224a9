"""The house as a newcomer finds it: no cycles, no long functions, a map of the folders, nothing hidden cited."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "assentry"
LONGEST = 60
"""The most lines of a function's code, its docstring and signature left out."""


def test_no_module_imports_itself_by_a_detour() -> None:
    grimp = pytest.importorskip("grimp", reason="it comes with import-linter, in the development environment")
    graph = grimp.build_graph("assentry", cache_dir=None)
    try:
        TopologicalSorter({each: graph.find_modules_directly_imported_by(each) for each in graph.modules}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_function_is_longer_than_a_page() -> None:
    long = []
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                code = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = code[-1].end_lineno - code[0].lineno + 1 if code else 0  # type: ignore[operator]
                if lines > LONGEST:
                    long.append((f"{file.relative_to(SOURCE)}: {node.name}", lines))
    assert long == []


def test_the_map_for_contributors_names_every_folder() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    folders = {f"tests/{file.parent.name}" for kind in ("*/*.py", "*/*.json") for file in (ROOT / "tests").glob(kind)}
    assert sorted(folder for folder in folders if f"| `{folder}` |" not in page) == []


def test_every_package_has_a_folder_of_tests() -> None:
    packages = {each.parent.name for each in SOURCE.glob("*/__init__.py")}
    assert sorted(name for name in packages if not list((ROOT / "tests" / name).glob("test_*.py"))) == []


def test_no_line_cites_a_document_that_readers_cannot_see() -> None:
    cited = re.compile(r"\bSPEC(\.md)?\b|\bDESIGN\.md\b|\b[Ii]ssue [0-9]+\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("src", "tests", "docs", "benchmarks", "examples")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".md", ".html", ".js", ".css") and path != Path(__file__)
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)  # environments of peers
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if cited.search(line)
    ]
    assert found == []
