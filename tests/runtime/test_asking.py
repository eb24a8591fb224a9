"""Bodies that ask and bodies with steps."""

import asyncio
import contextlib
import datetime
import enum
import textwrap
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from assentry import Agent, Approve, Edit, Runner, RunResult, RunState, ToolContext, function_tool
from assentry.errors import AlreadyDecided, InvalidDecision, ReplayMismatch, UsageError
from assentry.testing import ScriptedModel, call
from tests.runtime.support import (
    asked,
    named,
    outcomes,
    outputs,
    python,
    refused,
    reloaded,
    scripted,
    sending,
    soon,
    stopped,
    told,
)


async def answered(agent: Agent[Any], result: RunResult, *answers: Any) -> RunResult:
    """Answer one question after another, with a reload before each."""
    for answer in answers:
        state = await reloaded(agent, result.to_state())
        [item] = state.get_interruptions()
        state.respond(item, answer)
        result = await Runner.run(agent, await reloaded(agent, state))
    return result


async def left(kind: type[UsageError], run: Awaitable[Any]) -> RunState[Any]:
    """The state that a run leaves with an error of this kind."""
    with pytest.raises(kind) as raised:
        await run
    state: RunState[Any] = raised.value.state
    return state


def asking(is_async: bool, schema: Any = None) -> tuple[Any, list[Any]]:
    """A tool that asks two questions and gives both answers, and each time it was entered."""
    entered: list[Any] = []

    async def book(ctx: ToolContext[Any], city: str) -> str:
        entered.append(city)
        when = await ctx.ask(f"When to {city}?", schema=schema)
        where = await ctx.ask({"question": "Which hotel?", "city": city})
        return f"{when!r} {where!r}"

    def book_sync(ctx: ToolContext[Any], city: str) -> str:
        entered.append(city)
        when = ctx.ask_sync(f"When to {city}?", schema=schema)
        where = ctx.ask_sync({"question": "Which hotel?", "city": city})
        return f"{when!r} {where!r}"

    return function_tool(name_override="book")(book if is_async else book_sync), entered


both = pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])


# -- asking ----------------------------------------------------------------------------------------


@both
async def test_a_body_asks_and_gets_the_answers(is_async: bool) -> None:
    book, entered = asking(is_async)
    agent = scripted(call("book", {"city": "Rome"}, "abc"), "done", tools=[book])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert item.kind == "input"
    assert item.question == "When to Rome?"
    assert item.schema is None
    assert set(item.allowed) == {"respond", "reject"}
    assert (item.name, item.call_id, item.arguments) == ("book", "abc", '{"city":"Rome"}')
    result = await answered(agent, result, "May")
    [second] = result.interruptions
    assert second.question == {"question": "Which hotel?", "city": "Rome"}
    assert second.id != item.id
    assert second.digest != item.digest
    assert asked(agent) == 1
    result = await answered(agent, result, {"name": "Ritz"})
    assert told(result) == ["'May' {'name': 'Ritz'}"]
    assert result.final_output == "done"
    assert len(entered) == 3, "entered again from the top for each answer"
    assert outcomes(result)[0].status == "finished"


@both
async def test_resuming_without_an_answer_does_not_enter_the_body(is_async: bool) -> None:
    book, entered = asking(is_async)
    agent = scripted(call("book", {"city": "Rome"}), tools=[book])
    result = await Runner.run(agent, "go")
    for _ in range(3):
        again = await Runner.run(agent, await reloaded(agent, result.to_state()))
        assert again.interruptions == result.interruptions
        result = again
    assert len(entered) == 1


async def test_what_a_body_asks_cannot_be_approved_or_edited() -> None:
    book, _ = asking(True)
    agent = scripted(call("book", {"city": "Rome"}), "done", tools=[book])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    state = result.to_state()
    refused(lambda: state.approve(item), InvalidDecision, state)
    refused(lambda: state.approve(item, always_approve=True), InvalidDecision, state)
    refused(lambda: state.edit(item, {"city": "Oslo"}), InvalidDecision, state)
    refused(lambda: state.reject(item, always_reject=True), InvalidDecision, state)
    refused(lambda: state.decide(item.id, Approve()), InvalidDecision, state)
    refused(lambda: state.decide(item.id, Edit({})), InvalidDecision, state)
    assert state.get_interruptions() == [item]


