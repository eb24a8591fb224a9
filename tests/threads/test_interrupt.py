"""`interrupt` asks from inside a tool or a middleware: the answer comes back there, and nothing is asked twice."""

import contextlib
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import AlreadyDecided, InvalidDecision, ToolContext, UsageError
from assentry.errors import ThreadWaiting
from assentry.testing import call
from assentry.threads import (
    AIMessage,
    Command,
    InMemorySaver,
    SqliteSaver,
    after_model,
    before_model,
    create_agent,
    interrupt,
    wrap_model_call,
    wrap_tool_call,
)
from tests.threads.support import Paired, decide, office, only, requests, say, texts, thread


def asking(*steps: Any, **options: Any) -> tuple[Any, list[str]]:
    """An agent with a tool that asks twice, and how often its body was entered."""
    entered: list[str] = []

    def book(city: str) -> str:
        """Book a room."""
        entered.append(city)
        beds = interrupt({"question": f"How many beds in {city}?"})
        name = interrupt("Under which name?")
        return f"{beds} beds for {name}"

    options = {"checkpointer": InMemorySaver(), **options}
    return create_agent(Paired(steps), [book], **options), entered


def test_a_tool_may_ask_several_times() -> None:
    agent, entered = asking(call("book", {"city": "Ghent"}), "Booked.")
    first = only(agent.invoke(say("book"), thread()))
    assert first.value == {"question": "How many beds in Ghent?"} and len(first.id) == 32
    assert agent.get_state(thread()).next == ("tools",)
    second = only(agent.invoke(Command(resume=2), thread()))
    assert second.value == "Under which name?" and second.id != first.id
    result = agent.invoke(Command(resume={second.id: "Ann"}), thread())
    assert texts(result)[2:] == [("tool", "2 beds for Ann"), ("ai", "Booked.")]
    assert len(entered) == 3, "from the top for each answer"


class Room(BaseModel):
    beds: int
    name: str = "Ann"


async def test_whoever_asks_may_say_what_an_answer_looks_like() -> None:
    def book() -> str:
        """Book a room."""
        return repr(interrupt("Which room?", response_schema=Room))

    @before_model
    def confirm(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) == 1:
            sure = interrupt("Sure?", response_schema={"type": "boolean"})
            return {"messages": [{"role": "system", "content": f"Sure: {sure}."}]}
        return None

    agent = create_agent(Paired([call("book"), "ok"]), [book], middleware=[confirm], checkpointer=InMemorySaver())
    assert only(await agent.ainvoke(say("go"), thread())).response_schema == {"type": "boolean"}
    with pytest.raises(InvalidDecision, match="does not fit what was asked"):
        await agent.ainvoke(Command(resume="yes"), thread())
    asked = only(await agent.ainvoke(Command(resume=True), thread()))
    assert asked.response_schema == {**Room.model_json_schema(), "additionalProperties": False}
    assert asked.value == "Which room?"
    with pytest.raises(InvalidDecision, match='"beds": is missing'):
        await agent.ainvoke(Command(resume={"name": "Eve"}), thread())
    result = await agent.ainvoke(Command(resume={"beds": 2}), thread())
    assert texts(result)[1:] == [
        ("system", "Sure: True."),
        ("ai", ""),
        ("tool", "Room(beds=2, name='Ann')"),
        ("ai", "ok"),
    ]


async def test_an_async_tool_may_ask() -> None:
    async def confirm() -> str:
        """Confirm."""
        return f"said {interrupt('Sure?')}"

    agent = create_agent(Paired([call("confirm"), "ok"]), [confirm], checkpointer=InMemorySaver())
    assert only(await agent.ainvoke(say("go"), thread())).value == "Sure?"
    assert texts(await agent.ainvoke(Command(resume={"yes": True}), thread()))[2] == ("tool", "said {'yes': True}")


async def test_an_answer_is_json() -> None:
    agent, _ = asking(call("book", {"city": "Ghent"}))
    waiting = only(await agent.ainvoke(say("book"), thread()))
    for answer in (object(), {1: 2}, float("nan"), "\ud800"):
        with pytest.raises(InvalidDecision):
            await agent.ainvoke(Command(resume=answer), thread())
    with pytest.raises(InvalidDecision, match="answers nothing"):
        await agent.ainvoke(Command(resume=None), thread())
    assert only(await agent.ainvoke(None, thread())) == waiting
    assert only(await agent.ainvoke(Command(resume={waiting.id: None}), thread())).value == "Under which name?"


