"""Imports that were forgotten: LangChain's own names, used with our `create_agent`."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, after_model, wrap_model_call, wrap_tool_call
from langchain.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.types import Command, interrupt
from scripted import EMAIL_POLICY, ScriptedChat, asked, call, show, thread, turn


def send(to: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def case_messages_as_input():
    said = [SystemMessage("Be brief."), HumanMessage("Hi"), AIMessage("Hello."), HumanMessage("Again")]
    result = create_agent(ScriptedChat("Hello again.")).invoke({"messages": said})
    show(result)
    print([isinstance(each, HumanMessage) for each in result["messages"]])


def case_isinstance_of_a_result():
    result = create_agent(ScriptedChat(turn(call("send", {"to": "ann"})), "Sent."), [send]).invoke({"messages": "Mail"})
    names = {AIMessage: "ai", HumanMessage: "human", ToolMessage: "tool"}
    print([[name for kind, name in names.items() if isinstance(each, kind)] for each in result["messages"]])


def case_tool_message_from_a_tool():
    def lookup(city: str) -> ToolMessage:
        """Look a city up."""
        return ToolMessage("There is none.", tool_call_id="c1", status="error", artifact={"city": city})

    result = create_agent(ScriptedChat(turn(call("lookup", {"city": "Xy"})), "No."), [lookup]).invoke({"messages": "?"})
    show(result)
    print(result["messages"][2].artifact)


def case_tool_message_from_middleware():
    @wrap_tool_call
    def block(request, handler):
        return ToolMessage("Blocked.", tool_call_id=request.tool_call["id"], status="error")

    agent = create_agent(ScriptedChat(turn(call("send", {"to": "ann"})), "Oh."), [send], middleware=[block])
    show(agent.invoke({"messages": "Mail"}))


def case_ai_message_from_middleware():
    @wrap_model_call
    def canned(request, handler):
        return AIMessage("It is closed today.")

    show(create_agent(ScriptedChat("Hello."), middleware=[canned]).invoke({"messages": "Hi"}))


def case_command_that_resumes():
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    agent = create_agent(chat, [send], middleware=[gate], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Mail"}, thread())
    show(agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread()))


def case_interrupt_in_a_tool():
    def book(city: str) -> str:
        """Book a room."""
        beds = interrupt({"question": f"How many beds in {city}?"})
        return f"{beds} beds"

    chat = ScriptedChat(turn(call("book", {"city": "Ghent"})), "Booked.")
    agent = create_agent(chat, [book], checkpointer=InMemorySaver())
    asked(agent.invoke({"messages": "Book"}, thread())["__interrupt__"])
    show(agent.invoke(Command(resume=2), thread()))


def case_command_from_a_tool():
    def finish() -> Command:
        """Finish."""
        return Command(update={"messages": [ToolMessage("Finished.", tool_call_id="c1")]})

    show(create_agent(ScriptedChat(turn(call("finish")), "Good."), [finish]).invoke({"messages": "Go"}))


def case_tool_decorator():
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    show(create_agent(ScriptedChat(turn(call("double", {"number": 4})), "Eight."), [double]).invoke({"messages": "4?"}))


def case_remove_message():
    @after_model
    def forget(state, runtime):
        return {"messages": [RemoveMessage(id=state["messages"][0].id)]}

    show(create_agent(ScriptedChat("Hello."), middleware=[forget]).invoke({"messages": [HumanMessage("Hi", id="m1")]}))


def case_stream_writer():
    def work() -> str:
        """Work."""
        get_stream_writer()({"done": 50})
        return "done"

    agent = create_agent(ScriptedChat(turn(call("work")), "Ok."), [work])
    for chunk in agent.stream({"messages": "Go"}, stream_mode="custom"):
        print(chunk)
