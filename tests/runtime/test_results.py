"""What a run gives back."""

import asyncio
import gc
import json
import weakref
from typing import Any

import pytest

from assentry import (
    MessageOutputItem,
    ModelResponse,
    ReasoningItem,
    RunConfig,
    RunItem,
    Runner,
    RunResult,
    RunResultBase,
    RunState,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    Usage,
    function_tool,
)
from assentry.errors import AssentryError, MaxTurnsExceeded
from assentry.testing import ScriptedModel, call
from tests.runtime.support import heard, outputs, reloaded, scripted, sending, stopped, told


def valid(items: list[dict[str, Any]]) -> bool:
    """Whether a provider takes these items: each call has one output after it, and each output a call before it."""
    open_calls: list[str] = []
    for item in items:
        json.dumps(item)
        if item.get("type") == "function_call":
            open_calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            open_calls.remove(item["call_id"])
            assert type(item["output"]) is str
    return open_calls == []


async def test_a_finished_run_has_all_its_attributes() -> None:
    send, _ = sending()
    agent = scripted(["thinking", call("send", {"to": "ann"}, "abc")], "done", tools=[send])
    result = await Runner.run(agent, "go", context={"user": 1})
    assert isinstance(result, RunResult)
    assert isinstance(result, RunResultBase)
    assert result.input == "go"
    assert result.final_output == "done"
    assert result.last_agent is agent
    assert result.last_response_id == result.raw_responses[-1].response_id
    assert result.interruptions == []
    assert result.context_wrapper.context == {"user": 1}
    for name in ("input", "output", "tool_input", "tool_output"):
        assert getattr(result, f"{name}_guardrail_results") == []
    assert [type(item) for item in result.new_items] == [
        MessageOutputItem,
        ToolCallItem,
        ToolCallOutputItem,
        MessageOutputItem,
    ]
    assert all(isinstance(item, RunItem) and item.agent is agent for item in result.new_items)
    assert all(isinstance(item.raw_item, dict) for item in result.new_items)
    message, called, output, _ = result.new_items
    assert isinstance(message, MessageOutputItem)
    assert message.text == "thinking"
    assert isinstance(called, ToolCallItem)
    assert (called.tool_name, called.call_id) == ("send", "abc")
    assert isinstance(output, ToolCallOutputItem)
    assert (output.call_id, output.output) == ("abc", "sent 1 to ann")
    assert output.raw_item == {"type": "function_call_output", "call_id": "abc", "output": "sent 1 to ann"}
    first, second = result.raw_responses
    assert isinstance(first, ModelResponse)
    assert [item["type"] for item in first.output] == ["message", "function_call"]
    assert isinstance(first.usage, Usage)
    assert first.usage.requests == 1
    assert first.response_id
    assert first.response_id != second.response_id
    assert "done" in repr(result)


async def test_a_paused_run_has_its_questions_last_and_no_output() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(["thinking", call("send", {"to": "ann"})], tools=[send])
    result = await Runner.run(agent, "go")
    assert result.final_output is None
    assert [item.type for item in result.new_items] == ["message_output_item", "tool_call_item", "tool_approval_item"]
    assert result.new_items[-1] == result.interruptions[0]
    assert result.last_agent is agent
    assert "waiting" in repr(result)


