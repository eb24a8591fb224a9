"""The house as a newcomer finds it: no module imports itself by a detour, and no function is longer than a page."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src" / "assent"
LONGEST = 60
"""The most lines of a function's code, its docstring and signature left out."""


def test_no_module_imports_itself_by_a_detour() -> None:
    grimp = pytest.importorskip("grimp", reason="it comes with import-linter, in the development environment")
    graph = grimp.build_graph("assent", cache_dir=None)
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
