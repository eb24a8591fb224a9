"""Versions, options and configs of calls, and batches."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import InvalidDefinition, UsageError
from assentry.testing import ScriptedModel, call
from assentry.threads import (
    AIMessage,
    GraphOutput,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    after_model,
    before_model,
    create_agent,
    wrap_tool_call,
)
from tests.threads.support import Ran, decide, office, say, texts, thread

# -- version="v2" ----------------------------------------------------------------------------------


async def test_v2_gives_the_state_and_the_interrupts_apart() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "Done.")
    waits = await agent.ainvoke(say("hi"), thread(), version="v2")
    assert isinstance(waits, GraphOutput)
    assert waits.value.keys() == {"messages"}
    assert waits.interrupts[0].value["action_requests"][0]["name"] == "write_file"
    assert waits["__interrupt__"] == waits.interrupts
    assert "__interrupt__" in waits
    done = agent.invoke(decide("approve"), thread(), version="v2")
    assert (done.interrupts, "__interrupt__" in done, "messages" in done) == ((), False, True)
    assert done["messages"] == done.value["messages"]
    assert ran == [("write_file", "a", "")]


async def test_v2_streams_parts_that_name_their_type() -> None:
    agent, _ = office(call("write_file", {"path": "a"}), "Done.")
    modes: list[Any] = ["updates", "messages", "values"]
    parts = [part async for part in agent.astream(say("hi"), thread(), stream_mode=modes, version="v2")]
    assert all(part["ns"] == () for part in parts)
    assert {part["type"] for part in parts} == {"updates", "values"}
    assert parts[0] == {"type": "values", "ns": (), "data": parts[0]["data"], "interrupts": ()}
    *_, update, values = parts
    assert update["type"] == "updates"
    assert list(update["data"]) == ["__interrupt__"]
    assert values["data"].keys() == {"messages"}
    assert values["interrupts"] == update["data"]["__interrupt__"]
    rest = list(agent.stream(decide("approve"), thread(), stream_mode="messages", version="v2"))
    assert [part["type"] for part in rest] == ["messages"] * 2
    assert rest[-1]["data"][0].text == "Done."


@pytest.mark.parametrize("version", ["v3", None, 2])
def test_another_version_is_refused_before_anything_runs(version: Any) -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match='version is "v1" or "v2"'):
        agent.invoke(say("hi"), thread(), version=version)
    with pytest.raises(UsageError, match='version is "v1" or "v2"'):
        agent.stream(say("hi"), thread(), version=version)
    assert agent.get_state(thread()).values == {}


# -- other options ---------------------------------------------------------------------------------


def test_an_unknown_option_names_the_nearest() -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match="did you mean 'context'"):
        agent.invoke(say("hi"), thread(), contxt=1)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="did you mean 'subgraphs'"):
        agent.stream(say("hi"), thread(), subgraph=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("durability", ["sync", "async", "exit", None])
def test_any_durability_is_accepted_since_steps_are_stored_before_they_are_taken(durability: Any) -> None:
    agent, _ = office("ok")
    assert texts(agent.invoke(say("hi"), thread(), durability=durability))[-1] == ("ai", "ok")


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "never"},
        {"interrupt_before": ["tools"]},
        {"interrupt_after": "*"},
        {"control": "stop"},
        {"output_keys": "nothing"},
        {"output_keys": ["messages", "nothing"]},
        {"stream_mode": "tasks"},
        {"print_mode": "checkpoints"},
    ],
    ids=str,
)
def test_an_option_that_would_do_nothing_is_refused_with_a_sentence(options: Any) -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match=next(iter(options)) if "print_mode" not in options else "stream_mode"):
        agent.invoke(say("hi"), thread(), **options)
    assert agent.get_state(thread()).values == {}


def test_empty_breakpoints_are_none() -> None:
    agent, _ = office("ok")
    assert texts(agent.invoke(say("hi"), thread(), interrupt_before=[], interrupt_after=None))


def test_output_keys_choose_from_the_state() -> None:
    agent, _ = office("ok", "again")
    assert [each.text for each in agent.invoke(say("hi"), thread(), output_keys="messages")] == ["hi", "ok"]
    assert agent.invoke(say("hi"), thread(), output_keys=["structured_response"]) == {}


def test_print_mode_prints_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    agent, _ = office("ok")
    result = agent.invoke(say("hi"), thread(), print_mode=["updates"])
    assert texts(result) == [("human", "hi"), ("ai", "ok")]
    assert capsys.readouterr().out.startswith("[updates] {'model': ")


def test_debug_prints_updates_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    agent, _ = office("ok", debug=True)
    assert list(agent.stream(say("hi"), thread(), stream_mode="custom")) == []
    out = capsys.readouterr().out
    assert "[updates]" in out
    assert "[values]" in out


def test_invoke_with_another_stream_mode_gives_the_chunks() -> None:
    agent, _ = office("ok")
    chunks: Any = agent.invoke(say("hi"), thread(), stream_mode="updates")
    assert list(chunks[0]) == ["model"]


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after", "transformers"])
def test_create_agent_refuses_what_would_have_no_effect(option: str) -> None:
    with pytest.raises(InvalidDefinition, match=option):
        create_agent(ScriptedModel(["ok"]), **{option: ["tools"]})  # type: ignore[arg-type]
    create_agent(ScriptedModel(["ok"]), **{option: None}, cache=object())  # type: ignore[arg-type]


def test_there_is_no_graph() -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match="no graph"):
        agent.get_graph()


# -- updates of hooks, and of agents that are tools ------------------------------------------------


def test_each_hook_has_its_own_update() -> None:
    @before_model
    def note(state: Any, runtime: Any) -> Any:
        return {"messages": [{"role": "system", "content": "Be brief."}]}

    @before_model
    def silent(state: Any, runtime: Any) -> None:
        return None

    @after_model
    def reword(state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage("No.", id=state["messages"][-1].id)]}

    agent = create_agent(ScriptedModel(["Yes."]), middleware=[note, silent, reword], checkpointer=InMemorySaver())
    chunks = list(agent.stream(say("hi"), thread()))
    shown = [
        {node: update and [each.text for each in update["messages"]]} for c in chunks for node, update in c.items()
    ]
    assert shown == [
        {"note.before_model": ["Be brief."]},
        {"silent.before_model": None},
        {"model": ["Yes."]},
        {"reword.after_model": ["No."]},
    ]
    recorded = agent.get_state(thread()).values["messages"]
    assert [each.id for each in recorded[1:]] == [
        chunks[0]["note.before_model"]["messages"][0].id,
        chunks[2]["model"]["messages"][0].id,
    ]


def nested() -> Any:
    inner = create_agent(
        ScriptedModel([call("read_data"), "All rows."]), Ran().tools(), name="reader", checkpointer=True
    )
    steps = [call("reader", {"input": "read"}), "Read."]
    return create_agent(ScriptedModel(steps), [inner], checkpointer=InMemorySaver())


def test_subgraphs_shows_the_updates_of_an_agent_that_is_a_tool() -> None:
    chunks = list(nested().stream(say("hi"), thread(), subgraphs=True))
    assert [(len(ns), *chunk) for ns, chunk in chunks] == [
        (0, "model"),
        (1, "model"),
        (1, "tools"),
        (1, "model"),
        (0, "tools"),
        (0, "model"),
    ]


def test_subgraphs_shows_the_tokens_and_the_state_of_an_agent_that_is_a_tool() -> None:
    chunks = list(nested().stream(say("hi"), thread(), subgraphs=True, stream_mode=["messages", "values"]))
    tokens = [chunk[0].text for ns, mode, chunk in chunks if ns and mode == "messages"]
    assert "".join(tokens) == "rows of recordsAll rows."
    assert [texts(chunk)[-1] for ns, mode, chunk in chunks if ns and mode == "values"][-1] == ("ai", "All rows.")


def test_without_subgraphs_only_the_agents_own_chunks_are_shown() -> None:
    parts = list(nested().stream(say("hi"), thread(), version="v2"))
    assert [(part["ns"], *part["data"]) for part in parts] == [((), "model"), ((), "tools"), ((), "model")]


# -- configs and batches ---------------------------------------------------------------------------


def test_with_config_is_part_of_each_call_and_leaves_the_agent_as_it_was() -> None:
    agent, _ = office("one", "two")
    bound = agent.with_config({"configurable": {"thread_id": "b"}, "tags": ["x"]}).with_config(recursion_limit=3)
    assert texts(bound.invoke(say("hi")))[-1] == ("ai", "one")
    assert texts(bound.invoke(say("hi"), thread("other")))[-1] == ("ai", "two")
    assert len(agent.get_state(thread("b")).values["messages"]) == 2
    with pytest.raises(UsageError, match="thread"):
        agent.invoke(say("hi"))


@pytest.mark.parametrize("config", [{"thread_id": "t"}, "t"])
def test_with_config_refuses_what_is_no_config(config: Any) -> None:
    agent, _ = office("one")
    with pytest.raises(UsageError, match="with_config"):
        agent.with_config(config)


def test_a_batch_gives_results_in_the_order_of_its_inputs() -> None:
    agent, _ = office(*["ok"] * 3)
    configs = [{**thread(str(n)), "max_concurrency": 2} for n in range(3)]
    results = agent.batch([say(str(n)) for n in range(3)], configs)
    assert [texts(result)[0][1] for result in results] == ["0", "1", "2"]


async def test_a_batch_raises_the_first_exception_or_returns_it_once_all_calls_have_ended() -> None:
    agent, _ = office(*["ok"] * 3)
    inputs = [say("a"), {"messages": []}]
    configs = [thread("a"), thread("b")]
    with pytest.raises(UsageError):
        await agent.abatch(inputs, configs)
    assert (await agent.aget_state(thread("a"))).values
    done, error = await agent.abatch(inputs, [thread("c"), thread("d")], return_exceptions=True)
    assert texts(done)[-1] == ("ai", "ok")
    assert isinstance(error, UsageError)
    ended = {n: each async for n, each in agent.abatch_as_completed([say("a")], [thread("e")], version="v2")}
    assert isinstance(ended[0], GraphOutput)


def test_a_batch_can_be_read_as_its_calls_end() -> None:
    agent, _ = office(*["ok"] * 2)
    ended = dict(agent.batch_as_completed([say("a"), say("b")], [thread("a"), thread("b")]))
    assert sorted(ended) == [0, 1]


@pytest.mark.parametrize(("inputs", "config"), [("hi", None), ([say("a")], [thread(), thread()])])
def test_a_batch_of_something_else_is_refused(inputs: Any, config: Any) -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match="batch"):
        agent.batch(inputs, config)


async def test_max_concurrency_limits_the_tools_that_run_at_once() -> None:
    running, most = 0, 0

    @wrap_tool_call
    async def count(request: Any, handler: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await handler(request)
        finally:
            running -= 1

    agent, _ = office([call("read_data"), call("read_data", {"table": "b"})], "Done.", middleware=[count])
    await agent.ainvoke(say("hi"), {**thread(), "max_concurrency": 1})
    assert most == 1
    with pytest.raises(UsageError, match="max_concurrency"):
        await agent.ainvoke(say("hi"), {**thread(), "max_concurrency": 0})


def test_a_call_that_waits_can_be_answered_through_a_bound_config() -> None:
    agent = create_agent(
        ScriptedModel([call("read_data"), "Done."]),
        Ran().tools(),
        middleware=[HumanInTheLoopMiddleware({"read_data": True})],
        checkpointer=InMemorySaver(),
    ).with_config(thread())
    assert agent.invoke(say("hi"), version="v2").interrupts
    assert agent.invoke(decide("approve"), version="v2").interrupts == ()
