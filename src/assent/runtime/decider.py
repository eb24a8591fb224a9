"""Recording of decisions in a journal, the same for a paused run and for a run under way.

The rules for decisions are in `approval.decide`.
"""

from __future__ import annotations

from typing import Any, Literal

from ..approval.decide import decided
from ..approval.decision import Decision
from ..approval.terms import GrantTerms
from ..core.run import CallState
from ..errors import DefinitionChanged, InvalidDecision
from ..tools.tool import Tool
from .agent_graph import AgentGraph
from .journal import Journal

Always = Literal["approve", "reject"] | None


def always(flag: bool, verdict: Literal["approve", "reject"]) -> Always:
    """Return the verdict of the grant that a decision asks for; None if it asks for no grant."""
    if type(flag) is not bool:
        raise InvalidDecision(f"always_{verdict} is True or False, got {flag!r:.80}.")
    return verdict if flag else None


def record(
    journal: Journal,
    graph: AgentGraph,
    question_id: str,
    given: Decision | dict[str, Any],
    by: str,
    digest: str | None,
    lasting: Always = None,
    terms: GrantTerms | dict[str, Any] | bool | None = None,
) -> None:
    """Check a decision and record it, with its grant if it has one; if the check fails, raise and record nothing.

    With `lasting` the decision also holds for all later calls, with `terms` for the later calls within the terms.
    """

    def tool_of(state: CallState, name: str) -> Tool:
        tool = graph.of(state).tool_of(state, name)
        if tool is None and name == state.call.tool:
            raise DefinitionChanged(f"Tool {name!r} is gone; nothing was recorded.")
        if tool is None or tool.is_enabled is False:
            raise InvalidDecision(f"The agent has no tool named {name!r}; choose one of its tools.")
        if tool.kind != state.call.kind or (tool.kind == "output" and name != state.call.tool):
            raise InvalidDecision(f"{name!r} is not of the kind that was proposed ({state.call.kind}); choose another.")
        return tool

    if lasting is not None and terms is None:
        terms = True
    now = journal.now()
    journal.append(decided(journal.run, question_id, given, by=by, at=now, digest=digest, tool_of=tool_of, terms=terms))
