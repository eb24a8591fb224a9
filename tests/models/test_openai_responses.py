"""Models of OpenAI's Responses API, through its own client, against a server that speaks the protocol."""

import asyncio
import gc
import inspect
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel

import assentry.models.client
import assentry.models.openai_client
import assentry.models.openai_responses
from assentry import (
    Agent,
    InvalidDefinition,
    MCPToolChoice,
    ModelFailed,
    ModelRefused,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OpenAIResponsesModel,
    OutputSpec,
    ReasoningItem,
    RunConfig,
    Runner,
    ToolSpec,
    Usage,
    UsageError,
)
from assentry.models.delta import as_dict
from assentry.testing import ScriptedModel
from tests.models.openai_server import (
    Answer,
    Exchange,
    Item,
    OpenAIServer,
    begun,
    calling,
    endless,
    message,
    refusal,
    refusing,
    replying,
    response,
    saying,
    telling,
    thought,
)
from tests.runtime.support import HANGS, python, reloaded, sending, soon, told

HELLO = ModelRequest(None, [{"role": "user", "content": "Hello?"}])


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def environment(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program is told of the server by its environment."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@asynccontextmanager
async def model_at(server: OpenAIServer, name: str = "gpt-5.2") -> AsyncIterator[OpenAIResponsesModel]:
    """A model with a client of its own, which does not try again."""
    async with AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=0) as client:
        yield OpenAIResponsesModel(name, client)


async def heard(model: OpenAIResponsesModel, request: ModelRequest = HELLO) -> tuple[list[Item], ModelResponse]:
    """The deltas and the reply."""
    *deltas, reply = [each async for each in model.stream(request)]
    assert isinstance(reply, ModelResponse)
    assert not any(isinstance(each, dict) for each in deltas)
    return [as_dict(each) for each in deltas], reply


async def failure(server: OpenAIServer, *answers: Answer, request: ModelRequest = HELLO) -> ModelFailed:
    """How the model fails with these answers."""
    server.script(*answers)
    async with model_at(server) as model:
        with pytest.raises(ModelFailed) as caught:
            await heard(model, request)
    assert "'gpt-5.2'" in str(caught.value)
    return caught.value


async def body(server: OpenAIServer, request: ModelRequest) -> dict[str, Any]:
    """What the server is sent for a request."""
    server.script(saying("Yes."))
    async with model_at(server) as model:
        await heard(model, request)
    return server.bodies[-1]


# -- a reply -------------------------------------------------------------------------------------------


async def test_text_comes_as_deltas_and_then_as_a_reply(server: OpenAIServer) -> None:
    server.script(saying("Hello to you.", id="resp_7"))
    async with model_at(server) as model:
        deltas, reply = await heard(model)
    assert [each["delta"] for each in deltas if each["type"] == "response.output_text.delta"] == [
        "Hello ",
        "to ",
        "you. ",
    ]
    assert [deltas[0]["type"], deltas[-1]["type"]] == ["response.created", "response.completed"], "as they came"
    assert reply == ModelResponse([message("Hello to you.")], Usage(1, 36, 87, 4, 60), "resp_7")
    [asked] = server.asked
    assert asked.path == "/v1/responses" and asked.headers["authorization"] == "Bearer sk-test"
    assert asked.body == {"model": "gpt-5.2", "input": [{"role": "user", "content": "Hello?"}], "stream": True}


async def test_items_come_as_the_server_has_them(server: OpenAIServer) -> None:
    items = [
        thought(encrypted_content="gAAAA", status=None),
        calling("send", {"to": "ann"}, "call_1"),
        calling("send", {"to": "bob"}, "call_2"),
        {**message("Sending."), "phase": "commentary"},
        {"id": "x_1", "type": "something_new", "status": "completed", "inside": {"deep": [1, None, 2.5]}},
    ]
    server.script(replying(*items))
    async with model_at(server) as model:
        _, reply = await heard(model)
    assert reply.output == items, "nothing added, and nothing left out"


