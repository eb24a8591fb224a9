"""Snapshots, history, forks."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, asked, call, show, shown, thread, turn


def send(to: str) -> str:
    """Send a mail."""
    print("sending", to)
    return f"Sent to {to}."


def mailer(*replies):
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    return create_agent(ScriptedChat(*replies), [send], middleware=[gate], checkpointer=InMemorySaver())


APPROVED = {"decisions": [{"type": "approve"}]}


def case_state_of_a_waiting_thread():
    agent = mailer(turn(call("send", {"to": "ann"})), "Sent.")
    agent.invoke({"messages": "Mail"}, thread())
    state = agent.get_state(thread())
    show(state.values)
    print(state.next, len(state.tasks), state.tasks[0].name)
    asked(state.tasks[0].interrupts)
    asked(state.interrupts)


def case_state_of_a_finished_thread():
    agent = mailer("Hello.")
    agent.invoke({"messages": "Hi"}, thread())
    state = agent.get_state(thread())
    print(state.next, state.tasks, state.interrupts, state.created_at is not None)
    print(state.config["configurable"]["thread_id"], "checkpoint_id" in state.config["configurable"])
    print(state.parent_config["configurable"]["thread_id"], state.metadata["step"], state.metadata["source"])


def case_state_of_no_thread():
    state = mailer("Hello.").get_state(thread("never"))
    print(state.values, state.next, state.tasks)


async def case_async_state():
    agent = mailer("Hello.")
    await agent.ainvoke({"messages": "Hi"}, thread())
    show((await agent.aget_state(thread())).values)
    history = [each async for each in agent.aget_state_history(thread())]
    print(len(history[0].values["messages"]))


def case_history():
    agent = mailer("One.", "Two.")
    agent.invoke({"messages": "First"}, thread())
    agent.invoke({"messages": "Second"}, thread())
    for state in agent.get_state_history(thread()):
        if state.next == () or state.next == ("model",):
            print([each.content for each in state.values["messages"]], state.next)


def case_history_with_a_limit():
    agent = mailer("One.", "Two.")
    agent.invoke({"messages": "First"}, thread())
    agent.invoke({"messages": "Second"}, thread())
    [last] = agent.get_state_history(thread(), limit=1)
    print([each.content for each in last.values["messages"]])


def case_state_at_a_checkpoint():
    agent = mailer("One.", "Two.")
    agent.invoke({"messages": "First"}, thread())
    earlier = agent.get_state(thread()).config
    agent.invoke({"messages": "Second"}, thread())
    show(agent.get_state(earlier).values)


def case_fork_with_another_message():
    agent = mailer("One.", "Two.", "Three.")
    agent.invoke({"messages": "First"}, thread())
    earlier = agent.get_state(thread()).config
    agent.invoke({"messages": "Second"}, thread())
    show(agent.invoke({"messages": "Another second"}, earlier))
    show(agent.get_state(thread()).values)


def case_fork_of_a_decided_question():
    agent = mailer(turn(call("send", {"to": "ann"})), "Sent.", "Left.")
    agent.invoke({"messages": "Mail"}, thread())
    waiting = agent.get_state(thread()).config
    agent.invoke(Command(resume=APPROVED), thread())
    result = agent.invoke(None, waiting)
    asked(result["__interrupt__"])
    show(agent.invoke(Command(resume={"decisions": [{"type": "reject", "message": "No."}]}), thread()))


def case_update_state():
    agent = mailer("One.", "Two.")
    agent.invoke({"messages": "First"}, thread())
    config = agent.update_state(thread(), {"messages": [HumanMessage("By the way, I am Ann.")]})
    print(config["configurable"]["thread_id"])
    show(agent.get_state(thread()).values)
    show(agent.invoke({"messages": "Who am I?"}, thread()))


def case_update_state_replaces_a_message():
    agent = mailer("One.")
    agent.invoke({"messages": [HumanMessage("Frist", id="m1")]}, thread())
    agent.update_state(thread(), {"messages": [HumanMessage("First", id="m1")]})
    show(agent.get_state(thread()).values)


def case_update_state_and_go_on():
    agent = mailer("One.", "Two.")
    agent.invoke({"messages": "First"}, thread())
    changed = agent.update_state(thread(), {"messages": [HumanMessage("Second")]}, as_node="__start__")
    show(agent.invoke(None, changed))


def case_update_state_does_not_answer():
    agent = mailer(turn(call("send", {"to": "ann"})), "Sent.")
    agent.invoke({"messages": "Mail"}, thread())
    agent.update_state(thread(), {"messages": [HumanMessage("Hurry")]})
    state = agent.get_state(thread())
    print([each.type for each in state.values["messages"]])


def case_stream_of_checkpoints():
    agent = mailer("One.")
    for chunk in agent.stream({"messages": "Hi"}, thread(), stream_mode="checkpoints"):
        print(sorted(chunk), chunk["next"])


def case_invoke_without_a_thread():
    try:
        mailer("One.").invoke({"messages": "Hi"})
    except Exception as error:
        print(shown(error))
