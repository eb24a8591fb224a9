"""Runs in drawn worlds that live in a store: processes die at any write, others interfere, and the promises hold."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, currently_in_test_context, event, given, settings
from hypothesis import strategies as st

from assentry.core import facts as f
from assentry.core import snapshot as snapshots
from assentry.store import MemoryStore, Store
from assentry.store.sqlite import SQLiteStore
from assentry.testing import FakeClock
from tests.draws import examples
from tests.property.play import COUNTS, Ending, same, told
from tests.property.stored_play import StoredPlay
from tests.property.test_runs import worlds
from tests.property.world import FEATURES, World


@pytest.fixture(autouse=True, scope="module")
def snapshots_wherever_they_can_be_taken() -> Iterator[None]:
    """The runs here are short; each goes on from a snapshot all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "EVERY", 1)
        yield


slowly = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def playing(world: World, name: str) -> StoredPlay:
    clock = FakeClock()
    return StoredPlay(world, name, MemoryStore(clock=clock), clock)


@settings(max_examples=examples(60), suppress_health_check=slowly)
@given(worlds)
async def test_a_run_in_a_store_comes_to_the_same_as_one_in_hand(world: World) -> None:
    first = await told(world)
    event(f"ends {first.status}")
    play = playing(world, "stored")
    same(first, await play.finish())
    await rebuilt(play.store)


async def rebuilt(store: Store) -> None:
    """The records are what can be made anew."""
    before = [*(await store.questions()).items, *(await store.questions(settled=True, limit=1000)).items]
    before += (await store.grants(revoked=True, limit=1000)).items
    await store.rebuild()
    after = [*(await store.questions()).items, *(await store.questions(settled=True, limit=1000)).items]
    after += (await store.grants(revoked=True, limit=1000)).items
    assert after == before


writes = st.tuples(st.sampled_from(["before", "after"]), st.integers(1, 12))
"""Around which write of a process something happens."""
deaths = st.lists(writes, min_size=1, max_size=4)


@settings(max_examples=examples(75), suppress_health_check=slowly)
@given(worlds, deaths)
async def test_processes_that_die_at_any_write_lose_nothing_and_nothing_is_done_twice(
    world: World, dying: list[tuple[Any, int]]
) -> None:
    first = await told(world)
    await dies(playing(world, "dying"), first, dying)


async def dies(play: StoredPlay, first: Ending, deaths: list[tuple[Any, int]]) -> None:
    play.deeds = [(when, number, lambda door, change: door.die(change)) for when, number in deaths]
    ending = await play.finish()
    if currently_in_test_context():
        event(f"died {play.deaths} times")
    same(first, ending)


@settings(max_examples=examples(12), suppress_health_check=slowly)
@given(worlds, deaths, st.booleans())
async def test_a_run_in_a_file_loses_nothing_either(world: World, dying: list[tuple[Any, int]], slow: bool) -> None:
    first, clock = await told(world), FakeClock()
    with TemporaryDirectory() as folder:
        async with SQLiteStore(f"{folder}/runs.db", clock=clock) as store:
            store._writer.pace = 1e9 if slow else 0.0  # on a thread, or not
            play = StoredPlay(world, "in a file", store, clock)
            await dies(play, first, dying)
            assert await store.verify(play.run_id or "") == []
            await rebuilt(store)


DEEDS = ("cancelled", "cancelled_and_resumed", "decided", "taken_over")
"""What others do that changes nothing in the end,"""
WORDS = ("said", "revoked")
"""and what may."""


def disturbing(*names: str) -> st.SearchStrategy[list[tuple[tuple[Any, int], str]]]:
    return st.lists(st.tuples(writes, st.sampled_from(names)), min_size=1, max_size=5)


def disturbed(play: StoredPlay, deeds: list[tuple[tuple[Any, int], str]]) -> StoredPlay:
    play.deeds = [(*write, getattr(play, name)) for write, name in deeds]
    return play


@settings(max_examples=examples(75), suppress_health_check=slowly)
@given(worlds, disturbing(*DEEDS))
async def test_a_run_that_others_stop_decide_on_or_take_over_comes_to_the_same(world: World, deeds: Any) -> None:
    first = await told(world)
    same(first, await disturbed(playing(world, "disturbed"), deeds).finish())


@settings(max_examples=examples(60), suppress_health_check=slowly)
@given(worlds, disturbing(*DEEDS, *WORDS))
async def test_whatever_others_say_or_take_back_meanwhile_the_promises_hold(world: World, deeds: Any) -> None:
    ending = await disturbed(playing(world, "spoken to"), deeds).finish()
    event(f"ends {ending.status}")
    no_grant_is_used_once_it_is_revoked(ending)


def no_grant_is_used_once_it_is_revoked(ending: Ending) -> None:
    revoked: set[str] = set()
    for fact in ending.journal:
        if type(fact) is f.Revoked:
            revoked.add(fact.grant)
        assert str(getattr(fact, "by", "")).removeprefix("grant:") not in revoked


# -- that all of it happens ----------------------------------------------------------------------------

EXPECTED = {
    *("died", "taken over", "raised: LeaseLost", "cancelled in the store", "cancelled and resumed", "decided early"),
    *("said meanwhile", "revoked meanwhile", "Left", "Witnessed", "doubt: Approve", "doubt: Respond", "Awaited"),
}


async def test_the_plays_reach_all_that_they_claim_to() -> None:
    COUNTS.clear()
    for seed in range(400):
        if all(COUNTS[name] > 1 for name in EXPECTED):
            return
        chance = Random(seed)
        world = World(seed, frozenset(name for name in FEATURES if chance.random() < 0.6))
        drawn = [(chance.choice(["before", "after"]), chance.randint(1, 6)) for _ in range(4)]
        play = playing(world, "varied")
        if seed % 2:
            await dies(play, await told(world), drawn)
        else:
            deeds = [(write, chance.choice([*DEEDS, *WORDS])) for write in drawn]
            ending = await disturbed(play, deeds).finish()
            COUNTS.update({type(fact).__name__ for fact in ending.journal})
    assert {name for name in EXPECTED if COUNTS[name] < 2} == set()