async def test_a_dict_whose_keys_look_like_ids_is_a_map_of_ids() -> None:
    agent, _ = asking(call("book", {"city": "Ghent"}), "ok")
    first = only(await agent.ainvoke(say("book"), thread()))
    second = only(await agent.ainvoke(Command(resume={first.id: {"a": 1}}), thread()))
    await agent.ainvoke(Command(resume={second.id[:-1]: "not an id, so an answer"}), thread())
    assert "not an id" in agent.get_state(thread()).values["messages"][2].content


async def test_a_question_may_be_set_aside_by_a_new_message() -> None:
    agent, _ = asking(call("book", {"city": "Ghent"}), "Another time.")
    await agent.ainvoke(say("book"), thread())
    with pytest.raises(ThreadWaiting, match="waits for an answer to book"):
        await agent.ainvoke(say("stop"), thread())
    result = await agent.ainvoke(say("stop"), thread(), on_pending="reject")
    assert [kind for kind, _ in texts(result)] == ["human", "ai", "tool", "human", "ai"]
    assert result["messages"][2].status == "error"


def test_there_is_nobody_to_ask_outside_of_a_run() -> None:
    with pytest.raises(UsageError, match="inside a tool or a middleware"):
        interrupt("Hello?")


async def test_there_is_nobody_to_ask_without_a_checkpointer() -> None:
    agent, _ = asking(call("book", {"city": "Ghent"}), checkpointer=None)
    with pytest.raises(UsageError, match="checkpointer"):
        await agent.ainvoke(say("book"))


async def test_ctx_ask_and_interrupt_are_one() -> None:
    async def both(ctx: ToolContext[Any]) -> str:
        """Ask in two ways."""
        return f"{await ctx.ask('one')} {interrupt('two')}"

    agent = create_agent(Paired([call("both"), "ok"]), [both], checkpointer=InMemorySaver())
    assert only(await agent.ainvoke(say("go"), thread())).value == "one"
    assert only(await agent.ainvoke(Command(resume=1), thread())).value == "two"
    assert texts(await agent.ainvoke(Command(resume=2), thread()))[2] == ("tool", "1 2")


# -- in middleware --------------------------------------------------------------------------------------


async def test_a_hook_before_the_model_may_ask_and_the_model_is_asked_once() -> None:
    runs: list[int] = []

    @before_model
    def check(state: Any, runtime: Any) -> Any:
        runs.append(1)
        if len(state["messages"]) > 1:
            return None
        name = interrupt("Who are you?")
        city = interrupt({"where": name})
        return {"messages": [{"role": "user", "content": f"I am {name} of {city}."}]}

    agent, _ = office("Hello.", "Again.", middleware=[check])
    first = only(await agent.ainvoke(say("hi"), thread()))
    assert (first.value, requests(agent)) == ("Who are you?", [])
    assert agent.get_state(thread()).next == ("model",)
    assert texts(agent.get_state(thread()).values) == [("human", "hi")]
    second = only(await agent.ainvoke(Command(resume="Ann"), thread()))
    assert second.value == {"where": "Ann"}
    result = await agent.ainvoke(Command(resume="Ghent"), thread())
    assert texts(result) == [("human", "hi"), ("human", "I am Ann of Ghent."), ("ai", "Hello.")]
    assert len(requests(agent)) == 1 and len(runs) == 3
    assert texts(await agent.ainvoke(say("and?"), thread()))[-1] == ("ai", "Again.")


async def test_a_hook_after_the_model_may_ask_and_the_model_is_not_asked_again(tmp_path: Any) -> None:
    @after_model
    async def review(state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        answer = interrupt({"draft": last.content})
        return {"messages": [AIMessage(answer, id=last.id)]} if answer != "ok" else None

    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office("A draft.", middleware=[review], checkpointer=saver)
        waiting = only(await agent.ainvoke(say("write"), thread()))
        assert waiting.value == {"draft": "A draft."}
        again, _ = office(middleware=[review], checkpointer=saver)  # as another process would have it
        assert only(await again.ainvoke(None, thread())) == waiting
        result = await again.ainvoke(Command(resume="A better text.", by="ann"), thread())
        assert texts(result) == [("human", "write"), ("ai", "A better text.")]
        assert requests(again) == [], "the reply was kept with the question"
        assert result["messages"][-1].usage_metadata["total_tokens"] == 15


async def test_a_hook_that_asks_about_a_call_is_answered_before_the_gate_asks() -> None:
    @wrap_model_call
    def look(request: Any, handler: Any) -> Any:
        response = handler(request)
        for each in response.result[0].tool_calls:
            each["args"]["query"] = interrupt(each["args"]["query"])
        return response

    agent, ran = office(call("execute_sql", {"query": "a"}), "ok", middleware=[look])
    assert only(await agent.ainvoke(say("go"), thread())).value == "a"
    request = only(await agent.ainvoke(Command(resume="b"), thread())).value
    assert request["action_requests"][0]["args"] == {"query": "b"}
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "b")] and len(requests(agent)) == 2


