"""Models, providers, settings and defaults in the skin, as programs of the SDK give them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec.structs import asdict
from openai import AsyncOpenAI
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from openai.types.shared import Reasoning

import assentry
from assentry import InvalidDefinition, ModelFailed, UsageError, set_default_model
from assentry.agents import (
    Agent,
    Model,
    ModelProvider,
    ModelResponse,
    ModelRetrySettings,
    ModelSettings,
    ModelTracing,
    MultiProvider,
    OpenAIAgentRegistrationConfig,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    Usage,
    enable_verbose_stdout_logging,
    retry_policies,
    set_default_openai_agent_registration,
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_harness,
    set_default_openai_key,
    set_default_openai_responses_transport,
)
from assentry.agents.absent import NotInAssentry
from assentry.agents.extensions.models.litellm_model import LitellmModel
from assentry.agents.extensions.models.litellm_provider import LitellmProvider
from assentry.agents.model_settings import MCPToolChoice
from assentry.agents.models import get_default_model, get_default_model_settings, is_gpt_5_default
from assentry.agents.models.fake_id import FAKE_RESPONSES_ID
from assentry.agents.models.multi_provider import MultiProviderMap
from assentry.models import default
from assentry.models.openai_client import set_openai_client, set_openai_key
from assentry.testing import ScriptedModel
from tests.models import chat_server
from tests.models.openai_server import OpenAIServer, refusing, saying


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def client_of(server: OpenAIServer) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=0)


@pytest.fixture
def environment(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.fixture(autouse=True)
def unset() -> Iterator[None]:
    yield
    set_openai_client(None)
    set_openai_key(None)
    set_default_openai_api("responses")
    set_default_model(None)


class Echo(Model):
    """A model as programs of the SDK write one."""

    def __init__(self, *failures: Exception) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.failures = list(failures)

    def _response(self, text: str) -> ModelResponse:
        part = ResponseOutputText(text=text, type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id=FAKE_RESPONSES_ID, content=[part], role="assistant", status="completed", type="message"
        )
        used: Any = Usage(requests=1, input_tokens=2, output_tokens=3)
        output: Any = [message]
        return ModelResponse(output=output, usage=used, response_id="r")

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        *,
        previous_response_id: Any,
        conversation_id: Any,
        prompt: Any,
    ) -> ModelResponse:
        self.asked.append((system_instructions, input, model_settings, tools, output_schema, handoffs, tracing))
        if self.failures:
            raise self.failures.pop(0)
        return self._response(input[-1]["content"])

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        self.asked.append(args)
        raise NotImplementedError
        yield


# -- models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Agent, assentry.Agent])
async def test_a_model_written_for_the_sdk_is_taken_wherever_a_model_is(make: Any) -> None:
    @assentry.function_tool
    def look(at: str) -> str:
        """Look at something."""
        return at

    echo = Echo()
    settings = ModelSettings(reasoning=Reasoning(effort="low"), temperature=0.5)
    agent = make("a", instructions="Echo.", model=echo, tools=[look], model_settings=settings)
    result = await Runner.run(agent, "Hello?")
    assert result.final_output == "Hello?"
    [(told, input, given, tools, output, handoffs, tracing)] = echo.asked
    assert (told, input, output, handoffs) == ("Echo.", [{"role": "user", "content": "Hello?"}], None, [])
    assert isinstance(given, ModelSettings) and isinstance(given.reasoning, Reasoning) and given.temperature == 0.5
    assert (tools[0].name, tools[0].params_json_schema["required"]) == ("look", ["at"])
    assert tracing is ModelTracing.DISABLED
    assert "id" not in result.to_input_list()[-1], "no provider knows the id"
    assert result.raw_responses[0].response_id == "r"
    assert (result.raw_responses[0].usage.input_tokens, result.raw_responses[0].usage.output_tokens) == (2, 3)


async def test_the_agent_keeps_the_model_as_it_was_given() -> None:
    echo = Echo()
    assert Agent("a", model=echo).model is echo
    assert Agent("a", model="gpt-5.1").model == "gpt-5.1"
    assert Agent("a").model is None


async def test_its_exceptions_pass_unchanged_and_are_retried_by_policy() -> None:
    with pytest.raises(ZeroDivisionError):
        await Runner.run(Agent("a", model=Echo(ZeroDivisionError())), "go")
    retry = ModelRetrySettings(max_retries=1, backoff={"initial_delay": 0.0}, policy=retry_policies.network_error())
    echo = Echo(TimeoutError())
    result = await Runner.run(Agent("a", model=echo, model_settings=ModelSettings(retry=retry)), "go")
    assert result.final_output == "go" and len(echo.asked) == 2


async def test_a_streamed_run_calls_its_stream() -> None:
    result = Runner.run_streamed(Agent("a", model=Echo()), "go")
    with pytest.raises(NotImplementedError):
        async for _ in result.stream_events():
            pass


@pytest.mark.parametrize("wrong", [object(), type("NoName", (), {"stream": lambda self, request: None})()])
def test_a_model_without_name_or_stream_is_refused_when_it_is_given(wrong: Any) -> None:
    for make in (Agent, assentry.Agent):
        with pytest.raises(InvalidDefinition, match="Agent 'a': "):
            make("a", model=wrong)
    for config in (RunConfig, assentry.RunConfig):
        with pytest.raises(InvalidDefinition, match="RunConfig: "):
            config(model=wrong)


async def test_a_model_can_be_called_without_a_run(server: OpenAIServer) -> None:
    async with client_of(server) as client:
        server.script(saying("Yes."), saying("Yes."))
        model = OpenAIResponsesModel(model="gpt-4o", openai_client=client)
        asked: dict[str, Any] = {
            "system_instructions": "Be brief.",
            "input": "Hello?",
            "model_settings": ModelSettings(temperature=0.5),
            "tools": [],
            "output_schema": None,
            "handoffs": [],
            "tracing": ModelTracing.DISABLED,
            "previous_response_id": None,
            "conversation_id": None,
            "prompt": None,
        }
        response = await model.get_response(**asked)
        assert response.output[0].content[0].text == "Yes."
        events = [event.type async for event in model.stream_response(**asked)]
        assert events[-1] == "response.completed"
        assert server.bodies[0]["temperature"] == 0.5 and server.bodies[0]["instructions"] == "Be brief."


async def test_a_model_that_overrides_get_response_is_asked_by_it(server: OpenAIServer) -> None:
    async with client_of(server) as client:

        class Loud(OpenAIResponsesModel):
            async def get_response(self, *args: Any, **options: Any) -> Any:
                response = await super().get_response(*args, **options)
                response.output[0].content[0].text = response.output[0].content[0].text.upper()
                return response

        server.script(saying("Yes."))
        result = await Runner.run(Agent("a", model=Loud("gpt-4o", client)), "Hello?")
        assert result.final_output == "YES."


# -- names -------------------------------------------------------------------------------------------------


class Provider(ModelProvider):
    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def get_model(self, model_name: str | None) -> Any:
        self.asked.append(model_name)
        return ScriptedModel([f"I am {model_name}."])


@pytest.mark.parametrize(
    ("own", "run", "asked"), [(None, None, None), ("small", None, "small"), ("small", "big", "big")]
)
async def test_a_runs_provider_makes_the_models_of_its_agents(
    own: str | None, run: str | None, asked: str | None
) -> None:
    provider = Provider()
    config = RunConfig(model=run, model_provider=provider)
    result = await Runner.run(Agent("a", model=own), "go", run_config=config)
    assert result.final_output == f"I am {asked}." and set(provider.asked) == {asked}


async def test_an_agents_own_model_is_not_looked_up() -> None:
    config = RunConfig(model_provider=Provider())
    result = await Runner.run(Agent("a", model=ScriptedModel(["Mine."])), "go", run_config=config)
    assert result.final_output == "Mine."


def test_a_multi_provider_goes_by_prefixes() -> None:
    mapped = MultiProviderMap()
    mapped.add_provider("acme", Provider())
    every = MultiProvider(provider_map=mapped, openai_api_key="sk-test")
    assert isinstance(every.get_model("acme/large"), ScriptedModel)
    assert every.get_model("openai/gpt-4o").name == every.get_model("gpt-4o").name == "gpt-4o"
    assert isinstance(every.get_model("litellm/acme/large"), assentry.LitellmModel)
    with pytest.raises(InvalidDefinition, match="no provider is known for the model 'nobody/large'"):
        every.get_model("nobody/large")
    plain = MultiProvider(openai_prefix_mode="model_id", unknown_prefix_mode="model_id", openai_api_key="sk-test")
    assert plain.get_model("openai/gpt-4o").name == "openai/gpt-4o"
    assert plain.get_model("nobody/large").name == "nobody/large"
    with pytest.raises(InvalidDefinition, match="openai_prefix_mode"):
        MultiProvider(openai_prefix_mode="other")  # type: ignore[arg-type]


def test_openais_provider_has_the_clients_options() -> None:
    provider = OpenAIProvider(api_key="sk-test", base_url="http://127.0.0.1:1/v1", use_responses=False)
    model = provider.get_model("llama")
    assert isinstance(model, OpenAIChatCompletionsModel) and model._client is not None
    assert str(model._client.base_url) == "http://127.0.0.1:1/v1/"
    assert isinstance(OpenAIProvider().get_model(None), OpenAIResponsesModel)
    with pytest.raises(InvalidDefinition, match="openai_client, or api_key"):
        OpenAIProvider(openai_client=model._client, api_key="sk-test")
    with pytest.raises(InvalidDefinition, match="over HTTP"):
        OpenAIProvider(use_responses_websocket=True)


def test_litellm_and_what_is_not_there() -> None:
    assert LitellmModel(model="acme/large", api_key="k").model == "acme/large"
    assert LitellmProvider().get_model("acme/large").name == "acme/large"
    for module in ("extensions.models.any_llm_model", "models.chatcmpl_converter", "models.reasoning_content_replay"):
        with pytest.raises(NotInAssentry, match="is not in Assentry"):
            __import__(f"assentry.agents.{module}")
    with pytest.raises(InvalidDefinition, match="should_replay_reasoning_content"):
        LitellmModel("m", should_replay_reasoning_content=lambda context: True)


# -- defaults ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("environment")
async def test_the_default_model_and_its_settings_are_the_sdks(server: OpenAIServer) -> None:
    server.script(saying("Yes."))
    await Runner.run(Agent("a"), "Hello?")
    [body] = server.bodies
    assert body["model"] == get_default_model() == "gpt-5.6-luna"
    assert (body["reasoning"], body["text"]) == ({"effort": "none"}, {"verbosity": "low"})
    assert is_gpt_5_default()


@pytest.mark.usefixtures("environment")
async def test_the_environment_names_another_default(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "GPT-4o")
    server.script(saying("Yes."))
    await Runner.run(Agent("a"), "Hello?")
    assert server.bodies[0]["model"] == "gpt-4o" and "reasoning" not in server.bodies[0]


async def test_the_users_default_comes_first_and_gets_no_settings_of_openais() -> None:
    model = ScriptedModel(["Mine."])
    set_default_model(model)
    assert (await Runner.run(Agent("a"), "go")).final_output == "Mine."
    assert set(asdict(model.requests[0].settings).values()) == {None}


def test_without_a_key_the_embedded_model_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from assentry.agents.model_choice import provided_model

    monkeypatch.setattr(default, "missing_parts", list)
    assert isinstance(provided_model("a", None, None), assentry.EmbeddedModel)
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "gpt-4o")
    assert provided_model("a", None, None).name == "gpt-4o"
    monkeypatch.setenv("ASSENTRY_MODEL", "embedded")
    assert isinstance(provided_model("a", None, None), assentry.EmbeddedModel)


@pytest.mark.parametrize(
    ("name", "effort", "verbosity"),
    [
        ("gpt-4o", None, None),
        ("gpt-5", "low", "low"),
        ("gpt-5-2025-08-07", "low", "low"),
        ("gpt-5-mini", None, "low"),
        ("gpt-5-chat-latest", None, None),
        ("gpt-5.1", "none", "low"),
        ("gpt-5.2-pro", "medium", "low"),
        ("gpt-5.2-codex", "low", "low"),
        ("gpt-5.3-codex", "none", "low"),
        ("gpt-5.4-mini-2026-01-01", "none", "low"),
        ("gpt-5.6-luna", "none", "low"),
    ],
)
def test_settings_go_with_the_models_name(name: str, effort: str | None, verbosity: str | None) -> None:
    settings = get_default_model_settings(name)
    assert (settings.reasoning.effort if settings.reasoning else None, settings.verbosity) == (effort, verbosity)
    assert Agent("a", model=name).model_settings == settings
    assert Agent("a", model="gpt-5").clone(model=name).model_settings == settings
    assert Agent("a", model=Echo()).model_settings == ModelSettings()


async def test_settings_follow_the_runs_model_unless_they_are_the_users() -> None:
    provider = Provider()
    config = RunConfig(model="gpt-4o", model_provider=provider)
    kept: list[Any] = []
    provider.get_model = lambda name: kept.append(ScriptedModel(["Yes."])) or kept[-1]  # type: ignore[func-returns-value,method-assign]
    assert config.model == "gpt-4o"
    await Runner.run(Agent("a", model="gpt-5"), "go", run_config=config)
    own = Agent("a", model="gpt-5", model_settings=ModelSettings(temperature=0.1))
    await Runner.run(own, "go", run_config=config)
    asked = [request.settings for model in kept for request in model.requests]
    assert [(each.reasoning, each.temperature) for each in asked] == [(None, None), (None, 0.1)]


async def test_a_default_client_is_used_and_its_api(server: OpenAIServer) -> None:
    async with client_of(server) as client:
        set_default_openai_client(client, use_for_tracing=False)
        server.script(saying("Yes."), chat_server.saying("Yes."))
        assert (await Runner.run(Agent("a"), "Hello?")).final_output == "Yes."
        set_default_openai_api("chat_completions")
        agent = Agent("a", model="gpt-4o")
        assert (await Runner.run(agent, "Hello?")).final_output == "Yes."
        assert [asked.path for asked in server.asked] == ["/v1/responses", "/v1/chat/completions"]
        assert isinstance(OpenAIProvider().get_model("m"), OpenAIChatCompletionsModel)


async def test_a_default_key_is_used(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    set_default_openai_key("sk-mine")
    server.script(saying("Yes."))
    await Runner.run(Agent("a"), "Hello?")
    assert server.asked[0].headers["authorization"] == "Bearer sk-mine"


async def test_a_default_key_is_in_no_error(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    set_default_openai_key("sk-secret-key")
    server.script(refusing(401, "Bad key sk-secret-key."))
    with pytest.raises(ModelFailed) as error:
        await Runner.run(Agent("a"), "Hello?")
    assert "sk-secret-key" not in str(error.value)


def test_what_is_meaningless_says_so() -> None:
    set_default_openai_responses_transport("http")
    set_default_openai_harness(None)
    set_default_openai_agent_registration(None)
    with pytest.raises(UsageError, match="over HTTP"):
        set_default_openai_responses_transport("websocket")
    with pytest.raises(UsageError, match="registers no agents with OpenAI"):
        set_default_openai_harness("h")
    with pytest.raises(UsageError, match="registers no agents with OpenAI"):
        set_default_openai_agent_registration(OpenAIAgentRegistrationConfig(harness_id="h"))
    with pytest.raises(UsageError, match="set_default_openai_api: api must be"):
        set_default_openai_api("soap")  # type: ignore[arg-type]


def test_the_log_is_written_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("assentry")
    before, level = list(log.handlers), log.level
    try:
        enable_verbose_stdout_logging()
        enable_verbose_stdout_logging()
        log.debug("once")
        assert capsys.readouterr().out == "once\n"
    finally:
        log.handlers[:] = before
        log.setLevel(level)


# -- settings ----------------------------------------------------------------------------------------------


def test_settings_are_mutable_positional_and_take_the_clients_objects() -> None:
    settings = ModelSettings(
        0.5, 0.9, reasoning=Reasoning(effort="low"), tool_choice={"server_label": "s", "name": "n"}
    )
    assert (settings.temperature, settings.top_p) == (0.5, 0.9)
    assert settings.tool_choice == MCPToolChoice("s", "n")
    settings.temperature = 0.1
    settings.reasoning = Reasoning(effort="high")
    assert (settings.as_sent().temperature, settings.as_sent().reasoning) == (0.1, {"effort": "high"})
    other = dataclasses.replace(settings, top_p=0.2)
    assert (other.top_p, other.temperature, settings.top_p) == (0.2, 0.1, 0.9)
    assert [field.name for field in dataclasses.fields(settings)][:3] == ["temperature", "top_p", "frequency_penalty"]


def test_settings_are_put_over_others() -> None:
    mine = ModelSettings(temperature=0.5, extra_args={"a": 1}, retry={"max_retries": 1})
    both = mine.resolve({"temperature": 0.0, "extra_args": {"b": 2}, "retry": {"backoff": {"jitter": False}}})
    assert (both.temperature, both.extra_args) == (0.0, {"a": 1, "b": 2})
    assert both.retry is not None and both.retry.max_retries == 1
    assert mine.resolve(None) is mine
    assert type(mine.resolve(assentry.ModelSettings(top_p=0.1))) is ModelSettings


def test_settings_are_json_data() -> None:
    made = ModelSettings(temperature=0.5, reasoning={"effort": "low"}, retry={"max_retries": 1}).to_json_dict()
    assert (made["temperature"], made["reasoning"]["effort"], made["top_p"]) == (0.5, "low", None)
    assert made["retry"] == {"max_retries": 1, "backoff": None}
    assert len(made) == 25
    assert "extra_body" not in ModelSettings(extra_body={"a": 1}).to_traceable_dict()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"temperature": "hot"}, "temperature cannot be 'hot'"),
        ({"retry": {"max_retry": 1}}, "no option 'retry.max_retry'"),
        ({"tool_choice": {"label": "s"}}, "no option 'tool_choice.label'"),
        ({"preserve_raw_usage": True}, "preserve_raw_usage is not in Assentry"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        ModelSettings(**wrong)


async def test_the_responses_api_gets_no_penalties_as_in_the_sdk(server: OpenAIServer) -> None:
    async with client_of(server) as client:
        settings = ModelSettings(frequency_penalty=0.5, extra_body={"x": 1})
        server.script(saying("Yes."))
        agent = Agent("a", model=OpenAIResponsesModel("gpt-4o", client), model_settings=settings)
        await Runner.run(agent, "Hello?")
        assert "frequency_penalty" not in server.bodies[0] and server.bodies[0]["x"] == 1


async def test_a_prompt_without_a_model_names_its_own(server: OpenAIServer) -> None:
    async with client_of(server) as client:
        set_default_openai_client(client)
        server.script(saying("Yes."), saying("Yes."))
        await Runner.run(Agent("a", prompt={"id": "pmpt_1"}), "Hello?")
        await Runner.run(Agent("a", model="gpt-4o", prompt={"id": "pmpt_1"}), "Hello?")
        assert "model" not in server.bodies[0] and server.bodies[1]["model"] == "gpt-4o"


async def test_the_chat_api_gets_no_setting_that_it_does_not_have(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(server) as client:
        server.script(chat_server.saying("Yes."))
        settings = ModelSettings(truncation="auto", reasoning=Reasoning(effort="low", summary="auto"))
        agent = Agent("a", model=OpenAIChatCompletionsModel("llama", client), model_settings=settings)
        await Runner.run(agent, "Hello?")
    assert server.bodies[0]["reasoning_effort"] == "low" and "truncation" not in server.bodies[0]
    assert ["truncation" in caplog.text, "'summary' of reasoning" in caplog.text] == [True, True]


async def test_a_refusal_is_an_error_also_where_the_output_is_text() -> None:
    words = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    with pytest.raises(assentry.ModelRefused, match="I will not"):
        await Runner.run(Agent("a", model=ScriptedModel([[words]])), "go")
    native = await assentry.Runner.run(assentry.Agent("a", model=ScriptedModel([[words]])), "go")
    assert native.final_output == "I will not."
