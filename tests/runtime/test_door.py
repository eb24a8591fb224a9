"""The door: bodies run once, in parallel, in time; what they give; and what became of those that were broken off."""

import asyncio
import contextvars
import dataclasses
import enum
import functools
import threading
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict

from assentry import Agent, RunConfig, Runner, RunState, ToolContext, function_tool
from assentry.errors import InvalidDecision
from assentry.testing import ScriptedModel, call
from tests.runtime.support import (
    asked,
    facts,
    heard,
    outcomes,
    outputs,
    refused,
    reloaded,
    scripted,
    sending,
    soon,
    stopped,
    told,
)

# -- once ------------------------------------------------------------------------------------------


async def test_a_body_never_runs_twice_because_a_run_was_resumed() -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"].startswith("ask"))
    steps = [[call("send", {"to": f"free{n}"}), call("send", {"to": f"ask{n}"})] for n in range(4)]
    agent = scripted(*steps, "done", tools=[send])
    result = await Runner.run(agent, "go")
    while result.interruptions:
        result = await Runner.run(agent, await reloaded(agent, result.to_state()))  # in vain
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    assert result.final_output == "done"
    assert len(sent) == len(set(sent)) == 8


async def test_started_is_recorded_before_the_body_and_finished_after() -> None:
    inside = asyncio.Event()

    @function_tool
    async def look() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), call("look"), tools=[send, look])
    state = await stopped(Runner.run(agent, "go"), inside)
    kinds = [fact["fact"] for fact in state.to_json()["journal"] if fact.get("call") == "c1"]
    assert kinds == ["approved", "started", "finished"]
    kinds = [fact["fact"] for fact in state.to_json()["journal"] if fact.get("call") == "c2"]
    assert kinds == ["approved", "started"]


async def test_a_call_without_an_approval_on_record_is_never_started() -> None:
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["copies"] > 1)
    calls = [call("send", {"to": "a"}), call("send", {"to": "b", "copies": 2}), call("send", "[]"), call("nothing")]
    agent = scripted(calls, tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    approved = {fact["call"] for fact in facts(state, "approved")}
    assert {fact["call"] for fact in facts(state, "started")} == approved
    assert len(approved) == 1


# -- in parallel -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_calls_of_one_turn_overlap(is_async: bool) -> None:
    together = threading.Barrier(3)
    here: list[str] = []
    all_here = asyncio.Event()

    async def meet(who: str) -> str:
        here.append(who)
        if len(here) == 3:
            all_here.set()
        await all_here.wait()
        return f"{who} met"

    def meet_sync(who: str) -> str:
        together.wait(timeout=60)
        return f"{who} met"

    tool = function_tool(name_override="meet")(meet if is_async else meet_sync)
    agent = scripted([call("meet", {"who": who}) for who in "abc"], "done", tools=[tool])
    result = await soon(Runner.run(agent, "go"))
    assert told(result) == ["a met", "b met", "c met"]


async def test_approved_calls_overlap_with_those_that_need_nobody() -> None:
    first, second = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=True)
    async def one() -> str:
        first.set()
        await second.wait()
        return "one"

    @function_tool(needs_approval=True)
    async def two() -> str:
        second.set()
        await first.wait()
        return "two"

    agent = scripted([call("one"), call("two")], "done", tools=[one, two])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    for item in result.interruptions:
        state.approve(item)
    result = await soon(Runner.run(agent, state))
    assert told(result) == ["one", "two"]


async def test_no_more_bodies_run_at_once_than_the_limit() -> None:
    running, most = 0, 0

    @function_tool
    async def work(n: int) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return str(n)

    agent = scripted([call("work", {"n": n}) for n in range(10)], "done", tools=[work])
    result = await soon(Runner.run(agent, "go", run_config=RunConfig(max_parallel_tools=2)))
    assert most == 2
    assert told(result) == [str(n) for n in range(10)]


