"""Grants with terms: so many calls, for so long, with these arguments."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import Agent, Approve, Edit, GrantTerms, Reject, Respond, RunConfig, Runner, RunState, function_tool
from assentry.core.digest import digest, same
from assentry.errors import AlreadyDecided, InvalidDecision
from assentry.testing import FakeClock, call
from tests.runtime.support import facts, outcomes, refused, reloaded, scripted, sending, soon


async def granted(
    agent: Agent[Any], terms: Any, decision: Any = None, clock: Any = None, **options: Any
) -> tuple[Any, RunState[Any]]:
    """The result after the first question was decided on with a grant of these terms, and its state."""
    config = RunConfig(**({"clock": clock} if clock is not None else {}), **options)
    result = await Runner.run(agent, "go", run_config=config)
    state = result.to_state()
    state.decide(result.interruptions[0].id, decision or Approve(), "ann", result.interruptions[0].digest, terms)
    result = await Runner.run(agent, state, run_config=config)
    return result, result.to_state()


def mails(*names: str) -> list[Any]:
    return [call("send", {"to": name}) for name in names]


async def test_a_grant_lets_as_many_calls_pass_as_it_says() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(*mails("a", "b", "c", "d"), "done", tools=[send])
    result, state = await granted(agent, GrantTerms(max_uses=2))
    assert [to for to, _ in sent] == ["a", "b", "c"]
    assert [item.arguments for item in result.interruptions] == ['{"copies":1,"to":"d"}']
    [grant] = state.grants()
    assert (grant.used, grant.max_uses) == (2, 2)


@pytest.mark.parametrize("slow", [False, True])
async def test_calls_of_one_turn_never_overuse_a_grant(slow: bool) -> None:
    async def rule(ctx: Any, params: Any, call_id: str) -> bool:
        await soon()
        return True

    send, sent = sending(needs_approval=rule if slow else True)
    agent = scripted(call("send", {"to": "a"}), mails("b", "c", "d", "e"), "done", tools=[send])
    result, state = await granted(agent, GrantTerms(max_uses=2))
    assert sorted(to for to, _ in sent) == ["a", "b", "c"]
    assert len(result.interruptions) == 2
    assert state.grants()[0].used == 2


async def test_what_a_rejection_for_so_many_calls_has_rejected_is_counted_too() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "a"}), mails("b", "c"), "done", tools=[send])
    result, _ = await granted(agent, {"max_uses": 1}, Reject("not now"))
    assert [item.arguments for item in result.interruptions] == ['{"copies":1,"to":"c"}']
    assert sent == []
    assert outcomes(result)[-1].by.startswith("grant:")


async def test_a_grant_ends_when_its_time_is_up() -> None:
    clock = FakeClock()

    @function_tool(needs_approval=True)
    async def wait(seconds: int) -> str:
        """Let time pass."""
        clock.advance(seconds)
        return "waited"

    agent = scripted(*[call("wait", {"seconds": n}) for n in (0, 10, 1, 0)], "done", tools=[wait])
    result, state = await granted(agent, GrantTerms(expires_in=10), clock=clock)
    assert [item.arguments for item in result.interruptions] == ['{"seconds":0}']
    assert state.grants()[0].until == 1_800_000_010_000


async def test_a_grant_holds_only_for_the_arguments_that_are_pinned() -> None:
    send, sent = sending(needs_approval=True)
    calls = [call("send", {"to": "a", "copies": 1}), call("send", {"to": "a"}), call("send", {"to": "a", "copies": 2})]
    agent = scripted(*calls, "done", tools=[send])
    result, _ = await granted(agent, GrantTerms(pins={"to": "a", "copies": 1}))
    assert sent == [("a", 1), ("a", 1)]
    assert [item.arguments for item in result.interruptions] == ['{"copies":2,"to":"a"}']


async def test_a_rejection_with_pins_stops_what_no_rule_would_and_nothing_else() -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "a" and params["copies"] == 1)
    agent = scripted(*mails("a"), call("send", {"to": "a", "copies": 3}), *mails("b"), "done", tools=[send])
    result, _ = await granted(agent, GrantTerms(pins={"to": "a"}), Reject())
    assert sent == [("b", 1)]
    assert result.final_output == "done"


async def test_a_grant_that_is_not_counted_is_used_before_one_that_is() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(mails("a", "b"), *mails("c", "d"), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    one, two = result.interruptions
    state.decide(one.id, Approve(), "ann", one.digest, GrantTerms(max_uses=1))
    state.decide(two.id, Approve(), "ann", two.digest, True)
    result = await Runner.run(agent, state)
    assert [grant.used for grant in result.to_state().grants()] == [0, 2]


@pytest.mark.parametrize("terms", [{"max_uses": 5}, {"expires_in": 60}, {"pins": {"copies": 1}}, {}])
async def test_what_a_grant_with_terms_decides_says_when(terms: Any) -> None:
    clock = FakeClock()

    @function_tool(needs_approval=True)
    async def send(copies: int = 1) -> str:
        """Send, in a second."""
        clock.advance(1)
        return "sent"

    agent = scripted(call("send"), call("send"), "done", tools=[send])
    _, state = await granted(agent, GrantTerms(**terms), clock=clock)
    [by_grant] = [fact for fact in facts(state, "approved") if fact["by"].startswith("grant:")]
    assert by_grant.get("at") == (1000 if terms else None)


@pytest.mark.parametrize(
    ("first", "second", "used"),
    [
        ({"max_uses": 1}, {"max_uses": 1}, [1, 0]),
        ({"expires_in": 60}, True, [1, 0]),
        (True, {"max_uses": 1}, [1, 0]),
        ({"max_uses": 1}, {"expires_in": 60}, [0, 1]),
    ],
)
async def test_of_two_grants_the_first_is_used_unless_only_the_second_is_not_counted(
    first: Any, second: Any, used: list[int]
) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(mails("a", "b"), *mails("c"), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    for item, terms in zip(result.interruptions, (first, second), strict=True):
        state.decide(item.id, Approve(), "ann", item.digest, terms)
    result = await Runner.run(agent, state)
    assert [grant.used for grant in result.to_state().grants()] == used


@pytest.mark.parametrize("arguments", ["{", "[]", "{}", '{"copies":1}'])
async def test_arguments_that_lack_what_is_pinned_or_cannot_be_read_are_not_covered(arguments: str) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(*mails("a"), call("send", arguments), "done", tools=[send])
    result, state = await granted(agent, GrantTerms(pins={"to": "a"}))
    assert len(result.interruptions) == 1
    assert sent == [("a", 1)]
    assert state.grants()[0].used == 0


async def test_terms_travel_with_the_state() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(*mails("a", "b", "c"), "done", tools=[send])
    _, state = await granted(agent, GrantTerms(max_uses=1, expires_in=60, pins={"copies": 1}))
    assert (await reloaded(agent, state)).grants() == state.grants()


async def test_the_same_decision_again_gives_no_second_grant() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(*mails("a", "b"), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    [item] = result.interruptions
    for _ in range(2):
        state.decide(item.id, Approve(), "ann", item.digest, GrantTerms(max_uses=1))
    assert len(state.grants()) == 1


@pytest.mark.parametrize(
    ("decision", "terms"),
    [
        (Approve(), {"max_uses": 0}),
        (Approve(), {"max_uses": True}),
        (Approve(), {"max_uses": 1.5}),
        (Approve(), {"expires_in": 0}),
        (Approve(), {"expires_in": float("inf")}),
        (Approve(), {"expires_in": float("nan")}),
        (Approve(), {"pins": {"nobody": 1}}),
        (Approve(), {"pins": {"to": object()}}),
        (Approve(), {"more": 1}),
        (Approve(), "always"),
        (Respond("x"), True),
        (Edit({"to": "b"}, tool="forward"), True),
    ],
)
async def test_terms_that_make_no_sense_are_refused_and_nothing_is_recorded(decision: Any, terms: Any) -> None:
    send, _ = sending(needs_approval=True)

    @function_tool
    def forward(to: str) -> str:
        """Forward it."""
        return to

    result = await Runner.run(scripted(call("send", {"to": "a"}), "done", tools=[send, forward]), "go")
    [item] = result.interruptions
    state = result.to_state()
    refused(lambda: state.decide(item.id, decision, "ann", item.digest, terms), InvalidDecision, state)
    assert state.grants() == []


async def test_who_decided_what_and_when_is_told_to_whoever_comes_second() -> None:
    clock = FakeClock()
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "a"}), "done", tools=[send])
    result = await Runner.run(agent, "go", run_config=RunConfig(clock=clock))
    state, [item] = result.to_state(), result.interruptions
    clock.advance(90)
    state.edit(item, {"to": "b"}, by="ann")
    error = refused(lambda: state.reject(item, by="bob"), AlreadyDecided, state)
    assert isinstance(error, AlreadyDecided)
    assert (error.by, error.verdict, error.at) == ("ann", "edit", 1_800_000_090_000)
    assert str(error) == f"Question {item.id} was edited by ann already, at 2027-01-15 08:01:30+00:00."


PINS: list[tuple[Any, Any, bool]] = [
    (1, 1.0, True),
    (1, True, False),
    (0, False, False),
    (2**70, float(2**70), True),
    (2**53 + 1, float(2**53), False),
    (None, False, False),
    ("1", 1, False),
    ({"a": [1, 2]}, {"a": [1.0, 2]}, True),
    ({"a": 1}, {"a": 1, "b": 2}, False),
    ([1], [1, 2], False),
    ([True], [1], False),
    ({"a": True}, {"a": 1}, False),
    ({"a": 1}, {"b": 1}, False),
    ([], {}, False),
]


@pytest.mark.parametrize(("pin", "value", "covered"), [*PINS, *((value, pin, are) for pin, value, are in PINS)])
@pytest.mark.parametrize("decision", [Approve(), Reject()])
async def test_a_grant_covers_calls_whose_pinned_numbers_are_written_in_another_way(
    decision: Any, pin: Any, value: Any, covered: bool
) -> None:
    @function_tool(needs_approval=True)
    def keep(thing: Any) -> str:
        """Keep it."""
        return "kept"

    agent = scripted(call("keep", {"thing": "first"}), call("keep", {"thing": value}), "done", tools=[keep])
    result, state = await granted(agent, GrantTerms(pins={"thing": pin}), decision)
    assert state.grants()[0].used == covered
    assert len(result.interruptions) == (not covered)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), ({"a": [1]}, {"a": [1.0]}), (object(), object())])
def test_values_are_the_same_only_if_a_digest_could_not_tell_them_apart(one: Any, other: Any) -> None:
    assert same(one, other) is same(other, one) is False
    if type(one) is not object:
        assert digest({"of": one}) != digest({"of": other})
        assert same(one, one)


async def test_the_same_edit_with_a_number_written_in_another_way_is_another_decision() -> None:
    @function_tool(needs_approval=True)
    def pay(amount: float) -> str:
        """Pay it."""
        return "paid"

    result = await Runner.run(scripted(call("pay", {"amount": 2}), "done", tools=[pay]), "go")
    state, [item] = result.to_state(), result.interruptions
    state.edit(item, {"amount": 5}, by="ann")
    state.edit(item, {"amount": 5}, by="bob")
    refused(lambda: state.edit(item, {"amount": 5.0}, by="bob"), AlreadyDecided, state)