async def test_a_reply_is_not_what_somebody_made_of_its_delta(server: OpenAIServer) -> None:
    server.script(replying(calling("send", {"to": "ann"})))
    async with model_at(server) as model:
        async for each in model.stream(HELLO):
            if isinstance(each, ModelResponse):
                assert each.output == [calling("send", {"to": "ann"})]
            elif each.type == "response.completed":
                each.response.output[0].arguments = '{"to": "eve"}'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("usage", "used"),
    [
        (None, Usage(1)),
        ({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}, Usage(1, 3, 2)),
        ({"input_tokens": 3, "output_tokens": 2, "input_tokens_details": None}, Usage(1, 3, 2)),
    ],
)
async def test_a_server_may_say_less_of_what_was_used(
    server: OpenAIServer, usage: dict[str, Any] | None, used: Usage
) -> None:
    server.script(replying(message("Yes."), usage=usage))
    async with model_at(server) as model:
        _, reply = await heard(model)
    assert reply.usage == used


async def test_what_comes_after_the_reply_does_not_undo_it(server: OpenAIServer) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.send([{"type": "response.completed", "response": response(message("Yes."))}])
        exchange.drop()

    server.script(answer)
    async with model_at(server) as model:
        _, reply = await heard(model)
    assert reply.output == [message("Yes.")]


async def test_a_connection_is_used_again(server: OpenAIServer) -> None:
    server.script(saying("One."), saying("Two."), saying("Three."))
    async with model_at(server) as model:
        for _ in range(3):
            await heard(model)
    assert len({each.port for each in server.asked}) == 1


# -- a request -----------------------------------------------------------------------------------------


async def test_everything_in_a_request_is_handed_over(server: OpenAIServer) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    items: list[Item] = [
        {"role": "user", "content": "Write to Ann."},
        thought(encrypted_content="gAAAA"),
        calling("send", {"to": "ann"}),
        {"type": "function_call_output", "call_id": "call_1", "output": "sent"},
    ]
    request = ModelRequest(
        "Be brief.",
        items,
        (ToolSpec("send", "Send a mail.", schema), ToolSpec("call", "Call.", {"type": "object"}, strict=False)),
        OutputSpec("Mail", schema, strict=False),
        previous_response_id="resp_0",
    )
    assert await body(server, request) == {
        "model": "gpt-5.2",
        "stream": True,
        "instructions": "Be brief.",
        "input": items,
        "tools": [
            {"type": "function", "name": "send", "description": "Send a mail.", "parameters": schema, "strict": True},
            {
                "type": "function",
                "name": "call",
                "description": "Call.",
                "parameters": {"type": "object"},
                "strict": False,
            },
        ],
        "text": {"format": {"type": "json_schema", "name": "Mail", "schema": schema, "strict": False}},
        "previous_response_id": "resp_0",
    }


async def test_a_conversation_is_named(server: OpenAIServer) -> None:
    sent = await body(server, ModelRequest(None, [], conversation_id="conv_1"))
    assert (sent["conversation"], sent["input"]) == ("conv_1", [])
    assert "previous_response_id" not in sent


async def test_every_setting_is_handed_over(server: OpenAIServer) -> None:
    settings = ModelSettings(
        temperature=0.0,
        top_p=0.5,
        frequency_penalty=0.1,
        presence_penalty=-0.1,
        tool_choice="required",
        parallel_tool_calls=False,
        truncation="auto",
        max_tokens=50,
        reasoning={"effort": "low"},
        verbosity="low",
        metadata={"a": "b"},
        store=False,
        extra_headers={"x-mine": "yes"},
        extra_query={"q": 1},
        extra_body={"new_parameter": [1]},
        extra_args={"include": ["reasoning.encrypted_content"], "service_tier": "flex"},
    )
    output = OutputSpec("Answer", {"type": "object"})
    tools = (ToolSpec("send", "Send.", {"type": "object"}),)
    sent = await body(server, ModelRequest(None, [], tools, output, settings))
    assert (sent.pop("model"), sent.pop("stream"), sent.pop("input")) == ("gpt-5.2", True, [])
    assert sent.pop("tools")
    assert sent == {
        "temperature": 0.0,
        "top_p": 0.5,
        "frequency_penalty": 0.1,
        "presence_penalty": -0.1,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "truncation": "auto",
        "max_output_tokens": 50,
        "reasoning": {"effort": "low"},
        "text": {
            "format": {"type": "json_schema", "name": "Answer", "schema": {"type": "object"}, "strict": True},
            "verbosity": "low",
        },
        "metadata": {"a": "b"},
        "store": False,
        "new_parameter": [1],
        "include": ["reasoning.encrypted_content"],
        "service_tier": "flex",
    }
    assert server.asked[-1].headers["x-mine"] == "yes"
    assert server.asked[-1].path == "/v1/responses?q=1"


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", "auto"), ("none", "none"), ("send", {"type": "function", "name": "send"})],
)
async def test_a_tool_is_chosen_by_its_name(server: OpenAIServer, choice: str, sent: Any) -> None:
    tools = (ToolSpec("send", "Send.", {"type": "object"}),)
    request = ModelRequest(None, [], tools, settings=ModelSettings(tool_choice=choice))
    assert (await body(server, request))["tool_choice"] == sent


