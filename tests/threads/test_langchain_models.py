"""Chat models of LangChain in a thread: what reaches them, and what comes back, is as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain_core import messages as lc

from assentry import InvalidDefinition, ModelFailed, ModelSettings
from assentry.testing import ScriptedModel
from assentry.threads import InMemorySaver, SqliteSaver, after_model, create_agent, wrap_model_call
from tests.threads.chat_model import ScriptedChat, called
from tests.threads.support import say, thread

CACHED = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}


def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


def test_content_blocks_and_names_reach_a_chat_model_as_they_are() -> None:
    model = ScriptedChat(steps=["Yes."])
    said = [
        lc.HumanMessage([{**CACHED, "text": "Hi"}], name="ann", additional_kwargs={"lc_source": "me"}, id="h"),
        lc.AIMessage([{**CACHED, "text": "Well"}, {"type": "thinking", "thinking": "Hm", "signature": "s"}], id="a"),
        lc.HumanMessage("And?", id="h2"),
    ]
    agent = create_agent(model, system_prompt=lc.SystemMessage([CACHED]), checkpointer=InMemorySaver())
    agent.invoke({"messages": said}, thread())
    assert model.asked == [[lc.SystemMessage([CACHED]), *said]]


def test_a_reply_of_a_chat_model_comes_back_whole(tmp_path: Path) -> None:
    reply = lc.AIMessage(
        [{"type": "thinking", "thinking": "Hm", "signature": "s"}, {"type": "text", "text": "Yes."}],
        id="msg_1",
        name="brief",
        response_metadata={"finish_reason": "stop", "model_name": "m"},
        additional_kwargs={"citations": ["a"]},
        usage_metadata={
            "input_tokens": 5,
            "output_tokens": 2,
            "total_tokens": 7,
            "input_token_details": {"cache_read": 3},
        },
    )
    with SqliteSaver(tmp_path / "threads.db") as saver:
        result = create_agent(ScriptedChat(steps=[reply]), checkpointer=saver).invoke(say("Hi"), thread())
    assert result["messages"][-1] == reply
    model = ScriptedChat(steps=["Again."])
    with SqliteSaver(tmp_path / "threads.db") as saver:
        agent = create_agent(model, checkpointer=saver)
        assert agent.get_state(thread()).values["messages"][-1] == reply
        agent.invoke(say("And?"), thread())
    assert model.asked[0][1] == reply


def test_a_reply_with_calls_comes_back_whole_and_its_outputs_are_messages() -> None:
    reply = called("look", at="it")
    reply.id, reply.response_metadata = "msg_1", {"finish_reason": "tool_calls"}
    reply.content = [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}]
    model = ScriptedChat(steps=[reply, "Seen."])
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    result = agent.invoke(say("Look."), thread())
    assert result["messages"][1] == reply == model.asked[1][1]
    output = result["messages"][2]
    assert isinstance(output, lc.ToolMessage)
    assert (output.name, output.content, output.tool_call_id, output.status) == ("look", "seen it", "c1", "success")
    assert model.asked[1][2] == output


def test_a_model_that_gives_one_id_twice_does_not_hide_a_message() -> None:
    model = ScriptedChat(steps=[lc.AIMessage("One", id="same"), lc.AIMessage("Two", id="same")])
    agent = create_agent(model, checkpointer=InMemorySaver())
    agent.invoke(say("a"), thread())
    messages = agent.invoke(say("b"), thread())["messages"]
    assert [each.content for each in messages] == ["a", "One", "b", "Two"]
    assert len({each.id for each in messages}) == 4


def test_a_chat_model_does_not_hear_of_calls_that_a_hook_dropped() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}
    reply = called("look", at="it")
    reply.content, reply.additional_kwargs = [{"type": "text", "text": "Well"}, block], {"tool_calls": [{"id": "c1"}]}

    @after_model
    def stop(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"} if state["messages"][-1].tool_calls else None

    model = ScriptedChat(steps=[reply, "Yes."])
    agent = create_agent(model, [look], middleware=[stop], checkpointer=InMemorySaver())
    agent.invoke(say("Look."), thread())
    agent.invoke(say("And?"), thread())
    heard: Any = model.asked[1][1]
    assert (heard.content, heard.tool_calls, heard.additional_kwargs) == ([{"type": "text", "text": "Well"}], [], {})


def test_parts_that_are_streamed_have_the_id_of_the_message() -> None:
    model = ScriptedChat(steps=[lc.AIMessage("One two", id="msg_1")], streams=True)
    agent = create_agent(model, checkpointer=InMemorySaver())
    parts = [chunk for chunk, _ in agent.stream(say("a"), thread(), stream_mode="messages")]
    assert [type(each) for each in parts] == [lc.AIMessageChunk] * len(parts)
    assert {each.id for each in parts} == {"msg_1"} == {agent.get_state(thread()).values["messages"][-1].id}


def test_a_model_that_fails_is_asked_again_as_the_settings_say() -> None:
    from assentry import ModelRetrySettings, retry_policies

    model = ScriptedChat(steps=[ConnectionError("away"), "Here."])
    retry = ModelRetrySettings(max_retries=1, policy=retry_policies.any(lambda _: True))
    agent = create_agent(model, checkpointer=InMemorySaver(), model_settings=ModelSettings(retry=retry))
    assert agent.invoke(say("a"), thread())["messages"][-1].content == "Here."


def test_a_request_may_name_a_chat_model_and_its_own_settings() -> None:
    model = ScriptedChat(steps=["Theirs."])

    @wrap_model_call
    def other(request: Any, handler: Any) -> Any:
        return handler(request.override(model=model, model_settings={"stop": ["."]}))

    agent = create_agent(ScriptedModel([]), middleware=[other], checkpointer=InMemorySaver())
    assert agent.invoke(say("a"), thread())["messages"][-1].content == "Theirs."
    assert len(model.asked) == 1


# -- bound models ----------------------------------------------------------------------------------


def test_a_bound_model_keeps_what_is_bound_to_it() -> None:
    model = ScriptedChat(steps=[called("look", at="it"), "Seen."])
    for given in (model.bind(stop=["."]), model.bind(stop=["."]).with_config(tags=["mine"])):
        agent = create_agent(given, [look], checkpointer=InMemorySaver())
        model._asked.clear()
        assert agent.invoke(say("Look."), thread())["messages"][-1].content == "Seen."
        assert [tool["function"]["name"] for tool in model.options[-1]["tools"]] == ["look"]
        assert agent.agent.model.name == "scripted"


def test_tools_that_are_bound_to_a_model_stay_beside_the_agents_own() -> None:
    model = ScriptedChat(steps=["Yes."])
    agent = create_agent(model.bind_tools([{"type": "web_search"}]), [look], checkpointer=InMemorySaver())
    agent.invoke(say("Look."), thread())
    assert [tool.get("function", tool).get("name", "web") for tool in model.options[0]["tools"]] == ["web", "look"]


def test_a_model_with_retries_is_asked_again() -> None:
    model = ScriptedChat(steps=[ConnectionError("away"), "Here."])
    given = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    agent = create_agent(given, [look], checkpointer=InMemorySaver())
    assert agent.invoke(say("Hi"), thread())["messages"][-1].content == "Here."


def test_a_model_with_fallbacks_falls_back() -> None:
    other = ScriptedChat(steps=["The other."])
    given = ScriptedChat(steps=[ConnectionError("away")]).with_fallbacks([other])
    agent = create_agent(given, [look], checkpointer=InMemorySaver())
    assert agent.invoke(say("Hi"), thread())["messages"][-1].content == "The other."
    assert [tool["function"]["name"] for tool in other.options[0]["tools"]] == ["look"]


def test_a_request_may_name_a_bound_model() -> None:
    model = ScriptedChat(steps=["Bound."])

    @wrap_model_call
    def other(request: Any, handler: Any) -> Any:
        return handler(request.override(model=model.bind(stop=["."])))

    agent = create_agent(ScriptedModel([]), middleware=[other], checkpointer=InMemorySaver())
    assert agent.invoke(say("a"), thread())["messages"][-1].content == "Bound."


def test_a_configurable_model_is_chosen_by_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain.chat_models import base

    made: dict[str, Any] = {}

    def init(model: str, **options: Any) -> Any:
        return made.setdefault(model, ScriptedChat(steps=[f"From {model}."], model_name=model))

    monkeypatch.setattr(base, "_init_chat_model_helper", init)
    given = base.init_chat_model(configurable_fields=("model",))
    agent = create_agent(given, [look], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t", "model": "small"}}
    assert agent.invoke(say("Hi"), config)["messages"][-1].content == "From small."


def test_another_runnable_is_refused() -> None:
    from langchain_core.runnables import RunnableLambda

    for wrong in (RunnableLambda(str), ScriptedChat(steps=[]) | RunnableLambda(str)):
        with pytest.raises(InvalidDefinition, match="is no chat model; give the chat model itself"):
            create_agent(wrong, checkpointer=InMemorySaver())


def test_hooks_see_the_exceptions_of_the_provider() -> None:
    @wrap_model_call
    def again(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ConnectionError:
            return handler(request)

    for steps, words in (([ConnectionError("away"), "Here."], None), ([ConnectionError("away")] * 2, "away")):
        agent = create_agent(ScriptedChat(steps=steps), middleware=[again], checkpointer=InMemorySaver())
        if words is None:
            assert agent.invoke(say("Hi"), thread())["messages"][-1].content == "Here."
            continue
        with pytest.raises(ModelFailed, match=words):
            agent.invoke(say("Hi"), thread())


def test_messages_have_the_name_that_the_agent_was_given() -> None:
    for model in (ScriptedModel(["Yes.", "Yes."]), ScriptedChat(steps=["Yes.", "Yes."])):
        agent = create_agent(model, name="desk", checkpointer=InMemorySaver())
        agent.invoke(say("Hi"), thread())
        state = agent.invoke(say("And?"), thread())["messages"]
        assert [each.name for each in state] == [None, "desk", None, "desk"]
        assert agent.get_state(thread()).values["messages"] == state


async def test_an_agent_is_a_part_of_a_chain() -> None:
    from langchain_core.runnables import RunnableLambda

    before, after = RunnableLambda(lambda text: {"messages": text}), RunnableLambda(lambda it: it["messages"][-1].text)
    chain = before | create_agent(ScriptedChat(steps=["Hello.", "Again."])) | after
    assert chain.invoke("Hi") == "Hello."
    assert await chain.ainvoke("Hi") == "Again."
