"""The risk of a call: of its tool, or of what a rule says about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, ApplyPatchTool, Ask, InvalidDefinition, Runner, function_tool
from assentry.approval.tool_snapshot import ToolSnapshot
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.testing import ScriptedModel, call
from assentry.tools.workspace import WorkspaceEditor
from tests.runtime.support import facts, reloaded, scripted, sending


class Crash(BaseException):
    """The end of a process, as far as a run can tell."""


def by_amount(ctx: Any, args: dict[str, Any], call_id: str) -> bool | Ask:
    amount = args["amount"]
    if amount > 1000:
        return Ask(risk="high", reason=f"{amount} is more than anybody pays.")
    return Ask(risk="low") if amount < 10 else amount > 50


@function_tool(needs_approval=by_amount, risk="high")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def asked(amount: int) -> Any:
    agent = scripted(call("pay", {"amount": amount}), "Done.", tools=[pay])
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    return state.get_interruptions()[0] if state.get_interruptions() else result.final_output


async def test_a_rule_says_the_risk_and_the_reason_of_a_call() -> None:
    assert [(each.risk, each.reason) for each in [await asked(2000), await asked(5), await asked(60)]] == [
        ("high", "2000 is more than anybody pays."),
        ("low", "The rule by_amount asks for approval."),
        ("high", "The rule by_amount asks for approval."),  # the tool's own
    ]
    assert await asked(20) == "Done."


@pytest.mark.parametrize("kind", [MemoryStore, SQLiteStore])
async def test_a_question_in_a_store_has_its_risk(kind: type[Store], tmp_path: Path) -> None:
    made: Any = kind if kind is MemoryStore else lambda: SQLiteStore(tmp_path / "runs.db")
    async with made() as store:
        for risk in ("high", "low", None):
            send, _ = sending(needs_approval=True, risk=risk)
            await Runner.run(scripted(call("send", {"to": "x"}), tools=[send]), "go", store=store)
        assert {each.risk for each in (await store.questions()).items} == {"high", "low", None}
        for run in (await store.runs()).items:
            assert await store.verify(run.id) == []
        await store.rebuild()
        assert {each.risk for each in (await store.questions()).items} == {"high", "low", None}


async def test_the_risk_is_part_of_the_definition_if_there_is_one() -> None:
    def made(**options: Any) -> Any:
        return sending(needs_approval=True, **options)[0]

    plain, low, high = made(), made(risk="low"), made(risk="high")
    assert plain.fingerprint == made(risk=None).fingerprint
    assert len({plain.fingerprint, low.fingerprint, high.fingerprint}) == 3
    assert ToolSnapshot.read(high.frozen()).fingerprint == high.fingerprint


async def test_a_tool_without_a_risk_has_the_fingerprint_that_it_always_had() -> None:
    @function_tool(needs_approval=True)
    def wipe(disk: str) -> str:
        """Empty a disk."""
        return disk

    assert wipe.fingerprint == "a0b3e7d718c606af724f580e66f341e3"


@pytest.mark.parametrize("given", ["medium", "", True, 1, ["high"]])
def test_a_risk_is_low_or_high(given: Any) -> None:
    with pytest.raises(InvalidDefinition, match="risk"):
        sending(risk=given)
    with pytest.raises(InvalidDefinition, match="Ask: risk"):
        Ask(risk=given)


@pytest.mark.parametrize("reason", [1, b"x", "\ud800"])
def test_a_reason_is_text(reason: Any) -> None:
    with pytest.raises(InvalidDefinition, match="Ask: reason"):
        Ask(reason=reason)


async def test_a_rule_that_fails_to_say_the_risk_asks_with_the_risk_of_the_tool() -> None:
    def wrong(ctx: Any, args: dict[str, Any], call_id: str) -> Any:
        return Ask(risk="extreme")  # type: ignore[arg-type]

    send, sent = sending(needs_approval=wrong, risk="high")
    result = await Runner.run(scripted(call("send", {"to": "x"}), tools=[send]), "go")
    [item] = result.interruptions
    assert item.risk == "high" and "The rule" in item.reason and "failed with" in item.reason
    assert sent == []


async def test_a_long_reason_is_shortened() -> None:
    def long(ctx: Any, args: dict[str, Any], call_id: str) -> Ask:
        return Ask(reason="x" * 10_000)

    send, _ = sending(needs_approval=long)
    [item] = (await Runner.run(scripted(call("send", {"to": "x"}), tools=[send]), "go")).interruptions
    assert 900 < len(item.reason) < 1100


async def test_a_call_in_doubt_keeps_the_risk_that_a_rule_gave_it() -> None:
    def risky(ctx: Any, args: dict[str, Any], call_id: str) -> Ask:
        return Ask(risk="high")

    @function_tool(needs_approval=risky)
    def send(to: str) -> str:
        """Send."""
        raise Crash

    agent = Agent(name="Clerk", model=ScriptedModel([call("send", {"to": "x"}), "Done."]), tools=[send])
    async with MemoryStore() as store:
        result = await Runner.run(agent, "go", store=store)
        [item] = result.interruptions
        await store.decide(item.id, {"type": "approve"}, by="ann", digest=item.digest)
        with pytest.raises(Crash):
            await Runner.run(agent, await store.load(result.run_id), store=store)
        doubt = (await Runner.run(agent, await store.load(result.run_id), store=store)).interruptions
        assert [(each.kind, each.risk) for each in doubt] == [("doubt", "high")]


@pytest.mark.parametrize(
    ("first", "then", "risk"), [("low", "high", "high"), (None, "high", "high"), ("high", "low", "high")]
)
async def test_a_call_that_is_asked_about_anew_has_the_higher_risk(first: Any, then: Any, risk: str) -> None:
    calm, _ = sending(needs_approval=True, risk=first)
    risky, _ = sending(needs_approval=True, risk=then)
    async with MemoryStore() as store:
        result = await Runner.run(scripted(call("send", {"to": "x"}), tools=[calm]), "go", store=store)
        again = await Runner.run(scripted(tools=[risky]), await store.load(result.run_id), store=store)
        assert [each.risk for each in again.interruptions] == [risk]


async def test_of_a_patch_the_operation_with_the_highest_risk_counts(tmp_path: Path) -> None:
    def careful(ctx: Any, operation: Any, call_id: str) -> bool | Ask:
        return Ask(risk="high", reason="It is a key.") if operation.path.endswith(".key") else True

    tool = ApplyPatchTool(WorkspaceEditor(tmp_path), needs_approval=careful)
    patch = "*** Begin Patch\n*** Add File: a.txt\n+a\n*** Add File: b.key\n+b\n*** End Patch"
    agent = scripted(call("apply_patch", {"patch": patch}), tools=[tool])
    result = await Runner.run(agent, "go")
    assert [(each.risk, each.reason) for each in result.interruptions] == [("high", "It is a key.")]
    assert facts(result.to_state(), "started") == []
