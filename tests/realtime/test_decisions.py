"""Deciding in a live session: the four answers, grants, wrong ids, rules that fail, deadlines, nested agents."""

import asyncio
from typing import Any

import pytest

from assentry import Agent, RunConfig, ToolContext, function_tool
from assentry.errors import AlreadyDecided, InvalidDecision, NotPending, QuestionNotFound, UsageError
from assentry.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from assentry.store import MemoryStore
from assentry.testing import FakeClock, ScriptedModel, call
from tests.realtime.fake_model import FakeModel, called, said, settle, until

ran: list[Any] = []


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    ran.append(amount)
    return f"refunded {amount}"


@function_tool
async def ask_back(ctx: ToolContext) -> str:
    """Ask the person something."""
    answer = await ctx.ask("Which colour?", schema=str)
    return f"it is {answer}"


def session_of(model: FakeModel, tools: list[Any], **options: Any) -> Any:
    return RealtimeRunner(RealtimeAgent("Desk", tools=tools), model=model, **options).run()


async def asked(model: FakeModel, session: RealtimeSession, *calls: dict[str, Any]) -> list[Any]:
    """Let the model call, and return the questions."""
    model.reply(*calls)
    await until(lambda: len(session.pending_approvals) >= len(calls))
    await settle()
    return session.pending_approvals


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def test_an_edit_runs_what_the_person_said_and_the_model_is_told() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [refund]) as session:
            await asked(model, session, called("refund", '{"amount": 900}'))
            with pytest.raises(InvalidDecision):
                await session.edit_tool_call("call_1", {"amount": "45"})
            await session.edit_tool_call("call_1", {"amount": 45}, by="ann")
            [output] = await until(lambda: model.outputs)
        assert ran == [45] and "A person changed this call" in output["output"]

    asyncio.run(main())


def test_a_rejection_and_an_answer_run_nothing_and_are_told() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [refund]) as session:
            await asked(model, session, called("refund", '{"amount": 1}', "a"), called("refund", '{"amount": 2}', "b"))
            await session.reject_tool_call("a", rejection_message="Too much.")
            await session.respond_tool_call("b", "Paid by hand.")
            await until(lambda: len(model.outputs) == 2)
        assert {item["call_id"]: item["output"] for item in model.outputs} == {"a": "Too much.", "b": "Paid by hand."}
        assert not ran

    asyncio.run(main())


def test_always_holds_for_later_calls_of_the_session() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [refund]) as session:
            await asked(model, session, called("refund", '{"amount": 1}', "a"))
            await session.approve_tool_call("a", always=True)
            await until(lambda: len(model.outputs) == 1)
            model.reply(called("refund", '{"amount": 2}', "b"))
            await until(lambda: len(model.outputs) == 2)
        assert ran == [1, 2]

    asyncio.run(main())


def test_unknown_and_settled_ids_are_errors_and_change_nothing() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await session_of(model, [refund])
        with pytest.raises(UsageError, match="Enter the session"):
            await session.approve_tool_call("call_1")
        async with session:
            with pytest.raises(QuestionNotFound, match="waiting: none"):
                await session.approve_tool_call("call_9")
            [question] = await asked(model, session, called("refund", '{"amount": 1}'))
            with pytest.raises(QuestionNotFound, match="'call_1'"):
                await session.reject_tool_call("nope")
            with pytest.raises(QuestionNotFound):
                await session.approve_tool_call(None)
            await session.reject_tool_call(question.id)
            for again in (session.approve_tool_call, session.reject_tool_call):
                with pytest.raises(AlreadyDecided, match="reject, by local"):
                    await again("call_1")
        with pytest.raises(UsageError, match="closed"):
            await session.approve_tool_call("call_1")
        assert not ran

    asyncio.run(main())


VERBS: dict[str, Any] = {
    "approve": lambda session, id: session.approve_tool_call(id),
    "reject": lambda session, id: session.reject_tool_call(id),
    "edit": lambda session, id: session.edit_tool_call(id, {"amount": 7}),
    "respond": lambda session, id: session.respond_tool_call(id, "Paid by hand."),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("stored", [False, True])
def test_no_verb_decides_a_call_that_is_unknown_or_settled_here_or_in_a_nested_agent(verb: str, stored: bool) -> None:
    async def main() -> None:
        decide, model = VERBS[verb], FakeModel()
        inner = Agent("Cashier", tools=[refund], model=ScriptedModel([call("refund", {"amount": 3}, "in"), "Paid."]))
        tools = [refund, inner.as_tool("cashier", "Pays.")]
        session = await session_of(model, tools, store=MemoryStore() if stored else None)
        async with session:
            calls = [called("cashier", '{"input": "pay 3"}', "nested"), called("refund", '{"amount": 1}', "here")]
            questions = await asked(model, session, *calls)
            with pytest.raises(QuestionNotFound):
                await decide(session, "nowhere")
            with pytest.raises(NotPending):
                await decide(session, "nested")  # the call inside is asked about
            assert {question.call_id for question in session.pending_approvals} == {"in", "here"}
            await session.reject_tool_call("in", by="ann")
            await session.reject_tool_call("here", by="ann")
            for again in ("in", "here", *(question.id for question in questions)):
                with pytest.raises(AlreadyDecided, match="reject, by ann"):
                    await decide(session, again)
            await until(lambda: len(model.outputs) == 2)
            for again in ("in", "here", *(question.id for question in questions)):
                with pytest.raises(AlreadyDecided, match="reject, by ann"):
                    await decide(session, again)
        for after in ("nowhere", "in", "here"):
            with pytest.raises(UsageError, match="closed"):
                await decide(session, after)
        assert not ran and session.pending_approvals == []

    asyncio.run(main())


def test_a_call_that_needs_nobody_has_no_question() -> None:
    @function_tool
    async def hello() -> str:
        """Say hello."""
        return "hello"

    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [hello]) as session:
            model.reply(called("hello"))
            await until(lambda: model.outputs)
            with pytest.raises(NotPending):
                await session.approve_tool_call("call_1")

    asyncio.run(main())


