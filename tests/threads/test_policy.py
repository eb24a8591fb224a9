"""Who is asked about which calls: declared once, checked at once, and part of what a person agrees to."""

import asyncio
from typing import Any

import pytest

from assentry import InvalidDefinition, function_tool
from assentry.store import MemoryStore
from assentry.testing import call
from assentry.threads import HumanInTheLoopMiddleware, InMemorySaver, SqliteSaver, create_agent
from tests.runtime.support import named
from tests.threads.support import Paired, Ran, decide, office, only, rejected, say, texts, thread

CONFIGS: list[tuple[Any, str]] = [
    (None, "must be True, False or"),
    ("approve", "must be True, False or"),
    (1, "must be True, False or"),
    ([], "must be True, False or"),
    ({}, "allowed_decisions must be a list"),
    ({"allowed_decisions": []}, "allowed_decisions must be a list"),
    ({"allowed_decisions": "approve"}, "allowed_decisions must be a list"),
    ({"allowed_decisions": ["aprove"]}, "allowed_decisions must be a list"),
    ({"allowed_decisions": ["approve", None]}, "allowed_decisions must be a list"),
    ({"allowed_decisions": [["approve"]]}, "allowed_decisions must be a list"),
    ({"allowed_decisions": ["approve"], "description": 1}, "description must be text"),
    ({"allowed_decisions": ["approve"], "when": True}, "when must be a callable"),
    ({"allowed_decisions": ["approve"], "allow_edit": True}, "no option 'allow_edit'.*allowed_decisions"),
]


