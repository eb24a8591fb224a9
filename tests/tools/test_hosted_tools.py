"""Tools that the provider runs: their settings are passed on, and its requests for approval pass the one gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assentry import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    InvalidDecision,
    InvalidDefinition,
    MCPToolApprovalRequest,
    ModelSettings,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    UnansweredRequest,
    WebSearchTool,
    function_tool,
)
from assentry.errors import ModelFailed
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import ScriptedModel, call
from assentry.threads import HumanInTheLoopMiddleware, create_agent

SECRET = "Bearer sk-planted-key"


def server(label: str = "git", **more: Any) -> HostedMCPTool:
    config = {
        "type": "mcp",
        "server_label": label,
        "server_url": "https://mcp.example/sse",
        "require_approval": "always",
    }
    return HostedMCPTool({**config, **more.pop("config", {})}, **more)


def request(
    name: str = "search", id: str = "mcpr_1", label: str = "git", arguments: str = '{"q": "x"}'
) -> dict[str, Any]:
    return {"type": "mcp_approval_request", "id": id, "server_label": label, "name": name, "arguments": arguments}


def agent(*steps: Any, tools: list[Any] | None = None) -> Agent[Any]:
    return Agent(name="Clerk", tools=tools or [server()], model=ScriptedModel(list(steps)))


def answers(model: Any, number: int = -1) -> list[dict[str, Any]]:
    return [item for item in model.requests[number].input if item.get("type") == "mcp_approval_response"]


async def test_a_providers_request_is_a_question_like_any_other() -> None:
    clerk = agent([request()], "Found.")
    result = await Runner.run(clerk, "Find it.")
    [item] = result.interruptions
    assert (item.tool_name, item.call_id, item.arguments, item.allowed) == (
        "search",
        "mcpr_1",
        '{"q":"x"}',
        ("approve", "reject"),
    )
    assert item.raw_item.server_label == item.raw_item["server_label"] == "git"
    state = result.to_state()
    state.approve(item)
    result = await Runner.run(clerk, state)
    assert result.final_output == "Found."
    assert answers(clerk.model) == [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}]
    assert [type(each).__name__ for each in result.new_items] == [
        "MCPApprovalRequestItem",
        "MCPApprovalResponseItem",
        "MessageOutputItem",
    ]


async def test_a_rejection_goes_to_the_provider_with_the_persons_words_only() -> None:
    clerk = agent([request(), request("drop", "mcpr_2")], "Well.")
    state = (await Runner.run(clerk, "Do both.")).to_state()
    first, second = state.get_interruptions()
    state.reject(first, rejection_message="Not that.")
    state.reject(second)
    await Runner.run(clerk, state)
    assert answers(clerk.model) == [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "Not that."},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_2", "approve": False},
    ]


async def test_a_lasting_decision_is_for_one_tool_of_one_server() -> None:
    clerk = agent(
        [request()],
        [request(id="mcpr_2"), request("drop", "mcpr_3"), request(id="mcpr_4", label="wiki")],
        "Done.",
        tools=[server(), server("wiki")],
    )
    state = (await Runner.run(clerk, "Find it.")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await Runner.run(clerk, await RunState.from_string(clerk, state.to_string()))
    assert [item.call_id for item in result.interruptions] == ["mcpr_3", "mcpr_4"]


async def test_code_may_answer_in_a_persons_place_and_its_failure_is_a_question() -> None:
    seen: list[MCPToolApprovalRequest] = []

    async def decide(request: MCPToolApprovalRequest) -> dict[str, Any]:
        seen.append(request)
        if request.data.name == "odd":
            raise RuntimeError("no idea")
        return {"approve": request.data.name == "search", "reason": "only searches"}

    clerk = agent(
        [request(), request("drop", "mcpr_2"), request("odd", "mcpr_3")],
        tools=[server(on_approval_request=decide)],
    )
    result = await Runner.run(clerk, "Find it.")
    assert [each.data["id"] for each in seen] == ["mcpr_1", "mcpr_2", "mcpr_3"]
    [left] = result.interruptions
    assert left.call_id == "mcpr_3" and "no idea" in left.reason


async def test_what_the_provider_runs_cannot_be_edited_or_answered_here() -> None:
    state = (await Runner.run(agent([request()]), "Find it.")).to_state()
    [item] = state.get_interruptions()
    with pytest.raises(InvalidDecision, match="approve, reject"):
        state.decide(item.id, {"type": "edit", "arguments": {"q": "y"}}, digest=item.digest)
    with pytest.raises(InvalidDecision, match="approve, reject"):
        state.decide(item.id, {"type": "respond", "output": "y"}, digest=item.digest)
    assert state.get_interruptions() == [item]


async def test_a_request_for_a_server_that_the_agent_does_not_have_stops_the_run() -> None:
    with pytest.raises(UnansweredRequest, match="no HostedMCPTool for 'wiki'") as caught:
        await Runner.run(agent([request(label="wiki")]), "Find it.")
    assert caught.value.state is not None


@pytest.mark.parametrize(
    "damage",
    [
        {"id": None},
        {"id": ""},
        {"id": "\ud800"},
        {"server_label": 3},
        {"name": None},
        {"name": ""},
        {"name": "\ud800"},
        {"arguments": 7},
    ],
)
async def test_a_request_that_cannot_be_answered_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ModelFailed):
        await Runner.run(agent([{**request(), **damage}]), "Find it.")


async def test_arguments_that_are_no_json_can_only_be_rejected() -> None:
    clerk = agent([request(arguments="{oops")], "Well.")
    result = await Runner.run(clerk, "Find it.")
    [item] = result.interruptions
    assert item.allowed == ("reject",)


async def test_a_function_call_by_the_servers_own_name_runs_nothing() -> None:
    clerk = agent(call("mcp:git", {}), "Well.")
    result = await Runner.run(clerk, "Find it.")
    [output] = [item for item in result.new_items if item.type == "tool_call_output_item"]
    assert output.outcome.status == "refused"


async def test_two_requests_with_one_id_are_refused() -> None:
    with pytest.raises(ModelFailed, match="one id"):
        await Runner.run(agent([request("read"), request("wipe")]), "Find it.")
    clerk = agent([request("read")], [request("wipe")])
    state = (await Runner.run(clerk, "Find it.")).to_state()
    state.approve(state.get_interruptions()[0])
    with pytest.raises(ModelFailed, match="one id"):
        await Runner.run(clerk, state)


async def test_an_approval_does_not_go_to_the_server_of_another_agent() -> None:
    transfer = {"type": "function_call", "call_id": "h", "name": "transfer_to_other", "arguments": "{}"}
    other = Agent(
        name="Other",
        tools=[server(config={"server_url": "https://other.example"})],
        model=ScriptedModel(["Never."]),
    )
    clerk = Agent(
        name="Clerk",
        tools=[server()],
        handoffs=[other],
        model=ScriptedModel([[request(), transfer], "Found."]),
    )
    state = (await Runner.run(clerk, "Find it.")).to_state()
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(clerk, state)
    assert (result.final_output, result.last_agent) == ("Found.", clerk)
    assert answers(clerk.model)[0]["approve"] is True and not other.model.requests  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "change",
    [
        {"server_url": "https://evil.example/sse"},
        {"server_url": "https://mcp.example:8443/sse"},
        {"server_url": "https://mcp.example/sse?tenant=other"},
        {"connector_id": "connector_gmail"},
    ],
)
async def test_a_changed_server_is_not_what_was_approved(change: dict[str, Any]) -> None:
    state = (await Runner.run(agent([request()]), "Find it.")).to_state()
    state.approve(state.get_interruptions()[0])
    other = agent("Never.", tools=[server(config=change)])
    with pytest.raises(Exception, match="search"):
        await Runner.run(other, await RunState.from_string(other, state.to_string()))
    assert not other.model.requests  # type: ignore[union-attr]


async def test_a_stores_people_decide_on_it_without_any_agent(tmp_path: Path) -> None:
    clerk = agent([request()], "Found.")
    async with SQLiteStore(tmp_path / "runs.db") as store:
        result = await Runner.run(clerk, "Find it.", store=store)
    async with SQLiteStore(tmp_path / "runs.db") as store:
        [question] = (await store.questions()).items
        await store.decide(question.id, {"type": "approve"}, by="ann", digest=question.digest)
        result = await Runner.run(clerk, await store.load(result.run_id), store=store)
    assert result.final_output == "Found." and answers(clerk.model)[0]["approve"] is True


async def test_in_a_conversation_that_the_provider_keeps_only_the_answer_is_sent() -> None:
    clerk = agent([request()], "Found.")
    state = (await Runner.run(clerk, "Find it.", conversation_id="conv_1")).to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(clerk, await RunState.from_string(clerk, state.to_string()))
    last = clerk.model.requests[-1]  # type: ignore[union-attr]
    assert last.conversation_id == "conv_1" and [item["type"] for item in last.input] == ["mcp_approval_response"]


async def test_a_history_that_begins_after_a_request_has_no_answer_to_it() -> None:
    session = SQLiteSession("s")
    clerk = agent([request()], "Found.", "Hello.")
    state = (await Runner.run(clerk, "Find it.", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(clerk, state, session=session)
    assert len(await session.get_items()) == 4
    await Runner.run(clerk, "Hi.", session=session, run_config=RunConfig(session_limit=2))
    assert answers(clerk.model) == []


async def test_a_session_keeps_the_other_calls_of_a_turn_with_a_request() -> None:
    @function_tool
    def pay() -> str:
        """Pay."""
        return "paid"

    session = SQLiteSession("s")
    payment = {"type": "function_call", "call_id": "k", "name": "pay", "arguments": "{}"}
    clerk = agent([request(), payment], "Found.", "Hello.", tools=[server(), pay])
    state = (await Runner.run(clerk, "Find it.", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(clerk, state, session=session)
    await Runner.run(clerk, "Hi.", session=session)
    kinds = [item.get("type") for item in clerk.model.requests[-1].input]  # type: ignore[union-attr]
    assert "function_call" in kinds and "function_call_output" in kinds


async def test_secrets_of_a_server_go_to_the_provider_alone() -> None:
    url = "https://me:planted@mcp.example:8443/s/planted/mcp?key=planted"
    tool = server(config={"authorization": SECRET, "headers": {"x-key": SECRET}, "server_url": url})
    assert "(https://mcp.example:8443)" in tool.description
    clerk = agent([request()], tools=[tool])
    result = await Runner.run(clerk, "Find it.")
    [sent] = clerk.model.requests[0].hosted  # type: ignore[union-attr]
    assert sent["authorization"] == SECRET and sent["headers"] == {"x-key": SECRET}
    kept = result.to_state().to_string() + repr(result.interruptions) + repr(tool) + tool.frozen().decode()
    assert SECRET not in kept and "planted" not in kept
    assert server().fingerprint == server(config={"authorization": "other"}).fingerprint


@pytest.mark.parametrize("url", ["planted", "https://[::1/planted", "https://host:planted/", "https:///planted"])
def test_a_server_url_that_is_no_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidDefinition, match="server_url is not a URL") as caught:
        server(config={"server_url": url})
    assert "planted" not in str(caught.value)


async def test_settings_of_hosted_tools_are_passed_on() -> None:
    tools = [WebSearchTool(), FileSearchTool(["vs_1"], max_num_results=3), CodeInterpreterTool()]
    clerk = agent("Hello.", tools=tools)
    await Runner.run(clerk, "Hello?")
    request = clerk.model.requests[0]  # type: ignore[union-attr]
    assert not request.tools
    assert [each["type"] for each in request.hosted] == ["web_search", "file_search", "code_interpreter"]
    assert request.hosted[1] == {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3}


class ClientObject:
    """An object of a provider's client, which says what was set in it."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, mode: str, by_alias: bool, exclude_unset: bool) -> dict[str, Any]:
        assert (mode, by_alias, exclude_unset) == ("json", True, True)
        return self.fields


