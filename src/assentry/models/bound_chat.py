"""Chat models of LangChain inside other runnables: bound, with a config, with retries or fallbacks, or configurable.

The kinds are told by the names of their classes; nothing of LangChain is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.wording import described
from ..errors import InvalidDefinition

Bind = Callable[[Any], Any]
"""A function that returns a chat model with the tools of a request."""


def kinds_of(given: Any) -> set[str]:
    """Return the names of an object's classes that LangChain defines."""
    found = type(given).__mro__
    return {each.__name__ for each in found if each.__module__.partition(".")[0] in ("langchain", "langchain_core")}


def chat_model_in(given: Any) -> Any:
    """Return the chat model inside a runnable; raise `InvalidDefinition` if it is another kind of runnable."""
    kinds = kinds_of(given)
    if kinds & {"BaseChatModel", "_ConfigurableModel"}:
        return given
    if "RunnableBindingBase" in kinds:
        return chat_model_in(given.bound)
    if "RunnableWithFallbacks" in kinds:
        for each in given.fallbacks:
            chat_model_in(each)
        return chat_model_in(given.runnable)
    raise InvalidDefinition(
        f"A {type(given).__name__} of LangChain is no chat model; give the chat model itself, or one with .bind(), "
        f".with_retry(), .with_fallbacks() or .with_config(). For structured output, give the agent its type. Got "
        f"{described(given)}."
    )


def retries(given: Any) -> bool:
    """Return True if the runnable asks again after a failure, which it does only for whole replies."""
    kinds = kinds_of(given)
    if "RunnableWithFallbacks" in kinds:
        return any(map(retries, (given.runnable, *given.fallbacks)))
    return "RunnableRetry" in kinds or ("RunnableBindingBase" in kinds and retries(given.bound))


def takes_config(given: Any) -> bool:
    """Return True if the config of a call chooses the model."""
    return "_ConfigurableModel" in kinds_of(chat_model_in(given))


def bind_inside(given: Any, bind: Bind) -> Any:
    """Return the runnable with the tools bound to the chat models inside it; tools that are bound to it stay."""
    kinds = kinds_of(given)
    if "RunnableWithFallbacks" in kinds:
        inner = {"runnable": bind_inside(given.runnable, bind)}
        return given.model_copy(update={**inner, "fallbacks": [bind_inside(each, bind) for each in given.fallbacks]})
    if "RunnableBindingBase" not in kinds:
        return bind(given)
    bound = bind_inside(given.bound, bind)
    kwargs, more = given.kwargs, getattr(bound, "kwargs", {}).get("tools")
    if "tools" in kwargs and more:
        known = set(map(_name, more))
        kwargs = {**kwargs, "tools": [*(each for each in kwargs["tools"] if _name(each) not in known), *more]}
    return given.model_copy(update={"bound": bound, "kwargs": kwargs})


def _name(tool: Any) -> Any:
    """Return the name of a tool in a provider's form."""
    found = tool.get("function", tool) if isinstance(tool, dict) else {}
    return found.get("name") or repr(tool)
