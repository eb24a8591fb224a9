"""An assistant that reads an inbox and asks before it answers: one answer is corrected, another rejected."""

from dataclasses import dataclass

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, dynamic_prompt
from langchain.messages import HumanMessage
from langchain.tools import ToolRuntime, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import ScriptedChat, call, turn

INBOX = [
    {"from": "ann@example.com", "subject": "Lunch?", "body": "Are you free on Friday?"},
    {"from": "shop@example.com", "subject": "Invoice 17", "body": "Please pay 40 euro."},
]
OUTBOX: list[dict] = []


@dataclass
class Owner:
    name: str
    signature: str


@tool
def read_inbox(limit: int = 10) -> list[dict]:
    """Read the newest mails."""
    return INBOX[:limit]


@tool
def send_email(to: str, subject: str, body: str, runtime: ToolRuntime[Owner]) -> str:
    """Send a mail, signed by the owner.

    Args:
        to: The address.
        subject: The subject.
        body: The text.
    """
    OUTBOX.append({"to": to, "subject": subject, "body": f"{body}\n{runtime.context.signature}"})
    return f"Sent to {to}."


@dynamic_prompt
def instructions(request):
    return f"You answer mails for {request.runtime.context.name}."


def describe(tool_call, state, runtime):
    args = tool_call["args"]
    return f"Mail to {args['to']}: {args['subject']}"


chat = ScriptedChat(
    turn(call("read_inbox", {"limit": 5}, "c1"), text="I look into the inbox."),
    turn(
        call("send_email", {"to": "ann@example.com", "subject": "Re: Lunch?", "body": "Yes"}, "c2"),
        call("send_email", {"to": "shop@example.com", "subject": "Re: Invoice 17", "body": "Paid"}, "c3"),
    ),
    "Ann has an answer; the invoice waits for you.",
)
agent = create_agent(
    model=chat,
    tools=[read_inbox, send_email],
    middleware=[
        instructions,
        HumanInTheLoopMiddleware(
            interrupt_on={
                "send_email": {"allowed_decisions": ["approve", "edit", "reject"], "description": describe},
                "read_inbox": False,
            },
            edit_notice=None,
        ),
    ],
    context_schema=Owner,
    checkpointer=InMemorySaver(),
)


def main():
    owner = Owner("Eve", "-- Eve")
    config = {"configurable": {"thread_id": "inbox-1"}}
    result = agent.invoke({"messages": [HumanMessage("Answer my mails")]}, config, context=owner)
    [waiting] = result["__interrupt__"]
    for number, request in enumerate(waiting.value["action_requests"], 1):
        print(number, request["description"])
    decisions = []
    for request in waiting.value["action_requests"]:
        if request["args"]["to"].startswith("ann"):
            edited = {**request["args"], "body": "Yes, gladly, at noon."}
            decisions.append({"type": "edit", "edited_action": {"name": request["name"], "args": edited}})
        else:
            decisions.append({"type": "reject", "message": "I pay invoices myself."})
    result = agent.invoke(Command(resume={"decisions": decisions}), config, context=owner)
    for message in result["messages"]:
        if message.type != "tool":
            print(f"{message.type}: {message.text}")
    print(OUTBOX)
    print(chat.heard[0][0].content)


if __name__ == "__main__":
    main()
