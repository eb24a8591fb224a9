"""Checks of writing and reading: `append`, `read`, `lines`, `newest`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...core import facts as f
from ...core.facts import AnyFact
from ...core.number import Count
from ...errors import Overtaken, RunNotFound
from ...store.record import RunRecord, SavedContext
from ...store.row_codec import LARGE, START, link, pack, payloads
from ...store.store import Store
from ..clock import FakeClock
from .draft import SEND, RunDraft, asking, json, put_asking, put_begun, put_ended
from .expect import alike, only, raises, same_facts, true

STRANGE = "żółć 漢字 \U0001f9d1\u200d\U0001f680 \u202e \u0000 \x1f \\ \" ' % _ ; --\r\n\t"
TEXTS = [
    json(""),
    json({}),
    json(None),
    Raw(b'{ "b" : 1.0,\n "a":[ 1E2 ] }'),
    Raw(b"[1e400,12345678901234567890123]"),
    json(STRANGE),
    json("x" * (LARGE - 2)),
    json("x" * (LARGE - 1)),
    json({"large": [STRANGE] * 2_000}),
]
"""Payloads of all kinds: a store must keep any JSON text unchanged."""


def _sample(type: Any) -> Any:
    """Return a value for a required field of a fact."""
    if type is f.Call:
        return f.Call("c9", STRANGE, 2, "hook", "f" * 32)
    if type in (str, Count, bool):
        return {str: "7", bool: True}.get(type, 7)
    return ("7",) if getattr(type, "__origin__", None) is tuple else get_args(type)[0]


def _every_kind(payload: Raw) -> Iterator[AnyFact]:
    """Yield a fact of each kind, with this payload in every payload field."""
    for kind in get_args(AnyFact):
        needed = {
            field.name: _sample(field.type)
            for field in msgspec.structs.fields(kind)
            if field.required and field.type is not Raw
        }
        yield kind(**needed | dict.fromkeys(payloads(kind), payload) | {"at": 12, "path": ("c1", STRANGE)})


async def keeps_facts(store: Store, clock: FakeClock) -> None:
    """Facts come back as they were written, to the last byte."""
    for payload in TEXTS:
        draft, given = RunDraft(clock), list(_every_kind(payload))
        change = draft.change()
        change.facts += given
        change.record.seq = len(change.facts)
        expected = list(change.facts)
        await store.append(change)
        found = (await store.read(draft.id)).facts
        same_facts(found, expected, "Facts come back in their order and as they were written.")
        for fact, was in zip(found, expected, strict=True):
            for name in payloads(type(was)):
                text = bytes(getattr(was, name))
                alike(bytes(getattr(fact, name)), text, f"A payload of {len(text)} bytes is kept as it is.")


async def reads_from_anywhere(store: Store, clock: FakeClock) -> None:
    """`read(after=n)` leaves the first n facts out, and nothing else."""
    draft = asking(clock)
    facts = list(draft.facts)
    await draft.write(store)
    later: list[AnyFact] = [f.Cancelled("ann", at=5), f.Resumed("ann", at=6)]
    await draft.add(*later).write(store)
    facts += later
    for after in range(len(facts) + 2):
        stored = await store.read(draft.id, after)
        same_facts(stored.facts, facts[after:], f"after={after} leaves out the first {after} facts.")
        alike(stored.record.seq, len(facts), "A run's record says how many facts it has, whatever was read of them.")
    same_facts((await store.load(draft.id)).facts, facts, "`load` gives all facts.")


async def knows_what_is_not_there(store: Store, clock: FakeClock) -> None:
    """A run that is not there is `RunNotFound`."""
    await put_begun(store)
    for work in (store.read, store.record, store.load, store.lines, store.history, store.erase):
        await raises(RunNotFound, work("no"), "A run that is not there cannot be read or erased.")
    await raises(RunNotFound, store.take("no", "w", seq=0, hold=9), "A run that is not there cannot be taken.")
    draft = RunDraft(clock)
    draft.seq = 1
    await raises(RunNotFound, store.append(draft.change()), "Only a change with seq=0 makes a run.")
    await raises(RunNotFound, store.read(draft.id), "A change that was refused makes no run.")


async def makes_a_run_once(store: Store, clock: FakeClock) -> None:
    """A run is made once."""
    draft = await put_begun(store)
    before = await store.read(draft.id)
    again = asking(clock)
    change = again.change()
    change.record.id = draft.id
    await raises(Overtaken, store.append(change), "A run that is there cannot be made again.")
    alike(await store.read(draft.id), before, "A run stays as it is when somebody tries to make it again.")
    alike((await store.questions()).items, [], "A change that was refused asks nothing.")


async def compares_and_sets(store: Store, clock: FakeClock) -> None:
    """A change is written after the fact that its writer knows as the last, or not at all."""
    draft = asking(clock)
    question = (await draft.write(store, context=SavedContext(b'{"n": 1}', "dict"))).asked[0].id
    before, asked = await store.read(draft.id), (await store.questions()).items
    for wrong in (0, draft.seq - 1, draft.seq + 1, draft.seq + 100):
        other = await RunDraft.read(store, draft.id)
        other.add(
            f.Approved("c0", "ann", question, at=other.now),
            f.Granted("g1", "Clerk", "send", "approve", "ann", at=other.now),
            f.Cancelled("ann", at=other.now),
        )
        change = other.change(seq=wrong, context=SavedContext(b"{}", "dict"), definitions={"f" * 32: b"{}"})
        await raises(Overtaken, store.append(change), f"A run of {draft.seq} facts takes no change after {wrong}.")
        alike(await store.read(draft.id), before, "A change that was refused changes no run.")
        alike((await store.questions()).items, asked, "A change that was refused settles no question.")
        alike((await store.grants()).items, [], "A change that was refused grants nothing.")
        alike(await store.definition("f" * 32), None, "A change that was refused brings no definition.")
    await (await RunDraft.read(store, draft.id)).add(f.Cancelled("ann", at=9)).write(store)
    alike((await store.read(draft.id)).record.status, "cancelled", "A change after the last fact is written.")


async def writes_all_or_nothing(store: Store, clock: FakeClock) -> None:
    """A change is written whole or not at all."""
    (taken,) = await put_asking(store)
    alike([question.id for question in (await store.questions()).items], [taken.id], "An open question is listed.")
    runs = (await store.runs()).items
    unwritable = RunDraft(clock)
    unwritable.facts.append(f.Said(json("lost"), by="\ud800"))
    twice = RunDraft(clock)
    calls = twice.propose(SEND, SEND)
    mine = twice.ask(calls[0])
    twice.ask(calls[1], id=taken.id)
    twice.add(f.Granted("g1", "Clerk", "send", "approve", "ann", at=0))
    for draft, why in ((unwritable, "text that UTF-8 cannot hold"), (twice, "the id of a question of another run")):
        await raises(Exception, draft.write(store), f"A change with {why} is refused.")
        await raises(RunNotFound, store.read(draft.id), f"Of a change with {why} nothing is written.")
        alike((await store.runs()).items, runs, f"Of a change with {why} no run is left.")
        found = [question.id for question in (await store.questions()).items]
        alike(found, [taken.id], f"Of a change with {why} no question is left.")
        alike((await store.grants()).items, [], f"Of a change with {why} no grant is left.")
    alike(await store.question(taken.id), taken, "A question is not overwritten by one with its id.")
    true(mine not in [q.id for q in (await store.questions(settled=True)).items], "Nothing is left of it anywhere.")


async def lets_one_write(store: Store, clock: FakeClock) -> None:
    """Of several that write at once, one does."""
    draft = await put_begun(store)
    others = [await RunDraft.read(store, draft.id) for _ in range(8)]
    for n, other in enumerate(others):
        other.add(f.Said(json(f"{n}, first"), at=1), f.Said(json(f"{n}, then"), at=1))
    changes = [other.change() for other in others]
    ends = await asyncio.gather(*(store.append(change) for change in changes), return_exceptions=True)
    won = [n for n, end in enumerate(ends) if end is None]
    alike(len(won), 1, "Of several that write after the same fact, one does.")
    true(all(n in won or isinstance(end, Overtaken) for n, end in enumerate(ends)), "The others are `Overtaken`.")
    found = (await store.read(draft.id, draft.seq)).facts
    same_facts(found, changes[won[0]].facts, "What the one that was first wrote is there, and nothing else.")


async def survives_cancellation(store: Store, clock: FakeClock) -> None:
    """A write that is cancelled is written whole or not at all."""
    draft = asking(clock)
    change = draft.change()
    writing = asyncio.ensure_future(store.append(change))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    later = await put_begun(store)
    runs = {run.id: run.seq for run in (await store.runs()).items}
    true(runs.pop(draft.id, 0) in (0, len(change.facts)), "A write that is cancelled is whole or not there.")
    alike(runs, {later.id: later.seq}, "A store can be used after a call was cancelled.")
    with suppress(Overtaken):  # the cancelled write may have succeeded
        await store.append(change)
    found = (await store.read(draft.id)).facts
    same_facts(found, change.facts, "What was cancelled is there once when it is written again.")


async def keeps_its_own_copy(store: Store, clock: FakeClock) -> None:
    """Nobody changes what is stored by changing an object."""
    draft = asking(clock, prompt=json({"deep": [1]}), schema=json({"type": "string"}))
    draft.add(f.Granted("g1", "Clerk", "send", "approve", "ann", pins=json({"to": "ann"}), at=0))
    change = draft.change()
    was = deepcopy((change.record, change.asked[0], change.granted[0]))
    facts = list(change.facts)
    await store.append(change)
    id = was[1].id
    for round in ("after it was written", "that was handed out"):
        change.record.status, change.asked[0].prompt["deep"][0] = "done", 2
        change.asked[0].verdict, change.granted[0] = "approve", replace(change.granted[0], used=9)
        (change.granted[0].pins or {})["to"] = "bob"
        change.facts.clear()
        change.definitions.clear()
        stored = await store.read(draft.id)
        sentence = f"Changing an object {round} changes nothing in the store."
        alike(stored.record, was[0], sentence)
        same_facts(stored.facts, facts, sentence)
        alike(await store.question(id), was[1], sentence)
        alike((await store.questions()).items, [was[1]], sentence)
        alike((await store.grants()).items, [was[2]], sentence)
        question, grant = await store.question(id), only((await store.grants()).items, sentence)
        change.record, change.facts, change.asked, change.granted = stored.record, stored.facts, [question], [grant]


async def keeps_the_context(store: Store, clock: FakeClock) -> None:
    """A run's context is the last that was written."""
    draft = await put_begun(store)
    alike((await store.read(draft.id)).context, SavedContext(), "A run without a context has an empty one.")
    kept = SavedContext(bytes(json({"user": STRANGE, "n": list(range(5_000))})), "shop.Customer")
    await draft.add(f.Cancelled("ann", at=1)).write(store, context=kept)
    alike((await store.read(draft.id)).context, kept, "A context is kept as it was written.")
    await draft.add(f.Resumed("ann", at=2)).write(store)
    alike((await store.read(draft.id, 99)).context, kept, "A change without a context leaves it as it is.")
    await draft.write(store, context=SavedContext(None, "shop.Customer"))
    found = (await store.read(draft.id)).context
    alike(found, SavedContext(None, "shop.Customer"), "A change without facts can bring another context.")


