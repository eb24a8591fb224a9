"""The gate: what runs at once, what is refused, what a person is asked."""

import asyncio
import functools
from dataclasses import replace
from typing import Any

import pytest

from assentry import (
    Agent,
    Edit,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolErrorFormatterArgs,
    function_tool,
)
from assentry.definitions.tool import AlwaysAsk
from assentry.errors import GrantNotFound, InvalidArguments, InvalidDecision, NotPending, ToolNotFound
from assentry.testing import ScriptedModel, ScriptedPerson, call
from tests.runtime.support import asked, facts, heard, outcomes, refused, reloaded, scripted, sending, soon, told

# -- rules -----------------------------------------------------------------------------------------


async def test_a_tool_needs_no_approval_unless_it_says_so() -> None:
    send, sent = sending()
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    assert result.interruptions == []
    assert sent == [("ann", 1)]
    assert result.final_output == "done"


async def test_a_rule_of_true_always_asks() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await Runner.run(agent, "go")
    assert [item.name for item in result.interruptions] == ["send"]
    assert result.final_output is None
    assert sent == []
    assert asked(agent) == 1


class _Rule:
    def __init__(self, answer: bool) -> None:
        self.answer = answer

    def __call__(self, ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        return self.answer


def _sync_rule(answer: bool) -> Any:
    return lambda ctx, params, call_id: answer


def _async_rule(answer: bool) -> Any:
    async def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        await asyncio.sleep(0)
        return answer

    return rule


def _partial_rule(answer: bool) -> Any:
    def rule(given: bool, ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        return given

    return functools.partial(rule, answer)


@pytest.mark.parametrize("kind", [_sync_rule, _async_rule, _partial_rule, _Rule])
@pytest.mark.parametrize("needed", [True, False])
async def test_a_callable_rule_says_whether_a_person_is_asked(kind: Any, needed: bool) -> None:
    send, sent = sending(needs_approval=kind(needed))
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    assert len(result.interruptions) == needed
    assert len(sent) == (not needed)


async def test_a_rule_that_always_asks_may_say_why() -> None:
    send, _ = sending(needs_approval=AlwaysAsk("The server gives no hints."))
    result = await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go")
    assert result.interruptions[0].reason == "The server gives no hints."


async def test_a_rule_gets_the_context_the_canonical_arguments_and_the_providers_call_id() -> None:
    got: list[Any] = []

    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        got.append((ctx, params, call_id))
        return False

    send, _ = sending(needs_approval=rule)
    agent = scripted(call("send", '{ "to" : "ann" }', "call_abc"), "done", tools=[send])
    await Runner.run(agent, "go", context={"user": 7})
    [(ctx, params, call_id)] = got
    assert isinstance(ctx, RunContextWrapper)
    assert ctx.context == {"user": 7}
    assert params == {"to": "ann", "copies": 1}
    assert type(params) is dict
    assert call_id == "call_abc"


async def test_a_rule_judges_by_its_arguments() -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["copies"] > 1)
    calls = [call("send", {"to": "ann"}), call("send", {"to": "bob", "copies": 9})]
    result = await Runner.run(scripted(calls, tools=[send]), "go")
    assert sent == [("ann", 1)]
    assert [item.arguments for item in result.interruptions] == ['{"copies":9,"to":"bob"}']


@pytest.mark.parametrize("needed", [True, False])
async def test_what_a_rule_does_to_its_arguments_changes_nothing(needed: bool) -> None:
    ran: list[Any] = []

    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        params["rows"].append(666)
        params["name"] = "evil"
        params["more"] = 1
        return needed

    @function_tool(needs_approval=rule)
    async def delete(name: str, rows: list[int]) -> str:
        ran.append((name, rows))
        return "ok"

    agent = scripted(call("delete", {"name": "a", "rows": [1]}), "done", tools=[delete])
    result = await Runner.run(agent, "go")
    if needed:
        assert result.interruptions[0].arguments == '{"name":"a","rows":[1]}'
        state = result.to_state()
        state.approve(result.interruptions[0])
        await Runner.run(agent, state)
    assert ran == [("a", [1])]


async def test_what_a_body_does_to_its_arguments_does_not_change_what_was_approved() -> None:
    @function_tool(needs_approval=True)
    async def delete(rows: list[int]) -> str:
        rows.append(2)
        return str(rows)

    agent = scripted(call("delete", {"rows": [1]}), call("delete", {"rows": [1]}), "done", tools=[delete])
    result = await ScriptedPerson([Edit({"rows": [5]}), Edit({"rows": [5]})]).see_through(agent, "go")
    assert [item.output for item in result.new_items if item.type == "tool_call_output_item"] == ["[5, 2]", "[5, 2]"]


async def test_a_rule_is_asked_once_for_each_call_and_not_again_on_resume() -> None:
    judged: list[str] = []

    async def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        judged.append(call_id)
        return True

    send, sent = sending(needs_approval=rule)
    agent = scripted(call("send", {"to": "ann"}, "one"), call("send", {"to": "bob"}, "two"), "done", tools=[send])
    result = await Runner.run(agent, "go")
    result = await Runner.run(agent, await reloaded(agent, result.to_state()))
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert judged == ["one", "two"]
    assert sent == [("ann", 1)]


# -- unknown and disabled tools --------------------------------------------------------------------


async def test_a_call_of_an_unknown_tool_is_refused_and_the_model_is_told() -> None:
    send, sent = sending()
    agent = scripted([call("steal", {"x": 1}), call("send", {"to": "ann"})], "sorry", tools=[send])
    result = await Runner.run(agent, "go")
    assert result.interruptions == []
    assert sent == [("ann", 1)]
    assert "steal" in told(result)[0]
    assert outcomes(result)[0].status == "refused"
    assert outcomes(result)[0].by == "runtime"
    assert heard(agent)[-2]["output"] == told(result)[0]
    assert result.final_output == "sorry"


async def test_an_unknown_tool_can_be_raised_instead_and_the_run_can_still_go_on() -> None:
    send, sent = sending()
    agent = scripted([call("steal"), call("send", {"to": "ann"})], "sorry", tools=[send])
    config = RunConfig(tool_not_found="raise")
    with pytest.raises(ToolNotFound, match="steal") as caught:
        await Runner.run(agent, "go", run_config=config)
    assert asked(agent) == 1
    result = await Runner.run(agent, caught.value.state, run_config=config)
    assert result.final_output == "sorry"
    assert "steal" in told(result)[0]
    assert sent == [("ann", 1)]


def _not_now(ctx: Any, agent: Any) -> bool:
    return False


async def _not_now_async(ctx: Any, agent: Any) -> bool:
    return False


@pytest.mark.parametrize("enabled", [False, _not_now, _not_now_async])
@pytest.mark.parametrize("rule", [True, False])
async def test_a_disabled_tool_is_not_offered_and_a_call_of_it_is_refused(enabled: Any, rule: bool) -> None:
    send, sent = sending(is_enabled=enabled, needs_approval=rule)
    model = ScriptedModel([call("send", {"to": "ann"}), "sorry"])
    result = await Runner.run(Agent("agent", tools=[send], model=model), "go")
    assert list(model.requests[0].tools) == []
    assert result.interruptions == []
    assert sent == []
    assert outcomes(result)[0].status == "refused"
    with pytest.raises(ToolNotFound):
        await Runner.run(
            scripted(call("send", {"to": "ann"}), tools=[send]), "go", run_config=RunConfig(tool_not_found="raise")
        )


async def test_whether_a_tool_is_enabled_is_settled_each_time_the_model_is_asked() -> None:
    seen: list[Any] = []

    def enabled(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
        seen.append(agent.name)
        return bool(ctx.context["on"])

    switch = {"on": True}
    send, sent = sending(is_enabled=enabled)

    @function_tool
    async def turn_off() -> str:
        switch["on"] = False
        return "off"

    calls = [call("send", {"to": "ann"}), call("turn_off"), call("send", {"to": "bob"})]
    agent = scripted(*calls, "done", tools=[send, turn_off])
    result = await Runner.run(agent, "go", context=switch)
    assert sent == [("ann", 1)]
    assert outcomes(result)[-1].status == "refused"
    assert set(seen) == {"agent"}


async def test_a_tool_disabled_while_the_run_was_paused_does_not_run_when_it_is_called_again() -> None:
    send, sent = sending(
        needs_approval=lambda ctx, params, call_id: params["to"] == "ann",
        is_enabled=lambda ctx, agent: ctx.context["on"],
    )
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go", context={"on": True})
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state, context={"on": False})
    assert sent == [("ann", 1)]
    assert outcomes(result)[-1].status == "refused"


# -- arguments that cannot run ---------------------------------------------------------------------

BAD = {
    "truncated": '{"to": "ann"',
    "text after it": '{"to": "ann"} and more',
    "prose": "please send it to ann",
    "an array": '["ann"]',
    "a string": '"ann"',
    "a number": "1",
    "a boolean": "true",
    "null": "null",
    "NaN": '{"to": "ann", "copies": NaN}',
    "Infinity": '{"to": "ann", "copies": Infinity}',
    "minus Infinity": '{"to": "ann", "copies": -Infinity}',
    "a number that overflows": '{"to": "ann", "copies": 1e999}',
    "a negative number that overflows": '{"to": "ann", "copies": -1e999}',
    "an integer of ten thousand digits": '{"to": "ann", "copies": %s}' % ("9" * 10_000),
    "a key twice": '{"to": "ann", "to": "bob"}',
    "a key twice, spelled differently": '{"to": "ann", "\\u0074o": "bob"}',
    "a key twice, deeper": '{"to": "ann", "copies": {"a": 1, "a": 2}}',
    "half a surrogate pair": '{"to": "\\ud800"}',
    "half a surrogate pair in a key": '{"to": "ann", "\\udfff": 1}',
    "a parameter missing": '{"copies": 1}',
    "a parameter of another type": '{"to": 7}',
    "a parameter nobody knows": '{"to": "ann", "bcc": "eve"}',
    "blank, though something is required": "",
    "white space": " \n\t",
    "nested too deeply": '{"to": ' + "[" * 100_000 + "]" * 100_000 + "}",
}

bad_arguments = pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())


