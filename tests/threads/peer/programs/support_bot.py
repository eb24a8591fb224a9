"""A support bot with steps in its state, a memory across threads, and a history that can be gone back in."""

from typing import Literal, NotRequired

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import wrap_model_call
from langchain.messages import HumanMessage, ToolMessage
from langchain.tools import ToolRuntime, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from scripted import ScriptedChat, call, turn

Step = Literal["greet", "classify", "solve"]


class SupportState(AgentState):
    step: NotRequired[Step]
    warranty: NotRequired[bool]


@tool
def record_warranty(in_warranty: bool, runtime: ToolRuntime[None, SupportState]) -> Command:
    """Record whether the device is under warranty."""
    message = ToolMessage(f"Warranty: {in_warranty}", tool_call_id=runtime.tool_call_id)
    return Command(update={"messages": [message], "warranty": in_warranty, "step": "solve"})


@tool
def remember_device(device: str, runtime: ToolRuntime) -> str:
    """Remember the customer's device."""
    user = runtime.config["configurable"]["user_id"]
    runtime.store.put(("devices", user), "main", {"device": device})
    return f"Remembered {device}."


@tool
def recall_device(runtime: ToolRuntime) -> str:
    """Recall the customer's device."""
    found = runtime.store.get(("devices", runtime.config["configurable"]["user_id"]), "main")
    return found.value["device"] if found else "nothing is known"


PROMPTS = {
    "classify": "Find out about the warranty. Step: {step}.",
    "solve": "Solve the problem; warranty: {warranty}. Step: {step}.",
}
TOOLS = {"classify": [record_warranty, remember_device, recall_device], "solve": [recall_device]}


@wrap_model_call
def by_step(request, handler):
    step = request.state.get("step", "classify")
    prompt = PROMPTS[step].format(step=step, warranty=request.state.get("warranty"))
    return handler(request.override(system_prompt=prompt, tools=TOOLS[step]))


chat = ScriptedChat(
    turn(call("remember_device", {"device": "phone X"}, "c1")),
    "Is it under warranty?",
    turn(call("record_warranty", {"in_warranty": True}, "c2")),
    "Then we repair it for free.",
    turn(call("recall_device", {}, "c3")),
    "You have a phone X.",
    "It costs 50 euro.",
)
agent = create_agent(
    chat,
    [record_warranty, remember_device, recall_device],
    middleware=[by_step],
    state_schema=SupportState,
    checkpointer=InMemorySaver(),
    store=InMemoryStore(),
)


def config_of(thread_id: str) -> dict:
    return {"configurable": {"thread_id": thread_id, "user_id": "ann"}}


first, second = config_of("monday"), config_of("tuesday")
result = agent.invoke({"messages": [HumanMessage("My phone X is broken")]}, first)
print(result["messages"][-1].text, result.get("step"))
result = agent.invoke({"messages": [HumanMessage("Yes, it is")]}, first)
print(result["messages"][-1].text, result["step"], result["warranty"])
print([each.content for each in (heard[0] for heard in chat.heard)])
print(chat.offered)
result = agent.invoke({"messages": [HumanMessage("Which phone have I?")]}, second)
print(result["messages"][-1].text)

ends = [state for state in agent.get_state_history(first) if not state.next]
print([(len(state.values["messages"]), state.values.get("warranty")) for state in ends])
before = ends[-1]
print(before.values["messages"][-1].text)
other = agent.invoke({"messages": [HumanMessage("No, it is old")], "warranty": False, "step": "solve"}, before.config)
print(other["messages"][-1].text, other["warranty"])
