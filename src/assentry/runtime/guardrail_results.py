"""The guardrails of a run, and their recorded results. Running guardrails belongs in `steps.guardrail`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..core import facts as f
from ..core.facts import decode
from ..core.run import Run
from ..definitions.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailResult,
    guardrails_by_name,
)
from .agent_graph import PlacedAgent
from .config import RunConfig
from .scope import Scope

Path = tuple[str, ...]

PLACES = ("input", "output", "tool_input", "tool_output")
"""The kinds of guardrail."""


def input_guardrails(placed: PlacedAgent, config: RunConfig, path: Path) -> dict[str, InputGuardrail]:
    """Return the input guardrails of a run or branch, by name; those of the config are for the run only."""
    return guardrails_by_name([*placed.agent.input_guardrails, *(() if path else config.input_guardrails)])


def output_guardrails(placed: PlacedAgent, config: RunConfig, path: Path) -> dict[str, OutputGuardrail]:
    """Return the output guardrails of a run or branch, by name; those of the config are for the run only."""
    return guardrails_by_name([*placed.agent.output_guardrails, *(() if path else config.output_guardrails)])


def results(scope: Scope, path: Path, where: str, released: bool = False) -> list[Any]:
    """Return the results of the guardrails of one kind in a run, in order; guardrails that are gone are left out."""
    run = scope.run_at(path)
    numbered = [(n, fact) for n, fact in enumerate(run.guarded) if fact.where == where]
    found = (result_of(scope, path, run, n, fact) for n, fact in numbered)
    kept = [each for each in found if each is not None]
    return [replace(each, agent=each.agent.name) for each in kept] if released and where == "output" else kept


def result_of(scope: Scope, path: Path, run: Run, number: int, fact: f.Guarded) -> Any:
    """Return the result of one guardrail; None if the guardrail is gone."""
    key = path, f"guard {number}"
    info = scope.outputs[key] if key in scope.outputs else decode(fact.output) if fact.output else None
    if fact.call is None:
        output = GuardrailFunctionOutput(info, fact.tripped)
        if fact.where == "input":
            placed = scope.graph.agent_at(run.began.agent if run.began is not None else run.agent)
            looked = input_guardrails(placed, scope.config, path).get(fact.name)
            return InputGuardrailResult(looked, output) if looked is not None else None
        place = fact.agent or (run.began.agent if run.began is not None else run.agent)
        placed = scope.graph.agent_at(place)
        guard = output_guardrails(placed, scope.config, path).get(fact.name)
        key = path, f"guarded {number}"
        seen = scope.outputs[key] if key in scope.outputs else scope.view(path).output()
        return OutputGuardrailResult(guard, placed.agent, seen, output) if guard else None
    state = run.calls[fact.call]
    behavior: Any = "raise_exception" if fact.tripped else "allow" if fact.message is None else "reject_content"
    given = scope.view(path).class_of(ToolGuardrailFunctionOutput)(info, behavior, fact.message)
    tools = scope.graph.of(state).tools
    for tool in (tools.get(state.tool), tools.get(state.call.tool)):  # a person may have chosen another tool
        if tool is not None and fact.where == "tool_input":
            before: ToolInputGuardrail | None = guardrails_by_name(tool.tool_input_guardrails).get(fact.name)
            if before is not None:
                return ToolInputGuardrailResult(before, given)
        elif tool is not None:
            after: ToolOutputGuardrail | None = guardrails_by_name(tool.tool_output_guardrails).get(fact.name)
            if after is not None:
                return ToolOutputGuardrailResult(after, given)
    return None
