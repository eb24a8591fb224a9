"""A live session: the same gate, the same door, the same journal."""

import asyncio

from assentry import Runner, RunState, function_tool
from assentry.realtime import RealtimeAgent, RealtimeRunner
from assentry.testing import ScriptedModel
from tests.realtime.fake_model import FakeModel, called, said, settle, until

ran: list[float] = []


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    ran.append(amount)
    return f"refunded {amount}"


@function_tool
async def look(order: int) -> str:
    """Look an order up."""
    return f"order {order} is late"


def agent(**options: object) -> RealtimeAgent:
    return RealtimeAgent("Desk", instructions="Help.", tools=[refund, look], **options)


def test_a_call_waits_while_the_conversation_goes_on() -> None:
    async def main() -> None:
        ran.clear()
        model = FakeModel()
        async with await RealtimeRunner(agent(), model=model).run() as session:
            await session.send_message("My money back!")
            await until(lambda: model.items)
            model.reply(called("refund", '{"amount": 9}'))
            await until(lambda: session.pending_approvals)
            await settle()
            assert not ran and not model.outputs
            assert "waits for a person" in model.items[-1]["content"]
            model.reply(said("I have asked for it."))
            await session.send_message("Fine.")
            await session.approve_tool_call("call_1", by="ann")
            await until(lambda: model.outputs)
            assert ran == [9] and model.outputs[0]["output"] == "refunded 9.0"
            model.reply(said("Done."))
            await session.close()
            types = [event.type async for event in session if event.type != "raw_model_event"]
        assert types == [
            "agent_start",
            "agent_end",
            "tool_approval_required",
            "agent_start",
            "agent_end",
            "tool_approval_decided",
            "tool_start",
            "tool_end",
            "agent_start",
            "agent_end",
        ]
        facts = [fact["fact"] for fact in session.to_state().to_json()["journal"]]
        assert facts[:2] == ["began", "defined"] and facts.count("replied") == 3 and "started" in facts

    asyncio.run(main())


def test_a_lost_connection_leaves_a_run_to_decide_on_and_continue_as_text() -> None:
    async def main() -> None:
        ran.clear()
        model = FakeModel()
        text = ScriptedModel(["It is done."])
        live = agent(model=text)
        runner = RealtimeRunner(live, model=model, config={"reconnect": {"attempts": 0}})
        session = await runner.run()
        error = None
        async with session:
            await session.send_message("My money back!")
            await until(lambda: model.items)
            model.reply(called("refund", '{"amount": 9}'))
            await until(lambda: session.pending_approvals)
            model.drop()
            try:
                async for _ in session:
                    pass
            except Exception as found:
                error = found
        assert "lost: gone" in str(error)
        saved = error.state.to_string()
        state = await RunState.from_string(live, saved)
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(live, state)
        assert result.final_output == "It is done." and ran == [9]
        heard = [item.get("type", "message") for item in text.requests[0].input]
        assert heard == ["message", "function_call", "function_call_output"]

    asyncio.run(main())
