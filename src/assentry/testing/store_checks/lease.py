"""Checks of leases: `claim`, `take`, `renew`, `release`, `wait`, and `append` with a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ...core import facts as f
from ...errors import Conflict, LeaseLost, Overtaken, RunBusy
from ...store.record import Lease
from ...store.store import Store
from ..clock import FakeClock
from .draft import SEND, RunDraft, json, put_asking, put_begun, put_ended
from .expect import alike, only, raises, same_facts, true

LONG = 60.0
"""Timeout for waits that should end at once, in seconds."""
WAIT = 30.0
"""Timeout of a waiter that should be woken long before, in seconds."""
TRIES = 400
"""The number of attempts to wake a waiter."""


async def _claim(
    store: Store, worker: str = "w1", agents: list[str] | None = None, hold: float = 10, limit: int = 100
) -> list[Lease]:
    return await store.claim(worker, agents=agents, hold=hold, limit=limit)


def _runs(leases: Iterable[Lease]) -> list[str]:
    return [lease.run for lease in leases]


async def claims_what_is_due(store: Store, clock: FakeClock) -> None:
    """Only runs are claimed that a worker should look at now."""
    alike(await _claim(store), [], "Where there are no runs, none is claimed.")
    await put_ended(store)
    await put_asking(store)
    (question,) = await put_asking(store, until=30_000)
    cancelled = await put_begun(store)
    await store.cancel(cancelled.id, by="ann")
    alike(await _claim(store), [], "Runs that are done, cancelled or wait for a person are not claimed.")
    working = await put_begun(store)
    lease = only(await _claim(store), "A run that somebody should work on is claimed.")
    alike((lease.run, lease.worker), (working.id, "w1"), "A run that somebody should work on is claimed.")
    await store.resume(cancelled.id, by="ann")
    alike(_runs(await _claim(store)), [cancelled.id], "A run that is resumed is claimed.")
    await store.decide(question.id, {"type": "reject"}, by="ann", digest=question.digest)
    alike(_runs(await _claim(store)), [question.run], "A run whose question was answered is claimed.")
    found = (await store.read(working.id)).record
    alike((found.worker, found.until), ("w1", int((clock() + 10) * 1000)), "A record says who drives a run until when.")


async def claims_at_deadlines(store: Store, clock: FakeClock) -> None:
    """A run that waits is claimed when a question's time is up."""
    (question,) = await put_asking(store, until=30_000)
    clock.advance(30)
    alike(await _claim(store), [], "Up to a deadline a run is not claimed.")
    clock.advance(1)
    alike(_runs(await _claim(store)), [question.run], "After a deadline a run is claimed.")


async def claims_in_order(store: Store, clock: FakeClock) -> None:
    """The runs that have waited longest come first, up to the limit, and of these agents only."""
    runs = []
    for agent in ("A", "B", "A", "C", "A"):
        runs.append((await put_begun(store, agent=agent)).id)
        clock.advance(1)
    await store.say(runs[0], "More.")  # the run has waited only from this moment on
    clock.advance(1)
    alike(await _claim(store, agents=[]), [], "Of no agents, no run is claimed.")
    alike(await _claim(store, agents=["D", "%"]), [], "Of agents without runs, no run is claimed.")
    alike(set(_runs(await _claim(store, agents=["B", "C"]))), {runs[1], runs[3]}, "Runs of these agents are claimed.")
    alike(_runs(await _claim(store, agents=["A"], limit=1)), [runs[2]], "The run that has waited longest comes first.")
    alike(await _claim(store, limit=0), [], "With a limit of 0 no run is claimed.")
    alike(_runs(await _claim(store, limit=9)), [runs[4], runs[0]], "Runs are claimed in the order they have waited in.")


async def claims_once(store: Store, clock: FakeClock) -> None:
    """No run is given to two at once."""
    runs = {(await put_begun(store)).id for _ in range(12)}
    given = await asyncio.gather(*(_claim(store, f"w{n}", limit=5) for n in range(8)))
    claimed = [lease.run for leases in given for lease in leases]
    true(len(claimed) == len(set(claimed)), "Of several that claim at the same time, no two get the same run.")
    true(all(len(leases) <= 5 for leases in given), "No more runs are claimed than the limit says.")
    alike({*claimed, *_runs(await _claim(store))}, runs, "What was not claimed yet is claimed next.")
    alike(await _claim(store), [], "What is claimed is not claimed again.")


