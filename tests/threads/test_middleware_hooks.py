"""The hooks of the human-in-the-loop middleware, called by a program and not by an agent."""

from typing import Any
from unittest.mock import patch

import pytest

from assentry import InvalidDecision, UsageError
from assentry.testing import call
from assentry.threads import (
    AgentState,
    AIMessage,
    Command,
    HumanInTheLoopMiddleware,
    HumanMessage,
    InMemorySaver,
    InterruptOnConfig,
    Runtime,
    ToolCallRequest,
    ToolMessage,
    create_agent,
)
from assentry.threads.middleware import HOOKS, hook_of
from tests.threads.support import Paired, Ran, decide, edited, only, rejected, say, thread

INTERRUPT = "assentry.threads.human_in_the_loop.interrupt"
EDITED = "hitl_edited_tool_calls"


def state(*calls: tuple[str, Any]) -> Any:
    """A state that ends with a message that calls these tools."""
    made = [{"name": name, "args": args, "id": f"c{number}"} for number, (name, args) in enumerate(calls)]
    return AgentState(messages=[HumanMessage("go"), AIMessage("", tool_calls=made)])


def answered(*decisions: Any) -> Any:
    return patch(INTERRUPT, return_value={"decisions": list(decisions)})


ALL: InterruptOnConfig = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}


def test_nothing_is_asked_if_no_call_needs_a_person() -> None:
    gate = HumanInTheLoopMiddleware({"a": True, "b*": True, "bb": False})
    with patch(INTERRUPT) as asked:
        assert gate.after_model({"messages": []}, Runtime()) is None
        assert gate.after_model({"messages": [HumanMessage("go"), AIMessage("Hello")]}, Runtime()) is None
        assert gate.after_model(state(("c", {}), ("bb", {})), Runtime()) is None
        asked.assert_not_called()


async def test_each_decision_becomes_an_update() -> None:
    gate = HumanInTheLoopMiddleware({"a": ALL}, description_prefix="Well?")
    given = state(*[("a", {"x": number}) for number in range(4)], ("free", {}))
    decisions = [
        {"type": "approve"},
        {"type": "edit", "edited_action": {"name": "b", "arguments": {"y": 1}}},
        {"type": "reject", "message": "No."},
        {"type": "respond", "message": "Done."},
    ]
    with answered(*decisions) as asked:
        update = await gate.aafter_model(given, Runtime())
    [request] = asked.call_args.args
    assert [each["args"] for each in request["action_requests"]] == [{"x": number} for number in range(4)]
    assert request["action_requests"][0]["description"] == "Well?\n\nTool: a\nArgs: {'x': 0}"
    assert request["review_configs"][0] == {"action_name": "a", **ALL}
    assert update is not None and update[EDITED] == {"c1": {"name": "b", "args": {"y": 1}}}
    message, no, done = update["messages"]
    assert message is given["messages"][1] and len(message.tool_calls) == 5
    assert (no.content, no.status, no.tool_call_id) == (rejected("a", "No."), "error", "c2")
    assert (done.content, done.status, done.name) == ("Done.", "success", "a")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"decisions": []}, r"Number of human decisions \(0\) does not match number of hanging tool calls \(1\)"),
        ({"decisions": [{"type": "respond", "message": "x"}]}, "'respond' is not allowed for tool 'a'"),
        ({"decisions": [{"type": "edit"}]}, "edited_action"),
        ({"decisions": ["approve"]}, "None is not allowed"),
        ({"decisions": None}, "must be"),
        ([], "must be"),
    ],
)
def test_a_wrong_decision_is_a_value_error(answer: Any, words: str) -> None:
    with patch(INTERRUPT, return_value=answer), pytest.raises(InvalidDecision, match=words) as error:
        HumanInTheLoopMiddleware({"a": True}).after_model(state(("a", {})), Runtime())
    assert isinstance(error.value, ValueError)


def test_when_and_description_are_called_with_the_state_and_the_runtime() -> None:
    seen: list[Any] = []

    def when(request: ToolCallRequest) -> bool:
        seen.append((request.tool, request.state))
        return bool(request.tool_call["args"]["x"])

    def describe(tool_call: Any, state: Any, runtime: Any) -> str:
        return f"{tool_call['args']} in {runtime.context}"

    rule: InterruptOnConfig = {"allowed_decisions": ["approve"], "when": when, "description": describe}
    given = state(("a", {"x": 0}), ("a", {"x": 1}))
    with answered({"type": "approve"}) as asked:
        HumanInTheLoopMiddleware({"a": rule}).after_model(given, Runtime("here"))
    [action] = asked.call_args.args[0]["action_requests"]
    assert action["description"] == "{'x': 1} in here"
    assert seen == [(None, given), (None, given)] and seen[0][1] is given

    async def later(*_: Any) -> Any: ...

    for option in ("when", "description"):
        wrong: Any = {"allowed_decisions": ["approve"], option: later}
        with pytest.raises(UsageError, match=f"cannot await '{option}'"):
            HumanInTheLoopMiddleware({"a": wrong}).after_model(given, Runtime())


