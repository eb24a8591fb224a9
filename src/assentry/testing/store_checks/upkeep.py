"""Checks of `erase`, `purge`, `rebuild`, `verify` and `close`, and of use from several threads."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.json import encode

from ...approval.decision import Approve, Reject
from ...core import facts as f
from ...errors import AlreadyDecided, Conflict, LeaseLost, QuestionNotFound, RunNotFound
from ...store.record import SavedContext
from ...store.row_codec import LARGE
from ...store.store import Store
from ..clock import FakeClock
from .draft import SEND, SHRED, RunDraft, json, put_asking, put_begun, put_ended
from .expect import alike, only, raises, true
from .journal import chain

SECRET = "the secret"


async def _put_secret(store: Store, large: str = "") -> RunDraft:
    """Store a finished run with the secret in all its content, and return the run."""
    draft = RunDraft(store.clock)
    draft.add(f.Said(json(f"{SECRET} {large}"), at=0))
    (call,) = draft.propose(SEND, args={"to": SECRET})
    asked = draft.ask(call, prompt=json({"text": SECRET}), schema=json({"title": SECRET}), fills=json({"copies": 1}))
    await draft.write(store, context=SavedContext(encode({"user": SECRET}), "dict"))
    pins = json({"to": SECRET})
    draft.add(f.Granted(f"g_{draft.id}", "Clerk", "send", "approve", "ann", None, SECRET, pins=pins, at=0))
    draft.add(f.Refused(call, "ann", asked, SECRET, at=0), f.Told(call, SECRET))
    await draft.conclude().write(store)
    return draft


async def erases(store: Store, clock: FakeClock) -> None:
    """Erasing leaves that it happened, when, and who decided; and the chain."""
    large = "x" * 2 * LARGE
    draft, other = await _put_secret(store, large), await _put_secret(store, large)
    kept, before = await store.read(other.id), await store.lines(draft.id)
    facts = (await store.read(draft.id)).facts
    clock.advance(7)
    await store.erase(draft.id)
    stored = await store.read(draft.id)
    alike(stored.record.erased, int(clock() * 1000), "A run says when it was erased.")
    alike((stored.record.status, stored.record.seq), ("done", len(facts)), "Of an erased run it is known how it ended.")
    alike((stored.facts, stored.context), ([], SavedContext()), "An erased run has no facts and no context to read.")
    lines = await store.lines(draft.id)
    left = encode([stored, lines, await _all(store, draft.id)]).decode()
    true(SECRET not in left and large[:99] not in left, "Nothing that was said in an erased run is left.")
    alike([line.hash for line in lines], [line.hash for line in before], "Erasing leaves the hashes as they are.")
    alike([line.at for line in lines], [line.at for line in before], "Erasing leaves when it happened.")
    kinds = [line.fact["fact"] for line in before]
    alike([line.fact["fact"] for line in lines], kinds, "Erasing leaves what kind of thing happened.")
    true(all(line.fact.get("erased") for line in lines), "A line that was erased says so.")
    question = only(
        (await store.questions(run=draft.id, settled=True)).items, "Erasing leaves that somebody was asked."
    )
    alike((question.verdict, question.by, question.tool), ("reject", "ann", "send"), "Erasing leaves who decided.")
    alike(await store.read(other.id), kept, "Erasing one run leaves others as they are, even what both have.")
    await store.erase(draft.id)
    alike((await store.read(draft.id)).record, stored.record, "Erasing twice is once.")


async def erases_evidence(store: Store, clock: FakeClock) -> None:
    """Erasing a run erases results that came too late to count, too."""
    draft = await put_begun(store)
    (call,) = draft.propose(SEND)
    draft.add(f.Approved(call, "rule", at=0), f.Started(call))
    draft.ask(call, kind="doubt")
    change = await draft.write(store)
    await store.witness(draft.id, [f.Witnessed(call, 1, json(SECRET), at=9)])
    draft = await RunDraft.read(store, draft.id)
    await draft.add(f.Closed("It failed.", at=draft.now)).write(store)
    await store.erase(draft.id)
    question = await store.question(change.asked[0].id)
    alike(question.evidence, (), "Nothing of what came too late is left in an erased run.")


async def _all(store: Store, run_id: str) -> list[Any]:
    """Return the questions and grants of a run."""
    open_ = (await store.questions(run=run_id)).items
    settled = (await store.questions(run=run_id, settled=True)).items
    return [*open_, *settled, *(await store.grants(run=run_id, revoked=True)).items]


async def erases_only_what_is_over(store: Store, clock: FakeClock) -> None:
    """A run that is not over is not erased."""
    (question,) = await put_asking(store)
    working = await put_begun(store)
    for id in (question.run, working.id):
        before = await store.read(id)
        await raises(Conflict, store.erase(id), "A run that is not over cannot be erased.")
        alike(await store.read(id), before, "A run that could not be erased is as it was.")
    await working.add(f.Closed("It failed.", at=1)).write(store)
    await store.erase(working.id)
    alike((await store.read(working.id)).facts, [], "A closed run can be erased.")


async def purges(store: Store, clock: FakeClock) -> None:
    """Purging deletes whole runs: old ones of these statuses, and no others."""
    old = await _put_secret(store)
    (question,) = await put_asking(store)
    clock.advance(100)
    young = await put_ended(store)
    clock.advance(100)
    alike(await store.purge(unchanged_for=200.5), 0, "What has changed since is not deleted.")
    alike(await store.purge(unchanged_for=200), 1, "Purging says how many runs there were.")
    await raises(RunNotFound, store.read(old.id), "What is deleted is not there.")
    await raises(RunNotFound, store.lines(old.id), "What is deleted has no lines.")
    alike(await _all(store, old.id), [], "Questions and grants go with their run.")
    alike({run.id for run in (await store.runs()).items}, {question.run, young.id}, "Others are left.")
    alike(await store.purge(unchanged_for=0, statuses=("cancelled",)), 0, "Only runs of these statuses are deleted.")
    alike(await store.purge(unchanged_for=150, statuses=["waiting"]), 1, "Runs of any status can be deleted.")
    await raises(QuestionNotFound, store.question(question.id), "A question goes with its run.")
    alike((await store.read(young.id)).record.status, "done", "A run that is too young is left.")
    again = RunDraft(clock, id=old.id)
    await again.write(store)
    alike((await store.read(old.id)).record.seq, 2, "A run of the same name can be made again.")


async def _records(store: Store) -> list[Any]:
    return [
        (await store.runs()).items,
        (await store.questions()).items,
        (await store.questions(settled=True)).items,
        (await store.grants(revoked=True)).items,
    ]


async def rebuilds(store: Store, clock: FakeClock) -> None:
    """All records can be made anew from the journals alone."""
    first, second = await put_asking(store, (SEND, SHRED), until=500_000, prompt=json({"a": [1]}), due=9)
    clock.advance(3)
    await store.decide(first.id, Approve(), by="ann", digest=first.digest, grant={"max_uses": 3, "pins": {"to": "ann"}})
    (gone,) = await put_asking(store)
    await store.decide(gone.id, Reject("No."), by="bob", digest=gone.digest, grant=True)
    clock.advance(3)
    taken = only((await store.grants(run=gone.run)).items, "A decision with a grant makes one, and it is kept.")
    await store.revoke(taken.id, by="eve", run=gone.run)
    draft = await RunDraft.read(store, gone.run)
    used = (await put_begun(store)).add(f.Granted("g1", "Clerk", "send", "approve", "ann", at=0))
    (call,) = used.propose(SEND)
    used.add(f.Approved(call, "grant:g1", at=used.now), f.Started(call), f.Finished(call, json("x" * 2 * LARGE)))
    await used.write(store, context=SavedContext(b"{}", "dict"))
    await draft.add(f.Closed("It failed.", at=draft.now)).write(store)
    erased = await _put_secret(store)
    await store.erase(erased.id)
    clock.advance(60)
    before, stored = await _records(store), await store.read(used.id)
    alike(await store.rebuild(), 4, "Rebuilding says how many runs there are.")
    for found, expected in zip(await _records(store), before, strict=True):
        alike(found, expected, "What is made anew from the journals is what was there.")
    alike(await store.read(used.id), stored, "Rebuilding leaves facts and context as they are.")
    alike((await store.question(second.id)).verdict, None, "What was open is open after rebuilding.")
    await store.decide(second.id, Approve(), by="ann", digest=second.digest)


async def rebuilds_no_lease(store: Store, clock: FakeClock) -> None:
    """A fence never falls, whatever is made anew."""
    draft = await put_begun(store)
    first = await store.take(draft.id, "w1", seq=draft.seq, hold=10)
    await store.rebuild()
    clock.advance(11)
    second = await store.take(draft.id, "w2", seq=draft.seq, hold=10)
    true(second.fence > first.fence, "After rebuilding, whoever takes a run has a higher fence.")
    change = draft.add(f.Said(json("late"), at=1)).change(lease=first)
    await raises(LeaseLost, store.append(change), "After rebuilding, whoever lost a run writes nothing to it.")


async def verifies(store: Store, clock: FakeClock) -> None:
    """The records of a run fit its journal, whatever was done in it."""
    (question,) = await put_asking(store, until=500_000, prompt=json({"a": [1]}), due=9)
    clock.advance(3)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest, grant={"max_uses": 3})
    given = only((await store.grants(run=question.run)).items, "A decision with a grant makes one, and it is kept.")
    draft = await RunDraft.read(store, question.run)
    draft.add(f.Started(question.call), f.Finished(question.call, json("sent")))
    (call,) = draft.propose(SEND)
    draft.add(f.Approved(call, f"grant:{given.id}", at=draft.now), f.Started(call))
    draft.ask(call, kind="doubt")
    await draft.write(store, context=SavedContext(b"{}", "dict"))
    await store.witness(draft.id, [f.Witnessed(call, 1, json({"sent": 1.0}), at=9)])
    clock.advance(3)
    await store.revoke(given.id, by="eve", run=draft.id)
    sentence = "What is kept of a run fits its journal."
    alike(await store.verify(draft.id), [], sentence)
    draft = await RunDraft.read(store, draft.id)
    await draft.add(f.Closed("It failed.", at=draft.now)).write(store)
    alike(await store.verify(draft.id), [], sentence)
    await store.erase(draft.id)
    alike(await store.verify(draft.id), [], "What is kept of an erased run fits what is left of its journal.")


async def closes(store: Store, clock: FakeClock) -> None:
    """Closing twice is once."""
    await put_begun(store)
    async with store as same_one:
        true(same_one is store, "`async with` gives the store itself.")
    await store.close()
    await store.close()


async def works_in_threads(store: Store, clock: FakeClock) -> None:
    """A store is usable from any thread and event loop, at once."""
    shared, mine = await put_begun(store), []
    asked = [(await put_asking(store))[0] for _ in range(4)]

    async def work(name: str) -> tuple[list[str], int]:
        claimed, won = [], 0
        for n in range(4):
            mine.append((await put_begun(store)).id)
            await store.say(shared.id, f"{name}: {n}")
            leases = await store.claim(name, agents=None, hold=60, limit=2)
            claimed += [lease.run for lease in leases]
            try:
                decision = Approve() if name == "a" else Reject()
                await store.decide(asked[n].id, decision, by=name, digest=asked[n].digest)
                won += 1
            except AlreadyDecided:
                pass
        return claimed, won

    def elsewhere(name: str) -> tuple[list[str], int]:
        return asyncio.run(work(name))

    try:
        here, *there = await asyncio.gather(work("a"), *(asyncio.to_thread(elsewhere, name) for name in ("b", "c")))
    except Exception as error:
        raise AssertionError(f"A store is usable from any thread and event loop. It raised {error!r:.300}.") from error
    claimed = [run for runs, _ in (here, *there) for run in runs]
    alike(len(claimed), len(set(claimed)), "No run is given to two threads at once.")
    verdicts = [(await store.question(question.id)).by for question in asked]
    true(all(by in ("a", "b", "c") for by in verdicts), "Every question that threads decide is decided.")
    alike(verdicts.count("a"), here[1], "Of several threads, the one that was told so has decided.")
    alike(sum(won for _, won in there) >= 4 - here[1], True, "A decision counts for somebody.")
    facts = (await store.read(shared.id)).facts
    alike(len({bytes(fact.items) for fact in facts if isinstance(fact, f.Said)}), 13, "What threads say is all there.")
    hashes = chain(shared.id, facts) if store.keeps_hashes else [""] * len(facts)
    lines = await store.lines(shared.id)
    alike([line.hash for line in lines], hashes, "The chain holds when several threads write.")
    found = {run.id for run in (await store.runs(limit=1000)).items}
    alike(found >= set(mine), True, "What threads make is all there.")


UPKEEP_CHECKS = (
    erases,
    erases_evidence,
    erases_only_what_is_over,
    purges,
    rebuilds,
    rebuilds_no_lease,
    verifies,
    closes,
    works_in_threads,
)
