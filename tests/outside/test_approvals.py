"""`Approvals`: a program asks a store, or an inbox over HTTP, and runs only what was approved."""

from __future__ import annotations

import asyncio
import gc
import inspect
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from assentry import (
    Approvals,
    Approve,
    Edit,
    NotApproved,
    NotDecided,
    Reject,
    Respond,
    errors,
)
from assentry.approval.foreign_call import CallRequest
from assentry.core import facts as f
from assentry.errors import (
    AssentryError,
    Conflict,
    DigestMismatch,
    Forbidden,
    InvalidArguments,
    InvalidInput,
    LeaseLost,
    NotPending,
    NotSignedIn,
    RunBusy,
    RunNotFound,
    Upstream,
    UsageError,
)
from assentry.outside import place as place_module
from assentry.outside.approvals import AskedCall
from assentry.outside.options import CallOptions
from assentry.outside.place import REFUSALS
from assentry.store import MemoryStore, SQLiteStore, call_tending
from tests.outside.support import BOT, TOKEN, AskingPlace, running_inbox
from tests.runtime.support import soon

ARGS = {"amount": 10}


async def test_a_program_asks_waits_runs_and_reports(asking: AskingPlace) -> None:
    paid: list[int] = []

    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS, says="It is due.", preview="Pays 10.", session="s1")
        assert (call.status.state, call.status.source) == ("waiting", BOT)
        with pytest.raises(NotDecided) as caught:
            await call.decision(timeout=0)
        assert caught.value.call.id == call.id
        waits = asyncio.create_task(call.run(pay))
        await asyncio.sleep(0)
        assert paid == []
        await asking.decide(call.status, Approve())
        assert await soon(waits) == "paid 10"
        assert paid == [10]
        seen = await call.refresh()
        assert (seen.state, seen.output) == ("finished", "paid 10")


async def test_a_body_runs_with_what_the_person_made_of_the_arguments(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Edit({"amount": 5}))
        assert await call.run(lambda amount: amount) == 5


@pytest.mark.parametrize("decision", [Reject("not today"), Respond("paid in cash")])
async def test_a_body_does_not_run_without_an_approval(asking: AskingPlace, decision: Any) -> None:
    ran: list[Any] = []
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, decision)
        if isinstance(decision, Respond):
            assert await call.run(ran.append) == "paid in cash"
        else:
            with pytest.raises(NotApproved, match="refused by ann: not today") as caught:
                await call.run(ran.append)
            assert caught.value.call.state == "rejected"
    assert ran == []


async def test_silence_until_the_deadline_is_a_rejection(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS, deadline=60)
        asking.clock.advance(61)
        with pytest.raises(NotApproved, match="deadline"):
            await call.run(lambda amount: amount, timeout=5)


async def test_a_body_that_fails_is_reported_and_its_error_is_raised(asking: AskingPlace) -> None:
    def pay(amount: int) -> None:
        raise ValueError("no money")

    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())
        with pytest.raises(ValueError, match="no money"):
            await call.run(pay)
        assert (await call.refresh()).error == "ValueError: no money"
        with pytest.raises(NotApproved, match="has run already, and failed"):
            await call.run(pay)


async def test_a_body_that_was_cut_off_never_runs_a_second_time_by_itself(asking: AskingPlace) -> None:
    entered = asyncio.Event()
    ran: list[int] = []

    async def pay(amount: int) -> None:
        ran.append(amount)
        entered.set()
        await asyncio.Event().wait()

    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())
        task = asyncio.create_task(call.run(pay))
        await soon(entered.wait())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RunBusy):  # the same object too
            await call.run(pay)
        asking.clock.advance(61)
        with pytest.raises(NotDecided):
            await call.decision(timeout=0)
        assert (await call.refresh()).state == "doubt"
        await asking.decide(call.status, Reject("given up"))
        with pytest.raises(NotApproved, match="may have run"):
            await call.run(pay)
    assert ran == [10]


async def test_two_runs_of_one_call_at_once_run_the_body_once(asking: AskingPlace) -> None:
    ran: list[int] = []

    async def pay(amount: int) -> str:
        ran.append(amount)
        await asyncio.sleep(0)
        return "ok"

    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())
        made = await asyncio.gather(*(call.run(pay) for _ in range(4)), return_exceptions=True)
    assert ran == [10]
    assert "ok" in made
    assert {type(each) for each in made} <= {str, RunBusy}