async def test_nothing_is_said_of_parallel_calls_where_there_are_none(server: OpenAIServer) -> None:
    sent = await body(server, ModelRequest(None, [], settings=ModelSettings(parallel_tool_calls=True)))
    assert "parallel_tool_calls" not in sent and "tools" not in sent


@pytest.mark.parametrize("wrong", [{"no_such_parameter": 1}, {"stream": False}])
async def test_an_argument_that_the_client_does_not_take_is_the_programs_fault(
    server: OpenAIServer, wrong: dict[str, Any]
) -> None:
    async with model_at(server) as model:
        with pytest.raises(UsageError, match=rf"extra_args.*{next(iter(wrong))}"):
            await heard(model, ModelRequest(None, [], settings=ModelSettings(extra_args=wrong)))
    assert server.asked == []


# -- failures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "retryable", "advice"),
    [
        (400, "context_length_exceeded", False, "Check the request"),
        (401, "invalid_api_key", False, "Check the key"),
        (403, None, False, "may do"),
        (404, "model_not_found", False, "model's name"),
        (408, None, True, "Try again later"),
        (409, None, True, "Try again later"),
        (422, None, False, "Check the request"),
        (429, "rate_limit_exceeded", True, "fewer requests"),
        (429, "insufficient_quota", False, "limits"),
        (500, None, True, "Try again later"),
        (503, None, True, "Try again later"),
    ],
)
async def test_a_refused_request_says_why_and_whether_to_try_again(
    server: OpenAIServer, status: int, code: str | None, retryable: bool, advice: str
) -> None:
    error = await failure(server, refusing(status, "That is not right.", code, x_request_id="req_9"))
    assert error.retryable is retryable
    assert f"(status {status}, request req_9): That is not right." in str(error) and advice in str(error)
    assert isinstance(error.__cause__, openai.APIStatusError), "for those who want to know more"


async def test_an_error_that_is_no_json_is_told_too(server: OpenAIServer) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.handler.send_error(502, "Bad Gateway")

    error = await failure(server, answer)
    assert error.retryable and "status 502" in str(error)


async def test_a_server_that_is_not_there_is_said_to_be(server: OpenAIServer) -> None:
    server.__exit__()
    try:
        error = await failure(server)
    finally:
        server.__enter__()
    assert error.retryable and "could not be reached" in str(error) and "Connection error" in str(error)


@pytest.mark.parametrize(
    ("code", "retryable"),
    [("server_error", True), ("rate_limit_exceeded", True), ("invalid_prompt", False), (None, True)],
)
async def test_a_response_that_failed_is_an_error(server: OpenAIServer, code: str | None, retryable: bool) -> None:
    why = {"code": code, "message": "The model broke down."}
    event = {"type": "response.failed", "response": response(status="failed", error=why)}
    error = await failure(server, telling(begun(), event))
    assert error.retryable is retryable and "The model broke down." in str(error)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [("max_output_tokens", "max_tokens"), ("content_filter", "filter"), ("something_new", "something_new")],
)
async def test_a_response_that_is_incomplete_is_an_error(server: OpenAIServer, reason: str, advice: str) -> None:
    half = response(calling("send", {"to": "ann"}), status="incomplete", incomplete_details={"reason": reason})
    error = await failure(server, telling(begun(), {"type": "response.incomplete", "response": half}))
    assert not error.retryable and reason in str(error) and advice in str(error)


