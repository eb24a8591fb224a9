"""Models of Anthropic's Messages API, through its client, against a server that refuses what the API refuses."""

import asyncio
import inspect
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import anthropic
import pydantic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import ToolUseBlockParam
from pydantic import BaseModel

from assentry import (
    Agent,
    AnthropicModel,
    InvalidDefinition,
    ModelFailed,
    ModelRefused,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OutputSpec,
    ReasoningItem,
    Runner,
    ToolSpec,
    Usage,
    UsageError,
)
from assentry.models.wire import WIRE, responses_items
from tests.models import anthropic_server, openai_server
from tests.models.anthropic_server import (
    begun,
    block_events,
    endless,
    judge,
    refusing,
    replying,
    saying,
    stopped,
    streaming,
    text,
    thinking,
    using,
)
from tests.models.openai_server import Answer, Item, OpenAIServer
from tests.runtime.support import HANGS, python, reloaded, sending

HELLO = ModelRequest(None, [{"role": "user", "content": "Hello?"}])
SEND = ToolSpec("send", "Send.", {"type": "object", "properties": {"to": {"type": "string"}}})
KEY = "sk-ant-planted-1234567890"
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "title": "Rain",
            "url": "https://example.com",
            "encrypted_content": "abc",
            "page_age": None,
        }
    ],
}
CALLER = {"caller": {"type": "direct"}} if "caller" in ToolUseBlockParam.__annotations__ else {}
NEW = {"type": "something_new", "inside": {"deep": [1, None, 2.5]}}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(judge=judge) as server:
        yield server


@pytest.fixture
def environment(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program is told of the server by its environment."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address(server))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def address(server: OpenAIServer) -> str:
    return server.url.removesuffix("/v1")


@asynccontextmanager
async def model_at(server: OpenAIServer, **options: Any) -> AsyncIterator[AnthropicModel]:
    """A model with a client of its own, which does not try again."""
    async with AsyncAnthropic(base_url=address(server), api_key=KEY, max_retries=0) as client:
        yield AnthropicModel("claude-opus-5", client, **options)


async def heard(
    server: OpenAIServer, *answers: Answer, request: ModelRequest = HELLO, **options: Any
) -> tuple[list[Any], ModelResponse]:
    """The deltas and the reply."""
    server.script(*answers)
    async with model_at(server, **options) as model:
        *deltas, reply = [each async for each in model.stream(request)]
    assert isinstance(reply, ModelResponse) and all(type(each) is dict for each in deltas)
    return deltas, reply


async def failure(server: OpenAIServer, *answers: Answer) -> ModelFailed:
    """How the model fails with these answers."""
    with pytest.raises(ModelFailed) as caught:
        await heard(server, *answers)
    assert "'claude-opus-5'" in str(caught.value)
    return caught.value


async def body(server: OpenAIServer, request: ModelRequest, **options: Any) -> dict[str, Any]:
    """What the server is sent for a request."""
    await heard(server, saying("Yes."), request=request, **options)
    return server.bodies[-1]


def said(text: str) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


# -- a reply -------------------------------------------------------------------------------------------


async def test_text_comes_as_deltas_and_then_as_a_reply(server: OpenAIServer) -> None:
    deltas, reply = await heard(server, saying("Hello to you."))
    texts = [each["delta"] for each in deltas if each["type"] == "response.output_text.delta"]
    assert texts == ["Hello", " to y", "ou."]
    assert [deltas[0]["type"], deltas[-1]["type"]] == ["response.output_item.added", "response.output_item.done"]
    assert reply == ModelResponse([said("Hello to you.")], Usage(1, 36, 87, 4, 60), "msg_01")
    assert server.bodies == [
        {
            "model": "claude-opus-5",
            "max_tokens": 16384,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}],
            "stream": True,
        }
    ]


