"""How a model is asked: `ModelSettings` of agents and runs, and what becomes of `tool_choice`."""

from typing import Any

import pytest
from msgspec.structs import asdict
from openai.types.shared import Reasoning

from assentry import Agent, MCPToolChoice, ModelRetrySettings, ModelSettings, RunConfig, Runner
from assentry.errors import InvalidDefinition
from assentry.testing import ScriptedModel, call
from tests.runtime.support import reloaded, scripted, sending


def settings_of(agent: Agent[Any]) -> list[ModelSettings]:
    """How the agent's model was asked, each time."""
    model: Any = agent.model
    return [request.settings for request in model.requests]


def choices(agent: Agent[Any]) -> list[str | None]:
    return [settings.tool_choice for settings in settings_of(agent)]


def test_what_is_not_said_is_left_to_the_provider() -> None:
    assert set(asdict(ModelSettings()).values()) == {None}


def test_settings_are_put_over_others() -> None:
    mine = ModelSettings(temperature=0.2, top_p=0.9, tool_choice="auto")
    over = ModelSettings(temperature=0.0, max_tokens=50, parallel_tool_calls=False)
    both = mine.resolve(over)
    assert both == ModelSettings(
        temperature=0.0, top_p=0.9, tool_choice="auto", max_tokens=50, parallel_tool_calls=False
    ), "nought and False are said"
    assert (mine.temperature, over.top_p) == (0.2, None), "neither is changed"
    assert mine.resolve(None) == mine.resolve(ModelSettings()) == mine
    assert ModelSettings().resolve(over) == over


def test_every_setting_is_resolved() -> None:
    said: dict[str, Any] = {
        "temperature": 1.0,
        "top_p": 0.5,
        "frequency_penalty": 0.1,
        "presence_penalty": -0.1,
        "tool_choice": "required",
        "parallel_tool_calls": True,
        "truncation": "auto",
        "max_tokens": 5,
        "reasoning": {"effort": "low"},
        "verbosity": "low",
        "metadata": {"a": "b"},
        "store": False,
        "response_include": ["reasoning.encrypted_content"],
        "extra_headers": {"h": "v"},
        "extra_query": {"q": 1},
        "extra_body": {"b": 1},
        "extra_args": {"x": 1},
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "explicit"},
        "include_usage": True,
        "top_logprobs": 2,
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
        "retry": ModelRetrySettings(max_retries=1),
        "timeout": 5.0,
    }
    assert asdict(ModelSettings().resolve(ModelSettings(**said))) == said, "every setting there is"


def test_extra_arguments_are_put_together() -> None:
    both = ModelSettings(extra_args={"a": 1, "b": 1}).resolve(ModelSettings(extra_args={"b": 2, "c": 2}))
    assert both.extra_args == {"a": 1, "b": 2, "c": 2}


WRONG: list[tuple[str, Any]] = [
    ("temperature", "hot"),
    ("temperature", True),
    ("temperature", float("nan")),
    ("top_p", "1"),
    ("frequency_penalty", []),
    ("temperature", 10**400),
    ("presence_penalty", {}),
    ("tool_choice", 5),
    ("tool_choice", {"type": "function"}),
    ("parallel_tool_calls", "yes"),
    ("parallel_tool_calls", 1),
    ("truncation", "some"),
    ("max_tokens", 1.5),
    ("max_tokens", True),
    ("max_tokens", "many"),
    ("reasoning", "low"),
    ("verbosity", "chatty"),
    ("metadata", "x"),
    ("store", "no"),
    ("response_include", "all"),
    ("extra_headers", ["h"]),
    ("extra_query", "q"),
    ("extra_body", 5),
    ("extra_args", [("a", 1)]),
    ("prompt_cache_retention", "48h"),
    ("top_logprobs", "all"),
    ("context_management", {"type": "compaction"}),
    ("retry", 3),
    ("timeout", 0),
    ("timeout", "long"),
]


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_a_setting_of_the_wrong_kind_is_refused_by_its_name(option: str, value: Any) -> None:
    with pytest.raises(InvalidDefinition, match=rf"ModelSettings.*{option}"):
        ModelSettings(**{option: value})


def test_whole_numbers_are_numbers() -> None:
    assert ModelSettings(temperature=1, top_p=0).temperature == 1


@pytest.mark.parametrize("wrong", [{"temperature": 1}, 5, "hot", ModelSettings])
def test_what_is_no_settings_is_refused_where_it_is_given(wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"Agent 'a'.*model_settings"):
        Agent("a", model_settings=wrong)
    with pytest.raises(InvalidDefinition, match=r"RunConfig.*model_settings"):
        RunConfig(model_settings=wrong)