async def test_a_failure_without_a_reason_says_that_too(server: OpenAIServer) -> None:
    failed = {"type": "response.failed", "response": response(status="failed")}
    incomplete = {"type": "response.incomplete", "response": response(status="incomplete")}
    for event in (failed, incomplete):
        assert "no reason is given" in str(await failure(server, telling(event)))


async def test_an_error_in_the_stream_is_an_error(server: OpenAIServer) -> None:
    event = {"type": "error", "code": "server_error", "message": "Something happened.", "param": None}
    error = await failure(server, telling(begun(), event))
    assert error.retryable and "server_error: Something happened." in str(error)
    nested = {"type": "error", "error": {"code": "invalid_prompt", "message": "Not that."}}
    error = await failure(server, telling(begun(), nested))
    assert not error.retryable and "invalid_prompt: Not that." in str(error)


async def test_a_stream_that_just_ends_is_an_error(server: OpenAIServer) -> None:
    for events in ([], [begun()]):
        error = await failure(server, telling(*events))
        assert error.retryable and "stopped before" in str(error)


async def test_a_line_that_breaks_is_an_error(server: OpenAIServer) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.send([begun()])
        exchange.drop()

    error = await failure(server, answer)  # the client's version decides which of the two it is
    assert error.retryable and any(each in str(error) for each in ("connection was lost", "stopped before"))


@pytest.mark.parametrize("data", [b"data: {half\n\n", b"data: 5\n\n", b"data: \xff\xfe\n\n"])
async def test_a_stream_of_something_else_is_an_error(server: OpenAIServer, data: bytes) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.write(data)
        exchange.end()

    assert "stopped before" in str(await failure(server, answer))


async def test_a_client_that_is_made_for_the_model_tries_again(server: OpenAIServer, environment: None) -> None:
    server.script(refusing(500, "Later.", retry_after_ms="1"), saying("Now."))
    _, reply = await heard(OpenAIResponsesModel("gpt-5.2"))
    assert reply.output == [message("Now.")] and len(server.asked) == 2