async def test_a_hook_that_asks_something_else_is_asked_anew(caplog: pytest.LogCaptureFixture) -> None:
    values = iter(["one", "two", "one", "one"])
    answers: list[Any] = []

    @before_model
    def fickle(state: Any, runtime: Any) -> None:
        answers.append(interrupt(next(values)))

    agent, _ = office("Hello.", middleware=[fickle])
    one = only(await agent.ainvoke(say("hi"), thread()))
    two = only(await agent.ainvoke(Command(resume=1), thread()))
    assert (two.value, answers, requests(agent)) == ("two", [], [])
    again = only(await agent.ainvoke(Command(resume=2), thread()))
    assert (again.value, answers) == ("one", []), "what was answered first counts for nothing, either"
    with pytest.raises(AlreadyDecided):
        await agent.ainvoke(Command(resume={one.id: 1}), thread())
    assert texts(await agent.ainvoke(Command(resume=3), thread())) == [("human", "hi"), ("ai", "Hello.")]
    assert answers == [3] and len([each for each in caplog.records if "must ask the same" in each.message]) == 2
    question = await agent.store.question(f"q_{two.id}")
    assert question.replaces == f"q_{one.id}" and "counts for nothing" in question.reason


async def test_a_hook_that_asks_something_else_keeps_the_replies_and_the_answers_before() -> None:
    asks = iter([["a"], ["a", "b"], ["a", "c"], ["a", "c"]])
    seen: list[Any] = []

    @wrap_model_call
    def fickle(request: Any, handler: Any) -> Any:
        first, *rest = next(asks)
        interrupt(first)
        response = handler(request)
        seen.append([interrupt(each) for each in rest])
        return response

    agent, _ = office("Hello.", middleware=[fickle])
    assert only(await agent.ainvoke(say("hi"), thread())).value == "a"
    assert only(await agent.ainvoke(Command(resume=1), thread())).value == "b"
    assert only(await agent.ainvoke(Command(resume=2), thread())).value == "c"
    assert texts(await agent.ainvoke(Command(resume=3), thread()))[-1] == ("ai", "Hello.")
    assert seen == [[3]] and len(requests(agent)) == 1


async def test_a_hook_whose_first_question_changes_is_asked_all_of_them_again(tmp_path: Any) -> None:
    first = "a"
    seen: list[Any] = []

    @before_model
    def changing(state: Any, runtime: Any) -> None:
        seen.append((interrupt(first), interrupt("b")))

    async def answered(agent: Any, *answers: Any) -> Any:
        for answer in answers:
            result = await agent.ainvoke(Command(resume=answer), thread())
        return result

    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office(middleware=[changing], checkpointer=saver)
        await agent.ainvoke(say("hi"), thread())
        assert only(await answered(agent, 1)).value == "b"
        first = "A"  # as new code would
        agent, _ = office("Hello.", middleware=[changing], checkpointer=saver)
        assert only(await answered(agent, 2)).value == "A"
        assert only(await answered(agent, 3)).value == "b"
        assert texts(await answered(agent, 4))[-1] == ("ai", "Hello.") and seen == [(3, 4)]


async def test_a_tool_that_asks_something_else_is_asked_anew_and_can_be_left() -> None:
    refs = iter(range(9))
    got: list[Any] = []

    def refer() -> str:
        """Ask with a reference that is never the same."""
        got.append(interrupt({"ref": next(refs)}))
        return "done"

    agent = create_agent(Paired([call("refer"), "Never mind."]), [refer], checkpointer=InMemorySaver())
    shown = [only(await agent.ainvoke(given, thread())) for given in (say("go"), *[Command(resume="yes")] * 3)]
    assert [each.value["ref"] for each in shown] == [0, 1, 2, 3] and len({each.id for each in shown}) == 4
    result = await agent.ainvoke(say("stop"), thread(), on_pending="reject")
    assert texts(result)[-1] == ("ai", "Never mind.") and got == []