async def test_without_a_limit_a_hundred_bodies_run_at_once() -> None:
    here = 0
    all_here = asyncio.Event()

    @function_tool
    async def meet() -> str:
        nonlocal here
        here += 1
        if here == 100:
            all_here.set()
        await all_here.wait()
        return "met"

    agent = scripted([call("meet") for _ in range(100)], "done", tools=[meet])
    assert (await soon(Runner.run(agent, "go"))).final_output == "done"


async def test_the_model_is_asked_when_the_last_body_is_done_and_not_before() -> None:
    slow_may_end = asyncio.Event()
    requests_then: list[int] = []

    @function_tool
    async def quick() -> str:
        slow_may_end.set()
        return "quick"

    @function_tool
    async def slow() -> str:
        await slow_may_end.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        requests_then.append(asked(agent))
        return "slow"

    agent = scripted([call("slow"), call("quick")], "done", tools=[slow, quick])
    await soon(Runner.run(agent, "go"))
    assert requests_then == [1]


# -- in a thread, in time --------------------------------------------------------------------------


async def test_a_sync_body_runs_in_a_thread_with_the_callers_context_variables() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    threads: list[int] = []

    @function_tool
    def look() -> str:
        threads.append(threading.get_ident())
        found = who.get()
        who.set("changed inside")
        return found

    agent = scripted(call("look"), call("look"), "done", tools=[look])
    who.set("ann")
    result = await Runner.run(agent, "go")
    assert told(result) == ["ann", "ann"]
    assert threading.get_ident() not in threads
    assert who.get() == "ann"


async def test_an_async_body_sees_the_callers_context_variables() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    @function_tool
    async def look() -> str:
        return who.get()

    agent = scripted([call("look"), call("look")], call("look"), "done", tools=[look])
    who.set("ann")
    assert told(await Runner.run(agent, "go")) == ["ann"] * 3


async def test_a_body_that_takes_too_long_is_stopped_and_the_model_is_told() -> None:
    stopped_ = asyncio.Event()

    @function_tool(timeout=0.001)
    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped_.set()
        return "never"

    agent = scripted([call("hang"), call("hang")], call("hang"), "sorry", tools=[hang])
    result = await soon(Runner.run(agent, "go"))
    assert stopped_.is_set()
    assert [outcome.status for outcome in outcomes(result)] == ["failed"] * 3
    assert told(result)[0] == "The tool failed with ToolTimedOut: it took longer than 0.001 seconds"
    assert result.final_output == "sorry"


async def test_a_timeout_of_the_bodys_own_keeps_its_words() -> None:
    @function_tool(timeout=50)
    async def ring() -> str:
        raise TimeoutError("Nobody answers.")

    result = await Runner.run(scripted(call("ring"), "done", tools=[ring]), "go")
    assert told(result) == ["The tool failed with TimeoutError: Nobody answers."]


async def test_the_time_for_an_answer_does_not_count() -> None:
    @function_tool(timeout=50, needs_approval=True)
    async def pay() -> str:
        return "paid"

    agent = scripted(call("pay"), "done", tools=[pay])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert told(await Runner.run(agent, state)) == ["paid"]


# -- what a body gives -----------------------------------------------------------------------------


class Point(BaseModel):
    x: int
    at: datetime


@dataclasses.dataclass
class Place:
    name: str
    point: Point


class Named(TypedDict):
    name: str


class Colour(enum.Enum):
    RED = "red"


class Opaque:
    def __str__(self) -> str:
        return "opaque"


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
SELF: list[Any] = []
SELF.append(SELF)
DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]