async def keeps_the_record(store: Store, clock: FakeClock) -> None:
    """A run's record is the last change's, but for what the store keeps itself."""
    draft = asking(clock, until=60_000)
    clock.advance(2)
    change = draft.change()
    expected = deepcopy(change.record)
    change.record.worker, change.record.until, change.record.failures = "nobody", 1, 7
    change.record.error, change.record.erased = "none", 1
    await store.append(change)
    draft.seq += len(change.facts)
    alike((await store.read(draft.id)).record, expected, "A new run is driven by nobody and has not failed.")
    alike((await store.runs()).items, [expected], "A run is listed as it is.")
    lease = await store.take(draft.id, "w", seq=draft.seq, hold=50)
    clock.advance(3)
    change = draft.add(f.Cancelled("ann", at=1)).change()
    expected = deepcopy(change.record)
    expected.worker, expected.until = lease.worker, int((clock() + 47) * 1000)
    await store.append(change)
    found = (await store.read(draft.id)).record
    alike(found, expected, "A change sets all of a run's record but what the store keeps itself.")
    alike(type(found), RunRecord, "A record is a `RunRecord`.")
    alike(await store.record(draft.id), found, "`record` gives a run's record.")


def chain(run: str, facts: list[AnyFact]) -> list[str]:
    """Return the hash of each row of a run."""
    before, hashes = START, []
    for seq, fact in enumerate(facts, 1):
        before = link(before, run, seq, pack(fact)[0])
        hashes.append(before.hex())
    return hashes