@bad_arguments
async def test_bad_arguments_to_a_tool_nobody_is_asked_about_are_refused_and_the_model_is_told(text: str) -> None:
    send, sent = sending()
    agent = scripted(call("send", text), "sorry", tools=[send])
    result = await Runner.run(agent, "go")
    assert result.interruptions == []
    assert sent == []
    assert outcomes(result)[0].status == "refused"
    assert outcomes(result)[0].by == "runtime"
    assert "did not run" in told(result)[0]
    assert len(told(result)[0]) < 1000
    assert result.final_output == "sorry"


@bad_arguments
@pytest.mark.parametrize("callable_rule", [False, True])
async def test_bad_arguments_to_a_gated_tool_are_asked_about_with_the_reason(text: str, callable_rule: bool) -> None:
    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        raise AssertionError("a rule does not judge what it cannot read")

    send, sent = sending(needs_approval=rule if callable_rule else True)
    agent = scripted(call("send", text), "fine", tools=[send])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert "cannot run" in item.reason
    assert "rule does not judge" not in item.reason
    assert len(item.reason) < 1000
    assert set(item.allowed) == {"edit", "reject", "respond"}
    state = await reloaded(agent, result.to_state())
    refused(lambda: state.approve(item), InvalidDecision, state)
    refused(lambda: state.approve(item, always_approve=True), InvalidDecision, state)
    error = refused(lambda: state.edit(item, {"to": 5}), InvalidArguments, state)
    assert isinstance(error, InvalidDecision)
    assert str(error).startswith('The arguments of this edit do not fit send: "to": ')
    state.edit(item, {"to": "bob"})
    result = await Runner.run(agent, state)
    assert sent == [("bob", 1)]
    assert result.final_output == "fine"


