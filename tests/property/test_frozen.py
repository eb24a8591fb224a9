"""A tool that was written down: the same fingerprint, the same canonical arguments, and the same idea of what fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import Enum
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import Tool as Listed
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from assentry import Agent, ApplyPatchTool, ShellTool, Tool, WorkspaceEditor, function_tool, handoff
from assentry.approval.tool_snapshot import ToolSnapshot
from assentry.core.digest import canonical
from assentry.errors import InvalidArguments, UnreadableState
from assentry.mcp import MCPServerStdio
from assentry.runtime.agent_graph import PlacedAgent
from tests.draws import examples


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    city: str = "Bern"
    floor: int | None = None


class Person(BaseModel):
    name: str
    home: Address = Address(street="?")
    others: list[Address] = []
    tags: list[str] = Field(default_factory=lambda: ["new"])


class Tree(BaseModel):
    value: int = 0
    below: list[Tree] = []


@dataclass
class Point:
    x: int = 0
    y: int = field(default=1)


class Options(TypedDict, total=False):
    fast: bool


KINDS: list[tuple[Any, list[Any], list[Any], list[Any]]] = [
    # a type, defaults for it, JSON that fits, and JSON that does not
    (int, [1, -5, 2**60], [0, 7, 2**62], ["x", None, 1.5, [], {}]),
    (float, [0.5, 1e300], [0, 1.5, -2], ["x", None, []]),
    (str, ["", "é😀", "a"], ["", "b", "\n"], [1, None, [], {}]),
    (bool, [True, False], [True, False], ["maybe", None, [], 7]),
    (list[int], [[], [1]], [[], [1, 2]], [[None], "x", {}, 1]),
    (dict[str, int], [{}, {"a": 1}], [{}, {"b": 2}], [{"a": "x"}, [], 1]),
    (int | None, [None, 3], [None, 3], ["x", [], {}]),
    (Literal["a", "b"], ["a"], ["a", "b"], ["c", 1, None]),
    (Colour, [Colour.RED], ["red", "blue"], ["green", 1, None]),
    (Annotated[int, Field(ge=1, le=9)], [1, 9], [1, 5], [0, 10, "x"]),
    (Annotated[str, Field(min_length=2, pattern="^a")], ["ab"], ["abc"], ["a", "bb", 1]),
    (Annotated[list[str], Field(max_length=1)], [[]], [["a"]], [["a", "b"], [1]]),
    (Address, [Address(street="x")], [{"street": "a"}, {"street": "b", "floor": 2}], [{}, {"street": 1}, 1]),
    (Person, [Person(name="x")], [{"name": "n"}, {"name": "n", "others": [{"street": "s"}]}], [{"name": 1}, None]),
    (Address | None, [None], [None, {"street": "a", "city": "b"}], [{"city": "b"}, "x"]),
    (Tree, [Tree()], [{}, {"below": [{"below": [{}]}]}], [{"below": 1}, {"value": "x"}]),
    (Point, [Point(2)], [{}, {"x": 3}], [{"x": "a"}, []]),
    (Options, [{"fast": True}], [{}, {"fast": False}], [{"fast": "perhaps"}, 1]),
    (tuple[int, str], [(1, "a")], [[1, "a"]], [[1], ["a", 1], 1]),
    (datetime, [datetime(2026, 1, 2, 3, 4)], ["2026-01-02T03:04:05", "2026-01-02T03:04:05Z"], ["tomorrow", [], {}]),
    (date, [date(2026, 1, 2)], ["2026-01-02"], ["2026-13-02", [], {}]),
    (time, [time(1, 2)], ["01:02:03"], ["25:00:00", [], {}]),
    (timedelta, [timedelta(1)], ["P1D", "PT5S"], ["soon", [], {}]),
    (UUID, [UUID(int=1)], ["00000000-0000-0000-0000-000000000002"], ["no", 1, {}]),
    (IPv4Address, [IPv4Address("127.0.0.1")], ["10.0.0.1"], ["300.0.0.1", {}, []]),
    (Any, [None, 1, {"a": [1]}], [1, "x", None, [1]], []),
]

names = st.lists(st.sampled_from(["a", "b", "c", "schema", "self_", "kind"]), unique=True, max_size=4)


@st.composite
def functions(draw: Any) -> tuple[Tool, dict[str, tuple[Any, bool]]]:
    """A tool of a function with drawn parameters: for each the kind it is of, and whether it has a default."""
    space: dict[str, Any] = {}
    text, kinds, defaulted = [], {}, False
    for name in draw(names):
        kind = draw(st.sampled_from(KINDS))
        space[f"kind_{name}"] = kind[0]
        defaulted = defaulted or draw(st.booleans())
        if defaulted:
            space[f"default_{name}"] = draw(st.sampled_from(kind[1]))
        text.append(f"{name}: kind_{name}{f' = default_{name}' if defaulted else ''}")
        kinds[name] = (kind, defaulted)
    exec(f"async def tool({', '.join(text)}): 'It does.'", space)
    rule = draw(st.sampled_from([True, False, lambda ctx, params, call_id: True]))
    strict = not any(kind[0] in (dict[str, int], Any) for kind, _ in kinds.values())
    version = draw(st.sampled_from([None, "2"]))
    return function_tool(strict_mode=strict, needs_approval=rule, version=version)(space["tool"]), kinds


def accepts(tool: Any, args: dict[str, Any]) -> bool:
    try:
        tool.bind(tool.canonical(args))
    except InvalidArguments:
        return False
    return True


@given(drawn=functions(), data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_function_tool_that_was_written_down_judges_arguments_as_the_tool_does(drawn: Any, data: Any) -> None:
    tool, kinds = drawn
    frozen = ToolSnapshot.read(tool.frozen())
    assert frozen.fingerprint == tool.fingerprint
    assert (frozen.name, frozen.kind, frozen.server) == (tool.name, tool.kind, tool.server)
    args, fits = {}, True
    for name, (kind, defaulted) in kinds.items():
        what = data.draw(st.sampled_from(["good", "good", "good", "absent", *(["bad"] if kind[3] else [])]), name)
        if what == "absent":
            fits = fits and defaulted
            continue
        args[name] = data.draw(st.sampled_from(kind[2] if what == "good" else kind[3]))
        fits = fits and what == "good"
    if data.draw(st.booleans(), "another") and data.draw(st.booleans()):
        args["nope"], fits = 1, False
    assert canonical(frozen.canonical(args)) == canonical(tool.canonical(args))
    assert (accepts(tool, args), accepts(frozen, args)) == (fits, fits)
    assert all(frozen.takes(name) and tool.takes(name) for name in kinds)
    assert not frozen.takes("nope") and not tool.takes("nope")


def others() -> list[Tool]:
    agent: Agent[Any] = Agent("Helper", output_needs_approval=True)
    typed: Agent[Any] = Agent("Typed", output_type=Address, output_needs_approval=lambda ctx, params, id: True)
    finals = [PlacedAgent(each, each.name).final for each in (agent, typed)]
    return [
        agent.as_tool("ask", "Ask the helper."),
        agent.as_tool("ask_typed", "Ask.", parameters=Person, needs_approval=True, version="3"),
        handoff(agent),
        handoff(agent, input_type=Person, on_handoff=lambda ctx, given: None, needs_approval=True),
        *[final for final in finals if final is not None],
        ShellTool(lambda request: "", needs_approval=lambda ctx, action, id: True),
        ApplyPatchTool(WorkspaceEditor(".")),
        *map(served, SERVED),
    ]


SERVED: list[dict[str, Any]] = [
    {"type": "object", "properties": {"name": {"type": "string"}, "most": {"type": "integer", "default": None}}},
    {"type": "object", "properties": {"name": {"$ref": "#/definitions/N"}}, "definitions": {"N": {"type": "string"}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"name": {"minLength": 1, "default": ""}}},
    {"properties": {"name": {"type": "string"}, "rate": {"type": "integer", "default": 2}}, "required": ["name"]},
    {"properties": {"name": {"$ref": "#/nowhere"}}},
]
"""Schemas as servers write them: of other drafts, and with defaults that do not fit."""


def served(schema: dict[str, Any]) -> Tool:
    return MCPServerStdio({"command": "x"})._make_tool(Listed(name="act", input_schema=schema), frozenset({"act"}))


@pytest.mark.parametrize("tool", others(), ids=lambda tool: f"{tool.kind}-{tool.name}")
@pytest.mark.parametrize(
    "args",
    [
        {},
        {"input": "go"},
        {"input": 1},
        {"name": "n", "others": [{"street": "s"}]},
        {"name": 1},
        {"name": "n", "more": 1},
        {"name": "n", "rate": 1.0},
        {"name": "n", "rate": "1"},
        {"output": "text"},
        {"commands": ["ls"], "timeout_ms": 5},
        {"commands": ["ls"], "timeout_ms": "5"},
        {"commands": []},
        {"patch": "*** Begin Patch\n*** Delete File: a\n*** End Patch"},
        {"patch": 1},
    ],
)
def test_every_kind_of_tool_can_be_written_down(tool: Tool, args: dict[str, Any]) -> None:
    frozen = ToolSnapshot.read(tool.frozen())
    assert (frozen.fingerprint, frozen.kind) == (tool.fingerprint, tool.kind)
    assert canonical(frozen.canonical(args)) == canonical(tool.canonical(args))
    if tool.kind == "output":
        assert accepts(frozen, args) >= accepts(tool, args), "the door knows more of an output's type"
    else:
        assert accepts(frozen, args) == accepts(tool, args)


def even(amount: int) -> int:
    if amount % 2:
        raise ValueError("odd")
    return amount


def test_what_the_tool_alone_can_say_is_left_to_the_door() -> None:
    @function_tool
    def pay(amount: Annotated[int, AfterValidator(even)]) -> str:
        """Pay."""
        return str(amount)

    frozen = ToolSnapshot.read(pay.frozen())
    assert accepts(frozen, {"amount": 5}), "it does not have the user's code"
    assert not accepts(pay, {"amount": 5})
    assert not accepts(pay, {"amount": "4"}) and not accepts(frozen, {"amount": "4"})


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"name": 1}', b"\xff", b"{" * 10_000])
def test_a_definition_that_is_damaged_is_named_as_such(text: bytes) -> None:
    with pytest.raises(UnreadableState, match="definition of a tool"):
        ToolSnapshot.read(text)
