"""Parameters that code fills in: injected, or refused when the tool is defined; a model never fills them."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from typing import Annotated, Any, NamedTuple, NewType, TypeVar, get_origin

import pytest
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId
from pydantic import BaseModel
from typing_extensions import TypeAliasType, TypedDict

from assentry import Agent, InvalidDefinition, RunContextWrapper, Runner, ToolContext, function_tool
from assentry.definitions.function_tool import FunctionTool
from assentry.definitions.function_tool import thread_tool as made_for_a_thread
from assentry.testing import ScriptedModel, call

EXPORTS = (
    "langchain_core.callbacks",
    "langchain_core.runnables",
    "langchain_core.stores",
    "langchain_core.tools",
    "langchain.agents",
    "langchain.agents.middleware",
    "langchain.tools",
    "langgraph.managed",
    "langgraph.prebuilt",
    "langgraph.runtime",
    "langgraph.store.base",
    "langgraph.types",
)
"""The front doors through which LangChain and LangGraph give out what they inject."""

T = TypeVar("T")
Bound = TypeVar("Bound", bound=InjectedToolArg)


class OwnMark(InjectedToolCallId):
    """A mark of the user's, made from LangChain's."""


class UnknownMark(InjectedToolArg):
    """A mark that Assentry cannot know."""


class OwnConfig(RunnableConfig, total=False):
    tenant: str


class Special(ToolContext[T]):
    pass


@dataclasses.dataclass
class InDataclass:
    user: Annotated[str, UnknownMark]


@dataclasses.dataclass
class InInitVar:
    given: dataclasses.InitVar[RunnableConfig]


class InModel(BaseModel):
    user: Annotated[str, UnknownMark()] = ""


class InLateModel(BaseModel):
    later: "Later"  # noqa: UP037 - a name that comes later


class Later(BaseModel):
    user: Annotated[str, UnknownMark] = ""


class InDict(TypedDict):
    user: Annotated[str, UnknownMark]


class InTuple(NamedTuple):
    user: Annotated[str, UnknownMark]


def live(module: str, name: str) -> type:
    """Return a dataclass as another framework may have one, without that framework."""
    made = dataclasses.make_dataclass(name, [("user", str)])
    made.__module__ = module
    return made


def tool_with(hint: Any, **options: Any) -> FunctionTool:
    def act(reason: str, given: Any) -> str: ...

    act.__annotations__["given"] = hint
    return function_tool(**options)(act) if options else made_for_a_thread(act)


def offered(tool: FunctionTool) -> str:
    return str(tool.params_json_schema)


FOREIGN = {
    "a mark": Annotated[str, UnknownMark],
    "an instance of a mark": Annotated[str, UnknownMark()],
    "a mark that may be None": Annotated[str, UnknownMark] | None,
    "a mark in a list": list[Annotated[str, UnknownMark]],
    "the call's id in a list": list[Annotated[str, InjectedToolCallId]],
    "the call's id as a number": Annotated[int, InjectedToolCallId],
    "a new type": NewType("Marked", Annotated[str, UnknownMark]),  # type: ignore[valid-newtype]
    "a type statement": TypeAliasType("Marked", Annotated[str, UnknownMark]),
    "a generic type statement": TypeAliasType("Marked", Annotated[T, UnknownMark], type_params=(T,))[str],
    "a type variable": Bound,
    "a config with more": OwnConfig,
    "configs": list[RunnableConfig],
    "a manager of callbacks": CallbackManagerForToolRun | None,
    "a field of a dataclass": InDataclass,
    "a field of a dataclass that only its __init__ gets": InInitVar,
    "a field of a model": InModel,
    "a field of a model that came later": InLateModel,
    "a field of a dict": InDict,
    "a field of a named tuple": InTuple,
    "a state": Annotated[dict[str, Any], live("langgraph.prebuilt.tool_node", "InjectedState")],
    "a runtime": live("langgraph.runtime", "Runtime"),
    "a store": live("langgraph.store.base", "BaseStore") | None,
    "a subclass": dataclasses.make_dataclass("Own", [], bases=(live("langgraph.runtime", "Runtime"),)),
    "a context of the Agents SDK": live("agents.run_context", "RunContextWrapper"),
    "a context of Pydantic AI": live("pydantic_ai._run_context", "RunContext"),
    "a context of FastMCP": live("fastmcp.server.context", "Context"),
    "a context of the MCP SDK": live("mcp.server.fastmcp.server", "Context"),
    "a dependency of FastAPI": Annotated[str, live("fastapi.params", "Depends")("x")],
}


@pytest.mark.parametrize("hint", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize(
    "options", [{}, {"strict_mode": False}, {"strict_mode": True}], ids=["thread", "loose", "strict"]
)
def test_what_another_framework_injects_is_refused(hint: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match=r"parameter 'given' is .* a model must not: take ctx: ToolContext"):
        tool_with(hint, **options)


def test_a_default_that_another_framework_reads_is_refused() -> None:
    depends = live("fastapi.params", "Depends")

    def act(user: str = depends("x")) -> str: ...

    with pytest.raises(InvalidDefinition, match=r"parameter 'user' is Depends of fastapi"):
        function_tool(act)


@pytest.mark.parametrize("kind", ["*", "**"])
def test_many_injected_values_at_once_are_refused(kind: str) -> None:
    scope: dict[str, Any] = {"Mark": Annotated[str, InjectedToolCallId], "Config": RunnableConfig}
    for hint in ("Mark", "Config"):
        exec(f"def act({kind}given: {hint}) -> str: ...", scope)
        with pytest.raises(InvalidDefinition, match=r"parameter 'given' is "):
            made_for_a_thread(scope["act"])


def test_the_input_of_a_handoff_and_of_an_agent_as_a_tool_has_no_injected_part() -> None:
    with pytest.raises(InvalidDefinition, match=r"UnknownMark|InjectedToolArg"):
        Agent(name="A").as_tool("a", "An agent.", parameters=InModel)


def test_a_config_is_refused_outside_of_a_thread() -> None:
    with pytest.raises(InvalidDefinition, match=r"parameter 'given' is a RunnableConfig, which only a plain function"):
        tool_with(RunnableConfig, strict_mode=False)


@pytest.mark.parametrize("hint", [Document, list[HumanMessage], Annotated[Document, "A text."]])
def test_data_of_another_framework_is_an_argument(hint: Any) -> None:
    assert "given" in offered(tool_with(hint, strict_mode=False))


@pytest.mark.parametrize("module", EXPORTS)
def test_nothing_that_langchain_or_langgraph_exports_for_tools_is_offered_to_a_model(module: str) -> None:
    """A new marker or live object of theirs is found here, unless the rule for whole packages has it already."""
    found = importlib.import_module(module) if module.startswith("langchain_core") else pytest.importorskip(module)
    names = getattr(found, "__all__", None) or [name for name in vars(found) if not name.startswith("_")]
    exported = [value for name in names if _is_type(value := getattr(found, name))]
    ours = [each for each in exported if any(package in repr(each) for package in ("langchain", "langgraph"))]
    marks = [each for each in _with_subclasses(InjectedToolArg) if not each.__module__.startswith("tests")]
    assert ours
    for hint in [*ours, *(Annotated[str, each] for each in marks), *(Annotated[str, each] for each in ours)]:
        try:
            made = tool_with(hint)
        except InvalidDefinition:
            continue
        assert "given" not in offered(made), hint


def _is_type(value: Any) -> bool:
    return inspect.isclass(value) or get_origin(value) is not None


def _with_subclasses(kind: type) -> list[type]:
    return [kind, *(each for below in kind.__subclasses__() for each in _with_subclasses(below))]


# The ids of calls


IDS = [
    Annotated[str, InjectedToolCallId],
    Annotated[str, InjectedToolCallId()],
    Annotated[str, InjectedToolCallId] | None,
    Annotated[str | None, InjectedToolCallId],
    Annotated[str, OwnMark],
    NewType("Id", Annotated[str, InjectedToolCallId]),  # type: ignore[valid-newtype]
    TypeAliasType("Id", Annotated[str, InjectedToolCallId]),
]


@pytest.mark.parametrize("hint", IDS)
async def test_the_id_of_a_call_is_the_calls_own(hint: Any) -> None:
    seen = []

    def act(reason: str, call_id: Any = "forged", *rest: str, ctx: str = "", other: Any = None) -> str:
        seen.append((reason, call_id, rest, ctx, other))
        return "done"

    act.__annotations__.update(call_id=hint, other=hint)
    tool = function_tool(strict_mode=False)(act)
    assert list(tool.params_json_schema["properties"]) == ["reason", "rest", "ctx"]
    model = ScriptedModel([call("act", {"reason": "x", "rest": ["a"]}, "of-the-provider"), "done"])
    await Runner.run(Agent(name="A", tools=[tool], model=model), "Go.")
    assert seen == [("x", "of-the-provider", ("a",), "", "of-the-provider")]


async def test_an_id_stands_beside_the_context_and_before_other_arguments() -> None:
    seen = []

    @function_tool
    async def act(ctx: ToolContext, id: Annotated[str, InjectedToolCallId], reason: str, times: int = 2) -> str:
        seen.append((ctx.call_id, id, reason, times))
        return "done"

    model = ScriptedModel([call("act", {"reason": "x"}, "c1"), "done"])
    await Runner.run(Agent(name="A", tools=[act], model=model), "Go.")
    assert seen == [("c1", "c1", "x", 2)]


@pytest.mark.parametrize("more", ["", ", /", ", **rest: str"])
async def test_an_argument_under_an_injected_name_is_refused_and_the_body_is_not_entered(more: str) -> None:
    seen: list[Any] = []
    scope: dict[str, Any] = {"Id": Annotated[str, InjectedToolCallId], "Context": ToolContext, "seen": seen}
    exec(f"def act(ctx: Context, call_id: Id{more}) -> str:\n    seen.append(call_id)\n    return 'done'", scope)
    tool = function_tool(strict_mode=False)(scope["act"])
    for name in ("ctx", "call_id"):
        for args in ({name: "forged"}, {"rest": {name: "forged"}}):
            model = ScriptedModel([call("act", args), "done"])
            result = await Runner.run(Agent(name="A", tools=[tool], model=model), "Go.")
            assert "The call did not run" in str(result.new_items[1].output)
    assert seen == []


# Our own contexts


CONTEXTS = [
    RunContextWrapper,
    RunContextWrapper[Any],
    ToolContext,
    ToolContext[int],
    Special,
    Special[str],
    Annotated[ToolContext[Any], "the run"],
    NewType("Own", ToolContext),
    TypeAliasType("Own", ToolContext[Any]),
    TypeAliasType("Own", RunContextWrapper[T], type_params=(T,))[int],
    "ToolContext",
    "RunContextWrapper[Any]",
    "Annotated[ToolContext[Any], 'the run']",
]


@pytest.mark.parametrize("hint", CONTEXTS)
async def test_a_context_comes_first_in_every_form_of_its_type(hint: Any) -> None:
    seen = []

    def act(anything: Any, reason: str) -> str:
        seen.append((type(anything), reason))
        return "done"

    act.__annotations__["anything"] = hint
    tool = function_tool(act)
    assert list(tool.params_json_schema["properties"]) == ["reason"]
    await Runner.run(Agent(name="A", tools=[tool], model=ScriptedModel([call("act", {"reason": "x"}), "done"])), "Go.")
    assert seen == [(ToolContext, "x")]


ELSEWHERE = {
    "not first": "def act(reason: str, ctx: Form): ...",
    "not first, with a default": "def act(reason: str, ctx: Form = None): ...",
    "by name": "def act(reason: str, *, ctx: Form): ...",
    "by name, with a default": "def act(*, reason: str, ctx: Form = None): ...",
    "in front, by name": "def act(*, ctx: Form): ...",
    "many": "def act(*ctx: Form): ...",
    "many by name": "def act(**ctx: Form): ...",
    "first, or None": "def act(ctx: Form | None, reason: str): ...",
    "first, or None, as text": "def act(ctx: 'Form | None', reason: str): ...",
    "optional": "def act(ctx: Optional[Form] = None): ...",
    "in a list": "def act(ctx: list[Form]): ...",
    "two": "def act(first: Form, ctx: Form): ...",
}


@pytest.mark.parametrize("source", ELSEWHERE.values(), ids=ELSEWHERE.keys())
@pytest.mark.parametrize("form", [each for each in CONTEXTS if type(each) is not str])
def test_a_context_elsewhere_is_refused(form: Any, source: str) -> None:
    scope: dict[str, Any] = {}
    exec("from typing import Optional, Union", scope)
    scope["Form"] = form
    exec(source, scope)
    with pytest.raises(InvalidDefinition, match=r"parameter '(ctx|first)' is (a|the) context"):
        function_tool(scope["act"])


def test_a_context_whose_names_are_for_type_checkers_only_is_refused_or_injected() -> None:
    scope: dict[str, Any] = {"__name__": "elsewhere"}
    exec("from __future__ import annotations\ndef act(reason: str, config: RunnableConfig): ...", scope)
    with pytest.raises(InvalidDefinition, match="cannot be resolved"):
        made_for_a_thread(scope["act"])


@pytest.mark.parametrize("source", ["def act(ctx, reason: str): ...", "def act(reason: str, {}=None): ..."])
@pytest.mark.parametrize("name", ["config", "ctx", "runtime"])
def test_a_context_without_a_type_is_refused(name: str, source: str) -> None:
    scope: dict[str, Any] = {}
    exec(source.format(name), scope)
    with pytest.raises(InvalidDefinition, match=r"parameter '\w+' has no type, so that a model would fill it in"):
        made_for_a_thread(scope["act"])


def test_a_runtime_of_any_type_is_refused() -> None:
    def act(reason: str, runtime: Any) -> None: ...

    with pytest.raises(InvalidDefinition, match="would fill it in: write runtime: ToolRuntime"):
        made_for_a_thread(act)


# What a partial fills in


def pay(amount: int, user: str = "nobody", **more: str) -> str:
    """Pay somebody."""
    return f"{user} paid {amount} {more}"


@pytest.mark.parametrize("strict", [True, False])
async def test_a_model_does_not_fill_in_what_a_partial_fills_in(strict: bool) -> None:
    def give(user: str, amount: int) -> str:
        return f"{user} paid {amount}"

    tool = function_tool(functools.partial(give, user="ann"), strict_mode=strict)
    assert list(tool.params_json_schema["properties"]) == ["amount"]
    model = ScriptedModel([call("give", {"amount": 5}), call("give", {"amount": 5, "user": "mallory"}), "Done."])
    result = await Runner.run(Agent(name="A", tools=[tool], model=model), "Go.")
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert outputs[0] == "ann paid 5"
    assert "mallory paid" not in str(outputs)


async def test_more_arguments_by_name_do_not_replace_what_a_partial_fills_in() -> None:
    twice = functools.partial(functools.partial(pay, user="ann"), purpose="rent")
    tool = function_tool(twice, strict_mode=False)
    assert list(tool.params_json_schema["properties"]) == ["amount", "more"]
    model = ScriptedModel(
        [
            call("pay", {"amount": 5, "more": {"note": "x"}}),
            call("pay", {"amount": 5, "more": {"user": "mallory"}}),
            call("pay", {"amount": 5, "more": {"purpose": "bribe"}}),
            "Done.",
        ]
    )
    result = await Runner.run(Agent(name="A", tools=[tool], model=model), "Go.")
    outputs = [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
    assert outputs[0] == "ann paid 5 {'purpose': 'rent', 'note': 'x'}"
    assert "paid" not in "".join(outputs[1:])
