"""A thread is a conversation: runs one after another, and no history with a call that has no result."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from assentry import InvalidInput, MaxTurnsExceeded, RunConfig, Runner, UsageError
from assentry.errors import InvalidOutput, Overtaken, RunBusy, ThreadWaiting
from assentry.runtime.drive import RunPlace, drive_run
from assentry.runtime.runner import prepare
from assentry.store import MemoryStore
from assentry.testing import call
from assentry.threads import AIMessage, HumanMessage, InMemorySaver, SystemMessage, ToolMessage, create_agent
from tests.runtime.support import named
from tests.threads.support import Paired, decide, journal, office, only, requests, say, texts, thread


async def test_what_was_said_before_is_heard_again_and_is_not_stored_again() -> None:
    agent, _ = office("One.", call("read_data"), "Two.", "Three.")
    for text in ("a", "b", "c"):
        result = await agent.ainvoke(say(text), thread())
    assert [text for _, text in texts(result)] == ["a", "One.", "b", "", "rows of records", "Two.", "c", "Three."]
    assert len(requests(agent)[-1].input) == 7
    assert agent.store is not None
    runs = (await agent.store.runs(thread="t")).items
    assert [each.id for each in runs] == ["t:1", "t:2", "t:3"]
    said = [fact for run in runs for fact in (await agent.store.read(run.id)).facts if type(fact).__name__ == "Said"]
    assert len(said) == 3


async def test_threads_do_not_hear_each_other() -> None:
    agent, _ = office("a", "b")
    await agent.ainvoke(say("secret"), thread("one"))
    assert texts(await agent.ainvoke(say("hello"), thread("two"))) == [("human", "hello"), ("ai", "b")]


async def test_a_new_message_on_a_waiting_thread_is_refused_and_says_what_it_waits_for() -> None:
    agent, ran = office([call("execute_sql", {"query": "a"}), call("write_file", {"path": "b"})], "done")
    await agent.ainvoke(say("go"), thread())
    before = await journal(agent)
    with pytest.raises(ThreadWaiting, match=r"waits for a decision on execute_sql, write_file\. Answer with Command"):
        await agent.ainvoke(say("hello?"), thread())
    assert await journal(agent) == before
    await agent.ainvoke(decide("approve", "approve"), thread())
    assert len(ran) == 2


async def test_a_new_message_may_reject_what_waits() -> None:
    agent, ran = office(call("execute_sql", {"query": "a"}), "All right, the weather.")
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(say("No: how is the weather?"), thread(), on_pending="reject")
    assert ran == []
    assert [kind for kind, _ in texts(result)] == ["human", "ai", "tool", "human", "ai"]
    assert result["messages"][2].status == "error"
    assert [item.get("type", item.get("role")) for item in requests(agent)[1].input] == [
        "user",
        "function_call",
        "function_call_output",
        "user",
    ]


async def test_a_new_message_may_let_the_question_wait_and_is_heard_after_it() -> None:
    agent, ran = office(call("execute_sql", {"query": "a"}), "Done, and hello.")
    waiting = only(await agent.ainvoke(say("go"), thread()))
    result = await agent.ainvoke(say("Are you there?"), thread(), on_pending="keep")
    assert only(result) == waiting
    assert texts(result)[-1] == ("human", "Are you there?")
    result = await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "a")]
    assert [item.get("type", item.get("role")) for item in requests(agent)[1].input] == [
        "user",
        "function_call",
        "function_call_output",
        "user",
    ]
    assert texts(result)[-1] == ("ai", "Done, and hello.")


async def test_what_cannot_be_rejected_is_not_rejected_by_a_new_message() -> None:
    agent, _ = office(call("write_file", {"path": "a"}), policy={"write_file": {"allowed_decisions": ["approve"]}})
    waiting = only(await agent.ainvoke(say("go"), thread()))
    with pytest.raises(ThreadWaiting, match="write_file can only be answered, not rejected"):
        await agent.ainvoke(say("no"), thread(), on_pending="reject")
    assert only(await agent.ainvoke(None, thread())) == waiting


async def test_other_words_for_on_pending_are_refused() -> None:
    agent, _ = office("a")
    with pytest.raises(UsageError, match="on_pending"):
        await agent.ainvoke(say("a"), thread(), on_pending="drop")  # type: ignore[arg-type]


async def test_a_run_that_a_model_broke_off_goes_on() -> None:
    agent, ran = office(call("read_data"), RuntimeError("no network"), "Here they are.", "And hello.")
    with pytest.raises(RuntimeError, match="no network"):
        await agent.ainvoke(say("read"), thread())
    assert agent.get_state(thread()).next == ("model",)
    result = await agent.ainvoke(None, thread())
    assert texts(result)[-1] == ("ai", "Here they are.")
    assert ran == [("read_data", "records")], "what was done is not done again"


async def test_a_new_message_after_a_broken_model_is_said_in_the_same_run() -> None:
    agent, _ = office(RuntimeError("no network"), "Here I am.")
    with pytest.raises(RuntimeError):
        await agent.ainvoke(say("one"), thread())
    result = await agent.ainvoke(say("two"), thread())
    assert texts(result) == [("human", "one"), ("human", "two"), ("ai", "Here I am.")]


async def test_two_messages_at_once_are_not_both_begun() -> None:
    store = MemoryStore()
    agent, _ = office("a", "b", checkpointer=store)
    newest = store.newest
    seen = asyncio.Barrier(2)

    async def together(thread: str) -> Any:
        found = await newest(thread)
        await seen.wait()
        return found

    store.newest = together  # type: ignore[method-assign]
    results = await asyncio.gather(
        agent.ainvoke(say("one"), thread()), agent.ainvoke(say("two"), thread()), return_exceptions=True
    )
    [lost] = [each for each in results if isinstance(each, BaseException)]
    assert isinstance(lost, Overtaken) and "send it again" in str(lost)
    [won] = [each for each in results if isinstance(each, dict)]
    assert len(won["messages"]) == 2


async def test_a_message_on_a_thread_that_is_worked_on_is_refused() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take time."""
        begun.set()
        await go.wait()
        return "done"

    agent = create_agent(Paired([call("slow"), "ok"]), [slow], checkpointer=InMemorySaver())
    first = asyncio.create_task(agent.ainvoke(say("go"), thread()))
    await begun.wait()
    with pytest.raises(RunBusy, match="being worked on"):
        await agent.ainvoke(say("hello?"), thread())
    with pytest.raises(RunBusy, match="driven by somebody else"):
        await agent.ainvoke(None, thread())
    go.set()
    assert texts(await first)[-1] == ("ai", "ok")


