"""The scope of a drive: the parts that its steps share. Steps get a scope, and know nothing of the driver."""

from __future__ import annotations

from typing import Any
from weakref import ref

from msgspec import Struct

from ..approval.gate import Arguments
from ..core import facts as f
from ..core.run import CallState, Run
from ..definitions.context import RunContextWrapper
from ..definitions.hooks import RunHooks
from ..definitions.tool import Tool
from ..errors import Conflict
from ..sessions.session import Session
from .agent_graph import AgentGraph
from .config import RunConfig
from .control import RunControl
from .definition import resolve
from .hook_dispatch import HookDispatch
from .journal import Journal
from .servers import Servers
from .session_sync import SessionSync, with_context
from .sync import RunLoop
from .tasks import Tasks
from .view import Outputs, View

Path = tuple[str, ...]


class Scope(Struct, frozen=True, weakref=True, eq=False):
    """The parts of one drive that its steps use."""

    journal: Journal
    graph: AgentGraph
    config: RunConfig
    outputs: Outputs
    """The values that bodies returned in this process, as Python objects."""
    run_loop: RunLoop
    control: RunControl
    ctx: RunContextWrapper[Any]
    hooks: HookDispatch
    tasks: Tasks
    session: SessionSync | None
    servers: Servers
    arguments: dict[tuple[Path, str], Arguments]
    """The arguments that the gate read and let pass in this drive; the door uses them without reading again."""

    def run_at(self, path: Path) -> Run:
        """Return the run, or the branch under these calls."""
        return self.journal.run.at(path) if path else self.journal.run

    def view(self, path: Path) -> View:
        """Return a view of the run or of a branch."""
        return View(self.journal.run, self.graph, self.outputs, path)

    def state_of(self, effect: f.AnyEffect) -> CallState:
        """Return the call that an effect is about."""
        run = self.journal.run
        return (run.at(effect.path) if effect.path else run).calls[effect.call or ""]

    def tool_for(self, state: CallState) -> Tool | None:
        """Return the tool that a call was offered; None if it was offered none. See `resolve`."""
        return resolve(state, self.graph.of(state).tool_of(state))


def make_scope(
    journal: Journal,
    graph: AgentGraph,
    config: RunConfig,
    context: Any,
    outputs: Outputs,
    hooks: RunHooks[Any] | None = None,
    session: Session | None = None,
) -> Scope:
    """Return the scope of a new drive, on the running event loop."""
    run_loop = RunLoop()
    control = RunControl(journal, graph, run_loop)
    ctx: RunContextWrapper[Any] = RunContextWrapper(context, control=control)
    dispatch = HookDispatch(hooks, journal, graph, ctx, outputs)
    sync = None
    if session is not None:
        sync = SessionSync(with_context(session, ctx), journal, input_first=config.save_input_first)
    tasks = Tasks(journal, dispatch, config.max_parallel_tools)
    scope = Scope(journal, graph, config, outputs, run_loop, control, ctx, dispatch, tasks, sync, Servers(), {})
    control.scope = ref(scope)
    return scope


def scope_of(ctx: RunContextWrapper[Any]) -> Scope:
    """Return the scope of a context's drive; raise `Conflict` if the drive is over."""
    control: RunControl = ctx._bound()  # type: ignore[assignment]
    scope = control.scope()
    if not isinstance(scope, Scope):
        raise Conflict("The run of this context is over.")
    return scope
