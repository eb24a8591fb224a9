"""Today's edition: version="v2", streams, events."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, asked, call, show, thread, turn


def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def mailer(*replies):
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    return create_agent(ScriptedChat(*replies), [send], middleware=[gate], checkpointer=InMemorySaver())


def asking():
    return mailer(turn(call("send", {"to": "ann", "text": "Hi"}), text="I write to Ann."), "It is sent.")


APPROVED = {"decisions": [{"type": "approve"}]}


def case_invoke_v2():
    agent = asking()
    result = agent.invoke({"messages": "Mail"}, thread(), version="v2")
    asked(result.interrupts)
    print([each.type for each in result.value["messages"]], sorted(result.value))
    result = agent.invoke(Command(resume=APPROVED), thread(), version="v2")
    show(result.value)
    print(result.interrupts)


async def case_ainvoke_v2():
    agent = asking()
    result = await agent.ainvoke({"messages": "Mail"}, thread(), version="v2")
    print(len(result.interrupts), type(result).__name__)


def case_stream_v2():
    agent = asking()
    for part in agent.stream({"messages": "Mail"}, thread(), stream_mode=["updates", "values"], version="v2"):
        print(part["type"], part["ns"], sorted(part["data"]))
    for part in agent.stream(Command(resume=APPROVED), thread(), stream_mode="messages", version="v2"):
        token, metadata = part["data"]
        print(part["type"], metadata["langgraph_node"], repr(token.content))


def case_stream_updates():
    agent = asking()
    for chunk in agent.stream({"messages": "Mail"}, thread()):
        print(sorted(chunk))
    for chunk in agent.stream(Command(resume=APPROVED), thread(), stream_mode="updates"):
        print({name: sorted(value or ()) for name, value in chunk.items()})


def case_stream_messages():
    agent = asking()
    for token, metadata in agent.stream({"messages": "Mail"}, thread(), stream_mode="messages"):
        if token.content:
            print(metadata["langgraph_node"], type(token).__name__, repr(token.content))
    for mode, chunk in agent.stream(Command(resume=APPROVED), thread(), stream_mode=["messages", "updates"]):
        print(mode, repr(chunk[0].content) if mode == "messages" else sorted(chunk))


def case_stream_values():
    agent = asking()
    for state in agent.stream({"messages": "Mail"}, thread(), stream_mode="values"):
        print(len(state["messages"]), "__interrupt__" in state)
    for state in agent.stream(Command(resume=APPROVED), thread(), stream_mode="values"):
        print(len(state["messages"]), "__interrupt__" in state)


def case_stream_tool_call_chunks():
    agent = asking()
    whole = None
    for token, _ in agent.stream({"messages": "Mail"}, thread(), stream_mode="messages"):
        whole = token if whole is None else whole + token
    print(whole.content, whole.tool_calls[0]["name"], whole.tool_calls[0]["args"])


def case_stream_with_subgraphs():
    for namespace, chunk in asking().stream({"messages": "Mail"}, thread(), stream_mode="updates", subgraphs=True):
        print(namespace, sorted(chunk))


async def case_astream_events():
    agent = asking()
    async for event in agent.astream_events({"messages": "Mail"}, thread(), version="v2"):
        if event["event"] == "on_chat_model_stream":
            print(repr(event["data"]["chunk"].content), event["metadata"]["langgraph_node"])
    async for event in agent.astream_events(Command(resume=APPROVED), thread(), version="v2"):
        if event["event"] in ("on_tool_start", "on_tool_end", "on_chat_model_end"):
            print(event["event"], event["name"])


async def case_astream_events_of_a_tool():
    agent = create_agent(ScriptedChat(turn(call("send", {"to": "ann", "text": "Hi"})), "Sent."), [send])
    async for event in agent.astream_events({"messages": "Mail"}, version="v2"):
        if event["event"] == "on_tool_start":
            print(event["data"]["input"])
        if event["event"] == "on_tool_end":
            print(event["data"]["output"].content)


def case_stream_events_v3():
    stream = asking().stream_events({"messages": "Mail"}, thread(), version="v3")
    for message in stream.messages:
        print(repr(str(message.text)))
    asked(stream.interrupts)


def case_print_of_an_interrupt():
    result = asking().invoke({"messages": "Mail"}, thread())
    [interrupt] = result["__interrupt__"]
    print(type(interrupt).__name__, isinstance(interrupt.id, str), sorted(interrupt.value))
    print(sorted(interrupt.value["review_configs"][0]))
