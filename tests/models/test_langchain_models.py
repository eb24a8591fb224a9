"""Chat models of LangChain wherever a model is."""

import asyncio
import logging
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from pydantic import BaseModel

from assentry import (
    Agent,
    InvalidDefinition,
    ModelFailed,
    ModelRefused,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OutputSpec,
    RunConfig,
    Runner,
    ToolSpec,
    Usage,
    UsageError,
    register_provider,
)
from assentry.models import named
from assentry.models.langchain import LangChainModel
from assentry.models.wire import responses_items
from assentry.testing import ScriptedModel, call
from assentry.threads import (
    Command,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    create_agent,
    wrap_model_call,
)
from tests.models.langchain_model import FakeChatModel
from tests.runtime.support import reloaded, sending

HELLO = ModelRequest(None, [{"role": "user", "content": "Hello?"}])
FOLLOWED = ModelRequest(None, HELLO.input, streamed=True)
SEND = ToolSpec("send", "Send.", {"type": "object"})
KEY = "sk-planted-1234567890"


class Letter(BaseModel):
    to: str


async def heard(chat: BaseChatModel, request: ModelRequest = HELLO) -> tuple[list[Any], ModelResponse]:
    """The deltas and the reply."""
    *deltas, reply = [each async for each in LangChainModel(chat).stream(request)]
    assert isinstance(reply, ModelResponse)
    return deltas, reply


# -- wherever a model is -------------------------------------------------------------------------------


async def test_a_chat_model_is_a_model_of_an_agent_and_of_a_run() -> None:
    chat = FakeChatModel(steps=["Hello.", "Hello, too."])
    agent = Agent("a", model=chat)
    assert repr(agent.model) == "LangChainModel(FakeChatModel, 'fake-1')"
    assert (await Runner.run(agent, "Hi.")).final_output == "Hello."
    other = Agent("b", model=ScriptedModel([]))
    assert (await Runner.run(other, "Hi.", run_config=RunConfig(model=chat))).final_output == "Hello, too."
    agent.model = chat
    chat.steps.append("Once more.")
    assert (await Runner.run(agent, "Hi.")).final_output == "Once more."


def test_a_chat_model_is_a_model_of_a_thread_with_approval() -> None:
    sent = []

    def send_mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return f"Sent to {to}."

    chat = FakeChatModel(steps=[call("send_mail", {"to": "bob"}), "Bob knows.", "You are welcome."])
    agent = create_agent(
        chat,
        [send_mail],
        system_prompt="Be brief.",
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "ann"}}
    result = agent.invoke({"messages": "Tell Bob."}, config)
    assert result["__interrupt__"] and sent == []
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert (result["messages"][-1].content, sent) == ("Bob knows.", ["bob"])
    agent.invoke({"messages": "Thanks."}, config)
    kinds = [SystemMessage, HumanMessage, AIMessage, ToolMessage, AIMessage, HumanMessage]
    assert [type(each) for each in chat.asked[-1]] == kinds


def test_a_chat_model_may_take_the_place_of_another() -> None:
    chat = FakeChatModel(steps=["From the other."])

    @wrap_model_call
    def another(request: Any, handler: Any) -> Any:
        return handler(request.override(model=chat))

    agent = create_agent(ScriptedModel([]), middleware=[another])
    assert agent.invoke({"messages": "Hi."})["messages"][-1].content == "From the other."


async def test_a_provider_may_give_a_chat_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "_providers", dict(named._providers))
    register_provider("fake", lambda name: FakeChatModel(model_name=name, steps=["Hello."]))
    agent = Agent("a", model="fake:large")
    assert (await Runner.run(agent, "Hi.")).final_output == "Hello." and agent.model.name == "large"  # type: ignore[union-attr]


def test_what_only_looks_like_one_is_refused() -> None:
    class BaseChatModel:
        def stream(self, input: Any) -> Any:
            yield "Hello."

    with pytest.raises(InvalidDefinition, match="model must be"):
        Agent("a", model=BaseChatModel())  # type: ignore[arg-type]


# -- requests ------------------------------------------------------------------------------------------


async def test_items_become_messages(caplog: pytest.LogCaptureFixture) -> None:
    chat = FakeChatModel(steps=["Yes."])
    items = [
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]},
        {"type": "function_call", "call_id": "c1", "name": "send", "arguments": '{"to": "ann"}'},
        {"type": "function_call", "call_id": "c2", "name": "send", "arguments": "{to}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Sent."},
        {"type": "function_call_output", "call_id": "c2", "output": "No JSON."},
        {"role": "developer", "content": "Be kind."},
    ]
    await heard(chat, ModelRequest("Be brief.", items, (SEND,)))
    system, user, said, one, two, developer = chat.asked[0]
    assert system == SystemMessage("Be brief.")
    assert user == HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}])
    assert isinstance(said, AIMessage) and said.content == "One moment."
    assert [(each["id"], each["args"]) for each in said.tool_calls] == [("c1", {"to": "ann"})]
    assert [(each["id"], each["args"]) for each in said.invalid_tool_calls] == [("c2", "{to}")]
    assert [one, two] == [ToolMessage("Sent.", tool_call_id="c1"), ToolMessage("No JSON.", tool_call_id="c2")]
    assert isinstance(developer, SystemMessage) and developer.content == "Be kind."


