"""Many runs, several workers and many people at once: each effect happens once, and of two deciders one wins."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from assentry import Approve, Decision, Edit, Reject
from assentry.engines.temporal import Recorded, TemporalRun, TemporalRuns
from assentry.errors import AlreadyDecided, AssentryError
from assentry.store import SQLiteStore

from .processes import Place, asked, result, start

pytestmark = pytest.mark.temporal

RUNS = 200
RACES = 40
AT_ONCE = 40
"""The number of runs that people look at at the same time."""
PATIENT = {"patience": timedelta(seconds=60)}


def decision_on(order: int) -> tuple[Decision, str | None]:
    """Return what people say to a refund, and what then happens."""
    if order % 4 == 0:
        return Reject("no"), None
    if order % 4 == 1:
        return Edit({"order": order + 1000}), f"refund {order + 1000}"
    return Approve(), f"refund {order}"


async def test_two_workers_many_runs_and_many_people(place: Place) -> None:
    people = [await place.runs(**PATIENT) for _ in range(3)]
    await asyncio.gather(place.worker().up(), place.worker().up())
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(order: int) -> TemporalRun:
        async with turn:
            run = await start(people[order % 3], f"refund {order}, pay {order}")
            question = await asked(run)
            said = (who.decide(question.id, decision_on(order)[0], by="ann", digest=question.digest) for who in people)
            recorded = await asyncio.gather(*said)  # the same decision, from all of them at the same time
            assert len({each.verdict for each in recorded}) == 1
            assert (await result(run)).endswith(f"done: pay {order}")
            return run

    async with asyncio.timeout(150):
        runs = await asyncio.gather(*(one(order) for order in range(RUNS)))
    wanted = Counter(f"pay {order}" for order in range(RUNS))
    wanted.update(what for order in range(RUNS) if (what := decision_on(order)[1]) is not None)
    for word in ("begin", "end"):
        done = Counter(line.removeprefix(f"{word} ") for line in place.done() if line.startswith(word))
        assert done == wanted
    async with SQLiteStore(place.folder / "runs.db") as store:
        assert [problem for run in runs for problem in await store.verify(run.id)] == []


async def test_approve_races_reject_and_edit(place: Place) -> None:
    """Three clients at once, in every order: one of them wins, and the others learn who decided what and when."""
    ann, bob, cleo = [await place.runs(**PATIENT) for _ in range(3)]
    await asyncio.gather(place.worker().up(), place.worker(cached=0).up())
    turn = asyncio.Semaphore(AT_ONCE)
    orders = list(itertools.permutations(range(3)))

    async def one(order: int) -> tuple[int, str]:
        async with turn:
            run = await start(ann, f"refund {order}")
            question = await asked(run)
            said: list[tuple[TemporalRuns, str, Decision]] = [
                (ann, "ann", Approve()),
                (bob, "bob", Reject("no")),
                (cleo, "cleo", Edit({"order": order + 1000})),
            ]
            calls = [
                runs.decide(question.id, decision, by=name, digest=question.digest)
                for runs, name, decision in (said[n] for n in orders[order % len(orders)])
            ]
            found = await asyncio.gather(*calls, return_exceptions=True)
            return order, check_race(found, await result(run))

    async with asyncio.timeout(120):
        won = dict(await asyncio.gather(*(one(order) for order in range(RACES))))
    wanted = sorted(
        f"begin refund {order if name == 'ann' else order + 1000}" for order, name in won.items() if name != "bob"
    )
    assert sorted(line for line in place.done() if line.startswith("begin")) == wanted
    assert len(set(won.values())) > 1  # they did race


def check_race(found: list[Recorded | BaseException], output: str) -> str:
    """See that one won, and that the others were told so; return the winner's name."""
    [winner] = [each for each in found if isinstance(each, Recorded)]
    lost: list[Any] = [each for each in found if not isinstance(each, Recorded)]
    for error in lost:
        assert type(error) is AlreadyDecided, error
        assert (error.by, error.verdict, error.at) == (winner.by, winner.verdict, winner.at)
        assert f"by {winner.by} already, at 20" in str(error)
    assert (winner.by, winner.verdict) in (("ann", "approve"), ("bob", "reject"), ("cleo", "edit"))
    assert output.startswith("done: refund") is (winner.by != "bob")
    return winner.by or ""


async def test_the_same_edit_twice_at_once_is_no_error(place: Place) -> None:
    runs = await place.runs(**PATIENT)
    await place.worker().up()
    run = await start(runs, "refund 1")
    question = await asked(run)
    edits = (
        runs.decide(question.id, Edit({"order": 2}), by=name, digest=question.digest) for name in ("ann", "bob", "cleo")
    )
    recorded = await asyncio.gather(*edits)
    assert len({(each.by, each.at) for each in recorded}) == 1
    assert await result(run) == "done: refund 2"
    again = await runs.decide(question.id, Edit({"order": 2}), by="dan", digest=question.digest)
    assert again.by == recorded[0].by  # the run is over
    with pytest.raises(AlreadyDecided, match=f"edited by {again.by}"):
        await runs.decide(question.id, Edit({"order": 3}), by="ann", digest=question.digest)
    with pytest.raises(AssentryError):
        await runs.decide(question.id, Approve(), by="ann", digest="0" * 64)
    assert place.done() == ["begin refund 2", "end refund 2"]