async def test_calls_are_put_together_and_shown_as_they_come(server: OpenAIServer) -> None:
    blocks = [
        text("Sending."),
        using("send", {"to": "ann"}),
        using("send", {}, "toolu_2"),
        using("send", '{"to": an', "toolu_3"),
    ]
    deltas, reply = await heard(server, replying(*blocks))
    assert reply.output[0] == said("Sending.")
    calls = [(each["call_id"], each["name"], each["arguments"]) for each in reply.output[1:]]
    assert calls == [("toolu_1", "send", '{"to": "ann"}'), ("toolu_2", "send", "{}"), ("toolu_3", "send", '{"to": an')]
    added = [each["item"] for each in deltas if each["type"] == "response.output_item.added"]
    assert [(each["type"], each.get("call_id")) for each in added[:2]] == [
        ("message", None),
        ("function_call", "toolu_1"),
    ]
    kind = "response.function_call_arguments.delta"
    shown = [each["delta"] for each in deltas if each["type"] == kind and each["output_index"] == 1]
    assert "".join(shown) == '{"to": "ann"}' and len(shown) > 1


async def test_two_calls_with_one_id_are_told_apart(server: OpenAIServer) -> None:
    _, reply = await heard(server, replying(using("send", {"to": "ann"}), using("send", {"to": "bob"})))
    assert len({each["call_id"] for each in reply.output}) == 2
    outputs = [{"type": "function_call_output", "call_id": each["call_id"], "output": "Ok."} for each in reply.output]
    await body(server, ModelRequest(None, [*HELLO.input, *reply.output, *outputs], (SEND,)))


async def test_every_block_is_kept_and_sent_back_as_it_came(server: OpenAIServer) -> None:
    cited = {
        "type": "web_search_result_location",
        "cited_text": "Rain.",
        "encrypted_index": "abc",
        "title": "Rain",
        "url": "https://example.com",
    }
    blocks = [
        thinking("Let me think. Yes."),
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
        SEARCH,
        FOUND,
        {**text("It rains."), "citations": [cited]},
        NEW,
        using("send", {"to": "ann", "n": 1.5}, **CALLER),
    ]
    events = [event for n, block in enumerate(blocks) for event in block_events(n, block)]
    for event in events:
        if event.get("content_block", {}).get("citations"):
            event["content_block"]["citations"] = []
    delta = {"type": "citations_delta", "citation": cited}
    events.insert(-8, {"type": "content_block_delta", "index": 4, "delta": delta})
    answer = streaming(begun(), *events, *stopped("tool_use"))
    deltas, reply = await heard(server, answer)
    assert [item["type"] for item in reply.output] == [
        "reasoning",
        "reasoning",
        "anthropic:server_tool_use",
        "anthropic:web_search_tool_result",
        "message",
        "anthropic:something_new",
        "function_call",
    ]
    assert reply.output[0]["content"][0]["text"] == "Let me think. Yes."
    thoughts = [each["delta"] for each in deltas if each["type"] == "response.reasoning_text.delta"]
    assert "".join(thoughts) == "Let me think. Yes."
    output = {"type": "function_call_output", "call_id": "toolu_1", "output": "Sent."}
    sent = await body(server, ModelRequest(None, [*HELLO.input, *reply.output, output], (SEND,)))
    assert sent["messages"][1] == {"role": "assistant", "content": blocks}


async def test_a_pause_goes_on_by_itself(server: OpenAIServer) -> None:
    def more(n: int) -> Item:
        return {**SEARCH, "id": f"srvtoolu_{n}"}

    server.script(
        replying(thinking(), more(1), stop="pause_turn"),
        replying(more(2), stop="pause_turn"),
        replying(text("It rains.")),
    )
    _, reply = await heard(server)
    kinds = ["reasoning", "anthropic:server_tool_use", "anthropic:server_tool_use", "message"]
    assert [item["type"] for item in reply.output] == kinds
    assert reply.usage == Usage(3, 108, 261, 12, 180)
    assert [len(each["messages"]) for each in server.bodies] == [1, 2, 2]
    assert server.bodies[2]["messages"][1]["content"] == [thinking(), more(1), more(2)]


async def test_an_endless_pause_is_an_error(server: OpenAIServer) -> None:
    paused = replying(SEARCH, stop="pause_turn")
    assert "paused more than 20 times" in str(await failure(server, *(paused for _ in range(21))))


async def test_a_line_that_breaks_after_a_pause_is_an_error(server: OpenAIServer) -> None:
    error = await failure(server, replying(SEARCH, stop="pause_turn"), streaming(whole=False))
    assert error.retryable and len(server.asked) == 2