@bad_arguments
async def test_arguments_that_cannot_be_parsed_are_shown_as_the_model_wrote_them(text: str) -> None:
    send, _ = sending(needs_approval=True)
    result = await Runner.run(scripted(call("send", text), tools=[send]), "go")
    [item] = result.interruptions
    readable = {
        '{"copies": 1}': '{"copies":1}',
        '{"to": 7}': '{"copies":1,"to":7}',
        '{"to": "ann", "bcc": "eve"}': '{"bcc":"eve","copies":1,"to":"ann"}',
    }
    assert item.arguments == readable.get(text, text)
    assert item.raw_item["arguments"] == text


async def test_a_description_of_arguments_that_cannot_be_parsed_gets_their_text() -> None:
    send, _ = sending(needs_approval=True)
    tool = replace(send, describe=lambda ctx, args, call_id: f"It sends {args}.")
    result = await Runner.run(scripted(call("send", '{"to": '), tools=[tool]), "go")
    [asks] = facts(result.to_state(), "asked")
    assert asks["prompt"] == "It sends {'raw': '{\"to\": '}."
    assert "description" not in asks["why"]


@pytest.mark.parametrize("verdict", ["reject", "respond"])
async def test_bad_arguments_can_be_rejected_or_answered(verdict: str) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", "{"), "fine", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    if verdict == "reject":
        state.reject(result.interruptions[0], rejection_message="say it in JSON")
    else:
        state.respond(result.interruptions[0], "say it in JSON")
    result = await Runner.run(agent, state)
    assert told(result) == ["say it in JSON"]
    assert sent == []


@pytest.mark.parametrize("text", ["", " \n\t", "{}"])
@pytest.mark.parametrize("gated", [True, False])
async def test_blank_arguments_mean_none_where_none_are_required(text: str, gated: bool) -> None:
    ran: list[int] = []
    judged: list[Any] = []

    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        judged.append(params)
        return gated

    @function_tool(needs_approval=rule)
    async def count(upto: int = 3) -> str:
        ran.append(upto)
        return "counted"

    agent = scripted(call("count", text), "done", tools=[count])
    result = await Runner.run(agent, "go")
    if gated:
        assert result.interruptions[0].arguments == '{"upto":3}'
        assert "approve" in result.interruptions[0].allowed
        state = await reloaded(agent, result.to_state())
        state.approve(result.interruptions[0])
        result = await Runner.run(agent, state)
    assert ran == [3]
    assert judged == [{"upto": 3}]
    assert result.final_output == "done"


async def test_blank_arguments_to_a_tool_without_parameters_run() -> None:
    @function_tool
    async def ping() -> str:
        return "pong"

    result = await Runner.run(scripted(call("ping", ""), "done", tools=[ping]), "go")
    assert told(result) == ["pong"]


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, 2**200, -(2**63) - 1])
async def test_a_whole_number_of_any_size_is_shown_and_run_as_it_is(number: int) -> None:
    @function_tool(needs_approval=True)
    async def refund(order: int) -> str:
        return str(order)

    agent = scripted(call("refund", f'{{"order": {number}}}'), "done", tools=[refund])
    result = await Runner.run(agent, "go")
    assert result.interruptions[0].arguments == f'{{"order":{number}}}'
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert told(result) == [str(number)]


