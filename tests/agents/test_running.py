"""Runner, RunConfig, results, states and streams in the Agents SDK's form."""

from typing import Any

import pytest

import assentry
from assentry.agents import (
    Agent,
    HandoffInputData,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    Usage,
    handoff,
)
from assentry.agents.run_config import ToolExecutionConfig
from assentry.errors import InvalidDefinition, MaxTurnsExceeded, ToolNotFound, UsageError
from assentry.testing import ScriptedModel, call


@assentry.function_tool
async def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


@assentry.function_tool(needs_approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return "sent"


def agent_with(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent("agent", tools=[look, send], model=ScriptedModel(steps), **options)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def spoken(items: list[Any]) -> list[Any]:
    return [
        item.get("name", item.get("output")) or item["content"] for item in items if item.get("role") != "assistant"
    ]


async def test_results_and_states_have_the_form() -> None:
    result = await Runner.run(agent_with(call("send", {"to": "ann"})), "go")
    assert type(result) is RunResult
    assert type(result.to_state()) is RunState
    assert type(Runner.run_streamed(agent_with("hi"), "go")) is RunResultStreaming
    assert str(result).startswith(
        'RunResult:\n- Last agent: Agent(name="agent", ...)\n- Final output (NoneType):\n    None'
    )


async def test_a_state_takes_the_keywords_of_the_sdk() -> None:
    agent = agent_with(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "Done.")
    state: Any = (await Runner.run(agent, "go")).to_state()
    state = await RunState.from_json(initial_agent=agent, state_json=state.to_json())
    state.approve(approval_item=state.get_interruptions()[0])
    state = (await Runner.run(agent, state)).to_state()
    state = await RunState.from_string(initial_agent=agent, state_string=state.to_string())
    assert type(state) is RunState
    state.reject(approval_item=state.get_interruptions()[0])
    assert (await Runner.run(agent, state)).final_output == "Done."


def test_a_state_is_not_made_by_hand() -> None:
    with pytest.raises(UsageError, match="not made by hand"):
        RunState(context=None, original_input="go", starting_agent=agent_with(), max_turns=3)


async def test_a_rejection_without_a_message_has_the_words_of_the_sdk() -> None:
    agent = agent_with(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "Done.")
    state = (await Runner.run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0])
    state = (await Runner.run(agent, state)).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Not him.")
    result = await Runner.run(agent, state)
    given = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert given == ["Tool execution was not approved.", "Not him."]


async def test_pending_input_is_the_input_that_nobody_has_answered() -> None:
    state: Any = (await Runner.run(agent_with(call("send", {"to": "ann"})), "go")).to_state()
    state.add_input("and hurry")
    assert state.pending_input == [user("and hurry")]


async def test_turns_have_no_limit_with_none_and_ten_by_default() -> None:
    looks = [call("look", {"place": "there"})] * 12
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent_with(*looks, "Done."), "go")
    result = await Runner.run(agent_with(*looks, "Done."), "go", max_turns=None)
    assert (result.current_turn, result.max_turns) == (13, None)
    assert (await Runner.run(agent_with("hi"), "go", max_turns=3)).max_turns == 3


async def test_a_resumed_run_keeps_its_limit() -> None:
    agent = agent_with(call("send", {"to": "ann"}), "Done.")
    state = (await Runner.run(agent, "go", max_turns=1)).to_state()
    state.approve(state.get_interruptions()[0])
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, state)


async def test_a_tool_that_is_not_there_raises_unless_the_model_is_to_be_told() -> None:
    with pytest.raises(ToolNotFound):
        await Runner.run(agent_with(call("fly"), "Done."), "go")
    config = RunConfig(tool_not_found_behavior="return_error_to_model")
    assert (await Runner.run(agent_with(call("fly"), "Done."), "go", run_config=config)).final_output == "Done."


