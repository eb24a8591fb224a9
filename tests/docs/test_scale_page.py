"""The tables and the plot of the page on scale are made from the results of the benchmark, so they show nothing else.

After a change of the results, write them anew with: ASSENTRY_WRITE=1 python -m pytest tests/docs/test_scale_page.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import scale

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = DOCS / "explanation" / "scale.md"
PLOT = DOCS / "images" / "scale" / "plot.svg"
RESULTS = scale.load()
TABLES = scale.tables(RESULTS)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_results_as_they_are(name: str) -> None:
    if os.environ.get("ASSENTRY_WRITE"):
        PAGE.write_text(scale.with_table(PAGE.read_text("utf-8"), TABLES[name]), "utf-8")
    assert "\n".join(["", *TABLES[name], ""]) in PAGE.read_text("utf-8"), "write the page anew with ASSENTRY_WRITE=1"


def test_the_plot_shows_the_results_as_they_are() -> None:
    if os.environ.get("ASSENTRY_WRITE"):
        PLOT.parent.mkdir(exist_ok=True)
        PLOT.write_text(scale.draw(RESULTS), "utf-8")
    assert PLOT.read_text("utf-8") == scale.draw(RESULTS), "draw the plot anew with ASSENTRY_WRITE=1"
