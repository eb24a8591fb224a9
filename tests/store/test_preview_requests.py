"""Requests for previews of edits in databases: nobody can put an answer there, and nothing stays."""

from assentry.store.preview_requests import LIVES, PreviewAnswer, PreviewRequest
from assentry.testing.store_checks.preview import PREVIEW_CHECKS
from tests.store.place import Place, place

__all__ = ["place"]  # a fixture


def wish(place: Place) -> PreviewRequest:
    until = int((place.clock() + LIVES) * 1000)
    made = {"question": "q1", "run": "r1", "agent": "Clerk", "digest": "d", "definition": "f", "by": "ann"}
    return PreviewRequest(id="pv1", arguments='{"key":"secret"}', until=until, **made)


async def test_every_database_does_what_a_store_of_requests_must(place: Place) -> None:
    for check in PREVIEW_CHECKS:
        async with place.store() as store:
            await store.upgrade()
            place.execute("DELETE FROM assentry_previews")
            await check(store, place.clock)


async def test_an_answer_that_was_put_into_the_row_is_not_shown(place: Place) -> None:
    async with place.store() as store:
        await store.previews.ask(wish(place))
        await store.previews.take("w", agents=["Clerk"], limit=1)
        await store.previews.answer("pv1", PreviewAnswer('{"sentence":"Pay 1"}'), worker="w")
        assert (await store.previews.find("pv1")).answer.preview == '{"sentence":"Pay 1"}'
        place.execute("UPDATE assentry_previews SET answer = replace(answer, 'Pay 1', 'Pay 9')")
        assert await store.previews.find("pv1") is None


async def test_nothing_is_left_of_a_request_that_nobody_answered(place: Place) -> None:
    async with place.store() as store:
        await store.previews.ask(wish(place))
        place.clock.advance(LIVES)
        assert place.execute("SELECT count(*) FROM assentry_previews") == [(1,)]
        assert await store.previews.take("w", agents=["Other"], limit=1) == []  # any worker that looks clears them
        assert place.execute("SELECT count(*) FROM assentry_previews") == [(0,)]


async def test_a_worker_that_looks_in_vain_writes_nothing(place: Place) -> None:
    async with place.store() as store:
        await store.upgrade()
        writes: list[object] = []
        write = store._write
        store._write = lambda work: writes.append(work) or write(work)  # type: ignore[method-assign]
        assert await store.previews.take("w", agents=["Clerk"], limit=1) == []
        assert writes == []
