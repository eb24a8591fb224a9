"""The items of a run in the Agents SDK's form: objects of OpenAI's client, made when they are read."""

import subprocess
import sys
from typing import Any

import pytest
from openai.types.responses import (
    ResponseCodeInterpreterToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_output_item import McpCall

import assentry
from assentry import ModelResponse as OwnResponse
from assentry.agents import (
    Agent,
    ItemHelpers,
    MessageOutputItem,
    ModelResponse,
    ReasoningItem,
    RunItem,
    Runner,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolOrigin,
    ToolOriginType,
    typed_item,
)
from assentry.agents.items import in_the_order_of
from assentry.errors import UsageError
from assentry.models.delta import RawItem
from assentry.testing import ScriptedModel, call

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
SEARCH = {"type": "mcp_call", "id": "m_1", "name": "find", "arguments": "{}", "server_label": "s", "output": "two"}
CODE = {"type": "code_interpreter_call", "id": "ci_1", "code": "1 + 1", "container_id": "c", "status": "completed"}


@assentry.function_tool
async def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


@assentry.function_tool(needs_approval=True)
async def send(to: str, body: str, copies: int = 1) -> str:
    """Send a letter."""
    return "sent"


def agent_with(*steps: Any) -> Agent[Any]:
    return Agent("agent", tools=[look, send], model=ScriptedModel(steps))


async def test_raw_items_are_objects_of_the_client_and_outputs_are_dicts() -> None:
    agent = agent_with([REASONING, CODE, SEARCH, call("look", {"place": "the attic"})], "Done.")
    result = await Runner.run(agent, "go")
    assert [type(item) for item in result.new_items] == [
        ReasoningItem,
        ToolCallItem,
        ToolCallItem,
        ToolCallItem,
        ToolCallOutputItem,
        MessageOutputItem,
    ]
    assert [type(item.raw_item) for item in result.new_items] == [
        ResponseReasoningItem,
        ResponseCodeInterpreterToolCall,
        McpCall,
        ResponseFunctionToolCall,
        RawItem,
        ResponseOutputMessage,
    ]
    assert all(isinstance(item, RunItem) for item in result.new_items)
    assert result.new_items[1].raw_item.outputs is None
    assert [item.tool_name for item in result.new_items[1:5]] == [None, "find", "look", "look"]
    assert [item.call_id for item in result.new_items[1:3]] == ["ci_1", "m_1"]
    function = ToolOrigin(ToolOriginType.FUNCTION)
    origins = [item.tool_origin for item in result.new_items[1:5]]
    assert origins == [None, ToolOrigin(ToolOriginType.MCP, mcp_server_name="s"), function, function]
    assert [item.description for item in result.new_items[1:4]] == [None, None, "Look somewhere."]
    assert result.new_items[3].title is None


async def test_a_call_of_an_agent_has_the_agent_as_its_origin() -> None:
    inner = Agent("inner", model=ScriptedModel(["in"]))
    agent = Agent("agent", tools=[inner.as_tool()], model=ScriptedModel([call("inner", {"input": "x"}), "Done."]))
    result = await Runner.run(agent, "go")
    origin = ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name="inner", agent_tool_name="inner")
    assert [item.tool_origin for item in result.new_items[:2]] == [origin, origin]
    result.release_agents()
    assert [item.tool_origin for item in result.new_items[:2]] == [None, None]


async def test_input_items_are_the_dicts_that_the_provider_sent() -> None:
    result = await Runner.run(agent_with([REASONING, CODE | {"created_by": "server"}, "Done."]), "go")
    before = [item.to_input_item() for item in result.new_items]
    typed = [item.raw_item for item in result.new_items]
    assert [item.to_input_item() for item in result.new_items] == before == result.to_input_list()[1:]
    assert before[:2] == [REASONING, CODE]
    assert isinstance(typed[2].content[0], ResponseOutputText)


async def test_replies_have_the_form_too() -> None:
    seen: list[Any] = []

    class Hooks(assentry.RunHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            seen.append(response)

    result = await Runner.run(agent_with("Done."), "go", hooks=Hooks())
    assert [type(each) for each in (*result.raw_responses, *seen)] == [ModelResponse, ModelResponse]
    assert isinstance(result.raw_responses[0].output[0], ResponseOutputMessage)
    assert result.raw_responses[0].to_input_items() == result.to_input_list()[1:]


async def test_an_item_that_does_not_fit_is_shown_as_far_as_it_does() -> None:
    odd = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    result = await Runner.run(agent_with([odd]), "go")
    raw = result.new_items[0].raw_item
    assert isinstance(raw, ResponseOutputMessage)
    assert (raw.id, raw.content[0].annotations) == (None, [])
    assert result.new_items[0].to_input_item() == odd


async def test_without_the_client_items_are_read_as_dicts_or_by_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_item, "_event_class", lambda: None)
    result = await Runner.run(agent_with("Done."), "go")
    raw = result.new_items[0].raw_item
    assert type(raw) is RawItem
    assert raw.content[0].text == raw["content"][0]["text"] == "Done."
    assert ItemHelpers.text_message_outputs(result.new_items) == "Done."


