"""A coding agent: a to-do list, approval before it writes, and a summary when the talk gets long."""

from pathlib import Path

from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
)
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import ScriptedChat, call, turn

ROOT = Path("project")
ROOT.mkdir()
(ROOT / "main.py").write_text("print('helo')\n")


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return (ROOT / path).read_text()


@tool
def write_file(path: str, text: str) -> str:
    """Write a file."""
    (ROOT / path).write_text(text)
    return f"{len(text)} characters written to {path}"


@tool
def run_tests() -> str:
    """Run the tests."""
    return "ok" if "hello" in (ROOT / "main.py").read_text() else "failed: helo"


def todos(*pairs):
    return {"todos": [{"content": content, "status": status} for content, status in pairs]}


chat = ScriptedChat(
    turn(call("write_todos", todos(("Read", "in_progress"), ("Fix", "pending")), "c1")),
    turn(call("read_file", {"path": "main.py"}, "c2"), call("run_tests", {}, "c3")),
    turn(call("write_todos", todos(("Read", "completed"), ("Fix", "in_progress")), "c4")),
    turn(call("write_file", {"path": "main.py", "text": "print('hello')\n"}, "c5")),
    turn(call("run_tests", {}, "c6")),
    turn(call("write_todos", todos(("Read", "completed"), ("Fix", "completed")), "c7")),
    "The greeting is right now.",
)
writer = ScriptedChat("The greeting was misspelt and has been corrected.")
agent = create_agent(
    chat,
    [read_file, write_file, run_tests],
    system_prompt="You are a careful programmer.",
    middleware=[
        TodoListMiddleware(),
        SummarizationMiddleware(writer, trigger=("messages", 14), keep=("messages", 4)),
        ModelCallLimitMiddleware(run_limit=20),
        ToolRetryMiddleware(max_retries=1, tools=["read_file"], initial_delay=0, jitter=False),
        HumanInTheLoopMiddleware({"write_file": {"allowed_decisions": ["approve", "edit", "reject"]}}),
    ],
    checkpointer=InMemorySaver(),
)
config = {"configurable": {"thread_id": "fix"}}

for chunk in agent.stream({"messages": "Fix the greeting"}, config, stream_mode="updates"):
    for node, update in chunk.items():
        if node == "tools" and "todos" in update:
            print("todos:", [(each["content"], each["status"]) for each in update["todos"]])
        elif node == "__interrupt__":
            print("may I?", update[0].value["action_requests"][0]["args"])
print((ROOT / "main.py").read_text().strip())
result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
print((ROOT / "main.py").read_text().strip())
print([(each["content"], each["status"]) for each in result["todos"]])
print(result["messages"][0].type, "misspelt" in result["messages"][0].text, len(result["messages"]))
print(result["messages"][-1].text)
print(sorted(chat.offered[0]))