# -- what a model needs --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, ""])
async def test_without_a_key_it_is_said_where_it_goes(
    server: OpenAIServer, environment: None, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    if key is None:
        monkeypatch.delenv("OPENAI_API_KEY")
    else:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY.*AsyncOpenAI\(api_key=") as caught:
        await Runner.run(Agent("agent", model="gpt-5.2"), "Hello?")
    assert caught.value.state is not None, "go on when there is one"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    server.script(saying("Yes."))
    assert (await Runner.run(Agent("agent", model="gpt-5.2"), caught.value.state)).final_output == "Yes."


async def test_an_address_that_is_none_is_said_to_be(environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:port")
    with pytest.raises(UsageError, match="OPENAI_"):
        await heard(OpenAIResponsesModel("gpt-5.2"))


async def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    model = OpenAIResponsesModel("gpt-5.2")
    with pytest.raises(UsageError, match=r'pip install "\.\[openai\]"'):
        await heard(model)


@pytest.mark.parametrize("name", ["", " ", None, 5, "a\ud800"])
def test_a_model_needs_a_name(name: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"OpenAIResponsesModel: model must be text"):
        OpenAIResponsesModel(name)


@pytest.mark.parametrize("make", [lambda: "sk-test", lambda: openai.OpenAI(api_key="sk-test")])
def test_a_client_that_is_none_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(
        InvalidDefinition, match=r"openai_client must be an openai.AsyncOpenAI or None, got a (str|OpenAI)\."
    ):
        OpenAIResponsesModel("gpt-5.2", make())


def test_a_model_shows_its_name_and_no_key() -> None:
    model = OpenAIResponsesModel("gpt-5.2", AsyncOpenAI(api_key="sk-secret"))
    assert repr(model) == "OpenAIResponsesModel('gpt-5.2')"
    assert (model.name, model.provider) == ("gpt-5.2", "openai")


# -- closing -------------------------------------------------------------------------------------------


async def test_who_stops_reading_closes_the_http_response(server: OpenAIServer) -> None:
    server.script(endless)
    async with model_at(server) as model:
        events = model.stream(HELLO)
        assert (await anext(events)).type == "response.created"  # type: ignore[union-attr]
        await events.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(server.gone.wait, HANGS)


async def test_a_run_that_is_cancelled_closes_the_http_response(server: OpenAIServer) -> None:
    server.script(endless)
    async with model_at(server) as model:
        result = Runner.run_streamed(Agent("agent", model=model), "Go on.")
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                result.cancel()
        assert await asyncio.to_thread(server.gone.wait, HANGS)


async def test_a_task_that_is_cancelled_closes_the_http_response(server: OpenAIServer) -> None:
    begins = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        loop.call_soon_threadsafe(begins.set)
        exchange.until_gone()

    server.script(answer)
    async with model_at(server) as model:
        task = asyncio.create_task(Runner.run(Agent("agent", model=model), "Go on."))
        await soon(begins.wait())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.gone.wait, HANGS)


# -- clients -------------------------------------------------------------------------------------------


def kept() -> int:
    gc.collect()
    return sum(map(len, assentry.models.client._clients.values()))


async def test_models_of_one_loop_share_their_connections(server: OpenAIServer, environment: None) -> None:
    server.script(saying("One."), saying("Two."))
    await heard(OpenAIResponsesModel("gpt-5.2"))
    await heard(OpenAIResponsesModel("o4-mini"))
    assert len({each.port for each in server.asked}) == 1
    assert [each["model"] for each in server.bodies] == ["gpt-5.2", "o4-mini"]


async def test_two_that_ask_at_once_share_a_client_too(server: OpenAIServer, environment: None) -> None:
    before = kept()
    server.script(saying("One."), saying("One."))
    model = OpenAIResponsesModel("gpt-5.2")
    (_, one), (_, other) = await asyncio.gather(heard(model), heard(model))
    assert one == other and kept() == before + 1


async def test_another_key_is_used_from_then_on(
    server: OpenAIServer, environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script(saying("One."), saying("Two."))
    model = OpenAIResponsesModel("gpt-5.2")
    await heard(model)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    await heard(model)
    assert [each.headers["authorization"] for each in server.asked] == ["Bearer sk-test", "Bearer sk-other"]


def test_each_loop_has_its_own_client_which_is_closed_with_it(server: OpenAIServer, environment: None) -> None:
    model = OpenAIResponsesModel("gpt-5.2")
    before = kept()

    async def ask() -> int:
        await heard(model)
        return kept()

    for _ in range(3):
        server.script(saying("Yes."))
        assert asyncio.run(ask()) == before + 1
    assert kept() == before


def test_a_loop_that_was_just_closed_is_forgotten(server: OpenAIServer, environment: None) -> None:
    model = OpenAIResponsesModel("gpt-5.2")
    before = kept()
    clients = []

    async def ask() -> None:
        await heard(model)
        clients.append(await assentry.models.openai_client.shared_client())

    server.script(saying("Yes."), saying("Yes."))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(ask())
    loop.run_until_complete(clients.pop().close())  # what the test leaves behind
    loop.close()
    assert kept() == before + 1
    asyncio.run(ask())
    assert kept() == before


def test_blocking_calls_work_in_and_outside_of_a_loop(server: OpenAIServer, environment: None) -> None:
    agent = Agent("agent", model="gpt-5.2")

    async def inside() -> Any:
        return Runner.run_sync(agent, "Hello?").final_output

    server.script(*(saying(text) for text in ("One.", "Two.", "Three.", "Four.")))
    assert [Runner.run_sync(agent, "Hello?").final_output for _ in range(2)] == ["One.", "Two."]
    assert [asyncio.run(inside()) for _ in range(2)] == ["Three.", "Four."]


def test_a_program_ends_without_a_word(server: OpenAIServer, environment: None) -> None:
    code = """
        import asyncio, threading
        from assentry import Agent, Runner

        agent = Agent("agent", model="gpt-5.2")
        ask = lambda: print(Runner.run_sync(agent, "Hello?").final_output)
        ask(), ask()
        thread = threading.Thread(target=ask)
        thread.start(), thread.join()
        asyncio.run(Runner.run(agent, "Hello?"))
    """
    server.script(*(saying("Yes.") for _ in range(4)))
    ended = python(inspect.cleandoc(code), "-W", "always")
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, ["Yes."] * 3, "")


# -- runs ----------------------------------------------------------------------------------------------


async def test_a_run_waits_for_approval_and_goes_on(server: OpenAIServer) -> None:
    send, sent = sending(needs_approval=True)
    first = [thought(encrypted_content="gAAAA"), calling("send", {"to": "ann", "copies": 2})]
    server.script(replying(*first, id="resp_1"), saying("Sent.", id="resp_2"))
    async with model_at(server) as model:
        agent = Agent("agent", "Be brief.", [send], model)
        result = await Runner.run(agent, "Write to Ann.")
        [question] = result.interruptions
        assert (question.name, json.loads(question.arguments), sent) == ("send", {"to": "ann", "copies": 2}, [])
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0], by="bob")
        result = await Runner.run(agent, state)
    assert (result.final_output, sent) == ("Sent.", [("ann", 2)])
    assert any(isinstance(item, ReasoningItem) for item in result.new_items)
    assert result.raw_responses[-1].response_id == "resp_2"
    assert result.context_wrapper.usage.total_tokens == 2 * 123
    asked, again = server.bodies
    assert asked["instructions"] == again["instructions"] == "Be brief."
    assert asked["tools"][0]["strict"] is True and asked["tools"][0]["parameters"]["additionalProperties"] is False
    output = {"type": "function_call_output", "call_id": "call_1", "output": "sent 2 to ann"}
    assert again["input"] == [{"role": "user", "content": "Write to Ann."}, *first, output]