async def test_a_result_that_somebody_looks_at_first_is_kept_though_the_question_changes() -> None:
    refs = iter(range(9))

    @wrap_tool_call
    def look(request: Any, handler: Any) -> Any:
        result = handler(request)
        interrupt({"ref": min(next(refs), 1), "shows": result.content})
        return result

    agent, ran = office(call("read_data"), "ok", middleware=[look])
    assert only(await agent.ainvoke(say("go"), thread())).value["ref"] == 0
    assert only(await agent.ainvoke(Command(resume="yes"), thread())).value["ref"] == 1
    assert texts(await agent.ainvoke(Command(resume="yes"), thread()))[2] == ("tool", "rows of records")
    assert ran == [("read_data", "records")]


async def test_an_approval_of_what_middleware_made_of_a_call_is_not_one_of_something_else() -> None:
    queries = iter(["b", "c", "c"])

    @wrap_tool_call
    def fickle(request: Any, handler: Any) -> Any:
        request.tool_call["args"] = {"query": next(queries)}
        return handler(request)

    agent, ran = office(call("execute_sql", {"query": "a"}), "ok", middleware=[fickle])
    for shown in "abc":
        waiting = await agent.ainvoke(say("go") if shown == "a" else decide("approve"), thread())
        assert only(waiting).value["action_requests"][0]["args"] == {"query": shown} and ran == []
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "c")]


async def test_a_hook_that_swallows_the_pause_waits_all_the_same() -> None:
    @before_model
    def greedy(state: Any, runtime: Any) -> None:
        with contextlib.suppress(BaseException):
            interrupt("Well?")

    agent, _ = office("Hello.", middleware=[greedy])
    assert only(await agent.ainvoke(say("hi"), thread())).value == "Well?"
    assert texts(await agent.ainvoke(Command(resume=1), thread()))[-1] == ("ai", "Hello.")


async def test_what_a_hook_asks_cannot_be_rejected() -> None:
    @before_model
    def check(state: Any, runtime: Any) -> None:
        interrupt("Well?")

    agent, _ = office("Hello.", middleware=[check])
    await agent.ainvoke(say("hi"), thread())
    with pytest.raises(ThreadWaiting, match="only be answered"):
        await agent.ainvoke(say("no"), thread(), on_pending="reject")
    result = await agent.ainvoke(say("more"), thread(), on_pending="keep")
    assert only(result).value == "Well?"
    result = await agent.ainvoke(Command(resume=1), thread())
    assert texts(result) == [("human", "hi"), ("ai", "Hello."), ("human", "more")]
    assert only(result).value == "Well?", "it is asked anew about what was said since"


async def test_middleware_around_a_tool_may_ask() -> None:
    @wrap_tool_call
    def confirm(request: Any, handler: Any) -> Any:
        if interrupt(f"Run {request.tool_call['name']}?") is not True:
            return request.runtime and _refused(request)
        return handler(request)

    for answer, expected in ((True, [("read_data", "records")]), (False, [])):
        agent, ran = office(call("read_data"), "ok", middleware=[confirm])
        assert only(await agent.ainvoke(say("go"), thread())).value == "Run read_data?"
        result = await agent.ainvoke(Command(resume=answer), thread())
        assert ran == expected
        assert result["messages"][2].status == ("success" if answer else "error")


def _refused(request: Any) -> Any:
    from assentry.threads import ToolMessage

    return ToolMessage("Not now.", tool_call_id=request.tool_call["id"], status="error")


async def test_what_is_asked_has_its_keys_in_their_order_and_is_the_same_in_another() -> None:
    order = ["to", "amount", "because"]

    def pay() -> str:
        """Pay."""
        return str(interrupt(dict.fromkeys(order, 1)))

    agent = create_agent(Paired([call("pay"), "ok"]), [pay], checkpointer=InMemorySaver())
    assert list(only(await agent.ainvoke(say("go"), thread())).value) == ["to", "amount", "because"]
    order.reverse()
    result = await agent.ainvoke(Command(resume="yes"), thread())
    assert texts(result)[2] == ("tool", "yes")
