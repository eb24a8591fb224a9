"""An agent that a tool's body invokes: what it asks comes up in the thread of the outer agent."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import InvalidDecision, ReplayMismatch, UsageError, function_tool
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, SqliteSaver, create_agent, interrupt
from tests.threads.support import Paired, decide, only, say, texts, thread

STEPS = (call("look"), [call("pay", {"amount": 1}), call("pay", {"amount": 2})], call("ask"), "inner is done")


class Died(BaseException):
    """The process ends."""


class Inner:
    """An inner agent with tools, and the tools of an outer agent that invoke it."""

    def __init__(self, *steps: Any) -> None:
        self.ran: list[Any] = []

        def pay(amount: int) -> str:
            """Pay."""
            self.ran.append(amount)
            return f"paid {amount}"

        def look() -> str:
            """Look."""
            self.ran.append("look")
            return "seen"

        def ask() -> str:
            """Ask."""
            return str(interrupt("how?"))

        self.tools, self.steps = [pay, look, ask], steps or STEPS

    def agent(self, steps: Any = None) -> Any:
        gate = HumanInTheLoopMiddleware({"pay": True})
        model = ScriptedModel(self.steps if steps is None else steps)
        return create_agent(model, self.tools, middleware=[gate], checkpointer=True, name="inner")

    def delegate(self, agent: Any, is_async: bool) -> Any:
        async def aside(task: str) -> Any:
            """Delegate."""
            result = await agent.ainvoke(say(task))
            return result["messages"][-1].content + interrupt("outer?")

        def delegate(task: str) -> Any:
            """Delegate."""
            result = agent.invoke(say(task))
            return result["messages"][-1].content + interrupt("outer?")

        aside.__name__ = "delegate"
        return aside if is_async else delegate


@pytest.mark.parametrize("is_async", [True, False])
async def test_its_questions_come_up_in_the_outer_thread_in_any_process(is_async: bool, tmp_path: Any) -> None:
    inner = Inner()
    outer = ScriptedModel([call("delegate", {"task": "do it"}), "outer is done"])
    rest = ScriptedModel(STEPS)

    def process() -> Any:
        """The outer agent as each process makes it; the inner model goes on where it was."""
        agent = inner.agent()
        agent.agent.model = rest
        return create_agent(outer, [inner.delegate(agent, is_async)], checkpointer=SqliteSaver(tmp_path / "t.db"))

    asked = only(await process().ainvoke(say("go"), thread()))
    assert [each["args"] for each in asked.value["action_requests"]] == [{"amount": 1}, {"amount": 2}]
    assert inner.ran == ["look"]
    with pytest.raises(InvalidDecision, match="2 decisions"):
        await process().ainvoke(decide("approve"), thread())
    result = await process().ainvoke(decide("approve", "reject", by="ann"), thread())
    assert only(result).value == "how?" and inner.ran == ["look", 1]
    assert only(await process().ainvoke(Command(resume="so"), thread())).value == "outer?"
    result = await process().ainvoke(Command(resume="!"), thread())
    assert texts(result)[-2:] == [("tool", "inner is done!"), ("ai", "outer is done")]
    assert inner.ran == ["look", 1]


async def test_an_edit_that_does_not_fit_is_asked_about_again() -> None:
    inner = Inner(call("pay", {"amount": 1}), "done")
    agent = create_agent(
        Paired([call("delegate", {"task": "x"}), "ok"]),
        [inner.delegate(inner.agent(), True)],
        checkpointer=InMemorySaver(),
    )
    await agent.ainvoke(say("go"), thread())
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": "all"}}}
    result = await agent.ainvoke(decide(edit), thread())
    assert "did not fit" in only(result).value["action_requests"][0]["description"] and inner.ran == []
    edit["edited_action"] = {"name": "pay", "args": {"amount": 5}}
    assert only(await agent.ainvoke(decide(edit), thread())).value == "outer?"
    assert inner.ran == [5]


async def test_two_agents_in_two_calls_are_two_interrupts() -> None:
    inner = Inner()
    agents = iter([inner.agent([call("pay", {"amount": n}), f"paid {n}"]) for n in (1, 2)])
    known: dict[str, Any] = {}

    async def delegate(task: str) -> Any:
        """Delegate."""
        agent = known.setdefault(task, None) or known.update({task: next(agents)}) or known[task]
        return (await agent.ainvoke(say(task)))["messages"][-1].content

    calls = [call("delegate", {"task": "a"}), call("delegate", {"task": "b"})]
    agent = create_agent(Paired([calls, "ok"]), [delegate], checkpointer=InMemorySaver())
    waiting = (await agent.ainvoke(say("go"), thread()))["__interrupt__"]
    assert len(waiting) == 2
    answers = {
        waiting[0].id: {"decisions": [{"type": "approve"}]},
        waiting[1].id: {"decisions": [{"type": "reject", "message": "no"}]},
    }
    result = await agent.ainvoke(Command(resume=answers), thread())
    assert len(inner.ran) == 1 and texts(result)[-1] == ("ai", "ok")


async def test_a_body_that_invokes_something_else_is_stopped() -> None:
    inner = Inner(call("pay", {"amount": 1}), "done")
    agent, words = inner.agent(), iter(["one", "two"])

    async def delegate() -> Any:
        """Delegate."""
        return (await agent.ainvoke(say(next(words))))["messages"][-1].content

    outer = create_agent(Paired([call("delegate"), "ok"]), [delegate], checkpointer=InMemorySaver())
    await outer.ainvoke(say("go"), thread())
    with pytest.raises(ReplayMismatch, match="another input"):
        await outer.ainvoke(decide("approve"), thread())
    assert inner.ran == []


async def test_an_inner_run_that_dies_in_the_middle_leaves_the_outer_call_in_doubt() -> None:
    inner = Inner(call("pay", {"amount": 1}), "done")
    agent = inner.agent()
    dies = True

    async def delegate() -> Any:
        """Delegate."""
        result = await agent.ainvoke(say("x"))
        if dies:
            raise Died
        return result["messages"][-1].content

    saver = InMemorySaver()
    outer = create_agent(Paired([call("delegate"), "ok"]), [delegate], checkpointer=saver)
    await outer.ainvoke(say("go"), thread())
    with pytest.raises(Died):
        await outer.ainvoke(decide("approve"), thread())
    dies = False
    asked = only(await outer.ainvoke(None, thread()))
    assert inner.ran == [1] and asked.value["action_requests"][0]["name"] == "delegate"


async def test_an_answer_of_somebody_who_may_not_decide_inside_loses_no_question() -> None:
    ran: list[int] = []

    @function_tool(reviewers=["cfo"])
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    gate = HumanInTheLoopMiddleware({"pay": True})
    inner = create_agent(
        Paired([call("pay", {"amount": 1}), "inner is done"]), [pay], middleware=[gate], checkpointer=True
    )

    async def delegate() -> str:
        """Delegate."""
        return str((await inner.ainvoke(say("x")))["messages"][-1].text)

    agent = create_agent(Paired([call("delegate"), "ok"]), [delegate], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    asked = only(await agent.ainvoke(decide("approve", by="bob"), thread()))
    assert "is for cfo to decide, not for bob" in asked.value["action_requests"][0]["description"] and ran == []
    result = await agent.ainvoke(decide("approve", by="cfo"), thread())
    assert ran == [1] and texts(result)[-2:] == [("tool", "inner is done"), ("ai", "ok")]


async def test_an_agent_whose_tool_hides_arguments_is_not_invoked_where_they_would_be_shown() -> None:
    @function_tool(needs_approval=True, redact=["card"])
    def charge(card: str) -> str:
        """Charge a card."""
        return "charged"

    inner_model = Paired([call("charge", {"card": "4111"}), "done"])
    inner = create_agent(inner_model, [charge], name="inner")

    async def delegate() -> Any:
        """Delegate."""
        return (await inner.ainvoke(say("go")))["messages"][-1].content

    agent = create_agent(Paired([call("delegate"), "ok"]), [delegate], checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match=r"'charge' hides card.* agent\.as_tool\(\)"):
        await agent.ainvoke(say("go"), thread())
    assert not inner_model.requests
