"""Models by way of LiteLLM, against the chat dialect's server.

LiteLLM holds back OpenAI's client, so it is not installed with the rest: CI runs these tests in an environment of their
own.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from assentry import (
    Agent,
    InvalidDefinition,
    LitellmModel,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Runner,
    ToolSpec,
    Usage,
    UsageError,
)
from assentry.models.litellm import _join_thinking
from assentry.testing import check_model
from tests.models import anthropic_server, chat_server
from tests.models.chat_server import call_deltas, chunk, endless, judge, replying, saying, streaming
from tests.models.openai_server import Answer, OpenAIServer, refusing
from tests.runtime.support import HANGS, python, reloaded, sending

pytestmark = pytest.mark.filterwarnings("default")  # LiteLLM's own
HELLO = ModelRequest(None, [{"role": "user", "content": "Hello?"}])
SEND = ToolSpec("send", "Send.", {"type": "object", "properties": {"to": {"type": "string"}}})
KEY = "sk-planted-1234567890"


@pytest.fixture(scope="module", autouse=True)
def library() -> Any:
    """LiteLLM, which would fetch prices at its import."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        litellm = pytest.importorskip("litellm")
    litellm.suppress_debug_info = True
    return litellm


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(judge=judge) as server:
        yield server


def model_at(server: OpenAIServer, name: str = "openai/gpt-5.2") -> LitellmModel:
    return LitellmModel(name, base_url=server.url, api_key=KEY)


async def heard(server: OpenAIServer, *answers: Answer, request: ModelRequest = HELLO) -> tuple[list[Any], Any]:
    """The deltas and the reply."""
    server.script(*answers)
    *deltas, reply = [each async for each in model_at(server).stream(request)]
    assert isinstance(reply, ModelResponse) and all(type(each) is dict for each in deltas)
    return deltas, reply


async def failure(server: OpenAIServer, *answers: Answer) -> ModelFailed:
    settings = ModelSettings(extra_args={"max_retries": 0})
    with pytest.raises(ModelFailed) as caught:
        await heard(server, *answers, request=ModelRequest(None, HELLO.input, settings=settings))
    assert "'openai/gpt-5.2'" in str(caught.value)
    return caught.value


async def test_the_dialect_passes_the_conformance_checks() -> None:
    with ExitStack() as servers:

        def make(steps: list[Any]) -> LitellmModel:
            number = itertools.count(1)
            server = servers.enter_context(OpenAIServer(judge=judge))
            server.script(*(chat_server.playing(lambda: next(number), step) for step in steps))
            return NoRetries("openai/gpt-5.2", base_url=server.url, api_key=KEY)

        await check_model(make)


class NoRetries(LitellmModel):
    """A model whose requests are made once."""

    async def stream(self, request: ModelRequest) -> Any:
        request = msgspec.structs.replace(request, settings=ModelSettings(extra_args={"max_retries": 0}))
        async for each in super().stream(request):
            yield each


