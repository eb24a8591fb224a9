"""What is written: data to stdout, messages to stderr. What models and users wrote is text, never control."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec


def visible(text: str) -> str:
    """The text on one line, with characters that hide or mislead (control, direction, zero width) spelled out."""
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def put(text: str = "") -> None:
    """A line of data."""
    print(visible(text))


def put_json(value: Any) -> None:
    """Data as JSON, on one line."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


def put_table(rows: Iterable[Sequence[str]]) -> None:
    """Lines whose parts stand under one another."""
    lines = [[visible(part) for part in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip())


def say(text: str) -> None:
    """A message, on one line."""
    print(visible(text), file=sys.stderr)


def confirmed(question: str) -> bool:
    """Whether a person says yes to this; anything else is no."""
    print(visible(question), end=" [y/N] ", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line or not sys.stdin.isatty():
        print(file=sys.stderr)
    return line.strip().lower() in ("y", "yes")


def when(at: int | None) -> str:
    """A time of the store, in UTC."""
    if at is None:
        return "-"
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(at)
