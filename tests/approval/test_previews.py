"""Previews: what a person is shown of a call's effect, and the second look before the call runs."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any

import pytest

from assentry import (
    SQL,
    Agent,
    AlreadyDecided,
    Diff,
    DigestMismatch,
    InvalidDefinition,
    Mail,
    Money,
    NotPending,
    Preview,
    RunConfig,
    Runner,
    RunState,
    Sentence,
    Shell,
    Table,
    Text,
    ToolApprovalItem,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from assentry.cli.preview import block_lines
from assentry.definitions.preview import MAX_BYTES, preview_json
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import ScriptedModel, call
from tests.runtime.support import facts, reloaded, scripted, told


class Shop:
    """Orders with versions, a refund with a preview, and what really happened."""

    def __init__(self, *steps: Any, **options: Any) -> None:
        self.version = 1
        self.paid: list[tuple[int, float]] = []
        self.looked = 0
        options = {"needs_approval": True, "preview": self.preview, **options}

        @function_tool(**options)
        async def refund(order: int, amount: float) -> str:
            """Pay money back."""
            self.paid.append((order, amount))
            return f"refunded {amount:.2f}"

        self.agent = scripted(*(steps or (call("refund", {"order": 1042, "amount": 899.0}), "Done.")), tools=[refund])

    def preview(self, ctx: Any, args: dict[str, Any]) -> Preview:
        self.looked += 1
        order = args["order"]
        return Preview(
            f"Refund {args['amount']:.2f} EUR on order {order}",
            (Money(f"{args['amount']:.2f}", "EUR"), Table(("order", "version"), ((order, self.version),))),
            {"version": self.version},
        )

    async def asked(self) -> tuple[RunState[Any], ToolApprovalItem]:
        state = (await Runner.run(self.agent, "go")).to_state()
        [item] = state.get_interruptions()
        return state, item


async def test_a_person_is_shown_what_would_happen() -> None:
    state, item = await Shop().asked()
    assert item.preview == Preview(
        "Refund 899.00 EUR on order 1042",
        (Money("899.00", "EUR"), Table(("order", "version"), ((1042, 1),))),
        {"version": 1},
    )
    [again] = (await reloaded(Shop().agent, state)).get_interruptions()
    assert again.preview == item.preview and again.digest == item.digest


async def test_an_approved_call_runs_once_if_nothing_has_moved() -> None:
    shop = Shop()
    state, item = await shop.asked()
    state.approve(item)
    result = await Runner.run(shop.agent, state)
    assert (result.final_output, shop.paid, shop.looked) == ("Done.", [(1042, 899.0)], 2)


async def test_if_the_world_moved_the_person_is_asked_again_and_nothing_runs() -> None:
    shop = Shop()
    state, item = await shop.asked()
    state.approve(item)
    shop.version = 2
    result = await Runner.run(shop.agent, state)
    [again] = result.interruptions
    assert shop.paid == []
    assert again.id != item.id and again.replaces == item.id and again.digest != item.digest
    assert again.preview is not None and again.preview.preconditions == {"version": 2}
    assert "version was 1 and is 2." in again.reason
    state = result.to_state()
    with pytest.raises(NotPending):
        state.approve(item)
    state.approve(again)
    assert (await Runner.run(shop.agent, state)).final_output == "Done."
    assert shop.paid == [(1042, 899.0)]


async def test_the_world_is_looked_at_again_in_another_process_too() -> None:
    shop = Shop()
    state, item = await shop.asked()
    state.approve(item)
    other = Shop("Done.")
    other.version = 2
    result = await Runner.run(other.agent, await reloaded(other.agent, state))
    assert other.paid == [] and len(result.interruptions) == 1


async def test_an_edit_is_asked_about_again_if_what_was_shown_has_moved() -> None:
    shop = Shop()
    state, item = await shop.asked()
    state.edit(item, {"order": 7, "amount": 5.0})
    shop.version = 2
    result = await Runner.run(shop.agent, state)
    [again] = result.interruptions
    assert again.preview is not None and again.preview.sentence == "Refund 5.00 EUR on order 7"
    state = result.to_state()
    state.approve(again)
    result = await Runner.run(shop.agent, state)
    assert shop.paid == [(7, 5.0)]
    assert "What ran was: refund" in told(result)[0]


async def test_an_edit_runs_if_nothing_has_moved() -> None:
    shop = Shop()
    state, item = await shop.asked()
    state.edit(item, {"order": 7, "amount": 5.0})
    await Runner.run(shop.agent, state)
    assert shop.paid == [(7, 5.0)]


async def test_a_preview_without_preconditions_is_made_once() -> None:
    calls: list[int] = []

    def preview(ctx: Any, args: dict[str, Any]) -> str:
        calls.append(1)
        return "Refund it"

    shop = Shop(preview=preview)
    state, item = await shop.asked()
    assert item.preview == Preview("Refund it")
    state.approve(item)
    await Runner.run(shop.agent, state)
    assert (len(calls), len(shop.paid)) == (1, 1)


def raising(ctx: Any, args: dict[str, Any]) -> Any:
    raise LookupError("no such order")


def changing(ctx: Any, args: dict[str, Any]) -> str:
    args["amount"] = 1.0
    return "Refund it"


async def hanging(ctx: Any, args: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


async def cancelling(ctx: Any, args: dict[str, Any]) -> Any:
    raise asyncio.CancelledError


BAD: dict[str, tuple[Any, str]] = {
    "raises": (raising, "it failed with LookupError: no such order"),
    "hangs": (hanging, "it took longer than 0.01 seconds"),
    "cancels itself": (cancelling, "it failed with CancelledError"),
    "gives nothing": (lambda ctx, args: None, "neither text nor a Preview"),
    "gives no sentence": (lambda ctx, args: Preview(""), "needs a sentence"),
    "gives two lines": (lambda ctx, args: "a\nb", "needs a sentence on one line"),
    "gives a failure": (lambda ctx, args: Preview("x", failed="y"), "neither text nor a Preview"),
    "gives what is no JSON": (lambda ctx, args: Preview("x", preconditions={"a": float("nan")}), "cannot be recorded"),
    "gives no blocks": (lambda ctx, args: Preview("x", blocks=("y",)), "cannot be recorded"),  # type: ignore[arg-type]
    "gives a float amount": (lambda ctx, args: Preview("x", (Money(1.1, "EUR"),)), "cannot be recorded"),  # type: ignore[arg-type]
    "gives a bad table": (lambda ctx, args: Preview("x", (Table(("a",), ((1, 2),)),)), "do not fit its columns"),
    "gives too much": (lambda ctx, args: Preview("x", (Text("y" * MAX_BYTES),)), "at most 1000000 are shown"),
    "gives what UTF-8 cannot hold": (lambda ctx, args: "\ud800", "cannot be recorded"),
}


@pytest.mark.parametrize("how", BAD)
async def test_a_preview_that_fails_is_said_so_and_the_question_is_asked(how: str) -> None:
    function, words = BAD[how]
    shop = Shop(preview=function, preview_timeout=0.01 if how == "hangs" else 10)
    state, item = await shop.asked()
    assert item.preview is not None and item.preview.failed is not None and not item.preview.sentence
    assert words in item.preview.failed
    state.approve(item)
    await Runner.run(shop.agent, state)
    assert shop.paid == [(1042, 899.0)]


async def test_a_preview_cannot_change_the_arguments() -> None:
    shop = Shop(preview=changing)
    state, item = await shop.asked()
    assert '"amount":899' in item.arguments
    state.approve(item)
    await Runner.run(shop.agent, state)
    assert shop.paid == [(1042, 899.0)]


async def test_a_preview_that_fails_at_the_door_is_asked_about() -> None:
    shop = Shop()
    state, item = await shop.asked()
    state.approve(item)
    shop.version = object()  # type: ignore[assignment]
    result = await Runner.run(shop.agent, state)
    [again] = result.interruptions
    assert shop.paid == [] and "cannot be checked any more" in again.reason
    assert again.preview is not None and again.preview.failed is not None


async def test_who_approved_without_a_preview_is_asked_again_when_there_is_one() -> None:
    shop = Shop()
    shop.version = object()  # type: ignore[assignment]  # the preview fails
    state, item = await shop.asked()
    assert item.preview is not None and item.preview.failed is not None
    state.approve(item)
    shop.version = 1
    result = await Runner.run(shop.agent, await reloaded(shop.agent, state))
    [again] = result.interruptions
    assert shop.paid == [] and again.replaces == item.id
    assert "There was no preview then, and there is one now." in again.reason
    assert again.preview is not None and again.preview.preconditions == {"version": 1}
    state = result.to_state()
    state.approve(again)
    assert (await Runner.run(shop.agent, state)).final_output == "Done."
    assert shop.paid == [(1042, 899.0)]


async def test_an_edit_after_a_failed_preview_runs_as_it_was_written() -> None:
    shop = Shop()
    shop.version = object()  # type: ignore[assignment]
    state, item = await shop.asked()
    state.edit(item, {"order": 7, "amount": 5.0})
    shop.version = 1
    assert (await Runner.run(shop.agent, state)).final_output == "Done."
    assert shop.paid == [(7, 5.0)]


async def test_a_blocking_preview_runs_in_a_thread() -> None:
    threads: list[int] = []

    def preview(ctx: Any, args: dict[str, Any]) -> str:
        threads.append(threading.get_ident())
        return "Refund it"

    await Shop(preview=preview).asked()
    assert threads and threads[0] != threading.get_ident()


async def test_no_preview_is_made_where_nobody_is_asked_or_nothing_can_run() -> None:
    shop = Shop(needs_approval=lambda ctx, args, id: False)
    assert (await Runner.run(shop.agent, "go")).final_output == "Done."
    assert shop.looked == 0 and shop.paid
    shop = Shop(call("refund", {"order": "x"}), "Done.")
    _, item = await shop.asked()
    assert item.preview is None and shop.looked == 0


async def test_code_that_decides_sees_the_preview() -> None:
    seen: list[Any] = []

    def decide(ctx: Any, item: ToolApprovalItem) -> dict[str, Any]:
        seen.append(item.preview)
        return {"approve": True}

    shop = Shop(on_approval=decide)
    assert (await Runner.run(shop.agent, "go")).final_output == "Done."
    assert seen[0].sentence == "Refund 899.00 EUR on order 1042" and shop.paid == [(1042, 899.0)]


async def test_a_decision_on_the_old_preview_does_not_count_for_the_new_one() -> None:
    shop = Shop()
    state, item = await shop.asked()
    state.approve(item)
    shop.version = 2
    state = (await Runner.run(shop.agent, state)).to_state()
    [again] = state.get_interruptions()
    with pytest.raises(DigestMismatch):
        state.decide(again.id, {"type": "approve"}, digest=item.digest)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_store_shows_the_preview_and_asks_again(kind: str, tmp_path: Any) -> None:
    shop = Shop()
    async with MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "a.db") as store:
        result = await Runner.run(shop.agent, "go", store=store)
        [first] = (await store.questions()).items
        assert first.preview is not None and first.preview.sentence == "Refund 899.00 EUR on order 1042"
        await store.decide(first.id, {"type": "approve"}, by="ann", digest=first.digest)
        shop.version = 2
        result = await Runner.run(shop.agent, await store.load(first.run), store=store)
        [second] = (await store.questions()).items
        assert shop.paid == [] and second.replaces == first.id and "version was 1 and is 2" in second.reason
        with pytest.raises((NotPending, AlreadyDecided)):
            await store.decide(first.id, {"type": "reject"}, by="bob", digest=first.digest)
        await store.decide(second.id, {"type": "approve"}, by="ann", digest=second.digest)
        result = await Runner.run(shop.agent, await store.load(first.run), store=store)
        assert (result.final_output, shop.paid) == ("Done.", [(1042, 899.0)])
        assert await store.verify(first.run) == []


async def test_the_digest_covers_the_preview() -> None:
    shop = Shop()
    state, _ = await shop.asked()
    saved = state.to_json()
    [asked] = [fact for fact in saved["journal"] if fact["fact"] == "asked"]
    asked["preview"]["sentence"] = "Refund 1.00 EUR on order 1042"
    forged = await RunState.from_json(shop.agent, saved)
    forged.approve(forged.get_interruptions()[0])
    with pytest.raises(DigestMismatch):
        await Runner.run(shop.agent, forged)
    assert shop.paid == []


async def test_previews_of_one_turn_are_made_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def preview(ctx: Any, args: dict[str, Any]) -> str:
        await both.wait()
        return f"Refund order {args['order']}"

    calls = [call("refund", {"order": n, "amount": 1.0}) for n in (1, 2)]
    shop = Shop(calls, "Done.", preview=preview)
    result = await Runner.run(shop.agent, "go")
    assert [item.preview.sentence for item in result.interruptions if item.preview] == [
        "Refund order 1",
        "Refund order 2",
    ]


def test_blocks_are_data() -> None:
    blocks = (
        Sentence("It is late."),
        Text("a\nb", title="Log"),
        Diff.between("a.txt", "one\ntwo\n", "one\n2\n"),
        SQL("DELETE FROM t WHERE id = ?", [7], rows=1),
        Money(Decimal("12.50"), "EUR"),  # type: ignore[arg-type]
        Mail(("a@b.c",), "Hello", "Dear you", cc=("d@e.f",)),
        Shell(("ls -l",), "/tmp"),
        Table(("a", "b"), ((1, None), ("x", 2.5))),
    )
    json = preview_json(Preview("It happens.", blocks))
    assert b'"amount":"12.50"' in bytes(json) and b'"type":"diff"' in bytes(json)


def test_a_difference_says_when_a_last_line_does_not_end() -> None:
    made = Diff.between("a.txt", "one", "one\n")
    assert made.text.count("\\ No newline at end of file") == 1
    made = Diff.between("a.txt", "", "one\x0c-two\u2028three\n")
    assert made.text.endswith("\n+one\x0c-two\u2028three\n")
    assert Diff.between("a.txt", None, "x\n").change == "create"
    assert Diff.between("a.txt", "x\n", None).change == "delete"
    assert Diff.between("a.txt", "x\n", "x\n", to="b.txt").change == "move"


@pytest.mark.parametrize("options", [{"preview": "text"}, {"preview_timeout": 0}, {"preview_timeout": None}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match="preview"):
        function_tool(name_override="x", **options)(lambda: None)


async def test_a_nested_agents_call_is_looked_at_again_too() -> None:
    shop = Shop(call("refund", {"order": 1, "amount": 2.0}), "Inner done.")
    outer = Agent(
        "Outer", tools=[shop.agent.as_tool("inner")], model=ScriptedModel([call("inner", {"input": "x"}), "Ok."])
    )
    state = (await Runner.run(outer, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    shop.version = 2
    result = await Runner.run(outer, state)
    assert shop.paid == [] and len(result.interruptions) == 1
    assert len(facts(result.to_state(), "asked")) == 2


async def test_a_question_that_is_asked_again_has_as_much_time_as_the_first() -> None:
    shop, now = Shop(), [1000.0]
    config = RunConfig(deadline=60, clock=lambda: now[0])
    state = (await Runner.run(shop.agent, "go", run_config=config)).to_state()
    [item] = state.get_interruptions()
    assert item.until == 1_060_000
    state.approve(item)
    shop.version, now[0] = 2, 1050.0
    [again] = (await Runner.run(shop.agent, state, run_config=config)).interruptions
    assert (again.until, again.due) == (1_110_000, None)
    assert shop.paid == []


async def test_the_second_look_comes_after_the_guardrails() -> None:
    @tool_input_guardrail
    async def slow(data: Any) -> ToolGuardrailFunctionOutput:
        shop.version = 2  # meanwhile
        return ToolGuardrailFunctionOutput.allow()

    shop = Shop(tool_input_guardrails=[slow])
    state, item = await shop.asked()
    state.approve(item)
    [again] = (await Runner.run(shop.agent, state)).interruptions
    assert "version was 1 and is 2" in again.reason
    assert shop.paid == []


def test_on_the_command_line_nothing_but_a_line_feed_begins_a_line() -> None:
    assert block_lines(Diff("a.txt", "+one\x0c-two\u2028three\r\n")) == ["update a.txt", "+ one\x0c-two\u2028three\r"]
    assert block_lines(Text("")) == []
    assert block_lines(Shell(("ls\r# x", "cat <<E\nE"))) == ["$ ls\r# x", "$ cat <<E", "> E"]
    assert block_lines(Mail(("ann",), "Hi", "one\x0btwo\n\n"))[-2:] == ["one\x0btwo", ""]


async def test_what_code_has_approved_is_looked_at_again_too() -> None:
    shop = Shop(
        [call("refund", {"order": 1042, "amount": 899.0}), call("wait")],
        "Done.",
        on_approval=lambda ctx, item: {"approve": "order 1042" in item.preview.sentence},
    )

    @function_tool(needs_approval=True)
    async def wait() -> str:
        """Wait for a person."""
        return "waited"

    shop.agent.tools.append(wait)
    config = RunConfig(release="batch")
    state = (await Runner.run(shop.agent, "go", run_config=config)).to_state()
    [item] = state.get_interruptions()
    assert item.name == "wait"
    state = await reloaded(shop.agent, state)
    state.approve(state.get_interruptions()[0])
    shop.version = 2
    result = await Runner.run(shop.agent, state, run_config=config)
    [again] = result.interruptions
    assert (again.name, shop.paid) == ("refund", []) and "version was 1 and is 2" in again.reason
    state = result.to_state()
    state.approve(again)
    assert (await Runner.run(shop.agent, state, run_config=config)).final_output == "Done."
    assert shop.paid == [(1042, 899.0)]
