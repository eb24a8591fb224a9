"""Parameters that code fills in and a model must not: injected, or refused when the tool is defined.

Types of other frameworks are recognised by the names of their packages; none is imported here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from ..errors import InvalidDefinition
from .hint import bare, parts

Source = Literal["context", "call id", "config"]
"""The source of the value: the call's context, the provider's id of the call, the config of a thread's `invoke`."""

Fill = Callable[[Any], Any]
"""A function of the call's context that returns the value of a parameter."""

Recognizer = Callable[[str, Any, Any], Any]
"""A function of a parameter's name for messages, its hint and its default that returns a `Fill`, or None."""

CONFIG: Final = ("langchain_core.runnables.config", "RunnableConfig")
CALL_ID: Final = ("langchain_core.tools.base", "InjectedToolCallId")
PACKAGES: Final = ("langchain", "langchain_classic", "langchain_core", "langgraph", "langgraph_sdk")
"""Packages whose types are injected into tools, or are live objects. A new one of theirs is refused unseen."""
DATA: Final = ("langchain_core.documents", "langchain_core.load", "langchain_core.messages")
"""Modules of these packages whose types are data, which a model may write."""
TODO_ITEM: Final = ("langchain.agents.middleware.todo", "Todo")
"""A type of these packages that is data, in a module with others that are not."""
CONTEXTS: Final = frozenset(
    {
        ("agents", "AgentHookContext"),
        ("agents", "RunContextWrapper"),
        ("agents", "ToolContext"),
        ("assentry", "InjectedToolArg"),
        ("assentry", "RunnableConfig"),
        ("assentry", "ToolRuntime"),
        ("fastapi", "Depends"),
        ("fastmcp", "Context"),
        ("mcp", "Context"),
        ("pydantic_ai", "RunContext"),
    }
)
"""Contexts of other frameworks that pydantic can make a schema of: the package, and the class."""


UNTYPED: Final = ("config", "ctx", "runtime")
"""Names under which code expects what it is given, not what a model writes: such a parameter needs a type."""


class Injected(NamedTuple):
    """A parameter that is filled in when the function is called."""

    name: str
    position: int | None
    """Its place among the positional parameters; None for one that is given by its name."""
    source: Source | Fill


def source_of_value(hint: Any) -> Source | None:
    """Return the source of a foreign parameter that can be filled in exactly; None for any other parameter."""
    plain = bare(hint, optional=True)
    if _name(plain) == CONFIG:
        return "config"
    marks = [_kind(each) for each in parts(hint, fields=False)]
    named = plain is str and any(CALL_ID in map(_name, each.__mro__) for each in marks if each is not None)
    return "call id" if named else None


def foreign(hint: Any) -> str:
    """Return the name of a type in a hint that another framework injects; empty if there is none."""
    kinds = (_kind(each) for each in parts(hint))
    return next((name for each in kinds if each is not None and (name := _framework_type(each))), "")


def refuse_injected(where: str, hint: Any, default: Any = None) -> None:
    """Raise `InvalidDefinition` if a model would fill in what another framework injects."""
    name = foreign(hint) or foreign(type(default))
    if name:
        raise InvalidDefinition(
            f"{where} is {name}, which Assentry does not fill in here, and a model must not: take "
            "ctx: ToolContext, from assentry, as the first parameter instead, and read ctx.context."
        )


def _kind(part: Any) -> type | None:
    """Return the class that a part of a hint is, or is an instance of: a mark stands in either form."""
    if isinstance(part, str | bytes | int):
        return None
    return part if inspect.isclass(part) else type(part)


def _name(kind: Any) -> tuple[str, str]:
    return getattr(kind, "__module__", "") or "", getattr(kind, "__qualname__", "")


def _framework_type(kind: type) -> str:
    """Return the name of the nearest base, or of the class itself, that a framework injects; empty if it is data."""
    for module, name in map(_name, kind.__mro__):
        package = module.partition(".")[0]
        if (module, name) == TODO_ITEM:
            return ""
        if package in PACKAGES:
            return "" if any(f"{module}.".startswith(f"{data}.") for data in DATA) else f"{name} of {package}"
        if (package, name) in CONTEXTS:
            return f"{name} of {package}"
    return ""