def test_settings_are_translated() -> None:
    config = RunConfig(
        tool_execution={"max_function_tool_concurrency": 2, "pre_approval_tool_input_guardrails": True},
        session_settings={"limit": 3},
        model_settings={"temperature": 0.5},
        input_guardrails=None,
    )
    assert isinstance(config, assentry.RunConfig)
    assert (config.max_parallel_tools, config.pre_approval_tool_input_guardrails, config.session_limit) == (2, True, 3)
    assert config.tool_execution == ToolExecutionConfig(2, True)
    assert config.model_settings is not None and config.model_settings.temperature == 0.5
    assert (config.workflow_name, config.trace_include_sensitive_data) == ("Agent workflow", True)
    assert config.save_input_first and config.guard_history


async def test_settings_may_be_changed_until_the_run_begins_and_are_checked_then() -> None:
    config: Any = RunConfig()
    config.tool_not_found_behavior = "return_error_to_model"
    assert (await Runner.run(agent_with(call("fly"), "Done."), "go", run_config=config)).final_output == "Done."
    config.workflow_name = 3
    with pytest.raises(InvalidDefinition, match="workflow_name"):
        await Runner.run(agent_with("hi"), "go", run_config=config)


async def test_a_provider_is_asked_for_the_model_also_without_a_name() -> None:
    class Provider:
        def get_model(self, name: str | None) -> Any:
            return ScriptedModel([f"I am {name}."])

    config = RunConfig(model_provider=Provider())
    assert (await Runner.run(Agent("agent"), "go", run_config=config)).final_output == "I am None."
    assert (await Runner.run(Agent("agent", model="x"), "go", run_config=config)).final_output == "I am x."
    config = RunConfig(model="y", model_provider=Provider())
    assert (await Runner.run(Agent("agent", model="x"), "go", run_config=config)).final_output == "I am y."
    with pytest.raises(InvalidDefinition):
        RunConfig(model=3)  # type: ignore[arg-type]


async def test_settings_may_be_a_dict() -> None:
    config = {"tool_not_found_behavior": "return_error_to_model"}
    result = await Runner.run(agent_with(call("fly"), "Done."), "go", run_config=config)
    assert result.final_output == "Done."
    with pytest.raises(InvalidDefinition, match="RunConfig or a dict"):
        await Runner.run(agent_with("hi"), "go", run_config=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "refused",
    [{"reasoning_item_id_policy": "omit"}, {"sandbox": object()}, {"output_guardrail_blocked_message": "No."}],
)
def test_settings_that_assentry_does_not_have_are_refused(refused: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match="RunConfig: "):
        RunConfig(**refused)


async def test_a_stream_has_only_the_events_of_the_sdk_unless_asked_for_all() -> None:
    steps = [{"type": "something_new", "id": "s"}, call("send", {"to": "ann"})]
    plain = [event async for event in Runner.run_streamed(agent_with(steps), "go").stream_events()]
    every = [event async for event in Runner.run_streamed(agent_with(steps), "go").stream_events(all_events=True)]
    named = [getattr(event, "name", event.type) for event in plain if event.type != "raw_response_event"]
    assert named == ["agent_updated_stream_event", "tool_called"]
    assert {event.type for event in every} - {event.type for event in plain} == {"approval_requested"}
    assert "other_item_created" in [getattr(event, "name", None) for event in every]


async def test_a_reader_that_leaves_a_stream_stops_the_run() -> None:
    agent = agent_with(call("look", {"place": "there"}), "Done.")
    result = Runner.run_streamed(agent, "go")
    events = result.stream_events()
    async for _ in events:
        break
    await events.aclose()  # type: ignore[attr-defined]
    assert result.is_complete and result.final_output is None
    assert result.run_loop_exception is None


def drop_looks(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history=(user(str(data.input_history)), user("mind the step")), pre_handoff_items=())


