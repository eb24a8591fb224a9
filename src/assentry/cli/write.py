"""Output: data to stdout, messages to stderr. Text from models and users is never printed as control characters."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..core.hidden import hidden_parts, odd_letters


def spell_out(text: str) -> str:
    """Return the text on one line, with every character escaped that a reader could not see."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(seen + json.dumps(run)[1:-1] for seen, run in hidden_parts(text, lines=False))


def spelled_name(text: str) -> str:
    """Return the name of a tool or an agent; letters that look like others are spelled out after it."""
    odd = [f"U+{ord(each):04X} {unicodedata.name(each, 'unknown').lower()}" for each in odd_letters(text)]
    return f"{text} (not what it looks like: {', '.join(odd)})" if odd else text


def put(text: str = "") -> None:
    """Print a line of data."""
    print(spell_out(text))


def put_text(text: str) -> None:
    """Print text of many lines: byte for byte into a file or pipe, with hidden characters spelled out on a screen."""
    if sys.stdout.isatty():
        for line in text.removesuffix("\n").split("\n"):
            put(line)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def put_json(value: Any) -> None:
    """Print data as JSON, on one line."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


def put_done(value: Any, sentence: str, *, json: bool) -> None:
    """Print what a command has done: as JSON for programs, or in a sentence for people."""
    if json:
        put_json(value)
    else:
        put(sentence)


def put_table(rows: Iterable[Sequence[str]]) -> None:
    """Print rows as aligned columns."""
    lines = [[spell_out(part) for part in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip())


def say(text: str) -> None:
    """Print a message to stderr, on one line."""
    print(spell_out(text), file=sys.stderr)


def confirm(question: str) -> bool:
    """Ask a question and return True if the answer is yes; anything else is no."""
    print(spell_out(question), end=" [y/N] ", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line or not sys.stdin.isatty():
        print(file=sys.stderr)
    return line.strip().lower() in ("y", "yes")


def confirm_typed(question: str, word: str) -> bool:
    """Ask a question and return True if the answer is this word; anything else is no."""
    print(spell_out(f'{question} Type "{word}":'), end=" ", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line or not sys.stdin.isatty():
        print(file=sys.stderr)
    return line.strip().lower() == word


def when(at: int | None) -> str:
    """Return a time of the store as text, in UTC."""
    if at is None:
        return "-"
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(at)
