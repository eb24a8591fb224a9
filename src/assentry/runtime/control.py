"""The access that a context gives user code to its own run: usage, verdicts and decisions.

A `RunControl` holds the journal, and the drive's scope only weakly: the scope holds the context, so that a strong
reference would keep the scope alive for as long as somebody keeps the context.
"""

from __future__ import annotations

from collections.abc import Callable

from ..approval.decision import Approve, Decision, Reject
from ..approval.gate import grant_for
from ..approval.terms import always
from ..core import facts as f
from ..core.run import CallState, Run
from ..definitions.item import ToolApprovalItem
from ..errors import Conflict
from .agent_graph import AgentGraph
from .journal import Journal
from .sync import RunLoop

Path = tuple[str, ...]


class RunControl:
    """A run, as its own tools, rules and hooks can use it."""

    __slots__ = ("graph", "journal", "run_loop", "scope", "state")

    def __init__(self, journal: Journal, graph: AgentGraph, run_loop: RunLoop) -> None:
        self.scope: Callable[[], object] = lambda: None
        """A weak reference to the drive's scope; see `scope_of`."""
        self.journal = journal
        self.graph = graph
        self.run_loop = run_loop
        self.state: object = None
        """The run's state, once somebody has taken it; decisions are then made on the state."""

    def usage(self) -> f.Usage:
        """Return the usage of the run so far."""
        kind = self.graph.view_classes.get(f.Usage)
        return self.journal.run.usage if kind is None else kind.of_run(self.journal.run)

    def decide(self, item: ToolApprovalItem, approve: bool, always_: bool, message: str | None) -> None:
        """Record a decision of the run's own code, on the event loop; a body in a thread may call this too."""
        decision: Decision = Approve() if approve else Reject(message)
        grant = always("always_approve" if approve else "always_reject", always_)

        def act() -> None:
            if self.state is not None:
                raise Conflict("The run has stopped, and its state was taken; decide on the state.")
            self.journal.decide(item.id, decision, "code", item.digest, self.graph.tool_of, grant)

        self.run_loop.do(act)

    def verdict(self, tool_name: str, call_id: str, path: Path = ()) -> bool | None:
        """Return True if the call with this id of the provider may run, False if not, None while it is not decided.

        Calls of the run or branch at `path` come first, since the ids are not unique over branches. If calls of
        several other branches differ, the result is None. A call that was not made yet has the verdict of a grant,
        if a grant covers the tool.
        """
        root = self.journal.run
        here = root.at(path)
        for runs in ([here], [run for run in (root, *branches(root)) if run is not here]):
            made = [call for run in runs if (call := _called_as(run, tool_name, call_id)) is not None]
            if made:
                verdicts = {
                    type(call.outcome) is not f.Refused and (call.approval is not None or None) for call in made
                }
                return verdicts.pop() if len(verdicts) == 1 else None
        tool = self.graph.agent_at(here.agent).tools.get(tool_name)
        grant = grant_for(root, here.agent, tool, at=self.journal.now()) if tool is not None else None
        return grant.verdict == "approve" if grant is not None else None


def _called_as(run: Run, tool_name: str, call_id: str) -> CallState | None:
    """Return the last call of a tool with this id of the provider; None if there is none."""
    calls = reversed(run.calls.values())
    return next((each for each in calls if each.call.tool == tool_name and each.proposal.call_id == call_id), None)


def branches(run: Run) -> list[Run]:
    """Return every branch of a run, at any depth."""
    children = run.children()
    return children + [inner for child in children for inner in branches(child)]
