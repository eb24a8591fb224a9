"""Agents among others: sub-agents, batches, tools that come and go."""

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, wrap_model_call
from langchain.messages import HumanMessage
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, asked, call, show, thread, turn


@tool
def send(to: str) -> str:
    """Send a mail."""
    print("sending", to)
    return f"Sent to {to}."


@tool
def look(query: str) -> str:
    """Look something up."""
    return f"Found {query}."


def case_sub_agent_in_a_tool():
    inner = create_agent(ScriptedChat("It rains."), name="weather")

    @tool
    def weather(question: str) -> str:
        """Ask about the weather."""
        return inner.invoke({"messages": [HumanMessage(question)]})["messages"][-1].content

    chat = ScriptedChat(turn(call("weather", {"question": "Today?"})), "Take an umbrella.")
    show(create_agent(chat, [weather]).invoke({"messages": "Weather?"}))


def case_gated_sub_agent_in_a_tool():
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    inner = create_agent(
        ScriptedChat(turn(call("send", {"to": "ann"}, "i1")), "Ann is told."), [send], middleware=[gate]
    )

    @tool
    def mail(request: str) -> str:
        """Let the mailer do it."""
        return inner.invoke({"messages": request})["messages"][-1].content

    agent = create_agent(
        ScriptedChat(turn(call("mail", {"request": "Tell Ann"})), "Done."), [mail], checkpointer=InMemorySaver()
    )
    asked(agent.invoke({"messages": "Tell Ann"}, thread())["__interrupt__"])
    show(agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread()))


def case_gated_sub_agent_rejected():
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    inner = create_agent(ScriptedChat(turn(call("send", {"to": "ann"}, "i1")), "I left it."), [send], middleware=[gate])

    @tool
    def mail(request: str) -> str:
        """Let the mailer do it."""
        return inner.invoke({"messages": request})["messages"][-1].content

    agent = create_agent(
        ScriptedChat(turn(call("mail", {"request": "Tell Ann"})), "Done."), [mail], checkpointer=InMemorySaver()
    )
    agent.invoke({"messages": "Tell Ann"}, thread())
    show(agent.invoke(Command(resume={"decisions": [{"type": "reject", "message": "No."}]}), thread()))


def case_tools_left_out():
    @wrap_model_call
    def fewer(request, handler):
        return handler(request.override(tools=[each for each in request.tools if each.name != "send"]))

    chat = ScriptedChat("Hello.")
    create_agent(chat, [send, look], middleware=[fewer]).invoke({"messages": "Hi"})
    print(chat.offered[0])


def case_tools_added_while_running():
    @tool
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    class More(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=[*request.tools, shout]))

        def wrap_tool_call(self, request, handler):
            if request.tool_call["name"] == "shout":
                return handler(request.override(tool=shout))
            return handler(request)

    chat = ScriptedChat(turn(call("shout", {"text": "hey"})), "Done.")
    show(create_agent(chat, [look], middleware=[More()]).invoke({"messages": "Shout"}))
    print(chat.offered[0])


def case_an_added_tool_is_judged():
    @tool
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        print("wiping", disk)
        return "wiped"

    class More(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=[*request.tools, wipe]))

        def wrap_tool_call(self, request, handler):
            return handler(request.override(tool=wipe)) if request.tool_call["name"] == "wipe" else handler(request)

    gate = HumanInTheLoopMiddleware({"wipe": {"allowed_decisions": ["approve", "reject"]}})
    chat = ScriptedChat(turn(call("wipe", {"disk": "a"})), "Left.")
    agent = create_agent(chat, [look], middleware=[More(), gate], checkpointer=InMemorySaver())
    show(agent.invoke({"messages": "Wipe"}, thread()))
    print(agent.invoke(Command(resume={"decisions": [{"type": "reject"}]}), thread())["messages"][-1].content)


def case_with_config():
    agent = create_agent(ScriptedChat("One.", "Two."), checkpointer=InMemorySaver()).with_config(thread("fixed"))
    agent.invoke({"messages": "First"})
    show(agent.invoke({"messages": "Second"}))


def case_batch():
    chat = ScriptedChat(*[lambda heard: f"You said {heard[-1].content}."] * 3)
    results = create_agent(chat).batch([{"messages": text} for text in ("a", "b", "c")])
    print([each["messages"][-1].content for each in results])


def case_batch_of_threads():
    chat = ScriptedChat(*[lambda heard: f"You said {heard[-1].content}."] * 2)
    agent = create_agent(chat, checkpointer=InMemorySaver())
    agent.batch([{"messages": "a"}, {"messages": "b"}], [thread("1"), thread("2")])
    show(agent.get_state(thread("2")).values)


async def case_abatch():
    chat = ScriptedChat(*[lambda heard: f"You said {heard[-1].content}."] * 2)
    results = await create_agent(chat).abatch([{"messages": "a"}, {"messages": "b"}])
    print([each["messages"][-1].content for each in results])


def case_recursion_limit():
    endless = [turn(call("look", {"query": str(number)}, f"c{number}")) for number in range(30)]
    try:
        create_agent(ScriptedChat(*endless), [look]).invoke({"messages": "Go"}, {"recursion_limit": 5})
    except Exception as error:
        print("stopped", "limit" in str(error).lower() or "turns" in str(error).lower())


def case_name_of_the_agent():
    agent = create_agent(ScriptedChat("Hello."), name="desk")
    print(agent.name, agent.invoke({"messages": "Hi"})["messages"][-1].name)


def case_new_message_while_it_waits():
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Ok.")
    agent = create_agent(chat, [send], middleware=[gate], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Mail"}, thread())
    show(agent.invoke({"messages": "Never mind"}, thread()))


def case_graph():
    print(sorted(create_agent(ScriptedChat("Hello."), [look]).get_graph().nodes))


def case_agent_in_a_chain():
    from langchain_core.runnables import RunnableLambda

    agent = create_agent(ScriptedChat("Hello."))
    chain = (
        RunnableLambda(lambda text: {"messages": text})
        | agent
        | RunnableLambda(lambda result: result["messages"][-1].text)
    )
    print(chain.invoke("Hi"))


def case_interrupt_before_the_tools():
    chat = ScriptedChat(turn(call("look", {"query": "x"})), "Found.")
    agent = create_agent(chat, [look], checkpointer=InMemorySaver(), interrupt_before=["tools"])
    show(agent.invoke({"messages": "Look"}, thread()))
    print(agent.get_state(thread()).next)
    show(agent.invoke(None, thread()))
