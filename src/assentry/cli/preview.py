"""Questions and their previews as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from msgspec.json import encode

from ..definitions.preview import (
    SQL,
    AnyBlock,
    Diff,
    Mail,
    Money,
    Preview,
    Sentence,
    Shell,
    Table,
    Text,
    diff_lines,
    split_lines,
    warnings_first,
)
from ..inbox.headline import arguments_in_order, order_of
from ..store.record import Entry, Question
from .write import spelled_name, when


def question_lines(question: Question) -> list[str]:
    """Return a question line by line: what would happen first, and then all of its fields."""
    first = [] if question.preview is None else list(preview_lines(question.preview))
    if question.verdict == "edit":
        first = ["The preview and the arguments are those of the proposal; it was approved with changes.", *first]
    return [*first, *(f"{name}: {value}" for name, value in _parts(question))]


def edit_lines(question: Question, history: Iterable[Entry]) -> list[str]:
    """Return what an edit approved instead of the proposal; `history` is the journal of the question's run."""
    for fact in (entry.fact for entry in history):
        tool, args = fact.get("tool"), fact.get("args")
        if fact.get("fact") == "approved" and fact.get("asked") == question.id and (tool or args is not None):
            text = question.arguments if args is None else encode(args).decode()
            return [f"approved instead: {tool or question.tool} {arguments_in_order(text, order_of(question))}"]
    return []


def _parts(question: Question) -> list[tuple[str, str]]:
    """Return all fields of a question to print."""
    parts: list[tuple[str, str | None]] = [
        ("question", question.id),
        ("run", question.run),
        ("agent", spelled_name(question.agent)),
        ("under", "/".join(question.path) or None),
        ("tool", spelled_name(question.tool)),
        ("kind", question.kind),
        ("arguments", arguments_in_order(question.arguments, order_of(question))),
        ("reason", question.reason),
        ("prompt", None if question.prompt is None else encode(question.prompt).decode()),
        ("schema", None if question.schema is None else encode(question.schema).decode()),
        ("evidence", encode(question.evidence).decode() if question.evidence else None),
        ("allowed", ", ".join(question.allowed)),
        ("reviewers", ", ".join(question.reviewers) or None),
        ("started by", question.started_by),
        ("asked", when(question.at)),
        ("until", None if question.until is None else when(question.until)),
        ("due", None if question.due is None else when(question.due)),
        ("replaces", question.replaces),
        ("digest", question.digest),
        ("verdict", question.verdict),
        ("by", question.by),
        ("decided", None if question.decided is None else when(question.decided)),
    ]
    return [(name, value) for name, value in parts if value is not None]


def preview_lines(preview: Preview) -> Iterator[str]:
    """Yield a preview line by line: the sentence, the blocks, and the preconditions."""
    yield f"no preview: {preview.failed}" if preview.failed is not None else f"preview: {preview.sentence}"
    for block in warnings_first(preview.blocks):
        yield from (f"  {line}" for line in block_lines(block))
    for name, value in preview.preconditions.items():
        yield f"  as long as {name} is {encode(value).decode()}"


def block_lines(block: AnyBlock) -> list[str]:
    """Return a block as lines."""
    match block:
        case Sentence(text=text, warning=warning):
            return [f"WARNING: {text}" if warning else text]
        case Text(text=text, title=title):
            return [*([f"{title}:"] if title else []), *_text(text)]
        case Diff(path=path, text=text, change=change, to=to):
            return [f"{change} {path}{f' to {to}' if to else ''}", *_diff(text)]
        case SQL():
            return _sql(block)
        case Money(amount=amount, currency=currency, label=label):
            return [f"{f'{label}: ' if label else ''}{amount} {currency}"]
        case Mail():
            return _mail(block)
        case Shell(commands=commands, cwd=cwd):
            return [*([f"in {cwd}"] if cwd else []), *(line for each in commands for line in _command(each))]
        case Table():
            return _table(block)


BLANK = 3
"""The fewest blank lines in a row that are printed as one line that counts them."""


def _folded(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines with their signs; long runs of blank ones are counted, so that they push nothing out of sight."""
    made: list[str] = []
    for (sign, blank), each in groupby(lines, key=lambda line: (line[0], not line[1].strip(" \t"))):
        run = list(each)
        many = blank and len(run) >= BLANK
        made += [f"{sign}[{len(run)} blank lines]"] if many else [f"{sign}{text}" for _, text in run]
    return made


def _text(text: str) -> list[str]:
    return _folded(("", line) for line in split_lines(text))


def _diff(text: str) -> list[str]:
    """Return the lines of a diff. A space after the sign tells a line from a head that looks like it."""
    lines = diff_lines(split_lines(text))
    return _folded((f"{line.sign} " if line.kind != "head" else "", line.text) for line in lines)


def _command(command: str) -> list[str]:
    """Return a command as a shell shows it: further lines of the same command have another mark."""
    return _folded((f"{'>' if number else '$'} ", line) for number, line in enumerate(split_lines(command)))


def _sql(sql: SQL) -> list[str]:
    lines = [f"{f'{sql.dialect}: ' if sql.dialect else ''}{sql.statement}"]
    lines += [f"with {encode(sql.params).decode()}"] if sql.params is not None else []
    return lines + ([f"rows: {sql.rows}"] if sql.rows is not None else [])


def _mail(mail: Mail) -> list[str]:
    heads = [("From", [mail.sender] if mail.sender else []), ("To", mail.to), ("Cc", mail.cc), ("Bcc", mail.bcc)]
    lines = [f"{name}: {', '.join(people)}" for name, people in heads if people]
    lines += [f"Subject: {mail.subject}", *(f"Attached: {name}" for name in mail.attachments), ""]
    return [*lines, *_text(mail.body)]


def _table(table: Table) -> list[str]:
    rows = [
        table.columns,
        *([each if type(each) is str else encode(each).decode() for each in row] for row in table.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*([table.caption] if table.caption else []), *lines]