async def test_what_a_body_asks_can_be_rejected_and_the_body_is_not_entered_again() -> None:
    book, entered = asking(True)
    agent = scripted(call("book", {"city": "Rome"}), "done", tools=[book])
    result = await answered(agent, await Runner.run(agent, "go"), "May")
    state = result.to_state()
    state.reject(result.interruptions[0], rejection_message="nobody knows", by="ann")
    result = await Runner.run(agent, await reloaded(agent, state))
    assert told(result) == ["nobody knows"]
    assert (outcomes(result)[0].status, outcomes(result)[0].by) == ("rejected", "ann")
    assert len(entered) == 2
    assert result.final_output == "done"


async def test_a_body_that_asked_and_is_rejected_without_a_word_is_not_said_to_have_not_run() -> None:
    book, _ = asking(True)
    agent = scripted(call("book", {"city": "Rome"}), "done", tools=[book])
    state = (await Runner.run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0])
    result = await Runner.run(agent, await reloaded(agent, state))
    assert told(result) == ["The call was given up. It had begun, and what it did until it asked stands."]


async def test_a_body_that_cannot_be_entered_again_after_it_asked_is_not_said_to_have_not_run() -> None:
    book, _ = asking(True)
    agent = scripted(call("book", {"city": "Rome"}), "done", tools=[book])
    state = (await Runner.run(agent, "go")).to_state()

    @function_tool(name_override="book")
    async def changed(ctx: ToolContext[Any], city: int) -> str:
        return "never"

    after = scripted("done", tools=[changed])
    with pytest.warns(UserWarning, match="'book' has changed"):
        state = await reloaded(after, state, on_change="accept")
    state.respond(state.get_interruptions()[0], "May")
    [words] = told(await Runner.run(after, state))
    assert words.startswith('The call was given up: the arguments do not fit the tool: "city"')
    assert words.endswith(". It had begun, and may have run.")


async def test_an_answer_is_given_once() -> None:
    book, _ = asking(True)
    agent = scripted(call("book", {"city": "Rome"}), tools=[book])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    state = result.to_state()
    state.respond(item, "May")
    before = state.to_string()
    state.respond(item, "May")
    assert state.to_string() == before
    refused(lambda: state.respond(item, "June"), AlreadyDecided, state)
    refused(lambda: state.reject(item), AlreadyDecided, state)
    result = await Runner.run(agent, state)
    later = result.to_state()
    refused(lambda: later.respond(item, "June"), AlreadyDecided, later)


async def test_a_gated_tool_can_ask_too() -> None:
    entered: list[int] = []

    @function_tool(needs_approval=True)
    async def pay(ctx: ToolContext[Any], amount: int) -> str:
        entered.append(amount)
        return str(await ctx.ask("which account?"))

    agent = scripted(call("pay", {"amount": 5}), "done", tools=[pay])
    result = await Runner.run(agent, "go")
    assert result.interruptions[0].kind == "approval"
    assert entered == []
    state = await reloaded(agent, result.to_state())
    state.edit(result.interruptions[0], {"amount": 7})
    result = await Runner.run(agent, state)
    assert result.interruptions[0].kind == "input"
    assert result.interruptions[0].arguments == '{"amount":7}'
    result = await answered(agent, result, "savings")
    assert entered == [7, 7]
    assert told(result)[0].startswith("savings")
    assert '{"amount":7}' in told(result)[0], "the model proposed 5"


async def test_several_bodies_ask_at_once_and_each_gets_its_own_answer() -> None:
    book, _ = asking(True)
    other, sent = sending()
    calls = [call("book", {"city": "Rome"}), call("send", {"to": "ann"}), call("book", {"city": "Oslo"})]
    agent = scripted(calls, "done", tools=[book, other])
    result = await Runner.run(agent, "go")
    assert sent == [("ann", 1)]
    rome, oslo = result.interruptions
    assert (rome.question, oslo.question) == ("When to Rome?", "When to Oslo?")
    state = await reloaded(agent, result.to_state())
    state.respond(oslo, "June")
    result = await Runner.run(agent, state)
    assert [item.question for item in result.interruptions] == [
        "When to Rome?",
        {"question": "Which hotel?", "city": "Oslo"},
    ]
    assert asked(agent) == 1
    assert sent == [("ann", 1)]


