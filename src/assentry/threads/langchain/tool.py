"""Tools of LangChain as tools of threads: the one gate and the one door, with their own `invoke` as the body.

A body gets the arguments that were judged. LangChain validates them again, in pydantic's lax mode; a call whose
arguments would be changed by that does not run.
"""

from __future__ import annotations

import copy
import functools
import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from langchain_core.callbacks import manager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import Tool as SingleInputTool
from pydantic import BaseModel

from ...core.wording import described
from ...definitions.calling import in_thread
from ...definitions.context import ToolContext
from ...definitions.tool import Tool
from ...errors import InvalidArguments, InvalidDefinition
from ...runtime.tool_pause import Body
from ...schema.parameters import Parameters
from ..args_schema import find_slots, model_hints, model_parameters, written_parameters
from ..injection import Slot, config_in

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
        if self.arguments.validate is not None:
            self.arguments.validate(args)
        return copy.deepcopy(args)

    async def enter(self, ctx: ToolContext[Any], bound: dict[str, Any]) -> Any:
        """Call the tool with a `ToolCall`, so that it returns its own message."""
        filled = {name: slot(ctx) for name, slot in self.slots.items() if slot.kind in ("state", "store", "runtime")}
        args = CallArguments(bound, filled)
        call: Any = {"name": self.given.name, "args": args, "id": ctx.call_id, "type": "tool_call"}
        config: Any = var_child_runnable_config.get() or config_in(ctx)
        try:
            if self.awaits:
                return await self.given.ainvoke(call, config)
            return await in_thread(functools.partial(self.given.invoke, call, config))
        except Exception as error:
            if _is_from_handler(error):
                body: Body = ctx._asking  # type: ignore[assignment]
                body.fault = error  # a callback handler with `raise_error` ends the run, as with any other tool
            raise


class CallArguments(dict[str, Any]):
    """The arguments of a call for LangChain, which gives `items()` to callbacks before it enters the body.

    Callbacks get copies: what they change in those does not run.
    """

    def __init__(self, judged: dict[str, Any], filled: dict[str, Any]) -> None:
        super().__init__({**judged, **filled})
        self._judged, self._filled = judged, filled

    def copy(self) -> CallArguments:
        """Return the same arguments."""
        return CallArguments(self._judged, self._filled)

    def items(self) -> Any:
        """Return the arguments with copies of those that were judged."""
        return {**self, **copy.deepcopy(self._judged)}.items()


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


def _is_from_handler(error: Exception) -> bool:
    """Return True if a callback handler raised an exception, which LangChain lets through with `raise_error`."""
    return any(frame.f_code in TELLING for frame, _ in traceback.walk_tb(error.__traceback__))


TELLING = (manager.handle_event.__code__, manager.ahandle_event.__code__)
"""LangChain's functions that call the handlers."""


def _awaits(given: BaseTool) -> bool:
    if isinstance(given, StructuredTool | SingleInputTool):
        return given.coroutine is not None
    return type(given)._arun is not BaseTool._arun


def _slots(given: BaseTool) -> dict[str, Slot]:
    """Return the parameters that the thread fills in, by the tool's schema and the signature of its function."""
    kind = given.args_schema
    fields = model_hints(kind) if inspect.isclass(kind) and issubclass(kind, BaseModel) else {}
    return {**find_slots(given.name, fields), **find_slots(given.name, _signature(given))}


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


def _arguments(given: BaseTool, slots: dict[str, Slot]) -> Parameters:
    """Return the schema that a model is offered, and the check that a call's arguments are not changed."""
    left_out = {*slots, *CALLBACKS}
    if isinstance(given, SingleInputTool) and given.args_schema is None:
        return written_parameters(ONE_TEXT)
    if isinstance(given.args_schema, dict):
        return written_parameters(given.args_schema, left_out)
    kind: Any = given.get_input_schema()
    if issubclass(kind, BaseModel):
        configs = (name for name, each in kind.model_fields.items() if each.annotation is RunnableConfig)
        return model_parameters(given.name, kind, {*left_out, *configs})
    read = written_parameters({**kind.schema(), "additionalProperties": False}, left_out)  # a model of pydantic 1
    return Parameters(read.json_schema, read.required, read.defaults, read.fill, _checks_old(kind, read), read.loose)


def _checks_old(kind: Any, read: Parameters) -> Callable[[dict[str, Any]], None]:
    """Return a check that a model of pydantic 1 does not change the arguments."""

    def check(args: dict[str, Any]) -> None:
        assert read.validate is not None
        read.validate(args)
        for name, each in kind.__fields__.items():
            value, error = each.validate(copy.deepcopy(args[name]), {}, loc=name) if name in args else (None, None)
            if error is None and type(value) in (str, int, float, bool) and value != args[name]:
                raise InvalidArguments(f'"{name}": would be read as something else')

    return check