async def test_an_empty_reply_is_a_reply_without_items(server: OpenAIServer) -> None:
    _, reply = await heard(server, replying())
    assert reply.output == []
    _, reply = await heard(server, replying(text("")))
    await body(server, ModelRequest(None, [*HELLO.input, *reply.output, *HELLO.input]))
    roles = [each["role"] for each in server.bodies[-1]["messages"]]
    assert roles == ["user"], "empty text is not sent"


async def test_a_large_reply_is_read_whole(server: OpenAIServer) -> None:
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 1_000_000}}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    _, reply = await heard(server, streaming(begun(), start, *[piece] * 50, *stopped()))
    assert len(reply.output[0]["content"][0]["text"]) == 50_000_000


# -- a request -----------------------------------------------------------------------------------------


async def test_everything_in_a_request_is_handed_over(server: OpenAIServer) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    items: list[Item] = [
        {"role": "system", "content": "Be kind."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Write to Ann."},
                image,
                {"type": "input_image", "image_url": "https://example.com/a.png"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
                {"type": "input_file", "file_data": "CCCC"},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/b.png"}},
            ],
        },
        {"role": "user", "content": "Please."},
        openai_server.thought(encrypted_content="gAAAA"),
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "send:0", "name": "send", "arguments": '{"to": "ann"}'},
        {"type": "function_call", "call_id": "c2", "name": "send", "arguments": '{"to": an'},
        {
            "type": "function_call_output",
            "call_id": "send:0",
            "output": [{"type": "input_text", "text": "Sent."}, image],
        },
        {"type": "function_call_output", "call_id": "c2", "output": "No JSON.", "status": "incomplete"},
        {"role": "user", "content": "And?"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No more."}]},
        {"role": "developer", "content": "Be brief from now on."},
        {"role": "user", "content": "Why?"},
    ]
    before = deepcopy(items)
    sent = await body(server, ModelRequest("Be brief.", items, (SEND,)))
    assert items == before
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    pdf = {"type": "base64", "media_type": "application/pdf"}
    assert sent == {
        "model": "claude-opus-5",
        "max_tokens": 16384,
        "stream": True,
        "system": [text("Be brief."), text("Be kind.")],
        "tools": [{"name": "send", "description": "Send.", "input_schema": SEND.parameters}],
        "messages": [
            {
                "role": "user",
                "content": [
                    text("Write to Ann."),
                    picture,
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                    {"type": "document", "source": {**pdf, "data": "BBBB"}, "title": "a.pdf"},
                    {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
                    {"type": "document", "source": {**pdf, "data": "CCCC"}},
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/b.png"}},
                    text("Please."),
                ],
            },
            {
                "role": "assistant",
                "content": [
                    text("Yes."),
                    using("send", {"to": "ann"}, "send_0"),
                    using("send", {"INVALID_JSON": '{"to": an'}, "c2"),
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "send_0", "content": [text("Sent."), picture]},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "No JSON.", "is_error": True},
                    text("And?"),
                ],
            },
            {"role": "assistant", "content": [text("No more.")]},
            {"role": "system", "content": [text("Be brief from now on.")]},
            {"role": "user", "content": [text("Why?")]},
        ],
    }


async def test_every_setting_is_handed_over(server: OpenAIServer) -> None:
    settings = ModelSettings(
        max_tokens=50,
        reasoning={"effort": "low", "type": "adaptive"},
        metadata={"user_id": "ann"},
        extra_headers={"x-mine": "yes"},
        extra_query={"q": 1},
        extra_body={"stop_sequences": ["."]},
        extra_args={"service_tier": "auto"},
    )
    sent = await body(server, ModelRequest(None, HELLO.input, (), None, settings))
    for name in ("model", "messages", "stream"):
        sent.pop(name)
    assert sent == {
        "max_tokens": 50,
        "output_config": {"effort": "low"},
        "thinking": {"type": "adaptive"},
        "metadata": {"user_id": "ann"},
        "stop_sequences": ["."],
        "service_tier": "auto",
    }
    assert server.asked[-1].headers["x-mine"] == "yes" and server.asked[-1].path.endswith("?q=1")


