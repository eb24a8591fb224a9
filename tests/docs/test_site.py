"""The check of the built site finds what it looks for. `make docs` runs it on the site itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.docs.site import SEARCHES, not_found, problems

ROOT = Path(__file__).parent.parent.parent


def site(directory: Path, body: str) -> list[str]:
    (directory / "sub").mkdir()
    (directory / "main.css").write_text("p { color: red }", "utf-8")
    (directory / "sub" / "other.html").write_text('<h2 id="there">There</h2>', "utf-8")
    (directory / "index.html").write_text(f"<html><body>{body}</body></html>", "utf-8")
    return problems(directory)


@pytest.mark.parametrize(
    "body",
    [
        '<a href="sub/other.html">x</a>',
        '<a href="sub/other.html#there">x</a>',
        '<a href="#here">x</a><p id="here">',
        '<a href="https://example.org/">a link to elsewhere is the reader\'s to follow</a>',
        '<link rel="stylesheet" href="main.css">',
        '<link rel="canonical" href="https://example.org/">',
        '<img src="data:image/png;base64,AAAA">',
    ],
)
def test_a_site_that_is_whole_has_no_problems(tmp_path: Path, body: str) -> None:
    assert site(tmp_path, body) == []


@pytest.mark.parametrize(
    "body",
    [
        '<script src="https://example.org/x.js"></script>',
        '<script src="//example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img src="http://example.org/x.png">',
        '<iframe src="https://example.org/"></iframe>',
        "<style>@import 'https://example.org/x.css';</style>",
        '<p style="background: url(https://example.org/x.png)">',
        '<pre class="mermaid">a --> b</pre>',
    ],
)
def test_what_is_fetched_from_elsewhere_is_found(tmp_path: Path, body: str) -> None:
    [problem] = site(tmp_path, body)
    assert problem.startswith("index.html loads ")


def test_a_style_sheet_that_fetches_is_found(tmp_path: Path) -> None:
    (tmp_path / "late.css").write_text("@font-face { src: url(https://example.org/x.woff2) }", "utf-8")
    assert site(tmp_path, "") == ["late.css loads https://example.org/x.woff2"]


@pytest.mark.parametrize(
    ("href", "why"),
    [
        ("gone.html", "which is not there"),
        ("sub/other.html#gone", "where there is no such place"),
        ("#gone", "where there is no such place"),
        ("sub/", "which is not there"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, href: str, why: str) -> None:
    assert site(tmp_path, f'<a href="{href}">x</a>') == [f"index.html links to {href}, {why}"]


def test_a_diagram_that_stayed_text_is_found(tmp_path: Path) -> None:
    assert site(tmp_path, '<div class="language-mermaid highlight">') == ["index.html has a diagram that is not drawn"]


def test_a_search_finds_a_page_by_the_words_of_its_titles() -> None:
    index = {"items": [{"location": "a.html", "title": "How to approve"}, {"location": "a.html#b", "title": "A tool"}]}
    assert not_found(index, {"approve a tool": "a.html", "tool": "a.html"}) == []
    [problem] = not_found(index, {"approve docker": "a.html"})
    assert "no title there has 'docker'" in problem
    assert len(not_found(index, {"approve a tool": "b.html"})) == 3


def test_what_people_search_for_is_in_the_titles_of_the_sources() -> None:
    items = [
        {"location": page.replace(".html", ".md"), "title": line}
        for page in SEARCHES.values()
        for line in (ROOT / "docs" / page.replace(".html", ".md")).read_text("utf-8").splitlines()
        if line.startswith("#")
    ]
    assert not_found({"items": items}, {query: page.replace(".html", ".md") for query, page in SEARCHES.items()}) == []


def test_an_empty_site_is_not_a_whole_one(tmp_path: Path) -> None:
    assert problems(tmp_path) != []


def pages(nav: list[dict[str, object]]) -> list[str]:
    """The pages of a navigation, in its order."""
    found = []
    for entry in nav:
        for value in entry.values():
            found += pages(value) if isinstance(value, list) else [str(value)]
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    there = [path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")]
    assert sorted(pages(nav)) == sorted(there)
