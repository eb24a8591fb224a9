"""Every page that explains has a diagram, in the form that renderers take."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(ROOT.glob("docs/explanation/*.md"))
KINDS = ("flowchart ", "sequenceDiagram", "stateDiagram-v2")


def diagrams(page: Path) -> list[str]:
    """Return the mermaid blocks of a page."""
    return [
        token.content
        for token in MarkdownIt().parse(page.read_text("utf-8"))
        if token.type == "fence" and token.info == "mermaid"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_an_explanation_has_a_diagram(page: Path) -> None:
    assert diagrams(page)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_a_diagram_is_of_a_known_kind_and_has_no_semicolon(page: Path) -> None:
    for diagram in diagrams(page):
        assert diagram.startswith(KINDS)
        assert ";" not in diagram, "mermaid ends a statement there"
