"""Standing grants at the gate: whatever the grants and the call, only what satisfies an approval is approved."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from assentry import function_tool
from assentry.approval.condition import satisfies
from assentry.approval.gate import grant_for
from assentry.approval.standing import StandingGrant
from assentry.core.facts import Began
from assentry.core.run import Run


def pay(amount: Any, to: str) -> str:
    """Pay somebody."""
    return "paid"


TOOL = function_tool(pay, needs_approval=True)
NOW = 1_000
wheres = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "amount": st.fixed_dictionaries(
            {}, optional={"at_most": st.integers(-3, 3), "above": st.integers(-3, 3)}
        ).filter(bool),
        "to": st.sampled_from([{"is": "a"}, {"matches": "a*"}, {"under": "/a"}]),
    },
)
grants = st.builds(
    StandingGrant,
    id=st.uuids().map(lambda id: f"always_{id.hex}"),
    agent=st.sampled_from(["Office", "Other"]),
    tool=st.sampled_from(["pay", "other"]),
    server=st.sampled_from([None, "s"]),
    definition=st.sampled_from([TOOL.fingerprint, "0" * 32, None]),
    verdict=st.sampled_from(["approve", "reject"]),
    where=wheres,
    max_uses=st.sampled_from([None, 1, 2]),
    used=st.integers(0, 2),
    until=st.sampled_from([None, NOW - 1, NOW, NOW + 1]),
    revoked=st.sampled_from([None, 5]),
    by=st.just("ann"),
    at=st.just(0),
)
calls = st.fixed_dictionaries(
    {
        "amount": st.integers(-5, 5) | st.booleans() | st.text(max_size=2),
        "to": st.sampled_from(["a", "ab", "/a/b", "/b"]),
    }
)


def covers(grant: StandingGrant, args: dict[str, Any]) -> bool:
    scope = (grant.agent, grant.tool, grant.server, grant.revoked) == ("Office", "pay", None, None)
    spent = (grant.max_uses is not None and grant.used >= grant.max_uses) or (grant.until or NOW) < NOW
    return (
        scope and not spent and (grant.where is None or satisfies(args, grant.where, rejects=grant.verdict == "reject"))
    )


@settings(max_examples=300)
@given(st.lists(grants, max_size=5), calls)
def test_a_call_is_approved_only_by_a_grant_that_covers_it_and_never_against_a_rejection(
    given: list[StandingGrant], args: dict[str, Any]
) -> None:
    run = Run()
    run.began = Began("Office", 10, "run_1", at=400)
    found = grant_for(run, "Office", TOOL, args, NOW - 400, given)
    covering = [grant for grant in given if covers(grant, args)]
    rejections = [grant for grant in covering if grant.verdict == "reject"]
    approvals = [grant for grant in covering if grant.verdict == "approve" and grant.definition == TOOL.fingerprint]
    if rejections:
        assert found in rejections
    else:
        assert (found in approvals) if approvals else found is None
