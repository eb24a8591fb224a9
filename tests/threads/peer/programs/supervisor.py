"""A supervisor with two experts as tools; both ask before they act, and the questions come up at the supervisor."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.messages import HumanMessage
from langchain.tools import ToolRuntime, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import ScriptedChat, call, turn

DONE: list[str] = []


@tool
def create_event(title: str, start: str, attendees: list[str]) -> str:
    """Put an event into the calendar."""
    DONE.append(f"event {title} at {start} with {', '.join(attendees)}")
    return f"Event {title} made."


@tool
def free_slots(day: str) -> list[str]:
    """List the free hours of a day."""
    return ["09:00", "14:00"]


@tool
def send_email(to: list[str], subject: str) -> str:
    """Send a mail."""
    DONE.append(f"mail {subject} to {', '.join(to)}")
    return "Mail sent."


calendar_agent = create_agent(
    ScriptedChat(
        turn(call("free_slots", {"day": "Friday"}, "k1")),
        turn(call("create_event", {"title": "Review", "start": "14:00", "attendees": ["ann", "bob"]}, "k2")),
        "The review is on Friday at two.",
    ),
    [free_slots, create_event],
    system_prompt="You keep the calendar.",
    middleware=[
        HumanInTheLoopMiddleware(
            {"create_event": {"allowed_decisions": ["approve", "edit", "reject"]}},
            description_prefix="An event waits for approval",
        )
    ],
    name="calendar",
)
mail_agent = create_agent(
    ScriptedChat(turn(call("send_email", {"to": ["ann", "bob"], "subject": "Review"}, "m1")), "They are told."),
    [send_email],
    system_prompt="You write mails.",
    middleware=[
        HumanInTheLoopMiddleware(
            {"send_email": {"allowed_decisions": ["approve", "reject"]}},
            description_prefix="A mail waits for approval",
        )
    ],
    name="mail",
)


@tool
def schedule(request: str, runtime: ToolRuntime) -> str:
    """Make appointments, in plain words."""
    asked = next(each.text for each in runtime.state["messages"] if each.type == "human")
    text = f"{asked}\nYour part: {request}"
    return calendar_agent.invoke({"messages": [HumanMessage(text)]})["messages"][-1].text


@tool
def write(request: str) -> str:
    """Write mails, in plain words."""
    return mail_agent.invoke({"messages": [{"role": "user", "content": request}]})["messages"][-1].text


supervisor = create_agent(
    ScriptedChat(
        turn(call("schedule", {"request": "Review on Friday"}, "s1"), call("write", {"request": "Tell them"}, "s2")),
        "All is arranged.",
    ),
    [schedule, write],
    system_prompt="You arrange things with the help of others.",
    checkpointer=InMemorySaver(),
)


def main():
    config = {"configurable": {"thread_id": "friday"}}
    result = supervisor.invoke({"messages": "Arrange a review on Friday and tell Ann and Bob"}, config)
    waiting = {each.value["action_requests"][0]["name"]: each for each in result["__interrupt__"]}
    for name in sorted(waiting):
        print(waiting[name].value["action_requests"][0]["description"])
    print("done so far:", DONE)
    answers = {
        waiting["create_event"].id: {"decisions": [{"type": "approve"}]},
        waiting["send_email"].id: {"decisions": [{"type": "reject", "message": "I call them."}]},
    }
    result = supervisor.invoke(Command(resume=answers), config)
    for message in result["messages"]:
        message.pretty_print()
    print("done:", DONE)


main()
