"""Running of guardrails, and reading of their results. Each result is recorded before it takes effect.

A guardrail that raises stops the run with its exception, before the input, output or call that it guards is used.
Guardrails are defined in `assentry.definitions.guardrail`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...core import facts as f
from ...core.past import past_of
from ...core.run import CallState, Run
from ...core.transcript import Item, said_items
from ...core.wording import clean_text
from ...definitions.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolInputGuardrailResult,
    ToolOutputGuardrailData,
    ToolOutputGuardrailResult,
    guardrails_by_name,
)
from ...definitions.tool import Tool
from ...errors import (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    TripwireTriggered,
    UsageError,
)
from ..agent_graph import PlacedAgent
from ..guardrail_results import input_guardrails, output_guardrails, result_of
from ..scope import Scope
from ..tool_context import Looking, context_of
from ..value import output_json
from ..view import all_said, said_value

Path = tuple[str, ...]


async def guard_input(scope: Scope, effect: f.Guard) -> None:
    """Run one input guardrail on the input that it has not checked yet."""
    run = scope.run_at(effect.path)
    placed = scope.graph.agent_at(run.began.agent if run.began is not None else run.agent)
    guardrail = input_guardrails(placed, scope.config, effect.path).get(effect.name)
    if guardrail is None:
        raise UsageError(
            f"This run awaits its input guardrail {effect.name!r}, which neither agent {placed.agent.name!r} nor the "
            "RunConfig has; give it again."
        )
    found = await guardrail.look(GuardrailFunctionOutput, scope.ctx, placed.agent, _unguarded(scope, run))
    record(scope, effect.path, f.Guarded("input", effect.name, found.tripwire_triggered, path=effect.path), found)
    if found.tripwire_triggered:
        result = InputGuardrailResult(guardrail, found)
        raise InputGuardrailTripwireTriggered(f"The input guardrail {effect.name!r} stopped the run for good.", result)


def _unguarded(scope: Scope, run: Run) -> str | list[Item]:
    """Return the input that no guardrail has checked yet, after the session's items if the settings say so."""
    heard = [said for said in all_said(run)[run.watched :] if said.by != f.ERROR_HANDLER]
    if scope.config.guard_history and scope.session is not None and run is scope.journal.run and not run.watched:
        return [item for said in heard for item in said_items(said)]
    return said_value([said for said in heard if said.by != "session"])


def await_guardrails(scope: Scope) -> None:
    """Require the input guardrails to check input that they have not seen yet."""
    run = scope.journal.run
    if run.began is not None and run.unheard and not run.guards and run.watched < run.said:
        guards = tuple(input_guardrails(scope.graph.agent_at(run.began.agent), scope.config, ())) or run.armed
        if guards:  # the current ones, or else the recorded ones: none is skipped because it was not given again
            scope.journal.add(f.Awaited(guards, at=scope.journal.now()))


async def guard_output(scope: Scope, path: Path, placed: PlacedAgent, output: Any) -> None:
    """Run the output guardrails on a final output, one after another."""
    for name, guardrail in output_guardrails(placed, scope.config, path).items():
        found = await guardrail.look(GuardrailFunctionOutput, scope.ctx, placed.agent, output)
        run = scope.run_at(path)
        place = run.agent if run.began is not None and run.began.agent != run.agent else None
        scope.outputs[path, f"guarded {len(run.guarded)}"] = output
        record(scope, path, f.Guarded("output", name, found.tripwire_triggered, agent=place, path=path), found)
        if found.tripwire_triggered:
            result = OutputGuardrailResult(guardrail, placed.agent, output, found)
            raise OutputGuardrailTripwireTriggered(f"The output guardrail {name!r} stopped the run for good.", result)


async def guard_call(scope: Scope, path: Path, state: CallState, tool: Tool, args: dict[str, Any]) -> f.Refused | None:
    """Run a tool's input guardrails on the arguments and return the first refusal; None if none refuses."""
    _, ctx = context_of(scope, path, state, tool, args, Looking)
    for name, guardrail in guardrails_by_name(tool.tool_input_guardrails).items():
        data = ToolInputGuardrailData(ctx, ctx.agent)
        found = await guardrail.look(ToolGuardrailFunctionOutput, data)
        _record_tool(scope, path, state, "tool_input", name, found)
        if found.behavior == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(
                f"The guardrail {name!r} of tool {tool.name!r} stopped the run for good; the tool did not run.",
                ToolInputGuardrailResult(guardrail, found),
            )
        if found.behavior == "reject_content":
            words = clean_text(found.message or "")[0]
            return f.Refused(state.call.id, f"guardrail:{name}", message=words, at=scope.journal.now(), path=path)
    return None


