"""The words for the model about a call that a person changed."""

from typing import Any

import pytest

from assentry import Agent, Edit, Runner, ToolOutputText, function_tool
from assentry.store import MemoryStore
from assentry.testing import call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, ThreadAgent, create_agent
from assentry.threads.review import EDIT_NOTICE
from tests.threads.support import Paired, Ran, decide, edited, office, requests, say, texts, thread


def edit(tool: str, /, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": tool, "args": args}}


def made(tool: Any, *steps: Any, **options: Any) -> ThreadAgent:
    gate = HumanInTheLoopMiddleware({"*": True}, **options)
    return create_agent(Paired(steps), [tool], middleware=[gate], checkpointer=InMemorySaver())


def greet(name: str) -> str:
    """Greet."""
    return f"Hello, {name}."


async def told(agent: ThreadAgent, decision: Any) -> Any:
    """Return the text that told the model of the call, after this decision."""
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(decide(decision), thread())
    output = requests(agent)[-1].input[-1]["output"]
    assert not isinstance(output, str) or texts(result)[2][1] == output
    return output


async def test_the_notice_says_what_ran_without_defaults_and_the_model_keeps_its_call() -> None:
    agent, ran = office(call("write_file", {"path": "a", "text": "x"}), "ok")
    assert await told(agent, edit("write_file", path="b")) == edited(
        'write_file with arguments {"path": "b"}', "wrote b"
    )
    assert ran == [("write_file", "b", "")]
    assert requests(agent)[-1].input[1]["arguments"] == '{"path": "a", "text": "x"}'


async def test_the_notice_may_be_ones_own_or_left_out() -> None:
    agent = made(greet, call("greet", {"name": "ann"}), "ok", edit_notice="Changed.")
    words = 'Changed. Executed instead: greet with arguments {"name": "bob"}.\n\nTool response:\nHello, bob.'
    assert await told(agent, edit("greet", name="bob")) == words
    for nothing in (None, ""):
        agent = made(greet, call("greet", {"name": "ann"}), "ok", edit_notice=nothing)
        assert await told(agent, edit("greet", name="bob")) == "Hello, bob."


async def test_no_other_decision_has_a_notice() -> None:
    assert await told(made(greet, call("greet", {"name": "ann"}), "ok"), "approve") == "Hello, ann."


async def test_an_empty_result_has_the_notice_alone() -> None:
    def hush(name: str) -> str:
        """Say nothing."""
        return ""

    agent = made(hush, call("hush", {"name": "ann"}), "ok", edit_notice="Changed.")
    assert await told(agent, edit("hush", name="b")) == 'Changed. Executed instead: hush with arguments {"name": "b"}.'


async def test_a_result_of_parts_has_the_notice_as_its_first_part() -> None:
    def show(name: str) -> Any:
        """Show."""
        return [ToolOutputText(text="one")]

    agent = made(show, call("show", {"name": "ann"}), "ok", edit_notice="Changed.")
    first, second = await told(agent, edit("show", name="b"))
    assert first["text"].startswith("Changed. Executed instead: show") and second["text"] == "one"


async def test_a_failure_has_the_notice_too() -> None:
    def fail(name: str) -> str:
        """Fail."""
        raise LookupError(name)

    agent = made(fail, call("fail", {"name": "ann"}), "ok", edit_notice="Changed.")
    words = await told(agent, edit("fail", name="bob"))
    assert words.startswith('Changed. Executed instead: fail with arguments {"name": "bob"}.\n\nTool response:\n')


async def test_an_edit_to_another_tool_names_the_tool_that_ran() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "ok")
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(decide(edit("read_data", table="b")), thread())
    message = result["messages"][2]
    assert message.content == edited('read_data with arguments {"table": "b"}', "rows of b")
    assert message.name == "read_data" and ran == [("read_data", "b")]
    assert result["messages"][1].tool_calls[0]["name"] == "write_file"


async def test_an_edit_in_the_store_has_the_agents_notice() -> None:
    agent, _ = office(call("write_file", {"path": "a"}), "ok", checkpointer=MemoryStore())
    await agent.ainvoke(say("go"), thread())
    assert agent.store is not None
    [question] = (await agent.store.questions()).items
    await agent.store.decide(question.id, Edit({"path": "b"}), by="ann", digest=question.digest)
    result = await agent.ainvoke(None, thread())
    assert texts(result)[2][1] == edited('write_file with arguments {"path": "b"}', "wrote b")


async def test_an_inner_agent_has_its_own_notice_and_an_ordinary_agent_the_ordinary_words() -> None:
    ran = Ran()
    gate = HumanInTheLoopMiddleware({"execute_sql": True, "read_data": False}, edit_notice="Changed inside.")
    inner = create_agent(
        Paired([call("execute_sql", {"query": "a"}), "ok"]),
        ran.tools(),
        middleware=[gate],
        checkpointer=True,
        name="db",
    )
    agent = create_agent(Paired([call("db", {"input": "x"}), "ok"]), [inner], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(decide(edit("execute_sql", query="b")), thread())
    assert requests(inner)[-1].input[-1]["output"].startswith("Changed inside. Executed instead: execute_sql")

    model = Paired([call("greet", {"name": "ann"}), "ok"])
    plain = Agent("plain", tools=[function_tool(needs_approval=True)(greet)], model=model)
    state = (await Runner.run(plain, "go")).to_state()
    state.edit(state.get_interruptions()[0], arguments={"name": "bob"})
    await Runner.run(plain, state)
    assert EDIT_NOTICE not in model.requests[-1].input[-1]["output"]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_an_edited_call_to_an_agent_has_the_notice(mode: Any) -> None:
    inner = create_agent(Paired(["done"]), checkpointer=True, name="clerk")
    gate = HumanInTheLoopMiddleware({"clerk": True}, edit_notice="Changed.", interrupt_mode=mode)
    agent = create_agent(
        Paired([call("clerk", {"input": "x"}), "ok"]), [inner], middleware=[gate], checkpointer=InMemorySaver()
    )
    await agent.ainvoke(say("go"), thread())
    given = edit("clerk", input="y")
    result = await agent.ainvoke(decide(given) if mode == "batched" else Command(resume=given), thread())
    assert (
        texts(result)[2][1] == 'Changed. Executed instead: clerk with arguments {"input": "y"}.\n\nTool response:\ndone'
    )