@pytest.mark.parametrize(("config", "words"), CONFIGS, ids=[str(each) for each, _ in CONFIGS])
def test_a_policy_that_cannot_be_is_refused_when_it_is_made(config: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        HumanInTheLoopMiddleware({"write_file": config})


@pytest.mark.parametrize("given", [None, ["write_file"], {1: True}, {"": True}])
def test_a_policy_is_a_dict_of_names(given: Any) -> None:
    with pytest.raises(InvalidDefinition):
        HumanInTheLoopMiddleware(given)


def test_a_prefix_is_text() -> None:
    with pytest.raises(InvalidDefinition):
        HumanInTheLoopMiddleware({}, description_prefix=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["writefile", "delete_*", "WRITE_FILE"])
def test_a_name_that_no_tool_has_is_refused_when_the_agent_is_made(name: str) -> None:
    for value in (True, False):
        with pytest.raises(InvalidDefinition, match="which no tool is called; there are: write_file, execute_sql"):
            office("ok", policy={name: value})


def test_gating_needs_a_checkpointer() -> None:
    with pytest.raises(InvalidDefinition, match=r"without a checkpointer.* a tool of another.* give checkpointer=True"):
        office("ok", checkpointer=None)

    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    with pytest.raises(InvalidDefinition, match="without a checkpointer"):
        create_agent(Paired(["ok"]), [pay])
    with pytest.raises(InvalidDefinition, match="without a checkpointer"):
        create_agent(Paired(["ok"]), [create_agent(Paired(["ok"]), [pay], checkpointer=True, name="inner")])


def test_there_is_one_policy() -> None:
    with pytest.raises(InvalidDefinition, match="two HumanInTheLoopMiddleware"):
        office("ok", middleware=[HumanInTheLoopMiddleware({"read_data": True})])


@pytest.mark.parametrize(
    "options",
    [
        {"model": "unknown:claude-4"},
        {"model": None},
        {"tools": [1]},
        {"tools": ["write_file"]},
        {"middleware": [object()]},
        {"middleware": [HumanInTheLoopMiddleware]},
        {"checkpointer": "threads.db"},
        {"checkpointer": False},
        {"system_prompt": 1},
    ],
    ids=named,
)
def test_an_agent_that_cannot_be_is_refused_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        create_agent(**{"model": Paired(["ok"]), **options})


def test_a_policy_says_what_it_came_to() -> None:
    made = HumanInTheLoopMiddleware({"a": True, "b": False, "c": {"allowed_decisions": ["reject", "reject"]}})
    assert made.interrupt_on == {
        "a": {"allowed_decisions": ["approve", "edit", "reject"]},
        "c": {"allowed_decisions": ["reject"]},
    }
    assert made.description_prefix == "Tool execution requires approval"


async def test_a_pattern_gates_what_it_fits_and_a_name_goes_before_it() -> None:
    calls = [call("write_file", {"path": "a"}), call("execute_sql", {"query": "b"}), call("read_data")]
    agent, ran = office(calls, "done", policy={"*": {"allowed_decisions": ["reject"]}, "w*": True, "read_data": False})
    request = only(await agent.ainvoke(say("go"), thread())).value
    assert [each["action_name"] for each in request["review_configs"]] == ["write_file", "execute_sql"]
    assert [each["allowed_decisions"] for each in request["review_configs"]] == [["reject"], ["reject"]]
    await agent.ainvoke(decide("reject", "reject"), thread())
    assert ran == [("read_data", "records")]


async def test_a_tools_own_rule_is_not_taken_back() -> None:
    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def never(request: Any) -> bool:
        return False

    for policy in ({"pay": False}, {"pay": {"allowed_decisions": ["approve"], "when": never}}):
        agent = create_agent(
            Paired([call("pay"), "ok"]),
            [pay],
            middleware=[HumanInTheLoopMiddleware(policy)],  # type: ignore[arg-type]
            checkpointer=InMemorySaver(),
        )
        assert "__interrupt__" in await agent.ainvoke(say("go"), thread())


async def test_a_rule_of_the_tools_own_and_a_when_both_ask() -> None:
    @function_tool(needs_approval=lambda ctx, args, call_id: args["euros"] > 100)
    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    async def small(request: Any) -> bool:
        return bool(request.tool_call["args"]["euros"] < 10)

    agent = create_agent(
        Paired([[call("pay", {"euros": each}) for each in (5, 50, 500)], "ok"]),
        [pay],
        middleware=[HumanInTheLoopMiddleware({"pay": {"allowed_decisions": ["approve"], "when": small}})],  # type: ignore[dict-item]
        checkpointer=InMemorySaver(),
    )
    request = only(await agent.ainvoke(say("go"), thread())).value
    assert [each["args"]["euros"] for each in request["action_requests"]] == [5, 500]


async def test_a_when_is_judged_once_by_the_call_that_is_made() -> None:
    seen: list[Any] = []

    def risky(request: Any) -> bool:
        seen.append((request.tool_call, request.tool.name, [m.type for m in request.state["messages"]]))
        assert request.runtime.thread_id == "t"
        return "DROP" in request.tool_call["args"]["query"]

    policy = {"execute_sql": {"allowed_decisions": ["approve", "reject"], "when": risky}}
    agent, ran = office(
        [call("execute_sql", {"query": "SELECT"}), call("execute_sql", {"query": "DROP"})], "ok", policy=policy
    )
    request = only(await agent.ainvoke(say("go"), thread())).value
    assert [each["args"]["query"] for each in request["action_requests"]] == ["DROP"]
    assert seen[0] == (
        {"name": "execute_sql", "args": {"query": "SELECT"}, "id": "call_1_0", "type": "tool_call"},
        "execute_sql",
        ["human", "ai"],
    )
    await agent.ainvoke(decide("reject"), thread())
    assert len(seen) == 2, "what a person was asked about is not judged anew"
    assert ran == [("execute_sql", "SELECT")]


async def test_a_when_that_fails_asks() -> None:
    def broken(request: Any) -> bool:
        raise RuntimeError("oops")

    policy = {"execute_sql": {"allowed_decisions": ["approve", "reject"], "when": broken}}
    agent, ran = office(call("execute_sql", {"query": "a"}), "ok", policy=policy)
    action = only(await agent.ainvoke(say("go"), thread())).value["action_requests"][0]
    assert "oops" in action["description"] and ran == []


async def test_a_description_is_text_or_made_once_of_call_state_and_runtime() -> None:
    seen: list[Any] = []

    def describe(tool_call: dict[str, Any], state: dict[str, Any], runtime: Any) -> str:
        seen.append((tool_call, state["messages"][0].content, runtime.context, runtime.thread_id))
        return f"Shall {runtime.context['who']} run {tool_call['args']['query']}?"

    policy = {
        "execute_sql": {"allowed_decisions": ["approve"], "description": describe},
        "write_file": {"allowed_decisions": ["approve"], "description": "A file will be written."},
    }
    agent, _ = office([call("execute_sql", {"query": "a"}), call("write_file", {"path": "b"})], "ok", policy=policy)
    waiting = only(await agent.ainvoke(say("go"), thread(), context={"who": "ann"}))
    assert [each["description"] for each in waiting.value["action_requests"]] == [
        "Shall ann run a?",
        "A file will be written.",
    ]
    assert only(await agent.ainvoke(None, thread())) == waiting
    await agent.ainvoke(decide("approve", "approve"), thread())
    assert seen == [
        (
            {"name": "execute_sql", "args": {"query": "a"}, "id": "call_1_0", "type": "tool_call"},
            "go",
            {"who": "ann"},
            "t",
        )
    ]


@pytest.mark.parametrize("gives", [RuntimeError("no template"), 7])
async def test_a_description_that_fails_is_the_default_with_a_note_and_the_call_is_gated(gives: Any) -> None:
    def describe(tool_call: Any, state: Any, runtime: Any) -> Any:
        if isinstance(gives, Exception):
            raise gives
        return gives

    policy = {"execute_sql": {"allowed_decisions": ["approve"], "description": describe}}
    agent, ran = office(call("execute_sql", {"query": "a"}), "ok", policy=policy)
    action = only(await agent.ainvoke(say("go"), thread())).value["action_requests"][0]
    start = "Tool execution requires approval\n\nTool: execute_sql\nArgs: {'query': 'a'}\n\nNote: "
    assert action["description"].startswith(f"{start}Every call of execute_sql needs approval. (")
    assert ("no template" if isinstance(gives, Exception) else "not text") in action["description"]
    assert ran == []


async def test_a_description_that_fails_does_not_hide_why_somebody_is_asked() -> None:
    def fails(*given: Any) -> Any:
        raise RuntimeError("no template")

    def risky(request: Any) -> bool:
        raise RuntimeError("no rule")

    policy = {"execute_sql": {"allowed_decisions": ["approve"], "when": risky, "description": fails}}
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok", policy=policy)
    [action] = only(await agent.ainvoke(say("go"), thread())).value["action_requests"]
    assert "no rule" in action["description"] and "no template" in action["description"]


async def test_a_description_may_be_awaited() -> None:
    async def describe(tool_call: dict[str, Any], state: Any, runtime: Any) -> str:
        await asyncio.sleep(0)
        return f"Shall it run {tool_call['args']['query']}?"

    policy = {"execute_sql": {"allowed_decisions": ["approve"], "description": describe}}
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok", policy=policy)
    [action] = only(await agent.ainvoke(say("go"), thread())).value["action_requests"]
    assert action["description"] == "Shall it run a?"


async def test_arguments_that_cannot_run_can_be_edited_or_rejected_as_far_as_the_policy_says() -> None:
    for policy, left in (
        ({"execute_sql": True}, ["edit", "reject"]),
        ({"execute_sql": {"allowed_decisions": ["approve", "edit"]}}, ["edit"]),
        ({"execute_sql": {"allowed_decisions": ["approve"]}}, ["reject"]),
    ):
        agent, ran = office(call("execute_sql", {"sql": "a"}), "ok", policy=policy)
        request = only(await agent.ainvoke(say("go"), thread())).value
        assert request["review_configs"][0]["allowed_decisions"] == left
        assert "cannot run as it is" in request["action_requests"][0]["description"]
        assert ran == []


@pytest.mark.parametrize("text", ["Well?", lambda call, state, runtime: "Well?"], ids=["text", "function"])
async def test_whoever_is_asked_is_told_why_a_call_cannot_run_whatever_its_description_is(text: Any) -> None:
    policy = {"execute_sql": {"allowed_decisions": ["approve", "reject"], "description": text}}
    agent, _ = office(call("execute_sql", {"sql": "a"}), "ok", policy=policy)
    request = only(await agent.ainvoke(say("go"), thread())).value
    assert request["review_configs"][0]["allowed_decisions"] == ["reject"]
    description = request["action_requests"][0]["description"]
    assert description.startswith("Well?\n\nNote: This call cannot run as it is: the arguments do not fit the tool: ")


async def test_a_rule_that_fails_is_told_of_after_the_description() -> None:
    def fails(request: Any) -> bool:
        raise ValueError("no such table")

    policy = {"execute_sql": {"allowed_decisions": ["approve"], "description": "Well?", "when": fails}}
    agent, ran = office(call("execute_sql", {"query": "a"}), "ok", policy=policy)
    [action] = only(await agent.ainvoke(say("go"), thread())).value["action_requests"]
    assert action["description"].startswith("Well?\n\nNote: The rule ")
    assert "no such table" in action["description"] and ran == []


async def test_arguments_that_are_no_json_are_shown_as_they_were_written() -> None:
    agent, _ = office(call("execute_sql", "{query"), "ok")
    result = await agent.ainvoke(say("go"), thread())
    assert only(result).value["action_requests"][0]["args"] == {"raw": "{query"}
    assert result["messages"][1].tool_calls == []
    assert result["messages"][1].invalid_tool_calls[0]["args"] == "{query"
    assert texts(await agent.ainvoke(decide("reject"), thread()))[-1] == ("ai", "ok")


# -- a policy that changes while a call waits -------------------------------------------------------


def _when(request: Any) -> bool:
    return False


CHANGES: list[tuple[Any, Any]] = [
    (True, {"allowed_decisions": ["approve", "reject"]}),
    (True, {"allowed_decisions": ["approve", "edit", "reject"], "description": "Look well."}),
    (True, {"allowed_decisions": ["approve", "edit", "reject"], "when": _when}),
    ({"allowed_decisions": ["approve"]}, True),
    (True, False),
]


@pytest.mark.parametrize(("was", "now"), CHANGES, ids=["fewer", "described", "when", "more", "none"])
async def test_an_approval_under_another_policy_is_asked_again(was: Any, now: Any) -> None:
    store, ran = MemoryStore(), Ran()
    agent, _ = office(call("execute_sql", {"query": "a"}), ran=ran, policy={"execute_sql": was}, checkpointer=store)
    first = only(await agent.ainvoke(say("go"), thread()))
    again, _ = office("ok", ran=ran, policy={"execute_sql": now}, checkpointer=store)
    second = only(await again.ainvoke(decide("approve"), thread()))
    assert ran == [], "nobody agreed to this policy"
    assert second.id != first.id
    assert "has changed" in second.value["action_requests"][0]["description"] or now is not True
    await again.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "a")]


