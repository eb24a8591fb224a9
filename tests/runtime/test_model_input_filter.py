"""`call_model_input_filter`: the items and instructions of each model call, chosen by the program."""

from typing import Any

import pytest

from assentry import CallModelData, ModelInputData, RunConfig, RunHooks, Runner, UsageError
from assentry.testing import call
from tests.runtime.support import heard, reloaded, scripted, sending


async def test_the_model_gets_what_the_filter_returns_and_the_run_keeps_everything() -> None:
    seen: list[CallModelData[Any]] = []

    async def last_only(data: CallModelData[Any]) -> ModelInputData:
        seen.append(data)
        return ModelInputData(data.model_data.input[-1:], f"{data.model_data.instructions} Be brief.")

    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], instructions="Help.")
    result = await Runner.run(agent, "go", context=5, run_config=RunConfig(call_model_input_filter=last_only))
    assert [item["type"] for item in heard(agent)] == ["function_call_output"]
    model: Any = agent.model
    assert model.requests[-1].instructions == "Help. Be brief."
    assert (seen[0].agent, seen[0].context, len(seen[1].model_data.input)) == (agent, 5, 3)
    assert len(result.to_input_list()) == 4


async def test_a_filter_may_change_what_it_gets() -> None:
    def shout(data: CallModelData[Any]) -> ModelInputData:
        data.model_data.input[0]["content"] = "GO"
        return data.model_data

    agent = scripted("one", "two")
    config = RunConfig(call_model_input_filter=shout)
    result = await Runner.run(agent, "go", run_config=config)
    assert heard(agent)[0]["content"] == "GO"
    assert result.to_input_list()[0]["content"] == "go"
    state = await reloaded(agent, result.to_state())
    state.add_input("more")
    await Runner.run(agent, state)
    assert heard(agent)[0]["content"] == "go", "the run itself was not changed"


async def test_hooks_hear_what_the_model_hears() -> None:
    class Starts(RunHooks[Any]):
        heard: Any = None

        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            self.heard = system_prompt, input_items

    hooks = Starts()
    config = RunConfig(call_model_input_filter=lambda data: ModelInputData([], "Only this."))
    await Runner.run(scripted("done"), "go", hooks=hooks, run_config=config)
    assert hooks.heard == ("Only this.", [])


@pytest.mark.parametrize("given", [None, [], ModelInputData("go", None), ModelInputData([], 5)])  # type: ignore[arg-type]
async def test_a_filter_that_returns_something_else_is_refused_before_the_model_is_asked(given: Any) -> None:
    agent = scripted("done")
    with pytest.raises(UsageError, match="call_model_input_filter must return a ModelInputData"):
        await Runner.run(agent, "go", run_config=RunConfig(call_model_input_filter=lambda data: given))
    model: Any = agent.model
    assert model.requests == []
