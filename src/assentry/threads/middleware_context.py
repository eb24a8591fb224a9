"""The objects that hooks, descriptions and rules are called with: the thread's state, the runtime, the tool call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, TypedDict

from msgspec import Struct
from typing_extensions import TypeVar

from ..definitions.context import RunContextWrapper
from ..definitions.tool import Tool
from ..errors import UsageError
from ..runtime.scope import scope_of
from ..runtime.tool_pause import HERE, Body
from ..store.store import Store
from .message import Message
from .state import State
from .threaded_agent import shown_state
from .view import view_of

C = TypeVar("C", default=Any)
S = TypeVar("S", default=Any)


class AgentState(TypedDict, Generic[C]):
    """The state of a thread, for annotations. Subclass it for a `state_schema` with keys of your own."""

    messages: list[Message]


Writer = Callable[[Any], None]


def _nowhere(value: Any) -> None:
    """Discard a value: the run is not streamed."""


WRITER: ContextVar[Writer] = ContextVar("assentry_stream_writer", default=_nowhere)


def get_stream_writer() -> Writer:
    """Return a function that sends any value to the stream with `stream_mode="custom"`; for tools and hooks."""
    return WRITER.get()


class Runtime(Struct, Generic[C], frozen=True):
    """The run that a hook or a rule is called in."""

    context: C = None  # type: ignore[assignment]
    """The object that was given as `invoke(..., context=...)`."""
    store: Store | None = None
    """The store of the thread."""
    stream_writer: Writer = _nowhere
    """A function that sends any value to the stream with `stream_mode="custom"`."""
    thread_id: str | None = None


class ToolCallRequest:
    """A call before it runs: `tool_call` is `{"name", "args", "id", "type"}`."""

    def __init__(
        self,
        tool_call: dict[str, Any],
        tool: Tool | None,
        state: State | Callable[[], State],
        runtime: Runtime,
    ) -> None:
        self.tool_call = tool_call
        self.tool = tool
        self._state = state
        self.runtime = runtime

    @property
    def state(self) -> State:
        """The thread's state, built on first access."""
        if callable(self._state):
            self._state = self._state()
        return self._state

    def override(self, **changes: Any) -> ToolCallRequest:
        """Return a copy with another `tool_call`, `state` or `runtime`. The name in `tool_call` selects the tool."""
        parts = {"tool_call": self.tool_call, "state": self._state, "runtime": self.runtime}
        other = sorted(changes.keys() - parts.keys())
        if other:
            raise UsageError(
                f"A request to run a tool has no {other[0]!r} that could be changed; it has {', '.join(parts)}. For "
                "another tool of the agent's, change the name in tool_call."
            )
        return ToolCallRequest(tool=self.tool, **{**parts, **changes})


def state_in(ctx: RunContextWrapper[Any], body: Body | None = None) -> State:
    """Return the state of the thread or, with a body, of the agent that made the body's call.

    Inside a body the state ends with the reply that made the call, each time the body is entered. Outputs of other
    calls are left out: a question that shows the state must be the same when the body is entered again.
    """
    scope = scope_of(ctx)
    path, here = body.path if body is not None else (), body or HERE.get()
    run, last = scope.run_at(path), None
    if isinstance(here, Body) and here.journal is scope.journal:
        last = run.calls[(*here.path, here.state.call.id)[len(path)]].turn
    view = view_of(() if path else scope.journal.before).take_run(run, last=last)
    return shown_state(scope.graph.agent_at(run.agent).agent, view)


def runtime_in(ctx: RunContextWrapper[Any]) -> Runtime:
    """Return the `Runtime` of a context's run."""
    scope = scope_of(ctx)
    began = scope.journal.run.began
    writer = scope.journal.writer
    store = writer.store if writer is not None else None
    return Runtime(scope.ctx.context, store, WRITER.get(), began.thread if began is not None else None)
