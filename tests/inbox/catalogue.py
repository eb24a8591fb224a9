"""The texts of the pages, as they are in the source, and the catalogues of their translations.

`python -m tests.inbox.catalogue` brings the catalogues up to date: missing texts come in without a translation, and
those that no page has any more go out.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from jinja2 import nodes
from jinja2.ext import babel_extract

from assentry.inbox.language import LANGUAGES, texts_in_scripts
from assentry.inbox.templating import environment

INBOX = Path(__file__).parent.parent.parent / "src" / "assentry" / "inbox"
LOCALE = INBOX / "locale"
TEMPLATES = sorted((INBOX / "templates").glob("*.html"))
OTHERS = tuple(language for language in LANGUAGES if language != "en")
"""The languages that have a catalogue."""
CALLS = {"translate": 1, "translate_count": 2, "in_words": 1, "count_in_words": 2}
"""The functions that translate, and how many of their first arguments are texts."""
PASSED_ON = "templating.py"
"""The module whose functions translate what they are given."""

Texts = dict[str, set[str]]
"""The texts of the pages, each with the files that have it."""


def texts() -> Texts:
    """Return all texts of the pages. Raises `ValueError` for a text that is not written out where it is translated."""
    found: Texts = {}
    for place, text in (*_in_templates(), *_in_python()):
        found.setdefault(text, set()).add(place)
    for text in texts_in_scripts():
        found.setdefault(text, set()).add("static")
    return found


def _in_templates() -> Iterator[tuple[str, str]]:
    for file in TEMPLATES:
        options = {"trimmed": "false", "trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}
        source = io.BytesIO(file.read_bytes())
        for line, function, message, _ in babel_extract(source, ["_", "_n"], [], options):
            given = message if isinstance(message, tuple) else (message,)
            for text in given[: 2 if function == "_n" else 1]:
                if not isinstance(text, str):
                    raise ValueError(f"{file.name}:{line}: a text to translate is written out, between double quotes")
                yield f"templates/{file.name}", text


def _in_python() -> Iterator[tuple[str, str]]:
    for file in sorted(INBOX.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in CALLS:
                continue
            for each in node.args[: CALLS[node.func.id]]:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield file.name, each.value
                elif file.name != PASSED_ON:
                    raise ValueError(f"{file.name}:{node.lineno}: a text to translate is written out, not made up")


def catalogue(language: str) -> dict[str, str]:
    """Return the translations of a language; the empty text for one that is missing."""
    with (LOCALE / f"{language}.po").open("rb") as file:
        return {str(each.id): str(each.string or "") for each in read_po(file, locale=language) if each.id}


def names_in(text: str) -> set[str]:
    """Return the names of the values in a text."""
    return set(re.findall(r"\{(\w+)\}", text))


# -- texts that are not translated -------------------------------------------------------------------------------------

WORD = re.compile(r"[^\W\d_]{2,}")
NAMES = {"assentry", "CSV", "JSON", "Esc", "Ctrl", "Enter", "db", "verify", "SHA", "UTC"}
"""Words that are the same in every language."""
ATTRIBUTES = re.compile(r'\s(?:title|placeholder|aria-label|alt)="([^"]*)"')
GLUED = {"s", "is", "are", "has", "have", " ago"}
"""Pieces of sentences that other languages do not make so."""


def bare_texts(file: Path) -> list[str]:
    """Return the texts of a template that are not translated, roughly."""
    source = file.read_text("utf-8")
    plain = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", source, flags=re.DOTALL)
    plain = re.sub(r"<(kbd|code|title|style|script)\b[^>]*>.*?</\1>", "", plain, flags=re.DOTALL)
    outside = re.sub(r'[\w-]+="[^"]*"', "", re.sub(r"<[^>]*>", "\n", plain))  # attributes after a > that is no end
    found = [*ATTRIBUTES.findall(plain), *outside.splitlines()]
    found += [text for text in _constants(source) if text in GLUED or re.match(r"[A-Z]\w|.*\w \w", text)]
    return [text.strip() for text in found if set(WORD.findall(text)) - NAMES or text in GLUED]


def _constants(source: str) -> Iterator[str]:
    """Yield the texts that expressions of a template write as they are."""
    for output in environment().parse(source).find_all(nodes.Output):
        for each in output.nodes:
            yield from _written(each)


def _written(node: nodes.Node | None) -> Iterator[str]:
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, nodes.CondExpr):
        yield from _written(node.expr1)
        yield from _written(node.expr2)
    elif isinstance(node, nodes.Concat):
        for each in node.nodes:
            yield from _written(each)


# -- the catalogues ----------------------------------------------------------------------------------------------------

HEAD = """msgid ""
msgstr ""
"Language: {language}\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


def written(language: str) -> str:
    """Return the catalogue of a language with exactly the texts of the pages, in their order."""
    known, made = catalogue(language), Catalog(locale=language)
    for text, places in sorted(texts().items()):
        made.add(text, known.get(text, ""), locations=[(place, 0) for place in sorted(places)])
    file = io.BytesIO()
    write_po(file, made, width=0, omit_header=True, include_lineno=False, sort_output=True)
    return HEAD.format(language=language) + file.getvalue().decode().strip() + "\n"


def main() -> int:
    """Bring the catalogues up to date, and say what each lacks."""
    for language in OTHERS:
        (LOCALE / f"{language}.po").write_text(written(language), "utf-8")
        missing = sum(not string for string in catalogue(language).values())
        print(f"{language}: {len(texts())} texts, {missing} without a translation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
