"""Runs in drawn worlds that live in a store: processes die at any write, others interfere, and the promises hold."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from assent.core import facts as f
from assent.store import MemoryStore, Store
from assent.store.sqlite import SQLiteStore
from assent.testing import FakeClock
from tests.property.play import COUNTS, Ending, same, told
from tests.property.stored_play import StoredPlay
from tests.property.test_runs import worlds
from tests.property.world import FEATURES, World

MANY = 3 if os.environ.get("CI") else 1
slowly = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def playing(world: World, name: str, store: Store | None = None, clock: FakeClock | None = None) -> StoredPlay:
    clock = clock or FakeClock()
    return StoredPlay(world, name, store or MemoryStore(clock=clock), clock)


@settings(max_examples=20 * MANY, suppress_health_check=slowly)
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


@settings(max_examples=25 * MANY, suppress_health_check=slowly)
@given(worlds, st.lists(st.tuples(st.sampled_from(["before", "after"]), st.integers(1, 12)), min_size=1, max_size=4))
async def test_processes_that_die_at_any_write_lose_nothing_and_nothing_is_done_twice(
    world: World, deaths: list[tuple[Any, int]]
) -> None:
    first = await told(world)
    play = playing(world, "dying")
    await dies(play, first, deaths)


async def dies(play: StoredPlay, first: Ending, deaths: list[tuple[Any, int]]) -> None:
    play.deeds = [(when, number, lambda door, change: door.die(change)) for when, number in deaths]
    ending = await play.finish()
    event(f"died {play.deaths} times")
    same(first, ending)


DEEDS = ("cancelled", "cancelled_and_resumed", "decided", "taken_over")
deeds = st.lists(
    st.tuples(st.sampled_from(["before", "after"]), st.integers(1, 12), st.sampled_from(DEEDS)), min_size=1, max_size=4
)


@settings(max_examples=25 * MANY, suppress_health_check=slowly)
@given(worlds, deeds)
async def test_a_run_that_others_stop_decide_on_or_take_over_comes_to_the_same(
    world: World, done: list[tuple[Any, int, str]]
) -> None:
    first = await told(world)
    play = playing(world, "disturbed")
    play.deeds = [(when, number, getattr(play, name)) for when, number, name in done]
    same(first, await play.finish())


@settings(max_examples=15 * MANY, suppress_health_check=slowly)
@given(
    worlds,
    st.lists(
        st.tuples(
            st.sampled_from(["before", "after"]), st.integers(1, 12), st.sampled_from([*DEEDS, "said", "revoked"])
        ),
        min_size=1,
        max_size=5,
    ),
)
async def test_whatever_others_say_or_take_back_meanwhile_the_promises_hold(
    world: World, done: list[tuple[Any, int, str]]
) -> None:
    play = playing(world, "spoken to")
    play.deeds = [(when, number, getattr(play, name)) for when, number, name in done]
    ending = await play.finish()
    event(f"ends {ending.status}")
    revoked: set[str] = set()
    for fact in ending.journal:
        if type(fact) is f.Revoked:
            revoked.add(fact.grant)
        assert str(getattr(fact, "by", "")).removeprefix("grant:") not in revoked