# -- rules that cannot judge -----------------------------------------------------------------------


class _Truthy:
    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class _Falsy(_Unspeakable):
    def __bool__(self) -> bool:
        return False


NOT_A_BOOL = [1, 0, None, "yes", "", [], {"approve": False}, 0.0, _Truthy(), _Falsy()]


@pytest.mark.parametrize("answer", NOT_A_BOOL, ids=lambda answer: type(answer).__name__)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_rule_that_gives_no_bool_means_that_a_person_is_asked(answer: Any, is_async: bool) -> None:
    async def slow(ctx: Any, params: dict[str, Any], call_id: str) -> Any:
        return answer

    def quick(ctx: Any, params: dict[str, Any], call_id: str) -> Any:
        return answer

    send, sent = sending(needs_approval=slow if is_async else quick)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert "neither True nor False" in item.reason
    assert set(item.allowed) == {"approve", "edit", "reject", "respond"}
    assert sent == []
    state = await reloaded(agent, result.to_state())
    state.approve(item)
    await Runner.run(agent, state)
    assert sent == [("ann", 1)]


@pytest.mark.parametrize(
    "error",
    [KeyError("team"), ValueError("no such team"), StopIteration(), RecursionError(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_rule_that_raises_means_that_a_person_is_asked(error: BaseException, is_async: bool) -> None:
    async def slow(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        raise error

    def quick(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        raise error

    send, sent = sending(needs_approval=slow if is_async else quick)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await soon(Runner.run(agent, "go"))
    [item] = result.interruptions
    assert "rule" in item.reason
    assert set(item.allowed) == {"approve", "edit", "reject", "respond"}
    assert sent == []
    state = await reloaded(agent, result.to_state())
    state.approve(item)
    await Runner.run(agent, state)
    assert sent == [("ann", 1)]


@pytest.mark.parametrize("error", [_Unspeakable(), ValueError("\ud800")], ids=["no words", "half a surrogate pair"])
async def test_an_error_that_cannot_be_written_down_still_means_that_a_person_is_asked(error: Exception) -> None:
    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        raise error

    send, _ = sending(needs_approval=rule)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert type(error).__name__ in item.reason
    state = await reloaded(agent, result.to_state())
    assert [again.id for again in state.get_interruptions()] == [item.id]


async def test_a_rule_of_the_wrong_arity_means_that_a_person_is_asked() -> None:
    send, sent = sending(needs_approval=lambda params: False)
    result = await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go")
    assert "TypeError" in result.interruptions[0].reason
    assert sent == []


async def test_one_rule_that_fails_does_not_stop_the_others() -> None:
    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        if params["to"] == "eve":
            raise ValueError
        return False

    send, sent = sending(needs_approval=rule)
    calls = [call("send", {"to": to}) for to in ("ann", "eve", "bob")]
    result = await Runner.run(scripted(calls, tools=[send]), "go")
    assert sent == [("ann", 1), ("bob", 1)]
    assert len(result.interruptions) == 1


# -- code that decides -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("approve", [True, False])
async def test_code_can_decide_in_a_persons_place(is_async: bool, approve: bool) -> None:
    seen: list[Any] = []

    def decide(ctx: Any, item: Any) -> Any:
        seen.append((ctx, item))
        return {"approve": approve, "reason": "by the book"}

    async def decide_later(ctx: Any, item: Any) -> Any:
        return decide(ctx, item)

    send, sent = sending(needs_approval=True, on_approval=decide_later if is_async else decide)
    agent = scripted(call("send", {"to": "ann"}, "abc"), "done", tools=[send])
    result = await Runner.run(agent, "go", context={"user": 7})
    [(ctx, item)] = seen
    assert ctx.context == {"user": 7}
    assert (item.name, item.call_id, item.arguments) == ("send", "abc", '{"copies":1,"to":"ann"}')
    assert item.agent is agent
    assert result.interruptions == []
    assert result.final_output == "done"
    if approve:
        assert sent == [("ann", 1)]
        [fact] = facts(result.to_state(), "approved")
    else:
        assert sent == []
        assert told(result) == ["by the book"]
        assert outcomes(result)[0].status == "rejected"
        assert outcomes(result)[0].reason == "by the book"
        [fact] = facts(result.to_state(), "refused")
    assert fact["by"].startswith("code:")
    assert "decide" in fact["by"]


async def test_code_that_rejects_without_a_reason_leaves_the_words_to_the_default() -> None:
    send, sent = sending(needs_approval=True, on_approval=lambda ctx, item: {"approve": False})
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    assert sent == []
    assert "not approved" in told(result)[0]


async def test_code_is_not_asked_where_nobody_is() -> None:
    def decide(ctx: Any, item: Any) -> Any:
        raise AssertionError("nobody was to be asked")

    send, sent = sending(needs_approval=lambda ctx, params, call_id: False, on_approval=decide)
    await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    assert sent == [("ann", 1)]


MALFORMED = [
    None,
    True,
    "yes",
    {},
    {"approve": 1},
    {"approve": "yes"},
    {"approve": None},
    {"reason": "fine"},
    ["approve"],
    {"approve": True, "reason": 5},
    {"approve": False, "reason": ["no"]},
]


@pytest.mark.parametrize("answer", MALFORMED, ids=repr)
async def test_anything_else_that_code_gives_is_an_interruption_with_that_reason(answer: Any) -> None:
    send, sent = sending(needs_approval=True, on_approval=lambda ctx, item: answer)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert repr(answer) in item.reason
    assert sent == []
    state = await reloaded(agent, result.to_state())
    state.approve(item)
    await Runner.run(agent, state)
    assert sent == [("ann", 1)]


@pytest.mark.parametrize(
    "error",
    [ValueError("no idea"), _Unspeakable(), ValueError("\ud800"), asyncio.CancelledError()],
    ids=["ValueError", "no words", "half a surrogate pair", "CancelledError"],
)
async def test_code_that_raises_is_an_interruption_with_that_reason(error: BaseException) -> None:
    def decide(ctx: Any, item: Any) -> Any:
        raise error

    send, sent = sending(needs_approval=True, on_approval=decide)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await soon(Runner.run(agent, "go"))
    assert type(error).__name__ in result.interruptions[0].reason
    assert sent == []
    await reloaded(agent, result.to_state())


@pytest.mark.parametrize("approve", [True, False])
async def test_a_reason_that_utf8_cannot_hold_does_not_make_the_run_unsavable(approve: bool) -> None:
    send, _ = sending(needs_approval=True, on_approval=lambda ctx, item: {"approve": approve, "reason": "\ud800!"})
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    result.to_state().to_string()


async def test_code_cannot_approve_what_cannot_run() -> None:
    send, sent = sending(needs_approval=True, on_approval=lambda ctx, item: {"approve": True})
    result = await Runner.run(scripted(call("send", "[]"), tools=[send]), "go")
    [item] = result.interruptions
    assert set(item.allowed) == {"edit", "reject", "respond"}
    assert sent == []


async def test_code_cannot_change_what_runs_through_the_item_it_is_shown() -> None:
    def decide(ctx: Any, item: Any) -> Any:
        item.arguments = '{"to":"eve","copies":99}'
        item.raw_item["arguments"] = item.arguments
        return {"approve": True}

    send, sent = sending(needs_approval=True, on_approval=decide)
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    assert sent == [("ann", 1)]
    assert result.new_items[0].raw_item["arguments"] == '{"to": "ann"}'


# -- grants ----------------------------------------------------------------------------------------


async def test_always_approve_holds_for_later_calls_of_the_tool() -> None:
    send, sent = sending(needs_approval=True)
    other, others = sending(needs_approval=True, name_override="other")
    calls = [call("send", {"to": to}) for to in ("ann", "bob")]
    agent = scripted(*calls, call("other", {"to": "eve"}), tools=[send, other])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True, by="ann")
    result = await Runner.run(agent, state)
    assert sent == [("ann", 1), ("bob", 1)]
    assert others == []
    assert [item.name for item in result.interruptions] == ["other"]
    grant = result.to_state().grants()[0]
    assert (grant.agent, grant.tool, grant.verdict, grant.by) == ("agent", "send", "approve", "ann")
    by = facts(result.to_state(), "approved")[1]
    assert grant.id in by["by"]


async def test_always_reject_holds_for_later_calls_with_its_words() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True, rejection_message="no mail today", by="ann")
    result = await Runner.run(agent, state)
    assert sent == []
    assert told(result) == ["no mail today", "no mail today"]
    assert [outcome.status for outcome in outcomes(result)] == ["rejected", "rejected"]
    assert result.to_state().grants()[0].message == "no mail today"


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_question_that_is_settled_takes_no_grant(verdict: str) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    decide = getattr(state, verdict)
    decide(result.interruptions[0])
    with pytest.raises(NotPending, match="was decided before; no grant was given"):
        decide(result.interruptions[0], **{f"always_{verdict}": True})
    assert state.grants() == []
    result = await Runner.run(agent, state)
    assert len(result.interruptions) == 1 and len(sent) == (1 if verdict == "approve" else 0)


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_decision_for_always_that_is_sent_again_gives_no_second_grant(verdict: str) -> None:
    send, _ = sending(needs_approval=True)
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    state = result.to_state()
    for _ in range(2):
        getattr(state, verdict)(result.interruptions[0], **{f"always_{verdict}": True})
        assert [grant.verdict for grant in state.grants()] == [verdict]


async def test_a_grant_does_not_settle_questions_that_are_open() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"})], tools=[send])
    result = await Runner.run(agent, "go")
    first, second = result.interruptions
    state = result.to_state()
    state.approve(first, always_approve=True)
    assert state.get_interruptions() == [second]
    result = await Runner.run(agent, state)
    assert result.interruptions == [second]
    assert sent == [("ann", 1)]


async def test_a_per_call_decision_holds_for_that_call_alone() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}, "same"), call("send", {"to": "ann"}, "same"), tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert len(result.interruptions) == 1
    assert result.to_state().grants() == []


async def test_reject_beats_approve() -> None:
    send, sent = sending(needs_approval=True)
    both = [call("send", {"to": "ann"}), call("send", {"to": "bob"})]
    for verdicts in (("approve", "reject"), ("reject", "approve")):
        agent = scripted(both, call("send", {"to": "eve"}), "done", tools=[send])
        result = await Runner.run(agent, "go")
        state = result.to_state()
        for item, verdict in zip(result.interruptions, verdicts, strict=True):
            if verdict == "approve":
                state.approve(item, always_approve=True)
            else:
                state.reject(item, always_reject=True)
        result = await Runner.run(agent, await reloaded(agent, state))
        assert result.final_output == "done"
        assert outcomes(result)[-1].status == "rejected"
    assert ("eve", 1) not in sent


async def test_a_reject_grant_stops_what_no_rule_would() -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True)
    await Runner.run(agent, state)
    assert sent == []


