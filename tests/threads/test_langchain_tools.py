"""Tools of LangChain, as they are: through the gate and the door, with what they inject, return and ask."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from assentry import InvalidDefinition, UsageError
from assentry.testing import call
from assentry.threads import (
    AgentState,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    SqliteSaver,
    before_model,
    create_agent,
    wrap_tool_call,
)
from assentry.threads import InjectedState as OwnInjectedState
from assentry.threads import tool as own_tool
from tests.threads.support import Paired, decide, only, say, texts, thread

pytest.importorskip("langchain")

from langchain.tools import InjectedState, ToolRuntime, tool
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    create_retriever_tool,
)
from langgraph.config import get_store, get_stream_writer
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt


class UserState(AgentState):
    user: str


class Question(BaseModel):
    q: str = Field(description="the question")
    call_id: Annotated[str, InjectedToolCallId]
    state: Annotated[dict[str, Any], InjectedState]


class Answering(BaseTool):
    name: str = "answer"
    description: str = "Answer a question."
    args_schema: Any = Question

    def _run(self, q: str, call_id: str, state: dict[str, Any], run_manager: Any = None) -> str:
        return f"{q} {len(state['messages'])}"


class Papers(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"paper on {query}")]


@tool
async def look(
    city: str,
    runtime: ToolRuntime,
    user: Annotated[str, InjectedState("user")],
    own: Annotated[dict[str, Any], OwnInjectedState],
    store: Annotated[Any, InjectedStore()],
    config: RunnableConfig,
    n: int = 3,
) -> str:
    """Look at a city."""
    assert isinstance(runtime, ToolRuntime) and isinstance(runtime.state["messages"][-1], AIMessage)
    assert runtime.store is store is get_store() and own["user"] == user
    assert config["configurable"]["thread_id"] == runtime.config["configurable"]["thread_id"] == "t"
    get_stream_writer()("written")
    return f"{city} {n} {user}"


@tool(response_format="content_and_artifact")
def draw(size: int) -> tuple[str, Any]:
    """Draw."""
    return "drawn", {"size": size}


def fail(why: str) -> str:
    """Fail."""
    raise ToolException(f"failed: {why}")


TOOLS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a function": (look, {"city": "Ghent"}, "Ghent 3 ann"),
    "a pair": (draw, {"size": 2}, "drawn"),
    "a class": (Answering(), {"q": "why"}, "why 2"),
    "structured": (StructuredTool.from_function(lambda a, b=2: a, name="add", description="Add."), {"a": 1}, "1"),
    "one text": (Tool(name="echo", func=lambda text: text * 2, description="Echo."), {"__arg1": "ab"}, "abab"),
    "a retriever": (create_retriever_tool(Papers(), "papers", "Find."), {"query": "gates"}, "paper on gates"),
    "failing": (
        StructuredTool.from_function(fail, handle_tool_error=True),
        {"why": "x"},
        "failed: x",
    ),
}


def agent_with(given: Any, *steps: Any, **options: Any) -> Any:
    options = {"state_schema": UserState, "store": InMemoryStore(), "checkpointer": InMemorySaver(), **options}
    return create_agent(Paired(steps), [given], **options)


@pytest.mark.parametrize(("given", "args", "output"), TOOLS.values(), ids=TOOLS)
async def test_a_tool_of_langchain_runs_through_the_gate(given: Any, args: dict[str, Any], output: str) -> None:
    gate = HumanInTheLoopMiddleware({given.name: True})
    agent = agent_with(given, call(given.name, args), "ok", middleware=[gate])
    asked = only(await agent.ainvoke({**say("go"), "user": "ann"}, thread()))
    assert args.items() <= asked.value["action_requests"][0]["args"].items()
    result = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert isinstance(result["messages"][2], ToolMessage) and result["messages"][2].content == output
    assert isinstance(result["messages"][0], HumanMessage) and isinstance(result["messages"][-1], AIMessage)


@pytest.mark.parametrize("name", ["runtime", "user", "own", "store", "config"])
async def test_a_model_does_not_fill_what_is_injected(name: str) -> None:
    agent = agent_with(look, call("look", {"city": "Ghent", name: {}}), "ok")
    result = await agent.ainvoke({**say("go"), "user": "ann"}, thread())
    assert result["messages"][2].status == "error" and "no such argument" in result["messages"][2].content
    tools = agent.agent.model.requests[0].tools
    assert list(tools[0].parameters["properties"]) == ["city", "n"]


async def test_arguments_are_not_converted() -> None:
    agent = agent_with(draw, call("draw", {"size": "2"}), "ok")
    result = await agent.ainvoke(say("go"), thread())
    assert "expected a whole number" in result["messages"][2].content


async def test_an_artifact_is_kept() -> None:
    agent = agent_with(draw, call("draw", {"size": 2}), "ok")
    assert (await agent.ainvoke(say("go"), thread()))["messages"][2].artifact == {"size": 2}


async def test_a_schema_of_json_cannot_be_used_to_fill_in_what_is_injected() -> None:
    def act(a: int, runtime: ToolRuntime) -> str:
        return runtime.tool_call_id or ""

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}
    given = StructuredTool.from_function(act, name="act", description="Act.", args_schema=schema)
    agent = agent_with(given, [call("act", {"a": 1, "runtime": {}}), call("act", {"a": 1})], "ok")
    result = await agent.ainvoke(say("go"), thread())
    assert "no such argument" in result["messages"][2].content
    assert result["messages"][3].content == result["messages"][3].tool_call_id


async def test_interrupts_and_commands_of_langgraph_work_as_ours(tmp_path: Any) -> None:
    ran: list[Any] = []

    @tool
    def book(city: str, runtime: ToolRuntime) -> Command[Any]:
        """Book a room."""
        beds = interrupt({"how many beds in": city})
        name = interrupt("whose name?", response_schema={"type": "string"})
        ran.append((city, beds, name))
        done = ToolMessage(f"{beds} beds", tool_call_id=runtime.tool_call_id)
        return Command(update={"user": name, "messages": [done]})

    def process(*steps: Any) -> Any:
        return agent_with(book, *steps, checkpointer=SqliteSaver(tmp_path / "t.db"))

    asked = only(await process(call("book", {"city": "Ghent"})).ainvoke(say("go"), thread()))
    assert asked.value == {"how many beds in": "Ghent"}
    assert only(await process().ainvoke(Command(resume=2), thread())).value == "whose name?"
    result = await process("ok").ainvoke(Command(resume="ann"), thread())
    assert ran == [("Ghent", 2, "ann")] and result["user"] == "ann" and result["messages"][2].content == "2 beds"


async def test_an_interrupt_of_langgraph_asks_in_functions_and_hooks() -> None:
    def book() -> Any:
        """Book."""
        return interrupt("in a function?")

    @before_model
    def hook(state: Any, runtime: Any) -> None:
        if len(state["messages"]) == 1:
            assert interrupt("in a hook?") == "yes"

    agent = agent_with(book, call("book"), "ok", middleware=[hook])
    assert only(await agent.ainvoke(say("go"), thread())).value == "in a hook?"
    assert only(await agent.ainvoke(Command(resume="yes"), thread())).value == "in a function?"
    assert texts(await agent.ainvoke(Command(resume="booked"), thread()))[2] == ("tool", "booked")


async def test_a_signal_to_a_graph_ends_the_run() -> None:
    from langgraph.errors import GraphInterrupt

    @tool
    def act() -> str:
        """Act."""
        raise GraphInterrupt(())

    with pytest.raises(UsageError, match="GraphInterrupt"):
        await agent_with(act, call("act"), "ok").ainvoke(say("go"), thread())


async def test_hooks_around_a_tool_see_langchains_messages() -> None:
    seen: list[Any] = []

    @wrap_tool_call
    async def around(request: Any, handler: Any) -> Any:
        result = await handler(request)
        seen.append((type(result), result.content, type(request.state["messages"][0])))
        return ToolMessage(f"{result.content}!", tool_call_id=result.tool_call_id)

    agent = agent_with(draw, call("draw", {"size": 2}), "ok", middleware=[around])
    result = await agent.ainvoke(say("go"), thread())
    assert seen == [(ToolMessage, "drawn", HumanMessage)] and result["messages"][2].content == "drawn!"


def test_return_direct_is_langchains_too() -> None:
    @tool(return_direct=True)
    def act() -> str:
        """Act."""
        return "at once"

    assert texts(agent_with(act, call("act"), "never").invoke(say("go"), thread()))[-1] == ("tool", "at once")


def test_what_is_no_tool_is_a_sentence() -> None:
    def act(given: Annotated[str, InjectedToolArg]) -> str:
        """Act."""
        return given

    for given, why in (
        (ToolNode([draw]), "ToolNode"),
        ({"type": "web_search"}, "hosted tools"),
        (tool(act), "default"),
        (tool(extras={"a": 1})(fail), "extras"),
    ):
        with pytest.raises(InvalidDefinition, match=why):
            create_agent(Paired(["ok"]), [given])


async def test_an_edit_of_a_call_of_langchains_tool_is_checked() -> None:
    gate = HumanInTheLoopMiddleware({"draw": True})
    agent = agent_with(draw, call("draw", {"size": 2}), "ok", middleware=[gate])
    await agent.ainvoke(say("go"), thread())
    edit = {"type": "edit", "edited_action": {"name": "draw", "args": {"size": 5}}}
    result = await agent.ainvoke(decide(edit), thread())
    assert result["messages"][2].artifact == {"size": 5}


async def test_callbacks_hear_of_a_tool_once_and_of_what_it_calls() -> None:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.runnables import RunnableLambda

    heard: list[str] = []

    class Handler(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
            heard.append(serialized["name"])

        def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
            heard.append(kwargs["name"])

        def on_tool_end(self, output: Any, **kwargs: Any) -> None:
            heard.append(output.content)

    @tool
    def act() -> Any:
        """Act."""
        asked = interrupt("sure?")
        return RunnableLambda(lambda value: value, name="part").invoke(asked)

    agent = agent_with(act, call("act"), "ok")
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(Command(resume="yes"), {**thread(), "callbacks": [Handler()]})
    assert heard == ["agent", "tools", "act", "part", "yes", "model"]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    q: str
    user: Annotated[str, InjectedToolArg] = Field("nobody", validation_alias="who")


@pytest.mark.parametrize("named", ["user", "who"])
@pytest.mark.parametrize("own", [True, False])
async def test_no_call_and_no_edit_fills_an_injected_argument_of_a_schema_that_allows_any(
    own: bool, named: str
) -> None:
    ran: list[Any] = []

    def act(q: str, user: str = "nobody", **more: Any) -> str:
        """Act."""
        ran.append((q, user, more))
        return "done"

    made = (own_tool if own else tool)(args_schema=Open)(act)
    gate = HumanInTheLoopMiddleware({"act": True})
    steps = [call("act", {"q": "a", named: "root"}), call("act", {"q": "a"}), call("act", {"q": "a"}), "ok"]
    agent = create_agent(Paired(steps), [made], middleware=[gate], checkpointer=InMemorySaver())
    asked = only(await agent.ainvoke(say("go"), thread()))
    assert asked.value["review_configs"][0]["allowed_decisions"] == ["edit", "reject"]
    await agent.ainvoke(decide("reject"), thread())
    edit = {"type": "edit", "edited_action": {"name": "act", "args": {"q": "b", named: "root"}}}
    result = await agent.ainvoke(decide(edit), thread())
    assert ran == [] and "there is no such argument" in texts(result)[-2][1]
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("a", "nobody", {})]


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_callback_changes_in_its_inputs_does_not_run(is_async: bool) -> None:
    ran: list[Any] = []

    class Changing(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, input_str: str, *, inputs: Any = None, **options: Any) -> None:
            inputs["items"][0]["to"] = "eve"
            inputs["items"].append({"to": "mallory"})

    def send(items: list[dict[str, str]]) -> str:
        """Send."""
        ran.append(items)
        return "sent"

    async def asend(items: list[dict[str, str]]) -> str:
        """Send."""
        return send(items)

    made = tool("send")(asend if is_async else send)
    agent = create_agent(
        Paired([call("send", {"items": [{"to": "bob"}]}), "ok"]),
        [made],
        middleware=[HumanInTheLoopMiddleware({"send": True})],
        checkpointer=InMemorySaver(),
    )
    config = {**thread(), "callbacks": [Changing()]}
    await agent.ainvoke(say("go"), config)
    await agent.ainvoke(decide("approve"), config)
    assert ran == [[{"to": "bob"}]]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("event", ["on_tool_start", "on_tool_end"])
async def test_a_handler_with_raise_error_ends_the_run_of_their_tool_too(event: str, is_async: bool) -> None:
    def refuse(self: Any, *args: Any, **options: Any) -> None:
        raise PermissionError("not today")

    async def arefuse(self: Any, *args: Any, **options: Any) -> None:
        raise PermissionError("not today")

    base: Any = AsyncCallbackHandler if is_async else BaseCallbackHandler
    handler = type("Strict", (base,), {event: arefuse if is_async else refuse, "raise_error": True})

    async def look() -> str:
        """Look."""
        return "seen"

    agent = create_agent(Paired([call("look"), "ok"]), [tool(look)], checkpointer=InMemorySaver())
    with pytest.raises(PermissionError, match="not today"):
        await agent.ainvoke(say("go"), {**thread(), "callbacks": [handler()]})
    assert texts(await agent.ainvoke(None, thread()))[-1] == ("ai", "ok")
