"""Running of guardrails, and reading of their results. Each result is recorded before it takes effect.

A guardrail that raises stops the run with its exception, before the input, output or call that it guards is used.
Defining guardrails belongs in `assent.guardrail`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..core import facts as f
from ..core.digest import described
from ..core.digest import text as clean_text
from ..core.facts import decode
from ..core.run import CallState, Run
from ..errors import (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    TripwireTriggered,
    UsageError,
)
from ..guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    ToolOutputGuardrailResult,
    named,
)
from ..tools.tool import Tool
from .agent_graph import Seat
from .tool_context import Looking, context_of
from .value import output_json
from .view import all_said, said_value

if TYPE_CHECKING:
    from .config import RunConfig
    from .driver import Driver

Path = tuple[str, ...]


def input_guardrails(seat: Seat, config: RunConfig, path: Path) -> dict[str, InputGuardrail]:
    """Return the input guardrails of a run or branch, by name; those of the config are for the run only."""
    return named([*seat.agent.input_guardrails, *(() if path else config.input_guardrails)])


def output_guardrails(seat: Seat, config: RunConfig, path: Path) -> dict[str, OutputGuardrail]:
    """Return the output guardrails of a run or branch, by name; those of the config are for the run only."""
    return named([*seat.agent.output_guardrails, *(() if path else config.output_guardrails)])


async def guard_input(driver: Driver, effect: f.Guard) -> None:
    """Run one input guardrail on the input that it has not checked yet."""
    run = driver.run_at(effect.path)
    seat = driver.graph.seat(run.began.agent if run.began is not None else run.agent)
    guardrail = input_guardrails(seat, driver.config, effect.path).get(effect.name)
    if guardrail is None:
        raise UsageError(
            f"This run awaits its input guardrail {effect.name!r}, which neither agent {seat.agent.name!r} nor the "
            "RunConfig has; give it again."
        )
    fresh = [said for said in all_said(run)[run.watched :] if said.by != "session"]
    found = await _look(guardrail, GuardrailFunctionOutput, driver.ctx, seat.agent, said_value(fresh))
    record(driver, effect.path, f.Guarded("input", effect.name, found.tripwire_triggered, path=effect.path), found)
    if found.tripwire_triggered:
        result = InputGuardrailResult(guardrail, found)
        raise InputGuardrailTripwireTriggered(f"The input guardrail {effect.name!r} stopped the run for good.", result)


async def guard_output(driver: Driver, path: Path, seat: Seat, output: Any) -> None:
    """Run the output guardrails on a final output, one after another."""
    for name, guardrail in output_guardrails(seat, driver.config, path).items():
        found = await _look(guardrail, GuardrailFunctionOutput, driver.ctx, seat.agent, output)
        run = driver.run_at(path)
        place = run.agent if run.began is not None and run.began.agent != run.agent else None
        driver.outputs[path, f"guarded {len(run.guarded)}"] = output
        record(driver, path, f.Guarded("output", name, found.tripwire_triggered, agent=place, path=path), found)
        if found.tripwire_triggered:
            result = OutputGuardrailResult(guardrail, seat.agent, output, found)
            raise OutputGuardrailTripwireTriggered(f"The output guardrail {name!r} stopped the run for good.", result)


async def guard_call(
    driver: Driver, path: Path, state: CallState, tool: Tool, args: dict[str, Any]
) -> f.Refused | None:
    """Run a tool's input guardrails on the arguments and return the first refusal; None if none refuses."""
    _, ctx = context_of(driver, path, state, tool, args, Looking)
    for name, guardrail in named(tool.tool_input_guardrails).items():
        data = ToolInputGuardrailData(ctx, ctx.agent)
        found = await _look(guardrail, ToolGuardrailFunctionOutput, data)
        _record_tool(driver, path, state, "tool_input", name, found)
        if found.behavior == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(
                f"The guardrail {name!r} of tool {tool.name!r} stopped the run for good; the tool did not run.",
                ToolInputGuardrailResult(guardrail, found),
            )
        if found.behavior == "reject_content":
            words = clean_text(found.message or "")[0]
            return f.Refused(state.call.id, f"guardrail:{name}", message=words, at=driver.journal.now(), path=path)
    return None


async def guard_result(
    driver: Driver, path: Path, state: CallState, tool: Tool, args: dict[str, Any], value: Any
) -> tuple[Any, str]:
    """Run a tool's output guardrails and return the value, or the text in its place, and its author.

    After a guardrail has held the value back, no other guardrail gets it.
    """
    _, ctx = context_of(driver, path, state, tool, args, Looking)
    for name, guardrail in named(tool.tool_output_guardrails).items():
        data = ToolOutputGuardrailData(ctx, ctx.agent, value)
        found = await _look(guardrail, ToolGuardrailFunctionOutput, data)
        _record_tool(driver, path, state, "tool_output", name, found)
        if found.behavior == "raise_exception":
            raise ToolOutputGuardrailTripwireTriggered(
                f"The guardrail {name!r} of tool {tool.name!r} stopped the run for good; the tool had run.",
                ToolOutputGuardrailResult(guardrail, found),
            )
        if found.behavior == "reject_content":
            return found.message, f"guardrail:{name}"
    return value, "tool"


