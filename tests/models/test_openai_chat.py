"""Models of the Chat Completions API, through OpenAI's client, against a server that refuses what it refuses."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from assentry import (
    Agent,
    InvalidDefinition,
    MCPToolChoice,
    ModelFailed,
    ModelRefused,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    OutputSpec,
    Runner,
    ToolSpec,
    Usage,
    UsageError,
)
from assentry.models.wire import WIRE, responses_items
from tests.models import openai_server
from tests.models.chat_server import (
    USAGE,
    call_deltas,
    chunk,
    endless,
    judge,
    replying,
    saying,
    streaming,
)
from tests.models.openai_server import Answer, Item, OpenAIServer, refusing
from tests.runtime.support import HANGS, reloaded, sending

HELLO = ModelRequest(None, [{"role": "user", "content": "Hello?"}])
SEND = ToolSpec("send", "Send.", {"type": "object"})
KEY = "sk-planted-1234567890"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(judge=judge) as server:
        yield server


@asynccontextmanager
async def model_at(server: OpenAIServer, name: str = "gpt-5.2") -> AsyncIterator[OpenAIChatCompletionsModel]:
    """A model with a client of its own, which does not try again."""
    async with AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0) as client:
        yield OpenAIChatCompletionsModel(name, client)


async def heard(server: OpenAIServer, *answers: Answer, request: ModelRequest = HELLO) -> tuple[list[Any], Any]:
    """The deltas and the reply."""
    server.script(*answers)
    async with model_at(server) as model:
        *deltas, reply = [each async for each in model.stream(request)]
    assert isinstance(reply, ModelResponse) and all(type(each) is dict for each in deltas)
    return deltas, reply


async def failure(server: OpenAIServer, *answers: Answer) -> ModelFailed:
    """How the model fails with these answers."""
    with pytest.raises(ModelFailed) as caught:
        await heard(server, *answers)
    assert "'gpt-5.2'" in str(caught.value)
    return caught.value


async def body(server: OpenAIServer, request: ModelRequest) -> dict[str, Any]:
    """What the server is sent for a request."""
    await heard(server, saying("Yes."), request=request)
    return server.bodies[-1]


def calls(reply: ModelResponse) -> list[tuple[str, str, str]]:
    found = [item for item in reply.output if item["type"] == "function_call"]
    return [(item["call_id"], item["name"], item["arguments"]) for item in found]


def said(text: str) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def piece(**call: Any) -> Item:
    """A delta of one call."""
    return {"tool_calls": [call]}


# -- a reply -------------------------------------------------------------------------------------------


async def test_text_comes_as_deltas_and_then_as_a_reply(server: OpenAIServer) -> None:
    deltas, reply = await heard(server, saying("Hello to you."))
    texts = [each["delta"] for each in deltas if each["type"] == "response.output_text.delta"]
    assert texts == ["Hello", " to y", "ou."]
    assert [deltas[0]["type"], deltas[-1]["type"]] == ["response.output_item.added", "response.output_item.done"]
    assert deltas[-1]["item"] == said("Hello to you.")
    assert reply == ModelResponse([said("Hello to you.")], Usage(1, 36, 87, 4, 60), "chatcmpl-1")
    [asked] = server.asked
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "gpt-5.2",
        "messages": [{"role": "user", "content": "Hello?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_calls_are_put_together_and_shown_as_they_come(server: OpenAIServer) -> None:
    pieces = [*call_deltas(0, "send", '{"to": "ann"}', "call_a"), *call_deltas(1, "send", '{"to": "bob"}', "call_b")]
    deltas, reply = await heard(server, replying({"content": "Sending."}, *pieces, finish="tool_calls"))
    assert reply.output[0] == said("Sending.")
    assert calls(reply) == [("call_a", "send", '{"to": "ann"}'), ("call_b", "send", '{"to": "bob"}')]
    added = [each for each in deltas if each["type"] == "response.output_item.added"]
    assert [(each["output_index"], each["item"].get("name")) for each in added] == [(0, None), (1, "send"), (2, "send")]
    kind = "response.function_call_arguments.delta"
    shown = [each["delta"] for each in deltas if each["type"] == kind and each["output_index"] == 2]
    assert "".join(shown) == '{"to": "bob"}' and len(shown) > 1


ANN, BOB = '{"to": "ann"}', '{"to": "bob"}'


@pytest.mark.parametrize(
    ("deltas", "ids"),
    [
        pytest.param(
            [piece(index=0, id="", function={"name": "send", "arguments": ANN}), *call_deltas(1, "send", BOB, None)],
            [None, None],
            id="no ids",
        ),
        pytest.param([*call_deltas(0, "send", ANN, "x"), *call_deltas(1, "send", BOB, "x")], ["x", None], id="one id"),
        pytest.param(
            [*call_deltas(0, "send", ANN, "x"), *call_deltas(0, "send", BOB, "y")], ["x", "y"], id="one index"
        ),
        pytest.param(
            [
                piece(id="x", function={"name": "send", "arguments": ANN}),
                piece(id="y", function={"name": "send", "arguments": BOB}),
            ],
            ["x", "y"],
            id="no index",
        ),
        pytest.param(
            [
                piece(function={"name": "send", "arguments": '{"to":'}),
                piece(function={"arguments": ' "ann"}'}),
                piece(function={"name": "send", "arguments": BOB}),
            ],
            [None, None],
            id="neither index nor id",
        ),
        pytest.param(
            [
                piece(id="x", function={"name": "send", "arguments": '{"to":'}),
                piece(id="x", function={"name": "send", "arguments": ' "ann"}'}),
                piece(id="x", function={"name": "send", "arguments": BOB}),
            ],
            ["x", None],
            id="one id and no index",
        ),
        pytest.param(
            [
                piece(index=0, id="x", function={"name": "send", "arguments": '{"to":'}),
                piece(index=0, id="x", function={"name": "send", "arguments": ' "ann"}'}),
                piece(index=1, id="y", function={"name": "send", "arguments": {"to": "bob"}}),
            ],
            ["x", "y"],
            id="everything repeated and arguments as an object",
        ),
    ],
)
async def test_servers_that_leave_out_or_repeat_ids_are_understood(
    server: OpenAIServer, deltas: list[Item], ids: list[str | None]
) -> None:
    _, reply = await heard(server, replying(*deltas, finish="tool_calls"))
    assert [(name, arguments) for _, name, arguments in calls(reply)] == [("send", ANN), ("send", BOB)]
    found = [id for id, _, _ in calls(reply)]
    assert len(set(found)) == 2 and all(found)
    assert [id if known else None for id, known in zip(found, ids, strict=True)] == ids


async def test_an_id_that_was_used_before_is_not_used_again(server: OpenAIServer) -> None:
    items = [
        {"role": "user", "content": "Write."},
        {"type": "function_call", "call_id": "call_0", "name": "send", "arguments": ANN},
        {"type": "function_call_output", "call_id": "call_0", "output": "Sent."},
    ]
    answer = replying(*call_deltas(0, "send", BOB, "call_0"), finish="tool_calls")
    _, reply = await heard(server, answer, request=ModelRequest(None, items, (SEND,)))
    [(id, _, _)] = calls(reply)
    assert id and id != "call_0"


async def test_no_arguments_are_an_empty_object_and_malformed_ones_stay(server: OpenAIServer) -> None:
    pieces = [*call_deltas(0, "send", "", "a"), *call_deltas(1, "send", '{"to": an', "b")]
    _, reply = await heard(server, replying(*pieces, finish="tool_calls"))
    assert [arguments for _, _, arguments in calls(reply)] == ["{}", '{"to": an']


async def test_a_call_without_a_name_is_an_error(server: OpenAIServer) -> None:
    answer = replying(piece(index=0, id="x", function={"arguments": "{}"}), finish="tool_calls")
    assert "without the name of a tool" in str(await failure(server, answer))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_kept_shown_and_sent_back_under_its_name(server: OpenAIServer, field: str) -> None:
    deltas = [{field: "Hm, "}, {field: "yes."}, {"content": "Yes."}]
    shown, reply = await heard(server, replying(*deltas))
    thought = reply.output[0]
    assert (thought["type"], thought["content"]) == ("reasoning", [{"type": "reasoning_text", "text": "Hm, yes."}])
    kind = "response.reasoning_text.delta"
    assert [each["delta"] for each in shown if each["type"] == kind] == ["Hm, ", "yes."]
    more = [*HELLO.input, *reply.output, {"role": "user", "content": "Why?"}]
    sent = await body(server, ModelRequest(None, more))
    assert sent["messages"][1] == {"role": "assistant", "content": "Yes.", field: "Hm, yes."}


async def test_fields_of_a_servers_own_come_back_to_it(server: OpenAIServer) -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc", "index": 0}]
    signed = {"google": {"thought_signature": "xyz"}}
    call = {"index": 0, "id": "a", "function": {"name": "send", "arguments": ANN}, "extra_content": signed}
    deltas = [{"reasoning_details": details[:1]}, {"reasoning_details": details[:1]}, piece(**call)]
    _, reply = await heard(server, replying(*deltas, finish="tool_calls"))
    assert [item["type"] for item in reply.output] == ["function_call"], "nothing is made up to carry them"
    more = [*HELLO.input, *reply.output, {"type": "function_call_output", "call_id": "a", "output": "Sent."}]
    sent = await body(server, ModelRequest(None, more, (SEND,)))
    assert sent["messages"][1] == {
        "role": "assistant",
        "content": None,
        "reasoning_details": details * 2,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "send", "arguments": ANN}, "extra_content": signed}
        ],
    }


async def test_a_content_in_parts_is_read_and_sent_back_as_it_came(server: OpenAIServer) -> None:
    parts = [{"type": "reference", "ids": [1]}, {"type": "text", "text": "Yes."}]
    server.judge = lambda asked: None  # OpenAI's own API has no such parts
    _, reply = await heard(server, replying({"content": parts}))
    assert reply.output[0]["content"][0]["text"] == "Yes."
    sent = await body(server, ModelRequest(None, [*HELLO.input, *reply.output]))
    assert sent["messages"][1] == {"role": "assistant", "content": parts}


async def test_an_empty_reply_is_a_reply_without_items(server: OpenAIServer) -> None:
    _, reply = await heard(server, replying())
    assert reply.output == []
    server.script(replying())
    async with model_at(server) as model:
        assert (await Runner.run(Agent("a", model=model), "Hello?")).final_output == ""


@pytest.mark.parametrize(
    ("usage", "used"),
    [
        (None, Usage(1)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, Usage(1, 3, 2)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "prompt_cache_hit_tokens": 1}, Usage(1, 3, 2, 1)),
        (USAGE, Usage(1, 36, 87, 4, 60)),
    ],
)
async def test_a_server_may_say_less_of_what_was_used(server: OpenAIServer, usage: Item | None, used: Usage) -> None:
    _, reply = await heard(server, replying({"content": "Yes."}, usage=usage))
    assert reply.usage == used


async def test_a_large_reply_is_read_whole(server: OpenAIServer) -> None:
    large = "x" * 1_000_000
    deltas, reply = await heard(server, replying(*({"content": large} for _ in range(50))))
    [item] = reply.output
    assert len(item["content"][0]["text"]) == 50_000_000 and len(deltas) == 52


# -- a request -----------------------------------------------------------------------------------------


async def test_everything_in_a_request_is_handed_over(server: OpenAIServer) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    image, file = "data:image/png;base64,AAAA", "data:application/pdf;base64,AAAA"
    items: list[Item] = [
        {"role": "developer", "content": "Be kind."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Write to Ann."},
                {"type": "input_image", "image_url": image, "detail": "low"},
                {"type": "input_file", "file_data": file, "filename": "a.pdf"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "text", "text": "Please."},
            ],
        },
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "send", "arguments": ANN},
        {"type": "function_call", "call_id": "c2", "name": "send", "arguments": BOB},
        {"type": "function_call_output", "call_id": "c1", "output": "Sent."},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "Sent, too."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No more."}]},
        {"role": "user", "content": "Why?"},
    ]
    before = deepcopy(items)
    tools = (ToolSpec("send", "Send a mail.", schema), ToolSpec("call", "Call.", {"type": "object"}, strict=False))
    sent = await body(server, ModelRequest("Be brief.", items, tools, OutputSpec("Mail", schema)))
    assert items == before
    function = {"name": "send", "description": "Send a mail.", "parameters": schema, "strict": True}
    other = {"name": "call", "description": "Call.", "parameters": {"type": "object"}}
    assert sent == {
        "model": "gpt-5.2",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": function}, {"type": "function", "function": other}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "Mail", "schema": schema, "strict": True}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Write to Ann."},
                    {"type": "image_url", "image_url": {"url": image, "detail": "low"}},
                    {"type": "file", "file": {"file_data": file, "filename": "a.pdf"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "text", "text": "Please."},
                ],
            },
            {
                "role": "assistant",
                "content": "Yes.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "send", "arguments": ANN}},
                    {"id": "c2", "type": "function", "function": {"name": "send", "arguments": BOB}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "Sent."},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "Sent, too."}]},
            {"role": "assistant", "content": None, "refusal": "No more."},
            {"role": "user", "content": "Why?"},
        ],
    }


async def test_every_setting_is_handed_over(server: OpenAIServer) -> None:
    settings = ModelSettings(
        temperature=0.0,
        top_p=0.5,
        frequency_penalty=0.1,
        presence_penalty=-0.1,
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=50,
        reasoning={"effort": "low"},
        verbosity="low",
        metadata={"a": "b"},
        store=False,
        extra_headers={"x-mine": "yes"},
        extra_query={"q": 1},
        extra_body={"seed": 7},
        extra_args={"service_tier": "flex", "stream_options": None},
    )
    sent = await body(server, ModelRequest(None, HELLO.input, (SEND,), None, settings))
    for name in ("model", "messages", "stream", "tools"):
        sent.pop(name)
    assert sent == {
        "temperature": 0.0,
        "top_p": 0.5,
        "frequency_penalty": 0.1,
        "presence_penalty": -0.1,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 50,
        "reasoning_effort": "low",
        "verbosity": "low",
        "metadata": {"a": "b"},
        "store": False,
        "seed": 7,
        "service_tier": "flex",
    }
    assert server.asked[-1].headers["x-mine"] == "yes" and server.asked[-1].path.endswith("?q=1")


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", "auto"), ("none", "none"), ("send", {"type": "function", "function": {"name": "send"}})],
)
async def test_a_tool_is_chosen_by_its_name(server: OpenAIServer, choice: str, sent: Any) -> None:
    settings = ModelSettings(tool_choice=choice, parallel_tool_calls=True)
    asked = await body(server, ModelRequest(None, HELLO.input, (SEND,), settings=settings))
    assert (asked["tool_choice"], asked["parallel_tool_calls"]) == (sent, True)
    if choice != "send":
        assert "tool_choice" not in await body(server, ModelRequest(None, HELLO.input, settings=settings))


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (ModelRequest(None, [{"type": "web_search_call", "id": "ws_1"}]), "an item of type 'web_search_call'"),
        (ModelRequest(None, [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]), "input_image"),
        (ModelRequest(None, [{"role": "user", "content": [{"type": "input_file", "file_url": "u"}]}]), "input_file"),
        (ModelRequest(None, [{"role": "user", "content": 5}]), "the content 5"),
        (ModelRequest(None, [], settings=ModelSettings(truncation="auto")), "no setting truncation"),
        (ModelRequest(None, [], settings=ModelSettings(context_management=[])), "no setting context_management"),
        (ModelRequest(None, [], settings=ModelSettings(tool_choice=MCPToolChoice("a", "b"))), "no MCP servers"),
        (ModelRequest(None, [], prompt={"id": "p"}), "keeps no prompts"),
        (ModelRequest(None, [], settings=ModelSettings(reasoning={"summary": "auto"})), "'summary' of reasoning"),
        (ModelRequest(None, [], previous_response_id="resp_1"), "keeps no conversation"),
        (ModelRequest(None, [], conversation_id="conv_1"), "keeps no conversation"),
        (ModelRequest(None, [], settings=ModelSettings(extra_args={"no_such": 1})), "extra_args.*no_such"),
    ],
)
async def test_what_the_api_cannot_be_told_is_an_error_before_it_is_asked(
    server: OpenAIServer, request_: ModelRequest, what: str
) -> None:
    async with model_at(server) as model:
        with pytest.raises(UsageError, match=what):
            [each async for each in model.stream(request_)]
    assert server.asked == []


async def test_another_models_reasoning_stays_its_own(server: OpenAIServer) -> None:
    thought = openai_server.thought(encrypted_content="gAAAA")
    sent = await body(server, ModelRequest(None, [*HELLO.input, thought, {"role": "user", "content": "And?"}]))
    assert [each["role"] for each in sent["messages"]] == ["user", "user"]
    _, reply = await heard(server, replying({"reasoning": "Hm."}, {"content": "Yes."}, {"reasoning_details": [1]}))
    assert reply.output[0][WIRE] and reply.output[1][WIRE]
    assert responses_items([*HELLO.input, *reply.output]) == [*HELLO.input, said("Yes.")]


async def test_openais_own_server_is_told_the_limit_by_its_newer_name() -> None:
    model = OpenAIChatCompletionsModel("gpt-5.2", AsyncOpenAI(api_key=KEY, http_client=Unreachable()))
    request = ModelRequest(None, HELLO.input, settings=ModelSettings(max_tokens=5))
    with pytest.raises(ModelFailed):
        [each async for each in model.stream(request)]
    assert Unreachable.bodies[-1]["max_completion_tokens"] == 5


class Unreachable(openai.DefaultAsyncHttpxClient):
    """A transport that keeps what is sent, and sends it nowhere."""

    bodies: list[Any] = []  # noqa: RUF012

    async def send(self, request: Any, **_: Any) -> Any:
        self.bodies.append(json.loads(request.content))
        raise ValueError("there is no network")


# -- failures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [(400, None, False), (401, "invalid_api_key", False), (429, None, True), (429, "insufficient_quota", False)],
)
async def test_a_refused_request_says_why_and_whether_to_try_again(
    server: OpenAIServer, status: int, code: str | None, retryable: bool
) -> None:
    error = await failure(server, refusing(status, "That is not right.", code))
    assert error.retryable is retryable and f"(status {status}): That is not right." in str(error)
    assert isinstance(error.__cause__, openai.APIStatusError)


@pytest.mark.parametrize(("finish", "advice"), [("length", "max_tokens"), ("content_filter", "filter")])
async def test_a_reply_that_was_cut_short_is_an_error(server: OpenAIServer, finish: str, advice: str) -> None:
    error = await failure(server, replying(*call_deltas(0, "send", ANN, "a"), finish=finish))
    assert not error.retryable and finish in str(error) and advice in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        streaming(),
        streaming(chunk({"content": "Ye"})),
        streaming(chunk({"content": "Ye"}), done=False),
        streaming(*(chunk(delta) for delta in call_deltas(0, "send", ANN, "a"))),
        streaming(b"data: {half\n\n"),
        streaming(b"data: 5\n\n"),
        streaming(chunk({"content": {"no": "text"}})),
        streaming(chunk({"tool_calls": [5]})),
        streaming(b'data: {"error": {"message": "It broke down.", "code": "server_error"}}\n\n'),
    ],
    ids=["nothing", "half", "a broken line", "half a call", "no json", "no object", "no text", "no call", "an error"],
)
async def test_half_a_stream_and_a_stream_of_something_else_are_errors(server: OpenAIServer, answer: Answer) -> None:
    assert (await failure(server, answer)).retryable


async def test_what_comes_after_the_end_does_not_undo_the_reply(server: OpenAIServer) -> None:
    _, reply = await heard(server, streaming(chunk({"content": "Yes."}), chunk({}, "stop"), done=False))
    assert reply.output == [said("Yes.")]


async def test_a_client_tries_again_and_then_says_what_happened(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    later = refusing(429, "Too fast.", retry_after_ms="1")
    server.script(later, later, later, later, saying("Now."))
    agent = Agent("a", model="openai_chat/gpt-5.2")
    with pytest.raises(ModelFailed, match=r"status 429.*Too fast") as caught:
        await Runner.run(agent, "Hello?")
    assert len(server.asked) == 3 and caught.value.retryable
    result = await Runner.run(agent, caught.value.state)
    assert result.final_output == "Now." and len({json.dumps(each) for each in server.bodies}) == 1


async def test_a_timeout_is_an_error(server: OpenAIServer) -> None:
    server.script(endless)
    async with AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0, timeout=0.05) as client:
        with pytest.raises(ModelFailed, match=r"'gpt-5\.2'") as caught:
            [each async for each in OpenAIChatCompletionsModel("gpt-5.2", client).stream(HELLO)]
    assert caught.value.retryable


@pytest.mark.parametrize(
    "answer",
    [
        refusing(401, f"Incorrect API key provided: {KEY}."),
        streaming(f'data: {{"error": {{"message": "No account of {KEY}."}}}}\n\n'.encode()),
        streaming(f"data: {KEY}\n\n".encode()),
    ],
)
async def test_a_key_is_in_no_error_and_in_no_log(
    server: OpenAIServer, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = await failure(server, answer)
    logging.getLogger("test").error("It failed.", exc_info=error)
    assert KEY not in str(error) and KEY not in caplog.text and "It failed." in caplog.text


async def test_a_key_is_in_no_saved_run(server: OpenAIServer) -> None:
    server.script(refusing(401, f"Incorrect API key provided: {KEY}."))
    async with model_at(server) as model:
        with pytest.raises(ModelFailed) as caught:
            await Runner.run(Agent("a", model=model), "Hello?")
    assert KEY not in caught.value.state.to_string()


@pytest.mark.parametrize("name", ["", " ", None, 5, "a\ud800"])
def test_a_model_needs_a_name(name: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"OpenAIChatCompletionsModel: model must be text"):
        OpenAIChatCompletionsModel(name)


def test_a_client_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match=r"openai_client must be an openai.AsyncOpenAI or None, got a OpenAI\."):
        OpenAIChatCompletionsModel("gpt-5.2", openai.OpenAI(api_key=KEY))  # type: ignore[arg-type]
    model = OpenAIChatCompletionsModel(model="gpt-5.2", openai_client=AsyncOpenAI(api_key=KEY))
    assert repr(model) == "OpenAIChatCompletionsModel('gpt-5.2')"


async def test_without_a_key_it_is_said_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        await Runner.run(Agent("a", model="openai_chat:gpt-5.2"), "Hello?")


# -- closing, and in runs ------------------------------------------------------------------------------


async def test_who_stops_reading_closes_the_http_response(server: OpenAIServer) -> None:
    server.script(endless)
    async with model_at(server) as model:
        events: Any = model.stream(HELLO)
        assert (await anext(events))["type"] == "response.output_item.added"
        await events.aclose()
        assert await asyncio.to_thread(server.gone.wait, HANGS)


async def test_a_run_is_approved_in_another_process_and_goes_on(server: OpenAIServer) -> None:
    send, sent = sending(needs_approval=True)
    pieces = [{"reasoning_content": "Hm."}, *call_deltas(0, "send", '{"to": "ann"}', "call_a")]
    server.script(replying(*pieces, finish="tool_calls"), saying("Sent."))
    async with model_at(server) as model:
        agent = Agent("a", "Be brief.", tools=[send], model=model)
        result = await Runner.run(agent, "Write to Ann.")
        assert sent == []
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    assert (result.final_output, sent) == ("Sent.", [("ann", 1)])
    assert server.bodies[1]["messages"][2]["reasoning_content"] == "Hm."


async def test_a_refusal_is_the_output_and_an_error_where_the_output_has_a_type(server: OpenAIServer) -> None:
    class Weather(BaseModel):
        rain: bool

    answer = replying({"refusal": "I would "}, {"refusal": "rather not."})
    server.script(answer, answer)
    async with model_at(server) as model:
        assert (await Runner.run(Agent("a", model=model), "Do it.")).final_output == "I would rather not."
        with pytest.raises(ModelRefused, match="I would rather not"):
            await Runner.run(Agent("a", model=model, output_type=Weather), "Do it.")


async def test_an_agent_of_another_dialect_takes_over(server: OpenAIServer) -> None:
    with OpenAIServer() as other:
        other.script(openai_server.saying("From there."))
        server.script(replying({"reasoning": "Hm."}, {"content": "Hello."}))
        async with model_at(server) as model, AsyncOpenAI(base_url=other.url, api_key=KEY) as client:
            first = await Runner.run(Agent("a", model=model), "Hello?")
            agent = Agent("b", model=OpenAIResponsesModel("gpt-5.2", client))
            result = await Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": "And you?"}])
        assert result.final_output == "From there."
        assert [each.get("type", each.get("role")) for each in other.bodies[0]["input"]] == ["user", "message", "user"]


async def test_a_wrong_exchange_is_refused_by_the_server(server: OpenAIServer) -> None:
    """The server of these tests refuses what the API refuses."""
    output = {"type": "function_call_output", "call_id": "c1", "output": "Sent."}
    call = {"type": "function_call", "call_id": "c1", "name": "send", "arguments": "{}"}
    for items in ([output], [call], [call, {"role": "user", "content": "Hm?"}, output]):
        with pytest.raises(ModelFailed, match="status 400"):
            await heard(server, request=ModelRequest(None, items))


async def test_settings_of_openais_two_apis_are_sent(server: OpenAIServer) -> None:
    settings = ModelSettings(
        top_logprobs=2, prompt_cache_retention="24h", prompt_cache_options={"mode": "explicit"}, include_usage=False
    )
    sent = await body(server, ModelRequest(None, HELLO.input, settings=settings))
    assert {name: sent[name] for name in sent if name not in ("model", "messages", "stream")} == {
        "top_logprobs": 2,
        "logprobs": True,
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "explicit"},
    }
