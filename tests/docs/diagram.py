"""Draws the pages' diagrams while the site is built: zensical calls `draw` for every `mermaid` block.

A page then holds the finished picture, so that reading it needs no script and no network. Drawing takes a second or
two; drawings are kept in the environment that builds the site, until their source changes.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Any

import mermaidx

LOOKS = {"theme": "neutral", "htmlLabels": False, "flowchart": {"htmlLabels": False}}
"""Labels are SVG text: labels in HTML would take the style of the page around them."""
SMALLEST = 0.5
"""A wide diagram is shrunk to this at most, so that its text can be read; beyond that the reader scrolls."""


def draw(source: str, *_: Any, **__: Any) -> str:
    """Return a diagram as the SVG that stands in the page, with ids that no other diagram of the page has."""
    name = hashlib.sha256(f"{LOOKS} {source}".encode()).hexdigest()[:16]
    kept = Path(sys.prefix) / "diagrams" / f"{name}.svg"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(_svg(source, f"diagram-{name}"), "utf-8")
    svg = kept.read_text("utf-8")
    [width] = re.findall(r"max-width: ([0-9.]+)px;", svg)
    least = f"min-width: {float(width) * SMALLEST:.0f}px; max-width:"
    return f'<figure class="diagram">{svg.replace("max-width:", least, 1)}</figure>'


def _svg(source: str, name: str) -> str:
    svg = mermaidx.render(source, config=LOOKS).svg()
    [id] = re.findall(r'<svg[^>]*? id="([^"]+)"', svg)
    return svg.replace(id, name)