async def claims_again_what_was_left(store: Store, clock: FakeClock) -> None:
    """A lease that ran out is another's, with a higher fence."""
    draft = await put_begun(store)
    first = only(await _claim(store, "w1", hold=10), "A run that is due, and that nobody drives, is claimed.")
    clock.advance(9)
    alike(await _claim(store, "w2"), [], "A run is not claimed while its lease holds.")
    await raises(RunBusy, store.take(draft.id, "w2", seq=draft.seq, hold=10), "A run is not taken while it is driven.")
    clock.advance(2)
    second = only(await _claim(store, "w2", hold=10), "A run whose lease ran out is claimed again.")
    alike((second.run, second.worker), (draft.id, "w2"), "A run whose lease ran out is claimed again.")
    true(second.fence > first.fence, "Whoever takes a run over has a higher fence.")
    alike(await store.renew([first], hold=10), [], "A lease that was taken over cannot be renewed.")
    await store.release(first, error="late")
    found = (await store.read(draft.id)).record
    alike((found.worker, found.failures), ("w2", 0), "A lease that was taken over cannot be given back.")
    clock.advance(11)
    third = await store.take(draft.id, "w1", seq=draft.seq, hold=10)
    true(third.fence > second.fence, "Whoever takes a run has a higher fence.")
    alike(await store.renew([first, second, third], hold=10), [third], "Only the newest lease can be renewed.")


async def claims_calls_of_programs_apart(store: Store, clock: FakeClock) -> None:
    """The run of a program outside is claimed by whoever tends to such runs, and by no worker."""
    draft = RunDraft(clock, caller="ops")
    (call,) = draft.propose(SEND)
    await draft.add(f.Approved(call, "rule", at=draft.now)).write(store)
    alike(await store.claim("w1", agents=None, hold=10, limit=9, outside=True), [], "A program drives its own run.")
    lease = await store.take(draft.id, "program", seq=draft.seq, hold=5)
    await draft.add(f.Started(call, fence=lease.fence, at=draft.now)).write(store, lease=lease)
    own = await put_begun(store)
    clock.advance(6)
    alike(_runs(await _claim(store)), [own.id], "No worker gets the run of a program outside.")
    await put_begun(store)
    left = await store.claim("w2", agents=None, hold=10, limit=9, outside=True)
    alike(_runs(left), [draft.id], "With `outside`, the runs that programs have left are claimed, and no others.")
    alike((await store.read(draft.id)).record.caller, "ops", "The record of such a run names the program.")


async def takes_a_run(store: Store, clock: FakeClock) -> None:
    """A run is taken by whoever knows all of it, unless somebody drives it."""
    (question,) = await put_asking(store)
    seq = (await store.read(question.run)).record.seq
    for wrong in (0, seq - 1, seq + 1):
        work = store.take(question.run, "w1", seq=wrong, hold=10)
        await raises(Overtaken, work, "A run is not taken by somebody who does not know all of it.")
    alike((await store.read(question.run)).record.worker, None, "A run that could not be taken is driven by nobody.")
    lease = await store.take(question.run, "w1", seq=seq, hold=10)
    alike((lease.run, lease.worker), (question.run, "w1"), "A run can be taken that waits for a person.")
    await raises(RunBusy, store.take(question.run, "w2", seq=seq, hold=10), "A run that is driven is busy.")
    await store.release(lease)
    await store.take(question.run, "w2", seq=seq, hold=10)
    other = await put_begun(store)
    tries = (store.take(other.id, f"w{n}", seq=2, hold=10) for n in range(6))
    found = await asyncio.gather(*tries, return_exceptions=True)
    alike(
        sum(isinstance(each, Lease) for each in found), 1, "Of several that take a run at the same time, one gets it."
    )
    true(all(isinstance(each, Lease | RunBusy) for each in found), "The others are told that it is busy.")


async def renews(store: Store, clock: FakeClock) -> None:
    """A lease that is renewed holds on."""
    await put_begun(store)
    await put_begun(store)
    leases = await _claim(store, hold=10)
    clock.advance(8)
    alike(await store.renew(leases[:1], hold=20), leases[:1], "Renewing gives the leases that hold.")
    clock.advance(8)
    alike(_runs(await _claim(store, "w2")), [leases[1].run], "A lease that is renewed holds on, and others do not.")
    alike(await store.renew(iter(leases), hold=20), leases[:1], "Leases may be any iterable.")
    alike(await store.renew([], hold=20), [], "Renewing no leases gives none.")
    unknown = Lease("no", "w1", 1)
    alike(await store.renew([unknown], hold=20), [], "A lease of a run that is not there does not hold.")
    alike(
        (await store.read(leases[0].run)).record.until, int((clock() + 20) * 1000), "A lease holds from its renewal on."
    )