async def _look(guardrail: Any, kind: type[Any], *args: Any) -> Any:
    found = guardrail.guardrail_function(*args)
    found = await found if inspect.isawaitable(found) else found
    if not isinstance(found, kind):
        raise UsageError(
            f"The guardrail {guardrail.get_name()!r} must return a {kind.__name__}, and gave {described(found)}."
        )
    return found


def _record_tool(
    driver: Driver, path: Path, state: CallState, where: Any, name: str, found: ToolGuardrailFunctionOutput
) -> None:
    message = clean_text(found.message or "")[0] if found.behavior == "reject_content" else None
    tripped = found.behavior == "raise_exception"
    record(driver, path, f.Guarded(where, name, tripped, call=state.call.id, message=message, path=path), found)


def record(driver: Driver, path: Path, fact: f.Guarded, found: Any) -> None:
    """Record a guardrail's result as JSON, and keep its `output_info` as an object in this process."""
    info = found.output_info
    output = output_json(info)[0] if info is not None else f.NOTHING
    driver.outputs[path, f"guard {len(driver.run_at(path).guarded)}"] = info
    driver.journal.add(replace(fact, output=output, at=driver.journal.now()))
    if fact.tripped:
        driver.tripped.add(path)


TRIPWIRES = {
    "input": InputGuardrailTripwireTriggered,
    "output": OutputGuardrailTripwireTriggered,
    "tool_input": ToolInputGuardrailTripwireTriggered,
    "tool_output": ToolOutputGuardrailTripwireTriggered,
}


def tripwire(driver: Driver, path: Path) -> TripwireTriggered | None:
    """Return the recorded tripwire of a run or branch that is not closed yet; None if there is none.

    Such a run is left when the process ends between the tripwire and the closing.
    """
    run = driver.run_at(path)
    for number, fact in enumerate(run.guarded):
        if fact.tripped and not any(driver.run_at(path[:depth]).closed for depth in range(len(path) + 1)):
            words = f"The guardrail {fact.name!r} stopped the run for good."
            return TRIPWIRES[fact.where](words, _result(driver, path, run, number, fact))
    return None


# -- reading the results back ------------------------------------------------------------------------


PLACES = ("input", "output", "tool_input", "tool_output")
"""The kinds of guardrail."""


def results(driver: Driver, path: Path, where: str, released: bool = False) -> list[Any]:
    """Return the results of the guardrails of one kind in a run, in order; guardrails that are gone are left out."""
    run = driver.run_at(path)
    numbered = [(n, fact) for n, fact in enumerate(run.guarded) if fact.where == where]
    found = (_result(driver, path, run, n, fact) for n, fact in numbered)
    kept = [each for each in found if each is not None]
    return [replace(each, agent=each.agent.name) for each in kept] if released and where == "output" else kept


def _result(driver: Driver, path: Path, run: Run, number: int, fact: f.Guarded) -> Any:
    key = path, f"guard {number}"
    info = driver.outputs[key] if key in driver.outputs else decode(fact.output) if fact.output else None
    if fact.call is None:
        output = GuardrailFunctionOutput(info, fact.tripped)
        if fact.where == "input":
            seat = driver.graph.seat(run.began.agent if run.began is not None else run.agent)
            looked = input_guardrails(seat, driver.config, path).get(fact.name)
            return InputGuardrailResult(looked, output) if looked is not None else None
        place = fact.agent or (run.began.agent if run.began is not None else run.agent)
        seat = driver.graph.seat(place)
        guard = output_guardrails(seat, driver.config, path).get(fact.name)
        key = path, f"guarded {number}"
        seen = driver.outputs[key] if key in driver.outputs else driver.view(path).output()
        return OutputGuardrailResult(guard, seat.agent, seen, output) if guard else None
    state = run.calls[fact.call]
    behavior: Any = "raise_exception" if fact.tripped else "allow" if fact.message is None else "reject_content"
    given = ToolGuardrailFunctionOutput(info, behavior, fact.message)
    tools = driver.graph.of(state).tools
    for tool in (tools.get(state.tool), tools.get(state.call.tool)):  # a person may have chosen another tool
        if tool is not None and fact.where == "tool_input":
            before: ToolInputGuardrail | None = named(tool.tool_input_guardrails).get(fact.name)
            if before is not None:
                return ToolInputGuardrailResult(before, given)
        elif tool is not None:
            after: ToolOutputGuardrail | None = named(tool.tool_output_guardrails).get(fact.name)
            if after is not None:
                return ToolOutputGuardrailResult(after, given)
    return None