GIVEN: dict[str, tuple[Any, Any]] = {
    "text": ("hi", "hi"),
    "empty text": ("", ""),
    "text that is JSON": ('{"a": 1}', '{"a": 1}'),
    "nothing": (None, "null"),
    "a number": (7, "7"),
    "a big number": (2**100, str(2**100)),
    "a bool": (True, "true"),
    "a dict": ({"b": 1, "a": [None]}, '{"b":1,"a":[None]}'.replace("None", "null")),
    "a list": ([1, "x"], '[1,"x"]'),
    "a tuple": ((1, 2), "[1,2]"),
    "a set": ({1}, "[1]"),
    "a model": (Point(x=1, at=MOMENT), '{"x":1,"at":"2026-01-02T00:00:00Z"}'),
    "a dataclass": (
        Place("home", Point(x=1, at=MOMENT)),
        '{"name":"home","point":{"x":1,"at":"2026-01-02T00:00:00Z"}}',
    ),
    "a typed dict": (Named(name="x"), '{"name":"x"}'),
    "an enum": (Colour.RED, "red"),
    "a decimal": (Decimal("1.50"), "1.50"),
    "a moment": (MOMENT, "2026-01-02T00:00:00Z"),
    "an object": (Opaque(), "opaque"),
    "models in a list": ([Point(x=1, at=MOMENT)], '[{"x":1,"at":"2026-01-02T00:00:00Z"}]'),
}


@pytest.mark.parametrize(("value", "text"), GIVEN.values(), ids=GIVEN.keys())
async def test_a_body_may_give_anything(value: Any, text: str) -> None:
    @function_tool
    async def give() -> Any:
        return value

    agent = scripted(call("give"), "done", tools=[give])
    result = await Runner.run(agent, "go")
    assert told(result) == [text]
    assert outputs(result)[0].output is value, "the Python object in the process that ran it"
    assert heard(agent)[-1]["output"] == text
    loaded = await reloaded(agent, result.to_state())
    loaded.add_input("again")
    agent.model = ScriptedModel(["done"])
    result = await Runner.run(agent, loaded)
    assert told(result) == [text], "the same to the model after a reload"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Dark(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    inside: Opaque


@pytest.mark.parametrize(
    "value",
    [Mute(), [Mute()], {"a": Mute()}, SELF, DEEP, Dark(inside=Opaque()), {(1, 2): "x"}, {1: "x"}, b"\xff", 1j],
    ids=[
        "mute",
        "mute in list",
        "mute in dict",
        "holds itself",
        "deep",
        "dark",
        "tuple keys",
        "int keys",
        "bytes",
        "1j",
    ],
)
async def test_an_output_that_json_cannot_hold_never_leaves_the_call_in_doubt(value: Any) -> None:
    ran: list[int] = []

    @function_tool
    async def give() -> Any:
        ran.append(1)
        return value

    agent = scripted(call("give"), "done", tools=[give])
    result = await Runner.run(agent, "go")
    assert result.final_output == "done"
    assert ran == [1]
    assert (await reloaded(agent, result.to_state())).status == "done"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\ud800b", "a�b"),
        ("\udc00", "�"),
        ("�\ud800", "��"),
        ("\ud83d\ude00", "😀"),
        ({"k\ud800": ["v\udfff"]}, '{"k�":["v�"]}'),
        (Place("\ud800", Point(x=1, at=MOMENT)), '{"name":"�","point":{"x":1,"at":"2026-01-02T00:00:00Z"}}'),
    ],
    ids=["inside", "alone", "beside a replacement", "a whole pair", "in a dict", "in a dataclass"],
)
async def test_text_that_utf8_cannot_hold_is_replaced_with_a_note(value: Any, text: str) -> None:
    @function_tool
    async def give() -> Any:
        return value

    agent = scripted(call("give"), "done", tools=[give])
    result = await Runner.run(agent, "go")
    assert told(result) == [text]
    [finished] = facts(result.to_state(), "finished")
    assert "UTF-8" in finished["note"]
    assert (await reloaded(agent, result.to_state())).status == "done"


async def test_a_sync_function_that_gives_a_coroutine_is_awaited() -> None:
    async def inner(to: str) -> str:
        return f"sent to {to}"

    def outer(to: str) -> Any:
        return inner(to)

    agent = scripted(call("outer", {"to": "ann"}), "done", tools=[function_tool(outer)])
    assert told(await Runner.run(agent, "go")) == ["sent to ann"]