async def test_a_temperature_is_for_clients_that_have_one(server: OpenAIServer) -> None:
    request = ModelRequest(None, HELLO.input, settings=ModelSettings(temperature=0.0, top_p=0.5))
    if "temperature" in inspect.signature(anthropic.resources.AsyncMessages.create).parameters:
        sent = await body(server, request)
        assert (sent["temperature"], sent["top_p"]) == (0.0, 0.5)
    else:
        with pytest.raises(UsageError, match=r"ModelSettings.*temperature"):
            await body(server, request)


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", None, {"type": "auto"}),
        ("none", False, {"type": "none"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("send", None, {"type": "tool", "name": "send"}),
    ],
)
async def test_tools_are_chosen(server: OpenAIServer, choice: str | None, parallel: bool | None, sent: Any) -> None:
    settings = ModelSettings(tool_choice=choice, parallel_tool_calls=parallel)
    asked = await body(server, ModelRequest(None, HELLO.input, (SEND,), settings=settings))
    assert asked.get("tool_choice") == sent
    if choice not in ("required", "send"):
        assert "tool_choice" not in await body(server, ModelRequest(None, HELLO.input, settings=settings))


async def test_a_strict_schema_is_the_format_of_the_output(server: OpenAIServer) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
        "additionalProperties": False,
    }
    sent = await body(server, ModelRequest(None, HELLO.input, output=OutputSpec("Count", schema)))
    made = sent["output_config"]["format"]
    assert made["type"] == "json_schema" and made["schema"]["properties"]["n"]["type"] == "integer"
    assert "minimum" not in made["schema"]["properties"]["n"], "the API does not take it"
    assert "system" not in sent


@pytest.mark.parametrize("output", [OutputSpec("X", {"type": "object"}, strict=False), OutputSpec("X", {})])
async def test_another_schema_is_told_in_words(server: OpenAIServer, output: OutputSpec) -> None:
    sent = await body(server, ModelRequest("Be brief.", HELLO.input, output=output))
    assert "output_config" not in sent
    assert [each["text"][:15] for each in sent["system"]] == ["Be brief.", "Reply with JSON"]
    assert json.dumps(output.schema) in sent["system"][1]["text"]


async def test_tools_instructions_and_talk_are_cached_if_wanted(server: OpenAIServer) -> None:
    request = ModelRequest("Be brief.", [*HELLO.input, said("Yes."), *HELLO.input], (SEND, SEND))
    sent = await body(server, request, prompt_caching="1h")
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert ["cache_control" in each for each in sent["tools"]] == [False, True]
    assert sent["system"][0]["cache_control"] == mark
    marks = [block.get("cache_control") for each in sent["messages"] for block in each["content"]]
    assert marks == [None, None, mark]
    assert "cache_control" not in json.dumps(await body(server, request))


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (ModelRequest(None, [{"type": "web_search_call", "id": "ws_1"}]), "an item of type 'web_search_call'"),
        (ModelRequest(None, [{"role": "user", "content": [{"type": "input_image"}]}]), "without image_url or file_id"),
        (ModelRequest(None, [{"role": "user", "content": [{"type": "input_audio"}]}]), "a part of type 'input_audio'"),
        (ModelRequest(None, [], settings=ModelSettings(frequency_penalty=1)), "no setting frequency_penalty"),
        (ModelRequest(None, [], settings=ModelSettings(store=False)), "no setting store"),
        (ModelRequest(None, [], previous_response_id="resp_1"), "keeps no conversation"),
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


async def test_another_api_is_not_told_of_blocks_it_does_not_know(server: OpenAIServer) -> None:
    _, reply = await heard(server, replying(thinking(), text("Yes.")))
    assert WIRE in reply.output[0]
    assert responses_items(reply.output) == [said("Yes.")]
    _, reply = await heard(server, replying(SEARCH))
    with pytest.raises(UsageError, match="'anthropic:server_tool_use'"):
        responses_items(reply.output)


# -- failures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "invalid_request_error", False),
        (401, "authentication_error", False),
        (429, "rate_limit_error", True),
        (500, "api_error", True),
        (529, "overloaded_error", True),
    ],
)
async def test_a_refused_request_says_why_and_whether_to_try_again(
    server: OpenAIServer, status: int, kind: str, retryable: bool
) -> None:
    error = await failure(server, refusing(status, kind, "That is not right.", request_id="req_9"))
    assert error.retryable is retryable
    assert f"(status {status}, request req_9): {kind}: That is not right." in str(error)
    assert isinstance(error.__cause__, anthropic.APIStatusError)


