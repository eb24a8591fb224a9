"""Middleware of LangChain around an agent with threads: its hooks get LangChain's objects, and may give them.

Such middleware approves nothing, as ours does not: each call that it makes or changes is judged by the gate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from langchain.agents.middleware import types as lc
from langgraph.types import Command as GraphCommand
from msgspec import structs

from ...core.wording import described
from ...errors import AssentryError, ModelFailed, UsageError
from ...models.model import ModelSettings
from ..interrupts import Command
from ..message import Message
from ..middleware import HOOKS, AgentMiddleware, Handler, call_around, call_hook
from ..middleware_context import Runtime, ToolCallRequest
from ..model_request import ModelRequest, ModelResponse
from .message import as_langchain, from_langchain
from .runtime import to_hook_runtime, to_langchain_runtime
from .stand_in import chat_model_for, model_behind, tool_for


class LangChainMiddleware(AgentMiddleware):
    """A middleware of LangChain as ours; `given` is the middleware itself."""

    def __init__(self, given: lc.AgentMiddleware[Any, Any]) -> None:
        self.given = given
        self.tools = getattr(given, "tools", None) or ()
        self.state_schema = given.state_schema
        for hook in HOOKS:
            theirs = _hook(given, hook)
            if theirs is not None:
                setattr(self, f"a{hook}", functools.partial(AROUND.get(hook, _at_node), theirs))

    @property
    def name(self) -> str:
        """The name of the middleware."""
        return self.given.name


def _hook(given: lc.AgentMiddleware[Any, Any], name: str) -> Callable[..., Any] | None:
    """Return the hook of a middleware that it has itself; the async one if it has both."""
    for each in (f"a{name}", name):
        if getattr(type(given), each, None) is not getattr(lc.AgentMiddleware, each, None):
            found: Callable[..., Any] = getattr(given, each)
            return found
    return None


async def _at_node(theirs: Callable[..., Any], state: dict[str, Any], runtime: Runtime) -> Any:
    return await call_hook(theirs, state, to_hook_runtime(runtime))


async def _around_model(theirs: Callable[..., Any], request: ModelRequest, handler: Handler) -> Any:
    """Call a `wrap_model_call` of LangChain. Its handler raises the provider's own exception, as LangChain's does."""
    failures: list[tuple[BaseException, ModelFailed]] = []

    async def handle(asked: Any) -> lc.ModelResponse[Any]:
        if not isinstance(asked, lc.ModelRequest):
            raise UsageError(f"The handler takes the request, got {described(asked)}.")
        made: ModelResponse | None = None
        try:
            made = await handler(_own_request(request, asked))
        except ModelFailed as error:
            if error.__cause__ is None:
                raise
            failures.append((error.__cause__, error))
        if made is None:
            raise failures[-1][0]
        result = [as_langchain(each) for each in made.result]
        return lc.ModelResponse(result=result, structured_response=made.structured_response)

    try:
        return await call_around(theirs, handle, _request_for(request))
    except AssentryError:
        raise
    except BaseException as error:
        failed = next((own for cause, own in failures if cause is error), None)
        if failed is None:
            raise
        raise failed from error


def _request_for(request: ModelRequest[Any]) -> lc.ModelRequest[Any]:
    settings = request.model_settings
    if isinstance(settings, ModelSettings):
        settings = {name: value for name, value in structs.asdict(settings).items() if value is not None}
    told: Any = request.system_message
    runtime: Any = None if request.runtime is None else to_hook_runtime(request.runtime)
    state: Any = request.state
    return lc.ModelRequest(
        model=chat_model_for(request.model),
        messages=[as_langchain(each) for each in request.messages],
        system_message=None if told is None else as_langchain(told),
        tool_choice=request.tool_choice,
        tools=[tool_for(each) for each in request.tools],
        response_format=request.response_format,
        state=state,
        runtime=runtime,
        model_settings=dict(settings),
    )


def _own_request(request: ModelRequest[Any], asked: lc.ModelRequest[Any]) -> ModelRequest[Any]:
    """Return the request with what the middleware changed."""
    known = {id(tool_for(each)): each for each in request.tools}
    return request.override(
        model=model_behind(asked.model),
        messages=list(asked.messages),
        system_message=asked.system_message,
        tool_choice=asked.tool_choice,
        tools=[known.get(id(each), each) for each in asked.tools],
        response_format=asked.response_format,
        state=asked.state,
        model_settings=asked.model_settings,
    )


async def _around_tool(theirs: Callable[..., Any], request: ToolCallRequest, handler: Handler) -> Any:
    """Call a `wrap_tool_call` of LangChain."""
    given: list[tuple[Any, Any]] = []
    view = None if request.tool is None else tool_for(request.tool)

    async def handle(asked: Any) -> Any:
        if not isinstance(asked, lc.ToolCallRequest):
            raise UsageError(f"The handler takes the request, got {described(asked)}.")
        changes = {} if asked.tool is view else {"tool": asked.tool}
        made = await handler(request.override(tool_call=dict(asked.tool_call), **changes))
        given.append((made, _shown_result(made)))
        return given[-1][1]

    state, runtime = request.state, request.runtime
    asked = lc.ToolCallRequest(
        tool_call=dict(request.tool_call),  # type: ignore[arg-type]
        tool=view,
        state=state,
        runtime=to_langchain_runtime(structs.replace(runtime, tools=[tool_for(each) for each in runtime.tools])),
    )
    result = await call_around(theirs, handle, asked)
    for own, shown in given:
        if shown is result and (own is shown or not isinstance(own, Message) or from_langchain(shown) == own):
            return own
    return result


def _shown_result(made: Any) -> Any:
    """Return what a body gave in LangChain's classes."""
    if not isinstance(made, Command):
        return as_langchain(made)
    return GraphCommand(update=made.update, goto=made.goto, graph=made.graph)


AROUND: dict[str, Callable[..., Any]] = {"wrap_model_call": _around_model, "wrap_tool_call": _around_tool}
"""The hooks that get a handler, each with the function that calls LangChain's hook of this name."""
