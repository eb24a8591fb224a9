"""Parameters of a tool that the thread fills in: its state, runtime, store and config, and the id of the call.

A model is never offered such a parameter, and a call that names one has an argument that the tool does not have. Marks
of LangChain are known by their names; a value is in LangChain's classes if its mark is.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from ..definitions.context import THREAD_CONFIG, RunContextWrapper, ToolContext
from ..definitions.function_tool import injected_value
from ..errors import InvalidDefinition, UsageError
from ..runtime.scope import scope_of
from ..runtime.tool_pause import Body
from ..schema.hint import bare, marks_of
from . import tool_runtime
from .foreign import PACKAGES
from .middleware_context import memory_in, runtime_in, state_in
from .state import State
from .tool_runtime import RunnableConfig, ToolRuntime

Kind = Literal["call id", "config", "default", "runtime", "state", "store"]
MARKS: dict[str, Kind] = {
    "InjectedToolCallId": "call id",
    "InjectedState": "state",
    "InjectedStore": "store",
    "InjectedToolArg": "default",
}


class Slot(NamedTuple):
    """A parameter that the thread fills in."""

    where: str
    """The parameter's name, for messages."""
    kind: Kind
    default: Any = inspect.Parameter.empty
    field: str | None = None
    """The key of the state; None for the whole state."""
    theirs: bool = False
    """True if the mark is LangChain's, and so is the class of the value."""

    def __call__(self, ctx: ToolContext[Any]) -> Any:
        """Return the value in a run."""
        return FILLS[self.kind](self, ctx)

    def by_hand(self, call_id: str | None, config: Any) -> Any:
        """Return the value for a call that the program makes itself."""
        if self.kind == "config":
            return {"configurable": {}, **(config or {})}
        if self.kind == "call id" and call_id is not None:
            return call_id
        if self.default is inspect.Parameter.empty:
            raise UsageError(f"{self.where} is filled in by an agent; to call the tool by hand, give it yourself.")
        return self.default


def recognize(where: str, hint: Any, default: Any) -> Slot | None:
    """Return how the thread fills in a parameter; None for an argument of the model's."""
    plain = bare(hint, optional=True)
    for base in plain.__mro__ if inspect.isclass(plain) else ():
        if base.__name__ in ("ToolRuntime", "RunnableConfig") and _is_known(base):
            kind: Kind = "runtime" if base.__name__ == "ToolRuntime" else "config"
            return Slot(where, kind, default, theirs=_is_theirs(base))
    for mark in marks_of(hint):
        slot = _marked(where, mark, plain, default)
        if slot is not None:
            return slot
    return None


def _marked(where: str, mark: Any, plain: Any, default: Any) -> Slot | None:
    for base in (mark if inspect.isclass(mark) else type(mark)).__mro__:
        if base.__name__ not in MARKS or not _is_known(base):
            continue
        kind = MARKS[base.__name__]
        if kind == "call id" and plain is not str:
            raise InvalidDefinition(f"{where} gets the id of the call, which is text; annotate it with str.")
        if kind == "default" and default is inspect.Parameter.empty:
            raise InvalidDefinition(
                f"{where} is marked as {type(mark).__name__ if not inspect.isclass(mark) else mark.__name__}, and "
                "nothing says what its value is: give it a default, or take it from runtime: ToolRuntime."
            )
        return Slot(where, kind, default, getattr(mark, "field", None), _is_theirs(base))
    return None


def _is_theirs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in PACKAGES


def _is_known(kind: type) -> bool:
    return _is_theirs(kind) or kind.__module__ == tool_runtime.__name__


def _state(slot: Slot, ctx: ToolContext[Any]) -> Any:
    state = seen_state(ctx, slot.theirs)
    if slot.field is None:
        return state
    if slot.field in state:
        return state[slot.field]
    if slot.default is not inspect.Parameter.empty:
        return slot.default
    raise UsageError(
        f"{slot.where} is {slot.field!r} of the thread's state, which has no value yet; give the parameter a default, "
        "or give the value with the input."
    )


def _store(slot: Slot, ctx: ToolContext[Any]) -> Any:
    store = memory_in(ctx)
    if store is None and slot.default is inspect.Parameter.empty:
        raise UsageError(f"{slot.where} is the agent's store, and it has none: give create_agent(store=...).")
    return store


def _config(slot: Slot, ctx: ToolContext[Any]) -> Any:
    return injected_value("config", ctx)


def _runtime(slot: Slot, ctx: ToolContext[Any]) -> Any:
    runtime = runtime_of_call(ctx, slot.theirs)
    if not slot.theirs:
        return runtime
    from .langchain.runtime import to_langchain_runtime

    return to_langchain_runtime(runtime)


FILLS: dict[Kind, Any] = {
    "call id": lambda slot, ctx: ctx.call_id,
    "config": _config,
    "default": lambda slot, ctx: slot.default,
    "runtime": _runtime,
    "state": _state,
    "store": _store,
}


def seen_state(ctx: ToolContext[Any], theirs: bool = False) -> State:
    """Return the state that a tool sees, in LangChain's classes if `theirs`."""
    body: Body = ctx._asking  # type: ignore[assignment]
    state = state_in(ctx, body)
    if theirs:
        from .langchain.message import shown_in_langchain

        state = {**state, "messages": shown_in_langchain(state["messages"])}
    return state


def runtime_of_call(ctx: ToolContext[Any], theirs: bool = False) -> ToolRuntime:
    """Return the runtime of the call that a context is for."""
    runtime = runtime_in(ctx)
    return ToolRuntime(
        state=seen_state(ctx, theirs),
        context=ctx.context,
        config=config_in(ctx),
        stream_writer=runtime.stream_writer,
        tool_call_id=ctx.call_id,
        store=runtime.store,
        tools=list(ctx.agent.tools),
        execution_info=runtime.execution_info,
    )


def thread_in(ctx: RunContextWrapper[Any]) -> str | None:
    """Return the id of a context's thread; None if its run is part of none."""
    began = scope_of(ctx).journal.run.began
    return began.thread if began is not None else None


def config_in(ctx: RunContextWrapper[Any]) -> RunnableConfig:
    """Return a copy of the config that the thread was invoked with; with the thread's id if a worker drives it."""
    config = THREAD_CONFIG.get() or {}
    given = config.get("configurable")
    thread = thread_in(ctx)
    known = {"thread_id": thread} if thread is not None else {}
    made: Any = {**config, "configurable": {**known, **(given if isinstance(given, Mapping) else {})}}
    return made  # type: ignore[no-any-return]
