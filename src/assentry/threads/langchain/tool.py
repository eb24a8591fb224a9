"""Tools of LangChain as tools of threads: the one gate and the one door, with their own `invoke` as the body.

A body gets the arguments that were judged. LangChain validates them again, in pydantic's lax mode; a call whose
arguments would be changed by that does not run.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import Tool as SingleInputTool
from pydantic import BaseModel, create_model

from ...core.wording import described
from ...definitions.calling import in_thread
from ...definitions.context import ToolContext
from ...definitions.tool import Tool
from ...errors import InvalidArguments, InvalidDefinition
from ...schema.foreign import ForeignSchema
from ...schema.parameters import Parameters
from ...schema.schema import type_schema
from ...schema.unchanged import find_change, user_code
from ..foreign import langchain_bases
from ..injection import Slot, recognize

CALLBACKS = frozenset(("run_manager", "callbacks"))
"""Parameters that LangChain fills in itself."""
ONE_TEXT = {
    "type": "object",
    "properties": {"__arg1": {"type": "string"}},
    "required": ["__arg1"],
    "additionalProperties": False,
}
"""The schema of a tool that takes one text without a name."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LangChainTool(Tool):
    """A tool of LangChain."""

    given: BaseTool
    arguments: Parameters
    slots: dict[str, Slot]
    """The parameters that the thread fills in."""
    awaits: bool
    """True if the tool has an async body of its own; any other body runs in a thread."""

    @property
    def return_direct(self) -> bool:
        """True if the tool's output ends the run."""
        return bool(self.given.return_direct)

    @property
    def shape(self) -> dict[str, Any]:
        """The schema with all its defaults."""
        return self.params_json_schema

    @property
    def foreign(self) -> bool:
        """True: the schema may be of any draft."""
        return True

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in; nothing is coerced."""
        return self.arguments.canonical(args)

    def bind(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the arguments for the body, or raise `InvalidArguments`."""
        for name in args:
            if name in self.slots or name in CALLBACKS:
                raise InvalidArguments(f'"{name}": there is no such argument')
        if self.arguments.validate is not None:
            self.arguments.validate(args)
        return copy.deepcopy(args)

    async def enter(self, ctx: ToolContext[Any], bound: dict[str, Any]) -> Any:
        """Call the tool with a `ToolCall`, so that it returns its own message."""
        filled = {name: slot(ctx) for name, slot in self.slots.items() if slot.kind in ("state", "store", "runtime")}
        call = {"name": self.given.name, "args": {**bound, **filled}, "id": ctx.call_id, "type": "tool_call"}
        config = var_child_runnable_config.get()
        if self.awaits:
            return await self.given.ainvoke(call, config)
        return await in_thread(functools.partial(self.given.invoke, call, config))


def tool_from_langchain(given: Any) -> LangChainTool:
    """Return a tool of LangChain as one of threads, or raise `InvalidDefinition`."""
    if not isinstance(given, BaseTool):
        raise InvalidDefinition(
            f"Of LangChain's objects only its tools can be tools: @tool, StructuredTool, a BaseTool; got "
            f"{described(given)}. In place of a ToolNode give the list of its tools, and in place of another Runnable "
            "a function that calls it."
        )
    if given.extras:
        raise InvalidDefinition(
            f"Tool {given.name!r} has extras, which are for one provider and are not sent; leave them out, or use "
            "ModelSettings(extra_args=...)."
        )
    slots = _slots(given)
    arguments = _arguments(given, slots)
    return LangChainTool(
        name=given.name,
        description=given.description,
        params_json_schema=arguments.json_schema,
        required=arguments.required,
        strict_json_schema=False,
        defaults=arguments.defaults,
        given=given,
        arguments=arguments,
        slots=slots,
        awaits=_awaits(given),
    )


def _awaits(given: BaseTool) -> bool:
    if isinstance(given, StructuredTool | SingleInputTool):
        return given.coroutine is not None
    return type(given)._arun is not BaseTool._arun


def _slots(given: BaseTool) -> dict[str, Slot]:
    """Return the parameters that the thread fills in, by the tool's schema and the signature of its function."""
    found: dict[str, Slot] = {}
    for name, (hint, default) in {**_signature(given), **_fields(given)}.items():
        slot = recognize(f"Tool {given.name!r}: parameter {name!r}", hint, default)
        if slot is not None:
            found[name] = slot
    return found


def _signature(given: BaseTool) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for function in _functions(given):
        try:
            hints = get_type_hints(function, include_extras=True)
            parameters = inspect.signature(function).parameters
        except Exception:  # a partial, or a name that is only there for type checkers
            hints, parameters = {}, {}  # type: ignore[assignment]
        found |= {name: (hints[name], each.default) for name, each in parameters.items() if name in hints}
    return found