def test_every_setting_of_a_search_is_passed_on_and_may_be_an_object_of_the_client() -> None:
    where, filters = ClientObject(type="approximate", city="Rome"), ClientObject(allowed_domains=["a.example"])
    web = WebSearchTool(where, filters, "low", False, ["text", "image"], {"max_results": 3})
    assert web.config == {
        "type": "web_search",
        "search_context_size": "low",
        "user_location": {"type": "approximate", "city": "Rome"},
        "filters": {"allowed_domains": ["a.example"]},
        "external_web_access": False,
        "search_content_types": ["text", "image"],
        "image_settings": {"max_results": 3},
    }
    ranking = ClientObject(score_threshold=0.5)
    files = FileSearchTool(["vs_1"], ranking_options=ranking, filters={"type": "eq", "key": "k", "value": 1})
    assert files.config["ranking_options"] == {"score_threshold": 0.5}


async def test_search_results_are_asked_for_beside_what_the_settings_include() -> None:
    tools = [FileSearchTool(["vs_1"], include_search_results=True)]
    settings = ModelSettings(response_include=["reasoning.encrypted_content"])
    clerk = agent("Hello.", "Hello.", tools=tools)
    clerk.model_settings = settings
    await Runner.run(clerk, "Hello?")
    clerk.tools.append(ImageGenerationTool({"type": "image_generation", "quality": "low"}))
    await Runner.run(clerk, "Hello?")
    first, second = clerk.model.requests  # type: ignore[union-attr]
    assert first.settings.response_include == ["reasoning.encrypted_content", "file_search_call.results"]
    assert second.hosted[1] == {"type": "image_generation", "quality": "low"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("no", "dict of JSON values"),
        ({"type": "mcp"}, "server_label"),
        ({"type": "function", "server_label": "git"}, '"type": "mcp"'),
        ({"server_label": "git", "require_approval": "sometimes"}, "require_approval"),
        ({"server_label": "git", "require_approval": {}}, "require_approval"),
        ({"server_label": "git", "require_approval": {"maybe": {}}}, "require_approval"),
        ({"server_label": "git", "headers": {"x": object()}}, "JSON"),
    ],
)
def test_bad_settings_fail_when_the_tool_is_defined(config: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        HostedMCPTool(config)


async def test_an_interrupt_names_the_server_whose_tool_is_to_be_called() -> None:
    thread = {"configurable": {"thread_id": "t"}}
    clerk = create_agent(ScriptedModel([[request()]]), [server()], checkpointer=MemoryStore())
    state = await clerk.ainvoke({"messages": [{"role": "user", "content": "Find it."}]}, thread)
    assert "MCP server: git" in state["__interrupt__"][0].value["action_requests"][0]["description"]


@pytest.mark.parametrize("pattern", ["mcp:git", "*"])
def test_middleware_cannot_ask_about_what_the_provider_runs(pattern: str) -> None:
    gate = HumanInTheLoopMiddleware({pattern: True})
    with pytest.raises(InvalidDefinition, match="which the provider runs"):
        create_agent(ScriptedModel([]), [server()], middleware=[gate])
    gate = HumanInTheLoopMiddleware({"mcp:git": False, pattern + "*": True})
    create_agent(ScriptedModel([]), [server()], middleware=[gate])


def test_two_servers_with_one_label_are_refused() -> None:
    with pytest.raises(InvalidDefinition, match="mcp:git"):
        Agent(name="Clerk", tools=[server(), server()])