def test_a_run_does_not_import_the_client_until_an_item_is_read() -> None:
    program = (
        "import sys, assentry; from assentry.agents.view_classes import VIEW_CLASSES\n"
        "from assentry.testing import ScriptedModel\n"
        "class Agent(assentry.Agent): view_classes = VIEW_CLASSES\n"
        "result = assentry.Runner.run_sync(Agent('a', model=ScriptedModel(['hi'])), 'go')\n"
        "items = result.new_items; assert 'openai' not in sys.modules\n"
        "items[0].raw_item; assert 'openai' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_an_agent_of_assentry_itself_shows_dicts() -> None:
    result = await Runner.run(assentry.Agent("agent", model=ScriptedModel(["Done."])), "go")
    assert type(result.new_items[0]) is assentry.MessageOutputItem
    assert type(result.new_items[0].raw_item) is RawItem
    assert type(result.raw_responses[0]) is OwnResponse


async def test_a_question_has_the_form_and_can_be_decided_on() -> None:
    agent = agent_with(call("send", {"to": "ann", "body": "hi"}), "Done.")
    result = await Runner.run(agent, "go")
    (item,) = result.interruptions
    assert type(item) is ToolApprovalItem
    assert item.raw_item.name == item.tool_name == "send"
    assert [item] == result.to_state().get_interruptions()
    with pytest.raises(UsageError, match="leave it out"):
        item.to_input_item()
    state = result.to_state()
    state.approve(item)
    assert (await Runner.run(agent, state)).final_output == "Done."


async def test_the_arguments_of_a_question_keep_the_order_of_the_model() -> None:
    given = '{"to": "ann", "copies": 2,  "body": "hi"}'
    result = await Runner.run(
        agent_with({"type": "function_call", "call_id": "c", "name": "send", "arguments": given}), "go"
    )
    (item,) = result.interruptions
    assert item.arguments == given


async def test_a_default_is_shown_among_the_arguments_of_a_question() -> None:
    result = await Runner.run(agent_with(call("send", {"to": "ann", "body": "hi"})), "go")
    assert result.interruptions[0].arguments == '{"to":"ann","body":"hi","copies":1}'


@pytest.mark.parametrize(
    ("held", "proposed", "shown"),
    [
        ('{"a":1,"b":2}', '{"b": 2, "a": 1}', '{"b": 2, "a": 1}'),
        ('{"a":1,"b":3}', '{"b": 2, "a": 1}', '{"b":3,"a":1}'),
        (
            '{"a":{"x":1,"y":2},"l":[{"c":1,"d":2}]}',
            '{"l":[{"d":2,"c":0}],"a":{"y":2}}',
            '{"l":[{"d":2,"c":1}],"a":{"y":2,"x":1}}',
        ),
        ('{"a":1}', '{"b": 2}', '{"a":1}'),
        ('{"a":1,', '{"a":1,', '{"a":1,'),
        ('{"a":1}', None, '{"a":1}'),
        ('{"a":1.0}', '{"a":true}', '{"a":1.0}'),
        ('{"a":9007199254740992.0}', '{"a": 9007199254740993.0}', '{"a":9007199254740992.0}'),
        ('{"a":9007199254740993}', '{"a": 9007199254740993}', '{"a": 9007199254740993}'),
        ('{"a":0.1,"b":100.0}', '{"b": 1.00e2, "a": 0.10}', '{"b": 1.00e2, "a": 0.10}'),
    ],
)
def test_what_is_shown_is_what_runs_in_the_order_of_the_model(held: str, proposed: str | None, shown: str) -> None:
    assert in_the_order_of(held, proposed) == shown


async def test_the_form_stays_after_the_agents_are_released() -> None:
    result = await Runner.run(agent_with(call("send", {"to": "ann", "body": "hi"})), "go")
    result.release_agents()
    assert type(result.to_state().get_interruptions()[0]) is ToolApprovalItem
    assert [type(item) for item in result.new_items] == [ToolCallItem, ToolApprovalItem]


def test_helpers_read_messages_as_objects_and_as_dicts() -> None:
    parts = [
        {"type": "output_text", "text": "a"},
        {"type": "refusal", "refusal": "no"},
        {"type": "output_text", "text": "b"},
    ]
    for message in (
        {"type": "message", "content": parts},
        typed_item.typed_item({"type": "message", "content": parts}),
    ):
        assert ItemHelpers.extract_text(message) == "ab"
        assert ItemHelpers.extract_refusal(message) == "no"
        assert ItemHelpers.extract_last_content(message) == ItemHelpers.extract_last_text(message) == "b"
    refused = {"type": "message", "content": parts[:2]}
    assert (ItemHelpers.extract_last_content(refused), ItemHelpers.extract_last_text(refused)) == ("no", None)
    assert ItemHelpers.extract_text(REASONING) is None
    assert ItemHelpers.extract_last_content(REASONING) == ""


def test_helpers_make_lists_of_items() -> None:
    assert ItemHelpers.input_to_new_input_list("hi") == [{"content": "hi", "role": "user"}]
    given: Any = [{"role": "user", "content": "hi"}]
    made = ItemHelpers.input_to_new_input_list(given)
    assert (made == given, made is given, made[0] is given[0]) == (True, False, False)