async def chains_its_lines(store: Store, clock: FakeClock) -> None:
    """Each line says when it was written, and has the hash of its run, number and text, and of the line before."""
    for payload in (json("small"), json("x" * 2 * LARGE)):
        draft = await put_begun(store)
        clock.advance(5)
        second = f.Said(payload, "ann", at=5_000)
        await draft.add(second).write(store)
        facts = (await store.read(draft.id)).facts
        lines = await store.lines(draft.id)
        alike([line.seq for line in lines], [1, 2, 3], "Lines are numbered from 1.")
        now = int(clock() * 1000)
        alike([line.at for line in lines], [now - 5_000, now - 5_000, now], "A line says when it was written.")
        if store.keeps_hashes:
            alike([line.hash for line in lines], chain(draft.id, facts), "A line's hash is that of `row_codec.link`.")
        alike([line.fact["fact"] for line in lines], ["began", "said", "said"], "A line says which fact it is.")
        alike(lines[0].fact, msgspec.json.decode(pack(facts[0])[0]), "A line has the fact as JSON.")
        alike(lines[2].fact["by"], "ann", "A line of a fact with a large payload has the rest of it.")
        alike(await store.history(draft.id), lines, "`history` gives the lines.")


async def gives_parts_of_a_history(store: Store, clock: FakeClock) -> None:
    """A part of a history is that part of the whole, and facts are found by their kind and their text."""
    draft = asking(clock, (SEND, SEND))
    await draft.add(f.Said(json("x" * 2 * LARGE), "ann", at=1)).write(store)
    whole = await store.history(draft.id)
    for after in range(len(whole) + 2):
        for limit in (0, 1, 2, len(whole)):
            part = await store.history(draft.id, after=after, limit=limit)
            alike(part, whole[after : after + limit], "A part of a history is that part of the whole.")
    for kind in {entry.fact["fact"] for entry in whole}:
        expected = [entry for entry in whole if entry.fact["fact"] == kind]
        alike(await store.history(draft.id, kinds={kind: ""}), expected, "A history can be of some kinds of facts.")
    first, second = (entry for entry in whole if entry.fact["fact"] == "asked")
    found = await store.history(draft.id, kinds={"asked": f'"{second.fact["id"]}"'})
    alike(found, [second], "A text finds the facts whose JSON has it.")
    texts = {"": f'"{second.fact["id"]}"'}
    found = [entry for entry in await store.history(draft.id, kinds=texts) if "blobs" not in entry.fact]
    alike(found, [second], "A text is looked for in facts of every kind.")
    alike(await store.history(draft.id, kinds={"asked": ""}, after=first.seq), [second], "Kinds hold after a number.")
    facts = [msgspec.json.decode(msgspec.json.encode(fact)) for fact in (await store.read(draft.id)).facts]
    found = await store.history(draft.id, payloads=True)
    alike([entry.fact for entry in found], facts, "With `payloads`, every fact is whole.")


