"""Who may decide: reviewers of a tool or an agent, and nobody what they asked for themselves."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import (
    Agent,
    Edit,
    Forbidden,
    InvalidDecision,
    InvalidDefinition,
    RunConfig,
    Runner,
    ToolContext,
    function_tool,
)
from assentry.approval.decision import Decider
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import ScriptedModel, call
from tests.runtime.support import facts, reloaded, scripted, sending

ANN, BEA = Decider("ann", ("till",)), Decider("bea", ("post",))


async def waiting(config: RunConfig | None = None, agent: dict[str, Any] | None = None, **options: Any) -> Any:
    send, sent = sending(needs_approval=True, **options)
    clerk = scripted(call("send", {"to": "x"}), "Done.", tools=[send], **(agent or {}))
    return clerk, (await Runner.run(clerk, "go", run_config=config)).to_state(), sent


@pytest.mark.parametrize("reviewers", [["ann"], ["group:till"], ("eve", "group:till")])
async def test_only_a_reviewer_decides(reviewers: Any) -> None:
    clerk, state, sent = await waiting(reviewers=reviewers)
    state = await reloaded(clerk, state)
    [item] = state.get_interruptions()
    assert item.reviewers == tuple(reviewers)
    for decision in ({"type": "approve"}, {"type": "reject"}, {"type": "respond", "output": "x"}):
        with pytest.raises(Forbidden, match="not for bea"):
            state.decide(item.id, decision, BEA)
    with pytest.raises(Forbidden):
        state.approve(item)
    assert facts(state, "approved") == []
    state.decide(item.id, {"type": "approve"}, ANN)
    await Runner.run(clerk, state)
    assert len(sent) == 1


async def test_an_agents_reviewers_are_for_tools_without_their_own() -> None:
    _, state, _ = await waiting(agent={"reviewers": ["ann"]})
    assert state.get_interruptions()[0].reviewers == ("ann",)
    _, state, _ = await waiting(agent={"reviewers": ["ann"]}, reviewers=["bea"])
    assert state.get_interruptions()[0].reviewers == ("bea",)


async def test_nobody_decides_what_they_asked_for() -> None:
    _, state, _ = await waiting(RunConfig(started_by="ann"))
    [item] = state.get_interruptions()
    with pytest.raises(Forbidden, match="ann asked for this run"):
        state.decide(item.id, {"type": "approve"}, ANN)
    state.decide(item.id, {"type": "approve"}, BEA)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_same_holds_in_a_store(kind: str, tmp_path: Any) -> None:
    send, sent = sending(needs_approval=True, reviewers=["group:till"], redact=["to"])
    clerk = scripted(call("send", {"to": "x"}), "Done.", tools=[send])
    async with MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "a.db") as store:
        await Runner.run(clerk, "go", store=store, run_config=RunConfig(started_by="eve"))
        [question] = (await store.questions()).items
        assert (question.reviewers, question.redact, question.started_by) == (("group:till",), ("to",), "eve")
        assert (await store.runs()).items[0].started_by == "eve"
        for who in (BEA, Decider("eve", ("till",)), "ann"):
            with pytest.raises(Forbidden):
                await store.decide(question.id, {"type": "approve"}, by=who, digest=question.digest)
        shown = Decider("ann", ("till",), "abc")
        done = await store.decide(question.id, {"type": "approve"}, by=shown, digest=question.digest)
        assert (done.by, done.shown) == ("ann", "abc")
        [again] = (await store.questions(settled=True)).items
        assert again.shown == "abc"
        await Runner.run(clerk, await store.load(question.run), store=store)
        assert len(sent) == 1 and await store.verify(question.run) == []


async def test_a_bodys_question_and_a_doubt_have_the_same_reviewers() -> None:
    @function_tool(reviewers=["ann"])
    async def book(ctx: ToolContext[Any]) -> str:
        """Book."""
        return str(await ctx.ask("Which day?"))

    clerk = Agent("Clerk", tools=[book], model=ScriptedModel([call("book", {}), "Done."]))
    state = (await Runner.run(clerk, "go")).to_state()
    [item] = state.get_interruptions()
    assert item.reviewers == ("ann",)
    with pytest.raises(Forbidden):
        state.respond(item, "Monday", by="bea")
    state.respond(item, "Monday", by="ann")


@pytest.mark.parametrize(
    "options", [{"reviewers": "ann"}, {"reviewers": [7]}, {"reviewers": [""]}, {"redact": ["nothing"]}, {"redact": 7}]
)
def test_bad_names_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        sending(**options)


def test_an_agents_bad_reviewers_are_refused() -> None:
    with pytest.raises(InvalidDefinition, match="reviewers"):
        Agent("Clerk", reviewers="ann")


@pytest.mark.parametrize("name", ["grant:g_1", "rule", "rule:large", "deadline", "runtime", "group:till", ""])
async def test_nobody_decides_under_a_name_of_the_journals_own(name: str) -> None:
    _, state, _ = await waiting()
    with pytest.raises(InvalidDecision):
        state.decide(state.get_interruptions()[0].id, {"type": "approve"}, name)


@pytest.mark.parametrize("by", [BEA, Decider("eve", ("till",)), ANN])
async def test_an_edit_to_a_tool_with_reviewers_is_theirs_to_decide(by: Decider) -> None:
    ran: list[str] = []

    @function_tool(needs_approval=True, reviewers=["ann"])
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(f"{amount}")
        return "paid"

    send, sent = sending(needs_approval=True)
    clerk = scripted(call("send", {"to": "x"}), "Done.", tools=[send, pay])
    async with MemoryStore() as store:
        await Runner.run(clerk, "go", store=store)
        [question] = (await store.questions()).items
        await store.decide(question.id, Edit({"amount": 5}, tool="pay"), by=by, digest=question.digest)
        await Runner.run(clerk, await store.load(question.run), store=store)
        if by is not ANN:
            [again] = (await store.questions()).items
            assert (ran, again.tool, again.reviewers, again.arguments) == ([], "pay", ("ann",), '{"amount":5}')
            assert again.reason == f"{by.name} chose the tool 'pay', which is for ann to decide."
            with pytest.raises(Forbidden):
                await store.decide(again.id, {"type": "approve"}, by=by, digest=again.digest)
            await store.decide(again.id, {"type": "approve"}, by=ANN, digest=again.digest)
            await Runner.run(clerk, await store.load(question.run), store=store)
        assert (ran, sent, (await store.questions()).items) == (["5"], [], [])


async def test_an_edit_from_one_tool_of_a_group_to_another_is_asked_once() -> None:
    send, sent = sending(needs_approval=True, reviewers=["group:till"])
    mail, mailed = sending(needs_approval=True, reviewers=["group:till", "bea"], name_override="mail")
    clerk = scripted(call("send", {"to": "x"}), "Done.", tools=[send, mail])
    state = (await Runner.run(clerk, "go")).to_state()
    [item] = state.get_interruptions()
    state.decide(item.id, Edit({"to": "y"}, tool="mail"), ANN)
    assert (await Runner.run(clerk, state)).final_output == "Done."
    assert (len(sent), len(mailed)) == (0, 1)
