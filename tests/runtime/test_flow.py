"""The approval flow: questions, decisions, turns, errors, more input."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from assentry import (
    Agent,
    Approve,
    Edit,
    Reject,
    Respond,
    RunConfig,
    Runner,
    RunState,
    ToolApprovalItem,
    ToolContext,
    ToolErrorFormatterArgs,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from assentry.errors import (
    AlreadyDecided,
    DigestMismatch,
    InvalidArguments,
    InvalidDecision,
    InvalidInput,
    MaxTurnsExceeded,
    ModelFailed,
    QuestionNotFound,
    RunFinished,
    StateSpent,
    UsageError,
)
from assentry.testing import FakeClock, ScriptedModel, ScriptedPerson, call
from tests.runtime.support import (
    asked,
    facts,
    heard,
    outcomes,
    outputs,
    refused,
    reloaded,
    scripted,
    sending,
    soon,
    stopped,
    told,
)


async def paused(*, calls: int = 1, **options: Any) -> tuple[Agent[Any], RunState[Any], list[ToolApprovalItem], Any]:
    """An agent that waits with some calls of `send`, its state, its questions, and what was sent."""
    send, sent = sending(needs_approval=True, **options)
    agent = scripted([call("send", {"to": f"p{n}"}) for n in range(calls)], "done", tools=[send])
    result = await Runner.run(agent, "go")
    return agent, result.to_state(), result.interruptions, sent


# -- interruptions ---------------------------------------------------------------------------------


async def test_an_interruption_says_what_would_run() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", '{ "to": "ann" }', "abc"), tools=[send])
    clock = FakeClock(1_000.0)
    result = await Runner.run(agent, "go", run_config=RunConfig(clock=clock))
    [item] = result.interruptions
    assert isinstance(item, ToolApprovalItem)
    assert item.agent is agent
    assert item.name == item.tool_name == "send"
    assert item.arguments == '{"copies":1,"to":"ann"}'
    assert item.call_id == "abc"
    assert item.raw_item["type"] == "function_call"
    assert item.raw_item["arguments"] == '{ "to": "ann" }'
    assert re.fullmatch(r"q_[0-9a-f]{32}", item.id)
    assert re.fullmatch(r"[0-9a-f]{64}", item.digest)
    assert item.path == ()
    assert item.kind == "approval"
    assert item.reason
    assert item.at == 1_000_000
    assert item.type == "tool_approval_item"


async def test_question_ids_and_digests_differ_between_calls_and_runs() -> None:
    send, _ = sending(needs_approval=True)
    twice = [call("send", {"to": "ann"}, "x"), call("send", {"to": "ann"}, "x")]
    items: list[ToolApprovalItem] = []
    for _ in range(3):
        items += (await Runner.run(scripted(twice, tools=[send]), "go")).interruptions
    assert len({item.id for item in items}) == 6
    assert len({item.digest for item in items}) == 6


async def test_interruptions_come_in_the_order_of_the_calls() -> None:
    _, state, items, _ = await paused(calls=5)
    assert [json.loads(item.arguments)["to"] for item in items] == [f"p{n}" for n in range(5)]
    assert state.get_interruptions() == items


async def test_calls_that_need_nobody_run_at_once() -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    calls = [call("send", {"to": to}) for to in ("bob", "ann", "eve")]
    agent = scripted(calls, "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert sorted(sent) == [("bob", 1), ("eve", 1)]
    assert len(result.interruptions) == 1
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert sent[-1] == ("ann", 1)
    assert len(sent) == 3
    assert told(result) == ["sent 1 to bob", "sent 1 to ann", "sent 1 to eve"], "outputs are in the order of the calls"


async def test_released_as_a_batch_nothing_of_the_turn_runs_until_all_is_settled() -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"] != "free")
    calls = [call("send", {"to": to}) for to in ("free", "ann", "bob")]
    agent = scripted(calls, "done", tools=[send])
    result = await Runner.run(agent, "go", run_config=RunConfig(release="batch"))
    assert sent == []
    ann, bob = result.interruptions
    state = result.to_state()
    state.approve(ann)
    result = await Runner.run(agent, await reloaded(agent, state))  # the run keeps how it is released
    assert sent == []
    assert result.interruptions == [bob]
    state = result.to_state()
    state.reject(bob)
    result = await Runner.run(agent, state)
    assert sorted(sent) == [("ann", 1), ("free", 1)]
    assert result.final_output == "done"


async def test_a_batch_that_needs_nobody_runs() -> None:
    send, sent = sending()
    agent = scripted([call("send", {"to": "ann"}), call("nothing")], "done", tools=[send])
    result = await Runner.run(agent, "go", run_config=RunConfig(release="batch"))
    assert sent == [("ann", 1)]
    assert result.final_output == "done"


# -- the four verdicts -----------------------------------------------------------------------------


async def test_an_approved_call_runs_as_it_was_shown() -> None:
    agent, state, [item], sent = await paused()
    state.approve(item)
    assert state.get_interruptions() == []
    assert sent == [], "deciding runs nothing"
    result = await Runner.run(agent, state)
    assert sent == [("p0", 1)]
    assert result.final_output == "done"
    assert outcomes(result)[0].status == "finished"
    assert told(result) == ["sent 1 to p0"]


async def test_a_rejected_call_does_not_run_and_the_model_is_told() -> None:
    agent, state, [item], sent = await paused()
    state.reject(item, rejection_message="not today", by="ann")
    result = await Runner.run(agent, state)
    assert sent == []
    assert told(result) == ["not today"]
    assert heard(agent)[-1] == {"type": "function_call_output", "call_id": item.call_id, "output": "not today"}
    outcome = outcomes(result)[0]
    assert (outcome.status, outcome.by, outcome.reason) == ("rejected", "ann", "not today")
    assert result.final_output == "done"


async def test_an_edited_call_runs_with_the_persons_arguments_and_the_model_is_told() -> None:
    agent, state, [item], sent = await paused()
    state.edit(item, arguments={"to": "bob", "copies": 3}, by="ann")
    result = await Runner.run(agent, state)
    assert sent == [("bob", 3)]
    proposal, output = heard(agent)[-2:]
    assert json.loads(proposal["arguments"]) == {"to": "p0"}, "the transcript keeps what the model proposed"
    assert output["output"].startswith("sent 3 to bob")
    assert '{"copies":3,"to":"bob"}' in output["output"]
    assert (outcomes(result)[0].status, outcomes(result)[0].by) == ("edited", "ann")
    assert outputs(result)[0].output == "sent 3 to bob"


async def test_an_edit_fills_in_the_defaults_that_it_leaves_out() -> None:
    agent, state, [item], sent = await paused()
    state.edit(item, {"to": "bob"})
    result = await Runner.run(agent, state)
    assert sent == [("bob", 1)]
    assert '{"copies":1,"to":"bob"}' in told(result)[0]


async def test_a_response_stands_for_the_tool_which_does_not_run() -> None:
    agent, state, [item], sent = await paused()
    state.respond(item, "it was sent by hand", by="ann")
    result = await Runner.run(agent, state)
    assert sent == []
    assert told(result) == ["it was sent by hand"]
    assert (outcomes(result)[0].status, outcomes(result)[0].by) == ("responded", "ann")


@pytest.mark.parametrize("value", [{"a": [1, None]}, [], "", 0, None, False, 1.5])
async def test_a_response_can_be_any_json(value: Any) -> None:
    agent, state, [item], _ = await paused()
    state.respond(item, value)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert outputs(result)[0].output == value
    assert told(result) == [value if type(value) is str else json.dumps(value, separators=(",", ":"))]


async def test_an_edit_is_not_judged_again() -> None:
    judged: list[Any] = []

    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        judged.append(params)
        return True

    send, sent = sending(needs_approval=rule)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {"to": "bob"})
    result = await Runner.run(agent, await reloaded(agent, state))
    assert judged == [{"to": "ann", "copies": 1}]
    assert sent == [("bob", 1)]


async def test_an_empty_edit_is_an_edit() -> None:
    ran: list[int] = []

    @function_tool(needs_approval=True)
    async def wipe(rows: int = 100) -> str:
        ran.append(rows)
        return "wiped"

    agent = scripted(call("wipe", {"rows": 5}), "done", tools=[wipe])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {})
    assert state.get_interruptions() == []
    result = await Runner.run(agent, await reloaded(agent, state))
    assert ran == [100]
    assert outcomes(result)[0].status == "edited"
    assert '{"rows":100}' in told(result)[0]


async def test_an_empty_edit_of_a_tool_without_parameters_is_an_edit() -> None:
    @function_tool(needs_approval=True)
    async def ping() -> str:
        return "pong"

    agent = scripted(call("ping", "[]"), "done", tools=[ping])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {})
    result = await Runner.run(agent, await reloaded(agent, state))
    assert outcomes(result)[0].status == "edited"
    assert told(result)[0].startswith("pong")


BAD_EDITS: list[Any] = [
    {"to": 5},
    {"copies": 1},
    {"to": "x", "bcc": "eve"},
    {"to": "x", "copies": float("nan")},
    {"to": "x", "copies": float("inf")},
]


@pytest.mark.parametrize("arguments", BAD_EDITS, ids=repr)
async def test_an_edit_that_does_not_fit_is_not_recorded(arguments: Any) -> None:
    agent, state, [item], sent = await paused()
    refused(lambda: state.edit(item, arguments), InvalidArguments, state)
    refused(lambda: state.decide(item.id, {"type": "edit", "arguments": arguments}), InvalidArguments, state)
    assert state.get_interruptions() == [item]
    state.edit(item, {"to": "bob"})
    await Runner.run(agent, state)
    assert sent == [("bob", 1)]


async def test_an_edit_can_choose_another_tool_of_the_agent() -> None:
    send, sent = sending(needs_approval=True)
    draft, drafted = sending(name_override="draft")
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send, draft])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    state = result.to_state()
    refused(lambda: state.edit(item, {"to": "x"}, tool="steal"), InvalidDecision, state)
    state.edit(item, {"to": "bob"}, tool="draft")
    result = await Runner.run(agent, await reloaded(agent, state))
    assert sent == []
    assert drafted == [("bob", 1)]
    assert "draft" in told(result)[0]


async def test_what_the_person_edits_is_bound_when_it_is_decided() -> None:
    @function_tool(needs_approval=True)
    async def delete(rows: list[int]) -> str:
        return str(rows)

    agent = scripted(call("delete", {"rows": [1]}), "done", tools=[delete])
    result = await Runner.run(agent, "go")
    arguments = {"rows": [2]}
    state = result.to_state()
    state.edit(result.interruptions[0], arguments)
    arguments["rows"].append(3)
    result = await Runner.run(agent, state)
    assert outputs(result)[0].output == "[2]"


async def test_what_the_person_responds_is_bound_when_it_is_decided() -> None:
    agent, state, [item], _ = await paused()
    answer = {"rows": [2]}
    state.respond(item, answer)
    answer["rows"].append(3)
    result = await Runner.run(agent, state)
    assert outputs(result)[0].output == {"rows": [2]}


# -- deciding by id and JSON -----------------------------------------------------------------------

DECISIONS: list[tuple[Any, dict[str, Any]]] = [
    (Approve(), {"type": "approve"}),
    (Approve("fine"), {"type": "approve", "note": "fine"}),
    (Edit({"to": "bob"}), {"type": "edit", "arguments": {"to": "bob"}}),
    (Reject(), {"type": "reject"}),
    (Reject("no"), {"type": "reject", "message": "no"}),
    (Respond("sent"), {"type": "respond", "output": "sent"}),
]


@pytest.mark.parametrize(("decision", "data"), DECISIONS, ids=[str(data) for _, data in DECISIONS])
async def test_a_decision_is_the_same_as_an_object_and_as_json(decision: Any, data: dict[str, Any]) -> None:
    agent, state, [item], _ = await paused()
    saved = state.to_string()
    ends = []
    for form in (decision, data, json.loads(json.dumps(data))):
        copy = await RunState.from_string(agent, saved)
        copy.decide(item.id, form, by="ann", digest=item.digest)
        kinds = ("approved", "refused", "finished")
        [fact] = [fact for kind in kinds for fact in facts(copy, kind)]
        fact.pop("at", None)
        ends.append(fact)
        assert fact["by"] == "ann"
    assert ends[0] == ends[1] == ends[2]


async def test_an_item_of_a_result_decides_on_a_reloaded_state_and_the_other_way_round() -> None:
    agent, state, [first, second], sent = await paused(calls=2)
    loaded = await reloaded(agent, state)
    loaded.approve(first)
    again = loaded.get_interruptions()[0]
    assert again == second
    assert again is not second
    state.reject(again)
    loaded.reject(second)
    result = await Runner.run(agent, loaded)
    assert sent == [("p0", 1)]
    assert result.final_output == "done"


async def test_a_decision_on_something_else_than_what_is_asked_is_refused() -> None:
    agent, state, [item], sent = await paused()
    wrong = "0" * 64
    refused(lambda: state.decide(item.id, Approve(), digest=wrong), DigestMismatch, state)
    refused(lambda: state.decide(item.id, Approve(), digest=""), DigestMismatch, state)
    other = state.get_interruptions()[0]
    other.digest = wrong
    refused(lambda: state.approve(other), DigestMismatch, state)
    state.approve(item)
    await Runner.run(agent, state)
    assert sent == [("p0", 1)]


NOT_DECISIONS: list[Any] = [
    None,
    "approve",
    True,
    [],
    {},
    {"type": "maybe"},
    {"type": "approve", "arguments": {}},
    {"type": "edit"},
    {"type": "edit", "arguments": []},
    {"type": "edit", "arguments": "{}"},
    {"type": "edit", "arguments": None},
    {"type": "reject", "message": 5},
    {"type": "respond"},
    {"type": "approve", "note": 5},
    Approve(5),  # type: ignore[arg-type]
    Edit([]),  # type: ignore[arg-type]
    Edit({1: 2}),  # type: ignore[dict-item]
    Edit({"to": object()}),
    Reject(b"no"),  # type: ignore[arg-type]
    Respond(object()),
    Respond({1, 2}),
    Respond(float("nan")),
    Respond("\ud800"),
    Reject("\ud800"),
    Approve("\ud800"),
    Edit({"to": "\ud800"}),
    Edit({"\ud800": "x"}),
]


@pytest.mark.parametrize("decision", NOT_DECISIONS, ids=[f"{n}" for n in range(len(NOT_DECISIONS))])
async def test_what_is_no_decision_is_refused_and_nothing_is_recorded(decision: Any) -> None:
    agent, state, [item], sent = await paused()
    before = state.to_string()
    with pytest.raises((InvalidDecision, InvalidArguments)):
        state.decide(item.id, decision)
    assert state.to_string() == before
    state.approve(item)
    await Runner.run(agent, state)
    assert sent == [("p0", 1)]


@pytest.mark.parametrize("by", ["", None, 5, "\ud800"])
async def test_whoever_decides_has_a_name(by: Any) -> None:
    _, state, [item], _ = await paused()
    refused(lambda: state.approve(item, by=by), InvalidDecision, state)
    refused(lambda: state.decide(item.id, Approve(), by), InvalidDecision, state)


@pytest.mark.parametrize("item", [None, "q_1", {"id": "q_1"}, 5])
async def test_only_an_item_can_be_decided_on_by_the_four_methods(item: Any) -> None:
    _, state, _, _ = await paused()
    refused(lambda: state.approve(item), InvalidDecision, state)
    refused(lambda: state.reject(item), InvalidDecision, state)
    refused(lambda: state.edit(item, {}), InvalidDecision, state)
    refused(lambda: state.respond(item, ""), InvalidDecision, state)


@pytest.mark.parametrize("id", ["q_nothing", "", None, 5, [], {}])
async def test_an_unknown_question_is_refused(id: Any) -> None:
    _, state, _, _ = await paused()
    refused(lambda: state.decide(id, Approve()), QuestionNotFound, state)


# -- deciding again --------------------------------------------------------------------------------


@pytest.mark.parametrize(("decision", "data"), DECISIONS, ids=[str(data) for _, data in DECISIONS])
async def test_the_same_verdict_again_is_no_error_and_changes_nothing(decision: Any, data: dict[str, Any]) -> None:
    _, state, [item], _ = await paused()
    state.decide(item.id, decision, by="ann")
    before = state.to_string()
    state.decide(item.id, decision, by="ann")
    state.decide(item.id, data, by="bob")
    assert state.to_string() == before


CONFLICTS: list[Any] = [
    Approve(),
    Edit({"to": "bob"}),
    Edit({"to": "eve"}),
    Reject(),
    Reject("no"),
    Respond("sent"),
    Respond("lost"),
]


@pytest.mark.parametrize("first", CONFLICTS, ids=repr)
@pytest.mark.parametrize("second", CONFLICTS, ids=repr)
async def test_another_verdict_is_refused_with_who_decided_what(first: Any, second: Any) -> None:
    _, state, [item], _ = await paused()
    state.decide(item.id, first, by="ann")
    if first != second:
        error = refused(lambda: state.decide(item.id, second, by="bob"), AlreadyDecided, state)
        assert "ann" in str(error)


@pytest.mark.parametrize("bad", [float("nan"), {1, 2}, b"x", "\ud800"], ids=repr)
async def test_a_bad_answer_to_what_is_answered_is_refused_like_any_other(bad: Any) -> None:
    _, state, [item], _ = await paused()
    state.respond(item, "sent")
    before = state.to_string()
    with pytest.raises((AlreadyDecided, InvalidDecision)):
        state.respond(item, bad)
    assert state.to_string() == before


async def test_an_edit_that_says_the_same_in_other_words_is_the_same_verdict() -> None:
    _, state, [item], _ = await paused()
    state.edit(item, {"to": "bob", "copies": 1})
    before = state.to_string()
    state.edit(item, {"copies": 1, "to": "bob"})
    state.edit(item, {"to": "bob"})
    assert state.to_string() == before


@pytest.mark.parametrize("reload", [False, True])
async def test_a_question_of_an_earlier_turn_keeps_its_answer(reload: bool) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    old = result.interruptions[0]
    state = result.to_state()
    state.approve(old)
    result = await Runner.run(agent, state)
    state = await reloaded(agent, result.to_state()) if reload else result.to_state()
    before = state.to_string()
    state.approve(old)
    assert state.to_string() == before
    refused(lambda: state.reject(old), AlreadyDecided, state)
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert sent == [("ann", 1), ("bob", 1)]


async def test_decisions_on_a_state_do_not_change_the_result_or_another_copy() -> None:
    agent, state, [item], sent = await paused()
    copy = await reloaded(agent, state)
    copy.approve(item)
    assert state.get_interruptions() == [item]
    result = await Runner.run(agent, state)
    assert sent == []
    assert result.interruptions == [item]


# -- partial decisions -----------------------------------------------------------------------------


async def test_decided_calls_go_on_and_the_rest_wait_without_a_model_call() -> None:
    agent, state, items, sent = await paused(calls=3)
    state.approve(items[1])
    result = await Runner.run(agent, state)
    assert sent == [("p1", 1)]
    assert result.interruptions == [items[0], items[2]]
    assert asked(agent) == 1
    assert result.final_output is None
    state = await reloaded(agent, result.to_state())
    state.reject(items[2])
    result = await Runner.run(agent, state)
    assert asked(agent) == 1
    assert result.interruptions == [items[0]]
    state = result.to_state()
    state.respond(items[0], "by hand")
    result = await Runner.run(agent, state)
    assert asked(agent) == 2
    assert sent == [("p1", 1)]
    assert [outcome.status for outcome in outcomes(result)] == ["responded", "finished", "rejected"]
    calls = [item["call_id"] for item in heard(agent) if item.get("type") == "function_call"]
    assert [item["call_id"] for item in heard(agent) if item.get("type") == "function_call_output"] == calls


async def test_resuming_without_a_decision_gives_the_same_questions() -> None:
    agent, state, items, sent = await paused(calls=2)
    for _ in range(3):
        result = await Runner.run(agent, state)
        assert result.interruptions == items
        state = result.to_state()
    assert sent == []
    assert asked(agent) == 1


async def test_a_resumed_run_comes_back_with_new_interruptions() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(*[call("send", {"to": f"p{n}"}) for n in range(4)], "done", tools=[send])
    result = await ScriptedPerson([Approve(), Reject(), Edit({"to": "x"}), Respond("r")]).see_through(agent, "go")
    assert result.final_output == "done"
    assert sent == [("p0", 1), ("x", 1)]


# -- words for a rejection -------------------------------------------------------------------------


async def _rejected(config: RunConfig | None, **how: Any) -> str:
    agent, state, [item], _ = await paused()
    state.reject(item, **how)
    return told(await Runner.run(agent, state, run_config=config))[0]


def _words(given: ToolErrorFormatterArgs) -> str:
    return f"{given.kind} {given.tool_name} {given.by}"


async def _slow_words(given: ToolErrorFormatterArgs) -> str:
    return _words(given)


async def test_the_words_of_the_decision_go_before_the_formatters() -> None:
    config = RunConfig(tool_error_formatter=_words)
    assert await _rejected(config, rejection_message="mine") == "mine"
    assert await _rejected(config, rejection_message="") == ""
    assert await _rejected(config, rejection_message="mine", always_reject=True) == "mine"


@pytest.mark.parametrize("formatter", [_words, _slow_words])
async def test_the_formatters_words_go_before_the_default(formatter: Any) -> None:
    config = RunConfig(tool_error_formatter=formatter)
    assert await _rejected(config, by="ann") == "approval_rejected send ann"


async def test_the_words_of_a_grant_go_before_the_formatters() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True, rejection_message="never")
    result = await Runner.run(agent, state, run_config=RunConfig(tool_error_formatter=_words))
    assert told(result) == ["never", "never"]


async def test_a_grant_without_words_leaves_them_to_the_formatter() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True)
    result = await Runner.run(
        agent, state, run_config=RunConfig(tool_error_formatter=lambda given: f"{given.kind}: {given.call_id}")
    )
    assert told(result) == [f"approval_rejected: {item.raw_item['call_id']}" for item in outputs(result)]


def _raises(given: Any) -> str:
    raise ValueError("no words")


@pytest.mark.parametrize(
    "formatter", [_raises, lambda given: None, lambda given: 5, lambda given: b"no", lambda given: ["no"]]
)
async def test_a_formatter_without_words_leaves_the_default(formatter: Any) -> None:
    assert await _rejected(RunConfig(tool_error_formatter=formatter)) == await _rejected(None)


async def test_words_of_a_formatter_that_utf8_cannot_hold_are_replaced() -> None:
    assert await _rejected(RunConfig(tool_error_formatter=lambda given: "no\ud800")) == "no�"


async def test_the_words_are_settled_once() -> None:
    said: list[str] = []

    def words(given: ToolErrorFormatterArgs) -> str:
        said.append("x")
        return f"no {len(said)}"

    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"})], "done", tools=[send])
    config = RunConfig(tool_error_formatter=words)
    result = await Runner.run(agent, "go", run_config=config)
    state = result.to_state()
    state.reject(result.interruptions[0])
    result = await Runner.run(agent, state, run_config=config)
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state, run_config=config)
    assert told(result)[0] == "no 1"
    assert len(said) == 1


async def test_who_said_no_and_why_is_structured_after_a_reload_too() -> None:
    agent, state, [item], _ = await paused()
    state.reject(item, rejection_message="no", by="ann")
    result = await Runner.run(agent, await reloaded(agent, state))
    loaded = await reloaded(agent, result.to_state())
    loaded.add_input("and now?")
    agent.model = ScriptedModel(["fine"])
    result = await Runner.run(agent, loaded)
    outcome = outcomes(result)[0]
    assert (outcome.status, outcome.by, outcome.reason) == ("rejected", "ann", "no")


# -- turns -----------------------------------------------------------------------------------------


def looping(turns: int, **options: Any) -> tuple[Agent[Any], list[Any]]:
    """An agent that calls a tool so many times and is done."""
    send, sent = sending(**options)
    return scripted(*[call("send", {"to": f"p{n}"}) for n in range(turns)], "done", tools=[send]), sent


async def test_ten_turns_are_the_limit_if_none_is_given() -> None:
    agent, sent = looping(9)
    assert (await Runner.run(agent, "go")).final_output == "done"
    agent, sent = looping(10)
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, "go")
    assert len(sent) == 10
    assert asked(agent) == 10


async def test_a_run_that_ends_with_its_last_turn_is_done() -> None:
    agent, _ = looping(2)
    assert (await Runner.run(agent, "go", max_turns=3)).final_output == "done"


async def test_turns_count_over_the_whole_run_across_pauses() -> None:
    agent, sent = looping(5, needs_approval=True)
    result = await Runner.run(agent, "go", max_turns=3)
    for _ in range(2):
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    with pytest.raises(MaxTurnsExceeded) as caught:
        await Runner.run(agent, state)
    assert len(sent) == 3, "the approved call ran"
    assert asked(agent) == 3
    state = caught.value.state
    result = await Runner.run(agent, state, max_turns=10)
    assert asked(agent) == 4
    assert len(result.interruptions) == 1
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert asked(agent) == 5, "the limit that was given on resume is kept"


async def test_a_run_out_of_turns_needs_more_to_go_on_and_stays_usable() -> None:
    agent, _ = looping(3)
    with pytest.raises(MaxTurnsExceeded) as caught:
        await Runner.run(agent, "go", max_turns=2)
    state = caught.value.state
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, state)
    assert asked(agent) == 2
    result = await Runner.run(agent, await reloaded(agent, state), max_turns=4)
    assert result.final_output == "done"


async def test_a_limit_below_what_is_used_stops_the_run() -> None:
    agent, _ = looping(3, needs_approval=True)
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    state = result.to_state()
    state.approve(result.interruptions[0])
    with pytest.raises(MaxTurnsExceeded) as caught:
        await Runner.run(agent, state, max_turns=1)
    assert asked(agent) == 2
    result = await Runner.run(agent, caught.value.state, max_turns=9)
    assert asked(agent) == 3


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
async def test_a_limit_of_turns_is_a_whole_number_of_at_least_one(limit: Any) -> None:
    agent, state, [item], sent = await paused()
    with pytest.raises(UsageError):
        await Runner.run(agent, "go", max_turns=limit)
    state.approve(item)
    with pytest.raises(UsageError):
        await Runner.run(agent, state, max_turns=limit)
    assert (await Runner.run(agent, state)).final_output == "done"
    assert sent == [("p0", 1)]


# -- errors carry the state ------------------------------------------------------------------------


async def test_a_model_that_fails_leaves_a_state_that_asks_it_again() -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), ConnectionError("gone"), "done", tools=[send])
    with pytest.raises(ConnectionError) as caught:
        await Runner.run(agent, "go")
    state: Any = caught.value.state  # type: ignore[attr-defined]
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == "done"
    assert sent == [("ann", 1)]
    model: Any = agent.model
    assert model.requests[1].input == model.requests[2].input


async def test_a_model_that_ends_without_a_reply_is_an_error_with_a_state() -> None:
    class Silent:
        name = "silent"

        async def stream(self, request: Any) -> Any:
            yield {"type": "response.output_text.delta", "delta": "hel"}

    agent: Agent[Any] = Agent("agent", model=Silent())
    with pytest.raises(ModelFailed) as caught:
        await Runner.run(agent, "go")
    agent.model = ScriptedModel(["hello"])
    with pytest.warns(UserWarning, match="model"):
        state = await reloaded(agent, caught.value.state)
    assert (await Runner.run(agent, state)).final_output == "hello"


async def test_a_tool_error_raised_to_the_user_is_recorded_and_the_body_does_not_run_again() -> None:
    ran: list[int] = []

    @function_tool(failure_error_function=None, needs_approval=True)
    async def pay(amount: int) -> str:
        ran.append(amount)
        raise ValueError("card declined")

    agent = scripted(call("pay", {"amount": 5}), "sorry", tools=[pay])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    with pytest.raises(ValueError, match="card declined") as caught:
        await Runner.run(agent, state)
    left: Any = caught.value.state  # type: ignore[attr-defined]
    result = await Runner.run(agent, await reloaded(agent, left))
    assert result.interruptions == []
    assert ran == [5]
    assert "card declined" in told(result)[0]
    assert outcomes(result)[0].status == "failed"
    assert result.final_output == "sorry"


async def test_one_error_does_not_lose_what_the_other_calls_gave() -> None:
    go = asyncio.Event()
    ran: list[str] = []

    @function_tool(failure_error_function=None)
    async def fail() -> str:
        ran.append("fail")
        go.set()
        raise ValueError("no")

    @function_tool
    async def slow() -> str:
        await go.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        ran.append("slow")
        return "slow result"

    agent = scripted([call("slow"), call("fail")], "done", tools=[slow, fail])
    with pytest.raises(ValueError, match="no") as caught:
        await soon(Runner.run(agent, "go"))
    left: Any = caught.value.state  # type: ignore[attr-defined]
    result = await Runner.run(agent, await reloaded(agent, left))
    assert sorted(ran) == ["fail", "slow"]
    assert told(result)[0] == "slow result"


async def test_what_had_not_begun_when_another_call_failed_does_not_begin_and_can_go_on() -> None:
    sent: list[str] = []

    @tool_input_guardrail
    async def wait(data: Any) -> ToolGuardrailFunctionOutput:
        for _ in range(20):
            await asyncio.sleep(0)
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[wait])
    async def send() -> str:
        sent.append("mail")
        return "sent"

    @function_tool(failure_error_function=None)
    async def burn() -> str:
        raise OSError("fire")

    agent = scripted([call("send"), call("burn")], "done", tools=[send, burn])
    with pytest.raises(OSError, match="fire") as caught:
        await soon(Runner.run(agent, "go"))
    assert sent == []
    result = await Runner.run(agent, await reloaded(agent, caught.value.state))  # type: ignore[attr-defined]
    assert result.final_output == "done"
    assert sent == ["mail"]


async def test_of_calls_that_wait_for_room_none_begins_once_another_is_known_to_have_failed() -> None:
    ran: list[int] = []

    @function_tool(failure_error_function=None)
    async def burn(n: int) -> str:
        ran.append(n)
        await asyncio.sleep(0)
        raise OSError("fire")

    agent = scripted([call("burn", {"n": n}) for n in range(6)], "done", tools=[burn])
    with pytest.raises(OSError, match="fire"):
        await Runner.run(agent, "go", run_config=RunConfig(max_parallel_tools=1))
    assert len(ran) <= 2


async def test_a_frozen_exception_reaches_the_user_as_itself_and_with_a_state() -> None:
    @dataclass(frozen=True)
    class Declined(Exception):
        amount: int

    @function_tool(failure_error_function=None)
    async def pay(amount: int) -> str:
        raise Declined(amount)

    agent = scripted(call("pay", {"amount": 5}), "sorry", tools=[pay])
    with pytest.raises(Declined) as caught:
        await Runner.run(agent, "go")
    result = await Runner.run(agent, caught.value.state)  # type: ignore[attr-defined]
    assert result.final_output == "sorry"


async def test_max_turns_exceeded_carries_a_state_that_can_be_saved() -> None:
    agent, sent = looping(3)
    with pytest.raises(MaxTurnsExceeded) as caught:
        await Runner.run(agent, "go", max_turns=1)
    result = await Runner.run(agent, await reloaded(agent, caught.value.state), max_turns=9)
    assert result.final_output == "done"
    assert len(sent) == 3


async def test_a_run_cancelled_while_the_model_thinks_leaves_a_state_that_asks_it_again() -> None:
    thinking, answer = asyncio.Event(), asyncio.Event()

    async def think(request: Any) -> str:
        thinking.set()
        await answer.wait()
        return "never said"

    agent = scripted(think, "done")
    state = await stopped(Runner.run(agent, "go"), thinking)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == "done"


async def test_a_run_cancelled_while_a_rule_judges_leaves_a_state_that_judges_again() -> None:
    judging = asyncio.Event()
    judged: list[str] = []

    async def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        judged.append(call_id)
        if len(judged) == 1:
            judging.set()
            await asyncio.Event().wait()
        return False

    send, sent = sending(needs_approval=rule)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    state = await stopped(Runner.run(agent, "go"), judging)
    assert sent == []
    result = await soon(Runner.run(agent, await reloaded(agent, state)))
    assert result.final_output == "done"
    assert sent == [("ann", 1)]


async def test_a_failing_is_enabled_or_instruction_leaves_a_state() -> None:
    broken = True

    def enabled(ctx: Any, agent: Any) -> bool:
        if broken:
            raise LookupError("flags are down")
        return True

    send, sent = sending(is_enabled=enabled)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    with pytest.raises(LookupError) as caught:
        await Runner.run(agent, "go")
    broken = False
    result = await Runner.run(agent, caught.value.state)  # type: ignore[attr-defined]
    assert result.final_output == "done"
    assert sent == [("ann", 1)]


async def test_an_error_before_anything_began_has_no_state() -> None:
    with pytest.raises(InvalidInput) as caught:
        await Runner.run(scripted("done"), 5)  # type: ignore[arg-type]
    assert caught.value.state is None


async def test_a_result_as_input_and_a_dict_as_run_config_are_refused_in_words() -> None:
    agent = scripted("hello", "never")
    result = await Runner.run(agent, "go")
    with pytest.raises(InvalidInput, match="or a RunState to resume; got <RunResult"):
        await Runner.run(agent, result)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="run_config must be a RunConfig"):
        await Runner.run(agent, "go", run_config={"release": "batch"})  # type: ignore[arg-type]


async def test_an_agent_without_a_model_can_be_given_one_and_go_on() -> None:
    agent: Agent[Any] = Agent("agent")
    with pytest.raises(UsageError) as caught:
        await Runner.run(agent, "go")
    result = await Runner.run(agent, caught.value.state, run_config=RunConfig(model=ScriptedModel(["hello"])))
    assert result.final_output == "hello"


# -- more input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("more", ["wait", [{"role": "user", "content": "wait"}]])
async def test_input_added_to_a_paused_run_comes_after_the_outputs_of_its_calls(reload: bool, more: Any) -> None:
    agent, state, [item], _ = await paused()
    state.add_input(more)
    state.approve(item)
    state = await reloaded(agent, state) if reload else state
    result = await Runner.run(agent, state)
    kinds = [item.get("type", item.get("role")) for item in heard(agent)]
    assert kinds == ["user", "function_call", "function_call_output", "user"]
    assert heard(agent)[-1] == {"role": "user", "content": "wait"}
    assert result.final_output == "done"
    assert result.input == "go"


async def test_input_added_before_all_is_decided_waits_with_the_rest() -> None:
    agent, state, [first, second], _ = await paused(calls=2)
    state.add_input("hurry")
    state.approve(first)
    result = await Runner.run(agent, state)
    assert asked(agent) == 1
    assert result.interruptions == [second]
    state = result.to_state()
    state.approve(second)
    state.add_input("hurry more")
    result = await Runner.run(agent, state)
    assert asked(agent) == 2
    assert [item["content"] for item in heard(agent) if item.get("role") == "user"] == ["go", "hurry", "hurry more"]


@pytest.mark.parametrize("reload", [False, True])
async def test_a_finished_run_with_new_input_can_be_resumed(reload: bool) -> None:
    agent = scripted("hello", "again")
    result = await Runner.run(agent, "go")
    state = result.to_state()
    with pytest.raises(RunFinished):
        await Runner.run(agent, state)
    state.add_input("and?")
    state = await reloaded(agent, state) if reload else state
    second = await Runner.run(agent, state)
    assert second.final_output == "again"
    assert result.final_output == "hello"
    assert [item.get("content") for item in heard(agent) if item.get("role") == "user"] == ["go", "and?"]
    assert len(second.raw_responses) == 2


async def test_turns_count_on_when_a_finished_run_goes_on() -> None:
    agent = scripted("one", "two", "three")
    state = (await Runner.run(agent, "go", max_turns=2)).to_state()
    state.add_input("more")
    state = (await Runner.run(agent, state)).to_state()
    state.add_input("more")
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, state)
    result = await Runner.run(agent, state, max_turns=3)
    assert result.final_output == "three"


@pytest.mark.parametrize("bad", [5, None, ("a",), {"role": "user"}, ["a"], "\ud800", [{"content": "\ud800"}], [{1, 2}]])
async def test_input_that_cannot_be_recorded_is_refused(bad: Any) -> None:
    agent, state, [item], _ = await paused()
    refused(lambda: state.add_input(bad), InvalidInput, state)
    with pytest.raises(InvalidInput):
        await Runner.run(agent, bad)
    state.approve(item)
    assert (await Runner.run(agent, state)).final_output == "done"


async def test_what_is_done_to_the_input_afterwards_changes_nothing() -> None:
    given = [{"role": "user", "content": "go"}]
    agent, state, [item], _ = await paused()
    state.add_input(given)
    given[0]["content"] = "stop"
    state.approve(item)
    await Runner.run(agent, state)
    assert heard(agent)[-1]["content"] == "go"


# -- provider's call ids ---------------------------------------------------------------------------


async def test_call_ids_that_repeat_across_turns_are_calls_of_their_own() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(
        call("send", {"to": "ann"}, "call_0"),
        call("send", {"to": "ann"}, "call_0"),
        call("send", {"to": "bob"}, "call_0"),
        "done",
        tools=[send],
    )
    result = await ScriptedPerson([Approve(), Approve(), Reject()]).see_through(agent, "go")
    assert result.final_output == "done"
    assert sent == [("ann", 1), ("ann", 1)]
    assert [outcome.status for outcome in outcomes(result)] == ["finished", "finished", "rejected"]


async def test_call_ids_that_repeat_inside_a_turn_are_calls_of_their_own() -> None:
    send, sent = sending(needs_approval=True)
    calls = [call("send", {"to": "ann"}, "x"), call("send", {"to": "bob"}, "x"), call("send", {"to": "ann"}, "x")]
    agent = scripted(calls, "done", tools=[send])
    result = await Runner.run(agent, "go")
    first, second, third = result.interruptions
    state = await reloaded(agent, result.to_state())
    state.reject(first)
    state.approve(second)
    result = await Runner.run(agent, state)
    assert sent == [("bob", 1)]
    assert result.interruptions == [third]
    state = await reloaded(agent, result.to_state())
    state.edit(third, {"to": "eve"})
    result = await Runner.run(agent, state)
    assert sent == [("bob", 1), ("eve", 1)]
    assert [outcome.status for outcome in outcomes(result)] == ["rejected", "finished", "edited"]


@pytest.mark.parametrize("id", ["", "ü" * 10, "a b\nc", "x" * 5_000])
async def test_a_call_id_can_be_any_text(id: str) -> None:
    send, sent = sending(needs_approval=True)

    def reply(request: Any) -> list[dict[str, Any]]:
        return [{"type": "function_call", "call_id": id, "name": "send", "arguments": '{"to":"ann"}'}]

    agent = scripted(reply, "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert sent == [("ann", 1)]
    assert result.final_output == "done"
    assert [item["call_id"] for item in heard(agent)[1:]] == [id, id], "the output names the call that it is of"


# -- states are used once --------------------------------------------------------------------------


async def test_a_state_can_be_resumed_once() -> None:
    agent, state, [item], sent = await paused()
    state.approve(item)
    await Runner.run(agent, state)
    for again in (
        lambda: state.approve(item),
        lambda: state.add_input("x"),
        lambda: state.revoke("g"),
        lambda: state.to_string(),
    ):
        with pytest.raises(StateSpent):
            again()
    with pytest.raises(StateSpent):
        await Runner.run(agent, state)
    with pytest.raises(StateSpent):
        Runner.run_streamed(agent, state)
    assert sent == [("p0", 1)]


async def test_of_two_that_resume_one_state_at_once_one_wins() -> None:
    agent, state, [item], sent = await paused()
    state.approve(item)
    ends = await asyncio.gather(Runner.run(agent, state), Runner.run(agent, state), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["RunResult", "StateSpent"]
    assert sent == [("p0", 1)]


async def test_a_body_can_see_who_decided_on_its_siblings() -> None:
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    async def look(ctx: ToolContext[Any]) -> str:
        seen.extend(ctx.is_tool_approved("look", id) for id in ("a", "b", "c", "d", "nothing"))
        return "looked"

    calls = [call("look", {}, "a"), call("look", {}, "b"), call("look", {}, "c"), call("look", "[]", "d")]
    agent = scripted(calls, "done", tools=[look])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.reject(result.interruptions[1])
    await Runner.run(agent, state)
    assert seen == [True, False, None, None, None]
