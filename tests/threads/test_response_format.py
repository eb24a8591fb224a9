"""Response formats: the strategies of LangChain, ours and theirs, and output that does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import InvalidDefinition, InvalidOutput
from assentry.testing import call
from assentry.threads import AutoStrategy, InMemorySaver, ProviderStrategy, ToolStrategy, create_agent, wrap_tool_call
from tests.threads.support import Paired, say, thread


class Weather(BaseModel):
    """The weather."""

    city: str
    degrees: int


@dataclass
class Unknown:
    why: str


GHENT = {"city": "Ghent", "degrees": 12}
SCHEMA = {**Weather.model_json_schema(), "title": "weather", "additionalProperties": False}


def look() -> str:
    """Look."""
    return "seen"


def strategies(name: str) -> list[Any]:
    own = {"ToolStrategy": ToolStrategy, "ProviderStrategy": ProviderStrategy, "AutoStrategy": AutoStrategy}[name]
    try:
        from langchain.agents import structured_output
    except ImportError:
        return [own]
    return [own, getattr(structured_output, name)]


@pytest.mark.parametrize("strategy", strategies("ToolStrategy"))
async def test_a_model_gives_its_output_by_a_tool(strategy: Any) -> None:
    seen: list[str] = []

    @wrap_tool_call
    def note(request: Any, handler: Any) -> Any:
        seen.append(request.tool_call["name"])
        return handler(request)

    model = Paired([[call("look"), call("Weather", GHENT)], "never"])
    form = strategy(Weather, tool_message_content="Noted.")
    agent = create_agent(model, [look], response_format=form, middleware=[note], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("go"), thread())
    assert result["structured_response"] == Weather(**GHENT) == agent.get_state(thread()).values["structured_response"]
    assert [each.content for each in result["messages"][2:]] == ["seen", "Noted."] and seen == ["look"]
    request = model.requests[0]
    assert request.settings.tool_choice == "required" and request.output is None
    assert [tool.name for tool in request.tools] == ["look", "Weather"]


@pytest.mark.parametrize("strategy", strategies("ToolStrategy"))
async def test_output_that_does_not_fit_is_asked_for_again(strategy: Any) -> None:
    wrong = call("Weather", {"city": "Ghent", "degrees": "cold"})
    for handle, told in ((True, "degrees"), ("Again!", "Again!"), (lambda error: f"No: {error}", "No: ")):
        model = Paired([wrong, [call("Weather", GHENT), call("Weather", GHENT)], call("Weather", GHENT)])
        result = await create_agent(model, response_format=strategy(Weather, handle_errors=handle)).ainvoke(say("go"))
        assert told in result["messages"][2].content and result["messages"][2].status == "error"
        assert len(model.requests) == 3 and result["structured_response"] == Weather(**GHENT)
        assert result["messages"][-1].content.startswith("Returning structured response: ")


@pytest.mark.parametrize("handle", [False, KeyError, (KeyError, OSError)])
async def test_output_that_does_not_fit_is_raised(handle: Any) -> None:
    model = Paired([call("Weather", {"city": 1}), "never"])
    agent = create_agent(model, response_format=ToolStrategy(Weather, handle_errors=handle))
    with pytest.raises(InvalidOutput, match="Weather"):
        await agent.ainvoke(say("go"))


async def test_an_exception_type_says_what_is_told_to_the_model() -> None:
    form = ToolStrategy(Weather, handle_errors=(InvalidOutput,))
    model = Paired([call("Weather", {"city": 1}), call("Weather", GHENT)])
    assert (await create_agent(model, response_format=form).ainvoke(say("go")))["structured_response"].degrees == 12


async def test_a_union_has_a_tool_for_each_type() -> None:
    for name, args, value in (("Weather", GHENT, Weather(**GHENT)), ("Unknown", {"why": "fog"}, Unknown("fog"))):
        model = Paired([call(name, args)])
        agent = create_agent(model, response_format=ToolStrategy(Weather | Unknown))
        assert (await agent.ainvoke(say("go")))["structured_response"] == value
        assert [tool.name for tool in model.requests[0].tools] == ["Weather", "Unknown"]


@pytest.mark.parametrize("strategy", [*strategies("ProviderStrategy"), *strategies("AutoStrategy")])
@pytest.mark.parametrize("schema", [Weather, SCHEMA], ids=["a type", "JSON"])
async def test_the_provider_enforces_the_output(strategy: Any, schema: Any) -> None:
    model = Paired(['{"city": "Ghent", "degrees": 12}'])
    result = await create_agent(model, response_format=strategy(schema)).ainvoke(say("go"))
    assert result["structured_response"] == (GHENT if schema is SCHEMA else Weather(**GHENT))
    assert model.requests[0].output is not None


@pytest.mark.parametrize("given", [SCHEMA, ToolStrategy(SCHEMA)], ids=["provider", "tool"])
async def test_a_json_schema_is_checked(given: Any) -> None:
    by_tool = isinstance(given, ToolStrategy)
    for value, fits in ((GHENT, True), ({"city": 1}, False)):
        reply = call("weather", value) if by_tool else str(value).replace("'", '"')
        agent = create_agent(Paired([reply, call("weather", GHENT)]), response_format=given)
        if fits or by_tool:
            assert (await agent.ainvoke(say("go")))["structured_response"] == GHENT
        else:
            with pytest.raises(InvalidOutput, match="weather"):
                await agent.ainvoke(say("go"))


def test_a_format_that_cannot_be_is_a_sentence() -> None:
    for given in ({"type": "string"}, ToolStrategy(3), ToolStrategy({"oneOf": [SCHEMA, SCHEMA]})):
        with pytest.raises(InvalidDefinition):
            create_agent(Paired(["ok"]), response_format=given)
    with pytest.raises(InvalidDefinition, match="handle_errors"):
        ToolStrategy(Weather, handle_errors=3)  # type: ignore[arg-type]
