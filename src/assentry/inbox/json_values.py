"""JSON values as HTML: complete, exact and readable. Numbers are shown as they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from markupsafe import Markup

from ..core.hidden import is_hidden
from ..core.wording import described
from .bounds import is_too_long
from .escaping import hidden_characters, spell_out_hidden
from .folding import folded_text
from .headline import in_signature_order
from .language import local_number, translate
from .picked_time import picked_time_in

MOST_VALUES = 400
"""The most values that are laid out one by one. Larger data is shown as JSON text."""
DEEPEST = 6
LONG = 2000
"""The number of characters from which a text gets a box of its own, with its size."""

LONGEST_CELL = 160
"""The most characters of a value that is shown at once in a cell of a table."""


class TooLong(ValueError):
    """A JSON text that is too long to be read for a page. It is shown, or compared, as text."""


class WrittenNumber(str):
    """A number as it is written: it never passes through a float."""

    __slots__ = ()


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise `ValueError` if a key occurs twice, since only the last would be shown."""
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {described(twice)} occurs twice")
    return made


def read_json(text: str) -> Any:
    """Return the value of a JSON text with its numbers as they are written.

    Raises `TooLong` for a text that would take too long, and `ValueError` for one that is no JSON.
    """
    if is_too_long(text):
        raise TooLong(f"it is too long for this page, {size_of(text)}")
    try:
        return json.loads(
            text, parse_int=WrittenNumber, parse_float=WrittenNumber, parse_constant=_refuse, object_pairs_hook=_pairs
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_or_text(text: str) -> Any:
    """Return the value of a JSON text as `read_json` does; the text itself if it is too long."""
    try:
        return read_json(text)
    except TooLong:
        return text


def write_json(value: Any, indent: int | None = None) -> str:
    """Return the JSON text of a value from `read_json`, with hidden characters escaped."""
    out: list[str] = []
    _write(value, "" if indent is None else "\n", indent or 0, out)
    return "".join(out)


def _write(value: Any, line: str, indent: int, out: list[str], *, texts: bool = False) -> None:
    if isinstance(value, WrittenNumber):
        out.append(str(value))
    elif isinstance(value, dict | list) and value:
        pairs = value.items() if isinstance(value, dict) else [(None, each) for each in value]
        inner = line and line + " " * indent
        out.append("{" if isinstance(value, dict) else "[")
        for n, (key, each) in enumerate(pairs):
            out.append(("," if n else "") + (inner or (" " if n else "")))
            if key is not None:
                out.append(f"{quoted(key)}: ")
            _write(each, inner, indent, out, texts=texts)
        out.append(line + ("}" if isinstance(value, dict) else "]"))
    elif texts and isinstance(value, str) and "\n" in value:
        out.append(_laid_out_text(value, line))
    else:
        out.append(quoted(value) if isinstance(value, str) else json.dumps(value))


TEXT_LINE = "│ "
"""The mark before each line of a text that is laid out over several lines."""


def laid_out_json(value: Any) -> str:
    """Return a value from `read_json` as text to be compared line by line: a text of several lines is not escaped.

    Each of its lines stands behind a mark, so that no text can look like another part of the value.
    """
    out: list[str] = []
    _write(value, "\n", 2, out, texts=True)
    return "".join(out)


def _laid_out_text(text: str, line: str) -> str:
    inner = f"{line}  {TEXT_LINE}"
    lines = "".join(f"{inner}{quoted(each)[1:-1]}" for each in text.split("\n"))
    return f"text{lines}{line}end"


_DIGITS = re.compile(r"(?P<sign>-?)(?P<whole>[0-9]{4,})(?P<rest>\.[0-9]+)?\Z")
_THIN = "\u202f"


def grouped_digits(text: str) -> str:
    """Return a number as people read it, in groups of three digits: "1 234 567.5"; empty if it reads like that already.

    The space is narrow and does not break. A number of four digits, and one with an exponent, stay as they are.
    """
    found = _DIGITS.match(text)
    if found is None or len(found["whole"]) < 5:
        return ""
    whole = f"{int(found['whole']):,}" if len(found["whole"]) < 4000 and found["whole"][0] != "0" else ""
    return f"{found['sign']}{whole.replace(',', _THIN)}{found['rest'] or ''}" if whole else ""


def shown_number(text: str) -> Markup:
    """Return a text as HTML, a long number with space between its groups of digits: nothing is in the text itself."""
    if not (grouped := grouped_digits(text)):
        return spell_out_hidden(text)
    whole, dot, rest = grouped.partition(".")
    first, *groups = whole.split(_THIN)
    return Markup("{}{}{}").format(first, Markup("").join(map(Markup("<i>{}</i>").format, groups)), dot + rest)


def quoted(text: str) -> str:
    """Return a text as a JSON string. Letters stay as they are; hidden characters are escaped."""
    whole = json.dumps(text, ensure_ascii=False)
    if whole.isascii() and "\x7f" not in whole:
        return whole
    return "".join(json.dumps(char)[1:-1] if is_hidden(char) else char for char in whole)


def size_of(text: str) -> str:
    """Return the size of a text in words: "5.0 MB"."""
    count = len(text.encode(errors="surrogatepass"))
    if count < 1000:
        return translate("{n} bytes", n=count)
    return f"{count / 1000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def plain_size(value: Any, most: int = MOST_VALUES) -> bool:
    """Return True if the value is small and flat enough to be laid out one value after another."""
    level, count = [value], 0
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        count += len(level)
        if count > most:
            return False
        if not level:
            return True
    return False


def box(text: str, label: str, extra: str = "") -> Markup:
    """Return a box with a text, its size above it."""
    return Markup('<small class="size">{} · {}{}</small><div class="box">{}</div>').format(
        label, size_of(text), extra, folded_text(text)
    )


def shown_json(value: Any) -> Markup:
    """Return a value from `read_json` as HTML."""
    if isinstance(value, dict | list) and not plain_size(value):
        return box(write_json(value, 2), "JSON")
    return _laid_out(value)


def _laid_out(value: Any) -> Markup:
    if isinstance(value, dict) and value:
        rows = [(spell_out_hidden(name), _laid_out(each)) for name, each in value.items()]
    elif isinstance(value, list) and value:
        rows = [(Markup("{}").format(n), _laid_out(each)) for n, each in enumerate(value)]
    elif isinstance(value, str) and not isinstance(value, WrittenNumber):
        return shown_text(value)
    else:
        return Markup('<span class="v">{}</span>').format(shown_number(write_json(value)))
    kind = "seq" if isinstance(value, list) else "map"
    parts = [Markup("<dt>{}</dt><dd>{}</dd>").format(name, each) for name, each in rows]
    return Markup('<dl class="args {}">{}</dl>').format(kind, Markup("").join(parts))


def shown_text(text: str) -> Markup:
    """Return a string as HTML: in quotation marks on one line, or in a block with its line breaks."""
    if len(text) > LONG:
        names = hidden_characters(text[:100_000])
        held = f" · {translate('holds {names}', names=', '.join(names[:3]))}" if names else ""
        return box(text, translate("text, {n} characters", n=local_number(len(text))), held)
    if "\n" in text.rstrip("\n") or "\t" in text:
        size = translate("text, {n} lines", n=local_number(text.count("\n") + 1))
        return Markup('<small class="size">{}</small><div class="box">{}</div>').format(size, folded_text(text))
    mark = Markup('<span class="qm">"</span>')
    shown = Markup('<span class="v s">{}<bdi>{}</bdi>{}</span>').format(mark, spell_out_hidden(text), mark)
    found = picked_time_in("date-time", text)
    if found is None or not found.zone:
        return shown
    return shown + Markup(' <small class="moment" data-local="{}"></small>').format(text)


def shown_cell(text: str) -> Markup:
    """Return a JSON text as HTML for a cell of a table. One that is long is behind its size and its beginning."""
    try:
        whole = shown_json(read_json(text))
    except ValueError:
        whole = box(text, translate("not laid out"))
    if len(text) <= LONGEST_CELL:
        return whole
    mark = Markup('<details class="fold"><summary>{}: {}…</summary>{}</details>')
    return mark.format(size_of(text), spell_out_hidden(text[: LONGEST_CELL // 2]), whole)


def shown_arguments(text: str, order: Collection[str] = ()) -> Markup:
    """Return a question's arguments as HTML, complete and in this order; text that is no JSON as it is."""
    try:
        value = read_json(text)
    except TooLong:
        return box(text, "JSON")
    except ValueError:
        return box(text, translate("not JSON; shown as the model wrote it"))
    value = in_signature_order(value, order) if isinstance(value, dict) else value
    if value == {}:
        return Markup('<p class="none">{}</p>').format(translate("The call has no arguments."))
    return shown_json(value)
