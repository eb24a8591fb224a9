"""The middleware: change a call before it runs.

    python examples/threads_edit.py

The reviewer's arguments run instead of the model's, and the model is told so. What does not fit the tool is refused
before anything is recorded, and can be answered again.
"""

from assentry import InvalidArguments
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, create_agent


def send_mail(to: str, subject: str, copies: int = 1) -> str:
    """Send a mail."""
    return f"Sent {copies} to {to}: {subject}"


agent = create_agent(
    model=ScriptedModel(
        [
            call("send_mail", {"to": "everybody@example.com", "subject": "We moved", "copies": 500}),
            "The mail is out.",
        ]
    ),
    tools=[send_mail],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})],
    checkpointer=InMemorySaver(),
)


def edited(**args: object) -> Command:
    """The answer that has these arguments run."""
    action = {"name": "send_mail", "args": args}
    return Command(resume={"decisions": [{"type": "edit", "edited_action": action}]}, by="ann")


def main() -> None:
    config = {"configurable": {"thread_id": "mail-1"}}
    result = agent.invoke({"messages": [{"role": "user", "content": "Tell them that we moved."}]}, config)
    [interrupt] = result["__interrupt__"]
    print("proposed:", interrupt.value["action_requests"][0]["args"])

    try:
        agent.invoke(edited(to="friends@example.com", subject="We moved", copies="two"), config)
    except InvalidArguments as error:
        print("refused:", error)

    result = agent.invoke(edited(to="friends@example.com", subject="We moved", copies=2), config)
    print("ran:", result["messages"][2].content)
    print(result["messages"][-1].content)


if __name__ == "__main__":
    main()
