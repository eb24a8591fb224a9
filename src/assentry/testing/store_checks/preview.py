"""Checks of the requests for previews of edits, for a store that keeps any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ...store.preview_requests import LIVES, MOST_OF_ONE, PreviewAnswer, PreviewRequest, PreviewRequests, await_answer
from ...store.store import Store
from ..clock import FakeClock
from .expect import alike, only, true

SOON = 20.0
"""The seconds in which a waiting task must hear of a request."""


def _request(store: Store, id: str, question: str = "q1", by: str = "ann", agent: str = "Clerk") -> PreviewRequest:
    until = int((store.clock() + LIVES) * 1000)
    return PreviewRequest(
        id=id,
        question=question,
        run="r1",
        agent=agent,
        digest="d",
        definition="f",
        arguments='{"to":"\u00e5nn"}',
        by=by,
        until=until,
    )


def _with_requests(
    check: Callable[[Store, FakeClock, PreviewRequests], Awaitable[None]],
) -> Callable[..., Awaitable[None]]:
    async def checked(store: Store, clock: FakeClock) -> None:
        if store.previews is not None:
            await check(store, clock, store.previews)

    checked.__name__, checked.__doc__ = check.__name__, check.__doc__
    return checked


@_with_requests
async def gives_requests(store: Store, clock: FakeClock, requests: PreviewRequests) -> None:
    """A request goes to one worker of its agent, and its answer to whoever asked."""
    asked = _request(store, "pv1")
    true(await requests.ask(asked), "A request is kept.")
    alike(await requests.find("pv1"), asked, "A request is found as it was made.")
    alike(await requests.take("w", agents=["Other"], limit=5), [], "A request goes to workers of its agent alone.")
    taken = only(await requests.take("w1", agents=["Other", "Clerk"], limit=5), "A worker of the agent gets it.")
    alike((taken.id, taken.worker, taken.arguments), ("pv1", "w1", asked.arguments), "It is given as it was made.")
    alike(await requests.take("w2", agents=["Clerk"], limit=5), [], "No request goes to two workers.")
    late, own = PreviewAnswer(problem="late"), PreviewAnswer('{"sentence":"Send to \u00e5nn"}')
    true(not await requests.answer("pv1", late, worker="w2"), "Only the worker that took a request answers it.")
    true(not await requests.answer("pv2", late, worker="w1"), "What nobody asked for is not answered.")
    true(await requests.answer("pv1", own, worker="w1"), "The worker that took a request answers it.")
    true(not await requests.answer("pv1", late, worker="w1"), "A request has one answer.")
    alike(await await_answer(requests, asked, 0.0), own, "Whoever asked gets the answer.")
    await requests.forget("pv1")
    alike(await requests.find("pv1"), None, "A request can be forgotten.")


@_with_requests
async def forgets_requests(store: Store, clock: FakeClock, requests: PreviewRequests) -> None:
    """A request is gone after a few seconds, and so is its answer."""
    await requests.ask(_request(store, "pv1"))
    await requests.ask(_request(store, "pv2", "q2"))
    await requests.take("w1", agents=["Clerk"], limit=1)
    clock.advance(LIVES)
    alike(await requests.find("pv1"), None, "A request is gone after its time.")
    alike(await requests.take("w2", agents=["Clerk"], limit=5), [], "A request that is gone goes to nobody.")
    true(not await requests.answer("pv1", PreviewAnswer("{}"), worker="w1"), "An answer that comes late is not kept.")


@_with_requests
async def bounds_requests(store: Store, clock: FakeClock, requests: PreviewRequests) -> None:
    """A person has one request about a question, and there is an end to requests."""
    for number in range(MOST_OF_ONE):
        true(await requests.ask(_request(store, f"pv{number}", f"q{number}")), "There is room for some requests.")
    true(not await requests.ask(_request(store, "more", "q99")), "There is an end to one person's requests.")
    true(await requests.ask(_request(store, "other", "q0", by="ben")), "Others still have room.")
    true(await requests.ask(_request(store, "again", "q0")), "A newer request about a question replaces the older.")
    alike(await requests.find("pv0"), None, "The older request is gone.")
    for number in range(MOST_OF_ONE - 2):
        await requests.ask(_request(store, f"by{number}", "q0", by=f"person {number}"))
    true(
        not await requests.ask(_request(store, "too many", "q0", by="eve")),
        "There is an end to those about one question.",
    )


@_with_requests
async def wakes_for_requests(store: Store, clock: FakeClock, requests: PreviewRequests) -> None:
    """A worker that waits hears of a request, and whoever asked hears of the answer."""

    async def work() -> None:
        while not (taken := await requests.take("w1", agents=["Clerk"], limit=1)):
            await requests.wait(SOON)
        await requests.answer(taken[0].id, PreviewAnswer("{}"), worker="w1")

    async def ask() -> PreviewAnswer | None:
        asked = _request(store, "pv1")
        await requests.ask(asked)
        return await await_answer(requests, asked, SOON)

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    alike(await asyncio.wait_for(ask(), SOON), PreviewAnswer("{}"), "Whoever waits is woken.")
    await working


PREVIEW_CHECKS = (gives_requests, forgets_requests, bounds_requests, wakes_for_requests)
