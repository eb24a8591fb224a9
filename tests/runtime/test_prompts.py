"""Prompts that the provider keeps: what the model is sent, and what is refused."""

from typing import Any

import pytest

from assentry import Agent, Runner, set_default_model
from assentry.errors import InvalidDefinition, UsageError
from assentry.models.model import ModelRequest
from assentry.models.openai_responses import responses_parameters
from assentry.models.wire import check_supported
from assentry.testing import ScriptedModel, call
from tests.runtime.support import facts, scripted, sending

PROMPT = {"id": "pmpt_1", "version": "2", "variables": {"tone": "dry"}}


def prompts(agent: Agent[Any]) -> list[Any]:
    model: Any = agent.model
    return [request.prompt for request in model.requests]


async def test_a_prompt_is_sent_with_every_request_of_its_agent() -> None:
    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], prompt=PROMPT)
    await Runner.run(agent, "go")
    assert prompts(agent) == [PROMPT, PROMPT]
    assert responses_parameters("gpt", ModelRequest(None, [], prompt=PROMPT))["prompt"] == PROMPT


async def test_a_function_chooses_the_prompt_for_each_turn() -> None:
    seen: list[Any] = []

    async def choose(data: Any) -> Any:
        seen.append((data.context.context, data.agent.name))
        return {"id": f"pmpt_{len(seen)}", "version": None}

    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], prompt=choose)
    await Runner.run(agent, "go", context="shop")
    assert prompts(agent) == [{"id": "pmpt_1"}, {"id": "pmpt_2"}]
    assert seen == [("shop", "agent")] * 2


@pytest.mark.parametrize("prompt", ["pmpt_1", {}, {"id": 1}, {"id": "x", "versoin": "1"}])
async def test_what_is_no_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(InvalidDefinition, match="prompt must be a dict"):
        Agent("a", prompt=prompt)
    with pytest.raises(UsageError, match="prompt must be a dict"):
        await Runner.run(scripted("hello", prompt=lambda data: prompt), "go")


def test_a_dialect_without_prompts_refuses_one() -> None:
    with pytest.raises(UsageError, match="keeps no prompts"):
        check_supported("The API", ModelRequest(None, [], prompt=PROMPT), ())


async def test_another_prompt_is_another_definition() -> None:
    made = []
    for prompt in (None, PROMPT, {**PROMPT, "version": "3"}, {**PROMPT, "variables": {}}):
        result = await Runner.run(scripted("hello", prompt=prompt), "go")
        [defined] = facts(result.to_state(), "defined")
        made.append(defined.get("instructions"))
    assert made[1] == made[3] and len({made[0], made[1], made[2]}) == 3


async def test_a_prompt_s_own_model_is_used_if_nobody_chose_one() -> None:
    assert "model" not in responses_parameters("gpt", ModelRequest(None, [], prompt=PROMPT, names_model=False))
    model = ScriptedModel(["done", "done"])
    set_default_model(model)
    try:
        await Runner.run(Agent("a", prompt=PROMPT), "go")
        await Runner.run(Agent("a", prompt=PROMPT, model=model), "go")
    finally:
        set_default_model(None)
    assert [request.names_model for request in model.requests] == [False, True]
