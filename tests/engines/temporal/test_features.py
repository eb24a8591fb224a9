"""Every feature of an agent, on Temporal as with `Runner.run`: the same facts, requests, notes and end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import (
    AgentHooks,
    Approve,
    Decision,
    Edit,
    GuardrailFunctionOutput,
    InputGuardrail,
    NotAsShown,
    OutputGuardrail,
    Preview,
    Reject,
    Respond,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
    tool_input_guardrail,
    tool_output_guardrail,
)
from assentry.definitions.model_input import ModelInputData
from assentry.testing import call

from .story import Log, Story, Tell, check_story, noting, scripted, send, told_by_temporal, verdicts
from .support import Server

pytestmark = pytest.mark.temporal

STORIES: dict[str, Tell] = {}


def story(tell: Tell) -> Tell:
    STORIES[tell.__name__] = tell
    return tell


# -- nested agents and handoffs ----------------------------------------------------------------------


@story
def an_agent_as_a_tool(log: Log) -> Story:
    clerk = scripted("Clerk", send("ann"), "Sent it.", tools=[noting(log, needs_approval=True)])
    return Story(scripted("Boss", call("clerk", {"input": "Write to Ann."}), "Done.", tools=[clerk.as_tool()]))


@story
def agents_two_levels_deep_beside_other_calls(log: Log) -> Story:
    typist = scripted("Typist", [send("ann"), send("bob")], "Typed.", tools=[noting(log, needs_approval=True)])
    clerk = scripted(
        "Clerk", [call("typist", {"input": "Type."}), send("cid")], "Sent.",
        tools=[typist.as_tool(needs_approval=True), noting(log)],
    )  # fmt: skip
    boss = scripted(
        "Boss", [call("clerk", {"input": "Write."}), send("dan"), send("eve")], "Done.",
        tools=[clerk.as_tool(), noting(log, needs_approval=lambda ctx, args, call_id: args["to"] == "eve")],
    )  # fmt: skip

    def decide(tool: str, arguments: Any) -> Decision:
        return Reject("Not Bob.") if arguments.get("to") == "bob" else Approve()

    return Story(boss, decide=decide, sorts=True)


@story
def an_agent_as_a_tool_that_fails(log: Log) -> Story:
    lost = scripted("Lost", send("ann"), send("bob"), tools=[noting(log)])
    boss = scripted("Boss", call("lost", {"input": "Go."}), "Done.", tools=[lost.as_tool(max_turns=1)])
    return Story(boss)


@story
def a_handoff_that_needs_approval_and_filters_the_history(log: Log) -> Story:
    def cut(data: Any) -> Any:
        log.append("filtered")
        return data.clone(input_history="Only this.", pre_handoff_items=(), new_items=())

    expert = scripted("Expert", send("ann"), "By the expert.", tools=[noting(log)])
    front = scripted(
        "Front", call("transfer_to_expert"), handoffs=[handoff(expert, needs_approval=True, input_filter=cut)]
    )
    return Story(front)


@story
def a_handoff_with_input_and_a_call_that_waits_beside_it(log: Log) -> Story:
    class Why(BaseModel):
        reason: str

    async def on_handoff(ctx: Any, given: Why) -> None:
        log.append(given.reason)

    expert = scripted("Expert", "By the expert.")
    front = scripted(
        "Front", [call("transfer_to_expert", {"reason": "hard"}), send("ann")],
        handoffs=[handoff(expert, on_handoff=on_handoff, input_type=Why)], tools=[noting(log, needs_approval=True)],
    )  # fmt: skip
    return Story(front)


# -- calls -------------------------------------------------------------------------------------------


@story
def parallel_calls_each_with_its_verdict(log: Log) -> Story:
    agent = scripted(
        "Shop", [send("ann"), send("bob"), send("cid"), send("dan")], "Done.",
        tools=[noting(log, needs_approval=True)],
    )  # fmt: skip
    people = verdicts(
        ann=Approve(), bob=Reject("No."), cid=Edit({"to": "cleo", "copies": 2}), dan=Respond("Dan knows.")
    )
    return Story(agent, decide=people, sorts=True)


@story
def calls_released_as_a_batch(log: Log) -> Story:
    agent = scripted(
        "Shop", [send("ann", "free"), send("bob"), send("cid")], "Done.",
        tools=[noting(log, needs_approval=True), noting(log, "free")],
    )  # fmt: skip
    return Story(agent, decide=verdicts(bob=Approve(), cid=Reject()), config=RunConfig(release="batch"), sorts=True)


@story
def one_body_at_a_time(log: Log) -> Story:
    running: list[str] = []

    @function_tool
    async def work(what: str) -> str:
        running.append(what)
        assert len(running) == 1
        await asyncio.sleep(0)
        running.remove(what)
        log.append(what)
        return what

    calls = [call("work", {"what": str(n)}) for n in range(3)]
    return Story(scripted("Shop", calls, "Done.", tools=[work]), config=RunConfig(max_parallel_tools=1), sorts=True)


@story
def a_body_that_fails(log: Log) -> Story:
    @function_tool
    async def fail() -> str:
        raise ValueError("no paper")

    return Story(scripted("Shop", call("fail"), "Done.", tools=[fail]))


@story
def a_body_that_is_too_slow(log: Log) -> Story:
    @function_tool(timeout=0.05)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    return Story(scripted("Shop", call("slow"), "Done.", tools=[slow]))


@story
def a_body_in_a_thread(log: Log) -> Story:
    @function_tool(needs_approval=True)
    def blocking(ctx: ToolContext[Any], to: str) -> str:
        log.append((to, ctx.tool_name, ctx.arguments))
        return to.upper()

    return Story(scripted("Shop", call("blocking", {"to": "ann"}), "Done.", tools=[blocking]))


@story
def calls_that_cannot_be_made(log: Log) -> Story:
    def words(args: Any) -> str:
        log.append((args.kind, args.tool_name, args.by))
        return f"No: {args.kind}"

    agent = scripted(
        "Shop", [call("nothing"), call("send", {"too": 1}), call("send", "{"), send("ann")], "Done.",
        tools=[noting(log, needs_approval=True)],
    )  # fmt: skip

    def decide(tool: str, arguments: Any) -> Decision:
        return Reject()

    return Story(agent, config=RunConfig(tool_error_formatter=words), decide=decide, sorts=True)


@story
def tools_that_come_and_go(log: Log) -> Story:
    def is_enabled(ctx: Any, agent: Any) -> bool:
        return bool(ctx.usage.requests > 0)

    agent = scripted(
        "Shop", send("ann", "first"), send("bob", "later"), "Done.",
        tools=[noting(log, "first"), noting(log, "later", is_enabled=is_enabled, needs_approval=True)],
    )  # fmt: skip
    return Story(agent)


@story
def secrets_are_masked(log: Log) -> Story:
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting(log, needs_approval=True, redact=["to"])])
    return Story(agent)


# -- outputs -----------------------------------------------------------------------------------------


class Offer(BaseModel):
    article: str
    euros: float


@story
def an_output_type(log: Log) -> Story:
    return Story(scripted("Shop", '{"article": "lamp", "euros": 20}', output_type=Offer))


@story
def an_output_that_needs_approval(log: Log) -> Story:
    def decide(tool: str, arguments: Any) -> Decision:
        log.append((tool, arguments))
        arguments = arguments["output"]
        return Approve() if arguments["euros"] < 20 else Reject("Too much.")

    agent = scripted(
        "Shop", '{"article": "lamp", "euros": 20}', '{"article": "lamp", "euros": 10}',
        output_type=Offer, output_needs_approval=True,
    )  # fmt: skip
    return Story(agent, decide=decide)


@story
def the_first_output_ends_the_run(log: Log) -> Story:
    return Story(
        scripted("Shop", send("ann"), tools=[noting(log, needs_approval=True)], tool_use_behavior="stop_on_first_tool")
    )


@story
def some_tools_end_the_run(log: Log) -> Story:
    agent = scripted(
        "Shop", send("ann"), send("bob", "last"),
        tools=[noting(log), noting(log, "last")], tool_use_behavior={"stop_at_tool_names": ["last"]},
    )  # fmt: skip
    return Story(agent)


@story
def a_function_ends_the_run(log: Log) -> Story:
    def finish(ctx: Any, results: Any) -> ToolsToFinalOutputResult:
        log.append([each.output for each in results])
        return ToolsToFinalOutputResult(is_final_output="bob" in str(results[0].output), final_output="Finished.")

    agent = scripted("Shop", send("ann"), send("bob"), tools=[noting(log)], tool_use_behavior=finish)
    return Story(agent)


# -- guardrails --------------------------------------------------------------------------------------


def guard(log: Log, name: str, trips: bool = False) -> Any:
    async def look(ctx: Any, agent: Any, value: Any) -> GuardrailFunctionOutput:
        log.append((name, str(value)))
        return GuardrailFunctionOutput(output_info={"by": name}, tripwire_triggered=trips)

    return look


@story
def guardrails_that_let_pass(log: Log) -> Story:
    agent = scripted(
        "Shop", send("ann"), "Done.", tools=[noting(log, needs_approval=True)],
        input_guardrails=[
            InputGuardrail(guard(log, "beside"), name="beside"),
            InputGuardrail(guard(log, "before"), name="before", run_in_parallel=False),
        ],
        output_guardrails=[OutputGuardrail(guard(log, "after"), name="after")],
    )  # fmt: skip
    return Story(agent, config=RunConfig(input_guardrails=[InputGuardrail(guard(log, "run"), name="run")]), sorts=True)


@story
def an_input_guardrail_that_blocks(log: Log) -> Story:
    agent = scripted(
        "Shop", "Never.",
        input_guardrails=[InputGuardrail(guard(log, "before", True), name="before", run_in_parallel=False)],
    )  # fmt: skip
    return Story(agent)


@story
def an_output_guardrail_that_blocks(log: Log) -> Story:
    agent = scripted(
        "Shop", send("ann"), "Secret.", tools=[noting(log)],
        output_guardrails=[OutputGuardrail(guard(log, "after", True), name="after")],
    )  # fmt: skip
    return Story(agent)


@story
def guardrails_of_tools(log: Log) -> Story:
    @tool_input_guardrail
    def no_bob(data: Any) -> ToolGuardrailFunctionOutput:
        log.append(("in", data.context.arguments))
        if "bob" in data.context.arguments:
            return ToolGuardrailFunctionOutput.reject_content("Not Bob.")
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def no_cid(data: Any) -> ToolGuardrailFunctionOutput:
        if "cid" in data.output:
            return ToolGuardrailFunctionOutput.reject_content("Hidden.")
        return ToolGuardrailFunctionOutput.allow()

    tool = noting(log, needs_approval=True, tool_input_guardrails=[no_bob], tool_output_guardrails=[no_cid])
    return Story(scripted("Shop", [send("ann"), send("bob"), send("cid")], "Done.", tools=[tool]), sorts=True)


@story
def a_guardrail_of_a_tool_that_ends_the_run(log: Log) -> Story:
    @tool_output_guardrail
    def stop(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception({"why": "leak"})

    return Story(scripted("Shop", send("ann"), "Never.", tools=[noting(log, tool_output_guardrails=[stop])]))


# -- rules, instructions, hooks ----------------------------------------------------------------------


@story
def rules_and_code_that_decides(log: Log) -> Story:
    async def rule(ctx: Any, args: dict[str, Any], call_id: str) -> bool:
        log.append(("rule", args["to"], ctx.context["limit"]))
        return args["copies"] > ctx.context["limit"]

    async def on_approval(ctx: Any, item: Any) -> Any:
        log.append(("decides", item.arguments))
        return {"approve": True} if "bob" in item.arguments else None

    tools = [noting(log, needs_approval=rule), noting(log, "post", needs_approval=True, on_approval=on_approval)]
    agent = scripted(
        "Shop", [send("ann"), send("ann", copies=5)], [send("bob", "post"), send("cid", "post")], "Done.",
        tools=tools,
    )  # fmt: skip
    return Story(agent, context={"limit": 3}, sorts=True)


@story
def instructions_that_are_code(log: Log) -> Story:
    async def instructions(ctx: RunContextWrapper[Any], agent: Any) -> str:
        return f"You are {agent.name}. {ctx.context['name']} has used {ctx.usage.requests} requests."

    return Story(
        scripted("Shop", send("ann"), "Done.", tools=[noting(log, needs_approval=True)], instructions=instructions),
        context={"name": "Ann"},
    )


class Noting(RunHooks[Any]):
    def __init__(self, log: Log) -> None:
        self.log = log

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.log.append(("agent_start", agent.name))

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.log.append(("agent_end", agent.name, output))

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.log.append(("handoff", from_agent.name, to_agent.name))

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.log.append(("tool_start", agent.name, tool.name, context.arguments))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.log.append(("tool_end", agent.name, tool.name, result))

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.log.append(("llm_start", agent.name, len(input_items)))

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.log.append(("llm_end", agent.name))

    async def on_approval_requested(self, context: Any, agent: Any, item: Any) -> None:
        self.log.append(("requested", agent.name, item.name, item.arguments))

    async def on_approval_decided(self, context: Any, agent: Any, item: Any, decision: Any, by: str) -> None:
        self.log.append(("decided", agent.name, item.name, item.arguments, decision, by))


class OwnHooks(AgentHooks[Any]):
    def __init__(self, log: Log) -> None:
        self.log = log

    async def on_start(self, context: Any, agent: Any) -> None:
        self.log.append(("own start", agent.name))

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        self.log.append(("own end", agent.name, output))

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        self.log.append(("own handoff", agent.name, source.name))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.log.append(("own tool", agent.name, tool.name, result))

    async def on_approval_decided(self, context: Any, agent: Any, item: Any, decision: Any, by: str) -> None:
        self.log.append(("own decided", item.name, decision))


@story
def hooks_of_the_run_and_of_agents(log: Log) -> Story:
    inner = scripted("Inner", send("ann"), "Sent.", tools=[noting(log, needs_approval=True)], hooks=OwnHooks(log))
    expert = scripted("Expert", "Done.", hooks=OwnHooks(log))
    outer = scripted(
        "Outer", call("inner", {"input": "Go."}), send("bob"), call("transfer_to_expert"),
        tools=[inner.as_tool(), noting(log, needs_approval=True)], handoffs=[expert], hooks=OwnHooks(log),
    )  # fmt: skip
    return Story(outer, hooks=Noting(log))


@story
def hooks_hear_of_each_decision_once(log: Log) -> Story:
    agent = scripted(
        "Shop", [send("ann"), send("bob"), send("cid"), send("dan")], "Done.",
        tools=[noting(log, needs_approval=True)],
    )  # fmt: skip
    people = verdicts(
        ann=Approve(), bob=Reject("No."), cid=Edit({"to": "cleo", "copies": 2}), dan=Respond("Dan knows.")
    )
    return Story(agent, decide=people, sorts=True, hooks=Noting(log))


# -- the last look -----------------------------------------------------------------------------------


@story
def the_world_moves_between_approval_and_body(log: Log) -> Story:
    world = {"version": 7}

    async def look(ctx: Any, args: Any) -> Preview:
        return Preview(f"ship version {world['version']}", preconditions={"version": world["version"]})

    @function_tool(needs_approval=True, preview=look)
    async def ship(ctx: ToolContext[Any]) -> str:
        log.append(("shipped", world["version"], ctx.preconditions))
        return "shipped"

    def decide(tool: str, arguments: Any) -> Decision:
        log.append("asked")
        world["version"] += log.count("asked") == 1
        return Approve()

    return Story(scripted("Shop", call("ship"), "Done.", tools=[ship]), decide=decide)


@story
def a_body_finds_that_something_is_not_as_shown(log: Log) -> Story:
    world = {"version": 7}

    @function_tool(needs_approval=True)
    async def ship() -> str:
        world["version"] += 1
        log.append(world["version"])
        if world["version"] < 9:
            raise NotAsShown("It moved.")
        return "shipped"

    return Story(scripted("Shop", call("ship"), "Done.", tools=[ship]))


@story
def a_filter_of_the_models_input(log: Log) -> Story:
    def last(data: Any) -> Any:
        return ModelInputData(data.model_data.input[-1:], "Be short.")

    agent = scripted("Shop", send("ann"), "Done.", tools=[noting(log)])
    return Story(agent, config=RunConfig(call_model_input_filter=last))


# -- limits and errors -------------------------------------------------------------------------------


@story
def an_error_handler_ends_the_run(log: Log) -> Story:
    def handle(given: Any) -> Any:
        log.append(type(given.error).__name__)
        return {"final_output": "That was all."}

    return Story(
        scripted("Shop", send("ann"), send("bob"), tools=[noting(log)]),
        config=RunConfig(error_handlers={"max_turns": handle}),
        max_turns=2,
    )


@story
def turns_are_used_up(log: Log) -> Story:
    return Story(scripted("Shop", send("ann"), send("bob"), tools=[noting(log)]), max_turns=2)


@pytest.mark.parametrize("name", STORIES)
async def test_a_story_comes_to_the_same_on_temporal(name: str, temporal: Server, tmp_path: Path) -> None:
    await check_story(STORIES[name], await temporal.client(), tmp_path)


async def test_a_nested_agent_that_is_stopped_fails_its_call(temporal: Server, tmp_path: Path) -> None:
    """As in a run that was resumed: another activity ends the call, and knows the reason, not the exception."""

    def tell(log: Log) -> Story:
        inner = scripted(
            "Inner", "Never.",
            input_guardrails=[InputGuardrail(guard(log, "inner", True), name="inner", run_in_parallel=False)],
        )  # fmt: skip
        return Story(scripted("Outer", call("inner", {"input": "Go."}), "Done.", tools=[inner.as_tool()]))

    told = await told_by_temporal(tell, await temporal.client(), tmp_path)
    assert told.end == "Done."
    assert told.facts["call /inner#1"][-1]["output"] == (
        "The tool failed with AgentFailed: The agent 'Inner' stopped: The input guardrail 'inner' stopped the run for "
        "good."
    )
