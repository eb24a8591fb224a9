"""LangChain's callbacks hear of an agent's models and tools, and cannot change what runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager, BaseCallbackHandler, CallbackManager
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage as TheirAIMessage
from langchain_core.messages import AIMessageChunk as TheirChunk
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableLambda

from assentry import Agent, UsageError, function_tool
from assentry.testing import ScriptedModel, call
from assentry.threads import (
    AIMessage,
    InMemorySaver,
    ThreadAgent,
    before_model,
    create_agent,
    interrupt,
    wrap_model_call,
    wrap_tool_call,
)
from tests.threads.support import Ran, decide, journal, office, say, texts, thread


class Heard(BaseCallbackHandler):
    """A handler that notes what it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str | None]] = []
        self.options: list[dict[str, Any]] = []
        self.given: list[Any] = []

    def _note(self, event: str, name: str | None, given: Any, options: dict[str, Any]) -> None:
        self.events.append((event, name))
        self.given.append(given)
        self.options.append(options)

    def on_chain_start(self, serialized: Any, inputs: Any, **options: Any) -> None:
        self._note("chain_start", options.get("name"), inputs, options)

    def on_chain_end(self, outputs: Any, **options: Any) -> None:
        self._note("chain_end", None, outputs, options)

    def on_chain_error(self, error: BaseException, **options: Any) -> None:
        self._note("chain_error", type(error).__name__, error, options)

    def on_chat_model_start(self, serialized: Any, messages: Any, **options: Any) -> None:
        self._note("model_start", serialized["id"][-1], messages, options)

    def on_llm_new_token(self, token: Any, **options: Any) -> None:
        self._note("token", token, options.get("chunk"), options)

    def on_llm_end(self, response: Any, **options: Any) -> None:
        self._note("model_end", response.generations[0][0].text, response, options)

    def on_llm_error(self, error: BaseException, **options: Any) -> None:
        self._note("model_error", type(error).__name__, error, options)

    def on_tool_start(self, serialized: Any, input_str: str, **options: Any) -> None:
        self._note("tool_start", serialized["name"], options["inputs"], options)

    def on_tool_end(self, output: Any, **options: Any) -> None:
        self._note("tool_end", output.content, output, options)

    def on_tool_error(self, error: BaseException, **options: Any) -> None:
        self._note("tool_error", type(error).__name__, error, options)

    def about(self, *kinds: str) -> list[tuple[str, str | None]]:
        return [event for event in self.events if event[0].startswith(kinds)]


def with_handler(*handlers: Any, **more: Any) -> dict[str, Any]:
    return {**thread(), "callbacks": list(handlers), **more}