async def test_two_programs_with_one_key_run_the_body_once_and_both_get_its_output(asking: AskingPlace) -> None:
    ran: list[int] = []

    def pay(amount: int) -> str:
        ran.append(amount)
        return "ok"

    async with asking.approvals() as one, asking.approvals() as two:
        calls = [await each.ask("pay", ARGS, key="invoice 7") for each in (one, two)]
        assert calls[0].id == calls[1].id
        await asking.decide(calls[0].status, Approve())
        assert [await call.run(pay) for call in calls] == ["ok", "ok"]
    assert ran == [10]


async def test_a_key_is_for_one_call(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        await approvals.ask("pay", ARGS, key="k")
        with pytest.raises(Conflict, match="Choose a new key"):
            await approvals.ask("pay", {"amount": 11}, key="k")


async def test_an_ask_is_found_again_by_its_key_and_by_its_id(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS, key="k")
    async with asking.approvals() as later:
        assert (await later.find("k")).id == (await later.load(call.id)).id == call.id
        for work in (later.find("other"), later.load("run_" + "0" * 32), later.load("../x"), later.load("")):
            with pytest.raises(AssentryError):
                await work
    async with asking.approvals("eve") as eve:
        with pytest.raises(RunNotFound):
            await eve.load(call.id)


async def test_other_arguments_than_were_approved_do_not_start(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())
        with pytest.raises(DigestMismatch):
            await call.start({"amount": 1000})
        assert await call.start(ARGS) == ARGS
        await call.finish("ok")
    said = [fact for fact in (await asking.store.read(call.id)).facts if type(fact) is f.Said and fact.by == "outside"]
    assert len(said) == 1


async def test_a_start_in_one_process_is_reported_by_another_with_its_holder(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS, key="k")
        await asking.decide(call.status, Approve())
        await call.start(holder="session 1")
    async with asking.approvals() as later:
        found = await later.find("k")
        with pytest.raises(LeaseLost):
            await found.finish("ok")
        assert (await found.finish("ok", holder="session 1")).state == "finished"


async def test_a_hold_is_renewed_while_the_body_runs(asking: AskingPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = asyncio.Event()
    renew = AskedCall._keep_renewing

    async def soon_renewing(self: AskedCall, hold: float) -> None:
        place = self._place
        original = place.renew

        async def noted(*args: Any) -> Any:
            status = await original(*args)
            renewed.set()
            return status

        place.renew = noted  # type: ignore[method-assign]
        await renew(self, hold)

    monkeypatch.setattr(AskedCall, "_keep_renewing", soon_renewing)
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())
        await call.start(hold=0.03)
        await soon(renewed.wait())
        await call.finish("ok")


async def test_a_hold_is_renewed_again_after_the_place_could_not_be_reached(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())
        tried = 0

        async def away(*args: Any) -> Any:
            nonlocal tried
            tried += 1
            raise Upstream("It is away.") if tried == 1 else NotSignedIn("That is enough.")

        call._place.renew = away  # type: ignore[method-assign]
        await call.start(hold=0.03)
        assert call._renewal is not None
        await soon(call._renewal)
    assert tried == 2


async def test_a_hold_that_cannot_be_renewed_is_left_to_run_out(
    asking: AskingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())

        async def revoked(*args: Any) -> Any:
            raise NotSignedIn("This token is revoked.")

        call._place.renew = revoked  # type: ignore[method-assign]
        await call.start(hold=0.03)
        assert call._renewal is not None
        await soon(call._renewal)
    assert "The hold on pay is not renewed any more: This token is revoked." in caplog.text


async def test_arguments_may_be_text_and_are_read_as_a_models_are(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask("pay", '{"amount": 10}')
        assert call.status.arguments == ARGS
        broken = await approvals.ask("pay", '{"amount": 10', schema={"type": "object"})
        assert broken.status.arguments is None
        await asking.decide(broken.status, Edit(ARGS))
        assert await broken.run(lambda amount: amount) == 10


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), b"ab", {1}, {1: 2}, date(2026, 1, 1), object(), "\ud800"]
)
async def test_what_is_no_json_is_refused_wherever_a_program_asks(asking: AskingPlace, value: Any) -> None:
    async with asking.approvals() as approvals:
        with pytest.raises(InvalidInput):
            await approvals.ask("pay", {"amount": value})
        assert (await asking.store.runs()).items == []
        call = await approvals.ask("pay", ARGS)
        await asking.decide(call.status, Approve())
        with pytest.raises((InvalidInput, InvalidArguments)):
            await call.start({"amount": value})
        await call.start()
        with pytest.raises(InvalidInput):
            await call.finish(value)
        assert (await call.refresh()).state == "running"


