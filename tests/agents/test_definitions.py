"""Agents, tools, handoffs, hooks and guardrails of the skin: what programs of the SDK expect of them."""

from __future__ import annotations

import asyncio
import importlib
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel, Field

from assentry import RunConfig, RunState
from assentry import Runner as OwnRunner
from assentry.agents.absent import NotInAssentry
from assentry.agents.agent import Agent, ToolsToFinalOutputResult
from assentry.agents.agent_output import AgentOutputSchema
from assentry.agents.agent_tool_input import STRUCTURED_INPUT_PREAMBLE
from assentry.agents.apply_diff import apply_diff
from assentry.agents.exceptions import ToolTimeoutError, UserError
from assentry.agents.extensions import ToolOutputTrimmer
from assentry.agents.extensions.handoff_filters import remove_all_tools
from assentry.agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX, prompt_with_handoff_instructions
from assentry.agents.handoffs import (
    Handoff,
    get_conversation_history_wrappers,
    handoff,
    nest_handoff_history,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)
from assentry.agents.lifecycle import AgentHooks, AgentHooksBase, RunHooks
from assentry.agents.repl import run_demo_loop
from assentry.agents.run_context import RunContextWrapper
from assentry.agents.tool import ApplyPatchTool, FileSearchTool, FunctionTool, ShellTool, function_tool
from assentry.agents.tool_context import ToolContext
from assentry.agents.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    tool_input_guardrail,
)
from assentry.definitions.model_input import CallModelData, ModelInputData
from assentry.errors import AssentryError, DefinitionChanged, InvalidDefinition, UsageError
from assentry.testing import ScriptedModel, call
from tests.runtime.test_servers import Server


class Trip(BaseModel):
    city: str = Field(description="The city to go to.")
    days: int = 3


def travel(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent(name="Travel", model=ScriptedModel(steps), **options)


def heard(agent: Agent[Any], request: int = -1) -> list[dict[str, Any]]:
    model: Any = agent.model
    return list(model.requests[request].input)


def book(**options: Any) -> tuple[FunctionTool, list[str]]:
    """A tool of a JSON schema, and what its function was given."""
    given: list[str] = []

    async def invoke(ctx: ToolContext[Any], text: str) -> str:
        given.append(text)
        return f"{ctx.tool_name}: {Trip.model_validate_json(text).city}"

    return FunctionTool("book", "Book a trip.", Trip.model_json_schema(), invoke, **options), given


# -- tools of a JSON schema -----------------------------------------------------------------------


async def test_a_tool_can_be_replaced_by_one_with_other_fields() -> None:
    tool, given = book(timeout_seconds=3.0, timeout_behavior="raise_exception")
    others: list[str] = []

    async def other(ctx: ToolContext[Any], text: str) -> str:
        others.append(text)
        return "other"

    named = replace(tool, name="trip")
    assert (named.name, named.timeout_seconds, named.timeout_behavior) == ("trip", 3.0, "raise_exception")
    assert replace(tool, timeout_seconds=5.0).timeout_seconds == 5.0

    made = replace(tool, on_invoke_tool=other)
    await OwnRunner.run(travel(call("book", {"city": "Rome"}), "done", tools=[made]), "go")
    assert (given, others) == ([], ['{"city": "Rome", "days": 3}'])

    number = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    made = replace(tool, on_invoke_tool=other, params_json_schema=number, strict_json_schema=False)
    calls = [[call("book", {"city": "Rome"}), call("book", {"number": 1})], "done"]
    await OwnRunner.run(travel(*calls, tools=[made]), "go")
    assert others[1:] == ['{"number": 1}']


async def test_a_tool_of_a_function_can_be_replaced_by_one_with_another_body() -> None:
    ran: list[str] = []

    @function_tool
    def work(x: int) -> str:
        ran.append("first")
        return "first"

    async def other(ctx: ToolContext[Any], text: str) -> str:
        ran.append(text)
        return "other"

    made = replace(work, on_invoke_tool=other)
    await OwnRunner.run(travel(call("work", {"x": 1}), "done", tools=[made]), "go")
    assert ran == ['{"x": 1}']
    with pytest.raises(UsageError, match="its schema is that of its function"):
        replace(work, params_json_schema={"type": "object", "properties": {}})


async def test_a_tool_of_a_json_schema_gets_the_context_and_the_arguments_as_text() -> None:
    tool, given = book()
    agent = travel(call("book", {"city": "Rome"}), "done", tools=[tool])
    result = await OwnRunner.run(agent, "go")
    assert [json.loads(text) for text in given] == [{"city": "Rome", "days": 3}]
    assert heard(agent)[-1]["output"] == "book: Rome"
    assert result.final_output == "done"


async def test_arguments_that_do_not_fit_the_json_schema_never_reach_the_function() -> None:
    tool, given = book()
    agent = travel(call("book", {"town": "Rome"}), call("book", {"city": 5}), "done", tools=[tool])
    await OwnRunner.run(agent, "go")
    assert given == []


def test_the_model_is_offered_the_json_schema_in_strict_form() -> None:
    tool, _ = book()
    assert tool.spec.strict and tool.spec.parameters["required"] == ["city", "days"]
    assert tool.spec.parameters["additionalProperties"] is False
    loose, _ = book(strict_json_schema=False)
    assert loose.spec.parameters == {**Trip.model_json_schema()}


async def test_a_person_is_asked_about_a_tool_of_a_json_schema_and_may_edit_it_in_another_process() -> None:
    tool, given = book(needs_approval=True)
    agent = travel(call("book", {"city": "Rome"}), "done", tools=[tool])
    result = await OwnRunner.run(agent, "go")
    state = await RunState.from_string(agent, result.to_state().to_string())
    [item] = state.get_interruptions()
    with pytest.raises(AssentryError, match="days"):
        state.edit(item, {"city": "Oslo", "days": "many"})
    state.edit(item, {"city": "Oslo", "days": 1})
    await OwnRunner.run(agent, state)
    assert [json.loads(text) for text in given] == [{"city": "Oslo", "days": 1}]


@pytest.mark.parametrize("schema", [None, "text", {"type": object}])
def test_what_is_no_json_schema_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidDefinition, match="params_json_schema must be a JSON schema"):
        FunctionTool("t", "", schema, lambda ctx, text: text)