async def test_a_reply_is_put_together(server: OpenAIServer) -> None:
    pieces = [
        {"reasoning_content": "Hm."},
        {"content": "Send"},
        {"content": "ing."},
        *call_deltas(0, "send", '{"to": "ann"}', "call_a"),
        *call_deltas(1, "send", '{"to": "bob"}', "call_b"),
    ]
    _, reply = await heard(server, replying(*pieces, finish="tool_calls"))
    assert [item["type"] for item in reply.output] == ["reasoning", "message", "function_call", "function_call"]
    assert [item["call_id"] for item in reply.output[2:]] == ["call_a", "call_b"]
    assert reply.usage == Usage(1, 36, 87, 4, 60)
    outputs = [{"type": "function_call_output", "call_id": f"call_{n}", "output": "Sent."} for n in "ab"]
    request = ModelRequest("Be brief.", [*HELLO.input, *reply.output, *outputs], (SEND,))
    await heard(server, saying("Done."), request=request)
    sent = server.bodies[-1]
    assert [each["role"] for each in sent["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert server.asked[-1].headers["authorization"] == f"Bearer {KEY}" and sent["model"] == "gpt-5.2"


async def test_thinking_of_anthropic_comes_back_whole() -> None:
    with OpenAIServer(judge=lambda asked: None) as server:
        thought = anthropic_server.thinking("Let me think. Yes.")
        blocks = [thought, anthropic_server.using("send", {"to": "ann"})]
        server.script(anthropic_server.replying(*blocks), anthropic_server.saying("Sent."))
        model = LitellmModel("anthropic/claude-opus-4-5", base_url=server.url.removesuffix("/v1"), api_key=KEY)
        settings = ModelSettings(max_tokens=4000, extra_args={"thinking": {"type": "enabled", "budget_tokens": 1024}})
        request = ModelRequest(None, HELLO.input, (SEND,), None, settings)
        *_, reply = [each async for each in model.stream(request)]
        assert isinstance(reply, ModelResponse)
        calls = [item for item in reply.output if item["type"] == "function_call"]
        assert json.loads(calls[0]["arguments"]) == {"to": "ann"}
        output = {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "Sent."}
        again = ModelRequest(None, [*HELLO.input, *reply.output, output], (SEND,), None, settings)
        [each async for each in model.stream(again)]
        said = server.bodies[-1]["messages"][1]["content"]
        assert [block for block in said if block["type"] == "thinking"] == [thought]


def test_pieces_of_thinking_blocks_are_joined() -> None:
    pieces = [
        {"type": "thinking", "thinking": "Let "},
        {"type": "thinking", "thinking": "me."},
        {"type": "thinking", "signature": "sig_1"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "And.", "signature": "sig_2"},
    ]
    assert _join_thinking(pieces) == [
        {"type": "thinking", "thinking": "Let me.", "signature": "sig_1"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "And.", "signature": "sig_2"},
    ]


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (401, False), (429, True), (500, True)])
async def test_a_refused_request_says_why_and_whether_to_try_again(
    server: OpenAIServer, status: int, retryable: bool
) -> None:
    error = await failure(server, refusing(status, "That is not right."))
    assert error.retryable is retryable and "That is not right." in str(error)


async def test_half_a_stream_is_an_error(server: OpenAIServer) -> None:
    assert (await failure(server, streaming(chunk({"content": "Ye"}), done=False))).retryable
    error = await failure(server, replying({"content": "Ye"}, finish="length"))
    assert not error.retryable and "max_tokens" in str(error)


async def test_a_key_is_in_no_error_and_in_no_log(server: OpenAIServer, caplog: pytest.LogCaptureFixture) -> None:
    error = await failure(server, refusing(401, f"Incorrect API key provided: {KEY}."))
    logging.getLogger("test").error("It failed.", exc_info=error)
    assert KEY not in str(error) and KEY not in caplog.text and "It failed." in caplog.text


async def test_what_it_cannot_be_told_is_an_error(server: OpenAIServer) -> None:
    with pytest.raises(UsageError, match="keeps no conversation"):
        await heard(server, request=ModelRequest(None, [], conversation_id="conv_1"))
    with pytest.raises(UsageError, match="an item of type 'web_search_call'"):
        await heard(server, request=ModelRequest(None, [{"type": "web_search_call"}]))
    assert server.asked == []


async def test_who_stops_reading_closes_the_http_response(server: OpenAIServer) -> None:
    server.script(endless)
    events: Any = model_at(server).stream(HELLO)
    await anext(events)
    await events.aclose()
    assert await asyncio.to_thread(server.gone.wait, HANGS)


async def test_a_run_is_approved_in_another_process_and_goes_on(server: OpenAIServer) -> None:
    send, sent = sending(needs_approval=True)
    answer = replying(*call_deltas(0, "send", '{"to": "ann"}', "call_a"), finish="tool_calls")
    server.script(answer, saying("Sent."))
    agent = Agent("a", tools=[send], model=model_at(server))
    result = await Runner.run(agent, "Write to Ann.")
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state)).final_output == "Sent." and sent == [("ann", 1)]


def test_a_model_has_a_name_and_a_provider() -> None:
    model = LitellmModel("gemini/gemini-3-pro", api_key=KEY)
    assert (model.provider, repr(model)) == ("gemini", "LitellmModel('gemini/gemini-3-pro')")
    with pytest.raises(InvalidDefinition, match="LitellmModel: model must be text"):
        LitellmModel("")


def test_without_the_extra_it_is_said_how_to_get_it() -> None:
    code = """import sys; sys.modules["litellm"] = None
from assentry import Agent, Runner
Runner.run_sync(Agent("a", model="litellm/gemini/x"), "Hello?")"""
    assert 'pip install ".[litellm]"' in python(code).stderr.splitlines()[-1]
