"""Agents of LangChain whose tool calls are asked about around the body, with the library itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from assentry import Approve, Edit, Reject, Respond, SyncApprovals
from assentry.errors import RunBusy, UsageError
from assentry.outside.langchain import AskFirstMiddleware
from assentry.outside.langgraph import run_graph, stream_graph
from assentry.outside.options import CallOptions
from tests.outside.desk import EDITED, KINDS, MASKED, desk
from tests.outside.langgraph_agents import CONFIG, GO, Refunds, agent, calls, results
from tests.threads.chat_model import ScriptedChat


def asking(refunds: Refunds, approvals: Any, *steps: Any, checkpointer: Any = None, **options: Any) -> Any:
    first = AskFirstMiddleware(approvals, **options)
    return agent(*steps, tools=[refunds.tool], middleware=[first], checkpointer=checkpointer)


class SlowSaver(InMemorySaver):
    """A saver that takes its time to write."""

    async def aput(self, *given: Any) -> Any:
        for _ in range(1000):
            await asyncio.sleep(0)
        return await super().aput(*given)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_is_asked_about_once_the_thread_has_it(streams: bool, tmp_path: Path) -> None:
    refunds, saver = Refunds(), SlowSaver()
    kept: list[list[str]] = []

    def describe(tool: str, arguments: Any) -> CallOptions:
        found = saver.get(CONFIG)
        kept.append([each.type for each in found["channel_values"]["messages"]] if found else [])
        return {}

    async with desk("store", tmp_path) as at:
        script = calls({"order": 7, "amount": 5}), "Done."
        graph = asking(refunds, at.approvals, *script, checkpointer=saver, describe=describe)
        if streams:
            assert [each async for each in stream_graph(graph, GO, CONFIG, at.approvals)]
        else:
            await run_graph(graph, GO, CONFIG, at.approvals)
    assert (refunds.paid, kept) == ([(7, 5)], [["human", "ai"]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("timeout", [None, 0])
async def test_each_call_is_asked_about_and_runs_as_it_was_approved(
    kind: str, timeout: float | None, tmp_path: Path
) -> None:
    refunds = Refunds()
    async with desk(kind, tmp_path) as at:
        script = calls(*({"order": n, "amount": 50} for n in range(4))), "Done."
        graph = asking(refunds, at.approvals, *script, timeout=timeout)
        run = asyncio.create_task(run_graph(graph, GO, CONFIG, at.approvals))
        asked = await at.decide(Approve(), Edit({"order": 7, "amount": 20}), Reject("Not that."), Respond("By hand."))
        found = results(await run)
        assert sorted(refunds.paid) == [(0, 50), (7, 20)]
        assert found == {
            "call_0": ("paid 50", "success"),
            "call_1": (f"paid 20\n\n[{EDITED}]", "success"),
            "call_2": ("Not that.", "error"),
            "call_3": ("By hand.", "success"),
        }
        assert await at.runs() == ["answered", "finished", "finished", "rejected"]
        assert all(each.allowed == ("approve", "edit", "reject", "respond") for each in asked)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_model_is_told_of_an_edit_without_what_was_typed_into_a_masked_argument(
    kind: str, tmp_path: Path
) -> None:
    refunds, saver = Refunds(), InMemorySaver()
    async with desk(kind, tmp_path) as at:
        script = calls({"order": 1, "amount": 50}), "Done.", "Done again."
        masking = {"describe": lambda tool, arguments: CallOptions(redact=["order"])}
        graph = asking(refunds, at.approvals, *script, checkpointer=saver, **masking)
        run = asyncio.create_task(graph.ainvoke(GO, CONFIG))
        await at.decide(Edit({"order": 81239, "amount": 20}))
        told = results(await run)["call_0"][0]
        assert told == f"paid 20\n\n[{MASKED}]"
        before = [each async for each in graph.aget_state_history(CONFIG) if each.next == ("tools",)]
        assert results(await graph.ainvoke(None, before[0].config))["call_0"][0] == told
        assert refunds.paid == [(81239, 20)]


@pytest.mark.parametrize("fails", [False, True])
async def test_what_programs_read_of_an_edited_call_stays_as_it_is(fails: bool, tmp_path: Path) -> None:
    @tool(response_format="content_and_artifact")
    def refund(order: int, amount: int) -> tuple[list[Any], dict[str, int]]:
        """Pay an order back."""
        if fails:
            raise ToolException("no")
        return [{"type": "text", "text": f"paid {amount}"}], {"amount": amount}

    refund.handle_tool_error = True
    async with desk("store", tmp_path) as at:
        first = AskFirstMiddleware(at.approvals)
        graph = agent(calls({"order": 1, "amount": 50}), "Done.", tools=[refund], middleware=[first])
        run = asyncio.create_task(graph.ainvoke(GO, CONFIG))
        [question] = await at.decide(Edit({"order": 7, "amount": 20}))
        [message] = [each for each in (await run)["messages"] if isinstance(each, ToolMessage)]
        if fails:
            assert (message.content, message.status) == (f"no\n\n[{EDITED}]", "error")
            return
        paid = {"type": "text", "text": "paid 20"}
        assert message.content == [paid, {"type": "text", "text": f"[{EDITED}]"}]
        assert message.artifact == {"amount": 20}
        assert (await at.approvals.load(question.run)).status.output == [paid]


async def test_an_agent_without_a_checkpointer_waits_in_the_process(tmp_path: Path) -> None:
    refunds = Refunds()
    async with desk("store", tmp_path) as at:
        chat = ScriptedChat(steps=[calls({"order": 1, "amount": 50}), "Done."])
        graph = create_agent(chat, [refunds.tool], middleware=[AskFirstMiddleware(at.approvals)])
        run = asyncio.create_task(graph.ainvoke(GO))
        await at.decide(Approve())
        await run
        assert refunds.paid == [(1, 50)]


async def test_rules_let_calls_pass_and_stop_them_without_a_person(tmp_path: Path) -> None:
    refunds = Refunds()
    async with desk("store", tmp_path) as at:
        script = calls({"order": 1, "amount": 3}, {"order": 2, "amount": 5000}), "Done."
        found = results(await asking(refunds, at.approvals, *script).ainvoke(GO, CONFIG))
        assert refunds.paid == [(1, 3)]
        assert "Nobody refunds that much." in found["call_1"][0]


async def test_what_a_paused_graph_is_resumed_with_decides_nothing(tmp_path: Path) -> None:
    refunds = Refunds()
    async with desk("store", tmp_path) as at:
        graph = asking(refunds, at.approvals, calls({"order": 1, "amount": 50}), "Done.", timeout=0)
        await graph.ainvoke(GO, CONFIG)
        for answer in (True, {"type": "approve"}, {"decisions": [{"type": "approve"}]}):
            state = await graph.ainvoke(Command(resume=answer), CONFIG)
            assert refunds.paid == [] and state["__interrupt__"]
        await at.decide(Approve())
        await graph.ainvoke(Command(resume=False), CONFIG)
        assert refunds.paid == [(1, 50)]


async def test_a_call_that_ran_is_not_run_again_when_the_thread_is_taken_back(tmp_path: Path) -> None:
    refunds, saver = Refunds(), InMemorySaver()
    async with desk("store", tmp_path) as at:
        script = calls({"order": 1, "amount": 3}), "Done.", "Done again."
        graph = asking(refunds, at.approvals, *script, checkpointer=saver)
        await graph.ainvoke(GO, CONFIG)
        before = [each async for each in graph.aget_state_history(CONFIG) if each.next == ("tools",)]
        state = await graph.ainvoke(None, before[0].config)
        assert refunds.paid == [(1, 3)]
        assert results(state)["call_0"] == ("paid 3", "success")


async def test_two_processes_on_one_thread_run_the_call_once(tmp_path: Path) -> None:
    refunds, saver = Refunds(), InMemorySaver()
    async with desk("store", tmp_path) as at:
        first = asking(refunds, at.approvals, calls({"order": 1, "amount": 50}), timeout=0, checkpointer=saver)
        await first.ainvoke(GO, CONFIG)
        graphs = [asking(refunds, at.approvals, "Done.", timeout=0, checkpointer=saver) for _ in range(3)]
        runs = [asyncio.create_task(run_graph(graph, None, CONFIG, at.approvals)) for graph in graphs]
        await at.decide(Approve())
        ended = await asyncio.gather(*runs, return_exceptions=True)
        assert refunds.paid == [(1, 50)]
        assert all(isinstance(each, dict | RunBusy) for each in ended), ended


async def test_a_tool_that_raises_is_reported_as_failed_and_not_tried_again(tmp_path: Path) -> None:
    refunds = Refunds("the bank says no")
    async with desk("store", tmp_path) as at:
        graph = asking(refunds, at.approvals, calls({"order": 1, "amount": 3}), "Done.")
        with pytest.raises(RuntimeError, match="the bank says no"):
            await graph.ainvoke(GO, CONFIG)
        assert await at.runs() == ["failed"]
        state = await graph.ainvoke(None, CONFIG)
        assert refunds.paid == [(1, 3)]
        assert "has run already, and failed" in results(state)["call_0"][0]


async def test_arguments_that_do_not_fit_the_tool_can_be_put_right_by_a_person(tmp_path: Path) -> None:
    refunds = Refunds()
    async with desk("store", tmp_path, rules="") as at:
        graph = asking(refunds, at.approvals, calls({"order": "one", "amount": 3}), "Done.")
        run = asyncio.create_task(graph.ainvoke(GO, CONFIG))
        await at.decide(Edit({"order": 1, "amount": 3}))
        await run
        assert refunds.paid == [(1, 3)]


async def test_a_tool_that_pauses_itself_is_refused_with_words_that_say_what_to_do(tmp_path: Path) -> None:
    @tool
    def refund(order: int, amount: int) -> str:
        """Pay an order back."""
        return f"paid {interrupt('sure?')}"

    async with desk("store", tmp_path) as at:
        first = AskFirstMiddleware(at.approvals)
        graph = agent(calls({"order": 1, "amount": 3}), "Done.", tools=[refund], middleware=[first])
        with pytest.raises(UsageError, match="name the other tools"):
            await graph.ainvoke(GO, CONFIG)


async def test_a_tool_that_changes_the_state_runs_once_and_its_change_is_kept(tmp_path: Path) -> None:
    ran: list[int] = []

    @tool
    def refund(order: int, amount: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Pay an order back."""
        ran.append(order)
        return Command(update={"messages": [ToolMessage("paid", tool_call_id=tool_call_id)]})

    async with desk("store", tmp_path) as at:
        first = AskFirstMiddleware(at.approvals)
        graph = agent(calls({"order": 1, "amount": 3}), "Done.", "Again.", tools=[refund], middleware=[first])
        assert results(await graph.ainvoke(GO, CONFIG))["call_0"] == ("paid", "success")
        before = [each async for each in graph.aget_state_history(CONFIG) if each.next == ("tools",)]
        state = await graph.ainvoke(None, before[0].config)
        assert ran == [1]
        assert "its effect on the agent's state is lost" in results(state)["call_0"][0]


