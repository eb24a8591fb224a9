"""The size of a saved run is linear in its transcript."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assentry import Agent, RunConfig, Runner, RunResult, ToolCallItem, function_tool
from assentry.testing import FakeClock, ScriptedModel, call
from tests.runtime.support import scripted, sending

Shape = Callable[[], Awaitable[RunResult]]
BIG = "lorem ipsum dolor sit amet " * 4_000
"""A hundred thousand characters."""


def bound(result: RunResult) -> tuple[int, int]:
    """How large the state is, and how large it may be."""
    items = result.to_input_list() + [item.raw_item for item in result.interruptions]
    calls = sum(isinstance(item, ToolCallItem) for item in result.new_items)
    transcript = len(json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode())
    return len(result.to_state().to_string().encode()), int(1.5 * transcript + 400 * calls + 2048)


def turns(count: int, output: str = "ok", width: int = 1, **options: Any) -> Shape:
    """So many turns of so many calls with this output."""

    async def run() -> RunResult:
        @function_tool(**options)
        async def look(n: int) -> str:
            """Look something up."""
            return output

        steps = ([call("look", {"n": n}) for _ in range(width)] for n in range(count))
        config = RunConfig(clock=FakeClock())
        return await Runner.run(scripted(*steps, "done", tools=[look]), "go", max_turns=count + 1, run_config=config)

    return run


def decided(count: int, width: int, decide: Callable[[Any, Any], None], arguments: Any = None, **options: Any) -> Shape:
    """So many turns of so many gated calls, each decided like this."""

    async def run() -> RunResult:
        send, _ = sending(needs_approval=True, **options)
        given = {"to": "ann"} if arguments is None else arguments
        steps = [[call("send", given) for _ in range(width)] for _ in range(count)]
        agent = scripted(*steps, "done", tools=[send])
        result = await Runner.run(agent, "go", max_turns=count + 1)
        while result.interruptions:
            state = result.to_state()
            for item in state.get_interruptions():
                decide(state, item)
            result = await Runner.run(agent, state)
        return result

    return run


async def _paused() -> RunResult:
    send, _ = sending(needs_approval=True)
    return await Runner.run(scripted([call("send", {"to": "ann"})] * 20, tools=[send]), "go")


async def _paused_on_what_cannot_run() -> RunResult:
    send, _ = sending(needs_approval=True)
    calls = [call("send", "[" * 5_000), call("send", {"to": 5, "x": "y" * 5_000})] * 5
    return await Runner.run(scripted(calls, tools=[send]), "go")


async def _refused() -> RunResult:
    send, _ = sending()
    calls = [call("send", "{"), call("nothing", {"a": "b" * 500}), call("send", {"to": 5})]
    return await Runner.run(scripted(*[calls] * 9, "sorry", tools=[send]), "go")


async def _large_final_text() -> RunResult:
    return await Runner.run(scripted(BIG), "go")


async def _large_input() -> RunResult:
    return await Runner.run(scripted("ok"), [{"role": "user", "content": BIG}])


async def _text_that_needs_escapes() -> RunResult:
    return await Runner.run(scripted('"\\\n\t' * 5_000 + "üñ😀" * 5_000), "go")


def large_arguments(decide: Callable[[Any, Any], None] | None, **arguments: Any) -> Shape:
    """One call with large arguments, decided like this, or waiting. What is left out is filled in as a default."""

    async def run() -> RunResult:
        @function_tool(needs_approval=True)
        async def keep(text: str, copies: int = 1) -> str:
            return "kept"

        agent = scripted(call("keep", {"text": BIG, **arguments}), "done", tools=[keep])
        result = await Runner.run(agent, "go")
        if decide is not None:
            state = result.to_state()
            decide(state, result.interruptions[0])
            result = await Runner.run(agent, state)
        return result

    return run


async def _large_arguments_nobody_is_asked_about() -> RunResult:
    @function_tool
    async def keep(text: str, copies: int = 1) -> str:
        return "kept"

    return await Runner.run(scripted(call("keep", {"text": BIG}), "done", tools=[keep]), "go")


async def _a_large_default() -> RunResult:
    @function_tool
    async def ask(what: str, style: str = "x" * 2_000) -> str:
        return "ok"

    return await Runner.run(scripted(*[call("ask", {"what": "y"})] * 9, "done", tools=[ask]), "go")


async def _many_tools() -> RunResult:
    tools = [sending(name_override=f"tool_with_a_name_{n}")[0] for n in range(100)]
    return await Runner.run(scripted("hi", tools=tools), "go")


async def _tools_that_come_and_go() -> RunResult:
    def enabled(ctx: Any, agent: Agent[Any]) -> bool:
        ctx.context["asked"] += 1
        return bool(ctx.context["asked"] % 2)

    tools = [sending(name_override=f"tool_with_a_name_{n}")[0] for n in range(20)]
    send, _ = sending(is_enabled=enabled)
    steps = [call("tool_with_a_name_1", {"to": "a"}) for _ in range(50)]
    context = {"asked": 0}
    return await Runner.run(scripted(*steps, "done", tools=[*tools, send]), "go", context=context, max_turns=60)


async def _a_long_talk() -> RunResult:
    agent = scripted(*["a reply"] * 100)
    result = await Runner.run(agent, "hello", max_turns=200)
    for n in range(99):
        state = result.to_state()
        state.add_input(f"and {n}?")
        result = await Runner.run(agent, state)
    return result


async def _failing_tools() -> RunResult:
    @function_tool
    async def fail() -> str:
        raise ValueError("x" * 2_000)

    return await Runner.run(scripted(*[call("fail")] * 9, "sorry", tools=[fail]), "go")


async def _batches() -> RunResult:
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    calls = [call("send", {"to": "ann"}), *[call("send", {"to": "bob"})] * 30]
    return await Runner.run(scripted(calls, tools=[send]), "go", run_config=RunConfig(release="batch"))


SHAPES: dict[str, Shape] = {
    "no turn with calls": turns(0),
    "one turn": turns(1),
    "ten turns": turns(10),
    "a hundred turns": turns(100),
    "four hundred turns": turns(400),
    "one turn of a hundred calls": turns(1, width=100),
    "forty turns of ten calls": turns(40, width=10),
    "outputs of 2 KB": turns(50, "x" * 2_000),
    "one output of 100 KB": turns(1, BIG),
    "outputs that are empty": turns(100, ""),
    "paused": _paused,
    "paused on what cannot run": _paused_on_what_cannot_run,
    "refused by the runtime": _refused,
    "approved by a rule": turns(50, needs_approval=lambda ctx, params, call_id: False),
    "approved by code": turns(50, needs_approval=True, on_approval=lambda ctx, item: {"approve": True}),
    "rejected by code": turns(
        50, needs_approval=True, on_approval=lambda ctx, item: {"approve": False, "reason": "no" * 500}
    ),
    "approved": decided(10, 5, lambda state, item: state.approve(item)),
    "approved one by one": decided(50, 1, lambda state, item: state.approve(item)),
    "approved by a grant": decided(50, 1, lambda state, item: state.approve(item, always_approve=True)),
    "rejected": decided(10, 5, lambda state, item: state.reject(item)),
    "rejected with words": decided(10, 5, lambda state, item: state.reject(item, rejection_message="no " * 500)),
    "rejected by a grant with words": decided(
        50, 1, lambda state, item: state.reject(item, always_reject=True, rejection_message="no " * 500)
    ),
    "edited": decided(10, 5, lambda state, item: state.edit(item, {"to": "bob"})),
    "edited at length": decided(5, 2, lambda state, item: state.edit(item, {"to": "b" * 5_000})),
    "answered": decided(10, 5, lambda state, item: state.respond(item, "by hand")),
    "answered at length": decided(5, 2, lambda state, item: state.respond(item, ["by hand"] * 500)),
    "a tool with a long name": turns(50, name_override="a_name_" * 9),
    "a large final text": _large_final_text,
    "a large input": _large_input,
    "text that needs escapes": _text_that_needs_escapes,
    "large arguments": large_arguments(lambda state, item: state.approve(item), copies=1),
    "large arguments, waiting": large_arguments(None, copies=1),
    "large arguments and a default": large_arguments(lambda state, item: state.approve(item)),
    "large arguments and a default, waiting": large_arguments(None),
    "large arguments and a default, rejected": large_arguments(lambda state, item: state.reject(item)),
    "large arguments and a default, nobody asked": _large_arguments_nobody_is_asked_about,
    "a large default": _a_large_default,
    "a hundred tools": _many_tools,
    "tools that come and go": _tools_that_come_and_go,
    "a long talk": _a_long_talk,
    "tools that fail": _failing_tools,
    "a batch": _batches,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
async def test_a_saved_run_is_hardly_larger_than_its_transcript(shape: Shape) -> None:
    result = await shape()
    size, limit = bound(result)
    assert size <= limit, f"{size} bytes, {limit} allowed"


async def test_the_size_grows_by_the_same_for_each_turn() -> None:
    sizes = [bound(await turns(count)())[0] for count in (100, 200, 300)]
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert abs(second - first) <= 200


async def test_resuming_again_and_again_does_not_make_a_run_larger() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await Runner.run(agent, "go")
    size = len(result.to_state().to_string())
    for _ in range(20):
        result = await Runner.run(agent, result.to_state())
    assert len(result.to_state().to_string()) == size


async def test_a_failing_model_does_not_make_a_run_larger() -> None:
    agent = scripted(*[ConnectionError()] * 20, "done")
    given: Any = "go"
    sizes = set()
    for _ in range(20):
        with pytest.raises(ConnectionError) as caught:
            await Runner.run(agent, given)
        given = caught.value.state  # type: ignore[attr-defined]
        sizes.add(len(given.to_string()))
    assert len(sizes) == 1


async def test_the_context_is_saved_once() -> None:
    agent = Agent("agent", model=ScriptedModel(["hi"]))
    result = await Runner.run(agent, "go", context={"notes": "x" * 10_000})
    assert result.to_state().to_string().count("x" * 10_000) == 1
