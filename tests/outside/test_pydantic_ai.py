"""Agents of Pydantic AI whose calls are asked about first, with the library itself and models that are functions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from assentry import Approve, Edit, Reject, Respond
from assentry.errors import DigestMismatch, NotApproved, NotDecided, UsageError
from assentry.store import SQLiteStore
from assentry.testing import FakeClock
from tests.outside.desk import EDITED, KINDS, MASKED, Effects, desk, output_of, start_program

if not os.environ.get("CI"):
    pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed: pip install '.[pydantic-ai]'")

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from assentry.outside.pydantic_ai import AskFirst

PROGRAM = Path(__file__).parent / "pydantic_ai_program.py"


def refund_call(order: int = 7, amount: int = 50, id: str = "call_1") -> ToolCallPart:
    return ToolCallPart("refund", {"order": order, "amount": amount}, id)


def calling(*calls: ToolCallPart) -> FunctionModel:
    """A model that makes these calls at once, and then says what they gave."""

    def reply(messages: list[Any], info: Any) -> ModelResponse:
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if not returned:
            returned = [part for part in messages[-1].parts if part.part_kind == "retry-prompt"]
        if returned:
            told = sorted(f"{part.tool_call_id}: {part.content}" for part in returned)
            return ModelResponse(parts=[TextPart("; ".join(told))])
        return ModelResponse(parts=[TextPart("They asked for it."), *calls])

    return FunctionModel(reply)


def shop(ask: AskFirst[Any], *calls: ToolCallPart, body: Callable[[int, int], Any], **options: Any) -> Agent[Any, Any]:
    agent = Agent(
        calling(*(calls or (refund_call(),))),
        output_type=[str, DeferredToolRequests],
        capabilities=[ask, *options.pop("capabilities", ())],
        **options,
    )

    @agent.tool_plain(requires_approval=True)
    def refund(order: int, amount: int) -> Any:
        """Pay an order back."""
        return body(order, amount)

    return agent


def paid(effects: Effects) -> Callable[[int, int], str]:
    def body(order: int, amount: int) -> str:
        effects.add(f"{order} {amount}")
        return f"paid {amount}"

    return body


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_runs_after_an_approval_and_is_reported(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        agent = shop(AskFirst(at.approvals), body=paid(effects))
        running = asyncio.create_task(agent.run("Refund order 7."))
        [question] = await at.questions()
        assert effects.lines() == []
        assert (question.tool, question.arguments) == ("refund", '{"amount":50,"order":7}')
        await at.decide(Approve())
        assert (await running).output == "call_1: paid 50"
        assert (effects.lines(), await at.runs()) == (["7 50"], ["finished"])
        assert await at.store.verify(question.run) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_person_edits_is_what_the_body_gets(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        running = asyncio.create_task(shop(AskFirst(at.approvals), body=paid(effects)).run("Refund."))
        await at.decide(Edit({"order": 7, "amount": 20}))
        assert (await running).output == "call_1: paid 20"
        assert effects.lines() == ["7 20"]


@pytest.mark.parametrize(
    ("output", "value", "more"),
    [
        ({"paid": 20}, {"paid": 20}, EDITED),
        (ToolReturn({"paid": 20}, content="By card.", metadata="m"), {"paid": 20}, ["By card.", EDITED]),
        (ToolReturn("paid", content=["By", "card."]), "paid", ["By", "card.", EDITED]),
    ],
)
async def test_the_model_is_told_of_an_edit_beside_the_output(
    output: Any, value: Any, more: Any, tmp_path: Path
) -> None:
    async with desk("store", tmp_path) as at:
        running = asyncio.create_task(shop(AskFirst(at.approvals), body=lambda *_: output).run("Refund."))
        [question] = await at.decide(Edit({"order": 7, "amount": 20}))
        parts = (await running).all_messages()[-2].parts
        [returned] = [part for part in parts if isinstance(part, ToolReturnPart)]
        assert (returned.content, returned.metadata) == (value, getattr(output, "metadata", None))
        assert [part.content for part in parts if isinstance(part, UserPromptPart)] == [more]
        assert (await at.approvals.load(question.run)).status.output == value


@pytest.mark.parametrize("kind", KINDS)
async def test_the_model_is_not_told_what_a_person_typed_into_a_masked_argument(kind: str, tmp_path: Path) -> None:
    async with desk(kind, tmp_path) as at:
        ask = AskFirst(at.approvals, describe=lambda *_: {"redact": ["order"]})
        agent = shop(ask, body=paid(Effects(tmp_path)))
        running = asyncio.create_task(agent.run("Refund."))
        await at.decide(Edit({"order": 81239, "amount": 20}))
        parts = (await running).all_messages()[-2].parts
        told = [part.content for part in parts if isinstance(part, UserPromptPart)]
        assert told == [MASKED]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rejection_reaches_the_model_in_the_persons_words(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        running = asyncio.create_task(shop(AskFirst(at.approvals), body=paid(effects)).run("Refund."))
        await at.decide(Reject("Ask for a receipt first."))
        result = await running
        assert result.output == "call_1: Ask for a receipt first."
        [part] = [part for part in result.all_messages()[-2].parts if isinstance(part, ToolReturnPart)]
        assert (part.outcome, effects.lines()) == ("denied", [])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_persons_answer_takes_the_tools_place(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        running = asyncio.create_task(shop(AskFirst(at.approvals), body=paid(effects)).run("Refund."))
        await at.decide(Respond("paid by hand"))
        assert (await running).output == "call_1: paid by hand"
        assert effects.lines() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_rules_decide_without_anybody(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    calls = refund_call(1, 5, "small"), refund_call(2, 5000, "large")
    async with desk(kind, tmp_path) as at:
        result = await shop(AskFirst(at.approvals), *calls, body=paid(effects)).run("Refund.")
        large, small = result.output.split("; ")
        assert small == "small: paid 5"
        assert "Nobody refunds that much." in large
        assert (effects.lines(), await at.runs()) == (["1 5"], ["finished", "rejected"])


@pytest.mark.parametrize("kind", KINDS)
async def test_the_calls_of_a_turn_are_asked_about_at_once_and_decided_apart(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    calls = [refund_call(order, 50 + order, f"call_{order}") for order in (1, 2, 3)]
    async with desk(kind, tmp_path) as at:
        running = asyncio.create_task(shop(AskFirst(at.approvals), *calls, body=paid(effects)).run("Refund."))
        await at.decide(Approve(), Reject("No."), Edit({"order": 3, "amount": 30}))
        assert (await running).output == "call_1: paid 51; call_2: No.; call_3: paid 30"
        assert sorted(effects.lines()) == ["1 51", "3 30"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_decision_after_the_timeout_counts_when_the_run_goes_on(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        ask = AskFirst(at.approvals, timeout=0)
        agent = shop(ask, refund_call(), refund_call(8, 5, "small"), body=paid(effects))
        ended = await agent.run("Refund.")
        assert [call.tool_call_id for call in ended.output.approvals] == ["call_1"]
        assert effects.lines() == ["8 5"]
        messages = ModelMessagesTypeAdapter.validate_json(ended.all_messages_json())
        with pytest.raises(NotDecided):
            await ask.results(messages, timeout=0)
        await at.decide(Edit({"order": 7, "amount": 20}))
        for _ in range(2):  # going on twice from the same messages runs nothing twice
            result = await agent.run(message_history=messages, deferred_tool_results=await ask.results(messages))
            assert result.output == "call_1: paid 20; small: paid 5"
        assert effects.lines() == ["8 5", "7 20"]
        assert len(await at.runs()) == 2


async def test_a_call_that_has_run_returns_its_output_in_another_run_of_the_same_messages(tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        agent = shop(AskFirst(at.approvals), body=paid(effects))
        running = asyncio.create_task(agent.run("Refund."))
        await at.decide(Approve())
        messages = (await running).all_messages()[:2]  # as they were kept before the tool ran
        assert (await agent.run(message_history=messages)).output == "call_1: paid 50"
        assert (effects.lines(), len(await at.runs())) == (["7 50"], 1)


async def test_messages_without_a_run_id_are_refused(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        agent = shop(AskFirst(at.approvals), body=paid(Effects(tmp_path)))
        messages = [ModelResponse(parts=[refund_call()])]
        with pytest.raises(UsageError, match="run_id"):
            await agent.run(message_history=messages)
        assert await at.runs() == []


# -- what was approved is what runs ------------------------------------------------------------------


class Changing(AbstractCapability[Any]):
    """A capability that changes the arguments of a call just before it runs."""

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        return {**args, "amount": 90}


@pytest.mark.parametrize("kind", KINDS)
async def test_arguments_that_change_after_the_approval_do_not_run(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        agent = shop(AskFirst(at.approvals), body=paid(effects), capabilities=[Changing()])
        running = asyncio.create_task(agent.run("Refund."))
        [question] = await at.decide(Approve())
        with pytest.raises(DigestMismatch):
            await running
        assert (effects.lines(), await at.runs()) == ([], ["approved"])
        assert any(
            "was about to run refund with other arguments" in str(line) for line in await at.store.lines(question.run)
        )


async def test_an_approval_by_the_program_itself_is_refused(tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        ask = AskFirst(at.approvals, timeout=0)
        agent = shop(ask, body=paid(effects))
        messages = (await agent.run("Refund.")).all_messages()
        for given in (True, ToolApproved(override_args={"order": 7, "amount": 9000})):
            with pytest.raises(NotDecided):
                await agent.run(
                    message_history=messages, deferred_tool_results=DeferredToolResults(approvals={"call_1": given})
                )
        await at.decide(Approve())
        with pytest.raises(DigestMismatch):
            await agent.run(
                message_history=messages,
                deferred_tool_results=DeferredToolResults(
                    approvals={"call_1": ToolApproved(override_args={"order": 7, "amount": 9000})}
                ),
            )
        assert effects.lines() == []


async def test_an_approval_of_a_call_that_was_never_asked_about_is_refused(tmp_path: Path) -> None:
    effects = Effects(tmp_path)

    class ApprovingAll(AbstractCapability[Any]):
        async def handle_deferred_tool_calls(self, ctx: Any, *, requests: DeferredToolRequests) -> DeferredToolResults:
            return requests.build_results(approve_all=True)

    async with desk("store", tmp_path) as at:
        agent = shop(AskFirst(at.approvals), body=paid(effects), capabilities=[ApprovingAll()])
        with pytest.raises(NotApproved, match="nobody was asked"):
            await agent.run("Refund.")
        assert effects.lines() == []


async def test_values_of_python_reach_the_body_as_the_library_makes_them(tmp_path: Path) -> None:
    seen: list[Any] = []
    async with desk("store", tmp_path) as at:
        call = ToolCallPart("book", '{"on": "2026-11-19", "guests": ["ann"]}', "call_1")
        agent = Agent(calling(call), capabilities=[AskFirst(at.approvals)])

        @agent.tool_plain(requires_approval=True)
        def book(on: date, guests: set[str], note: str = "none") -> dict[str, Any]:
            seen.append((on, guests, note))
            return {"on": on}

        running = asyncio.create_task(agent.run("Book."))
        await at.decide(Approve())
        assert "2026" in (await running).output
        running = asyncio.create_task(agent.run("Book."))
        await at.decide(Edit({"on": "2026-11-20", "guests": ["bob"], "note": "late"}))
        await running
        assert seen == [(date(2026, 11, 19), {"ann"}, "none"), (date(2026, 11, 20), {"bob"}, "late")]


# -- how bodies end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bodys_error_is_reported_and_raised_as_the_library_expects(kind: str, tmp_path: Path) -> None:
    async def ended(error: Exception, folder: Path) -> tuple[Any, list[str]]:
        def body(order: int, amount: int) -> str:
            raise error

        os.mkdir(folder)
        async with desk(kind, folder) as at:
            agent = shop(AskFirst(at.approvals), body=body)
            running = asyncio.create_task(agent.run("Refund."))
            await at.decide(Approve())
            [outcome] = await asyncio.gather(running, return_exceptions=True)
            return outcome, await at.runs()

    outcome, states = await ended(ValueError("no such order"), tmp_path / "a")
    assert (type(outcome), str(outcome), states) == (ValueError, "no such order", ["failed"])
    outcome, states = await ended(ModelRetry("Use another order."), tmp_path / "b")
    assert ("Use another order." in outcome.output, states) == (True, ["failed"])
    outcome, states = await ended(ToolFailed("The bank is closed."), tmp_path / "c")
    assert (outcome.output, states) == ("call_1: The bank is closed.", ["failed"])


async def test_a_call_that_has_failed_does_not_run_again(tmp_path: Path) -> None:
    effects = Effects(tmp_path)

    def body(order: int, amount: int) -> str:
        effects.add("entered")
        raise ValueError("no such order")

    async with desk("store", tmp_path) as at:
        ask = AskFirst(at.approvals, timeout=0)
        agent = shop(ask, body=body)
        messages = (await agent.run("Refund.")).all_messages()
        await at.decide(Approve())
        with pytest.raises(ValueError, match="no such order"):
            await agent.run(message_history=messages, deferred_tool_results=await ask.results(messages))
        result = await agent.run(message_history=messages, deferred_tool_results=await ask.results(messages))
        assert "has run already, and failed" in result.output
        assert effects.lines() == ["entered"]


async def test_a_body_that_is_cut_off_is_in_doubt(tmp_path: Path) -> None:
    clock, entered = FakeClock(), asyncio.Event()
    async with desk("store", tmp_path, clock=clock) as at:
        agent = Agent(calling(refund_call()), capabilities=[AskFirst(at.approvals)])

        @agent.tool_plain(requires_approval=True)
        async def refund(order: int, amount: int) -> None:
            entered.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(agent.run("Refund."))
        await at.decide(Approve())
        await entered.wait()
        assert await at.runs() == ["running"]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        clock.advance(61)
        assert await at.runs() == ["doubt"]


async def test_a_body_that_outlives_its_time_limit_is_in_doubt(tmp_path: Path) -> None:
    clock = FakeClock()
    async with desk("store", tmp_path, clock=clock) as at:
        agent = Agent(calling(refund_call()), capabilities=[AskFirst(at.approvals)])

        @agent.tool_plain(requires_approval=True, timeout=0.01)
        async def refund(order: int, amount: int) -> None:
            await asyncio.Event().wait()

        running = asyncio.create_task(agent.run("Refund."))
        await at.decide(Approve())
        assert "Timed out" in (await running).output
        clock.advance(61)
        assert await at.runs() == ["doubt"]


# -- what the library can do besides -----------------------------------------------------------------


async def test_a_tool_may_require_the_approval_itself_and_say_why(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        ask: AskFirst[Any] = AskFirst(
            at.approvals,
            describe=lambda ctx, call, metadata: {"preview": f"Risk: {metadata['risk']}", "reviewers": ["bob"]},
        )
        agent = Agent(calling(refund_call()), capabilities=[ask])
        entered: list[bool] = []

        @agent.tool
        def refund(ctx: RunContext[Any], order: int, amount: int) -> str:
            entered.append(ctx.tool_call_approved)
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"risk": "fraud"})
            return "paid"

        running = asyncio.create_task(agent.run("Refund."))
        [question] = await at.questions()
        assert question.reviewers == ("bob",)
        assert "Risk: fraud" in str(question.preview)
        await at.store.decide(question.id, Approve(), by="bob", digest=question.digest)
        assert (await running).output == "call_1: paid"
        assert entered == [False, True]


async def test_a_person_answers_an_external_tool_and_others_are_left_alone(tmp_path: Path) -> None:
    tools: ExternalToolset[Any] = ExternalToolset([ToolDefinition(name="ask_expert"), ToolDefinition(name="open_page")])
    calls = ToolCallPart("ask_expert", {"about": "lamps"}, "a"), ToolCallPart("open_page", {}, "b")
    async with desk("store", tmp_path) as at:
        ask: AskFirst[Any] = AskFirst(at.approvals, people=["ask_expert"])
        agent = Agent(calling(*calls), output_type=[str, DeferredToolRequests], toolsets=[tools], capabilities=[ask])
        running = asyncio.create_task(agent.run("Ask."))
        [question] = await at.decide(Respond({"watts": 40}))
        assert set(question.allowed) == {"respond", "reject"}
        ended = await running
        assert [call.tool_name for call in ended.output.calls] == ["open_page"]
        [returned] = [p for m in ended.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)]
        assert returned.content == {"watts": 40}


async def test_the_agents_words_and_its_conversation_are_shown(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        running = asyncio.create_task(
            shop(AskFirst(at.approvals), body=paid(Effects(tmp_path))).run("Refund.", conversation_id="talk 1")
        )
        [question] = await at.decide(Approve())
        await running
        record = await at.store.record(question.run)
        assert record.thread == "outside/shop/talk 1"
        assert "They asked for it." in str(await at.store.lines(question.run))


# -- other processes ---------------------------------------------------------------------------------


async def test_a_process_that_was_killed_while_it_waited_is_followed_by_another_without_a_second_question(
    tmp_path: Path,
) -> None:
    async with desk("store", tmp_path) as at:
        first = await start_program(PROGRAM, tmp_path)
        [question] = await at.questions()
        first.kill()
        await first.wait()
        second = await start_program(PROGRAM, tmp_path)
        assert (await output_of_line(second)) == "going on"
        assert [each.id for each in await at.questions()] == [question.id]
        await at.decide(Approve())
        assert await output_of(second) == "call_1: paid 50"
        assert (Effects(tmp_path).lines(), await at.runs()) == (["7 50"], ["finished"])


async def output_of_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_of_two_processes_with_the_same_messages_one_runs_the_body(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        first = await start_program(PROGRAM, tmp_path)
        await at.questions()
        second = await start_program(PROGRAM, tmp_path)
        assert (await output_of_line(first), await output_of_line(second)) == ("asking", "going on")
        await at.decide(Approve())
        ended = [await output_of(process) for process in (first, second)]
        assert set(ended) <= {"call_1: paid 50", "RunBusy"}
        assert "call_1: paid 50" in ended
        assert (Effects(tmp_path).lines(), await at.runs()) == (["7 50"], ["finished"])


async def test_a_process_that_dies_in_the_body_leaves_the_call_in_doubt(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        first = await start_program(PROGRAM, tmp_path, "dies")
        await at.decide(Approve())
        await first.wait()
        assert Effects(tmp_path).lines() == ["7 50"]
        second = await start_program(PROGRAM, tmp_path)
        assert await output_of_line(second) == "going on"
        assert await output_of(second) == "RunBusy"
    later = FakeClock()
    async with SQLiteStore(tmp_path / "runs.db") as store:
        later.now = store.clock() + 120
    async with desk("store", tmp_path, clock=later) as at:
        assert (await at.runs(), Effects(tmp_path).lines()) == (["doubt"], ["7 50"])