@both
async def test_the_same_question_twice_is_two_questions(is_async: bool) -> None:
    async def twice(ctx: ToolContext[Any]) -> str:
        return f"{await ctx.ask('?')} {await ctx.ask('?')}"

    def twice_sync(ctx: ToolContext[Any]) -> str:
        return f"{ctx.ask_sync('?')} {ctx.ask_sync('?')}"

    tool = function_tool(name_override="twice")(twice if is_async else twice_sync)
    agent = scripted(call("twice"), "done", tools=[tool])
    result = await answered(agent, await Runner.run(agent, "go"), "a", "b")
    assert told(result) == ["a b"]


async def test_a_question_that_is_not_json_is_an_error_of_the_body() -> None:
    @function_tool
    async def ask(ctx: ToolContext[Any]) -> str:
        return str(await ctx.ask(object()))

    agent = scripted(call("ask"), "done", tools=[ask])
    result = await Runner.run(agent, await left(UsageError, Runner.run(agent, "go")))
    assert outcomes(result)[0].status == "failed"
    assert result.final_output == "done" and result.interruptions == []


@dataclass
class Stay:
    nights: int
    until: datetime.date


class Size(enum.Enum):
    LARGE = "large"


class Guest(BaseModel):
    name: str


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ({"due": datetime.date(2026, 1, 2)}, {"due": "2026-01-02"}),
        ([datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)], ["2026-01-02T03:00:00Z"]),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ({"sum": Decimal("1.50"), "size": Size.LARGE}, {"sum": "1.50", "size": "large"}),
        ({"stay": Stay(2, datetime.date(2026, 1, 2))}, {"stay": {"nights": 2, "until": "2026-01-02"}}),
        ({"guests": [Guest(name="ann")]}, {"guests": [{"name": "ann"}]}),
        ({"rooms": {"b", "c", "a"}, 1: "one"}, {"rooms": ["a", "b", "c"], "1": "one"}),
    ],
    ids=["date", "time", "uuid", "number and enum", "dataclass", "pydantic", "set and key"],
)
async def test_a_question_is_json_as_a_tools_output_is(question: Any, shown: Any) -> None:
    @function_tool
    async def ask(ctx: ToolContext[Any]) -> str:
        return str(await ctx.ask(question))

    agent = scripted(call("ask"), "done", tools=[ask])
    result = await Runner.run(agent, "go")
    assert result.interruptions[0].question == shown
    result = await answered(agent, result, "yes")
    assert told(result) == ["yes"]


@pytest.mark.parametrize("question", [float("nan"), {"n": [float("inf")]}, {("a", "b"): 1}, {"x": object()}])
async def test_what_has_no_form_in_json_is_not_asked(question: Any) -> None:
    @function_tool
    async def ask(ctx: ToolContext[Any]) -> str:
        return str(await ctx.ask(question))

    state = await left(UsageError, Runner.run(scripted(call("ask"), "done", tools=[ask]), "go"))
    assert state.get_interruptions() == []


async def test_a_question_that_is_not_awaited_is_asked_all_the_same() -> None:
    @function_tool
    async def ask(ctx: ToolContext[Any]) -> Any:
        return ctx.ask("sure?")

    agent = scripted(call("ask"), "done", tools=[ask])
    result = await answered(agent, await Runner.run(agent, "go"), "yes")
    assert told(result) == ["yes"]


# -- answers that fit ------------------------------------------------------------------------------


class Trip(BaseModel):
    city: str
    days: int = Field(ge=1)


@dataclass
class Hotel:
    name: str
    stars: int = 3


class Colour(enum.Enum):
    RED = "red"


