"""Standing grants: decisions that hold in all runs of an agent, in every kind of store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assentry import Agent, Approve, Reject, RunConfig, Runner, function_tool
from assentry.approval.decision import Decider
from assentry.errors import (
    DefinitionChanged,
    Forbidden,
    GrantNotFound,
    InvalidDecision,
    QuestionNotFound,
    RunFinished,
    StoreFailed,
    UsageError,
)
from assentry.store import MemoryStore, PostgresStore, Question, SQLiteStore, Store
from assentry.store.audit import check_export, export_journals
from assentry.store.standing import LOG
from assentry.testing import FakeClock, ScriptedModel, call
from tests.store.place import Place

LIMITED = {"where": {"amount": {"at_most": 50}}, "max_uses": 2}


def paying(*amounts: Any, paid: list[Any] | None = None, name: str = "Office", **options: Any) -> Agent[Any]:
    """An agent that pays these amounts one after the other, and a list of what was paid."""

    def pay(amount: float, to: str = "ann") -> str:
        """Pay somebody."""
        if paid is not None:
            paid.append(amount)
        return "paid"

    tool = function_tool(pay, **({"needs_approval": True} | options))
    steps = [call("pay", {"amount": each}) for each in amounts]
    return Agent(name, tools=[tool], model=ScriptedModel([*steps, "done"]))


def made(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    clock = FakeClock()
    if kind == "postgres":
        return PostgresStore(request.getfixturevalue("postgres").database(), upgrade=True, clock=clock)
    return SQLiteStore(tmp_path / "runs.db", clock=clock) if kind == "sqlite" else MemoryStore(clock=clock)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = made(request.param, request, tmp_path)
    yield store
    asyncio.run(store.close())


async def asked(store: Store, amount: Any = 10, by: str | None = None, **options: Any) -> Question:
    """The question of a new run that pays an amount."""
    result = await Runner.run(paying(amount, **options), "go", store=store, run_config=RunConfig(started_by=by))
    return await store.question(result.interruptions[0].id)


async def goes(store: Store, *amounts: Any, by: str | None = None, **options: Any) -> tuple[list[Any], int]:
    """The amounts that a new run pays, and the number of its open questions."""
    paid: list[Any] = []
    agent = paying(*amounts, paid=paid, **options)
    result = await Runner.run(agent, "go", store=store, run_config=RunConfig(started_by=by))
    return paid, len(result.interruptions)


# -- what a grant decides ----------------------------------------------------------------------------


async def test_a_standing_grant_decides_in_every_run_of_the_agent_within_its_terms(store: Store) -> None:
    question = await asked(store)
    grant = await store.give_standing_grant(question.id, by="ann", terms=LIMITED)
    assert (grant.agent, grant.tool, grant.by, grant.question) == ("Office", "pay", "ann", question.id)
    assert await goes(store, 50) == ([50.0], 0)
    assert await goes(store, 50.5) == ([], 1)
    assert await goes(store, 1, 2) == ([1.0], 1)  # used up
    [listed] = (await store.standing_grants()).items
    assert (listed.used, listed.max_uses) == (2, 2)
    assert await store.verify_standing() == []


async def test_the_fact_of_the_verdict_names_the_grant_and_its_terms(store: Store) -> None:
    grant = await store.give_standing_grant((await asked(store)).id, by="ann", terms=LIMITED)
    result = await Runner.run(paying(7), "go", store=store)
    lines = await store.lines(result.run_id)
    [approved] = [line.fact for line in lines if line.fact["fact"] == "approved"]
    assert (approved["by"], approved["why"]) == (f"grant:{grant.id}", "given by ann")
    assert approved["terms"] == {"runs": "all", "where": {"amount": {"at_most": 50}}, "max_uses": 2}
    assert await store.verify(result.run_id) == []


async def test_a_standing_grant_settles_no_question_that_is_open(store: Store) -> None:
    question = await asked(store)
    await store.give_standing_grant(question.id, by="ann")
    assert (await store.question(question.id)).verdict is None


async def test_a_standing_rejection_beats_approvals_of_either_kind(store: Store) -> None:
    question = await asked(store)
    await store.give_standing_grant(question.id, by="ann")
    rejected = await store.give_standing_grant(
        question.id, by="bob", terms={"where": {"amount": {"above": 5}}}, verdict="reject", message="Too much."
    )
    result = await Runner.run(paying(4, 6), "go", store=store)
    lines = [line.fact for line in await store.lines(result.run_id)]
    assert [fact["by"] for fact in lines if fact["fact"] == "refused"] == [f"grant:{rejected.id}"]
    assert [fact.get("message") for fact in lines if fact["fact"] == "refused"] == ["Too much."]
    # a run's own approval is beaten too
    await store.revoke_standing_grant(rejected.id, by="bob")
    for each in (await store.standing_grants()).items:
        await store.revoke_standing_grant(each.id, by="bob")
    agent = paying(10, 11, 12)
    result = await Runner.run(agent, "go", store=store)
    open_ = await store.question(result.interruptions[0].id)
    await store.give_standing_grant(question.id, by="cy", verdict="reject")
    await store.decide(open_.id, Approve(), by="ann", digest=open_.digest, grant=True)
    result = await Runner.run(agent, await store.load(open_.run), store=store)
    kinds = [line.fact["fact"] for line in await store.lines(open_.run)]
    assert (kinds.count("approved"), kinds.count("refused")) == (1, 2)


async def test_a_changed_tool_is_not_covered(store: Store) -> None:
    await store.give_standing_grant((await asked(store)).id, by="ann")
    assert await goes(store, 1, version="2") == ([], 1)
    assert await goes(store, 1) == ([1.0], 0)


async def test_a_tool_that_becomes_risky_is_not_covered(store: Store) -> None:
    await store.give_standing_grant((await asked(store)).id, by="ann")
    assert await goes(store, 1, risk="high") == ([], 1)


async def test_a_grant_is_for_one_agent_by_its_place(store: Store) -> None:
    await store.give_standing_grant((await asked(store)).id, by="ann")
    assert await goes(store, 1, name="Other") == ([], 1)
    inner = paying(3)
    outer = Agent(
        "Outer",
        tools=[inner.as_tool("office", "Asks the office.")],
        model=ScriptedModel([call("office", {"input": "x"}), "ok"]),
    )
    result = await Runner.run(outer, "go", store=store)
    assert len(result.interruptions) == 1
    question = await store.question(result.interruptions[0].id)
    grant = await store.give_standing_grant(question.id, by="ann")
    assert grant.agent == "Outer/office"
    assert await goes(store, 3) == ([3.0], 0)


async def test_a_grant_whose_time_is_over_decides_nothing(store: Store) -> None:
    await store.give_standing_grant((await asked(store)).id, by="ann", terms={"expires_in": 60})
    assert await goes(store, 1) == ([1.0], 0)
    store._clock.advance(61)  # type: ignore[attr-defined]
    assert await goes(store, 1) == ([], 1)


async def test_nobody_approves_calls_of_the_runs_that_they_asked_for(store: Store) -> None:
    mine = await asked(store, by="ann")
    with pytest.raises(Forbidden, match="asked for this run"):
        await store.give_standing_grant(mine.id, by="ann")
    await store.give_standing_grant((await asked(store)).id, by="ann")
    assert await goes(store, 1, by="ann") == ([], 1)
    assert await goes(store, 1, by="bob") == ([1.0], 0)


async def test_a_grant_holds_only_while_its_giver_may_decide_calls_of_the_tool(store: Store) -> None:
    question = await asked(store, reviewers=["group:finance"])
    with pytest.raises(Forbidden, match=r"group:finance"):
        await store.give_standing_grant(question.id, by="ann")
    await store.give_standing_grant(question.id, by=Decider("ann", ("finance",)))
    assert await goes(store, 1, reviewers=["group:finance"]) == ([1.0], 0)
    assert await goes(store, 1, reviewers=["group:board"]) == ([], 1)


async def test_arguments_that_cannot_run_are_not_approved(store: Store) -> None:
    await store.give_standing_grant((await asked(store)).id, by="ann")
    assert await goes(store, "much") == ([], 1)


async def test_calls_of_one_turn_never_overuse_a_grant(store: Store) -> None:
    await store.give_standing_grant((await asked(store)).id, by="ann", terms={"max_uses": 2})
    paid: list[Any] = []
    agent = paying(paid=paid)
    agent.model = ScriptedModel([[call("pay", {"amount": each}) for each in range(5)], "done"])
    result = await Runner.run(agent, "go", store=store)
    assert len(result.interruptions) == 3
    assert len(paid) == 2
    assert (await store.standing_grants()).items[0].used == 2


# -- giving, listing, revoking -----------------------------------------------------------------------


async def test_a_revoked_grant_decides_nothing_from_then_on(store: Store) -> None:
    grant = await store.give_standing_grant((await asked(store)).id, by="ann")
    assert await goes(store, 1) == ([1.0], 0)
    over = await store.revoke_standing_grant(grant.id, by="bob")
    assert (over.revoked is not None, over.revoked_by) == (True, "bob")
    assert await store.revoke_standing_grant(grant.id, by="cy") == over
    assert await goes(store, 1) == ([], 1)
    assert (await store.standing_grants()).items == []
    assert [each.revoked_by for each in (await store.standing_grants(revoked=True)).items] == ["bob"]
    with pytest.raises(GrantNotFound):
        await store.revoke_standing_grant("always_none", by="bob")


async def test_the_same_request_sent_twice_gives_one_grant(store: Store) -> None:
    question = await asked(store)
    one = await store.give_standing_grant(question.id, by="ann", terms=LIMITED)
    assert await store.give_standing_grant(question.id, by="ann", terms=LIMITED) == one
    assert await store.give_standing_grant(question.id, by="ann") != one
    assert len((await store.standing_grants()).items) == 2


@pytest.mark.parametrize(
    "terms",
    [
        {"max_uses": 0},
        {"max_uses": True},
        {"expires_in": -1},
        {"where": {"amount": {"at_most": "50"}}},
        {"where": {"amount": {"at_most": True}}},
        {"where": {"amount": {"most": 5}}},
        {"where": {"amount": {}}},
        {"where": {"nothing": {"is": 5}}},
        {"where": {"to": {"under": "/srv/../etc"}}},
        {"where": {"to": {"one_of": []}}},
        {"where": [1]},
        {"pins": {"amount": 1}},
        7,
    ],
)
async def test_terms_that_do_not_fit_give_nothing(terms: Any) -> None:
    async with MemoryStore() as store:
        question = await asked(store)
        with pytest.raises(InvalidDecision):
            await store.give_standing_grant(question.id, by="ann", terms=terms)
        assert (await store.standing_grants(revoked=True)).items == []


async def test_a_grant_quotes_no_masked_argument() -> None:
    async with MemoryStore() as store:
        question = await asked(store, redact=["to"])
        with pytest.raises(InvalidDecision, match="masked"):
            await store.give_standing_grant(question.id, by="ann", terms={"where": {"to": {"is": "ann"}}})


async def test_no_condition_quotes_a_masked_argument_in_the_value_of_another() -> None:
    @function_tool(needs_approval=True, redact=["key"])
    def use(key: str, why: str) -> str:
        return "used"

    steps = [call("use", {"key": "s3cret-0815", "why": "It says s3cret-0815."}), "Done."]
    agent = Agent("Keys", tools=[use], model=ScriptedModel(steps))
    async with MemoryStore() as store:
        question = (await Runner.run(agent, "go", store=store)).interruptions[0]
        where = {"why": {"one_of": ["It says s3cret-0815."]}}
        with pytest.raises(InvalidDecision, match="quotes a masked argument"):
            await store.give_standing_grant(question.id, by="ann", terms={"where": where})
        assert (await store.standing_grants()).items == []
        await store.give_standing_grant(question.id, by="ann", terms={"where": {"why": {"max_length": 30}}})


async def test_a_grant_is_given_from_a_question_that_is_there_with_its_run() -> None:
    async with MemoryStore() as store:
        with pytest.raises(QuestionNotFound):
            await store.give_standing_grant("q_none", by="ann")
        question = await asked(store)
        await store.decide(question.id, Reject(), by="ann", digest=question.digest)
        await store.give_standing_grant(question.id, by="ann")  # settled is fine
        agent = paying()
        await Runner.run(agent, await store.load(question.run), store=store)
        await store.erase(question.run)
        with pytest.raises((RunFinished, DefinitionChanged)):
            await store.give_standing_grant(question.id, by="ann", terms={"max_uses": 1})
        with pytest.raises(InvalidDecision):
            await store.give_standing_grant(question.id, by="ann", verdict="maybe")  # type: ignore[arg-type]


# -- races -------------------------------------------------------------------------------------------


async def test_workers_that_race_for_the_last_use_do_not_exceed_it(store: Store) -> None:
    await store.give_standing_grant((await asked(store)).id, by="ann", terms={"max_uses": 3})
    found = await asyncio.gather(*(goes(store, each) for each in range(8)))
    assert sum(len(paid) for paid, _ in found) == 3
    assert sum(asks for _, asks in found) == 5
    assert (await store.standing_grants()).items[0].used == 3


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_processes_worth_of_stores_race_for_the_last_use(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue("postgres").database() if kind == "postgres" else ""
    make = (lambda: PostgresStore(url, upgrade=True)) if url else (lambda: SQLiteStore(tmp_path / "runs.db"))
    async with make() as one, make() as two:
        await one.give_standing_grant((await asked(one)).id, by="ann", terms={"max_uses": 1})
        found = await asyncio.gather(*(goes(each, number) for number, each in enumerate([one, two] * 3)))
        assert sum(len(paid) for paid, _ in found) == 1
        assert sum(asks for _, asks in found) == 5
        assert (await two.standing_grants()).items[0].used == 1


@pytest.mark.parametrize("terms", [None, {"max_uses": 5}])
async def test_a_grant_that_is_revoked_between_judging_and_writing_lets_nothing_run(
    store: Store, monkeypatch: pytest.MonkeyPatch, terms: Any
) -> None:
    grant = await store.give_standing_grant((await asked(store)).id, by="ann", terms=terms)
    append, seen = store.append, []

    async def late(change: Any) -> None:
        if change.standing and not seen:
            seen.append(change)
            await store.revoke_standing_grant(grant.id, by="bob")
        await append(change)

    monkeypatch.setattr(store, "append", late)
    assert await goes(store, 1) == ([], 1)
    assert seen and (await store.standing_grants(revoked=True)).items[0].used == 0


# -- the log -----------------------------------------------------------------------------------------


async def exported(store: Store) -> list[bytes]:
    return [line async for line in export_journals(store)]


async def kept(store: Store) -> None:
    question = await asked(store)
    first = await store.give_standing_grant(question.id, by="ann")
    await store.give_standing_grant(question.id, by="ann", terms=LIMITED)
    await store.revoke_standing_grant(first.id, by="bob")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_export_has_the_log_and_is_checked_without_the_store(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with made(kind, request, tmp_path) as store:
        await kept(store)
        lines = await exported(store)
    assert sum(LOG.encode() in line for line in lines) == 4
    found = check_export(lines)
    assert (found.problems, found.others, found.runs) == ([], [], 1)
    of_log = [number for number, line in enumerate(lines) if LOG.encode() in line]
    changed = [line.replace(b"bob", b"eve") for line in lines]
    removed = [line for number, line in enumerate(lines) if number != of_log[1]]
    cut = [line for number, line in enumerate(lines) if number not in of_log]
    swapped = list(lines)
    swapped[of_log[0]], swapped[of_log[1]] = lines[of_log[1]], lines[of_log[0]]
    for wrong in (changed, removed, cut, swapped):
        found = check_export(wrong)
        assert found.problems or found.others


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE assentry_standing_log SET entry = replace(entry, 'ann', 'eve') WHERE seq = 1", "not what was written"),
        ("DELETE FROM assentry_standing_log WHERE seq = 2", "missing"),
        ("DELETE FROM assentry_standing_log WHERE seq = 3", "differs from the log"),
        ("DELETE FROM assentry_standing_log", "in no entry of the log"),
        ("UPDATE assentry_standing_grants SET revoked_at = NULL WHERE revoked_at IS NOT NULL", "not what was written"),
        ("UPDATE assentry_standing_grants SET max_uses = 99", "not what was written"),
        ("DELETE FROM assentry_standing_grants", "not in the list"),
    ],
)
async def test_verifying_names_what_was_changed_behind_the_stores_back(place: Place, change: str, words: str) -> None:
    async with place.store() as store:
        await kept(store)
        assert await store.verify_standing() == []
        assert await store.strays() == []
        place.execute(change)
        assert any(words in sentence for sentence in await store.verify_standing())
        assert any(words in sentence for sentence in await store.strays())


async def test_a_row_that_was_changed_by_hand_approves_nothing(place: Place) -> None:
    async with place.store() as store:
        await store.give_standing_grant((await asked(store)).id, by="ann", terms={"max_uses": 1})
        place.execute("UPDATE assentry_standing_grants SET max_uses = 99")
        assert await goes(store, 1) == ([], 1)
        assert (await store.standing_grants()).damaged != []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE assentry_standing_grants SET max_uses = 99",
        "UPDATE assentry_standing_grants SET body = 'x'",
        "DELETE FROM assentry_standing_grants",
    ],
)
async def test_rebuilding_makes_the_grants_anew_from_their_log(place: Place, change: str) -> None:
    async with place.store() as store:
        await kept(store)
        assert await goes(store, 1) == ([1.0], 0)
        before = (await store.standing_grants(revoked=True)).items
        place.execute(change)
        [broken] = [each.id for each in before if each.revoked is None]
        with pytest.raises((StoreFailed, GrantNotFound)):
            await store.revoke_standing_grant(broken, by="bob")
        await store.rebuild()
        assert await store.verify_standing() == []
        after = (await store.standing_grants(revoked=True)).items
        expected = (
            before if not change.startswith("DELETE") else [replace(each, used=each.max_uses or 0) for each in before]
        )
        assert after == expected  # of uses that are lost, none is left
        await store.revoke_standing_grant(broken, by="bob")


@pytest.mark.parametrize("id", [5, None, ["x"], {}, "\ud800", "always_x"])
async def test_revoking_what_is_no_grant_says_so(store: Store, id: Any) -> None:
    with pytest.raises(GrantNotFound):
        await store.revoke_standing_grant(id, by="ann")


async def test_names_that_a_database_cannot_hold_to_the_letter_are_no_damage(store: Store) -> None:
    grant = await store.give_standing_grant((await asked(store)).id, by="a\0b")
    await store.revoke_standing_grant(grant.id, by="c\0d")
    assert await store.verify_standing() == []


async def test_a_store_that_keeps_no_standing_grants_says_so() -> None:
    class Bare(MemoryStore):
        _add_standing = Store._add_standing

    async with Bare() as store:
        with pytest.raises(UsageError, match="keeps no standing grants"):
            await store.give_standing_grant((await asked(store)).id, by="ann")
