"""One value for all four: what a rule judges, a person sees, a digest covers, and a body gets.

Types are drawn, and JSON for them: right, wrong, and of the kind that a lenient reader takes for something else.
Whenever a body is entered, what it got, written as JSON, is what everybody saw.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, AnyUrl, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, TypeAdapter
from typing_extensions import TypedDict

from assentry import Agent, Runner, RunState, ToolContext, function_tool, handoff
from assentry.approval.question import action_digest
from assentry.approval.tool_snapshot import ToolSnapshot
from assentry.errors import InvalidArguments, InvalidDecision
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel, call
from tests.draws import examples


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 0
    HIGH = 1


class Line(BaseModel):
    price: float
    paid: bool = False


class Tidy(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, strict=False, populate_by_name=True)
    name: str
    most: Annotated[int, Field(strict=False)] = Field(1, alias="mostItems")
    lines: list[Line] = []


def positive(value: float) -> float:
    if value < 0:
        raise ValueError("below zero")
    return value


class Checked(BaseModel):
    amount: Annotated[float, AfterValidator(positive)]
    when: date | None = None


@dataclass
class Point:
    x: int
    y: float = 0.5


class Options(TypedDict, total=False):
    fast: bool
    until: date


class Pair(NamedTuple):
    key: str
    value: int


LEAVES: list[Any] = [
    bool,
    int,
    float,
    str,
    date,
    datetime,
    time,
    timedelta,
    Decimal,
    UUID,
    Path,
    bytes,
    Colour,
    Level,
    Literal["a", 1, True],
    Literal[1],
    AnyUrl,
    SecretStr,
    None,
    Any,
    Tidy,
    Line,
    Checked,
    Point,
    Options,
    Pair,
    Annotated[float, AfterValidator(positive)],
    Annotated[bool, Field(strict=False)],
    Annotated[str, StringConstraints(to_lower=True)],
]
PLAIN: list[Any] = [bool, int, float, str, date, datetime, timedelta, Decimal, UUID, Path, Colour, Level, Line]
UNION: Any = Union
"""Of types that are drawn."""
KEYS: list[Any] = [str, int, bool, date, Level, Colour, UUID]


def _within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    hashable = st.sampled_from([bool, int, float, str, date, UUID, Level])
    return st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: tuple[kind, int]),  # type: ignore[valid-type]
        hashable.map(lambda kind: set[kind]),  # type: ignore[valid-type]
        hashable.map(lambda kind: frozenset[kind]),  # type: ignore[valid-type]
        st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: dict[pair]),  # type: ignore[valid-type]
        inner.map(lambda kind: UNION[None, kind]),
        several.map(lambda kinds: UNION[kinds]),
        st.lists(st.sampled_from(PLAIN), min_size=2, max_size=3, unique=True).map(
            lambda kinds: Annotated[UNION[tuple(kinds)], Field(union_mode="left_to_right")]
        ),
    )


kinds = st.recursive(st.sampled_from(LEAVES), _within, max_leaves=4)

TRICKS: list[Any] = [
    True,
    False,
    None,
    0,
    1,
    -1,
    1.0,
    0.5,
    900.0,
    2**53 + 1,
    10**400,
    *("", "0", "1", "900", "false", "no", "off", "true", "t", "inf", "nan", "Infinity", "NaN", "1e9", "+00900", "9_0"),
    *(" 1", "٩٠٠", "a", "A ", "red", "RED", "1700000000", "2026-11-17", "2026-1-7", "2026-11-17T00:00:00"),
    *("2026-11-17T09:30:00Z", "2026-11-17 09:30", "2026-11-17T09:30:00.123456789Z", "09:30", "09:30:00"),
    *("P1D", "PT90S"),
    *("1 day", "1.50", "1E+999999", "0b8ba4f2-3c1e-4d55-9d6c-0a4e3c9d2f10", "0B8BA4F2-3C1E-4D55-9D6C-0A4E3C9D2F10"),
    *("urn:uuid:0b8ba4f2-3c1e-4d55-9d6c-0a4e3c9d2f10", "/a//b", "a/./b"),
    *("https://EXAMPLE.com", "https://example.com/"),
    *({"price": "5"}, {"price": 5}, {"price": 1.5, "paid": "no"}, {"price": 1, "paid": 1}, {"price": 1, "more": 1}),
    *({"name": " x"}, {"name": "x", "most": 5}, {"name": "x", "mostItems": "5"}, {"name": "x", "mostItems": 5}),
    *({"name": "x", "mostItems": 1, "most": 900}, {"name": "x", "lines": [{"price": True}]}),
    *({"amount": "5"}, {"amount": 10**400}, {"amount": 1, "when": "0"}, {"amount": 1, "when": "2026-11-17"}),
    *({"x": 1}, {"x": "1"}, {"x": 1.0}, {"x": 1, "y": 2}, {"fast": "yes"}, {"fast": True, "until": 0}),
    *({"until": "2026-11-17"}, ["a", 1], ["a", "1"], {"key": "a", "value": 1}, {}, []),
    *({"1": 1}, {"01": 1}, {"+1": 1}, {"true": True}, {"yes": True}, {"2026-11-17": "a"}, {"0": 0}, {"red": 1}),
]
values = st.recursive(
    st.one_of(st.sampled_from(TRICKS), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "1", "true"]), inner, max_size=2),
    max_leaves=4,
)


def right(kind: Any) -> st.SearchStrategy[Any]:
    """JSON that is right for some of the types, so that bodies are entered often enough to say something."""
    good: dict[Any, list[Any]] = {
        bool: [True, False],
        int: [0, 7, 2**70],
        float: [0, 1.5, 2**53],
        str: ["", "0", "x"],
        date: ["2026-11-17"],
        Decimal: ["1.50", "-3"],
        Level: [0, 1],
        Line: [{"price": 5}, {"price": 1.5, "paid": True}],
    }
    return st.sampled_from(good.get(kind, TRICKS))


# -- the law ---------------------------------------------------------------------------------------


SPELLED: dict[type, Any] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: TypeAdapter(timedelta).validate_python,
    UUID: lambda text: UUID(text) if re.fullmatch("[0-9a-f-]{36}", text) else None,
}
"""Types that have no JSON of their own: what a careful reader makes of their text."""


def says(seen: Any, value: Any) -> bool:
    """Whether a value, written as JSON, is what was seen; what was not said is a default."""
    if isinstance(value, SecretStr):
        return says(seen, value.get_secret_value())
    if isinstance(value, Enum):
        return says(seen, value.value)
    if isinstance(value, BaseModel):
        names = {field.alias or name: name for name, field in type(value).model_fields.items()}
        return type(seen) is dict and all(k in names and says(v, getattr(value, names[k])) for k, v in seen.items())
    if dataclasses.is_dataclass(value):
        return type(seen) is dict and all(says(each, getattr(value, key)) for key, each in seen.items())
    if isinstance(value, Mapping):
        made = {text_of(key): each for key, each in value.items()}
        return type(seen) is dict and seen.keys() == made.keys() and all(says(seen[k], made[k]) for k in seen)
    if isinstance(value, set | frozenset):
        return type(seen) is list and len(seen) == len(value) and all(any(says(s, v) for v in value) for s in seen)
    if isinstance(value, list | tuple):
        return type(seen) is list and len(seen) == len(value) and all(map(says, seen, value))
    if type(value) is float:
        return type(seen) in (int, float) and seen == value
    if type(value) in (bool, int, str) or value is None:
        return type(seen) is type(value) and seen == value
    if type(value) is Decimal:
        return type(seen) is str and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", seen) is not None and Decimal(seen) == value
    if type(value) in SPELLED:
        return type(seen) is str and not seen.isdigit() and SPELLED[type(value)](seen) == value
    return bool(seen == (value.decode() if isinstance(value, bytes) else str(value)))


def text_of(key: Any) -> str:
    if isinstance(key, Enum):
        return text_of(key.value)
    return {True: "true", False: "false"}[key] if type(key) is bool else str(key)


class Scene:
    """A tool of one parameter, which notes what everybody sees."""

    def __init__(self, kind: Any, asks: bool) -> None:
        self.judged: list[Any] = []
        self.got: list[Any] = []

        def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
            self.judged.append(params["x"])
            return asks

        async def act(x: Any) -> str:
            self.got.append(x)
            return "done"

        act.__annotations__ = {"x": kind, "return": str}
        self.tool = function_tool(strict_mode=False, needs_approval=rule)(act)

    def agent(self, text: str) -> Agent[Any]:
        return Agent("A", tools=[self.tool], model=ScriptedModel([call("act", text), "done"]))


def text_for(value: Any) -> str:
    return json.dumps({"x": value})


async def play(kind: Any, value: Any) -> tuple[list[Any], list[Any]]:
    """A call that a rule lets pass, and one that a person approves: what was seen, and what the bodies got."""
    seen, bodies = [], []
    free = Scene(kind, asks=False)
    await Runner.run(free.agent(text_for(value)), "go")
    assert not free.got or len(free.judged) == 1
    seen += free.judged if free.got else []
    bodies += free.got
    asked = Scene(kind, asks=True)
    agent = asked.agent(text_for(value))
    result = await Runner.run(agent, "go")
    [item] = result.interruptions or [None]
    if item is not None and "approve" in item.allowed:
        state = await RunState.from_string(agent, result.to_state().to_string())
        [item] = state.get_interruptions()
        shown = json.loads(item.arguments)
        run = state._journal.run
        [open_call] = run.open.values()
        assert item.digest == action_digest(run, (), open_call, "act", asked.tool.fingerprint, shown)
        state.approve(item)
        await Runner.run(agent, state)
        assert len(asked.got) == 1, "what may be approved can run"
        seen += [shown["x"]]
        bodies += asked.got
        assert says(asked.judged[0], shown["x"])
    return seen, bodies


@given(data=st.data(), kind=kinds)
@settings(max_examples=examples(400), deadline=None)
def test_what_a_body_gets_is_what_the_rule_judged_and_the_person_saw(data: Any, kind: Any) -> None:
    value = data.draw(st.one_of(right(kind), values))
    seen, bodies = asyncio.run(play(kind, value))
    for shown, got in zip(seen, bodies, strict=True):
        assert says(shown, got), (kind, shown, got)


def accepts(tool: Any, value: Any) -> bool:
    try:
        tool.bind(tool.canonical({"x": value}))
    except InvalidArguments:
        return False
    return True


every_kind = pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: getattr(kind, "__name__", str(kind))[:40])


@every_kind
def test_nothing_is_read_into_a_value_that_it_does_not_say(kind: Any) -> None:
    tool = Scene(kind, asks=False).tool
    taken = [each for each in TRICKS if accepts(tool, each)]
    assert taken, "some fit"
    for value in taken:
        [got], _ = tool.bind(tool.canonical({"x": value}))
        assert says(value, got), (kind, value, got)


# -- edits -----------------------------------------------------------------------------------------


async def edits(kind: Any, value: Any) -> tuple[bool, bool, list[Any]]:
    """One edit in a state and one in a store: whether each was taken, and what the bodies got."""
    taken, bodies = [], []
    scene = Scene(kind, asks=True)
    agent = scene.agent('{"x": "what the model says"}')
    result = await Runner.run(agent, "go")
    state = result.to_state()
    [item] = result.interruptions
    try:
        state.edit(item, {"x": value})
        taken.append(True)
        await Runner.run(agent, state)
        bodies += scene.got
    except InvalidDecision:
        taken.append(False)
    scene = Scene(kind, asks=True)
    agent, store = scene.agent('{"x": "what the model says"}'), MemoryStore()
    result = await Runner.run(agent, "go", store=store)
    [item] = result.interruptions
    try:
        await store.decide(item.id, {"type": "edit", "arguments": {"x": value}}, by="ann", digest=item.digest)
        taken.append(True)
        await Runner.run(agent, await store.load(result.run_id), store=store)
        bodies += scene.got
    except InvalidDecision:
        taken.append(False)
    return taken[0], taken[1], bodies


@given(data=st.data(), kind=kinds)
@example(data=None, kind=float)
@settings(max_examples=examples(150), deadline=None)
def test_an_edit_is_judged_alike_in_a_state_and_in_a_store(data: Any, kind: Any) -> None:
    value = "5" if data is None else data.draw(st.one_of(right(kind), values))
    here, there, bodies = asyncio.run(edits(kind, value))
    assert all(says(value, got) for got in bodies), (kind, value, bodies)
    assert there or not here, (kind, value)


@every_kind
def test_a_tool_that_was_written_down_takes_what_the_tool_takes(kind: Any) -> None:
    tool = Scene(kind, asks=False).tool
    frozen = ToolSnapshot.read(tool.frozen())
    for value in TRICKS:
        if accepts(tool, value) != accepts(frozen, value):
            assert value == -1 and kind == Annotated[float, AfterValidator(positive)], "only the tool has its validator"


# -- agents' parameters, handoffs, answers ---------------------------------------------------------

OBJECTS: list[Any] = [Tidy, Line, Checked, Point, Options]


async def told(kind: Any, value: Any) -> tuple[list[Any], list[Any]]:
    """What an agent is told, and what a handoff's function gets."""
    heard: list[Any] = []
    inner: Agent[Any] = Agent("Inner", model=ScriptedModel(["fine"]))
    tool = inner.as_tool("ask", "Ask.", parameters=kind, input_builder=lambda args: heard.append(args) or "go")
    outer = Agent("Outer", tools=[tool], model=ScriptedModel([call("ask", json.dumps(value)), "done"]))
    await Runner.run(outer, "go")
    made = [TypeAdapter(kind).validate_json(json.dumps(heard[0]))] if heard else []
    judged: list[Any] = []
    got: list[Any] = []
    target: Agent[Any] = Agent("Target", model=ScriptedModel(["fine"]))
    hand = handoff(
        target,
        input_type=kind,
        on_handoff=lambda ctx, given: got.append(given),
        needs_approval=lambda ctx, params, call_id: bool(judged.append(params)),
    )
    text = json.dumps(value)
    first = Agent("First", handoffs=[hand], model=ScriptedModel([call("transfer_to_target", text), "done"]))
    await Runner.run(first, "go")
    return [*heard, *(judged if got else [])], [*made, *got]


