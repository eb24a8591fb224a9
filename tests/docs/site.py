"""Looks at the built documentation site: `python tests/docs/site.py site`.

zensical checks the links between the sources. This checks what it made of them: every link within the site leads to a
page and a place on it, no page, script or style sheet of it makes a browser fetch anything from elsewhere, every
diagram is drawn, and the search finds what people look for. It needs nothing but Python, so that it runs in the
environment that builds the site.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src")}
LOADS |= {("embed", "src"), ("object", "data"), ("link", "href"), ("img", "srcset"), ("source", "srcset")}
HARMLESS = {"canonical", "prev", "next", "alternate", "edit"}
"""Relations of a `link` that name a page and fetch nothing."""
STYLE_LOADS = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
DRAWN_BY_A_SCRIPT = {"mermaid", "glightbox"}
"""Classes that make the theme's script fetch another one."""
UNDRAWN = "language-mermaid"
"""The class of a diagram that stayed text."""
SEARCHES = {
    "approve a tool": "howto/approvals.html",
    "docker": "howto/deployment.html",
    "notifications": "howto/webhooks.html",
    "production": "howto/deployment.html",
    "slack": "howto/webhooks.html",
    "webhooks": "howto/webhooks.html",
}
"""What people look for, and the page whose titles must have the words."""


@dataclass
class Page(HTMLParser):
    """What a page loads, where it leads, and the places on it."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)
    style: bool = False
    undrawn: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.style = tag == "style"
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if not (tag == "link" and set(given.get("rel", "").split()) <= HARMLESS):
            self.loads += [value for name, value in given.items() if (tag, name) in LOADS]
        self.loads += STYLE_LOADS.findall(given.get("style", ""))
        classes = set(given.get("class", "").split())
        self.loads += [f"a script for {name!r}" for name in DRAWN_BY_A_SCRIPT & classes]
        self.undrawn += UNDRAWN in classes

    def handle_data(self, data: str) -> None:
        if self.style:
            self.loads += STYLE_LOADS.findall(data)


def read(path: Path) -> Page:
    """A page, parsed."""
    page = Page()
    page.feed(path.read_text("utf-8"))
    page.close()
    return page


def remote(url: str) -> bool:
    """Whether fetching this leaves the site."""
    return url.startswith("a script for ") or bool(urlsplit(url.strip()).netloc)


def problems(site: Path) -> list[str]:
    """What is wrong with a site, a line each."""
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site}: there are no pages"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name} loads {url}" for url in page.loads if remote(url)]
        found += [f"{name} has a diagram that is not drawn"] * page.undrawn
        if name.name != "404.html":  # it is served for every address, so its links are not relative to itself
            found += [f"{name} links to {url}, {why}" for url in page.links if (why := astray(path, url, pages))]
    for path in sorted(site.rglob("*.css")):
        found += [f"{path.relative_to(site)} loads {url}" for url in STYLE_LOADS.findall(path.read_text("utf-8"))]
    return found


def astray(path: Path, url: str, pages: dict[Path, Page]) -> str | None:
    """Why a link leads nowhere; None if it does not, or leaves the site."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return "which is not there"
    place = unquote(parts.fragment)
    if place and target in pages and place not in pages[target].places:
        return "where there is no such place"
    return None


def not_found(index: dict[str, Any], searches: Mapping[str, str]) -> list[str]:
    """What the search of a site does not find, a line each: the titles of the page must have every word of it."""
    titles: dict[str, str] = {}
    for item in index["items"]:
        page = item["location"].partition("#")[0]
        titles[page] = titles.get(page, "") + " " + item["title"].lower()
    return [
        f"the search for {query!r} does not lead to {page}: no title there has {word!r}"
        for query, page in searches.items()
        for word in query.split()
        if not re.search(rf"\b{re.escape(word)}", titles.get(page, ""))
    ]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    site = Path(sys.argv[1])
    index = json.loads((site / "search.json").read_text("utf-8"))
    found = [*problems(site), *not_found(index, SEARCHES)]
    for line in found:
        print(line)
    print(f"{site}: {len(list(site.rglob('*.html')))} pages, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
