"""Runs in traces: what processors written for the SDK hear of them, and what OpenTelemetry gets."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from opentelemetry import trace as telemetry
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from assentry import GuardrailFunctionOutput, RunState, function_tool, input_guardrail, output_guardrail
from assentry.agents import (
    Agent,
    RunConfig,
    Runner,
    add_trace_processor,
    custom_span,
    get_current_span,
    get_current_trace,
    set_trace_processors,
    set_tracing_disabled,
    trace,
)
from assentry.testing import ScriptedModel, call
from tests.agents.test_tracing import Heard, heard, memory, tree
from tests.runtime.support import python

__all__ = ["heard", "memory"]


@function_tool
def add(a: int, b: int) -> int:
    with custom_span("inner"):
        return a + b


@function_tool
def broken() -> int:
    raise ValueError("private words")


@function_tool(needs_approval=True, redact=["key"])
def danger(key: str) -> str:
    return f"done with {key}"


def agent(*steps: Any, name: str = "A", **options: Any) -> Agent[Any]:
    return Agent(name=name, model=ScriptedModel(steps), **options)


def check(tripped: bool = False) -> Any:
    return lambda ctx, agent, given: GuardrailFunctionOutput(output_info=None, tripwire_triggered=tripped)


def contents(heard: Heard, kind: str) -> list[dict[str, Any]]:
    return [span.span_data.export() for span in heard.spans if span.span_data.type == kind]


# -- the tree of spans -----------------------------------------------------------------------------------


async def test_a_run_belongs_to_the_trace_around_it(heard: Heard) -> None:
    with trace("Order"), custom_span("outer"):
        await Runner.run(agent(call("add", {"a": 1, "b": 2}), "Done.", tools=[add]), "Go.")
    assert heard.lines == [
        "+ Order",
        "  + custom outer",
        "    + task Agent workflow",
        "      + agent A",
        "        + turn 1",
        "          + generation scripted",
        "          - generation scripted",
        "          + function add",
        "            + custom inner",
        "            - custom inner",
        "          - function add",
        "        - turn 1",
        "        + turn 2",
        "          + generation scripted",
        "          - generation scripted",
        "        - turn 2",
        "      - agent A",
        "    - task Agent workflow",
        "  - custom outer",
        "- Order",
    ]


async def test_a_run_without_a_trace_has_one_of_its_own(heard: Heard) -> None:
    seen = []

    @function_tool
    def look() -> str:
        seen.append((get_current_trace(), get_current_span()))
        return ""

    config = RunConfig(workflow_name="Look", trace_id="trace_x", group_id="g", trace_metadata={"a": 1})
    await Runner.run(agent(call("look"), "Done.", tools=[look]), "Go.", run_config=config)
    assert heard.traces[0].export() == {
        "object": "trace",
        "id": "trace_x",
        "workflow_name": "Look",
        "group_id": "g",
        "metadata": {"a": 1},
    }
    assert seen[0][0] is heard.traces[0]
    assert seen[0][1].span_data.name == "look"
    assert heard.lines[0] == "+ Look"
    assert heard.lines[-1] == "- Look"
    assert get_current_trace() is None


async def test_a_streamed_run_shows_its_own_trace(heard: Heard) -> None:
    streamed = Runner.run_streamed(agent("Done."), "Go.")
    async for _ in streamed.stream_events():
        pass
    assert streamed.trace is heard.traces[0]


async def test_two_runs_at_once_keep_their_spans_apart(heard: Heard) -> None:
    with trace("Both"):
        await asyncio.gather(*(Runner.run(agent("Done.", name=name), "Go.") for name in ("A", "B")))
    tasks = [span for span in heard.spans if span.span_data.type == "task"]
    agents = {span.span_data.name: span.parent_id for span in heard.spans if span.span_data.type == "agent"}
    assert sorted(agents.values(), key=str) == sorted((span.span_id for span in tasks), key=str)
    assert [span.parent_id for span in tasks] == [None, None]
    assert heard.lines.count("+ Both") == 1


async def test_a_streamed_run_and_a_blocking_one_belong_to_the_trace(heard: Heard) -> None:
    with trace("Order"):
        streamed = Runner.run_streamed(agent("Done."), "Go.")
        async for _ in streamed.stream_events():
            pass
    assert streamed.trace is None
    await asyncio.to_thread(lambda: Runner.run_sync(agent("Done.", name="B"), "Go."))
    names = [span.span_data.name for span in heard.spans if span.span_data.type == "agent"]
    assert (names, [each.name for each in heard.traces]) == (["A", "B"], ["Order", "Agent workflow"])


async def test_handoffs_and_agents_as_tools_have_their_spans(heard: Heard) -> None:
    sub = agent("Sub says.", name="Sub")
    last = agent("Bye.", name="B", output_guardrails=[output_guardrail(check(), name="out")])
    first = agent(
        call("sub", {"input": "hi"}),
        call("transfer_to_b"),
        tools=[add, sub.as_tool("sub", "x")],
        handoffs=[last],
        input_guardrails=[input_guardrail(check(), name="in")],
    )
    await Runner.run(first, "Go.")
    assert [line for line in heard.lines if "+" in line] == [
        "+ Agent workflow",
        "  + task Agent workflow",
        "    + agent A",
        "      + turn 1",
        "        + guardrail in",
        "        + generation scripted",
        "        + function sub",
        "          + task Agent workflow",
        "            + agent Sub",
        "              + turn 1",
        "                + generation scripted",
        "      + turn 2",
        "        + generation scripted",
        "        + handoff",
        "    + agent B",
        "      + turn 3",
        "        + generation scripted",
        "      + guardrail out",
    ]
    assert contents(heard, "handoff") == [{"type": "handoff", "from_agent": "A", "to_agent": "B"}]
    assert contents(heard, "agent")[1] == {
        "type": "agent",
        "name": "A",
        "handoffs": ["B"],
        "tools": ["add", "sub"],
        "output_type": "str",
    }
    nested = next(each for each in contents(heard, "function") if each["name"] == "sub")
    assert (nested["input"], nested["output"]) == ('{"input": "hi"}', "Sub says.")


async def test_spans_of_runs_and_turns_can_be_left_out(heard: Heard) -> None:
    config = RunConfig(tracing={"include_task_and_turn_spans": False})
    await Runner.run(agent("Done."), "Go.", run_config=config)
    assert [line for line in heard.lines if "+" in line] == [
        "+ Agent workflow",
        "  + agent A",
        "    + generation scripted",
    ]


# -- what spans have ---------------------------------------------------------------------------------------


async def test_spans_have_what_was_said_and_used(heard: Heard) -> None:
    await Runner.run(agent(call("add", {"b": 2, "a": 1}), "Done.", tools=[add], instructions="Count."), "Go.")
    first, second = contents(heard, "generation")
    assert first["input"] == [{"role": "system", "content": "Count."}, {"role": "user", "content": "Go."}]
    assert first["output"][0]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"b": 2, "a": 1}'}
    assert second["output"] == [{"role": "assistant", "content": "Done."}]
    assert second["usage"]["input_tokens"] == 10
    assert second["model_config"]["temperature"] is None
    assert contents(heard, "function")[0] == {
        "type": "function",
        "name": "add",
        "input": '{"b": 2, "a": 1}',
        "output": "3",
        "mcp_data": None,
    }
    used = contents(heard, "task")[0]["data"]["usage"]
    assert (used["requests"], used["input_tokens"], used["cached_input_tokens"]) == (2, 20, 0)


async def test_contents_can_be_left_out(heard: Heard) -> None:
    config = RunConfig(trace_include_sensitive_data=False)
    await Runner.run(agent(call("broken"), "Done.", tools=[broken]), "Go.", run_config=config)
    assert [(each["input"], each["output"]) for each in contents(heard, "generation")] == [(None, None)] * 2
    assert (contents(heard, "function")[0]["input"], contents(heard, "function")[0]["output"]) == (None, None)
    assert "private words" not in str([span.export() for span in heard.spans])


def test_a_variable_leaves_contents_out() -> None:
    program = "from assentry.agents import RunConfig; print(RunConfig().trace_include_sensitive_data)"
    assert python(program).stdout == "True\n"
    setting = "import os; os.environ['OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA'] = 'no'; "
    assert python(setting + program).stdout == "False\n"


async def test_secret_arguments_are_in_no_span(heard: Heard) -> None:
    result = await Runner.run(agent(call("danger", {"key": "hidden-word"}), "Done.", tools=[danger]), "Go.")
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent("Done.", tools=[danger]), state)
    assert "hidden-word" not in str([span.export() for span in heard.spans])
    assert contents(heard, "function")[0]["input"] == '{"key":"[masked]"}'


@function_tool(needs_approval=True, redact=["key"], failure_error_function=None)
def breaks_with(key: str) -> str:
    raise ValueError(f"{key} is no key")


@function_tool(needs_approval=True, redact=["key"])
def repeats(key: str) -> str:
    return f"{key} it is"


async def test_a_resumed_run_hides_the_secrets_that_an_error_or_a_refusal_quotes(
    heard: Heard, memory: InMemorySpanExporter
) -> None:
    for tool, reply in ((breaks_with, "approve"), (breaks_with, "edit"), (danger, "reject")):
        result = await Runner.run(agent(call(tool.name, {"key": "hidden-word"}), tools=[tool]), "Go.")
        state = result.to_state()
        question = state.get_interruptions()[0]
        if reply == "reject":
            state.reject(question, rejection_message="hidden-word is old.")
        elif reply == "edit":
            state.edit(question, {"key": "hidden-word-2"})
        else:
            state.approve(question)
        with contextlib.suppress(ValueError):
            await Runner.run(agent("Done.", tools=[tool]), state)
    _assert_hidden("hidden-word", heard, memory)


async def test_the_secrets_that_a_person_gave_stay_hidden_in_later_drives(
    heard: Heard, memory: InMemorySpanExporter
) -> None:
    steps = [call("repeats", {"key": "a"}), call("repeats", {"key": "b"}), "hidden-word was said."]
    whose = agent(*steps, tools=[repeats])
    result = await Runner.run(whose, "Go.")
    for key in ("hidden-word", "other-word"):
        state = result.to_state()
        state.edit(state.get_interruptions()[0], {"key": key})
        result = await Runner.run(whose, state)
    assert result.final_output == "hidden-word was said."
    _assert_hidden("hidden-word", heard, memory)


def _assert_hidden(secret: str, heard: Heard, memory: InMemorySpanExporter) -> None:
    shown = str([span.export() for span in heard.spans]) + "".join(s.to_json() for s in memory.get_finished_spans())
    assert "[masked]" in shown
    assert secret not in shown


# -- errors --------------------------------------------------------------------------------------------------


async def test_errors_are_those_of_the_sdk(heard: Heard) -> None:
    await Runner.run(agent(call("broken"), "Done.", tools=[broken]), "Go.")
    failed = next(span for span in heard.spans if span.span_data.type == "function")
    assert failed.error is not None
    assert failed.error["message"] == "Error running tool (non-fatal)"
    assert failed.error["data"] is not None
    assert failed.error["data"]["tool_name"] == "broken"

    with pytest.raises(Exception, match="max_turns"):
        await Runner.run(agent(call("add", {"a": 1, "b": 2}), "x", tools=[add]), "Go.", max_turns=1)
    assert _last(heard, "agent").error == {"message": "Max turns exceeded", "data": {"max_turns": 1}}

    guarded = agent("x", input_guardrails=[input_guardrail(check(True), name="in")])
    with pytest.raises(Exception, match="in"):
        await Runner.run(guarded, "Go.")
    assert contents(heard, "guardrail")[-1]["triggered"] is True
    assert _last(heard, "turn").error == {"message": "Guardrail tripwire triggered", "data": {"guardrail": "in"}}

    with pytest.raises(ValueError, match="down"):
        await Runner.run(agent(ValueError("down")), "Go.")
    assert _last(heard, "generation").error == {"message": "Error getting response", "data": {"error": "down"}}
    assert _last(heard, "agent").error == {"message": "Error in agent run", "data": {"error": "down"}}


def _last(heard: Heard, kind: str) -> Any:
    return [span for span in heard.spans if span.span_data.type == kind][-1]


async def test_a_rejected_call_has_a_span_with_an_error(heard: Heard) -> None:
    result = await Runner.run(agent(call("danger", {"key": "k"}), tools=[danger]), "Go.")
    state = result.to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Not today.")
    await Runner.run(agent("Done.", tools=[danger]), state)
    span = _last(heard, "function")
    assert span.error["message"] == span.span_data.output == "Not today."


async def test_a_processor_that_breaks_leaves_the_run_alone(heard: Heard) -> None:
    class Broken(Heard):
        def on_span_start(self, span: Any) -> None:
            raise ValueError("no")

        on_span_end = on_trace_start = on_trace_end = on_span_start

    set_trace_processors([Broken()])
    result = await Runner.run(agent(call("add", {"a": 1, "b": 2}), "Done.", tools=[add]), "Go.")
    assert result.final_output == "Done."


# -- turned off, and resumed -------------------------------------------------------------------------------


async def test_nobody_hears_of_a_run_whose_tracing_is_off(heard: Heard, memory: InMemorySpanExporter) -> None:
    with trace("Order"), custom_span("outer"):
        config = RunConfig(tracing_disabled=True)
        await Runner.run(agent(call("add", {"a": 1, "b": 2}), "x", tools=[add]), "Go.", run_config=config)
    assert heard.lines == ["+ Order", "  + custom outer", "  - custom outer", "- Order"]
    set_tracing_disabled(True)
    await Runner.run(agent("Done."), "Go.")
    set_tracing_disabled(False)
    with trace("Off", disabled=True):
        await Runner.run(agent("Done."), "Go.")
    assert len(heard.lines) == 4
    assert tree(memory.get_finished_spans()) == ["Order", "  custom outer"]


async def test_a_resumed_run_stays_in_its_trace(heard: Heard) -> None:
    result = await Runner.run(agent(call("danger", {"key": "k"}), tools=[danger]), "Go.")
    later = agent("Done.", tools=[danger])
    state = await RunState.from_string(later, result.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    await Runner.run(later, state)
    assert [each.name for each in heard.traces] == ["Agent workflow"]  # it is not begun again
    assert len({span.trace_id for span in heard.spans}) == 1
    assert [line for line in heard.lines if "+" in line][-4:] == [
        "    + agent A",
        "      + function danger",
        "      + turn 2",
        "        + generation scripted",
    ]


async def test_without_processors_a_run_still_has_a_trace(heard: Heard) -> None:
    set_trace_processors([])
    seen = []

    @function_tool
    def look() -> str:
        seen.append(get_current_trace())
        return ""

    result = await Runner.run(agent(call("look"), "Done.", tools=[look]), "Go.")
    assert seen[0] is not None
    assert "trace" not in result.to_state().to_json()["journal"][0]
    add_trace_processor(heard)


# -- OpenTelemetry -------------------------------------------------------------------------------------------


async def test_a_run_in_a_trace_is_part_of_it_in_opentelemetry(heard: Heard, memory: InMemorySpanExporter) -> None:
    config = RunConfig(workflow_name="Count", group_id="g", trace_metadata={"a": 1})
    with trace("Order") as order:
        await Runner.run(agent(call("add", {"a": 1, "b": 2}), "x", tools=[add]), "Go.", run_config=config)
    spans = memory.get_finished_spans()
    assert tree(spans) == [
        "Order",
        "  invoke_workflow Count",
        "    invoke_agent A",
        "      chat scripted",
        "      execute_tool add",
        "        custom inner",
        "      chat scripted",
    ]
    assert {f"trace_{span.context.trace_id:032x}" for span in spans if span.context} == {order.trace_id}
    run = next(span for span in spans if span.name == "invoke_workflow Count")
    assert (run.attributes or {})["assentry.metadata.a"] == "1"
    assert (run.attributes or {})["gen_ai.conversation.id"] == "g"


async def test_a_runs_own_trace_has_the_id_of_opentelemetry(heard: Heard, memory: InMemorySpanExporter) -> None:
    await Runner.run(agent("Done."), "Go.")
    chosen = "0123456789abcdef" * 2
    await Runner.run(agent("Done."), "Go.", run_config=RunConfig(trace_id=f"trace_{chosen}"))
    with telemetry.get_tracer_provider().get_tracer("web").start_as_current_span("GET") as request:
        await Runner.run(agent("Done."), "Go.")
    roots = [span for span in memory.get_finished_spans() if span.name.startswith("invoke_workflow")]
    ids = [f"trace_{span.context.trace_id:032x}" for span in roots if span.context is not None]
    assert [each.trace_id for each in heard.traces] == ids
    assert ids[1] == f"trace_{chosen}"
    assert ids[2] == f"trace_{request.get_span_context().trace_id:032x}"


async def test_nothing_of_opentelemetry_is_loaded_by_a_run() -> None:
    program = (
        "import sys",
        "from assentry import Runner",
        "from assentry.agents import Agent",
        "from assentry.testing import ScriptedModel",
        "Runner.run_sync(Agent(name='A', model=ScriptedModel(['x'])), 'Go.')",
        "print([name for name in sys.modules if name.startswith('opentelemetry')])",
    )
    assert python("\n".join(program)).stdout == "[]\n"
