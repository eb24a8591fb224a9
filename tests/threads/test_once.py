"""Bodies run once, whatever the code around them does; and nothing that it changes is passed over in silence."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import Any

import pytest

from assentry import MaxTurnsExceeded, ToolContext, function_tool
from assentry.errors import InvalidArguments, InvalidInput, ReplayMismatch, UsageError
from assentry.testing import call
from assentry.threads import (
    AIMessage,
    Command,
    HumanMessage,
    InMemorySaver,
    ModelResponse,
    SystemMessage,
    ToolMessage,
    after_model,
    before_model,
    create_agent,
    interrupt,
    wrap_model_call,
    wrap_tool_call,
)

from .support import Paired, Ran, decide, office, only, requests, say, texts, thread

# -- asking around a body ----------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [False, True])
async def test_a_body_that_has_run_is_not_run_again_when_the_code_around_it_asks(changed: bool) -> None:
    @wrap_tool_call
    def review(request: Any, handler: Any) -> Any:
        if changed:
            request.tool_call["args"]["table"] = "others"
        result = handler(request)
        again = interrupt({"fine": result.content})
        return result if again == "yes" else ToolMessage("held back", tool_call_id=request.tool_call["id"])

    table = "others" if changed else "records"
    for answer, output in (("yes", f"rows of {table}"), ("no", "held back")):
        agent, ran = office(call("read_data"), "ok", middleware=[review])
        asked = only(await agent.ainvoke(say("go"), thread()))
        assert asked.value == {"fine": f"rows of {table}"}
        result = await agent.ainvoke(Command(resume=answer), thread())
        assert ran == [("read_data", table)]
        assert texts(result)[2] == ("tool", output)


async def test_a_changed_call_that_was_approved_and_has_run_is_neither_asked_about_nor_run_again() -> None:
    @wrap_tool_call
    async def reroute(request: Any, handler: Any) -> Any:
        other = {**request.tool_call, "name": "write_file", "args": {"path": "b"}}
        result = await handler(request.override(tool_call=other))
        return ToolMessage(f"{result.content}, {interrupt('And?')}", tool_call_id=request.tool_call["id"])

    agent, ran = office(call("read_data"), "ok", middleware=[reroute])
    assert "action_requests" in only(await agent.ainvoke(say("go"), thread())).value
    assert only(await agent.ainvoke(decide("approve"), thread())).value == "And?"
    result = await agent.ainvoke(Command(resume="fine"), thread())
    assert ran == [("write_file", "b", "")]
    assert texts(result)[2] == ("tool", "wrote b, fine")


async def test_a_body_that_failed_is_not_run_again_when_the_code_around_it_asks() -> None:
    ran: list[str] = []

    def pay() -> str:
        """Pay."""
        ran.append("pay")
        raise ValueError("the line went dead")

    @wrap_tool_call
    def retry(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception as error:
            interrupt("Again?")
            return ToolMessage(f"Given up: {error}", tool_call_id=request.tool_call["id"])

    agent = create_agent(Paired([call("pay"), "ok"]), [pay], middleware=[retry], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(Command(resume="no"), thread())
    assert ran == ["pay"]
    assert texts(result)[2] == ("tool", "Given up: ValueError: the line went dead")


async def test_the_model_is_told_of_a_body_that_failed_before_the_code_around_it_asked() -> None:
    ran: list[str] = []

    def pay() -> str:
        """Pay."""
        ran.append("pay")
        raise ValueError("the line went dead")

    @wrap_tool_call
    def ask_first(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception:
            interrupt("Shall the model know?")
            raise

    agent = create_agent(Paired([call("pay"), "ok"]), [pay], middleware=[ask_first], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(Command(resume="yes"), thread())
    assert ran == ["pay"] and result["messages"][2].status == "error"
    assert texts(result)[2:] == [("tool", "ValueError: the line went dead"), ("ai", "ok")]


async def test_questions_of_a_body_and_of_the_code_around_it_keep_their_order() -> None:
    entered: list[Any] = []

    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        entered.append(1)
        await ctx.step("look", lambda: 1)
        return f"{interrupt('Beds?')} beds"

    @wrap_tool_call
    async def review(request: Any, handler: Any) -> Any:
        result = await handler(request)
        return ToolMessage(f"{result.content}, {interrupt('Fine?')}", tool_call_id=request.tool_call["id"])

    agent = create_agent(Paired([call("book"), "ok"]), [book], middleware=[review], checkpointer=InMemorySaver())
    assert only(await agent.ainvoke(say("go"), thread())).value == "Beds?"
    assert only(await agent.ainvoke(Command(resume=2), thread())).value == "Fine?"
    result = await agent.ainvoke(Command(resume="yes"), thread())
    assert texts(result)[2] == ("tool", "2 beds, yes")
    assert len(entered) == 2


@pytest.mark.parametrize("swallowed", [False, True])
async def test_a_body_that_hides_that_it_asks_is_entered_again(swallowed: bool) -> None:
    def book() -> str:
        """Book a room."""
        try:
            return f"{interrupt('Beds?')} beds"
        except BaseException:
            if swallowed:
                return "no beds"
            raise ValueError("no answer") from None

    @wrap_tool_call
    def log(request: Any, handler: Any) -> Any:
        return handler(request)

    agent = create_agent(Paired([call("book"), "ok"]), [book], middleware=[log], checkpointer=InMemorySaver())
    assert only(await agent.ainvoke(say("go"), thread())).value == "Beds?"
    result = await agent.ainvoke(Command(resume=2), thread())
    assert texts(result)[2] == ("tool", "2 beds")


async def test_whoever_asks_and_goes_on_without_the_answer_runs_nothing() -> None:
    @wrap_tool_call
    def careless(request: Any, handler: Any) -> Any:
        with suppress(BaseException):
            interrupt("May I?")
        return handler(request)

    agent, ran = office(call("read_data"), "ok", middleware=[careless])
    assert only(await agent.ainvoke(say("go"), thread())).value == "May I?"
    assert ran == []
    await agent.ainvoke(Command(resume="yes"), thread())
    assert ran == [("read_data", "records")]


async def test_a_body_whose_own_error_looks_like_ours_has_run() -> None:
    ran: list[str] = []

    def pay() -> str:
        """Pay."""
        ran.append("pay")
        raise InvalidArguments("from somewhere inside")

    @wrap_tool_call
    def twice(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception:
            return handler(request)

    agent = create_agent(Paired([call("pay"), "ok"]), [pay], middleware=[twice], checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="not idempotent"):
        await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(None, thread())
    assert ran == ["pay"]
    assert texts(result)[2][1] == "The tool failed with InvalidArguments: from somewhere inside"


async def test_a_call_is_not_re_routed_to_a_tool_that_is_disabled() -> None:
    ran: list[str] = []

    @function_tool(is_enabled=False)
    def wipe() -> str:
        ran.append("wipe")
        return "wiped"

    @function_tool
    def look() -> str:
        return "seen"

    @wrap_tool_call
    async def reroute(request: Any, handler: Any) -> Any:
        return await handler(request.override(tool_call={**request.tool_call, "name": "wipe"}))

    agent = create_agent(Paired([call("look"), "ok"]), [wipe, look], middleware=[reroute], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("go"), thread())
    assert ran == []
    assert "no tool named 'wipe'" in texts(result)[2][1]


async def test_a_handler_that_a_hook_leaves_behind_is_stopped() -> None:
    stopped = asyncio.Event()

    @function_tool
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    @wrap_tool_call
    async def hasty(request: Any, handler: Any) -> Any:
        left = asyncio.ensure_future(handler(request))
        await asyncio.sleep(0)
        return ToolMessage(f"Not waiting: {left.done()}", tool_call_id=request.tool_call["id"])

    agent = create_agent(Paired([call("slow"), "ok"]), [slow], middleware=[hasty], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("go"), thread())
    assert texts(result)[2] == ("tool", "Not waiting: False")
    assert stopped.is_set()


# -- what hooks give and change ----------------------------------------------------------------------


async def test_one_message_object_can_be_added_to_every_turn() -> None:
    brief = SystemMessage("Be brief.")

    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        return {"messages": [brief]}

    agent, _ = office(call("read_data"), "ok", middleware=[remind])
    result = await agent.ainvoke(say("go"), thread())
    assert [text for kind, text in texts(result) if kind == "system"] == ["Be brief.", "Be brief."]
    assert brief.id is None


async def test_a_message_that_is_changed_in_place_is_heard_as_it_was_changed() -> None:
    @wrap_model_call
    def redact(request: Any, handler: Any) -> Any:
        request.messages[0].content = "[removed]"
        return handler(request)

    agent, _ = office("ok", middleware=[redact])
    result = await agent.ainvoke(say("a secret"), thread())
    assert [item["content"] for item in requests(agent)[0].input] == ["[removed]"]
    assert texts(result)[0] == ("human", "a secret")


@pytest.mark.parametrize("settings", [{"temprature": 1}, 3])
async def test_settings_that_there_are_not_are_refused(settings: Any) -> None:
    @wrap_model_call
    def set_(request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings=settings))

    agent, _ = office("ok", middleware=[set_])
    with pytest.raises(UsageError, match="model_settings are those of ModelSettings"):
        await agent.ainvoke(say("go"), thread())


async def test_calls_of_several_replies_have_their_outputs_right_after_them() -> None:
    @wrap_model_call
    async def twice(request: Any, handler: Any) -> Any:
        if len(request.messages) > 1:
            return await handler(request)
        calls = [{"name": "read_data", "args": {"table": name}, "id": name} for name in "ab"]
        return ModelResponse([AIMessage(tool_calls=calls[:1]), HumanMessage("Hm."), AIMessage(tool_calls=calls[1:])])

    agent, ran = office("ok", middleware=[twice])
    result = await agent.ainvoke(say("go"), thread())
    assert ran == [("read_data", "a"), ("read_data", "b")]
    assert texts(result)[-1] == ("ai", "ok")


async def test_an_output_before_its_call_is_refused() -> None:
    @after_model
    def turn_round(state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        [made] = last.tool_calls
        messages = [ToolMessage("x", tool_call_id=made["id"], id=last.id), AIMessage(tool_calls=[made])]
        return {"messages": messages, "jump_to": "end"}

    agent, _ = office(call("read_data"), middleware=[turn_round])
    with pytest.raises(InvalidInput, match="no call before it"):
        await agent.ainvoke(say("go"), thread())


@pytest.mark.parametrize("jump", [{}, {"jump_to": "tools"}])
async def test_a_model_all_of_whose_calls_were_answered_hears_the_answers(jump: dict[str, str]) -> None:
    @after_model
    def answer(state: Any, runtime: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage("Not now.", tool_call_id=calls[0]["id"])], **jump} if calls else None

    agent, ran = office(call("read_data"), "Later, then.", middleware=[answer])
    result = await agent.ainvoke(say("go"), thread())
    assert texts(result) == [("human", "go"), ("ai", ""), ("tool", "Not now."), ("ai", "Later, then.")]
    assert ran == []


async def test_two_calls_of_one_id_are_refused() -> None:
    @after_model
    def double(state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        other = {**last.tool_calls[0], "name": "execute_sql", "args": {"query": "DROP"}}
        return {"messages": [AIMessage(tool_calls=[*last.tool_calls, other], id=last.id)]}

    agent, ran = office(call("read_data"), middleware=[double])
    with pytest.raises(InvalidInput, match="the same id"):
        await agent.ainvoke(say("go"), thread())
    assert ran == []


# -- what is said to a thread ------------------------------------------------------------------------


async def test_keys_of_the_input_that_there_are_not_are_refused() -> None:
    agent, _ = office("ok")
    with pytest.raises(InvalidInput, match="there is no 'files'"):
        await agent.ainvoke({**say("go"), "files": {}}, thread())


async def test_what_is_no_message_is_refused() -> None:
    agent, _ = office("ok")
    with pytest.raises(InvalidInput, match="Messages are a list"):
        await agent.ainvoke({"messages": 3}, thread())


async def test_a_thread_cannot_go_back() -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match="checkpoint_id"):
        await agent.ainvoke(say("go"), {"configurable": {"thread_id": "t", "checkpoint_id": "1"}})


@pytest.mark.parametrize("limit", ["2", 0, True])
async def test_a_limit_that_is_none_is_refused_before_anything_is_said(limit: Any) -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}))
    await agent.ainvoke(say("go"), thread())
    with pytest.raises(UsageError, match="recursion_limit"):
        await agent.ainvoke(say("more"), {**thread(), "recursion_limit": limit}, on_pending="keep")
    assert texts((await agent.aget_state(thread())).values) == [("human", "go"), ("ai", "")]


async def test_a_thread_whose_turns_are_used_up_says_what_to_do_and_that_works() -> None:
    agent, _ = office(*[call("read_data")] * 3, "Rows.", "Hello.")
    short = {**thread(), "recursion_limit": 1}
    with pytest.raises(MaxTurnsExceeded, match="recursion_limit"):
        await agent.ainvoke(say("go"), short)
    with pytest.raises(MaxTurnsExceeded, match="recursion_limit"):
        await agent.ainvoke(None, thread())
    with pytest.raises(MaxTurnsExceeded, match="recursion_limit"):
        _ = [chunk async for chunk in agent.astream(None, {**thread(), "recursion_limit": 2})]
    result = await agent.ainvoke(None, {**thread(), "recursion_limit": 9})
    assert texts(result)[-1] == ("ai", "Rows.")
    assert texts(await agent.ainvoke(say("hi"), thread()))[-1] == ("ai", "Hello.")


async def test_a_run_without_a_thread_whose_turns_are_used_up_is_not_told_to_go_on() -> None:
    agent = create_agent(Paired([call("read_data")]), Ran().tools(), max_turns=1)
    with pytest.raises(MaxTurnsExceeded, match="max_turns") as stopped:
        await agent.ainvoke(say("go"))
    assert "invoke(None" not in str(stopped.value)


async def test_whoever_stops_at_the_first_state_stops_the_run() -> None:
    agent, ran = office(call("read_data"), "ok")
    chunks = agent.astream(say("go"), thread(), stream_mode="values")
    await anext(chunks)
    await chunks.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert ran == Ran()
    assert (await agent.aget_state(thread())).next == ("model",)
    assert texts(await agent.ainvoke(None, thread()))[-1] == ("ai", "ok")


async def test_a_body_that_ran_is_not_run_again_with_other_arguments() -> None:
    numbers = itertools.count(1)

    @wrap_tool_call
    async def stamped(request: Any, handler: Any) -> Any:
        request.tool_call["args"]["path"] = f"file {next(numbers)}"
        given = await handler(request)
        interrupt("keep it?")
        return given

    agent, ran = office(call("write_file", {"path": "x"}), "ok", policy={"execute_sql": True}, middleware=[stamped])
    await agent.ainvoke(say("go"), thread())
    with pytest.raises(ReplayMismatch, match="would run it again with other arguments"):
        await agent.ainvoke(Command(resume="yes"), thread())
    assert len(ran) == 1
    assert only(await agent.ainvoke(None, thread())).value["action_requests"][0]["name"] == "write_file"  # in doubt
    await agent.ainvoke(decide("reject"), thread())
    assert len(ran) == 1
