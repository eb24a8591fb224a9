"""Faults in conditions: each is never met, or always; each of its parts is left out; each border is moved.

They are made from the syntax tree, so that they follow the code. A condition that guards a `raise` is not made to hold
always: a check that refuses everything needs no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .mutant import Fault, Text, short

OTHER: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
WORDS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def faults(text: Text) -> Iterator[Fault]:
    """The faults in the conditions of every function of a module."""
    for name, function in functions(text.tree):
        for fault in _in_function(text, function):
            yield fault._replace(what=f"{name}: {fault.what}")


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The functions of a module and the methods of its classes, with their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def _in_function(text: Text, function: ast.AST) -> Iterator[Fault]:
    whole = dict(_tests(function))
    covered: set[ast.expr] = set(whole)  # to leave it out is to negate it, or worse
    for node in _walk(function):
        if node in whole:
            yield from _decided(text, node, whole[node])  # type: ignore[arg-type, index]
        if isinstance(node, ast.BoolOp) and not _is_default(node):
            covered |= set(node.values)
            yield from _parts(text, node)
        elif isinstance(node, ast.Compare):
            yield from _compared(text, node, node in covered)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and node not in covered:
            yield text.put(node, f"'{short(text.of(node))}' negated", f"bool({text.of(node.operand)})")


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in the order they are written; not what is raised: the words of a refusal are not its condition."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Raise):
            yield child
            yield from _walk(child)


def _tests(function: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """What is decided on in a function, and whether an exception is all that it decides on."""
    for node in _walk(function):
        if isinstance(node, ast.If):
            yield node.test, isinstance(node.body[0], ast.Raise)
        elif isinstance(node, ast.IfExp):
            yield node.test, False
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield test, False


def _decided(text: Text, test: ast.expr, raises: bool) -> Iterator[Fault]:
    # Evaluated all the same: a name that it binds is bound.
    yield text.put(test, f"'{short(text.of(test))}' never", f"(({text.of(test)}) and False)")
    if not raises:
        yield text.put(test, f"'{short(text.of(test))}' always", f"(({text.of(test)}) or True)")


def _is_default(node: ast.BoolOp) -> bool:
    """`words or ""`: what stands for nothing, and no condition."""
    return isinstance(node.op, ast.Or) and isinstance(node.values[-1], ast.Constant)


def _parts(text: Text, node: ast.BoolOp) -> Iterator[Fault]:
    word = " and " if isinstance(node.op, ast.And) else " or "
    for left_out in node.values:
        rest = word.join(f"({text.of(value)})" for value in node.values if value is not left_out)
        yield text.put(node, f"'{short(text.of(node))}' without '{short(text.of(left_out))}'", f"({rest})")


def _compared(text: Text, node: ast.Compare, covered: bool) -> Iterator[Fault]:
    for n, op in enumerate(node.ops):
        if covered and not isinstance(op, ORDER):
            continue
        words = [OTHER[type(each)] if m == n else WORDS[type(each)] for m, each in enumerate(node.ops)]
        sides = [f"({text.of(side)})" for side in node.comparators]
        new = f"({text.of(node.left)}) " + " ".join(f"{word} {side}" for word, side in zip(words, sides, strict=True))
        yield text.put(node, f"'{short(text.of(node))}' with '{words[n]}' for '{WORDS[type(op)]}'", f"({new})")
