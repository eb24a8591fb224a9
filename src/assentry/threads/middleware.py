"""Middleware: user code around the agent, its model and its tools.

A middleware may read, add, change and end early. A middleware cannot approve a call: each call that it makes or changes
is judged by the gate.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from ..core import allowed
from ..core.wording import described
from ..definitions.calling import in_thread, is_async
from ..errors import Conflict, InvalidDefinition, UsageError
from ..runtime.sync import RunLoop
from .message import SystemMessage
from .middleware_context import C, R, S

HOOKS = ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")

JUMPS = ("end", "model", "tools")
Handler = Callable[[Any], Awaitable[Any]]


class AgentMiddleware(Generic[S, C, R]):
    """Code around an agent. Subclass this, and define any of these methods, sync or async.

    | method | is called | returns |
    |---|---|---|
    | `before_agent(state, runtime)` | once, before the first model call of a run | an update, or None |
    | `before_model(state, runtime)` | before each model call | an update, or None |
    | `wrap_model_call(request, handler)` | around each model call | the handler's result, or a reply |
    | `after_model(state, runtime)` | after each model call, before the gate | an update, or None |
    | `wrap_tool_call(request, handler)` | around each call that may run | the handler's result, or a message |
    | `after_agent(state, runtime)` | once, when the model has no more calls | an update, or None |

    An update is a dict. `{"messages": [...]}` adds messages; a message with the id of an earlier message replaces it,
    and a `RemoveMessage` hides one. `{"jump_to": "end" | "model" | "tools"}` jumps. Other keys are those of the
    `state_schema`. Jumps need no declaration: `can_jump_to` is accepted and has no effect. The first middleware in the
    list is outermost: its `before_` hooks run first and its `after_` hooks last. An async method may also be named
    `abefore_model` and so on.
    """

    tools: Sequence[Any] = ()
    """Tools that the middleware adds to the agent."""
    state_schema: Any = None
    """A TypedDict with keys that the middleware adds to the state of threads; see `create_agent`."""

    @property
    def name(self) -> str:
        """The name of the middleware."""
        return type(self).__name__


F = TypeVar("F", bound=Callable[..., Any])


def done_by_gate(hook: F) -> F:
    """Mark a hook for programs to call. In an agent the gate does its work, so the agent does not call it."""
    hook.done_by_gate = True  # type: ignore[attr-defined]
    return hook


def hook_of(middleware: AgentMiddleware, name: str) -> Callable[..., Any] | None:
    """Return the hook of this name, or None; the async hook is preferred if a middleware has both."""
    for each in (f"a{name}", name):
        found: Callable[..., Any] | None = getattr(middleware, each, None)
        if found is not None and not getattr(found, "done_by_gate", False):
            return found
    return None


def hooks_of(middleware: Sequence[AgentMiddleware], name: str) -> list[Callable[..., Any]]:
    """Return the hooks of one name in calling order; for `wrap_` hooks the outermost is first."""
    found = [hook for each in middleware if (hook := hook_of(each, name)) is not None]
    return found[::-1] if name.startswith("after_") else found


def nodes_of(middleware: Sequence[AgentMiddleware], name: str) -> list[str]:
    """Return the names that the hooks of one name have in updates, such as `log.before_model`, in calling order."""
    found = [f"{each.name}.{name}" for each in middleware if hook_of(each, name) is not None]
    return found[::-1] if name.startswith("after_") else found


def checked_middleware(given: Any) -> list[AgentMiddleware]:
    """Return the middleware as a list, or raise `InvalidDefinition`."""
    listed = list(given) if isinstance(given, list | tuple) else [given]
    for each in listed:
        if not isinstance(each, AgentMiddleware):
            raise InvalidDefinition(
                "middleware is a list of assentry.threads' AgentMiddleware: HumanInTheLoopMiddleware(...), a subclass "
                f"of yours, or a function with @before_model or the like; got {described(each)}."
            )
        for name in HOOKS:
            hook = hook_of(each, name)
            allowed.check_option(each.name, name, hook, allowed.CALLABLE.or_none)
    for number, each in enumerate(listed):
        if any(each is other for other in listed[:number]):
            raise InvalidDefinition(f"The middleware {each.name!r} is given twice; remove one, or make another.")
    return listed


async def call_hook(hook: Callable[..., Any], *args: Any) -> Any:
    """Call a hook and return its result; a hook that is not async runs in a thread."""
    if is_async(hook):
        return await hook(*args)
    given = await in_thread(functools.partial(hook, *args))
    return await given if inspect.isawaitable(given) else given


def nest_hooks(hooks: Sequence[Callable[..., Any]], inner: Handler) -> Handler:
    """Wrap hooks around a handler; the first hook is outermost."""
    for hook in reversed(hooks):
        inner = functools.partial(call_around, hook, inner)
    return inner


async def call_around(hook: Callable[..., Any], handler: Handler, request: Any) -> Any:
    """Call a hook with its handler. The handler is valid until the hook returns."""
    run_loop = RunLoop()
    tasks: set[asyncio.Task[Any]] = set()
    over = False

    def check_handler() -> None:
        if over:
            raise Conflict("This handler is over, since the hook that it was given to has returned; nothing ran.")

    async def handle(request: Any) -> Any:
        check_handler()
        if asyncio.get_running_loop() is not run_loop.loop:
            raise UsageError("A handler is awaited on the event loop that its hook is called on; nothing ran.")
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            return await handler(request)
        finally:
            tasks.discard(task)

    def blocking(request: Any) -> Any:
        check_handler()
        if run_loop.here:  # blocking the event loop would be a deadlock
            raise UsageError("The handler of a hook that is not async blocks; call it in the hook's thread.")
        return run_loop.wait_for(lambda: handle(request))

    try:
        return await call_hook(hook, request, handle if is_async(hook) else blocking)
    finally:  # a thread cannot be stopped, but its handler call can be cancelled; so can tasks that a hook left
        over = True
        left = list(tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


def _decorator(hook: str) -> Callable[..., Any]:
    def decorate(
        function: Callable[..., Any] | None = None,
        *,
        tools: Sequence[Any] = (),
        name: str | None = None,
        can_jump_to: Sequence[str] = (),
        state_schema: Any = None,
        **options: Any,
    ) -> Any:
        def make(function: Callable[..., Any]) -> AgentMiddleware:
            allowed.check_option(f"@{hook}", "its function", function, allowed.CALLABLE)
            parts = {"__doc__": function.__doc__, "tools": tools, "state_schema": state_schema}
            kind = type(name or function.__name__, (AgentMiddleware,), parts)
            made: AgentMiddleware = kind()
            setattr(made, hook, function)
            return made

        allowed.check_names(f"@{hook}", options, ("can_jump_to", "name", "state_schema", "tools"))
        if can_jump_to and (hook.startswith("wrap_") or not set(can_jump_to) <= set(JUMPS)):
            raise InvalidDefinition(
                f'@{hook}: can_jump_to is a list of "end", "model" and "tools", for hooks before and after; got '
                f"{described(can_jump_to)}."
            )
        return make if function is None else make(function)

    decorate.__name__ = decorate.__qualname__ = hook
    decorate.__doc__ = f"Make a middleware from a function; see `{hook}` in `AgentMiddleware`."
    return decorate


before_agent = _decorator("before_agent")
"""Make a middleware from a function `(state, runtime)` that is called before the first model call of a run."""
before_model = _decorator("before_model")
"""Make a middleware from a function `(state, runtime)` that is called before each model call."""
after_model = _decorator("after_model")
"""Make a middleware from a function `(state, runtime)` that is called after each model call, before the gate."""
after_agent = _decorator("after_agent")
"""Make a middleware from a function `(state, runtime)` that is called when the model has no more calls."""
wrap_model_call = _decorator("wrap_model_call")
"""Make a middleware from a function `(request, handler)` around each model call."""
wrap_tool_call = _decorator("wrap_tool_call")
"""Make a middleware from a function `(request, handler)` around each call that may run."""


def dynamic_prompt(func: Callable[..., Any] | None = None) -> Any:
    """Make a middleware from a function of the request that returns the system prompt: text or a `SystemMessage`."""
    if func is None:
        return dynamic_prompt
    allowed.check_option("@dynamic_prompt", "its function", func, allowed.CALLABLE)
    make: Callable[..., Any] = func

    def override(request: Any, told: Any) -> Any:
        if not isinstance(told, str | SystemMessage):
            raise UsageError(
                f"@dynamic_prompt gives the system prompt, text or a SystemMessage; got {described(told)}."
            )
        return request.override(system_message=told)

    async def prompted(request: Any, handler: Handler) -> Any:
        return await handler(override(request, await call_hook(make, request)))

    made = wrap_model_call(prompted, name=getattr(func, "__name__", "dynamic_prompt"))
    if not is_async(make):  # for a program that calls the hook itself; an agent calls the async hook
        made.awrap_model_call = prompted
        made.wrap_model_call = lambda request, handler: handler(override(request, make(request)))
    return made


def hook_config(*, can_jump_to: Sequence[str] | None = None) -> Callable[[F], F]:
    """Mark a hook of a middleware with the jumps that it may ask for. Jumps need no declaration here."""
    if can_jump_to is not None and not set(can_jump_to) <= set(JUMPS):
        raise InvalidDefinition(
            f'@hook_config: can_jump_to is a list of "end", "model" and "tools"; got {described(can_jump_to)}.'
        )

    def mark(hook: F) -> F:
        if can_jump_to is not None:
            hook.__can_jump_to__ = list(can_jump_to)  # type: ignore[attr-defined]
        return hook

    return mark
