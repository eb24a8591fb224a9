"""Recognition of LangChain's objects by the modules of their classes; nothing of LangChain is imported here."""

from __future__ import annotations

import functools
from typing import Any

PACKAGES = ("langchain", "langchain_classic", "langchain_community", "langchain_core", "langgraph")


@functools.cache
def langchain_bases(kind: type) -> frozenset[str]:
    """Return the names of a class and its bases that LangChain or LangGraph define, as `module.name`."""
    own = (base for base in kind.__mro__ if base.__module__.partition(".")[0] in PACKAGES)
    return frozenset(f"{base.__module__}.{base.__qualname__}" for base in own)


@functools.cache
def message_names(kind: type) -> frozenset[str]:
    """Return the names of LangChain's message classes among a class and its bases; empty for any other class."""
    own = (base for base in kind.__mro__ if base.__module__.startswith("langchain_core.messages."))
    return frozenset(base.__name__ for base in own)


def is_langchain_message(value: Any) -> bool:
    """Return True if a value is a message of LangChain."""
    kind: type = type(value)
    return "BaseMessage" in message_names(kind)


def is_langchain(value: Any) -> bool:
    """Return True if a value is an instance of a class that LangChain or LangGraph define, or of its subclass."""
    kind: type = type(value)
    return bool(langchain_bases(kind))


def is_langchain_kind(given: Any) -> bool:
    """Return True for an instance of a class of LangChain's, and for such a class itself, such as a state schema."""
    if not isinstance(given, type):
        return is_langchain(given)
    if langchain_bases(given):
        return True
    # the bases of a TypedDict are not in its method resolution order
    return any(is_langchain_kind(base) for base in getattr(given, "__orig_bases__", ()) if isinstance(base, type))


def is_graph_command(value: Any) -> bool:
    """Return True if a value is a `Command` of LangGraph."""
    kind: type = type(value)
    return "langgraph.types.Command" in langchain_bases(kind)


def is_graph_signal(error: BaseException) -> bool:
    """Return True for an exception with which code speaks to a graph of LangGraph, such as that of its `interrupt`."""
    kind: type = type(error)
    if "langgraph.errors.GraphBubbleUp" in langchain_bases(kind):
        return True
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "interrupt" and trace.tb_frame.f_globals.get("__name__") == "langgraph.types":
            return True
        trace = trace.tb_next
    return False