def test_what_cannot_be_judged_never_runs() -> None:
    def broken(ctx: Any, params: Any, call_id: str) -> bool:
        raise RuntimeError("no rule today")

    @function_tool(needs_approval=broken)
    async def wipe(disk: str) -> str:
        """Wipe a disk."""
        ran.append(disk)
        return "wiped"

    @function_tool(needs_approval=lambda ctx, params, call_id: "no")
    async def strange(disk: str) -> str:
        """Do something."""
        ran.append(disk)
        return "done"

    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [wipe, strange]) as session:
            calls = [
                called("wipe", '{"disk": "a"}', "a"),
                called("wipe", '{"disk": 1}', "b"),
                called("wipe", "{", "c"),
                called("strange", '{"disk": "a"}', "d"),
            ]
            questions = await asked(model, session, *calls)
            assert {question.call_id for question in questions} == {"a", "b", "c", "d"}
            with pytest.raises(InvalidDecision):
                await session.approve_tool_call("b")
            model.reply(called("gone", "{}", "e"))
            await until(lambda: model.outputs)
        assert not ran and model.outputs[0]["call_id"] == "e" and "gone" in model.outputs[0]["output"]

    asyncio.run(main())


def test_a_body_that_asks_waits_for_the_answer() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [ask_back]) as session:
            [question] = await asked(model, session, called("ask_back"))
            assert question.kind == "input" and "answer to a question" in model.items[-1]["content"]
            await session.respond_tool_call("call_1", "blue", by="ann")
            [output] = await until(lambda: model.outputs)
        assert output["output"] == "it is blue"

    asyncio.run(main())


def test_a_deadline_that_passes_while_people_talk_is_a_rejection() -> None:
    async def main() -> None:
        model, clock = FakeModel(), FakeClock()
        settings = RunConfig(deadline=60, clock=clock)
        async with await session_of(model, [refund], run_config=settings) as session:
            await asked(model, session, called("refund", '{"amount": 1}'))
            clock.advance(61)
            await session.send_message("Still there?")
            [output] = await until(lambda: model.outputs)
            assert output["call_id"] == "call_1" and not session.pending_approvals
        assert not ran

    asyncio.run(main())


def test_a_question_inside_a_nested_agent_is_decided_here() -> None:
    async def main() -> None:
        inner = Agent("Cashier", tools=[refund], model=ScriptedModel([call("refund", {"amount": 3}, "in"), "Paid."]))
        model = FakeModel()
        async with await session_of(model, [inner.as_tool("cashier", "Pays.")]) as session:
            [question] = await asked(model, session, called("cashier", '{"input": "pay 3"}', "out"))
            assert question.name == "refund" and question.path
            await session.approve_tool_call("in")
            [output] = await until(lambda: model.outputs)
        assert (output["call_id"], output["output"], ran) == ("out", "Paid.", [3])

    asyncio.run(main())


def test_who_asked_for_the_run_decides_nothing_in_it() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [refund], config={"started_by": "eve"}) as session:
            await asked(model, session, called("refund", '{"amount": 1}'))
            with pytest.raises(Exception, match="eve"):
                await session.approve_tool_call("call_1", by="eve")
            await session.approve_tool_call("call_1", by="ann")
            await until(lambda: model.outputs)
        assert ran == [1]

    asyncio.run(main())


def test_several_calls_of_one_turn_are_answered_together() -> None:
    release = asyncio.Event()

    @function_tool
    async def slow() -> str:
        """Take long."""
        await release.wait()
        return "slow"

    @function_tool
    async def quick() -> str:
        """Take no time."""
        return "quick"

    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [slow, quick]) as session:
            model.reply(called("slow", "{}", "a"), called("quick", "{}", "b"))
            await until(lambda: model.outputs)
            assert model.sent[-1].start_response is False
            model.reply(said("One moment."))
            release.set()
            await until(lambda: len(model.outputs) == 2)
            assert model.sent[-1].start_response is True
            assert not session.pending_approvals

    asyncio.run(main())


def test_a_batch_is_a_turn_and_an_earlier_question_holds_back_no_later_call() -> None:
    @function_tool
    async def quick() -> str:
        """Take no time."""
        return "quick"

    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [refund, quick], run_config=RunConfig(release="batch")) as session:
            await asked(model, session, called("refund", '{"amount": 1}', "a"))
            model.reply(called("quick", "{}", "b"))
            await until(lambda: model.outputs)
            model.reply(called("refund", '{"amount": 2}', "c"), called("quick", "{}", "d"))
            await until(lambda: len(session.pending_approvals) == 2)
            await settle()
            assert [output["call_id"] for output in model.outputs] == ["b"]
            await session.approve_tool_call("c")
            await until(lambda: len(model.outputs) == 3)
            assert ran == [2] and [item.call_id for item in session.pending_approvals] == ["a"]

    asyncio.run(main())


@pytest.mark.parametrize("call_id", [None, "", 0, []])
def test_an_empty_id_decides_no_call(call_id: Any) -> None:
    async def main() -> None:
        model = FakeModel()
        async with await session_of(model, [refund]) as session:
            model.reply({"type": "function_call", "name": "refund", "arguments": '{"amount": 1}'})
            [question] = await until(lambda: session.pending_approvals)
            with pytest.raises(QuestionNotFound):
                await session.approve_tool_call(call_id)
            await session.reject_tool_call(question.id)
            await until(lambda: model.outputs)
        assert not ran

    asyncio.run(main())