async def test_a_rejected_call_is_told_and_never_runs(server: OpenAIServer) -> None:
    send, sent = sending(needs_approval=True)
    server.script(replying(calling("send", {"to": "ann"})), saying("I see."))
    async with model_at(server) as model:
        agent = Agent("agent", tools=[send], model=model)
        result = await Runner.run(agent, "Write to Ann.")
        state = result.to_state()
        state.reject(result.interruptions[0], rejection_message="Not today.")
        result = await Runner.run(agent, state)
    assert (told(result), sent) == (["Not today."], [])
    assert server.bodies[-1]["input"][-1]["output"] == "Not today."


async def test_the_provider_can_keep_the_talk(server: OpenAIServer) -> None:
    send, _ = sending()
    call = replying(calling("send", {"to": "ann"}), id="resp_1")
    server.script(call, saying("Sent.", id="resp_2"))
    async with model_at(server) as model:
        agent = Agent("agent", tools=[send], model=model)
        await Runner.run(agent, "Write to Ann.", previous_response_id="resp_0")
    assert [each["previous_response_id"] for each in server.bodies] == ["resp_0", "resp_1"]
    assert [each["type"] for each in server.bodies[-1]["input"]] == ["function_call_output"]


class Weather(BaseModel):
    """What an output may be."""

    city: str
    degrees: int


async def test_a_final_output_has_its_type(server: OpenAIServer) -> None:
    server.script(saying('{"city": "Ghent", "degrees": 12}'))
    async with model_at(server) as model:
        result = await Runner.run(Agent("agent", model=model, output_type=Weather), "What is it like in Ghent?")
    assert result.final_output == Weather(city="Ghent", degrees=12)
    sent = server.bodies[-1]["text"]["format"]
    assert (sent["type"], sent["strict"], sent["schema"]["required"]) == ("json_schema", True, ["city", "degrees"])


async def test_a_model_that_refuses_does_so_in_its_own_words(server: OpenAIServer) -> None:
    server.script(replying(refusal("I would rather not.")), replying(refusal("I would rather not.")))
    async with model_at(server) as model:
        result = await Runner.run(Agent("agent", model=model), "Do it.")
        assert result.final_output == "I would rather not."
        with pytest.raises(ModelRefused, match="I would rather not"):
            await Runner.run(Agent("agent", model=model, output_type=Weather), "Do it.")


async def test_a_stream_shows_the_events_as_they_came(server: OpenAIServer) -> None:
    server.script(saying("Hello to you."))
    async with model_at(server) as model:
        result = Runner.run_streamed(Agent("agent", model=model), "Hello?")
        events = [event async for event in result.stream_events()]
    raw = [event.data for event in events if event.type == "raw_response_event"]
    assert "".join(each.delta for each in raw if each.type == "response.output_text.delta") == "Hello to you. "
    assert result.final_output == "Hello to you."


