"""Models by their names, in agents, in runs and in threads."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assentry import (
    Agent,
    AnthropicModel,
    InvalidDefinition,
    LitellmModel,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunState,
    function_tool,
    register_provider,
)
from assentry.definitions.agent import model_of
from assentry.models import named
from assentry.testing import ScriptedModel
from assentry.threads import (
    AgentMiddleware,
    AIMessage,
    Command,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    create_agent,
)
from tests.models.openai_server import OpenAIServer, calling, endless, message, replying, saying, thought
from tests.runtime.support import HANGS, facts, python, scripted, sending

OPENAIS = [
    ("gpt-5.2", "gpt-5.2"),
    ("gpt-4o-mini-2024-07-18", "gpt-4o-mini-2024-07-18"),
    ("o4-mini", "o4-mini"),
    ("o3", "o3"),
    ("chatgpt-4o-latest", "chatgpt-4o-latest"),
    ("codex-mini-latest", "codex-mini-latest"),
    ("ft:gpt-4o-mini:acme::abc", "ft:gpt-4o-mini:acme::abc"),
    ("llama-4", "llama-4"),
    ("my-deployment", "my-deployment"),
    ("openai:gpt-5.2", "gpt-5.2"),
    ("openai/gpt-5.2", "gpt-5.2"),
    ("openai:ft:gpt-4o-mini:acme::abc", "ft:gpt-4o-mini:acme::abc"),
    ("openai/meta/llama-4", "meta/llama-4"),
]
GIVEN: list[tuple[str, Callable[[Any], Any]]] = [
    ("Agent 'a'", lambda model: Agent("a", model=model)),
    ("RunConfig", lambda model: RunConfig(model=model)),
    ("create_agent", lambda model: create_agent(model)),
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A server that the environment tells of."""
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield server