async def test_a_question_to_a_person_is_answered(asking: AskingPlace) -> None:
    async with asking.approvals() as approvals:
        call = await approvals.ask(
            "ask_user", {"question": "Which colour?"}, allowed=["respond", "reject"], answer_schema={"type": "string"}
        )
        await asking.decide(call.status, Respond("blue"))
        assert (await call.decision(timeout=5)).output == "blue"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schema": {"type": "nothing"}}, "schema"),
        ({"deadline": 0}, "deadline"),
        ({"reviewers": ["ann", ""]}, "reviewers"),
        ({"allowed": ["approve"]}, "reject"),
        ({"key": "x" * 300}, "key"),
    ],
)
async def test_a_bad_option_is_named(asking: AskingPlace, options: dict[str, Any], words: str) -> None:
    async with asking.approvals() as approvals:
        with pytest.raises(UsageError, match=words):
            await approvals.ask("pay", ARGS, **options)
        with pytest.raises(UsageError, match="no option 'deadlin'"):
            await approvals.ask("pay", ARGS, deadlin=5)  # type: ignore[call-arg]
        with pytest.raises(UsageError, match="arguments"):
            await approvals.ask("pay", 5)  # type: ignore[arg-type]


async def test_whoever_looks_after_the_inbox_asks_about_a_call_that_is_reported_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_tending, "TENDED", 0.01)
    store = MemoryStore()
    with running_inbox(store) as address:
        approvals = Approvals(address, source=BOT, token=TOKEN)
        call = await approvals.ask("pay", ARGS)
        question = await store.question(call.status.question or "")
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        await call.start(hold=0.001)
        await call.leave()

        async def asked() -> None:
            while not (await store.questions()).items:
                await store.watch(1)

        await soon(asked())
        await approvals.close()
    assert [each.kind for each in (await store.questions()).items] == ["doubt"]


# -- the way to an inbox -----------------------------------------------------------------------------


class Unsteady(httpx.AsyncHTTPTransport):
    """A connection that loses responses after the server has done its work, or answers with an error instead."""

    def __init__(self, *faults: str) -> None:
        super().__init__()
        self.faults = list(faults)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "unsent":
            raise httpx.ConnectError("refused")
        response = await super().handle_async_request(request)
        if fault == "lost":
            await response.aread()
            raise httpx.ReadError("the connection was lost")
        return httpx.Response(int(fault)) if fault else response


async def over(approvals: Approvals, *faults: str) -> None:
    place: Any = approvals._place
    await place._client.aclose()
    place._client = httpx.AsyncClient(headers=place._client.headers, transport=Unsteady(*faults), timeout=60)


@pytest.mark.parametrize("fault", ["lost", "unsent", "503", "500"])
async def test_a_lost_response_is_asked_for_again_and_nothing_is_done_twice(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_module, "PAUSE", 0.001)
    store = MemoryStore()
    ran: list[int] = []
    with running_inbox(store) as address:
        async with Approvals(address, source=BOT, token=TOKEN) as approvals:
            await over(approvals, fault, fault)
            call = await approvals.ask("pay", ARGS)
            question = await store.question(call.status.question or "")
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            await over(approvals, fault, "", fault, fault, "", fault)  # decision, start, finish
            assert await call.run(lambda amount: ran.append(amount) or "ok", timeout=60) == "ok"
    facts = [type(fact) for fact in (await store.read(call.id)).facts]
    assert (facts.count(f.Started), facts.count(f.Finished), ran) == (1, 1, [10])
    assert len((await store.runs()).items) == 1


