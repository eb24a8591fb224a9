"""Arguments are taken as they are written, or not at all: nothing is read into them after they were judged."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    Base64Bytes,
    Base64Str,
    Base64UrlBytes,
    Base64UrlStr,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    SecretStr,
    model_validator,
)

from assentry import Agent, RunConfig, Runner, ToolContext, function_tool
from assentry.approval import gate, question
from assentry.core.digest import digest, parse_object
from assentry.errors import InvalidArguments, InvalidDecision, InvalidDefinition
from assentry.testing import ScriptedModel, call
from tests.runtime.support import refused, reloaded, scripted, told


def tool_of(kind: Any, rule: Any = False) -> tuple[Any, list[Any]]:
    got: list[Any] = []

    async def act(x: Any) -> str:
        got.append(x)
        return "done"

    act.__annotations__ = {"x": kind, "return": str}
    return function_tool(strict_mode=False, needs_approval=rule)(act), got


def bound(kind: Any, value: Any) -> Any:
    tool, _ = tool_of(kind)
    [got], _ = tool.bind(tool.canonical({"x": value}))
    return got


def problem(kind: Any, value: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        bound(kind, value)
    return str(caught.value)


@pytest.mark.parametrize("given", ['"false"', '"no"', '"off"', "0", "0.0", '""', "null", "[]"])
async def test_a_call_that_a_rule_would_misread_does_not_pass_it(given: str) -> None:
    tool, got = tool_of(bool, rule=lambda ctx, params, call_id: not params["x"])
    agent = scripted(call("act", f'{{"x": {given}}}'), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert got == [] and "expected true or false" in item.reason
    assert item.allowed == ("edit", "reject", "respond")


async def test_the_model_is_told_what_was_expected_and_what_it_sent() -> None:
    tool, got = tool_of(float)
    agent = scripted(call("act", {"x": "900"}), call("act", {"x": 900}), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    words = 'the arguments do not fit the tool: "x": expected a number, got the text "900"'
    assert told(result) == [f"The call did not run: {words}.", "done"]
    assert got == [900.0] and type(got[0]) is float


class Level(IntEnum):
    LOW = 1


class Line(BaseModel):
    price: float = 1.0
    paid: Annotated[bool, Field(strict=False)] = False


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (int, True, '"x": expected a whole number, got true'),
        (int, 900.0, '"x": expected a whole number, got the number 900.0'),
        (float, 10**400, '"x": expected a number that a float can hold exactly, got the number 1000'),
        (float, 2**53 + 1, '"x": expected a number that a float can hold exactly, got the number 9007199254740993'),
        (str, None, '"x": expected text, got null'),
        (list[bool], ["no"], '"x[0]": expected true or false, got the text "no"'),
        (dict[str, int], {"a": "5"}, '"x.a": expected a whole number, got the text "5"'),
        (dict[int, int], {"01": 5}, '"x.01": as a name, expected text like'),
        (datetime.date, 0, '"x": expected a date such as "2026-11-17", got the number 0'),
        (datetime.date, "0", '"x": expected a date such as "2026-11-17", got the text "0"'),
        (datetime.datetime, "1700000000", '"x": expected a date and time such as "2026-11-17T09:30:00Z", got'),
        (Decimal, 900, '"x": expected a decimal number as text, such as "19.90", got the number 900'),
        (Decimal, "1E+999999", '"x": expected a decimal number as text'),
        (Path, "/safe//x", '"x": expected a path in its normal form'),
        (Level, True, '"x": expected 1, got true'),
        (Literal["user", "admin"], "Admin", '"x": expected "user" or "admin", got the text "Admin"'),
        (set[int], [1, 1], '"x": expected a list in which nothing occurs twice'),
        (int | None, "5", '"x": expected a whole number or null, got the text "5"'),
        (datetime.date | str, "0", '"x": the text "0" would be read as something else'),
        (Line, {"price": "5"}, '"x.price": expected a number, got the text "5"'),
        (Line, {"paid": "no"}, '"x.paid": expected true or false, got the text "no"'),
        (Line, {"more": 1}, '"x.more": there is no such argument'),
        (list[Line], {"price": 5}, '"x": expected a list, got an object'),
    ],
)
def test_what_is_wrong_is_said_in_words_that_a_model_can_act_on(kind: Any, value: Any, words: str) -> None:
    assert problem(kind, value).startswith(words)


class Add(BaseModel):
    kind: Literal["add"]
    left: Add | Negate | float
    right: Add | Negate | float = 0


class Negate(BaseModel):
    kind: Literal["negate"]
    left: Add | Negate | float


def test_what_is_wrong_deep_inside_a_union_is_found_at_once() -> None:
    value: Any = "5"
    for depth in range(60):
        value = {"kind": "add" if depth % 2 else "negate", "left": value}
    assert problem(Add, value).startswith('"x.left.left.left')
    assert problem(Add, {"kind": "negate", "left": 1}) == '"x.kind": expected "add", got the text "negate"'
    assert problem(Add | Negate, {"kind": "negate", "left": "1"}).startswith('"x.left": expected')


def test_what_is_quoted_is_cut() -> None:
    assert len(problem(int, "9" * 10_000)) < 120


def even(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value


class Ticket(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    title: str
    when: datetime.date | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {**value, "title": value["title"].title()}


def test_a_validator_of_the_users_may_make_of_a_value_what_it_likes() -> None:
    assert bound(Annotated[int, AfterValidator(even)], 4) == 4
    assert "odd" in problem(Annotated[int, AfterValidator(even)], 3)
    assert bound(Annotated[str, AfterValidator(str.strip)], " a ") == "a"
    assert bound(Ticket, {"title": "a day", "when": "2026-11-17"}).title == "A Day"
    assert bound(Json[list[int]], "[1]") == [1] and bound(Base64Str, "YQ==") == "a"
    assert bound(SecretStr, "hush").get_secret_value() == "hush"


def test_a_validator_of_the_users_is_called_with_what_the_schema_says_alone() -> None:
    def words(text: Any) -> Any:
        return text.split() if isinstance(text, str) else text

    hidden = Annotated[list[str], BeforeValidator(words)]
    assert problem(hidden, "a b") == '"x": expected a list, got the text "a b"'
    said = Annotated[list[str], BeforeValidator(words, json_schema_input_type=list[str] | str)]
    assert bound(said, "a b") == ["a", "b"] == bound(said, ["a", "b"])
    assert "float can hold" in problem(Annotated[float, AfterValidator(abs)], 10**400)
    assert "a date such as" in problem(Annotated[datetime.date, AfterValidator(lambda day: day)], "0")
    assert "a date such as" in problem(Ticket, {"title": "a", "when": "0"})


class Own(BaseModel):
    amount: float

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)


def test_a_model_that_makes_itself_is_given_what_its_fields_say() -> None:
    assert bound(Own, {"amount": 5}).amount == 5.0
    assert problem(Own, {"amount": "5"}) == '"x.amount": expected a number, got the text "5"'


class Coded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    code: bytes


class Digits(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    code: bytes


class Written(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")
    code: bytes


@pytest.mark.parametrize("kind", [Base64Str, Base64Bytes, Base64UrlStr, Base64UrlBytes, Coded])
@pytest.mark.parametrize("text", ["aGl=", "a Gk=", "aGk=\n", "aGk", "１２", "*"])
def test_bytes_are_taken_from_one_text_alone(kind: Any, text: str) -> None:
    given, found = ({"code": "aGk="}, {"code": text}) if kind is Coded else ("aGk=", text)
    got = bound(kind, given)
    assert (got.code if kind is Coded else got) in ("hi", b"hi")
    assert 'such as "aGk="' in problem(kind, found)


def test_bytes_are_read_in_the_form_that_is_read_and_not_in_the_one_that_would_be_written() -> None:
    assert bound(Digits, {"code": "6d69"}).code == b"mi" and bound(Written, {"code": "mi!"}).code == b"mi!"
    assert 'expected hexadecimal digits such as "6869"' in problem(Digits, {"code": "6D69"})


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[datetime.date | str, Field(union_mode="left_to_right")]]
    name: Annotated[str, BeforeValidator(lambda value: value)] = ""


def test_what_a_model_takes_besides_its_fields_is_compared_too() -> None:
    assert bound(Open, {"day": "2026-11-17"}).day == datetime.date(2026, 11, 17)
    assert "would be read as something else" in problem(Open, {"day": "0"})


def test_a_default_that_no_argument_could_be_is_left_to_the_function() -> None:
    @function_tool
    def act(dry: bool = 0, count: int = 1.0, share: float = 1) -> str:  # type: ignore[assignment]
        """Act."""
        return ""

    assert act.canonical({}) == {"share": 1} or act.canonical({}) == {"share": 1.0}
    assert act.bind({}) == ([0, 1.0, 1.0], {})


# -- edits and answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["5", True, None, 10**400])
async def test_an_edit_in_a_state_is_judged_as_one_in_a_store_is(value: Any) -> None:
    tool, got = tool_of(float, rule=True)
    agent = scripted(call("act", {"x": 1}), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    refused(lambda: state.edit(result.interruptions[0], {"x": value}), InvalidArguments, state)
    state.edit(result.interruptions[0], {"x": 7})
    await Runner.run(agent, state)
    assert got == [7.0]


class Report(BaseModel):
    total: float
    final: bool = True


@pytest.mark.parametrize("output", [{"total": "5"}, {"total": 5, "final": "no"}, {"total": 5, "more": 1}])
async def test_an_edited_output_is_what_the_person_wrote(output: Any) -> None:
    model = ScriptedModel(['{"total": 1}'])
    agent: Agent[Any] = Agent("A", output_type=Report, output_needs_approval=True, model=model)
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    [item] = state.get_interruptions()
    refused(lambda: state.edit(item, {"output": output}), InvalidArguments, state)
    state.edit(item, {"output": {"total": 5, "final": False}})
    assert (await Runner.run(agent, state)).final_output == Report(total=5, final=False)


async def test_an_answer_is_recorded_as_the_body_gets_it() -> None:
    got: list[Any] = []

    @function_tool
    async def act(ctx: ToolContext[Any]) -> str:
        got.append(await ctx.ask("How much?", schema=Line))
        return "done"

    agent = scripted(call("act"), "done", tools=[act])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    [item] = result.interruptions
    for value in ({"price": "5"}, {"price": True}, {"paid": 0}, {"more": 1}, {"price": 10**400}):
        refused(lambda value=value: state.respond(item, value), InvalidDecision, state)  # type: ignore[misc]
    state.respond(item, {"price": 5})
    await Runner.run(agent, state)
    assert got == [Line(price=5)]


async def test_an_answer_to_a_question_of_an_earlier_assentry_still_counts() -> None:
    got: list[Any] = []

    @function_tool
    async def act(ctx: ToolContext[Any]) -> str:
        got.append(await ctx.ask("How much?", schema=Line))
        return "done"

    agent = scripted(call("act"), "done", tools=[act])
    result = await Runner.run(agent, "go")
    saved = result.to_state().to_json()
    asked = next(fact for fact in saved["journal"] if fact["fact"] == "asked")
    asked["schema"] = Line.model_json_schema()  # which allows other names
    run = result.to_state().run_id
    text = json.dumps(asked["schema"], sort_keys=True, separators=(",", ":"))
    place = {"run": run, "path": [], "call": asked["call"], "ask": 0, "prompt": '"How much?"'}
    asked["digest"] = digest({**place, "schema": text})
    state = await type(result.to_state()).from_json(agent, saved)
    state.respond(state.get_interruptions()[0], {"price": 5})
    assert (await Runner.run(agent, state)).final_output == "done"
    assert got == [Line(price=5)]


# -- the size of arguments -------------------------------------------------------------------------

HUGE = '{"x": "' + "y" * 11_000_000 + '"}'


async def test_arguments_that_are_too_large_are_not_read_and_the_model_is_told() -> None:
    tool, got = tool_of(str)
    result = await Runner.run(scripted(call("act", HUGE), "done", tools=[tool]), "go")
    assert got == []
    assert told(result) == [
        "The call did not run: the arguments are 11000009 bytes long, and at most 10000000 are read."
    ]


async def test_a_person_is_not_shown_what_nobody_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tool, got = tool_of(str, rule=True)
    agent = scripted(call("act", HUGE), "done", tools=[tool])
    read: list[int] = []

    def parsed(text: str) -> Any:
        read.append(len(text))
        return parse_object(text)

    monkeypatch.setattr(gate, "parse_object", parsed)
    monkeypatch.setattr(question, "parse_object", parsed)
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    [item] = state.get_interruptions()
    assert len(item.arguments) < 2000 and "11000009 characters" in item.arguments
    assert item.reason == (
        "This call cannot run as it is: the arguments are 11000009 bytes long, and at most 10000000 are read"
    )
    assert item.allowed == ("edit", "reject", "respond")
    refused(lambda: state.edit(item, {"x": "y" * 11_000_000}), InvalidArguments, state)
    state.edit(item, {"x": "short"})
    await Runner.run(agent, state)
    assert got == ["short"] and max(read, default=0) < 1000


async def test_a_run_may_take_more_or_less() -> None:
    tool, got = tool_of(str, rule=True)
    agent = scripted(call("act", {"x": "y" * 100}), "done", tools=[tool])
    result = await Runner.run(agent, "go", run_config=RunConfig(max_argument_bytes=50))
    state = await reloaded(agent, result.to_state())
    [item] = state.get_interruptions()
    assert "at most 50 are read" in item.reason
    refused(lambda: state.edit(item, {"x": "y" * 100}), InvalidArguments, state)
    state.reject(item)
    tool, got = tool_of(str)
    agent = scripted(call("act", HUGE), "done", tools=[tool])
    await Runner.run(agent, "go", run_config=RunConfig(max_argument_bytes=20_000_000))
    assert len(got[0]) == 11_000_000


@pytest.mark.parametrize("text", ["y" * 42, "é" * 21])
@pytest.mark.parametrize(("limit", "read"), [(50, True), (49, False)])
async def test_arguments_of_exactly_so_many_bytes_are_read(text: str, limit: int, read: bool) -> None:
    tool, got = tool_of(str)
    agent = scripted(call("act", f'{{"x":"{text}"}}'), "done", tools=[tool])
    await Runner.run(agent, "go", run_config=RunConfig(max_argument_bytes=limit))
    assert got == [text] * read


@pytest.mark.parametrize("limit", [0, 1, -5, 1.5, True, None, "10 MB"])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidDefinition, match="max_argument_bytes"):
        RunConfig(max_argument_bytes=limit)


def test_text_is_measured_as_bytes() -> None:
    tool, _ = tool_of(str)
    assert gate.read_arguments(tool, '{"x":"éé"}', 12).problem is None
    assert "12 bytes long" in str(gate.read_arguments(tool, '{"x":"éé"}', 11).problem)
