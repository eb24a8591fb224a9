"""The check that the current agents are those that a saved run was made with.

Open calls need unchanged tool definitions, unless the change is accepted. Any other change is only reported.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Raw

from ..approval.gate import deadline_of, read_arguments
from ..approval.question import (
    AS_IT_IS,
    action_digest,
    added_to,
    allowed_of,
    arguments_text,
    asked_of,
    check_readable,
    effective,
    fitting,
    limit_of,
)
from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest
from ..core.rules import ASKED, NEW, READY
from ..core.run import CallState, Run
from ..core.wording import described
from ..definitions.agent import Agent
from ..definitions.preview import failed_preview
from ..definitions.tool import Tool
from ..errors import DefinitionChanged, InvalidArguments, UnreadableState
from ..ids import new_id
from .agent_graph import AgentGraph, PlacedAgent
from .definition import same_definition
from .journal import Journal

Path = tuple[str, ...]
OnChange = Literal["refuse", "ask", "accept"]
GONE: tuple[f.Verdict, ...] = ("respond", "reject")
"""The verdicts that remain for a call whose tool is gone."""
NOT_PREVIEWED = "The tool has changed, and there is no preview of it as it is now."


def fit(journal: Journal, graph: AgentGraph, on_change: OnChange) -> list[str]:
    """Apply `on_change` to open calls whose tools have changed, and return all changes of the active agents."""
    _check_grants(journal.run)
    _fit_calls(journal, graph, journal.run, (), on_change)
    return _changes(journal.run, graph, journal.run)


def _fit_calls(journal: Journal, graph: AgentGraph, run: Run, path: Path, on_change: OnChange) -> None:
    for state in list(run.open.values()):
        _read(state)
        if state.phase in (NEW, ASKED, READY):
            _fit_call(journal, graph, path, state, on_change)
        elif state.child is not None:
            _fit_calls(journal, graph, state.child, (*path, state.call.id), on_change)


def _fit_call(journal: Journal, graph: AgentGraph, path: Path, state: CallState, on_change: OnChange) -> None:
    accepted = state.fingerprint or state.call.definition
    placed = graph.of(state)
    tool = placed.tool_of(state)
    if tool is not None and tool.fingerprint == accepted and _is_back(state, tool):
        what = f"Tool {state.tool!r} was gone, and is there again."
        journal.add(ask_again(journal, path, state, tool, placed.agent, what))
    if accepted is None or (tool is not None and tool.fingerprint == accepted):
        return
    if tool is None and placed.unlisted:
        return  # its server has listed no tools yet: the door looks again
    if on_change == "refuse" and placed.is_served(state, tool):
        on_change = "ask"  # a server's change is not the program's: a person says if the call may still run
    if tool is None and asked_as_gone(state):
        return
    what = f"Tool {state.tool!r} {'is gone' if tool is None else 'has changed'} since call {state.call.id} was made."
    if on_change == "refuse":
        raise DefinitionChanged(
            f'{what} Bring the old definition back, or load the state with on_change="ask" to put the call to a '
            'person again, or with "accept" to go on with what there is now.'
        )
    if tool is not None:
        journal.add(f.Redefined(state.call.id, tool.fingerprint, "on_change", at=journal.now(), path=path))
    if on_change == "ask":
        journal.add(ask_again(journal, path, state, tool, placed.agent, what))
    elif tool is not None and _would_add(state, tool):
        what = f"{what} It would now run with more than was agreed to."
        journal.add(ask_again(journal, path, state, tool, placed.agent, what))
    elif tool is None:
        asked = state.question.id if state.phase is ASKED and state.question else None
        journal.add(f.Refused(state.call.id, "on_change", asked, what, at=journal.now(), path=path))


def _would_add(state: CallState, tool: Tool) -> bool:
    """Return True if a changed tool would fill in arguments that nobody has judged or seen.

    A call that is not judged yet is judged with them. The door checks calls that have begun or cannot run.
    """
    asked = state.question if state.phase is ASKED else None
    if state.phase is NEW or (asked is not None and asked.kind != "approval"):
        return False
    try:
        return added_to(state, tool, effective(state, asked)) != []
    except (BadJSON, InvalidArguments):
        return False


def asked_as_gone(state: CallState) -> bool:
    """Return True if the open question already says that the tool is gone, so that the call cannot be approved."""
    question = state.question
    if question is None or question.kind != "approval":
        return False
    return state.allowed() == fitting(state, question.kind, GONE)


def _is_back(state: CallState, tool: Tool) -> bool:
    """Return True if the open question says that the tool is gone, though it is there and more could be decided."""
    if not asked_as_gone(state):
        return False
    allowed = allowed_of(state, tool.allowed, can_run=True)
    return allowed is None or {*allowed} != {*state.allowed()}


def ask_again(
    journal: Journal,
    path: Path,
    state: CallState,
    tool: Tool | None,
    agent: Agent[Any],
    what: str,
    preview: Raw | None = None,
) -> f.Asked:
    """Return a new question in place of the open question or the approval that a change made void."""
    old = state.question if state.phase is ASKED else None
    kind: f.QuestionKind = old.kind if old is not None else "approval"
    limit = limit_of(journal.run)
    given = state.proposal.arguments if len(state.proposal.arguments) > limit else arguments_text(state)
    args = read_arguments(tool, given, limit) if tool is not None else None
    allowed: tuple[f.Verdict, ...] | None = fitting(state, kind, GONE)
    shown = (
        old.digest if old is not None else digest({"run": journal.run.id, "call": state.call.id, "gone": state.tool})
    )
    if kind == "approval" and tool is not None and args is not None:
        allowed = allowed_of(state, tool.allowed, can_run=args.problem is None)
        what = what if args.problem is None else f"{what} {AS_IT_IS}{args.problem}"
        value = {"raw": state.proposal.arguments} if args.value is None else args.value
        if preview is None:
            preview = failed_preview(NOT_PREVIEWED) if tool.preview is not None else f.NOTHING
        shown = action_digest(journal.run, path, state, tool.name, tool.fingerprint, value, preview)
    until, due = _limits(old, state.question, tool, journal.now())
    return f.Asked(
        state.call.id,
        new_id("q"),
        what,
        shown,
        kind,
        allowed,
        Raw(canonical(args.value)) if args is not None and args.value is not None and kind == "approval" else f.NOTHING,
        old.prompt if old is not None else f.NOTHING,
        old.schema if old is not None else f.NOTHING,
        until,
        due=due,
        replaces=old.id if old is not None else state.passed,
        preview=(preview or f.NOTHING) if kind == "approval" and tool is not None else f.NOTHING,
        definition=Raw(tool.frozen()) if tool is not None and tool.source is not None else f.NOTHING,
        **asked_of(tool, agent, state.question),
        at=journal.now(),
        path=path,
    )


def _limits(old: f.Asked | None, approved: f.Asked | None, tool: Tool | None, at: int) -> tuple[int | None, int | None]:
    """Return the time limits of a new question: those of the open question that it replaces, or else the tool's.

    If the tool has none, a question that was approved gives as much time as it had itself.
    """
    if old is not None:
        return old.until, old.due
    limit = deadline_of(tool, None) if tool is not None else None
    if limit is not None:
        return limit.until(at), limit.due(at)
    if approved is None:
        return None, None
    until, due = (None if time is None else at + time - approved.at for time in (approved.until, approved.due))
    return until, due


def _changes(root: Run, graph: AgentGraph, run: Run, whose: str = "") -> list[str]:
    """Return the changes of the active agent in the run and in each of its open branches."""
    out: list[str] = []
    was = run.definition
    if was is not None and run.concluded is None:
        placed = graph.agent_at(run.agent)
        if not same_definition(was, placed.definition_fact()):
            marks = was.tools or root.marks.get(was.digest, {})
            out += [f"{whose}{change}" for change in changes(was, marks, placed)]
    for state in run.open.values():
        if state.child is not None:
            out += _changes(root, graph, state.child, f"under call {state.call.id} of {state.tool}: ")
    return out


def changes(was: f.Defined, marks: dict[str, str], placed: PlacedAgent) -> list[str]:
    """Return the changes of an agent's definition, and of its tools by their marks, since the run recorded them."""
    now = placed.definition_fact()
    out = [f"tool {name!r} is gone" for name in marks if name not in placed.tools]
    out += [f"tool {name!r} is new" for name in now.tools if marks and name not in marks]
    out += [f"tool {name!r} has changed" for name, mark in now.tools.items() if marks.get(name, mark) != mark]
    if was.digest != now.digest and not out:
        out.append("its tools have changed")
    if was.instructions != now.instructions:
        out.append("its instructions have changed")
    if was.model != now.model:
        out.append(f"its model is {now.model!r} instead of {was.model!r}")
    if was.output != now.output:
        out.append("the type of its output, or the rule for it, has changed")
    if was.finishing != now.finishing:
        out.append("what its tools' outputs lead to has changed")
    return out


UNREADABLE = (msgspec.MsgspecError, IndexError, KeyError, AttributeError, TypeError, BadJSON)
"""The errors of reading a damaged provider item; items are first read after a run is loaded."""


def _read(state: CallState) -> None:
    """Raise `UnreadableState` if a call's item cannot be read."""
    try:
        _ = state.proposal
        check_readable(state)
    except UNREADABLE as error:
        raise damaged_state(error) from None


def _check_grants(run: Run) -> None:
    for grant in run.grants.values():
        if grant.pins and type(f.decode(grant.pins)) is not dict:
            raise UnreadableState(f"This run is damaged: the pins of grant {described(grant.id)} are no object.")


def damaged_state(error: Exception) -> UnreadableState:
    """Return the exception for a saved run whose items cannot be read."""
    return UnreadableState(f"This saved run is damaged: a call's item cannot be read ({error}).")
