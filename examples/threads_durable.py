"""The middleware: a thread that outlives its process.

    python examples/threads_durable.py
    python examples/threads_durable.py

The first start leaves a question in `threads.db` and ends. The second, which may be days later and on any process that
can open the file, finds it, approves it, and goes on where the first has stopped. Then the thread is done, and a third
start talks on.
"""

from assentry import ModelRequest
from assentry.testing import ScriptedModel, call
from assentry.testing.model import ScriptedCall
from assentry.threads import Command, HumanInTheLoopMiddleware, SqliteSaver, create_agent


def transfer(to: str, euros: int) -> str:
    """Transfer money."""
    return f"{euros} euros went to {to}."


def answer(request: ModelRequest) -> str | ScriptedCall:
    """What a model might say: it has no script of its own here, for each start is another process."""
    last = request.input[-1]
    if last.get("type") == "function_call_output":
        return f"Done: {last['output']}"
    return call("transfer", {"to": "Ann", "euros": 20}) if len(request.input) == 1 else "We have talked before."


CONFIG = {"configurable": {"thread_id": "ann-2026"}}


def main() -> None:
    with SqliteSaver.from_conn_string("threads.db") as saver:
        agent = create_agent(
            model=ScriptedModel([answer, answer]),
            tools=[transfer],
            middleware=[
                HumanInTheLoopMiddleware(interrupt_on={"transfer": {"allowed_decisions": ["approve", "reject"]}})
            ],
            checkpointer=saver,
        )
        state = agent.get_state(CONFIG)
        if state.interrupts:
            [interrupt] = state.interrupts
            print("waiting since the last start:", interrupt.value["action_requests"][0]["args"])
            yes = {interrupt.id: {"decisions": [{"type": "approve"}]}}
            result = agent.invoke(Command(resume=yes, by="ann"), CONFIG)
        else:
            result = agent.invoke({"messages": [{"role": "user", "content": "Give Ann 20 euros."}]}, CONFIG)
        if "__interrupt__" in result:
            print("The transfer waits in threads.db; start again to approve it.")
        else:
            print(f"{len(result['messages'])} messages; the last one: {result['messages'][-1].content}")


if __name__ == "__main__":
    main()
