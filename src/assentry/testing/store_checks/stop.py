"""Checks of stops: `stop`, `lift` and `stops`, and what `claim`, `append` and `start` do while one holds."""

from __future__ import annotations

from ...core import facts as f
from ...errors import AgentStopped, Conflict, InvalidInput, LeaseLost, StopNotFound
from ...store.record import Lease
from ...store.store import Store
from ..clock import FakeClock
from .draft import SEND, RunDraft, put_asking, put_begun
from .expect import alike, only, raises, true

ODD = "Clerk's \"%_\\ 서기 <b>"
"""The name of an agent that would break a statement, a pattern or a page that is put together from texts."""


async def _claimed(store: Store) -> list[str]:
    return [lease.run for lease in await store.claim("w1", agents=None, hold=10, limit=100)]


async def _ready_to_start(store: Store, clock: FakeClock, agent: str = "Clerk") -> tuple[RunDraft, Lease]:
    """Store a run with an approved call, and acquire the lease."""
    draft = RunDraft(clock, agent=agent)
    (call,) = draft.propose(SEND, agent=agent)
    await draft.add(f.Approved(call, "rule", at=draft.now)).write(store)
    lease = await store.take(draft.id, "w1", seq=draft.seq, hold=60)
    draft.add(f.Started(call, fence=lease.fence, at=draft.now))
    return draft, lease


async def stops_claims(store: Store, clock: FakeClock) -> None:
    """While a stop holds, no run of its agents is claimed; afterwards each is due as before."""
    first = await put_begun(store)
    clock.advance(1)
    other = RunDraft(clock, agent=ODD)
    await other.write(store)
    stop = await store.stop(ODD, by="ann", why="It repeats itself.")
    alike(await _claimed(store), [first.id], "A stop of one agent leaves the runs of others.")
    alike((await store.read(other.id)).record.wake, int(clock() * 1000), "A stop changes no run.")
    await store.lift(stop.id, by="bob")
    alike(await _claimed(store), [other.id], "Once a stop is lifted, its runs are due at once.")
    clock.advance(11)
    everything = await store.stop(by="ann", why="The bank is closed.")
    one = await store.stop(ODD, by="ann", why="It repeats itself.")
    alike(await _claimed(store), [], "A stop of all agents stops each of them.")
    await store.lift(everything.id, by="ann")
    alike(await _claimed(store), [first.id], "An agent goes on when all of its stops are lifted.")
    await store.lift(one.id, by="ann")
    alike(await _claimed(store), [other.id], "An agent goes on when all of its stops are lifted.")


async def stops_what_would_begin(store: Store, clock: FakeClock) -> None:
    """While a stop holds, no `Started` is stored of its agents, whoever has the run; all else is."""
    draft, lease = await _ready_to_start(store, clock)
    (free, its) = await _ready_to_start(store, clock, ODD)
    stop = await store.stop("Clerk", by="ann", why="It repeats itself.")
    change = draft.change(lease=lease)
    error = await raises(AgentStopped, store.append(change), "Nothing begins in a run whose agent is stopped.")
    true(error.stop == stop.id, "The error names the stop.")
    stored = await store.read(draft.id)
    alike(stored.record.seq, change.seq, "A change that was refused leaves nothing.")
    alike(stored.record.worker, "w1", "A driver that may begin nothing still has its lease.")
    await free.write(store, lease=its)
    true((await store.read(free.id)).record.seq == free.seq, "A stop of one agent leaves the runs of others.")
    old = Lease(draft.id, "w0", lease.fence - 1)
    change.lease = old
    await raises(LeaseLost, store.append(change), "A driver that has lost the run hears of that first.")
    change.lease = lease
    await store.cancel(draft.id, by="bob")
    await store.resume(draft.id, by="bob")
    again = await RunDraft.read(store, draft.id)
    (question,) = await put_asking(store)
    await store.decide(question.id, {"type": "approve"}, by="ann", digest=question.digest)
    await store.lift(stop.id, by="bob")
    again.add(f.Started("c0", fence=lease.fence, at=again.now))
    await again.write(store, lease=lease)
    true((await store.read(draft.id)).record.seq == again.seq, "Once the stop is lifted, the call begins.")


