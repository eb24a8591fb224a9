"""The end of a run or branch: decide if a turn ends it, make the final output, and have the output checked.

Running the guardrails and judging the approval are not done here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from ...approval.question import effective
from ...core import facts as f
from ...core.digest import canonical
from ...core.facts import decode
from ...core.run import Run, Turn
from ...core.transcript import reply_refusal, reply_text, value_text
from ...core.wording import described, shortened
from ...definitions.agent import ToolsToFinalOutputResult, schema_of
from ...definitions.item import ToolCallOutputItem
from ...errors import InvalidArguments, InvalidOutput, ModelRefused, UsageError
from ..agent_graph import PlacedAgent
from ..scope import Scope
from ..value import output_json
from ..view import FINAL
from .door import check_digest
from .error_handler import handle_error, has_error_handler
from .guardrail import guard_output
from .model_call import check_nothing_is_asked

Path = tuple[str, ...]


async def conclude(scope: Scope, effect: f.Conclude) -> None:
    """Conclude the run with the last turn or with an approved output, or record that it continues."""
    path = effect.path
    run = scope.run_at(path)
    placed = scope.graph.agent_at(run.agent)
    if effect.call is not None:
        await _conclude_approved(scope, path, run, placed, effect.call)
        return
    check_nothing_is_asked(run)
    turn = run.entries[-1]
    if type(turn) is Turn and not turn.calls and not _must_be_looked_at(scope, path, placed):
        scope.journal.add(f.Concluded(at=scope.journal.now(), path=path))
        return
    end = f.Concluded(path=path)
    if type(turn) is Turn and not turn.calls:
        try:
            output = _parse_reply(placed, turn, _raises_refusals(scope, path, placed))
        except (ModelRefused, InvalidOutput) as error:
            if path:
                raise
            kind: f.HandledError = "model_refusal" if isinstance(error, ModelRefused) else "invalid_final_output"
            await handle_error(scope, kind, error)
            return
    else:
        found = await _by_tools(scope, path, run, placed)
        if found is None:
            scope.journal.add(f.Continued(path=path))
            return
        end, output = _fit_output(placed, *found)
    await guard_output(scope, path, placed, output)
    if placed.final is None:
        await _end(scope, path, placed, end, output)
        return
    args = Raw(canonical({"output": _output_to_show(placed, output)}))
    call = f.Call(f"c{len(run.calls) + 1}", placed.final.name, 0, "output", placed.final.fingerprint)
    scope.journal.add(f.Proposed(call, args, at=scope.journal.now(), path=path))


def _raises_refusals(scope: Scope, path: Path, placed: PlacedAgent) -> bool:
    """Return True if a refusal is an error also where the output is text."""
    return placed.agent.raises_refusals or (not path and has_error_handler(scope, "model_refusal"))


def _must_be_looked_at(scope: Scope, path: Path, placed: PlacedAgent) -> bool:
    """Return True if guardrails, hooks, an approval or an output type must see the output before the run ends."""
    agent, config = placed.agent, scope.config
    guarded = bool(agent.output_guardrails) or (not path and bool(config.output_guardrails))
    return (
        guarded
        or config.error_handlers is not None
        or agent.raises_refusals
        or scope.hooks.wants(agent)
        or agent.output_needs_approval is not False
        or schema_of(agent) is not None
    )


async def _conclude_approved(scope: Scope, path: Path, run: Run, placed: PlacedAgent, call: str) -> None:
    """Conclude with an approved output; an edited output passes the output guardrails first."""
    state = run.calls[call]
    tool = scope.tool_for(state)
    if tool is None:
        raise UsageError("A final output was approved that was never proposed.")
    args = effective(state)
    try:
        output = tool.bind(args)
    except InvalidArguments as error:  # a person edited it with only the type's schema at hand
        why = f"the output does not fit: {error}"
        scope.journal.add(f.Refused(call, "runtime", why=why, at=scope.journal.now(), path=path))
        return
    check_digest(scope, path, state, tool, args, args)
    if state.edited:
        await guard_output(scope, path, placed, output)
    await _end(scope, path, placed, f.Concluded(call=call, path=path), output)


async def _end(scope: Scope, path: Path, placed: PlacedAgent, end: f.Concluded, output: Any) -> None:
    if scope.hooks.wants(placed.agent):
        await scope.hooks.tell_of_agent(path, "agent_end", placed.agent, output)
    scope.journal.add(f.Concluded(end.output, end.source, end.call, at=scope.journal.now(), path=path))


def _parse_reply(placed: PlacedAgent, turn: Turn, refusals: bool) -> Any:
    """Return the reply as the agent's output type; raise `InvalidOutput` if it does not fit.

    With `refusals`, a refusal is an error also if the output is text.
    """
    reply, shape = turn.reply, schema_of(placed.agent)
    if type(reply) is not f.Replied:
        raise UsageError("There is no reply to conclude from.")
    refusal = reply_refusal(reply) if shape is not None or refusals else None
    if refusal is not None:
        raise ModelRefused(
            f"The model refused to {f'give {shape.name}' if shape is not None else 'answer'}: "
            f"{shortened(refusal.rstrip('.'), 200)}. Resume error.state after state.add_input(...) to go on.",
            refusal=refusal,
        )
    return reply_text(reply) if shape is None else shape.parse(reply_text(reply))


def _fit_output(placed: PlacedAgent, end: f.Concluded, output: Any) -> tuple[f.Concluded, Any]:
    """Return the tools' output as the agent's output type, if it has one; raise `InvalidOutput` if it does not fit."""
    shape = schema_of(placed.agent)
    if shape is None:
        return end, output
    try:
        data = shape.dump(output)
    except InvalidOutput as error:
        raise InvalidOutput(
            f"What the tools gave cannot be the output. {error}; resume error.state after state.add_input(...) "
            "to let the model go on."
        ) from None
    return f.Concluded(data, path=end.path), shape.load(data)


def _output_to_show(placed: PlacedAgent, output: Any) -> Any:
    """Return an output as a person is shown it; as text if the agent has no output type."""
    shape = schema_of(placed.agent)
    if shape is None:
        return output if type(output) is str else value_text(output_json(output)[0])
    return decode(shape.dump(output))


async def _by_tools(scope: Scope, path: Path, run: Run, placed: PlacedAgent) -> tuple[f.Concluded, Any] | None:
    """Return the end of the run that the turn's outputs lead to; None if the model gets them first."""
    turn = next(entry for entry in reversed(run.entries) if type(entry) is Turn)
    if turn.handed:
        return None
    view, agent = scope.view(path), placed.agent
    made = [(state.call.id, view.output_of(state)) for state in turn.calls]
    outputs = {id: item for id, item in made if isinstance(item, ToolCallOutputItem) and agent.ends_with(item)}
    use = agent.tool_use_behavior
    if not outputs or not agent.may_end_after([state.tool for state in turn.calls]):
        return None
    if callable(use):
        said: Any = use(scope.ctx, agent.results_for_behavior(list(outputs.values())))
        said = await said if inspect.isawaitable(said) else said
        if not isinstance(said, ToolsToFinalOutputResult) or type(said.is_final_output) is not bool:
            raise UsageError(f"tool_use_behavior must return a ToolsToFinalOutputResult, and gave {described(said)}.")
        if not said.is_final_output:
            return None
        return _conclude_with(scope, path, agent.final_from_tools(said.final_output))
    names = use["stop_at_tool_names"] if isinstance(use, Mapping) else None
    if use == "run_llm_again":
        return None
    for id, item in outputs.items():
        if names is None or item.tool_name in names:
            value = agent.final_from_tools(item.output)
            if value is not item.output or type(run.calls[id].outcome) is not f.Finished:
                return _conclude_with(scope, path, value)
            return f.Concluded(source=id, path=path), value
    return None


def _conclude_with(scope: Scope, path: Path, value: Any) -> tuple[f.Concluded, Any]:
    """Return the end of a run with this output, which is kept as an object in this process."""
    scope.outputs[path, FINAL] = value
    return f.Concluded(output_json(value)[0], path=path), value