async def test_a_failure_leaves_a_run_that_goes_on(server: OpenAIServer) -> None:
    server.script(refusing(503, "Later."), saying("Now."))
    async with model_at(server) as model:
        agent = Agent("agent", model=model)
        with pytest.raises(ModelFailed, match="Later") as caught:
            await Runner.run(agent, "Hello?", run_config=RunConfig())
        result = await Runner.run(agent, caught.value.state)
    assert result.final_output == "Now."
    assert server.bodies[0] == server.bodies[1], "the same request"


async def test_the_data_of_a_stream_is_the_clients_own_event(server: OpenAIServer) -> None:
    server.script(replying(message("Hello there.")))
    async with model_at(server) as model:
        result = Runner.run_streamed(Agent(name="Clerk", model=model), "Hello?")
        data = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
    words = [each.delta for each in data if isinstance(each, ResponseTextDeltaEvent)]
    assert "".join(words).strip() == "Hello there."
    [first] = result.new_items
    assert first.raw_item.content[0].text == first.raw_item["content"][0]["text"] == "Hello there."


async def test_any_models_deltas_are_the_clients_own_events_once_it_is_imported() -> None:
    result = Runner.run_streamed(Agent(name="Clerk", model=ScriptedModel(["Hello there."])), "Hello?")
    data = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
    assert [each.delta for each in data if isinstance(each, ResponseTextDeltaEvent)] == ["Hello ", "there."]


async def test_a_request_that_may_have_changed_a_conversation_is_not_repeated(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script(refusing(503, "Lost."), saying("Twice?"))
    async with AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=2) as client:
        model = OpenAIResponsesModel("gpt-5.2", client)
        with pytest.raises(ModelFailed, match="Lost"):
            await heard(model, ModelRequest(None, HELLO.input, conversation_id="conv_1"))
    assert len(server.asked) == 1


async def test_a_request_in_a_conversation_that_was_refused_for_its_rate_is_made_again(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assentry.models.openai_responses, "PAUSE", 0.0)
    server.script(refusing(429, "Slowly."), saying("Now."))
    async with AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=2) as client:
        model = OpenAIResponsesModel("gpt-5.2", client)
        _, reply = await heard(model, ModelRequest(None, HELLO.input, conversation_id="conv_1"))
    assert reply.output and len(server.asked) == 2


async def test_more_parts_of_a_response_can_be_asked_for(server: OpenAIServer) -> None:
    settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
    sent = await body(server, ModelRequest(None, HELLO.input, settings=settings))
    assert sent["include"] == ["reasoning.encrypted_content"] and sent["store"] is False


async def test_every_setting_of_the_api_is_sent(server: OpenAIServer) -> None:
    settings = ModelSettings(
        top_logprobs=2,
        prompt_cache_retention="24h",
        prompt_cache_options={"mode": "explicit"},
        context_management=[{"type": "compaction", "compact_threshold": 1000}],
        tool_choice=MCPToolChoice("docs", "find"),
    )
    hosted = [{"type": "mcp", "server_label": "docs", "server_url": "https://docs.test"}]
    sent = await body(server, ModelRequest(None, HELLO.input, settings=settings, hosted=hosted, prompt={"id": "p_1"}))
    assert {name: sent[name] for name in sent if name not in ("model", "input", "stream", "tools")} == {
        "top_logprobs": 2,
        "include": ["message.output_text.logprobs"],
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "explicit"},
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
        "tool_choice": {"type": "mcp", "server_label": "docs", "name": "find"},
        "prompt": {"id": "p_1"},
    }


@pytest.mark.parametrize("name", ["file_search", "web_search", "code_interpreter", "image_generation", "mcp"])
async def test_a_tool_that_the_provider_runs_can_be_chosen(server: OpenAIServer, name: str) -> None:
    settings = ModelSettings(tool_choice=name)
    assert (await body(server, ModelRequest(None, HELLO.input, settings=settings)))["tool_choice"] == {"type": name}
    own = ToolSpec(name, "Ours.", {"type": "object", "properties": {}})
    sent = await body(server, ModelRequest(None, HELLO.input, tools=[own], settings=settings))
    assert sent["tool_choice"] == {"type": "function", "name": name}