ROME = {"city": "Rome", "days": 2}
SCHEMAS: dict[str, tuple[Any, list[Any], list[Any], Any]] = {
    # what the body asks for, answers that do not fit, one that does, what the body gets
    "nothing": (None, [], [{"any": "thing"}], {"any": "thing"}),
    "a bool": (bool, ["yes", 1, None, "true"], [True], True),
    "a number": (int, ["5", 1.5, None, True], [5], 5),
    "text": (str, [5, None, ["x"]], [""], ""),
    "a choice": (Literal["a", "b"], ["c", None, 1], ["b"], "b"),
    "a list": (list[int], [["x"], {}, "1"], [[1, 2]], [1, 2]),
    "an enum": (Colour, ["blue", 1], ["red"], Colour.RED),
    "a model": (Trip, [{}, {"city": "x", "days": 0}, {"city": 5, "days": 1}, "x"], [ROME], Trip(city="Rome", days=2)),
    "a dataclass": (Hotel, [{}, {"name": 5}], [{"name": "Ritz"}], Hotel("Ritz")),
    "a date": (datetime.date, ["tomorrow", 5, "2026-13-01"], ["2026-05-01"], datetime.date(2026, 5, 1)),
    "a JSON schema": ({"type": "object", "required": ["x"]}, [{}, "x", None], [{"x": 1}], {"x": 1}),
    "a JSON schema with a reference": ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, ["x"], [1], 1),
    "a union": (int | None, ["x", 1.5], [None], None),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "bad", "good", "value"), SCHEMAS.values(), ids=SCHEMAS.keys())
@both
async def test_an_answer_must_fit_what_was_asked(
    schema: Any, bad: list[Any], good: Any, value: Any, is_async: bool
) -> None:
    got: list[Any] = []

    async def ask(ctx: ToolContext[Any]) -> str:
        got.append(await ctx.ask("?", schema=schema))
        return "ok"

    def ask_sync(ctx: ToolContext[Any]) -> str:
        got.append(ctx.ask_sync("?", schema=schema))
        return "ok"

    tool = function_tool(name_override="ask")(ask if is_async else ask_sync)
    agent = scripted(call("ask"), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    [item] = state.get_interruptions()
    assert (item.schema is None) == (schema is None)
    for answer in bad:
        refused(lambda answer=answer: state.respond(item, answer), InvalidDecision, state)  # type: ignore[misc]
    state.respond(item, good[0])
    result = await Runner.run(agent, await reloaded(agent, state))
    assert got == [value]
    assert type(got[0]) is type(value)
    assert result.final_output == "done"


@pytest.mark.parametrize("answer", [float("nan"), {1, 2}, object(), "\ud800"], ids=named)
async def test_an_answer_that_is_not_json_is_refused(answer: Any) -> None:
    book, _ = asking(True)
    agent = scripted(call("book", {"city": "Rome"}), tools=[book])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    refused(lambda: state.respond(result.interruptions[0], answer), InvalidDecision, state)


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, {"pattern": "("}, {"$ref": "https://example.com/x"}, {"$ref": "#/$defs/gone"}, 5, "text"],
    ids=str,
)
async def test_a_schema_that_no_answer_can_be_checked_by_never_hits_the_person_with_a_strange_error(
    schema: Any,
) -> None:
    @function_tool
    async def ask(ctx: ToolContext[Any]) -> str:
        return str(await ctx.ask("?", schema=schema))

    agent = scripted(call("ask"), "done", tools=[ask])
    try:
        result = await Runner.run(agent, "go")
    except UsageError as error:
        result = await Runner.run(agent, error.state)
    if result.interruptions:  # best it is not asked at all; if it is, whoever answers is told what is wrong
        state = result.to_state()
        refused(lambda: state.respond(result.interruptions[0], "x"), InvalidDecision, state)
        state.reject(result.interruptions[0])
        result = await Runner.run(agent, state)
    assert outcomes(result)[0].status in ("failed", "rejected")


# -- asked otherwise -------------------------------------------------------------------------------