async def test_the_limit_of_turns_is_kept_and_can_be_raised() -> None:
    agent, _ = office(call("read_data"), call("read_data"), "done", "new")
    with pytest.raises(MaxTurnsExceeded):
        await agent.ainvoke(say("go"), {**thread(), "recursion_limit": 2})
    result = await agent.ainvoke(None, {**thread(), "recursion_limit": 5})
    assert texts(result)[-1] == ("ai", "done")


async def test_a_thread_whose_turns_are_used_up_takes_a_new_message() -> None:
    agent, _ = office(call("read_data"), "hello again")
    with pytest.raises(MaxTurnsExceeded):
        await agent.ainvoke(say("go"), {**thread(), "recursion_limit": 1})
    assert texts(await agent.ainvoke(say("hello"), thread()))[-1] == ("ai", "hello again")


async def test_older_runs_that_were_purged_or_erased_are_not_heard_any_more() -> None:
    store = MemoryStore()
    agent, _ = office("One.", "Two.", "Three.", checkpointer=store)
    await agent.ainvoke(say("a"), thread())
    await agent.ainvoke(say("b"), thread())
    await store.erase("t:1")
    assert texts(await agent.ainvoke(say("c"), thread())) == [
        ("human", "b"),
        ("ai", "Two."),
        ("human", "c"),
        ("ai", "Three."),
    ]
    await store.purge(unchanged_for=0)
    assert agent.get_state(thread()).values == {}


async def test_messages_may_be_given_in_many_forms() -> None:
    agent, _ = office(*["ok"] * 8)
    for given in (
        "hi",
        HumanMessage("hi"),
        HumanMessage(content="hi"),
        {"role": "user", "content": "hi"},
        {"type": "human", "content": "hi"},
        ("user", "hi"),
        [("human", "hi")],
        ["hi"],
    ):
        result = await agent.ainvoke({"messages": given}, thread(repr(given)))
        assert texts(result)[0] == ("human", "hi")


async def test_a_history_may_be_given_with_its_calls_and_results() -> None:
    agent, _ = office("ok")
    await agent.ainvoke(
        {
            "messages": [
                SystemMessage("Be kind."),
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                AIMessage("let me see", tool_calls=[{"name": "read_data", "args": {"table": "a"}, "id": "1"}]),
                ToolMessage({"rows": 1}, tool_call_id="1"),
                {"role": "assistant", "content": "there"},
                HumanMessage("and?"),
            ]
        },
        thread(),
    )
    [request] = requests(agent)
    assert [item.get("type", item.get("role")) for item in request.input] == [
        "system",
        "user",
        "message",
        "function_call",
        "function_call_output",
        "message",
        "user",
    ]
    assert request.input[1]["content"] == [{"type": "input_text", "text": "hi"}]
    assert request.input[4]["output"] == '{"rows":1}'
    state = agent.get_state(thread()).values
    assert [each.type for each in state["messages"]] == ["system", "human", "ai", "tool", "ai", "human", "ai"]
    assert state["messages"][1].content == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"messages": []},
        {"messages": [1]},
        {"messages": [{"content": "x"}]},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [HumanMessage(3)]},
        {"messages": [ToolMessage("x")]},
        {"messages": [ToolMessage("x", tool_call_id="9")]},
        {"messages": [AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])]},
        {"messages": [AIMessage("", tool_calls=[{"name": "f", "args": {"x": object()}, "id": "1"}])]},
        {"messages": [AIMessage("", tool_calls=[{"name": "f", "args": "{}"}])]},
        {"messages": "\ud800"},
        "hi",
        7,
    ],
    ids=named,
)
async def test_input_that_no_model_can_be_told_is_refused(given: Any) -> None:
    agent, _ = office("ok")
    with pytest.raises(InvalidInput):
        await agent.ainvoke(given, thread())
    assert agent.get_state(thread()).values == {}


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"thread_id": ""}}, "t"])
async def test_a_thread_must_be_named(config: Any) -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match="thread_id"):
        await agent.ainvoke(say("hi"), config)