async def test_an_async_function_behind_a_plain_decorator_is_awaited() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @function_tool
    @logged
    async def send(to: str) -> str:
        return f"sent to {to}"

    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    assert told(await Runner.run(agent, "go")) == ["sent to ann"]


# -- bodies that fail ------------------------------------------------------------------------------


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS: list[BaseException] = [
    ValueError("no"),
    KeyError("x"),
    StopIteration("x"),
    StopAsyncIteration("x"),
    RecursionError(),
    TimeoutError(),
    ExceptionGroup("several", [ValueError("no")]),
    ValueError("\ud800"),
    Wordless(),
    asyncio.CancelledError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__}{len(error.args)}")
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("siblings", [0, 1])
async def test_an_error_in_a_body_becomes_an_outcome_that_the_model_sees(
    error: BaseException, is_async: bool, siblings: int
) -> None:
    def fail() -> str:
        raise error

    async def fail_async() -> str:
        raise error

    tool = function_tool(name_override="fail")(fail_async if is_async else fail)
    other, _ = sending()
    agent = scripted([call("fail"), *[call("send", {"to": "ann"})] * siblings], "sorry", tools=[tool, other])
    result = await soon(Runner.run(agent, "go"))
    assert outcomes(result)[0].status == "failed"
    assert result.final_output == "sorry"
    assert told(result)[0]
    assert (await reloaded(agent, result.to_state())).status == "done"


async def test_the_words_for_a_failure_are_the_tools_own() -> None:
    async def later(ctx: Any, error: Exception) -> str:
        return f"later: {error} for {ctx.context}"

    for words, expected in (
        (lambda ctx, error: f"now: {error} for {ctx.context}", "now: no for 5"),
        (later, "later: no for 5"),
    ):

        @function_tool(failure_error_function=words)
        async def fail() -> str:
            raise ValueError("no")

        agent = scripted(call("fail"), "sorry", tools=[fail])
        assert told(await Runner.run(agent, "go", context=5)) == [expected]


async def test_a_failure_function_that_fails_is_raised_after_the_outcome_is_recorded() -> None:
    ran: list[int] = []

    def words(ctx: Any, error: Exception) -> str:
        raise LookupError("no words") from error

    @function_tool(failure_error_function=words)
    async def fail() -> str:
        ran.append(1)
        raise ValueError("no")

    agent = scripted(call("fail"), "sorry", tools=[fail])
    with pytest.raises(LookupError) as caught:
        await Runner.run(agent, "go")
    result = await Runner.run(agent, caught.value.state)  # type: ignore[attr-defined]
    assert ran == [1]
    assert result.final_output == "sorry"


# -- in doubt --------------------------------------------------------------------------------------


class Broken:
    """A tool whose first body is broken off in the middle."""

    def __init__(self, **options: Any) -> None:
        self.ran: list[int] = []
        self.keys: list[str] = []
        self.inside = asyncio.Event()

        @function_tool(**options)
        async def pay(ctx: ToolContext[Any], amount: int) -> str:
            self.ran.append(amount)
            self.keys.append(ctx.idempotency_key)
            if len(self.ran) == 1:
                self.inside.set()
                await asyncio.Event().wait()
            return f"paid {amount}"

        self.tool = pay

    async def off(self, run: Any) -> RunState[Any]:
        """The state that the broken run leaves."""
        return await stopped(run, self.inside)


async def in_doubt(siblings: int = 0, **options: Any) -> tuple[Broken, Agent[Any], Any]:
    """A tool broken off in the middle, its agent, and the result of resuming."""
    broken = Broken(**options)
    send, _ = sending()
    calls = [call("pay", {"amount": 5}, "abc"), *[call("send", {"to": "ann"})] * siblings]
    agent = scripted(calls, "done", tools=[broken.tool, send])
    state = await broken.off(Runner.run(agent, "go"))
    result = await Runner.run(agent, await reloaded(agent, state))
    return broken, agent, result


