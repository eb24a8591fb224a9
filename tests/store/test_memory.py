"""The store in memory: it does what every store must, and what is its own."""

import asyncio
import gc
import threading
import time
import weakref

import pytest
from msgspec.json import encode

from assentry.approval.decision import Approve
from assentry.core import facts as f
from assentry.errors import RunFinished, StoreFailed, UnreadableState
from assentry.store import Lease, MemoryStore, Store
from assentry.testing import FakeClock, check_store
from assentry.testing.store_checks.draft import (
    SEND,
    RunDraft,
    asking,
    json,
    put_asking,
    put_begun,
    put_ended,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock=clock)


async def test_it_does_what_every_store_must() -> None:
    await check_store(lambda clock: MemoryStore(clock=clock))


def test_it_is_a_store_and_goes_by_the_worlds_clock() -> None:
    store = MemoryStore()
    before = time.time()
    assert isinstance(store, Store)
    assert before <= store.clock() <= time.time()
    assert repr(store) == "<MemoryStore of 0 runs>"


async def test_a_closed_store_takes_nothing_more_and_says_so(store: MemoryStore) -> None:
    draft = await put_begun(store)
    async with store:
        await store.read(draft.id)
    with pytest.raises(StoreFailed, match="closed"):
        await store.read(draft.id)
    with pytest.raises(StoreFailed, match="closed"):
        await put_begun(store)
    with pytest.raises(StoreFailed, match="closed"):
        await store.wait(1)


async def test_closing_lets_everybody_go_who_waits(store: MemoryStore) -> None:
    waiting = [asyncio.ensure_future(store.wait(1_000)) for _ in range(3)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.wait_for(asyncio.gather(*waiting), 60)


async def test_a_waiter_whose_loop_is_gone_does_no_harm(store: MemoryStore) -> None:
    async def leave() -> None:
        waiting = asyncio.ensure_future(store.wait(1_000))
        await asyncio.sleep(0)
        waiting.cancel()

    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    store._wakeup._waiting.add(future)
    await put_begun(store)
    assert store._wakeup._waiting == set()
    await asyncio.to_thread(asyncio.run, leave())
    assert store._wakeup._waiting == set()


async def test_waiting_leaves_nothing_behind(store: MemoryStore) -> None:
    await store.wait(0)
    assert store._wakeup._waiting == set()


async def test_a_driven_run_wakes_nobody_until_it_is_given_back(store: MemoryStore) -> None:
    draft = await put_begun(store)
    (lease,) = await store.claim("w", agents=None, hold=10, limit=1)
    waiting = asyncio.ensure_future(store.wait(1_000))
    await asyncio.sleep(0)
    await draft.add(f.Said(json("more"), at=1)).write(store, lease=lease)
    assert len(store._wakeup._waiting) == 1
    await store.release(lease)
    await asyncio.wait_for(waiting, 60)


async def test_a_clock_that_fails_leaves_nothing_written(clock: FakeClock) -> None:
    class Broken(Exception):
        pass

    def broken() -> float:
        raise Broken

    store = MemoryStore(clock=clock)
    draft = await put_begun(store)
    change = asking(clock).change()
    more = draft.add(f.Said(json("more"), at=1)).change()
    store._clock = broken
    for each in (change, more):
        with pytest.raises(Broken):
            await store.append(each)
    store._clock = clock
    assert [(run.id, run.seq) for run in (await store.runs()).items] == [(draft.id, 2)]
    assert len((await store.read(draft.id)).facts) == 2
    assert (await store.questions()).items == []


async def test_a_run_that_was_erased_takes_no_facts(store: MemoryStore) -> None:
    draft = await put_ended(store)
    await store.erase(draft.id)
    with pytest.raises(RunFinished, match="erased"):
        await draft.add(f.Said(json("more"), at=1)).write(store)


async def test_payloads_of_an_erased_run_are_not_in_memory(store: MemoryStore) -> None:
    draft = RunDraft(store.clock).add(f.Said(json("secret" * 9_999), at=0)).conclude()
    await draft.write(store)
    assert b"secret" in encode(store._runs[draft.id])
    await store.erase(draft.id)
    assert b"secret" not in encode(store._runs[draft.id])


async def test_rebuilding_makes_records_that_were_lost(store: MemoryStore) -> None:
    (question,) = await put_asking(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest, grant=True)
    before = [await store.question(question.id), *(await store.grants()).items, *(await store.runs()).items]
    store._questions, store._grants = {}, {}
    store._runs[question.run].record.status = "closed"
    assert await store.rebuild() == 1
    assert [await store.question(question.id), *(await store.grants()).items, *(await store.runs()).items] == before


async def test_a_journal_that_does_not_fold_is_not_rebuilt_and_nothing_changes(store: MemoryStore) -> None:
    (question,) = await put_asking(store)
    draft = RunDraft(store.clock)
    change = draft.change()
    change.facts.append(f.Started("nothing"))
    await store.append(change)
    with pytest.raises(UnreadableState, match=draft.id):
        await store.rebuild()
    assert (await store.question(question.id)).verdict is None


async def test_a_worker_may_take_its_own_run_again(store: MemoryStore) -> None:
    draft = await put_begun(store)
    first = await store.take(draft.id, "w", seq=2, hold=10)
    second = await store.take(draft.id, "w", seq=2, hold=10)
    assert await store.renew([first, second], hold=10) == [second]


async def test_a_lease_that_ran_out_holds_until_somebody_takes_the_run(store: MemoryStore, clock: FakeClock) -> None:
    draft = await put_begun(store)
    (lease,) = await store.claim("w1", agents=None, hold=10, limit=1)
    clock.advance(11)
    await draft.add(f.Said(json("late, and nobody minds"), at=1)).write(store, lease=lease)
    assert await store.renew([lease], hold=10) == [lease]
    assert await store.claim("w2", agents=None, hold=10, limit=1) == []


async def test_a_run_made_and_given_back_at_once_is_nobodys(store: MemoryStore) -> None:
    draft = RunDraft(store.clock)
    await draft.write(store, lease=Lease(draft.id, "w", 1), hold=10, release=True)
    (lease,) = await store.claim("w2", agents=None, hold=10, limit=1)
    assert lease.fence == 2


async def test_a_run_exhausted_can_be_erased_and_a_cancelled_one_cannot(store: MemoryStore) -> None:
    draft = RunDraft(store.clock)
    (call,) = draft.propose(SEND)
    draft.add(f.Approved(call, "rule"), f.Started(call), f.Finished(call, json("sent")), f.Limited(1))
    await draft.write(store)
    assert (await store.read(draft.id)).record.status == "exhausted"
    await store.erase(draft.id)
    other = await put_ended(store)
    await store.cancel(other.id, by="ann")
    with pytest.raises(Exception, match="is not over, it is cancelled"):
        await store.erase(other.id)


async def test_many_threads_write_to_one_run_and_nothing_is_lost(store: MemoryStore) -> None:
    draft = await put_begun(store)
    start = threading.Barrier(4)

    async def talk(name: str) -> None:
        start.wait(60)
        for n in range(25):
            await store.say(draft.id, f"{name} {n}")

    threads = [threading.Thread(target=asyncio.run, args=(talk(f"thread {n}"),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({bytes(fact.items) for fact in (await store.read(draft.id)).facts if isinstance(fact, f.Said)}) == 101
    await store.lines(draft.id)


async def test_a_store_that_nobody_holds_is_freed() -> None:
    store = MemoryStore()
    await put_begun(store)
    await store.wait(0)
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
