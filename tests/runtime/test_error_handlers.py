"""Error handlers: a final output in place of an error, as a fact of the run."""

from typing import Any, ClassVar

import pytest

from assentry import (
    Agent,
    InvalidDefinition,
    MaxTurnsExceeded,
    MessageOutputItem,
    ModelRefused,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    RunHooks,
    RunItemStreamEvent,
    Runner,
    RunState,
    SQLiteSession,
    UsageError,
    function_tool,
    output_guardrail,
)
from assentry.core.codec import replay
from assentry.runtime.view import View
from assentry.store import MemoryStore
from assentry.testing import call
from tests.runtime.support import asked, heard, reloaded, scripted
from tests.runtime.test_final_output import POINT, Point, refusing


@function_tool
def look() -> str:
    """Look around."""
    return "nothing"


def busy(*more: Any, **options: Any) -> Agent[Any]:
    """An agent that goes on calling a tool."""
    return scripted(call("look", {}), *more, tools=[look], **options)


def text_of(item: Any) -> str:
    return str(item.raw_item["content"][0]["text"])


async def test_a_handler_gives_the_output_of_a_run_that_has_used_up_its_turns() -> None:
    given: list[RunErrorHandlerInput[Any]] = []

    def summarize(input: RunErrorHandlerInput[Any]) -> RunErrorHandlerResult:
        given.append(input)
        return RunErrorHandlerResult("I looked, and stopped.")

    agent = busy()
    result = await Runner.run(agent, "go", max_turns=1, context="ctx", error_handlers={"max_turns": summarize})
    assert result.final_output == "I looked, and stopped."
    assert isinstance(result.new_items[-1], MessageOutputItem)
    assert text_of(result.new_items[-1]) == "I looked, and stopped."
    assert result.to_input_list()[-1]["role"] == "assistant"
    [input] = given
    assert isinstance(input.error, MaxTurnsExceeded)
    assert (input.context.context, input.run_data.input, input.run_data.last_agent) == ("ctx", "go", agent)
    assert [item["type"] for item in input.run_data.output] == ["function_call", "function_call_output"]
    assert len(input.run_data.raw_responses) == 1


async def test_a_run_that_was_saved_shows_the_handlers_output() -> None:
    agent = busy(output_type=Point)
    result = await Runner.run(agent, "go", max_turns=1, error_handlers={"max_turns": lambda input: Point(1, 2)})
    state = await reloaded(agent, result.to_state())
    assert state._view().output() == Point(1, 2)
    assert result.final_output == Point(1, 2)
    assert text_of(result.new_items[-1]) == '{"x":1,"y":2}'


async def test_an_output_can_stay_out_of_the_conversation() -> None:
    agent = busy("and now?")
    result = await Runner.run(
        agent,
        "go",
        max_turns=1,
        error_handlers={"max_turns": lambda input: {"final_output": "stopped", "include_in_history": False}},
    )
    assert result.final_output == "stopped"
    assert result.new_items[-1].type == "tool_call_output_item"
    assert result.to_input_list()[-1]["type"] == "function_call_output"


async def test_a_run_goes_on_after_a_handlers_output_with_more_turns() -> None:
    agent = busy("yes")
    handlers: Any = {"max_turns": lambda input: "stopped"}
    result = await Runner.run(agent, "go", max_turns=1, error_handlers=handlers)
    state = await reloaded(agent, result.to_state())
    state.add_input("And?")
    again = await Runner.run(agent, state, error_handlers=handlers)
    assert again.final_output == "stopped", "there is still no turn left"
    state = again.to_state()
    state.add_input("Go on.")
    assert (await Runner.run(agent, state, max_turns=2)).final_output == "yes"
    said = [item.get("content") for item in heard(agent) if item.get("type", "message") == "message"]
    assert [each if isinstance(each, str) else each[0]["text"] for each in said] == [
        "go",
        "stopped",
        "And?",
        "stopped",
        "Go on.",
    ]


async def test_without_a_result_the_error_is_raised() -> None:
    async def decline(input: RunErrorHandlerInput[Any]) -> None:
        return None

    with pytest.raises(MaxTurnsExceeded) as error:
        await Runner.run(busy(), "go", max_turns=1, error_handlers={"max_turns": decline})
    assert isinstance(error.value.state, RunState)