@pytest.mark.parametrize("siblings", [0, 2])
async def test_a_body_that_was_broken_off_is_never_run_again_unasked(siblings: int) -> None:
    broken, agent, result = await in_doubt(siblings)
    [item] = result.interruptions
    assert item.kind == "doubt"
    assert item.name == "pay"
    assert item.call_id == "abc"
    assert item.arguments == '{"amount":5}'
    assert item.reason
    assert set(item.allowed) == {"approve", "respond", "reject"}
    for _ in range(3):
        result = await Runner.run(agent, await reloaded(agent, result.to_state()))
        assert result.interruptions == [item]
    assert broken.ran == [5]
    assert asked(agent) == 1


async def test_a_doubt_is_bound_to_what_it_shows_like_any_question() -> None:
    _, _, result = await in_doubt()
    assert len(result.interruptions[0].digest) == 64


async def test_a_doubt_can_be_answered_with_what_happened() -> None:
    broken, agent, result = await in_doubt()
    state = await reloaded(agent, result.to_state())
    state.respond(result.interruptions[0], "it was paid", by="ann")
    result = await Runner.run(agent, state)
    assert broken.ran == [5]
    assert told(result) == ["it was paid"]
    assert outcomes(result)[0].by == "ann"
    assert result.final_output == "done"


async def test_a_doubt_can_be_settled_by_running_it_again_with_the_same_key() -> None:
    broken, agent, result = await in_doubt()
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0], by="ann")
    result = await Runner.run(agent, state)
    assert broken.ran == [5, 5]
    assert broken.keys[0] == broken.keys[1]
    assert told(result) == ["paid 5"]
    assert result.final_output == "done"


async def test_a_doubt_can_be_given_up() -> None:
    broken, agent, result = await in_doubt()
    state = await reloaded(agent, result.to_state())
    state.reject(result.interruptions[0], rejection_message="leave it")
    result = await Runner.run(agent, state)
    assert broken.ran == [5]
    assert told(result) == ["leave it"]
    assert result.final_output == "done"


async def test_a_doubt_cannot_be_edited_nor_settled_for_always() -> None:
    _, _, result = await in_doubt(needs_approval=lambda ctx, params, call_id: False)
    [item] = result.interruptions
    state = result.to_state()
    refused(lambda: state.edit(item, {"amount": 1}), InvalidDecision, state)
    refused(lambda: state.approve(item, always_approve=True), InvalidDecision, state)
    refused(lambda: state.reject(item, always_reject=True), InvalidDecision, state)
    assert state.grants() == []


async def test_a_doubt_can_come_twice() -> None:
    inside = [asyncio.Event(), asyncio.Event()]
    ran: list[int] = []

    @function_tool
    async def pay() -> str:
        ran.append(1)
        inside[len(ran) - 1].set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted(call("pay"), "done", tools=[pay])
    state = await stopped(Runner.run(agent, "go"), inside[0])
    result = await Runner.run(agent, state)
    state = result.to_state()
    state.approve(result.interruptions[0])
    state = await stopped(Runner.run(agent, state), inside[1])
    result = await Runner.run(agent, await reloaded(agent, state))
    assert [item.kind for item in result.interruptions] == ["doubt"]
    assert len(ran) == 2
    state = result.to_state()
    state.respond(result.interruptions[0], "paid")
    assert (await Runner.run(agent, state)).final_output == "done"


async def test_an_edited_call_in_doubt_still_tells_the_model_what_ran() -> None:
    broken = Broken(needs_approval=True)
    agent = scripted(call("pay", {"amount": 5}), "done", tools=[broken.tool])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {"amount": 7}, by="ann")
    state = await broken.off(Runner.run(agent, state))
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.interruptions[0].arguments == '{"amount":7}'
    state = result.to_state()
    state.approve(result.interruptions[0], by="ann")
    result = await Runner.run(agent, state)
    assert broken.ran == [7, 7]
    assert '{"amount":7}' in told(result)[0], "the model proposed 5"