def test_edits_of_an_earlier_turn_are_dropped() -> None:
    gate = HumanInTheLoopMiddleware({"a": True})
    given = {**state(("free", {})), EDITED: {"c0": {"name": "a", "args": {}}}}
    assert gate.after_model(given, Runtime()) == {EDITED: {}}


def request(edit: Any = None, **more: Any) -> ToolCallRequest:
    call = {"name": "a", "args": {"x": 1}, "id": "c0", "type": "tool_call"}
    return ToolCallRequest(call, None, {"messages": [], **({EDITED: {"c0": edit}} if edit else {})}, Runtime(), **more)


@pytest.mark.parametrize("content", ["gave", ["gave"], [{"type": "text", "text": "gave"}], "", []])
async def test_an_edit_in_the_state_runs_and_is_told_once(content: Any) -> None:
    gate = HumanInTheLoopMiddleware({"a": True})
    ran: list[Any] = []

    def handler(given: ToolCallRequest) -> ToolMessage:
        ran.append(given.tool_call["args"])
        return ToolMessage(content, tool_call_id="c0")

    async def handle(given: ToolCallRequest) -> ToolMessage:
        return handler(given)

    asked = request({"name": "a", "args": {"x": 2}})
    once = gate.wrap_tool_call(asked, handler)
    assert ran == [{"x": 2}] and (await gate.awrap_tool_call(asked, handle)).content == once.content
    assert gate.wrap_tool_call(asked, lambda _: once).content == once.content
    notice = edited('a with arguments {"x": 2}', "gave")
    head = notice.removesuffix("\ngave")
    bare = head.removesuffix("\n\nTool response:")
    expected: Any = {
        str(["gave"]): [head, "gave"],
        str([{"type": "text", "text": "gave"}]): [{"type": "text", "text": head}, {"type": "text", "text": "gave"}],
        str([]): [{"type": "text", "text": bare}],
        "gave": notice,
        "": bare,
    }[str(content)]
    assert once.content == expected


def test_an_edit_to_a_tool_that_is_not_there_runs_nothing() -> None:
    ran: list[Any] = []
    with pytest.raises(InvalidDecision, match="not an available tool"):
        HumanInTheLoopMiddleware({"a": True}).wrap_tool_call(request({"name": "b", "args": {}}), ran.append)
    assert ran == []


@pytest.mark.parametrize(
    ("answer", "runs", "content"),
    [
        ({"type": "approve"}, [{"x": 1}], "ran"),
        ({"type": "edit", "edited_action": {"name": "a", "args": {"x": 2}}}, [{"x": 2}], None),
        ({"type": "reject", "message": "No."}, [], rejected("a", "No.")),
        ({"type": "respond", "message": "Done."}, [], "Done."),
    ],
)
def test_in_the_mode_per_call_the_call_is_asked_about_before_it_runs(answer: Any, runs: Any, content: Any) -> None:
    gate = HumanInTheLoopMiddleware({"a": ALL}, interrupt_mode="per_call")
    ran: list[Any] = []

    def handler(given: ToolCallRequest) -> ToolMessage:
        ran.append(given.tool_call["args"])
        return ToolMessage("ran", tool_call_id="c0")

    assert gate.after_model(state(("a", {})), Runtime()) is None
    with patch(INTERRUPT, return_value=answer) as asked:
        result = gate.wrap_tool_call(request(), handler)
    assert asked.call_args.args[0]["type"] == "tool_approval"
    assert ran == runs and result.content == (content or edited('a with arguments {"x": 2}', "ran"))
    with patch(INTERRUPT, return_value={"type": "maybe"}), pytest.raises(InvalidDecision):
        gate.wrap_tool_call(request(), handler)
    assert ran == runs


def test_an_agent_calls_none_of_them_and_a_subclass_that_does_asks_once() -> None:
    gate = HumanInTheLoopMiddleware({"a": True})
    assert [hook_of(gate, name) for name in HOOKS] == [None] * len(HOOKS)
    seen: list[Any] = []

    class Noting(HumanInTheLoopMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:
            seen.append(len(state["messages"]))
            return super().after_model(state, runtime)

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            seen.append(request.tool_call["name"])
            return super().wrap_tool_call(request, handler)

    for mode in ("batched", "per_call"):
        ran = Ran()
        agent = create_agent(
            Paired([call("execute_sql", {"query": "a"}), "ok"]),
            ran.tools(),
            middleware=[Noting({"execute_sql": True}, interrupt_mode=mode)],  # type: ignore[arg-type]
            checkpointer=InMemorySaver(),
        )
        only(agent.invoke(say("go"), thread()))
        assert ran == []
        command = decide("approve") if mode == "batched" else Command(resume={"type": "approve"})
        assert "__interrupt__" not in agent.invoke(command, thread())
        assert ran == [("execute_sql", "a")]
    assert seen == [2, "execute_sql", 4] * 2
