"""Tools that know the thread, and tools made by hand."""

from dataclasses import dataclass
from typing import Annotated, Any

from langchain.agents import AgentState, create_agent
from langchain.messages import ToolMessage
from langchain.tools import InjectedState, InjectedStore, InjectedToolArg, InjectedToolCallId, ToolRuntime, tool
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel, Field
from scripted import ScriptedChat, call, show, shown, thread, turn


@dataclass
class User:
    name: str
    admin: bool = False


def run(one_tool, args=None, invoke=None, config=None, **options):
    chat = ScriptedChat(turn(call(one_tool.name, args)), "Done.")
    agent = create_agent(chat, [one_tool], **options)
    result = agent.invoke(
        {"messages": "Go", **(invoke or {})},
        config,
        **({"context": User("Ann")} if "context_schema" in options else {}),
    )
    print(result["messages"][2].content)
    return result


def case_runtime_state():
    @tool
    def count(runtime: ToolRuntime) -> str:
        """Count the messages."""
        messages = runtime.state["messages"]
        return f"{len(messages)} messages, the last: {messages[-1].tool_calls[0]['name']}"

    run(count)


def case_runtime_context():
    @tool
    def who(runtime: ToolRuntime[User]) -> str:
        """Tell who asks."""
        return f"{runtime.context.name} {runtime.context.admin}"

    run(who, context_schema=User)


def case_runtime_tool_call_id():
    @tool
    def which(text: str, runtime: ToolRuntime) -> str:
        """Tell which call this is."""
        return f"{text} {runtime.tool_call_id}"

    run(which, {"text": "this is"})
    print(sorted(which.tool_call_schema.model_json_schema()["properties"]))


def case_runtime_stream_writer():
    @tool
    def work(runtime: ToolRuntime) -> str:
        """Work."""
        runtime.stream_writer({"progress": 1})
        runtime.stream_writer("half")
        return "done"

    agent = create_agent(ScriptedChat(turn(call("work")), "Ok."), [work])
    for chunk in agent.stream({"messages": "Go"}, stream_mode="custom"):
        print(chunk)


def case_runtime_store():
    @tool
    def remember(fact: str, runtime: ToolRuntime) -> str:
        """Remember a fact."""
        runtime.store.put(("facts",), "last", {"fact": fact})
        return f"Kept {runtime.store.get(('facts',), 'last').value}"

    store = InMemoryStore()
    run(remember, {"fact": "Ann likes tea"}, store=store)
    print(store.get(("facts",), "last").value)


def case_runtime_config():
    @tool
    def where(runtime: ToolRuntime) -> str:
        """Tell the thread."""
        return f"{runtime.config['configurable']['thread_id']} {runtime.config['metadata'].get('team')}"

    run(where, config={**thread("t7"), "metadata": {"team": "blue"}}, checkpointer=InMemorySaver())


def case_runtime_execution_info():
    @tool
    def where(runtime: ToolRuntime) -> str:
        """Tell the thread."""
        return str(runtime.execution_info.thread_id)

    run(where, config=thread("t7"), checkpointer=InMemorySaver())


def case_runtime_tools():
    @tool
    def menu(runtime: ToolRuntime) -> str:
        """List the tools."""
        return ", ".join(each.name for each in runtime.tools)

    run(menu)


def case_runtime_in_a_plain_function():
    def which(runtime: ToolRuntime) -> str:
        """Tell which call this is."""
        return str(runtime.tool_call_id)

    show(create_agent(ScriptedChat(turn(call("which")), "Ok."), [which]).invoke({"messages": "Go"}))


def case_a_model_cannot_fill_the_runtime():
    @tool
    def which(runtime: ToolRuntime, text: str = "") -> str:
        """Tell which call this is."""
        return f"{text} {runtime.tool_call_id}"

    chat = ScriptedChat(turn(call("which", {"text": "x", "runtime": {"tool_call_id": "forged"}})), "Done.")
    result = create_agent(chat, [which]).invoke({"messages": "Go"})
    print("forged" in result["messages"][2].content)


def case_injected_state():
    @tool
    def count(state: Annotated[dict, InjectedState]) -> str:
        """Count the messages."""
        return str(len(state["messages"]))

    run(count)


def case_injected_state_key():
    class Mine(AgentState):
        color: str

    @tool
    def tell(color: Annotated[str, InjectedState("color")]) -> str:
        """Tell the color."""
        return color

    run(tell, invoke={"color": "blue"}, state_schema=Mine)


