"""`check_model`: every dialect passes it, and models that break a rule do not."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from msgspec.structs import replace
from openai import AsyncOpenAI

from assentry import (
    Agent,
    AnthropicModel,
    Model,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
)
from assentry.models.langchain import LangChainModel
from assentry.testing import ScriptedCall, ScriptedModel, call, check_model
from tests.models import anthropic_server, chat_server, openai_server
from tests.models.langchain_model import FakeChatModel
from tests.models.openai_server import OpenAIServer
from tests.runtime.support import sending

ONCE = {"Connection": "close"}
"""The header of clients that nobody closes: no connection is kept after its response."""


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def check(make: Callable[[list[Any]], Model]) -> None:
    """Check a model, and close the clients that were made for it."""
    async with AsyncExitStack() as stack:

        async def made(steps: list[Any]) -> Model:
            model = make(steps)
            await stack.enter_async_context(model._client)  # type: ignore[attr-defined]
            return model

        await check_model(made)


def serving(servers: ExitStack, dialect: Any, steps: list[Any]) -> OpenAIServer:
    """A server that answers with these steps in a dialect."""
    server = servers.enter_context(OpenAIServer(judge=getattr(dialect, "judge", lambda asked: None)))
    number = itertools.count(1)
    server.script(*(dialect.playing(lambda: next(number), step) for step in steps))
    return server


class Responses:
    """The Responses dialect of `openai_server`, as steps."""

    @staticmethod
    def playing(numbered: Any, step: Any) -> openai_server.Answer:
        if isinstance(step, Exception):
            return openai_server.refusing(500, "The provider failed.")
        items = []
        for part in step if isinstance(step, list) else [step]:
            if isinstance(part, ScriptedCall):
                item = openai_server.calling(part.name, {}, part.call_id or f"call_{numbered()}")
                items.append({**item, "arguments": part.arguments})
            else:
                items.append(openai_server.message(part))
        return responding(items)


def responding(items: list[Any]) -> openai_server.Answer:
    """A whole stream, whose deltas are exactly the text."""

    def answer(exchange: openai_server.Exchange) -> None:
        exchange.begin()
        for item in items:
            for part in item.get("content") or ():
                where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
                exchange.send([{"type": "response.output_text.delta", **where, "delta": part["text"]}])
        exchange.send([{"type": "response.completed", "response": openai_server.response(*items)}])
        exchange.end()

    return answer


async def test_a_scripted_model_passes() -> None:
    await check_model(ScriptedModel)


async def test_the_responses_dialect_passes(servers: ExitStack) -> None:
    def make(steps: list[Any]) -> OpenAIResponsesModel:
        server = serving(servers, Responses, steps)
        client = AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=0, default_headers=ONCE)
        return OpenAIResponsesModel("gpt-5.2", client)

    await check(make)


async def test_the_chat_dialect_passes(servers: ExitStack) -> None:
    def make(steps: list[Any]) -> OpenAIChatCompletionsModel:
        server = serving(servers, chat_server, steps)
        client = AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=0, default_headers=ONCE)
        return OpenAIChatCompletionsModel("gpt-5.2", client)

    await check(make)


async def test_the_anthropic_dialect_passes(servers: ExitStack) -> None:
    def make(steps: list[Any]) -> AnthropicModel:
        server = serving(servers, anthropic_server, steps)
        url = server.url.removesuffix("/v1")
        client = AsyncAnthropic(base_url=url, api_key="sk-test", max_retries=0, default_headers=ONCE)
        return AnthropicModel("claude-opus-5", client, prompt_caching="5m")

    await check(make)


@pytest.mark.parametrize("streams", [True, False])
async def test_the_langchain_dialect_passes(streams: bool) -> None:
    await check_model(lambda steps: LangChainModel(FakeChatModel(steps=steps, streams=streams)))


# -- models that break a rule --------------------------------------------------------------------------


class Broken(ScriptedModel):
    """A scripted model with a fault."""

    fault = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        try:
            async for each in super().stream(request):
                for seen in self.broken(request, each):
                    yield seen
        except ModelFailed as error:
            if self.fault == "fails otherwise":
                raise ValueError("no") from error
            if self.fault != "hides a failure":
                raise
            yield ModelResponse([])

    def broken(self, request: ModelRequest, each: Any) -> list[Any]:
        if not isinstance(each, ModelResponse):
            return {"shows nothing": [], "shows text": [each["delta"]]}.get(self.fault, [each])
        if self.fault == "changes its input":
            request.input[0]["content"] = "Something else."
        whole = {
            "gives no reply": [],
            "speaks after the reply": [each, {"type": "more"}],
            "counts nothing": [replace(each, usage=type(each.usage)())],
            "changes text": [ModelResponse([{**item, "content": "Hm."} for item in each.output], each.usage)],
        }
        calls = [item for item in each.output if item["type"] == "function_call"]
        for item in calls:
            self.break_call(item)
        if self.fault == "forgets a call":
            each.output = [item for item in each.output if item not in calls[1:]]
        return whole.get(self.fault, [each])

    def break_call(self, item: Any) -> None:
        if self.fault == "uses an id twice":
            item["call_id"] = "call_1"
        elif self.fault == "has no ids":
            del item["call_id"]
        elif self.fault == "reads arguments":
            item["arguments"] = json.loads(item["arguments"])
        elif self.fault == "mends arguments":
            item["arguments"] += '"}' * item["arguments"].endswith('"An')


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("shows nothing", "add up to the text"),
        ("shows text", "is a plain dict or an event"),
        ("changes its input", "never changes its request"),
        ("gives no reply", "ends with a ModelResponse"),
        ("speaks after the reply", "ends with a ModelResponse"),
        ("counts nothing", "counts one request"),
        ("uses an id twice", "different ids"),
        ("has no ids", "call_id, which are text"),
        ("reads arguments", "which are text"),
        ("mends arguments", "kept as they were written"),
        ("forgets a call", "in the order"),
        ("changes text", "A reply of text is a message with that text"),
        ("hides a failure", "is a `ModelFailed`"),
        ("fails otherwise", r"is a `ModelFailed`.*It raised ValueError"),
    ],
)
async def test_a_model_that_breaks_a_rule_is_told_which(fault: str, rule: str) -> None:
    def make(steps: list[Any]) -> Broken:
        model = Broken(steps)
        model.fault = fault
        return model

    with pytest.raises(AssertionError, match=rule):
        await check_model(make)


async def test_a_model_may_be_awaited_and_needs_a_name() -> None:
    async def make(steps: list[Any]) -> ScriptedModel:
        return ScriptedModel(steps, name="")

    with pytest.raises(AssertionError, match="A model has a name"):
        await check_model(make)


def test_a_step_may_be_a_call() -> None:
    assert call("send", {"to": "ann"}).arguments == '{"to": "ann"}'


# -- one consumer for all dialects ---------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["responses", "chat", "anthropic", "langchain"])
async def test_one_consumer_reads_the_streams_of_all_dialects(servers: ExitStack, dialect: str) -> None:
    steps: list[Any] = [["One moment.", call("send", {"to": "ann"})], "It is sent."]
    send, sent = sending()
    async with AsyncExitStack() as clients:
        model = await model_of(servers, clients, dialect, steps)
        result = Runner.run_streamed(Agent("a", tools=[send], model=model), "Write to Ann.")
        shown: dict[str, str] = {}
        begun: list[str] = []
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                kind = event.data.type
                if kind.endswith(".delta"):
                    shown[kind] = shown.get(kind, "") + event.data.delta
                elif kind == "response.output_item.added" and event.data.item.type == "function_call":
                    begun.append(event.data.item.name)
    assert shown["response.output_text.delta"].replace(" ", "") == "Onemoment.Itissent."
    assert json.loads(shown["response.function_call_arguments.delta"]) == {"to": "ann"}
    assert (begun, sent, result.final_output) == (["send"], [("ann", 1)], "It is sent.")


async def model_of(servers: ExitStack, clients: AsyncExitStack, dialect: str, steps: list[Any]) -> Model:
    if dialect == "langchain":
        return LangChainModel(FakeChatModel(steps=steps))
    if dialect == "responses":
        server = servers.enter_context(OpenAIServer())
        first = [openai_server.message("One moment."), openai_server.calling("send", {"to": "ann"})]
        server.script(openai_server.replying(*first), openai_server.saying("It is sent."))
    else:
        server = serving(servers, {"chat": chat_server, "anthropic": anthropic_server}[dialect], steps)
    if dialect == "anthropic":
        client = AsyncAnthropic(base_url=server.url.removesuffix("/v1"), api_key="sk-test")
        return AnthropicModel("claude-opus-5", await clients.enter_async_context(client))
    openai = await clients.enter_async_context(AsyncOpenAI(base_url=server.url, api_key="sk-test"))
    return (OpenAIResponsesModel if dialect == "responses" else OpenAIChatCompletionsModel)("gpt-5.2", openai)
