"""The states of an ask on the overview page: real asks go each arrow of the diagram, and every state has a line."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import get_args

import pytest
from markdown_it import MarkdownIt

from assentry import Approve, Decision, Edit, Reject, Respond
from assentry.approval.foreign_call import CallRequest
from assentry.approval.rule_file import RuleFile
from assentry.errors import Conflict, LeaseLost
from assentry.store import MemoryStore
from assentry.store.call_status import CallPhase, CallStatus
from assentry.store.calls import ask_about_call, finish_call, look_at_call, start_call
from assentry.testing import FakeClock

TEXT = (Path(__file__).parent.parent.parent / "docs" / "howto" / "ask-from-anywhere.md").read_text("utf-8")
[DIAGRAM] = [
    each.content
    for each in MarkdownIt().parse(TEXT)
    if each.type == "fence" and each.info == "mermaid" and each.content.startswith("stateDiagram")
]
ARROWS = re.findall(r"^    (\S+) --> (\w+): (.+)$", DIAGRAM, re.MULTILINE)


class Ask:
    """A call of a program outside, which a test brings from state to state."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(clock=self.clock)
        self.id = ""

    async def ask(self, verdict: str = "", deadline: float | None = None) -> CallStatus:
        rules = RuleFile.parse(f'[[rule]]\nname = "r"\nverdict = "{verdict}"' if verdict else "")
        request = CallRequest(source="bot", tool="pay", arguments={"amount": 5}, deadline=deadline)
        status, _ = await ask_about_call(self.store, request, by="bot", rules=rules)
        self.id = status.id
        return status

    async def look(self) -> CallStatus:
        return await look_at_call(self.store, self.id, by="bot")

    async def decide(self, decision: Decision) -> CallStatus:
        question = await self.store.question((await self.look()).question or "")
        await self.store.decide(question.id, decision, by="ann", digest=question.digest)
        return await self.look()

    async def cancel(self) -> CallStatus:
        await self.store.cancel(self.id, by="ann")
        return await self.look()

    async def start(self) -> CallStatus:
        return await start_call(self.store, self.id, by="bot", holder="h")

    async def finish(self, error: str | None = None) -> CallStatus:
        output = "paid" if error is None else None
        return await finish_call(self.store, self.id, by="bot", holder="h", output=output, error=error)

    async def silence(self) -> CallStatus:
        self.clock.advance(3600)
        return await self.look()


Walk = Callable[[Ask], Awaitable[CallStatus]]
TO: dict[str, list[Walk]] = {
    "[*]": [],
    "waiting": [lambda a: a.ask(deadline=600)],
    "approved": [lambda a: a.ask("allow")],
    "running": [lambda a: a.ask("allow"), Ask.start],
    "doubt": [lambda a: a.ask("allow"), Ask.start, Ask.silence],
}
"""The steps that lead to a state."""
BY: dict[tuple[str, str], list[Walk]] = {
    ("[*]", "waiting"): [Ask.ask],
    ("[*]", "approved"): [lambda a: a.ask("allow")],
    ("[*]", "rejected"): [lambda a: a.ask("deny")],
    ("waiting", "approved"): [lambda a: a.decide(Approve()), lambda a: a.decide(Edit({"amount": 4}))],
    ("waiting", "rejected"): [lambda a: a.decide(Reject("No.")), Ask.silence],
    ("waiting", "answered"): [lambda a: a.decide(Respond("I paid by hand."))],
    ("waiting", "cancelled"): [Ask.cancel],
    ("approved", "cancelled"): [Ask.cancel],
    ("approved", "running"): [Ask.start],
    ("running", "finished"): [Ask.finish],
    ("running", "failed"): [lambda a: a.finish("The bank said no.")],
    ("running", "doubt"): [Ask.silence],
    ("doubt", "approved"): [lambda a: a.decide(Approve())],
    ("doubt", "answered"): [lambda a: a.decide(Respond("It was paid."))],
    ("doubt", "rejected"): [lambda a: a.decide(Reject("Leave it."))],
}
"""The steps that go an arrow, each for itself."""
WALKS = [(start, end, step) for (start, end), ways in BY.items() for step in ways]


def test_the_diagram_has_these_arrows() -> None:
    assert sorted((start, end) for start, end, _ in ARROWS) == sorted(BY)


@pytest.mark.parametrize(("start", "end", "step"), WALKS, ids=[f"{start} to {end}" for start, end, _ in WALKS])
async def test_an_arrow_leads_where_the_diagram_says(start: str, end: str, step: Walk) -> None:
    ask = Ask()
    async with ask.store:
        for each in TO[start]:
            assert (await each(ask)).state
        if start != "[*]":
            assert (await ask.look()).state == start
        assert (await step(ask)).state == end


def test_every_state_has_a_line_and_an_arrow() -> None:
    table = TEXT.partition("| state | the program |")[2].partition("\n\n")[0].strip()
    states = sorted(get_args(CallPhase))
    assert sorted(name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])) == states
    assert sorted({end for _, end, _ in ARROWS}) == states


@pytest.mark.parametrize("end", ["finished", "failed", "rejected", "answered", "doubt", "cancelled"])
async def test_nothing_starts_from_another_state_than_approved(end: str) -> None:
    start, step = next((start, ways[0]) for (start, to), ways in BY.items() if to == end)
    ask = Ask()
    async with ask.store:
        for each in [*TO[start], step]:
            await each(ask)
        with pytest.raises(Conflict, match=r"cannot be started|started before"):
            await ask.start()


@pytest.mark.parametrize("state", ["running", "doubt"])
async def test_a_call_that_was_started_is_never_only_cancelled(state: str) -> None:
    ask = Ask()
    async with ask.store:
        for each in TO[state]:
            await each(ask)
        assert (await ask.cancel()).state == state


async def test_a_report_after_doubt_is_evidence_and_changes_nothing() -> None:
    ask = Ask()
    async with ask.store:
        for each in TO["doubt"]:
            await each(ask)
        with pytest.raises(LeaseLost):
            await ask.finish()
        assert (await ask.look()).state == "doubt"
