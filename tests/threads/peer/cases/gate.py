"""Asking before a tool runs, and the decisions."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, asked, call, show, shown, thread, turn

ALL = ["approve", "edit", "reject", "respond"]


def send(to: str, text: str = "Hello") -> str:
    """Send a mail."""
    print("sending", to, text)
    return f"Sent to {to}."


def draft(to: str, text: str = "Hello") -> str:
    """Write a draft."""
    print("drafting", to, text)
    return f"Draft for {to}."


def look(query: str) -> str:
    """Look something up."""
    print("looking", query)
    return f"Found {query}."


def mailer(*replies, policy=EMAIL_POLICY, **options):
    chat = ScriptedChat(*replies)
    gate = HumanInTheLoopMiddleware(policy, **options)
    return create_agent(chat, [send, draft, look], middleware=[gate], checkpointer=InMemorySaver())


def decide(agent, *decisions):
    return agent.invoke(Command(resume={"decisions": list(decisions)}), thread())


def case_approve():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "It is sent.")
    show(agent.invoke({"messages": [{"role": "user", "content": "Write to Ann"}]}, thread()))
    show(decide(agent, {"type": "approve"}))


def case_edit():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "It is sent.")
    agent.invoke({"messages": "Write to Ann"}, thread())
    edited = {"name": "send", "args": {"to": "bob", "text": "Dear Bob"}}
    result = decide(agent, {"type": "edit", "edited_action": edited})
    print(result["messages"][1].tool_calls[0]["args"])
    print(result["messages"][2].content.endswith("Sent to bob."), result["messages"][-1].content)


def case_edit_notice_of_ones_own():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "Fine.", edit_notice="A person changed this.")
    agent.invoke({"messages": "Write to Ann"}, thread())
    show(decide(agent, {"type": "edit", "edited_action": {"name": "send", "args": {"to": "bob", "text": "Hi"}}}))


def case_edit_without_notice():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "Fine.", edit_notice=None)
    agent.invoke({"messages": "Write to Ann"}, thread())
    show(decide(agent, {"type": "edit", "edited_action": {"name": "send", "args": {"to": "bob", "text": "Hi"}}}))


def case_edit_to_another_tool():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "A draft it is.", edit_notice=None)
    agent.invoke({"messages": "Write to Ann"}, thread())
    show(decide(agent, {"type": "edit", "edited_action": {"name": "draft", "args": {"to": "ann", "text": "Hi"}}}))


def case_reject_with_a_message():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "I leave it.")
    agent.invoke({"messages": "Write to Ann"}, thread())
    show(decide(agent, {"type": "reject", "message": "Not before noon."}))


def case_reject_without_a_message():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "I leave it.")
    agent.invoke({"messages": "Write to Ann"}, thread())
    show(decide(agent, {"type": "reject"}))


def case_respond():
    policy = {"send": {"allowed_decisions": ["respond"]}}
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "Told.", policy=policy)
    agent.invoke({"messages": "Write to Ann"}, thread())
    show(decide(agent, {"type": "respond", "message": "I told her myself."}))


def case_true_allows():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), policy={"send": True, "look": False})
    show(agent.invoke({"messages": "Write to Ann"}, thread()))


def case_some_of_several_calls():
    agent = mailer(
        turn(
            call("look", {"query": "Ann"}, "c1"),
            call("send", {"to": "ann", "text": "1"}, "c2"),
            call("send", {"to": "bob", "text": "2"}, "c3"),
        ),
        "Done.",
    )
    config = {**thread(), "max_concurrency": 1}  # bodies that run at once print in any order
    show(agent.invoke({"messages": "Write to both"}, config))
    decisions = [{"type": "approve"}, {"type": "reject", "message": "No."}]
    result = agent.invoke(Command(resume={"decisions": decisions}), config)
    for each in sorted(result["messages"][2:-1], key=lambda message: message.tool_call_id):
        print(each.tool_call_id, each.status, each.content)


def case_description():
    def describe(tool_call, state, runtime):
        return f"{state['messages'][0].content} -> {tool_call['name']} to {tool_call['args']['to']}"

    policy = {
        "send": InterruptOnConfig(allowed_decisions=["approve"], description=describe),
        "draft": {"allowed_decisions": ["approve"], "description": "Look at this draft."},
        "look": {"allowed_decisions": ["approve"]},
    }
    calls = [
        call("send", {"to": "ann", "text": "x"}, "c1"),
        call("draft", {"to": "ann", "text": "x"}, "c2"),
        call("look", {"query": "Ann"}, "c3"),
    ]
    agent = mailer(turn(*calls), policy=policy, description_prefix="Please check")
    [interrupt] = agent.invoke({"messages": "Mail"}, thread())["__interrupt__"]
    for request in interrupt.value["action_requests"]:
        print(request["description"])


def case_when():
    policy = {
        "send": {"allowed_decisions": ["approve"], "when": lambda request: request.tool_call["args"]["to"] == "boss"}
    }
    agent = mailer(
        turn(call("send", {"to": "ann", "text": "x"}, "c1")),
        turn(call("send", {"to": "boss", "text": "x"}, "c2")),
        policy=policy,
    )
    show(agent.invoke({"messages": "Mail"}, thread()))


def case_answer_by_the_interrupts_id():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "Sent.")
    [interrupt] = agent.invoke({"messages": "Mail"}, thread())["__interrupt__"]
    result = agent.invoke(Command(resume={interrupt.id: {"decisions": [{"type": "approve"}]}}), thread())
    print(result["messages"][-1].content)


def case_decision_that_is_not_allowed():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), policy={"send": {"allowed_decisions": ["approve"]}})
    agent.invoke({"messages": "Mail"}, thread())
    try:
        decide(agent, {"type": "reject"})
    except Exception as error:
        print(shown(error))


def case_too_few_decisions():
    agent = mailer(turn(call("send", {"to": "a", "text": "1"}, "c1"), call("send", {"to": "b", "text": "2"}, "c2")))
    agent.invoke({"messages": "Mail"}, thread())
    try:
        decide(agent, {"type": "approve"})
    except Exception as error:
        print(shown(error))


def case_policy_without_decisions():
    try:
        HumanInTheLoopMiddleware({"send": {"description": "Look"}})
    except Exception as error:
        print(shown(error))


def case_attributes_of_the_middleware():
    gate = HumanInTheLoopMiddleware({"send": {"allowed_decisions": ["approve"]}, "look": False})
    print(gate.interrupt_on, gate.description_prefix, gate.interrupt_mode, gate.name)


def case_after_model_called_by_hand():
    gate = HumanInTheLoopMiddleware({"send": {"allowed_decisions": ["approve"]}})
    print(gate.after_model({"messages": [HumanMessage("Hi"), AIMessage("Hello")]}, None))
    print(gate.after_model({"messages": []}, None))


def case_a_gate_of_two_turns():
    agent = mailer(
        turn(call("send", {"to": "ann", "text": "1"}, "c1")), turn(call("send", {"to": "bob", "text": "2"}, "c2")), "Ok"
    )
    agent.invoke({"messages": "Mail"}, thread())
    asked(decide(agent, {"type": "approve"})["__interrupt__"])
    show(decide(agent, {"type": "approve"}))


async def case_async():
    agent = mailer(turn(call("send", {"to": "ann", "text": "Hi"})), "Sent.")
    show(await agent.ainvoke({"messages": [("user", "Mail")]}, thread()))
    show(await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), thread()))


def case_per_call_payload():
    agent = mailer(
        turn(call("send", {"to": "ann", "text": "1"}, "c1"), call("send", {"to": "bob", "text": "2"}, "c2")),
        interrupt_mode="per_call",
    )
    result = agent.invoke({"messages": "Mail"}, thread())
    for each in sorted(result["__interrupt__"], key=lambda one: one.value["tool_call_id"]):
        print({key: each.value[key] for key in ("type", "tool_call_id", "name", "args", "description")})
        print(sorted(each.response_schema))


def case_per_call_answers():
    agent = mailer(
        turn(call("send", {"to": "ann", "text": "1"}, "c1"), call("send", {"to": "bob", "text": "2"}, "c2")),
        "Done.",
        interrupt_mode="per_call",
    )
    result = agent.invoke({"messages": "Mail"}, thread())
    by_call = {each.value["tool_call_id"]: each.id for each in result["__interrupt__"]}
    answers = {by_call["c1"]: {"type": "approve"}, by_call["c2"]: {"type": "reject", "message": "No."}}
    show(agent.invoke(Command(resume=answers), thread()))


def case_per_call_one_after_the_other():
    agent = mailer(
        turn(call("send", {"to": "ann", "text": "1"}, "c1"), call("send", {"to": "bob", "text": "2"}, "c2")),
        "Done.",
        interrupt_mode="per_call",
    )
    result = agent.invoke({"messages": "Mail"}, thread())
    by_call = {each.value["tool_call_id"]: each.id for each in result["__interrupt__"]}
    result = agent.invoke(Command(resume={by_call["c2"]: {"type": "approve"}}), thread())
    print([each.value["tool_call_id"] for each in result["__interrupt__"]])
    result = agent.invoke(Command(resume={by_call["c1"]: {"type": "approve"}}), thread())
    print([each.tool_call_id for each in result["messages"][2:-1]], result["messages"][-1].content)


def case_per_call_edit():
    agent = mailer(turn(call("send", {"to": "ann", "text": "1"})), "Done.", interrupt_mode="per_call", edit_notice=None)
    [interrupt] = agent.invoke({"messages": "Mail"}, thread())["__interrupt__"]
    edited = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "eve", "text": "2"}}}
    show(agent.invoke(Command(resume={interrupt.id: edited}), thread()))


def case_another_mode():
    try:
        HumanInTheLoopMiddleware(EMAIL_POLICY, interrupt_mode="sometimes")
    except Exception as error:
        print(shown(error))
