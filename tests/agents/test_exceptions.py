"""The except clauses of programs for the Agents SDK catch what Assentry raises."""

from typing import Any

import pytest
from pydantic import BaseModel

import assentry
from assentry.agents import (
    Agent,
    AgentsException,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    RunErrorDetails,
    Runner,
    ToolTimeoutError,
    UserError,
)
from assentry.testing import ScriptedModel, call


class Answer(BaseModel):
    number: int


@assentry.function_tool
async def look() -> str:
    """Look."""
    return "nothing"


def agent_with(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent("agent", model=ScriptedModel(steps), **{"tools": [look], **options})


async def test_a_run_without_turns_left_is_caught_with_what_it_did() -> None:
    with pytest.raises(MaxTurnsExceeded) as caught:
        await Runner.run(agent_with(call("look"), call("look")), "go", max_turns=2)
    error = caught.value
    assert isinstance(error, AgentsException)
    assert error.message == str(error)
    data = error.run_data
    assert isinstance(data, RunErrorDetails)
    assert (data.input, data.last_agent.name, len(data.raw_responses)) == ("go", "agent", 2)
    assert [item.type for item in data.new_items] == ["tool_call_item", "tool_call_output_item"] * 2
    assert data.context_wrapper.usage.requests == 2
    assert data.input_guardrail_results == data.output_guardrail_results == []


@pytest.mark.parametrize(
    ("steps", "options"),
    [([call("fly")], {}), (["no JSON"], {"output_type": Answer}), (['{"number": "x"}'], {"output_type": Answer})],
)
async def test_a_reply_that_cannot_be_used_is_caught(steps: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(ModelBehaviorError) as caught:
        await Runner.run(agent_with(*steps, **options), "go")
    assert caught.value.run_data is not None


async def test_a_refusal_is_caught_with_its_words() -> None:
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    with pytest.raises(ModelRefusalError) as caught:
        await Runner.run(agent_with([refusal], output_type=Answer), "go")
    assert caught.value.refusal == "I will not."


async def test_a_program_that_must_change_is_caught() -> None:
    with pytest.raises(UserError) as caught:
        await Runner.run(None, "go")  # type: ignore[arg-type]
    assert caught.value.run_data is None


async def test_a_tool_that_takes_too_long_is_caught() -> None:
    import asyncio

    @assentry.function_tool(timeout=0.01, failure_error_function=None)
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(ToolTimeoutError) as caught:
        await Runner.run(agent_with(call("wait"), tools=[wait]), "go")
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.tool_name, caught.value.timeout_seconds) == ("wait", 0.01)


async def test_an_error_of_the_user_passes_unchanged() -> None:
    class Mine(Exception):
        pass

    @assentry.function_tool(failure_error_function=None)
    async def fail() -> str:
        """Fail."""
        raise Mine("mine")

    with pytest.raises(Mine) as caught:
        await Runner.run(agent_with(call("fail"), tools=[fail]), "go")
    assert type(caught.value) is Mine