@pytest.mark.parametrize(
    ("was", "now"), [change for change in CHANGES if "reject" in str(change[0]) or change[0] is True]
)
async def test_a_rejection_holds_whatever_the_policy_is_now(was: Any, now: Any) -> None:
    store, ran = MemoryStore(), Ran()
    agent, _ = office(call("execute_sql", {"query": "a"}), ran=ran, policy={"execute_sql": was}, checkpointer=store)
    await agent.ainvoke(say("go"), thread())
    again, _ = office("ok", ran=ran, policy={"execute_sql": now}, checkpointer=store)
    result = await again.ainvoke(decide({"type": "reject", "message": "No."}), thread())
    assert ran == [] and result["messages"][2].content == rejected("execute_sql", "No.")


async def test_a_question_that_a_changed_policy_makes_has_the_new_decisions() -> None:
    store = MemoryStore()
    agent, _ = office(call("execute_sql", {"query": "a"}), policy={"execute_sql": True}, checkpointer=store)
    await agent.ainvoke(say("go"), thread())
    again, _ = office("ok", policy={"execute_sql": {"allowed_decisions": ["reject"]}}, checkpointer=store)
    request = only(await again.ainvoke(None, thread())).value
    assert request["review_configs"] == [{"action_name": "execute_sql", "allowed_decisions": ["reject"]}]


async def test_the_same_policy_in_another_process_asks_nothing_new(tmp_path: Any) -> None:
    ran = Ran()
    policy = {"execute_sql": {"allowed_decisions": ["approve"], "when": lambda request: True, "description": "Look."}}
    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office(call("execute_sql", {"query": "a"}), ran=ran, policy=policy, checkpointer=saver)
        agent.invoke(say("go"), thread())
    with SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:
        saver.setup()
        again, _ = office("done", ran=ran, policy=policy, checkpointer=saver)
        assert texts(again.invoke(decide("approve"), thread()))[-1] == ("ai", "done")
    assert ran == [("execute_sql", "a")]