async def test_an_exception_of_such_a_function_reaches_the_program() -> None:
    async def fail(ctx: Any, text: str) -> str:
        raise OSError("down")

    agent = travel(call("t"), "done", tools=[FunctionTool("t", "", {}, fail)])
    with pytest.raises(OSError, match="down"):
        await OwnRunner.run(agent, "go")


# -- assigning fields -----------------------------------------------------------------------------


def work(x: int) -> str:
    """Work.
    Args:
        x: The amount.
    """
    return f"worked {x}"


async def test_a_field_that_is_assigned_is_offered_judged_and_fingerprinted() -> None:
    tool = function_tool(work)
    agent = travel(call("work", {"x": 1}), "done", tools=[tool])
    before = tool.fingerprint
    tool.needs_approval = True
    tool.description = "Work hard."
    assert tool.fingerprint == function_tool(work, description_override="Work hard.", needs_approval=True).fingerprint
    assert tool.fingerprint != before
    result = await OwnRunner.run(agent, "go")
    assert [item.tool_name for item in result.interruptions] == ["work"]
    model: Any = agent.model
    assert [spec.description for spec in model.requests[0].tools] == ["Work hard."]


async def test_a_tool_can_be_disabled_after_the_agent_was_made() -> None:
    tool = function_tool(work)
    agent = travel("done", tools=[tool])
    tool.is_enabled = False
    await OwnRunner.run(agent, "go")
    model: Any = agent.model
    assert not model.requests[0].tools


@pytest.mark.parametrize(("field", "value"), [("needs_approval", False), ("description", "x"), ("is_enabled", False)])
async def test_nothing_is_assigned_once_a_run_has_used_the_tool(field: str, value: Any) -> None:
    tool = function_tool(work, needs_approval=True)
    agent = travel(call("work", {"x": 1}), "done", tools=[tool])
    result = await OwnRunner.run(agent, "go")
    before = tool.fingerprint
    with pytest.raises(UsageError, match=f"{field} cannot be assigned any more"):
        setattr(tool, field, value)
    assert tool.fingerprint == before
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert (await OwnRunner.run(agent, state)).final_output == "done"


