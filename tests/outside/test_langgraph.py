"""Graphs of LangGraph whose interrupts are asked about, with the library itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from assentry import Approve, Edit, Reject, Respond
from assentry.errors import (
    Conflict,
    InvalidArguments,
    InvalidInput,
    NotApproved,
    NotDecided,
    RunBusy,
    ThreadWaiting,
    UsageError,
)
from assentry.outside.graph_interrupt import read_interrupt
from assentry.outside.langgraph import run_graph, stream_graph
from assentry.testing import FakeClock
from tests.outside.desk import KINDS, desk
from tests.outside.langgraph_agents import CONFIG, GO, Refunds, agent, calls, results

MODES = ("batched", "per_call")


def reviewed(refunds: Refunds, *steps: Any, mode: str = "batched", on: Any = True, **options: Any) -> Any:
    review: Any = HumanInTheLoopMiddleware({"refund": on}, interrupt_mode=mode)  # type: ignore[arg-type]
    return agent(*steps, tools=[refunds.tool], middleware=[review], **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
async def test_several_calls_are_asked_about_at_once_and_each_gets_its_own_verdict(
    kind: str, mode: str, tmp_path: Path
) -> None:
    refunds = Refunds()
    graph = reviewed(refunds, calls(*({"order": n, "amount": 50} for n in range(4))), "Done.", mode=mode)
    async with desk(kind, tmp_path) as at:
        run = asyncio.create_task(run_graph(graph, GO, CONFIG, at.approvals, tools=[refunds.tool]))
        asked = await at.decide(
            Approve(), Edit({"order": 1, "amount": 20}), Reject("Not that one."), Respond("Paid by hand.")
        )
        state = await run
        assert sorted(refunds.paid) == [(0, 50), (1, 20)]
        found = results(state)
        assert found["call_0"] == ("paid 50", "success")
        assert found["call_1"][0].endswith("paid 20")
        assert "Not that one." in found["call_2"][0] and found["call_2"][1] == "error"
        assert found["call_3"] == ("Paid by hand.", "success")
        assert await at.runs() == ["answered", "finished", "finished", "rejected"]
        assert all(each.allowed == ("approve", "edit", "reject", "respond") for each in asked)


@pytest.mark.parametrize("mode", MODES)
async def test_rules_decide_without_a_person(mode: str, tmp_path: Path) -> None:
    refunds = Refunds()
    graph = reviewed(refunds, calls({"order": 1, "amount": 3}, {"order": 2, "amount": 5000}), "Done.", mode=mode)
    async with desk("store", tmp_path) as at:
        found = results(await run_graph(graph, GO, CONFIG, at.approvals))
        assert refunds.paid == [(1, 3)]
        assert "Nobody refunds that much." in found["call_1"][0]
        assert await at.runs() == ["finished", "rejected"]


@pytest.mark.parametrize("mode", MODES)
async def test_an_edit_must_fit_the_tools_schema(mode: str, tmp_path: Path) -> None:
    refunds = Refunds()
    graph = reviewed(refunds, calls({"order": 1, "amount": 50}), "Done.", mode=mode)
    async with desk("store", tmp_path) as at:
        tools = [refunds.tool] if mode == "batched" else []  # per_call brings the schema along
        run = asyncio.create_task(run_graph(graph, GO, CONFIG, at.approvals, tools=tools))
        [question] = await at.questions()
        with pytest.raises(InvalidArguments):
            await at.store.decide(question.id, Edit({"order": "one"}), by="ann", digest=question.digest)
        await at.decide(Approve())
        await run
        assert refunds.paid == [(1, 50)]


@pytest.mark.parametrize("mode", MODES)
async def test_only_the_decisions_that_the_graph_takes_are_offered(mode: str, tmp_path: Path) -> None:
    refunds = Refunds()
    on = {"allowed_decisions": ["approve", "reject"], "description": "A refund leaves the house."}
    graph = reviewed(refunds, calls({"order": 1, "amount": 50}), "Done.", mode=mode, on=on)
    async with desk("store", tmp_path) as at:
        run = asyncio.create_task(run_graph(graph, GO, CONFIG, at.approvals))
        [question] = await at.questions()
        assert question.allowed == ("approve", "reject")
        assert question.preview is not None
        assert "A refund leaves the house." in str(question.preview.blocks)
        await at.decide(Approve())
        await run


async def test_a_rejection_that_the_graph_does_not_take_leaves_the_thread_waiting(tmp_path: Path) -> None:
    refunds = Refunds()
    graph = reviewed(refunds, calls({"order": 1, "amount": 50}), "Done.", on={"allowed_decisions": ["approve"]})
    async with desk("store", tmp_path) as at:
        run = asyncio.create_task(run_graph(graph, GO, CONFIG, at.approvals))
        await at.decide(Reject("No."))
        with pytest.raises(NotApproved, match="takes only: approve"):
            await run
        assert refunds.paid == []
        assert (await graph.aget_state(CONFIG)).interrupts


async def test_a_thread_that_nobody_decided_in_time_is_taken_again_and_asks_the_same(tmp_path: Path) -> None:
    refunds, saver = Refunds(), InMemorySaver()
    script = (calls({"order": 1, "amount": 50}), "Done.")
    async with desk("store", tmp_path) as at:
        with pytest.raises(NotDecided):
            await run_graph(reviewed(refunds, *script, checkpointer=saver), GO, CONFIG, at.approvals, timeout=0)
        await at.decide(Approve())
        again = reviewed(refunds, "Done.", checkpointer=saver)
        state = await run_graph(again, None, CONFIG, at.approvals, timeout=0)
        assert refunds.paid == [(1, 50)]
        assert state["messages"][-1].content == "Done."
        assert await at.runs() == ["finished"]
        assert (await run_graph(again, None, CONFIG, at.approvals))["messages"] == state["messages"]  # it is over


async def test_a_new_input_does_not_drop_what_people_are_asked(tmp_path: Path) -> None:
    graph = reviewed(Refunds(), calls({"order": 1, "amount": 50}), "Done.")
    async with desk("store", tmp_path) as at:
        with pytest.raises(NotDecided):
            await run_graph(graph, GO, CONFIG, at.approvals, timeout=0)
        with pytest.raises(ThreadWaiting, match="input=None"):
            await run_graph(graph, GO, CONFIG, at.approvals, timeout=0)


@pytest.mark.parametrize("mode", MODES)
async def test_of_two_that_drive_one_thread_one_starts_the_call(mode: str, tmp_path: Path) -> None:
    refunds, saver = Refunds(), InMemorySaver()
    async with desk("store", tmp_path) as at:
        first = reviewed(refunds, calls({"order": 1, "amount": 50}), mode=mode, checkpointer=saver)
        with pytest.raises(NotDecided):
            await run_graph(first, GO, CONFIG, at.approvals, timeout=0)
        graphs = [reviewed(refunds, "Done.", mode=mode, checkpointer=saver) for _ in range(3)]
        runs = [asyncio.create_task(run_graph(graph, None, CONFIG, at.approvals)) for graph in graphs]
        await at.decide(Approve())
        ended = await asyncio.gather(*runs, return_exceptions=True)
        lost = [each for each in ended if isinstance(each, RunBusy | Conflict)]
        assert len(lost) == 2, ended
        assert refunds.paid == [(1, 50)]


async def test_a_result_is_reported_though_the_graph_fails_after_it(tmp_path: Path) -> None:
    refunds = Refunds()
    graph = reviewed(refunds, calls({"order": 1, "amount": 3}), RuntimeError("no model"))
    async with desk("store", tmp_path) as at:
        with pytest.raises(RuntimeError, match="no model"):
            await run_graph(graph, GO, CONFIG, at.approvals)
        assert await at.runs() == ["finished"]


async def test_a_call_whose_body_raises_is_in_doubt_and_does_not_run_again_unasked(tmp_path: Path) -> None:
    class Clock:
        now = 1_700_000_000.0

        def __call__(self) -> float:
            return self.now

    refunds, saver, clock = Refunds("the bank hangs"), InMemorySaver(), Clock()
    graph = reviewed(refunds, calls({"order": 1, "amount": 3}), "Done.", checkpointer=saver)
    async with desk("store", tmp_path, clock=clock) as at:
        with pytest.raises(RuntimeError, match="the bank hangs"):
            await run_graph(graph, GO, CONFIG, at.approvals)
        again = reviewed(Refunds(), "Done.", checkpointer=saver)
        with pytest.raises(RunBusy):
            await run_graph(again, None, CONFIG, at.approvals)
        clock.now += 61
        with pytest.raises(NotDecided):
            await run_graph(again, None, CONFIG, at.approvals, timeout=0)
        [question] = await at.questions()
        assert question.kind == "doubt"
        await at.decide(Respond("It was paid."))
        with pytest.raises(Conflict, match="update_state"):
            await run_graph(again, None, CONFIG, at.approvals)
        assert refunds.paid == [(1, 3)]


class KilledSaver(InMemorySaver):
    """A saver whose process is killed before its later checkpoints are written."""

    killed = False

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if not self.killed:
            return await super().aput(config, checkpoint, metadata, new_versions)
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}


@pytest.mark.parametrize("mode", MODES)
async def test_a_thread_whose_newest_checkpoint_was_not_written_is_not_over(mode: str, tmp_path: Path) -> None:
    refunds, saver, clock = Refunds("killed"), KilledSaver(), FakeClock()
    async with desk("store", tmp_path, clock=clock) as at:
        graph = reviewed(refunds, calls({"order": 1, "amount": 50}), mode=mode, checkpointer=saver)
        with pytest.raises(NotDecided):
            await run_graph(graph, GO, CONFIG, at.approvals, timeout=0)
        await at.decide(Approve())
        saver.killed = True
        with pytest.raises(RuntimeError, match="killed"):
            await run_graph(graph, None, CONFIG, at.approvals)
        saver.killed = False
        again = Refunds()
        graph = reviewed(again, "Done.", mode=mode, checkpointer=saver)
        with pytest.raises(RunBusy):
            await run_graph(graph, None, CONFIG, at.approvals)
        clock.advance(61)
        run = asyncio.create_task(run_graph(graph, None, CONFIG, at.approvals))
        [question] = await at.decide(Approve())  # it may run again
        assert results(await run) == {"call_0": ("paid 50", "success")}
        assert (question.kind, refunds.paid, again.paid) == ("doubt", [(1, 50)], [(1, 50)])
        assert await at.runs() == ["finished"]


class Trip(TypedDict, total=False):
    city: str
    nights: int


def travel(ask: Any) -> Any:
    graph = StateGraph(Trip)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("kind", KINDS)
async def test_an_interrupt_of_the_graphs_own_is_a_question_whose_answer_it_goes_on_with(
    kind: str, tmp_path: Path
) -> None:
    shape = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}
    graph = travel(lambda state: interrupt(f"How many nights in {state['city']}?", response_schema=shape))
    async with desk(kind, tmp_path) as at:
        run = asyncio.create_task(run_graph(graph, {"city": "Porto"}, CONFIG, at.approvals))
        [question] = await at.questions()
        assert question.allowed == ("respond", "reject")
        assert question.schema == shape
        assert question.preview is not None
        assert question.preview.sentence == "shop asks: How many nights in Porto?"
        await at.decide(Respond({"nights": 3}))
        assert await run == {"city": "Porto", "nights": 3}


async def test_a_node_that_asks_the_same_twice_gets_two_answers(tmp_path: Path) -> None:
    graph = travel(lambda state: {"nights": interrupt("How many?") + interrupt("How many?")})
    async with desk("store", tmp_path) as at:
        run = asyncio.create_task(run_graph(graph, {"city": "Porto"}, CONFIG, at.approvals))
        await at.decide(Respond(2))
        await at.decide(Respond(5))
        assert (await run)["nights"] == 7


async def test_a_refused_question_leaves_the_thread_waiting(tmp_path: Path) -> None:
    graph = travel(lambda state: {"nights": interrupt({"ask": "nights"})})
    async with desk("store", tmp_path) as at:
        run = asyncio.create_task(run_graph(graph, {"city": "Porto"}, CONFIG, at.approvals))
        await at.decide(Reject("Nobody knows."))
        with pytest.raises(NotApproved, match="Nobody knows"):
            await run
        assert (await graph.aget_state(CONFIG)).interrupts


async def test_a_streamed_graph_goes_on_after_the_decisions(tmp_path: Path) -> None:
    refunds = Refunds()
    graph = reviewed(refunds, calls({"order": 1, "amount": 3}), "Done.")
    async with desk("store", tmp_path) as at:
        stream = stream_graph(graph, GO, CONFIG, at.approvals, stream_mode="updates")
        nodes = [name async for chunk in stream for name in chunk]
        assert nodes.index("__interrupt__") < nodes.index("tools")
        assert refunds.paid == [(1, 3)]
        assert await at.runs() == ["finished"]


async def test_the_calls_of_a_subgraph_are_asked_about_and_reported(tmp_path: Path) -> None:
    refunds = Refunds()
    review: Any = HumanInTheLoopMiddleware({"refund": True})
    inner = agent(calls({"order": 1, "amount": 3}), "Done.", tools=[refunds.tool], middleware=[review])
    inner.checkpointer = None

    async def work(state: Trip) -> Trip:
        await inner.ainvoke(GO)
        return {"nights": 1}

    async with desk("store", tmp_path) as at:
        assert await run_graph(travel(work), {"city": "Porto"}, CONFIG, at.approvals) == {"city": "Porto", "nights": 1}
        assert refunds.paid == [(1, 3)]
        assert await at.runs() == ["finished"]


@pytest.mark.parametrize(
    "value",
    [
        {"action_requests": "all", "review_configs": []},
        {"action_requests": [{"name": "refund", "args": {}}], "review_configs": []},
        {"action_requests": [], "review_configs": []},
        {"action_requests": [{"name": "refund", "args": 3}], "review_configs": []},
        {
            "action_requests": [{"name": "refund", "args": {}}],
            "review_configs": [{"action_name": "refund", "allowed_decisions": ["maybe"]}],
        },
        {"type": "tool_approval", "name": "refund"},
        {"type": "assentry_wait"},
    ],
)
def test_an_interrupt_of_a_wrong_shape_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        read_interrupt("i1", value, None, "t1", [], {})


def test_a_schema_that_offers_no_decision_is_refused() -> None:
    value = {"type": "tool_approval", "tool_call_id": "c", "name": "refund", "args": {}}
    with pytest.raises(InvalidInput, match="which decisions"):
        read_interrupt("i1", value, {"type": "object"}, "t1", [], {})


async def test_a_graph_without_a_thread_or_a_checkpointer_is_refused(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        graph = travel(lambda state: {})
        with pytest.raises(InvalidInput, match="thread_id"):
            await run_graph(graph, {}, {}, at.approvals)
        graph.checkpointer = None
        with pytest.raises(UsageError, match="checkpointer"):
            await run_graph(graph, {}, CONFIG, at.approvals)


async def test_describe_adds_to_an_ask(tmp_path: Path) -> None:
    refunds = Refunds()
    graph = reviewed(refunds, calls({"order": 1, "amount": 50}), "Done.")
    async with desk("store", tmp_path) as at:
        run = asyncio.create_task(
            run_graph(
                graph, GO, CONFIG, at.approvals, describe=lambda tool, args: {"reviewers": ["ann"], "risk": "high"}
            )
        )
        [question] = await at.questions()
        assert (question.reviewers, question.risk) == (("ann",), "high")
        await at.decide(Approve())
        await run