@pytest.fixture(autouse=True)
def registering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`register_provider`, for the test alone."""
    monkeypatch.setattr(named, "_providers", dict(named._providers))
    return register_provider


# -- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "plain"), OPENAIS)
def test_a_name_gives_a_model_with_its_plain_name(name: str, plain: str) -> None:
    models = [Agent("a", model=name).model, RunConfig(model=name).model, create_agent(name).agent.model]
    for model in models:
        assert isinstance(model, OpenAIResponsesModel)
        assert model.name == plain


OTHERS = [
    ("openai_chat/gpt-5.2", OpenAIChatCompletionsModel, "gpt-5.2"),
    ("openai_chat:meta/llama-4", OpenAIChatCompletionsModel, "meta/llama-4"),
    ("anthropic/claude-opus-5", AnthropicModel, "claude-opus-5"),
    ("anthropic:claude-opus-5", AnthropicModel, "claude-opus-5"),
    ("litellm/gemini/gemini-3-pro", LitellmModel, "gemini/gemini-3-pro"),
    ("litellm:ollama/gpt-oss:20b", LitellmModel, "ollama/gpt-oss:20b"),
]


@pytest.mark.parametrize(("name", "kind", "plain"), OTHERS)
def test_a_prefix_names_the_provider(name: str, kind: type[Any], plain: str) -> None:
    for model in (Agent("a", model=name).model, RunConfig(model=name).model, create_agent(name).agent.model):
        assert isinstance(model, kind)
        assert model.name == plain


@pytest.mark.parametrize(("whose", "make"), GIVEN, ids=[whose for whose, _ in GIVEN])
@pytest.mark.parametrize("name", ["mistral:large", "gpt-oss:20b", "together/meta/llama-4"])
def test_an_unknown_prefix_is_refused_at_once_with_what_to_do(
    whose: str, make: Callable[[Any], Any], name: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        make(name)
    text = str(caught.value)
    assert text.startswith(f"{whose}: no provider is known for the model {name!r}.")
    assert "without a prefix is OpenAI's" in text and "are anthropic/, litellm/, openai/, openai_chat/." in text
    prefix = name.replace("/", ":").split(":")[0]
    assert "give a Model" in text and text.endswith(f"register a provider first: register_provider({prefix!r}, ...).")


@pytest.mark.parametrize(("whose", "make"), GIVEN, ids=[whose for whose, _ in GIVEN])
@pytest.mark.parametrize("name", ["", " ", "openai:", "openai/ ", "anthropic:"])
def test_a_name_without_a_name_is_refused(whose: str, make: Callable[[Any], Any], name: str) -> None:
    with pytest.raises(InvalidDefinition, match=f"{whose}: model must name a model, got"):
        make(name)


class Blocking:
    """A chat model of another library."""

    name = "chat"

    def stream(self, input: Any) -> Any:
        yield "Hello."


@pytest.mark.parametrize(("whose", "make"), GIVEN, ids=[whose for whose, _ in GIVEN])
@pytest.mark.parametrize(
    "wrong", [5, object, ["gpt-5.2"], b"gpt-5.2", Blocking()], ids=lambda each: type(each).__name__
)
def test_what_is_neither_a_name_nor_a_model_is_refused(whose: str, make: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match=f"{whose}: model must be a model's name, or a Model.*; got"):
        make(wrong)


def test_a_model_is_taken_as_it_is() -> None:
    model = ScriptedModel(["done"])
    assert Agent("a", model=model).model is RunConfig(model=model).model is create_agent(model).agent.model is model


def test_naming_a_model_needs_no_key_and_loads_no_client() -> None:
    code = """
        import os, sys
        os.environ.pop("OPENAI_API_KEY", None)
        from assentry import Agent, RunConfig
        from assentry.threads import create_agent
        Agent("a", model="gpt-5.2"), RunConfig(model="openai:gpt-5.2"), create_agent("openai/gpt-5.2")
        Agent("a", model="anthropic/x"), Agent("a", model="litellm/x/y"), Agent("a", model="openai_chat/x")
        heavy = {"anthropic", "langchain_core", "litellm", "openai", "httpx", "httpx2"}
        print(sorted(heavy & set(sys.modules)))
    """
    ended = python(inspect.cleandoc(code))
    assert ended.stdout.strip() == "[]", ended.stderr


# -- providers of one's own ----------------------------------------------------------------------------


async def test_a_provider_is_given_the_name_after_its_prefix(registering: Callable[..., None]) -> None:
    asked: list[str] = []

    def acme(name: str) -> ScriptedModel:
        asked.append(name)
        return ScriptedModel(["done"], name=name)

    registering("acme", acme)
    agent = Agent("a", model="acme:large/v2")
    assert (await Runner.run(agent, "go")).final_output == "done"
    Agent("b", model="acme/small:free")
    assert asked == ["large/v2", "small:free"]


def test_a_later_provider_takes_the_place_of_the_earlier(registering: Callable[..., None]) -> None:
    registering("acme", lambda name: ScriptedModel([], name="one"))
    before = Agent("a", model="acme:x")
    registering("acme", lambda name: ScriptedModel([], name="two"))
    names = [getattr(agent.model, "name", None) for agent in (before, Agent("a", model="acme:x"))]
    assert names == ["one", "two"]


def test_openais_own_names_can_be_provided_for(registering: Callable[..., None]) -> None:
    registering("openai", lambda name: ScriptedModel([], name=f"mine {name}"))
    agents = [Agent("a", model=name) for name in ("gpt-5.2", "openai:gpt-5.2")]
    assert [getattr(agent.model, "name", None) for agent in agents] == ["mine gpt-5.2"] * 2


def test_an_unknown_name_is_told_which_prefixes_are_known(registering: Callable[..., None]) -> None:
    registering("acme", ScriptedModel)
    with pytest.raises(InvalidDefinition, match="known are acme/, anthropic/, litellm/"):
        Agent("a", model="another:llama-4")


@pytest.mark.parametrize("prefix", ["", " ", "a:b", "a/b", "a b", None, 5])
def test_a_prefix_is_a_word(prefix: Any) -> None:
    with pytest.raises(InvalidDefinition, match="prefix must be text without"):
        register_provider(prefix, ScriptedModel)


def test_a_provider_is_a_function(registering: Callable[..., None]) -> None:
    with pytest.raises(InvalidDefinition, match=r"'acme'.*provider must be a function"):
        registering("acme", "gpt-5.2")


def test_a_provider_gives_a_model(registering: Callable[..., None]) -> None:
    registering("acme", lambda name: None)
    with pytest.raises(InvalidDefinition, match=r"Agent 'a'.*the provider of 'acme:x' gave None"):
        Agent("a", model="acme:x")


# -- in runs -------------------------------------------------------------------------------------------


async def test_an_agent_is_defined_by_the_plain_name(server: OpenAIServer) -> None:
    send, _ = sending(needs_approval=True)
    server.script(replying(calling("send", {"to": "ann"})))
    result = await Runner.run(Agent("a", tools=[send], model="openai:gpt-5.2"), "go")
    [defined] = facts(result.to_state(), "defined")
    assert defined["model"] == "gpt-5.2"
    saved = result.to_state().to_string()
    same = await RunState.from_string(Agent("a", tools=[send], model="gpt-5.2"), saved)
    assert not same.changes
    with pytest.warns(UserWarning, match=r"o4-mini"):
        other = await RunState.from_string(Agent("a", tools=[send], model="o4-mini"), saved)
    assert any("'o4-mini' instead of 'gpt-5.2'" in change for change in other.changes)


async def test_a_run_is_approved_through_a_named_model(server: OpenAIServer) -> None:
    send, sent = sending(needs_approval=True)
    server.script(replying(calling("send", {"to": "ann"})), saying("Sent."))
    agent = Agent("a", tools=[send], model="gpt-5.2")
    result = await Runner.run(agent, "Write to Ann.")
    assert sent == []
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert (result.final_output, sent) == ("Sent.", [("ann", 1)])
    assert [each["model"] for each in server.bodies] == ["gpt-5.2"] * 2


async def test_the_runs_model_may_be_named(server: OpenAIServer) -> None:
    server.script(saying("By name."))
    agent = scripted("by script")
    result = await Runner.run(agent, "go", run_config=RunConfig(model="openai/o4-mini"))
    assert result.final_output == "By name." and server.bodies[0]["model"] == "o4-mini"


async def test_a_model_that_is_named_later_is_looked_up_when_it_is_asked(server: OpenAIServer) -> None:
    server.script(saying("Yes."))
    agent = scripted("by script")
    agent.model = "openai:gpt-5.2"
    assert (await Runner.run(agent, "go")).final_output == "Yes."
    agent.model = "another:llama-4"
    with pytest.raises(InvalidDefinition, match="llama-4"):
        model_of(agent)


def test_a_copy_may_name_another_model() -> None:
    agent = Agent("a", model="gpt-5.2")
    assert agent.clone().model is agent.model
    assert getattr(agent.clone(model="o4-mini").model, "name", None) == "o4-mini"


# -- in threads ----------------------------------------------------------------------------------------


def test_a_thread_is_answered_through_a_named_model(server: OpenAIServer) -> None:
    sent = []

    def send_mail(to: str, text: str) -> str:
        """Send a mail."""
        sent.append((to, text))
        return f"Sent to {to}."

    first = [thought(), calling("send_mail", {"to": "bob", "text": "I am late."})]
    server.script(replying(*first), saying("Bob knows."), saying("You are welcome."))
    agent = create_agent(
        "openai:gpt-5.2",
        [send_mail],
        system_prompt="Be brief.",
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "ann"}}
    result = agent.invoke({"messages": "Tell Bob that I am late."}, config)
    [request] = result["__interrupt__"][0].value["action_requests"]
    assert (request["name"], request["args"], sent) == ("send_mail", {"to": "bob", "text": "I am late."}, [])
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert (result["messages"][-1].content, sent) == ("Bob knows.", [("bob", "I am late.")])
    result = agent.invoke({"messages": "Thanks."}, config)
    assert result["messages"][-1].content == "You are welcome."
    heard = server.bodies[-1]["input"]
    assert heard[1:3] == first and heard[4] == message("Bob knows.")
    assert heard[3] == {"type": "function_call_output", "call_id": "call_1", "output": "Sent to bob."}
    assert [each["instructions"] for each in server.bodies] == ["Be brief."] * 3


def test_middleware_stands_around_a_named_model(server: OpenAIServer) -> None:
    seen: list[str] = []

    class Looking(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None:
            seen.extend(each.text for each in state["messages"] if isinstance(each, AIMessage))

    server.script(saying("Hello."))
    agent = create_agent("gpt-5.2", middleware=[Looking()])
    chunks = [chunk.content for chunk, _ in agent.stream({"messages": "Hi."}, stream_mode="messages")]
    assert seen == ["Hello."] and "".join(chunks).strip().startswith("Hello.")


async def test_who_leaves_a_thread_closes_the_http_response(server: OpenAIServer) -> None:
    server.script(endless)

    class Nothing(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None: ...

    agent = create_agent("gpt-5.2", middleware=[Nothing()])
    chunks = agent.astream({"messages": "Go on."}, stream_mode="messages")
    assert (await anext(chunks))[0].content == "And "
    await chunks.aclose()  # type: ignore[attr-defined]
    assert await asyncio.to_thread(server.gone.wait, HANGS)


async def test_a_tool_may_be_an_agent_with_a_named_model(server: OpenAIServer) -> None:
    @function_tool
    async def look() -> str:
        """Look."""
        return "A cat."

    server.script(replying(calling("look", {})), saying("There is a cat."))
    inner = Agent("Looker", tools=[look], model="gpt-5.2")
    agent = Agent("Outer", tools=[inner.as_tool()], model=ScriptedModel([[_asking()], "done"]))
    assert (await Runner.run(agent, "go")).final_output == "done"
    assert server.answers == []


def _asking() -> dict[str, Any]:
    return calling("looker", {"input": "What is there?"})


async def test_a_runs_own_provider_makes_the_model_of_its_name() -> None:
    asked: list[str] = []

    def make(name: str) -> ScriptedModel:
        asked.append(name)
        return ScriptedModel(["Hello."])

    class Provider:
        get_model = staticmethod(make)

    for provider in (make, Provider()):
        config = RunConfig(model="large", model_provider=provider)
        assert (await Runner.run(Agent("agent"), "Hello?", run_config=config)).final_output == "Hello."
    assert asked == ["large", "large"]


@pytest.mark.parametrize(("model", "provider"), [(None, str), (ScriptedModel(["x"]), str), ("m", "p")])
def test_a_runs_own_provider_needs_a_name(model: Any, provider: Any) -> None:
    with pytest.raises(InvalidDefinition, match="model_provider"):
        RunConfig(model=model, model_provider=provider)
