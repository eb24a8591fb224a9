"""The middleware: several decisions at once.

    python examples/threads_several.py

A turn is released as a batch: all its calls that need a person are one interrupt, and nothing of it runs before they
are decided. The decisions come in the order of the action requests, and are recorded all at once or not at all.
"""

from assentry import InvalidDecision
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, create_agent


def order(article: str, pieces: int = 1) -> str:
    """Order something."""
    return f"Ordered: {pieces} {article}."


def stock(article: str) -> str:
    """How many of something there are."""
    return f"{article}: none left."


agent = create_agent(
    model=ScriptedModel(
        [
            [
                call("order", {"article": "lamp", "pieces": 2}),
                call("stock", {"article": "lamp"}),
                call("order", {"article": "chair", "pieces": 400}),
                call("order", {"article": "yacht"}),
            ],
            "That is what I could get.",
        ]
    ),
    tools=[order, stock],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"order": True})],
    checkpointer=InMemorySaver(),
)


def main() -> None:
    config = {"configurable": {"thread_id": "orders"}}
    result = agent.invoke({"messages": [{"role": "user", "content": "Furnish the office."}]}, config)
    [interrupt] = result["__interrupt__"]
    for action in interrupt.value["action_requests"]:
        print("waits:", action["name"], action["args"])

    decisions = [
        {"type": "approve"},
        {"type": "edit", "edited_action": {"name": "order", "args": {"article": "chair", "pieces": 4}}},
    ]
    try:
        agent.invoke(Command(resume={"decisions": decisions}), config)
    except InvalidDecision as error:
        print("refused:", error)

    decisions.append({"type": "reject", "message": "No boats."})
    result = agent.invoke(Command(resume={interrupt.id: {"decisions": decisions}}), config)
    for message in result["messages"]:
        if message.type == "tool":
            print(f"{message.status}: {message.content.splitlines()[-1]}")
    print(result["messages"][-1].content)


if __name__ == "__main__":
    main()
