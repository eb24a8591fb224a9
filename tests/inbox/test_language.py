"""The texts of the pages and their translations: all written out, none left over, and numbers as readers write them."""

from __future__ import annotations

import string

import pytest

from assentry import Reject
from assentry.approval.question import AS_IT_IS
from assentry.inbox.headline import reason_in_words
from assentry.inbox.language import _LANGUAGE, translate_count
from assentry.inbox.templating import count_in_words, in_words
from assentry.store import MemoryStore
from tests.inbox.catalogue import OTHERS, catalogue, names_in, texts, written
from tests.inbox.office import ask_everything, ask_order, hire, make_app
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


@pytest.mark.usefixtures("cheap_hashes")
async def test_why_a_question_is_asked_is_in_the_readers_language_and_what_programs_get_is_not() -> None:
    async with MemoryStore() as store:
        await hire(store)
        made = await ask_everything(store)
        async with Reader(make_app(store)) as reader:
            reader.client.headers["accept-language"] = "ko"
            refund = await reader.open(f"/questions/{made['refund'].id}")
            assert "refund 호출에는 항상 승인이 필요합니다." in refund.text
            doubt = await reader.open(f"/questions/{made['payout'].id}")
            begun = (
                "(1번째 시도) 어떻게 끝났는지 알 수 없습니다. The connection to the bank was lost. 실제로 일어났다면"
            )
            assert begun in doubt.text and "was started, as attempt" not in doubt.text
            assert begun in (await reader.open(f"/runs/{made['payout'].run}")).text
            ship = await reader.open(f"/questions/{made['ship'].id}")
            assert "ship 도구의 질문입니다." in ship.text and "ship asks." not in ship.text
            many = await reader.open(f"/questions/many?id={made['refund'].id}")
            assert "refund 호출에는 항상 승인이 필요합니다." in many.text
            answer = await reader.client.get(f"/api/questions/{made['payout'].id}")
            assert answer.json()["reason"] == made["payout"].reason
            assert made["payout"].reason.startswith("payout was started, as attempt 1, and how it ended is not known. ")


@pytest.mark.parametrize(
    "reason",
    [
        "It costs more than 100.",
        "refund was started, as attempt 1, and how it ended is not known.",
        "Every call of payout needs approval.",
    ],
)
def test_a_reason_that_others_wrote_stays_as_it_is(reason: str) -> None:
    for kind in ("approval", "input", "doubt"):
        assert reason_in_words(reason, "refund", kind, lambda text, **values: "translated") == reason


def test_why_a_call_cannot_run_as_it_is_keeps_its_problem() -> None:
    reason = f'The tool changed. {AS_IT_IS}"amount": is missing'
    assert reason_in_words(reason, "refund", "approval") == reason
    said = reason_in_words(reason, "refund", "approval", lambda text, **values: f"<{values['problem']}>")
    assert said == 'The tool changed. <"amount": is missing>'


@pytest.mark.usefixtures("cheap_hashes")
async def test_a_form_that_is_refused_says_so_in_the_readers_language() -> None:
    async with MemoryStore() as store:
        await hire(store)
        question = await ask_order(store)
        async with Reader(make_app(store)) as reader:
            await reader.send("/language", {"language": "ja", "next": "/questions"})
            answer = await reader.client.post(f"/questions/{question.id}/decision", data={"csrf": "of another sign-in"})
            assert answer.status_code == 403 and "サインイン前に開いたページです" in answer.text
            form = {"csrf": reader.page.forms[0].values["csrf"], "digest": question.digest, "type": "edit", "json": "{"}
            answer = await reader.client.post(f"/questions/{question.id}/decision", data=form)
            assert answer.status_code == 422 and "この引数はJSONではありません: " in answer.text