@pytest.mark.parametrize("kind", [None, Point])
async def test_a_handler_answers_for_a_model_that_refuses(kind: Any) -> None:
    errors: list[Any] = []

    def answer(input: RunErrorHandlerInput[Any]) -> Any:
        errors.append(input.error)
        return Point(0, 0) if kind else "no answer"

    agent = scripted([refusing("I will not.")], output_type=kind)
    result = await Runner.run(agent, "go", run_config=RunConfig(error_handlers={"model_refusal": answer}))
    assert result.final_output == (Point(0, 0) if kind else "no answer")
    assert isinstance(errors[0], ModelRefused)
    assert "I will not." in str(errors[0])


async def test_a_handler_mends_an_output_that_does_not_fit() -> None:
    agent = scripted("no point", POINT, output_type=Point)
    result = await Runner.run(agent, "go", error_handlers={"invalid_final_output": lambda input: {"x": 3, "y": 4}})
    assert result.final_output == Point(3, 4)
    assert asked(agent) == 1


async def test_an_output_of_a_handler_that_does_not_fit_is_an_error_of_the_developer() -> None:
    agent = scripted("no point", output_type=Point)
    with pytest.raises(UsageError, match="'invalid_final_output' gave an output that does not fit Point"):
        await Runner.run(agent, "go", error_handlers={"invalid_final_output": lambda input: "nothing"})


async def test_a_result_with_unknown_fields_is_refused() -> None:
    with pytest.raises(UsageError, match="'max_turns' must return a RunErrorHandlerResult"):
        await Runner.run(
            busy(), "go", max_turns=1, error_handlers={"max_turns": lambda input: {"final_output": 1, "more": 2}}
        )


async def test_output_guardrails_look_at_a_handlers_output() -> None:
    @output_guardrail
    def no(ctx: Any, agent: Any, output: Any) -> Any:
        from assentry import GuardrailFunctionOutput

        return GuardrailFunctionOutput(None, output == "stopped")

    agent = busy(output_guardrails=[no])
    with pytest.raises(OutputGuardrailTripwireTriggered) as error:
        await Runner.run(agent, "go", max_turns=1, error_handlers={"max_turns": lambda input: "stopped"})
    assert error.value.state is not None
    assert error.value.state.status == "closed"


async def test_hooks_hear_of_the_end() -> None:
    class Ends(RunHooks[Any]):
        outputs: ClassVar[list[Any]] = []

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            self.outputs.append(output)

    hooks = Ends()
    await Runner.run(busy(), "go", max_turns=1, hooks=hooks, error_handlers={"max_turns": lambda input: "stopped"})
    assert hooks.outputs == ["stopped"]


async def test_a_stream_shows_the_handlers_message() -> None:
    result = Runner.run_streamed(busy(), "go", max_turns=1, error_handlers={"max_turns": lambda input: "stopped"})
    events = [event async for event in result.stream_events()]
    assert isinstance(events[-1], RunItemStreamEvent)
    assert (events[-1].name, text_of(events[-1].item)) == ("message_output_created", "stopped")
    assert result.final_output == "stopped"


async def test_an_output_that_needs_approval_is_never_a_handlers() -> None:
    agent = busy(output_needs_approval=True)
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, "go", max_turns=1, error_handlers={"max_turns": lambda input: "stopped"})


async def test_a_handler_does_not_answer_for_an_agent_that_is_a_tool() -> None:
    inner = scripted([refusing("I will not.")], name="inner")
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go", error_handlers={"model_refusal": lambda input: "handled"})
    assert result.final_output == "done"
    assert heard(agent)[-1]["output"] == "I will not."


async def test_the_session_has_the_handlers_message() -> None:
    session = SQLiteSession("s")
    await Runner.run(busy(), "go", max_turns=1, session=session, error_handlers={"max_turns": lambda input: "stopped"})
    assert [item.get("type", "message") for item in await session.get_items()] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]


async def test_a_stored_run_keeps_the_handlers_output() -> None:
    agent = busy()
    async with MemoryStore() as store:
        result = await Runner.run(
            agent, "go", max_turns=1, store=store, error_handlers={"max_turns": lambda input: "stopped"}
        )
        stored = await store.load(result.run_id)
        assert View(replay(stored.facts), None, {}).output() == "stopped"
        assert stored.record.status == "done"


@pytest.mark.parametrize("handlers", [{"max_turn": print}, {"max_turns": 1}, [print]])
def test_handlers_that_cannot_be_are_refused(handlers: Any) -> None:
    with pytest.raises(InvalidDefinition, match="RunConfig: error_handlers must be a dict of callables"):
        RunConfig(error_handlers=handlers)