def case_injected_tool_call_id():
    @tool
    def which(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Tell which call this is."""
        return ToolMessage(f"{text}: {tool_call_id}", tool_call_id=tool_call_id)

    run(which, {"text": "this"})


def case_injected_store():
    @tool
    def keep(value: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
        """Keep a value."""
        store.put(("kept",), "it", {"value": value})
        return "kept"

    store = InMemoryStore()
    run(keep, {"value": "x"}, store=store)
    print([item.value for item in store.search(("kept",))])


def case_injected_tool_arg_is_not_offered():
    @tool
    def pay(amount: int, account: Annotated[str, InjectedToolArg] = "main") -> str:
        """Pay."""
        return f"{amount} from {account}"

    print(sorted(pay.tool_call_schema.model_json_schema()["properties"]))


def case_runnable_config():
    @tool
    def where(config: RunnableConfig) -> str:
        """Tell the thread."""
        return config["configurable"]["thread_id"]

    run(where, config=thread("t9"), checkpointer=InMemorySaver())


def case_command_with_an_update():
    class Mine(AgentState):
        color: str

    @tool
    def paint(color: str, runtime: ToolRuntime) -> Command:
        """Paint."""
        message = ToolMessage(f"Painted {color}.", tool_call_id=runtime.tool_call_id)
        return Command(update={"color": color, "messages": [message]})

    print(run(paint, {"color": "red"}, state_schema=Mine)["color"])


def case_return_direct():
    @tool(return_direct=True)
    def answer(question: str) -> str:
        """Answer at once."""
        return f"42 is the answer to {question}"

    show(
        create_agent(ScriptedChat(turn(call("answer", {"question": "all"})), "Never said."), [answer]).invoke(
            {"messages": "?"}
        )
    )


def case_tool_with_everything():
    class Where(BaseModel):
        """A place."""

        city: str = Field(description="The city's name")
        days: int = 3

    @tool("forecast", description="Forecast the weather.", args_schema=Where)
    def weather(city: str, days: int = 3) -> str:
        return f"{days} fine days in {city}"

    print(weather.name, "|", weather.description, "|", sorted(weather.args))
    print(weather.args["city"]["description"])
    print(weather.invoke({"city": "Ghent"}))
    print(
        weather.invoke(
            {"name": "forecast", "args": {"city": "Ghent", "days": 1}, "id": "c5", "type": "tool_call"}
        ).tool_call_id
    )


async def case_tool_ainvoke():
    @tool
    async def double(number: int) -> int:
        """Double a number."""
        return number * 2

    print(await double.ainvoke({"number": 4}))


def case_tool_refuses_bad_arguments():
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    try:
        double.invoke({"number": "many"})
    except Exception as error:
        print(shown(error))


def case_tool_with_parsed_docstring():
    @tool(parse_docstring=True)
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return a + b

    print(add.description, add.args["a"]["description"])


def case_a_tool_that_fails():
    @tool
    def fail(reason: str) -> str:
        """Fail."""
        raise ValueError(reason)

    try:
        show(create_agent(ScriptedChat(turn(call("fail", {"reason": "no"})), "Oh."), [fail]).invoke({"messages": "Go"}))
    except ValueError as error:
        print("raised", error)


def case_a_tool_that_is_not_there():
    @tool
    def here() -> str:
        """Be here."""
        return "here"

    result = create_agent(ScriptedChat(turn(call("there")), "Oh."), [here]).invoke({"messages": "Go"})
    print(result["messages"][2].status, result["messages"][-1].content)


def case_arguments_that_do_not_fit():
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    result = create_agent(ScriptedChat(turn(call("double", {"number": "many"})), "Oh."), [double]).invoke(
        {"messages": "Go"}
    )
    print(result["messages"][2].status, result["messages"][-1].content)


def case_types_of_arguments():
    class Item(BaseModel):
        name: str
        count: int = 1

    @tool
    def order(items: list[Item], note: str | None = None, extra: dict[str, Any] | None = None) -> str:
        """Order items."""
        return f"{[type(each).__name__ + ' ' + each.name for each in items]} {note} {extra}"

    run(order, {"items": [{"name": "pen"}, {"name": "ink", "count": 2}], "extra": {"a": 1}})