@given(kind=st.sampled_from(OBJECTS), value=st.sampled_from([each for each in TRICKS if type(each) is dict]))
@settings(max_examples=examples(150), deadline=None)
def test_what_an_agent_or_a_handoff_is_told_is_what_was_judged(kind: Any, value: Any) -> None:
    seen, bodies = asyncio.run(told(kind, value))
    for shown, got in zip(seen, bodies, strict=True):
        assert says(shown, got), (kind, shown, got)


async def answered(kind: Any, value: Any) -> tuple[bool, list[Any], list[Any]]:
    got: list[Any] = []

    @function_tool
    async def act(ctx: ToolContext[Any]) -> str:
        got.append(await ctx.ask("?", schema=kind))
        return "done"

    agent: Agent[Any] = Agent("A", tools=[act], model=ScriptedModel([call("act"), "done"]))
    result = await Runner.run(agent, "go")
    state = result.to_state()
    try:
        state.respond(result.interruptions[0], value)
    except InvalidDecision:
        return False, [], got
    result = await Runner.run(agent, state)
    return True, [each.output for each in result.new_items if each.type == "tool_call_output_item"], got


@given(data=st.data(), kind=kinds.filter(lambda kind: kind is not None))
@settings(max_examples=examples(200), deadline=None)
def test_an_answer_that_is_recorded_is_the_one_that_the_body_gets(data: Any, kind: Any) -> None:
    value = data.draw(st.one_of(right(kind), values))
    taken, _, got = asyncio.run(answered(kind, value))
    assert taken or not got
    assert all(says(value, each) for each in got), (kind, value, got)


def test_the_law_itself_tells_values_apart() -> None:
    assert says("2026-11-17", date(2026, 11, 17)) and not says(0, date(1970, 1, 1)) and not says("0", date(1970, 1, 1))
    assert says(1, 1.0) and not says(1.0, 1) and not says(True, 1) and not says("false", False)
    assert not says(10**400, float("inf")) and not says({"price": "5"}, Line(price=5))
    assert says("2026-11-17T09:30:00Z", datetime(2026, 11, 17, 9, 30, tzinfo=UTC))