async def test_an_approval_is_not_for_a_tool_that_was_assigned_another_definition() -> None:
    asked = travel(call("work", {"x": 1}), tools=[function_tool(work, needs_approval=True)])
    saved = (await OwnRunner.run(asked, "go")).to_state()
    saved.approve(saved.get_interruptions()[0])
    tool = function_tool(work)
    tool.needs_approval = True
    tool.description = "Something else."
    with pytest.raises(DefinitionChanged):
        await RunState.from_string(travel("done", tools=[tool]), saved.to_string())


def test_a_value_that_does_not_fit_leaves_the_tool_as_it_was() -> None:
    tool = function_tool(work)
    before = dict(tool.__dict__)
    for field, value in (("needs_approval", "yes"), ("is_enabled", 3), ("timeout_seconds", 5), ("nmae", "x")):
        with pytest.raises(AssentryError):
            setattr(tool, field, value)
    assert tool.__dict__ == before


async def test_another_function_can_be_put_in_the_place_of_a_tool_s_own() -> None:
    tool = function_tool(work)
    before = tool.on_invoke_tool

    async def logged(ctx: Any, text: str) -> str:
        return f"logged: {await before(ctx, text)}"

    tool.on_invoke_tool = logged
    agent = travel(call("work", {"x": 2}), "done", tools=[tool])
    await OwnRunner.run(agent, "go")
    assert heard(agent)[-1]["output"] == "logged: worked 2"


# -- calls that a program makes itself --------------------------------------------------------------


