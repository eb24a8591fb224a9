"""The middleware: say no, and why.

    python examples/threads_reject.py

A rejected call does not run. The model is told the message, as the call's result, and may try something else; here the
second proposal is approved.
"""

from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, create_agent


def delete_file(path: str) -> str:
    """Delete a file for ever."""
    return f"{path} is gone."


def archive_file(path: str) -> str:
    """Move a file to the archive."""
    return f"{path} is in the archive."


agent = create_agent(
    model=ScriptedModel(
        [
            call("delete_file", {"path": "report-2019.pdf"}),
            call("archive_file", {"path": "report-2019.pdf"}),
            "The report is in the archive.",
        ]
    ),
    tools=[delete_file, archive_file],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"*_file": {"allowed_decisions": ["approve", "reject"]}})],
    checkpointer=InMemorySaver(),
)


def main() -> None:
    config = {"configurable": {"thread_id": "files"}}
    result = agent.invoke({"messages": [{"role": "user", "content": "Get rid of the old report."}]}, config)

    no = {"type": "reject", "message": "We must keep reports for ten years. Archive it instead."}
    result = agent.invoke(Command(resume={"decisions": [no]}), config)
    [interrupt] = result["__interrupt__"]
    print("now proposed:", interrupt.value["action_requests"][0]["name"])

    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    for message in result["messages"]:
        if message.type == "tool":
            print(f"{message.name} ({message.status}): {message.content}")
    print(result["messages"][-1].content)


if __name__ == "__main__":
    main()
