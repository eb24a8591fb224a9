"""A seeded fault: one piece of a module's source with something else in its place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src"


class Fault(NamedTuple):
    """In place of the bytes from `start` to `end` of a module, this text; and what that amounts to."""

    what: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Mutant:
    """A module with one fault; its name says which, and stays the same while the code around it changes."""

    name: str
    module: str
    group: str
    fault: Fault

    def source(self) -> bytes:
        """The module's text with the fault in it."""
        whole = path_of(self.module).read_bytes()
        return whole[: self.fault.start] + self.fault.text.encode() + whole[self.fault.end :]


def path_of(module: str) -> Path:
    return (SOURCE / module.replace(".", "/")).with_suffix(".py")


def named(module: str, group: str, faults: Iterable[Fault]) -> Iterator[Mutant]:
    """The faults as mutants; what occurs twice in one function is numbered."""
    seen: Counter[str] = Counter()
    for fault in faults:
        name = f"{module.rpartition('.')[2]}.{fault.what}"
        seen[name] += 1
        yield Mutant(name if seen[name] == 1 else f"{name} ({seen[name]})", module, group, fault)


class Text:
    """A module's source, and where in it a node is."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.tree = ast.parse(source)
        lines = source.splitlines(keepends=True)
        self.starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]

    def span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr) -> str:
        """The node as it is written."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def put(self, node: ast.expr, what: str, text: str) -> Fault:
        return Fault(what, *self.span(node), text)


def short(text: str) -> str:
    """A piece of code on one line."""
    return " ".join(text.split()).replace("( ", "(").replace(" )", ")")