async def guard_result(
    scope: Scope, path: Path, state: CallState, tool: Tool, args: dict[str, Any], value: Any
) -> tuple[Any, str]:
    """Run a tool's output guardrails and return the value, or the text in its place, and its author.

    After a guardrail has held the value back, no other guardrail gets it.
    """
    _, ctx = context_of(scope, path, state, tool, args, Looking)
    for name, guardrail in guardrails_by_name(tool.tool_output_guardrails).items():
        data = ToolOutputGuardrailData(ctx, ctx.agent, value)
        found = await guardrail.look(ToolGuardrailFunctionOutput, data)
        _record_tool(scope, path, state, "tool_output", name, found)
        if found.behavior == "raise_exception":
            raise ToolOutputGuardrailTripwireTriggered(
                f"The guardrail {name!r} of tool {tool.name!r} stopped the run for good; the tool had run.",
                ToolOutputGuardrailResult(guardrail, found),
            )
        if found.behavior == "reject_content":
            return found.message, f"guardrail:{name}"
    return value, "tool"


def _record_tool(
    scope: Scope, path: Path, state: CallState, where: Any, name: str, found: ToolGuardrailFunctionOutput
) -> None:
    message = clean_text(found.message or "")[0] if found.behavior == "reject_content" else None
    tripped = found.behavior == "raise_exception"
    record(scope, path, f.Guarded(where, name, tripped, call=state.call.id, message=message, path=path), found)


def record(scope: Scope, path: Path, fact: f.Guarded, found: Any) -> None:
    """Record a guardrail's result as JSON, and keep its `output_info` as an object in this process."""
    info = found.output_info
    output = output_json(info)[0] if info is not None else f.NOTHING
    scope.outputs[path, f"guard {len(scope.run_at(path).guarded)}"] = info
    scope.journal.add(replace(fact, output=output, at=scope.journal.now()))
    if fact.tripped:
        scope.tasks.tripped.add(path)


def is_live(fact: f.Guarded) -> bool:
    """Return True if the guardrail stopped a reply of a live session, which goes on, and not the run."""
    return fact.where == "output" and fact.message is not None


async def guard_reply(
    scope: Scope, placed: PlacedAgent, guardrail: OutputGuardrail, name: str, text: str, message: str
) -> OutputGuardrailResult | None:
    """Let an output guardrail look at a live reply; if it trips, record so and return its result.

    `message` is what the model is told then.
    """
    found = await guardrail.look(GuardrailFunctionOutput, scope.ctx, placed.agent, text)
    if not found.tripwire_triggered:
        return None
    run, info = scope.journal.run, found.output_info
    place = run.agent if run.began is not None and run.began.agent != run.agent else None
    output = output_json(info)[0] if info is not None else f.NOTHING
    scope.outputs[(), f"guard {len(run.guarded)}"] = info
    scope.outputs[(), f"guarded {len(run.guarded)}"] = text
    scope.journal.add(f.Guarded("output", name, True, output, message=message, agent=place, at=scope.journal.now()))
    return OutputGuardrailResult(guardrail, placed.agent, text, found)


TRIPWIRES = {
    "input": InputGuardrailTripwireTriggered,
    "output": OutputGuardrailTripwireTriggered,
    "tool_input": ToolInputGuardrailTripwireTriggered,
    "tool_output": ToolOutputGuardrailTripwireTriggered,
}


def tripwire(scope: Scope, path: Path) -> TripwireTriggered | None:
    """Return the recorded tripwire of a run or branch that is not closed yet; None if there is none.

    Such a run is left when the process ends between the tripwire and the closing.
    """
    run = scope.run_at(path)
    first = past_of(run.guarded)  # a snapshot is not taken after a tripwire
    for number, fact in enumerate(run.guarded[first:], first):
        if not fact.tripped or is_live(fact):
            continue
        if not any(scope.run_at(path[:depth]).closed for depth in range(len(path) + 1)):
            words = f"The guardrail {fact.name!r} stopped the run for good."
            return TRIPWIRES[fact.where](words, result_of(scope, path, run, number, fact))
    return None