async def releases(store: Store, clock: FakeClock) -> None:
    """A lease that is given back leaves the run to others."""
    draft = await put_begun(store)
    lease = only(await _claim(store), "A run that is due, and that nobody drives, is claimed.")
    await store.release(lease)
    found = (await store.read(draft.id)).record
    alike((found.worker, found.until, found.failures), (None, None, 0), "A run that was given back is nobody's.")
    again = only(await _claim(store, "w2"), "A run that was given back is claimed again.")
    true(again.fence > lease.fence, "A run that was given back is claimed with a higher fence.")
    await store.release(lease)
    alike((await store.read(draft.id)).record.worker, "w2", "What was given back cannot be given back again.")
    await store.release(Lease("no", "w1", 1))


async def remembers_failures(store: Store, clock: FakeClock) -> None:
    """A run that could not be driven is looked at later."""
    draft = await put_begun(store)
    for failures, pause in ((1, 5), (2, 20)):
        lease = only(await _claim(store), "A run that is due, and that nobody drives, is claimed.")
        await store.release(lease, again_in=pause, error=f"It broke: {failures} \u0000 żółć")
        found = (await store.read(draft.id)).record
        alike((found.worker, found.failures), (None, failures), "A run says how often in a row driving it has failed.")
        true(found.error is not None and found.error.startswith(f"It broke: {failures}"), "It says how it failed last.")
        clock.advance(pause - 1)
        alike(await _claim(store), [], "A run that failed is left alone as long as was said.")
        clock.advance(1)
    lease = only(await _claim(store), "A run that is due, and that nobody drives, is claimed.")
    await store.release(lease)
    alike((await store.read(draft.id)).record.failures, 0, "Driving that did not fail ends the row of failures.")
    lease = only(await _claim(store), "A run that is due, and that nobody drives, is claimed.")
    await store.release(lease, error="again")
    clock.advance(10**9)
    alike(await _claim(store), [], "A run that failed, and is not to be looked at again, is left alone.")
    await store.say(draft.id, "Try again.")
    alike(
        _runs(await _claim(store)), [draft.id], "A run that failed is looked at as soon as something is written to it."
    )


async def notices_what_came_meanwhile(store: Store, clock: FakeClock) -> None:
    """A run that is to be left alone is looked at all the same if something was written that the drive did not know."""
    draft = await put_begun(store)
    lease = only(await _claim(store), "A run that is due, and that nobody drives, is claimed.")
    await store.release(lease, error="It broke.", seq=draft.seq)
    alike(await _claim(store), [], "A run that failed, and to which nothing was written, is left alone.")
    lease = await store.take(draft.id, "w1", seq=draft.seq, hold=10)
    await store.say(draft.id, "Try again.")
    await store.release(lease, error="It broke.", seq=draft.seq)
    alike(_runs(await _claim(store)), [draft.id], "A run that failed is due if the drive did not know all of it.")


async def refuses_a_driver_without_a_lease(store: Store, clock: FakeClock) -> None:
    """A fact that only a driver may record is refused without the lease, whether the run is driven or not."""
    draft = await put_begun(store)
    for held in (False, True):
        lease = await store.take(draft.id, "w1", seq=draft.seq, hold=10) if held else None
        before = await store.read(draft.id)
        for later in (f.Limited(5), f.Closed("It failed.")):
            change = (await RunDraft.read(store, draft.id)).add(f.Cancelled("ann"), later).change()
            await raises(LeaseLost, store.append(change), "A driver's fact is refused without a lease.")
        alike(await store.read(draft.id), before, "Of a change with a driver's fact and no lease nothing is written.")
        if lease is not None:
            await store.release(lease)
    await (await RunDraft.read(store, draft.id)).add(f.Cancelled("ann")).write(store)
    alike((await store.read(draft.id)).record.status, "cancelled", "What anybody may record needs no lease.")