async def gives_histories_of_several_runs(store: Store, clock: FakeClock) -> None:
    """The histories of several runs are those of each, without the runs that are not there."""
    drafts = [await put_begun(store), asking(clock, (SEND, SEND)), await put_ended(store), await put_begun(store)]
    await drafts[1].write(store)
    await drafts[3].add(f.Said(json("x" * 2 * LARGE), "ann", at=1)).write(store)
    alone = {draft.id: await store.history(draft.id) for draft in drafts}
    alike(await store.histories([*alone, *alone, "r_none", "\ud800"]), alone, "Each run has its own history.")
    alike(await store.histories([drafts[1].id]), {drafts[1].id: alone[drafts[1].id]}, "Only these runs are read.")
    alike(await store.histories([]), {}, "No runs have no histories.")


async def finds_the_newest_of_a_thread(store: Store, clock: FakeClock) -> None:
    """The newest run of a thread is the one that was made last, whatever the clocks said."""
    alike(await store.newest("t"), None, "A thread that is not there has no newest run.")
    await put_ended(store, thread="other")
    await put_ended(store)
    first = await put_ended(store, thread="t")
    clock.advance(-5)
    second = await put_begun(store, thread="t")
    clock.advance(60)
    await (await RunDraft.read(store, first.id)).add(f.Said(json("More."), at=1)).write(store)
    found = await store.newest("t")
    if found is None:
        raise AssertionError("A thread has a newest run.")
    alike(found.record.id, second.id, "The newest run of a thread is the one that was made last.")
    read = await store.read(second.id)
    alike((found.record, found.context, found.fence), (read.record, read.context, read.fence), "It is as it is read.")
    same_facts(found.facts, read.facts, "The newest run of a thread comes with its facts.")
    for strange in ("", "\ud800", "T"):
        alike(await store.newest(strange), None, "A thread that is not there has no newest run.")


async def needs_no_facts(store: Store, clock: FakeClock) -> None:
    """A change without facts is written too: it can give a lease back."""
    draft = await put_ended(store)
    before = (await store.read(draft.id)).facts
    await draft.write(store)
    same_facts((await store.read(draft.id)).facts, before, "A change without facts adds none.")
    draft.seq -= 1
    await raises(Overtaken, draft.write(store), "A change without facts is compared, too.")


JOURNAL_CHECKS = (
    keeps_facts,
    reads_from_anywhere,
    knows_what_is_not_there,
    makes_a_run_once,
    compares_and_sets,
    writes_all_or_nothing,
    lets_one_write,
    survives_cancellation,
    keeps_its_own_copy,
    keeps_the_context,
    keeps_the_record,
    chains_its_lines,
    gives_parts_of_a_history,
    gives_histories_of_several_runs,
    finds_the_newest_of_a_thread,
    needs_no_facts,
)