async def test_a_body_that_asks_something_else_is_asked_anew() -> None:
    effects: list[str] = []
    version = 1

    @function_tool
    async def wipe(ctx: ToolContext[Any]) -> str:
        answer = await ctx.ask(f"Delete file {version}?")
        effects.append(answer)
        return "wiped"

    agent = scripted(call("wipe"), "done", tools=[wipe])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.respond(result.interruptions[0], "yes")
    version = 2
    result = await Runner.run(agent, await reloaded(agent, state))
    [item] = result.interruptions
    assert (item.kind, item.question, effects, asked(agent)) == ("input", "Delete file 2?", [], 1)
    assert "counts for nothing" in item.reason
    state = await reloaded(agent, result.to_state())
    state.respond(item, "no")
    result = await Runner.run(agent, state)
    assert (effects, told(result)) == (["no"], ["wiped"])


async def test_a_body_that_took_a_step_and_asks_something_else_is_stopped() -> None:
    version = 1

    @function_tool
    async def wipe(ctx: ToolContext[Any]) -> str:
        await ctx.step("move", lambda: f"moved file {version}")  # on another way it would stand for another step
        return str(await ctx.ask(f"Delete file {version}?"))

    agent = scripted(call("wipe"), "done", tools=[wipe])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.respond(result.interruptions[0], "yes")
    version = 2
    await _stopped_in_doubt(agent, state)


async def test_a_body_that_was_past_a_question_and_asks_something_else_is_stopped() -> None:
    effects: list[int] = []
    version = 1

    @function_tool
    async def wipe(ctx: ToolContext[Any]) -> str:
        await ctx.ask(f"Delete file {version}?")
        effects.append(version)  # which may happen twice, and not to two files
        return str(await ctx.ask("And the backup?"))

    agent = scripted(call("wipe"), "done", tools=[wipe])
    result = await answered(agent, await Runner.run(agent, "go"), "yes")
    state = result.to_state()
    state.respond(result.interruptions[0], "yes")
    version = 2
    await _stopped_in_doubt(agent, state)
    assert effects == [1]


async def _stopped_in_doubt(agent: Any, state: Any) -> None:
    with pytest.raises(ReplayMismatch, match="file 2") as caught:
        await Runner.run(agent, await reloaded(agent, state))
    result = await Runner.run(agent, await reloaded(agent, caught.value.state))
    assert [item.kind for item in result.interruptions] == ["doubt"] and asked(agent) == 1


