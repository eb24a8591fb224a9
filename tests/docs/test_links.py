"""Links between the pages that are read in the repository lead somewhere. `make docs` checks those of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "README.md"]
PAGES += ROOT.glob("changelog.d/*.md")


def links(page: Path) -> Iterator[str]:
    """Where a page leads."""
    for block in MarkdownIt().enable("table").parse(page.read_text("utf-8")):
        for token in block.children or ():
            if token.type in ("link_open", "image"):
                yield str(token.attrs.get("href") or token.attrs.get("src"))


def places(page: Path) -> set[str]:
    """The headings of a page, as a link names them."""
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    titles = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def astray(page: Path, url: str) -> bool:
    """Whether a link of a page leads nowhere; one that leaves the repository is not followed."""
    parts = urlsplit(url)
    if parts.scheme:
        return False
    target = page.parent / unquote(parts.path) if parts.path else page
    return not target.exists() or (bool(parts.fragment) and parts.fragment not in places(target))


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert [url for url in links(page) if astray(page, url)] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, here\n\n| [a](#a-title-here) |\n|---|\n| [b](#b) |\n\n[c](c.md) [d](page.md#d)\n", "utf-8"
    )
    assert [url for url in links(page) if astray(page, url)] == ["#b", "c.md", "page.md#d"]
