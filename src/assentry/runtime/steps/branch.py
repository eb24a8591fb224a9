"""Branches: the run of an agent that is called as a tool.

An agent call opens a branch, and gets its outcome when the branch has ended. Judging and entering the call are not
done here.
"""

from __future__ import annotations

import inspect
from typing import Any

from msgspec import Raw

from ...approval.question import effective
from ...core import facts as f
from ...core.digest import canonical
from ...core.run import CallState, Run, turns_used_up
from ...core.wording import worded
from ...definitions.agent_tool import AgentTool, Extractor, InputBuilder
from ...errors import AgentFailed, DefinitionChanged, InvalidInput
from ..config import DEFAULT_MAX_TURNS
from ..guardrail_results import input_guardrails
from ..result import RunResult
from ..scope import Scope
from ..tool_context import HookBody, context_of, finished, record_failure
from ..value import input_json, output_json

Path = tuple[str, ...]


async def open_branch(scope: Scope, path: Path, state: CallState, tool: AgentTool, args: dict[str, Any]) -> None:
    """Begin a branch for the agent that an approved call asks for.

    If the input cannot be built or no turn is left, the branch is closed at once and the call fails.
    """
    journal, inside = scope.journal, (*path, state.call.id)
    place = scope.graph.place(tool.agent)
    turns = _turns(scope, path, tool, place)
    first: f.Said | f.Closed
    try:
        if turns < 1:
            raise AgentFailed(f"The agent {tool.agent.name!r} has asked itself until no turn was left.")
        built = (
            await _build_input(tool.input_builder, args)
            if tool.input_builder is not None
            else _default_input(tool, args)
        )
    except Exception as error:
        scope.tasks.errors[inside] = error
        first = f.Closed(worded(error), type(error).__name__, path=inside)
    else:
        first = f.Said(_input_json(tool, built), path=inside)
    root, guarded = journal.run.began, tool.agent.input_guardrails
    began = f.Began(
        place,
        max(1, turns),
        release=tool.agent.nested_release or (root.release if root is not None else "each"),
        guards=tuple(input_guardrails(scope.graph.agent_at(place), scope.config, inside)) if guarded else (),
        at=journal.now(),
        path=inside,
    )
    journal.append([began, first])
    scope.hooks.follow(inside, tool, state)


def _turns(scope: Scope, path: Path, tool: AgentTool, place: str) -> int:
    """Return the maximum number of turns of a branch.

    An agent that calls itself gets at most the turns that its outer run has left, so that the recursion ends.
    """
    turns = tool.max_turns or DEFAULT_MAX_TURNS
    for depth in range(len(path), -1, -1):  # the innermost first
        run = scope.run_at(path[:depth])
        if run.began is not None and run.began.agent == place:
            return min(turns, run.max_turns - run.turns)
    return turns


def _default_input(tool: AgentTool, args: dict[str, Any]) -> str:
    said: str = args["input"] if tool.parameters is None else canonical(args).decode()
    return said


async def _build_input(build: InputBuilder, args: dict[str, Any]) -> Any:
    said: Any = build(args)
    return await said if inspect.isawaitable(said) else said


def _input_json(tool: AgentTool, said: Any) -> Raw:
    try:
        if said == []:
            raise InvalidInput("There is nothing in it.")
        return input_json(said)
    except InvalidInput as error:
        raise InvalidInput(f"The input_builder of {tool.name!r} gave what cannot be said: {error}") from None


async def close_branch(scope: Scope, effect: f.Return) -> None:
    """Record the branch's output as the call's outcome, or a failure if the branch failed."""
    path, call = effect.path, effect.call or ""
    state, journal, inside = scope.run_at(path).calls[call], scope.journal, (*path, call)
    tool = scope.graph.of(state).tools.get(state.tool)  # today's definition: the approved one began the branch
    if state.child is None or not isinstance(tool, AgentTool):
        raise DefinitionChanged(f"The agent that call {call} asked has ended, and tool {state.tool!r} is gone.")
    error: Exception | None = None
    value: Any = None
    if state.child.concluded is None:
        error = scope.tasks.errors.pop(inside, None) or why_failed(tool, state.child)
    else:
        try:
            extract = tool.custom_output_extractor
            value = scope.view(inside).output() if extract is None else await _extract_output(scope, inside, extract)
        except Exception as failure:
            error = failure
    if scope.hooks.streams:
        await scope.hooks.flush()
    if error is None:
        output, note = output_json(tool.told(value))
        scope.outputs[path, call] = value
        journal.add(finished(scope, path, state, output, note=note))
    else:
        _, ctx = context_of(scope, path, state, tool, tool.canonical(effective(state)))
        value = await record_failure(scope, path, state, tool, ctx, error)
    agent = scope.graph.of(state).agent
    if scope.hooks.wants(agent):
        _, ctx = context_of(scope, path, state, tool, tool.canonical(effective(state)), HookBody)
        await scope.hooks.tell(ctx, "tool_end", agent, tool, value)


async def _extract_output(scope: Scope, inside: Path, extract: Extractor) -> Any:
    value = extract(scope.graph.class_of(RunResult)(scope, inside))
    return await value if inspect.isawaitable(value) else value


def why_failed(tool: AgentTool, child: Run) -> Exception:
    """Return the reason why a branch ended without an output, as an exception."""
    if child.closed is not None:
        return AgentFailed(f"The agent {tool.agent.name!r} stopped: {child.closed.why}")
    return turns_used_up(child, who=f"The agent {tool.agent.name!r}")