class Chat(GenericFakeChatModel):
    """A chat model of LangChain that streams calls too."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Iterator[Any]:
        said: Any = next(self.messages)
        parts = [
            {"name": each["name"], "args": json.dumps(each["args"]), "id": each["id"], "index": 0}
            for each in said.tool_calls
        ]
        chunk = ChatGenerationChunk(message=TheirChunk(said.content, tool_call_chunks=parts))  # type: ignore[arg-type]
        if run_manager is not None:
            run_manager.on_llm_new_token(said.content, chunk=chunk)
        yield chunk


def chat(*steps: Any) -> Chat:
    return Chat(messages=iter(steps))


def theirs(name: str, **args: Any) -> TheirAIMessage:
    return TheirAIMessage("", tool_calls=[{"name": name, "args": args, "id": "x"}])


def reader(model: Any, *middleware: Any) -> ThreadAgent:
    return create_agent(model, Ran().tools(), middleware=list(middleware), checkpointer=InMemorySaver(), name="bob")


@before_model
def quiet(state: Any, runtime: Any) -> None:
    return None


WHOLE = [
    ("chain_start", "bob"),
    ("chain_start", "model"),
    ("model_start", None),
    ("model_end", ""),
    ("chain_end", None),
    ("chain_start", "tools"),
    ("tool_start", "read_data"),
    ("tool_end", "rows of records"),
    ("chain_end", None),
    ("chain_start", "model"),
    ("model_start", None),
    ("model_end", "Rows."),
    ("chain_end", None),
    ("chain_end", None),
]


@pytest.mark.parametrize("middleware", [(), (quiet,)], ids=["bare", "hooked"])
@pytest.mark.parametrize("own", [True, False], ids=["our model", "their model"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_each_event_is_heard_once_in_order(own: bool, middleware: Any, is_async: bool) -> None:
    model: Any = (
        ScriptedModel([call("read_data"), "Rows."]) if own else chat(theirs("read_data"), TheirAIMessage("Rows."))
    )
    heard, agent = Heard(), reader(model, *middleware)
    config = with_handler(heard)
    result = await agent.ainvoke(say("hi"), config) if is_async else agent.invoke(say("hi"), config)
    name = type(model).__name__
    events = [(event, None if named == name else named) for event, named in heard.events if event != "token"]
    assert events == WHOLE
    assert texts(result)[-1] == ("ai", "Rows.")
    starts = {each["run_id"]: each for each in heard.options if "parent_run_id" in each}
    root = heard.options[0]["run_id"]
    nodes = [each for each in starts.values() if each["parent_run_id"] == root]
    assert len(nodes) == 3
    assert all(each["parent_run_id"] in starts for each in starts.values() if each["run_id"] != root)


async def test_handlers_get_langchains_messages_and_the_configs_tags_metadata_and_name() -> None:
    heard = Heard()
    config = with_handler(heard, tags=["x"], metadata={"user": 7}, run_name="named")
    await reader(ScriptedModel([call("read_data"), "Rows."])).ainvoke(say("hi"), config)
    assert heard.events[0] == ("chain_start", "named")
    assert all("x" in options["tags"] for options in heard.options)
    about = [each["metadata"] for each in heard.options if "metadata" in each]
    assert all(each["user"] == 7 and each["thread_id"] == "t" for each in about)
    asked = heard.given[heard.events.index(("model_start", "ScriptedModel"))]
    assert isinstance(asked[0][0], BaseMessage)
    assert asked[0][0].content == "hi"
    tool = heard.given[heard.events.index(("tool_end", "rows of records"))]
    assert isinstance(tool, ToolMessage)
    assert tool.tool_call_id == heard.options[heard.events.index(("tool_start", "read_data"))]["tool_call_id"]
    assert isinstance(heard.given[-1]["messages"][-1], TheirAIMessage)


async def test_tokens_are_heard_when_the_call_is_streamed() -> None:
    heard = Heard()
    agent = reader(ScriptedModel(["All the rows."]))
    async for _ in agent.astream(say("hi"), with_handler(heard)):
        pass
    assert "".join(str(token) for _, token in heard.about("token")) == "All the rows."


async def test_async_handlers_managers_and_bound_configs_hear_too() -> None:
    class Later(AsyncCallbackHandler):
        tools = 0

        async def on_tool_start(self, serialized: Any, input_str: str, **options: Any) -> None:
            self.tools += 1

    later, managed, bound = Later(), Heard(), Heard()
    managers = CallbackManager([managed], [managed]), AsyncCallbackManager([later], [managed, later])
    for callbacks in ([later], *managers):
        agent = reader(ScriptedModel([call("read_data"), "Rows."])).with_config(callbacks=[bound])
        await agent.ainvoke(say("hi"), {**thread(), "callbacks": callbacks})
    assert later.tools == 2
    assert len(managed.about("tool_start")) == 2
    assert len(bound.about("tool_start")) == 3


@pytest.mark.parametrize("callbacks", [["print"], [Heard], "print", Heard(), [7]], ids=range(5))
async def test_what_is_no_handler_is_refused_before_anything_is_recorded(callbacks: Any) -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match="callbacks is a list of LangChain's callback handlers"):
        await agent.ainvoke(say("hi"), {**thread(), "callbacks": callbacks})
    assert (await agent.aget_state(thread())).values == {}


async def test_what_a_handler_raises_is_logged_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Heard):
        def on_tool_start(self, serialized: Any, input_str: str, **options: Any) -> None:
            raise ValueError("the handler is broken")

    agent, ran = office(call("read_data"), "Rows.")
    with caplog.at_level(logging.WARNING):
        result = await agent.ainvoke(say("hi"), with_handler(Broken()))
    assert texts(result)[-1] == ("ai", "Rows.")
    assert ran == [("read_data", "records")]
    assert "the handler is broken" in caplog.text


async def test_a_handler_with_raise_error_keeps_a_tool_from_running_and_ends_the_run() -> None:
    class Strict(Heard):
        raise_error = True

        def on_tool_start(self, serialized: Any, input_str: str, **options: Any) -> None:
            raise PermissionError("not today")

    agent, ran = office(call("read_data"), "Rows.")
    with pytest.raises(PermissionError, match="not today"):
        await agent.ainvoke(say("hi"), with_handler(Strict()))
    assert ran == []
    result = await agent.ainvoke(None, thread())
    assert texts(result)[-1] == ("ai", "Rows.")
    assert ran == []


async def test_a_handler_that_waits_never_stands_between_the_last_look_and_the_body() -> None:
    """A change that happens while a handler waits is seen: the body does not run on what was shown before."""
    version = 1

    class Slow(AsyncCallbackHandler):
        async def on_tool_start(self, serialized: Any, input_str: str, **options: Any) -> None:
            nonlocal version
            version += 1

    def shows(ctx: Any, args: dict[str, Any]) -> Any:
        from assentry import Preview

        return Preview("The price list.", preconditions={"version": version})

    ran: list[int] = []

    @function_tool(needs_approval=True, preview=shows)
    def buy() -> str:
        """Buy."""
        ran.append(version)
        return "bought"

    agent = create_agent(ScriptedModel([call("buy"), "Done."]), [buy], checkpointer=InMemorySaver())
    await agent.ainvoke(say("hi"), thread())
    result = await agent.ainvoke(decide("approve"), with_handler(Slow()))
    assert ran == []
    assert result["__interrupt__"]


async def test_a_tool_that_fails_is_heard_with_its_own_exception() -> None:
    def fails() -> str:
        """Fail."""
        raise KeyError("row")

    heard = Heard()
    agent = create_agent(ScriptedModel([call("fails"), "Sorry."]), [fails], checkpointer=InMemorySaver())
    await agent.ainvoke(say("hi"), with_handler(heard))
    assert heard.about("tool") == [("tool_start", "fails"), ("tool_error", "KeyError")]


async def test_a_model_that_fails_is_heard_and_so_is_the_call() -> None:
    heard = Heard()
    with pytest.raises(Exception, match="no more"):
        await reader(ScriptedModel([])).ainvoke(say("hi"), with_handler(heard))
    assert [event for event, _ in heard.events][-3:] == ["model_error", "chain_error", "chain_error"]


async def test_a_tool_that_asks_is_heard_as_a_pause_and_starts_again_with_the_answer() -> None:
    def ask() -> str:
        """Ask."""
        return f"said {interrupt('Sure?')}"

    heard = Heard()
    agent = create_agent(ScriptedModel([call("ask"), "Done."]), [ask], checkpointer=InMemorySaver())
    await agent.ainvoke(say("hi"), with_handler(heard))
    assert heard.about("tool") == [("tool_start", "ask"), ("tool_error", "GraphInterrupt")]
    from assentry.threads import Command

    await agent.ainvoke(Command(resume="yes"), with_handler(heard))
    assert heard.about("tool")[2:] == [("tool_start", "ask"), ("tool_end", "said yes")]


async def test_a_gated_tool_is_heard_only_when_it_runs() -> None:
    heard = Heard()
    agent, _ = office([call("write_file", {"path": "a"}), call("execute_sql", {"query": "b"})], "Done.")
    await agent.ainvoke(say("hi"), with_handler(heard))
    assert heard.about("tool") == []
    await agent.ainvoke(decide("approve", "reject"), with_handler(heard))
    assert heard.about("tool") == [("tool_start", "write_file"), ("tool_end", "wrote a")]


async def test_a_tool_or_model_that_middleware_skips_is_not_heard() -> None:
    @wrap_tool_call
    def instead(request: Any, handler: Any) -> Any:
        from assentry.threads import ToolMessage

        return ToolMessage("made up", tool_call_id=request.tool_call["id"])

    @wrap_model_call
    def answer(request: Any, handler: Any) -> Any:
        return handler(request) if len(request.messages) == 1 else AIMessage("Made up, too.")

    heard, (agent, ran) = Heard(), office(call("read_data"), middleware=[instead, answer])
    result = await agent.ainvoke(say("hi"), with_handler(heard))
    assert texts(result)[-1] == ("ai", "Made up, too.")
    assert heard.about("tool") == []
    assert len(heard.about("model_start")) == 1
    assert ran == []


async def test_what_a_tool_calls_of_langchains_is_heard_under_the_tool() -> None:
    async def look(table: str) -> str:
        """Look."""
        return str(await RunnableLambda(lambda value: f"<{value}>").with_config(run_name="inner").ainvoke(table))

    heard = Heard()
    agent = create_agent(ScriptedModel([call("look", {"table": "a"}), "Done."]), [look], checkpointer=InMemorySaver())
    await agent.ainvoke(say("hi"), with_handler(heard))
    inner = heard.options[heard.events.index(("chain_start", "inner"))]
    tool = heard.options[heard.events.index(("tool_start", "look"))]
    assert inner["parent_run_id"] == tool["run_id"]


async def test_an_agent_called_inside_a_run_of_langchains_is_heard_by_its_callbacks() -> None:
    agent, heard = reader(ScriptedModel(["Hello."])), Heard()

    async def inside(text: str) -> Any:
        return (await agent.ainvoke(say(text), thread()))["messages"][-1].text

    assert await RunnableLambda(inside).ainvoke("hi", {"callbacks": [heard], "run_name": "outer"}) == "Hello."
    outer, bob = (heard.options[heard.events.index(("chain_start", name))] for name in ("outer", "bob"))
    assert bob["parent_run_id"] == outer["run_id"]


async def test_agents_that_are_tools_are_heard_under_their_tool() -> None:
    ordinary = Agent(
        name="helper", tools=[function_tool(Ran().tools()[2])], model=ScriptedModel([call("read_data"), "R."])
    )
    heard = Heard()
    agent = create_agent(
        ScriptedModel([call("helper", {"input": "x"}), "Done."]), [ordinary], checkpointer=InMemorySaver()
    )
    await agent.ainvoke(say("hi"), with_handler(heard))
    assert heard.about("tool") == [
        ("tool_start", "helper"),
        ("tool_start", "read_data"),
        ("tool_end", "rows of records"),
        ("tool_end", "R."),
    ]
    starts = {each["run_id"]: each for each in heard.options if "parent_run_id" in each}
    inner = heard.options[heard.events.index(("tool_start", "read_data"))]
    helper = heard.options[heard.events.index(("tool_start", "helper"))]
    assert starts[inner["parent_run_id"]]["parent_run_id"] == helper["run_id"]


async def test_callbacks_leave_the_journal_as_it_is() -> None:
    steps = [call("read_data"), "Rows."]
    with_callbacks, without = reader(ScriptedModel(steps), quiet), reader(ScriptedModel(steps), quiet)
    await with_callbacks.ainvoke(say("hi"), with_handler(Heard()))
    await without.ainvoke(say("hi"), thread())
    assert await journal(with_callbacks) == await journal(without)
