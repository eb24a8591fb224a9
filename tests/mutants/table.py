"""Faults in the table: a row dropped, a row that leads elsewhere, a row too many, an answer more or less."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from .mutant import Fault, Text


class Row(NamedTuple):
    """A row as it is written."""

    node: ast.Call
    phase: str
    fact: str
    next: ast.Name


def faults(text: Text) -> Iterator[Fault]:
    """The faults in the rows and in the answers."""
    rows = [_row(node) for node in ast.walk(_value(text.tree, "ROWS")) if isinstance(node, ast.Call)]
    phases = _phases(text.tree)
    yield from _dropped(text, rows)
    yield from _led_elsewhere(text, rows, phases)
    yield from _added(text, rows, phases)
    yield from _answers(text)


def _value(tree: ast.Module, name: str) -> ast.expr:
    """What is assigned to this name in the module."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name:
            return node.value  # type: ignore[union-attr, attr-defined, return-value]
    raise LookupError(name)


def _phases(tree: ast.Module) -> list[str]:
    [phase] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Phase"]
    return [node.targets[0].id for node in phase.body if isinstance(node, ast.Assign)]  # type: ignore[attr-defined]


def _row(node: ast.Call) -> Row:
    phase, fact, next, _ = node.args
    assert isinstance(phase, ast.Name) and isinstance(fact, ast.Attribute) and isinstance(next, ast.Name)
    return Row(node, phase.id, fact.attr, next)


def _dropped(text: Text, rows: list[Row]) -> Iterator[Fault]:
    for row in rows:
        yield text.put(row.node, f"ROWS: {row.phase}, {row.fact} dropped", "*()")


def _led_elsewhere(text: Text, rows: list[Row], phases: list[str]) -> Iterator[Fault]:
    for row in rows:
        for phase in phases:
            if phase != row.next.id:
                yield text.put(row.next, f"ROWS: {row.phase}, {row.fact} leads to {phase}, not {row.next.id}", phase)


def _added(text: Text, rows: list[Row], phases: list[str]) -> Iterator[Fault]:
    """Each fact in each phase that has no row for it, leading where the fact leads elsewhere."""
    leads: dict[str, dict[str, str]] = {}
    for row in rows:
        leads.setdefault(row.fact, {})[row.phase] = row.next.id
    last = rows[-1].node
    for fact, known in leads.items():
        for phase in phases:
            if phase not in known:
                stays = all(before == after for before, after in known.items())
                next = phase if stays else next_of(known)
                row_text = f"Row({phase}, f.{fact}, {next}, 'a row too many')"
                yield text.put(last, f"ROWS: {phase}, {fact} added, to {next}", f"{text.of(last)}, {row_text}")


def next_of(known: dict[str, str]) -> str:
    """Where a fact leads first of all."""
    return next(iter(known.values()))


def _answers(text: Text) -> Iterator[Fault]:
    answers = _value(text.tree, "ANSWERS")
    assert isinstance(answers, ast.Dict)
    by_kind = {ast.literal_eval(key): value for key, value in zip(answers.keys, answers.values, strict=True) if key}
    every = list(dict.fromkeys(verdict for value in by_kind.values() for verdict in ast.literal_eval(value)))
    for kind, value in by_kind.items():
        fit = ast.literal_eval(value)
        for verdict in every:
            if verdict in fit:
                less = tuple(each for each in fit if each != verdict)
                yield text.put(value, f"ANSWERS: {kind} without {verdict}", repr(less))
            else:
                yield text.put(value, f"ANSWERS: {kind} with {verdict}", repr((*fit, verdict)))