async def test_a_grant_does_not_approve_arguments_that_cannot_run() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", "[]"), tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await Runner.run(agent, state)
    assert set(result.interruptions[0].allowed) == {"edit", "reject", "respond"}
    assert sent == [("ann", 1)]


async def test_a_grant_travels_with_the_state() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    loaded = await reloaded(agent, state)
    assert loaded.grants() == state.grants()
    result = await Runner.run(agent, loaded)
    assert result.final_output == "done"
    assert sent == [("ann", 1), ("bob", 1)]


async def test_a_grant_does_not_reach_another_run() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", call("send", {"to": "bob"}), tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    await Runner.run(agent, state)
    result = await Runner.run(agent, "again")
    assert len(result.interruptions) == 1


async def test_a_grant_that_was_revoked_holds_no_more() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    [grant] = state.grants()
    state.revoke(grant.id, by="ann")
    assert state.grants() == []
    refused(lambda: state.revoke(grant.id), GrantNotFound, state)
    refused(lambda: state.revoke("g_nothing"), GrantNotFound, state)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert sent == [("ann", 1)], "what it let pass stays passed"
    assert len(result.interruptions) == 1


@pytest.mark.parametrize("id", ["", None, 5, [], {}, "\ud800"])
async def test_only_a_grant_of_the_run_can_be_revoked(id: Any) -> None:
    send, _ = sending(needs_approval=True)
    state = (await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go")).to_state()
    refused(lambda: state.revoke(id), GrantNotFound, state)


async def test_what_a_grant_said_stays_said_when_it_is_revoked() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", "again", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True, rejection_message="never")
    state = (await Runner.run(agent, state)).to_state()
    state.revoke(state.grants()[0].id)
    state.add_input("more")
    result = await Runner.run(agent, await reloaded(agent, state))
    assert told(result) == ["never", "never"]
    assert outcomes(result)[1].reason == "never"


@pytest.mark.parametrize("by", ["", None, 5, "\ud800"])
async def test_whoever_revokes_a_grant_has_a_name(by: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    refused(lambda: state.revoke(state.grants()[0].id, by=by), InvalidDecision, state)


async def test_the_same_grant_again_is_one_grant() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    before = state.to_string()
    state.approve(result.interruptions[0], always_approve=True)
    assert state.to_string() == before


@pytest.mark.parametrize("flag", [1, "yes", None])
async def test_always_is_true_or_false(flag: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    item = result.interruptions[0]
    refused(lambda: state.approve(item, always_approve=flag), InvalidDecision, state)
    refused(lambda: state.reject(item, always_reject=flag), InvalidDecision, state)


async def test_the_formatter_is_told_who_refused() -> None:
    seen: list[ToolErrorFormatterArgs] = []

    def words(given: ToolErrorFormatterArgs) -> str:
        seen.append(given)
        return f"{given.kind}: {given.tool_name}"

    send, _ = sending()
    agent = scripted([call("steal", {}, "x"), call("send", "[]", "y")], "sorry", tools=[send])
    result = await Runner.run(agent, "go", context=5, run_config=RunConfig(tool_error_formatter=words))
    assert told(result) == ["tool_not_found: steal", "invalid_arguments: send"]
    assert [given.call_id for given in seen] == ["x", "y"]
    assert {given.by for given in seen} == {"runtime"}
    assert "steal" in seen[0].default_message
    assert seen[0].run_context.context == 5