async def test_a_question_is_among_the_items_only_while_it_is_open() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"})], "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert sum(isinstance(item, ToolApprovalItem) for item in result.new_items) == 2
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert sum(isinstance(item, ToolApprovalItem) for item in result.new_items) == 1
    state = result.to_state()
    state.reject(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert not any(isinstance(item, ToolApprovalItem) for item in result.new_items)


@pytest.mark.parametrize("reload", [False, True])
async def test_everything_covers_the_whole_run_and_not_only_since_the_resume(reload: bool) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(*[call("send", {"to": f"p{n}"}) for n in range(3)], "done", tools=[send])
    result = await Runner.run(agent, "go")
    while result.interruptions:
        state = await reloaded(agent, result.to_state()) if reload else result.to_state()
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    assert len(result.raw_responses) == 4
    assert [item.type for item in result.new_items] == ["tool_call_item", "tool_call_output_item"] * 3 + [
        "message_output_item"
    ]
    assert result.input == "go"
    assert result.context_wrapper.usage.requests == 4
    assert len({reply.response_id for reply in result.raw_responses}) == 4
    assert result.last_response_id == result.raw_responses[-1].response_id


async def test_an_output_is_the_python_object_where_it_ran_and_its_json_after_a_reload() -> None:
    class Receipt:
        def __str__(self) -> str:
            return "a receipt"

    receipt = Receipt()

    @function_tool
    async def buy() -> Any:
        return receipt

    @function_tool
    async def sell() -> Any:
        return {"sold": (1, 2)}

    send, _ = sending(needs_approval=True)
    agent = scripted([call("buy"), call("sell"), call("send", {"to": "ann"})], "done", tools=[buy, sell, send])
    result = await Runner.run(agent, "go")
    assert outputs(result)[0].output is receipt
    assert outputs(result)[1].output == {"sold": (1, 2)}
    text = result.to_state().to_string()
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert outputs(await Runner.run(agent, state))[0].output is receipt, "resumed in the same process"
    agent.model = ScriptedModel(["done"])
    state = await RunState.from_string(agent, text)
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert outputs(result)[0].output == "a receipt"
    assert outputs(result)[1].output == {"sold": [1, 2]}


# -- the input list --------------------------------------------------------------------------------


async def test_the_input_list_is_the_input_and_what_the_run_generated() -> None:
    send, _ = sending()
    given = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "go"},
    ]
    agent = scripted(["thinking", call("send", {"to": "ann"})], "done", "and again", tools=[send])
    result = await Runner.run(agent, given)  # type: ignore[arg-type]
    items = result.to_input_list()
    assert items[:3] == given
    assert [item.get("type") for item in items[3:]] == ["message", "function_call", "function_call_output", "message"]
    assert valid(items)
    assert result.input == given
    again = await Runner.run(agent, [*items, {"role": "user", "content": "again"}])
    assert again.final_output == "and again"
    assert heard(agent)[:-1] == items


async def test_text_becomes_a_message_in_the_input_list() -> None:
    result = await Runner.run(scripted("hi"), "go")
    assert result.to_input_list()[0] == {"role": "user", "content": "go"}


async def test_a_provider_takes_the_input_list_at_every_pause() -> None:
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] != "free")
    calls = [call("send", {"to": "ann"}), call("send", {"to": "free"}), call("send", {"to": "bob"}), "and text"]
    agent = scripted(calls, [call("send", {"to": "eve"}, "call_1_0")], "done", tools=[send])
    result = await Runner.run(agent, "go")
    seen = []
    while True:
        items = result.to_input_list()
        assert valid(items)
        seen.append(sum(item.get("type") == "function_call_output" for item in items))
        if not result.interruptions:
            break
        state = await reloaded(agent, result.to_state())
        state.add_input("hurry")
        state.approve(state.get_interruptions()[-1])
        result = await Runner.run(agent, state)
    assert seen == [1, 2, 3, 4]
    assert [item["output"] for item in items if item.get("type") == "function_call_output"] == [
        f"sent 1 to {to}" for to in ("ann", "free", "bob", "eve")
    ], "in the order of the calls"


async def test_a_provider_takes_the_input_list_when_call_ids_repeat_inside_a_turn() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}, "x"), call("send", {"to": "bob"}, "x")], tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[1])
    result = await Runner.run(agent, state)
    items = result.to_input_list()
    assert valid(items)
    [kept] = [item for item in items if item.get("type") == "function_call"]
    assert json.loads(kept["arguments"]) == {"to": "bob"}, "the call that has its output is the one that is kept"


async def test_what_is_done_to_the_lists_of_a_result_changes_nothing_in_the_run() -> None:
    send, _ = sending(needs_approval=True)
    given = [{"role": "user", "content": "go"}]
    agent = scripted(["text", call("send", {"to": "ann"})], "done", tools=[send])
    result = await Runner.run(agent, given)  # type: ignore[arg-type]
    before = result.to_state().to_string()
    result.to_input_list()[0]["content"] = "other"
    result.input[0]["content"] = "other"  # type: ignore[index,call-overload]
    for item in result.new_items:
        item.raw_item.clear()
    for response in result.raw_responses:
        response.output.clear()
    result.interruptions[0].arguments = "{}"
    assert result.to_state().to_string() == before
    assert result.to_input_list()[0] == {"role": "user", "content": "go"}
    [item] = result.to_state().get_interruptions()
    assert item.arguments == '{"copies":1,"to":"ann"}'


# -- the final output ------------------------------------------------------------------------------


async def test_the_final_output_is_the_text_of_the_last_reply() -> None:
    result = await Runner.run(scripted(["one, ", "two"]), "go")
    assert result.final_output == "one, two"


async def test_a_reply_without_anything_ends_the_run_with_no_words() -> None:
    assert (await Runner.run(scripted([]), "go")).final_output == ""
    assert (await Runner.run(scripted(""), "go")).final_output == ""


