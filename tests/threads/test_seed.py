"""Programs as users of this vocabulary know them: configure, interrupt, decide, stream."""

from typing import Any

from assentry.testing import call
from assentry.threads import (
    AIMessage,
    Command,
    HumanInTheLoopMiddleware,
    HumanMessage,
    InMemorySaver,
    Interrupt,
    ToolMessage,
    create_agent,
)
from tests.threads.support import Paired, Ran, decide, edited, office, only, rejected, requests, say, texts, thread

DELETE = "DELETE FROM records WHERE created_at < NOW() - INTERVAL '30 days';"


def test_a_call_waits_with_all_that_a_reviewer_needs_and_runs_when_it_is_approved() -> None:
    ran = Ran()
    agent = create_agent(
        model=Paired([call("execute_sql", {"query": DELETE}), "They are gone."]),
        tools=ran.tools(),
        middleware=[
            HumanInTheLoopMiddleware(
                interrupt_on={
                    "write_file": True,
                    "execute_sql": {"allowed_decisions": ["approve", "reject"]},
                    "read_data": False,
                },
                description_prefix="Tool execution pending approval",
            )
        ],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "some_id"}}
    result = agent.invoke(
        {"messages": [{"role": "user", "content": "Delete old records from the database"}]}, config=config
    )
    [interrupt] = result["__interrupt__"]
    assert isinstance(interrupt, Interrupt)
    assert interrupt.value == {
        "action_requests": [
            {
                "name": "execute_sql",
                "args": {"query": DELETE},
                "arguments": {"query": DELETE},
                "description": f"Tool execution pending approval\n\nTool: execute_sql\nArgs: { ({'query': DELETE}) }",
            }
        ],
        "review_configs": [{"action_name": "execute_sql", "allowed_decisions": ["approve", "reject"]}],
    }
    assert len(interrupt.id) == 32
    assert ran == []

    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config=config)
    assert ran == [("execute_sql", DELETE)]
    assert "__interrupt__" not in result
    human, proposal, output, answer = result["messages"]
    assert isinstance(human, HumanMessage) and human.content == "Delete old records from the database"
    assert isinstance(proposal, AIMessage)
    assert proposal.tool_calls == [
        {"name": "execute_sql", "args": {"query": DELETE}, "id": "call_1_0", "type": "tool_call"}
    ]
    assert isinstance(output, ToolMessage)
    assert (output.content, output.status, output.tool_call_id, output.name) == (
        f"ran {DELETE}",
        "success",
        "call_1_0",
        "execute_sql",
    )
    assert isinstance(answer, AIMessage) and answer.content == "They are gone."
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert len({message.id for message in result["messages"]}) == 4


def test_an_edited_call_runs_with_the_reviewers_arguments() -> None:
    for name in ("args", "arguments"):
        agent, ran = office(call("write_file", {"path": "a.txt", "text": "x"}), "done")
        agent.invoke(say("write"), thread())
        action = {"name": "write_file", name: {"path": "b.txt", "text": "y"}}
        result = agent.invoke(decide({"type": "edit", "edited_action": action}), thread())
        assert ran == [("write_file", "b.txt", "y")]
        output = result["messages"][2]
        assert output.status == "success" and output.content.endswith("wrote b.txt")
        assert output.content == edited('write_file with arguments {"path": "b.txt", "text": "y"}', "wrote b.txt")


def test_an_edit_may_choose_another_tool() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "done")
    agent.invoke(say("write"), thread())
    agent.invoke(decide({"type": "edit", "edited_action": {"name": "read_data", "args": {"table": "b"}}}), thread())
    assert ran == [("read_data", "b")]


def test_a_rejected_call_does_not_run_and_the_model_is_told_why() -> None:
    agent, ran = office(call("execute_sql", {"query": "DROP"}), "I leave it.")
    agent.invoke(say("drop it"), thread())
    result = agent.invoke(decide({"type": "reject", "message": "No, keep the table."}), thread())
    assert ran == []
    told = rejected("execute_sql", "No, keep the table.")
    assert (result["messages"][2].status, result["messages"][2].content) == ("error", told)
    assert requests(agent)[1].input[-1]["output"] == told
    assert texts(result)[-1] == ("ai", "I leave it.")