async def test_tools_and_settings_are_handed_over() -> None:
    chat = FakeChatModel(steps=["Yes."] * 3)
    extra = {"stop": ["."]}
    settings = ModelSettings(temperature=0.5, max_tokens=9, tool_choice="required", extra_args=extra)
    await heard(chat, ModelRequest(None, HELLO.input, (SEND,), None, settings))
    function = {"name": "send", "description": "Send.", "parameters": {"type": "object"}, "strict": True}
    tools = [{"type": "function", "function": function}]
    assert chat.arguments[0] == {"tools": tools, "tool_choice": "any", "temperature": 0.5, "max_tokens": 9}
    settings = ModelSettings(tool_choice="send", parallel_tool_calls=False)
    await heard(chat, ModelRequest(None, HELLO.input, (SEND,), None, settings))
    assert chat.arguments[1] == {"tools": tools, "tool_choice": "send", "parallel_tool_calls": False}
    await heard(chat)
    assert chat.arguments[2] == {}


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (ModelRequest(None, [], settings=ModelSettings(store=False)), "no setting store"),
        (ModelRequest(None, [], conversation_id="conv_1"), "keeps no conversation"),
        (ModelRequest(None, [{"type": "web_search_call"}]), "an item of type 'web_search_call'"),
    ],
)
async def test_what_it_cannot_be_told_is_an_error(request_: ModelRequest, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        await heard(FakeChatModel(), request_)


async def test_a_chat_model_without_tools_is_said_to_have_none() -> None:
    chat = GenericFakeChatModel(messages=iter([AIMessage("Hello to you.")]))
    with pytest.raises(UsageError, match="GenericFakeChatModel takes no tools"):
        await heard(chat, ModelRequest(None, HELLO.input, (SEND,)))
    deltas, reply = await heard(chat, FOLLOWED)
    assert reply.output[0]["content"][0]["text"] == "Hello to you." and len(deltas) > 3


# -- replies -------------------------------------------------------------------------------------------


async def test_usage_and_deltas_are_those_of_the_chunks() -> None:
    deltas, reply = await heard(FakeChatModel(steps=[["Sending.", call("send", {"to": "ann"})]]), FOLLOWED)
    assert reply.usage == Usage(1, 36, 87, 4, 60)
    kinds = [each["type"] for each in deltas]
    assert kinds.count("response.output_text.delta") == 2
    assert kinds.count("response.function_call_arguments.delta") == 3


async def test_a_fake_of_langchain_replies_without_text_where_nobody_follows_it() -> None:
    class Tooled(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    calling = AIMessage("", tool_calls=[{"name": "send", "args": {"to": "ann"}, "id": "c1"}])
    chat = Tooled(messages=iter([calling, AIMessage("Sent.")]))  # its stream of a reply without text has no chunk
    result = await Runner.run(Agent("a", tools=[sending()[0]], model=chat), "Send it.")
    assert result.final_output == "Sent."


async def test_content_blocks_are_shown_kept_and_given_back() -> None:
    content: list[Any] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig", "index": 0},
        {"type": "text", "text": "One moment.", "index": 1},
        {"type": "tool_use", "id": "toolu_1", "name": "send", "input": {"to": "ann"}, "index": 2},
    ]
    chunk = tool_call_chunk(name="send", args='{"to": "ann"}', id="toolu_1", index=2)
    whole = AIMessageChunk(content, tool_call_chunks=[chunk], additional_kwargs={"mine": 1}, id="msg_1")
    chat = FakeChatModel(steps=[whole, "Done.", "Done."])
    deltas, reply = await heard(chat)
    assert [item["type"] for item in reply.output] == ["reasoning", "message", "function_call"]
    assert [each["delta"] for each in deltas if each["type"] == "response.reasoning_text.delta"] == ["Hm."]
    output = {"type": "function_call_output", "call_id": "toolu_1", "output": "Sent."}
    await heard(chat, ModelRequest(None, [*HELLO.input, *reply.output, output]))
    back = chat.asked[-1][1]
    assert isinstance(back, AIMessage) and back.content == content and back.id == "msg_1"
    assert (back.tool_calls[0]["args"], back.additional_kwargs) == ({"to": "ann"}, {"mine": 1})
    assert [item["type"] for item in responses_items(reply.output)] == ["message", "function_call"]
    await heard(chat, ModelRequest(None, [*HELLO.input, *reply.output[:2], *HELLO.input]))
    assert chat.asked[-1][1].content == content[:2], "a call that is not part of the talk any more is not given back"


async def test_reasoning_in_keyword_arguments_is_kept_and_given_back() -> None:
    whole = AIMessageChunk("Yes.", additional_kwargs={"reasoning_content": "Hm."}, response_metadata={"a": 1})
    chat = FakeChatModel(steps=[whole, "Done."])
    _, reply = await heard(chat)
    assert [item["type"] for item in reply.output] == ["message", "reasoning"]
    await heard(chat, ModelRequest(None, [*HELLO.input, *reply.output, *HELLO.input]))
    back = chat.asked[-1][1]
    assert (back.content, back.additional_kwargs) == ("Yes.", {"reasoning_content": "Hm."})


async def test_a_final_output_is_given_by_a_tool() -> None:
    chat = FakeChatModel(steps=[["Here it is:", call("Letter", {"to": "ann"})]])
    agent = Agent("a", model=chat, output_type=Letter)
    result = await Runner.run(agent, "Write to Ann.")
    assert result.final_output == Letter(to="ann")
    [tool] = chat.arguments[0]["tools"]
    assert tool["function"]["name"] == "Letter" and chat.arguments[0]["tool_choice"] == "any"


async def test_a_tool_with_the_name_of_the_output_stays_a_tool() -> None:
    chat = FakeChatModel(steps=[call("Letter", {"to": "ann"}), call("Letter_output", {"to": "bob"})])
    request = ModelRequest(None, HELLO.input, (ToolSpec("Letter", "", {}),), OutputSpec("Letter", {"type": "object"}))
    _, reply = await heard(chat, request)
    assert [item["type"] for item in reply.output] == ["function_call"]
    _, reply = await heard(chat, request)
    assert reply.output[0]["content"][0]["text"] == '{"to": "bob"}'


@pytest.mark.parametrize(
    "said", [{"finish_reason": "length"}, {"stop_reason": "max_tokens"}, {"finish_reason": "SAFETY"}]
)
async def test_a_reply_that_was_cut_short_is_an_error(said: dict[str, Any]) -> None:
    with pytest.raises(ModelFailed, match="stopped before its reply was complete") as caught:
        await heard(FakeChatModel(steps=[AIMessageChunk("Ye", response_metadata=said)]))
    assert not caught.value.retryable


async def test_a_refusal_counts_alone() -> None:
    chunk = tool_call_chunk(name="send", args='{"to": "eve"}', id="c1", index=0)
    refused = AIMessageChunk("Rather not.", tool_call_chunks=[chunk], response_metadata={"stop_reason": "refusal"})
    other = AIMessageChunk("", additional_kwargs={"refusal": "No."}, response_metadata={"a": 1})
    send, sent = sending()
    agent = Agent("a", model=FakeChatModel(steps=[refused, other]), tools=[send])
    assert (await Runner.run(agent, "Do it.")).final_output == "Rather not." and sent == []
    with pytest.raises(ModelRefused, match="No"):
        await Runner.run(agent.clone(output_type=Letter), "Do it.")


# -- failures ------------------------------------------------------------------------------------------


class RateLimited(Exception):
    status_code = 429


class Forbidden(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.response = type("Response", (), {"status_code": 403})()


@pytest.mark.parametrize(
    ("error", "what", "retryable"),
    [
        (RateLimited("Too fast."), "status 429.*Too fast", True),
        (Forbidden("Not you."), "status 403.*Not you", False),
        (ConnectionError("The line broke."), "ConnectionError: The line broke", True),
    ],
)
async def test_any_exception_is_a_failure_of_the_model(error: Exception, what: str, retryable: bool) -> None:
    with pytest.raises(ModelFailed, match=what) as caught:
        await heard(FakeChatModel(steps=[error]))
    assert caught.value.retryable is retryable and caught.value.__cause__ is error


async def test_a_key_is_in_no_error_and_in_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", KEY)
    with pytest.raises(ModelFailed) as caught:
        await heard(FakeChatModel(steps=[RateLimited(f"No account of {KEY}.")]))
    logging.getLogger("test").error("It failed.", exc_info=caught.value)
    assert KEY not in str(caught.value) + caplog.text and "It failed." in caplog.text


async def test_who_stops_reading_closes_the_stream() -> None:
    chat = FakeChatModel(steps=["One two three four."])
    events: Any = LangChainModel(chat).stream(HELLO)
    await anext(events)
    await events.aclose()
    assert chat.closed


async def test_a_run_that_is_cancelled_closes_the_stream() -> None:
    begun = asyncio.Event()

    class Endless(FakeChatModel):
        async def _astream(self, *args: Any, **more: Any) -> Any:
            try:
                begun.set()
                await asyncio.Event().wait()
                yield
            finally:
                self.closed = True

    chat = Endless()
    task = asyncio.create_task(Runner.run(Agent("a", model=chat), "Go on."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert chat.closed


async def test_a_run_is_approved_in_another_process_and_goes_on() -> None:
    send, sent = sending(needs_approval=True)
    chat = FakeChatModel(steps=[["One moment.", call("send", {"to": "ann"})], "Sent."])
    agent = Agent("a", tools=[send], model=chat)
    result = await Runner.run(agent, "Write to Ann.")
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert (result.final_output, sent) == ("Sent.", [("ann", 1)])