async def test_the_input_list_is_as_a_filter_left_it() -> None:
    other = Agent("other", model=ScriptedModel(["Done."]))
    steps = (call("look", {"place": "there"}), call("transfer_to_other"))
    agent = agent_with(*steps, handoffs=[handoff(other, input_filter=drop_looks)])
    result = await Runner.run(agent, "go")
    assert result.input == [user("go"), user("mind the step")]
    over = ["transfer_to_other", '{"assistant": "other"}']
    assert spoken(result.to_input_list()) == ["go", "mind the step", "look", "nothing in there", *over]
    assert spoken(result.to_input_list(mode="normalized")) == ["go", "mind the step", *over]
    state = await RunState.from_string(agent, result.to_state().to_string())
    assert spoken(state._view().filtered_list(as_heard=False)[1])[:2] == ["look", "nothing in there"]
    with pytest.raises(UsageError, match="preserve_all"):
        result.to_input_list(mode="all")  # type: ignore[arg-type]


async def test_a_filter_of_the_first_turn_may_drop_the_handoff_itself() -> None:
    other = Agent("other", model=ScriptedModel(["Done."]))
    alone = handoff(other, input_filter=lambda data: data.clone(input_history="alone", new_items=()))
    result = await Runner.run(agent_with(call("transfer_to_other"), handoffs=[alone]), "go")
    assert spoken(result.to_input_list()) == ["alone"]


async def test_the_input_of_a_run_without_filters_is_what_was_given() -> None:
    assert (await Runner.run(agent_with("hi"), "go")).input == "go"
    assert (await Runner.run(agent_with("hi"), [user("go")])).input == [user("go")]


async def test_the_input_of_a_run_with_a_session_has_the_history() -> None:
    session = assentry.SQLiteSession("s")
    await Runner.run(agent_with("one"), "go", session=session)
    result = await Runner.run(agent_with("two"), "again", session=session)
    assert [item.get("role") for item in result.input] == ["user", "assistant", "user"]  # type: ignore[union-attr]
    assert [item.get("role") for item in result.to_input_list()] == ["user", "assistant", "user", "assistant"]


async def test_usage_has_the_single_requests_and_the_kinds_of_tokens() -> None:
    seen: list[Any] = []

    @assentry.function_tool
    async def count(ctx: assentry.ToolContext[Any]) -> str:
        """Count."""
        seen.append(ctx.usage)
        return "counted"

    inner = Agent("inner", model=ScriptedModel(["in"]))
    steps = (call("count"), call("inner", {"input": "x"}), "Done.")
    agent = Agent("agent", tools=[count, inner.as_tool()], model=ScriptedModel(steps))
    result = await Runner.run(agent, "go")
    usage = result.context_wrapper.usage
    assert isinstance(usage, Usage)
    assert (usage.requests, usage.total_tokens, len(usage.request_usage_entries)) == (4, 60, 4)
    assert [entry.total_tokens for entry in seen[0].request_usage_entries] == [15]
    assert (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens) == (0, 0)
    assert isinstance(result.raw_responses[0].usage, Usage)
    assert result.raw_responses[0].usage.total_tokens == 15


def test_usages_add_up() -> None:
    one = Usage(
        requests=1, input_tokens=3, output_tokens=4, input_tokens_details=Usage(cached_tokens=2).input_tokens_details
    )
    both = Usage()
    both.add(one)
    both.add(assentry.Usage(1, 5, 6, 1, 2))
    both.add(Usage(requests=1))
    assert (both.requests, both.total_tokens) == (3, 18)
    assert (both.input_tokens_details.cached_tokens, both.output_tokens_details.reasoning_tokens) == (3, 2)
    assert [each.total_tokens for each in both.request_usage_entries] == [7, 11]
    assert both.numbers() == (3, 8, 10, 3, 2)


async def test_a_nested_result_says_which_call_it_serves() -> None:
    seen: list[Any] = []

    def extract(result: Any) -> str:
        seen.append(result)
        return "out"

    inner = Agent("inner", model=ScriptedModel(["in"]))
    tool = inner.as_tool(custom_output_extractor=extract)
    agent = Agent("agent", tools=[tool], model=ScriptedModel([call("inner", {"input": "x"}), "Done."]))
    result = await Runner.run(agent, "go")
    assert type(seen[0]) is RunResult
    assert result.agent_tool_invocation is None
    asked = seen[0].agent_tool_invocation
    assert (asked.tool_name, asked.tool_arguments) == ("inner", '{"input": "x"}')
