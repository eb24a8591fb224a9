"""What a provider asks for that no tool here answers: never an end of the run, and the reply is kept."""

from typing import Any

import pytest

from assentry import Agent, ModelResponse, RunConfig, Runner, RunState, SQLiteSession, UnansweredRequest, Usage
from assentry.core.transcript import unanswered
from assentry.engines import Worker
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel, call
from assentry.threads import InMemorySaver, create_agent
from tests.runtime.support import asked, facts, heard, reloaded, scripted, sending

MCP = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "files", "name": "wipe", "arguments": "{}"}
REQUESTS: list[dict[str, Any]] = [
    MCP,
    {"type": "computer_call", "id": "cu_1", "call_id": "call_1", "action": {"type": "screenshot"}},
    {"type": "local_shell_call", "id": "ls_1", "call_id": "call_1", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"]}},
    {"type": "apply_patch_call", "id": "ap_1", "call_id": "call_1", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "sql", "input": "SELECT 1"},
    {"type": "tool_search_call", "id": "ts_1", "call_id": "call_1", "execution": "client", "arguments": {}},
    {"type": "some_call_of_tomorrow", "id": "x_1", "call_id": "call_1"},
    {"type": "computer_call"},
]
ANSWERS: list[dict[str, Any]] = [
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False},
    {"type": "computer_call_output", "call_id": "call_1", "output": {}},
    {"type": "local_shell_call_output", "id": "call_1", "output": "{}"},
    {"type": "shell_call_output", "call_id": "call_1", "output": []},
]
NO_REQUESTS: list[dict[str, Any]] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "mcp_call", "id": "mcp_1", "name": "read", "server_label": "files", "arguments": "{}", "output": "a"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "files", "tools": []},
    {"type": "tool_search_call", "id": "ts_1", "call_id": None, "execution": "server", "arguments": {}},
    {"type": "program", "id": "p_1", "call_id": "call_9", "code": "1", "fingerprint": "f"},
]
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


def reply(*items: dict[str, Any]) -> ModelResponse:
    return ModelResponse(list(items), Usage(requests=1), "resp_1")


async def failed(agent: Agent[Any], input: Any = "go", **options: Any) -> RunState[Any]:
    """The state of a run that ends with the error."""
    with pytest.raises(UnansweredRequest) as caught:
        await Runner.run(agent, input, **options)
    state: RunState[Any] = caught.value.state
    return state


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda item: item["type"])
async def test_a_request_that_nothing_answers_is_an_error_and_the_reply_is_kept(request_: dict[str, Any]) -> None:
    agent = scripted(reply(THOUGHT, request_), "done")
    state = await failed(agent)
    assert facts(state, "replied")[0]["items"] == [THOUGHT, request_]
    assert facts(state, "concluded") == [] and state.status == "working"


async def test_the_error_names_what_is_asked_for() -> None:
    with pytest.raises(UnansweredRequest, match=r"'mcp_approval_request'.* no HostedMCPTool for 'files'"):
        await Runner.run(scripted(reply(MCP)), "go")
    with pytest.raises(UnansweredRequest, match="no tool here answers: 'shell_call'"):
        await Runner.run(scripted(reply(REQUESTS[3])), "go")


async def test_to_resume_it_as_it_is_asks_no_model_and_raises_again() -> None:
    agent = scripted(reply(MCP), "done")
    state = await reloaded(agent, await failed(agent))
    state = await failed(agent, state)
    assert asked(agent) == 1 and len(facts(state, "replied")) == 1


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda item: item["type"])
async def test_with_other_input_the_run_goes_on_without_the_request(request_: dict[str, Any]) -> None:
    agent = scripted(reply(THOUGHT, request_), "done")
    state = await reloaded(agent, await failed(agent))
    state.add_input("Do without it.")
    result = await Runner.run(agent, state)
    assert result.final_output == "done"
    assert heard(agent) == [{"role": "user", "content": "go"}, {"role": "user", "content": "Do without it."}]
    assert request_ in [item.raw_item for item in result.new_items]
    assert request_ not in result.to_input_list()