def _functions(given: BaseTool) -> list[Callable[..., Any]]:
    if isinstance(given, StructuredTool | SingleInputTool):
        both = (given.func, given.coroutine)
    else:
        both = (given._run, given._arun)
    return [inspect.unwrap(each) for each in both if each is not None]


def _fields(given: BaseTool) -> dict[str, tuple[Any, Any]]:
    kind = given.args_schema
    if not inspect.isclass(kind) or not issubclass(kind, BaseModel):
        return {}
    hints = {name: each for base in reversed(kind.__mro__) for name, each in _own_hints(base).items()}
    out = {}
    for name, each in kind.model_fields.items():
        default = inspect.Parameter.empty if each.is_required() else each.get_default(call_default_factory=True)
        hint = hints.get(name, each.annotation)
        out[name] = (Annotated[hint, *each.metadata] if each.metadata else hint, default)
    return out


def _own_hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True) if issubclass(kind, BaseModel) else {}
    except Exception:
        return {}


def _arguments(given: BaseTool, slots: dict[str, Slot]) -> Parameters:
    """Return the schema that a model is offered, and the check that a call's arguments are not changed."""
    if isinstance(given, SingleInputTool) and given.args_schema is None:
        return _written(ONE_TEXT)
    if isinstance(given.args_schema, dict):
        return _written({"type": "object", "properties": {}, **_without(given.args_schema, slots)})
    kind: Any = given.get_input_schema()
    if not issubclass(kind, BaseModel):  # a model of pydantic 1
        schema = _without(kind.schema(), slots)
        made = _written({**schema, "additionalProperties": False})
        return Parameters(made.json_schema, made.required, made.defaults, made.fill, _checks_old(kind, made, slots))
    left_out = {*slots, *CALLBACKS, *(name for name, each in kind.model_fields.items() if _is_config(each.annotation))}
    if left_out & kind.model_fields.keys() or langchain_bases(kind):  # or LangChain made it from a function
        kept = {name: (each.annotation, each) for name, each in kind.model_fields.items() if name not in left_out}
        kind = create_model(kind.__name__, __config__=kind.model_config, **kept)  # type: ignore[call-overload]
    read = type_schema(given.name, kind, strict=False)
    loose = {key: value for key, value in read.json_schema.items() if key != "description"}
    return Parameters(loose, read.required, read.defaults, read.fill, _checks(kind, read), read.loose)


def _is_config(hint: Any) -> bool:
    return hint is RunnableConfig


def _without(schema: dict[str, Any], slots: dict[str, Slot]) -> dict[str, Any]:
    properties = {name: each for name, each in (schema.get("properties") or {}).items() if name not in slots}
    required = [name for name in schema.get("required") or () if name not in slots]
    kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {**kept, "properties": properties, "required": required}


def _written(schema: dict[str, Any]) -> Parameters:
    foreign = ForeignSchema(schema)

    def check(args: dict[str, Any]) -> None:
        if problem := foreign.problem(args):
            raise InvalidArguments(problem)

    defaults = {name: each["default"] for name, each in schema["properties"].items() if "default" in each}
    return Parameters(schema, frozenset(schema.get("required") or ()), defaults, foreign.filled, check)


def _checks(kind: type[BaseModel], read: Parameters) -> Callable[[dict[str, Any]], None]:
    """Return a check that arguments fit, and that LangChain's validation, which is lax, does not change them."""
    code = user_code(kind.__pydantic_core_schema__)

    def check(args: dict[str, Any]) -> None:
        assert read.validate is not None
        read.validate(args)
        try:
            changed = find_change(args, kind.model_validate(copy.deepcopy(args)), code)
        except Exception as error:  # a validator of the user's may raise anything
            raise InvalidArguments(f"arguments: {error}") from None
        if changed is not None:
            raise InvalidArguments(changed)

    return check


def _checks_old(kind: Any, read: Parameters, slots: dict[str, Slot]) -> Callable[[dict[str, Any]], None]:
    def check(args: dict[str, Any]) -> None:
        assert read.validate is not None
        read.validate(args)
        fields = {name: each for name, each in kind.__fields__.items() if name in args and name not in slots}
        for name, each in fields.items():
            value, error = each.validate(copy.deepcopy(args[name]), {}, loc=name)
            if error is None and type(value) in (str, int, float, bool) and value != args[name]:
                raise InvalidArguments(f'"{name}": would be read as something else')

    return check