async def test_an_inbox_that_is_not_there_is_an_error_for_the_outside_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_module, "PAUSE", 0.001)
    with running_inbox(MemoryStore()) as address:
        pass
    async with Approvals(address, source=BOT, token=TOKEN) as approvals:
        with pytest.raises(Upstream, match="cannot be reached"):
            await approvals.ask("pay", ARGS)


async def test_whoever_waits_waits_through_a_restart_of_the_inbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_module, "PAUSE", 0.001)
    monkeypatch.setattr(place_module, "LONGEST_WAIT", 0.01)
    store = MemoryStore()
    with running_inbox(store) as address:
        approvals = Approvals(address, source=BOT, token=TOKEN)
        call = await approvals.ask("pay", ARGS)
        await over(approvals, "", "unsent", "503", "lost")
        waits = asyncio.create_task(call.decision())
        question = await store.question(call.status.question or "")
        await asyncio.sleep(0)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        assert (await soon(waits)).state == "approved"
        await approvals.close()


async def test_a_wrong_token_is_said_to_be_one() -> None:
    with running_inbox(MemoryStore()) as address:
        async with Approvals(address, source=BOT, token=":") as approvals:
            with pytest.raises(NotSignedIn):
                await approvals.ask("pay", ARGS)
        async with Approvals(address, source=BOT, token="ann:reviewer") as approvals:
            with pytest.raises(Forbidden, match="may not ask"):
                await approvals.ask("pay", ARGS)


async def test_what_is_no_inbox_is_said_to_be_none() -> None:
    with running_inbox(MemoryStore()) as address:
        async with Approvals(f"{address}/nowhere", source=BOT, token=TOKEN) as approvals:
            with pytest.raises(AssentryError):
                await approvals.ask("pay", ARGS)


@pytest.mark.parametrize(
    ("place", "options", "words"),
    [
        ("https://", {"token": "t"}, "address"),
        ("https://host?x=1", {"token": "t"}, "address"),
        ("https://ann:pw@host", {"token": "t"}, "address"),
        ("https://host:nine", {"token": "t"}, "address"),
        ("https://host", {}, "token"),
        ("https://host", {"token": "tokén\ud800"}, "token"),
        ("https://host", {"token": "t", "rules": "rules.toml"}, "rules"),
        ("sqlite:///x.db", {"token": "t"}, "token"),
        (5, {}, "store"),
        ("sqlite:///x.db", {"source": " "}, "source"),
    ],
)
def test_a_place_that_is_none_is_refused_at_once(
    place: Any, options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text("")
    with pytest.raises(UsageError, match=words):
        Approvals(place, **({"source": BOT} | options))
    assert not (tmp_path / "x.db").exists()


def test_every_refusal_of_an_inbox_becomes_its_own_error() -> None:
    assert REFUSALS["urn:assentry:too-many-asks"] is errors.TooManyAsks
    assert REFUSALS["urn:assentry:not-pending"] is NotPending
    for kind in REFUSALS.values():
        assert str(kind("in words")) == "in words"


def test_the_options_are_the_fields_of_a_request() -> None:
    fields = set(CallRequest.__struct_fields__) - {"source", "tool", "arguments"}
    assert set(CallOptions.__annotations__) == fields
    assert "unpack" in str(inspect.signature(Approvals.ask)).lower()


async def test_a_store_that_was_opened_by_its_address_is_closed(tmp_path: Path) -> None:
    async with Approvals(f"sqlite:///{tmp_path / 'runs.db'}", source=BOT) as approvals:
        call = await approvals.ask("pay", ARGS)
    async with SQLiteStore(tmp_path / "runs.db") as store:
        assert (await store.question(call.status.question or "")).agent == BOT
        async with Approvals(store, source=BOT):
            pass
        assert len((await store.runs()).items) == 1  # a store of the program's own stays open
    gc.collect()


async def test_rules_of_a_program_with_a_store_of_its_own_are_read_from_a_file(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "all"\nverdict = "allow"')
    async with Approvals(MemoryStore(), source=BOT, rules=rules) as approvals:
        assert await approvals.run("pay", ARGS, lambda amount: amount) == 10