@pytest.mark.parametrize(("request_", "answer"), [*zip(REQUESTS, ANSWERS, strict=False)], ids=lambda item: item["type"])
async def test_whoever_answers_it_as_an_item_has_it_heard(request_: dict[str, Any], answer: dict[str, Any]) -> None:
    agent = scripted(reply(THOUGHT, request_), "done", "and again")
    state = await failed(agent)
    state.add_input([answer])
    result = await Runner.run(agent, state)
    assert result.final_output == "done"
    assert heard(agent) == [{"role": "user", "content": "go"}, THOUGHT, request_, answer]
    again = await Runner.run(agent, [*result.to_input_list(), {"role": "user", "content": "more"}])
    assert again.final_output == "and again" and request_ in heard(agent)


async def test_calls_beside_the_request_run_and_then_the_model_is_not_asked() -> None:
    send, sent = sending()
    item = {"type": "function_call", "name": "send", "arguments": '{"to":"ann"}', "call_id": "call_2"}
    agent = scripted(reply(MCP, item), "done", tools=[send])
    state = await failed(agent)
    assert sent == [("ann", 1)] and asked(agent) == 1
    state.add_input("Do without it.")
    assert (await Runner.run(agent, state)).final_output == "done"
    assert MCP not in heard(agent) and item in heard(agent)


async def test_what_the_reply_answers_itself_and_what_the_provider_does_itself_ends_a_run() -> None:
    message = {"type": "message", "role": "assistant", "content": "done"}
    for items in ([REQUESTS[3], ANSWERS[3], message], [*NO_REQUESTS, message], [MCP, ANSWERS[0], message]):
        assert (await Runner.run(scripted(reply(*items)), "go")).final_output == "done"


async def test_a_session_keeps_no_request_that_nothing_answered() -> None:
    session = SQLiteSession("s", ":memory:")
    agent = scripted(reply(MCP), "done", "again")
    state = await failed(agent, session=session)
    assert MCP not in await session.get_items()
    state.add_input("Do without it.")
    await Runner.run(agent, state, session=session)
    await Runner.run(agent, "more", session=session)
    assert MCP not in heard(agent)


async def test_a_worker_leaves_such_a_run_alone_until_something_is_said() -> None:
    store, agent = MemoryStore(), scripted(reply(MCP), "done")
    with pytest.raises(UnansweredRequest):
        await Runner.run(agent, "go", store=store, run_config=RunConfig(write_lag=0))
    worker = Worker(store, agent)
    [run] = (await store.runs()).items
    assert (await worker.run_until_idle(), asked(agent)) == (1, 1)
    [run] = (await store.runs()).items
    assert run.wake is None and "mcp_approval_request" in (run.error or "")
    await store.say(run.id, "Do without it.", by="ann")
    await worker.run_until_idle()
    assert (await store.runs()).items[0].status == "done"


async def test_in_a_branch_the_request_is_the_failure_of_its_call() -> None:
    inner = scripted(reply(MCP), name="inner")
    outer = scripted(call("inner", {"input": "go"}), "done", tools=[inner.as_tool("inner", "Ask inner.")])
    result = await Runner.run(outer, "go")
    assert result.final_output == "done"
    assert "mcp_approval_request" in heard(outer)[-1]["output"]


async def test_on_a_thread_the_error_says_what_to_do_there() -> None:
    agent = create_agent(ScriptedModel([reply(MCP), "done"]), [], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(UnansweredRequest, match="say something on the thread"):
        await agent.ainvoke({"messages": "go"}, thread)
    result = await agent.ainvoke({"messages": "Do without it."}, thread)
    assert result["messages"][-1].content == "done"


def test_items_that_are_damaged_ask_for_nothing() -> None:
    assert unanswered([{"type": 5, "call_id": "x"}, {"type": ["a"]}, {}]) == set()