@pytest.mark.parametrize(
    ("stop", "advice"), [("max_tokens", "max_tokens=..."), ("model_context_window_exceeded", "too long")]
)
async def test_a_reply_that_was_cut_short_is_an_error(server: OpenAIServer, stop: str, advice: str) -> None:
    error = await failure(server, replying(using("send", {"to": "ann"}), stop=stop))
    assert not error.retryable and stop in str(error) and advice in str(error)


@pytest.mark.parametrize(("kind", "retryable"), [("overloaded_error", True), ("invalid_request_error", False)])
async def test_an_error_in_the_stream_is_an_error(server: OpenAIServer, kind: str, retryable: bool) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "Not now."}}
    error = await failure(server, streaming(begun(), event))
    assert error.retryable is retryable and f"{kind}: Not now." in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        streaming(),
        streaming(begun(), *block_events(0, text("Ye"))),
        streaming(begun(), *block_events(0, using("send", {"to": "ann"})), whole=False),
        streaming(b"event: message_start\ndata: {half\n\n"),
        streaming(b"event: message_start\ndata: 5\n\n"),
        streaming({"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "?"}}),
    ],
    ids=["nothing", "half", "a broken line", "no json", "no object", "no block"],
)
async def test_half_a_stream_and_a_stream_of_something_else_are_errors(server: OpenAIServer, answer: Answer) -> None:
    assert (await failure(server, answer)).retryable


async def test_what_comes_after_the_end_does_not_undo_the_reply(server: OpenAIServer) -> None:
    events = [begun(), *block_events(0, text("Yes.")), *stopped()]
    _, reply = await heard(server, streaming(*events, whole=False))
    assert reply.output == [said("Yes.")]


async def test_a_client_tries_again_and_then_says_what_happened(server: OpenAIServer, environment: None) -> None:
    later = refusing(529, "overloaded_error", "Too many.", retry_after_ms="1")
    server.script(later, later, later, saying("Now."))
    agent = Agent("a", model="anthropic:claude-opus-5")
    with pytest.raises(ModelFailed, match=r"status 529.*Too many") as caught:
        await Runner.run(agent, "Hello?")
    assert caught.value.retryable and len(server.asked) == 3
    result = await Runner.run(agent, caught.value.state)
    assert result.final_output == "Now." and len({json.dumps(each) for each in server.bodies}) == 1


async def test_a_server_that_is_not_there_is_said_to_be(server: OpenAIServer) -> None:
    async with AsyncAnthropic(base_url="http://127.0.0.1:1", api_key=KEY, max_retries=0) as client:
        with pytest.raises(ModelFailed, match="could not be reached") as caught:
            [each async for each in AnthropicModel("claude-opus-5", client).stream(HELLO)]
    assert caught.value.retryable


@pytest.mark.parametrize(
    "answer",
    [
        refusing(401, "authentication_error", f"invalid x-api-key: {KEY}"),
        streaming({"type": "error", "error": {"type": "api_error", "message": f"No account of {KEY}."}}),
        streaming(f"event: message_start\ndata: {KEY}\n\n".encode()),
    ],
)
async def test_a_key_is_in_no_error_and_in_no_log(
    server: OpenAIServer, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    older = tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 11)  # older clients cannot log with it
    caplog.set_level(logging.INFO if older else logging.DEBUG)
    error = await failure(server, answer)
    logging.getLogger("test").error("It failed.", exc_info=error)
    assert KEY not in str(error) and KEY not in caplog.text and "It failed." in caplog.text


# -- what a model needs --------------------------------------------------------------------------------