async def test_the_final_output_as_a_type() -> None:
    result = await Runner.run(scripted("hi"), "go")
    assert result.final_output_as(str) == "hi"
    assert result.final_output_as(str, raise_if_incorrect_type=True) == "hi"
    assert result.final_output_as(int) == "hi"  # type: ignore[comparison-overlap]
    with pytest.raises(TypeError):
        result.final_output_as(int, raise_if_incorrect_type=True)


async def test_the_final_output_of_a_paused_run_is_none_of_any_type() -> None:
    send, _ = sending(needs_approval=True)
    result = await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go")
    assert result.final_output_as(str) is None
    with pytest.raises(TypeError):
        result.final_output_as(str, raise_if_incorrect_type=True)


# -- items of other kinds --------------------------------------------------------------------------


async def test_what_a_provider_sends_is_kept_as_it_came_fields_nobody_knows_included() -> None:
    reasoning = {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "ü", "future": {"x": [1, None]}}
    unknown = {"type": "web_search_call", "id": "w1", "status": "completed"}
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "hi", "logprobs": [1e-5]}],
    }
    agent = scripted(lambda request: [reasoning, unknown, message], "again")
    result = await Runner.run(agent, "go")
    assert result.raw_responses[0].output == [reasoning, unknown, message]
    assert isinstance(result.new_items[0], ReasoningItem)
    assert result.new_items[0].raw_item == reasoning
    assert result.final_output == "hi"
    assert result.to_input_list()[1:] == [reasoning, unknown, message]
    state = await reloaded(agent, result.to_state())
    state.add_input("more")
    await Runner.run(agent, state)
    assert heard(agent)[1:4] == [reasoning, unknown, message]


# -- letting agents go -----------------------------------------------------------------------------


@pytest.mark.parametrize("pause", [True, False])
async def test_released_agents_can_be_freed_while_the_result_is_kept(pause: bool) -> None:
    send, _ = sending(needs_approval=pause)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], name="clerk")
    result = await Runner.run(agent, "go")
    items, asked_ = len(result.new_items), len(result.interruptions)
    result.release_agents()
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None
    assert all(item.agent == item.agent_name == "clerk" for item in result.new_items)
    assert all(item.agent_name == "clerk" for item in result.interruptions)
    assert (len(result.new_items), len(result.interruptions)) == (items, asked_)
    assert result.final_output == (None if pause else "done")
    assert valid(result.to_input_list())
    with pytest.raises(AssentryError, match="clerk"):
        _ = result.last_agent


async def test_items_can_keep_their_agents() -> None:
    agent = scripted("hi")
    result = await Runner.run(agent, "go")
    result.release_agents(release_new_items=False)
    assert result.new_items[0].agent is agent


async def test_a_released_result_can_still_be_decided_on_saved_and_resumed() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    result.release_agents()
    result.release_agents()
    state = result.to_state()
    state.edit(result.interruptions[0], {"to": "bob"})
    again = await Runner.run(agent, await reloaded(agent, state))
    assert sent == [("bob", 1)]
    assert again.last_agent is agent


# -- of runs that ended badly ----------------------------------------------------------------------


async def test_the_state_of_an_error_shows_the_whole_run_when_it_goes_on() -> None:
    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    with pytest.raises(MaxTurnsExceeded) as caught:
        await Runner.run(agent, "go", max_turns=1)
    result = await Runner.run(agent, caught.value.state, max_turns=5)
    assert told(result) == ["sent 1 to ann", "sent 1 to bob"]
    assert len(result.raw_responses) == 3


async def test_usage_of_a_reply_that_was_not_finished_does_not_count() -> None:
    thinking = asyncio.Event()

    async def think(request: Any) -> str:
        thinking.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted(think, "done")
    state = await stopped(Runner.run(agent, "go"), thinking)
    result = await Runner.run(agent, state, run_config=RunConfig())
    assert result.context_wrapper.usage.requests == 1
    assert len(result.raw_responses) == 1


async def test_what_a_run_held_is_let_go_of_with_its_result() -> None:
    """At once, and not when garbage is collected: a server would have thousands of runs lying about."""

    class Context:
        pass

    @function_tool(needs_approval=True)
    async def wire(city: str) -> str:
        return city

    inner = scripted(call("wire", {"city": "Oslo"}), "Wired.", tools=[wire])
    agent = scripted(call("delegate", {"input": "Wire it."}), "Done.", tools=[inner.as_tool("delegate", "Asks.")])
    context = Context()
    gone = weakref.ref(context)
    gc.disable()
    try:
        result = await Runner.run(agent, "Go.", context=context)
        state = result.to_state()
        state.approve(result.interruptions[0])
        result = await Runner.run(agent, state)
        assert result.final_output == "Done."
        del result, state, context
        assert gone() is None
    finally:
        gc.enable()