async def test_siblings_that_ended_keep_their_outcome_when_one_is_broken_off() -> None:
    inside = asyncio.Event()
    ran: list[str] = []

    @function_tool
    async def quick() -> str:
        ran.append("quick")
        return "quick result"

    @function_tool
    async def hang() -> str:
        ran.append("hang")
        for _ in range(20):
            await asyncio.sleep(0)
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted([call("quick"), call("hang")], "done", tools=[quick, hang])
    state = await stopped(Runner.run(agent, "go"), inside)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert [item.name for item in result.interruptions] == ["hang"]
    assert sorted(ran) == ["hang", "quick"]
    state = result.to_state()
    state.respond(result.interruptions[0], "hung")
    assert told(await Runner.run(agent, state)) == ["quick result", "hung"]


@pytest.mark.parametrize("siblings", [0, 1])
async def test_a_body_that_makes_an_error_of_its_cancellation_does_not_keep_the_run_going(siblings: int) -> None:
    inside = asyncio.Event()

    @function_tool
    async def pay() -> str:
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("lost") from None
        return "never"

    send, _ = sending()
    agent = scripted([call("pay"), *[call("send", {"to": "ann"})] * siblings], "done", tools=[pay, send])
    await stopped(Runner.run(agent, "go"), inside)
    assert asked(agent) == 1, "a cancelled run does not ask the model again"


@pytest.mark.parametrize("siblings", [0, 1])
async def test_a_body_that_ends_well_when_cancelled_keeps_its_outcome_and_the_run_stops(siblings: int) -> None:
    inside = asyncio.Event()

    @function_tool
    async def pay() -> str:
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "paid after all"
        return "never"

    send, _ = sending()
    agent = scripted([call("pay"), *[call("send", {"to": "ann"})] * siblings], "done", tools=[pay, send])
    state = await stopped(Runner.run(agent, "go"), inside)
    assert asked(agent) == 1
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.interruptions == []
    assert told(result)[0] == "paid after all"


# -- the key ---------------------------------------------------------------------------------------


async def test_the_idempotency_key_tells_calls_arguments_and_runs_apart() -> None:
    keys: list[str] = []

    @function_tool(needs_approval=lambda ctx, params, call_id: params["amount"] == 99)
    async def pay(ctx: ToolContext[Any], amount: int) -> str:
        assert ctx.idempotency_key == ctx.idempotency_key
        keys.append(ctx.idempotency_key)
        return "paid"

    for _ in range(2):
        same = [call("pay", {"amount": 5}, "x"), call("pay", {"amount": 5}, "x"), call("pay", {"amount": 6}, "x")]
        await Runner.run(scripted(same, "done", tools=[pay]), "go")
    assert len(set(keys)) == 6
    agent = scripted(call("pay", {"amount": 99}), "done", tools=[pay])
    result = await Runner.run(agent, "go")
    text = result.to_state().to_string()
    keys.clear()
    for amount in (1, 2):
        state = await RunState.from_string(agent, text)
        state.edit(state.get_interruptions()[0], {"amount": amount})
        agent.model = ScriptedModel(["done"])
        await Runner.run(agent, state)
    assert len(set(keys)) == 2, "the arguments that run are part of it"


async def test_the_idempotency_key_is_the_same_each_time_a_body_is_entered() -> None:
    keys: list[str] = []

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        await ctx.ask("really?")
        await ctx.ask("really really?")
        return "paid"

    agent = scripted(call("pay"), "done", tools=[pay])
    result = await Runner.run(agent, "go")
    while result.interruptions:
        state = await reloaded(agent, result.to_state())
        state.respond(result.interruptions[0], "yes")
        result = await Runner.run(agent, state)
    assert len(keys) == 3
    assert len(set(keys)) == 1