async def stops_nested_agents(store: Store, clock: FakeClock) -> None:
    """A stop of the agent that makes a call holds in the runs of others too, and in a run's first change."""
    draft = RunDraft(clock)
    (call,) = draft.propose(SEND, agent="Helper")
    draft.add(f.Approved(call, "rule", at=draft.now), f.Started(call, at=draft.now))
    change = draft.change(lease=Lease(draft.id, "w1", 1), hold=10.0)
    alike(change.starting, ("Helper",), "A change names the agents whose calls begin with it.")
    stop = await store.stop("Helper", by="ann", why="It repeats itself.")
    await raises(AgentStopped, store.append(change), "A stop of the agent of a call holds in any run.")
    page = await store.runs()
    alike(page.items, [], "A first change that was refused makes no run.")
    change.copied = True
    await store.append(change)
    alike((await store.read(draft.id)).record.seq, len(change.facts), "What an engine has recorded is copied.")
    await store.lift(stop.id, by="ann")


async def lists_stops(store: Store, clock: FakeClock) -> None:
    """Who stopped what, when and why, and who lifted it, is kept and listed."""
    alike((await store.stops(lifted=True)).items, [], "Where nobody has stopped anything, there are no stops.")
    made = []
    for number in range(3):
        clock.advance(1)
        made.append(await store.stop(f"Agent {number}", by="ann", why=" It repeats itself. "))
    alike(made[0].why, "It repeats itself.", "A reason is kept without the space around it.")
    again = await store.stop("Agent 2", by="ann", why="It repeats itself.")
    alike(again, made[2], "The same person's same stop is no second one.")
    other = await store.stop("Agent 2", by="bob", why="It repeats itself.")
    true(other.id != made[2].id, "Another person's stop is one of its own.")
    await store.lift(other.id, by="bob")
    clock.advance(1)
    lifted = await store.lift(made[0].id, by="bob")
    alike((lifted.lifted, lifted.lifted_by), (int(clock() * 1000), "bob"), "A stop says who has lifted it, and when.")
    alike(await store.lift(made[0].id, by="eve"), lifted, "Lifting a stop twice is once.")
    alike([each.id for each in (await store.stops()).items], [made[2].id, made[1].id], "The newest stops come first.")
    first = await store.stops(lifted=True, limit=1)
    rest = await store.stops(lifted=True, after=first.next)
    found = [*first.items, *rest.items]
    alike({each.id for each in found}, {each.id for each in (*made, other)}, "Stops that were lifted are kept.")
    alike(found[-1], lifted, "A list of stops has what is known of each.")
    fresh = await store.stop("Agent 0", by="ann", why="It repeats itself.")
    true(fresh.id != lifted.id, "A stop that was lifted can be made again.")


async def refuses_stops(store: Store, clock: FakeClock) -> None:
    """A stop needs a name and a reason; a stop that is not there cannot be lifted."""
    for agent, why in (("", "Because."), ("Clerk", " "), ("Clerk", "x" * 2001)):
        await raises(InvalidInput, store.stop(agent, by="ann", why=why), "A stop has an agent and a reason.")
    await raises(StopNotFound, store.lift("stop_none", by="ann"), "Only a stop can be lifted.")
    await store.announce({"Clerk": '{"fact":"began","agent":"Clerk","max_turns":10,"run":""}'})
    stop = await store.stop("Clerk", by="ann", why="It repeats itself.")
    await raises(Conflict, store.start("Clerk", "go", by="bob"), "No run of a stopped agent is started.")
    alike((await store.runs()).items, [], "No run of a stopped agent is started.")
    only((await store.stops()).items, "A stop holds until it is lifted.")
    await store.lift(stop.id, by="ann")


STOP_CHECKS = (stops_claims, stops_what_would_begin, stops_nested_agents, lists_stops, refuses_stops)