async def refuses_who_lost_the_run(store: Store, clock: FakeClock) -> None:
    """Whoever lost a run writes nothing to it."""
    draft = await put_begun(store)
    old = only(await _claim(store, "w1", hold=10), "A run that is due, and that nobody drives, is claimed.")
    clock.advance(11)
    new = only(await _claim(store, "w2", hold=10), "A run that is due, and that nobody drives, is claimed.")
    before = await store.read(draft.id)
    for lease in (old, Lease(draft.id, "w2", new.fence + 1), Lease(draft.id, "w2", 0)):
        late = await RunDraft.read(store, draft.id)
        call = late.propose(SEND)[0]
        late.ask(call)
        change = late.change(lease=lease, hold=60, release=True, definitions={"e" * 32: b"{}"})
        await raises(LeaseLost, store.append(change), "A change by somebody who lost the run is refused.")
        alike(await store.read(draft.id), before, "What somebody who lost the run writes changes nothing.")
        alike((await store.questions()).items, [], "Somebody who lost the run asks nothing.")
        alike(await store.definition("e" * 32), None, "Somebody who lost the run brings no definitions.")
    current = await RunDraft.read(store, draft.id)
    await current.add(f.Said(json("By w2."), at=1)).write(store, lease=new)
    alike((await store.read(draft.id)).record.seq, draft.seq + 1, "Whoever has the run writes to it.")
    current = await RunDraft.read(store, draft.id)
    await current.add(f.Said(json("By anybody."), at=1)).write(store)
    alike((await store.read(draft.id)).record.worker, "w2", "What others write takes the run from nobody.")
    stale = await RunDraft.read(store, draft.id)
    await store.say(draft.id, "Meanwhile.")
    change = stale.add(f.Said(json("By w2."), at=1)).change(lease=new)
    await raises(Overtaken, store.append(change), "A lease does not excuse from knowing all of the run.")
    await store.release(new)
    given_back = (await RunDraft.read(store, draft.id)).add(f.Said(json("By w2."), at=1)).change(lease=new)
    await raises(Conflict, store.append(given_back), "Whoever gave the run back writes nothing with that lease.")


async def appends_with_a_lease(store: Store, clock: FakeClock) -> None:
    """A change can make its lease hold on, or give it back."""
    draft = await put_begun(store)
    lease = only(await _claim(store, hold=10), "A run that is due, and that nobody drives, is claimed.")
    clock.advance(8)
    await draft.add(f.Said(json("1"), at=8_000)).write(store, lease=lease, hold=10)
    clock.advance(8)
    alike(await _claim(store, "w2"), [], "A change with `hold` makes the lease hold from now on.")
    await draft.add(f.Said(json("2"), at=16_000)).write(store, lease=lease)
    clock.advance(3)
    lease = only(await _claim(store, "w2", hold=10), "A run that is due, and that nobody drives, is claimed.")
    alike(lease.run, draft.id, "A change without `hold` leaves the lease as it is.")
    await store.release(lease, again_in=0, error="failed")
    lease = only(await _claim(store, "w2", hold=10), "A run that is due, and that nobody drives, is claimed.")
    await draft.add(f.Said(json("3"), at=19_000)).write(store, lease=lease, hold=10, release=True)
    found = (await store.read(draft.id)).record
    alike((found.worker, found.until, found.failures), (None, None, 0), "A change with `release` gives the lease back.")
    lease = only(await _claim(store, "w3", hold=10), "A run that is due, and that nobody drives, is claimed.")
    before = (await store.read(draft.id)).facts
    await draft.write(store, lease=lease, release=True)
    alike((await store.read(draft.id)).record.worker, None, "A change without facts can give the lease back.")
    same_facts((await store.read(draft.id)).facts, before, "A change without facts adds none.")


async def makes_a_run_with_its_lease(store: Store, clock: FakeClock) -> None:
    """Whoever makes a run may drive it at once."""
    draft = RunDraft(clock)
    lease = Lease(draft.id, "w1", 1)
    await draft.write(store, lease=lease, hold=10)
    found = (await store.read(draft.id)).record
    alike((found.worker, found.until), ("w1", int((clock() + 10) * 1000)), "A run can be made with its first lease.")
    alike(await _claim(store, "w2"), [], "A run that is made with a lease is driven.")
    alike(await store.renew([lease], hold=10), [lease], "The lease that a run is made with can be renewed.")
    await draft.add(f.Said(json("1"), at=1)).write(store, lease=lease, hold=10)
    clock.advance(11)
    newer = only(await _claim(store, "w2"), "A run whose lease ran out is claimed again.")
    true(newer.fence > 1, "The lease after the one that a run was made with has a higher fence.")
    change = draft.add(f.Said(json("2"), at=1)).change(lease=lease)
    await raises(LeaseLost, store.append(change), "The lease that a run was made with can be lost.")


