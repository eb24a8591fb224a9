"""The texts of the pages and their translations: all written out, none left over, and numbers as readers write them."""

from __future__ import annotations

import string

import pytest

from assentry import Reject
from assentry.inbox.language import _LANGUAGE, translate_count
from assentry.inbox.templating import count_in_words, in_words
from assentry.store import MemoryStore
from tests.inbox.catalogue import OTHERS, catalogue, names_in, texts, written
from tests.inbox.office import ask_order, hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes

__all__ = ["cheap_hashes"]  # a fixture


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_has_no_text_that_no_page_has(language: str) -> None:
    assert catalogue(language).keys() - texts().keys() == set()


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_values_of_its_text(language: str) -> None:
    kept = {text: said for text, said in catalogue(language).items() if said}
    assert [text for text, said in kept.items() if names_in(text) != names_in(said)] == []


def test_the_values_of_a_text_have_plain_names() -> None:
    fields = [field for text in texts() for _, field, form, _ in string.Formatter().parse(text) if field is not None]
    assert all(field.isidentifier() for field in fields)


def test_bringing_a_catalogue_up_to_date_keeps_its_translations() -> None:
    for language in OTHERS:
        before = {text: said for text, said in catalogue(language).items() if said}
        after = written(language)
        assert all(said.split("\n")[0].replace('"', '\\"') in after for said in before.values())


@pytest.mark.parametrize(("language", "number"), [("en", "1,234,567"), ("ko", "1,234,567"), ("ja", "1,234,567")])
def test_numbers_are_written_as_their_readers_do(language: str, number: str) -> None:
    before = _LANGUAGE.set(language)
    try:
        assert translate_count("{n} thing", "{n} things", 1_234_567) == f"{number} things"
        assert count_in_words("{n} <b>", "{n} <i>", 1) == "1 &lt;b&gt;"
        assert in_words("{name} left", name="<b>") == "&lt;b&gt; left"
    finally:
        _LANGUAGE.reset(before)


@pytest.mark.usefixtures("cheap_hashes")
async def test_the_headline_of_a_question_is_in_the_readers_language_and_what_programs_get_is_not() -> None:
    async with MemoryStore() as store:
        await hire(store)
        question = await ask_order(store)
        app = make_app(store)
        async with Reader(app, "ann") as reader:
            await reader.send("/language", {"language": "ko", "next": "/questions"})
            for path in (f"/questions/{question.id}", f"/questions/{question.id}/edit", "/questions"):
                page = await reader.open(path)
                assert "place_order 실행: lines 항목 2개" in page.text and "Run place_order" not in page.text, path
            await store.decide(question.id, Reject("No."), by="ann", digest=question.digest)
            await reader.open("/audit.csv")
            assert "Run place_order with lines 2 items" in reader.answer.text
            answer = await reader.open("/audit")
            assert "place_order 실행: lines 항목 2개" in answer.text
