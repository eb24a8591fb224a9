"""Docstrings as the model reads them: a tool's description, and one for each parameter.

The three common styles (Google, NumPy, reST) are told apart here and parsed by `griffe`, which is heavy: it is
imported only for a docstring that has sections. The use of the texts does not belong here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from inspect import cleandoc
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Style = Literal["google", "numpy", "sphinx"]


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring's prose, and its description of each parameter."""

    description: str = ""
    params: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None, style: Style | None = None) -> Docstring:
    """Parse a docstring, of any style if none is given; for None and blank text the result is empty."""
    text = cleandoc(text or "").strip()
    style = style or _style(text)
    if style is None:
        return Docstring(text)
    prose: list[str] = []
    params: dict[str, str] = {}
    for kind, value, title in _sections(text, style):
        if kind == "text":
            prose.append(value.strip())
        elif kind == "admonition" and value.kind not in _FOR_DEVELOPERS:
            prose.append(f"{title}:\n{indent(value.contents, '    ')}".strip())
        elif kind in ("parameters", "other parameters"):
            params |= {_bare(each.name): each.description.strip() for each in value}
    return Docstring("\n\n".join(filter(None, prose)), {name: said for name, said in params.items() if said})


_FOR_DEVELOPERS: Final = frozenset({"example", "see-also", "references", "todo"})
"""Headings whose text is about the source, not about the tool's effect."""

_FIELD = r"^:(?:{})\b[^:\n]*:"
_UNDERLINED = r"^(?:{})[ \t]*\n-{{3,}}[ \t]*$"
_INDENTED = r"^(?:{})[ \t]*:[ \t]*\n(?:[ \t]*\n)*[ \t]+\S"

_MARKS: Final[tuple[tuple[Style, str, str], ...]] = (
    # Parameter sections decide first: a Google docstring may end in a `:returns:` line.
    # A `:param x:` is hardly ever prose; an indented block under "Parameters:" may be.
    ("sphinx", _FIELD, r"param|parameter|arg|argument|key|keyword"),
    ("numpy", _UNDERLINED, r"(?:other )?parameters"),
    ("google", _INDENTED, r"(?:(?:keyword|other) )?(?:args|arguments|params|parameters)"),
    # No parameters are described, but there are other sections.
    ("sphinx", _FIELD, r"type|returns?|rtype|raises?|except|exception"),
    ("numpy", _UNDERLINED, r"returns|yields|receives|raises|warns|examples|attributes|deprecated"),
    ("google", _INDENTED, r"returns|yields|receives|raises|exceptions|warns|examples|attributes"),
)
_STYLES: Final[tuple[tuple[Style, re.Pattern[str]], ...]] = tuple(
    (style, re.compile(shape.format(words), re.IGNORECASE | re.MULTILINE)) for style, shape, words in _MARKS
)


def _style(text: str) -> Style | None:
    """Return the style of the docstring's sections; None if it has no sections."""
    return next((style for style, mark in _STYLES if mark.search(text)), None)


_GOOGLE_HEADING: Final = re.compile(
    r"(?<=\S)[ \t]*\n(?=" + "|".join(mark.pattern for style, mark in _STYLES if style == "google") + ")",
    re.IGNORECASE | re.MULTILINE,
)
"""The end of a line of text right before a Google heading; griffe wants a blank line there."""


def _sections(text: str, style: Style) -> Iterator[tuple[str, Any, str | None]]:
    import griffe

    if style == "google":
        text = _GOOGLE_HEADING.sub("\n\n", text)
    # A malformed docstring must not write to the log of a program that only defines a tool.
    with griffe.logger.disable():
        sections = griffe.parse(griffe.Docstring(text), style, warnings=False)
    for section in sections:
        yield section.kind.value, section.value, section.title


def _bare(name: str) -> str:
    """Return the name without stars and backslashes: `*args` and reST's `\\*args` describe the parameter `args`."""
    return name.lstrip("\\*").strip()