async def takes_a_run_with_a_change(store: Store, clock: FakeClock) -> None:
    """A run can be taken with the change that is written first, by whoever knows who had it last."""
    (question,) = await put_asking(store)
    found = await store.read(question.run)
    fence = found.fence
    if fence is None:
        raise AssertionError("A run that is read says which fence its newest lease has.")
    draft = await RunDraft.read(store, question.run)
    lease = Lease(draft.id, "w1", fence + 1)
    await draft.add(f.Said(json("1"), at=1)).write(store, lease=lease, take=True, hold=10)
    found = await store.read(draft.id)
    until = int((clock() + 10) * 1000)
    alike((found.record.worker, found.record.until), ("w1", until), "A run is taken with a change.")
    alike(found.fence, fence + 1, "Whoever takes a run with a change has the next fence.")
    alike(await store.renew([lease], hold=10), [lease], "A lease that was taken with a change holds.")
    other = (await RunDraft.read(store, draft.id)).add(f.Said(json("2"), at=2))
    change = other.change(lease=Lease(draft.id, "w2", fence + 2), take=True, hold=10)
    await raises(RunBusy, store.append(change), "A run is not taken with a change while it is driven.")
    await draft.add(f.Said(json("2"), at=2)).write(store, lease=lease, release=True)
    for wrong in (0, fence, fence + 1, fence + 3):
        late = (await RunDraft.read(store, draft.id)).add(f.Said(json("3"), at=3))
        change = late.change(lease=Lease(draft.id, "w1", wrong), take=True, hold=10)
        await raises(Overtaken, store.append(change), "A run is not taken by somebody who does not know who had it.")
    late = (await RunDraft.read(store, draft.id)).add(f.Said(json("3"), at=3))
    stale = late.change(lease=Lease(draft.id, "w1", fence + 2), take=True, hold=10)
    stale.seq -= 1
    await raises(Overtaken, store.append(stale), "A run is not taken with a change by who does not know all of it.")
    found = await store.read(draft.id)
    alike((found.record.worker, found.record.seq), (None, draft.seq), "A run that could not be taken is as it was.")
    again = Lease(draft.id, "w2", fence + 2)
    await draft.add(f.Said(json("3"), at=3)).write(store, lease=again, take=True, hold=10, release=True)
    found = await store.read(draft.id)
    alike((found.record.worker, found.fence), (None, fence + 2), "A run can be taken and given back with one change.")
    change = draft.add(f.Said(json("4"), at=4)).change(lease=again)
    await raises(LeaseLost, store.append(change), "A lease that was given back at once is lost.")
    newer = await store.take(draft.id, "w3", seq=draft.seq, hold=10)
    alike(newer.fence, fence + 3, "Whoever takes a run has the fence after the newest.")


async def waits(store: Store, clock: FakeClock) -> None:
    """Waiting ends when a run becomes ready, and after its time at the latest."""
    await asyncio.wait_for(store.wait(0), LONG)
    await asyncio.wait_for(store.wait(0.001), LONG)
    waiting = asyncio.ensure_future(store.wait(WAIT))
    elsewhere = asyncio.ensure_future(asyncio.to_thread(asyncio.run, _waits(store)))
    for _ in range(TRIES):
        await put_begun(store)
        done, _ = await asyncio.wait([waiting, elsewhere], timeout=0.01, return_when=asyncio.ALL_COMPLETED)
        if len(done) == 2:
            break
    else:
        woken = waiting.done(), elsewhere.done()
        waiting.cancel()
        await store.close()  # ends the wait in the other thread
        alike(woken, (True, True), "Whoever waits, in any event loop, is woken when a run becomes ready.")
    await asyncio.gather(waiting, elsewhere)
    gone = asyncio.ensure_future(store.wait(WAIT))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    await put_begun(store)


async def _waits(store: Store) -> None:
    await store.wait(WAIT)


LEASE_CHECKS = (
    claims_what_is_due,
    claims_at_deadlines,
    claims_in_order,
    claims_once,
    claims_again_what_was_left,
    claims_calls_of_programs_apart,
    takes_a_run,
    renews,
    releases,
    remembers_failures,
    notices_what_came_meanwhile,
    refuses_a_driver_without_a_lease,
    refuses_who_lost_the_run,
    appends_with_a_lease,
    makes_a_run_with_its_lease,
    takes_a_run_with_a_change,
    waits,
)