async def test_without_a_key_it_is_said_where_it_goes(
    server: OpenAIServer, environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where the client looks for credentials, too
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    with pytest.raises(UsageError, match=r"ANTHROPIC_API_KEY.*AsyncAnthropic\(api_key=") as caught:
        await Runner.run(Agent("agent", model="anthropic/claude-opus-5"), "Hello?")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    server.script(saying("Yes."))
    agent = Agent("agent", model="anthropic/claude-opus-5")
    assert (await Runner.run(agent, caught.value.state)).final_output == "Yes."


async def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-another")  # so that no client is there already
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(UsageError, match=r'pip install "\.\[anthropic\]"'):
        [each async for each in AnthropicModel("claude-opus-5").stream(HELLO)]


@pytest.mark.parametrize("name", ["", " ", None, 5, "a\ud800"])
def test_a_model_needs_a_name(name: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"AnthropicModel: model must be text"):
        AnthropicModel(name)


def test_what_is_no_client_and_no_time_is_refused() -> None:
    with pytest.raises(
        InvalidDefinition, match=r"client must be an anthropic.AsyncAnthropic or None, got a Anthropic\."
    ):
        AnthropicModel("claude-opus-5", anthropic.Anthropic(api_key=KEY))  # type: ignore[arg-type]
    with pytest.raises(InvalidDefinition, match="prompt_caching"):
        AnthropicModel("claude-opus-5", prompt_caching=True)  # type: ignore[arg-type]
    assert repr(AnthropicModel("claude-opus-5", AsyncAnthropic(api_key=KEY))) == "AnthropicModel('claude-opus-5')"


def test_a_program_ends_without_a_word(server: OpenAIServer, environment: None) -> None:
    code = """
        import asyncio
        from assentry import Agent, Runner

        agent = Agent("agent", model="anthropic/claude-opus-5")
        print(Runner.run_sync(agent, "Hello?").final_output)
        asyncio.run(Runner.run(agent, "Hello?"))
    """
    server.script(saying("Yes."), saying("Yes."))
    ended = python(inspect.cleandoc(code), "-W", "always")
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, ["Yes."], "")


# -- in runs -------------------------------------------------------------------------------------------


async def test_who_stops_reading_closes_the_http_response(server: OpenAIServer) -> None:
    server.script(endless)
    async with model_at(server) as model:
        events: Any = model.stream(HELLO)
        assert (await anext(events))["type"] == "response.output_item.added"
        await events.aclose()
        assert await asyncio.to_thread(server.gone.wait, HANGS)


async def test_models_of_one_loop_share_their_connections(server: OpenAIServer, environment: None) -> None:
    server.script(saying("One."), saying("Two."))
    for _ in range(2):
        [each async for each in AnthropicModel("claude-opus-5").stream(HELLO)]
    assert len({each.port for each in server.asked}) == 1


async def test_a_run_is_approved_in_another_process_and_goes_on(server: OpenAIServer) -> None:
    send, sent = sending(needs_approval=True)
    server.script(replying(thinking(), using("send", {"to": "ann"})), saying("Sent."))
    async with model_at(server) as model:
        agent = Agent("a", "Be brief.", tools=[send], model=model)
        result = await Runner.run(agent, "Write to Ann.")
        assert sent == [] and isinstance(result.new_items[0], ReasoningItem)
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    assert (result.final_output, sent) == ("Sent.", [("ann", 1)])
    assert server.bodies[1]["messages"][1]["content"][0] == thinking(), "the signature with it"


async def test_a_refusal_counts_alone_and_is_an_error_where_the_output_has_a_type(server: OpenAIServer) -> None:
    class Weather(BaseModel):
        rain: bool

    send, sent = sending()
    why = {"type": "refusal", "category": "cyber", "explanation": "I would rather not."}
    begins = [text("Well, "), using("send", {"to": "eve"})]
    server.script(replying(*begins, stop="refusal", stop_details=why), replying(*begins, stop="refusal"))
    async with model_at(server) as model:
        result = await Runner.run(Agent("a", model=model, tools=[send]), "Do it.")
        assert (result.final_output, sent) == ("I would rather not.", []), "the call is no part of the reply"
        with pytest.raises(ModelRefused, match="Well, "):
            await Runner.run(Agent("a", model=model, output_type=Weather), "Do it.")


async def test_a_wrong_exchange_is_refused_by_the_server(server: OpenAIServer) -> None:
    """The server of these tests refuses what the API refuses."""
    output = {"type": "function_call_output", "call_id": "c1", "output": "Sent."}
    call = {"type": "function_call", "call_id": "c1", "name": "send", "arguments": "{}"}
    false = {"type": "reasoning", "content": [], WIRE: {"anthropic": {"type": "thinking", "signature": "other"}}}
    for items in ([output], [call], [call, *HELLO.input, output], [call, output, call, output], [false]):
        with pytest.raises(ModelFailed, match="status 400"):
            await heard(server, request=ModelRequest(None, items))
    assert anthropic_server.judge(server.asked[0])