async def test_a_model_is_asked_with_the_agents_settings_under_the_runs() -> None:
    agent = scripted("done", "done", model_settings=ModelSettings(temperature=0.2, top_p=0.9))
    await Runner.run(agent, "go")
    await Runner.run(agent, "go", run_config=RunConfig(model_settings=ModelSettings(temperature=0.0)))
    assert settings_of(agent) == [
        ModelSettings(temperature=0.2, top_p=0.9),
        ModelSettings(temperature=0.0, top_p=0.9),
    ]


async def test_each_agent_has_its_own_settings_and_the_runs_are_over_all() -> None:
    inner = scripted("in", name="inner", model_settings=ModelSettings(temperature=0.1))
    other = scripted("done", name="other", model_settings=ModelSettings(temperature=0.2))
    agent = scripted(
        call("inner", {"input": "x"}),
        call("transfer_to_other"),
        tools=[inner.as_tool()],
        handoffs=[other],
        model_settings=ModelSettings(temperature=0.3),
    )
    await Runner.run(agent, "go", run_config=RunConfig(model_settings=ModelSettings(max_tokens=9)))
    found = [settings_of(each)[0] for each in (agent, inner, other)]
    assert found == [ModelSettings(temperature=t, max_tokens=9) for t in (0.3, 0.1, 0.2)]


async def test_settings_are_those_of_today_on_resume() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], model_settings=ModelSettings(temperature=0.2))
    result = await Runner.run(agent, "go", run_config=RunConfig(model_settings=ModelSettings(max_tokens=9)))
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    await Runner.run(agent, state)
    assert [settings.max_tokens for settings in settings_of(agent)] == [9, None]


# -- tool_choice -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["agent", "run"])
@pytest.mark.parametrize("choice", ["required", "send"])
async def test_a_tool_choice_is_for_the_first_turn_so_that_the_run_can_end(choice: str, where: str) -> None:
    send, _ = sending()
    settings = ModelSettings(tool_choice=choice, temperature=0.5)
    agent = scripted(
        *[call("send", {"to": "ann"})] * 2,
        "done",
        tools=[send],
        model_settings=settings if where == "agent" else ModelSettings(),
    )
    await Runner.run(agent, "go", run_config=RunConfig(model_settings=settings if where == "run" else None))
    assert choices(agent) == [choice, None, None]
    assert {each.temperature for each in settings_of(agent)} == {0.5}, "nothing else is taken back"


async def test_a_tool_choice_stays_where_it_is_not_to_be_reset() -> None:
    send, _ = sending()
    agent = scripted(
        call("send", {"to": "ann"}),
        "done",
        tools=[send],
        model_settings=ModelSettings(tool_choice="required"),
        reset_tool_choice=False,
    )
    await Runner.run(agent, "go")
    assert choices(agent) == ["required", "required"]


async def test_a_tool_choice_is_reset_over_a_pause_too() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(
        call("send", {"to": "ann"}), "done", tools=[send], model_settings=ModelSettings(tool_choice="required")
    )
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.reject(result.interruptions[0])
    await Runner.run(agent, state)
    assert choices(agent) == ["required", None]


async def test_a_tool_choice_is_there_again_for_new_input() -> None:
    send, _ = sending()
    agent = scripted(
        call("send", {"to": "ann"}), "done", "more", tools=[send], model_settings=ModelSettings(tool_choice="required")
    )
    state = (await Runner.run(agent, "go")).to_state()
    state.add_input("more")
    await Runner.run(agent, state)
    assert choices(agent) == ["required", None, "required"]


async def test_each_agent_has_its_own_first_turn() -> None:
    send, _ = sending()
    settings = ModelSettings(tool_choice="required")
    other = scripted(call("send", {"to": "ann"}), "done", name="other", tools=[send], model_settings=settings)
    agent = scripted(call("transfer_to_other"), handoffs=[other], model_settings=settings)
    await Runner.run(agent, "go")
    assert (choices(agent), choices(other)) == (["required"], ["required", None])


async def test_a_failed_request_does_not_use_up_the_first_turn() -> None:
    send, _ = sending()
    agent = scripted(ValueError("down"), "done", tools=[send], model_settings=ModelSettings(tool_choice="required"))
    with pytest.raises(ValueError, match="down") as caught:
        await Runner.run(agent, "go")
    await Runner.run(agent, caught.value.state)  # type: ignore[attr-defined]
    assert choices(agent) == ["required", "required"]


async def test_the_runs_model_is_asked_with_the_agents_settings() -> None:
    model = ScriptedModel(["done"])
    agent = scripted(model_settings=ModelSettings(temperature=0.1))
    await Runner.run(agent, "go", run_config=RunConfig(model=model))
    assert model.requests[0].settings.temperature == 0.1


def test_an_object_of_openais_client_is_taken_for_a_dict() -> None:
    assert ModelSettings(reasoning=Reasoning(effort="low")).reasoning == {"effort": "low"}
    assert ModelSettings(tool_choice=MCPToolChoice("docs", "find")).tool_choice == MCPToolChoice("docs", "find")
