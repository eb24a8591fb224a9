"""The programs of both sides: each case cut out of its file, and imports of LangChain's turned into ours."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
OURS = "assentry.threads"
MESSAGES = {
    "AIMessage",
    "AIMessageChunk",
    "AnyMessage",
    "HumanMessage",
    "RemoveMessage",
    "SystemMessage",
    "ToolMessage",
}
TOOLS = {"InjectedToolArg", "InjectedToolCallId", "ToolException", "tool"}
MOVED: dict[str, set[str] | None] = {
    "langchain.agents": None,
    "langchain.agents.middleware": None,
    "langchain.agents.middleware.types": None,
    "langchain.agents.structured_output": None,
    "langchain.messages": None,
    "langchain.tools": None,
    "langchain_core.messages": MESSAGES,
    "langchain_core.tools": TOOLS,
    "langgraph.checkpoint.memory": None,
    "langgraph.checkpoint.postgres": None,
    "langgraph.checkpoint.postgres.aio": None,
    "langgraph.checkpoint.sqlite": None,
    "langgraph.checkpoint.sqlite.aio": None,
    "langgraph.config": None,
    "langgraph.prebuilt": {"InjectedState", "InjectedStore", "ToolRuntime"},
    "langgraph.runtime": None,
    "langgraph.types": None,
}
"""The modules whose names are imported from `assentry.threads` instead; None for all of them.

Everything else (stores, documents, callbacks, chat models, tool classes) stays LangChain's own object.
"""
KEPT = {
    "forgotten": {"langchain.messages", "langchain.tools", "langgraph.config", "langgraph.types"},
    "objects": {"langchain_core.tools"},
}
"""By file of cases: modules whose imports somebody forgot to change, or left on purpose."""


@cache
def cases() -> dict[str, str]:
    """Return each case as a program of its own, by the file's name and its own: `gate.approve`."""
    found = {}
    for path in sorted((HERE / "cases").glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("case_"):
                found[f"{path.stem}.{node.name.removeprefix('case_')}"] = _cut(tree, node)
    return found


@cache
def programs() -> dict[str, str]:
    """Return the whole programs, by `program.` and the file's name."""
    return {f"program.{path.stem}": path.read_text("utf-8") for path in sorted((HERE / "programs").glob("*.py"))}


def everything() -> dict[str, str]:
    return {**cases(), **programs()}


def ours(name: str, text: str) -> str:
    """Return the program for our side."""
    tree = ast.parse(text)
    return ast.unparse(ast.fix_missing_locations(_Imports(KEPT.get(name.partition(".")[0], set())).visit(tree)))


class _Imports(ast.NodeTransformer):
    def __init__(self, kept: set[str]) -> None:
        self._kept = kept

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.ImportFrom]:
        module = node.module or ""
        if module not in MOVED or module in self._kept:
            return [node]
        names = MOVED[module]
        moved = [each for each in node.names if names is None or each.name in names]
        kept = [each for each in node.names if each not in moved]
        found = [ast.ImportFrom(OURS, moved, 0)] if moved else []
        return found + ([ast.ImportFrom(module, kept, 0)] if kept else [])


def _cut(tree: ast.Module, case: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the case with the statements of its file that it needs, and nothing else."""
    needed, wanted = _names(case), [case]
    while more := [node for node in tree.body if node not in wanted and _gives(node) & needed]:
        wanted += more
        needed = needed.union(*map(_names, more))
    kept = [_only(node, needed) for node in tree.body if node in wanted]
    runs = f"{case.name}()"
    if isinstance(case, ast.AsyncFunctionDef):
        runs = f"import asyncio\nasyncio.run({case.name}())"
    return ast.unparse(ast.Module([*kept, *ast.parse(runs).body], []))


def _only(node: ast.stmt, needed: set[str]) -> ast.stmt:
    """Return an import without the names that are not needed; any other statement as it is."""
    if isinstance(node, ast.ImportFrom):
        return ast.ImportFrom(node.module, [each for each in node.names if (each.asname or each.name) in needed], 0)
    return node


def _gives(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a file defines."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(each.asname or each.name).partition(".")[0] for each in node.names}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
