"""The middleware: a call waits for you, and runs when you say yes.

    python examples/threads_approve.py

`interrupt_on` says which tools need a person, and which decisions fit. The thread waits with a description of the call;
`Command(resume=...)` answers on the same thread. Anything but "y" rejects.
"""

from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, create_agent


def execute_sql(query: str) -> str:
    """Run a query on the database."""
    return f"412 rows: {query}"


def read_data(table: str) -> str:
    """Look into a table."""
    return f"{table} has 500 rows, the oldest of 2019."


agent = create_agent(
    model=ScriptedModel(
        [
            call("read_data", {"table": "records"}),
            call("execute_sql", {"query": "DELETE FROM records WHERE year < 2024"}),
            "I am done with the records.",
        ]
    ),
    tools=[execute_sql, read_data],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={"execute_sql": {"allowed_decisions": ["approve", "reject"]}, "read_data": False},
            description_prefix="Tool execution pending approval",
        )
    ],
    checkpointer=InMemorySaver(),
)


def main() -> None:
    config = {"configurable": {"thread_id": "some_id"}}
    result = agent.invoke({"messages": [{"role": "user", "content": "Delete old records."}]}, config)

    while "__interrupt__" in result:
        [interrupt] = result["__interrupt__"]
        [action] = interrupt.value["action_requests"]
        print(action["description"])
        try:
            yes = input("Run it? [y/N] ").strip().lower() == "y"
        except EOFError:
            print()
            yes = False
        decision = {"type": "approve"} if yes else {"type": "reject", "message": "Not today."}
        result = agent.invoke(Command(resume={"decisions": [decision]}, by="you"), config)

    for message in result["messages"]:
        if message.type == "tool":
            print(f"{message.name} ({message.status}): {message.content}")
    print(result["messages"][-1].content)


if __name__ == "__main__":
    main()
