"""The objects that hooks, descriptions and rules are called with: the thread's state, the runtime, the tool call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, TypedDict

from msgspec import Struct
from typing_extensions import TypeVar

from ..definitions.context import JUDGED, RunContextWrapper, ToolContext
from ..definitions.tool import Tool
from ..errors import UsageError
from ..runtime.scope import scope_of
from ..runtime.tool_pause import HERE, Body
from ..store.store import Store
from .message import Message
from .reply_state import UNTRACKED
from .state import State
from .threaded_agent import ThreadedAgent, shown_state
from .view import view_of

C = TypeVar("C", default=Any)
S = TypeVar("S", default=Any)
R = TypeVar("R", default=Any)


class AgentState(TypedDict, Generic[C]):
    """The state of a thread, for annotations. Subclass it for a `state_schema` with keys of your own."""

    messages: list[Message]


Writer = Callable[[Any], None]


def drop_value(value: Any) -> None:
    """Discard a value: the run is not streamed."""


WRITER: ContextVar[Writer] = ContextVar("assentry_stream_writer", default=drop_value)


def get_stream_writer() -> Writer:
    """Return a function that sends any value to the stream with `stream_mode="custom"`; for tools and hooks."""
    return WRITER.get()


class ExecutionInfo(Struct, frozen=True):
    """The thread and the run that code is called in."""

    thread_id: str | None = None
    run_id: str | None = None
    checkpoint_id: str = ""
    checkpoint_ns: str = ""
    task_id: str = ""
    node_attempt: int = 1
    node_first_attempt_time: float | None = None


class Runtime(Struct, Generic[C], frozen=True):
    """The run that a hook or a rule is called in."""

    context: C = None  # type: ignore[assignment]
    """The object that was given as `invoke(..., context=...)`."""
    store: Any = None
    """The store that `create_agent(store=...)` was given."""
    stream_writer: Writer = drop_value
    """A function that sends any value to the stream with `stream_mode="custom"`."""
    thread_id: str | None = None
    thread_store: Store | None = None
    """The store of the thread."""
    run_id: str | None = None
    server_info: None = None

    @property
    def execution_info(self) -> ExecutionInfo:
        """The thread and the run, under the names that LangGraph has for them."""
        return ExecutionInfo(self.thread_id, self.run_id)


class ToolCallRequest:
    """A call before it runs: `tool_call` is `{"name", "args", "id", "type"}`."""

    def __init__(
        self,
        tool_call: dict[str, Any],
        tool: Tool | None,
        state: State | Callable[[], State],
        runtime: Any,
    ) -> None:
        self.tool_call = tool_call
        self.tool = tool
        self._state = state
        self._runtime = runtime

    @property
    def state(self) -> State:
        """The thread's state, built on first access."""
        if callable(self._state):
            self._state = self._state()
        return self._state

    @property
    def runtime(self) -> Any:
        """The runtime of the call, a `ToolRuntime`, made on first access; of a rule, a `Runtime`."""
        if callable(self._runtime):
            self._runtime = self._runtime()
        return self._runtime

    def override(self, **changes: Any) -> ToolCallRequest:
        """Return a copy with another `tool_call`, `tool`, `state` or `runtime`.

        The name in `tool_call` selects the tool. A `tool` is one of the agent's, or one that a middleware has offered
        to the model at run time; a call of another tool than the approved one is judged anew.
        """
        parts = {"tool_call": self.tool_call, "tool": self.tool, "state": self._state, "runtime": self._runtime}
        other = sorted(changes.keys() - parts.keys())
        if other:
            raise UsageError(
                f"A request to run a tool has no {other[0]!r} that could be changed; it has {', '.join(parts)}. For "
                "another tool of the agent's, change the name in tool_call."
            )
        return ToolCallRequest(**{**parts, **changes})


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
    state = shown_state(scope.graph.agent_at(run.agent).agent, view)
    return {**state, **UNTRACKED.get(scope.journal, {})}


def runtime_in(ctx: RunContextWrapper[Any], agent: Any = None) -> Runtime:
    """Return the `Runtime` of a context's run, for code of this agent."""
    scope = scope_of(ctx)
    run = scope.journal.run
    writer = scope.journal.writer
    thread = run.began.thread if run.began is not None else None
    kept = writer.store if writer is not None else None
    return Runtime(scope.ctx.context, memory_in(ctx, agent), WRITER.get(), thread, kept, run.id)


def memory_in(ctx: RunContextWrapper[Any], agent: Any = None) -> Any:
    """Return the store of the agent that works in a context; of the outermost agent if it has none of its own."""
    own = agent or (ctx.agent if isinstance(ctx, ToolContext) else JUDGED.get())
    root = scope_of(ctx).graph.root
    memories = (each.memory for each in (own, root) if isinstance(each, ThreadedAgent))
    return next((memory for memory in memories if memory is not None), None)
