"""The looks at an approved call, at the door: it must still be what the person was shown.

A server may have changed its tool, and the world may have moved since the preview. Then the approval is void and the
person is asked again, with the difference. Each look returns the facts that ask again; the door records them.
"""

from __future__ import annotations

import json

from msgspec import Raw

from ...approval.previewing import preview_of
from ...approval.question import approved_preview, asked_of, effective
from ...approval.tool_snapshot import ToolSnapshot
from ...core import facts as f
from ...core.digest import BadJSON
from ...core.rules import RUNNING
from ...core.run import CallState
from ...definitions.preview import Diff, Preview, broken_preconditions, preview_json, read_preview
from ...definitions.tool import Tool
from ...errors import UnreadableState
from ..definition_check import ask_again
from ..layer import ToolLayer
from ..scope import Scope

Path = tuple[str, ...]
Again = tuple[f.AnyFact, ...]
"""The facts that ask a person again; none if the call is still what was shown."""

NOTHING_NEW: Again = ()


async def look_at_tool(scope: Scope, path: Path, state: CallState) -> Again:
    """Look at the call's tool: its server may have changed it, and the tool that an edit chose may have reviewers."""
    placed = scope.graph.of(state)
    if placed.agent.mcp_servers:
        await scope.servers.find_tools(placed.agent)
    if placed.is_served(state, placed.tool_of(state)) and (again := await _look_at_server(scope, path, state)):
        return again
    return await _look_at_reviewers(scope, path, state) if state.chosen is not None else NOTHING_NEW


async def look_last(scope: Scope, path: Path, state: CallState) -> Again:
    """Look once more at what may have changed while the door waited: the world, and the tool's server."""
    again = await look_at_world(scope, path, state)
    placed = scope.graph.of(state)
    if again or not placed.is_served(state, placed.tool_of(state)):
        return again
    return await _look_at_server(scope, path, state)


async def _look_at_reviewers(scope: Scope, path: Path, state: CallState) -> Again:
    """Ask the reviewers of the tool that an edit chose, unless one of them made the edit."""
    placed, approval, asked = scope.graph.of(state), state.approval, state.question
    tool = placed.tool_of(state)
    if state.begun or tool is None or approval is None or asked is None:
        return NOTHING_NEW
    reviewers = asked_of(tool, placed.agent)["reviewers"]
    was_for_them = bool(asked.reviewers) and set(asked.reviewers) <= set(reviewers)
    if not reviewers or approval.by in reviewers or was_for_them:
        return NOTHING_NEW
    await scope.journal.own()
    preview = await preview_of(tool, scope.ctx, effective(state))
    what = f"{approval.by} chose the tool {tool.name!r}, which is for {', '.join(reviewers)} to decide."
    return (ask_again(scope.journal, path, state, tool, placed.agent, what, preview),)


async def look_at_world(scope: Scope, path: Path, state: CallState) -> Again:
    """Make the preview again, for the arguments that were shown, and ask again if its preconditions differ.

    A person who approved without a preview, because it failed, is asked again if there is one now with preconditions.
    After an attempt that may have moved the world itself, a body that knows its attempts looks in the door's place.
    """
    shown, asked = approved_preview(state)
    before = read_preview(shown)
    was_blind = before is not None and before.failed is not None and asked is not None and not state.edited
    if before is None or not (before.preconditions or was_blind):
        return NOTHING_NEW
    placed = scope.graph.of(state)
    tool = placed.tool_of(state)
    if tool is not None and tool.knows_its_attempts and state.attempt - (state.phase is RUNNING) > state.void:
        return NOTHING_NEW
    await scope.journal.own()
    proposed = placed.tool_of(state, state.call.tool)
    made = await preview_of(proposed, scope.ctx, effective(state, asked)) if proposed is not None else f.NOTHING
    differs = broken_preconditions(before, read_preview(made))
    if not differs:
        return NOTHING_NEW
    what = f"What was shown has changed since it was approved, and it did not run. {' '.join(differs)}"
    return await question_anew(scope, path, state, what, made if not state.edited else None)


async def question_anew(scope: Scope, path: Path, state: CallState, what: str, preview: Raw | None = None) -> Again:
    """Return the question about the call as it would run now, with its preview as it is now."""
    placed = scope.graph.of(state)
    tool = placed.tool_of(state)
    if preview is None and tool is not None:
        preview = await preview_of(tool, scope.ctx, effective(state))
    return (ask_again(scope.journal, path, state, tool, placed.agent, what, preview),)


async def _look_at_server(scope: Scope, path: Path, state: CallState) -> Again:
    """Ask again if the server has changed the call's tool, or no longer has it."""
    placed, accepted = scope.graph.of(state), state.fingerprint or state.call.definition
    tool, by_person = placed.tool_of(state), _by_person(state)
    if tool is not None and tool.source is not None:
        await scope.journal.own()
        await (scope.servers.renew(tool.source) if by_person else scope.servers.open(tool.source))
        tool = placed.tool_of(state)
    stale = tool is not None and by_person and is_stale(tool)
    if accepted is None or (tool is not None and tool.fingerprint == accepted and not stale):
        return NOTHING_NEW
    journal, call = scope.journal, state.call.id
    if tool is None or stale:
        what = f"Tool {state.tool!r} is gone: its server has it no more{', or has changed it' if stale else ''}."
        return (ask_again(journal, path, state, None, placed.agent, what),)
    what = f"The server {tool.server!r} has changed its tool {tool.name!r} since call {call} was made; it did not run."
    preview = await _of_change(scope, state, tool)
    redefined = f.Redefined(call, tool.fingerprint, f"server:{tool.server}", at=journal.now(), path=path)
    return redefined, ask_again(journal, path, state, tool, placed.agent, what, preview)


def is_stale(tool: Tool) -> bool:
    """Return True if the program holds a server's tool that the server does not have like this any more."""
    own = (tool.inner if isinstance(tool, ToolLayer) else tool).as_listed
    listed = {each.name: each.fingerprint for each in own.source.tools} if own.source is not None else {}
    return listed.get(own.name) != own.fingerprint


def _by_person(state: CallState) -> bool:
    """Return True if a person approved the call, or gave the grant that did: long ago, perhaps."""
    return state.passed is not None or (state.approval is not None and state.approval.by.startswith("grant:"))


async def _of_change(scope: Scope, state: CallState, tool: Tool) -> Raw:
    """Return a preview that shows how a tool's definition has changed, with the tool's own preview if it has one."""
    was = state.question.definition if state.question is not None else f.NOTHING
    try:
        old = _pretty(ToolSnapshot.read(bytes(was))) if was else None
        own = read_preview(await preview_of(tool, scope.ctx, effective(state)))
    except (UnreadableState, BadJSON):
        old = own = None
    change = Diff.between(f"{tool.server}/{tool.name}", old, _pretty(ToolSnapshot.read(tool.frozen())))
    told = f"{own.sentence} (" if own is not None and own.sentence else ""
    sentence = f"{told}The tool {tool.name} has changed since it was approved{')' if told else '.'}"
    return preview_json(
        Preview(sentence, (change, *(own.blocks if own else ())), own.preconditions if own is not None else {})
    )


def _pretty(tool: ToolSnapshot) -> str:
    shown = {"description": tool.description, "schema": tool.schema, "version": tool.version}
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
