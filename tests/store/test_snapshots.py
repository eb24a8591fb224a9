"""A long run goes on from a snapshot. The journal stays the authority: a snapshot that does not fit it is not used."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from assentry import Agent, Approve, Edit, GrantTerms, Reject, RunConfig, Runner, RunState, ToolContext, function_tool
from assentry.core import facts as f
from assentry.core import snapshot as snapshots
from assentry.core.codec import replay
from assentry.engines import Worker
from assentry.errors import (
    AlreadyDecided,
    AssentryError,
    DigestMismatch,
    Forbidden,
    InvalidDecision,
    ModelFailed,
    NotPending,
    UnreadableState,
)
from assentry.runtime.view import View
from assentry.store import MemoryStore, Question, Store, Stored
from assentry.store.sql import chapter
from assentry.store.sql.chapter import seal_of
from assentry.testing import ScriptedModel, call
from tests.store.place import Place

LONG = 40
"""The number of turns after which a run here asks a person. It has several snapshots by then."""


class Shop:
    """An agent whose calls wait for a person from some amount on."""

    def __init__(self, free: int = LONG, turns: int = 2000, output: str = "paid") -> None:
        self.sent: list[int] = []
        sent = self.sent

        @function_tool(needs_approval=lambda ctx, args, call_id=None: args["amount"] > free)
        def pay(amount: int, note: str = "") -> str:
            """Pay."""
            sent.append(amount)
            return output

        self.tool = pay
        self.turns = turns

    def agent(self, begin: int = 1) -> Agent[Any]:
        """The agent, whose model goes on with this amount."""
        steps = [call("pay", {"amount": number, "note": "n"}) for number in range(begin, begin + 40)]
        return Agent("Payer", tools=[self.tool], model=ScriptedModel(steps))

    def whole(self, free: int) -> Agent[Any]:
        """The agent that calls without a person, then asks."""
        steps = [call("pay", {"amount": number, "note": "n"}) for number in range(1, free + 2)]
        return Agent("Payer", tools=[self.tool], model=ScriptedModel(steps))


class Tired(ScriptedModel):
    """A model that fails once everything that came before is stored."""

    store: Store

    async def stream(self, request: Any) -> Any:
        if self.requests:
            async with asyncio.timeout(60):
                while not (runs := (await self.store.runs()).items) or runs[0].seq < 6:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            raise ModelFailed("The model is tired.")
        async for event in super().stream(request):
            yield event


async def test_a_lease_is_given_back_by_a_write_without_facts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot may be due then, and has no fact to be written with."""
    monkeypatch.setattr(snapshots, "EVERY", 1)
    monkeypatch.setattr(snapshots, "is_long", lambda facts: True)
    async with place.store() as store:
        model = Tired([call("pay", {"amount": 1})])
        model.store = store
        agent = Agent("Payer", tools=[Shop().tool], model=model)
        with pytest.raises(ModelFailed):
            await Runner.run(agent, "go", store=store, run_config=RunConfig(write_lag=0))
        [record] = (await store.runs()).items
        assert record.worker is None
        await same_run(store, record.id)


async def asked(store: Store, shop: Shop, free: int = LONG) -> Question:
    """Drive a run through its free turns to its first question."""
    result = await Runner.run(shop.whole(free), "go", store=store, max_turns=5000)
    return (await store.questions(run=result.run_id)).items[0]


async def resume(store: Store, shop: Shop, run: str, turn: int) -> tuple[Any, Question]:
    """Drive the run to its next question."""
    result = await Runner.run(shop.agent(turn), await store.load(run), store=store)
    return result, (await store.questions(run=run)).items[0]


