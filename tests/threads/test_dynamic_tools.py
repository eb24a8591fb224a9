"""Tools that a middleware offers at run time: judged and run like any other, and never exchanged."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import InvalidDefinition, UsageError
from assentry.testing import call
from assentry.threads import (
    AgentMiddleware,
    Command,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    SqliteSaver,
    create_agent,
    interrupt,
    tool,
    wrap_model_call,
)
from tests.threads.support import Paired, decide, only, requests, say, texts, thread


def read() -> str:
    """Read."""
    return "read"


class Offering(AgentMiddleware):
    """A middleware that offers a tool for some requests."""

    def __init__(self, *tools: Any, when: Any = lambda number: True) -> None:
        self.offered, self.when, self.asked = tools, when, 0

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.asked += 1
        more = self.offered if self.when(self.asked) else ()
        return handler(request.override(tools=[*request.tools, *more]))

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        given = next((each for each in self.offered if getattr(each, "name", "") == request.tool_call["name"]), None)
        return handler(request.override(tool=given) if given is not None else request)


class Paying:
    def __init__(self) -> None:
        self.ran: list[int] = []

        @tool
        def pay(amount: int) -> str:
            """Pay."""
            self.ran.append(amount)
            return f"paid {amount}"

        self.tool = pay


def agent_with(*steps: Any, offering: Any, gated: bool = True, **options: Any) -> Any:
    gate = [HumanInTheLoopMiddleware({"pay": True})] if gated else []
    options = {"checkpointer": InMemorySaver(), **options}
    return create_agent(Paired(steps), [read], middleware=[*gate, offering], **options)


async def test_an_offered_tool_is_judged_and_runs_once() -> None:
    paying = Paying()
    agent = agent_with(call("pay", {"amount": 1}), "ok", offering=Offering(paying.tool, when=lambda n: n == 1))
    asked = only(await agent.ainvoke(say("go"), thread()))
    assert asked.value["action_requests"][0]["args"] == {"amount": 1} and paying.ran == []
    result = await agent.ainvoke(decide("approve"), thread())
    assert paying.ran == [1] and texts(result)[2:] == [("tool", "paid 1"), ("ai", "ok")]
    offered = [[each.name for each in request.tools] for request in requests(agent)]
    assert offered == [["read", "pay"], ["read"]]


async def test_a_function_and_a_rejection() -> None:
    ran: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    agent = agent_with(call("pay", {"amount": 1}), "ok", offering=Offering(pay))
    await agent.ainvoke(say("go"), thread())
    assert texts(await agent.ainvoke(decide("reject"), thread()))[-1] == ("ai", "ok")
    assert ran == []


async def test_a_tool_that_was_never_offered_does_not_run() -> None:
    paying = Paying()
    agent = agent_with(call("pay", {"amount": 1}), "ok", offering=Offering(paying.tool, when=lambda n: n > 1))
    result = await agent.ainvoke(say("go"), thread())
    assert paying.ran == [] and result["messages"][2].status == "error"


async def test_in_another_process_that_does_not_know_the_tool_nothing_runs(tmp_path: Any) -> None:
    paying = Paying()
    agent = agent_with(
        call("pay", {"amount": 1}), offering=Offering(paying.tool), checkpointer=SqliteSaver(tmp_path / "t.db")
    )
    await agent.ainvoke(say("go"), thread())
    other = agent_with("ok", offering=Offering(paying.tool), checkpointer=SqliteSaver(tmp_path / "t.db"))
    asked = only(await other.ainvoke(decide("approve"), thread()))
    assert "'pay' is gone" in asked.value["action_requests"][0]["description"]
    assert asked.value["review_configs"][0]["allowed_decisions"] == ["respond", "reject"]
    assert texts(await other.ainvoke(decide("reject"), thread()))[-1] == ("ai", "ok")
    assert paying.ran == []


async def test_a_process_that_has_the_tool_goes_on(tmp_path: Any) -> None:
    paying = Paying()
    agent = agent_with(
        call("pay", {"amount": 1}), offering=Offering(paying.tool), checkpointer=SqliteSaver(tmp_path / "t.db")
    )
    await agent.ainvoke(say("go"), thread())
    offering = Offering(paying.tool)
    offering.tools = [paying.tool]
    other = agent_with("ok", offering=offering, checkpointer=SqliteSaver(tmp_path / "t.db"))
    offering.offered = ()
    assert texts(await other.ainvoke(decide("approve"), thread()))[2:] == [("tool", "paid 1"), ("ai", "ok")]
    assert paying.ran == [1]


async def test_a_name_stands_for_one_tool() -> None:
    offering = Offering(Paying().tool)
    agent = agent_with("ok", "ok", offering=offering)
    await agent.ainvoke(say("go"), thread())
    offering.offered = (Paying().tool,)
    with pytest.raises(UsageError, match="same object"):
        await agent.ainvoke(say("go"), thread())


async def test_a_hook_cannot_exchange_the_tool_of_a_call() -> None:
    paying, other = Paying(), Paying()
    offering = Offering(paying.tool)
    agent = agent_with(call("pay", {"amount": 1}), "ok", offering=offering)
    await agent.ainvoke(say("go"), thread())
    offering.offered = (other.tool,)
    with pytest.raises(UsageError, match="nothing ran"):
        await agent.ainvoke(decide("approve"), thread())
    assert paying.ran == other.ran == []


async def test_a_hook_that_asks_keeps_what_was_offered() -> None:
    paying = Paying()

    @wrap_model_call
    def ask(request: Any, handler: Any) -> Any:
        result = handler(request)
        if len(request.messages) == 1:
            assert interrupt("fine?") == "yes"
        return result

    agent = create_agent(
        Paired([call("pay", {"amount": 1}), "ok"]),
        middleware=[ask, HumanInTheLoopMiddleware({"pay": True}), Offering(paying.tool)],
        checkpointer=InMemorySaver(),
    )
    await agent.ainvoke(say("go"), thread())
    assert only(await agent.ainvoke(Command(resume="yes"), thread())).value["action_requests"][0]["name"] == "pay"
    await agent.ainvoke(decide("approve"), thread())
    assert paying.ran == [1]


async def test_a_gated_tool_needs_a_checkpointer_at_run_time_too() -> None:
    with pytest.raises(InvalidDefinition, match="without a checkpointer"):
        await agent_with("ok", offering=Offering(Paying().tool), checkpointer=None).ainvoke(say("go"))


def test_a_name_that_no_tool_has_is_an_error_if_none_is_offered_at_run_time() -> None:
    @wrap_model_call
    def log(request: Any, handler: Any) -> Any:
        return handler(request)

    with pytest.raises(InvalidDefinition, match="'pay'"):
        agent_with("ok", offering=log)
