"""State of one's own: schemas, reducers, updates from tools and hooks."""

import operator
from typing import Annotated, NotRequired

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, after_model, before_agent, before_model
from langchain.messages import HumanMessage, RemoveMessage, ToolMessage
from langchain.tools import ToolRuntime, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite
from scripted import ScriptedChat, call, show, thread, turn


class Shop(AgentState):
    user: NotRequired[str]
    basket: NotRequired[Annotated[list[str], operator.add]]
    count: NotRequired[int]


@tool
def put(item: str, runtime: ToolRuntime) -> Command:
    """Put an item into the basket."""
    message = ToolMessage(f"{item} for {runtime.state.get('user')}", tool_call_id=runtime.tool_call_id)
    return Command(update={"basket": [item], "messages": [message]})


def shop(*replies, **options):
    return create_agent(ScriptedChat(*replies), [put], state_schema=Shop, checkpointer=InMemorySaver(), **options)


def case_keys_of_ones_own():
    agent = shop("Hello.", "Again.")
    print(agent.invoke({"messages": "Hi", "user": "ann", "count": 1}, thread())["user"])
    result = agent.invoke({"messages": "Hi", "count": 2}, thread())
    print(result["user"], result["count"], sorted(result))


def case_reducers():
    agent = shop(turn(call("put", {"item": "pen"}, "c1"), call("put", {"item": "ink"}, "c2")), "Done.")
    result = agent.invoke({"messages": "Buy", "user": "ann", "basket": ["cup"]}, thread())
    print(sorted(result["basket"]), result["messages"][2].content)
    print(sorted(agent.get_state(thread()).values["basket"]))


def case_updates_in_a_stream():
    agent = shop(turn(call("put", {"item": "pen"})), "Done.")
    for chunk in agent.stream({"messages": "Buy"}, thread(), stream_mode="updates"):
        print({name: sorted(update or ()) for name, update in chunk.items()})


def case_hooks_that_update():
    @before_agent(state_schema=Shop)
    def greet(state, runtime):
        return {"user": "guest"}

    @after_model(state_schema=Shop)
    def count(state, runtime):
        return {"count": state.get("count", 0) + 1}

    agent = create_agent(ScriptedChat(turn(call("put", {"item": "pen"})), "Done."), [put], middleware=[greet, count])
    result = agent.invoke({"messages": "Buy"})
    print(result["user"], result["count"])


def case_schema_of_a_middleware():
    class Counted(AgentState):
        calls: NotRequired[int]

    class Counter(AgentMiddleware):
        state_schema = Counted

        def before_model(self, state, runtime):
            print("so far", state.get("calls", 0))
            return {"calls": state.get("calls", 0) + 1}

    agent = create_agent(ScriptedChat("One.", "Two."), middleware=[Counter()], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Hi"}, thread())
    print(agent.invoke({"messages": "Hi"}, thread())["calls"])


def case_command_from_wrap_model_call():
    class Track(AgentMiddleware):
        state_schema = Shop

        def wrap_model_call(self, request, handler):
            return ExtendedModelResponse(model_response=handler(request), command=Command(update={"count": 7}))

    print(create_agent(ScriptedChat("Hello."), middleware=[Track()]).invoke({"messages": "Hi"})["count"])


def case_command_from_wrap_tool_call():
    class Track(AgentMiddleware):
        state_schema = Shop

        def wrap_tool_call(self, request, handler):
            message = handler(request)
            return Command(update={"count": 1, "messages": [message]})

    def look() -> str:
        """Look."""
        return "seen"

    result = create_agent(ScriptedChat(turn(call("look")), "Ok."), [look], middleware=[Track()]).invoke(
        {"messages": "Hi"}
    )
    print(result["count"])
    show(result)


def case_messages_removed():
    @before_model
    def forget(state, runtime):
        if len(state["messages"]) > 2:
            return {"messages": [RemoveMessage(id=each.id) for each in state["messages"][:-1]]}
        return None

    chat = ScriptedChat("One.", "Two.")
    agent = create_agent(chat, middleware=[forget], checkpointer=InMemorySaver())
    agent.invoke({"messages": "First"}, thread())
    show(agent.invoke({"messages": "Second"}, thread()))
    show(chat.heard[1])


def case_all_messages_replaced():
    @before_model
    def summarize(state, runtime):
        if len(state["messages"]) > 2:
            return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("In short: hi twice.")]}
        return None

    chat = ScriptedChat("One.", "Two.")
    agent = create_agent(chat, middleware=[summarize], checkpointer=InMemorySaver())
    agent.invoke({"messages": "First"}, thread())
    show(agent.invoke({"messages": "Second"}, thread()))


def case_a_message_replaced_by_its_id():
    agent = create_agent(ScriptedChat("One.", "Two."), checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("Frist", id="m1")]}, thread())
    show(agent.invoke({"messages": [HumanMessage("First", id="m1"), HumanMessage("Second")]}, thread()))


def case_overwrite():
    @before_agent(state_schema=Shop)
    def clear(state, runtime):
        return {"basket": Overwrite([])}

    agent = shop("Hello.", middleware=[clear])
    print(agent.invoke({"messages": "Hi", "basket": ["old"]}, thread())["basket"])


def case_a_key_that_the_schema_does_not_have():
    result = shop("Hello.").invoke({"messages": "Hi", "unknown": 1}, thread())
    print("unknown" in result)


def case_runtime_in_hooks():
    @before_model
    def tell(state, runtime):
        print(runtime.context, runtime.store is None, runtime.execution_info.thread_id)
        runtime.stream_writer("a note")

    agent = create_agent(ScriptedChat("Hello."), middleware=[tell], checkpointer=InMemorySaver(), context_schema=dict)
    for chunk in agent.stream({"messages": "Hi"}, thread(), context={"user": "ann"}, stream_mode="custom"):
        print(chunk)