def test_a_rejection_without_words_has_some() -> None:
    agent, _ = office(call("execute_sql", {"query": "DROP"}), "fine")
    agent.invoke(say("drop it"), thread())
    result = agent.invoke(decide("reject"), thread())
    assert result["messages"][2].status == "error"
    assert result["messages"][2].content == (
        "User rejected the tool call for `execute_sql` with id call_1_0. The tool was not executed. Do not retry this "
        "tool call unless the user explicitly requests it."
    )


def test_a_person_may_answer_in_the_tools_place() -> None:
    policy = {"execute_sql": {"allowed_decisions": ["respond"]}}
    agent, ran = office(call("execute_sql", {"query": "SELECT 1"}), "fine", policy=policy)
    agent.invoke(say("ask"), thread())
    result = agent.invoke(decide({"type": "respond", "message": "It is one."}), thread())
    assert ran == []
    assert (result["messages"][2].status, result["messages"][2].content) == ("success", "It is one.")


def test_several_calls_are_decided_at_once_and_in_order() -> None:
    agent, ran = office(
        [
            call("write_file", {"path": "a"}),
            call("read_data"),
            call("write_file", {"path": "b"}),
            call("execute_sql", {"query": "c"}),
        ],
        "done",
    )
    result = agent.invoke(say("do all"), thread())
    request = only(result).value
    assert [each["name"] for each in request["action_requests"]] == ["write_file", "write_file", "execute_sql"]
    assert [each["allowed_decisions"] for each in request["review_configs"]] == [
        ["approve", "edit", "reject"],
        ["approve", "edit", "reject"],
        ["approve", "reject"],
    ]
    assert ran == [], "a turn is released as a batch: what needs nobody waits too"
    result = agent.invoke(
        decide(
            "approve",
            {"type": "edit", "edited_action": {"name": "write_file", "args": {"path": "B"}}},
            {"type": "reject", "message": "This action is not allowed"},
        ),
        thread(),
    )
    assert sorted(ran) == [("read_data", "records"), ("write_file", "B", ""), ("write_file", "a", "")]
    outputs = [message for message in result["messages"] if message.type == "tool"]
    assert [each.status for each in outputs] == ["success", "success", "success", "error"], "in the order of the calls"


def test_it_streams_and_resumes_streaming() -> None:
    agent, ran = office(["Let me see.", call("execute_sql", {"query": DELETE})], "They are all gone.")
    shown: list[str] = []
    interrupts: list[Any] = []
    for mode, chunk in agent.stream(say("Delete"), config=thread(), stream_mode=["updates", "messages"]):
        if mode == "messages":
            token, metadata = chunk
            assert metadata["langgraph_node"] == "model"
            if token.content:
                shown.append(token.content)
        elif "__interrupt__" in chunk:
            interrupts.append(chunk["__interrupt__"])
            assert list(chunk) == ["__interrupt__"]
    assert shown == ["Let ", "me ", "see."]
    [(interrupt,)] = interrupts
    assert interrupt.value["action_requests"][0]["name"] == "execute_sql"

    shown.clear()
    for mode, chunk in agent.stream(decide("approve"), config=thread(), stream_mode=["updates", "messages"]):
        if mode == "messages":
            token, metadata = chunk
            shown.append(f"{metadata['langgraph_node']}: {token.content}")
    assert shown == [f"tools: ran {DELETE}", "model: They ", "model: are ", "model: all ", "model: gone."]
    assert ran == [("execute_sql", DELETE)]


async def test_everything_has_an_async_form() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "done")
    result = await agent.ainvoke(say("write"), thread())
    assert only(result).value["action_requests"][0]["name"] == "write_file"
    assert (await agent.aget_state(thread())).next == ("HumanInTheLoopMiddleware.after_model",)
    chunks = [chunk async for chunk in agent.astream(decide("approve"), thread())]
    assert [list(chunk) for chunk in chunks] == [
        ["HumanInTheLoopMiddleware.after_model"],
        ["tools"],
        ["model"],
        ["HumanInTheLoopMiddleware.after_model"],
    ]
    assert chunks[-1] == {"HumanInTheLoopMiddleware.after_model": None}
    assert ran == [("write_file", "a", "")]


def test_a_model_that_needs_no_tool_waits_for_nobody() -> None:
    agent, _ = office("Hello.")
    assert texts(agent.invoke(say("Hi"), thread())) == [("human", "Hi"), ("ai", "Hello.")]