async def test_a_program_calls_a_tool_through_its_rule_guardrails_and_schema() -> None:
    @tool_input_guardrail
    def small(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        big = json.loads(data.context.arguments)["x"] > 5
        return ToolGuardrailFunctionOutput.reject_content("too much") if big else ToolGuardrailFunctionOutput.allow()

    tool = function_tool(work, tool_input_guardrails=[small])
    ctx = ToolContext("shop", tool_name="work", tool_call_id="c1", tool_arguments='{"x": 1}')
    assert await tool.on_invoke_tool(ctx, '{"x": 1}') == "worked 1"
    assert await tool.on_invoke_tool(ctx, '{"x": 9}') == "too much"
    assert "worked" not in await tool.on_invoke_tool(ctx, '{"y": 1}')


@pytest.mark.parametrize("rule", [True, lambda ctx, args, call_id: args["x"] > 0])
async def test_a_call_that_needs_a_person_is_refused_to_a_program(rule: Any) -> None:
    tool = function_tool(work, needs_approval=rule)
    with pytest.raises(UsageError, match="needs a person"):
        await tool.on_invoke_tool(ToolContext(None), '{"x": 1}')


# -- function_tool ----------------------------------------------------------------------------------


def test_options_that_assentry_does_not_have_are_named_with_what_to_do() -> None:
    for option, value in (("defer_loading", True), ("allowed_callers", ["programmatic"]), ("output_type", int)):
        with pytest.raises(UsageError, match=f"{option} is not in Assentry"):
            function_tool(work, **{option: value})
    with pytest.raises(UsageError, match="did you mean 'timeout'"):
        function_tool(work, timeuot=3)
    assert function_tool(work, defer_loading=False, allowed_callers=None).name == "work"


def test_a_docstring_without_a_blank_line_describes_the_parameters() -> None:
    tool = function_tool(work, docstring_style="google")
    assert tool.params_json_schema["properties"]["x"]["description"] == "The amount."
    assert tool.description == "Work."


async def test_a_tool_s_failure_is_told_without_its_details() -> None:
    @function_tool
    def fail() -> str:
        raise OSError("the password is 1234")

    agent = travel(call("fail"), "done", tools=[fail])
    await OwnRunner.run(agent, "go")
    assert "1234" not in str(heard(agent)[-1])


async def test_the_model_gets_the_text_of_an_object_and_the_program_the_object() -> None:
    @function_tool
    def plan() -> Trip:
        return Trip(city="Rome")

    agent = travel(call("plan"), "done", tools=[plan])
    result = await OwnRunner.run(agent, "go")
    assert heard(agent)[-1]["output"] == "city='Rome' days=3"
    assert result.new_items[1].output == Trip(city="Rome")  # type: ignore[attr-defined]


async def test_a_timeout_is_told_worded_or_raised_as_the_program_says() -> None:
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    options: dict[str, Any] = {"timeout": 0.001, "failure_error_function": None}
    told = travel(call("hang"), "done", tools=[function_tool(hang, **options)])
    await OwnRunner.run(told, "go")
    assert heard(told)[-1]["output"] == "Tool 'hang' timed out after 0.001 seconds."
    worded = function_tool(hang, timeout_error_function=lambda ctx, error: f"late: {error.timeout_seconds}", **options)
    asked = travel(call("hang"), "done", tools=[worded])
    await OwnRunner.run(asked, "go")
    assert heard(asked)[-1]["output"] == "late: 0.001"
    raising = travel(call("hang"), tools=[function_tool(hang, timeout_behavior="raise_exception", **options)])
    with pytest.raises(ToolTimeoutError) as caught:
        await OwnRunner.run(raising, "go")
    assert (caught.value.tool_name, caught.value.timeout_seconds) == ("hang", 0.001)


# -- agents -----------------------------------------------------------------------------------------


async def test_a_function_decides_with_the_tools_and_their_outputs() -> None:
    seen: list[Any] = []

    def decide(ctx: Any, results: Any) -> ToolsToFinalOutputResult:
        seen.extend((each.tool, each.output, each.run_item.type) for each in results)
        return ToolsToFinalOutputResult(True, results[0].output)

    tool = function_tool(work)
    result = await OwnRunner.run(travel(call("work", {"x": 1}), tools=[tool], tool_use_behavior=decide), "go")
    assert seen == [(tool, "worked 1", "tool_call_output_item")]
    assert result.final_output == "worked 1"


async def test_the_first_output_ends_the_run_also_if_a_guardrail_stands_in_its_place() -> None:
    @tool_input_guardrail
    def closed(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("closed")

    tool = function_tool(work, tool_input_guardrails=[closed])
    agent = travel(call("work", {"x": 1}), tools=[tool], tool_use_behavior="stop_on_first_tool")
    result = await OwnRunner.run(agent, "go")
    assert result.final_output == "closed"
    loaded = await RunState.from_string(agent, result.to_state().to_string())
    assert loaded.to_json() == result.to_state().to_json()


async def test_a_final_output_of_a_tool_is_text_unless_the_agent_has_a_type() -> None:
    @function_tool
    def plan() -> Trip:
        return Trip(city="Rome")

    stop: Any = {"stop_at_tool_names": ["plan"]}
    result = await OwnRunner.run(travel(call("plan"), tools=[plan], tool_use_behavior=stop), "go")
    assert result.final_output == "city='Rome' days=3"
    typed = await OwnRunner.run(travel(call("plan"), tools=[plan], tool_use_behavior=stop, output_type=Trip), "go")
    assert typed.final_output == Trip(city="Rome")


async def test_lists_are_shared_with_the_program_and_with_clones() -> None:
    tools: list[Any] = []
    agent = travel("done", tools=tools)
    clone = agent.clone(name="Other", instructions="Be short.")
    tools.append(function_tool(work))
    assert agent.tools is tools and clone.tools is tools
    assert (clone.name, clone.instructions, type(clone)) == ("Other", "Be short.", Agent)
    with pytest.raises(UsageError, match="did you mean 'instructions'"):
        agent.clone(instrutcions="x")


async def test_an_agent_tells_its_prompts_and_the_tools_that_are_enabled() -> None:
    async def told(ctx: Any, agent: Any) -> str:
        return f"{agent.name} for {ctx.context}"

    off, on = function_tool(work, is_enabled=lambda ctx, agent: False), function_tool(work, name_override="on")
    agent = travel(instructions=told, tools=[off, on], prompt=lambda data: {"id": f"for {data.context.context}"})
    ctx = RunContextWrapper("Ann")
    assert await agent.get_system_prompt(ctx) == "Travel for Ann"
    assert await agent.get_prompt(ctx) == {"id": "for Ann"}
    assert await agent.get_all_tools(ctx) == [on]


async def test_settings_for_mcp_tools_change_the_offer_and_not_what_people_agree_to() -> None:
    server = Server()
    server.rule = True
    words: list[str] = []
    config: Any = {"convert_schemas_to_strict": True, "failure_error_function": lambda ctx, error: words.append("no")}
    agent = travel(call("write", {"path": "a"}), "done", mcp_servers=[server], mcp_config=config)
    result = await OwnRunner.run(agent, "go")
    model: Any = agent.model
    [spec] = model.requests[0].tools
    assert spec.strict and spec.parameters["required"] == ["path"]
    async with server.kept_open():
        [tool] = await agent.get_mcp_tools(RunContextWrapper(None))
    assert tool.failure_error_function is config["failure_error_function"]
    assert tool.fingerprint == server.tools[0].fingerprint
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert (await OwnRunner.run(agent, state)).final_output == "done"
    assert server.ran == [{"path": "a"}]


@pytest.mark.parametrize(
    "config", ["strict", {"convert_schemas_to_strict": 1}, {"strcit": True}, {"include_server_in_tool_names": 5}]
)
def test_settings_for_mcp_tools_that_are_none_are_refused(config: Any) -> None:
    with pytest.raises(AssentryError, match="mcp_config"):
        travel(mcp_config=config)


# -- agents as tools ---------------------------------------------------------------------------------


async def structured(**options: Any) -> Any:
    inner = travel("inner")
    outer = travel(call("ask", {"days": 2, "city": "Rome"}), "done", tools=[inner.as_tool("ask", "Ask.", **options)])
    await OwnRunner.run(outer, "go")
    return heard(inner)[0]["content"]


async def test_a_structured_agent_tool_says_what_its_input_is() -> None:
    said = await structured(parameters=Trip)
    assert said.startswith(STRUCTURED_INPUT_PREAMBLE)
    assert '{\n  "city": "Rome",\n  "days": 2\n}' in said
    assert "- city (string, required) - The city to go to." in said
    assert "## Input JSON Schema:" in await structured(parameters=Trip, include_input_schema=True)


async def test_an_input_builder_gets_arguments_summary_and_schema() -> None:
    seen: list[Any] = []

    async def build(options: Any) -> str:
        seen.append(options)
        return f"Go to {options['params']['city']}."

    assert await structured(parameters=Trip, input_builder=build) == "Go to Rome."
    [options] = seen
    assert options["json_schema"] is None and options["summary"].startswith("- city")


async def test_parameters_without_descriptions_are_given_as_json_alone() -> None:
    class Bare(BaseModel):
        city: str
        days: int

    assert await structured(parameters=Bare) == '{"city": "Rome", "days": 2}'


@pytest.mark.parametrize("option", ["run_config", "hooks", "session", "previous_response_id", "conversation_id"])
def test_options_of_a_nested_run_that_cannot_be_are_refused_in_one_sentence(option: str) -> None:
    with pytest.raises(UsageError, match=f"as_tool has no {option}: "):
        travel().as_tool("ask", "Ask.", **{option: "given"})


async def test_events_of_a_nested_run_come_with_the_call_as_the_client_s_object() -> None:
    seen: list[Any] = []
    inner = travel("inner")
    tool = inner.as_tool("ask", "Ask.", on_stream=seen.append)
    await OwnRunner.run(travel(call("ask", {"input": "hello"}, "c1"), "done", tools=[tool]), "go")
    assert {each["event"].type for each in seen} == {
        "agent_updated_stream_event",
        "raw_response_event",
        "run_item_stream_event",
    }
    assert {(each["agent"], each["tool_call"].call_id, each["tool_call"].name) for each in seen} == {
        (inner, "c1", "ask")
    }


# -- handoffs ---------------------------------------------------------------------------------------


def test_a_handoff_has_the_names_of_the_sdk() -> None:
    to = handoff(Agent(name="Billing Desk", handoff_description="Bills."))
    assert isinstance(to, Handoff)
    assert (to.tool_name, to.agent_name) == ("transfer_to_billing_desk", "Billing Desk")
    assert "Bills." in to.tool_description and to.input_json_schema["properties"] == {}
    to.tool_name = "bills"
    assert to.spec.name == "bills"
    with pytest.raises(UsageError, match=r"made with handoff\(agent"):
        Handoff(tool_name="x", tool_description="", input_json_schema={}, agent_name="x")


async def test_hooks_of_an_agent_are_told_when_it_hands_over() -> None:
    told: list[str] = []

    class Log(AgentHooks[Any]):
        async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
            told.append(f"{source.name} to {agent.name}")

    class RunLog(RunHooks[Any]):
        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            told.append(f"run: {from_agent.name} to {to_agent.name}")

    assert issubclass(AgentHooks, AgentHooksBase)
    other = Agent(name="Other", model=ScriptedModel(["bye"]))
    await OwnRunner.run(travel(call("transfer_to_other"), handoffs=[other], hooks=Log()), "go", hooks=RunLog())
    assert told == ["run: Travel to Other", "Travel to Other"]
    told.clear()
    other = Agent(name="Other", model=ScriptedModel(["bye"]), hooks=Log())
    await OwnRunner.run(travel(call("transfer_to_other"), handoffs=[other]), "go")
    assert told == []


async def nested(**options: Any) -> Any:
    last = Agent(name="Last", model=ScriptedModel(["bye"]))
    other = Agent(name="Other", model=ScriptedModel([call("transfer_to_last")]), handoffs=[handoff(last, **options)])
    first = travel(call("work", {"x": 1}), call("transfer_to_other"), tools=[function_tool(work)])
    first.handoffs.append(handoff(other, **options))
    await OwnRunner.run(first, "go\nnow")
    return heard(last)


async def test_a_nested_history_is_one_message_that_is_never_nested_again() -> None:
    [message] = await nested(nest_handoff_history=True)
    lines = message["content"].split("\n")
    assert message["role"] == "assistant"
    assert (lines[1], lines[-1]) == ("<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>")
    assert lines[2] == '1. {"role": "user", "content": "go\\nnow"}'
    assert [line.partition(".")[0] for line in lines[2:-1]] == [str(n) for n in range(1, len(lines) - 2)]
    assert sum("transfer_to_other" in line for line in lines) == 1


async def test_a_filter_takes_the_place_of_a_nested_history() -> None:
    history = await nested(nest_handoff_history=True, input_filter=remove_all_tools)
    assert history == [{"role": "user", "content": "go\nnow"}]


async def test_markers_and_mapper_of_a_nested_history_can_be_chosen() -> None:
    set_conversation_history_wrappers(start="[", end="]")
    try:
        assert get_conversation_history_wrappers() == ("[", "]")
        [message] = await nested(input_filter=nest_handoff_history)
        assert message["content"].split("\n")[1] == "[" and message["content"].endswith("\n]")
    finally:
        reset_conversation_history_wrappers()
    mapped = await nested(input_filter=lambda data: nest_handoff_history(data, history_mapper=lambda talk: talk[:1]))
    assert mapped == [{"role": "user", "content": "go\nnow"}]


async def test_a_filter_gets_a_text_as_it_was_given() -> None:
    seen: list[Any] = []

    def look(data: Any) -> Any:
        seen.append(data.input_history)
        return data

    for given in ("go", [{"role": "user", "content": "go"}]):
        other = Agent(name="Other", model=ScriptedModel(["bye"]))
        first = travel(call("transfer_to_other"), handoffs=[handoff(other, input_filter=look)])
        await OwnRunner.run(first, given)  # type: ignore[arg-type]
        assert heard(other)[0] == {"role": "user", "content": "go"}
    assert seen == ["go", ({"role": "user", "content": "go"},)]


def test_instructions_for_handoffs_come_before_the_agent_s_own() -> None:
    assert prompt_with_handoff_instructions("Be kind.").startswith(RECOMMENDED_PROMPT_PREFIX)
    assert "transfer_to_<agent_name>" in RECOMMENDED_PROMPT_PREFIX


# -- contexts, guardrails, outputs --------------------------------------------------------------------


async def test_a_body_sees_its_arguments_as_the_model_wrote_them_and_its_call_as_the_client_s_object() -> None:
    seen: list[Any] = []

    @function_tool
    def look(ctx: ToolContext[Any], b: int, a: int = 1) -> str:
        seen.extend((ctx, ctx.tool_arguments, ctx.tool_call.arguments, ctx.tool_call.call_id))
        return "ok"

    await OwnRunner.run(travel(call("look", '{"b" :  2}', "c7"), "done", tools=[look]), "go")
    assert isinstance(seen[0], ToolContext)
    assert seen[1:] == ['{"b" :  2}', '{"b" :  2}', "c7"]


def test_a_tool_guardrail_s_behavior_is_read_by_its_keys() -> None:
    made = ToolGuardrailFunctionOutput.reject_content("no", {"why": 1})
    assert (made.behavior["type"], made.behavior["message"]) == ("reject_content", "no")  # type: ignore[typeddict-item]
    assert ToolGuardrailFunctionOutput(None, {"type": "allow"}).behavior["type"] == "allow"
    assert ToolGuardrailFunctionOutput.raise_exception().behavior.get("type") == "raise_exception"
    with pytest.raises(AssentryError, match="behavior"):
        ToolGuardrailFunctionOutput(None, {"type": "maybe"})  # type: ignore[arg-type,typeddict-item]


async def test_results_of_tool_guardrails_are_read_by_their_keys_too() -> None:
    @tool_input_guardrail
    def closed(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("closed")

    agent = travel(call("work", {"x": 1}), "done", tools=[function_tool(work, tool_input_guardrails=[closed])])
    result = await OwnRunner.run(agent, "go")
    [found] = result.tool_input_guardrail_results
    output: Any = found.output
    assert (output.behavior["type"], output.behavior["message"]) == ("reject_content", "closed")


async def test_an_output_schema_has_the_methods_of_the_sdk() -> None:
    schema = AgentOutputSchema(Trip)
    assert (schema.name(), schema.is_plain_text(), schema.is_strict_json_schema()) == ("Trip", False, True)
    assert schema.json_schema()["required"] == ["city", "days"]
    assert schema.validate_json('{"city": "Rome", "days": 1}') == Trip(city="Rome", days=1)
    with pytest.raises(UsageError):
        AgentOutputSchema(str).json_schema()
    result = await OwnRunner.run(travel('{"city": "Rome", "days": 1}', output_type=schema), "go")
    assert result.final_output == Trip(city="Rome", days=1)


async def test_a_dataclass_is_wrapped_as_in_the_sdk_and_a_model_is_not() -> None:
    @dataclass
    class Score:
        points: int

    assert list(AgentOutputSchema(Score).json_schema()["properties"]) == ["response"]
    assert list(AgentOutputSchema(Trip).json_schema()["properties"]) == ["city", "days"]
    assert AgentOutputSchema(Score).validate_json('{"response": {"points": 3}}') == Score(3)
    result = await OwnRunner.run(travel('{"response": {"points": 3}}', output_type=Score), "go")
    assert result.final_output == Score(3)


async def test_an_output_type_without_a_strict_schema_is_refused_by_the_run_and_can_be_replaced_before() -> None:
    class Loose(BaseModel):
        jokes: dict[str, str]

    agent = travel('{"jokes": {"1": "ha"}}', output_type=Loose)
    with pytest.raises(UserError, match="strict_json_schema=False"):
        await OwnRunner.run(agent, "go")
    agent.output_type = AgentOutputSchema(Loose, strict_json_schema=False)
    assert (await OwnRunner.run(agent, "go")).final_output == Loose(jokes={"1": "ha"})


def test_a_file_search_takes_its_options_in_the_order_of_the_sdk() -> None:
    tool = FileSearchTool(["vs_1"], 3, True)
    assert tool.include == ("file_search_call.results",) and tool.config["max_num_results"] == 3


# -- shells and patches -------------------------------------------------------------------------------


async def test_nobody_is_asked_about_a_shell_unless_the_program_says_so() -> None:
    ran: list[Any] = []

    async def execute(request: Any) -> str:
        ran.append(request.data.action.commands)
        return "ok"

    shell = ShellTool(execute)
    await OwnRunner.run(travel(call("shell", {"commands": ["ls"]}), "done", tools=[shell]), "go")
    assert ran == [["ls"]]
    judged = ShellTool(executor=execute)
    judged.needs_approval = lambda ctx, action, call_id: action.commands == ["rm"]
    agent = travel(call("shell", {"commands": ["ls"]}), call("shell", {"commands": ["rm"]}), tools=[judged])
    result = await OwnRunner.run(agent, "go")
    assert [item.tool_name for item in result.interruptions] == ["shell"]
    assert ran == [["ls"], ["ls"]]


async def test_nobody_is_asked_about_a_patch_unless_the_program_says_so() -> None:
    made: list[str] = []

    class Editor:
        def create_file(self, operation: Any) -> str:
            made.append(operation.path)
            return "made"

        update_file = delete_file = create_file

    patch = {"patch": "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch"}
    await OwnRunner.run(travel(call("apply_patch", patch), "done", tools=[ApplyPatchTool(Editor())]), "go")
    asking = ApplyPatchTool(Editor(), needs_approval=lambda ctx, operation, call_id: operation.path == "a.txt")
    result = await OwnRunner.run(travel(call("apply_patch", patch), "done", tools=[asking]), "go")
    assert made == ["a.txt"] and len(result.interruptions) == 1


async def test_the_model_is_given_the_output_s_schema_under_the_sdk_s_name() -> None:
    agent = travel('{"city": "Rome", "days": 1}', output_type=Trip)
    await OwnRunner.run(agent, "go")
    model: Any = agent.model
    assert model.requests[0].output.name == "final_output"


@pytest.mark.parametrize(
    "module",
    ["computer", "realtime.testing", "sandbox", "voice", "extensions.visualization", "extensions.experimental.codex"],
)
def test_a_module_that_is_not_here_says_what_to_do(module: str) -> None:
    with pytest.raises(NotInAssentry, match=r"is not in Assentry\. .* See docs"):
        importlib.import_module(f"assentry.agents.{module}")


# -- extensions ---------------------------------------------------------------------------------------


async def test_long_outputs_of_earlier_turns_are_shortened_for_the_model_and_kept_whole() -> None:
    @function_tool
    def read(page: int) -> str:
        return "x" * 1000

    trim = ToolOutputTrimmer(recent_turns=1, max_output_chars=100, preview_chars=5)
    agent = travel(call("read", {"page": 1}), "one", call("read", {"page": 2}), "two", tools=[read])
    config = RunConfig(call_model_input_filter=trim)
    first = await OwnRunner.run(agent, "go", run_config=config)
    talk = [*first.to_input_list(), {"role": "user", "content": "on"}]
    result = await OwnRunner.run(agent, talk, run_config=config)
    outputs = [item["output"] for item in heard(agent) if item.get("type") == "function_call_output"]
    assert outputs[0].startswith("[Trimmed: read output — 1000 chars") and outputs[0].endswith("\nxxxxx...")
    assert outputs[1] == "x" * 1000
    assert [item["output"] for item in result.to_input_list() if "output" in item] == ["x" * 1000] * 2


async def test_only_the_outputs_of_named_tools_are_shortened() -> None:
    items = [
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "x" * 900},
        {"role": "user", "content": "go"},
    ]
    data = CallModelData(ModelInputData(items, None), travel(), None)
    assert ToolOutputTrimmer(recent_turns=1, trimmable_tools="b")(data).input == items
    assert ToolOutputTrimmer(recent_turns=1, trimmable_tools=["a"])(data).input != items
    assert ToolOutputTrimmer()(data).input == items
    with pytest.raises(InvalidDefinition, match="recent_turns"):
        ToolOutputTrimmer(recent_turns=0)


def test_a_new_file_has_no_last_line_end() -> None:
    assert apply_diff("", "+one\n+two", mode="create") == "one\ntwo"
    assert apply_diff("one\ntwo\n", "@@\n one\n-two\n+three\n") == "one\nthree\n"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_demo_loop_talks_asks_about_calls_and_ends(stream: bool, monkeypatch: Any, capsys: Any) -> None:
    said = iter(["hello", "y", "", "again", "EXIT"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(said))
    agent = travel(call("work", {"x": 1}), "Done.", "Bye.", tools=[function_tool(work, needs_approval=True)])
    await run_demo_loop(agent, stream=stream)
    printed = capsys.readouterr().out
    assert "Done." in printed and "Bye." in printed
    assert heard(agent)[-1] == {"role": "user", "content": "again"}