async def test_the_model_is_told_of_an_edit_of_a_call_that_changes_the_state(tmp_path: Path) -> None:
    @tool
    def refund(order: int, amount: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Pay an order back."""
        messages = [ToolMessage("paid", tool_call_id=tool_call_id), HumanMessage("Thanks.")]
        return Command(update={"messages": messages})

    async with desk("store", tmp_path) as at:
        first = AskFirstMiddleware(at.approvals)
        graph = agent(calls({"order": 1, "amount": 50}), "Done.", tools=[refund], middleware=[first])
        run = asyncio.create_task(graph.ainvoke(GO, CONFIG))
        await at.decide(Edit({"order": 7, "amount": 20}))
        state = await run
        assert results(state)["call_0"] == (f"paid\n\n[{EDITED}]", "success")
        assert "Thanks." in [each.content for each in state["messages"]]


async def test_tools_that_are_not_named_run_unasked(tmp_path: Path) -> None:
    refunds = Refunds()
    async with desk("store", tmp_path) as at:
        graph = asking(refunds, at.approvals, calls({"order": 1, "amount": 5000}), "Done.", tools=["mail"])
        await graph.ainvoke(GO, CONFIG)
        assert refunds.paid == [(1, 5000)]
        assert await at.runs() == []


async def test_an_agent_without_an_event_loop_asks_with_sync_approvals(tmp_path: Path) -> None:
    refunds = Refunds()
    async with desk("store", tmp_path) as at:
        with pytest.raises(UsageError, match="SyncApprovals"):
            asking(refunds, at.approvals, calls({"order": 1}), "Done.").invoke(GO, CONFIG)
        approvals = SyncApprovals(at.store, source="shop")
        with pytest.raises(UsageError, match="with Approvals"):
            await asking(refunds, approvals, calls({"order": 1}), "Done.").ainvoke(GO, CONFIG)
        script = calls({"order": 1, "amount": 50}, {"order": 2, "amount": 50}), "Done."
        graph = asking(refunds, approvals, *script)
        run = asyncio.create_task(asyncio.to_thread(graph.invoke, GO, CONFIG))
        await at.decide(Approve(), Reject("No."))
        assert results(await run) == {"call_0": ("paid 50", "success"), "call_1": ("No.", "error")}
        assert refunds.paid == [(1, 50)]
        await asyncio.to_thread(approvals.close)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(UsageError, match="Approvals"):
        AskFirstMiddleware("sqlite:///runs.db")  # type: ignore[arg-type]