async def same_run(store: Store, run: str) -> Stored:
    """The run as it is loaded is the run of its whole journal, for whoever looks."""
    loaded, read = await store.load(run), await store.read(run)
    assert [msgspec.json.encode(fact) for fact in loaded.facts] == [msgspec.json.encode(fact) for fact in read.facts]
    late, whole = loaded.run(), replay(read.facts)
    assert (late.seq, late.turns, late.usage, len(late.calls)) == (
        whole.seq,
        whole.turns,
        whole.usage,
        len(whole.calls),
    )
    one, other = View(late, None, {}), View(whole, None, {})
    assert msgspec.json.encode(one.input_list()) == msgspec.json.encode(other.input_list())
    assert [item.raw_item for item in one.items()] == [item.raw_item for item in other.items()]
    return loaded


# -- going on ----------------------------------------------------------------------------------------


async def test_a_long_run_goes_on_from_a_snapshot_and_comes_to_the_same(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        run = question.run
        for turn in range(LONG + 1, LONG + 20):
            assert (await same_run(store, run)).is_late
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            result, question = await resume(store, shop, run, turn + 1)
            assert question.arguments == f'{{"amount":{turn + 1},"note":"n"}}'
            assert len(result.raw_responses) == turn + 1
            assert result.context_wrapper.usage.requests == turn + 1
        assert shop.sent == list(range(1, LONG + 20))
        assert await store.verify(run) == []
        saved = result.to_state().to_string()
        state = await RunState.from_string(shop.agent(), saved)
        stored = await store.read(run)
        assert [msgspec.json.encode(fact) for fact in state._journal.facts] == [
            msgspec.json.encode(fact) for fact in stored.facts
        ]
    ends = [seq for (seq,) in place.execute("SELECT seq FROM assentry_chapters ORDER BY seq")]
    assert len(ends) == 2, "one when the run first waited, and one after some more turns"
    assert stored.record.seq - ends[-1] < snapshots.EVERY + 5


async def test_a_worker_goes_on_from_a_snapshot(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        for turn in range(LONG + 1, LONG + 4):
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            await Worker(store, shop.agent(turn + 1)).run_until_idle()
            question = (await store.questions(run=question.run)).items[0]
        assert shop.sent == list(range(1, LONG + 4))
        await same_run(store, question.run)


async def test_a_store_in_memory_goes_on_from_a_snapshot() -> None:
    shop, store = Shop(), MemoryStore()
    question = await asked(store, shop)
    for turn in range(LONG + 1, LONG + 20):
        assert (await same_run(store, question.run)).is_late
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        _, question = await resume(store, shop, question.run, turn + 1)
    await store.rebuild()
    assert not (await same_run(store, question.run)).is_late
    assert shop.sent == list(range(1, LONG + 20))


async def test_large_outputs_are_in_the_journal_once_and_are_given_to_the_model(place: Place) -> None:
    shop = Shop(free=30, output="x" * 20_000)
    async with place.store() as store:
        question = await asked(store, shop, 30)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        await resume(store, shop, question.run, 32)
        assert (await same_run(store, question.run)).is_late


async def test_a_grant_that_was_given_before_a_snapshot_holds_until_it_is_used_up_or_revoked(place: Place) -> None:
    shop, terms = Shop(free=2), GrantTerms(max_uses=30)
    async with place.store() as store:
        question = await asked(store, shop, 2)
        run, late = question.run, list[Question]()
        for turn in (4, 35):  # three turns without the grant, then thirty with it; and the same once more
            _, given = await store.decide_and_grant(
                question.id, Approve(), by="ann", digest=question.digest, grant=terms
            )
            assert given is not None
            _, question = await resume(store, shop, run, turn)
            late.append(question)
            assert [grant.used for grant in (await store.grants(run=run)).items][-1] == 30
        assert [each.arguments for each in late] == ['{"amount":34,"note":"n"}', '{"amount":65,"note":"n"}']
        _, given = await store.decide_and_grant(question.id, Approve(), by="ann", digest=question.digest, grant=True)
        assert given is not None and (await same_run(store, run)).is_late
        await store.revoke(given.id, by="bob", run=run)
        _, question = await resume(store, shop, run, 66)
        assert question.arguments == '{"amount":66,"note":"n"}', "the grant is revoked"
        assert await store.verify(run) == []


# -- what it costs -----------------------------------------------------------------------------------


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the facts that are folded and the rows that are decoded meanwhile, in this thread and others."""
    count: Counter[str] = Counter()
    names = {"fold": "folded", "unpack": "decoded"}
    with pytest.MonkeyPatch.context() as patch:
        for module in [each for name, each in sys.modules.items() if name.startswith("assentry.")]:
            for name, what in names.items():
                work = getattr(module, name, None)
                if callable(work) and getattr(work, "__module__", "").startswith("assentry."):
                    patch.setattr(module, name, _counting(work, what, count))
        for name in ("facts", "run"):
            whole = snapshots.Past.__dict__[name].func
            patch.setattr(snapshots.Past.__dict__[name], "func", _counting(whole, "past", count))
        yield count


def _counting(work: Any, what: str, count: Counter[str]) -> Any:
    def counting(*args: Any, **more: Any) -> Any:
        count[what] += 1
        return work(*args, **more)

    return counting


async def test_a_late_decision_and_a_late_resume_fold_and_decode_no_more_than_early_ones(place: Place) -> None:
    for turns in (60, 400):
        async with place.store() as store:
            await see_that_little_is_folded(store, turns)


async def test_they_fold_no_more_in_memory_either() -> None:
    await see_that_little_is_folded(MemoryStore(), 400)


async def see_that_little_is_folded(store: Store, turns: int) -> None:
    """A fold of the whole journal would take 1,600 facts for each decision and each resume at turn 400."""
    shop, most = Shop(free=turns), 100  # as at turn 20
    question = await asked(store, shop, turns)
    for turn in range(turns + 1, turns + 6, 2):
        with counted() as deciding:
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        with counted() as resuming:
            _, question = await resume(store, shop, question.run, turn + 1)
        assert max(deciding.values()) <= most and max(resuming.values()) <= most, (deciding, resuming)
        assert deciding["folded"] and resuming["folded"], "the count counts"
        with counted() as working:
            await store.decide(question.id, Reject(), by="ann", digest=question.digest)
            await Worker(store, shop.agent(turn + 2)).run_until_idle()
        assert working["folded"] <= 2 * most, working
        assert deciding["past"] + resuming["past"] + working["past"] == 0, "nobody looks at what is over"
        question = (await store.questions(run=question.run)).items[0]


async def test_a_short_run_has_no_snapshot_and_looks_for_none(place: Place) -> None:
    shop = Shop(free=3)
    async with place.store() as store:
        question = await asked(store, shop, 3)
        assert not (await same_run(store, question.run)).is_late
    assert place.execute("SELECT count(*) FROM assentry_chapters") == [(0,)]


# -- what does not fit -------------------------------------------------------------------------------


def other_format(place: Place, run: str) -> None:
    rows = place.execute("SELECT seq, hash, snapshot FROM assentry_chapters ORDER BY seq DESC LIMIT 1")
    seq, hash, text = rows[0]
    text = text.replace('"before"', '"format":"0.9","before"')
    reseal(place, run, seq, bytes(hash), text)


def reseal(place: Place, run: str, seq: int, hash: bytes, text: str) -> None:
    seal = seal_of(run, hash, text.encode())
    set_both = "UPDATE assentry_chapters SET snapshot = :text, seal = :seal WHERE seq = :seq"
    place.execute(set_both, text=text, seal=seal, seq=seq)


_LAST = "WHERE seq = (SELECT max(seq) FROM assentry_chapters)"
_HASH = "(SELECT prev_hash FROM assentry_journal WHERE seq = 3)"
DAMAGES: dict[str, Any] = {
    "another number": f"UPDATE assentry_chapters SET snapshot = replace(snapshot, '5000', '9000') {_LAST}",
    "no JSON": f"UPDATE assentry_chapters SET snapshot = '{{' {_LAST}",
    "another seal": f"UPDATE assentry_chapters SET seal = 'x' {_LAST}",
    "another hash": f"UPDATE assentry_chapters SET hash = {_HASH} {_LAST}",
    "another place": "UPDATE assentry_chapters SET seq = seq + 1",
    "another version's": other_format,
}
BODIES: dict[str, Any] = {
    "another body": "UPDATE assentry_chapters SET body = hash WHERE seq = (SELECT min(seq) FROM assentry_chapters)",
    "one is gone": "DELETE FROM assentry_chapters WHERE seq = (SELECT min(seq) FROM assentry_chapters)",
}


@pytest.mark.parametrize("damage", [*DAMAGES, *BODIES])
async def test_a_snapshot_that_does_not_fit_is_not_used_is_named_and_is_made_anew(damage: str, place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        run = question.run
        for turn in range(LONG + 1, LONG + 17):
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            _, question = await resume(store, shop, run, turn + 1)
        assert len(place.execute("SELECT seq FROM assentry_chapters")) == 2
        do = {**DAMAGES, **BODIES}[damage]
        do(place, run) if callable(do) else place.execute(do)
        assert not (await same_run(store, run)).is_late
        assert len([line for line in await store.verify(run) if "snapshot at fact" in line]) == 1
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        _, question = await resume(store, shop, run, LONG + 18)
        assert shop.sent[-1] == LONG + 17
        assert (await same_run(store, run)).is_late, "the next drive has made another"
        assert await store.verify(run) == []


async def test_a_snapshot_of_another_run_is_not_used(place: Place) -> None:
    shop, other = Shop(), Shop()
    async with place.store() as store:
        question, theirs = await asked(store, shop), await asked(store, other)
        place.execute("DELETE FROM assentry_chapters WHERE run = 1")
        place.execute("UPDATE assentry_chapters SET run = 1")
        assert not (await same_run(store, question.run)).is_late
        assert not (await same_run(store, theirs.run)).is_late


async def test_rebuilding_erasing_and_purging_remove_snapshots(place: Place) -> None:
    shop = Shop()
    count = "SELECT count(*) FROM assentry_chapters"
    async with place.store() as store:
        question = await asked(store, shop)
        assert place.execute(count) != [(0,)]
        await store.rebuild()
        assert place.execute(count) == [(0,)]
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        _, question = await resume(store, shop, question.run, LONG + 2)
        assert place.execute(count) == [(1,)], "the whole past is in one"
        await store.decide(question.id, Reject("Enough."), by="ann", digest=question.digest)
        end = Agent("Payer", tools=[shop.tool], model=ScriptedModel(["bye"]))
        await Runner.run(end, await store.load(question.run), store=store)
        await store.erase(question.run)
        assert place.execute(count) == [(0,)]
        assert await store.verify(question.run) == []
        again = await asked(store, shop)
        await store.cancel(again.run, by="ann")
        await store.purge(unchanged_for=0, statuses=["cancelled"])
        assert place.execute(count) == [(0,)]


async def test_snapshots_without_a_run_are_strays(place: Place) -> None:
    async with place.store() as store:
        await asked(store, Shop())
        place.execute("UPDATE assentry_chapters SET run = 77")
        assert "There are snapshots of run number 77, and no record of that run." in await store.strays()


# -- the journal is the authority --------------------------------------------------------------------


async def test_what_is_refused_late_is_refused_as_it_is_early(place: Place) -> None:
    said: list[list[tuple[type[AssentryError], str]]] = []
    async with place.store() as store:
        for free in (3, LONG):
            shop = Shop(free=free)
            result = await Runner.run(shop.whole(free), "go", store=store, max_turns=5000)
            first = (await store.questions(run=result.run_id)).items[0]
            await store.decide(first.id, Approve(), by="ann", digest=first.digest)
            _, open_now = await resume(store, shop, first.run, free + 2)
            found = []
            for question, decision, digest in (
                (first, Reject(), first.digest),
                (open_now, Approve(), first.digest),
                (open_now, Edit({"amount": "much"}), open_now.digest),
                (open_now, {"type": "respond", "output": 1, "more": 2}, open_now.digest),
            ):
                with pytest.raises(AssentryError) as caught:
                    await store.decide(question.id, decision, by="bob", digest=digest)
                text = str(caught.value).replace(question.id, "Q")
                found.append((type(caught.value), text.split(" at ")[0]))
            again = await store.decide(first.id, Approve(), by="bob", digest=first.digest)
            assert (again.verdict, again.by) == ("approve", "ann")
            said.append(found)
    assert said[0] == said[1]
    assert [kind for kind, _ in said[0]][:2] == [AlreadyDecided, DigestMismatch]
    assert issubclass(said[0][2][0], InvalidDecision)


async def test_who_asked_for_a_run_does_not_decide_late_either(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        config = RunConfig(started_by="ann")
        result = await Runner.run(shop.whole(LONG), "go", store=store, max_turns=5000, run_config=config)
        question = (await store.questions(run=result.run_id)).items[0]
        with pytest.raises(Forbidden):
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        await store.cancel(question.run, by="bob")
        await store.resume(question.run, by="bob")
        await store.say(question.run, "And now?")
        assert (await same_run(store, question.run)).run().unheard


@pytest.mark.parametrize("seq", [1, 3], ids=["the beginning", "the definition"])
async def test_a_changed_fact_that_still_counts_is_found_when_somebody_decides(seq: int, place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        place.execute("UPDATE assentry_journal SET fact = replace(fact, 'Payer', 'Taker') WHERE seq = :seq", seq=seq)
        with pytest.raises(UnreadableState, match=f"Fact {seq} of run"):
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        with pytest.raises(UnreadableState, match=f"Fact {seq} of run"):
            await store.load(question.run)


async def test_a_changed_fact_after_the_snapshot_is_found_when_somebody_decides(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        last = (await store.read(question.run)).record.seq
        place.execute("UPDATE assentry_journal SET fact = replace(fact, 'pay', 'say') WHERE seq = :seq", seq=last - 1)
        with pytest.raises(UnreadableState, match=f"Fact {last - 1} of run"):
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)


async def test_a_changed_fact_that_is_over_is_found_by_who_reads_it_and_by_verify(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        place.execute("UPDATE assentry_journal SET fact = replace(fact, 'paid', 'lost') WHERE seq = 7")
        changed = [row for row in place.execute("SELECT fact FROM assentry_journal WHERE seq = 7") if "lost" in row[0]]
        assert changed, "the test changes an output"
        assert "Fact 7 of run" in (await store.verify(question.run))[0]
        with pytest.raises(UnreadableState, match="Fact 7 of run"):
            await store.read(question.run)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)


async def test_a_lie_that_was_sealed_anew_is_named_by_verify(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        seq, hash, text = place.execute("SELECT seq, hash, snapshot FROM assentry_chapters ORDER BY seq DESC LIMIT 1")[
            0
        ]
        lie = text.replace('"max_turns":5000', '"max_turns":9000')
        assert lie != text
        reseal(place, question.run, seq, bytes(hash), lie)
        assert (await store.load(question.run)).is_late
        assert [line for line in await store.verify(question.run) if f"snapshot at fact {seq}" in line]


async def test_a_decision_that_is_made_again_late_gives_no_grant(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        with pytest.raises(AlreadyDecided):
            await store.decide(question.id, Reject(), by="bob", digest=question.digest)
        settled = await store.decide(question.id, Approve(), by="bob", digest=question.digest)
        assert (settled.verdict, settled.by) == ("approve", "ann")
        with pytest.raises(NotPending, match="no grant was given"):
            await store.decide_and_grant(question.id, Approve(), by="bob", digest=question.digest, grant=True)
        assert (await store.grants(run=question.run)).items == []


async def test_a_sealed_body_that_cannot_be_read_is_a_readable_error(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        seq, hash, text = place.execute("SELECT seq, hash, snapshot FROM assentry_chapters")[0]
        place.execute("UPDATE assentry_chapters SET body = hash")
        bodies = snapshots.hash_bodies([bytes(hash)])
        lie = msgspec.json.encode({**msgspec.json.decode(text), "bodies": bodies}).decode()
        reseal(place, question.run, seq, bytes(hash), lie)
        with pytest.raises(UnreadableState, match="assentry db rebuild"):
            (await store.load(question.run)).run()
        await store.rebuild()
        await same_run(store, question.run)


async def test_a_late_result_of_a_call_that_is_over_is_kept(place: Place) -> None:
    shop = Shop()
    async with place.store() as store:
        question = await asked(store, shop)
        await store.witness(question.run, [f.Witnessed("c1", 1, Raw(b'"late"'))])
        assert type((await same_run(store, question.run)).facts[-1]) is f.Witnessed


async def test_a_body_of_a_long_run_asks_if_earlier_calls_were_approved(place: Place) -> None:
    told: list[bool | None] = []

    @function_tool(needs_approval=lambda ctx, args, call_id=None: args["amount"] > LONG)
    def pay(ctx: ToolContext[Any], amount: int, note: str = "") -> str:
        """Pay."""
        told.append(ctx.is_tool_approved("pay", ctx.call_id))
        return "paid"

    shop = Shop()
    shop.tool = pay
    async with place.store() as store:
        question = await asked(store, shop)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        assert (await store.load(question.run)).is_late
        await resume(store, shop, question.run, LONG + 2)
    assert told == [True] * (LONG + 1)


@pytest.mark.parametrize("kind", ["stored", "memory"])
async def test_a_run_that_goes_on_after_a_rebuild_lacks_nothing_of_its_past(
    place: Place, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state in hand knows a snapshot that is stored no more."""
    monkeypatch.setattr(snapshots, "EVERY", 1)
    shop = Shop()
    async with place.store() if kind == "stored" else MemoryStore() as store:
        result = await Runner.run(shop.whole(LONG), "go", store=store, max_turns=5000)
        assert (await store.load(result.run_id)).is_late
        await store.rebuild()
        for turn in range(LONG + 2, LONG + 5):
            state = result.to_state()
            state.approve(result.interruptions[0])
            result = await Runner.run(shop.agent(turn), state, store=store)
            await same_run(store, result.run_id)
            assert await store.verify(result.run_id) == []
        [question] = (await store.questions(run=result.run_id)).items
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        await resume(store, shop, result.run_id, LONG + 5)
        assert (await same_run(store, result.run_id)).is_late


async def test_a_run_with_ever_more_grants_goes_on_and_needs_few_statements(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each grant is a fact that a snapshot counts on, and a query has a parameter for each."""
    monkeypatch.setattr(snapshots, "EVERY", 1)
    chapter._needed.cache_clear()
    shop = Shop(free=2)
    async with place.store() as store:
        question = await asked(store, shop, 2)
        for turn in range(4, 20):
            assert (await same_run(store, question.run)).is_late
            terms = GrantTerms(max_uses=1, pins={"amount": turn + 1000})
            await store.decide(question.id, Approve(), by="ann", digest=question.digest, grant=terms)
            _, question = await resume(store, shop, question.run, turn)
        assert len(replay((await store.read(question.run)).facts).grants) == 16
        assert chapter._needed.cache_info().currsize <= 4
        monkeypatch.setattr(chapter, "MOST_COUNTING", 10)
        assert not (await same_run(store, question.run)).is_late
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
