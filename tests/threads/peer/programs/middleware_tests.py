"""Unit tests of one's own middleware, as a project would have them, run one after the other."""

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import ScriptedChat, call, turn


class WordFilter(AgentMiddleware):
    """Ends a talk in which a forbidden word is said."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.words = words

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state, runtime):
        if any(word in state["messages"][-1].text for word in self.words):
            return {"messages": [AIMessage("I do not talk about that.")], "jump_to": "end"}
        return None


class Polite(AgentMiddleware):
    """Asks the model to be polite."""

    def wrap_model_call(self, request, handler):
        text = f"{request.system_prompt or ''} Be polite.".strip()
        return handler(request.override(system_message=SystemMessage(text)))


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_the_filter_ends_a_talk():
    update = WordFilter(["war"]).before_agent({"messages": [HumanMessage("about war")]}, None)
    assert update["jump_to"] == "end"
    assert update["messages"][0].text == "I do not talk about that."


def test_the_filter_lets_others_pass():
    assert WordFilter(["war"]).before_agent({"messages": [HumanMessage("about peace")]}, None) is None


def test_polite_changes_the_prompt():
    seen = []

    def handler(request):
        seen.append(request.system_prompt)
        return ModelResponse(result=[AIMessage("ok")])

    request = ModelRequest(
        model=ScriptedChat(), messages=[HumanMessage("Hi")], system_message=SystemMessage("Be brief."), tools=[]
    )
    response = Polite().wrap_model_call(request, handler)
    assert seen == ["Be brief. Be polite."]
    assert response.result[0].content == "ok"


def test_an_agent_with_both():
    chat = ScriptedChat(turn(call("add", {"a": 1, "b": 2})), "Three, if you please.")
    agent = create_agent(chat, [add], middleware=[WordFilter(["war"]), Polite()])
    result = agent.invoke({"messages": [HumanMessage("1 + 2?")]})
    assert chat.heard[0][0].content == "Be polite."
    assert isinstance(result["messages"][2], ToolMessage)
    assert result["messages"][2].content == "3"
    assert result["messages"][-1] == AIMessage("Three, if you please.", id=result["messages"][-1].id, **rest(result))


def rest(result):
    last = result["messages"][-1]
    return {"response_metadata": last.response_metadata, "usage_metadata": last.usage_metadata}


def test_the_gate_waits():
    gate = HumanInTheLoopMiddleware(interrupt_on={"add": True})
    assert gate.interrupt_on["add"]["allowed_decisions"][:3] == ["approve", "edit", "reject"]
    agent = create_agent(
        ScriptedChat(turn(call("add", {"a": 1, "b": 2})), "Three."),
        [add],
        middleware=[gate],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "t"}}
    assert "__interrupt__" in agent.invoke({"messages": "1 + 2?"}, config)
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert [each.type for each in result["messages"]] == ["human", "ai", "tool", "ai"]


def test_a_tool_alone():
    assert add.invoke({"a": 1, "b": 2}) == 3
    assert add.name == "add"
    assert set(add.args) == {"a", "b"}


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print(name, "passed")