async def test_a_thread_may_be_named_by_a_number() -> None:
    agent, _ = office("ok", "ok")
    await agent.ainvoke(say("hi"), thread(7))  # type: ignore[arg-type]
    assert len((await agent.ainvoke(say("hi"), thread("7")))["messages"]) == 4


async def test_an_agent_without_a_checkpointer_answers_and_remembers_nothing() -> None:
    agent = create_agent(Paired(["Hello.", "Hello again."]))
    assert texts(agent.invoke(say("hi"))) == [("human", "hi"), ("ai", "Hello.")]
    assert len((await agent.ainvoke(say("hi"), thread()))["messages"]) == 2
    for nothing in (None, decide("approve")):
        with pytest.raises(UsageError, match="checkpointer"):
            await agent.ainvoke(nothing, thread())
    with pytest.raises(UsageError, match="checkpointer"):
        agent.get_state(thread())


async def test_the_runs_of_a_thread_are_ordinary_runs() -> None:
    agent, ran = office(call("execute_sql", {"query": "a"}), "done")
    await agent.ainvoke(say("go"), thread())
    store = agent.store
    assert store is not None
    [question] = (await store.questions(run="t:1")).items
    await store.decide(question.id, {"type": "approve"}, by="ann", digest=question.digest)
    result = await Runner.run(agent.agent, await store.load("t:1"), store=store, run_config=RunConfig(release="batch"))
    assert (result.final_output, ran) == ("done", [("execute_sql", "a")])
    assert texts(await agent.ainvoke(None, thread()))[-1] == ("ai", "done")


async def test_a_response_format_gives_a_structured_response() -> None:
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    agent = create_agent(
        Paired(['{"name": "Ghent"}']), response_format=City, checkpointer=InMemorySaver(), system_prompt="Be brief."
    )
    result = await agent.ainvoke(say("where?"), thread())
    assert result["structured_response"] == City(name="Ghent")
    assert requests(agent)[0].instructions == "Be brief."
    assert (await agent.aget_state(thread())).values["structured_response"] == City(name="Ghent")


async def test_an_output_that_is_not_what_was_asked_for_says_what_to_do_on_a_thread() -> None:
    agent = create_agent(Paired(["no number", '{"response": 7}']), response_format=int, checkpointer=InMemorySaver())
    with pytest.raises(InvalidOutput, match="say something on the thread to let the model try again"):
        await agent.ainvoke(say("how many?"), thread())
    assert agent.get_state(thread()).next == ("model",)
    assert (await agent.ainvoke(say("a number, please"), thread()))["structured_response"] == 7


async def test_a_state_says_when_and_what_comes_next() -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}), "done")
    await agent.ainvoke(say("go"), thread())
    state = agent.get_state(thread())
    assert state.next == ("HumanInTheLoopMiddleware.after_model",)
    assert state.created_at is not None and state.created_at.endswith("+00:00")
    assert agent.get_state(state.config) == state
    assert "__interrupt__" not in state.values
    await agent.ainvoke(decide("approve"), thread())
    state = agent.get_state(thread())
    assert (state.next, state.interrupts) == ((), ())


async def test_what_no_model_can_be_told_is_refused_on_a_waiting_thread_too() -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok")
    waiting = only(await agent.ainvoke(say("go"), thread()))
    for way in ("reject", "keep"):
        with pytest.raises(InvalidInput):
            await agent.ainvoke(say("\ud800"), thread(), on_pending=way)  # type: ignore[arg-type]
    assert only(await agent.ainvoke(None, thread())) == waiting


async def test_a_thread_holds_nothing_of_a_call_that_is_over() -> None:
    class Context(dict[str, Any]):
        pass

    agent, ran = office(call("execute_sql", {"query": "a"}), "Done.")
    context = Context(user="ada")
    gone = weakref.ref(context)
    gc.disable()  # what is let go is freed at once
    try:
        await agent.ainvoke(say("go"), thread(), context=context)
        await agent.ainvoke(decide("approve"), thread(), context=context)
        assert len(ran) == 1
        del context
        assert gone() is None
    finally:
        gc.enable()


async def test_a_thread_whose_last_run_is_of_another_kind_is_not_gone_on_with() -> None:
    agent, _ = office("ok", "ok")
    assert agent.store is not None
    place = RunPlace(store=agent.store, run="mine", thread="t")
    await drive_run(prepare(agent.agent, "hi", None, None, None, None, place))
    with pytest.raises(UsageError, match="'mine', which no agent with threads has begun"):
        await agent.ainvoke(say("go"), thread())
    assert len(agent.get_state(thread()).values["messages"]) == 2
