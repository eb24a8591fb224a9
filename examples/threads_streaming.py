"""The middleware: stream an agent that asks, and stream on after the answer.

    python examples/threads_streaming.py

With a list of modes each chunk is a pair: tokens as they are made ("messages"), what each node did ("updates", where
the interrupt is), and what tools write themselves ("custom").
"""

from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, create_agent, get_stream_writer


def deploy(version: str) -> str:
    """Deploy a version to production."""
    write = get_stream_writer()
    for machine in ("one", "two"):
        write(f"... machine {machine}")
    return f"{version} is live."


agent = create_agent(
    model=ScriptedModel(
        [
            ["The tests are green, so I deploy it.", call("deploy", {"version": "2.1"})],
            "Version 2.1 is live. Have a nice day.",
        ]
    ),
    tools=[deploy],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"deploy": {"allowed_decisions": ["approve", "reject"]}})],
    checkpointer=InMemorySaver(),
)
CONFIG = {"configurable": {"thread_id": "release"}}


def show(input: dict[str, object] | Command) -> bool:
    """Stream, and say whether it ended with a question."""
    asked = False
    for mode, chunk in agent.stream(input, CONFIG, stream_mode=["updates", "messages", "custom"]):
        if mode == "messages":
            token, metadata = chunk
            if metadata["langgraph_node"] == "model":
                print(token.content, end="", flush=True)
        elif mode == "custom":
            print(chunk)
        elif "__interrupt__" in chunk:
            asked = True
            (interrupt,) = chunk["__interrupt__"]
            print(f"\n[you are asked] {interrupt.value['action_requests'][0]['args']}")
        elif "tools" in chunk:
            print(f"[it gave] {chunk['tools']['messages'][0].content}")
    return asked


def main() -> None:
    if show({"messages": [{"role": "user", "content": "Is 2.1 ready?"}]}):
        print("[you say yes]")
        show(Command(resume={"decisions": [{"type": "approve"}]}))
    print()


if __name__ == "__main__":
    main()