@pytest.mark.parametrize("change", ["question", "schema", "order"])
@both
async def test_an_answer_never_passes_for_another_even_if_the_body_catches_everything(
    change: str, is_async: bool
) -> None:
    effects: list[str] = []
    changed = False

    def first() -> tuple[str, Any]:
        if not changed:
            return "A?", int
        return {"question": ("X?", int), "schema": ("A?", str), "order": ("B?", None)}[change]

    async def wipe(ctx: ToolContext[Any]) -> str:
        question, schema = first()
        with contextlib.suppress(Exception):
            await ctx.ask(question, schema=schema)
        effects.append("went on")
        await ctx.step("effect", lambda: effects.append("step"))
        with contextlib.suppress(Exception):
            await ctx.ask("B?")
        effects.append("went on further")
        return "wiped"

    def wipe_sync(ctx: ToolContext[Any]) -> str:
        question, schema = first()
        with contextlib.suppress(Exception):
            ctx.ask_sync(question, schema=schema)
        effects.append("went on")
        ctx.step_sync("effect", lambda: effects.append("step"))
        with contextlib.suppress(Exception):
            ctx.ask_sync("B?")
        effects.append("went on further")
        return "wiped"

    tool = function_tool(name_override="wipe")(wipe if is_async else wipe_sync)
    agent = scripted(call("wipe"), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.respond(result.interruptions[0], 1)
    changed = True
    result = await soon(Runner.run(agent, state))
    assert [item.question for item in result.interruptions] == [first()[0]] and effects == []


async def test_a_body_that_swallows_everything_still_waits_for_its_answer() -> None:
    @function_tool
    async def stubborn(ctx: ToolContext[Any]) -> str:
        try:
            answer = await ctx.ask("really?")
        except BaseException:
            return "I do as I please"
        return f"answer {answer}"

    agent = scripted(call("stubborn"), "done", tools=[stubborn])
    result = await Runner.run(agent, "go")
    assert [item.question for item in result.interruptions] == ["really?"]
    result = await answered(agent, result, "no")
    assert told(result) == ["answer no"]


async def test_a_body_that_raises_because_it_was_left_still_waits_for_its_answer() -> None:
    @function_tool(failure_error_function=None)
    async def stubborn(ctx: ToolContext[Any]) -> str:
        try:
            return str(await ctx.ask("really?"))
        except BaseException as error:
            raise RuntimeError("wrapped") from error

    agent = scripted(call("stubborn"), "done", tools=[stubborn])
    result = await Runner.run(agent, "go")
    result = await answered(agent, result, "no")
    assert told(result) == ["no"]


async def test_a_body_can_ask_from_a_task_group() -> None:
    @function_tool
    async def both_at_once(ctx: ToolContext[Any]) -> str:
        async with asyncio.TaskGroup() as group:
            one = group.create_task(ctx.ask("one?"))
            two = group.create_task(ctx.ask("two?"))
        return f"{one.result()} {two.result()}"

    agent = scripted(call("both_at_once"), "done", tools=[both_at_once])
    result = await Runner.run(agent, "go")
    assert [item.question for item in result.interruptions] == ["one?"]
    result = await answered(agent, result, "1", "2")
    assert told(result) == ["1 2"]


async def test_a_body_can_ask_from_gathered_tasks() -> None:
    @function_tool
    async def both_at_once(ctx: ToolContext[Any]) -> str:
        return " ".join(await asyncio.gather(ctx.ask("one?"), ctx.ask("two?")))

    agent = scripted(call("both_at_once"), "done", tools=[both_at_once])
    result = await answered(agent, await Runner.run(agent, "go"), "1", "2")
    assert told(result) == ["1 2"]


async def test_a_question_asked_under_a_time_limit_is_not_a_timeout() -> None:
    @function_tool(timeout=50)
    async def ask(ctx: ToolContext[Any]) -> str:
        async with asyncio.timeout(50):
            return str(await ctx.ask("?"))

    agent = scripted(call("ask"), "done", tools=[ask])
    result = await answered(agent, await Runner.run(agent, "go"), "x")
    assert told(result) == ["x"]


async def test_a_body_broken_off_between_its_questions_is_in_doubt_and_keeps_its_answers() -> None:
    inside = asyncio.Event()
    entered: list[int] = []

    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        entered.append(1)
        when = await ctx.ask("when?")
        if len(entered) == 2:
            inside.set()
            await asyncio.Event().wait()
        return f"booked {when}"

    agent = scripted(call("book"), "done", tools=[book])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.respond(result.interruptions[0], "May")
    state = await stopped(Runner.run(agent, state), inside)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert [item.kind for item in result.interruptions] == ["doubt"]
    assert len(entered) == 2
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert told(result) == ["booked May"]


# -- steps -----------------------------------------------------------------------------------------


@both
async def test_a_step_happens_once_and_is_replayed(is_async: bool) -> None:
    did: list[str] = []
    got: list[Any] = []

    def charge() -> dict[str, Any]:
        did.append("charge")
        return {"id": len(did), "parts": (1, 2)}

    async def charge_async() -> dict[str, Any]:
        await asyncio.sleep(0)
        return charge()

    async def pay(ctx: ToolContext[Any]) -> str:
        got.append(await ctx.step("charge", charge_async))
        await ctx.ask("receipt?")
        got.append(await ctx.step("print", lambda: did.append("print")))
        await ctx.ask("sure?")
        return "paid"

    def pay_sync(ctx: ToolContext[Any]) -> str:
        got.append(ctx.step_sync("charge", charge))
        ctx.ask_sync("receipt?")
        got.append(ctx.step_sync("print", lambda: did.append("print")))
        ctx.ask_sync("sure?")
        return "paid"

    tool = function_tool(name_override="pay")(pay if is_async else pay_sync)
    agent = scripted(call("pay"), "done", tools=[tool])
    result = await answered(agent, await Runner.run(agent, "go"), "yes", "yes")
    assert told(result) == ["paid"]
    assert did == ["charge", "print"]
    charged = {"id": 1, "parts": [1, 2]}
    assert got == [charged, charged, None, charged, None], "the first time it is what JSON makes of it, too"


@both
async def test_steps_of_one_name_are_told_apart_by_their_order(is_async: bool) -> None:
    did: list[int] = []

    def do(n: int) -> int:
        did.append(n)
        return n

    async def work(ctx: ToolContext[Any]) -> str:
        numbers = [await ctx.step("do", lambda n=n: do(n)) for n in range(3)]
        await ctx.ask("?")
        return str([*numbers, await ctx.step("do", lambda: do(3))])

    def work_sync(ctx: ToolContext[Any]) -> str:
        numbers = [ctx.step_sync("do", lambda n=n: do(n)) for n in range(3)]
        ctx.ask_sync("?")
        return str([*numbers, ctx.step_sync("do", lambda: do(3))])

    tool = function_tool(name_override="work")(work if is_async else work_sync)
    agent = scripted(call("work"), "done", tools=[tool])
    result = await answered(agent, await Runner.run(agent, "go"), "x")
    assert told(result) == ["[0, 1, 2, 3]"]
    assert did == [0, 1, 2, 3]


@both
@pytest.mark.parametrize("name", ["", 7, "assent:instead", "assent:ran:c1"])
async def test_a_step_needs_a_name_that_is_not_the_runtimes(is_async: bool, name: Any) -> None:
    async def work(ctx: ToolContext[Any]) -> str:
        return str(await ctx.step(name, lambda: "forged"))

    def work_sync(ctx: ToolContext[Any]) -> str:
        return str(ctx.step_sync(name, lambda: "forged"))

    tool = function_tool(name_override="work")(work if is_async else work_sync)
    with pytest.raises(UsageError, match=r"A step needs a name|are the runtime's"):
        await Runner.run(scripted(call("work"), "done", tools=[tool]), "go")


async def test_steps_of_one_name_at_the_same_time_keep_their_own_values() -> None:
    second_is_done = asyncio.Event()
    got: list[Any] = []

    async def first() -> str:
        await second_is_done.wait()
        return "first"

    async def second() -> str:
        second_is_done.set()
        return "second"

    @function_tool
    async def work(ctx: ToolContext[Any]) -> str:
        got.append(await asyncio.gather(ctx.step("fetch", first), ctx.step("fetch", second)))
        await ctx.ask("?")
        return "ok"

    agent = scripted(call("work"), "done", tools=[work])
    await answered(agent, await soon(Runner.run(agent, "go")), "x")
    assert got == [["first", "second"]] * 2


async def test_a_step_that_goes_on_while_its_body_asks_happens_once() -> None:
    asking, go = asyncio.Event(), asyncio.Event()
    paid: list[str] = []

    async def pay() -> str:
        await go.wait()
        paid.append("once")
        return "paid"

    @function_tool
    async def buy(ctx: ToolContext[Any]) -> str:
        async def sure() -> Any:
            asking.set()
            return await ctx.ask("sure?")

        return " ".join(await asyncio.gather(ctx.step("pay", pay), sure()))

    agent = scripted(call("buy"), "done", tools=[buy])
    run = asyncio.create_task(Runner.run(agent, "go"))
    await asking.wait()
    for _ in range(20):  # the body has asked and left; its step goes on
        await asyncio.sleep(0)
    go.set()
    result = await answered(agent, await soon(run), "yes")
    assert told(result) == ["paid yes"]
    assert paid == ["once"]


@both
async def test_a_step_that_fails_fails_in_the_body_and_is_not_kept(is_async: bool) -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    async def work(ctx: ToolContext[Any]) -> str:
        try:
            return str(await ctx.step("connect", flaky))
        except ConnectionError:
            return str(await ctx.step("again", flaky))

    def work_sync(ctx: ToolContext[Any]) -> str:
        try:
            return str(ctx.step_sync("connect", flaky))
        except ConnectionError:
            return str(ctx.step_sync("again", flaky))

    tool = function_tool(name_override="work")(work if is_async else work_sync)
    agent = scripted(call("work"), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    assert told(result) == ["up"]


@both
async def test_a_step_may_raise_anything_without_hanging(is_async: bool) -> None:
    def stop() -> str:
        raise StopIteration("x")

    async def work(ctx: ToolContext[Any]) -> str:
        return str(await ctx.step("stop", stop))

    def work_sync(ctx: ToolContext[Any]) -> str:
        return str(ctx.step_sync("stop", stop))

    tool = function_tool(name_override="work")(work if is_async else work_sync)
    result = await soon(Runner.run(scripted(call("work"), "done", tools=[tool]), "go"))
    assert outcomes(result)[0].status == "failed"


@pytest.mark.parametrize("name", ["", None, 5, "\ud800"])
@both
async def test_a_step_has_a_name_that_can_be_written_down(name: Any, is_async: bool) -> None:
    did: list[int] = []

    async def work(ctx: ToolContext[Any]) -> str:
        await ctx.step(name, lambda: did.append(1))
        return "worked"

    def work_sync(ctx: ToolContext[Any]) -> str:
        ctx.step_sync(name, lambda: did.append(1))
        return "worked"

    tool = function_tool(name_override="work")(work if is_async else work_sync)
    agent = scripted(call("work"), "done", tools=[tool])
    result = await Runner.run(agent, await left(UsageError, Runner.run(agent, "go")))
    assert outcomes(result)[0].status == "failed"
    assert did == []
    result.to_state().to_string()


async def test_a_step_done_before_a_body_was_broken_off_is_not_done_again() -> None:
    inside = asyncio.Event()
    did: list[str] = []

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        await ctx.step("charge", lambda: did.append("charge"))
        if not inside.is_set():
            inside.set()
            await asyncio.Event().wait()
        return "paid"

    agent = scripted(call("pay"), "done", tools=[pay])
    state = await stopped(Runner.run(agent, "go"), inside)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert [item.kind for item in result.interruptions] == ["doubt"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, await reloaded(agent, state))
    assert told(result) == ["paid"]
    assert did == ["charge"]


async def test_a_step_gives_what_json_makes_of_any_value() -> None:
    @function_tool
    async def work(ctx: ToolContext[Any]) -> str:
        return repr(await ctx.step("make", lambda: Trip(city="Rome", days=1)))

    result = await Runner.run(scripted(call("work"), "done", tools=[work]), "go")
    assert told(result) == ["{'city': 'Rome', 'days': 1}"]


async def test_the_value_of_a_step_is_the_bodys_own() -> None:
    got: list[Any] = []

    @function_tool
    async def work(ctx: ToolContext[Any]) -> str:
        rows = await ctx.step("rows", lambda: [1])
        got.append(list(rows))
        rows.append(2)
        await ctx.ask("?")
        return "ok"

    agent = scripted(call("work"), "done", tools=[work])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.respond(result.interruptions[0], "x")
    await Runner.run(agent, state)
    assert got == [[1], [1]]


def test_step_sync_in_an_async_body_does_not_hang() -> None:
    code = """
        import asyncio
        from assentry import Agent, Runner, ToolContext, function_tool
        from assentry.testing import ScriptedModel, call

        @function_tool
        async def work(ctx: ToolContext) -> str:
            return ctx.step_sync("one", lambda: "done")

        agent = Agent("agent", tools=[work], model=ScriptedModel([call("work"), "over"]))
        print(asyncio.run(Runner.run(agent, "go")).final_output)
    """
    ended = python(textwrap.dedent(code))
    assert ended.stdout == "over\n", ended.stderr


async def test_answers_reach_a_body_in_another_copy_of_the_state() -> None:
    """Copies of the same bytes are runs of their own: each answer counts where it was given."""
    book, _ = asking(True)
    agent = scripted(call("book", {"city": "Rome"}), tools=[book])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    ends = []
    for answer in ("May", "June"):
        agent.model = ScriptedModel(["done"])
        state = await RunState.from_string(agent, text)
        state.respond(state.get_interruptions()[0], answer)
        result = await answered(agent, await Runner.run(agent, state), "Ritz")
        ends.append(outputs(result)[0].output)
    assert ends == ["'May' 'Ritz'", "'June' 'Ritz'"]
