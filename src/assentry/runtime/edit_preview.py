"""The preview of a stored call with other arguments: what a person sees of an edit before it is approved.

The run is read and nothing is recorded: there is no lease, no hook is told, and no body is entered. What is made here
is the tool's own preview, as the question had one.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from ..approval.previewing import preview_of
from ..core.digest import BadJSON, canonical, parse_object
from ..core.facts import NOTHING
from ..core.rules import ASKED
from ..definitions.agent import Agent
from ..definitions.tool import Tool
from ..errors import ContextMissing, DefinitionChanged, InvalidArguments, NotPending, RunElsewhere
from ..store.preview_requests import PreviewRequest
from ..store.record import Stored
from . import saved_context
from .agent_graph import AgentGraph
from .config import RunConfig
from .journal import Journal
from .scope import make_scope
from .state import begun_by


async def preview_edit(
    agent: Agent[Any], stored: Stored, context: Any, config: RunConfig, request: PreviewRequest
) -> Raw:
    """Return the preview of a request as JSON; no JSON if the tool makes none.

    Raises an error that says why there is none: the question is not open any more, the tool is another one or not
    known, the arguments do not fit, or the run's context is missing.
    """
    run = stored.run()
    began = begun_by(agent, run)
    if began.engine is not None:
        raise RunElsewhere(f"The run is a workflow on {began.engine}, whose workers make no previews of edits.")
    path, call = run.asked.get(request.question, ((), ""))
    state = run.at(path).calls.get(call)
    asked = state.question if state is not None and state.phase is ASKED else None
    if state is None or asked is None or (asked.id, asked.digest) != (request.question, request.digest):
        raise NotPending("The question has changed, or is not open any more.")
    graph = AgentGraph(agent)
    tool = graph.of(state).tool_of(state)
    if tool is None:
        raise DefinitionChanged(f"This worker has no tool {state.tool!r} now.")
    if tool.fingerprint != request.definition:
        raise DefinitionChanged(f"The tool {state.tool!r} has changed since the question was asked.")
    args = arguments_of_edit(tool, request.arguments)
    saved = stored.context
    given = saved_context.load_context(
        Raw(saved.json) if saved.json else NOTHING, saved.kind, context, config.context_deserializer, False
    )
    if given is saved_context.MISSING:
        raise ContextMissing("The run's context was not saved, and this worker has none for it.")
    # The scope is for this call alone, and has no writer: whatever a preview does with its context is not recorded.
    scope = make_scope(Journal(stored.facts.copy(), run, config.clock), graph, config, given, {})
    return await preview_of(tool, scope.ctx, args)


def arguments_of_edit(tool: Tool, text: str) -> dict[str, Any]:
    """Return the arguments of an edit as they would run; raise `InvalidArguments` if they do not fit the tool."""
    try:
        given = parse_object(text)
        args = tool.canonical(given)
        tool.bind(args)
    except BadJSON as error:
        raise InvalidArguments(f"these arguments are not JSON: {error}") from None
    if canonical(args) != canonical(given):
        raise InvalidArguments("these arguments are not complete")
    return args
