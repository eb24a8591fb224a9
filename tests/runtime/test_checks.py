"""The checks that a run passes without notice, seen from the side of what they keep out."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import pytest

from assentry import (
    DefinitionChanged,
    DigestMismatch,
    RunHooks,
    Runner,
    RunState,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolOutputGuardrail,
    ToolOutputGuardrailTripwireTriggered,
    function_tool,
    handoff,
)
from assentry.approval.gate import grant_for
from assentry.approval.question import action_digest
from assentry.core import codec
from assentry.core import facts as f
from assentry.core.run import Run
from assentry.testing import call
from tests.runtime.support import HANGS, asked, facts, reloaded, scripted, sending, stopped

# -- grants ------------------------------------------------------------------------------------------


def granted(id: str = "g1", verdict: Any = "approve", **more: Any) -> f.Granted:
    return f.Granted(**{"id": id, "agent": "agent", "tool": "send", "verdict": verdict, "by": "ann"} | more)


def grant_of(*grants: f.Granted, agent: str = "agent") -> str | None:
    """The id of the grant that covers a call of `send`."""
    send, _ = sending(needs_approval=True)
    found = grant_for(Run(grants={grant.id: grant for grant in grants}), agent, send)
    return found.id if found else None


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_a_grant_covers_the_tool_of_its_agent_and_server_and_no_other(verdict: str) -> None:
    assert grant_of(granted(verdict=verdict)) == "g1"
    assert grant_of(granted(verdict=verdict, tool="other")) is None
    assert grant_of(granted(verdict=verdict, server="mail")) is None
    assert grant_of(granted(verdict=verdict, agent="other")) is None
    assert grant_of(granted(verdict=verdict), agent="other") is None


def test_an_approval_for_always_is_of_the_tool_as_it_was_and_a_rejection_of_any() -> None:
    send, _ = sending(needs_approval=True)
    assert grant_of(granted(definition=send.fingerprint)) == "g1"
    assert grant_of(granted(definition="of another version")) is None
    assert grant_of(granted(verdict="reject", definition="of another version")) == "g1"


def test_of_two_approvals_the_first_is_named_and_a_rejection_goes_before_both() -> None:
    assert grant_of(granted("g1"), granted("g2")) == "g1"
    assert grant_of(granted("g1"), granted("g2"), granted("g3", "reject")) == "g3"


# -- what was approved is what runs ------------------------------------------------------------------


def _another_digest(journal: list[dict[str, Any]]) -> None:
    [asked] = [fact for fact in journal if fact["fact"] == "asked"]
    asked["digest"] = "0" * len(asked["digest"])


def _other_arguments(journal: list[dict[str, Any]]) -> None:
    [replied] = [fact for fact in journal if fact["fact"] == "replied"]
    [item] = [item for item in replied["items"] if item["type"] == "function_call"]
    item["arguments"] = '{"to": "eve"}'


def _other_defaults(journal: list[dict[str, Any]]) -> None:
    [asked] = [fact for fact in journal if fact["fact"] == "asked"]
    asked["fills"] = {"copies": 1000}


@pytest.mark.parametrize("change", [_another_digest, _other_arguments, _other_defaults])
async def test_a_call_that_is_not_the_one_that_was_approved_does_not_run(change: Any) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    saved = state.to_json()
    change(saved["journal"])
    with pytest.raises(DigestMismatch, match="send"):
        await Runner.run(agent, await RunState.from_json(agent, saved))
    assert sent == []


@pytest.mark.parametrize("chosen", [False, True], ids=["as proposed", "another tool"])
async def test_arguments_that_were_shown_without_their_defaults_do_not_run(chosen: bool) -> None:
    send, sent = sending(needs_approval=True)
    other, others = sending(name_override="other")
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send, other])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    if chosen:
        state.edit(result.interruptions[0], {"to": "ann"}, tool="other")
    else:
        state.approve(result.interruptions[0])
    saved = state.to_json()
    run = codec.replay(codec.decode_run(state.to_string()).journal)
    [asked], [approved] = (
        [fact for fact in saved["journal"] if fact["fact"] == kind] for kind in ("asked", "approved")
    )
    tool = other if chosen else send
    forged = action_digest(run, (), next(iter(run.calls.values())), tool.name, tool.fingerprint, {"to": "ann"})
    if chosen:
        approved["args"], approved["digest"] = {"to": "ann"}, forged
    else:
        del asked["fills"]
        asked["digest"] = forged
    with pytest.raises(DigestMismatch, match=tool.name):
        await Runner.run(agent, await RunState.from_json(agent, saved))
    assert sent == others == []


async def test_a_call_of_a_tool_that_was_never_offered_does_not_run_though_its_approval_is_on_record() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    saved = state.to_json()
    [replied] = [fact for fact in saved["journal"] if fact["fact"] == "replied"]
    del replied["calls"][0][-1]
    with pytest.raises(DefinitionChanged, match="'send' was approved and was never offered"):
        await Runner.run(agent, await RunState.from_json(agent, saved))
    assert sent == []


# -- what the gate reads, and says -------------------------------------------------------------------


async def test_arguments_count_where_none_are_required() -> None:
    got: list[int] = []

    @function_tool
    async def print_it(copies: int = 1) -> None:
        got.append(copies)

    await Runner.run(scripted(call("print_it", {"copies": 3}), "done", tools=[print_it]), "go")
    assert got == [3]


@dataclass
class Page:
    """Something to print."""

    name: str
    copies: int = 2


async def test_a_default_inside_a_list_is_shown_and_runs() -> None:
    got: list[Any] = []

    @function_tool(needs_approval=True, strict_mode=False)
    async def print_all(rows: list[Page]) -> None:
        got.extend((row.name, row.copies) for row in rows)

    agent = scripted(call("print_all", {"rows": [{"name": "a"}]}), "done", tools=[print_all])
    result = await Runner.run(agent, "go")
    assert result.interruptions[0].arguments == '{"rows":[{"copies":2,"name":"a"}]}'
    state = result.to_state()
    state.approve(result.interruptions[0])
    await Runner.run(agent, state)
    assert got == [("a", 2)]


async def test_arguments_that_need_no_filling_are_recorded_once() -> None:
    send, _ = sending(needs_approval=True)
    result = await Runner.run(scripted(call("send", {"to": "ann", "copies": 2}), tools=[send]), "go")
    [asked] = facts(result.to_state(), "asked")
    assert "fills" not in asked and "args" not in asked


def _large(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
    return True


RULES: list[tuple[Any, str]] = [(True, "Every call of send"), (_large, "The rule _large asks")]


@pytest.mark.parametrize("approver", [None, lambda ctx, item: None], ids=["nobody decides", "code cannot decide"])
@pytest.mark.parametrize(("rule", "reason"), RULES)
async def test_a_question_says_what_rule_it_comes_from(rule: Any, reason: str, approver: Any) -> None:
    send, _ = sending(needs_approval=rule, on_approval=approver)
    result = await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go")
    assert result.interruptions[0].reason.startswith(reason)


@pytest.mark.parametrize(("rule", "reason"), RULES)
async def test_what_code_refuses_is_recorded_with_the_rule_that_it_was_asked_by(rule: Any, reason: str) -> None:
    send, _ = sending(needs_approval=rule, on_approval=lambda ctx, item: {"approve": False})
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    [refused] = facts(result.to_state(), "refused")
    assert refused["why"].startswith(reason)


async def test_the_digest_of_arguments_that_cannot_be_read_is_of_their_text() -> None:
    send, _ = sending(needs_approval=True)
    result = await Runner.run(scripted(call("send", "{"), tools=[send]), "go")
    [item] = result.interruptions
    run = codec.replay(codec.decode_run(result.to_state().to_string()).journal)
    [state] = run.calls.values()
    assert item.digest == action_digest(run, (), state, "send", send.fingerprint, {"raw": "{"})


async def test_code_that_decides_is_told_when_the_question_arose() -> None:
    seen: list[int] = []

    def decide(ctx: Any, item: Any) -> dict[str, Any]:
        seen.append(item.at)
        return {"approve": True}

    send, _ = sending(needs_approval=True, on_approval=decide)
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    assert seen[0] >= facts(result.to_state(), "began")[0]["at"]


async def test_a_rule_that_makes_an_error_of_its_cancellation_does_not_keep_the_run_going() -> None:
    inside = asyncio.Event()

    async def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        inside.set()
        try:
            await asyncio.sleep(HANGS)
        except asyncio.CancelledError:
            raise ValueError from None
        return False

    send, sent = sending(needs_approval=rule)
    state = await stopped(Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go"), inside)
    assert sent == []
    assert ["ValueError" in item.reason for item in state.get_interruptions()] == [True], "it failed, so one is asked"


# -- what leaves a body --------------------------------------------------------------------------------


async def test_what_is_no_error_of_a_body_is_not_told_to_the_model() -> None:
    class Halt(BaseException):
        pass

    @function_tool
    async def halt() -> None:
        raise Halt

    with pytest.raises(Halt):
        await Runner.run(scripted(call("halt"), "done", tools=[halt]), "go")


async def test_an_output_that_trips_a_guardrail_is_said_to_be_held_back() -> None:
    def trip(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception()

    send, _ = sending(tool_output_guardrails=[ToolOutputGuardrail(trip)])
    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as caught:
        await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    [finished] = facts(caught.value.state, "finished")
    assert finished["output"] == "The tool ran, and its output was held back by a guardrail."


class Handovers(RunHooks[Any]):
    """Notes who took over."""

    def __init__(self) -> None:
        self.to: list[str] = []

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.to.append(to_agent.name)


@pytest.mark.parametrize("caught", [(), (BaseException,)], ids=["and is left", "and goes on as if it were answered"])
async def test_a_handoff_whose_body_asks_is_not_taken_before_the_answer(
    caught: tuple[type[BaseException], ...],
) -> None:
    async def ask(ctx: ToolContext[Any]) -> None:
        with contextlib.suppress(*caught):
            await ctx.ask("Sure?")

    other = scripted("done by other", name="other")
    agent = scripted(call("transfer_to_other"), handoffs=[handoff(other, on_handoff=ask)])
    hooks = Handovers()
    result = await Runner.run(agent, "go", hooks=hooks)
    [item] = result.interruptions
    assert (item.question, asked(other), hooks.to) == ("Sure?", 0, [])
    state = await reloaded(agent, result.to_state())
    state.respond(item, "yes")
    result = await Runner.run(agent, state, hooks=hooks)
    assert (result.final_output, hooks.to) == ("done by other", ["other"])


async def test_a_handoff_whose_body_asks_something_else_the_second_time_is_not_taken() -> None:
    questions = iter(["To Ann?", "To Eve?"])

    async def ask(ctx: ToolContext[Any]) -> None:
        with contextlib.suppress(BaseException):
            await ctx.ask(next(questions))

    other = scripted("done by other", name="other")
    agent = scripted(call("transfer_to_other"), handoffs=[handoff(other, on_handoff=ask)])
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.respond(result.interruptions[0], "yes")
    result = await Runner.run(agent, state)
    assert [item.question for item in result.interruptions] == ["To Eve?"] and asked(other) == 0
