"""Every text of the pages can be translated, and is translated into every language."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inbox.catalogue import OTHERS, TEMPLATES, bare_texts, catalogue, texts


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda file: file.name)
def test_no_text_of_a_template_is_left_out(template: Path) -> None:
    assert bare_texts(template) == []


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_is_translated(language: str) -> None:
    known = catalogue(language)
    assert [text for text in sorted(texts()) if not known.get(text)] == []
