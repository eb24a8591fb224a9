"""What the model is told of a call that is given up: never that it did not run if it did, or may have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assentry.approval.decision import Reject
from assentry.testing import call
from assentry.threads import InMemorySaver, ToolMessage, create_agent, interrupt, wrap_tool_call

from .support import Paired, decide, office, only, say, texts, thread

MAY_HAVE = "It had begun, and may have run."
STANDS = "It had begun, and what it did until it asked stands."
SAID = "The user said something else instead of answering"


async def in_doubt() -> tuple[Any, list[int]]:
    """An agent whose thread asks about a payment that was cut off after it was made."""
    paid: list[int] = []
    inside = asyncio.Event()

    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = create_agent(Paired([call("pay", {"amount": 5}), "ok"]), [pay], checkpointer=InMemorySaver())
    running = asyncio.create_task(agent.ainvoke(say("go"), thread()))
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "not known" in only(await agent.ainvoke(None, thread())).value["action_requests"][0]["description"]
    return agent, paid


async def test_a_call_in_doubt_that_is_rejected_is_not_said_to_have_not_run() -> None:
    agent, paid = await in_doubt()
    result = await agent.ainvoke(decide("reject"), thread())
    assert texts(result)[2] == ("tool", f"The call was given up. {MAY_HAVE}")
    assert result["messages"][2].status == "error" and paid == [5]


async def test_a_persons_own_words_are_what_the_model_is_told() -> None:
    agent, _ = await in_doubt()
    result = await agent.ainvoke(decide({"type": "reject", "message": "It is paid."}), thread())
    assert texts(result)[2] == ("tool", "It is paid.")


async def test_a_call_in_doubt_may_be_given_up_by_a_new_message() -> None:
    agent, paid = await in_doubt()
    result = await agent.ainvoke(say("stop"), thread(), on_pending="reject")
    assert texts(result)[2] == ("tool", f"{SAID}, and the call was given up. {MAY_HAVE}")
    assert paid == [5]


def sends(sent: list[str]) -> Any:
    def send(to: str) -> str:
        """Send a mail, and ask."""
        sent.append(to)
        return str(interrupt("Was that right?"))

    return send


async def test_what_a_tool_did_before_it_asked_is_not_denied() -> None:
    sent: list[str] = []
    saver = InMemorySaver()
    for rejects in (False, True):
        agent = create_agent(Paired([call("send", {"to": "ann"}), "ok"]), [sends(sent)], checkpointer=saver)
        config = thread(f"rejects {rejects}")
        await agent.ainvoke(say("go"), config)
        if rejects:
            [question] = (await saver.store.questions()).items
            await saver.store.decide(question.id, Reject(), by="ann", digest=question.digest)
            words = f"The call was given up. {STANDS}"
            result = await agent.ainvoke(None, config)
        else:
            words = f"{SAID}, and the call was given up. {STANDS}"
            result = await agent.ainvoke(say("stop"), config, on_pending="reject")
        assert texts(result)[2] == ("tool", words)
    assert sent == ["ann", "ann"]


async def test_what_ran_before_the_code_around_it_asked_is_not_denied() -> None:
    @wrap_tool_call
    def look_first(request: Any, handler: Any) -> Any:
        result = handler(request)
        if interrupt({"shall the model see this": result.content}) == "yes":
            return result
        return ToolMessage("The result is held back.", tool_call_id=request.tool_call["id"])

    agent, ran = office(call("read_data"), "ok", middleware=[look_first])
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(say("stop"), thread(), on_pending="reject")
    assert texts(result)[2] == ("tool", f"{SAID}, and the call was given up. {STANDS}")
    assert ran == [("read_data", "records")]


async def test_a_call_that_never_began_did_not_run() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "ok")
    await agent.ainvoke(say("go"), thread("a"))
    result = await agent.ainvoke(say("stop"), thread("a"), on_pending="reject")
    assert texts(result)[2] == ("tool", f"{SAID}; the call did not run.")
    agent, ran = office(call("write_file", {"path": "a"}), "ok")
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(decide("reject"), thread())
    assert texts(result)[2][1].startswith("User rejected the tool call for `write_file` with id ") and ran == []
