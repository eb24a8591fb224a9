"""A call of a program outside, under any order of what programs, people and time do, against a small account of it.

Two holders start, renew and report, with the approved arguments and with others; a person decides; the run is cancelled
and resumed; time passes. After each act the store says what the account says, and so does each error. Whatever came:
there is one start for each approval, none without one, and none with other arguments.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode

from assentry import Approve, Edit, Reject, Respond
from assentry.approval.foreign_call import CallRequest
from assentry.core import facts as f
from assentry.errors import AssentryError
from assentry.store import MemoryStore
from assentry.store.call_status import status_of
from assentry.store.call_tending import tend_calls
from assentry.store.calls import ask_about_call, finish_call, look_at_call, renew_call, start_call
from assentry.testing import FakeClock

HOLD = 10
DEADLINE = 60
DECISIONS: dict[str, Any] = {
    "approve": Approve(),
    "edit": Edit({"n": 2}),
    "reject": Reject("no"),
    "respond": Respond("out"),
}
holders = st.sampled_from(["h1", "h2"])
acts = st.one_of(
    st.tuples(st.just("start"), holders, st.sampled_from([None, 1, 2, 3])),
    st.tuples(st.just("renew"), holders),
    st.tuples(st.just("finish"), holders, st.sampled_from(["out", "other"]), st.booleans()),
    st.tuples(st.just("decide"), st.sampled_from(sorted(DECISIONS))),
    st.tuples(st.just("wait"), st.sampled_from([1, 9, 10, 11, 61])),
    st.tuples(st.sampled_from(["ask", "look", "tend", "cancel", "resume"])),
)


class Account:
    """What must be true of one call."""

    def __init__(self) -> None:
        self.state, self.cancelled, self.now = "waiting", False, 0
        self.number, self.attempt = 1, 0
        self.holder, self.until = "", 0
        self.outcome: tuple[str, bool] | None = None

    @property
    def seen(self) -> str:
        """The state as the store tells it."""
        return "cancelled" if self.cancelled and self.state in ("waiting", "approved") else self.state

    def tended(self) -> None:
        """Let time have its say."""
        if self.state == "waiting" and self.now > DEADLINE:
            self.state = "rejected"
        elif self.state == "running" and self.until <= self.now and not self.cancelled:
            self.state = "doubt"

    def start(self, holder: str, number: int | None) -> str:
        self.tended()
        if self.state == "running" and self.holder == holder:
            return "" if number in (None, self.number) else "DigestMismatch"
        if self.seen != "approved":
            return {"running": "RunBusy", "doubt": "Conflict"}.get(self.seen, "NotPending")
        if number not in (None, self.number):
            return "DigestMismatch"
        self.state, self.holder, self.until = "running", holder, self.now + HOLD
        self.attempt += 1
        return ""

    def renew(self, holder: str) -> str:
        if self.state != "running" or self.holder != holder:
            return "LeaseLost"
        self.until = self.now + HOLD
        return ""

    def finish(self, holder: str, output: str, failed: bool) -> str:
        if self.outcome == (output, failed):
            return ""
        if self.state == "running" and self.holder == holder:
            self.state, self.outcome = "failed" if failed else "finished", (output, failed)
            return ""
        return "Conflict" if self.attempt == 0 else "LeaseLost"

    def decide(self, verdict: str) -> str:
        if self.state == "waiting" and self.now > DEADLINE:
            self.state = "rejected"
            return "NotPending"
        if verdict == "edit" and self.state == "doubt":
            return "InvalidDecision"
        if verdict == "respond":
            self.outcome = ("out", False)
        self.number = 2 if verdict == "edit" else self.number
        self.state = {"reject": "rejected", "respond": "answered"}.get(verdict, "approved")
        return ""


class Play:
    """A store with one call, and its account."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(clock=self.clock)
        self.account = Account()
        self.id = ""

    async def ask(self) -> None:
        request = CallRequest(source="bot", tool="pay", arguments={"n": 1}, key="k", deadline=DEADLINE)
        status, _ = await ask_about_call(self.store, request, by="bot")
        self.id = status.id

    async def act(self, act: tuple[Any, ...]) -> None:
        """Do it, and expect the outcome that the account has."""
        name, *rest = act
        expected, work = self._plan(name, rest)
        try:
            await work
            error = ""
        except AssentryError as raised:
            error = type(raised).__name__
        assert error == expected, act
        assert status_of(await self.store.read(self.id)).state == self.account.seen, act

    def _plan(self, name: str, rest: list[Any]) -> tuple[str, Any]:
        account, store = self.account, self.store
        if name == "start":
            given = None if rest[1] is None else {"n": rest[1]}
            return account.start(*rest), start_call(
                store, self.id, by="bot", holder=rest[0], arguments=given, hold=HOLD
            )
        if name == "renew":
            return account.renew(*rest), renew_call(store, self.id, by="bot", holder=rest[0], hold=HOLD)
        if name == "finish":
            holder, output, failed = rest
            told = {"error": output} if failed else {"output": output}
            return account.finish(*rest), finish_call(store, self.id, by="bot", holder=holder, **told)
        if name == "decide":
            return (account.decide(rest[0]) if account.state in ("waiting", "doubt") else ""), self.decide(rest[0])
        if name in ("cancel", "resume"):
            account.cancelled = name == "cancel"
            return "", getattr(store, name)(self.id, by="ann")
        if name == "wait":
            self.clock.advance(rest[0])
            account.now += rest[0]
            return "", store.read(self.id)
        if name == "tend" and account.cancelled:
            return "", tend_calls(store)  # nothing is due in a cancelled run
        account.tended()
        works = {"ask": self.ask, "look": lambda: look_at_call(store, self.id, by="bot")}
        return "", works.get(name, lambda: tend_calls(store))()

    async def decide(self, verdict: str) -> None:
        for question in (await self.store.questions()).items:
            await self.store.decide(question.id, DECISIONS[verdict], by="ann", digest=question.digest)


@given(st.lists(acts, max_size=40))
async def test_a_call_is_started_once_for_each_approval_and_never_without_one(acts: list[tuple[Any, ...]]) -> None:
    play = Play()
    await play.ask()
    for act in acts:
        await play.act(act)
    facts = (await play.store.read(play.id)).facts
    may, starts = 0, 0
    for fact in facts:
        if type(fact) is f.Approved:
            may = 1
        elif type(fact) is f.Started:
            assert may == 1, "a start without an approval of its own"
            may, starts = 0, starts + 1
        elif type(fact) is f.Asked:
            may = 0
    assert starts == play.account.attempt
    assert sum(type(fact) is f.Finished for fact in facts) <= 1
    if play.account.outcome is not None:
        (end,) = (fact for fact in facts if type(fact) is f.Finished)
        assert (decode(end.output), end.error is not None) == play.account.outcome
    assert await play.store.verify(play.id) == []
