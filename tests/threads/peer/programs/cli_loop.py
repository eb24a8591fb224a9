"""A loop on the command line: tokens as they come, questions answered by typing."""

import io

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.messages import AIMessageChunk, ToolMessage
from langchain.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.types import Command
from scripted import ScriptedChat, call, turn

TYPED = io.StringIO("Remove the old logs\nn\nThey are needed\nThen only list them\nedit\n/var/log/old\nbye\n")


def ask(prompt: str) -> str:
    answer = TYPED.readline().strip()
    print(f"{prompt}{answer}")
    return answer


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool
def list_files(folder: str) -> str:
    """List a folder."""
    return f"{folder}: a.log, b.log"


def decide(request: dict, review: dict) -> dict:
    answer = ask(f"{request['name']} {request['args']} - {'/'.join(review['allowed_decisions'])}? ")
    if answer in ("y", "yes"):
        return {"type": "approve"}
    if answer == "edit":
        folder = ask("folder: ")
        return {"type": "edit", "edited_action": {"name": request["name"], "args": {"folder": folder}}}
    return {"type": "reject", "message": ask("why? ")}


def run(agent, given, config):
    """Print one run as it goes, and return what it waits for."""
    waiting = []
    for mode, chunk in agent.stream(given, config, stream_mode=["messages", "updates"]):
        if mode == "messages":
            token, metadata = chunk
            if isinstance(token, AIMessageChunk) and token.content:
                print(token.content, end="")
            elif isinstance(token, ToolMessage):
                print(f"[{metadata['langgraph_node'].split('.')[0]}] {token.status}")
        elif "__interrupt__" in chunk:
            waiting += chunk["__interrupt__"]
    print()
    return waiting


def main():
    policy = {
        "delete_file": {"allowed_decisions": ["approve", "reject"]},
        "list_files": {"allowed_decisions": ["approve", "edit", "reject"]},
    }
    chat = ScriptedChat(
        turn(call("delete_file", {"path": "/var/log/a.log"}, "c1"), text="I remove one."),
        "Then I leave it.",
        turn(call("list_files", {"folder": "/var/log"}, "c2"), text="I list them."),
        "There are two.",
    )
    agent = create_agent(
        chat,
        [delete_file, list_files],
        middleware=[HumanInTheLoopMiddleware(policy)],
        checkpointer=MemorySaver(),
    )
    config = {"configurable": {"thread_id": "terminal"}, "recursion_limit": 50}
    while (text := ask("> ")) != "bye":
        waiting = run(agent, {"messages": [("user", text)]}, config)
        while waiting:
            [interrupt] = waiting
            pairs = zip(interrupt.value["action_requests"], interrupt.value["review_configs"], strict=True)
            waiting = run(agent, Command(resume={"decisions": [decide(*pair) for pair in pairs]}), config)
    print(len(agent.get_state(config).values["messages"]), "messages")


main()
